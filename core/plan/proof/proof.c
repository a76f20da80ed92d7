#include "plan/proof/proof.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "base/hash_map.h"
#include "base/limits.h"
#include "plan/model_file.h"
#include "realize/realize.h"
#include "verify/index_sets.h"

#define MODEL_SHARE          32                /* bytes in memory for each of a file without weights */
#define MAX_SIMULATION_BYTES ((size_t)1 << 31) /* without weights */

struct sp_proof {
    struct sp_buf bytes; /* of the simulation */
    struct sp_arena *arena;
    struct sp_verify_program program;
    struct sp_verify_request request;
    struct sp_index_cuts cuts;
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

/* Into how many parts a sharding cuts an axis. */
static int64_t parts_of(const struct sp_sharding *sharding, uint32_t axis)
{
    int64_t parts = sharding->kind == SP_SHARDING_AXES ? sp_axes_size(&sharding->dims[axis].axes) : 1;
    for (uint32_t k = 0; sharding->kind == SP_SHARDING_BLOCKS && k < sharding->blocks[axis].part_count; k++) {
        if (!sp_mul_i64(parts, sharding->blocks[axis].parts[k].shards, &parts))
            return SP_MAX_DEVICES;
    }
    return parts < SP_MAX_DEVICES ? parts : SP_MAX_DEVICES;
}

struct cuts {
    struct sp_hash_map places; /* of each extent, plus 1 */
    SP_ARRAY(struct sp_index_cut) list;
};

/* Keeps the largest number of parts for each extent. */
static bool note_cut(struct sp_arena *arena, struct cuts *cuts, int64_t extent, int64_t parts)
{
    if (parts <= 1 || extent <= 1)
        return true;
    struct sp_hash_slot *slot = sp_hash_map_put(&cuts->places, (uint64_t)extent);
    const struct sp_index_cut cut = {extent, (uint32_t)parts};
    if (slot == NULL || (slot->number == 0 && !SP_PUSH(arena, &cuts->list, cut)))
        return false;
    if (slot->number == 0)
        slot->number = cuts->list.count;
    struct sp_index_cut *own = &cuts->list.items[slot->number - 1];
    own->parts = own->parts > cut.parts ? own->parts : cut.parts;
    return true;
}

static enum sp_status find_cuts(struct sp_proof *proof, const struct sp_assignment *assignment, struct sp_error *err)
{
    struct cuts cuts = {.places = {.arena = proof->arena}};
    for (uint32_t n = 0; n < assignment->dataflow->node_count; n++) {
        const struct sp_node *node = assignment->dataflow->nodes[n];
        for (uint32_t i = 0; assignment->nodes[n].operands != NULL && i < node->input_count + node->output_count; i++) {
            const struct sp_value *value =
                i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
            const struct sp_sharding *own = assignment->nodes[n].operands[i].sharding;
            if (value == NULL || own == NULL || (own->kind != SP_SHARDING_AXES && own->kind != SP_SHARDING_BLOCKS))
                continue;
            const struct sp_shape *shape = &value->type.shape;
            for (uint32_t axis = 0; axis < own->rank && axis < shape->rank; axis++) {
                if (!note_cut(proof->arena, &cuts, sp_dim_estimate(shape->dims[axis]), parts_of(own, axis)))
                    return sp_fail_memory(err);
            }
        }
    }
    proof->cuts = (struct sp_index_cuts){cuts.list.count, cuts.list.items};
    return SP_OK;
}

enum sp_status sp_proof_create(const struct sp_subject *subject, const struct sp_proof_options *options,
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
        .model = subject->model,
        .program_count = 1,
        .programs = &proof->program,
        .watch = options->watch,
        .memory_budget =
            options->number_bytes > 0 ? options->number_bytes + MODEL_SHARE * proof->bytes.size : SP_DEFAULT_JOB_BYTES,
        .cuts = &proof->cuts,
        .is_brief = options->is_brief};
    if (status == SP_OK)
        status = find_cuts(proof, subject->assignment, err);
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
