#pragma once
/*
 * trace_partition - what a partition tells its sink, as text; for tests with a model as in expect_view.h.
 *
 *     input  A [0:4, 0:4] -> d0                a part of a model input
 *     weight W [..] -> d1
 *     MatMul on d0                             an operator; "RandomNormal on d0 seed 7" where the part has its own
 *     all-reduce sum Y: d0 d1 | d2 d3          an exchange: groups, "!" when it is not regular
 *     result Y: d0 [0:4, 0:8]                  who has what of a model output
 *     note CODE
 *     Loop of s0 d0[2,8] d1[2,8]               control flow, its operands with their extents on the devices; for each
 *     body takes s d0[2,8] d1[2,8]             graph what it takes
 *     body gives u d0[2,8] d1[2,8]             and gives
 *     Loop makes y d0[2,8] d1[2,8]
 */
#include "expect_view.h"
#include "partition/partition.h"

static struct sp_buf trace;

static inline void trace_box(const struct sp_box *box)
{
    sp_buf_text(&trace, "[");
    for (uint32_t a = 0; a < box->rank; a++) {
        sp_buf_printf(&trace, "%s", a > 0 ? ", " : "");
        for (uint32_t i = 0; i < box->axes[a].count; i++)
            sp_buf_printf(&trace, "%s%lld:%lld", i > 0 ? "+" : "", (long long)box->axes[a].ranges[i].start,
                          (long long)box->axes[a].ranges[i].limit);
    }
    sp_buf_text(&trace, "]");
}

static inline enum sp_status trace_source(void *context, const struct sp_part_source *source, struct sp_error *err)
{
    (void)context, (void)err;
    sp_buf_printf(&trace, "%s %s ", source->is_weight ? "weight" : "input", source->value->name);
    trace_box(&source->box);
    sp_buf_printf(&trace, " -> d%lld\n", (long long)source->device);
    return SP_OK;
}

static inline enum sp_status trace_constant(void *context, const struct sp_part_constant *constant,
                                            struct sp_error *err)
{
    (void)context, (void)err;
    sp_buf_printf(&trace, "constant on d%lld\n", (long long)constant->device);
    return SP_OK;
}

static inline enum sp_status trace_op(void *context, const struct sp_part_op *op, struct sp_error *err)
{
    (void)context, (void)err;
    sp_buf_printf(&trace, "%s on d%lld", op->op_type, (long long)op->device);
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        if (strcmp(op->attributes[i].name, "seed") == 0)
            sp_buf_printf(&trace, " seed %g", op->attributes[i].f);
    }
    sp_buf_text(&trace, "\n");
    return SP_OK;
}

static inline enum sp_status trace_exchange(void *context, const struct sp_exchange *exchange, struct sp_error *err)
{
    (void)context, (void)err;
    static const char *const combiners[] = {"", " sum", " max", " min", " product", "", "", ""};
    sp_buf_printf(&trace, "%s%s %s:", sp_exchange_name(exchange), combiners[exchange->combiner],
                  exchange->value ? exchange->value->name : "a statistic");
    for (uint32_t i = 0; i < exchange->member_count; i++) {
        const struct sp_exchange_member *member = &exchange->members[i];
        sp_buf_printf(&trace, "%s d%lld", i > 0 && member->group != exchange->members[i - 1].group ? " |" : "",
                      (long long)member->device);
        struct sp_exchange_grid grid;
        if (member->after) {
            cr_assert_eq(sp_exchange_cells(build.arena, exchange, i, &grid, &build.err), SP_OK, "%s",
                         build.err.message);
            sp_buf_text(&trace, "(");
            for (uint64_t c = 0; c < grid.cell_count; c++)
                for (uint32_t s = 0; s < grid.cells[c].source_count; s++)
                    sp_buf_printf(&trace, "%s%lld",
                                  s > 0   ? "+"
                                  : c > 0 ? ","
                                          : "",
                                  (long long)exchange->members[grid.cells[c].sources[s]].device);
            sp_buf_text(&trace, ")");
        }
    }
    sp_buf_printf(&trace, "%s\n", exchange->is_regular ? "" : " !");
    return SP_OK;
}

static inline enum sp_status trace_result(void *context, const struct sp_part_result *result, struct sp_error *err)
{
    (void)context, (void)err;
    sp_buf_printf(&trace, "result %s:", result->value->name);
    for (uint32_t i = 0; i < result->holder_count; i++) {
        sp_buf_printf(&trace, " d%lld ", (long long)result->holders[i].device);
        trace_box(&result->holders[i].held);
    }
    sp_buf_text(&trace, "\n");
    return SP_OK;
}

static inline enum sp_status trace_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    (void)context, (void)err;
    sp_buf_printf(&trace, "note %s\n", note->code);
    return SP_OK;
}

static inline void trace_ports(uint32_t count, const struct sp_part_port *ports, uint32_t device_count)
{
    for (uint32_t i = 0; i < count; i++) {
        sp_buf_printf(&trace, " %s", ports[i].value ? ports[i].value->name : "-");
        for (uint32_t at = 0; ports[i].pieces && at < device_count; at++) {
            const struct sp_piece *piece = ports[i].pieces[at];
            if (!piece)
                continue;
            sp_buf_printf(&trace, " d%lld[", (long long)piece->device);
            for (uint32_t a = 0; a < piece->rank; a++)
                sp_buf_printf(&trace, "%s%lld", a > 0 ? "," : "", (long long)piece->dims[a]);
            sp_buf_text(&trace, "]");
        }
    }
    sp_buf_text(&trace, "\n");
}

static uint32_t trace_devices; /* of the control flow at work; one in another has the same in these tests */

static inline enum sp_status trace_control(void *context, const struct sp_part_control *control, struct sp_error *err)
{
    (void)context, (void)err;
    trace_devices = control->device_count;
    sp_buf_printf(&trace, "%s of", control->node->op_type);
    trace_ports(control->input_count, control->inputs, control->device_count);
    return SP_OK;
}

static inline enum sp_status trace_body(void *context, const struct sp_part_body *body, struct sp_error *err)
{
    (void)context, (void)err;
    sp_buf_printf(&trace, "%s takes", body->attribute);
    trace_ports(body->input_count, body->inputs, trace_devices);
    return SP_OK;
}

static inline enum sp_status trace_body_end(void *context, const struct sp_part_body *body, struct sp_error *err)
{
    (void)context, (void)err;
    sp_buf_printf(&trace, "%s gives", body->attribute);
    trace_ports(body->output_count, body->outputs, trace_devices);
    return SP_OK;
}

static inline enum sp_status trace_control_end(void *context, const struct sp_part_control *control,
                                               struct sp_error *err)
{
    (void)context, (void)err;
    sp_buf_printf(&trace, "%s makes", control->node->op_type);
    trace_ports(control->output_count, control->outputs, control->device_count);
    return SP_OK;
}

static inline const char *trace_partition(void)
{
    static const struct sp_part_sink sink = {.source = trace_source,
                                             .constant = trace_constant,
                                             .op = trace_op,
                                             .exchange = trace_exchange,
                                             .result = trace_result,
                                             .control_begin = trace_control,
                                             .body_begin = trace_body,
                                             .body_end = trace_body_end,
                                             .control_end = trace_control_end,
                                             .note = trace_note};
    struct sp_partition_request request = {.model = build.model, .assignment = assignment};
    sp_buf_release(&trace);
    sp_buf_init(&trace, 1 << 20);
    cr_assert_eq(sp_partition_run(build.arena, &request, &sink, &build.err), SP_OK, "%s", build.err.message);
    return trace.data ? trace.data : "";
}

#define EXPECT_TRACE(text)                                                                                             \
    do {                                                                                                               \
        const char *traced = trace_partition();                                                                        \
        cr_expect_str_eq(traced, text, "%s", traced);                                                                  \
    } while (0)
