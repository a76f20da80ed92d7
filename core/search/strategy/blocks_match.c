/*
 * Runs of blocks in a part of the sequence where the numbers of nodes repeat.
 *
 * Take blocks of p nodes of which the first begins at B. A node i of the second block is compared with i - p, operand
 * by operand, and what they read says where B may lie:
 *
 *   the same tensor, made at j                  before the run        j < B
 *   made at j and at j - p                      in the run            B <= j
 *   made at j and anywhere else, at h           carried in: j in the first block, h before the run     h < B <= j < B +
 * p
 *
 * Each is an interval, so one pass over the nodes and a sum over their borders tells for every B whether it will do.
 * Further blocks have nothing carried in: the first node that would need it ends the run. Of the runs that are possible
 * so those are chosen that save most together; then each is compared block by block, weights and all.
 */
#include "search/strategy/blocks_internal.h"

#include "base/array.h"

#define MOST_LIVE 1e12 /* bytes of one tensor, where borders are compared: sums of them stay in range */

/* ---- what is read off the workload ------------------------------------------------------------------------------ */

/* Positions of producers; bytes across each border as differences, which are then summed up. */
static void fill_tensors(struct sp_blocks_graph *g, const uint32_t *position_of)
{
    const struct sp_workload *workload = g->workload;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        const bool is_made = tensor->kind == SP_WORK_ACTIVATION && tensor->producer != SP_NO_WORK &&
                             !workload->nodes[tensor->producer].folded;
        g->made_at[t] = is_made ? (int32_t)position_of[tensor->producer] : SP_BLOCKS_OUTSIDE;
        g->is_plain[t] = sp_blocks_is_plain(tensor);
        if (!is_made || tensor->consumer_count == 0)
            continue;
        uint64_t bytes = (uint64_t)(tensor->bytes < MOST_LIVE ? tensor->bytes : MOST_LIVE);
        g->live[g->made_at[t] + 1] += bytes;
        g->live[position_of[tensor->consumers[tensor->consumer_count - 1]] + 1] -= bytes;
    }
    for (uint32_t i = 1; i <= g->count + 1; i++)
        g->live[i] += g->live[i - 1];
    for (uint32_t n = 0; n < workload->node_count; n++) {
        for (uint32_t i = 0; i < workload->nodes[n].output_count; i++)
            g->output_of[workload->nodes[n].outputs[i]] = i;
    }
}

static bool allocate(struct sp_arena *arena, struct sp_blocks_graph *g)
{
    const size_t tensors = g->workload->tensor_count, places = (size_t)g->count + 2;
    g->made_at = SP_NEW_ARRAY(arena, tensors, int32_t);
    g->output_of = SP_NEW_ARRAY(arena, tensors, uint32_t);
    g->is_plain = SP_NEW_ARRAY(arena, tensors, bool);
    g->partner = SP_NEW_ARRAY(arena, tensors, uint32_t);
    g->partner_stamp = SP_NEW_ARRAY(arena, tensors, uint32_t);
    g->back = SP_NEW_ARRAY(arena, tensors, uint32_t);
    g->back_stamp = SP_NEW_ARRAY(arena, tensors, uint32_t);
    g->carry = SP_NEW_ARRAY(arena, tensors, uint32_t);
    g->carry_stamp = SP_NEW_ARRAY(arena, tensors, uint32_t);
    g->read_at = SP_NEW_ARRAY(arena, tensors, uint32_t);
    g->live = SP_NEW_ARRAY(arena, places, uint64_t);
    g->against = SP_NEW_ARRAY(arena, places, int32_t);
    g->breaks = SP_NEW_ARRAY(arena, places, uint32_t);
    g->saved = SP_NEW_ARRAY(arena, places, uint32_t);
    return g->made_at != NULL && g->output_of != NULL && g->is_plain != NULL && g->partner != NULL &&
           g->partner_stamp != NULL && g->back != NULL && g->back_stamp != NULL && g->carry != NULL &&
           g->carry_stamp != NULL && g->read_at != NULL && g->live != NULL && g->against != NULL && g->breaks != NULL &&
           g->saved != NULL;
}

enum sp_status sp_blocks_graph_init(struct sp_arena *arena, struct sp_blocks_graph *graph, struct sp_error *err)
{
    uint32_t *position_of = SP_NEW_ARRAY(arena, graph->workload->node_count, uint32_t);
    if (position_of == NULL || !allocate(arena, graph))
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < graph->count; i++)
        position_of[graph->order[i]] = i;
    fill_tensors(graph, position_of);
    *graph->steps += graph->workload->tensor_count;
    return SP_OK;
}

static const struct sp_work_node *node_at(const struct sp_blocks_graph *g, uint32_t position)
{
    return &g->workload->nodes[g->order[position]];
}

static bool is_same_class(const struct sp_blocks_graph *g, uint32_t a, uint32_t b)
{
    return g->class_of[g->order[a]] == g->class_of[g->order[b]];
}

/* ---- where blocks may begin ------------------------------------------------------------------------------------- */

struct part {
    uint32_t begin, end, length; /* of blocks */
};

/* Where the run may begin, `low` to `high`, for an operand of node i, which is in the second block. */
struct limits {
    int64_t low, high;
    bool is_break; /* in a later block it cannot be */
};

static struct limits limits_of(const struct sp_blocks_graph *g, int64_t length, uint32_t before, uint32_t here)
{
    const struct sp_work_tensor *tensors = g->workload->tensors;
    int64_t h = g->made_at[before], j = g->made_at[here];
    if (tensors[here].kind != SP_WORK_ACTIVATION && tensors[before].kind != SP_WORK_ACTIVATION)
        return (struct limits){0, INT64_MAX, false};
    if (before == here)
        return (struct limits){j + 1, INT64_MAX, false};
    if (h != SP_BLOCKS_OUTSIDE && j - h == length && g->output_of[before] == g->output_of[here])
        return (struct limits){0, j, false};
    return (struct limits){h > j - length ? h + 1 : j - length + 1, j, true};
}

/* Counts one more against the beginnings low..high. */
static void forbid(const struct sp_blocks_graph *g, const struct part *part, int64_t low, int64_t high)
{
    if (low < part->begin)
        low = part->begin;
    if (low > high)
        return;
    g->against[low - part->begin]++;
    g->against[high - part->begin + 1]--;
}

/* What is carried in from tensor `here` stands for one tensor, wherever the second block reads it: forbids beginnings
   for which two reads, this at node i and the one noted last, say otherwise. */
static void weigh_carry(struct sp_blocks_graph *g, const struct part *part, uint32_t i, uint32_t before, uint32_t here)
{
    const int64_t j = g->made_at[here], length = part->length;
    if (j == SP_BLOCKS_OUTSIDE)
        return;
    if (g->carry_stamp[here] == g->stamp && g->carry[here] != before) {
        int64_t low = (int64_t)i - 2 * length, high = (int64_t)g->read_at[here] - length;
        forbid(g, part, (low > j - length ? low : j - length) + 1, high < j ? high : j);
    }
    g->carry_stamp[here] = g->stamp;
    g->carry[here] = before;
    g->read_at[here] = i;
}

/* Of the beginnings that have node i in the second block, those that its operands do not allow. */
static void weigh_node(struct sp_blocks_graph *g, const struct part *part, uint32_t i)
{
    const struct sp_work_node *node = node_at(g, i), *before = node_at(g, i - part->length);
    const int64_t first = (int64_t)i - 2 * (int64_t)part->length + 1, last = (int64_t)i - part->length;
    bool is_break = !is_same_class(g, i, i - part->length);
    *g->steps += 1;
    if (is_break)
        forbid(g, part, first, last);
    for (uint32_t k = 0; !is_break && k < node->input_count; k++) {
        struct limits limits = limits_of(g, part->length, before->inputs[k], node->inputs[k]);
        *g->steps += 1;
        forbid(g, part, first, limits.low - 1 < last ? limits.low - 1 : last);
        if (limits.high < last)
            forbid(g, part, limits.high + 1 > first ? limits.high + 1 : first, last);
        weigh_carry(g, part, i, before->inputs[k], node->inputs[k]);
        g->breaks[i - part->begin] |= limits.is_break;
    }
    g->breaks[i - part->begin] |= is_break;
}

/* against[]: how many operands forbid a beginning; breaks[]: the first node from there on that ends a run. */
static void weigh(struct sp_blocks_graph *g, const struct part *part)
{
    const uint32_t size = part->end - part->begin;
    g->stamp++;
    for (uint32_t i = 0; i <= size; i++) {
        g->against[i] = 0;
        g->breaks[i] = 0;
    }
    for (uint32_t i = part->begin + part->length; i < part->end; i++)
        weigh_node(g, part, i);
    for (uint32_t i = 1; i <= size; i++)
        g->against[i] += g->against[i - 1];
    g->breaks[size] = part->end;
    for (uint32_t i = size; i-- > 0;)
        g->breaks[i] = g->breaks[i] != 0 ? part->begin + i : g->breaks[i + 1];
}

/* Blocks of a run that begins here, or 0. */
static uint32_t blocks_from(const struct sp_blocks_graph *g, const struct part *part, uint32_t begin)
{
    if (part->end - begin < 2 * part->length || g->against[begin - part->begin] != 0)
        return 0;
    return (g->breaks[begin + 2 * part->length - part->begin] - begin) / part->length;
}

/* What a run of so many blocks saves; 0 where it is too little to be one. */
static uint32_t worth(uint32_t length, uint32_t count)
{
    return count >= 2 && (uint64_t)length * (count - 1) >= SP_BLOCKS_LEAST_SAVED ? length * (count - 1) : 0;
}

/* saved[]: what runs from here on may save together, at most. */
static void plan_savings(const struct sp_blocks_graph *g, const struct part *part)
{
    const uint32_t size = part->end - part->begin, length = part->length;
    for (uint32_t i = 0; i < 2 * length; i++)
        g->saved[size - i] = 0;
    for (uint32_t i = size - 2 * length + 1; i-- > 0;) {
        uint32_t count = blocks_from(g, part, part->begin + i);
        uint32_t taken = worth(length, count) > 0 ? worth(length, count) + g->saved[i + count * length] : 0;
        g->saved[i] = taken > g->saved[i + 1] ? taken : g->saved[i + 1];
    }
    *g->steps += size;
}

/* Whether a run that begins here is part of what saves most. */
static bool is_best(const struct sp_blocks_graph *g, const struct part *part, uint32_t begin)
{
    const uint32_t count = blocks_from(g, part, begin), i = begin - part->begin, own = worth(part->length, count);
    return own > 0 && own + g->saved[i + count * part->length] == g->saved[i];
}

/* Of the beginnings that save as much, `begin` and those less than a block behind, the one with the fewest bytes across
   the borders; of several the last, which leaves most to what is before. */
static uint32_t best_beginning(const struct sp_blocks_graph *g, const struct part *part, uint32_t begin)
{
    const uint32_t length = part->length, most = g->saved[begin - part->begin];
    uint32_t best = begin;
    for (uint32_t at = begin + 1; at < begin + length && at + 2 * length <= part->end; at++) {
        *g->steps += 1;
        if (g->saved[at - part->begin] != most)
            break;
        if (g->live[at + length] <= g->live[best + length] && is_best(g, part, at))
            best = at;
    }
    return best;
}

/* ---- block by block --------------------------------------------------------------------------------------------- */

static bool is_pair(uint32_t *to, uint32_t *stamps, uint32_t stamp, uint32_t from, uint32_t other)
{
    if (stamps[from] == stamp)
        return to[from] == other;
    stamps[from] = stamp;
    to[from] = other;
    return true;
}

/* One operand of a node in block `block` of the run, and the one before. */
static bool is_same_read(struct sp_blocks_graph *g, const struct sp_block_run *run, uint32_t block, uint32_t before,
                         uint32_t here)
{
    const struct sp_work_tensor *tensors = g->workload->tensors;
    const int64_t h = g->made_at[before], j = g->made_at[here], length = run->length, first = run->first_node;
    if (tensors[here].kind != SP_WORK_ACTIVATION && tensors[before].kind != SP_WORK_ACTIVATION) {
        if (tensors[here].kind != tensors[before].kind)
            return false;
        if (g->is_plain[here] && g->is_plain[before])
            return true;
        return is_pair(g->partner, g->partner_stamp, g->stamp, before, here) &&
               is_pair(g->back, g->back_stamp, g->stamp, here, before);
    }
    if (j < first)
        return before == here;
    if (block == 1 && j < first + length)
        return h < first && is_pair(g->carry, g->carry_stamp, g->stamp, here, before);
    return j >= first + (block - 1) * length && j - h == length && g->output_of[before] == g->output_of[here];
}

static bool is_same_block(struct sp_blocks_graph *g, const struct sp_block_run *run, uint32_t block)
{
    const uint32_t first = run->first_node + block * run->length;
    g->stamp++;
    for (uint32_t i = first; i < first + run->length; i++) {
        const struct sp_work_node *node = node_at(g, i), *before = node_at(g, i - run->length);
        if (!is_same_class(g, i, i - run->length))
            return false;
        *g->steps += 1 + (uint64_t)node->input_count;
        for (uint32_t k = 0; k < node->input_count; k++) {
            if (!is_same_read(g, run, block, before->inputs[k], node->inputs[k]))
                return false;
        }
    }
    return true;
}

bool sp_blocks_add_run(struct sp_blocks_run_list *list, const struct sp_block_run *run)
{
    if (!SP_MAKE_ROOM(list->arena, list->runs, list->count, list->capacity, 1))
        return false;
    list->runs[list->count++] = *run;
    return true;
}

bool sp_blocks_match(struct sp_blocks_graph *graph, uint32_t begin, uint32_t end, uint32_t length,
                     struct sp_blocks_run_list *list, uint32_t *covered)
{
    const struct part part = {begin, end, length};
    if (end - begin < 2 * length)
        return true;
    weigh(graph, &part);
    plan_savings(graph, &part);
    while (end - begin >= 2 * length) {
        if (!is_best(graph, &part, begin)) {
            begin++;
            continue;
        }
        struct sp_block_run run = {best_beginning(graph, &part, begin), length, 1};
        uint32_t count = blocks_from(graph, &part, run.first_node);
        while (run.count < count && is_same_block(graph, &run, run.count))
            run.count++;
        begin = run.first_node + run.count * length;
        if (run.count < 2)
            continue;
        *covered += run.count * length;
        if (worth(length, run.count) > 0 && !sp_blocks_add_run(list, &run))
            return false;
    }
    return true;
}
