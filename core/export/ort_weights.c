/* Pieces of weights in a rank's model. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/ort_model.h"

#define SLICE_OPSET 10 /* since which starts and ends are inputs */

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* The name itself the first time, else one that the model does not have. */
static const char *fresh_name(struct sp_ort_model *all, const char *base, const char *what)
{
    const struct sp_intern *taken = all->out->subject->model->names;
    const char *name = NULL;
    do {
        name = sp_arena_printf(all->arena, "%s@%s%" PRIu64, base, what, all->next_name++);
    } while (name != NULL && sp_intern_find(taken, name, strlen(name)) != SP_NO_NAME);
    return name;
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

/* The indices of each axis that the rank has; NULL in *ret_axes: all. */
enum sp_status sp_ort_box(struct sp_ort_model *all, const struct sp_sharding *sharding, const struct sp_type *type,
                          const struct sp_axis_ranges **ret_axes, struct sp_error *err)
{
    struct sp_held held = {0};
    *ret_axes = NULL;
    if (!sp_ort_is_split(sharding, type))
        return SP_OK;
    int64_t *shape = sp_ort_shape(all->out->scratch, type);
    if (shape == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < type->shape.rank; i++)
        shape[i] = shape[i] < 0 ? sp_sharding_shards(sharding, i) : shape[i];
    enum sp_status status =
        sp_sharding_held(all->out->scratch, sharding, type->shape.rank, shape, all->out->request->device, &held, err);
    if (status == SP_OK && held.shard_count != 1)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "ORT_PIECES",
                       "The device has %" PRIu32 " separate parts of a tensor; such a model has one.",
                       held.shard_count);
    if (status == SP_OK)
        *ret_axes = held.shards;
    return status;
}

int64_t sp_ort_axis_extent(const struct sp_axis_ranges *axis)
{
    int64_t extent = 0;
    for (uint32_t i = 0; i < axis->count; i++)
        extent += axis->ranges[i].limit - axis->ranges[i].start;
    return extent;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* int64 [1] as an initializer. */
static const char *put_number(struct sp_ort_model *all, const char *base, int64_t number)
{
    unsigned char bytes[8];
    const char *name = fresh_name(all, base, "n");
    if (name == NULL)
        return NULL;
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)number >> (8 * i));
    sp_recipe_clear(all->message);
    sp_put_int(all->message, SP_PUT_TENSOR_DIMS, 1);
    sp_put_int(all->message, SP_PUT_TENSOR_DATA_TYPE, SP_DTYPE_INT64);
    sp_put_text(all->message, SP_PUT_TENSOR_NAME, name);
    sp_put_bytes(all->message, SP_PUT_TENSOR_RAW_DATA, bytes, sizeof bytes);
    sp_put_message(all->initializers, SP_PUT_GRAPH_INITIALIZER, all->message);
    return name;
}

static struct sp_ort_piece *find_piece(const struct sp_ort_model *all, const struct sp_value *value,
                                       const struct sp_sharding *sharding)
{
    struct sp_ort_piece *piece = all->pieces[value->id];
    while (piece != NULL && piece->sharding != sharding)
        piece = piece->next;
    return piece;
}

/* The first piece has the weight's own name; NULL without memory. */
static struct sp_ort_piece *add_piece(struct sp_ort_model *all, const struct sp_value *value,
                                      const struct sp_sharding *sharding)
{
    struct sp_ort_piece *piece = SP_NEW(all->arena, struct sp_ort_piece);
    if (piece == NULL)
        return NULL;
    piece->sharding = sharding;
    piece->name = all->pieces[value->id] == NULL ? value->name : fresh_name(all, value->name, "");
    piece->next = all->pieces[value->id];
    all->pieces[value->id] = piece;
    return piece->name != NULL ? piece : NULL;
}

/* *ret_done false: such a part cannot be had without a node. */
static enum sp_status put_initializer(struct sp_ort_model *all, const struct sp_value *value, const char *name,
                                      const struct sp_axis_ranges *axes, bool *ret_done, struct sp_error *err)
{
    const bool is_sparse = value->sparse != NULL;
    *ret_done = true;
    sp_recipe_clear(all->message);
    enum sp_status status = is_sparse
                                ? sp_weight_put_sparse(&all->weights, all->message, name, value->sparse, err)
                                : sp_weight_put(&all->weights, all->message, name, value->tensor, axes, ret_done, err);
    if (status == SP_OK && *ret_done)
        sp_put_message(all->initializers, is_sparse ? SP_PUT_GRAPH_SPARSE_INITIALIZER : SP_PUT_GRAPH_INITIALIZER,
                       all->message);
    return status;
}

enum sp_status sp_ort_whole_weight(struct sp_ort_model *all, const struct sp_value *value, const char **ret_name,
                                   struct sp_error *err)
{
    struct sp_ort_piece *piece = find_piece(all, value, NULL);
    const bool is_new = piece == NULL;
    bool done;
    if (is_new && (piece = add_piece(all, value, NULL)) == NULL)
        return sp_fail_memory(err);
    *ret_name = piece->name;
    return is_new ? put_initializer(all, value, piece->name, NULL, &done, err) : SP_OK;
}

/* The whole weight and a Slice of it, along the one axis that is cut. */
static enum sp_status put_slice(struct sp_ort_model *all, const struct sp_value *value, const char *name,
                                const struct sp_axis_ranges *axes, struct sp_error *err)
{
    const struct sp_tensor *tensor = value->tensor;
    const char *inputs[4] = {NULL}, *node_name = fresh_name(all, value->name, "slice");
    int64_t cut = -1;
    if (sp_graph_opset(all->out->subject->model->graph, "") < SLICE_OPSET)
        return sp_fail(
            err, SP_ERR_UNSUPPORTED, "ORT_PIECES",
            "A part of the external weight '%.200s' needs a Slice of operator set %d; put the weights into the "
            "model's file.",
            value->name, SLICE_OPSET);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const bool is_cut = sp_ort_axis_extent(&axes[i]) != tensor->dims[i];
        if (is_cut && (cut >= 0 || axes[i].count != 1))
            return sp_fail(
                err, SP_ERR_UNSUPPORTED, "ORT_PIECES",
                "A part of the external weight '%.200s' cannot be cut out by one Slice; put the weights into "
                "the model's file.",
                value->name);
        cut = is_cut ? i : cut;
    }
    enum sp_status status = sp_ort_whole_weight(all, value, &inputs[0], err);
    if (status != SP_OK || cut < 0)
        return status;
    inputs[1] = put_number(all, value->name, axes[cut].ranges[0].start);
    inputs[2] = put_number(all, value->name, axes[cut].ranges[0].limit);
    inputs[3] = put_number(all, value->name, cut);
    if (inputs[1] == NULL || inputs[2] == NULL || inputs[3] == NULL || node_name == NULL)
        return sp_fail_memory(err);
    const struct sp_encode_operator slice = {.domain = "",
                                             .op_type = "Slice",
                                             .overload = "",
                                             .name = node_name,
                                             .input_count = 4,
                                             .output_count = 1,
                                             .inputs = inputs,
                                             .outputs = &name};
    return sp_encode_operator(&all->encoder, all->nodes, &slice, err);
}

/* The name of the rank's piece of a weight under this sharding. */
enum sp_status sp_ort_weight(struct sp_ort_model *all, const struct sp_value *value, const struct sp_sharding *sharding,
                             const char **ret_name, struct sp_error *err)
{
    const struct sp_axis_ranges *axes;
    enum sp_status status = sp_ort_box(all, sharding, &value->type, &axes, err);
    if (status != SP_OK)
        return status;
    if (axes == NULL)
        return sp_ort_whole_weight(all, value, ret_name, err);
    struct sp_ort_piece *piece = find_piece(all, value, sharding);
    const bool is_new = piece == NULL;
    if (is_new && (piece = add_piece(all, value, sharding)) == NULL)
        return sp_fail_memory(err);
    *ret_name = piece->name;
    bool done = true;
    if (is_new)
        status = put_initializer(all, value, piece->name, axes, &done, err);
    return status == SP_OK && !done ? put_slice(all, value, piece->name, axes, err) : status;
}
