#pragma once
/*
 * device - what one accelerator can do, and the built-in catalog.
 *
 * The catalog is made of api/devices at build time (catalog_table.py); a file there, a described device of a cluster
 * and what is written of a device have the same members (api/schema/device.schema.json). Peaks are what data sheets
 * print; beside them a device says how much of these its kernels reach and what starting one takes, by class of
 * kernel:
 *
 *   products     matrix products and convolutions, by element type
 *   convolutions those with windows, beside the products: dense ones, and those in groups of channels
 *   prefill      fused attention of many positions, causal
 *   decode       fused attention of one position (or few) over a cache
 *   other        elementwise operators and copies: elements as they lie in memory
 *   norm         kernels that go through rows: normalisations, rotations, gates, changes of the order of axes
 *   collectives  by library and operation
 *
 * A figure that is not stated is 0. sp_device_product() and its like answer with the device's own figures or the
 * defaults of its kind (api/devices/rules/kinds.json); a device without a kind has none, and then a cluster's
 * `efficiency` and `launch_seconds` say what kernels reach. `measured` says which parts were measured on the device:
 * others are estimates, even where a file states them.
 *
 * Units: bytes; bytes per second; FLOP per second (dense, no sparsity; 1 multiply-add = 2). Bandwidths of links are per
 * device and direction: vendors quote the sum of both directions, the catalog holds half of it.
 *
 * TF32 is no element type: models say float32, and whether a runtime may round the factors of a float32 product to TF32
 * is its own setting (sp_runtime.rounds_products). So float32 has the plain FP32 figure, and TF32 one of its own. Where
 * it was measured what float32 products reach, their shares are of the plain figure, however they were rounded.
 *
 * Message latencies are not in data sheets. The catalog uses NCCL's published per-step constants (tuning.cc, protocol
 * LL128), rounded: 1.9 us over NVLink, taken as 2e-6 s for every scale-up link; 2.5 us (LL128) to 5.7 us (Simple) over
 * PCI Express, taken as 5e-6 s where traffic goes over the host.
 */
#include <stdbool.h>
#include <stdint.h>

#include "cost/kernels/runtime.h"
#include "graph/dtype.h"

#define SP_DEVICE_NAME_SIZE 64

#define SP_LINK_LATENCY 2e-6 /* seconds per message on a scale-up link */
#define SP_HOST_LATENCY 5e-6 /* and over the host, or where nothing is known */

enum sp_device_kind {
    SP_DEVICE_OF_NO_KIND = 0, /* described without one: no defaults */
    SP_DEVICE_GPU,
    SP_DEVICE_TPU,
    SP_DEVICE_NPU, /* any other accelerator: Gaudi, Trainium, IPU, .. */
    SP_DEVICE_CPU,
    SP_DEVICE_KIND_COUNT
};

/* What may have been measured. */
enum sp_device_figures {
    SP_DEVICE_PRODUCTS,
    SP_DEVICE_ATTENTION,
    SP_DEVICE_OTHER,
    SP_DEVICE_COLLECTIVES,
    SP_DEVICE_FIGURES_COUNT
};

/* start_seconds + max(FLOPs / (peak flops_share), bytes / (memory_bandwidth memory_share)). */
struct sp_device_product {
    double start_seconds, flops_share, memory_share;
};

/*
 * A convolution whose windows have more than one element, as multiples of what products of its type take to start and
 * reach. Grouped ones, whose outputs add up a part of the channels each, are computed by vector units: their share is
 * of the peak of float32. 0: as products.
 */
struct sp_device_convolution {
    double start_ratio, flops_ratio, memory_ratio;
};

/* As a product, with the peak of the queries' type and flops_share / (1 + half_queries / queries) in place of
   flops_share: half of it is reached with so many queries of a sequence. */
struct sp_device_prefill {
    double start_seconds, flops_share, memory_share, half_queries;
};

/*
 * start_seconds + bytes / (memory_bandwidth memory_share): queries, results, and once the keys and values of the cache.
 * A head of keys with fewer than tile_keys positions takes as long as one with so many. Arithmetic takes no time.
 */
struct sp_device_decode {
    double start_seconds, memory_share, tile_keys;
};

/* start_seconds + bytes / (memory_bandwidth memory_share). */
struct sp_device_other {
    double start_seconds, memory_share;
};

/*
 * A runtime's pass that narrows the activations of a product of one-byte elements, where it is a kernel of its own:
 * start_seconds + bytes / (memory_bandwidth memory_share) + rows row_seconds, the bytes two that are read and one that
 * is written of each activation, the rows those that get a scale each.
 */
struct sp_device_narrowing {
    const char *runtime; /* "vllm", .. */
    double start_seconds, memory_share, row_seconds;
};

/* What residuals are of. Narrow products have elements of at most 8 bits. Memory is what a device holds beside weights
   and caches, which are known: activations, buffers, and what the runtime's process takes. */
enum sp_device_class {
    SP_DEVICE_CLASS_PRODUCTS,
    SP_DEVICE_CLASS_NARROW_PRODUCTS,
    SP_DEVICE_CLASS_PREFILL,
    SP_DEVICE_CLASS_DECODE,
    SP_DEVICE_CLASS_OTHER,
    SP_DEVICE_CLASS_NORM,
    SP_DEVICE_CLASS_COLLECTIVES,
    SP_DEVICE_CLASS_EAGER_COLLECTIVES, /* that the host starts one by one: sp_runtime.collective_seconds */
    SP_DEVICE_CLASS_MEMORY,
    SP_DEVICE_CLASS_COUNT
};

/* The 5 and 95 % quantiles of predicted / measured: 9 of 10 measured figures lie from predicted / high to
   predicted / low. low is 0 where none are stated. */
struct sp_device_residual {
    double low, high;
};

#define SP_DEVICE_GROUP_SIZES 3 /* groups of 2, 4 and 8 devices */

/*
 * A collective of n bytes among p devices: start_seconds + rank_seconds (p - 1) + f (n + sqrt(n half_bytes)) /
 * (link link_share[p]), with f = 2 (p - 1) / p for an all-reduce and (p - 1) / p for others. `link` is link_bandwidth,
 * or host_bandwidth where a device has no scale-up link. Shares may pass 1 where the switch adds up. 0: not stated for
 * this size of groups.
 */
struct sp_device_collective {
    double start_seconds, rank_seconds, half_bytes, link_share[SP_DEVICE_GROUP_SIZES];
};

/* The operations that a library's figures are for, as members name them: "all_reduce", .. */
enum sp_device_operation {
    SP_DEVICE_ALL_REDUCE,
    SP_DEVICE_ALL_GATHER,
    SP_DEVICE_REDUCE_SCATTER,
    SP_DEVICE_ALL_TO_ALL,
    SP_DEVICE_OPERATION_COUNT
};

/* A library of collectives, such as "nccl"; an operation without start_seconds has no figures. */
struct sp_device_library {
    const char *name;
    struct sp_device_collective operations[SP_DEVICE_OPERATION_COUNT];
    struct sp_device_residual residual; /* of all of them; low 0: that of the device's class is all there is */
};

/* On a public list; usd 0: none known. */
struct sp_device_price {
    double usd;                  /* of one device and hour */
    const char *provider, *date; /* NULL where not stated; the date of the list, YYYY-MM-DD */
};

/* Where one figure comes from: its path in the device's members ("flops.bfloat16", "products"), and words. */
struct sp_device_source {
    const char *path, *text;
};

struct sp_device {
    char name[SP_DEVICE_NAME_SIZE];
    const char *title, *note; /* for people: the product's full name, what else one should know; may be NULL */
    enum sp_device_kind kind;
    double memory_bytes;          /* the printed size */
    double memory_reported_bytes; /* all that the driver reports, what runtimes take of it included */
    double memory_bandwidth;
    double flops[SP_DTYPE_COUNT]; /* peak per element type; 0 = no figure: see sp_device_flops() */
    double flops_tf32;            /* peak of float32 products whose factors are rounded to TF32 */
    double link_bandwidth;        /* scale-up link, one direction; 0 = none, traffic goes over the host link */
    double link_latency;          /* seconds per message, over the link that the traffic takes */
    double host_bandwidth;        /* host link, one direction; 0 = no figure */
    double watts;                 /* 0 = no figure */
    double permuted_bandwidth;    /* of operators that change the order of elements; 0 = memory_bandwidth */
    double functions_per_second;  /* exponentials, error functions, powers, ...; 0 = never slower than memory */
    double unhidden;              /* share of the shorter times not hidden behind the longest: sp_roofline_seconds() */
    uint32_t units;               /* streaming multiprocessors, compute units, cores */
    uint32_t link_group;          /* devices that scale-up links join: 8 in a server, 72 in a rack, a torus' chips */
    struct sp_device_product products[SP_DTYPE_COUNT]; /* of operands' types; what is not stated falls back */
    struct sp_device_convolution dense, grouped;
    struct sp_device_prefill prefill;
    struct sp_device_decode decode;
    struct sp_device_other other, norm; /* norm not stated: as other */
    uint32_t library_count, narrowing_count, source_count;
    const struct sp_device_library *libraries; /* the device's own collectives */
    const struct sp_device_narrowing *narrowings;
    struct sp_device_residual residuals[SP_DEVICE_CLASS_COUNT];
    struct sp_device_price price;
    bool measured[SP_DEVICE_FIGURES_COUNT];
    enum sp_runtime_id runtime;             /* what runs on it, in a cluster; no figure of the device */
    bool names_runtime;                     /* the user said so; else it is the default */
    const char *source;                     /* where the figures come from, in short; "" for a described device */
    const struct sp_device_source *sources; /* and each of them */
};

/* The catalog, in a fixed order; *ret_count entries. Slices of devices are not among them. */
const struct sp_device *sp_device_catalog(uint32_t *ret_count);

/* Slices of the catalog's devices, NVIDIA's MIG: "a100-sxm4-80gb/3g.40gb"; those of one device behind each other. A
   slice has no link to others, its share of the host's, and the shares and starts of the whole device, not measured. */
const struct sp_device *sp_device_slices(uint32_t *ret_count);

/* The catalog's device or slice of this name (case-insensitive), or NULL. A slice may also be called as NVIDIA does,
   "NVIDIA A100-SXM4-80GB MIG 3g.40gb". */
const struct sp_device *sp_device_find(const char *name);

/* What runs on it, for memory, caches and starts. */
static inline const struct sp_runtime *sp_device_runtime(const struct sp_device *device)
{
    return sp_runtime(device->runtime);
}

/* Bytes of its memory that the runtime's process takes beside a model's tensors. */
static inline double sp_device_context_bytes(const struct sp_device *device)
{
    return device->kind == SP_DEVICE_GPU ? sp_device_runtime(device)->context_bytes : 0;
}

/* The same runtime as far as operators become one kernel. Whose fusions are known are those on GPUs: elsewhere each
   is one of its own unless the user names a runtime. */
static inline const struct sp_runtime *sp_device_joins(const struct sp_device *device)
{
    return sp_runtime(device->names_runtime || device->kind == SP_DEVICE_GPU ? device->runtime : SP_RUNTIME_GENERIC);
}

/* "gpu", ..; NULL for SP_DEVICE_OF_NO_KIND. sp_device_kind_parse() gives SP_DEVICE_OF_NO_KIND for any other text. */
const char *sp_device_kind_name(enum sp_device_kind kind);
enum sp_device_kind sp_device_kind_parse(const char *text);

/* "products", ..; "all_reduce", .. */
const char *sp_device_figures_name(enum sp_device_figures part);
const char *sp_device_operation_name(enum sp_device_operation operation);

/* "products", "narrow_products", "prefill", .. */
const char *sp_device_class_name(enum sp_device_class class);

/*
 * What products of this type reach: for each of the three figures the type's own, else that of the nearest type (of as
 * many bits, then bfloat16, float16, float32, float64, then 8 bits), else the kind's default. memory_share is 0 where
 * there is none at all. The others are the device's own or the kind's default, whole.
 */
struct sp_device_product sp_device_product(const struct sp_device *device, enum sp_dtype dtype);
struct sp_device_convolution sp_device_convolution(const struct sp_device *device, bool is_grouped);
struct sp_device_prefill sp_device_prefill(const struct sp_device *device);
struct sp_device_decode sp_device_decode(const struct sp_device *device);
struct sp_device_other sp_device_other(const struct sp_device *device);
struct sp_device_other sp_device_norm(const struct sp_device *device); /* before the kind's, the device's `other` */

/* How far estimates of a class are off: the device's own residual, else that of its kind, else that of the constants
   that devices without a kind have; never without figures. Who states none of `norm` has that of `other` for it. */
struct sp_device_residual sp_device_residual(const struct sp_device *device, enum sp_device_class class);

/* The class of its collectives, with its runtime. */
static inline enum sp_device_class sp_device_collective_class(const struct sp_device *device)
{
    const bool is_eager = device->kind == SP_DEVICE_GPU && sp_device_runtime(device)->collective_seconds > 0;
    return is_eager ? SP_DEVICE_CLASS_EAGER_COLLECTIVES : SP_DEVICE_CLASS_COLLECTIVES;
}

/*
 * The libraries whose collectives are known: the device's own, else the kind's where the device has a scale-up link;
 * *ret_count may be 0.
 */
const struct sp_device_library *sp_device_libraries(const struct sp_device *device, uint32_t *ret_count);

/* The share of the link that groups of `size` devices reach: that of the next larger size with a figure, else of the
   largest; 0 where the operation has none. */
double sp_device_link_share(const struct sp_device_collective *collective, uint32_t size);

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

/* Whether its runtime rounds float32 products to TF32, and with that the peak of products and convolutions. */
bool sp_device_rounds_products(const struct sp_device *device);
double sp_device_product_flops(const struct sp_device *device, enum sp_dtype dtype);
