/* Micro-batches as JSON and as text. */
#include <inttypes.h>

#include "plan/answer/readable_text.h"
#include "plan/internal.h"
#include "plan/micro/micro.h"

#define INDENT  12
#define COLUMNS 100

static void write_tensors(const char *name, uint32_t count, const struct sp_cut_tensor *tensors, struct sp_json *json)
{
    sp_json_key(json, name);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", tensors[i].name);
        sp_json_key(json, "axis");
        if (tensors[i].axis == SP_CUT_WHOLE)
            sp_json_null(json);
        else
            sp_json_int(json, tensors[i].axis);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_trials(const struct sp_micro_batches *micro, struct sp_json *json)
{
    sp_json_key(json, "trials");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < micro->trial_count; i++) {
        const struct sp_micro_trial *trial = &micro->trials[i];
        sp_json_begin_object(json);
        sp_json_member_int(json, "count", trial->count);
        sp_json_member_bool(json, "fits", trial->fits);
        if (trial->fits) {
            sp_json_member_double(json, "latency_seconds", trial->latency_seconds);
            sp_json_member_double(json, "interval_seconds", trial->interval_seconds);
            sp_json_member_double(json, "memory_bytes", trial->memory_bytes);
            sp_json_member_int(json, "devices_used", trial->devices_used);
            sp_json_member_string(json, "description", trial->description);
        } else {
            sp_json_member_string(json, "message", trial->message);
        }
        sp_json_member_bool(json, "chosen", trial->is_chosen);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

void sp_micro_batches_write(uint32_t count, struct sp_json *json)
{
    if (count == SP_MICRO_BATCHES_AUTO)
        sp_json_member_string(json, "micro_batches", "auto");
    else if (count > 0)
        sp_json_member_int(json, "micro_batches", count);
}

/* Seconds between two micro-batches in one copy of the plan. */
static double step_of(const struct sp_plan *plan)
{
    return plan->result->evaluation->interval_seconds * sp_placement_copies(&plan->result->placement);
}

static void say_cut(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_micro_batches *micro = plan->micro;
    sp_buf_printf(buf, "%u of %" PRId64 " each ('%.60s'): one takes ", micro->cuts.count,
                  micro->batch / micro->cuts.count, micro->dimension);
    sp_text_seconds(buf, plan->result->evaluation->run_seconds);
    sp_buf_printf(buf, " alone, and each of the %u behind it leaves ", micro->cuts.count - 1);
    sp_text_seconds(buf, step_of(plan));
    sp_buf_text(buf, " later. Times of stages and transfers are of all of them");
}

/* "; with 1 a request takes 4 ms, one every 3 ms; with 2 ..": what else was looked at. */
static void say_trials(const struct sp_micro_batches *micro, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < micro->trial_count; i++) {
        const struct sp_micro_trial *trial = &micro->trials[i];
        if (trial->is_chosen)
            continue;
        sp_buf_printf(buf, "; with %u ", trial->count);
        if (!trial->fits) {
            sp_buf_text(buf, "no plan fits");
            continue;
        }
        sp_buf_text(buf, "a request takes ");
        sp_text_seconds(buf, trial->latency_seconds);
        sp_buf_text(buf, ", one every ");
        sp_text_seconds(buf, trial->interval_seconds);
    }
}

static void say(const struct sp_plan *plan, struct sp_buf *buf)
{
    if (plan->micro->cuts.count > 1)
        say_cut(plan, buf);
    else
        sp_buf_text(buf, "1: requests are not cut, since that is no better by more than the tolerance");
    say_trials(plan->micro, buf);
    sp_buf_text(buf, ".");
}

void sp_micro_batches_write_json(const struct sp_plan *plan, struct sp_json *json)
{
    const struct sp_micro_batches *micro = plan->micro;
    struct sp_buf text;
    if (micro == NULL)
        return;
    sp_buf_init(&text, SP_REASON_BYTES);
    say(plan, &text);
    sp_json_key(json, "micro_batches");
    sp_json_begin_object(json);
    sp_json_member_int(json, "count", micro->cuts.count);
    sp_json_member_int(json, "batch", micro->batch);
    sp_json_member_string(json, "dimension", micro->dimension);
    sp_json_member_double(json, "latency_seconds", plan->result->evaluation->run_seconds);
    sp_json_member_double(json, "interval_seconds", step_of(plan));
    write_tensors("inputs", micro->cuts.input_count, micro->cuts.inputs, json);
    write_tensors("outputs", micro->cuts.output_count, micro->cuts.outputs, json);
    if (micro->trial_count > 0)
        write_trials(micro, json);
    if (sp_buf_failed(&text))
        json->failed = true;
    else
        sp_json_member_string(json, "because", text.data);
    sp_json_end_object(json);
    sp_buf_release(&text);
}

void sp_micro_batches_write_text(const struct sp_plan *plan, struct sp_buf *buf)
{
    struct sp_buf text;
    if (plan->micro == NULL)
        return;
    sp_buf_init(&text, SP_REASON_BYTES);
    say(plan, &text);
    sp_buf_text(buf, "Micro-      ");
    sp_text_wrapped(buf, text.data != NULL ? text.data : "", INDENT, COLUMNS);
    buf->failed = buf->failed || sp_buf_failed(&text);
    sp_buf_release(&text);
}
