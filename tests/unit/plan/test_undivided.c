#include <criterion/criterion.h>

#include "onnx_bytes.h"
#include "plan/job.h"

/* The note about axes that so many devices do not divide, or "". To be freed. */
static char *note_of(const struct onnx_mlp *model, uint32_t devices, const char *strategy)
{
    struct sp_plan_options options;
    struct sp_cluster *cluster;
    struct sp_plan *plan;
    struct sp_job *job;
    struct sp_error err = {0};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_buf file;
    const char *found = "";
    json_t *description = json_pack("{s:s, s:i}", "device", "h100-sxm-80gb", "count", (int)devices);
    onnx_mlp(&file, model);
    cr_assert_eq(sp_cluster_parse(arena, description, "", &cluster, &err), SP_OK, "%s", err.message);
    json_decref(description);
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    cr_assert(sp_search_strategy_parse(strategy, &options.strategy));
    const struct sp_job_options job_options = {.bytes = file.data, .size = file.size, .name = "mlp.onnx"};
    cr_assert_eq(sp_job_plan(&job_options, cluster, &options, &job, &plan, &err), SP_OK, "%s", err.message);
    for (uint32_t i = 0; i < plan->note_count; i++)
        if (strcmp(plan->notes[i].code, "AXIS_NOT_DIVISIBLE") == 0)
            found = plan->notes[i].message;
    char *kept = strdup(found);
    sp_job_destroy(job);
    sp_arena_destroy(arena);
    sp_buf_release(&file);
    return kept;
}

static void expect_note(int64_t width, uint32_t devices, const char *strategy, const char *message)
{
    const struct onnx_mlp model = {.layers = 2, .width = width, .batch = "8"};

    char *note = note_of(&model, devices, strategy);
    cr_expect_str_eq(note, message, "%lld on %u: '%s'", (long long)width, devices, note);
    free(note);
}

/* The weights of an mlp are square: what divides their axis is what divides them. */
Test(undivided, names_axes_and_numbers)
{
    expect_note(1280, 3, "auto",
                "100 % of the FLOPs are in operators that 3 devices cannot share evenly (axis 0 of 'w0': 1280); 2, 4, "
                "5, 8, 10, 16, 20 or 32 could.");
    expect_note(1021, 2, "auto",
                "100 % of the FLOPs are in operators that 2 devices cannot share evenly (axis 0 of 'w0': 1021); no "
                "number up to 64 could.");
}

Test(undivided, is_silent)
{
    expect_note(1280, 4, "auto", "");
    expect_note(1280, 3, "pipeline", "");
    expect_note(1280, 1, "auto", "");
}
