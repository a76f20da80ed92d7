/*
 * The ways of one class: every assignment of mesh axes to factors that cuts all operands evenly and that the operator
 * runs, with its all-reduces, and again for each axis of the output that a reduce-scatter may cut.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"
#include "cost/cache.h"
#include "cost/micro_batches.h"
#include "ops/table/op.h"
#include "search/strategy/strategy_internal.h"

#define MOST_CHOICES (SP_RULE_MAX_FACTORS + SP_STRATEGY_MOST_APART)

/* What a mesh axis may split: a factor, or what is behind the major part of one. */
struct choice {
    uint8_t factor;
    int64_t before; /* 1: the factor */
};

struct found {
    struct sp_strategy strategy; /* layouts in the table's memory */
    uint32_t order;              /* as it was found */
    bool is_dropped;
};

struct maker {
    struct sp_strategy_table *table;
    struct sp_strategy_class *class;
    const struct sp_work_node *work;
    struct sp_strategy_way way;
    struct sp_strategy_cut *cuts; /* the way's, per operand */
    uint32_t *layouts;            /* the way's, per operand; then those of one that is kept, and how a weight lies */
    uint32_t allowed_count;
    struct choice allowed[MOST_CHOICES];
    uint32_t count, capacity;
    struct found *found;
    struct sp_hash_map seen; /* of strategies, by their layouts */
    uint64_t seed;
    struct sp_error *err;
};

/* ---- keeping ---------------------------------------------------------------------------------------------------- */

struct layouts_key {
    uint32_t count;
    const uint32_t *layouts;
};

struct layouts_item {
    struct layouts_key key;
    uint32_t found; /* the last one with these layouts */
};

static bool is_same_layouts(const void *item, const void *key)
{
    const struct layouts_key *a = &((const struct layouts_item *)item)->key, *b = key;
    return memcmp(a->layouts, b->layouts, a->count * sizeof *a->layouts) == 0;
}

static double memory_of(const struct sp_strategy *strategy)
{
    return strategy->output_bytes + strategy->weight_bytes + strategy->workspace_bytes + strategy->resident_bytes;
}

static double seconds_of(const struct sp_strategy *strategy)
{
    return strategy->compute_seconds + strategy->communication_seconds;
}

static bool is_no_better(const struct sp_strategy *a, const struct sp_strategy *than)
{
    return seconds_of(a) >= seconds_of(than) && memory_of(a) >= memory_of(than);
}

/* Adds a strategy with the layouts at hand, unless it is dominated by one that has the same. */
static enum sp_status add(struct maker *maker, const struct sp_strategy *strategy)
{
    const uint32_t count = maker->way.operand_count + 1;
    struct layouts_key key = {count, maker->layouts};
    struct sp_digest digest;
    uint32_t *layouts;
    maker->layouts[count - 1] = strategy->gathered == SP_STRATEGY_NO_FACTOR ? 0 : 1 + strategy->stored;
    sp_digest_begin(&digest, maker->seed);
    sp_digest_add(&digest, maker->layouts, count * sizeof *maker->layouts);
    uint64_t hash = sp_digest_end(&digest);
    struct layouts_item *known = sp_hash_set_find(&maker->seen, hash, is_same_layouts, &key);
    if (known != NULL && is_no_better(strategy, &maker->found[known->found].strategy))
        return SP_OK;
    if (known != NULL && known->found > 0 && is_no_better(&maker->found[known->found].strategy, strategy))
        maker->found[known->found].is_dropped = true;
    if (!SP_MAKE_ROOM(maker->table->scratch, maker->found, maker->count, maker->capacity, 1))
        return sp_fail_memory(maker->err);
    layouts = SP_NEW_ARRAY(maker->table->arena, count, uint32_t);
    if (known == NULL) {
        known = SP_NEW(maker->table->scratch, struct layouts_item);
        if (layouts == NULL || known == NULL)
            return sp_fail_memory(maker->err);
        known->key = (struct layouts_key){count, layouts};
        if (!sp_hash_set_add(&maker->seen, hash, known))
            return sp_fail_memory(maker->err);
    }
    if (layouts == NULL)
        return sp_fail_memory(maker->err);
    memcpy(layouts, maker->layouts, count * sizeof *layouts);
    known->found = maker->count;
    maker->found[maker->count] = (struct found){*strategy, maker->count, false};
    maker->found[maker->count++].strategy.layouts = layouts;
    return SP_OK;
}

/* Adds a strategy, and the same one with a weight gathered. What it sends is of one run until here. */
static enum sp_status keep(struct maker *maker, const struct sp_strategy *of_one_run)
{
    const double times = sp_work_times(maker->table->workload, maker->work->phase);
    struct sp_strategy strategy = *of_one_run, gathered;
    bool gathers = false;
    strategy.communication_seconds *= times;
    strategy.communication_bytes *= times;
    strategy.gathered = SP_STRATEGY_NO_FACTOR;
    strategy.layouts = maker->layouts;
    enum sp_status status = add(maker, &strategy);
    if (status == SP_OK && maker->way.rule != NULL)
        status = sp_strategy_gather(&maker->way, &strategy, &gathered, &gathers, maker->err);
    maker->table->has_gathered = maker->table->has_gathered || gathers;
    return status == SP_OK && gathers ? add(maker, &gathered) : status;
}

/* ---- one way ---------------------------------------------------------------------------------------------------- */

static const struct sp_value *value_of(const struct maker *maker, uint32_t operand)
{
    return sp_strategy_operand_value(maker->way.model_node, maker->way.rule, operand);
}

/* Bytes of the outputs of one device that are no other tensor's memory. */
static double output_bytes(const struct maker *maker)
{
    double sum = 0;
    for (uint32_t o = maker->way.rule->input_count; o < maker->way.operand_count; o++) {
        const struct sp_value *value = value_of(maker, o);
        if (value != NULL && maker->table->workload->tensors[value->id].alias_of == SP_NO_WORK)
            sum += sp_strategy_local_bytes(maker->table, value->id, maker->layouts[o]);
    }
    return sum;
}

static bool is_inner(const struct maker *maker)
{
    bool is = false;
    for (uint32_t o = 0; o < maker->way.operand_count && !is; o++)
        is = sp_strategy_has_inner(maker->table->layouts[maker->layouts[o]]) && !value_of(maker, o)->is_constant;
    return is;
}

/* What one device keeps: keys and values, and states of other micro-batches, which lie as the node makes its own. */
static double resident_bytes(const struct maker *maker)
{
    const struct sp_workload *workload = maker->table->workload;
    double sum = sp_cache_local_bytes(maker->work->cache, maker->way.rule, maker->way.shards);
    for (uint32_t o = maker->way.rule->input_count; workload->micro_batches > 1 && o < maker->way.operand_count; o++) {
        const struct sp_value *value = value_of(maker, o);
        const uint32_t waiting = value == NULL ? 0 : sp_micro_waiting(workload, value->id);
        if (waiting > 0)
            sum += waiting * sp_strategy_local_bytes(maker->table, value->id, maker->layouts[o]);
    }
    return sum;
}

static struct sp_strategy strategy_of_way(const struct maker *maker)
{
    const struct sp_strategy_way *way = &maker->way;
    /* Where only the whole node was measured, its parts are as much quicker or slower than estimated. */
    const double measured = sp_work_measured_scale(maker->work, maker->table->mesh.kind);
    struct sp_strategy strategy = {.is_inner = is_inner(maker),
                                   .flops = way->flops,
                                   .bytes = way->bytes,
                                   .compute_seconds = way->compute_seconds * measured,
                                   .communication_seconds = way->communication_seconds,
                                   .communication_bytes = way->communication_bytes,
                                   .output_bytes = output_bytes(maker),
                                   .weight_bytes = way->weight_bytes + maker->work->inner_weight_bytes,
                                   .workspace_bytes = maker->work->workspace_bytes,
                                   .resident_bytes = resident_bytes(maker)};
    memcpy(strategy.factor_of, way->factor_of, sizeof strategy.factor_of);
    memset(strategy.scatter_of, SP_STRATEGY_NO_FACTOR, sizeof strategy.scatter_of);
    return strategy;
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */

/* A collective behind a node that hands its result on makes two kernels of one. */
static double cut_seconds(const struct maker *maker, uint32_t output)
{
    const struct sp_strategy_mesh *mesh = &maker->table->mesh;
    const struct sp_node_kernel *kernel = sp_work_kernel(maker->table->workload, mesh->kind, maker->way.node);
    const uint32_t operand = maker->way.rule->input_count + output;
    if (output > 0 || kernel == NULL || !kernel->hands_on)
        return 0;
    return sp_work_times(maker->table->workload, maker->work->phase) *
           sp_strategy_cut_seconds(maker->table, value_of(maker, operand)->id, maker->layouts[operand], SP_CUT_BOTH);
}

/* Adds the time of combining output `output` from partial values to `to`. */
static enum sp_status add_reduction(struct maker *maker, uint32_t output, const struct sp_strategy_cut *to,
                                    struct sp_strategy *strategy)
{
    uint32_t operand = maker->way.rule->input_count + output;
    const struct sp_value *value = value_of(maker, operand);
    const struct sp_strategy_shape *shape;
    struct sp_layout from, target;
    double bytes = 0;
    enum sp_status status = sp_strategy_shape_of(maker->table, value->id, &shape, maker->err);
    if (status != SP_OK || shape->extents == NULL)
        return status;
    strategy->compute_seconds += cut_seconds(maker, output);
    if (sp_strategy_has_inner(maker->table->layouts[maker->layouts[operand]])) { /* it keeps its cut */
        strategy->communication_seconds += sp_strategy_collective(
            maker->table, SP_ALL_REDUCE, maker->way.partial[output],
            sp_strategy_local_bytes(maker->table, value->id, maker->layouts[operand]), &strategy->communication_bytes);
        return SP_OK;
    }
    if (maker->table->mesh.member_count > 0) {
        const bool scatters = to->count > maker->cuts[operand].count;
        strategy->communication_seconds +=
            sp_strategy_collective(maker->table, scatters ? SP_REDUCE_SCATTER : SP_ALL_REDUCE, 1,
                                   maker->table->workload->tensors[value->id].bytes, &strategy->communication_bytes);
        return SP_OK;
    }
    sp_strategy_cut_layout(maker->table, &maker->cuts[operand], maker->way.partial[output], &from);
    sp_strategy_cut_layout(maker->table, to, 0, &target);
    strategy->communication_seconds +=
        sp_reshard_cost(maker->table->costs, shape->rank, shape->extents, shape->element_bytes, &from, &target, &bytes);
    strategy->communication_bytes += bytes;
    return SP_OK;
}

/* The mesh axes of output 0's reductions behind its cut, on one axis: in the order in which the devices of a group are
   numbered, by factors and then by mesh axes. False where the axis does not divide, or another one is cut behind its
   major part. */
static bool scatter_cut(const struct maker *maker, uint32_t axis, struct sp_strategy_cut *ret_cut)
{
    const struct sp_rule *rule = maker->way.rule;
    const struct sp_value *value = value_of(maker, rule->input_count);
    int64_t shards = 1, extent = sp_strategy_axis_extent(value, axis);
    *ret_cut = maker->cuts[rule->input_count];
    for (uint32_t i = 0; i < ret_cut->count; i++) {
        if (ret_cut->tensor_axis[i] >= SP_STRATEGY_INNER)
            return false;
        if (ret_cut->tensor_axis[i] == axis)
            shards *= maker->table->mesh.size[ret_cut->mesh_axis[i]];
    }
    for (uint32_t f = 0; f < rule->factor_count; f++)
        for (uint32_t a = 0; a < maker->table->mesh.axis_count; a++) {
            if (maker->way.factor_of[a] != f || !(maker->way.partial[0] >> a & 1))
                continue;
            ret_cut->tensor_axis[ret_cut->count] = (uint8_t)axis;
            ret_cut->mesh_axis[ret_cut->count++] = (uint8_t)a;
            shards *= maker->table->mesh.size[a];
        }
    return extent > 0 && extent % shards == 0;
}

/* The same way, with output 0 scattered to one of its axes. */
static enum sp_status keep_scattered(struct maker *maker, const struct sp_strategy *others)
{
    uint32_t operand = maker->way.rule->input_count;
    const struct sp_value *value = maker->way.rule->output_count > 0 ? value_of(maker, operand) : NULL;
    uint32_t kept = maker->layouts[operand];
    enum sp_status status = SP_OK;
    if (value == NULL || maker->way.partial[0] == 0 || !value->type.shape.has_rank)
        return SP_OK;
    for (uint32_t axis = 0; axis < value->type.shape.rank && status == SP_OK; axis++) {
        struct sp_strategy strategy = *others;
        struct sp_strategy_cut cut;
        struct sp_layout layout;
        if (!scatter_cut(maker, axis, &cut))
            continue;
        for (uint32_t a = 0; a < maker->table->mesh.axis_count; a++)
            if (maker->way.partial[0] >> a & 1)
                strategy.scatter_of[a] = (uint8_t)axis;
        status = add_reduction(maker, 0, &cut, &strategy);
        sp_strategy_cut_layout(maker->table, &cut, 0, &layout);
        if (status == SP_OK)
            status = sp_strategy_layout_number(maker->table, &layout, &maker->layouts[operand], maker->err);
        strategy.output_bytes = output_bytes(maker);
        strategy.resident_bytes = resident_bytes(maker);
        if (status == SP_OK)
            status = keep(maker, &strategy);
    }
    maker->layouts[operand] = kept;
    return status;
}

static enum sp_status try_way(struct maker *maker)
{
    const struct sp_rule *rule = maker->way.rule;
    struct sp_strategy strategy, scattered;
    bool is_ok = true;
    for (uint32_t i = 0; i < maker->allowed_count && is_ok; i++) {
        const uint8_t factor = maker->allowed[i].factor;
        is_ok = sp_strategy_may_cut(&rule->factors[factor], maker->way.before[factor], maker->way.shards[factor]);
    }
    enum sp_status status =
        is_ok ? sp_strategy_cut_operands(&maker->way, maker->cuts, maker->layouts, &is_ok, maker->err) : SP_OK;
    if (status == SP_OK && is_ok)
        status = sp_strategy_has_parts(&maker->way, &is_ok, maker->err);
    if (status == SP_OK && is_ok)
        status = sp_strategy_probe(&maker->way, maker->err);
    if (status != SP_OK || !is_ok || maker->way.is_refused)
        return status;
    strategy = strategy_of_way(maker);
    for (uint32_t o = 1; o < rule->output_count && status == SP_OK; o++)
        if (maker->way.partial[o] != 0)
            status = add_reduction(maker, o, &maker->cuts[rule->input_count + o], &strategy);
    scattered = strategy;
    if (status == SP_OK && rule->output_count > 0 && maker->way.partial[0] != 0)
        status = add_reduction(maker, 0, &maker->cuts[rule->input_count], &strategy);
    if (status == SP_OK)
        status = keep(maker, &strategy);
    return status == SP_OK ? keep_scattered(maker, &scattered) : status;
}

/* ---- all ways --------------------------------------------------------------------------------------------------- */

/* Nothing is split: what the workload says. */
static enum sp_status keep_whole(struct maker *maker)
{
    const struct sp_workload *workload = maker->table->workload;
    const struct sp_work_node *work = maker->work;
    struct sp_strategy strategy = {.flops = work->flops,
                                   .bytes = work->bytes,
                                   .compute_seconds = work->seconds[maker->table->mesh.kind],
                                   .weight_bytes = work->inner_weight_bytes,
                                   .workspace_bytes = work->workspace_bytes,
                                   .resident_bytes = work->resident_bytes};
    memset(strategy.factor_of, SP_STRATEGY_NO_FACTOR, sizeof strategy.factor_of);
    memset(strategy.scatter_of, SP_STRATEGY_NO_FACTOR, sizeof strategy.scatter_of);
    for (uint32_t i = 0; i < work->output_count; i++)
        if (workload->tensors[work->outputs[i]].alias_of == SP_NO_WORK)
            strategy.output_bytes += workload->tensors[work->outputs[i]].bytes;
    for (uint32_t i = 0; i < work->input_count; i++)
        if (maker->table->is_own_weight[work->inputs[i]])
            strategy.weight_bytes += workload->tensors[sp_work_root(workload, work->inputs[i])].bytes;
    for (uint32_t i = 0; i < maker->table->mesh.member_count; i++)
        strategy.compute_seconds = fmax(strategy.compute_seconds, work->seconds[maker->table->mesh.members[i].kind]);
    memset(maker->layouts, 0, maker->way.operand_count * sizeof *maker->layouts);
    return keep(maker, &strategy);
}

struct ranked {
    double worth; /* bytes and FLOPs that the factor is in */
    struct choice choice;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;
    if (left->worth != right->worth)
        return left->worth > right->worth ? -1 : 1;
    if (left->choice.factor != right->choice.factor)
        return left->choice.factor < right->choice.factor ? -1 : 1;
    return left->choice.before < right->choice.before ? -1 : 1;
}

static double worth_of(const struct maker *maker, uint8_t factor)
{
    const struct sp_rule *rule = maker->way.rule;
    double worth = 0;
    for (uint32_t t = 0; t < rule->term_count; t++)
        if (rule->terms[t].count > 0 && memchr(rule->terms[t].factors, factor, rule->terms[t].count) != NULL)
            worth += maker->work->flops;
    for (uint32_t o = 0; o < maker->way.operand_count; o++) {
        const struct sp_operand_rule *operand = sp_rule_operand(rule, o);
        const struct sp_value *value = value_of(maker, o);
        int64_t bytes = value != NULL ? sp_value_stored_bytes(value) : 0;
        for (uint32_t a = 0; a < operand->rank; a++)
            if (operand->axes[a].count > 0 && memchr(operand->axes[a].factors, factor, operand->axes[a].count) != NULL)
                worth += (double)(bytes > 0 ? bytes : 0);
    }
    return worth;
}

static bool is_ranked(uint32_t count, const struct ranked *ranked, struct choice choice)
{
    for (uint32_t i = 0; i < count; i++)
        if (ranked[i].choice.factor == choice.factor && ranked[i].choice.before == choice.before)
            return true;
    return false;
}

/* The choices that some axis of the mesh may have: factors, then what is behind major parts of them. */
static uint32_t rank_choices(const struct maker *maker, struct ranked ranked[MOST_CHOICES])
{
    const struct sp_rule *rule = maker->way.rule;
    uint32_t count = 0;
    for (uint32_t f = 0; f < rule->factor_count; f++)
        if (sp_strategy_is_cuttable(maker->table, &rule->factors[f], 1))
            ranked[count++] = (struct ranked){worth_of(maker, (uint8_t)f), {(uint8_t)f, 1}};
    for (uint32_t i = 0; i < maker->way.apart_count; i++) {
        const struct sp_strategy_apart *apart = &maker->way.apart[i];
        const struct choice choice = {
            sp_strategy_only_factor(rule, &sp_rule_operand(rule, apart->operand)->axes[apart->axis]), apart->before};
        if (choice.factor != SP_STRATEGY_NO_FACTOR && !is_ranked(count, ranked, choice) &&
            sp_strategy_is_cuttable(maker->table, &rule->factors[choice.factor], choice.before))
            ranked[count++] = (struct ranked){worth_of(maker, choice.factor), choice};
    }
    return count;
}

/* What the axes of the mesh may split, in the rule's order. */
static void find_allowed(struct maker *maker)
{
    struct ranked ranked[MOST_CHOICES];
    uint32_t count = rank_choices(maker, ranked), most = MOST_CHOICES;
    uint64_t ways;
    do { /* as many as may be tried in all combinations */
        ways = 1;
        for (uint32_t a = 0; a < maker->table->mesh.axis_count && ways <= SP_STRATEGY_MOST_TRIED; a++)
            ways *= (count < most ? count : most) + 1;
    } while (ways > SP_STRATEGY_MOST_TRIED && --most > 0);
    if (count > most) {
        qsort(ranked, count, sizeof *ranked, compare_ranked);
        count = most;
    }
    for (uint32_t f = 0; f < maker->way.rule->factor_count; f++)
        for (uint32_t i = 0; i < count; i++)
            if (ranked[i].choice.factor == f)
                maker->allowed[maker->allowed_count++] = ranked[i].choice;
}

/* Takes the choice of each mesh axis into the way; false where two cut one factor behind different parts of it. */
static bool take_choices(struct maker *maker, const uint32_t *choice)
{
    struct sp_strategy_way *way = &maker->way;
    for (uint32_t i = 0; i < maker->allowed_count; i++)
        way->shards[maker->allowed[i].factor] = way->before[maker->allowed[i].factor] = 1;
    for (uint32_t a = 0; a < maker->table->mesh.axis_count; a++) {
        way->factor_of[a] = SP_STRATEGY_NO_FACTOR;
        if (choice[a] == 0)
            continue;
        const struct choice *taken = &maker->allowed[choice[a] - 1];
        if (way->shards[taken->factor] > 1 && way->before[taken->factor] != taken->before)
            return false;
        way->factor_of[a] = taken->factor;
        way->before[taken->factor] = taken->before;
        way->shards[taken->factor] *= maker->table->mesh.size[a];
    }
    return true;
}

/* All assignments but the one to no factor at all. */
static enum sp_status try_all(struct maker *maker)
{
    uint32_t axes = maker->table->mesh.axis_count, choice[SP_STRATEGY_AXES] = {0};
    for (;;) {
        uint32_t a = axes;
        while (a > 0 && choice[a - 1] == maker->allowed_count)
            choice[--a] = 0;
        if (a == 0)
            return SP_OK;
        choice[a - 1]++;
        enum sp_status status = take_choices(maker, choice) ? try_way(maker) : SP_OK;
        if (status != SP_OK)
            return status;
    }
}

/* ---- what is kept ----------------------------------------------------------------------------------------------- */

static int compare_seconds(const void *a, const void *b)
{
    const struct found *left = a, *right = b;
    double x = seconds_of(&left->strategy), y = seconds_of(&right->strategy);
    if (x != y)
        return x < y ? -1 : 1;
    return left->order < right->order ? -1 : 1;
}

static int compare_memory(const void *a, const void *b)
{
    const struct found *left = a, *right = b;
    double x = memory_of(&left->strategy), y = memory_of(&right->strategy);
    if (x != y)
        return x < y ? -1 : 1;
    return left->order < right->order ? -1 : 1;
}

SP_ASCENDING(compare_order, struct found, order)

/* Of too many, three quarters are the fastest and the rest the smallest. The first one, whole, always stays. */
static void choose(struct maker *maker)
{
    uint32_t count = 0, most = SP_MAX_STRATEGIES - 1, fastest = most / 4 * 3;
    for (uint32_t i = 0; i < maker->count; i++)
        if (!maker->found[i].is_dropped)
            maker->found[count++] = maker->found[i];
    maker->count = count;
    if (count <= SP_MAX_STRATEGIES)
        return;
    qsort(maker->found + 1, count - 1, sizeof *maker->found, compare_seconds);
    qsort(maker->found + 1 + fastest, count - 1 - fastest, sizeof *maker->found, compare_memory);
    maker->count = SP_MAX_STRATEGIES;
    qsort(maker->found + 1, maker->count - 1, sizeof *maker->found, compare_order);
}

static enum sp_status finish(struct maker *maker)
{
    struct sp_strategy *items;
    choose(maker);
    items = SP_NEW_ARRAY(maker->table->arena, maker->count, struct sp_strategy);
    if (items == NULL)
        return sp_fail_memory(maker->err);
    for (uint32_t i = 0; i < maker->count; i++)
        items[i] = maker->found[i].strategy;
    maker->class->strategies.items = items;
    maker->class->strategies.count = maker->count;
    maker->class->strategies.operand_count = maker->way.operand_count;
    return SP_OK;
}

static enum sp_status enumerate(struct maker *maker)
{
    const struct sp_node *node = maker->work->node;
    const struct sp_rule *rule = maker->class->strategies.rule;
    struct sp_arena *scratch = maker->table->scratch;
    maker->way = (struct sp_strategy_way){.table = maker->table,
                                          .node = maker->class->node,
                                          .rule = rule,
                                          .apart_count = maker->class->apart_count,
                                          .apart = maker->class->apart};
    maker->way.model_node = &node->graph->nodes[node->index];
    maker->way.operand_count = node->input_count + node->output_count;
    maker->layouts = SP_NEW_ARRAY(scratch, (size_t)maker->way.operand_count + 1, uint32_t);
    maker->cuts = SP_NEW_ARRAY(scratch, maker->way.operand_count, struct sp_strategy_cut);
    maker->way.shards = SP_NEW_ARRAY(scratch, rule ? rule->factor_count : 0, int64_t);
    maker->way.before = SP_NEW_ARRAY(scratch, rule ? rule->factor_count : 0, int64_t);
    maker->way.partial = SP_NEW_ARRAY(scratch, node->output_count, uint32_t);
    if (maker->layouts == NULL || maker->cuts == NULL || maker->way.shards == NULL || maker->way.before == NULL ||
        maker->way.partial == NULL)
        return sp_fail_memory(maker->err);
    maker->way.cuts = maker->cuts;
    maker->way.layouts = maker->layouts;
    enum sp_status status = keep_whole(maker);
    for (uint32_t f = 0; rule != NULL && f < rule->factor_count; f++)
        maker->way.shards[f] = maker->way.before[f] = 1;
    if (status == SP_OK && rule != NULL) {
        find_allowed(maker);
        status = maker->allowed_count > 0 ? try_all(maker) : SP_OK;
    }
    return status == SP_OK ? finish(maker) : status;
}

enum sp_status sp_strategy_enumerate(struct sp_strategy_table *table, struct sp_strategy_class *class,
                                     struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(table->scratch);
    struct maker maker = {.table = table,
                          .class = class,
                          .work = &table->workload->nodes[class->node],
                          .seed = table->dataflow->model->hash_seed,
                          .seen = {.arena = table->scratch},
                          .err = err};
    enum sp_status status = enumerate(&maker);
    sp_arena_rewind(table->scratch, mark);
    return status;
}
