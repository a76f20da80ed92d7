#include "cost/buffer_reuse.h"

#include "base/hash_map.h"
#include "base/limits.h"
#include "cost/live_bytes.h"
#include "ops/table/op.h"

#define NO_BUFFER UINT32_MAX
#define NO_TENSOR UINT32_MAX
#define MAX_LISTS ((uint32_t)1 << 20) /* of free memory: beyond it they get longer */

struct buffer {
    double bytes;
    uint32_t made_for, tensor; /* that had it first, and last */
    uint32_t next;             /* free one of the same list, or NO_BUFFER */
    uint32_t first, last;      /* positions at which it is in use */
};

struct reuse {
    const struct sp_workload *workload;
    const struct sp_placed_stage *stage;
    uint32_t *buffer_of, *last; /* per tensor, of roots: its buffer, the position of its last use */
    uint32_t *passed;           /* per tensor: the root of what is passed on under this name, or itself */
    uint32_t *fused; /* per tensor: the product's sum with a bias, which is made instead of it; or NO_TENSOR */
    bool *stays;     /* per tensor, of roots: sent, or a result */
    bool *is_flat;   /* per tensor: made as a matrix, its leading axes in one */
    uint32_t buffer_count, list_count;
    struct buffer *buffers;
    uint32_t *free; /* lists of buffers by a hash of what they are made as, the latest first; list_count is 2^k */
};

/* The tensor whose memory this one is: a view's, or what an operator that does nothing passes on. */
static uint32_t root_of(const struct reuse *reuse, uint32_t tensor)
{
    return reuse->passed[sp_work_root(reuse->workload, tensor)];
}

/* ---- uses ------------------------------------------------------------------------------------------------------- */

static bool is_sent(const struct reuse *reuse, const struct sp_work_tensor *tensor)
{
    for (uint32_t i = 0; i < tensor->consumer_count; i++)
        if (reuse->stage->placement->stage_of[tensor->consumers[i]] != reuse->stage->stage)
            return true;
    return false;
}

static void find_uses(struct reuse *reuse)
{
    for (uint32_t at = 0; at < reuse->stage->count; at++) {
        const struct sp_work_node *node = &reuse->workload->nodes[reuse->stage->nodes[at]];
        if (node->folded)
            continue;
        for (uint32_t i = 0; i < node->input_count; i++)
            reuse->last[root_of(reuse, node->inputs[i])] = at;
        for (uint32_t o = 0; o < node->output_count; o++) {
            const struct sp_work_tensor *tensor = &reuse->workload->tensors[node->outputs[o]];
            const uint32_t root = root_of(reuse, node->outputs[o]);
            reuse->last[root] = at;
            reuse->stays[root] = reuse->stays[root] || sp_work_is_held(tensor, true) || is_sent(reuse, tensor);
        }
    }
}

/* ---- fusions ---------------------------------------------------------------------------------------------------- */

static const struct sp_shape *known_shape(const struct sp_work_tensor *tensor)
{
    if (tensor->value == NULL || !tensor->value->type.shape.has_rank)
        return NULL;
    const struct sp_shape *shape = &tensor->value->type.shape;
    for (uint32_t axis = 0; axis < shape->rank; axis++)
        if (!sp_dim_is_known(shape->dims[axis]))
            return NULL;
    return shape;
}

static bool is_operator(const struct sp_work_node *node, const char *op_type)
{
    return node->node != NULL && sp_node_is(node->node, op_type);
}

/* The shape of an operand of the model's node, or NULL where it is not known. */
static const struct sp_shape *operand_shape(const struct reuse *reuse, const struct sp_value *value)
{
    return value == NULL || value->id >= reuse->workload->tensor_count
               ? NULL
               : known_shape(&reuse->workload->tensors[value->id]);
}

/* The sum that nobody but one Add makes of a product by a matrix, with one number per column; or NO_TENSOR. */
static uint32_t find_bias(const struct reuse *reuse, const struct sp_work_node *product)
{
    if (!is_operator(product, "MatMul") || product->output_count != 1 || product->node->input_count != 2)
        return NO_TENSOR;
    const uint32_t made = product->outputs[0];
    const struct sp_work_tensor *tensor = &reuse->workload->tensors[made];
    const struct sp_shape *matrix = operand_shape(reuse, product->node->inputs[1]), *shape = known_shape(tensor);
    if (tensor->consumer_count != 1 || reuse->stays[made] || shape == NULL || shape->rank < 2 || matrix == NULL ||
        matrix->rank != 2)
        return NO_TENSOR;
    const struct sp_work_node *sum = &reuse->workload->nodes[tensor->consumers[0]];
    if (!is_operator(sum, "Add") || sum->output_count != 1 || sum->node->input_count != 2)
        return NO_TENSOR;
    const bool is_first = sum->node->inputs[0] == tensor->value;
    const struct sp_shape *bias = operand_shape(reuse, sum->node->inputs[is_first ? 1 : 0]);
    const bool is_row = bias != NULL && bias->rank == 1 && bias->dims[0].value == matrix->dims[1].value;
    return is_row ? sum->outputs[0] : NO_TENSOR;
}

/*
 * A Dropout that neither drops nor tells what it kept is taken out of the graph: its output is its input. Nodes come in
 * order, so what it is given has been looked at.
 */
static void find_passed(struct reuse *reuse)
{
    for (uint32_t at = 0; at < reuse->stage->count; at++) {
        const struct sp_work_node *node = &reuse->workload->nodes[reuse->stage->nodes[at]];
        if (node->folded || !is_operator(node, "Dropout") || node->flops > 0 || node->bytes > 0 ||
            node->input_count == 0)
            continue;
        const struct sp_work_tensor *tensor = &reuse->workload->tensors[node->outputs[0]];
        if (!tensor->is_output && !is_sent(reuse, tensor) && tensor->alias_of == SP_NO_WORK)
            reuse->passed[node->outputs[0]] = root_of(reuse, node->inputs[0]);
    }
}

static void find_fusions(struct reuse *reuse)
{
    for (uint32_t at = 0; at < reuse->stage->count; at++) {
        const struct sp_work_node *node = &reuse->workload->nodes[reuse->stage->nodes[at]];
        const uint32_t sum = node->folded ? NO_TENSOR : find_bias(reuse, node);
        if (sum == NO_TENSOR)
            continue;
        reuse->fused[node->outputs[0]] = sum;
        reuse->is_flat[sum] = true;
    }
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

/* Whether two tensors have the same extents and elements of one size; as what they are made as, which may be flat. */
static bool are_alike(const struct reuse *reuse, uint32_t a, uint32_t b, bool as_made)
{
    const struct sp_work_tensor *left = &reuse->workload->tensors[a], *right = &reuse->workload->tensors[b];
    if (left->bytes != right->bytes)
        return false;
    if (left->value == NULL || right->value == NULL)
        return true;
    const struct sp_shape *x = known_shape(left), *y = known_shape(right);
    if (x == NULL || y == NULL ||
        sp_dtype_bytes(left->value->type.dtype, 64) != sp_dtype_bytes(right->value->type.dtype, 64))
        return false;
    if (as_made && (reuse->is_flat[a] || reuse->is_flat[b]))
        return (reuse->is_flat[a] || x->rank == 2) && (reuse->is_flat[b] || y->rank == 2) &&
               x->dims[x->rank - 1].value == y->dims[y->rank - 1].value;
    if (x->rank != y->rank)
        return false;
    for (uint32_t axis = 0; axis < x->rank; axis++)
        if (x->dims[axis].value != y->dims[axis].value)
            return false;
    return true;
}

/* The memory of the input, where the node may write over it. */
static uint32_t in_place(const struct reuse *reuse, const struct sp_work_node *node, uint32_t output, uint32_t at)
{
    const struct sp_op *op = node->node != NULL ? node->node->op : NULL;
    if (op == NULL || (op->flags & SP_OP_IN_PLACE) == 0)
        return NO_BUFFER;
    const uint32_t root = node->input_count > 0 ? root_of(reuse, node->inputs[0]) : output;
    const bool is_ending = reuse->buffer_of[root] != NO_BUFFER && reuse->last[root] == at && !reuse->stays[root];
    return is_ending && are_alike(reuse, node->inputs[0], output, false) ? reuse->buffer_of[root] : NO_BUFFER;
}

/* The list that memory for such a tensor is kept in: the same for those that are alike. */
static uint32_t *free_list(const struct reuse *reuse, uint32_t tensor)
{
    const struct sp_work_tensor *made = &reuse->workload->tensors[tensor];
    const struct sp_shape *shape = made->value == NULL ? NULL : known_shape(made);
    int64_t key[SP_MAX_RANK + 1] = {(int64_t)made->bytes};
    size_t count = 1;
    if (shape != NULL && (reuse->is_flat[tensor] || shape->rank == 2))
        key[count++] = shape->dims[shape->rank - 1].value; /* with the bytes that is a matrix */
    else if (shape != NULL)
        for (uint32_t axis = 0; axis < shape->rank; axis++)
            key[count++] = shape->dims[axis].value;
    return &reuse->free[sp_digest(key, count * sizeof *key, 0) & (reuse->list_count - 1)];
}

static uint32_t take_free(struct reuse *reuse, uint32_t tensor)
{
    for (uint32_t *at = free_list(reuse, tensor); *at != NO_BUFFER; at = &reuse->buffers[*at].next) {
        const uint32_t buffer = *at;
        if (!are_alike(reuse, reuse->buffers[buffer].made_for, tensor, true))
            continue;
        *at = reuse->buffers[buffer].next;
        return buffer;
    }
    return NO_BUFFER;
}

static void give_free(struct reuse *reuse, uint32_t buffer)
{
    uint32_t *list = free_list(reuse, reuse->buffers[buffer].made_for);
    reuse->buffers[buffer].next = *list;
    *list = buffer;
}

static void make(struct reuse *reuse, const struct sp_work_node *node, uint32_t tensor, uint32_t at)
{
    if (reuse->fused[tensor] != NO_TENSOR)
        tensor = reuse->fused[tensor];
    const struct sp_work_tensor *made = &reuse->workload->tensors[tensor];
    if (reuse->buffer_of[tensor] != NO_BUFFER) /* with the product that it is fused with */
        return;
    const bool is_passed = reuse->passed[node->outputs[0]] != node->outputs[0]; /* its mask is not made either */
    if (made->alias_of != SP_NO_WORK || is_passed || made->kind != SP_WORK_ACTIVATION)
        return;
    uint32_t buffer = in_place(reuse, node, tensor, at);
    if (buffer == NO_BUFFER && !reuse->stays[tensor])
        buffer = take_free(reuse, tensor);
    if (buffer == NO_BUFFER) {
        buffer = reuse->buffer_count++;
        reuse->buffers[buffer] = (struct buffer){.bytes = made->bytes, .made_for = tensor, .first = at};
    }
    reuse->buffers[buffer].tensor = tensor;
    reuse->buffers[buffer].last = at;
    reuse->buffer_of[tensor] = buffer;
}

/* Memory whose tensor was used here the last time; what was written over belongs to another tensor by now. */
static void end_uses(struct reuse *reuse, const uint32_t *tensors, uint32_t count, uint32_t at)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t root = root_of(reuse, tensors[i]), buffer = reuse->buffer_of[root];
        if (buffer == NO_BUFFER || reuse->buffers[buffer].tensor != root)
            continue;
        reuse->buffers[buffer].last = reuse->stays[root] ? reuse->stage->count - 1 : at;
        if (reuse->last[root] != at || reuse->stays[root])
            continue;
        give_free(reuse, buffer);
        reuse->buffer_of[root] = NO_BUFFER;
    }
}

/* ---- the peak --------------------------------------------------------------------------------------------------- */

static double peak_of(const struct reuse *reuse, struct sp_live *live)
{
    for (uint32_t i = 0; i < reuse->buffer_count; i++)
        sp_live_add(live, reuse->buffers[i].first, reuse->buffers[i].last, reuse->buffers[i].bytes);
    for (uint32_t at = 0; at < reuse->stage->count; at++) {
        const struct sp_work_node *node = &reuse->workload->nodes[reuse->stage->nodes[at]];
        (void)sp_live_step(live, at, node->folded ? 0 : node->workspace_bytes);
    }
    return live->peak;
}

double sp_reuse_peak(struct sp_arena *scratch, const struct sp_workload *workload, const struct sp_placed_stage *stage)
{
    const struct sp_arena_mark mark = sp_arena_mark(scratch);
    uint64_t outputs = 0;
    for (uint32_t at = 0; at < stage->count; at++)
        outputs += workload->nodes[stage->nodes[at]].output_count;
    struct reuse reuse = {.workload = workload,
                          .stage = stage,
                          .buffer_of = SP_NEW_ARRAY(scratch, workload->tensor_count, uint32_t),
                          .last = SP_NEW_ARRAY(scratch, workload->tensor_count, uint32_t),
                          .passed = SP_NEW_ARRAY(scratch, workload->tensor_count, uint32_t),
                          .fused = SP_NEW_ARRAY(scratch, workload->tensor_count, uint32_t),
                          .stays = SP_NEW_ARRAY(scratch, workload->tensor_count, bool),
                          .is_flat = SP_NEW_ARRAY(scratch, workload->tensor_count, bool),
                          .buffers = SP_NEW_ARRAY(scratch, outputs, struct buffer),
                          .list_count = 1};
    while (reuse.list_count < outputs && reuse.list_count < MAX_LISTS)
        reuse.list_count *= 2;
    reuse.free = SP_NEW_ARRAY(scratch, reuse.list_count, uint32_t);
    struct sp_live live;
    double peak = -1;
    if (reuse.buffer_of == NULL || reuse.last == NULL || reuse.passed == NULL || reuse.fused == NULL ||
        reuse.stays == NULL || reuse.is_flat == NULL || reuse.buffers == NULL || reuse.free == NULL ||
        !sp_live_init(&live, scratch, stage->count))
        goto out;
    for (uint32_t i = 0; i < reuse.list_count; i++)
        reuse.free[i] = NO_BUFFER;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        reuse.buffer_of[t] = NO_BUFFER;
        reuse.fused[t] = NO_TENSOR;
        reuse.passed[t] = t;
    }
    find_passed(&reuse);
    find_uses(&reuse);
    find_fusions(&reuse);
    for (uint32_t at = 0; at < stage->count; at++) {
        const struct sp_work_node *node = &workload->nodes[stage->nodes[at]];
        if (node->folded)
            continue;
        for (uint32_t o = 0; o < node->output_count; o++)
            make(&reuse, node, node->outputs[o], at);
        end_uses(&reuse, node->inputs, node->input_count, at);
        end_uses(&reuse, node->outputs, node->output_count, at);
    }
    peak = peak_of(&reuse, &live);
out:
    sp_arena_rewind(scratch, mark);
    return peak;
}
