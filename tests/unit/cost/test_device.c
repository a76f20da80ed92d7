#include <criterion/criterion.h>
#include <math.h>

#include "cost/cluster/device.h"

#define GB 1e9
#define TF 1e12

/* Vendors' figures as quoted: links are the sum of both directions. 0: none given. */
struct quoted {
    const char *name;
    double memory, bandwidth, float32, bfloat16_or_float16, float8, int8, link, host;
};

static const struct quoted quoted[] = {
    {"a100-sxm4-80gb", 80, 2039, 19.5, 312, 0, 624, 600, 64},
    {"a100-sxm4-40gb", 40, 1555, 19.5, 312, 0, 624, 600, 64},
    {"h100-sxm-80gb", 80, 3350, 67, 989.5, 1979, 1979, 900, 128},
    {"h200-sxm-141gb", 141, 4800, 67, 989.5, 1979, 1979, 900, 128},
    {"b200-180gb", 180, 8000, 80, 2250, 4500, 4500, 1800, 128},
    {"mi300x-192gb", 192, 5300, 163.4, 1307.4, 2614.9, 2614.9, 896, 128},
    {"tpu-v5e", 16, 819, 0, 197, 0, 393, 400, 0},
    {"tpu-v5p", 95, 2765, 0, 459, 0, 918, 600, 0},
    {"ipu-mk2-gc200", 0.9, 47500, 62.5, 250, 0, 0, 320, 0},
    {"l4-24gb", 24, 300, 30.3, 121, 242.5, 242.5, 0, 64},
    {"t4-16gb", 16, 320, 8.1, 65, 0, 130, 0, 32},
    {"gaudi3-128gb", 128, 3670, 0, 1835, 1835, 0, 1200, 128},
    {"v100-sxm2-32gb", 32, 900, 15.7, 125, 0, 0, 300, 32},
    {"v100-sxm2-16gb", 16, 900, 15.7, 125, 0, 0, 300, 32},
    {"cpu-core", 8, 52, 0.31, 0, 0, 0, 0, 8}, /* measured, not quoted: tests/bench/stages.mjs */
};

Test(device, catalog_holds_the_quoted_figures)
{
    uint32_t count;
    (void)sp_device_catalog(&count);
    cr_assert_eq(count, sizeof quoted / sizeof quoted[0]);
    for (uint32_t i = 0; i < count; i++) {
        const struct quoted *expected = &quoted[i];
        const struct sp_device *device = sp_device_find(expected->name);
        cr_assert_not_null(device, "%s", expected->name);
        double half = fmax(device->flops[SP_DTYPE_FLOAT16], device->flops[SP_DTYPE_BFLOAT16]);
        cr_assert_float_eq(device->memory_bytes, expected->memory * GB, 1, "%s", expected->name);
        cr_assert_float_eq(device->memory_bandwidth, expected->bandwidth * GB, 1, "%s", expected->name);
        cr_assert_float_eq(device->flops[SP_DTYPE_FLOAT], expected->float32 * TF, 1, "%s", expected->name);
        cr_assert_float_eq(half, expected->bfloat16_or_float16 * TF, 1, "%s", expected->name);
        cr_assert_float_eq(device->flops[SP_DTYPE_FLOAT8E4M3FN], expected->float8 * TF, 1, "%s", expected->name);
        cr_assert_float_eq(device->flops[SP_DTYPE_INT8], expected->int8 * TF, 1, "%s", expected->name);
        cr_assert_float_eq(device->link_bandwidth, expected->link * GB / 2, 1, "%s", expected->name);
        cr_assert_float_eq(device->host_bandwidth, expected->host * GB / 2, 1, "%s", expected->name);
    }
}

Test(device, every_entry_is_usable)
{
    uint32_t count;
    const struct sp_device *catalog = sp_device_catalog(&count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(sp_device_find(catalog[i].name), &catalog[i], "%s", catalog[i].name);
        cr_assert_gt(strlen(catalog[i].source), 10);
        cr_assert_gt(catalog[i].link_bandwidth + catalog[i].host_bandwidth, 0);
        cr_assert_gt(catalog[i].link_latency, 0);
        for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++)
            cr_assert_gt(sp_device_flops(&catalog[i], dtype), 0, "%s %s", catalog[i].name, sp_dtype_name(dtype));
        for (const char *c = catalog[i].name; *c != '\0'; c++)
            cr_assert(*c < 'A' || *c > 'Z', "%s", catalog[i].name);
    }
}

Test(device, names_are_found_in_any_case)
{
    cr_assert_eq(sp_device_find("A100-SXM4-80GB"), sp_device_find("a100-sxm4-80gb"));
    cr_assert_null(sp_device_find("a100"));
    cr_assert_null(sp_device_find(""));
}

Test(device, float32_is_not_tf32)
{
    cr_assert_eq(sp_device_flops(sp_device_find("a100-sxm4-80gb"), SP_DTYPE_FLOAT), 19.5 * TF);
}

Test(device, types_without_a_figure)
{
    const struct sp_device *a100 = sp_device_find("a100-sxm4-80gb"), *v100 = sp_device_find("v100-sxm2-32gb");
    const struct sp_device *tpu = sp_device_find("tpu-v5e"), *h100 = sp_device_find("h100-sxm-80gb");
    const struct {
        const struct sp_device *device;
        enum sp_dtype dtype;
        double expected;
    } cases[] = {
        {a100, SP_DTYPE_FLOAT8E5M2, 312 * TF}, /* no 8-bit floats: float16 */
        {a100, SP_DTYPE_DOUBLE, 9.75 * TF},    /* half of float32 */
        {a100, SP_DTYPE_INT64, 9.75 * TF},     {a100, SP_DTYPE_INT32, 19.5 * TF},
        {a100, SP_DTYPE_BOOL, 624 * TF},       {a100, SP_DTYPE_INT4, 624 * TF},
        {v100, SP_DTYPE_BFLOAT16, 125 * TF}, /* as float16 */
        {v100, SP_DTYPE_INT8, 15.7 * TF},    /* no int8: float32 */
        {tpu, SP_DTYPE_FLOAT16, 197 * TF},   /* as bfloat16 */
        {tpu, SP_DTYPE_FLOAT, 98.5 * TF},    /* two passes */
        {tpu, SP_DTYPE_DOUBLE, 49.25 * TF},    {h100, SP_DTYPE_FLOAT4E2M1, 1979 * TF},
        {h100, SP_DTYPE_UNDEFINED, 67 * TF},   {h100, SP_DTYPE_STRING, 67 * TF},
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
