/* What realizing a subject takes, and what a manifest says of its plan. */
#include <string.h>

#include "export/files.h"
#include "plan/micro/micro.h"

bool sp_file_is_repository(const char *format)
{
    return strcmp(format, "genai") == 0 || strcmp(format, "triton") == 0 || strcmp(format, "triton-tensorrt") == 0;
}

static enum sp_status on_part_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    const struct sp_file_request *request = context;
    return request->note(request->note_context, note->code, note->node, note->message, err);
}

struct sp_realize_request sp_file_realization(const struct sp_file_request *request, struct sp_links *links)
{
    const struct sp_subject *subject = request->subject;
    const struct sp_micro_batches *micro = subject->plan != NULL ? subject->plan->micro : NULL;
    if (subject->plan != NULL)
        *links = sp_cluster_links(subject->plan->cluster);
    struct sp_realize_forms forms = request->forms.realize;
    forms.is_whole = forms.is_whole || sp_file_is_repository(request->format);
    return (struct sp_realize_request){
        .partition = {.model = subject->model,
                      .assignment = subject->assignment,
                      .links = subject->plan != NULL ? links : NULL,
                      .watch = request->watch},
        .forms = forms,
        .external = request->external,
        .cuts = micro != NULL && micro->cuts.count > 1 ? &micro->cuts : NULL,
        .note = request->note != NULL ? on_part_note : NULL,
        .note_context = (void *)(uintptr_t)request,
    };
}

void sp_file_write_estimate(const struct sp_plan *plan, struct sp_json *json)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    sp_json_key(json, "estimate");
    sp_json_begin_object(json);
    sp_json_member_double(json, "latency_seconds", evaluation->latency_seconds);
    sp_json_member_double(json, "interval_seconds", sp_evaluation_interval(evaluation));
    sp_json_member_double(json, "throughput_per_second", 1 / sp_evaluation_interval(evaluation));
    sp_json_end_object(json);
}
