/*
 * Proofs of plans: looks of bounded cost, and what a plan says of them.
 */
#include "base/array.h"
#include "plan/internal.h"
#include "plan/proof/proof.h"

/* Of a look at a plan: what the numbers take, beside what the nodes do. */
#define MAX_NUMBER_BYTES ((size_t)64 << 20)

/* The annotations of a model in memory, which those of a plan replace for a while. */
struct annotations {
    struct sp_arena *arena;
    struct sp_dataflow *dataflow;
    struct sp_node_configuration **entries;
    uint32_t *counts;
};

static enum sp_status keep_annotations(struct sp_model *model, struct annotations *kept, struct sp_error *err)
{
    kept->arena = sp_arena_create(NULL);
    if (kept->arena == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_dataflow_create(kept->arena, model, &kept->dataflow, err);
    if (status != SP_OK)
        return status;
    const uint32_t count = kept->dataflow->node_count;
    kept->entries = SP_NEW_ARRAY(kept->arena, count, struct sp_node_configuration *);
    kept->counts = SP_NEW_ARRAY(kept->arena, count, uint32_t);
    if (kept->entries == NULL || kept->counts == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        kept->entries[i] = kept->dataflow->nodes[i]->configurations;
        kept->counts[i] = kept->dataflow->nodes[i]->configuration_count;
    }
    return SP_OK;
}

static void put_back_annotations(struct annotations *kept)
{
    for (uint32_t i = 0; kept->counts != NULL && i < kept->dataflow->node_count; i++) {
        kept->dataflow->nodes[i]->configurations = kept->entries[i];
        kept->dataflow->nodes[i]->configuration_count = kept->counts[i];
    }
    sp_arena_destroy(kept->arena);
}

static enum sp_status refuse(const struct sp_verification *found, struct sp_arena *arena, struct sp_error *err)
{
    const char *first = sp_verification_failures(found) > 0 ? sp_verification_failure(found, 0, arena) : "";
    return sp_fail(
        err, SP_ERR_INTERNAL, "PLAN_REFUTED",
        "The devices of the plan that was found would not compute what the model computes: %s This is a fault "
        "of Shardplan; please report it.",
        first != NULL ? first : "");
}

/* One sentence for a look that did not come to its end. */
static enum sp_status set_reason(struct sp_plan *plan, const char *reason, struct sp_error *err)
{
    const char **reasons = SP_NEW(plan->arena, const char *);
    if (reasons == NULL || (reasons[0] = sp_arena_printf(plan->arena, "%s", reason)) == NULL)
        return sp_fail_memory(err);
    plan->proof->state = "undecided";
    plan->proof->reason_count = 1;
    plan->proof->reasons = reasons;
    return SP_OK;
}

static enum sp_status tell_error(struct sp_plan *plan, const struct sp_error *why, struct sp_error *err)
{
    switch (why->status) {
    case SP_ERR_MEMORY:
        return set_reason(plan, "The verification would take more memory than it is given.", err);
    case SP_ERR_CANCELLED:
        return set_reason(plan, "The verification was stopped before its end.", err);
    default:
        return set_reason(plan, why->message, err);
    }
}

/* How many nodes all devices run, but for what they exchange; one device has all where nothing says where they are. */
static uint64_t count_nodes(const struct sp_subject *subject)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < subject->model->graph->node_count; i++)
        count += subject->nodes[i].device_count > 0 ? (uint64_t)subject->nodes[i].device_count : 1;
    return count;
}

static enum sp_status tell_size(struct sp_plan *plan, uint64_t count, uint64_t most, struct sp_error *err)
{
    const char *reason = sp_arena_printf(
        plan->arena, "The devices run %llu nodes, and %s up to %llu; 'shardplan verify' takes its files.",
        (unsigned long long)count,
        most < SP_MAX_PROOF_NODES ? "in the time that is left a plan is verified" : "a plan is verified",
        (unsigned long long)most);
    return reason != NULL ? set_reason(plan, reason, err) : sp_fail_memory(err);
}

static enum sp_status tell_found(struct sp_plan *plan, const struct sp_verification *found, struct sp_error *err)
{
    const uint32_t count = sp_verification_failures(found);
    const char **reasons = SP_NEW_ARRAY(plan->arena, count, const char *);
    if (sp_verification_verdict(found) == SP_REFUTED)
        return refuse(found, plan->arena, err);
    for (uint32_t i = 0; reasons != NULL && i < count; i++) {
        if ((reasons[i] = sp_verification_failure(found, i, plan->arena)) == NULL)
            return sp_fail_memory(err);
    }
    plan->proof->state = count == 0 ? "proved" : "undecided";
    plan->proof->nodes = sp_verification_nodes(found);
    plan->proof->elements = sp_verification_elements(found);
    plan->proof->reason_count = count;
    plan->proof->reasons = reasons;
    return reasons != NULL ? SP_OK : sp_fail_memory(err);
}

/* A brief look, and where it decides nothing another one, of what may be a small model; where the evaluation
   runs out of memory, a longer one would, too. What it refutes is looked at without its bounds. */
static enum sp_status look(const struct sp_subject *subject, const struct sp_watch *watch, struct sp_proof **ret_proof,
                           struct sp_error *err)
{
    struct sp_proof_options options = {.watch = watch, .number_bytes = MAX_NUMBER_BYTES, .is_brief = true};
    struct sp_proof *brief = NULL;
    struct sp_error ignored = {0};
    const enum sp_status status = sp_proof_create(subject, &options, &brief, err);
    if (status != SP_OK)
        return status;
    const enum sp_verdict verdict = sp_verification_verdict(sp_proof_verification(brief));
    options.is_brief = false;
    if (verdict == SP_REFUTED)
        options.number_bytes = 0;
    if (verdict == SP_PROVED || sp_proof_create(subject, &options, ret_proof, &ignored) != SP_OK)
        *ret_proof = brief;
    else
        sp_proof_destroy(brief);
    return SP_OK;
}

enum sp_status sp_plan_prove(struct sp_job *job, struct sp_plan *plan, uint64_t most_nodes,
                             const struct sp_watch *watch, struct sp_error *err)
{
    struct annotations kept = {0};
    struct sp_subject *subject = NULL;
    struct sp_proof *proof = NULL;
    struct sp_error why = {0};
    if (plan->model == NULL)
        return SP_OK;
    plan->proof = SP_NEW(plan->arena, struct sp_plan_proof);
    if (plan->proof == NULL)
        return sp_fail_memory(err);
    enum sp_status status = keep_annotations(job->model, &kept, &why);
    if (status == SP_OK)
        status = sp_subject_from_plan(job, plan, &subject, &why);
    const uint64_t count = status == SP_OK ? count_nodes(subject) : 0;
    if (status == SP_OK && count <= most_nodes)
        status = look(subject, watch, &proof, &why);
    status = status != SP_OK ? tell_error(plan, &why, err)
             : proof != NULL ? tell_found(plan, sp_proof_verification(proof), err)
                             : tell_size(plan, count, most_nodes, err);
    sp_proof_destroy(proof);
    sp_subject_destroy(subject);
    put_back_annotations(&kept);
    return status;
}
