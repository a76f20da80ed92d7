#include "infer/view/view.h"

#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "infer/view/internal.h"
#include "sharding/convert_forms.h"

/* ---- one input ------------------------------------------------------------------------------------------------- */

static int64_t extent_of(const struct sp_rule *rule, uint8_t factor)
{
    struct sp_dim extent = rule->factors[factor].extent;
    return sp_dim_is_known(extent) ? extent.value : -1;
}

static void add_level(struct sp_view_operand *operand, uint8_t factor, int64_t shards)
{
    if (shards > 1)
        operand->levels[operand->level_count++] = (struct sp_view_level){factor, shards};
    operand->is_cut = operand->is_cut || (shards > 1 && factor != SP_NO_FACTOR);
}

/* An axis that has no factor is needed whole: it is of size 1, or the rule knows nothing of it. */
static enum sp_status see_plain_axis(struct sp_viewer *viewer, uint32_t index, uint32_t axis, int64_t shards)
{
    char text[SP_OPERAND_TEXT_SIZE];
    if (shards == 1)
        return SP_OK;
    add_level(&viewer->operands[index], SP_NO_FACTOR, shards);
    return sp_viewer_conflict(
        viewer, &(struct sp_conflict){SP_CONFLICT_NEEDS_WHOLE, index, SP_NO_TENSOR, axis, SP_NO_FACTOR, -1},
        "needs axis %" PRIu32 " of %s whole on every device.", axis, sp_viewer_operand_text(index, text));
}

static enum sp_status fail_factors(struct sp_viewer *viewer, uint32_t index, uint32_t axis, uint8_t factor)
{
    char text[SP_OPERAND_TEXT_SIZE];
    viewer->is_broken = true;
    return sp_viewer_conflict(viewer, &(struct sp_conflict){SP_CONFLICT_FACTORS, index, SP_NO_TENSOR, axis, factor, -1},
                              "works on axis %" PRIu32
                              " of %s as several loops, and the cut does not fall between them or divide one evenly.",
                              axis, sp_viewer_operand_text(index, text));
}

/* The one factor that all of an axis' cut goes to where extents do not tell: a halo's, whose input is larger or smaller
   than its extent. */
static uint32_t halo_of(const struct sp_rule *rule, const struct sp_axis_factors *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (rule->factors[list->factors[i]].kind == SP_FACTOR_HALO)
            return i;
    return UINT32_MAX;
}

static enum sp_status deal_axis(struct sp_viewer *viewer, const struct sp_axis_factors *list,
                                const struct sp_block_dim *dim, struct sp_block_dim *cuts, bool *ret_ok)
{
    int64_t extents[SP_RULE_MAX_FACTORS];
    uint32_t halo = halo_of(viewer->rule, list);
    for (uint32_t i = 0; i < list->count; i++)
        extents[i] = extent_of(viewer->rule, list->factors[i]);
    if (halo == UINT32_MAX)
        return sp_cut_deal(viewer->arena, dim, list->count, extents, cuts, ret_ok, viewer->err);
    for (uint32_t i = 0; i < list->count; i++)
        cuts[i] = (struct sp_block_dim){0};
    enum sp_status status = sp_cut_deal(viewer->arena, dim, 1, (int64_t[]){-1}, &cuts[halo], ret_ok, viewer->err);
    *ret_ok = *ret_ok && cuts[halo].part_count <= 1;
    return status;
}

static enum sp_status see_axis(struct sp_viewer *viewer, uint32_t index, uint32_t axis, const struct sp_block_dim *dim)
{
    struct sp_view_operand *operand = &viewer->operands[index];
    const struct sp_axis_factors *list = &viewer->rule->inputs[index].axes[axis];
    struct sp_block_dim cuts[SP_RULE_MAX_FACTORS];
    int64_t shards = sp_cut_shards(dim);
    bool is_ok = true;
    if (list->count == 0)
        return see_plain_axis(viewer, index, axis, shards);
    enum sp_status status = SP_OK;
    memset(cuts, 0, list->count * sizeof *cuts);
    if (shards > 1)
        status = deal_axis(viewer, list, dim, cuts, &is_ok);
    if (status == SP_OK && !is_ok)
        return fail_factors(viewer, index, axis, list->factors[0]);
    for (uint32_t i = 0; i < list->count && status == SP_OK; i++) {
        uint8_t factor = list->factors[i];
        if (operand->has[factor] && (cuts[i].part_count > 0 || operand->cuts[factor].part_count > 0))
            return fail_factors(viewer, index, axis, factor); /* a diagonal: no shard has it as it is cut */
        if (!operand->has[factor])
            operand->axis_of[factor] = (uint8_t)axis;
        operand->has[factor] = true;
        operand->cuts[factor] = cuts[i];
        add_level(operand, factor, sp_cut_shards(&cuts[i]));
    }
    return status;
}

/* Who holds which shard, by device. */
static enum sp_status sort_holders(struct sp_viewer *viewer, struct sp_view_operand *operand,
                                   const struct sp_sharding *blocks)
{
    struct sp_holders holders = {0};
    enum sp_status status = sp_sharding_holders(viewer->arena, blocks, &holders, viewer->err);
    if (status != SP_OK)
        return status;
    int64_t *devices = SP_NEW_ARRAY(viewer->arena, (size_t)holders.count, int64_t);
    uint32_t *shards = SP_NEW_ARRAY(viewer->arena, (size_t)holders.count, uint32_t);
    if (devices == NULL || shards == NULL)
        return sp_fail_memory(viewer->err);
    for (int64_t i = 0; i < holders.count; i++) {
        devices[i] = holders.items[i].device;
        shards[i] = (uint32_t)holders.items[i].shard;
    }
    operand->count = holders.count;
    operand->devices = devices;
    operand->shards = shards;
    return SP_OK;
}

/* The tensor as its devices hold it, one shard on each; NULL where that cannot be said. */
static enum sp_status regular_blocks(struct sp_viewer *viewer, uint32_t index, const struct sp_sharding **ret_blocks)
{
    const struct sp_view_operand *operand = &viewer->operands[index];
    const struct sp_shape *shape = &sp_viewer_input(viewer, index)->type.shape;
    int64_t extents[SP_MAX_RANK];
    char text[SP_OPERAND_TEXT_SIZE];
    struct sp_sharding *blocks = NULL;
    for (uint32_t i = 0; i < shape->rank; i++)
        extents[i] = sp_dim_is_known(shape->dims[i]) ? shape->dims[i].value : -1;
    enum sp_status status = sp_sharding_to_blocks(viewer->arena, operand->same, shape->rank,
                                                  viewer->assignment->device_count, &blocks, NULL, viewer->err);
    if (status == SP_OK)
        status = sp_sharding_regular(viewer->arena, blocks, extents, ret_blocks, viewer->err);
    if (status != SP_OK || *ret_blocks != NULL)
        return status;
    viewer->is_broken = true;
    return sp_viewer_conflict(viewer,
                              &(struct sp_conflict){SP_CONFLICT_SEVERAL, index, SP_NO_TENSOR, 0, SP_NO_FACTOR, -1},
                              "takes %s, where a device holds several shards that are no regular part of the tensor.",
                              sp_viewer_operand_text(index, text));
}

static enum sp_status see_input(struct sp_viewer *viewer, uint32_t index)
{
    struct sp_view_operand *operand = &viewer->operands[index];
    const struct sp_sharding *blocks = NULL;
    uint32_t levels = 0;
    if (operand->spec == NULL)
        return SP_OK;
    enum sp_status status = regular_blocks(viewer, index, &blocks);
    if (status != SP_OK || blocks == NULL)
        return status;
    for (uint32_t i = 0; i < blocks->rank; i++)
        levels += i < viewer->rule->inputs[index].rank ? viewer->rule->inputs[index].axes[i].count + 1u : 1u;
    uint32_t factors = viewer->rule->factor_count;
    operand->cuts = SP_NEW_ARRAY(viewer->arena, factors, struct sp_block_dim);
    operand->has = SP_NEW_ARRAY(viewer->arena, factors, bool);
    operand->axis_of = SP_NEW_ARRAY(viewer->arena, factors, uint8_t);
    operand->levels = SP_NEW_ARRAY(viewer->arena, levels, struct sp_view_level);
    if (operand->cuts == NULL || operand->has == NULL || operand->axis_of == NULL || operand->levels == NULL)
        return sp_fail_memory(viewer->err);
    status = sort_holders(viewer, operand, blocks);
    for (uint32_t i = 0; i < blocks->rank && status == SP_OK; i++) {
        if (i < viewer->rule->inputs[index].rank)
            status = see_axis(viewer, index, i, &blocks->blocks[i]);
        else
            status = see_plain_axis(viewer, index, i, sp_cut_shards(&blocks->blocks[i]));
    }
    operand->is_seen = true;
    return status;
}

/* ---- factors --------------------------------------------------------------------------------------------------- */

static bool is_stated(const struct sp_view_operand *operand)
{
    return operand->origin == SP_SPEC_GIVEN || operand->origin == SP_SPEC_SET;
}

/* Another input that has a factor which `owner` cuts. */
static enum sp_status compare_cuts(struct sp_viewer *viewer, uint8_t factor, uint32_t owner, uint32_t other)
{
    const struct sp_block_dim *a = &viewer->operands[owner].cuts[factor], *b = &viewer->operands[other].cuts[factor];
    char text[SP_OPERAND_TEXT_SIZE], other_text[SP_OPERAND_TEXT_SIZE];
    uint32_t axis = viewer->operands[owner].axis_of[factor], other_axis = viewer->operands[other].axis_of[factor];
    const char *name = viewer->rule->factors[factor].name;
    if (sp_cut_equal(a, b))
        return SP_OK;
    if (b->part_count > 0) {
        viewer->is_broken = true;
        return sp_viewer_conflict(viewer, &(struct sp_conflict){SP_CONFLICT_SPLIT, owner, other, axis, factor, -1},
                                  "takes %s and %s, but axis %" PRIu32 " of the first and axis %" PRIu32
                                  " of the second are the same loop (%s) and must be cut in the same way.",
                                  sp_viewer_operand_text(owner, text), sp_viewer_operand_text(other, other_text), axis,
                                  other_axis, name);
    }
    if (!is_stated(&viewer->operands[other]))
        return SP_OK;
    return sp_viewer_conflict(viewer, &(struct sp_conflict){SP_CONFLICT_WHOLE, owner, other, axis, factor, -1},
                              "takes %s and %s, but axis %" PRIu32 " of the first and axis %" PRIu32
                              " of the second are the same loop (%s): the second must be cut in the same way.",
                              sp_viewer_operand_text(owner, text), sp_viewer_operand_text(other, other_text), axis,
                              other_axis, name);
}

static bool needs_whole(const struct sp_factor *factor)
{
    return factor->kind == SP_FACTOR_REPLICATE || factor->kind == SP_FACTOR_SEQUENTIAL;
}

/* The smallest run of elements that stays together. */
static int64_t run_of(const struct sp_block_dim *cut, int64_t extent)
{
    int64_t run = 1;
    for (uint32_t i = cut->part_count; i-- > 0;) {
        int64_t own = cut->part_count == 1 ? extent : cut->parts[i].extent;
        if (own <= 0)
            return -1;
        if (cut->parts[i].shards > 1) {
            int64_t block = sp_part_run(&cut->parts[i], own);
            return block >= 0 && sp_mul_i64(run, block, &run) ? run : -1;
        }
        if (!sp_mul_i64(run, own, &run))
            return -1;
    }
    return -1;
}

/* What the factor itself asks of an input that cuts it. */
static enum sp_status check_kind(struct sp_viewer *viewer, uint8_t factor, uint32_t index)
{
    const struct sp_factor *is = &viewer->rule->factors[factor];
    const struct sp_view_operand *operand = &viewer->operands[index];
    char text[SP_OPERAND_TEXT_SIZE];
    if (needs_whole(is))
        return sp_viewer_conflict(
            viewer,
            &(struct sp_conflict){SP_CONFLICT_NEEDS_WHOLE, index, SP_NO_TENSOR, operand->axis_of[factor], factor, -1},
            "needs axis %u of %s whole on every device%s.", operand->axis_of[factor],
            sp_viewer_operand_text(index, text),
            is->kind == SP_FACTOR_SEQUENTIAL ? ": each step along it needs the one before" : "");
    int64_t run = is->block > 1 ? run_of(&operand->cuts[factor], extent_of(viewer->rule, factor)) : -1;
    if (run < 0 || run % is->block == 0)
        return SP_OK;
    return sp_viewer_conflict(
        viewer, &(struct sp_conflict){SP_CONFLICT_BLOCK, index, SP_NO_TENSOR, operand->axis_of[factor], factor, -1},
        "takes %s, whose pieces of axis %u have %" PRId64 " elements; they must be multiples of %" PRId64 ".",
        sp_viewer_operand_text(index, text), operand->axis_of[factor], run, is->block);
}

static enum sp_status see_factor(struct sp_viewer *viewer, uint8_t factor)
{
    enum sp_status status = SP_OK;
    uint32_t owner = SP_NO_TENSOR;
    for (uint32_t i = 0; i < viewer->rule->input_count && owner == SP_NO_TENSOR; i++)
        if (viewer->operands[i].is_seen && viewer->operands[i].cuts[factor].part_count > 0)
            owner = i;
    viewer->owners[factor] = owner;
    if (owner == SP_NO_TENSOR)
        return SP_OK;
    viewer->view->splits[factor] = viewer->operands[owner].cuts[factor];
    for (uint32_t i = 0; i < viewer->rule->input_count && status == SP_OK; i++) {
        const struct sp_view_operand *operand = &viewer->operands[i];
        if (operand->is_seen && operand->has[factor] && i != owner && operand->origin != SP_SPEC_ASSUMED)
            status = compare_cuts(viewer, factor, owner, i);
        if (status == SP_OK && operand->is_seen && operand->cuts[factor].part_count > 0)
            status = check_kind(viewer, factor, i);
    }
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static enum sp_status begin(struct sp_viewer *viewer)
{
    const struct sp_rule *rule = viewer->rule;
    struct sp_view *view = viewer->view;
    uint32_t factors = rule->factor_count;
    view->rule = viewer->rule;
    view->splits = SP_NEW_ARRAY(viewer->arena, factors, struct sp_block_dim);
    view->results = SP_NEW_ARRAY(viewer->arena, rule->output_count, const struct sp_sharding *);
    view->is_partial = SP_NEW_ARRAY(viewer->arena, rule->output_count, bool);
    viewer->operands = SP_NEW_ARRAY(viewer->arena, rule->input_count, struct sp_view_operand);
    viewer->owners = SP_NEW_ARRAY(viewer->arena, factors, uint32_t);
    viewer->coordinates = SP_NEW_ARRAY(viewer->arena, factors, int32_t *);
    if (view->splits == NULL || view->results == NULL || view->is_partial == NULL || viewer->operands == NULL ||
        viewer->owners == NULL || viewer->coordinates == NULL)
        return sp_fail_memory(viewer->err);
    return SP_OK;
}

/* Whether an input is not looked at: nothing of it is read, and there is another that says where the node is. */
static bool is_passed_over(const struct sp_viewer *viewer, uint32_t index)
{
    if (!viewer->rule->inputs[index].is_unread)
        return false;
    for (uint32_t i = 0; i < viewer->rule->input_count; i++)
        if (i != index && sp_viewer_input(viewer, i) != NULL &&
            sp_spec_of(viewer->assignment, viewer->relation->node_id, i)->sharding != NULL)
            return true;
    return false;
}

/* The specs that are looked at. */
static enum sp_status take_specs(struct sp_viewer *viewer)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < viewer->rule->input_count && status == SP_OK; i++) {
        const struct sp_spec_entry *entry = sp_spec_of(viewer->assignment, viewer->relation->node_id, i);
        struct sp_view_operand *operand = &viewer->operands[i];
        const struct sp_value *value = sp_viewer_input(viewer, i);
        if (value == NULL || entry->sharding == NULL || value->type.kind != SP_TYPE_TENSOR ||
            !value->type.shape.has_rank || is_passed_over(viewer, i))
            continue;
        operand->spec = entry->sharding;
        operand->origin = entry->origin;
        status = sp_view_cache_sharding(viewer->cache, entry->sharding, true, &operand->same, viewer->err);
    }
    return status;
}

/* Whether it would be too much to look at every device of every input; nothing is looked at then. What is little for
   one node may be too much where every node of a large model asks for it, and each for something else. */
static bool is_too_large(const struct sp_viewer *viewer)
{
    int64_t points = 0;
    for (uint32_t i = 0; i < viewer->rule->input_count; i++)
        if (viewer->operands[i].spec != NULL)
            points += sp_placed_devices(viewer->operands[i].spec, viewer->assignment->device_count);
    return points > SP_MAX_VIEW_POINTS || sp_view_cache_is_full(viewer->cache) ||
           !sp_view_cache_spend(viewer->cache, points);
}

static enum sp_status look(struct sp_viewer *viewer)
{
    enum sp_status status = SP_OK;
    viewer->view->is_too_large = is_too_large(viewer);
    if (viewer->view->is_too_large)
        return SP_OK;
    for (uint32_t i = 0; i < viewer->rule->input_count && status == SP_OK; i++)
        status = see_input(viewer, i);
    for (uint32_t i = 0; i < viewer->rule->factor_count && status == SP_OK; i++)
        status = see_factor(viewer, (uint8_t)i);
    if (status == SP_OK)
        status = sp_viewer_place(viewer);
    if (status == SP_OK && !viewer->is_broken)
        status = sp_viewer_results(viewer);
    return status;
}

enum sp_status sp_view_create(struct sp_arena *arena, const struct sp_assignment *assignment,
                              const struct sp_relation *relation, struct sp_view **ret_view, struct sp_error *err)
{
    struct sp_view *view = SP_NEW(arena, struct sp_view);
    struct sp_viewer viewer = {.arena = arena,
                               .assignment = assignment,
                               .relation = relation,
                               .view = view,
                               .cache = assignment->cache,
                               .err = err};
    struct sp_view_cache_key key;
    bool is_found = false;
    if (view == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_dataflow_rule(assignment->dataflow, relation, arena, &viewer.rule, err);
    if (status == SP_OK)
        status = begin(&viewer);
    if (status == SP_OK)
        status = take_specs(&viewer);
    if (status == SP_OK)
        status = sp_viewer_recall(&viewer, &key, &is_found);
    if (status == SP_OK && !is_found)
        status = look(&viewer);
    if (status == SP_OK && !is_found && !view->is_too_large)
        status = sp_viewer_remember(&viewer, &key);
    if (status == SP_OK)
        status = sp_viewer_tell_conflicts(&viewer);
    if (status == SP_OK)
        *ret_view = view;
    return status;
}
