/* What devices run in each phase of a service, and in which configuration of the annotated model. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "plan/internal.h"
#include "plan/service/internal.h"

/* ---- whether two phases have their tensors in one way ------------------------------------------------------------ */

#define MAX_SPEC_BYTES ((size_t)1 << 24)

static enum sp_status same_spec(struct sp_arena *scratch, const struct sp_sharding_spec *a,
                                const struct sp_sharding_spec *b, struct sp_buf bytes[2], bool *ret_same,
                                struct sp_error *err)
{
    sp_buf_clear(&bytes[0]);
    sp_buf_clear(&bytes[1]);
    enum sp_status status = sp_encode_sharding_spec(a, scratch, &bytes[0], err);
    if (status == SP_OK)
        status = sp_encode_sharding_spec(b, scratch, &bytes[1], err);
    if (status == SP_OK)
        *ret_same = bytes[0].size == bytes[1].size && memcmp(bytes[0].data, bytes[1].data, bytes[0].size) == 0;
    return status;
}

static enum sp_status same_node(struct sp_arena *scratch, const struct sp_node_configuration *a,
                                const struct sp_node_configuration *b, struct sp_buf bytes[2], bool *ret_same,
                                struct sp_error *err)
{
    enum sp_status status = SP_OK;
    *ret_same = a->stage == b->stage && a->spec_count == b->spec_count;
    for (uint32_t i = 0; status == SP_OK && *ret_same && i < a->spec_count; i++)
        status = same_spec(scratch, &a->specs[i], &b->specs[i], bytes, ret_same, err);
    return status;
}

/* Whether one annotation of the model says what both phases do. */
static enum sp_status same_annotations(const struct sp_plan *a, const struct sp_plan *b, bool *ret_same,
                                       struct sp_error *err)
{
    const struct sp_arena_mark mark_a = sp_arena_mark(a->arena), mark_b = sp_arena_mark(b->arena);
    struct sp_annotations of_a, of_b;
    struct sp_buf bytes[2];
    sp_buf_init(&bytes[0], MAX_SPEC_BYTES);
    sp_buf_init(&bytes[1], MAX_SPEC_BYTES);
    enum sp_status status = sp_plan_annotations(a, &of_a, err);
    if (status == SP_OK)
        status = sp_plan_annotations(b, &of_b, err);
    *ret_same = status == SP_OK && of_a.count == of_b.count;
    for (uint32_t n = 0; status == SP_OK && *ret_same && n < of_a.count; n++)
        status = same_node(b->arena, &of_a.nodes[n].configuration, &of_b.nodes[n].configuration, bytes, ret_same, err);
    sp_buf_release(&bytes[0]);
    sp_buf_release(&bytes[1]);
    sp_arena_rewind(b->arena, mark_b);
    sp_arena_rewind(a->arena, mark_a);
    return status;
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

/* The phase's name where it can stand in a file's, else its number. */
static const char *file_name_of(struct sp_arena *arena, const char *name, uint32_t number)
{
    const size_t length = strlen(name);
    bool is_plain = length > 0 && length <= SP_PHASE_NAME_IN_FILES && strncmp(name, "part-", 5) != 0;
    for (size_t i = 0; i < length; i++)
        is_plain = is_plain && (isalnum((unsigned char)name[i]) || name[i] == '-' || name[i] == '_');
    return is_plain ? name : sp_arena_printf(arena, "phase-%u", number + 1);
}

/* The configuration of the plan or of an earlier phase that says the same, or one of its own. */
static enum sp_status find_configuration(struct sp_arena *arena, const struct sp_plan *plan,
                                         struct sp_service_phase *phases, uint32_t index, struct sp_plan *of_phase,
                                         struct sp_error *err)
{
    bool is_same = false;
    enum sp_status status = same_annotations(plan, of_phase, &is_same, err);
    if (is_same)
        of_phase->configuration = plan->configuration;
    for (uint32_t i = 0; status == SP_OK && !is_same && i < index; i++) {
        if (phases[i].plan == NULL || phases[i].configuration == plan->configuration)
            continue;
        status = same_annotations(phases[i].plan, of_phase, &is_same, err);
        if (is_same)
            of_phase->configuration = phases[i].configuration;
    }
    if (status == SP_OK && !is_same)
        of_phase->configuration = sp_arena_printf(arena, SP_PLAN_CONFIGURATION ".%s", phases[index].name);
    phases[index].configuration = of_phase->configuration;
    return status == SP_OK && of_phase->configuration == NULL ? sp_fail_memory(err) : status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

enum sp_status sp_serve_phase_plans(const struct sp_trial *trial, struct sp_service_phase *phases, uint32_t count,
                                    struct sp_error *err)
{
    struct sp_arena *arena = trial->serving->arena;
    const struct sp_plan *plan = sp_copy_plan_of(trial->copy);
    enum sp_status status = SP_OK;
    if (plan->model == NULL || plan->result->routes != NULL)
        return SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        struct sp_service_phase *phase = &phases[i];
        struct sp_plan *of_phase = NULL;
        struct sp_error why = {0};
        status = sp_copy_add_phase(trial->copy, &(struct sp_cut_sizes){phase->sizes, phase->micro_batches}, &phase->job,
                                   &of_phase, &why);
        if (status == SP_ERR_MEMORY) { /* the plan is one without it */
            status = SP_OK;
            continue;
        }
        if (status != SP_OK && err != NULL)
            *err = why;
        if (status == SP_OK && of_phase == NULL) {
            phase->configuration = plan->configuration;
        } else if (status == SP_OK) {
            status = find_configuration(arena, plan, phases, i, of_phase, err);
            phase->plan = of_phase;
            phase->file_name = file_name_of(arena, phase->name, i);
            if (status == SP_OK && phase->file_name == NULL)
                status = sp_fail_memory(err);
        }
    }
    return status;
}
