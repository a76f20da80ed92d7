#include "plan/proof.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "plan/model_file.h"
#include "realize/realize.h"

#define MAX_SIMULATION_BYTES ((size_t)1 << 31) /* without weights */

struct sp_proof {
    struct sp_buf bytes; /* of the simulation */
    struct sp_arena *arena;
    struct sp_verify_program program;
    struct sp_verify_request request;
    struct sp_verification *verification;
};

static bool read_model(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    const struct sp_model *model = context;
    if (source != 0 || offset > model->size || size > model->size - offset)
        return false;
    memcpy(bytes, model->bytes + offset, size);
    return true;
}

static bool add_bytes(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

/* The simulation; larger weights are in a file that is not made, and their boxes are declared. */
static enum sp_status make_simulation(const struct sp_subject *subject, struct sp_buf *bytes, struct sp_error *err)
{
    struct sp_recipe *recipe = NULL, *data = sp_recipe_create();
    const struct sp_realize_request request = {
        .partition = {.model = subject->model, .assignment = subject->assignment},
        .external = SP_EXTERNAL_REFER,
        .data_name = "weights",
        .data = data,
        .declares_boxes = true};
    const struct sp_recipe_reader reader = {read_model, subject->model};
    const struct sp_sink sink = {.write = add_bytes, .context = bytes};
    enum sp_status status = data != NULL ? sp_realize_simulation(&request, &recipe, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_recipe_stream(recipe, &reader, &sink, err);
    sp_recipe_destroy(recipe);
    sp_recipe_destroy(data);
    return status == SP_ERR_IO ? sp_fail_memory(err) : status;
}

/* The simulation's open dimensions are what the model's are taken to be. */
static enum sp_status bind(struct sp_proof *proof, const struct sp_model *model, struct sp_error *err)
{
    const uint32_t count = sp_dims_symbol_count(model->dims);
    const char **names = SP_NEW_ARRAY(proof->arena, count, const char *);
    int64_t *values = SP_NEW_ARRAY(proof->arena, count, int64_t);
    if (names == NULL || values == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = sp_dims_symbol_name(model->dims, i);
        const int64_t extent = sp_dim_estimate(sp_dim_symbol(model->dims, name));
        if (extent < 0 || sp_dims_symbol_is_fresh(model->dims, i))
            continue;
        names[proof->request.binding_count] = name;
        values[proof->request.binding_count++] = extent;
    }
    proof->request.binding_names = names;
    proof->request.binding_values = values;
    return SP_OK;
}

enum sp_status sp_proof_create(const struct sp_subject *subject, const struct sp_watch *watch,
                               struct sp_proof **ret_proof, struct sp_error *err)
{
    if (subject->model == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "NO_OPERATORS",
                       "A graph of costs has no operators: there is nothing to prove.");
    struct sp_proof *proof = calloc(1, sizeof *proof);
    if (proof == NULL)
        return sp_fail_memory(err);
    sp_buf_init(&proof->bytes, MAX_SIMULATION_BYTES);
    proof->arena = sp_arena_create(NULL);
    enum sp_status status = proof->arena != NULL ? make_simulation(subject, &proof->bytes, err) : sp_fail_memory(err);
    proof->program =
        (struct sp_verify_program){.name = "simulation", .bytes = proof->bytes.data, .size = proof->bytes.size};
    proof->request = (struct sp_verify_request){
        .model = subject->model, .program_count = 1, .programs = &proof->program, .watch = watch};
    if (status == SP_OK)
        status = bind(proof, subject->model, err);
    if (status == SP_OK)
        status = sp_verify(&proof->request, &proof->verification, err);
    if (status == SP_OK)
        *ret_proof = proof;
    else
        sp_proof_destroy(proof);
    return status;
}

void sp_proof_destroy(struct sp_proof *proof)
{
    if (proof == NULL)
        return;
    sp_verification_destroy(proof->verification);
    sp_arena_destroy(proof->arena);
    sp_buf_release(&proof->bytes);
    free(proof);
}

const struct sp_verification *sp_proof_verification(const struct sp_proof *proof)
{
    return proof->verification;
}
