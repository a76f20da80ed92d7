#include "cost/reuse.h"

#include "ops/op.h"

#define NO_BUFFER UINT32_MAX

struct buffer {
    double bytes;
    uint32_t tensor; /* that had it last */
    uint32_t birth, last;
};

struct reuse {
    const struct sp_workload *workload;
    const struct sp_placement *placement;
    uint32_t stage, count;
    uint32_t *buffer_of, *last; /* per tensor, of roots: its buffer, the position of its last use */
    bool *is_kept;              /* per tensor, of roots: sent, or a result */
    uint32_t buffer_count, free_count;
    struct buffer *buffers;
    uint32_t *free; /* buffers, the latest last */
};

/* ---- uses ------------------------------------------------------------------------------------------------------- */

static bool is_sent(const struct reuse *reuse, const struct sp_work_tensor *tensor)
{
    for (uint32_t i = 0; i < tensor->consumer_count; i++)
        if (reuse->placement->stage_of[tensor->consumers[i]] != reuse->stage)
            return true;
    return false;
}

static void find_uses(struct reuse *reuse, const uint32_t *nodes)
{
    for (uint32_t at = 0; at < reuse->count; at++) {
        const struct sp_work_node *node = &reuse->workload->nodes[nodes[at]];
        if (node->folded)
            continue;
        for (uint32_t i = 0; i < node->input_count; i++)
            reuse->last[sp_work_root(reuse->workload, node->inputs[i])] = at;
        for (uint32_t o = 0; o < node->output_count; o++) {
            const struct sp_work_tensor *tensor = &reuse->workload->tensors[node->outputs[o]];
            const uint32_t root = sp_work_root(reuse->workload, node->outputs[o]);
            reuse->last[root] = at;
            reuse->is_kept[root] = reuse->is_kept[root] || tensor->is_output || is_sent(reuse, tensor);
        }
    }
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

/* Whether two tensors have the same extents and elements of one size. */
static bool are_alike(const struct reuse *reuse, uint32_t a, uint32_t b)
{
    const struct sp_work_tensor *left = &reuse->workload->tensors[a], *right = &reuse->workload->tensors[b];
    if (left->bytes != right->bytes)
        return false;
    if (left->value == NULL || right->value == NULL)
        return true;
    const struct sp_shape *x = &left->value->type.shape, *y = &right->value->type.shape;
    if (x->rank != y->rank ||
        sp_dtype_bytes(left->value->type.dtype, 64) != sp_dtype_bytes(right->value->type.dtype, 64))
        return false;
    for (uint32_t axis = 0; axis < x->rank; axis++)
        if (!sp_dim_is_known(x->dims[axis]) || !sp_dim_is_known(y->dims[axis]) ||
            x->dims[axis].value != y->dims[axis].value)
            return false;
    return true;
}

/* The memory of the input, where the node may write over it. */
static uint32_t in_place(const struct reuse *reuse, const struct sp_work_node *node, uint32_t output, uint32_t at)
{
    const struct sp_op *op = node->node != NULL ? node->node->op : NULL;
    if (op == NULL || (op->flags & SP_OP_IN_PLACE) == 0)
        return NO_BUFFER;
    const uint32_t root = node->input_count > 0 ? sp_work_root(reuse->workload, node->inputs[0]) : output;
    const bool is_ending = reuse->buffer_of[root] != NO_BUFFER && reuse->last[root] == at && !reuse->is_kept[root];
    return is_ending && are_alike(reuse, node->inputs[0], output) ? reuse->buffer_of[root] : NO_BUFFER;
}

static uint32_t take_free(struct reuse *reuse, uint32_t tensor)
{
    for (uint32_t i = reuse->free_count; i-- > 0;) {
        const uint32_t buffer = reuse->free[i];
        if (!are_alike(reuse, reuse->buffers[buffer].tensor, tensor))
            continue;
        for (uint32_t k = i + 1; k < reuse->free_count; k++)
            reuse->free[k - 1] = reuse->free[k];
        reuse->free_count--;
        return buffer;
    }
    return NO_BUFFER;
}

static void make(struct reuse *reuse, const struct sp_work_node *node, uint32_t tensor, uint32_t at)
{
    const struct sp_work_tensor *made = &reuse->workload->tensors[tensor];
    if (made->alias_of != SP_NO_WORK || made->kind != SP_WORK_ACTIVATION)
        return;
    uint32_t buffer = in_place(reuse, node, tensor, at);
    if (buffer == NO_BUFFER && !reuse->is_kept[tensor])
        buffer = take_free(reuse, tensor);
    if (buffer == NO_BUFFER) {
        buffer = reuse->buffer_count++;
        reuse->buffers[buffer] = (struct buffer){.bytes = made->bytes, .birth = at};
    }
    reuse->buffers[buffer].tensor = tensor;
    reuse->buffers[buffer].last = at;
    reuse->buffer_of[tensor] = buffer;
}

/* Memory whose tensor was used here the last time; what was written over belongs to another tensor by now. */
static void end_uses(struct reuse *reuse, const uint32_t *tensors, uint32_t count, uint32_t at)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t root = sp_work_root(reuse->workload, tensors[i]), buffer = reuse->buffer_of[root];
        if (buffer == NO_BUFFER || reuse->buffers[buffer].tensor != root)
            continue;
        reuse->buffers[buffer].last = reuse->is_kept[root] ? reuse->count - 1 : at;
        if (reuse->last[root] != at || reuse->is_kept[root])
            continue;
        reuse->free[reuse->free_count++] = buffer;
        reuse->buffer_of[root] = NO_BUFFER;
    }
}

/* ---- the course ------------------------------------------------------------------------------------------------- */

static double peak_of(const struct reuse *reuse, const uint32_t *nodes, double *change)
{
    double live = 0, peak = 0;
    for (uint32_t i = 0; i < reuse->buffer_count; i++) {
        change[reuse->buffers[i].birth] += reuse->buffers[i].bytes;
        change[reuse->buffers[i].last + 1] -= reuse->buffers[i].bytes;
    }
    for (uint32_t at = 0; at < reuse->count; at++) {
        const struct sp_work_node *node = &reuse->workload->nodes[nodes[at]];
        live += change[at];
        const double during = live + (node->folded ? 0 : node->workspace_bytes);
        peak = during > peak ? during : peak;
    }
    return peak;
}

double sp_reuse_peak(struct sp_arena *scratch, const struct sp_workload *workload, const struct sp_placement *placement,
                     uint32_t stage, const uint32_t *nodes, uint32_t count)
{
    const struct sp_arena_mark mark = sp_arena_mark(scratch);
    uint64_t outputs = 0;
    for (uint32_t at = 0; at < count; at++)
        outputs += workload->nodes[nodes[at]].output_count;
    struct reuse reuse = {.workload = workload,
                          .placement = placement,
                          .stage = stage,
                          .count = count,
                          .buffer_of = SP_NEW_ARRAY(scratch, workload->tensor_count, uint32_t),
                          .last = SP_NEW_ARRAY(scratch, workload->tensor_count, uint32_t),
                          .is_kept = SP_NEW_ARRAY(scratch, workload->tensor_count, bool),
                          .buffers = SP_NEW_ARRAY(scratch, outputs, struct buffer),
                          .free = SP_NEW_ARRAY(scratch, outputs, uint32_t)};
    double *change = SP_NEW_ARRAY(scratch, (size_t)count + 1, double), peak = -1;
    if (reuse.buffer_of == NULL || reuse.last == NULL || reuse.is_kept == NULL || reuse.buffers == NULL ||
        reuse.free == NULL || change == NULL)
        goto out;
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        reuse.buffer_of[t] = NO_BUFFER;
    find_uses(&reuse, nodes);
    for (uint32_t at = 0; at < count; at++) {
        const struct sp_work_node *node = &workload->nodes[nodes[at]];
        if (node->folded)
            continue;
        for (uint32_t o = 0; o < node->output_count; o++)
            make(&reuse, node, node->outputs[o], at);
        end_uses(&reuse, node->inputs, node->input_count, at);
        end_uses(&reuse, node->outputs, node->output_count, at);
    }
    peak = peak_of(&reuse, nodes, change);
out:
    sp_arena_rewind(scratch, mark);
    return peak;
}
