#include "cost/stage_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost/live_bytes.h"

struct share {
    uint32_t weight, part;
};

struct builder {
    struct sp_arena *scratch;
    struct sp_stage_parts *parts;
    uint32_t *order, *position, live_count; /* nodes that run; node -> its place among them */
    uint32_t *first, *last;                 /* per root: positions of its first and last operand; SP_NO_TOUCH: none */
    uint32_t *memory_of;  /* per root: index of its memory; SP_NO_TOUCH: it is known to one part alone */
    bool *is_known;       /* per root: outside of one part */
    bool *begins;         /* per position, and one more: a segment begins there */
    uint32_t *segment_at; /* per position, and one more */
};

static const struct sp_work_node *node_at(const struct builder *b, uint32_t position)
{
    return &b->parts->workload->nodes[b->order[position]];
}

static uint32_t part_at(const struct builder *b, uint32_t position)
{
    return b->parts->part_of[b->order[position]];
}

static uint32_t operand_count(const struct sp_work_node *node)
{
    return node->input_count + node->output_count;
}

static uint32_t operand(const struct sp_work_node *node, uint32_t index)
{
    return index < node->input_count ? node->inputs[index] : node->outputs[index - node->input_count];
}

/* The first and last operand of each memory, and whether anybody but one part has to know of it. */
static void look_at_operands(struct builder *b)
{
    const struct sp_workload *workload = b->parts->workload;
    for (uint32_t p = 0; p < b->live_count; p++) {
        const struct sp_work_node *node = node_at(b, p);
        for (uint32_t i = 0; i < operand_count(node); i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[operand(node, i)];
            const uint32_t root = sp_work_root(workload, operand(node, i));
            if (b->first[root] == SP_NO_TOUCH)
                b->first[root] = p;
            else if (part_at(b, b->last[root]) != part_at(b, p))
                b->is_known[root] = true;
            b->last[root] = p;
            b->is_known[root] =
                b->is_known[root] || tensor->kind == SP_WORK_INPUT || sp_work_is_held(tensor, i >= node->input_count);
        }
    }
}

/* Calls for each operand whose memory others know of, in order: the touch that it belongs to, a new one or the last. */
static uint32_t touch_at(struct builder *b, uint32_t root, uint32_t position, uint32_t *open)
{
    struct sp_stage_parts *parts = b->parts;
    if (open[root] != SP_NO_TOUCH && parts->touches[open[root]].part == part_at(b, position)) {
        parts->touches[open[root]].to = position + 1;
        return open[root];
    }
    open[root] = parts->touch_count++;
    parts->touches[open[root]] = (struct sp_part_touch){
        .memory = b->memory_of[root], .part = part_at(b, position), .from = position, .to = position + 1};
    return open[root];
}

static bool is_weight(const struct sp_workload *workload, uint32_t root)
{
    return workload->tensors[root].kind == SP_WORK_WEIGHT;
}

static bool list_touches(struct builder *b)
{
    struct sp_stage_parts *parts = b->parts;
    const struct sp_workload *workload = parts->workload;
    uint32_t *open = SP_NEW_ARRAY(b->scratch, workload->tensor_count, uint32_t);
    size_t operands = 0;
    for (uint32_t p = 0; p < b->live_count; p++)
        operands += operand_count(node_at(b, p));
    parts->touches = SP_NEW_ARRAY(b->scratch, operands, struct sp_part_touch); /* sorted into the arena afterwards */
    if (open == NULL || parts->touches == NULL)
        return false;
    memset(open, 0xFF, workload->tensor_count * sizeof *open);
    for (uint32_t p = 0; p < b->live_count; p++) {
        const struct sp_work_node *node = node_at(b, p);
        for (uint32_t i = 0; i < operand_count(node); i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[operand(node, i)];
            const uint32_t root = sp_work_root(workload, operand(node, i));
            if (b->memory_of[root] == SP_NO_TOUCH)
                continue;
            struct sp_part_touch *touch = &parts->touches[touch_at(b, root, p, open)];
            touch->is_model_input = touch->is_model_input || tensor->kind == SP_WORK_INPUT;
            touch->held += sp_work_is_held(tensor, i >= node->input_count);
        }
    }
    return true;
}

/* Puts the touches in the order of their memories, and lists those of each part. */
static bool sort_touches(struct sp_arena *arena, struct builder *b)
{
    struct sp_stage_parts *parts = b->parts;
    const struct sp_part_touch *unsorted = parts->touches;
    uint32_t *memory_of = SP_NEW_ARRAY(b->scratch, parts->touch_count, uint32_t);
    struct sp_rows by_memory;
    struct sp_part_touch *sorted = SP_NEW_ARRAY(arena, parts->touch_count, struct sp_part_touch);
    parts->touch_of = SP_NEW_ARRAY(arena, parts->part_count, uint32_t);
    if (memory_of == NULL || sorted == NULL || parts->touch_of == NULL)
        return false;
    for (uint32_t i = 0; i < parts->touch_count; i++)
        memory_of[i] = unsorted[i].memory;
    if (!sp_rows_sort(b->scratch, memory_of, parts->touch_count, parts->memory_count, &by_memory))
        return false;
    memset(parts->touch_of, 0xFF, parts->part_count * sizeof *parts->touch_of);
    for (uint32_t m = 0; m < parts->memory_count; m++) {
        parts->memories[m].first_touch = by_memory.start[m];
        parts->memories[m].last_touch = by_memory.start[m + 1];
    }
    for (uint32_t at = 0; at < parts->touch_count; at++) {
        struct sp_part_touch touch = unsorted[by_memory.items[at]];
        touch.from = b->segment_at[touch.from];
        touch.to = b->segment_at[touch.to];
        touch.next = parts->touch_of[touch.part];
        parts->touch_of[touch.part] = at;
        sorted[at] = touch;
    }
    parts->touches = sorted;
    return true;
}

/* A segment begins with each part, and where a touch begins or ends. */
static bool number_segments(struct sp_arena *arena, struct builder *b)
{
    struct sp_stage_parts *parts = b->parts;
    uint32_t *part_of = SP_NEW_ARRAY(b->scratch, b->live_count, uint32_t); /* of a segment */
    if (part_of == NULL)
        return false;
    for (uint32_t i = 0; i < parts->touch_count; i++)
        b->begins[parts->touches[i].from] = b->begins[parts->touches[i].to] = true;
    for (uint32_t p = 0; p < parts->workload->phase_count; p++)
        b->begins[sp_work_phase_stretch(parts->workload, b->live_count, b->order, p).from] = true;
    for (uint32_t p = 0; p < b->live_count; p++) {
        if (p == 0 || b->begins[p] || part_at(b, p) != part_at(b, p - 1))
            part_of[parts->segment_count++] = part_at(b, p);
        b->segment_at[p] = parts->segment_count - 1;
    }
    b->segment_at[b->live_count] = parts->segment_count;
    for (uint32_t m = 0; m < parts->memory_count; m++) {
        struct sp_part_memory *memory = &parts->memories[m];
        const struct sp_work_tensor *tensor = &parts->workload->tensors[memory->root];
        struct sp_work_stretch stretch = {0, b->live_count};
        if (tensor->life == SP_WORK_IN_PHASE)
            stretch = sp_work_phase_stretch(parts->workload, b->live_count, b->order, tensor->phase);
        memory->is_always = tensor->life == SP_WORK_ALWAYS;
        memory->from = b->segment_at[stretch.from];
        memory->to = tensor->life == SP_WORK_ELSEWHERE ? memory->from : b->segment_at[stretch.to];
    }
    return sp_rows_sort(arena, part_of, parts->segment_count, parts->part_count, &parts->segments);
}

/* Tensors that others use than the part that makes them. */
static bool list_links(struct sp_arena *arena, struct builder *b)
{
    struct sp_stage_parts *parts = b->parts;
    const struct sp_workload *workload = parts->workload;
    uint32_t *seen = SP_NEW_ARRAY(b->scratch, parts->part_count, uint32_t), user_count = 0;
    size_t uses = 0;
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        uses += workload->tensors[t].consumer_count;
    uint32_t *users = SP_NEW_ARRAY(b->scratch, uses, uint32_t);
    parts->links.items = SP_NEW_ARRAY(arena, workload->tensor_count, struct sp_part_link);
    if (seen == NULL || parts->links.items == NULL || users == NULL ||
        !sp_rows_begin(arena, parts->part_count, &parts->links.made) ||
        !sp_rows_begin(arena, parts->part_count, &parts->links.taken))
        return false;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        const uint32_t first = user_count;
        if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK ||
            workload->nodes[tensor->producer].folded)
            continue;
        const uint32_t producer = parts->part_of[tensor->producer];
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            const uint32_t user = parts->part_of[tensor->consumers[i]];
            if (user == producer || seen[user] == t + 1)
                continue;
            seen[user] = t + 1;
            users[user_count++] = user;
            sp_rows_count(&parts->links.taken, user);
        }
        if (user_count == first)
            continue;
        parts->links.items[parts->links.count++] =
            (struct sp_part_link){t, b->memory_of[sp_work_root(workload, t)], producer, user_count - first};
        sp_rows_count(&parts->links.made, producer);
    }
    if (!sp_rows_end_count(arena, parts->part_count, &parts->links.made) ||
        !sp_rows_end_count(arena, parts->part_count, &parts->links.taken))
        return false;
    for (uint32_t l = 0, at = 0; l < parts->links.count; l++) {
        sp_rows_put(&parts->links.made, parts->links.items[l].producer, l);
        for (uint32_t i = 0; i < parts->links.items[l].user_count; i++)
            sp_rows_put(&parts->links.taken, users[at++], l);
    }
    return true;
}

/* Weights: those of one part are in its sum, of others each part has a list. */
static bool list_weights(struct sp_arena *arena, struct builder *b)
{
    struct sp_stage_parts *parts = b->parts;
    const struct sp_workload *workload = parts->workload;
    uint32_t *index = SP_NEW_ARRAY(b->scratch, workload->tensor_count, uint32_t); /* of weights; 0: not listed */
    uint32_t *last = SP_NEW_ARRAY(b->scratch, workload->tensor_count, uint32_t);  /* part + 1 that was counted */
    struct share *pairs;
    size_t operands = 0, count = 0;
    for (uint32_t p = 0; p < b->live_count; p++)
        operands += operand_count(node_at(b, p));
    pairs = SP_NEW_ARRAY(b->scratch, operands, struct share);
    parts->weights.tensors = SP_NEW_ARRAY(arena, workload->tensor_count, uint32_t);
    if (index == NULL || last == NULL || pairs == NULL || parts->weights.tensors == NULL ||
        !sp_rows_begin(arena, parts->part_count, &parts->weights.shares))
        return false;
    for (uint32_t p = 0; p < b->live_count; p++) {
        const struct sp_work_node *node = node_at(b, p);
        const uint32_t part = part_at(b, p);
        for (uint32_t i = 0; i < operand_count(node); i++) {
            const uint32_t root = sp_work_root(workload, operand(node, i));
            if (!is_weight(workload, root) || last[root] == part + 1)
                continue;
            const bool is_first = last[root] == 0;
            last[root] = part + 1;
            for (uint32_t k = 0; k < parts->block_count; k++) {
                const double bytes = parts->blocks[k].tensor_bytes[root];
                parts->weights.minimum[k][part] += is_first ? bytes : 0;
                parts->weights.own[k][part] += b->is_known[root] ? 0 : bytes;
            }
            if (!b->is_known[root])
                continue;
            if (index[root] == 0) {
                parts->weights.tensors[parts->weights.count++] = root;
                index[root] = parts->weights.count;
            }
            pairs[count++] = (struct share){index[root] - 1, part};
            sp_rows_count(&parts->weights.shares, part);
        }
    }
    if (!sp_rows_end_count(arena, parts->part_count, &parts->weights.shares))
        return false;
    for (size_t i = 0; i < count; i++)
        sp_rows_put(&parts->weights.shares, pairs[i].part, pairs[i].weight);
    return true;
}

/* What each part needs for itself, in its segments, and at least. `seen` has an entry per tensor. */
static bool sum_inside(struct builder *b, uint32_t k, uint32_t *seen)
{
    struct sp_stage_parts *parts = b->parts;
    const struct sp_workload *workload = parts->workload;
    const struct sp_stage_block *block = &parts->blocks[k];
    struct sp_live live;
    if (!sp_live_init(&live, b->scratch, b->live_count))
        return false;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        if (b->first[t] != SP_NO_TOUCH && b->memory_of[t] == SP_NO_TOUCH && !is_weight(workload, t))
            sp_live_add(&live, b->first[t], b->last[t], block->tensor_bytes[t]);
    }
    memset(seen, 0, workload->tensor_count * sizeof *seen);
    for (uint32_t p = 0; p < b->live_count; p++) {
        const struct sp_work_node *node = node_at(b, p);
        const uint32_t part = part_at(b, p), id = b->order[p];
        double operands = 0;
        parts->weights.own[k][part] += block->persistent_bytes[id];
        parts->weights.minimum[k][part] += block->persistent_bytes[id];
        for (uint32_t i = 0; i < operand_count(node); i++) {
            const uint32_t root = sp_work_root(workload, operand(node, i));
            if (is_weight(workload, root) || seen[root] == p + 1)
                continue;
            seen[root] = p + 1;
            operands += block->tensor_bytes[root];
        }
        double *inside = &parts->inside[k][b->segment_at[p]], *held = &parts->minimum_held[k][part];
        *inside = fmax(*inside, sp_live_step(&live, p, block->workspace_bytes[id]).during);
        *held = fmax(*held, operands + block->workspace_bytes[id]);
    }
    return true;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint32_t size_index(const struct sp_part_streams *streams, double bytes)
{
    uint32_t low = 0, high = streams->size_count;
    while (low + 1 < high) {
        const uint32_t middle = low + (high - low) / 2;
        *(streams->sizes[middle] <= bytes ? &low : &high) = middle;
    }
    return low;
}

/* What may be streamed under a block: how large weights are, and which ones a part has. */
static bool list_streams(struct sp_arena *arena, const struct builder *b, uint32_t k)
{
    const double *bytes = b->parts->blocks[k].streamable_bytes;
    struct sp_part_streams *streams = &b->parts->streams[k];
    uint32_t count = 0, next = 0;
    if (bytes == NULL)
        return true;
    streams->sizes = SP_NEW_ARRAY(arena, b->live_count, double);
    if (streams->sizes == NULL || !sp_rows_begin(arena, b->parts->part_count, &streams->sized))
        return false;
    for (uint32_t p = 0; p < b->live_count; p++)
        if (bytes[b->order[p]] > 0) {
            streams->sizes[count++] = bytes[b->order[p]];
            sp_rows_count(&streams->sized, part_at(b, p));
        }
    if (count > 1)
        qsort(streams->sizes, count, sizeof *streams->sizes, ascending);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || streams->sizes[i] != streams->sizes[i - 1])
            streams->sizes[next++] = streams->sizes[i];
    streams->size_count = next;
    if (!sp_rows_end_count(arena, b->parts->part_count, &streams->sized))
        return false;
    for (uint32_t p = 0; p < b->live_count; p++)
        if (bytes[b->order[p]] > 0)
            sp_rows_put(&streams->sized, part_at(b, p), size_index(streams, bytes[b->order[p]]));
    return true;
}

static double **make_table(struct sp_arena *arena, uint32_t blocks, uint32_t columns)
{
    double **table = SP_NEW_ARRAY(arena, blocks, double *);
    for (uint32_t k = 0; table != NULL && k < blocks; k++) {
        if ((table[k] = SP_NEW_ARRAY(arena, columns, double)) == NULL)
            return NULL;
    }
    return table;
}

static bool build(struct sp_arena *arena, struct builder *b)
{
    struct sp_stage_parts *parts = b->parts;
    const struct sp_workload *workload = parts->workload;
    const uint32_t tensors = workload->tensor_count, blocks = parts->block_count;
    b->order = SP_NEW_ARRAY(b->scratch, workload->node_count, uint32_t);
    b->first = SP_NEW_ARRAY(b->scratch, tensors, uint32_t);
    b->last = SP_NEW_ARRAY(b->scratch, tensors, uint32_t);
    b->memory_of = SP_NEW_ARRAY(b->scratch, tensors, uint32_t);
    b->is_known = SP_NEW_ARRAY(b->scratch, tensors, bool);
    b->begins = SP_NEW_ARRAY(b->scratch, (size_t)workload->node_count + 1, bool);
    b->segment_at = SP_NEW_ARRAY(b->scratch, (size_t)workload->node_count + 1, uint32_t);
    parts->memories = SP_NEW_ARRAY(arena, tensors, struct sp_part_memory);
    if (b->order == NULL || b->first == NULL || b->last == NULL || b->memory_of == NULL || b->is_known == NULL ||
        b->begins == NULL || b->segment_at == NULL || parts->memories == NULL)
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (!workload->nodes[n].folded)
            b->order[b->live_count++] = n;
    }
    memset(b->first, 0xFF, tensors * sizeof *b->first);
    memset(b->memory_of, 0xFF, tensors * sizeof *b->memory_of);
    look_at_operands(b);
    for (uint32_t t = 0; t < tensors; t++) {
        if (b->first[t] == SP_NO_TOUCH || !b->is_known[t] || is_weight(workload, t))
            continue;
        b->memory_of[t] = parts->memory_count;
        parts->memories[parts->memory_count++].root = t;
    }
    if (!list_touches(b) || !number_segments(arena, b) || !sort_touches(arena, b) || !list_links(arena, b))
        return false;
    parts->streams = SP_NEW_ARRAY(arena, blocks, struct sp_part_streams);
    parts->inside = make_table(arena, blocks, parts->segment_count);
    parts->weights.own = make_table(arena, blocks, parts->part_count);
    parts->weights.minimum = make_table(arena, blocks, parts->part_count);
    parts->minimum_held = make_table(arena, blocks, parts->part_count);
    if (parts->streams == NULL || parts->inside == NULL || parts->weights.own == NULL ||
        parts->weights.minimum == NULL || parts->minimum_held == NULL || !list_weights(arena, b))
        return false;
    uint32_t *seen = SP_NEW_ARRAY(b->scratch, tensors, uint32_t);
    bool is_done = seen != NULL;
    for (uint32_t k = 0; is_done && k < blocks; k++)
        is_done = sum_inside(b, k, seen) && list_streams(arena, b, k);
    return is_done;
}

struct sp_stage_parts *sp_stage_parts_create(struct sp_arena *arena, const struct sp_workload *workload,
                                             uint32_t part_count, const uint32_t *part_of, uint32_t block_count,
                                             const struct sp_stage_block *blocks)
{
    struct sp_stage_parts *parts = SP_NEW(arena, struct sp_stage_parts);
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    bool is_built = false;
    if (parts != NULL && scratch != NULL) {
        *parts = (struct sp_stage_parts){.workload = workload,
                                         .part_of = part_of,
                                         .part_count = part_count,
                                         .block_count = block_count,
                                         .blocks = blocks};
        struct builder builder = {.scratch = scratch, .parts = parts};
        is_built = build(arena, &builder);
    }
    sp_arena_destroy(scratch);
    return is_built ? parts : NULL;
}

double sp_stage_parts_maximum(const struct sp_stage_parts *parts, uint32_t block)
{
    const double *tensor_bytes = parts->blocks[block].tensor_bytes;
    double bytes = 0, inside = 0;
    for (uint32_t p = 0; p < parts->part_count; p++)
        bytes += parts->weights.minimum[block][p];
    for (uint32_t m = 0; m < parts->segment_count; m++)
        inside = fmax(inside, parts->inside[block][m]);
    for (uint32_t m = 0; m < parts->memory_count; m++)
        bytes += tensor_bytes[parts->memories[m].root];
    for (uint32_t l = 0; l < parts->links.count; l++)
        bytes += 2 * parts->links.items[l].user_count * tensor_bytes[parts->links.items[l].tensor];
    return bytes + inside;
}

void sp_stage_part_minimum(const struct sp_stage_parts *parts, uint32_t block, uint32_t part, double *ret_weights,
                           double *ret_held)
{
    *ret_weights = parts->weights.minimum[block][part];
    *ret_held = parts->minimum_held[block][part];
}
