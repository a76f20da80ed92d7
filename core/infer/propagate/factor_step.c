/*
 * factor_step - one step of propagation on factors: which axes each tensor of a flow gets.
 *
 * The list of axes that a factor carries (compatible()) is what the lists of all tensors have in common from the front,
 * and beyond that what the longest has. What a tensor can take of it is cut short (fit()) where an axis is in use for
 * another factor, barred, the factor closed, or its extent not divisible.
 */
#include <assert.h>
#include <string.h>

#include "base/arith.h"
#include "infer/propagate/factor_step.h"

static struct sp_factor_split *split_of(const struct sp_factor_step *step, uint32_t tensor, uint32_t factor)
{
    struct sp_factor_split *split = &step->tensors[tensor].splits[factor];
    return split->is_present ? split : NULL;
}

/* ---- what a factor carries ------------------------------------------------------------------------------------- */

struct candidate {
    struct sp_axis_list list;
    bool can_grow;
    uint32_t opponent; /* the first tensor that contradicted the ones before, or UINT32_MAX */
};

/* Joins the axes of one more tensor. `list` has room for the longest list of all tensors. */
static void join(struct candidate *candidate, const struct sp_axis_list *axes, uint32_t tensor)
{
    struct sp_axis_list *list = &candidate->list;
    for (uint32_t i = 0; i < axes->count; i++) {
        if (i == list->count) {
            if (candidate->can_grow)
                list->refs[list->count++] = axes->refs[i];
            else
                return;
            continue;
        }
        struct sp_axis_ref *mine = &list->refs[i], theirs = axes->refs[i];
        if (sp_axis_equal(*mine, theirs))
            continue;
        bool is_same_start = mine->axis == theirs.axis && mine->pre == theirs.pre;
        bool is_mine_part = is_same_start && theirs.size % mine->size == 0;
        bool is_theirs_part = is_same_start && mine->size % theirs.size == 0;
        if (is_theirs_part && i + 1 == axes->count)
            return; /* theirs ends inside of mine */
        if (is_mine_part && i + 1 == list->count) {
            if (!candidate->can_grow)
                return;
            *mine = theirs;
            continue;
        }
        if (is_theirs_part)
            *mine = theirs;
        list->count = is_mine_part || is_theirs_part ? i + 1 : i;
        candidate->can_grow = false;
        if (candidate->opponent == UINT32_MAX)
            candidate->opponent = tensor;
        return;
    }
}

static void join_tensors(const struct sp_factor_step *step, uint32_t factor, uint32_t from, uint32_t to,
                         struct candidate *candidate)
{
    for (uint32_t t = from; t < to; t++) {
        const struct sp_factor_split *split = split_of(step, t, factor);
        if (split != NULL)
            join(candidate, &split->axes, t);
    }
}

static enum sp_status compatible(const struct sp_factor_step *step, uint32_t factor, struct candidate *ret_candidate,
                                 struct sp_error *err)
{
    uint32_t longest = 0;
    enum sp_direction direction = step->directions[factor];
    *ret_candidate = (struct candidate){.can_grow = true, .opponent = UINT32_MAX};
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const struct sp_factor_split *split = split_of(step, t, factor);
        if (split != NULL && split->axes.count > longest)
            longest = split->axes.count;
    }
    if (direction == SP_DIRECTION_NONE || longest == 0)
        return SP_OK;
    ret_candidate->list.refs = SP_NEW_ARRAY(step->arena, longest, struct sp_axis_ref);
    if (ret_candidate->list.refs == NULL)
        return sp_fail_memory(err);
    bool is_backward = direction == SP_DIRECTION_BACKWARD;
    uint32_t inputs = step->input_count, all = step->tensor_count;
    join_tensors(step, factor, is_backward ? inputs : 0, is_backward ? all : inputs, ret_candidate);
    ret_candidate->can_grow = ret_candidate->can_grow && direction == SP_DIRECTION_BOTH;
    join_tensors(step, factor, is_backward ? 0 : inputs, is_backward ? inputs : all, ret_candidate);
    return SP_OK;
}

/* ---- what a tensor can take of it ------------------------------------------------------------------------------ */

struct obstacle {
    const char *code;
};

static bool without(struct sp_axis_ref *ref, const struct sp_axis_list *used)
{
    for (uint32_t i = 0; i < used->count; i++) {
        if (!sp_axis_prefix_without_overlap(*ref, used->refs[i], ref) ||
            !sp_axis_can_coexist_without_overlap(*ref, used->refs[i]))
            return false;
    }
    return true;
}

/* The part of `ref` that no other factor of the tensor uses. */
static bool is_free(const struct sp_factor_step *step, const struct sp_projected *tensor, uint32_t factor,
                    struct sp_axis_ref *ref)
{
    for (uint32_t f = 0; f < step->factor_count; f++) {
        const struct sp_factor_split *other = &tensor->splits[f];
        if (f != factor && other->is_present && (!without(ref, &other->axes) || !without(ref, &other->overflow)))
            return false;
    }
    return true;
}

/* What of `ref` divides the room that `before` shards leave; false when nothing does. */
static bool divide(const struct sp_factor_step *step, const struct sp_factor_split *own, int64_t before,
                   struct sp_axis_ref *ref)
{
    bool must = step->must_divide || own->has_block || !own->is_minor;
    if (!must || own->room < 0 || ref->size == 1)
        return true;
    int64_t part = own->room % before == 0 ? sp_gcd(own->room / before, ref->size) : 1;
    ref->size = part;
    return part > 1;
}

/*
 * Cuts *ref, which is to be the axis number `index` of the factor behind `before` shards, to what the tensor can take.
 * False when it can take nothing. What it has already it can take.
 */
static bool fit(const struct sp_factor_step *step, uint32_t t, uint32_t factor, uint32_t index, int64_t before,
                struct sp_axis_ref *ref, struct obstacle *obstacle)
{
    const struct sp_projected *tensor = &step->tensors[t];
    const struct sp_factor_split *own = split_of(step, t, factor);
    struct sp_axis_ref wanted = *ref, had = {0};
    obstacle->code = "SPLIT_CONFLICT";
    if (!is_free(step, tensor, factor, ref))
        return false;
    if (own == NULL)
        return true;
    if (index < own->axes.count) {
        had = own->axes.refs[index];
        if (had.axis == ref->axis && had.pre == ref->pre && had.size % ref->size == 0)
            return true;
        if (had.axis != ref->axis || had.pre != ref->pre || ref->size % had.size != 0 || index + 1 < own->axes.count)
            had.size = 0;
    }
    bool is_shut = own->is_closed || own->overflow.count > 0;
    for (uint32_t i = 0; !is_shut && i < sizeof tensor->barred / sizeof tensor->barred[0]; i++) {
        if (tensor->barred[i] == NULL || without(ref, tensor->barred[i]))
            continue;
        if (had.size == 0)
            return false;
        *ref = had;
    }
    if (is_shut) {
        obstacle->code = "CLOSED";
        if (had.size > 0)
            *ref = had;
        return had.size > 0;
    }
    if (!sp_axis_equal(*ref, wanted))
        return true;
    obstacle->code = own->has_block ? "BLOCK" : "NOT_DIVISIBLE";
    return divide(step, own, before, ref);
}

/* Cuts the list to what tensor `t` can take. */
static void truncate_for(const struct sp_factor_step *step, uint32_t t, uint32_t factor, struct sp_axis_list *list,
                         struct obstacle *obstacle)
{
    int64_t before = 1;
    for (uint32_t i = 0; i < list->count; i++) {
        struct sp_axis_ref ref = list->refs[i];
        if (step->is_conservative && !sp_axis_is_full(step->mesh, ref)) {
            list->count = i;
            return;
        }
        bool fits = fit(step, t, factor, i, before, &ref, obstacle);
        if (fits && sp_axis_equal(ref, list->refs[i])) {
            before *= ref.size;
            continue;
        }
        list->count = i;
        if (fits && !step->is_conservative)
            list->refs[list->count++] = ref;
        return;
    }
}

static bool is_strict_prefix(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    return sp_axes_is_prefix(a, b) && (a->count < b->count || !sp_axes_is_prefix(b, a));
}

/* The tensor takes the list, if it extends what it has. */
static enum sp_status give(struct sp_factor_step *step, uint32_t t, uint32_t factor, const struct sp_axis_list *list,
                           bool *changed, struct sp_error *err)
{
    struct sp_factor_split *split = split_of(step, t, factor);
    if (split == NULL || !is_strict_prefix(&split->axes, list))
        return SP_OK;
    *changed = true;
    return sp_axes_copy(step->arena, list, &split->axes, err);
}

/* The tensor that has the whole list, the largest of them that does not yield; UINT32_MAX: none. */
static uint32_t source_of(const struct sp_factor_step *step, uint32_t factor, const struct sp_axis_list *list)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const struct sp_factor_split *split = split_of(step, t, factor);
        if (split == NULL || !sp_axes_is_prefix(list, &split->axes))
            continue;
        const struct sp_projected *own = &step->tensors[t], *other = best == UINT32_MAX ? NULL : &step->tensors[best];
        if (other == NULL || (own->yields != other->yields ? other->yields : own->elements > other->elements))
            best = t;
    }
    return best;
}

/* ---- the two ways ---------------------------------------------------------------------------------------------- */

static enum sp_status run_basic(struct sp_factor_step *step, bool *changed, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t f = 0; status == SP_OK && f < step->factor_count; f++) {
        struct candidate candidate;
        struct obstacle obstacle;
        bool is_given = false;
        status = compatible(step, f, &candidate, err);
        if (status != SP_OK || candidate.list.count == 0)
            continue;
        for (uint32_t t = 0; t < step->tensor_count; t++)
            truncate_for(step, t, f, &candidate.list, &obstacle);
        uint32_t source = source_of(step, f, &candidate.list);
        for (uint32_t t = 0; status == SP_OK && t < step->tensor_count; t++)
            status = give(step, t, f, &candidate.list, &is_given, err);
        if (is_given && step->sources != NULL)
            step->sources[f] = source;
        *changed = *changed || is_given;
    }
    return status;
}

struct preference {
    uint32_t factor, source;
    bool yields;
    double elements;
    int64_t shards;
    struct sp_axis_list list;
};

static bool comes_before(const struct sp_factor_step *step, const struct preference *a, const struct preference *b)
{
    if (a->yields != b->yields)
        return b->yields;
    if (a->elements != b->elements)
        return a->elements > b->elements;
    if (step->is_elementwise && a->shards != b->shards)
        return a->shards > b->shards;
    return a->source != b->source ? a->source < b->source : a->factor < b->factor;
}

/* The factors that carry something, the strongest first. */
static enum sp_status rank_factors(const struct sp_factor_step *step, struct preference *ranked, uint32_t *ret_count,
                                   struct sp_error *err)
{
    uint32_t count = 0;
    for (uint32_t f = 0; f < step->factor_count; f++) {
        struct candidate candidate;
        enum sp_status status = compatible(step, f, &candidate, err);
        if (status != SP_OK)
            return status;
        if (candidate.list.count == 0)
            continue;
        struct preference own = {.factor = f, .list = candidate.list, .shards = sp_axes_size(&candidate.list)};
        own.source = source_of(step, f, &candidate.list);
        own.elements = own.source == UINT32_MAX ? 0 : step->tensors[own.source].elements;
        own.yields = own.source != UINT32_MAX && step->tensors[own.source].yields;
        uint32_t at = count++;
        for (; at > 0 && comes_before(step, &own, &ranked[at - 1]); at--)
            ranked[at] = ranked[at - 1];
        ranked[at] = own;
    }
    *ret_count = count;
    return SP_OK;
}

/* In an elementwise flow, an input that took more than the result would only be resharded. */
static void limit_to_results(const struct sp_factor_step *step, uint32_t factor, struct sp_axis_list *list)
{
    for (uint32_t t = step->input_count; t < step->tensor_count; t++) {
        const struct sp_factor_split *result = split_of(step, t, factor);
        if (result == NULL || !is_strict_prefix(&result->axes, list))
            continue;
        list->count = result->axes.count;
        if (list->count > 0)
            memcpy(list->refs, result->axes.refs, list->count * sizeof(struct sp_axis_ref));
    }
}

static enum sp_status extend_tensor(struct sp_factor_step *step, uint32_t t, const struct preference *preference,
                                    bool *changed, struct sp_error *err)
{
    struct sp_axis_list list;
    struct obstacle obstacle;
    bool is_given = false;
    const struct sp_factor_split *split = split_of(step, t, preference->factor);
    if (split == NULL || !is_strict_prefix(&split->axes, &preference->list))
        return SP_OK;
    enum sp_status status = sp_axes_copy(step->arena, &preference->list, &list, err);
    if (status != SP_OK)
        return status;
    truncate_for(step, t, preference->factor, &list, &obstacle);
    if (step->is_elementwise && t < step->input_count)
        limit_to_results(step, preference->factor, &list);
    status = give(step, t, preference->factor, &list, &is_given, err);
    if (is_given && step->sources != NULL)
        step->sources[preference->factor] = preference->source;
    *changed = *changed || is_given;
    return status;
}

static enum sp_status run_aggressive(struct sp_factor_step *step, bool *changed, struct sp_error *err)
{
    struct preference ranked[SP_RULE_MAX_FACTORS];
    uint32_t count = 0;
    enum sp_status status = rank_factors(step, ranked, &count, err);
    for (uint32_t i = 0; status == SP_OK && i < step->tensor_count; i++) {
        uint32_t results = step->tensor_count - step->input_count; /* results first */
        uint32_t t = i < results ? step->input_count + i : i - results;
        for (uint32_t k = 0; status == SP_OK && k < count; k++)
            status = extend_tensor(step, t, &ranked[k], changed, err);
    }
    return status;
}

enum sp_status sp_factor_step_run(struct sp_factor_step *step, bool *ret_changed, struct sp_error *err)
{
    bool is_changed = false;
    assert(step->factor_count <= SP_RULE_MAX_FACTORS);
    for (uint32_t f = 0; step->sources != NULL && f < step->factor_count; f++)
        step->sources[f] = UINT32_MAX;
    enum sp_status status =
        step->is_aggressive ? run_aggressive(step, &is_changed, err) : run_basic(step, &is_changed, err);
    if (status == SP_OK)
        *ret_changed = is_changed;
    return status;
}

/* ---- what stood against it ------------------------------------------------------------------------------------- */

/* Cuts the list as the step would for tensor `t`; returns the tensor that cut it shortest. */
static uint32_t truncate_by_step(const struct sp_factor_step *step, uint32_t t, uint32_t factor,
                                 struct sp_axis_list *list, struct obstacle *obstacle)
{
    uint32_t opponent = t;
    truncate_for(step, t, factor, list, obstacle);
    for (uint32_t other = 0; !step->is_aggressive && other < step->tensor_count; other++) {
        uint32_t before = list->count;
        truncate_for(step, other, factor, list, obstacle);
        if (list->count < before)
            opponent = other;
    }
    return opponent;
}

enum sp_status sp_factor_step_stops(const struct sp_factor_step *step, uint32_t capacity, struct sp_factor_stop *stops,
                                    uint32_t *ret_count, struct sp_error *err)
{
    uint32_t count = 0;
    for (uint32_t f = 0; f < step->factor_count; f++) {
        struct candidate candidate;
        enum sp_status status = compatible(step, f, &candidate, err);
        if (status != SP_OK)
            return status;
        uint32_t source = source_of(step, f, &candidate.list);
        if (candidate.opponent != UINT32_MAX && count < capacity) {
            for (source = 0; split_of(step, source, f) == NULL || split_of(step, source, f)->axes.count == 0;)
                source++;
            stops[count++] = (struct sp_factor_stop){(uint8_t)f, candidate.opponent, source, "SPLIT_CONFLICT"};
            continue;
        }
        for (uint32_t t = 0; t < step->tensor_count && candidate.list.count > 0 && count < capacity; t++) {
            struct sp_axis_list list;
            struct obstacle obstacle = {0};
            const struct sp_factor_split *split = split_of(step, t, f);
            if (split == NULL || !is_strict_prefix(&split->axes, &candidate.list))
                continue;
            status = sp_axes_copy(step->arena, &candidate.list, &list, err);
            if (status != SP_OK)
                return status;
            uint32_t opponent = truncate_by_step(step, t, f, &list, &obstacle);
            if (obstacle.code != NULL && !sp_axes_is_prefix(&candidate.list, &list))
                stops[count++] =
                    (struct sp_factor_stop){(uint8_t)f, t, opponent == t ? source : opponent, obstacle.code};
        }
    }
    *ret_count = count;
    return SP_OK;
}
