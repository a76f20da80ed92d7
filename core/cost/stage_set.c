#include "cost/stage_set.h"

#include <math.h>
#include <string.h>

#include "base/rows.h"

#define NONE UINT32_MAX

/* Memory that other parts know of: a root that several parts touch, a model input or a result. */
struct memory {
    uint32_t root;                    /* the tensor */
    uint32_t first_touch, last_touch; /* touches[first] .. touches[last - 1], in the order of nodes */
};

/* A part's operands that have this memory. */
struct touch {
    uint32_t memory, part;
    uint32_t from, to;   /* moments, half open: from the first of these operands to the last */
    uint32_t results;    /* results of the model among what the part makes of it */
    uint32_t next;       /* touch of the same part */
    bool is_model_input; /* it is there from the start of the stage */
};

/* A tensor that crosses parts. */
struct link {
    uint32_t tensor, memory, producer; /* part */
    uint32_t user_count;               /* parts that use it */
};

struct share {
    uint32_t weight, part;
};

struct sp_stage_parts {
    const struct sp_workload *workload;
    const uint32_t *part_of;
    uint32_t part_count, block_count, moment_count, memory_count, touch_count, link_count, weight_count;
    const struct sp_stage_block *blocks;
    struct memory *memories;
    struct touch *touches;
    uint32_t *touch_of;     /* per part: the first of its touches */
    struct sp_rows moments; /* by part */
    struct link *links;
    struct sp_rows made, taken; /* by part: links that it makes, and uses */
    uint32_t *weights;          /* of several parts: tensors */
    struct sp_rows shares;      /* by part: entries of `weights` that it uses */
    double **inside;            /* [block][moment]: what the part needs for itself, its workspace included */
    double **own_weights;       /* [block][part]: weights of this part alone, and what its nodes keep */
    double **least_weights;     /* [block][part]: the same, and shared ones at their first part */
    double **least_held;        /* [block][part]: the operands and the workspace of its hungriest node */
};

/* ---- building --------------------------------------------------------------------------------------------------- */

struct builder {
    struct sp_arena *scratch;
    struct sp_stage_parts *parts;
    uint32_t *order, *position, live_count; /* nodes that run; node -> its place among them */
    uint32_t *first, *last;                 /* per root: positions of its first and last operand; NONE: none */
    uint32_t *memory_of;                    /* per root: index of its memory; NONE: it is known to one part alone */
    bool *is_known;                         /* per root: outside of one part */
    bool *begins;                           /* per position, and one more: a moment begins there */
    uint32_t *moment_at;                    /* per position, and one more */
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
            if (b->first[root] == NONE)
                b->first[root] = p;
            else if (part_at(b, b->last[root]) != part_at(b, p))
                b->is_known[root] = true;
            b->last[root] = p;
            b->is_known[root] =
                b->is_known[root] || tensor->kind == SP_WORK_INPUT || (i >= node->input_count && tensor->is_output);
        }
    }
}

/* Calls for each operand whose memory others know of, in order: the touch that it belongs to, a new one or the last. */
static uint32_t touch_at(struct builder *b, uint32_t root, uint32_t position, uint32_t *open)
{
    struct sp_stage_parts *parts = b->parts;
    if (open[root] != NONE && parts->touches[open[root]].part == part_at(b, position)) {
        parts->touches[open[root]].to = position + 1;
        return open[root];
    }
    open[root] = parts->touch_count++;
    parts->touches[open[root]] = (struct touch){
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
    parts->touches = SP_NEW_ARRAY(b->scratch, operands, struct touch); /* sorted into the arena afterwards */
    if (open == NULL || parts->touches == NULL)
        return false;
    memset(open, 0xFF, workload->tensor_count * sizeof *open);
    for (uint32_t p = 0; p < b->live_count; p++) {
        const struct sp_work_node *node = node_at(b, p);
        for (uint32_t i = 0; i < operand_count(node); i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[operand(node, i)];
            const uint32_t root = sp_work_root(workload, operand(node, i));
            if (b->memory_of[root] == NONE)
                continue;
            struct touch *touch = &parts->touches[touch_at(b, root, p, open)];
            touch->is_model_input = touch->is_model_input || tensor->kind == SP_WORK_INPUT;
            touch->results += i >= node->input_count && tensor->is_output;
        }
    }
    return true;
}

/* Puts the touches in the order of their memories, and lists those of each part. */
static bool sort_touches(struct sp_arena *arena, struct builder *b)
{
    struct sp_stage_parts *parts = b->parts;
    const struct touch *unsorted = parts->touches;
    uint32_t *next = SP_NEW_ARRAY(b->scratch, (size_t)parts->memory_count + 1, uint32_t);
    struct touch *sorted = SP_NEW_ARRAY(arena, parts->touch_count, struct touch);
    parts->touch_of = SP_NEW_ARRAY(arena, parts->part_count, uint32_t);
    if (next == NULL || sorted == NULL || parts->touch_of == NULL)
        return false;
    memset(parts->touch_of, 0xFF, parts->part_count * sizeof *parts->touch_of);
    for (uint32_t i = 0; i < parts->touch_count; i++)
        next[unsorted[i].memory + 1]++;
    for (uint32_t m = 0; m < parts->memory_count; m++) {
        next[m + 1] += next[m];
        parts->memories[m].first_touch = next[m];
        parts->memories[m].last_touch = next[m + 1];
    }
    for (uint32_t i = 0; i < parts->touch_count; i++) {
        struct touch touch = unsorted[i];
        const uint32_t at = next[touch.memory]++;
        touch.from = b->moment_at[touch.from];
        touch.to = b->moment_at[touch.to];
        touch.next = parts->touch_of[touch.part];
        parts->touch_of[touch.part] = at;
        sorted[at] = touch;
    }
    parts->touches = sorted;
    return true;
}

/* A moment begins with each part, and where a touch begins or ends. */
static bool number_moments(struct sp_arena *arena, struct builder *b)
{
    struct sp_stage_parts *parts = b->parts;
    uint32_t *part_of = SP_NEW_ARRAY(b->scratch, b->live_count, uint32_t); /* of a moment */
    if (part_of == NULL)
        return false;
    for (uint32_t i = 0; i < parts->touch_count; i++)
        b->begins[parts->touches[i].from] = b->begins[parts->touches[i].to] = true;
    for (uint32_t p = 0; p < b->live_count; p++) {
        if (p == 0 || b->begins[p] || part_at(b, p) != part_at(b, p - 1))
            part_of[parts->moment_count++] = part_at(b, p);
        b->moment_at[p] = parts->moment_count - 1;
    }
    b->moment_at[b->live_count] = parts->moment_count;
    return sp_rows_sort(arena, part_of, parts->moment_count, parts->part_count, &parts->moments);
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
    parts->links = SP_NEW_ARRAY(arena, workload->tensor_count, struct link);
    if (seen == NULL || parts->links == NULL || users == NULL ||
        !sp_rows_begin(arena, parts->part_count, &parts->made) ||
        !sp_rows_begin(arena, parts->part_count, &parts->taken))
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
            sp_rows_count(&parts->taken, user);
        }
        if (user_count == first)
            continue;
        parts->links[parts->link_count++] =
            (struct link){t, b->memory_of[sp_work_root(workload, t)], producer, user_count - first};
        sp_rows_count(&parts->made, producer);
    }
    if (!sp_rows_end_count(arena, parts->part_count, &parts->made) ||
        !sp_rows_end_count(arena, parts->part_count, &parts->taken))
        return false;
    for (uint32_t l = 0, at = 0; l < parts->link_count; l++) {
        sp_rows_put(&parts->made, parts->links[l].producer, l);
        for (uint32_t i = 0; i < parts->links[l].user_count; i++)
            sp_rows_put(&parts->taken, users[at++], l);
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
    parts->weights = SP_NEW_ARRAY(arena, workload->tensor_count, uint32_t);
    if (index == NULL || last == NULL || pairs == NULL || parts->weights == NULL ||
        !sp_rows_begin(arena, parts->part_count, &parts->shares))
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
                parts->least_weights[k][part] += is_first ? bytes : 0;
                parts->own_weights[k][part] += b->is_known[root] ? 0 : bytes;
            }
            if (!b->is_known[root])
                continue;
            if (index[root] == 0) {
                parts->weights[parts->weight_count++] = root;
                index[root] = parts->weight_count;
            }
            pairs[count++] = (struct share){index[root] - 1, part};
            sp_rows_count(&parts->shares, part);
        }
    }
    if (!sp_rows_end_count(arena, parts->part_count, &parts->shares))
        return false;
    for (size_t i = 0; i < count; i++)
        sp_rows_put(&parts->shares, pairs[i].part, pairs[i].weight);
    return true;
}

/* What each part needs for itself, in its moments, and at least. `seen` has an entry per tensor. */
static void sum_inside(struct builder *b, uint32_t k, uint32_t *seen)
{
    struct sp_stage_parts *parts = b->parts;
    const struct sp_workload *workload = parts->workload;
    const struct sp_stage_block *block = &parts->blocks[k];
    double live = 0;
    memset(seen, 0, workload->tensor_count * sizeof *seen);
    for (uint32_t p = 0; p < b->live_count; p++) {
        const struct sp_work_node *node = node_at(b, p);
        const uint32_t part = part_at(b, p), id = b->order[p];
        double operands = 0, ends = 0;
        parts->own_weights[k][part] += block->kept_bytes[id];
        parts->least_weights[k][part] += block->kept_bytes[id];
        for (uint32_t i = 0; i < operand_count(node); i++) {
            const uint32_t root = sp_work_root(workload, operand(node, i));
            if (is_weight(workload, root) || seen[root] == p + 1)
                continue;
            seen[root] = p + 1;
            operands += block->tensor_bytes[root];
            if (b->memory_of[root] != NONE)
                continue;
            live += b->first[root] == p ? block->tensor_bytes[root] : 0;
            ends += b->last[root] == p ? block->tensor_bytes[root] : 0;
        }
        double *inside = &parts->inside[k][b->moment_at[p]], *held = &parts->least_held[k][part];
        *inside = fmax(*inside, live + block->workspace_bytes[id]);
        *held = fmax(*held, operands + block->workspace_bytes[id]);
        live -= ends;
    }
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
    b->moment_at = SP_NEW_ARRAY(b->scratch, (size_t)workload->node_count + 1, uint32_t);
    parts->memories = SP_NEW_ARRAY(arena, tensors, struct memory);
    if (b->order == NULL || b->first == NULL || b->last == NULL || b->memory_of == NULL || b->is_known == NULL ||
        b->begins == NULL || b->moment_at == NULL || parts->memories == NULL)
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (!workload->nodes[n].folded)
            b->order[b->live_count++] = n;
    }
    memset(b->first, 0xFF, tensors * sizeof *b->first);
    memset(b->memory_of, 0xFF, tensors * sizeof *b->memory_of);
    look_at_operands(b);
    for (uint32_t t = 0; t < tensors; t++) {
        if (b->first[t] == NONE || !b->is_known[t] || is_weight(workload, t))
            continue;
        b->memory_of[t] = parts->memory_count;
        parts->memories[parts->memory_count++].root = t;
    }
    if (!list_touches(b) || !number_moments(arena, b) || !sort_touches(arena, b) || !list_links(arena, b))
        return false;
    parts->inside = make_table(arena, blocks, parts->moment_count);
    parts->own_weights = make_table(arena, blocks, parts->part_count);
    parts->least_weights = make_table(arena, blocks, parts->part_count);
    parts->least_held = make_table(arena, blocks, parts->part_count);
    if (parts->inside == NULL || parts->own_weights == NULL || parts->least_weights == NULL ||
        parts->least_held == NULL || !list_weights(arena, b))
        return false;
    uint32_t *seen = SP_NEW_ARRAY(b->scratch, tensors, uint32_t);
    for (uint32_t k = 0; seen != NULL && k < blocks; k++)
        sum_inside(b, k, seen);
    return seen != NULL;
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

double sp_stage_parts_most(const struct sp_stage_parts *parts, uint32_t block)
{
    const double *tensor_bytes = parts->blocks[block].tensor_bytes;
    double bytes = 0, inside = 0;
    for (uint32_t p = 0; p < parts->part_count; p++)
        bytes += parts->least_weights[block][p];
    for (uint32_t m = 0; m < parts->moment_count; m++)
        inside = fmax(inside, parts->inside[block][m]);
    for (uint32_t m = 0; m < parts->memory_count; m++)
        bytes += tensor_bytes[parts->memories[m].root];
    for (uint32_t l = 0; l < parts->link_count; l++)
        bytes += 2 * parts->links[l].user_count * tensor_bytes[parts->links[l].tensor];
    return bytes + inside;
}

void sp_stage_part_least(const struct sp_stage_parts *parts, uint32_t block, uint32_t part, double *ret_weights,
                         double *ret_held)
{
    *ret_weights = parts->least_weights[block][part];
    *ret_held = parts->least_held[block][part];
}

/* ---- sets ------------------------------------------------------------------------------------------------------- */

/* What a set knows of a memory. */
struct interval {
    uint32_t touches, first, last; /* touches of parts that are in: how many, the first and the last one */
    uint32_t model_inputs, stays;  /* touches that have it from the start; results and tensors that are sent */
    uint32_t from, to;             /* moments at which it counts in the tree */
};

/* Largest sums over moments, for one block. Moment m is leaf m + leaves; a leaf whose part is not in has no sum. */
struct tree {
    double *most;  /* below a node, what was added to it included */
    double *added; /* to all below a node */
};

struct sp_stage_set {
    const struct sp_stage_parts *parts;
    uint32_t leaves; /* a power of two */
    struct tree *trees;
    bool *is_in;                           /* per part */
    struct interval *intervals;            /* per memory */
    uint32_t *users_in;                    /* per link */
    uint32_t *holders;                     /* per shared weight: parts that are in */
    double *weight_bytes, *crossing_bytes; /* per block */
};

struct sp_stage_set *sp_stage_set_create(struct sp_arena *arena, const struct sp_stage_parts *parts)
{
    struct sp_stage_set *set = SP_NEW(arena, struct sp_stage_set);
    if (set == NULL)
        return NULL;
    *set = (struct sp_stage_set){.parts = parts,
                                 .leaves = 1,
                                 .trees = SP_NEW_ARRAY(arena, parts->block_count, struct tree),
                                 .is_in = SP_NEW_ARRAY(arena, parts->part_count, bool),
                                 .intervals = SP_NEW_ARRAY(arena, parts->memory_count, struct interval),
                                 .users_in = SP_NEW_ARRAY(arena, parts->link_count, uint32_t),
                                 .holders = SP_NEW_ARRAY(arena, parts->weight_count, uint32_t),
                                 .weight_bytes = SP_NEW_ARRAY(arena, parts->block_count, double),
                                 .crossing_bytes = SP_NEW_ARRAY(arena, parts->block_count, double)};
    while (set->leaves < parts->moment_count)
        set->leaves *= 2;
    if (set->trees == NULL || set->is_in == NULL || set->intervals == NULL || set->users_in == NULL ||
        set->holders == NULL || set->weight_bytes == NULL || set->crossing_bytes == NULL)
        return NULL;
    for (uint32_t k = 0; k < parts->block_count; k++) {
        struct tree *tree = &set->trees[k];
        tree->most = SP_NEW_ARRAY(arena, 2 * (size_t)set->leaves, double);
        tree->added = SP_NEW_ARRAY(arena, 2 * (size_t)set->leaves, double);
        if (tree->most == NULL || tree->added == NULL)
            return NULL;
        for (uint32_t i = 0; i < 2 * set->leaves; i++)
            tree->most[i] = -INFINITY;
    }
    return set;
}

static void refresh(struct tree *tree, uint32_t node)
{
    while (node > 1) {
        node /= 2;
        const double left = tree->most[2 * node], right = tree->most[2 * node + 1];
        tree->most[node] = (left > right ? left : right) + tree->added[node];
    }
}

static inline void raise_node(struct tree *tree, uint32_t node, double bytes)
{
    tree->most[node] += bytes;
    tree->added[node] += bytes;
}

/* Adds to moments from .. to - 1. */
static void raise_range(const struct sp_stage_set *set, uint32_t memory, uint32_t from, uint32_t to, double sign)
{
    const uint32_t root = set->parts->memories[memory].root;
    for (uint32_t k = 0; k < set->parts->block_count; k++) {
        struct tree *tree = &set->trees[k];
        const double bytes = sign * set->parts->blocks[k].tensor_bytes[root];
        for (uint32_t left = from + set->leaves, right = to + set->leaves; left < right; left /= 2, right /= 2) {
            if (left & 1)
                raise_node(tree, left++, bytes);
            if (right & 1)
                raise_node(tree, --right, bytes);
        }
        refresh(tree, from + set->leaves);
        refresh(tree, to - 1 + set->leaves);
    }
}

/* Adds what lies between an old and a new end. */
static void move_end(const struct sp_stage_set *set, uint32_t memory, uint32_t before, uint32_t after, double sign)
{
    if (before < after)
        raise_range(set, memory, before, after, sign);
    else if (after < before)
        raise_range(set, memory, after, before, -sign);
}

/* A moment counts from now on, or no longer. */
static void show_moment(const struct sp_stage_set *set, uint32_t moment, bool counts)
{
    for (uint32_t k = 0; k < set->parts->block_count; k++) {
        struct tree *tree = &set->trees[k];
        const uint32_t leaf = moment + set->leaves;
        tree->most[leaf] = counts ? tree->added[leaf] + set->parts->inside[k][moment] : -INFINITY;
        refresh(tree, leaf);
    }
}

static void settle_interval(struct sp_stage_set *set, uint32_t memory)
{
    const struct touch *touches = set->parts->touches;
    struct interval *interval = &set->intervals[memory];
    uint32_t from = 0, to = 0;
    if (interval->touches > 0) {
        from = interval->model_inputs > 0 ? 0 : touches[interval->first].from;
        to = interval->stays > 0 ? set->parts->moment_count : touches[interval->last].to;
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
    const struct touch *touches = set->parts->touches;
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
static void add_crossing(struct sp_stage_set *set, const struct link *link, double sign)
{
    for (uint32_t k = 0; k < set->parts->block_count; k++)
        set->crossing_bytes[k] += sign * set->parts->blocks[k].tensor_bytes[link->tensor];
}

static void count_link(struct sp_stage_set *set, uint32_t l, double sign)
{
    const struct link *link = &set->parts->links[l];
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
    for (uint32_t i = parts->made.start[part]; i < parts->made.start[part + 1]; i++)
        count_link(set, parts->made.items[i], -1);
    for (uint32_t i = parts->taken.start[part]; i < parts->taken.start[part + 1]; i++)
        count_link(set, parts->taken.items[i], -1);
    set->is_in[part] = is_in;
    for (uint32_t i = parts->taken.start[part]; i < parts->taken.start[part + 1]; i++) {
        set->users_in[parts->taken.items[i]] += step;
        count_link(set, parts->taken.items[i], 1);
    }
    for (uint32_t i = parts->made.start[part]; i < parts->made.start[part + 1]; i++)
        count_link(set, parts->made.items[i], 1);
    for (uint32_t i = parts->touch_of[part]; i != NONE; i = parts->touches[i].next) {
        const struct touch *touch = &parts->touches[i];
        struct interval *interval = &set->intervals[touch->memory];
        interval->touches += step;
        interval->model_inputs += touch->is_model_input ? step : 0;
        interval->stays += touch->results * step;
        find_ends(set, interval, i, is_in);
    }
    for (uint32_t i = parts->touch_of[part]; i != NONE; i = parts->touches[i].next)
        settle_interval(set, parts->touches[i].memory);
    for (uint32_t i = parts->moments.start[part]; i < parts->moments.start[part + 1]; i++)
        show_moment(set, parts->moments.items[i], is_in);
    for (uint32_t i = parts->shares.start[part]; i < parts->shares.start[part + 1]; i++) {
        uint32_t *holders = &set->holders[parts->shares.items[i]];
        const bool counts = is_in ? *holders == 0 : *holders == 1;
        *holders += step;
        for (uint32_t k = 0; counts && k < parts->block_count; k++)
            set->weight_bytes[k] +=
                (is_in ? 1 : -1) * parts->blocks[k].tensor_bytes[parts->weights[parts->shares.items[i]]];
    }
    for (uint32_t k = 0; k < parts->block_count; k++)
        set->weight_bytes[k] += (is_in ? 1 : -1) * parts->own_weights[k][part];
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
    return fmax(set->trees[block].most[1], 0);
}

double sp_stage_set_weights(const struct sp_stage_set *set, uint32_t block)
{
    return set->weight_bytes[block];
}

double sp_stage_set_bytes(const struct sp_stage_set *set, uint32_t block)
{
    return set->weight_bytes[block] + 2 * set->crossing_bytes[block] + sp_stage_set_peak(set, block);
}
