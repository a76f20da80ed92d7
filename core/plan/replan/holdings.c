/* Which boxes of which weights the devices of a placement hold. */
#include "plan/replan/holdings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash_map.h"
#include "base/sorted.h"
#include "search/joint/evaluate.h"

/* What the positions of one block hold of a tensor under a layout. */
struct boxes {
    const struct sp_strategy_table *table;
    uint32_t tensor, layout, position_count;
    const uint32_t *first; /* per position: its shards are shards[first[p]] up to first[p + 1] */
    const struct sp_axis_ranges *const *shards;
};

struct sp_box_memory {
    struct sp_arena *arena;
    struct sp_hash_map found; /* struct boxes */
};

struct sp_box_memory *sp_box_memory_create(struct sp_arena *arena)
{
    struct sp_box_memory *memory = SP_NEW(arena, struct sp_box_memory);
    if (memory == NULL)
        return NULL;
    memory->arena = sp_arena_child(arena);
    memory->found.arena = memory->arena;
    return memory->arena != NULL ? memory : NULL;
}

/* A tensor as a stage has it. */
struct use {
    uint32_t tensor, stage, layout;
};

struct walk {
    struct sp_arena *arena;
    struct sp_box_memory *memory;
    const struct sp_placed *placed;
    const uint32_t *strategy_of; /* per node: in its stage's table */
    struct sp_hash_map seen;     /* the uses */
    SP_ARRAY(struct use *) uses; /* that were seen */
    struct sp_weight_parts *parts;
    struct sp_error *err;
};

static struct sp_strategy_table *table_of(const struct walk *walk, uint32_t stage)
{
    return walk->placed->sharded != NULL ? walk->placed->sharded[stage].table : NULL;
}

/* ---- boxes of a sharding ----------------------------------------------------------------------------------------- */

static enum sp_status make_boxes(struct walk *walk, struct sp_strategy_table *table, const struct use *use,
                                 uint32_t size, struct boxes *boxes)
{
    const struct sp_value *value = walk->placed->workload->tensors[use->tensor].value;
    struct sp_arena *arena = walk->memory->arena;
    const struct sp_sharding *sharding;
    int64_t shape[SP_MAX_RANK];
    SP_ARRAY(const struct sp_axis_ranges *) shards = {0};
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)size + 1, uint32_t);
    if (first == NULL)
        return sp_fail_memory(walk->err);
    if (value == NULL || !sp_shape_extents(&value->type.shape, shape))
        return sp_fail(walk->err, SP_ERR_INTERNAL, "WEIGHT_WITHOUT_SHAPE", "A weight that is cut has no known shape.");
    enum sp_status status =
        sp_strategy_sharding(table, arena, value->type.shape.rank, use->layout, 0, &sharding, walk->err);
    for (uint32_t p = 0; status == SP_OK && p < size; p++) {
        struct sp_held held;
        status = sp_sharding_held(arena, sharding, value->type.shape.rank, shape, p, &held, walk->err);
        for (uint32_t s = 0; status == SP_OK && s < held.shard_count; s++) {
            if (!SP_PUSH(arena, &shards, &held.shards[(size_t)s * held.rank]))
                status = sp_fail_memory(walk->err);
        }
        first[p + 1] = shards.count;
    }
    *boxes = (struct boxes){.table = table,
                            .tensor = use->tensor,
                            .layout = use->layout,
                            .position_count = size,
                            .first = first,
                            .shards = shards.items};
    return status;
}

static bool is_same_boxes(const void *item, const void *key)
{
    const struct boxes *a = item, *b = key;
    return a->table == b->table && a->tensor == b->tensor && a->layout == b->layout;
}

/* The boxes of a use in a block of so many devices, made once. */
static enum sp_status find_boxes(struct walk *walk, struct sp_strategy_table *table, const struct use *use,
                                 uint32_t size, const struct boxes **ret_boxes)
{
    struct sp_hash_map *found = &walk->memory->found;
    const struct boxes key = {.table = table, .tensor = use->tensor, .layout = use->layout};
    const uintptr_t parts[] = {(uintptr_t)table, use->tensor, use->layout};
    const uint64_t digest = sp_digest(parts, sizeof parts, 0);
    struct boxes *boxes = sp_hash_set_find(found, digest, is_same_boxes, &key);
    if (boxes == NULL) {
        boxes = SP_NEW(walk->memory->arena, struct boxes);
        if (boxes == NULL)
            return sp_fail_memory(walk->err);
        enum sp_status status = make_boxes(walk, table, use, size, boxes);
        if (status != SP_OK)
            return status;
        if (!sp_hash_set_add(found, digest, boxes))
            return sp_fail_memory(walk->err);
    }
    *ret_boxes = boxes;
    return SP_OK;
}

/* ---- uses ------------------------------------------------------------------------------------------------------- */

static bool is_same_use(const void *item, const void *key)
{
    return memcmp(item, key, sizeof(struct use)) == 0;
}

static bool see(struct walk *walk, uint32_t tensor, uint32_t stage, uint32_t layout)
{
    const struct use key = {tensor, stage, layout};
    const uint64_t digest = sp_digest(&key, sizeof key, 0);
    if (sp_hash_set_find(&walk->seen, digest, is_same_use, &key) != NULL)
        return true;
    struct use *use = SP_NEW(walk->arena, struct use);
    if (use == NULL || !SP_PUSH(walk->arena, &walk->uses, use))
        return false;
    *use = key;
    return sp_hash_set_add(&walk->seen, digest, use);
}

/* A folded node makes what is used: it needs its own inputs, on the same devices. */
static enum sp_status see_inputs(struct walk *walk, const struct use *use)
{
    const struct sp_workload *workload = walk->placed->workload;
    const uint32_t node = workload->tensors[use->tensor].producer;
    const struct sp_work_node *work = &workload->nodes[node];
    struct sp_strategy_table *table = table_of(walk, use->stage);
    const bool is_cut = table != NULL && use->layout != 0 && work->output_count == 1;
    const size_t operands = (size_t)work->node->input_count + work->node->output_count;
    uint32_t *layouts = SP_NEW_ARRAY(walk->arena, operands, uint32_t);
    uint32_t *of_inputs = SP_NEW_ARRAY(walk->arena, work->input_count, uint32_t);
    if (layouts == NULL || of_inputs == NULL)
        return sp_fail_memory(walk->err);
    if (is_cut) {
        enum sp_status status = sp_strategy_folded_layouts(table, node, use->layout, layouts, walk->err);
        if (status != SP_OK)
            return status;
        for (uint32_t i = 0; i < work->input_count; i++) {
            const uint32_t operand = sp_strategy_operand(table, node, work->inputs[i]);
            of_inputs[i] = operand != UINT32_MAX && operand < operands ? layouts[operand] : 0;
        }
    }
    for (uint32_t i = 0; i < work->input_count; i++) {
        if (workload->tensors[work->inputs[i]].kind == SP_WORK_WEIGHT &&
            !see(walk, work->inputs[i], use->stage, of_inputs[i]))
            return sp_fail_memory(walk->err);
    }
    return SP_OK;
}

static enum sp_status see_all(struct walk *walk)
{
    const struct sp_workload *workload = walk->placed->workload;
    const uint32_t *stage_of = walk->placed->placement->stage_of;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (tensor->kind != SP_WORK_WEIGHT)
            continue;
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            const uint32_t node = tensor->consumers[i], stage = stage_of[node];
            if (!see(walk, t, stage, sp_joint_layout(table_of(walk, stage), node, walk->strategy_of[node], t)))
                return sp_fail_memory(walk->err);
        }
    }
    for (uint32_t i = 0; i < walk->uses.count; i++) {
        const uint32_t producer = workload->tensors[walk->uses.items[i]->tensor].producer;
        enum sp_status status = producer == SP_NO_WORK ? SP_OK : see_inputs(walk, walk->uses.items[i]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static bool add_part(struct walk *walk, uint32_t weight, uint32_t device, const struct sp_axis_ranges *axes)
{
    struct sp_weight_parts *parts = walk->parts;
    if (!SP_MAKE_ROOM(walk->arena, parts->items, parts->count, parts->capacity, 1))
        return false;
    parts->items[parts->count++] = (struct sp_weight_part){weight, device, axes};
    return true;
}

static enum sp_status add_use(struct walk *walk, const struct use *use)
{
    const struct sp_placement *placement = walk->placed->placement;
    const uint32_t size = sp_placement_size(placement, use->stage);
    const uint32_t count = size * sp_placement_replicas(placement, use->stage);
    struct sp_strategy_table *table = table_of(walk, use->stage);
    const struct boxes *boxes = NULL;
    if (table != NULL && use->layout != 0) {
        enum sp_status status = find_boxes(walk, table, use, size, &boxes);
        if (status != SP_OK)
            return status;
    }
    for (uint32_t i = 0; i < count * sp_placement_copies(placement); i++) {
        const uint32_t d = i % count, device = sp_placement_device(placement, use->stage, i / count) + d, p = d % size;
        if (boxes == NULL && !add_part(walk, use->tensor, device, NULL))
            return sp_fail_memory(walk->err);
        for (uint32_t s = boxes != NULL ? boxes->first[p] : 0; boxes != NULL && s < boxes->first[p + 1]; s++) {
            if (!add_part(walk, use->tensor, device, boxes->shards[s]))
                return sp_fail_memory(walk->err);
        }
    }
    return SP_OK;
}

static enum sp_status add_inner(struct walk *walk)
{
    const struct sp_workload *workload = walk->placed->workload;
    const struct sp_placement *placement = walk->placed->placement;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const uint32_t stage = placement->stage_of[n];
        if (workload->nodes[n].inner_weight_bytes <= 0 || workload->nodes[n].folded)
            continue;
        const uint32_t count = sp_placement_size(placement, stage) * sp_placement_replicas(placement, stage);
        for (uint32_t i = 0; i < count * sp_placement_copies(placement); i++) {
            const uint32_t device = sp_placement_device(placement, stage, i / count) + i % count;
            if (!add_part(walk, workload->tensor_count + n, device, NULL))
                return sp_fail_memory(walk->err);
        }
    }
    return SP_OK;
}

SP_ASCENDING(by_weight, struct sp_weight_part, weight, device)

static const uint32_t *strategies_of(struct sp_arena *arena, const struct sp_placed *placed)
{
    uint32_t *strategy_of = SP_NEW_ARRAY(arena, placed->workload->node_count, uint32_t);
    for (uint32_t s = 0; strategy_of != NULL && placed->sharded != NULL && s < placed->placement->stage_count; s++) {
        const struct sp_sharded_stage *stage = &placed->sharded[s];
        for (uint32_t i = 0; stage->table != NULL && i < stage->node_count; i++)
            strategy_of[stage->nodes[i]] = stage->strategy_of[i];
    }
    return strategy_of;
}

/* Adds what one placement says. */
static enum sp_status add_placement(struct sp_arena *arena, struct sp_box_memory *memory,
                                    const struct sp_placed *placed, struct sp_weight_parts *parts, struct sp_error *err)
{
    struct walk walk = {.arena = arena,
                        .memory = memory,
                        .placed = placed,
                        .strategy_of = strategies_of(arena, placed),
                        .seen.arena = arena,
                        .parts = parts,
                        .err = err};
    enum sp_status status = walk.strategy_of != NULL ? see_all(&walk) : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < walk.uses.count; i++) {
        if (placed->workload->tensors[walk.uses.items[i]->tensor].producer == SP_NO_WORK)
            status = add_use(&walk, walk.uses.items[i]);
    }
    return status == SP_OK ? add_inner(&walk) : status;
}

enum sp_status sp_weight_parts(struct sp_arena *arena, struct sp_box_memory *memory, const struct sp_placed *placed,
                               struct sp_weight_parts *ret_parts, struct sp_error *err)
{
    struct sp_weight_parts parts = {0};
    enum sp_status status = SP_OK;
    if (placed->routes == NULL)
        status = add_placement(arena, memory, placed, &parts, err);
    for (uint32_t r = 0; placed->routes != NULL && status == SP_OK && r < placed->routes->route_count; r++) {
        const struct sp_placed route = {placed->workload, &placed->routes->routes[r].placement, NULL, NULL};
        status = add_placement(arena, memory, &route, &parts, err);
    }
    if (status != SP_OK)
        return status;
    if (parts.count > 1)
        qsort(parts.items, parts.count, sizeof *parts.items, by_weight);
    *ret_parts = parts;
    return SP_OK;
}

/* ---- another workload of the same model ------------------------------------------------------------------------- */

struct named {
    const char *name;
    uint32_t weight;
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static uint32_t weight_count(const struct sp_workload *workload)
{
    return workload->tensor_count + workload->node_count;
}

/* Names of tensors and of nodes are two spaces, so they are sorted apart. */
static struct named *sort_names(struct sp_arena *arena, const struct sp_workload *workload)
{
    struct named *names = SP_NEW_ARRAY(arena, weight_count(workload), struct named);
    for (uint32_t w = 0; names != NULL && w < weight_count(workload); w++)
        names[w] = (struct named){sp_weight_name(workload, w), w};
    if (names != NULL && workload->tensor_count > 1)
        qsort(names, workload->tensor_count, sizeof *names, by_name);
    if (names != NULL && workload->node_count > 1)
        qsort(names + workload->tensor_count, workload->node_count, sizeof *names, by_name);
    return names;
}

enum sp_status sp_weight_parts_renumber(struct sp_arena *arena, const struct sp_workload *from,
                                        const struct sp_workload *to, struct sp_weight_parts *parts,
                                        struct sp_error *err)
{
    const struct named *names = sort_names(arena, to);
    uint32_t kept = 0;
    if (names == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct named key = {.name = sp_weight_name(from, parts->items[i].weight)};
        const bool is_tensor = parts->items[i].weight < from->tensor_count;
        const struct named *found = bsearch(&key, is_tensor ? names : names + to->tensor_count,
                                            is_tensor ? to->tensor_count : to->node_count, sizeof key, by_name);
        if (found == NULL)
            continue;
        parts->items[kept] = parts->items[i];
        parts->items[kept++].weight = found->weight;
    }
    parts->count = kept;
    if (kept > 1)
        qsort(parts->items, kept, sizeof *parts->items, by_weight);
    return SP_OK;
}
