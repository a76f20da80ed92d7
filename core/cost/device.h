#pragma once
/*
 * device - what one accelerator can do, and the built-in catalog.
 *
 * Units: bytes; bytes per second; FLOP per second (dense, no sparsity; 1 multiply-add = 2). Bandwidths of links are per
 * device and direction: vendors quote the sum of both directions, the catalog holds half of it.
 */
#include <stdint.h>

#include "graph/dtype.h"

#define SP_DEVICE_NAME_SIZE 64

struct sp_device {
    char name[SP_DEVICE_NAME_SIZE];
    double memory_bytes;
    double memory_bandwidth;
    double flops[SP_DTYPE_COUNT]; /* peak per element type; 0 = no figure: see sp_device_flops() */
    double link_bandwidth;        /* scale-up link, one direction; 0 = none, traffic goes over the host link */
    double link_latency;          /* seconds per message */
    double host_bandwidth;        /* host link, one direction */
    double watts;
    const char *source; /* where the figures come from; "" for a described device */
};

/* The catalog, in a fixed order; *ret_count entries. */
const struct sp_device *sp_device_catalog(uint32_t *ret_count);

/* The catalog's device of this name (case-insensitive), or NULL. */
const struct sp_device *sp_device_find(const char *name);

/*
 * Peak for an element type: its own figure, or the nearest type that runs at least as wide (float16 and bfloat16 stand
 * in for each other; 8-bit floats fall back to float16, float16 to float32, float64 to half of float32, integers to
 * int8 or float32). Never 0 for a valid device.
 */
double sp_device_flops(const struct sp_device *device, enum sp_dtype dtype);
