#include "cost/cluster/device.h"

#include <strings.h>

#define GB 1e9
#define TF 1e12

#define FIGURES(...)                                                                                                   \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define HALF(flops) [SP_DTYPE_FLOAT16] = (flops), [SP_DTYPE_BFLOAT16] = (flops)
#define FP8(flops)                                                                                                     \
    [SP_DTYPE_FLOAT8E4M3FN] = (flops), [SP_DTYPE_FLOAT8E4M3FNUZ] = (flops), [SP_DTYPE_FLOAT8E5M2] = (flops),           \
    [SP_DTYPE_FLOAT8E5M2FNUZ] = (flops)
#define INT8(flops) [SP_DTYPE_INT8] = (flops), [SP_DTYPE_UINT8] = (flops)

/* Links as quoted, the sum of both directions. */
#define LINK(both_directions) .link_bandwidth = (both_directions) / 2, .link_latency = SP_LINK_LATENCY
#define NO_LINK               .link_bandwidth = 0, .link_latency = SP_HOST_LATENCY
#define HOST(both_directions) .host_bandwidth = (both_directions) / 2

/* Dense figures: data sheets that quote sparse ones are halved. */
static const struct sp_device catalog[] = {
    {"a100-sxm4-80gb", 80 * GB, 2039 * GB, FIGURES([SP_DTYPE_FLOAT] = 19.5 * TF, HALF(312 * TF), INT8(624 * TF)),
     LINK(600 * GB), HOST(64 * GB), .watts = 400, .source = "NVIDIA A100 data sheet; NVLink 3, PCIe 4"},
    {"a100-sxm4-40gb", 40 * GB, 1555 * GB, FIGURES([SP_DTYPE_FLOAT] = 19.5 * TF, HALF(312 * TF), INT8(624 * TF)),
     LINK(600 * GB), HOST(64 * GB), .watts = 400, .source = "NVIDIA A100 data sheet; NVLink 3, PCIe 4"},
    {"h100-sxm-80gb", 80 * GB, 3350 * GB,
     FIGURES([SP_DTYPE_FLOAT] = 67 * TF, HALF(989.5 * TF), FP8(1979 * TF), INT8(1979 * TF)), LINK(900 * GB),
     HOST(128 * GB), .watts = 700, .source = "NVIDIA H100 data sheet, sparse figures halved; NVLink 4, PCIe 5"},
    {"h200-sxm-141gb", 141 * GB, 4800 * GB,
     FIGURES([SP_DTYPE_FLOAT] = 67 * TF, HALF(989.5 * TF), FP8(1979 * TF), INT8(1979 * TF)), LINK(900 * GB),
     HOST(128 * GB), .watts = 700, .source = "NVIDIA H200 data sheet, sparse figures halved; NVLink 4, PCIe 5"},
    {"b200-180gb", 180 * GB, 8000 * GB,
     FIGURES([SP_DTYPE_FLOAT] = 80 * TF, HALF(2250 * TF), FP8(4500 * TF), INT8(4500 * TF)), LINK(1800 * GB),
     HOST(128 * GB), .watts = 1000,
     .source = "HGX B200 at 1000 W (docs.vultr.com, glennklockwood.com/garden/processors/B200); NVLink 5, PCIe 5"},
    {"mi300x-192gb", 192 * GB, 5300 * GB,
     FIGURES([SP_DTYPE_FLOAT] = 163.4 * TF, HALF(1307.4 * TF), FP8(2614.9 * TF), INT8(2614.9 * TF)), LINK(896 * GB),
     HOST(128 * GB), .watts = 750, .source = "AMD Instinct MI300X data sheet; Infinity Fabric 7 x 128 GB/s, PCIe 5"},
    {"tpu-v5e", 16 * GB, 819 * GB, FIGURES([SP_DTYPE_BFLOAT16] = 197 * TF, INT8(393 * TF)), LINK(400 * GB),
     .source = "docs.cloud.google.com/tpu/docs/v5e; ICI, 2-D torus"},
    {"tpu-v5p", 95 * GB, 2765 * GB, FIGURES([SP_DTYPE_BFLOAT16] = 459 * TF, INT8(918 * TF)), LINK(600 * GB),
     .source = "docs.cloud.google.com/tpu/docs/v5p, int8 taken as twice bfloat16; ICI 4800 Gb/s, 3-D torus"},
    {"ipu-mk2-gc200", 0.9 * GB, 47500 * GB, FIGURES([SP_DTYPE_FLOAT] = 62.5 * TF, [SP_DTYPE_FLOAT16] = 250 * TF),
     LINK(320 * GB), .watts = 150,
     .source =
         "convergedigest.com 2020-07, cambrian-ai.com; memory is the on-chip SRAM; 10 IPU-Links and the watts are "
         "unconfirmed"},
    {"l4-24gb", 24 * GB, 300 * GB,
     FIGURES([SP_DTYPE_FLOAT] = 30.3 * TF, HALF(121 * TF), FP8(242.5 * TF), INT8(242.5 * TF)), NO_LINK, HOST(64 * GB),
     .watts = 72, .source = "NVIDIA L4 data sheet, sparse figures halved; PCIe 4, no scale-up link"},
    {"t4-16gb", 16 * GB, 320 * GB, FIGURES([SP_DTYPE_FLOAT] = 8.1 * TF, [SP_DTYPE_FLOAT16] = 65 * TF, INT8(130 * TF)),
     NO_LINK, HOST(32 * GB), .watts = 70, .source = "NVIDIA T4 data sheet; PCIe 3, no scale-up link"},
    {"gaudi3-128gb", 128 * GB, 3670 * GB, FIGURES(HALF(1835 * TF), FP8(1835 * TF)), LINK(1200 * GB), HOST(128 * GB),
     .watts = 900, .source = "Intel Gaudi 3, Hot Chips 2024; 24 x 200 Gb Ethernet, PCIe 5"},
    {"v100-sxm2-32gb", 32 * GB, 900 * GB, FIGURES([SP_DTYPE_FLOAT] = 15.7 * TF, [SP_DTYPE_FLOAT16] = 125 * TF),
     LINK(300 * GB), HOST(32 * GB), .watts = 300, .source = "NVIDIA V100 data sheet; NVLink 2, PCIe 3"},
    {"v100-sxm2-16gb", 16 * GB, 900 * GB, FIGURES([SP_DTYPE_FLOAT] = 15.7 * TF, [SP_DTYPE_FLOAT16] = 125 * TF),
     LINK(300 * GB), HOST(32 * GB), .watts = 300, .source = "NVIDIA V100 data sheet; NVLink 2, PCIe 3"},
    {"cpu-core", 8 * GB, 52 * GB, FIGURES([SP_DTYPE_FLOAT] = 0.31 * TF), NO_LINK, HOST(8 * GB),
     .permuted_bandwidth = 39 * GB, .functions_per_second = 5e9, .unhidden = 1,
     .source = "one core of an AMD EPYC 9005 at 4.8 GHz: two AVX-512 multiply-adds a cycle; the bandwidths (of tensors "
               "larger than its own cache), the functions and the link (a pipe between processes) so that ONNX Runtime "
               "1.30 reaches 70 % of them (tests/bench/stages.mjs)"},
};

const struct sp_device *sp_device_catalog(uint32_t *ret_count)
{
    *ret_count = sizeof catalog / sizeof catalog[0];
    return catalog;
}

const struct sp_device *sp_device_find(const char *name)
{
    for (size_t i = 0; i < sizeof catalog / sizeof catalog[0]; i++) {
        if (strcasecmp(catalog[i].name, name) == 0)
            return &catalog[i];
    }
    return NULL;
}

/* The first positive figure of a list of types. */
static double first_figure(const struct sp_device *device, const enum sp_dtype *types, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (device->flops[types[i]] > 0)
            return device->flops[types[i]];
    }
    return 0;
}

static double half_figure(const struct sp_device *device)
{
    static const enum sp_dtype types[] = {SP_DTYPE_FLOAT16, SP_DTYPE_BFLOAT16};
    return first_figure(device, types, 2);
}

static double float8_figure(const struct sp_device *device)
{
    static const enum sp_dtype types[] = {SP_DTYPE_FLOAT8E4M3FN, SP_DTYPE_FLOAT8E5M2, SP_DTYPE_FLOAT8E4M3FNUZ,
                                          SP_DTYPE_FLOAT8E5M2FNUZ, SP_DTYPE_FLOAT8E8M0};
    return first_figure(device, types, sizeof types / sizeof types[0]);
}

static double int8_figure(const struct sp_device *device)
{
    static const enum sp_dtype types[] = {SP_DTYPE_INT8, SP_DTYPE_UINT8};
    return first_figure(device, types, 2);
}

/* Where every list of fallbacks ends: positive as soon as any type has a figure. */
static double float32_figure(const struct sp_device *device)
{
    double narrow = float8_figure(device) > 0 ? float8_figure(device) : int8_figure(device);
    if (device->flops[SP_DTYPE_FLOAT] > 0)
        return device->flops[SP_DTYPE_FLOAT];
    if (half_figure(device) > 0)
        return half_figure(device) / 2;
    if (device->flops[SP_DTYPE_DOUBLE] > 0)
        return device->flops[SP_DTYPE_DOUBLE];
    if (narrow > 0)
        return narrow / 4;
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        if (device->flops[dtype] > 0)
            return device->flops[dtype];
    }
    return 0;
}

static double float64_figure(const struct sp_device *device)
{
    return device->flops[SP_DTYPE_DOUBLE] > 0 ? device->flops[SP_DTYPE_DOUBLE] : float32_figure(device) / 2;
}

static double or_float32(const struct sp_device *device, double figure)
{
    return figure > 0 ? figure : float32_figure(device);
}

double sp_device_flops(const struct sp_device *device, enum sp_dtype dtype)
{
    double half = or_float32(device, half_figure(device));

    if ((unsigned)dtype < SP_DTYPE_COUNT && device->flops[dtype] > 0)
        return device->flops[dtype];
    switch (dtype) {
    case SP_DTYPE_FLOAT16:
    case SP_DTYPE_BFLOAT16:
        return half;
    case SP_DTYPE_FLOAT8E4M3FN:
    case SP_DTYPE_FLOAT8E4M3FNUZ:
    case SP_DTYPE_FLOAT8E5M2:
    case SP_DTYPE_FLOAT8E5M2FNUZ:
    case SP_DTYPE_FLOAT8E8M0:
    case SP_DTYPE_FLOAT4E2M1:
    case SP_DTYPE_FLOAT6E2M3:
    case SP_DTYPE_FLOAT6E3M2:
        return float8_figure(device) > 0 ? float8_figure(device) : half;
    case SP_DTYPE_DOUBLE:
    case SP_DTYPE_COMPLEX128:
        return float64_figure(device);
    case SP_DTYPE_INT64:
    case SP_DTYPE_UINT64:
        return float32_figure(device) / 2;
    case SP_DTYPE_INT8:
    case SP_DTYPE_UINT8:
    case SP_DTYPE_INT4:
    case SP_DTYPE_UINT4:
    case SP_DTYPE_INT2:
    case SP_DTYPE_UINT2:
    case SP_DTYPE_BOOL:
        return or_float32(device, int8_figure(device));
    default:
        return float32_figure(device);
    }
}
