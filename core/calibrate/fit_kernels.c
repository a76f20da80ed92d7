/* Products, other kernels, attention: which figures each class has. */
#include "calibrate/calibration.h"

#include <stdio.h>

#define FAR 1 /* a logarithm: a kernel that is further off, another algorithm, tells no more against a fit */

static enum sp_status fit_products(struct sp_calibration *work, enum sp_dtype dtype, bool with_unhidden)
{
    struct sp_device *device = &work->device;
    struct sp_device_product *product = &device->products[dtype];
    struct sp_calibration_points chosen;
    struct sp_fit_figure figures[4];
    uint32_t count = 0;
    char path[64], text[SP_CALIBRATION_TEXT];
    if (!sp_calibration_choose(work, SP_GROUP_PRODUCTS, dtype, &chosen))
        return sp_fail_memory(work->err);
    if (chosen.count < SP_CALIBRATE_POINTS)
        return SP_OK;
    if (device->flops[dtype] <= 0)
        device->flops[dtype] = sp_calibration_most(work, SP_GROUP_PRODUCTS, dtype, true);
    figures[count++] = sp_calibration_start(&product->start_seconds, &chosen);
    figures[count++] = sp_calibration_share(&product->flops_share);
    figures[count++] = sp_calibration_share(&product->memory_share);
    if (with_unhidden) {
        device->unhidden = 0.5;
        figures[count++] = (struct sp_fit_figure){&device->unhidden, 0.01, 1};
    }
    enum sp_status status = sp_calibration_fit(work, &chosen, figures, count, sp_fit_kernel_seconds);
    if (status == SP_OK && work->options->data == NULL) { /* the peak is what was reached */
        device->flops[dtype] *= product->flops_share;
        product->flops_share = 1;
    }
    device->measured[SP_DEVICE_PRODUCTS] = work->is_fitted[SP_DEVICE_PRODUCTS] = true;
    (void)snprintf(path, sizeof path, "products.%s", sp_dtype_name(dtype));
    const char *kept = sp_arena_string(work->arena, path, strlen(path));
    if (status == SP_OK && kept == NULL)
        status = sp_fail_memory(work->err);
    if (status == SP_OK)
        status = sp_calibration_source(work, kept, "fitted to %u kernels: %s [measured]", chosen.count,
                                       sp_calibration_conditions(work, text, sizeof text));
    return status;
}

/* The types of products, that of most kernels first. */
static uint32_t types_of_products(const struct sp_calibration *work, enum sp_dtype types[SP_DTYPE_COUNT])
{
    uint32_t counts[SP_DTYPE_COUNT] = {0}, count = 0;
    for (uint32_t i = 0; i < work->all_count; i++)
        counts[work->all[i].dtype] += work->all[i].group == SP_GROUP_PRODUCTS;
    for (;;) {
        uint32_t most = SP_DTYPE_UNDEFINED;
        for (uint32_t t = 1; t < SP_DTYPE_COUNT; t++) {
            if (counts[t] >= SP_CALIBRATE_POINTS && counts[t] > counts[most])
                most = t;
        }
        if (most == SP_DTYPE_UNDEFINED)
            return count;
        counts[most] = 0;
        types[count++] = (enum sp_dtype)most;
    }
}

enum sp_status sp_calibration_products(struct sp_calibration *work)
{
    enum sp_dtype types[SP_DTYPE_COUNT];
    const uint32_t count = types_of_products(work, types);
    const bool of_cpu = work->device.kind == SP_DEVICE_CPU;
    enum sp_status status = SP_OK;
    for (int narrow = 0; status == SP_OK && narrow < 2; narrow++) {
        for (uint32_t i = 0; status == SP_OK && i < count; i++) {
            if ((sp_dtype_bits(types[i]) <= 8) == (narrow == 1))
                status = fit_products(work, types[i], of_cpu && i == 0);
        }
        if (status == SP_OK && work->ratios.count > 0)
            status = sp_calibration_class(work, narrow ? SP_DEVICE_CLASS_NARROW_PRODUCTS : SP_DEVICE_CLASS_PRODUCTS,
                                          narrow ? "products of narrow types" : "products");
    }
    return status;
}

/* A class of kernels that move bytes: its start and share, and which of the figures of two classes it tells of. */
struct stream {
    struct sp_device_other *kernels;
    enum sp_device_class class;
    const char *path, *title;
    bool has_functions; /* what functions take is known */
};

/* The figures of a fit that kernels of `chosen` tell of. */
struct stream_figures {
    struct sp_fit_figure items[SP_FIT_FIGURES];
    uint32_t count;
    uint32_t permuting, functions; /* kernels that the figures of these are found from; below 2 there is none */
};

static struct stream_figures stream_figures(struct sp_device *device, const struct stream *stream,
                                            const struct sp_calibration_points *chosen)
{
    struct stream_figures figures = {.count = 0};
    for (uint32_t i = 0; i < chosen->count; i++) {
        figures.permuting += chosen->points[i]->work.permutes;
        figures.functions += !stream->has_functions && chosen->points[i]->work.functions > 0;
    }
    figures.items[figures.count++] = sp_calibration_start(&stream->kernels->start_seconds, chosen);
    figures.items[figures.count++] = sp_calibration_share(&stream->kernels->memory_share);
    if (figures.permuting >= 2) {
        device->permuted_bandwidth = device->memory_bandwidth / 2;
        figures.items[figures.count++] = (struct sp_fit_figure){
            &device->permuted_bandwidth, device->memory_bandwidth / 1e4, device->memory_bandwidth * 4};
    }
    if (figures.functions >= 2) {
        device->functions_per_second = device->memory_bandwidth / 16;
        figures.items[figures.count++] = (struct sp_fit_figure){
            &device->functions_per_second, device->memory_bandwidth / 1e5, device->memory_bandwidth * 1e2};
    }
    return figures;
}

static enum sp_status try_stream(struct sp_calibration *work, const struct stream *stream,
                                 const struct sp_calibration_points *chosen)
{
    const struct stream_figures figures = stream_figures(&work->device, stream, chosen);
    return sp_calibration_fit(work, chosen, figures.items, figures.count, sp_fit_kernel_seconds);
}

static enum sp_status fit_stream(struct sp_calibration *work, const struct stream *stream,
                                 const struct sp_calibration_points *chosen)
{
    const struct stream_figures figures = stream_figures(&work->device, stream, chosen);
    char text[SP_CALIBRATION_TEXT];
    enum sp_status status = sp_calibration_fit(work, chosen, figures.items, figures.count, sp_fit_kernel_seconds);
    work->device.measured[SP_DEVICE_OTHER] = work->is_fitted[SP_DEVICE_OTHER] = true;
    if (status == SP_OK)
        status = sp_calibration_source(work, stream->path, "fitted to %u kernels: %s [measured]", chosen->count,
                                       sp_calibration_conditions(work, text, sizeof text));
    if (status == SP_OK && figures.permuting >= 2)
        status = sp_calibration_source(work, "permuted_bandwidth", "of %u kernels among those of %s [measured]",
                                       figures.permuting, stream->path);
    if (status == SP_OK && figures.functions >= 2)
        status = sp_calibration_source(work, "functions_per_second", "of %u kernels among those of %s [measured]",
                                       figures.functions, stream->path);
    return status == SP_OK ? sp_calibration_class(work, stream->class, stream->title) : status;
}

/* How far all kernels that were held out are off, in logarithms; the next fit begins. */
static double take_error(struct sp_calibration *work)
{
    double sum = 0;
    for (uint32_t i = 0; i < work->ratios.count; i++)
        sum += fmin(fabs(log(work->ratios.items[i])), FAR);
    work->ratios.count = 0;
    work->fastest = work->slowest = NULL;
    return sum;
}

/* Whether kernels by rows that are held out are nearer to figures of their own: few that scatter may be farther. */
static enum sp_status compare_fits(struct sp_calibration *work, const struct stream streams[2],
                                   const struct sp_calibration_points *both,
                                   const struct sp_calibration_points parts[2], bool *ret_is_apart)
{
    const struct sp_device before = work->device;
    enum sp_status status = try_stream(work, &streams[0], both);
    const double together = take_error(work);
    for (int i = 0; status == SP_OK && i < 2; i++)
        status = try_stream(work, &streams[i], &parts[i]);
    *ret_is_apart = take_error(work) < together;
    work->device = before;
    return status;
}

/* Takes those that go through rows out of `both`, at the end of which they are put; false without memory. */
static bool split_rows(const struct sp_calibration *work, const struct sp_calibration_points *both,
                       struct sp_calibration_points ret_parts[2])
{
    const struct sp_fit_point **points = SP_NEW_ARRAY(work->arena, both->count, const struct sp_fit_point *);
    uint32_t other = 0, end = both->count;
    for (uint32_t i = 0; points != NULL && i < both->count; i++) {
        const bool is_norm = both->points[i]->work.kind == SP_KERNEL_NORM;
        points[is_norm ? --end : other++] = both->points[i];
    }
    ret_parts[0] = (struct sp_calibration_points){points, other};
    ret_parts[1] = (struct sp_calibration_points){points + end, both->count - end};
    return points != NULL;
}

enum sp_status sp_calibration_other(struct sp_calibration *work)
{
    struct sp_device *device = &work->device;
    const struct stream streams[2] = {{&device->other, SP_DEVICE_CLASS_OTHER, "other", "other kernels", false},
                                      {&device->norm, SP_DEVICE_CLASS_NORM, "norm", "kernels by rows", true}};
    struct sp_calibration_points both, parts[2];
    uint32_t permuting = 0;
    bool is_apart = false;
    enum sp_status status = SP_OK;
    if (!sp_calibration_choose(work, SP_GROUP_OTHER, SP_DTYPE_UNDEFINED, &both))
        return sp_fail_memory(work->err);
    if (both.count < SP_CALIBRATE_POINTS)
        return SP_OK;
    if (!split_rows(work, &both, parts))
        return sp_fail_memory(work->err);
    device->norm = (struct sp_device_other){0}; /* as others, until it is fitted */
    device->residuals[SP_DEVICE_CLASS_NORM] = (struct sp_device_residual){0, 0};
    for (uint32_t i = 0; i < parts[1].count; i++) /* whose bandwidth is a figure of its own */
        permuting += parts[1].points[i]->work.permutes;
    if (parts[0].count >= SP_CALIBRATE_POINTS && parts[1].count >= SP_CALIBRATE_POINTS + permuting)
        status = compare_fits(work, streams, &both, parts, &is_apart);
    if (status == SP_OK)
        status = fit_stream(work, &streams[0], is_apart ? &parts[0] : &both);
    return status == SP_OK && is_apart ? fit_stream(work, &streams[1], &parts[1]) : status;
}

/* Attention needs few kernels: bytes are moved as other kernels do unless there are enough to say more. */
enum sp_status sp_calibration_attention(struct sp_calibration *work, bool is_prefill)
{
    struct sp_device *device = &work->device;
    struct sp_calibration_points chosen;
    struct sp_fit_figure figures[SP_FIT_FIGURES];
    uint32_t count = 0;
    char text[SP_CALIBRATION_TEXT];
    if (!sp_calibration_choose(work, is_prefill ? SP_GROUP_PREFILL : SP_GROUP_DECODE, SP_DTYPE_UNDEFINED, &chosen))
        return sp_fail_memory(work->err);
    if (chosen.count < 3)
        return SP_OK;
    if (is_prefill) {
        device->prefill.memory_share = device->other.memory_share > 0 ? device->other.memory_share : 0.7;
        device->prefill.half_queries = 0;
        figures[count++] = sp_calibration_start(&device->prefill.start_seconds, &chosen);
        figures[count++] = sp_calibration_share(&device->prefill.flops_share);
        if (chosen.count >= SP_CALIBRATE_POINTS) {
            device->prefill.half_queries = 100;
            figures[count++] = (struct sp_fit_figure){&device->prefill.half_queries, 0.1, 1e5};
        }
    } else {
        device->decode.tile_keys = 0;
        figures[count++] = sp_calibration_start(&device->decode.start_seconds, &chosen);
        figures[count++] = sp_calibration_share(&device->decode.memory_share);
    }
    enum sp_status status = sp_calibration_fit(work, &chosen, figures, count, sp_fit_kernel_seconds);
    device->measured[SP_DEVICE_ATTENTION] = work->is_fitted[SP_DEVICE_ATTENTION] = true;
    if (status == SP_OK)
        status = sp_calibration_source(work, is_prefill ? "attention.prefill" : "attention.decode",
                                       "fitted to %u kernels: %s [measured]", chosen.count,
                                       sp_calibration_conditions(work, text, sizeof text));
    return status == SP_OK ? sp_calibration_class(work, is_prefill ? SP_DEVICE_CLASS_PREFILL : SP_DEVICE_CLASS_DECODE,
                                                  is_prefill ? "attention, many queries" : "attention, one query")
                           : status;
}
