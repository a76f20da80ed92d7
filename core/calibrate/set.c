/*
 * What is measured: small kernels by the time of a run of many, others one by one. Sizes of the small set are those of
 * the layers of small models, so that one core needs seconds, a scheduler does not
 * come between, and a figure that depends on the size is right where models
 * are; sizes of the large set keep an accelerator busy.
 */
#include "calibrate/internal.h"

#include <stdio.h>

struct planned {
    const char *kind, *sizes;
    uint32_t copies;
    bool times_run, is_large; /* of the large set, beside the small one */
};

static const struct planned plan[] = {
    /* Starts, and what fits into a cache of a core. The first is what runners subtract: one node alone. */
    {"relu", "8", 1, true, false},
    {"launch", "16x32", 400, true, false},
    {"launch", "16x64", 400, true, false},
    {"launch", "32x128", 400, true, false},
    {"add", "512", 512, true, false},
    {"add", "2048", 512, true, false},
    {"add", "16384", 128, true, false},
    {"bias", "16x64", 512, true, false},
    {"bias", "64x256", 128, true, false},
    {"tanh", "1024", 256, true, false},
    {"erf", "4096", 64, true, false},
    {"norm", "16x64", 256, true, false},
    {"norm", "64x256", 64, true, false},
    {"softmax", "64x16", 256, true, false},
    {"softmax", "256x32", 64, true, false},
    {"product", "1x32x32", 512, true, false},
    {"product", "16x64x64", 256, true, false},
    {"product", "32x64x256", 64, true, false},
    {"product", "4x256x256", 64, true, false},
    {"batched", "8x16x16x16", 256, true, false},
    {"convolution", "1x16x16x16x3", 32, true, false},
    {"convolution", "1x8x32x32x3", 64, true, false},
    /* Products. */
    {"product", "1x768x768", 16, false, false},
    {"product", "1x1024x4096", 4, false, false},
    {"product", "16x768x768", 8, false, false},
    {"product", "16x1024x4096", 2, false, false},
    {"product", "64x256x1024", 4, false, false},
    {"product", "128x256x256", 4, false, false},
    {"product", "128x768x768", 4, false, false},
    {"product", "32x768x3072", 2, false, false},
    {"product", "196x384x384", 2, false, false},
    {"product", "512x512x512", 2, false, false},
    {"batched", "12x128x64x128", 1, false, false},
    {"batched", "12x128x128x64", 1, false, false},
    {"batched", "12x197x64x197", 1, false, false},
    {"batched", "4x512x64x512", 1, false, false},
    {"convolution", "1x56x64x64x1", 4, false, false},
    {"convolution", "1x56x64x256x1", 2, false, false},
    {"convolution", "1x28x128x512x1", 2, false, false},
    {"convolution", "1x14x1024x256x1", 2, false, false},
    {"convolution", "1x56x64x64x3", 2, false, false},
    {"convolution", "1x28x128x128x3", 2, false, false},
    {"convolution", "1x14x256x256x3", 2, false, false},
    {"convolution", "1x7x512x512x3", 2, false, false},
    /* What moves bytes, and functions. */
    {"add", "98304", 2, false, false},
    {"add", "401408", 2, false, false},
    {"add", "802816", 2, false, false},
    {"relu", "200704", 2, false, false},
    {"relu", "802816", 2, false, false},
    {"relu", "4194304", 1, false, false},
    {"bias", "128x768", 2, false, false},
    {"bias", "128x3072", 2, false, false},
    {"mean", "128x768", 1, false, false},
    {"mean", "1024x768", 1, false, false},
    {"concat", "98304", 1, false, false},
    {"concat", "802816", 1, false, false},
    {"norm", "128x768", 2, false, false},
    {"norm", "3136x96", 2, false, false},
    {"norm", "1024x1024", 1, false, false},
    {"exp", "98304", 2, false, false},
    {"exp", "802816", 1, false, false},
    {"erf", "98304", 2, false, false},
    {"erf", "393216", 2, false, false},
    {"tanh", "393216", 2, false, false},
    {"softmax", "1536x128", 2, false, false},
    {"softmax", "2364x197", 2, false, false},
    {"softmax", "4096x1024", 1, false, false},
    {"transpose", "1x128x12x64", 1, false, false},
    {"transpose", "1x197x12x64", 1, false, false},
    {"transpose", "8x128x12x64", 1, false, false},
    {"transpose", "1x4096x16x64", 1, false, false},
    /* Attention as one operator. */
    {"prefill", "1x4x32x32", 1, false, false},
    {"prefill", "1x8x64x64", 1, false, false},
    {"prefill", "1x12x128x64", 1, false, false},
    {"prefill", "1x4x256x64", 1, false, false},
    {"prefill", "1x8x192x32", 1, false, false},
    {"decode", "1x12x12x256x64", 1, false, false},
    {"decode", "1x12x12x1024x64", 1, false, false},
    {"decode", "4x8x8x256x64", 1, false, false},
    {"decode", "1x32x8x1024x64", 1, false, false},
    /* For accelerators. */
    {"product", "1x4096x4096", 8, false, true},
    {"product", "8x4096x14336", 2, false, true},
    {"product", "64x4096x4096", 8, false, true},
    {"product", "256x4096x4096", 8, false, true},
    {"product", "1024x4096x4096", 4, false, true},
    {"product", "2048x4096x14336", 2, false, true},
    {"product", "4096x4096x4096", 4, false, true},
    {"product", "8192x8192x8192", 2, false, true},
    {"batched", "384x512x64x512", 1, false, true},
    {"convolution", "32x56x64x64x3", 2, false, true},
    {"convolution", "32x14x256x256x3", 2, false, true},
    {"convolution", "32x28x128x512x1", 2, false, true},
    {"add", "16777216", 2, false, true},
    {"add", "134217728", 1, false, true},
    {"relu", "67108864", 2, false, true},
    {"norm", "4096x4096", 2, false, true},
    {"norm", "16384x8192", 1, false, true},
    {"exp", "67108864", 1, false, true},
    {"erf", "67108864", 1, false, true},
    {"softmax", "32768x2048", 1, false, true},
    {"transpose", "8x2048x32x128", 1, false, true},
    {"transpose", "32x512x16x64", 1, false, true},
    {"concat", "67108864", 1, false, true},
    {"prefill", "1x32x256x128", 1, false, true},
    {"prefill", "1x32x1024x128", 1, false, true},
    {"prefill", "1x32x4096x128", 1, false, true},
    {"prefill", "8x32x2048x128", 1, false, true},
    {"decode", "16x32x8x2048x128", 1, false, true},
    {"decode", "64x32x8x4096x128", 1, false, true},
    {"decode", "16x32x32x2048x128", 1, false, true},
    {"decode", "1x32x8x8192x128", 1, false, true},
};

/* Bytes of collectives: a decode step's to a prefill's. */
static const int64_t collective_bytes[] = {8192, 65536, 524288, 4194304, 33554432, 268435456};

struct adder {
    struct sp_calibrate_entry *entries;
    uint32_t count;
};

static void add(struct adder *adder, const struct planned *planned, enum sp_dtype dtype)
{
    struct sp_calibrate_entry *entry = &adder->entries[adder->count];
    if (adder->count == SP_CALIBRATE_MAX_ENTRIES)
        return;
    entry->copies = planned->copies;
    entry->times_run = planned->times_run;
    (void)snprintf(entry->name, sizeof entry->name, "%s.%s.%s", planned->kind, sp_dtype_name(dtype), planned->sizes);
    adder->count++;
}

/* Groups of 2, 4 and 8 as far as there are devices, and all of them. */
static bool is_group(uint32_t ranks, uint32_t devices)
{
    return ranks == devices || (ranks < devices && (ranks == 2 || ranks == 4 || ranks == 8));
}

static void add_collectives(struct adder *adder, const struct sp_calibrate_wish *wish)
{
    uint32_t count;
    const struct sp_kernel_kind *kinds = sp_kernel_kinds(&count);
    for (uint32_t k = 0; k < count; k++) {
        if (kinds[k].group != SP_GROUP_COLLECTIVES || kinds[k].form == NULL)
            continue;
        for (uint32_t ranks = 2; ranks <= wish->devices; ranks++) {
            if (!is_group(ranks, wish->devices))
                continue;
            for (size_t i = 0; i < sizeof collective_bytes / sizeof collective_bytes[0]; i++) {
                char sizes[64];
                /* a multiple of what the pieces of all ranks need */
                const int64_t unit = (int64_t)ranks * ranks * 8, bytes = (collective_bytes[i] + unit - 1) / unit * unit;
                (void)snprintf(sizes, sizeof sizes, "%ux%lld", ranks, (long long)bytes);
                add(adder,
                    &(struct planned){.kind = kinds[k].name,
                                      .sizes = sizes,
                                      .copies = kinds[k].is_chained ? 8 : 1,
                                      .times_run = true},
                    wish->dtype_count > 0 ? wish->dtypes[0] : SP_DTYPE_FLOAT);
            }
        }
    }
}

enum sp_status sp_calibrate_set(struct sp_arena *arena, const struct sp_calibrate_wish *wish,
                                struct sp_calibrate_entry **ret_entries, uint32_t *ret_count, struct sp_error *err)
{
    struct adder adder = {.entries = SP_NEW_ARRAY(arena, SP_CALIBRATE_MAX_ENTRIES, struct sp_calibrate_entry)};
    if (adder.entries == NULL)
        return sp_fail_memory(err);
    for (uint32_t d = 0; d < wish->dtype_count; d++) {
        const bool is_float = sp_dtype_is_float(wish->dtypes[d]) && sp_dtype_bits(wish->dtypes[d]) > 8;
        if (!is_float && wish->dtypes[d] != SP_DTYPE_INT8)
            return sp_fail(
                err, SP_ERR_REQUEST, "CALIBRATION_DTYPE",
                "The models are of float64, float32, float16, bfloat16 and int8; %s is measured by a program "
                "of your own and given as CSV.",
                sp_dtype_name(wish->dtypes[d]));
        for (size_t i = 0; i < sizeof plan / sizeof plan[0]; i++) {
            const bool is_wanted = !plan[i].is_large || wish->size == SP_CALIBRATE_LARGE;
            if (is_wanted && (is_float || strcmp(plan[i].kind, "product") == 0))
                add(&adder, &plan[i], wish->dtypes[d]);
        }
    }
    add_collectives(&adder, wish);
    if (adder.count == SP_CALIBRATE_MAX_ENTRIES)
        return sp_fail_limit(err, "CALIBRATION_SET", "SP_CALIBRATE_MAX_ENTRIES", SP_CALIBRATE_MAX_ENTRIES,
                             (int64_t)adder.count, "A set may have %d models; ask for fewer types.",
                             SP_CALIBRATE_MAX_ENTRIES);
    *ret_entries = adder.entries;
    *ret_count = adder.count;
    return SP_OK;
}

void sp_calibrate_list(const struct sp_calibrate_entry *entries, uint32_t count, struct sp_buf *buf)
{
    sp_buf_text(buf, "file,kernel,dtype,shape,copies,timing,ranks\n");
    for (uint32_t i = 0; i < count; i++) {
        struct sp_kernel_key key;
        if (!sp_kernel_key_of_name(entries[i].name, strlen(entries[i].name), &key))
            continue;
        const char *sizes = strrchr(entries[i].name, '.') + 1;
        sp_buf_printf(buf, "%s.onnx,%s,%s,%s,%u,%s,%lld\n", entries[i].name, key.kind->name, sp_dtype_name(key.dtype),
                      sizes, entries[i].copies, entries[i].times_run ? "run" : "node",
                      key.kind->group == SP_GROUP_COLLECTIVES ? (long long)key.sizes[0] : 1);
    }
}
