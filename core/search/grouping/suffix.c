#include <string.h>

#include "search/grouping/suffix.h"

/*
 * A tree over positions (leaves from `size` on) for the peak: most[i] is the largest value below node i, `added[i]`
 * included; a range is raised at the O(log n) nodes that make it up.
 */
struct tree {
    uint32_t size; /* leaves, a power of two */
    double *most, *added;
};

static void refresh(struct tree *tree, uint32_t i)
{
    while (i > 1) {
        i /= 2;
        double left = tree->most[2 * i], right = tree->most[2 * i + 1];
        tree->most[i] = (left > right ? left : right) + tree->added[i];
    }
}

static void raise_node(struct tree *tree, uint32_t i, double value)
{
    tree->most[i] += value;
    tree->added[i] += value;
}

/* Raises positions begin .. end - 1. */
static void raise_range(struct tree *tree, uint32_t begin, uint32_t end, double value)
{
    if (begin >= end)
        return;
    uint32_t left = begin + tree->size, right = end + tree->size;
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1)
            raise_node(tree, left++, value);
        if (right & 1)
            raise_node(tree, --right, value);
    }
    refresh(tree, begin + tree->size);
    refresh(tree, end - 1 + tree->size);
}

static void set_leaf(struct tree *tree, uint32_t position, double value)
{
    tree->most[position + tree->size] = value;
    refresh(tree, position + tree->size);
}

struct suffix {
    struct sp_grouping_search *search;
    const struct sp_candidate *around;
    uint32_t device, kind;
    struct sp_search_link before;
    double open; /* memory that is used in the suffix and there before it */
    struct tree tree;
    struct sp_side *side;
};

static void hold(struct suffix *suffix, uint32_t tensor)
{
    struct sp_grouping_search *search = suffix->search;
    uint32_t memory = sp_memory_of(search->workload, tensor);
    const struct sp_work_tensor *held = &search->workload->tensors[memory];
    if (search->line.born[memory] == search->line.stamp)
        return;
    search->line.born[memory] = search->line.stamp;
    if (held->kind == SP_WORK_WEIGHT)
        suffix->side->resident += held->bytes;
    else
        suffix->open += held->bytes;
}

/* What the node makes; returns the bytes of it that are alive while it runs and were not open. */
static double add_output(struct suffix *suffix, uint32_t id)
{
    struct sp_grouping_search *search = suffix->search;
    const struct sp_work_tensor *tensor = &search->workload->tensors[id];
    if (tensor->kind != SP_WORK_ACTIVATION || tensor->alias_of != SP_NO_WORK)
        hold(suffix, id);
    if (tensor->kind != SP_WORK_ACTIVATION)
        return 0;
    if (search->line.seen[id] == search->line.stamp) { /* used in the suffix: no longer received */
        suffix->side->receive -= sp_link_seconds(suffix->before, tensor);
        suffix->side->in -= tensor->bytes;
    }
    if (search->line.outside[id] > 0) {
        suffix->side->send += search->line.outside_right[id];
        suffix->side->out += tensor->bytes * search->line.outside[id];
    }
    if (tensor->alias_of != SP_NO_WORK) {
        /* A view that leaves keeps its memory; twice in the rare case that the suffix grows to where that is made. */
        if (search->line.outside[id] > 0 || tensor->is_output)
            raise_range(&suffix->tree, search->line.last_memory[tensor->alias_of] + 1, search->line.length,
                        search->workload->tensors[tensor->alias_of].bytes);
        return 0;
    }
    if (search->line.born[id] == search->line.stamp)
        suffix->open -= tensor->bytes;
    if (search->line.stays[id])
        raise_range(&suffix->tree, search->line.last_memory[id] + 1, search->line.length, tensor->bytes);
    return tensor->bytes;
}

static void add_input(struct suffix *suffix, uint32_t id)
{
    struct sp_grouping_search *search = suffix->search;
    const struct sp_work_tensor *tensor = &search->workload->tensors[id];
    hold(suffix, id);
    if (tensor->kind != SP_WORK_ACTIVATION || search->line.seen[id] == search->line.stamp)
        return;
    search->line.seen[id] = search->line.stamp;
    suffix->side->in += tensor->bytes;
    if (search->line.position[tensor->producer] != SP_NO_POSITION) {
        suffix->side->receive += sp_link_seconds(suffix->before, tensor);
        return;
    }
    uint32_t from = suffix->around->stage_device[suffix->around->stage_of[tensor->producer]];
    suffix->side->receive += sp_work_transfer_seconds(search->cluster, tensor, from, suffix->device);
    suffix->side->in_outside += tensor->bytes;
}

static void add_node(struct suffix *suffix, uint32_t position)
{
    struct sp_grouping_search *search = suffix->search;
    const struct sp_work_node *node = &search->workload->nodes[search->line.nodes[position]];
    double made = 0;
    suffix->side->compute += node->seconds[suffix->kind];
    suffix->side->resident += node->inner_weight_bytes + node->resident_bytes;
    for (uint32_t i = 0; i < node->output_count; i++)
        made += add_output(suffix, node->outputs[i]);
    for (uint32_t i = 0; i < node->input_count; i++)
        add_input(suffix, node->inputs[i]);
    set_leaf(&suffix->tree, position, suffix->open + made + node->workspace_bytes);
    suffix->side->peak = suffix->tree.most[1];
}

enum sp_status sp_suffix_scan(struct sp_grouping_search *search, const struct sp_candidate *around, uint32_t left,
                              uint32_t right, struct sp_side *sides)
{
    uint32_t length = search->line.length;
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct suffix suffix = {.search = search, .around = around, .device = right};
    suffix.kind = search->workload->kind_of[right];
    suffix.before = sp_search_link(search->cluster, left, right);
    suffix.tree.size = 1;
    while (suffix.tree.size < length)
        suffix.tree.size *= 2;
    suffix.tree.most = SP_NEW_ARRAY(search->arena, 2 * (size_t)suffix.tree.size, double);
    suffix.tree.added = SP_NEW_ARRAY(search->arena, 2 * (size_t)suffix.tree.size, double);
    if (suffix.tree.most == NULL || suffix.tree.added == NULL)
        return sp_fail_memory(search->err);

    struct sp_side side = {0};
    suffix.side = &side;
    search->line.stamp++;
    sides[length] = side;
    for (uint32_t position = length; position-- > 0;) {
        add_node(&suffix, position);
        (void)sp_search_step(search, 4);
        sides[position] = side;
    }
    sp_arena_rewind(search->arena, mark);
    return SP_OK;
}
