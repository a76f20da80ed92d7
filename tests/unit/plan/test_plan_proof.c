#include <criterion/criterion.h>
#include <string.h>

#include "onnx_bytes.h"
#include "plan/job.h"
#include "plan/proof/proof.h"

/*
 * What a plan says of its proof, and that one which is refuted is none.
 *
 * No plan of ours is refuted; so the verification is asked about other devices' models than the plan's. The linker puts
 * the function below in sp_verify()'s place.
 */

static enum { HONEST, OTHER_MODEL, NO_MEMORY, CANCELLED, WRONG_FILE } behaviour;
static struct sp_buf other; /* a model with a layer too few */
static uint32_t looks;

enum sp_status __real_sp_verify(const struct sp_verify_request *request, struct sp_verification **ret_verification,
                                struct sp_error *err);
enum sp_status __wrap_sp_verify(const struct sp_verify_request *request, struct sp_verification **ret_verification,
                                struct sp_error *err);

enum sp_status __wrap_sp_verify(const struct sp_verify_request *request, struct sp_verification **ret_verification,
                                struct sp_error *err)
{
    static struct sp_verify_program program;
    static struct sp_verify_request asked; /* stays as long as what is found */
    looks++;
    asked = *request;
    switch (behaviour) {
    case NO_MEMORY:
        return sp_fail_memory(err);
    case CANCELLED:
        return sp_fail(err, SP_ERR_CANCELLED, "CANCELLED", "The verification was cancelled.");
    case WRONG_FILE:
    case OTHER_MODEL:
        program = request->programs[0];
        program.bytes = behaviour == OTHER_MODEL ? other.data : "no model";
        program.size = behaviour == OTHER_MODEL ? other.size : 8;
        asked.programs = &program;
        break;
    case HONEST:
        break;
    }
    return __real_sp_verify(&asked, ret_verification, err);
}

static struct {
    struct sp_buf file;
    struct sp_arena *arena;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error err;
} made;

static void make(void)
{
    struct sp_plan_options options;
    struct sp_cluster *cluster;
    onnx_mlp(&made.file, &(struct onnx_mlp){.layers = 3, .width = 64, .batch = "8"});
    onnx_mlp(&other, &(struct onnx_mlp){.layers = 2, .width = 64, .batch = "8"});
    const struct sp_job_options model = {.bytes = made.file.data, .size = made.file.size};
    made.arena = sp_arena_create(NULL);
    sp_plan_options_init(&options);
    cr_assert_eq(sp_cluster_uniform(made.arena, "a100-sxm4-80gb", 2, &cluster, &made.err), SP_OK);
    cr_assert_eq(sp_job_plan(&model, cluster, &options, &made.job, &made.plan, &made.err), SP_OK);
    looks = 0;
}

static void drop(void)
{
    sp_job_destroy(made.job);
    sp_arena_destroy(made.arena);
    sp_buf_release(&made.file);
    sp_buf_release(&other);
}

static enum sp_status prove(uint64_t most_nodes)
{
    sp_error_clear(&made.err);
    return sp_plan_prove(made.job, made.plan, most_nodes, NULL, &made.err);
}

static void expect_undecided(const char *sentence)
{
    cr_assert_eq(prove(SP_MAX_PROOF_NODES), SP_OK, "%s", made.err.message);
    cr_assert_str_eq(made.plan->proof->state, "undecided");
    cr_assert_eq(made.plan->proof->reason_count, 1);
    cr_assert_not_null(strstr(made.plan->proof->reasons[0], sentence), "%s", made.plan->proof->reasons[0]);
}

Test(plan_proof, proved, .init = make, .fini = drop)
{
    cr_assert_eq(prove(SP_MAX_PROOF_NODES), SP_OK, "%s", made.err.message);
    cr_assert_str_eq(made.plan->proof->state, "proved");
    cr_assert_eq(made.plan->proof->reason_count, 0);
    cr_assert_gt(made.plan->proof->elements, 0);
    cr_assert_eq(looks, 1, "a brief look does");
}

/* An error of ours that says where; and a second look, at length, before that. Nothing is left of it in the model. */
Test(plan_proof, refuted, .init = make, .fini = drop)
{
    behaviour = OTHER_MODEL;
    cr_assert_eq(prove(SP_MAX_PROOF_NODES), SP_ERR_INTERNAL);
    cr_assert_str_eq(made.err.code, "PLAN_REFUTED");
    cr_assert_not_null(strstr(made.err.message, "would not compute what the model computes: "), "%s", made.err.message);
    cr_assert_not_null(strstr(made.err.message, "please report it"));
    cr_assert_eq(looks, 2);
    behaviour = HONEST;
    cr_assert_eq(prove(SP_MAX_PROOF_NODES), SP_OK, "%s", made.err.message);
    cr_assert_str_eq(made.plan->proof->state, "proved");
}

Test(plan_proof, what_prevents_a_proof_is_a_reason, .init = make, .fini = drop)
{
    behaviour = NO_MEMORY;
    expect_undecided("more memory than it is given");
    behaviour = CANCELLED;
    expect_undecided("stopped before its end");
    behaviour = WRONG_FILE;
    expect_undecided("The input is no ONNX model");
}

Test(plan_proof, too_many_nodes_are_not_looked_at, .init = make, .fini = drop)
{
    cr_assert_eq(prove(1), SP_OK, "%s", made.err.message);
    cr_assert_str_eq(made.plan->proof->state, "undecided");
    cr_assert_not_null(strstr(made.plan->proof->reasons[0], "a plan is verified up to 1"), "%s",
                       made.plan->proof->reasons[0]);
    cr_assert_eq(looks, 0);
}
