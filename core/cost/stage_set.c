#include "cost/stage_parts.h"
#include "cost/streaming.h"

#include <math.h>

/* What a set knows of a memory. */
struct interval {
    uint32_t touches, first, last; /* touches of parts that are in: how many, the first and the last one */
    uint32_t model_inputs, stays;  /* touches that have it from the start; operands that stay to the end */
    uint32_t from, to;             /* segments at which it counts in the tree */
};

/* Largest sums over segments, for every block: those of one place follow one another, so that blocks are counted side by
   side. Segment m is leaf m + leaves; a leaf whose part is not in has no sum. */
struct tree {
    double *most;  /* [node][block]: below a node, what was added to it included */
    double *added; /* [node][block]: to all below a node */
};

struct sp_stage_set {
    const struct sp_stage_parts *parts;
    uint32_t leaves; /* a power of two */
    struct tree tree;
    double *change;                        /* per block: what is added */
    bool *is_in;                           /* per part */
    struct interval *intervals;            /* per memory */
    uint32_t *users_in;                    /* per link */
    uint32_t *holders;                     /* per shared weight: parts that are in */
    double *weight_bytes, *crossing_bytes; /* per block */
    struct sp_stream_size **streams;       /* per block, by size: weights that may be streamed */
};

struct sp_stage_set *sp_stage_set_create(struct sp_arena *arena, const struct sp_stage_parts *parts)
{
    struct sp_stage_set *set = SP_NEW(arena, struct sp_stage_set);
    if (set == NULL)
        return NULL;
    *set = (struct sp_stage_set){.parts = parts,
                                 .leaves = 1,
                                 .change = SP_NEW_ARRAY(arena, parts->block_count, double),
                                 .is_in = SP_NEW_ARRAY(arena, parts->part_count, bool),
                                 .intervals = SP_NEW_ARRAY(arena, parts->memory_count, struct interval),
                                 .users_in = SP_NEW_ARRAY(arena, parts->links.count, uint32_t),
                                 .holders = SP_NEW_ARRAY(arena, parts->weights.count, uint32_t),
                                 .weight_bytes = SP_NEW_ARRAY(arena, parts->block_count, double),
                                 .crossing_bytes = SP_NEW_ARRAY(arena, parts->block_count, double),
                                 .streams = SP_NEW_ARRAY(arena, parts->block_count, struct sp_stream_size *)};
    while (set->leaves < parts->segment_count)
        set->leaves *= 2;
    const size_t nodes = 2 * (size_t)set->leaves * parts->block_count;
    set->tree = (struct tree){SP_NEW_ARRAY(arena, nodes, double), SP_NEW_ARRAY(arena, nodes, double)};
    if (set->tree.most == NULL || set->tree.added == NULL || set->change == NULL || set->is_in == NULL ||
        set->intervals == NULL || set->users_in == NULL || set->holders == NULL || set->weight_bytes == NULL ||
        set->crossing_bytes == NULL || set->streams == NULL)
        return NULL;
    for (size_t i = 0; i < nodes; i++)
        set->tree.most[i] = -INFINITY;
    for (uint32_t k = 0; k < parts->block_count; k++) {
        const struct sp_part_streams *streams = &parts->streams[k];
        set->streams[k] = SP_NEW_ARRAY(arena, streams->size_count, struct sp_stream_size);
        if (set->streams[k] == NULL)
            return NULL;
        for (uint32_t i = 0; i < streams->size_count; i++)
            set->streams[k][i].bytes = streams->sizes[i];
    }
    return set;
}

/* What is above a node, after something below it changed. */
static void refresh(const struct tree *tree, uint32_t node, uint32_t blocks)
{
    while (node > 1) {
        node /= 2;
        double *restrict most = tree->most + (size_t)node * blocks;
        const double *restrict added = tree->added + (size_t)node * blocks;
        const double *restrict left = tree->most + 2 * (size_t)node * blocks, *restrict right = left + blocks;
        for (uint32_t k = 0; k < blocks; k++)
            most[k] = (left[k] > right[k] ? left[k] : right[k]) + added[k];
    }
}

static inline void raise_node(const struct tree *tree, uint32_t node, uint32_t blocks, const double *restrict change)
{
    double *restrict most = tree->most + (size_t)node * blocks, *restrict added = tree->added + (size_t)node * blocks;
    for (uint32_t k = 0; k < blocks; k++) {
        most[k] += change[k];
        added[k] += change[k];
    }
}

/* Adds to segments from .. to - 1. */
static void raise_range(const struct sp_stage_set *set, uint32_t memory, uint32_t from, uint32_t to, double sign)
{
    const uint32_t root = set->parts->memories[memory].root, blocks = set->parts->block_count;
    for (uint32_t k = 0; k < blocks; k++)
        set->change[k] = sign * set->parts->blocks[k].tensor_bytes[root];
    for (uint32_t left = from + set->leaves, right = to + set->leaves; left < right; left /= 2, right /= 2) {
        if (left & 1)
            raise_node(&set->tree, left++, blocks, set->change);
        if (right & 1)
            raise_node(&set->tree, --right, blocks, set->change);
    }
    refresh(&set->tree, from + set->leaves, blocks);
    refresh(&set->tree, to - 1 + set->leaves, blocks);
}

/* Adds what lies between an old and a new end. */
static void move_end(const struct sp_stage_set *set, uint32_t memory, uint32_t before, uint32_t after, double sign)
{
    if (before < after)
        raise_range(set, memory, before, after, sign);
    else if (after < before)
        raise_range(set, memory, after, before, -sign);
}

/* A segment counts from now on, or no longer. */
static void show_segment(const struct sp_stage_set *set, uint32_t segment, bool counts)
{
    const uint32_t leaf = segment + set->leaves, blocks = set->parts->block_count;
    const size_t first = (size_t)leaf * blocks;
    for (uint32_t k = 0; k < blocks; k++)
        set->tree.most[first + k] = counts ? set->tree.added[first + k] + set->parts->inside[k][segment] : -INFINITY;
    refresh(&set->tree, leaf, blocks);
}

static void update_interval(struct sp_stage_set *set, uint32_t memory)
{
    const struct sp_part_touch *touches = set->parts->touches;
    struct interval *interval = &set->intervals[memory];
    const struct sp_part_memory *of = &set->parts->memories[memory];
    uint32_t from = 0, to = 0;
    if (interval->touches > 0 && of->from < of->to) {
        from = interval->model_inputs > 0 || of->is_always ? of->from : touches[interval->first].from;
        to = interval->stays > 0 ? of->to : touches[interval->last].to;
    }
    if (interval->from == interval->to) { /* it was not there */
        move_end(set, memory, from, to, 1);
    } else if (from == to) {
        move_end(set, memory, interval->from, interval->to, -1);
    } else {
        move_end(set, memory, interval->from, from, -1);
        move_end(set, memory, interval->to, to, 1);
    }
    interval->from = from;
    interval->to = to;
}

/* The first and last touch that is in, after touch `at` came in or went out. */
static void find_ends(const struct sp_stage_set *set, struct interval *interval, uint32_t at, bool is_in)
{
    const struct sp_part_touch *touches = set->parts->touches;
    if (is_in) {
        interval->first = interval->touches == 1 || at < interval->first ? at : interval->first;
        interval->last = interval->touches == 1 || at > interval->last ? at : interval->last;
        return;
    }
    while (interval->first < interval->last && !set->is_in[touches[interval->first].part])
        interval->first++;
    while (interval->first < interval->last && !set->is_in[touches[interval->last].part])
        interval->last--;
}

/* What a tensor adds that crosses the border of the set. */
static void add_crossing(struct sp_stage_set *set, const struct sp_part_link *link, double sign)
{
    for (uint32_t k = 0; k < set->parts->block_count; k++)
        set->crossing_bytes[k] += sign * set->parts->blocks[k].tensor_bytes[link->tensor];
}

static void count_link(struct sp_stage_set *set, uint32_t l, double sign)
{
    const struct sp_part_link *link = &set->parts->links.items[l];
    const bool is_made = set->is_in[link->producer];
    if (is_made && set->users_in[l] < link->user_count) {
        add_crossing(set, link, sign);
        set->intervals[link->memory].stays += sign > 0 ? 1 : UINT32_MAX;
    } else if (!is_made && set->users_in[l] > 0) {
        add_crossing(set, link, sign);
    }
}

static void change(struct sp_stage_set *set, uint32_t part, bool is_in)
{
    const struct sp_stage_parts *parts = set->parts;
    const uint32_t step = is_in ? 1 : UINT32_MAX;
    for (uint32_t i = parts->links.made.start[part]; i < parts->links.made.start[part + 1]; i++)
        count_link(set, parts->links.made.items[i], -1);
    for (uint32_t i = parts->links.taken.start[part]; i < parts->links.taken.start[part + 1]; i++)
        count_link(set, parts->links.taken.items[i], -1);
    set->is_in[part] = is_in;
    for (uint32_t i = parts->links.taken.start[part]; i < parts->links.taken.start[part + 1]; i++) {
        set->users_in[parts->links.taken.items[i]] += step;
        count_link(set, parts->links.taken.items[i], 1);
    }
    for (uint32_t i = parts->links.made.start[part]; i < parts->links.made.start[part + 1]; i++)
        count_link(set, parts->links.made.items[i], 1);
    for (uint32_t i = parts->touch_of[part]; i != SP_NO_TOUCH; i = parts->touches[i].next) {
        const struct sp_part_touch *touch = &parts->touches[i];
        struct interval *interval = &set->intervals[touch->memory];
        interval->touches += step;
        interval->model_inputs += touch->is_model_input ? step : 0;
        interval->stays += touch->held * step;
        find_ends(set, interval, i, is_in);
    }
    for (uint32_t i = parts->touch_of[part]; i != SP_NO_TOUCH; i = parts->touches[i].next)
        update_interval(set, parts->touches[i].memory);
    for (uint32_t i = parts->segments.start[part]; i < parts->segments.start[part + 1]; i++)
        show_segment(set, parts->segments.items[i], is_in);
    for (uint32_t i = parts->weights.shares.start[part]; i < parts->weights.shares.start[part + 1]; i++) {
        uint32_t *holders = &set->holders[parts->weights.shares.items[i]];
        const bool counts = is_in ? *holders == 0 : *holders == 1;
        *holders += step;
        for (uint32_t k = 0; counts && k < parts->block_count; k++)
            set->weight_bytes[k] +=
                (is_in ? 1 : -1) *
                parts->blocks[k].tensor_bytes[parts->weights.tensors[parts->weights.shares.items[i]]];
    }
    for (uint32_t k = 0; k < parts->block_count; k++) {
        const struct sp_part_streams *streams = &parts->streams[k];
        set->weight_bytes[k] += (is_in ? 1 : -1) * parts->weights.own[k][part];
        if (streams->size_count == 0)
            continue;
        for (uint32_t i = streams->sized.start[part]; i < streams->sized.start[part + 1]; i++)
            set->streams[k][streams->sized.items[i]].count += step;
    }
}

void sp_stage_set_put(struct sp_stage_set *set, uint32_t part)
{
    change(set, part, true);
}

void sp_stage_set_take(struct sp_stage_set *set, uint32_t part)
{
    change(set, part, false);
}

double sp_stage_set_peak(const struct sp_stage_set *set, uint32_t block)
{
    return fmax(set->tree.most[set->parts->block_count + block], 0); /* of node 1 */
}

double sp_stage_set_weights(const struct sp_stage_set *set, uint32_t block)
{
    return set->weight_bytes[block];
}

double sp_stage_set_streamed(const struct sp_stage_set *set, uint32_t block, double lacking)
{
    struct sp_streamed_weights streamed;
    if (!sp_stream_take(set->parts->streams[block].size_count, set->streams[block], lacking + SP_STREAM_MORE,
                        &streamed))
        return INFINITY;
    return streamed.bytes;
}

double sp_stage_set_bytes(const struct sp_stage_set *set, uint32_t block)
{
    return set->weight_bytes[block] + 2 * set->crossing_bytes[block] + sp_stage_set_peak(set, block);
}
