#include "plan/answer/readable_text.h"
#include "plan/plan.h"

void sp_devices_write_json(struct sp_json *json)
{
    uint32_t count;
    const struct sp_device *catalog = sp_device_catalog(&count);
    sp_json_begin_object(json);
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++)
        sp_device_write(&catalog[i], true, json);
    sp_json_end_array(json);
    sp_json_end_object(json);
}

/* A cell of `width` columns, right-aligned: the number with its unit, "-" for 0. */
static void cell(struct sp_buf *buf, struct sp_buf *scratch, double value, const char *unit, int width)
{
    if (value > 0) {
        sp_text_scaled(scratch, value);
        sp_buf_text(scratch, unit);
    } else {
        sp_buf_text(scratch, "-");
    }
    sp_buf_printf(buf, "%*s", width, sp_buf_failed(scratch) ? "?" : scratch->data);
    sp_buf_clear(scratch);
}

void sp_devices_write_text(struct sp_buf *buf)
{
    uint32_t count;
    const struct sp_device *catalog = sp_device_catalog(&count);
    struct sp_buf scratch;
    sp_buf_init(&scratch, 256);
    sp_buf_printf(buf, "%-24s%12s%16s%16s%16s%16s\n", "Device", "Memory", "Bandwidth", "float32", "float16", "Link");
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_device *device = &catalog[i];
        double link = device->link_bandwidth > 0 ? device->link_bandwidth : device->host_bandwidth;
        sp_buf_printf(buf, "%-24s", device->name);
        cell(buf, &scratch, device->memory_bytes, "B", 12);
        cell(buf, &scratch, device->memory_bandwidth, "B/s", 16);
        cell(buf, &scratch, device->flops[SP_DTYPE_FLOAT], "FLOP/s", 16);
        cell(buf, &scratch, device->flops[SP_DTYPE_FLOAT16], "FLOP/s", 16);
        cell(buf, &scratch, link, "B/s", 16);
        sp_buf_text(buf, "\n");
    }
    sp_buf_text(buf, "\nFLOP/s are dense peaks; links are per device and direction. --json adds the sources.\n");
    if (sp_buf_failed(&scratch))
        buf->failed = true;
    sp_buf_release(&scratch);
}
