/*
 * An errand about a plan: the index of one that was made before plans had indexes, or of which it was lost.
 *
 * The plan is made again from its placement record, without a search. What that does not bring, its diagnostics and the
 * seconds of its search, is taken from the JSON; what a sweep and a what-if found stands in the summary as the JSON has
 * it.
 */
#include <errno.h>
#include <unistd.h>

#include "index/write.h"
#include "plan/subject.h"
#include "worker/internal.h"

static enum sp_status damaged(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_IO, "PLAN_DAMAGED", "The stored plan cannot be read.");
}

/* Where what stands in the file. */
static enum sp_status scan_plan(const struct work *work, struct sp_index_scan *scan, struct sp_error *err)
{
    char buffer[64 * 1024];
    ssize_t got = 0;
    const int fd = work_file(work, "plan");
    if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0)
        return damaged(err);
    while ((got = TEMP_FAILURE_RETRY(read(fd, buffer, sizeof buffer))) > 0)
        sp_index_scan_take(scan, buffer, (size_t)got);
    return got == 0 ? SP_OK : damaged(err);
}

/* The diagnostics as the plan had them; their texts are those of the JSON. */
static enum sp_status read_notes(struct sp_arena *arena, const json_t *diagnostics, struct sp_plan *plan,
                                 struct sp_error *err)
{
    const size_t count = json_array_size(diagnostics);
    struct sp_plan_note *notes = SP_NEW_ARRAY(arena, count, struct sp_plan_note);
    if (notes == NULL || count > UINT32_MAX)
        return sp_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(diagnostics, i);
        notes[i] = (struct sp_plan_note){.code = json_string_value(json_object_get(entry, "code")),
                                         .severity = json_string_value(json_object_get(entry, "severity")),
                                         .message = json_string_value(json_object_get(entry, "message")),
                                         .node = json_string_value(json_object_get(entry, "node")),
                                         .tensor = json_string_value(json_object_get(entry, "tensor"))};
        if (notes[i].code == NULL || notes[i].severity == NULL || notes[i].message == NULL)
            return damaged(err);
    }
    plan->notes = notes;
    plan->note_count = (uint32_t)count;
    return SP_OK;
}

static enum sp_status write_index(struct work *work, const json_t *json, struct sp_arena *arena,
                                  struct sp_index_scan *scan, const struct sp_sink *sink, struct sp_error *err)
{
    struct sp_job_options options;
    struct sp_job *job = NULL;
    struct sp_plan *again = NULL;
    work_options(work, &options);
    enum sp_status status = sp_plan_from_json(&options, json, arena, &job, &again, err);
    if (status == SP_OK) {
        struct sp_plan plan = *again;
        const struct sp_index_source source = {
            .plan = &plan,
            .scan = scan,
            .search_seconds = json_number_value(json_object_get(json_object_get(json, "search"), "seconds")),
            .hash_seed = options.hash_seed};
        status = read_notes(arena, json_object_get(json, "diagnostics"), &plan, err);
        if (status == SP_OK)
            status = sp_index_write(&source, sink, err);
    }
    sp_job_destroy(job);
    return status;
}

enum sp_status work_index(struct work *work, const json_t *request, struct output *output, struct sp_error *err)
{
    const struct sp_sink sink = work_sink(output);
    (void)request;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_index_scan *scan = arena != NULL ? sp_index_scan_create(arena) : NULL;
    enum sp_status status = scan != NULL ? scan_plan(work, scan, err) : sp_fail_memory(err);
    json_t *json = status == SP_OK ? work_load(work, "plan") : NULL;
    if (status == SP_OK && json == NULL)
        status = damaged(err);
    if (status == SP_OK)
        status = write_index(work, json, arena, scan, &sink, err);
    json_decref(json);
    sp_arena_destroy(arena);
    return status;
}
