/* Calibration (calibrate/calibrate.h): models of the set, files of times, and figures that are found again in times
   that were made of them. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "calibrate/internal.h"

static struct sp_arena *arena;
static struct sp_error err;
static struct sp_calibrate_samples *samples;
static struct sp_buf text, report;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    samples = sp_calibrate_samples_create(arena);
    sp_error_clear(&err);
    sp_buf_init(&text, (size_t)16 << 20);
    sp_buf_init(&report, (size_t)1 << 20);
}

static void teardown(void)
{
    sp_buf_release(&report);
    sp_buf_release(&text);
    sp_arena_destroy(arena);
}

TestSuite(calibrate, .init = setup, .fini = teardown);

static void expect_near(double got, double wanted, double share, const char *what)
{
    cr_expect(fabs(got / wanted - 1) <= share, "%s: %g, not %g", what, got, wanted);
}

static struct sp_kernel_key key_of(const char *name)
{
    struct sp_kernel_key key;
    cr_assert(sp_kernel_key_of_name(name, strlen(name), &key), "%s", name);
    return key;
}

static struct sp_kernel_work work_of(const char *name)
{
    const struct sp_kernel_key key = key_of(name);
    struct sp_kernel_work work = {0};
    cr_assert_eq(sp_kernel_key_work(arena, &key, &work, &err), SP_OK, "%s: %s", name, err.message);
    return work;
}

/* ---- the set ------------------------------------------------------------------------------------------------------
 */

Test(calibrate, models_of_all_entries_are_read_and_costed)
{
    static const enum sp_dtype dtypes[] = {SP_DTYPE_FLOAT, SP_DTYPE_FLOAT16, SP_DTYPE_INT8};
    const struct sp_calibrate_wish wish = {
        .size = SP_CALIBRATE_LARGE, .dtype_count = 3, .dtypes = dtypes, .devices = 6};
    struct sp_calibrate_entry *entries;
    uint32_t count, groups[5] = {0};
    cr_assert_eq(sp_calibrate_set(arena, &wish, &entries, &count, &err), SP_OK, "%s", err.message);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_kernel_key key = key_of(entries[i].name);
        struct sp_buf bytes;
        double weights = -1;
        char name[128];
        sp_kernel_key_write(&key, name, sizeof name);
        cr_expect_str_eq(name, entries[i].name);
        for (uint32_t j = 0; j < i; j++)
            cr_expect_str_neq(entries[j].name, entries[i].name); /* files have these names */
        cr_assert_eq(sp_calibrate_model(&entries[i], &bytes, &weights, &err), SP_OK, "%s: %s", name, err.message);
        cr_expect_geq(weights, 0);
        cr_expect_leq(weights, 2e9, "%s has weights of %g bytes", name, weights);
        sp_buf_release(&bytes);
        groups[key.kind->group]++;
        if (key.kind->group == SP_GROUP_COLLECTIVES)
            continue;
        const struct sp_kernel_work work = work_of(name);
        const bool goes_by_rows = strncmp(name, "norm.", 5) == 0 || strncmp(name, "softmax.", 8) == 0 ||
                                  strncmp(name, "mean.", 5) == 0 || strncmp(name, "transpose.", 10) == 0;
        const bool has_windows = strncmp(name, "convolution.", 12) == 0 && key.sizes[4] > 1;
        cr_expect_gt(work.bytes, 0, "%s", name);
        cr_expect_eq(work.kind,
                     has_windows                            ? SP_KERNEL_CONVOLUTION
                     : key.kind->group == SP_GROUP_PRODUCTS ? SP_KERNEL_PRODUCT
                     : key.kind->group == SP_GROUP_PREFILL  ? SP_KERNEL_PREFILL
                     : key.kind->group == SP_GROUP_DECODE   ? SP_KERNEL_DECODE
                     : goes_by_rows                         ? SP_KERNEL_NORM
                                                            : SP_KERNEL_OTHER,
                     "%s is of class %d", name, work.kind);
    }
    for (uint32_t group = 0; group < 5; group++)
        cr_expect_geq(groups[group], SP_CALIBRATE_POINTS);
}

Test(calibrate, work_is_what_the_kernel_does)
{
    const struct sp_kernel_work product = work_of("product.float32.128x768x3072");
    cr_expect_eq(product.flops, 2.0 * 128 * 768 * 3072);
    cr_expect_eq(product.bytes, 4.0 * (128 * 768 + 768 * 3072 + 128 * 3072));
    const struct sp_kernel_work narrow = work_of("product.int8.128x768x3072");
    cr_expect_geq(narrow.flops, product.flops);
    cr_expect_lt(narrow.bytes, product.bytes / 3.9);
    const struct sp_kernel_work convolution = work_of("convolution.float32.1x28x128x64x3");
    cr_expect_eq(convolution.flops, 2.0 * 28 * 28 * 128 * 64 * 9);
    cr_expect_eq(work_of("add.float16.1000").bytes, 6000);
    cr_expect_eq(work_of("exp.float32.1000").functions, 1000);
    cr_expect(work_of("transpose.float32.1x128x12x64").permutes);
    const struct sp_kernel_work decode = work_of("decode.float16.4x32x8x1024x128");
    expect_near(decode.bytes, 2.0 * 4 * 1024 * 8 * 128 * 2, 0.01, "a cache that is read once");
}

Test(calibrate, names_of_other_kernels_are_none)
{
    static const char *const wrong[] = {"",
                                        "product",
                                        "product.float32",
                                        "product.float32.",
                                        "product.float32.1x2",
                                        "product.float32.1x2x3x4",
                                        "product.float32.1x2x",
                                        "product.float32.0x2x3",
                                        "product.float99.1x2x3",
                                        "product.int4.1x2x3",
                                        "prod.float32.1x2x3",
                                        "product.float32.1x2x99999999999999999999",
                                        "product.float32.-1x2x3"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct sp_kernel_key key;
        cr_expect_not(sp_kernel_key_of_name(wrong[i], strlen(wrong[i]), &key), "%s", wrong[i]);
    }
}

/* ---- figures that are found again ---------------------------------------------------------------------------------
 * Times by the forms of device.h, written here once more, of devices that are made up; each with repetitions that take
 * longer by chance, as another program's turn would make them. */

struct made_up {
    double start, flops, memory, other_start, bandwidth, permuted, functions, unhidden;
};

static uint32_t state = 1;

/* 0 .. 1 */
static double chance(void)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) / 16777216.0;
}

static double time_of(double start, const double *parts, double unhidden)
{
    const double longest = fmax(parts[0], fmax(parts[1], parts[2]));
    return start + longest + unhidden * (parts[0] + parts[1] + parts[2] - longest);
}

/* Each time `noise` longer at most; every tenth of a kernel's three times as long. */
static void put_rows(const char *kind, const char *dtype, const char *sizes, double seconds, double noise)
{
    for (int i = 0; i < 10; i++) {
        const double taken = seconds * (1 + noise * chance()) * (i == 4 ? 3 : 1);
        sp_buf_printf(&text, "%s,%s,%s,%.9g\n", kind, dtype, sizes, taken);
    }
}

static void put_products(const struct made_up *device, const char *dtype, double size, double noise)
{
    static const int sides[][3] = {{1, 64, 64},      {1, 4096, 4096},    {4, 1024, 4096},   {16, 256, 256},
                                   {16, 4096, 4096}, {64, 1024, 1024},   {64, 4096, 4096},  {128, 768, 3072},
                                   {256, 512, 512},  {256, 2048, 2048},  {512, 4096, 1024}, {1024, 1024, 1024},
                                   {8, 8192, 1024},  {2048, 2048, 2048}, {32, 64, 64}};
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        const double m = sides[i][0], k = sides[i][1], n = sides[i][2];
        const double parts[] = {2 * m * k * n / device->flops, size * (m * k + k * n + m * n) / device->memory, 0};
        char sizes[64];
        (void)snprintf(sizes, sizeof sizes, "%dx%dx%d", sides[i][0], sides[i][1], sides[i][2]);
        put_rows("product", dtype, sizes, time_of(device->start, parts, device->unhidden), noise);
    }
}

static void put_others(const struct made_up *device, const char *dtype, double size, double noise)
{
    for (double elements = 1024; elements < 2e8; elements *= 8) {
        const double flops = elements / device->flops, moved = elements * size;
        const double add[] = {3 * moved / device->bandwidth, flops, 0},
                     exp[] = {2 * moved / device->bandwidth, 0, elements / device->functions},
                     transpose[] = {2 * moved / device->permuted, 0, 0};
        char sizes[64];
        (void)snprintf(sizes, sizeof sizes, "%.0f", elements);
        put_rows("add", dtype, sizes, time_of(device->other_start, add, device->unhidden), noise);
        put_rows("exp", dtype, sizes, time_of(device->other_start, exp, device->unhidden), noise);
        (void)snprintf(sizes, sizeof sizes, "1x%.0fx8x8", elements / 64);
        put_rows("transpose", dtype, sizes, time_of(device->other_start, transpose, device->unhidden), noise);
    }
}

static struct sp_device fitted(const struct sp_calibrate_options *options)
{
    struct sp_device device = {0};
    cr_assert_eq(sp_calibrate_read(samples, "times.csv", text.data, text.size, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_calibrate_fit(arena, samples, options, &device, &report, &err), SP_OK, "%s", err.message);
    return device;
}

/* What is written of it is read again as the same device. */
static void expect_file(const struct sp_device *device)
{
    struct sp_json json;
    struct sp_buf file, again;
    struct sp_cluster *cluster = NULL;
    sp_buf_init(&file, (size_t)1 << 20);
    sp_json_init_buf(&json, false, &file);
    sp_device_write(device, true, &json);
    cr_assert_eq(sp_json_finish(&json, &err), SP_OK);
    json_t *figures = json_loadb(file.data, file.size, JSON_REJECT_DUPLICATES, NULL);
    json_t *target = json_pack("{s:o, s:i}", "device", figures, "count", 1);
    cr_assert_eq(sp_cluster_parse(arena, target, "", &cluster, &err), SP_OK, "%s at %s", err.message, err.where);
    sp_buf_init(&again, (size_t)1 << 20);
    sp_json_init_buf(&json, false, &again);
    sp_device_write(sp_cluster_device(cluster, 0), true, &json);
    cr_assert_eq(sp_json_finish(&json, &err), SP_OK);
    cr_expect_str_eq(again.data, file.data);
    json_decref(target);
    sp_buf_release(&again);
    sp_buf_release(&file);
}

Test(calibrate, a_processor_is_found_again)
{
    const struct made_up made = {3e-7, 1.1e11, 2.5e10, 4e-7, 6e10, 2.2e10, 2.5e9, 0.6};
    sp_buf_text(&text, "# runtime: a runtime 1.2\n# date: 2026-01-02\nkernel,dtype,shape,seconds\n");
    put_products(&made, "float32", 4, 0.04);
    put_others(&made, "float32", 4, 0.04);
    const struct sp_device device =
        fitted(&(struct sp_calibrate_options){.name = "mine", .memory_bytes = 8e9, .conditions = "3 threads"});
    const struct sp_device_product *product = &device.products[SP_DTYPE_FLOAT];
    cr_expect_eq(device.kind, SP_DEVICE_CPU);
    cr_expect_eq(product->flops_share, 1);
    cr_expect_eq(device.other.memory_share, 1);
    expect_near(device.flops[SP_DTYPE_FLOAT], made.flops, 0.03, "flops");
    expect_near(product->start_seconds, made.start, 0.1, "start of products");
    expect_near(product->memory_share * device.memory_bandwidth, made.memory, 0.05, "memory of products");
    expect_near(device.unhidden, made.unhidden, 0.1, "unhidden");
    expect_near(device.memory_bandwidth, made.bandwidth, 0.05, "bandwidth");
    expect_near(device.permuted_bandwidth, made.permuted, 0.05, "permuted bandwidth");
    expect_near(device.functions_per_second, made.functions, 0.05, "functions");
    expect_near(device.other.start_seconds, made.other_start, 0.1, "start of others");
    cr_expect(device.measured[SP_DEVICE_PRODUCTS] && device.measured[SP_DEVICE_OTHER]);
    cr_expect_not(device.measured[SP_DEVICE_ATTENTION] || device.measured[SP_DEVICE_COLLECTIVES]);
    cr_expect_str_eq(device.source, "calibrated: a runtime 1.2, 2026-01-02, 3 threads");
    cr_expect_not_null(strstr(report.data, "not measured: attention"));
    const struct sp_device_residual *residual = &device.residuals[SP_DEVICE_CLASS_PRODUCTS];
    cr_expect(residual->low > 0.85 && residual->high < 1.15, "%g %g", residual->low, residual->high);
    expect_file(&device);
}

Test(calibrate, shares_of_a_data_sheet_are_found_again)
{
    const struct sp_device *sheet = sp_device_find("h100-sxm-80gb");
    const struct made_up made = {.start = 3e-6,
                                 .flops = 0.75 * sp_device_flops(sheet, SP_DTYPE_FLOAT16),
                                 .memory = 0.85 * sheet->memory_bandwidth,
                                 .other_start = 1.5e-6,
                                 .bandwidth = 0.8 * sheet->memory_bandwidth,
                                 .permuted = 0.4 * sheet->memory_bandwidth,
                                 .functions = 2e11};
    sp_buf_text(&text, "kernel,dtype,shape,seconds\n");
    put_products(&made, "float16", 2, 0.03);
    put_others(&made, "float16", 2, 0.03);
    const struct sp_device device = fitted(&(struct sp_calibrate_options){.name = "mine", .data = sheet});
    const struct sp_device_product *product = &device.products[SP_DTYPE_FLOAT16];
    cr_expect_eq(device.kind, SP_DEVICE_GPU);
    cr_expect_eq(device.flops[SP_DTYPE_FLOAT16], sheet->flops[SP_DTYPE_FLOAT16]);
    cr_expect_eq(device.memory_bandwidth, sheet->memory_bandwidth);
    cr_expect_eq(device.memory_bytes, sheet->memory_bytes);
    expect_near(product->flops_share, 0.75, 0.05, "share of the peak");
    expect_near(product->memory_share, 0.85, 0.05, "share of the bandwidth");
    expect_near(product->start_seconds, made.start, 0.05, "start");
    expect_near(device.other.memory_share, 0.8, 0.05, "share of the bandwidth, others");
    expect_near(device.permuted_bandwidth * device.other.memory_share, made.permuted, 0.05, "permuted");
    expect_near(device.functions_per_second * device.other.memory_share, made.functions, 0.1, "functions");
    expect_file(&device);
}

/* Means along rows with a start and a bandwidth, each up to `scatter` times faster or slower by chance. */
static void put_means(double start, double bandwidth, double scatter)
{
    for (int rows = 16; rows < 1 << 22; rows *= 4) {
        const double seconds = start + 2.0 * rows * 257 / bandwidth; /* 256 elements of two bytes become one */
        char sizes[64];
        (void)snprintf(sizes, sizeof sizes, "%dx256", rows);
        put_rows("mean", "float16", sizes, seconds * pow(scatter, 2 * chance() - 1), 0.03);
    }
}

static const struct made_up streams = {.start = 3e-6,
                                       .flops = 6e14,
                                       .memory = 2.8e12,
                                       .other_start = 1.5e-6,
                                       .bandwidth = 2.6e12,
                                       .permuted = 1.3e12,
                                       .functions = 2e11};

Test(calibrate, kernels_by_rows_have_figures_of_their_own)
{
    const struct sp_device *sheet = sp_device_find("h100-sxm-80gb");
    sp_buf_text(&text, "kernel,dtype,shape,seconds\n");
    put_others(&streams, "float16", 2, 0.03);
    put_means(streams.other_start, 1.5e12, 1); /* as transposes have it, which are among them */
    const struct sp_device device = fitted(&(struct sp_calibrate_options){.name = "mine", .data = sheet});
    expect_near(device.other.memory_share * sheet->memory_bandwidth, streams.bandwidth, 0.05, "bandwidth of others");
    expect_near(device.other.start_seconds, streams.other_start, 0.1, "start of others");
    expect_near(device.norm.memory_share * sheet->memory_bandwidth, 1.5e12, 0.05, "bandwidth of rows");
    expect_near(device.norm.start_seconds, streams.other_start, 0.1, "start of rows");
}

Test(calibrate, kernels_by_rows_that_scatter_are_fitted_with_others)
{
    const struct sp_device *sheet = sp_device_find("h100-sxm-80gb");
    sp_buf_text(&text, "kernel,dtype,shape,seconds\n");
    put_others(&streams, "float16", 2, 0.03);
    put_means(streams.other_start, streams.bandwidth, 2);
    const struct sp_device device = fitted(&(struct sp_calibrate_options){.name = "mine", .data = sheet});
    expect_near(device.other.memory_share * sheet->memory_bandwidth, streams.bandwidth, 0.05, "bandwidth");
    cr_expect_eq(device.norm.memory_share, 0, "figures of its own: %g", device.norm.memory_share);
    cr_expect_null(strstr(report.data, "kernels by rows"));
}

/* ---- noise --------------------------------------------------------------------------------------------------------
 */

Test(calibrate, what_does_not_repeat_is_refused)
{
    static const struct made_up made = {3e-7, 1.1e11, 2.5e10, 4e-7, 6e10, 2.2e10, 2.5e9, 0.6};
    const struct sp_calibrate_options options = {.name = "mine", .memory_bytes = 8e9};
    struct sp_device device;
    sp_buf_text(&text, "kernel,dtype,shape,seconds\n");
    put_products(&made, "float32", 4, 8);
    put_others(&made, "float32", 4, 0.02);
    cr_assert_eq(sp_calibrate_read(samples, "times.csv", text.data, text.size, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_calibrate_fit(arena, samples, &options, &device, &report, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "CALIBRATION_NOISE");
    cr_expect_not_null(strstr(err.message, "products"), "%s", err.message);
}

Test(calibrate, kernels_that_are_measured_twice_are_refused)
{
    static const char rows[] = "kernel,dtype,shape,seconds\nadd,float32,1024,1e-6\nadd,float32,1024,1e-6\n";
    const struct sp_calibrate_options options = {.name = "mine", .memory_bytes = 8e9};
    struct sp_device device;
    cr_assert_eq(sp_calibrate_read(samples, "times.csv", rows, sizeof rows - 1, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_calibrate_fit(arena, samples, &options, &device, &report, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "CALIBRATION_NOISE");
    cr_expect_not_null(strstr(err.message, "often enough"), "%s", err.message);
}

Test(calibrate, one_noisy_kernel_is_left_out)
{
    static const struct made_up made = {3e-7, 1.1e11, 2.5e10, 4e-7, 6e10, 2.2e10, 2.5e9, 0.6};
    sp_buf_text(&text, "kernel,dtype,shape,seconds\n");
    put_products(&made, "float32", 4, 0.02);
    put_others(&made, "float32", 4, 0.02);
    sp_buf_text(&text, "product,float32,8x8x8,1e-3\nproduct,float32,8x8x8,2e-3\nproduct,float32,8x8x8,3e-3\n");
    const struct sp_device device = fitted(&(struct sp_calibrate_options){.name = "mine", .memory_bytes = 8e9});
    expect_near(device.flops[SP_DTYPE_FLOAT], made.flops, 0.03, "flops");
    cr_expect_not_null(strstr(report.data, "1 kernels left out"), "%s", report.data);
}

Test(calibrate, too_little_is_refused)
{
    static const char rows[] = "kernel,dtype,shape,seconds\n"
                               "add,float32,1024,1e-6\nadd,float32,1024,1e-6\nadd,float32,1024,1e-6\n";
    struct sp_device device;
    cr_assert_eq(sp_calibrate_read(samples, "times.csv", rows, sizeof rows - 1, &err), SP_OK, "%s", err.message);
    struct sp_calibrate_options options = {.name = "mine"};
    cr_assert_eq(sp_calibrate_fit(arena, samples, &options, &device, &report, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "CALIBRATION_MEMORY");
    sp_error_clear(&err);
    options.memory_bytes = 1e9;
    cr_assert_eq(sp_calibrate_fit(arena, samples, &options, &device, &report, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "CALIBRATION_EMPTY");
}

/* ---- collectives --------------------------------------------------------------------------------------------------
 */

/* What nccl-tests print of made-up figures, in their format: times below 100 with two digits, large ones with none. */
static void read_nccl(uint32_t ranks, double start, double rank, double half, double link)
{
    sp_buf_clear(&text);
    sp_buf_printf(&text,
                  "# nThread 1 nGpus %u minBytes 8192 maxBytes 268435456 step: 2(factor) warmup iters: 5 iters: 20\n"
                  "#\n# Using devices\n",
                  ranks);
    for (uint32_t i = 0; i < ranks; i++)
        sp_buf_printf(&text, "#  Rank  %u Group  0 Pid  4242 on       host device  %u [0x0%u] NVIDIA H100\n", i, i, i);
    sp_buf_text(&text,
                "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time\n"
                "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)\n");
    for (double bytes = 8192; bytes <= 268435456; bytes *= 2) {
        const double seconds =
            start + rank * (ranks - 1) + 2.0 * (ranks - 1) / ranks * (bytes + sqrt(bytes * half)) / link;
        const double time = 1e6 * seconds;
        sp_buf_printf(&text, "%12.0f  %12.0f     float     sum      -1  %*.*f  %6.2f  %6.2f      0  %7.2f\n", bytes,
                      bytes / 4, 7,
                      time < 100    ? 2
                      : time < 1000 ? 1
                                    : 0,
                      time, bytes / time / 1e3, 0.0, time);
    }
    sp_buf_text(&text, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.0\n#\n");
    cr_assert_eq(sp_calibrate_read(samples, "all_reduce_x.txt", text.data, text.size, &err), SP_OK, "%s at %s",
                 err.message, err.where);
}

Test(calibrate, collectives_of_nccl_tests_are_found_again)
{
    const struct sp_device *sheet = sp_device_find("h100-sxm-80gb");
    const double link = sheet->link_bandwidth;
    struct sp_device device;
    read_nccl(2, 8e-6, 1.5e-6, 4e5, 0.7 * link);
    read_nccl(4, 8e-6, 1.5e-6, 4e5, 0.8 * link);
    read_nccl(8, 8e-6, 1.5e-6, 4e5, 1.02 * link);
    const struct sp_calibrate_options options = {.name = "mine", .data = sheet, .library = "nccl"};
    cr_assert_eq(sp_calibrate_fit(arena, samples, &options, &device, &report, &err), SP_OK, "%s", err.message);
    cr_assert_eq(device.library_count, sheet->library_count);
    cr_expect_str_eq(device.libraries[0].name, "nccl");
    const struct sp_device_collective *got = &device.libraries[0].operations[SP_DEVICE_ALL_REDUCE];
    expect_near(got->start_seconds, 8e-6, 0.03, "start");
    expect_near(got->rank_seconds, 1.5e-6, 0.05, "rank");
    expect_near(got->half_bytes, 4e5, 0.1, "half");
    expect_near(got->link_share[0], 0.7, 0.02, "2");
    expect_near(got->link_share[1], 0.8, 0.02, "4");
    expect_near(got->link_share[2], 1.02, 0.02, "8");
    const struct sp_device_library *before = NULL; /* what was not measured stays */
    for (uint32_t i = 0; i < sheet->library_count; i++)
        before = strcmp(sheet->libraries[i].name, "nccl") == 0 ? &sheet->libraries[i] : before;
    cr_assert_not_null(before);
    cr_expect_eq(device.libraries[0].operations[SP_DEVICE_ALL_GATHER].start_seconds,
                 before->operations[SP_DEVICE_ALL_GATHER].start_seconds);
    cr_expect(device.measured[SP_DEVICE_COLLECTIVES]);
    expect_file(&device);
}

/* ---- files --------------------------------------------------------------------------------------------------------
 */

Test(calibrate, profiles_are_read)
{
    static const char profile[] =
        "[{\"cat\":\"Session\",\"name\":\"model_run\",\"ts\":1,\"dur\":900},\n"
        "{\"cat\":\"Node\",\"name\":\"product.float32.16x64x32#0_kernel_time\",\"ts\":2,\"dur\":30},\n"
        "{\"cat\":\"Node\",\"name\":\"product.float32.16x32x64#1_kernel_time\",\"ts\":2,\"dur\":31},\n"
        "{\"cat\":\"Node\",\"name\":\"product.float32.16x64x32#2_kernel_time\",\"ts\":2,\"dur\":29},\n"
        "{\"cat\":\"Node\",\"name\":\"convolution.float32.1x8x16x16x3#0_nchwc_kernel_time\",\"ts\":2,\"dur\":7},\n"
        "{\"cat\":\"Node\",\"name\":\"ReorderInput_kernel_time\",\"ts\":2,\"dur\":9}, 5, {\"cat\": 7}]";
    cr_assert_eq(sp_calibrate_read(samples, "p.json", profile, sizeof profile - 1, &err), SP_OK, "%s", err.message);
    cr_assert_eq(samples->kernels.count, 3);
    cr_assert_eq(samples->time_count, 4);
    cr_expect_eq(samples->kernels.items[0].seconds.count, 2);
    expect_near(samples->kernels.items[0].seconds.items[1], 29e-6, 1e-9, "microseconds");
    cr_expect_eq(samples->kernels.items[2].key.sizes[3], 16);
}

static void expect_refused(const char *content, enum sp_status status, const char *code, const char *where)
{
    sp_error_clear(&err);
    cr_expect_eq(sp_calibrate_read(samples, "x.csv", content, strlen(content), &err), status, "%s", content);
    cr_expect_str_eq(err.code, code);
    cr_expect_str_eq(err.where, where, "%s: %s", content, err.where);
}

Test(calibrate, broken_files_are_refused)
{
    expect_refused("a,b\n1,2\n", SP_ERR_MALFORMED, "CALIBRATION_FILE", "line 1");
    expect_refused("# x\nkernel,dtype,shape,seconds\nadd,float32,8\n", SP_ERR_MALFORMED, "CALIBRATION_FILE", "line 3");
    expect_refused("kernel,dtype,shape,seconds\nadd,float32,8,x\n", SP_ERR_MALFORMED, "CALIBRATION_FILE", "line 2");
    expect_refused("kernel,dtype,shape,seconds\nadd,float32,8,-1\n", SP_ERR_MALFORMED, "CALIBRATION_FILE", "line 2");
    expect_refused("kernel,dtype,shape,seconds\nadd,float32,8x8,1\n", SP_ERR_REQUEST, "CALIBRATION_KERNEL", "line 2");
    expect_refused("[{]", SP_ERR_MALFORMED, "CALIBRATION_FILE", "line 1");
    expect_refused("[{\"cat\":\"Node\",\"name\":\"add.float32.8#0_kernel_time\"}]", SP_ERR_MALFORMED,
                   "CALIBRATION_FILE", "event 0");
    expect_refused("# nThread 1\n   8192  2048 float sum -1 5.0\n", SP_ERR_MALFORMED, "CALIBRATION_FILE", "");
    expect_refused("# nThread 1\n   8192 x\n", SP_ERR_MALFORMED, "CALIBRATION_FILE", "line 2");
}

Test(calibrate, kernels_that_no_device_holds_are_refused)
{
    static const char rows[] = "kernel,dtype,shape,seconds\n"
                               "product,float32,1000000000000x1000000000000x1000000000000,1\n"
                               "product,float32,1000000000000x1000000000000x1000000000000,1\n"
                               "product,float32,1000000000000x1000000000000x1000000000000,1\n";
    struct sp_device device;
    cr_assert_eq(sp_calibrate_read(samples, "times.csv", rows, sizeof rows - 1, &err), SP_OK, "%s", err.message);
    const struct sp_calibrate_options options = {.name = "mine", .memory_bytes = 8e9};
    cr_expect_eq(sp_calibrate_fit(arena, samples, &options, &device, &report, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "CALIBRATION_KERNEL");
}

Test(calibrate, columns_may_stand_in_any_order)
{
    static const char rows[] = "\xef\xbb\xbf\"seconds\",note,shape,dtype,kernel\r\n0.5, hm ,16,float32,add\r\n\r\n";
    cr_assert_eq(sp_calibrate_read(samples, "times.csv", rows, sizeof rows - 1, &err), SP_OK, "%s", err.message);
    cr_assert_eq(samples->time_count, 1);
    cr_expect_eq(samples->kernels.items[0].seconds.items[0], 0.5);
}
