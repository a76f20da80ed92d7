#pragma once
/*
 * device - what one accelerator can do, and the built-in catalog.
 *
 * Units: bytes; bytes per second; FLOP per second (dense, no sparsity; 1 multiply-add = 2). Bandwidths of links are per
 * device and direction: vendors quote the sum of both directions, the catalog holds half of it.
 *
 * TF32 is no element type: models say float32, and whether a runtime may round the factors of a float32 product to TF32
 * is its own setting. So float32 has the plain FP32 figure. Whoever runs with TF32 describes a device of their own with
 * that figure under "float32".
 *
 * Message latencies are not in data sheets. The catalog uses NCCL's published per-step constants (tuning.cc, protocol
 * LL128), rounded: 1.9 us over NVLink, taken as 2e-6 s for every scale-up link; 2.5 us (LL128) to 5.7 us (Simple) over
 * PCI Express, taken as 5e-6 s where traffic goes over the host.
 */
#include <stdint.h>

#include "graph/dtype.h"

#define SP_DEVICE_NAME_SIZE 64

#define SP_LINK_LATENCY 2e-6 /* seconds per message on a scale-up link */
#define SP_HOST_LATENCY 5e-6 /* and over the host, or where nothing is known */

struct sp_device {
    char name[SP_DEVICE_NAME_SIZE];
    double memory_bytes;
    double memory_bandwidth;
    double flops[SP_DTYPE_COUNT]; /* peak per element type; 0 = no figure: see sp_device_flops() */
    double link_bandwidth;        /* scale-up link, one direction; 0 = none, traffic goes over the host link */
    double link_latency;          /* seconds per message, over the link that the traffic takes */
    double host_bandwidth;        /* host link, one direction; 0 = no figure */
    double watts;                 /* 0 = no figure */
    double permuted_bandwidth;    /* of operators that change the order of elements; 0 = memory_bandwidth */
    double functions_per_second;  /* exponentials, error functions, powers, ...; 0 = never slower than memory */
    double unhidden;              /* share of the shorter times not hidden behind the longest: sp_roofline_seconds() */
    const char *source;           /* where the figures come from; "" for a described device */
};

/* The catalog, in a fixed order; *ret_count entries. */
const struct sp_device *sp_device_catalog(uint32_t *ret_count);

/* The catalog's device of this name (case-insensitive), or NULL. */
const struct sp_device *sp_device_find(const char *name);

/*
 * Peak for an element type: its own figure, or the nearest type that runs at least as wide.
 *
 *   4-bit floats    8-bit floats, then as those
 *   8-bit floats    another 8-bit float, then float16
 *   float16         bfloat16 and the other way round, then float32
 *   float32         half of float16, then float64, then a quarter of the 8-bit figure (an assumption: a device without
 *                   float32 units makes it of several narrower passes)
 *   float64         half of float32
 *   complex         as their parts
 *   integers        up to 8 bits and bool: int8, then float32; wider ones: float32, 64-bit ones half of it
 *
 * Never 0 for a valid device, that is one with a positive figure for any type.
 */
double sp_device_flops(const struct sp_device *device, enum sp_dtype dtype);
