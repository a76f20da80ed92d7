#include <criterion/criterion.h>
#include <math.h>

#include "cost/cluster/device.h"

#define GB 1e9
#define TF 1e12

/*
 * Vendors' figures as quoted, typed from their data sheets and not from api/devices: links are the sum of both
 * directions. 0: none given there, or none in the catalog.
 */
struct quoted {
    const char *name;
    double memory, bandwidth, float32, bfloat16_or_float16, float8, int8, link, host;
};

static const struct quoted quoted[] = {
    {"a100-sxm4-80gb", 80, 2039, 19.5, 312, 0, 624, 600, 64},
    {"a100-sxm4-40gb", 40, 1555, 19.5, 312, 0, 624, 600, 64},
    {"a100-pcie-80gb", 80, 1935, 19.5, 312, 0, 624, 0, 64},
    {"a100-pcie-40gb", 40, 1555, 19.5, 312, 0, 624, 0, 64},
    {"a10-24gb", 24, 600, 31.2, 125, 0, 0, 0, 64},
    {"a30-24gb", 24, 933, 10.3, 165, 0, 330, 0, 64},
    {"a40-48gb", 48, 696, 37.4, 149.7, 0, 299.3, 0, 64},
    {"h100-sxm-80gb", 80, 3350, 67, 989.5, 1979, 1979, 900, 128},
    {"h100-nvl-94gb", 94, 3900, 60, 835.5, 1670.5, 1670.5, 0, 128},
    {"h100-pcie-80gb", 80, 2000, 51, 756.5, 1513, 1513, 0, 128},
    {"h200-sxm-141gb", 141, 4800, 67, 989.5, 1979, 1979, 900, 128},
    {"h20-96gb", 96, 4000, 44, 148, 296, 296, 900, 128},
    {"b200-180gb", 180, 7700, 75, 2250, 4500, 4500, 1800, 128}, /* of HGX; 8000 and 80 are GB200's */
    {"gb200-186gb", 186, 8000, 80, 2500, 5000, 5000, 1800, 128},
    {"l4-24gb", 24, 300, 30.3, 121, 242.5, 242.5, 0, 64},
    {"l40-48gb", 48, 864, 90.5, 181.05, 362, 362, 0, 64},
    {"l40s-48gb", 48, 864, 91.6, 362.05, 733, 733, 0, 64},
    {"gh200-96gb", 96, 4000, 67, 989, 1979, 1979, 0, 0},
    {"gh200-141gb", 141, 4800, 67, 989, 1979, 1979, 0, 0}, /* 144 GB of HBM3e, of which 141 can be used */
    {"h200-nvl-141gb", 141, 4800, 60, 835.5, 1670.5, 1670.5, 0, 128},
    {"b300-270gb", 270, 7700, 75, 2250, 4500, 153.5, 1800, 256}, /* int8: 307 sparse, no typo */
    {"gb300-279gb", 279, 8000, 80, 2500, 5000, 165, 1800, 256},
    {"rtx-3090-24gb", 24, 936.2, 35.58, 71.2, 0, 0, 0, 64},
    {"t4-16gb", 16, 320, 8.1, 65, 0, 130, 0, 32},
    {"v100-sxm2-32gb", 32, 900, 15.7, 125, 0, 0, 300, 32},
    {"v100-sxm2-16gb", 16, 900, 15.7, 125, 0, 0, 300, 32},
    {"rtx-4090-24gb", 24, 1008, 82.58, 165.2, 330.3, 660.6, 0, 64},
    {"rtx-5090-32gb", 32, 1792, 104.8, 209.5, 419, 838, 0, 128},
    {"mi300x-192gb", 192, 5300, 163.4, 1307.4, 2614.9, 2614.9, 896, 128},
    {"mi325x-256gb", 256, 6000, 163.4, 1307.4, 2614.9, 2614.9, 896, 128},
    {"mi355x-288gb", 288, 8000, 157.3, 2516.6, 5033.2, 5033.2, 1075.2, 128},
    {"tpu-v4", 34.359738368, 1200, 0, 275, 0, 275, 540, 0}, /* 32 GiB */
    {"tpu-v5e", 16, 819, 0, 197, 0, 393, 400, 0},
    {"tpu-v5p", 102.00547328, 2765, 0, 459, 459, 918, 1200, 0}, /* 95 GiB; 1200 GB/s is both directions */
    {"tpu-v7", 206.158430208, 7380, 0, 2307, 4614, 0, 1200, 0}, /* 192 GiB */
    {"tpu-v6e", 32, 1638, 0, 918, 918, 1836, 800, 0},
    {"gaudi2-96gb", 96, 2460, 0, 432, 865, 0, 600, 64},
    {"gaudi3-128gb", 128, 3670, 229, 1677, 1677, 0, 1200, 128}, /* at the clock it runs at; float16 is below */
    {"trainium2", 103.079215104, 2900, 181, 667, 1299, 0, 1280, 0},
    {"ipu-mk2-gc200", 0.9, 47500, 62.5, 250, 0, 0, 320, 0},
    {"jetson-agx-orin-64gb", 64, 204.8, 5.3, 0, 0, 85, 0, 0},
    {"apple-m4-max", 128, 546, 18, 18, 0, 0, 0, 0},
    {"cpu-core", 8, 52, 0.31, 0, 0, 0, 0, 8}, /* measured, not quoted: tests/bench/stages.mjs */
};

/* What is in the catalog beside those: parts of a board, smaller models of a series, and devices of which makers print
   less than this table asks for. test_catalog has a source of each of their figures. */
static const char *const others[] = {
    "a10g-24gb",
    "apple-m1",
    "apple-m1-pro",
    "apple-m1-max",
    "apple-m1-ultra",
    "apple-m2",
    "apple-m2-pro",
    "apple-m2-max",
    "apple-m2-ultra",
    "apple-m3",
    "apple-m3-pro",
    "apple-m3-max",
    "apple-m4",
    "apple-m4-pro",
    "cloud-ai-100-pro",
    "cloud-ai-100-standard",
    "cloud-ai-100-ultra",
    "epyc-9654",
    "epyc-9754",
    "graviton4",
    "inferentia2",
    "jetson-agx-orin-32gb",
    "jetson-orin-nano-4gb",
    "jetson-orin-nano-8gb",
    "jetson-orin-nano-super-8gb",
    "jetson-orin-nx-8gb",
    "jetson-orin-nx-16gb",
    "mi250x-128gb",
    "mi250x-gcd-64gb",
    "mi350x-288gb",
    "rtx-pro-6000-server-96gb",
    "rtx-pro-6000-workstation-96gb",
    "tpu-v7-core-96gb",
    "trainium1",
    "xeon-8480plus",
};

static uint32_t times_listed(const char *name)
{
    uint32_t times = 0;
    for (uint32_t i = 0; i < sizeof quoted / sizeof quoted[0]; i++)
        times += strcmp(quoted[i].name, name) == 0;
    for (uint32_t i = 0; i < sizeof others / sizeof others[0]; i++)
        times += strcmp(others[i], name) == 0;
    return times;
}

Test(device, every_entry_is_quoted_or_known_not_to_be)
{
    uint32_t count;
    const struct sp_device *catalog = sp_device_catalog(&count);
    for (uint32_t i = 0; i < count; i++)
        cr_expect_eq(times_listed(catalog[i].name), 1, "%s", catalog[i].name);
    cr_expect_eq(count, sizeof quoted / sizeof quoted[0] + sizeof others / sizeof others[0]);
}

Test(device, catalog_holds_the_quoted_figures)
{
    for (uint32_t i = 0; i < sizeof quoted / sizeof quoted[0]; i++) {
        const struct quoted *expected = &quoted[i];
        const struct sp_device *device = sp_device_find(expected->name);
        cr_assert_not_null(device, "%s", expected->name);
        double half = fmax(device->flops[SP_DTYPE_FLOAT16], device->flops[SP_DTYPE_BFLOAT16]);
        cr_expect_float_eq(device->memory_bytes, expected->memory * GB, 1, "%s", expected->name);
        cr_expect_float_eq(device->memory_bandwidth, expected->bandwidth * GB, 1, "%s", expected->name);
        cr_expect_float_eq(device->flops[SP_DTYPE_FLOAT], expected->float32 * TF, 1, "%s", expected->name);
        cr_expect_float_eq(half, expected->bfloat16_or_float16 * TF, 1, "%s", expected->name);
        cr_expect_float_eq(device->flops[SP_DTYPE_FLOAT8E4M3FN], expected->float8 * TF, 1, "%s", expected->name);
        cr_expect_float_eq(device->flops[SP_DTYPE_INT8], expected->int8 * TF, 1, "%s", expected->name);
        cr_expect_float_eq(device->link_bandwidth, expected->link * GB / 2, 1, "%s", expected->name);
        cr_expect_float_eq(device->host_bandwidth, expected->host * GB / 2, 1, "%s", expected->name);
    }
    cr_expect_float_eq(sp_device_find("gaudi3-128gb")->flops[SP_DTYPE_FLOAT16], 459 * TF, 1);
    cr_expect_eq(sp_device_find("h100-sxm-80gb")->units, 132);
    cr_expect_eq(sp_device_find("gb200-186gb")->link_group, 72);
}

Test(device, every_entry_is_usable)
{
    uint32_t counts[2];
    const struct sp_device *lists[2] = {sp_device_catalog(&counts[0]), sp_device_slices(&counts[1])};
    for (uint32_t list = 0; list < 2; list++) {
        for (uint32_t i = 0; i < counts[list]; i++) {
            const struct sp_device *device = &lists[list][i];
            cr_assert_eq(sp_device_find(device->name), device, "%s", device->name);
            cr_assert_gt(strlen(device->source), 10, "%s", device->name);
            cr_assert_gt(strlen(device->title), 5, "%s", device->name);
            cr_assert_neq(device->kind, SP_DEVICE_OF_NO_KIND, "%s", device->name);
            cr_assert_gt(device->link_latency, 0, "%s", device->name);
            for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
                const struct sp_device_product product = sp_device_product(device, dtype);
                cr_assert_gt(sp_device_flops(device, dtype), 0, "%s %s", device->name, sp_dtype_name(dtype));
                cr_assert(product.start_seconds > 1e-7 && product.start_seconds < 1e-4, "%s", device->name);
                cr_assert(product.flops_share > 0.2 && product.flops_share < 1, "%s", device->name);
                cr_assert(product.memory_share > 0.2 && product.memory_share < 1, "%s", device->name);
            }
            for (const char *c = device->name; *c != '\0'; c++)
                cr_assert(*c < 'A' || *c > 'Z', "%s", device->name);
        }
    }
}

Test(device, names_are_found_in_any_case)
{
    cr_assert_eq(sp_device_find("A100-SXM4-80GB"), sp_device_find("a100-sxm4-80gb"));
    cr_assert_null(sp_device_find("a100"));
    cr_assert_null(sp_device_find(""));
}

/* Products alone are rounded, by the runtimes that do so, where the device can, and not where they were measured. */
Test(device, tf32)
{
    struct sp_device device = *sp_device_find("a100-sxm4-80gb");
    for (int id = 0; id < SP_RUNTIME_COUNT; id++) {
        const bool rounds = id == SP_RUNTIME_ONNXRUNTIME || id == SP_RUNTIME_TENSORRT;
        device.runtime = (enum sp_runtime_id)id;
        cr_expect_eq(sp_device_rounds_products(&device), rounds);
        cr_expect_eq(sp_device_product_flops(&device, SP_DTYPE_FLOAT), (rounds ? 156 : 19.5) * TF);
        cr_expect_eq(sp_device_product_flops(&device, SP_DTYPE_FLOAT16), 312 * TF);
        cr_expect_eq(sp_device_flops(&device, SP_DTYPE_FLOAT), 19.5 * TF);
    }
    device.runtime = SP_RUNTIME_ONNXRUNTIME;
    device.products[SP_DTYPE_FLOAT].flops_share = 0.9;
    cr_expect_eq(sp_device_product_flops(&device, SP_DTYPE_FLOAT), 19.5 * TF);
    cr_expect_eq(sp_device_product_flops(sp_device_find("t4-16gb"), SP_DTYPE_FLOAT), 8.1 * TF, "it has none");
    cr_expect_not(sp_device_rounds_products(sp_device_find("trainium2")), "no GPU");
}

Test(device, types_without_a_figure)
{
    const struct sp_device *a100 = sp_device_find("a100-sxm4-80gb"), *v100 = sp_device_find("v100-sxm2-32gb");
    const struct sp_device *tpu = sp_device_find("tpu-v5e"), *h100 = sp_device_find("h100-sxm-80gb");
    const struct sp_device *h100_pcie = sp_device_find("h100-pcie-80gb");
    const struct {
        const struct sp_device *device;
        enum sp_dtype dtype;
        double expected;
    } cases[] = {
        {a100, SP_DTYPE_FLOAT8E5M2, 312 * TF},   /* no 8-bit floats: float16 */
        {a100, SP_DTYPE_DOUBLE, 9.7 * TF},       /* its own */
        {h100_pcie, SP_DTYPE_DOUBLE, 25.5 * TF}, /* half of float32 */
        {a100, SP_DTYPE_INT64, 9.75 * TF},       {a100, SP_DTYPE_INT32, 19.5 * TF},
        {a100, SP_DTYPE_BOOL, 624 * TF},         {a100, SP_DTYPE_INT4, 1248 * TF},
        {h100, SP_DTYPE_INT4, 1979 * TF},    /* as int8 */
        {v100, SP_DTYPE_BFLOAT16, 125 * TF}, /* as float16 */
        {v100, SP_DTYPE_INT8, 15.7 * TF},    /* no int8: float32 */
        {tpu, SP_DTYPE_FLOAT16, 197 * TF},   /* as bfloat16 */
        {tpu, SP_DTYPE_FLOAT, 98.5 * TF},    /* two passes */
        {tpu, SP_DTYPE_DOUBLE, 49.25 * TF},      {h100, SP_DTYPE_FLOAT4E2M1, 1979 * TF},
        {h100, SP_DTYPE_UNDEFINED, 67 * TF},     {h100, SP_DTYPE_STRING, 67 * TF},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_assert_float_eq(sp_device_flops(cases[i].device, cases[i].dtype), cases[i].expected, 1, "%s %s: %g",
                           cases[i].device->name, sp_dtype_name(cases[i].dtype),
                           sp_device_flops(cases[i].device, cases[i].dtype));
}

/* Whatever single figure a description gives, every type gets some. */
Test(device, one_figure_is_enough)
{
    for (int given = 0; given < SP_DTYPE_COUNT; given++) {
        struct sp_device device = {.name = "one"};
        device.flops[given] = 1e12;
        for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
            cr_assert_gt(sp_device_flops(&device, dtype), 0);
            cr_assert_leq(sp_device_flops(&device, dtype), 1e12);
        }
    }
}

/* 14 units each of 108, an eighth of the memory: NVIDIA's go-nvml and its guide to MIG. */
Test(device, slices_have_their_part)
{
    const struct sp_device *slice = sp_device_find("a100-sxm4-80gb/3g.40gb");
    const struct sp_device *small = sp_device_find("h100-sxm-80gb/1g.10gb");

    cr_assert(slice != NULL && small != NULL);
    cr_expect_eq(sp_device_find("NVIDIA A100-SXM4-80GB MIG 3g.40gb"), slice);
    cr_expect_eq(sp_device_find("A100-SXM4-80GB MIG 3G.40GB"), slice);
    cr_expect_null(sp_device_find("a100-sxm4-80gb MIG 3g.20gb"));
    cr_expect_null(sp_device_find("a100-sxm4-80gb/"));
    cr_expect_eq(slice->units, 42);
    cr_expect_float_eq(slice->memory_bytes, 40 * GB, 1);
    cr_expect_float_eq(slice->memory_reported_bytes, 40192.0 * 1048576, 1);
    cr_expect_float_eq(slice->memory_bandwidth, 2039 * GB / 2, 1);
    cr_expect_float_eq(slice->flops[SP_DTYPE_BFLOAT16], 312 * TF * 42 / 108, 1e3);
    cr_expect_eq(slice->link_bandwidth, 0);
    cr_expect_float_eq(slice->host_bandwidth, 16 * GB, 1); /* two of them on one link */
    cr_expect_eq(slice->library_count, 0);
    cr_expect_not(slice->measured[SP_DEVICE_PRODUCTS]);
    cr_expect_float_eq(small->flops[SP_DTYPE_FLOAT8E4M3FN], 1979 * TF * 16 / 132, 1e3);
    cr_expect_float_eq(small->memory_bandwidth, 3350 * GB / 8, 1);
}

/* A device's own figures, then those of the nearest type, then the kind's; without a kind none. */
Test(device, what_is_not_stated_falls_back)
{
    struct sp_device device = {.name = "one", .link_bandwidth = 1};
    uint32_t count;

    device.products[SP_DTYPE_BFLOAT16] = (struct sp_device_product){1e-6, 0.5, 0.6};
    device.products[SP_DTYPE_INT8] = (struct sp_device_product){.flops_share = 0.4};
    cr_expect_eq(sp_device_product(&device, SP_DTYPE_FLOAT16).flops_share, 0.5);
    cr_expect_eq(sp_device_product(&device, SP_DTYPE_FLOAT).memory_share, 0.6);
    cr_expect_eq(sp_device_product(&device, SP_DTYPE_FLOAT8E4M3FN).flops_share, 0.4); /* of as many bits */
    cr_expect_eq(sp_device_product(&device, SP_DTYPE_INT8).start_seconds, 1e-6);
    cr_expect_eq(sp_device_prefill(&device).memory_share, 0);
    cr_expect_eq(sp_device_other(&device).memory_share, 0);
    (void)sp_device_libraries(&device, &count);
    cr_expect_eq(count, 0);

    device.kind = SP_DEVICE_GPU;
    cr_expect_gt(sp_device_prefill(&device).half_queries, 0);
    cr_expect_gt(sp_device_decode(&device).tile_keys, 0);
    cr_expect_gt(sp_device_other(&device).start_seconds, 0);
    cr_expect_lt(sp_device_norm(&device).memory_share, sp_device_other(&device).memory_share);
    cr_expect_gt(sp_device_residual(&device, SP_DEVICE_CLASS_NORM).low, 0);
    device.other = (struct sp_device_other){1e-6, 0.5}; /* one figure for both, and one residual */
    device.residuals[SP_DEVICE_CLASS_OTHER] = (struct sp_device_residual){0.8, 1.3};
    cr_expect_eq(sp_device_norm(&device).memory_share, 0.5);
    cr_expect_eq(sp_device_residual(&device, SP_DEVICE_CLASS_NORM).high, 1.3);
    device.norm = (struct sp_device_other){2e-6, 0.25};
    device.residuals[SP_DEVICE_CLASS_NORM] = (struct sp_device_residual){0.7, 1.4};
    cr_expect_eq(sp_device_norm(&device).memory_share, 0.25);
    cr_expect_eq(sp_device_residual(&device, SP_DEVICE_CLASS_NORM).high, 1.4);
    cr_expect_str_eq(sp_device_libraries(&device, &count)->name, "nccl");
    device.link_bandwidth = 0; /* the defaults are of devices with a switch */
    (void)sp_device_libraries(&device, &count);
    cr_expect_eq(count, 0);

    device = (struct sp_device){.name = "two"};
    cr_expect_eq(sp_device_product(&device, SP_DTYPE_FLOAT).memory_share, 0);
}

Test(device, a_group_takes_the_next_larger_share)
{
    const struct sp_device_collective all = {.link_share = {0.5, 0.6, 0.7}}, some = {.link_share = {0, 0.6, 0}};
    const struct sp_device_collective none = {0};
    const uint32_t sizes[] = {2, 3, 4, 5, 8, 9, 1024};
    const double expected[] = {0.5, 0.6, 0.6, 0.7, 0.7, 0.7, 0.7};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        cr_expect_eq(sp_device_link_share(&all, sizes[i]), expected[i], "%u", sizes[i]);
        cr_expect_eq(sp_device_link_share(&some, sizes[i]), 0.6, "%u", sizes[i]);
        cr_expect_eq(sp_device_link_share(&none, sizes[i]), 0);
    }
}
