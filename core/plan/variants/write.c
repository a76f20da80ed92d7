#include "base/units.h"
#include "plan/answer/readable_text.h"
#include "plan/variants/internal.h"

#define NAME_COLUMNS        42
#define SWEEP_COLUMNS       40
#define DESCRIPTION_COLUMNS 60 /* of the last cell: only plans of many kinds of stages are that long */

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void write_fits(const struct sp_variant *row, struct sp_json *json)
{
    sp_json_key(json, "fits");
    if (row->state == SP_VARIANT_OPEN)
        sp_json_null(json);
    else
        sp_json_bool(json, row->state == SP_VARIANT_FITS);
}

static void write_figure(struct sp_json *json, const char *name, bool fits, double value)
{
    sp_json_key(json, name);
    if (fits)
        sp_json_double(json, value);
    else
        sp_json_null(json);
}

static void write_count(struct sp_json *json, const char *name, bool fits, uint32_t value)
{
    sp_json_key(json, name);
    if (fits)
        sp_json_int(json, value);
    else
        sp_json_null(json);
}

static void write_figures(const struct sp_variant *row, const char *devices, struct sp_json *json)
{
    const bool fits = row->state == SP_VARIANT_FITS;
    write_figure(json, "latency_seconds", fits, row->latency_seconds);
    write_figure(json, "interval_seconds", fits, row->interval_seconds);
    write_figure(json, "throughput_per_second", fits, 1 / row->interval_seconds);
    write_count(json, devices, fits, row->devices_used);
    write_count(json, "stages", fits, row->stage_count);
    write_figure(json, "memory_bytes", fits, row->memory_bytes);
    sp_json_member_string(json, "description", row->description);
    sp_json_member_string(json, "message", row->message);
}

static void write_sweep(const struct sp_variants *rows, struct sp_json *json)
{
    sp_json_key(json, "sweep");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sp_variant *row = &rows->rows[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "device", row->device);
        sp_json_member_int(json, "devices_available", row->devices_available);
        write_fits(row, json);
        write_figures(row, "devices_used", json);
        sp_json_member_bool(json, "chosen", row->is_chosen);
        sp_json_member_bool(json, "pareto", row->is_pareto);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_what_if(const struct sp_variants *rows, struct sp_json *json)
{
    sp_json_key(json, "what_if");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sp_variant *row = &rows->rows[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "change", row->change);
        sp_json_member_int(json, "devices_available", row->devices_available);
        write_fits(row, json);
        write_figure(json, "gain", row->state == SP_VARIANT_FITS, row->gain);
        sp_json_member_bool(json, "kept", row->is_kept);
        write_figures(row, "devices", json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

void sp_variants_write_json(const struct sp_plan *plan, struct sp_json *json)
{
    if (plan->sweep != NULL)
        write_sweep(plan->sweep, json);
    if (plan->what_if != NULL)
        write_what_if(plan->what_if, json);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void cell(struct sp_buf *buf, struct sp_buf *text, int width)
{
    sp_buf_printf(buf, "%*s", width, text->size > 0 ? text->data : "");
    sp_buf_clear(text);
}

static void name_cell(struct sp_buf *buf, struct sp_buf *text, const char *name, int width)
{
    sp_text_cut(text, name, (size_t)width);
    sp_buf_printf(buf, "%-*s", width + 1, text->size > 0 ? text->data : "");
    sp_buf_clear(text);
}

/* Latency, interval and memory. */
static void figure_cells(struct sp_buf *buf, struct sp_buf *text, const struct sp_variant *row)
{
    sp_text_seconds(text, row->latency_seconds);
    cell(buf, text, 9);
    sp_text_seconds(text, row->interval_seconds);
    cell(buf, text, 9);
    sp_text_bytes(text, row->memory_bytes);
    cell(buf, text, 10);
    sp_buf_text(buf, "  ");
}

/* Why there are no figures. */
static void state_cell(struct sp_buf *buf, const struct sp_variant *row)
{
    sp_buf_text(buf, row->state == SP_VARIANT_OPEN ? "not looked at\n" : "no plan fits\n");
}

static void sweep_lines(const struct sp_variants *rows, struct sp_buf *text, struct sp_buf *buf)
{
    bool has_pareto = false;
    sp_buf_printf(buf, "\n%-*s%9s%9s%10s  Plan\n", SWEEP_COLUMNS + 1, "Clusters that were asked about", "Latency",
                  "Interval", "Memory");
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sp_variant *row = &rows->rows[i];
        struct sp_buf name;
        sp_buf_init(&name, SP_REASON_BYTES);
        if (!row->is_mixed)
            sp_buf_printf(&name, "%3u device%s %s", row->devices_available,
                          row->devices_available == 1 ? ": " : "s:", row->device);
        else
            sp_buf_printf(&name, "  %s", row->device); /* of several groups: it has the numbers */
        name_cell(buf, text, name.data != NULL ? name.data : "", SWEEP_COLUMNS);
        sp_buf_release(&name);
        if (row->state != SP_VARIANT_FITS) {
            state_cell(buf, row);
            continue;
        }
        figure_cells(buf, text, row);
        sp_text_cut(buf, row->description, DESCRIPTION_COLUMNS);
        sp_buf_printf(buf, "%s%s\n", row->is_pareto ? " *" : "", row->is_chosen ? "  this plan" : "");
        has_pareto = has_pareto || row->is_pareto;
    }
    if (has_pareto)
        sp_buf_text(buf, "(*: no other is as quick in everything with as few devices)\n");
}

static void what_if_lines(const struct sp_variants *rows, struct sp_buf *text, struct sp_buf *buf)
{
    sp_buf_printf(buf, "\n%-*s%8s%9s%9s%10s  Plan\n", NAME_COLUMNS + 1, "What if", "Gain", "Latency", "Interval",
                  "Memory");
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sp_variant *row = &rows->rows[i];
        name_cell(buf, text, row->change, NAME_COLUMNS);
        if (row->state != SP_VARIANT_FITS) {
            state_cell(buf, row);
            continue;
        }
        sp_buf_printf(text, "%+.1f%%", 100 * row->gain + 0.0);
        cell(buf, text, 8);
        figure_cells(buf, text, row);
        sp_text_cut(buf, row->is_kept ? "the same" : row->description, DESCRIPTION_COLUMNS);
        sp_buf_text(buf, "\n");
        if (row->message != NULL) {
            sp_buf_text(buf, "       ");
            sp_text_wrapped(buf, row->message, 7, 100);
        }
    }
}

void sp_variants_write_text(const struct sp_plan *plan, struct sp_buf *buf)
{
    struct sp_buf text;
    sp_buf_init(&text, SP_REASON_BYTES);
    if (plan->sweep != NULL)
        sweep_lines(plan->sweep, &text, buf);
    if (plan->what_if != NULL)
        what_if_lines(plan->what_if, &text, buf);
    if (sp_buf_failed(&text))
        buf->failed = true;
    sp_buf_release(&text);
}
