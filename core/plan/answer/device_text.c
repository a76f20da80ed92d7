#include "plan/answer/device_text.h"

#include <string.h>

#include "plan/answer/readable_text.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])
#define INDENT          16 /* where the second column of a device's text begins */
#define WIDTH           112
#define SOURCE_INDENT   26
#define PARAGRAPH_BYTES 65536 /* of one paragraph: texts of sources are at most 4 kB each */

/* ---- the table ----------------------------------------------------------------------------------------------- */

/* A cell of `width` columns, right-aligned: the number with its unit, "-" for 0. */
static void cell(struct sp_buf *buf, double value, const char *unit, int width)
{
    struct sp_buf text;

    sp_buf_init(&text, 256);
    if (value > 0) {
        sp_text_scaled(&text, value);
        sp_buf_text(&text, unit);
    } else {
        sp_buf_text(&text, "-");
    }
    sp_buf_printf(buf, "%*s", width, sp_buf_failed(&text) ? "?" : text.data);
    sp_buf_release(&text);
}

void sp_device_text_head(struct sp_buf *buf)
{
    sp_buf_printf(buf, "%-31s%5s%11s%13s%10s%10s%10s%13s%8s  %s\n", "Device", "Kind", "Memory", "Bandwidth", "float32",
                  "16 bits", "8 bits", "Link", "USD/h", "Measured");
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

void sp_device_text_row(const struct sp_device *device, struct sp_buf *buf)
{
    const double *flops = device->flops;
    const double link = device->link_bandwidth > 0 ? device->link_bandwidth : device->host_bandwidth;
    const char *kind = sp_device_kind_name(device->kind);
    bool is_any = false;

    sp_buf_printf(buf, "%-31s%5s", device->name, kind != NULL ? kind : "-");
    cell(buf, device->memory_bytes, "B", 11);
    cell(buf, device->memory_bandwidth, "B/s", 13);
    cell(buf, flops[SP_DTYPE_FLOAT], "", 10);
    cell(buf, larger(flops[SP_DTYPE_FLOAT16], flops[SP_DTYPE_BFLOAT16]), "", 10);
    cell(buf, larger(flops[SP_DTYPE_FLOAT8E4M3FN], flops[SP_DTYPE_INT8]), "", 10);
    cell(buf, link, "B/s", 13);
    if (device->price.usd > 0)
        sp_buf_printf(buf, "%8.2f", device->price.usd);
    else
        sp_buf_printf(buf, "%8s", "-");
    sp_buf_text(buf, "  ");
    for (int i = 0; i < SP_DEVICE_FIGURES_COUNT; i++) {
        if (device->measured[i])
            sp_buf_printf(buf, "%s%s", is_any ? ", " : "", sp_device_figures_name((enum sp_device_figures)i));
        is_any = is_any || device->measured[i];
    }
    sp_buf_text(buf, is_any ? "\n" : "-\n");
}

/* ---- one device ---------------------------------------------------------------------------------------------- */

/* A line of a device's text, its paragraph wrapped. `text` is released. */
static void line(struct sp_buf *buf, const char *title, struct sp_buf *text)
{
    if (text->size > 0) {
        sp_buf_printf(buf, "  %-*s", INDENT - 2, title);
        sp_text_wrapped(buf, text->data, INDENT, WIDTH);
    }
    if (sp_buf_failed(text))
        buf->failed = true;
    sp_buf_release(text);
}

static struct sp_buf paragraph(void)
{
    struct sp_buf text;
    sp_buf_init(&text, PARAGRAPH_BYTES);
    return text;
}

static void add_scaled(struct sp_buf *text, const char *before, double value, const char *unit)
{
    sp_buf_text(text, before);
    sp_text_scaled(text, value);
    sp_buf_text(text, unit);
}

static void memory_line(const struct sp_device *device, struct sp_buf *buf)
{
    struct sp_buf text = paragraph();

    add_scaled(&text, "", device->memory_bytes, "B");
    add_scaled(&text, " at ", device->memory_bandwidth, "B/s");
    if (device->memory_reported_bytes > 0)
        add_scaled(&text, "; the driver reports ", device->memory_reported_bytes, "B");
    line(buf, "Memory", &text);
}

static void peaks_line(const struct sp_device *device, struct sp_buf *buf)
{
    struct sp_buf text = paragraph();

    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        if (device->flops[dtype] <= 0)
            continue;
        sp_buf_printf(&text, "%s%s ", text.size == 0 ? "" : ", ", sp_dtype_name(dtype));
        sp_text_scaled(&text, device->flops[dtype]);
    }
    if (device->flops_tf32 > 0)
        add_scaled(&text, ", float32 as TF32 ", device->flops_tf32, "");
    sp_buf_text(&text, " FLOP/s");
    line(buf, "Peaks", &text);
}

static void links_line(const struct sp_device *device, struct sp_buf *buf)
{
    struct sp_buf text = paragraph();

    if (device->link_bandwidth > 0) {
        add_scaled(&text, "", device->link_bandwidth, "B/s");
        if (device->link_group > 0)
            sp_buf_printf(&text, " among %u", device->link_group);
        sp_buf_text(&text, ", ");
    }
    if (device->host_bandwidth > 0)
        add_scaled(&text, "to the host ", device->host_bandwidth, "B/s, ");
    if (text.size == 0)
        sp_buf_text(&text, "none known, ");
    sp_text_seconds(&text, device->link_latency);
    sp_buf_text(&text, " a message");
    line(buf, "Links", &text);
}

static void price_line(const struct sp_device *device, struct sp_buf *buf)
{
    const struct sp_device_price *price = &device->price;
    struct sp_buf text = paragraph();

    if (price->usd > 0)
        sp_buf_printf(&text, "%.2f USD an hour (%s; %s)", price->usd,
                      price->provider != NULL ? price->provider : "no provider is named",
                      price->date != NULL ? price->date : "the list has no date");
    line(buf, "Price", &text);
}

/* Where such figures come from: the device's, measured or not, or the kind's. */
static void add_origin(struct sp_buf *text, const struct sp_device *device, enum sp_device_figures figures, bool is_own)
{
    if (!is_own)
        sp_buf_printf(text, " (default of the kind %s)", sp_device_kind_name(device->kind));
    else
        sp_buf_text(text, device->measured[figures] ? " (measured)" : " (an estimate)");
}

static void add_kernel(struct sp_buf *text, double start, double flops_share, double memory_share)
{
    sp_text_seconds(text, start);
    sp_buf_printf(text, " to start, %.1f %% of the memory bandwidth", 100 * memory_share);
    if (flops_share > 0)
        sp_buf_printf(text, ", %.1f %% of the peak", 100 * flops_share);
}

static void products_line(const struct sp_device *device, struct sp_buf *buf)
{
    struct sp_buf text = paragraph();
    bool is_any = false;

    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        const struct sp_device_product *own = &device->products[dtype];
        if (own->start_seconds <= 0 && own->flops_share <= 0 && own->memory_share <= 0)
            continue;
        const struct sp_device_product product = sp_device_product(device, (enum sp_dtype)dtype);
        sp_buf_printf(&text, "%s%s: ", is_any ? "; " : "", sp_dtype_name(dtype));
        add_kernel(&text, product.start_seconds, product.flops_share, product.memory_share);
        is_any = true;
    }
    if (!is_any) {
        const struct sp_device_product product = sp_device_product(device, SP_DTYPE_FLOAT16);
        add_kernel(&text, product.start_seconds, product.flops_share, product.memory_share);
    }
    add_origin(&text, device, SP_DEVICE_PRODUCTS, is_any);
    line(buf, "Products", &text);
}

static void kernel_lines(const struct sp_device *device, struct sp_buf *buf)
{
    const struct sp_device_prefill prefill = sp_device_prefill(device);
    const struct sp_device_decode decode = sp_device_decode(device);
    const struct sp_device_other other = sp_device_other(device), norm = sp_device_norm(device);
    struct sp_buf text = paragraph();

    add_kernel(&text, prefill.start_seconds, prefill.flops_share, prefill.memory_share);
    if (prefill.half_queries > 0)
        sp_buf_printf(&text, ", half of it with %.0f queries", prefill.half_queries);
    add_origin(&text, device, SP_DEVICE_ATTENTION, device->prefill.memory_share > 0);
    line(buf, "Prefill", &text);
    text = paragraph();
    add_kernel(&text, decode.start_seconds, 0, decode.memory_share);
    if (decode.tile_keys > 0)
        sp_buf_printf(&text, ", %.0f keys at least", decode.tile_keys);
    add_origin(&text, device, SP_DEVICE_ATTENTION, device->decode.memory_share > 0);
    line(buf, "Decode", &text);
    text = paragraph();
    add_kernel(&text, other.start_seconds, 0, other.memory_share);
    add_origin(&text, device, SP_DEVICE_OTHER, device->other.memory_share > 0);
    line(buf, "Other kernels", &text);
    text = paragraph();
    add_kernel(&text, norm.start_seconds, 0, norm.memory_share);
    add_origin(&text, device, SP_DEVICE_OTHER, device->norm.memory_share > 0 || device->other.memory_share > 0);
    line(buf, "Kernels by rows", &text);
}

static void collectives_line(const struct sp_device *device, struct sp_buf *buf)
{
    static const uint32_t sizes[SP_DEVICE_GROUP_SIZES] = {2, 4, 8};
    struct sp_buf text = paragraph();
    uint32_t count;
    const struct sp_device_library *libraries = sp_device_libraries(device, &count);

    for (uint32_t i = 0; i < count; i++) {
        for (int k = 0; k < SP_DEVICE_OPERATION_COUNT; k++) {
            const struct sp_device_collective *collective = &libraries[i].operations[k];
            if (collective->start_seconds <= 0)
                continue;
            sp_buf_printf(&text, "%s%s %s: ", text.size == 0 ? "" : "; ", libraries[i].name,
                          sp_device_operation_name((enum sp_device_operation)k));
            sp_text_seconds(&text, collective->start_seconds);
            sp_buf_text(&text, " and ");
            sp_text_seconds(&text, collective->rank_seconds);
            sp_buf_text(&text, " a device,");
            for (int size = 0; size < SP_DEVICE_GROUP_SIZES; size++)
                sp_buf_printf(&text, "%s%.1f", size == 0 ? " " : "/",
                              100 * sp_device_link_share(collective, sizes[size]));
            sp_buf_text(&text, " % of the link among 2/4/8");
        }
    }
    if (count > 0)
        add_origin(&text, device, SP_DEVICE_COLLECTIVES, device->library_count > 0);
    line(buf, "Collectives", &text);
}

static void narrowing_line(const struct sp_device *device, struct sp_buf *buf)
{
    struct sp_buf text = paragraph();

    for (uint32_t i = 0; i < device->narrowing_count; i++) {
        const struct sp_device_narrowing *narrowing = &device->narrowings[i];
        sp_buf_printf(&text, "%s%s: ", i == 0 ? "" : "; ", narrowing->runtime);
        add_kernel(&text, narrowing->start_seconds, 0, narrowing->memory_share);
    }
    line(buf, "Narrowing", &text);
}

/* Where nine of ten measured times lie, as shares of what we say. */
static void residuals_line(const struct sp_device *device, struct sp_buf *buf)
{
    struct sp_buf text = paragraph();

    for (int class = 0; class < SP_DEVICE_CLASS_COUNT; class ++) {
        const struct sp_device_residual *residual = &device->residuals[class];
        if (residual->low > 0)
            sp_buf_printf(&text, "%s%s %.0f to %.0f %%", text.size == 0 ? "" : ", ",
                          sp_device_class_name((enum sp_device_class) class), 100 / residual->high,
                          100 / residual->low);
    }
    if (text.size > 0)
        sp_buf_text(&text, " of what is said, in nine of ten measurements");
    line(buf, "Measured", &text);
}

static void slices_line(const struct sp_device *device, struct sp_buf *buf)
{
    const size_t size = strlen(device->name);
    struct sp_buf text = paragraph();
    uint32_t count;
    const struct sp_device *slices = sp_device_slices(&count);

    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(slices[i].name, device->name, size) == 0 && slices[i].name[size] == '/')
            sp_buf_printf(&text, "%s%s", text.size == 0 ? "" : ", ", slices[i].name);
    }
    line(buf, "Slices", &text);
}

static void source_lines(const struct sp_device *device, struct sp_buf *buf)
{
    if (device->source_count == 0)
        return;
    sp_buf_text(buf, "\n  Sources\n");
    for (uint32_t i = 0; i < device->source_count; i++) {
        sp_buf_printf(buf, "    %-*s", SOURCE_INDENT - 4, device->sources[i].path);
        sp_text_wrapped(buf, device->sources[i].text, SOURCE_INDENT, WIDTH);
    }
}

void sp_device_text(const struct sp_device *device, struct sp_buf *buf)
{
    const char *kind = sp_device_kind_name(device->kind);
    struct sp_buf text = paragraph();

    sp_buf_printf(buf, "%s: %s (%s", device->name, device->title != NULL ? device->title : device->name,
                  kind != NULL ? kind : "of no kind");
    if (device->units > 0)
        sp_buf_printf(buf, ", %u units", device->units);
    if (device->watts > 0)
        sp_buf_printf(buf, ", %.0f W", device->watts);
    sp_buf_text(buf, ")\n");
    memory_line(device, buf);
    peaks_line(device, buf);
    links_line(device, buf);
    price_line(device, buf);
    products_line(device, buf);
    narrowing_line(device, buf);
    kernel_lines(device, buf);
    collectives_line(device, buf);
    residuals_line(device, buf);
    slices_line(device, buf);
    if (device->note != NULL)
        sp_buf_text(&text, device->note);
    line(buf, "Note", &text);
    text = paragraph();
    sp_buf_text(&text, device->source);
    line(buf, "From", &text);
    source_lines(device, buf);
}
