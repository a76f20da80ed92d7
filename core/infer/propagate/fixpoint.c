/*
 * fixpoint - to the fixpoint: which flows are looked at when, and what of their results is kept.
 *
 * Flows whose tensors changed wait on a stack, as in the driver that Shardy uses: what has just changed is carried on
 * first (flows of very many operands come last). A flow is queued at a level when its directions there are new, and
 * whenever one of its tensors grows.
 */
#include "base/sorted.h"
#include "infer/propagate/propagate.h"

#include <stdlib.h>
#include <string.h>

#include "infer/interned_shardings.h"
#include "infer/propagate/factor_step.h"
#include "infer/propagate/recent.h"
#include "infer/propagate/refine.h"

#define LEVEL_COUNT 5 /* of operations */

/* A flow of more operands waits until all others are done: whenever it is looked at, all of its operands are, and what
   comes to them comes one after the other. */
#define WIDE_FLOW 32

/* A dim whose priority has not come yet. */
struct hidden_dim {
    uint32_t tensor, axis;
    struct sp_dim_sharding dim;
};

struct run {
    struct sp_arena *arena, *scratch;
    struct sp_propagation *in;
    struct sp_error *err;
    struct sp_rows flows_of; /* per tensor, ascending */
    uint32_t *use_count;     /* per tensor */
    uint32_t *stack, *wide;  /* flows that wait; wide ones until no other does */
    uint32_t stack_count, wide_count;
    bool *is_queued;
    uint32_t *seen, seen_stamp; /* per tensor: the last flow run that has looked at it */
    struct sp_interned kept;    /* shardings that tensors have grown to */
    struct sp_recent *idle;     /* flows that carried nothing: layers repeat */
    struct sp_recent *silent;   /* flows in which nothing stood against a split */
    uint32_t hidden_count;
    struct hidden_dim *hidden;   /* ordered by priority */
    struct sp_axis_list *parked; /* per tensor: axes of its hidden dims; NULL without priorities */
    uint32_t level;              /* of operations */
};

/* ---- relations of tensors and flows ---------------------------------------------------------------------------- */

static enum sp_status index_flows(struct run *run)
{
    struct sp_propagation *in = run->in;
    run->use_count = SP_NEW_ARRAY(run->scratch, in->tensor_count, uint32_t);
    run->stack = SP_NEW_ARRAY(run->scratch, in->flow_count, uint32_t);
    run->seen = SP_NEW_ARRAY(run->scratch, in->tensor_count, uint32_t);
    run->is_queued = SP_NEW_ARRAY(run->scratch, in->flow_count, bool);
    if (run->use_count == NULL || run->stack == NULL || run->seen == NULL || run->is_queued == NULL ||
        !sp_flows_by_tensor(run->scratch, in->flows, in->flow_count, in->tensor_count, &run->flows_of))
        return sp_fail_memory(run->err);
    uint32_t wide_count = 0;
    for (uint32_t f = 0; f < in->flow_count; f++)
        wide_count += in->flows[f].operand_count > WIDE_FLOW;
    run->wide = SP_NEW_ARRAY(run->scratch, wide_count, uint32_t);
    run->idle = SP_NEW(run->scratch, struct sp_recent);
    run->silent = SP_NEW(run->scratch, struct sp_recent);
    if (run->wide == NULL || run->idle == NULL || run->silent == NULL)
        return sp_fail_memory(run->err);
    run->idle->seed = run->silent->seed = in->seed;
    for (uint32_t f = 0; f < in->flow_count; f++) {
        for (uint32_t i = 0; i < in->flows[f].input_count; i++) {
            if (in->flows[f].tensors[i] != SP_NO_TENSOR)
                run->use_count[in->flows[f].tensors[i]]++;
        }
    }
    return SP_OK;
}

static void push(struct run *run, uint32_t flow)
{
    if (run->is_queued[flow])
        return;
    run->is_queued[flow] = true;
    if (run->in->flows[flow].operand_count > WIDE_FLOW)
        run->wide[run->wide_count++] = flow;
    else
        run->stack[run->stack_count++] = flow;
}

static bool pop(struct run *run, uint32_t *ret_flow)
{
    if (run->stack_count > 0)
        *ret_flow = run->stack[--run->stack_count];
    else if (run->wide_count > 0)
        *ret_flow = run->wide[--run->wide_count];
    else
        return false;
    run->is_queued[*ret_flow] = false;
    return true;
}

static void push_flows_of(struct run *run, uint32_t tensor)
{
    for (uint32_t i = run->flows_of.start[tensor + 1]; i-- > run->flows_of.start[tensor];)
        push(run, run->flows_of.items[i]);
}

/* ---- which way a flow carries which factor ---------------------------------------------------------------------- */

static bool has_single_uses(const struct run *run, const struct sp_flow *flow)
{
    for (uint32_t i = 0; i < flow->input_count; i++) {
        uint32_t tensor = flow->tensors[i];
        if (tensor != SP_NO_TENSOR && run->in->ranks[tensor] > 0 && run->use_count[tensor] != 1)
            return false;
    }
    return true;
}

/* The directions of parallel factors and of all others. */
struct ways {
    enum sp_direction parallel, other;
};

static struct ways ways_at(const struct run *run, const struct sp_flow *flow, uint32_t level)
{
    struct ways ways = {SP_DIRECTION_NONE, SP_DIRECTION_NONE};
    if (level + 1 == LEVEL_COUNT)
        return (struct ways){flow->directions, flow->directions};
    if (flow->early != SP_DIRECTION_NONE && (level > 0 || has_single_uses(run, flow)))
        ways = (struct ways){flow->early, flow->early};
    if (level >= 2)
        ways.parallel |= flow->middle;
    if (level >= 3)
        ways.other |= flow->middle;
    return ways;
}

static bool is_whole(const struct sp_factor *factor)
{
    return factor->kind == SP_FACTOR_REPLICATE || factor->kind == SP_FACTOR_SEQUENTIAL;
}

static void fill_directions(const struct run *run, const struct sp_flow *flow, enum sp_direction *directions)
{
    struct ways ways = ways_at(run, flow, run->level);
    for (uint32_t f = 0; f < flow->rule->factor_count; f++) {
        const struct sp_factor *factor = &flow->rule->factors[f];
        directions[f] = factor->kind == SP_FACTOR_PARALLEL ? ways.parallel : ways.other;
        if (factor->is_blocked || (is_whole(factor) && !run->in->carries_whole))
            directions[f] = SP_DIRECTION_NONE;
    }
}

/* ---- one flow --------------------------------------------------------------------------------------------------- */

static bool has_axes(const struct sp_sharding *sharding)
{
    for (uint32_t axis = 0; sharding != NULL && axis < sharding->rank; axis++) {
        if (sharding->dims[axis].axes.count > 0)
            return true;
    }
    return false;
}

/* The mesh of the flow's tensors, NULL when there is none, there are two, or nothing is split. */
static const struct sp_mesh *flow_mesh(const struct run *run, const struct sp_flow *flow)
{
    const struct sp_mesh *mesh = NULL;
    bool is_split = false;
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        const struct sp_sharding *sharding =
            flow->tensors[i] == SP_NO_TENSOR ? NULL : run->in->tensors[flow->tensors[i]];
        if (sharding == NULL || sp_mesh_is_empty(sharding->mesh))
            continue;
        if (mesh != NULL && mesh != sharding->mesh && !sp_mesh_equal(mesh, sharding->mesh, true))
            return NULL;
        mesh = sharding->mesh;
        is_split = is_split || has_axes(sharding);
    }
    return is_split ? mesh : NULL;
}

static bool yields(const struct run *run, uint32_t tensor)
{
    return tensor != SP_NO_TENSOR && run->in->yields != NULL && run->in->yields[tensor];
}

static enum sp_status project_flow(struct run *run, const struct sp_flow *flow, const struct sp_mesh *mesh,
                                   const enum sp_direction *directions, struct sp_factor_step *ret_step)
{
    const struct sp_rule *rule = flow->rule;
    struct sp_factor_step step = {.arena = run->scratch,
                                  .mesh = mesh,
                                  .factor_count = rule->factor_count,
                                  .input_count = flow->input_count,
                                  .tensor_count = flow->operand_count,
                                  .directions = directions,
                                  .is_aggressive = run->in->level != SP_PROPAGATE_BASIC,
                                  .is_elementwise = flow->is_elementwise,
                                  .must_divide = run->in->must_divide};
    step.tensors = SP_NEW_ARRAY(run->scratch, flow->operand_count, struct sp_projected);
    if (step.tensors == NULL)
        return sp_fail_memory(run->err);
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        static const struct sp_operand_rule absent = {0};
        uint32_t tensor = flow->tensors[i];
        enum sp_status status = tensor == SP_NO_TENSOR
                                    ? sp_project(run->scratch, rule, &absent, NULL, NULL, &step.tensors[i], run->err)
                                    : sp_project(run->scratch, rule, sp_rule_operand(rule, i), run->in->tensors[tensor],
                                                 run->in->shapes[tensor], &step.tensors[i], run->err);
        if (status != SP_OK)
            return status;
        step.tensors[i].yields = yields(run, tensor);
        if (tensor != SP_NO_TENSOR && run->parked != NULL)
            step.tensors[i].barred[3] = &run->parked[tensor];
    }
    *ret_step = step;
    return SP_OK;
}

static struct sp_sharding *open_sharding(struct sp_arena *arena, const struct sp_sharding *old,
                                         const struct sp_mesh *mesh, uint32_t rank)
{
    struct sp_sharding *copy = SP_NEW(arena, struct sp_sharding);
    struct sp_dim_sharding *dims = SP_NEW_ARRAY(arena, rank, struct sp_dim_sharding);
    if (copy == NULL || dims == NULL)
        return NULL;
    if (old != NULL)
        *copy = *old;
    else
        *copy = (struct sp_sharding){.kind = SP_SHARDING_AXES, .rank = rank, .combiner = SP_COMBINE_SUM};
    for (uint32_t axis = 0; axis < rank; axis++)
        dims[axis] = old != NULL ? old->dims[axis] : (struct sp_dim_sharding){.is_open = true};
    copy->mesh = mesh;
    copy->dims = dims;
    return copy;
}

/* The first factor of a dim that has grown; SP_RULE_MAX_FACTORS: none. */
static uint8_t first_new_factor(const struct sp_axis_factors *dim, const uint32_t *sources)
{
    for (uint8_t i = 0; i < dim->count; i++) {
        if (sources[dim->factors[i]] != UINT32_MAX)
            return dim->factors[i];
    }
    return SP_RULE_MAX_FACTORS;
}

struct sp_flow_origin *sp_origin_of(struct sp_flow_origin *origins, uint32_t axis)
{
    while (origins != NULL && origins->axis != axis)
        origins = origins->next;
    return origins;
}

static enum sp_status note_origin(struct run *run, uint32_t flow_id, uint32_t tensor, uint32_t axis, uint32_t source,
                                  uint8_t factor)
{
    struct sp_flow_origin **list = &run->in->origins[tensor], *origin = sp_origin_of(*list, axis);
    if (origin == NULL) {
        origin = SP_NEW(run->arena, struct sp_flow_origin);
        if (origin == NULL)
            return sp_fail_memory(run->err);
        origin->next = *list;
        origin->axis = axis;
        *list = origin;
    }
    origin->flow = flow_id;
    origin->source_tensor = source;
    origin->factor = factor;
    return SP_OK;
}

/* Puts what operand `operand` has grown by into its tensor. */
static enum sp_status write_back(struct run *run, uint32_t flow_id, uint32_t operand, const struct sp_factor_step *step,
                                 bool *ret_changed)
{
    const struct sp_flow *flow = &run->in->flows[flow_id];
    const struct sp_operand_rule *rule = sp_rule_operand(flow->rule, operand);
    uint32_t tensor = flow->tensors[operand];
    const struct sp_sharding *old = run->in->tensors[tensor];
    struct sp_sharding *grown = NULL;
    enum sp_status status = SP_OK;
    for (uint32_t axis = 0; status == SP_OK && axis < rule->rank; axis++) {
        struct sp_axis_list axes;
        int64_t before = old == NULL ? 1 : sp_axes_size(&old->dims[axis].axes);
        uint8_t factor = first_new_factor(&rule->axes[axis], step->sources);
        if (factor == SP_RULE_MAX_FACTORS || (old != NULL && !old->dims[axis].is_open))
            continue;
        status =
            sp_unproject_dim(run->scratch, flow->rule, &rule->axes[axis], &step->tensors[operand], &axes, run->err);
        if (status != SP_OK)
            return status;
        bool is_longer = axes.count > (old == NULL ? 0 : old->dims[axis].axes.count); /* there are axes of size 1 */
        if (sp_axes_size(&axes) <= before && !is_longer)
            continue;
        if (grown == NULL)
            grown = open_sharding(run->scratch, old, step->mesh, rule->rank);
        if (grown == NULL)
            return sp_fail_memory(run->err);
        grown->dims[axis].axes = axes;
        if (run->in->origins != NULL)
            status = note_origin(run, flow_id, tensor, axis, flow->tensors[step->sources[factor]], factor);
    }
    *ret_changed = grown != NULL;
    if (status != SP_OK || grown == NULL)
        return status;
    run->in->tensors[tensor] = sp_keep_sharding(&run->kept, grown);
    return run->in->tensors[tensor] == NULL ? sp_fail_memory(run->err) : SP_OK;
}

/* Whether a flow that is looked at has come to this tensor before; each run of a flow begins with a new stamp. */
static bool is_repeated(struct run *run, uint32_t tensor)
{
    bool is_seen = run->seen[tensor] == run->seen_stamp;
    run->seen[tensor] = run->seen_stamp;
    return is_seen;
}

static void begin_flow(struct run *run)
{
    if (++run->seen_stamp != 0)
        return;
    memset(run->seen, 0, run->in->tensor_count * sizeof *run->seen);
    run->seen_stamp = 1;
}

/* Which operands are one tensor: for each the first that is the same. */
static uint64_t pattern_of(const struct sp_flow *flow)
{
    uint64_t pattern = 0;
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        uint32_t first = 0;
        while (flow->tensors[first] != flow->tensors[i])
            first++;
        pattern = pattern << 3 | first;
    }
    return pattern;
}

/* All that the outcome of a flow follows from; false where that is too much to remember. */
static bool describe_flow(const struct run *run, const struct sp_flow *flow, struct sp_recent_key *ret_key)
{
    struct ways ways = ways_at(run, flow, run->level);
    uint64_t yielding = 0;
    ret_key->count = 0;
    if (flow->operand_count > SP_RECENT_OPERANDS || run->parked != NULL)
        return false;
    sp_recent_pointer(ret_key, flow->rule);
    sp_recent_word(ret_key, (uint64_t)ways.parallel | (uint64_t)ways.other << 8 | (uint64_t)flow->is_elementwise << 16 |
                                (uint64_t)flow->directions << 24 | pattern_of(flow) << 32);
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        uint32_t tensor = flow->tensors[i];
        bool is_there = tensor != SP_NO_TENSOR;
        sp_recent_pointer(ret_key, is_there ? run->in->tensors[tensor] : NULL);
        sp_recent_pointer(ret_key, is_there ? run->in->shapes[tensor] : NULL);
        yielding |= (uint64_t)yields(run, tensor) << i;
    }
    sp_recent_word(ret_key, yielding);
    return true;
}

/* Puts what all operands have grown by into their tensors; *ret_changed says whether any has. */
static enum sp_status write_all_back(struct run *run, uint32_t flow_id, const struct sp_factor_step *step,
                                     bool *ret_changed)
{
    const struct sp_flow *flow = &run->in->flows[flow_id];
    enum sp_status status = SP_OK;
    begin_flow(run);
    for (uint32_t i = 0; status == SP_OK && i < flow->operand_count; i++) {
        bool is_grown = false;
        if (flow->tensors[i] == SP_NO_TENSOR || is_repeated(run, flow->tensors[i]))
            continue;
        status = write_back(run, flow_id, i, step, &is_grown);
        if (status == SP_OK && is_grown)
            push_flows_of(run, flow->tensors[i]); /* this flow too: a tensor may be two of its operands */
        *ret_changed = *ret_changed || is_grown;
    }
    return status;
}

static enum sp_status run_flow(struct run *run, uint32_t flow_id)
{
    const struct sp_flow *flow = &run->in->flows[flow_id];
    enum sp_direction directions[SP_RULE_MAX_FACTORS];
    uint32_t sources[SP_RULE_MAX_FACTORS], slot = 0;
    struct sp_factor_step step = {0};
    struct sp_recent_key key;
    bool is_changed = false, is_grown = false, is_known = false;
    const struct sp_mesh *mesh = flow_mesh(run, flow);
    if (mesh == NULL)
        return SP_OK;
    bool is_described = describe_flow(run, flow, &key);
    if (is_described)
        slot = sp_recent_slot(run->idle, &key, &is_known);
    if (is_known)
        return SP_OK;
    fill_directions(run, flow, directions);
    struct sp_arena_mark mark = sp_arena_mark(run->scratch);
    enum sp_status status = project_flow(run, flow, mesh, directions, &step);
    step.sources = sources;
    if (status == SP_OK)
        status = sp_factor_step_run(&step, &is_changed, run->err);
    if (status == SP_OK && is_changed)
        status = write_all_back(run, flow_id, &step, &is_grown);
    if (is_described && is_grown)
        sp_recent_forget(run->idle, slot);
    sp_arena_rewind(run->scratch, mark);
    return status;
}

static enum sp_status run_stack(struct run *run)
{
    uint32_t flow;
    while (pop(run, &flow)) {
        enum sp_status status = run_flow(run, flow);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- levels ----------------------------------------------------------------------------------------------------- */

static enum sp_status run_levels(struct run *run)
{
    bool has_levels = run->in->level >= SP_PROPAGATE_OP_PRIORITY;
    uint32_t first = has_levels ? 0 : LEVEL_COUNT - 1;
    for (run->level = first; run->level < LEVEL_COUNT; run->level++) {
        for (uint32_t f = run->in->flow_count; f-- > 0;) {
            struct ways now = ways_at(run, &run->in->flows[f], run->level);
            struct ways before =
                run->level == first ? (struct ways){0} : ways_at(run, &run->in->flows[f], run->level - 1);
            if (now.parallel != before.parallel || now.other != before.other)
                push(run, f);
        }
        enum sp_status status = run_stack(run);
        if (status != SP_OK)
            return status;
    }
    run->level = LEVEL_COUNT - 1;
    return SP_OK;
}

SP_ASCENDING(by_priority, struct hidden_dim, dim.priority, tensor, axis)

/* Takes out priorities, and with user priorities the dims of those above 0. */
static enum sp_status hide_dims(struct run *run)
{
    struct sp_propagation *in = run->in;
    uint32_t count = 0;
    for (uint32_t t = 0; t < in->tensor_count; t++) {
        for (uint32_t axis = 0; in->tensors[t] != NULL && axis < in->ranks[t]; axis++)
            count += in->tensors[t]->dims[axis].has_priority;
    }
    if (count == 0)
        return SP_OK;
    run->hidden = SP_NEW_ARRAY(run->scratch, count, struct hidden_dim);
    run->parked = SP_NEW_ARRAY(run->scratch, in->tensor_count, struct sp_axis_list);
    if (run->hidden == NULL || run->parked == NULL)
        return sp_fail_memory(run->err);
    for (uint32_t t = 0; t < in->tensor_count; t++) {
        if (in->tensors[t] == NULL)
            continue;
        struct sp_sharding *copy = open_sharding(run->arena, in->tensors[t], in->tensors[t]->mesh, in->ranks[t]);
        if (copy == NULL)
            return sp_fail_memory(run->err);
        for (uint32_t axis = 0; axis < in->ranks[t]; axis++) {
            struct sp_dim_sharding *dim = &copy->dims[axis];
            if (in->level == SP_PROPAGATE_USER_PRIORITY && dim->has_priority && dim->priority > 0) {
                run->hidden[run->hidden_count++] = (struct hidden_dim){t, axis, *dim};
                enum sp_status status =
                    sp_axes_append(run->scratch, &run->parked[t], &dim->axes, &run->parked[t], run->err);
                if (status != SP_OK)
                    return status;
                *dim = (struct sp_dim_sharding){0};
            }
            dim->has_priority = false;
            dim->priority = 0;
        }
        in->tensors[t] = copy;
    }
    qsort(run->hidden, run->hidden_count, sizeof(struct hidden_dim), by_priority);
    return SP_OK;
}

/* The dims of the next priority come back; *ret_done when there is none. `shown` of them are back. */
static enum sp_status show_dims(struct run *run, uint32_t *shown, bool *ret_done)
{
    uint32_t from = *shown, to = from;
    *ret_done = from == run->hidden_count;
    while (to < run->hidden_count && run->hidden[to].dim.priority == run->hidden[from].dim.priority) {
        struct hidden_dim *hidden = &run->hidden[to++];
        struct sp_sharding *own = open_sharding(run->arena, run->in->tensors[hidden->tensor],
                                                run->in->tensors[hidden->tensor]->mesh, run->in->ranks[hidden->tensor]);
        if (own == NULL)
            return sp_fail_memory(run->err);
        own->dims[hidden->axis] = hidden->dim;
        own->dims[hidden->axis].has_priority = false;
        own->dims[hidden->axis].priority = 0;
        run->in->tensors[hidden->tensor] = own;
    }
    for (uint32_t i = from; i < run->hidden_count; i++)
        run->parked[run->hidden[i].tensor] = (struct sp_axis_list){0};
    for (uint32_t i = to; i < run->hidden_count; i++) {
        struct sp_axis_list *parked = &run->parked[run->hidden[i].tensor];
        enum sp_status status = sp_axes_append(run->scratch, parked, &run->hidden[i].dim.axes, parked, run->err);
        if (status != SP_OK)
            return status;
    }
    *shown = to;
    return SP_OK;
}

/* ---- what stood against it -------------------------------------------------------------------------------------- */

static bool tell_uncarried(const struct run *run, uint32_t flow_id, const struct sp_factor_step *step, uint32_t f)
{
    const struct sp_flow *flow = &run->in->flows[flow_id];
    uint32_t source = UINT32_MAX;
    for (uint32_t t = 0; t < step->tensor_count && source == UINT32_MAX; t++) {
        if (step->tensors[t].splits[f].axes.count > 0)
            source = t;
    }
    if (source == UINT32_MAX)
        return false;
    const char *code = is_whole(&flow->rule->factors[f]) ? "NEEDS_WHOLE_AXIS" : "NOT_CARRIED";
    run->in->on_stop(run->in->context, flow_id, (uint8_t)f, flow->tensors[source], flow->tensors[source], code);
    return true;
}

#define MAX_STOPS_OF_FLOW 32

/* *ret_told says whether there was anything to tell. */
static enum sp_status tell_stops_of(struct run *run, uint32_t id, const struct sp_mesh *mesh, bool *ret_told)
{
    const struct sp_flow *flow = &run->in->flows[id];
    enum sp_direction directions[SP_RULE_MAX_FACTORS];
    struct sp_factor_stop stops[MAX_STOPS_OF_FLOW];
    struct sp_factor_step step = {0};
    uint32_t count = 0;
    struct sp_arena_mark mark = sp_arena_mark(run->scratch);
    fill_directions(run, flow, directions);
    enum sp_status status = project_flow(run, flow, mesh, directions, &step);
    if (status == SP_OK)
        status = sp_factor_step_stops(&step, MAX_STOPS_OF_FLOW, stops, &count, run->err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        run->in->on_stop(run->in->context, id, stops[i].factor, flow->tensors[stops[i].tensor],
                         flow->tensors[stops[i].opponent], stops[i].code);
    *ret_told = count > 0;
    for (uint32_t f = 0; status == SP_OK && f < step.factor_count; f++) {
        if (directions[f] == SP_DIRECTION_NONE && flow->directions != SP_DIRECTION_NONE &&
            tell_uncarried(run, id, &step, f))
            *ret_told = true;
    }
    sp_arena_rewind(run->scratch, mark);
    return status;
}

static enum sp_status tell_stops(struct run *run)
{
    enum sp_status status = SP_OK;
    for (uint32_t id = 0; status == SP_OK && run->in->on_stop != NULL && id < run->in->flow_count; id++) {
        const struct sp_flow *flow = &run->in->flows[id];
        const struct sp_mesh *mesh = flow_mesh(run, flow);
        struct sp_recent_key key;
        uint32_t slot = 0;
        bool is_known = false, is_told = false;
        if (mesh == NULL)
            continue;
        bool is_described = describe_flow(run, flow, &key);
        if (is_described)
            slot = sp_recent_slot(run->silent, &key, &is_known);
        if (!is_known)
            status = tell_stops_of(run, id, mesh, &is_told);
        if (is_described && is_told)
            sp_recent_forget(run->silent, slot);
    }
    return status;
}

enum sp_status sp_propagate(struct sp_arena *arena, struct sp_propagation *propagation, struct sp_error *err)
{
    struct run run = {.arena = arena,
                      .scratch = sp_arena_create(sp_arena_budget(arena)),
                      .in = propagation,
                      .err = err,
                      .kept = sp_interned_in(arena, propagation->seed)};
    uint32_t shown = 0;
    bool is_done = false;
    if (run.scratch == NULL)
        return sp_fail_memory(err);
    enum sp_status status = index_flows(&run);
    if (status == SP_OK)
        status = hide_dims(&run);
    while (status == SP_OK && !is_done) {
        status = run_levels(&run);
        if (status == SP_OK)
            status = show_dims(&run, &shown, &is_done);
    }
    if (status == SP_OK)
        status = tell_stops(&run);
    sp_arena_destroy(run.scratch);
    return status;
}

/* ---- what kind of operation a rule is --------------------------------------------------------------------------- */

/* Which factors some axis of the operands has; true where one of them has all. */
static bool note_factors(const struct sp_rule *rule, const struct sp_operand_rule *operands, uint32_t count, bool *has)
{
    bool has_leader = false;
    for (uint32_t i = 0; i < count; i++) {
        bool own[SP_RULE_MAX_FACTORS] = {false};
        uint32_t found = 0;
        if (i > 0 && operands[i].axes == operands[i - 1].axes && operands[i].rank == operands[i - 1].rank)
            continue;
        for (uint32_t axis = 0; axis < operands[i].rank; axis++) {
            for (uint8_t k = 0; k < operands[i].axes[axis].count; k++) {
                uint8_t f = operands[i].axes[axis].factors[k];
                found += !own[f];
                own[f] = has[f] = true;
            }
        }
        has_leader = has_leader || found == rule->factor_count;
    }
    return has_leader;
}

void sp_flow_classify(struct sp_flow *flow)
{
    const struct sp_rule *rule = flow->rule;
    bool is_input[SP_RULE_MAX_FACTORS] = {false}, is_output[SP_RULE_MAX_FACTORS] = {false};
    bool is_pass_through = rule->output_count > 0, is_elementwise = is_pass_through, is_broadcast = false;
    /* A product of all pairs (MatMul with an inner extent of 1) passes nothing through: no input has all factors. */
    bool has_leader = note_factors(rule, rule->inputs, rule->input_count, is_input);
    (void)note_factors(rule, rule->outputs, rule->output_count, is_output);
    for (uint32_t f = 0; f < rule->factor_count; f++) {
        bool is_parallel = rule->factors[f].kind == SP_FACTOR_PARALLEL && !rule->factors[f].is_blocked;
        is_pass_through = is_pass_through && is_parallel && is_input[f] && is_output[f];
        is_broadcast = is_broadcast || (is_parallel && is_output[f] && !is_input[f]);
    }
    is_pass_through = is_pass_through && has_leader;
    flow->is_elementwise = is_elementwise && is_pass_through;
    flow->early = is_pass_through ? SP_DIRECTION_BOTH : SP_DIRECTION_NONE;
    flow->middle = is_broadcast && !is_pass_through ? SP_DIRECTION_BACKWARD : SP_DIRECTION_BOTH;
    flow->directions = SP_DIRECTION_BOTH;
}
