/*
 * Views that are remembered.
 *
 * What is seen of a node follows from its rule, the extents that are known, its inputs' specs and who said
 * them, and the number of devices: these are the key. Names of nodes and tensors are in nothing but the sentences of
 * conflicts, which have marks in their place.
 */
#include <string.h>

#include "infer/view/internal.h"

struct known_view {
    struct sp_view view; /* without a rule */
};

static void add_number(struct sp_view_cache_key *key, int64_t number)
{
    sp_view_cache_key_add(key, &number, sizeof number);
}

static int64_t known_extent(struct sp_dim dim)
{
    return sp_dim_is_known(dim) ? dim.value : -1;
}

static void add_factors(struct sp_view_cache_key *key, const struct sp_rule *rule)
{
    add_number(key, rule->factor_count);
    for (uint32_t f = 0; f < rule->factor_count; f++) {
        const struct sp_factor *factor = &rule->factors[f];
        const int64_t numbers[] = {(int64_t)factor->kind << 8 | (int64_t)factor->combiner, known_extent(factor->extent),
                                   factor->block};
        unsigned char bytes[SP_FACTOR_NAME_SIZE + sizeof numbers];
        const size_t length = strlen(factor->name) + 1;
        memcpy(bytes, factor->name, length);
        memcpy(bytes + length, numbers, sizeof numbers);
        sp_view_cache_key_add(key, bytes, length + sizeof numbers);
    }
}

static void add_operand(struct sp_view_cache_key *key, const struct sp_operand_rule *operand)
{
    unsigned char bytes[1 + UINT8_MAX]; /* the longest axis fits */
    size_t size = 0;
    add_number(key, operand->rank);
    for (uint32_t axis = 0; axis < operand->rank; axis++) {
        const struct sp_axis_factors *list = &operand->axes[axis];
        if (size + 1 + list->count > sizeof bytes) {
            sp_view_cache_key_add(key, bytes, size);
            size = 0;
        }
        bytes[size++] = list->count;
        if (list->count > 0)
            memcpy(bytes + size, list->factors, list->count);
        size += list->count;
    }
    sp_view_cache_key_add(key, bytes, size);
}

static void add_rule(struct sp_view_cache_key *key, const struct sp_rule *rule)
{
    add_factors(key, rule);
    add_number(key, rule->input_count);
    for (uint32_t i = 0; i < rule->input_count; i++)
        add_operand(key, &rule->inputs[i]);
    for (uint32_t i = 0; i < rule->output_count; i++)
        add_operand(key, &rule->outputs[i]);
}

static const struct sp_value *value_of(const struct sp_viewer *viewer, uint32_t operand)
{
    uint32_t tensor = viewer->relation->tensors[operand];
    const struct sp_value *value = tensor == SP_NO_TENSOR ? NULL : viewer->assignment->dataflow->tensors[tensor];
    return value != NULL && value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank ? value : NULL;
}

static void write_key(const struct sp_viewer *viewer, struct sp_view_cache_key *key)
{
    const struct sp_rule *rule = viewer->rule;
    const bool is_kept = sp_dataflow_has_rule(viewer->assignment->dataflow, viewer->relation);
    add_number(key, viewer->assignment->device_count);
    add_number(key, is_kept);
    if (is_kept)
        sp_view_cache_key_add(key, &rule, sizeof rule); /* equal ones are one */
    else
        add_rule(key, rule);
    for (uint32_t i = 0; i < rule->input_count; i++) {
        const struct sp_value *value = value_of(viewer, i);
        const struct sp_view_operand *operand = &viewer->operands[i];
        sp_view_cache_key_add(key, &operand->same, sizeof operand->same);
        add_number(key, (int64_t)operand->origin);
        if (operand->spec == NULL)
            continue;
        add_number(key, value->type.shape.rank);
        for (uint32_t axis = 0; axis < value->type.shape.rank; axis++)
            add_number(key, known_extent(value->type.shape.dims[axis]));
    }
    for (uint32_t i = 0; i < rule->output_count; i++)
        add_number(key, value_of(viewer, viewer->relation->input_count + i) != NULL);
}

enum sp_status sp_viewer_recall(struct sp_viewer *viewer, struct sp_view_cache_key *key, bool *ret_found)
{
    *key = sp_view_cache_key(viewer->arena, SP_CACHE_VIEW);
    write_key(viewer, key);
    if (key->is_broken)
        return sp_fail_memory(viewer->err);
    const struct known_view *known = sp_view_cache_get(viewer->cache, key);
    *ret_found = known != NULL;
    if (known == NULL)
        return SP_OK;
    *viewer->view = known->view;
    viewer->view->rule = viewer->rule;
    viewer->view->known = known;
    return SP_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static void *copy(struct sp_arena *arena, const void *from, size_t count, size_t size)
{
    void *to = sp_arena_array(arena, count, size);
    if (to != NULL && count > 0)
        memcpy(to, from, count * size);
    return to;
}

static bool copy_bounds(struct sp_arena *arena, struct sp_block_dim *cut)
{
    for (uint32_t i = 0; i < cut->part_count; i++) {
        struct sp_block_part *part = &cut->parts[i];
        if (part->bounds == NULL)
            continue;
        part->bounds = copy(arena, part->bounds, (size_t)part->shards + 1, sizeof *part->bounds);
        if (part->bounds == NULL)
            return false;
    }
    return true;
}

static bool copy_splits(struct sp_arena *arena, const struct sp_view *from, struct sp_view *to)
{
    uint32_t factors = from->rule->factor_count;
    to->splits = copy(arena, from->splits, factors, sizeof *to->splits);
    for (uint32_t f = 0; to->splits != NULL && f < factors; f++) {
        to->splits[f].parts = copy(arena, from->splits[f].parts, from->splits[f].part_count, sizeof *to->splits->parts);
        if (to->splits[f].parts == NULL || !copy_bounds(arena, &to->splits[f]))
            return false;
    }
    return to->splits != NULL;
}

static bool copy_devices(struct sp_arena *arena, const struct sp_view *from, struct sp_view *to)
{
    uint32_t factors = from->rule->factor_count;
    size_t count = (size_t)from->participant_count;
    to->participants = copy(arena, from->participants, count, sizeof *to->participants);
    to->coordinates =
        from->coordinates != NULL ? copy(arena, from->coordinates, factors, sizeof *to->coordinates) : NULL;
    for (uint32_t f = 0; to->coordinates != NULL && f < factors; f++) {
        if (from->coordinates[f] == NULL)
            continue;
        to->coordinates[f] = copy(arena, from->coordinates[f], count, sizeof **to->coordinates);
        if (to->coordinates[f] == NULL)
            return false;
    }
    return to->participants != NULL && (to->coordinates != NULL || from->coordinates == NULL);
}

static bool copy_conflicts(struct sp_arena *arena, const struct sp_view *from, struct sp_view *to)
{
    to->conflicts = copy(arena, from->conflicts, from->conflict_count, sizeof *to->conflicts);
    for (uint32_t i = 0; to->conflicts != NULL && i < from->conflict_count; i++) {
        const char *message = from->conflicts[i].message;
        to->conflicts[i].message = sp_arena_string(arena, message, strlen(message));
        if (to->conflicts[i].message == NULL)
            return false;
    }
    return to->conflicts != NULL;
}

static size_t bytes_of(const struct sp_viewer *viewer, const struct sp_view_cache_key *key)
{
    const struct sp_view *view = viewer->view;
    size_t each = sizeof *view->participants, bytes = sizeof(struct known_view) + key->size;
    for (uint32_t f = 0; f < view->rule->factor_count; f++) {
        each += view->coordinates != NULL && view->coordinates[f] != NULL ? sizeof **view->coordinates : 0;
        bytes +=
            sizeof *view->splits + sizeof *view->coordinates + view->splits[f].part_count * sizeof *view->splits->parts;
        for (uint32_t i = 0; i < view->splits[f].part_count; i++)
            bytes += view->splits[f].parts[i].bounds == NULL
                         ? 0
                         : ((size_t)view->splits[f].parts[i].shards + 1) * sizeof(int64_t);
    }
    return bytes + (size_t)view->participant_count * each + view->conflict_count * (size_t)SP_ERROR_MESSAGE_SIZE;
}

enum sp_status sp_viewer_remember(struct sp_viewer *viewer, const struct sp_view_cache_key *key)
{
    const struct sp_view *view = viewer->view;
    struct sp_arena *arena = sp_view_cache_arena(viewer->cache);
    size_t bytes = bytes_of(viewer, key), *room = sp_view_cache_view_room(viewer->cache);
    if (bytes > *room)
        return SP_OK;
    struct known_view *known = sp_view_cache_put(viewer->cache, key, sizeof *known);
    if (known == NULL)
        return sp_fail_memory(viewer->err);
    known->view = *view;
    known->view.rule = NULL;
    known->view.results = copy(arena, view->results, view->rule->output_count, sizeof *view->results);
    known->view.is_partial = copy(arena, view->is_partial, view->rule->output_count, sizeof *view->is_partial);
    if (known->view.results == NULL || known->view.is_partial == NULL || !copy_splits(arena, view, &known->view) ||
        !copy_devices(arena, view, &known->view) || !copy_conflicts(arena, view, &known->view))
        return sp_fail_memory(viewer->err);
    *room -= bytes;
    viewer->view->known = known;
    return SP_OK;
}
