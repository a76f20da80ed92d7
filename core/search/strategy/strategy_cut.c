/*
 * From factors to the cuts of operands, and back from the layout of an output.
 */
#include <string.h>

#include "base/arith.h"
#include "search/strategy/strategy_internal.h"

#define SMALL_WEIGHT 1024 /* elements */

int64_t sp_strategy_axis_extent(const struct sp_value *value, uint32_t axis)
{
    const struct sp_type *type = &value->type;
    if ((type->kind != SP_TYPE_TENSOR && type->kind != SP_TYPE_SPARSE_TENSOR) || !type->shape.has_rank ||
        axis >= type->shape.rank || !sp_dim_is_known(type->shape.dims[axis]))
        return -1;
    return type->shape.dims[axis].value;
}

bool sp_strategy_may_cut(const struct sp_factor *factor, int64_t before, int64_t shards)
{
    if (factor->kind == SP_FACTOR_REPLICATE || factor->kind == SP_FACTOR_SEQUENTIAL ||
        !sp_dim_is_known(factor->extent) || factor->extent.value % before != 0)
        return false;
    const int64_t rest = factor->extent.value / before;
    return rest % shards == 0 && (shards == 1 || factor->block <= 1 || rest / shards % factor->block == 0);
}

static bool is_of(const struct sp_operand_rule *operand, uint32_t factor)
{
    for (uint32_t a = 0; a < operand->rank; a++)
        if (operand->axes[a].count > 0 && memchr(operand->axes[a].factors, (int)factor, operand->axes[a].count) != NULL)
            return true;
    return false;
}

uint64_t sp_strategy_divisors(const struct sp_rule *rule, const struct sp_operand_rule *of)
{
    uint64_t numbers = 0;
    for (uint32_t f = 0; f < rule->factor_count; f++)
        for (uint32_t d = 2; (of == NULL || is_of(of, f)) && d <= 64; d++)
            numbers |= (uint64_t)sp_strategy_may_cut(&rule->factors[f], 1, d) << (d - 1);
    return numbers;
}

uint32_t sp_strategy_weight_of(const struct sp_node *node)
{
    uint32_t found = UINT32_MAX;
    int64_t most = SMALL_WEIGHT;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        const bool is_weight = value != NULL && (value->is_constant || value->tensor != NULL);
        const int64_t elements = is_weight && value->type.shape.has_rank ? sp_shape_elements(&value->type.shape) : 0;
        if (elements > most) {
            most = elements;
            found = i;
        }
    }
    return found;
}

/* One axis of an operand while it is cut as its factors are. */
struct axis_cut {
    const struct sp_strategy_way *way;
    struct sp_strategy_cut *cut;
    uint32_t operand, axis;
    bool is_constant;
    uint8_t number;         /* of the axis in layouts */
    int64_t shards, before; /* so far */
    bool may_follow;        /* what was so far is cut to single elements */
};

/* Only weights, which nobody reshards, may be cut behind what is whole, and what something else takes apart there. */
static bool begin_inner(struct axis_cut *at)
{
    bool may = at->is_constant;
    for (uint32_t i = 0; i < at->way->apart_count && !may; i++)
        may = at->way->apart[i].operand == at->operand && at->way->apart[i].axis == at->axis &&
              at->way->apart[i].before == at->before;
    return may && at->shards == 1 && sp_strategy_inner_axis(at->way->table, at->axis, at->before, &at->number);
}

/* Puts the mesh axes of a factor on the axis; false where that cannot be. */
static bool cut_factor(struct axis_cut *at, uint8_t factor)
{
    const struct sp_strategy_way *way = at->way;
    struct sp_strategy_cut *cut = at->cut;
    if (!at->may_follow && !begin_inner(at))
        return false;
    at->may_follow = true;
    at->shards *= way->shards[factor];
    for (uint32_t a = 0; a < way->table->mesh.axis_count; a++) {
        if (way->factor_of[a] != factor)
            continue;
        for (uint32_t j = 0; j < cut->count; j++)
            if (cut->mesh_axis[j] == a)
                return false; /* the factor is in the operand twice */
        cut->tensor_axis[cut->count] = at->number;
        cut->mesh_axis[cut->count++] = (uint8_t)a;
    }
    return true;
}

/* Cuts one axis of an operand as its factors are cut; false where that is no whole number of shards, or where a factor
   is cut behind one that is not cut to single elements and may not be so. A factor may be two: a major part that is
   whole, and the rest. */
static bool cut_axis(const struct sp_strategy_way *way, const struct sp_axis_factors *list, uint32_t operand,
                     uint32_t axis, struct sp_strategy_cut *cut)
{
    const struct sp_value *value = sp_strategy_operand_value(way->model_node, way->rule, operand);
    const int64_t extent = sp_strategy_axis_extent(value, axis);
    struct axis_cut at = {.way = way,
                          .cut = cut,
                          .operand = operand,
                          .axis = axis,
                          .is_constant = value->tensor != NULL || value->is_constant,
                          .number = (uint8_t)axis,
                          .shards = 1,
                          .before = 1,
                          .may_follow = true};
    for (uint32_t i = 0; i < list->count; i++) {
        uint8_t factor = list->factors[i];
        struct sp_dim own = way->rule->factors[factor].extent;
        int64_t major = way->before[factor];
        at.may_follow = at.may_follow && major == 1;
        if (!sp_mul_i64(at.before, major, &at.before) || (way->shards[factor] > 1 && !cut_factor(&at, factor)))
            return false;
        at.may_follow = at.may_follow && sp_dim_is(own, way->shards[factor] * major);
        if (!sp_dim_is_known(own) || !sp_mul_i64(at.before, own.value / major, &at.before))
            return at.shards == 1;
    }
    return at.shards == 1 || (extent > 0 && extent % at.shards == 0);
}

enum sp_status sp_strategy_cut_operands(const struct sp_strategy_way *way, struct sp_strategy_cut *cuts,
                                        uint32_t *layouts, bool *ret_ok, struct sp_error *err)
{
    *ret_ok = true;
    for (uint32_t o = 0; o < way->operand_count; o++) {
        const struct sp_operand_rule *rule = sp_rule_operand(way->rule, o);
        const struct sp_value *value = sp_strategy_operand_value(way->model_node, way->rule, o);
        struct sp_layout layout;
        cuts[o] = (struct sp_strategy_cut){0};
        layouts[o] = 0;
        for (uint32_t a = 0; value != NULL && a < rule->rank; a++)
            if (!cut_axis(way, &rule->axes[a], o, a, &cuts[o])) {
                *ret_ok = false;
                return SP_OK;
            }
        if (cuts[o].count == 0)
            continue;
        sp_strategy_cut_layout(way->table, &cuts[o], 0, &layout);
        enum sp_status status = sp_strategy_layout_number(way->table, &layout, &layouts[o], err);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- folded nodes ----------------------------------------------------------------------------------------------- */

/* Leaves factors whole that are `before` elements together, the last of them perhaps a part of one; the next is the
   one to cut. False where they are not so many. */
static bool skip_major(struct sp_strategy_way *way, const struct sp_axis_factors *list, int64_t before, uint32_t *at)
{
    for (; before > 1 && *at < list->count; (*at)++) {
        const struct sp_dim own = way->rule->factors[list->factors[*at]].extent;
        if (!sp_dim_is_known(own) || own.value <= 0)
            return false;
        if (before % own.value != 0) {
            way->before[list->factors[*at]] = before;
            return own.value % before == 0;
        }
        before /= own.value;
    }
    return before == 1;
}

/* Gives the mesh axes on an axis of the output to its factors, from the major one on, or from that behind its whole
   part; the next has its turn where one is cut to single elements. False where a factor may not be cut so. */
static bool deal_axes(struct sp_strategy_way *way, const struct sp_layout *layout, uint32_t axis)
{
    const struct sp_strategy_table *table = way->table;
    const struct sp_axis_factors *list = &way->rule->outputs[0].axes[axis];
    uint32_t at = 0, digits = table->first_digit[SP_STRATEGY_AXES];
    bool is_begun = false;
    for (uint32_t place = 0; place < digits; place++) {
        for (uint32_t a = 0; a < table->mesh.axis_count; a++) {
            const uint32_t digit = table->first_digit[a];
            if (layout->axis[digit] >= SP_LAYOUT_PARTIAL || layout->place[digit] != place)
                continue;
            const struct sp_strategy_inner inner = sp_strategy_tensor_axis(table, layout->axis[digit]);
            if (inner.axis != axis)
                continue;
            if (!is_begun && !skip_major(way, list, inner.before, &at))
                return false;
            is_begun = true;
            while (at + 1 < list->count && sp_dim_is(way->rule->factors[list->factors[at]].extent,
                                                     way->before[list->factors[at]] * way->shards[list->factors[at]]))
                at++;
            if (at >= list->count)
                return false;
            const uint8_t factor = list->factors[at];
            way->factor_of[a] = factor;
            way->shards[factor] *= table->mesh.size[a];
            if (!sp_strategy_may_cut(&way->rule->factors[factor], way->before[factor], way->shards[factor]))
                return false;
        }
    }
    return true;
}

/* Whether the operator runs so, and makes the layout. */
static enum sp_status try_layout(struct sp_strategy_way *way, struct sp_strategy_cut *cuts, uint32_t *layouts,
                                 uint32_t layout, bool *ret_ok, struct sp_error *err)
{
    const struct sp_layout *wanted = sp_strategy_layout(way->table, layout);
    memset(way->factor_of, SP_STRATEGY_NO_FACTOR, sizeof way->factor_of);
    *ret_ok = true;
    for (uint32_t f = 0; f < way->rule->factor_count; f++)
        way->shards[f] = way->before[f] = 1;
    for (uint32_t axis = 0; axis < way->rule->outputs[0].rank && *ret_ok; axis++)
        *ret_ok = deal_axes(way, wanted, axis);
    enum sp_status status = *ret_ok ? sp_strategy_cut_operands(way, cuts, layouts, ret_ok, err) : SP_OK;
    *ret_ok = *ret_ok && layouts[way->rule->input_count] == layout;
    if (status != SP_OK || !*ret_ok)
        return status;
    status = sp_strategy_probe(way, err);
    *ret_ok = !way->is_refused && way->partial[0] == 0;
    return status;
}

static enum sp_status find_layouts(struct sp_strategy_way *way, uint32_t layout, uint32_t *ret_layouts,
                                   struct sp_error *err)
{
    struct sp_arena *scratch = way->table->scratch;
    struct sp_strategy_cut *cuts = SP_NEW_ARRAY(scratch, way->operand_count, struct sp_strategy_cut);
    uint32_t *layouts = SP_NEW_ARRAY(scratch, way->operand_count, uint32_t);
    bool is_ok = false;
    way->shards = SP_NEW_ARRAY(scratch, way->rule->factor_count, int64_t);
    way->before = SP_NEW_ARRAY(scratch, way->rule->factor_count, int64_t);
    way->partial = SP_NEW_ARRAY(scratch, 1, uint32_t);
    if (way->shards == NULL || way->before == NULL || cuts == NULL || layouts == NULL || way->partial == NULL)
        return sp_fail_memory(err);
    way->cuts = cuts;
    way->layouts = layouts;
    enum sp_status status = try_layout(way, cuts, layouts, layout, &is_ok, err);
    if (status == SP_OK && is_ok)
        memcpy(ret_layouts, layouts, way->operand_count * sizeof *ret_layouts);
    return status;
}

enum sp_status sp_strategy_folded_layouts(struct sp_strategy_table *table, uint32_t node, uint32_t layout,
                                          uint32_t *ret_layouts, struct sp_error *err)
{
    const struct sp_node *known = table->workload->nodes[node].node;
    struct sp_strategy_way way = {.table = table,
                                  .node = node,
                                  .model_node = &known->graph->nodes[known->index],
                                  .operand_count = known->input_count + known->output_count};
    struct sp_error why = {0};
    struct sp_rule *rule = NULL;
    memset(ret_layouts, 0, way.operand_count * sizeof *ret_layouts);
    if (layout == 0 || known->op == NULL || known->output_count != 1 || sp_strategy_has_inside(known))
        return SP_OK;
    struct sp_arena_mark mark = sp_arena_mark(table->scratch);
    enum sp_status status = sp_op_rule(table->dataflow->model, way.model_node, table->scratch, &rule, &why);
    if (status == SP_OK && rule->input_count == known->input_count && rule->output_count == 1) {
        way.rule = rule;
        status = find_layouts(&way, layout, ret_layouts, err);
    } else {
        status = status == SP_ERR_MEMORY ? sp_fail_memory(err) : SP_OK; /* it runs at load, as it is */
    }
    sp_arena_rewind(table->scratch, mark);
    return status;
}

/* Whether a device can have the part of a weight that a layout says: one that is quantised is cut before it is
   dequantised, in whole blocks. */
static enum sp_status has_part(struct sp_strategy_table *table, const struct sp_value *value, uint32_t layout,
                               bool *ret_has, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    *ret_has = true;
    for (uint32_t i = 0; i < SP_STRATEGY_MOST_FOLDED && status == SP_OK && layout != 0 && value->stored_bits > 0; i++) {
        const struct sp_node *node = value->producer;
        struct sp_arena_mark mark = sp_arena_mark(table->scratch);
        if (node == NULL || !table->workload->nodes[node->index].folded || node->inputs[0] == NULL)
            break;
        uint32_t *layouts = SP_NEW_ARRAY(table->scratch, (size_t)node->input_count + node->output_count, uint32_t);
        if (layouts == NULL)
            return sp_fail_memory(err);
        status = sp_strategy_folded_layouts(table, node->index, layout, layouts, err);
        layout = layouts[0];
        *ret_has = layout != 0;
        value = node->inputs[0];
        sp_arena_rewind(table->scratch, mark);
    }
    return status;
}

enum sp_status sp_strategy_has_parts(const struct sp_strategy_way *way, bool *ret_has, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    *ret_has = true;
    for (uint32_t i = 0; i < way->rule->input_count && status == SP_OK && *ret_has; i++)
        if (way->model_node->inputs[i] != NULL)
            status = has_part(way->table, way->model_node->inputs[i], way->layouts[i], ret_has, err);
    return status;
}
