/* What a node computes from its inputs' shardings. */
#include <string.h>

#include "base/rows.h"
#include "infer/view/internal.h"

/* Whether the outputs keep a cut of this factor: what is needed whole is gathered first. */
static bool stays_cut(const struct sp_view *view, uint8_t factor)
{
    enum sp_factor_kind kind = view->rule->factors[factor].kind;
    return view->coordinates[factor] != NULL && kind != SP_FACTOR_REPLICATE && kind != SP_FACTOR_SEQUENTIAL;
}

static enum sp_status join_axis(struct sp_arena *arena, const struct sp_view *view, const struct sp_axis_factors *list,
                                struct sp_block_dim *ret_dim, bool *ret_ok, struct sp_error *err)
{
    struct sp_block_dim cuts[SP_RULE_MAX_FACTORS];
    int64_t extents[SP_RULE_MAX_FACTORS];
    for (uint32_t i = 0; i < list->count; i++) {
        uint8_t factor = list->factors[i];
        struct sp_dim extent = view->rule->factors[factor].extent;
        cuts[i] = stays_cut(view, factor) ? view->splits[factor] : (struct sp_block_dim){0};
        extents[i] = sp_dim_is_known(extent) ? extent.value : -1;
    }
    return sp_cut_join(arena, list->count, cuts, extents, ret_dim, ret_ok, err);
}

/* The shard of an operand that a participant computes or needs. */
static int64_t shard_of(const struct sp_view *view, const struct sp_operand_rule *operand, int64_t participant)
{
    int64_t shard = 0;
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        for (uint32_t i = 0; i < operand->axes[axis].count; i++) {
            uint8_t factor = operand->axes[axis].factors[i];
            if (stays_cut(view, factor))
                shard = shard * sp_cut_shards(&view->splits[factor]) + view->coordinates[factor][participant];
        }
    return shard;
}

/* Participants into the lists of their shards: they are ascending, so are the lists. */
static enum sp_status place_shards(struct sp_arena *arena, const struct sp_view *view,
                                   const struct sp_operand_rule *operand, struct sp_sharding *result,
                                   struct sp_error *err)
{
    const int64_t count = view->participant_count, shards = result->shard_count;
    struct sp_rows places; /* participants, by shard */
    uint32_t *shard = SP_NEW_ARRAY(arena, (size_t)count, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)count, int64_t);
    if (shard == NULL || devices == NULL || count >= UINT32_MAX || shards >= UINT32_MAX)
        return sp_fail_memory(err);
    for (int64_t p = 0; p < count; p++)
        shard[p] = (uint32_t)shard_of(view, operand, p);
    if (!sp_rows_sort(arena, shard, (uint32_t)count, (uint32_t)shards, &places))
        return sp_fail_memory(err);
    for (int64_t p = 0; p < count; p++)
        devices[p] = view->participants[places.items[p]];
    result->first = places.start;
    result->devices = devices;
    return SP_OK;
}

/* Whether two axes of an operand are one loop that is cut (a diagonal): no cut of the axes says what is where. */
static bool repeats_cut(const struct sp_view *view, const struct sp_operand_rule *operand)
{
    bool is_seen[SP_RULE_MAX_FACTORS] = {false};
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        for (uint32_t i = 0; i < operand->axes[axis].count; i++) {
            uint8_t factor = operand->axes[axis].factors[i];
            if (is_seen[factor] && stays_cut(view, factor))
                return true;
            is_seen[factor] = true;
        }
    return false;
}

enum sp_status sp_view_part(struct sp_arena *arena, const struct sp_view *view, const struct sp_operand_rule *operand,
                            struct sp_sharding **ret_part, struct sp_error *err)
{
    struct sp_block_dim *dims = SP_NEW_ARRAY(arena, operand->rank, struct sp_block_dim);
    struct sp_sharding *part = SP_NEW(arena, struct sp_sharding);
    bool is_ok = !repeats_cut(view, operand);
    enum sp_status status = SP_OK;
    int64_t shards = 1;
    *ret_part = NULL;
    if (dims == NULL || part == NULL)
        return sp_fail_memory(err);
    for (uint32_t axis = 0; axis < operand->rank && status == SP_OK && is_ok; axis++) {
        status = join_axis(arena, view, &operand->axes[axis], &dims[axis], &is_ok, err);
        shards *= status == SP_OK ? sp_cut_shards(&dims[axis]) : 1;
    }
    if (status != SP_OK || !is_ok)
        return status;
    *part =
        (struct sp_sharding){.kind = SP_SHARDING_BLOCKS, .rank = operand->rank, .blocks = dims, .shard_count = shards};
    status = place_shards(arena, view, operand, part, err);
    if (status == SP_OK)
        status = sp_sharding_written(arena, part, err);
    if (status == SP_OK)
        *ret_part = part;
    return status;
}

static enum sp_status find_result(struct sp_viewer *viewer, uint32_t index)
{
    struct sp_sharding *result = NULL;
    enum sp_status status =
        sp_view_part(viewer->arena, viewer->view, &viewer->rule->outputs[index], &result, viewer->err);
    if (status == SP_OK && result != NULL)
        status = sp_view_cache_sharding(viewer->cache, result, false, &viewer->view->results[index], viewer->err);
    return status;
}

static bool has_split_reduction(const struct sp_viewer *viewer)
{
    for (uint32_t f = 0; f < viewer->rule->factor_count; f++)
        if (viewer->coordinates[f] != NULL && viewer->rule->factors[f].kind == SP_FACTOR_REDUCTION)
            return true;
    return false;
}

enum sp_status sp_viewer_results(struct sp_viewer *viewer)
{
    const struct sp_relation *relation = viewer->relation;
    enum sp_status status = SP_OK;
    bool is_partial = has_split_reduction(viewer);
    for (uint32_t i = 0; i < viewer->rule->output_count && status == SP_OK && viewer->participant_count > 0; i++) {
        uint32_t tensor = relation->tensors[relation->input_count + i];
        const struct sp_value *value = tensor == SP_NO_TENSOR ? NULL : viewer->assignment->dataflow->tensors[tensor];
        if (value == NULL || value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank)
            continue;
        viewer->view->is_partial[i] = is_partial;
        status = find_result(viewer, i);
    }
    return status;
}
