#include "recount.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "recount_shared.h"

/* An operand of a node of the stage, in the order in which nodes take and make them. */
struct touch {
    uint32_t entry, tensor, layout;
    bool is_made;
    bool is_first;      /* the node's operand 0: what a view that the node makes is a view of */
    struct touch *next; /* of the same memory */
};

/* What one device has of one tensor's memory in one layout. */
struct copy {
    double bytes;
    uint32_t birth, death; /* entries */
    bool from_start, to_end;
};

/* A tensor in a layout is a copy; a copy may be several tensors (views). */
struct name {
    uint32_t tensor, layout, copy;
};

struct stage {
    struct sp_arena *scratch;
    const struct sp_workload *workload;
    const struct sp_placement *placement;
    const struct sp_sharded_stage *sharded; /* or NULL: one device */
    double share;                           /* of what is cut, of one of unequal devices; 0: equal ones */
    uint32_t number, node_count;
    uint32_t *nodes;
    struct touch **first, **last; /* per root */
    uint32_t *strategy_at;        /* per work node of any stage */
    double weights, kept;         /* kept: keys and values */
    double *change;               /* bytes that come and go, per entry and one more */
    /* of the root at hand */
    uint32_t copy_count, name_count;
    struct copy *copies;
    struct name *names;
};

/* ---- what touches what ------------------------------------------------------------------------------------------ */

static uint32_t root_of(const struct sp_workload *workload, uint32_t tensor)
{
    const uint32_t root = workload->tensors[tensor].alias_of;
    return root == SP_NO_WORK ? tensor : root;
}

static struct sp_strategy_table *table_of(const struct sp_sharded_stage *sharded, uint32_t stage)
{
    return sharded == NULL ? NULL : sharded[stage].table;
}

static double tile_bytes(const struct stage *stage, uint32_t tensor, uint32_t layout)
{
    const double whole = stage->workload->tensors[tensor].bytes;
    return layout == 0        ? whole
           : stage->share > 0 ? whole * stage->share
                              : sp_strategy_local_bytes(stage->sharded->table, tensor, layout);
}

static void touch(struct stage *stage, uint32_t entry, uint32_t tensor, uint32_t layout, bool is_made, bool is_first)
{
    const uint32_t root = root_of(stage->workload, tensor);
    struct touch *new = SP_NEW(stage->scratch, struct touch);
    *new = (struct touch){entry, tensor, layout, is_made, is_first, NULL};
    if (stage->first[root] == NULL)
        stage->first[root] = new;
    else
        stage->last[root]->next = new;
    stage->last[root] = new;
}

static bool has_value(struct sp_value *const *values, uint32_t count, uint32_t tensor)
{
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] != NULL && values[i]->id == tensor)
            return true;
    }
    return false;
}

static void touch_split(struct stage *stage, uint32_t entry, const struct sp_work_node *work)
{
    const uint32_t n = stage->nodes[entry];
    const struct sp_strategy *strategy = &sp_strategy_of(stage->sharded->table, n)->items[stage->strategy_at[n]];
    const struct sp_node *node = work->node;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] != NULL)
            touch(stage, entry, node->inputs[i]->id, sp_strategy_lies(strategy, i), false, i == 0);
    }
    for (uint32_t i = 0; i < work->input_count; i++) {
        if (!has_value(node->inputs, node->input_count, work->inputs[i]))
            touch(stage, entry, work->inputs[i], 0, false, false); /* a graph inside uses it by name */
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL)
            touch(stage, entry, node->outputs[i]->id, strategy->layouts[node->input_count + i], true, false);
    }
}

/* What a node keeps on each device from request to request. */
static double kept_bytes(const struct stage *stage, uint32_t node)
{
    const double whole = stage->workload->nodes[node].resident_bytes;
    if (stage->sharded == NULL)
        return whole;
    const double cut = sp_strategy_of(stage->sharded->table, node)->items[stage->strategy_at[node]].resident_bytes;
    return stage->share > 0 && cut < whole ? whole * stage->share : cut;
}

static void touch_all(struct stage *stage)
{
    for (uint32_t entry = 0; entry < stage->node_count; entry++) {
        const struct sp_work_node *work = &stage->workload->nodes[stage->nodes[entry]];
        stage->weights += work->inner_weight_bytes;
        stage->kept += kept_bytes(stage, stage->nodes[entry]);
        if (stage->sharded != NULL) {
            touch_split(stage, entry, work);
            continue;
        }
        for (uint32_t i = 0; i < work->input_count; i++)
            touch(stage, entry, work->inputs[i], 0, false, i == 0);
        for (uint32_t i = 0; i < work->output_count; i++)
            touch(stage, entry, work->outputs[i], 0, true, false);
    }
}

/* ---- one root's copies ------------------------------------------------------------------------------------------ */

static struct copy *new_copy(struct stage *stage, uint32_t tensor, uint32_t layout, uint32_t entry)
{
    /* One device takes a view for what it is a view of. */
    const uint32_t sized = stage->sharded == NULL ? root_of(stage->workload, tensor) : tensor;
    stage->names[stage->name_count++] = (struct name){tensor, layout, stage->copy_count};
    stage->copies[stage->copy_count] =
        (struct copy){.bytes = tile_bytes(stage, sized, layout), .birth = entry, .death = entry};
    return &stage->copies[stage->copy_count++];
}

static const struct name *find_name(const struct stage *stage, uint32_t tensor, uint32_t layout, bool any_layout)
{
    for (uint32_t i = 0; i < stage->name_count; i++) {
        if (stage->names[i].tensor == tensor && (any_layout || stage->names[i].layout == layout))
            return &stage->names[i];
    }
    return NULL;
}

/* Whether each device finds its part by `layout` in its part by `from`: all that cuts `from` cuts it in the same way.
 */
static bool is_cut_of(const struct stage *stage, uint32_t layout, uint32_t from)
{
    const struct sp_layout *want = sp_strategy_layout(stage->sharded->table, layout);
    const struct sp_layout *have = sp_strategy_layout(stage->sharded->table, from);
    for (uint32_t d = 0; d < SP_RESHARD_MAX_DIGITS; d++) {
        if (have->axis[d] < SP_LAYOUT_PARTIAL && (want->axis[d] != have->axis[d] || want->place[d] != have->place[d]))
            return false;
    }
    return true;
}

static struct copy *use(struct stage *stage, const struct touch *touch)
{
    const uint32_t root = root_of(stage->workload, touch->tensor);
    const bool is_input = stage->workload->tensors[touch->tensor].kind == SP_WORK_INPUT;
    const struct name *name = find_name(stage, touch->tensor, touch->layout, false);
    const struct name *any = find_name(stage, touch->tensor, 0, true), *memory = find_name(stage, root, 0, true);
    struct copy *copy;
    if (name != NULL) {
        copy = &stage->copies[name->copy];
    } else if (any != NULL && !is_input) { /* brought, or cut out of what is there */
        const struct name *source = NULL;
        for (uint32_t i = 0; i < stage->name_count && source == NULL; i++) {
            if (stage->names[i].tensor == touch->tensor && is_cut_of(stage, touch->layout, stage->names[i].layout))
                source = &stage->names[i];
        }
        stage->copies[(source != NULL ? source : any)->copy].death = touch->entry;
        copy = new_copy(stage, touch->tensor, touch->layout, touch->entry);
    } else if (touch->tensor != root && memory != NULL) {
        copy = &stage->copies[memory->copy];
        stage->names[stage->name_count++] = (struct name){touch->tensor, touch->layout, memory->copy};
    } else { /* it comes from outside */
        copy = new_copy(stage, touch->tensor, touch->layout, touch->entry);
        if (touch->tensor != root)
            stage->names[stage->name_count++] = (struct name){root, touch->layout, stage->copy_count - 1};
    }
    copy->death = touch->entry;
    copy->from_start = copy->from_start || is_input;
    copy->to_end = copy->to_end || is_input;
    return copy;
}

static bool leaves(const struct stage *stage, const struct sp_work_tensor *tensor)
{
    bool is_sent = false;
    for (uint32_t i = 0; i < tensor->consumer_count; i++)
        is_sent = is_sent || stage->placement->stage_of[tensor->consumers[i]] != stage->number;
    return tensor->is_output || is_sent;
}

static void make(struct stage *stage, const struct touch *touch, struct copy *viewed)
{
    const struct sp_work_tensor *tensor = &stage->workload->tensors[touch->tensor];
    struct copy *copy = viewed;
    if (tensor->alias_of != SP_NO_WORK && copy == NULL && stage->copy_count > 0)
        copy = stage->copies; /* nodes made by hand do not say which operand it is a view of */
    if (tensor->alias_of == SP_NO_WORK || copy == NULL)
        copy = new_copy(stage, touch->tensor, touch->layout, touch->entry);
    else
        stage->names[stage->name_count++] =
            (struct name){touch->tensor, touch->layout, (uint32_t)(copy - stage->copies)};
    copy->death = touch->entry;
    copy->to_end = copy->to_end || leaves(stage, tensor);
}

static void count_activation(struct stage *stage, uint32_t root)
{
    struct copy *viewed = NULL;
    uint32_t viewed_at = 0;
    for (const struct touch *touch = stage->first[root]; touch != NULL; touch = touch->next) {
        if (touch->is_made) {
            make(stage, touch, viewed != NULL && viewed_at == touch->entry ? viewed : NULL);
            continue;
        }
        struct copy *copy = use(stage, touch);
        if (touch->is_first) {
            viewed = copy;
            viewed_at = touch->entry;
        }
    }
    for (uint32_t i = 0; i < stage->copy_count; i++) {
        const struct copy *copy = &stage->copies[i];
        stage->change[copy->from_start ? 0 : copy->birth + 1] += copy->bytes;
        if (!copy->to_end)
            stage->change[copy->death + 2] -= copy->bytes;
    }
}

/* Once whole, under whatever name; else once for each name and layout. */
static void count_weight(struct stage *stage, uint32_t root)
{
    const struct sp_work_tensor *tensors = stage->workload->tensors;
    for (const struct touch *touch = stage->first[root]; touch != NULL; touch = touch->next) {
        const uint32_t name = touch->layout == 0 ? root : touch->tensor;
        const double whole = tensors[touch->tensor].bytes;
        if (find_name(stage, name, touch->layout, false) != NULL)
            continue;
        stage->names[stage->name_count++] = (struct name){name, touch->layout, 0};
        stage->weights += touch->layout == 0 || whole <= 0
                              ? tensors[root].bytes
                              : tensors[root].bytes * tile_bytes(stage, touch->tensor, touch->layout) / whole;
    }
}

static void count_root(struct stage *stage, uint32_t root)
{
    const struct sp_arena_mark mark = sp_arena_mark(stage->scratch);
    size_t touches = 0;
    for (const struct touch *touch = stage->first[root]; touch != NULL; touch = touch->next)
        touches++;
    stage->copies = SP_NEW_ARRAY(stage->scratch, touches, struct copy);
    stage->names = SP_NEW_ARRAY(stage->scratch, 2 * touches, struct name);
    stage->copy_count = stage->name_count = 0;
    if (stage->workload->tensors[root].kind == SP_WORK_WEIGHT)
        count_weight(stage, root);
    else
        count_activation(stage, root);
    sp_arena_rewind(stage->scratch, mark);
}

/* ---- a stage ---------------------------------------------------------------------------------------------------- */

/* Two buffers for the weight that a node gathers, as it reads it. */
static double gathered_bytes(const struct stage *stage, uint32_t entry)
{
    const uint32_t n = stage->nodes[entry];
    if (stage->sharded == NULL)
        return 0;
    const struct sp_strategy *strategy = &sp_strategy_of(stage->sharded->table, n)->items[stage->strategy_at[n]];
    if (strategy->gathered == SP_STRATEGY_NO_FACTOR)
        return 0;
    const uint32_t weight = stage->workload->nodes[n].node->inputs[strategy->gathered]->id;
    return 2 * tile_bytes(stage, weight, strategy->layouts[strategy->gathered]);
}

static void count_stage(struct stage *stage, double *ret_peak)
{
    const struct sp_workload *workload = stage->workload;
    double live, peak;
    stage->first = SP_NEW_ARRAY(stage->scratch, workload->tensor_count, struct touch *);
    stage->last = SP_NEW_ARRAY(stage->scratch, workload->tensor_count, struct touch *);
    stage->nodes = SP_NEW_ARRAY(stage->scratch, workload->node_count, uint32_t);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (!workload->nodes[n].folded && stage->placement->stage_of[n] == stage->number)
            stage->nodes[stage->node_count++] = n;
    }
    stage->change = SP_NEW_ARRAY(stage->scratch, (size_t)stage->node_count + 2, double);
    touch_all(stage);
    for (uint32_t root = 0; root < workload->tensor_count; root++) {
        if (stage->first[root] != NULL)
            count_root(stage, root);
    }
    live = peak = stage->change[0]; /* there before the first node */
    for (uint32_t entry = 0; entry < stage->node_count; entry++) {
        live += stage->change[entry + 1];
        peak = fmax(peak, live + workload->nodes[stage->nodes[entry]].workspace_bytes + gathered_bytes(stage, entry));
    }
    *ret_peak = peak;
}

/* Of what crosses the border: two buffers for the part of one device. */
static double border_bytes(const struct stage *stage, const struct sp_sharded_stage *sharded)
{
    const struct sp_workload *workload = stage->workload;
    const uint32_t *stage_of = stage->placement->stage_of;
    struct sp_strategy_table *table = table_of(sharded, stage->number);
    double bytes = 0;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK ||
            workload->nodes[tensor->producer].folded)
            continue;
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            const uint32_t to = stage_of[tensor->consumers[i]], from = stage_of[tensor->producer];
            bool is_first = to != from && (to == stage->number || from == stage->number);
            for (uint32_t j = 0; j < i; j++)
                is_first = is_first && stage_of[tensor->consumers[j]] != to;
            if (!is_first)
                continue;
            const uint32_t node = to == stage->number ? tensor->consumers[i] : tensor->producer;
            const uint32_t operand = table != NULL ? sp_strategy_operand(table, node, t) : UINT32_MAX;
            const uint32_t layout = operand == UINT32_MAX
                                        ? 0
                                        : sp_strategy_of(table, node)->items[stage->strategy_at[node]].layouts[operand];
            bytes += 2 * tile_bytes(stage, t, layout);
        }
    }
    return bytes;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-6;
}

/* Whether one of the stage's devices holds what the figures say. */
static bool figures_hold(struct stage *stage, const struct sp_sharded_stage *sharded, const struct sp_stage_cost *cost,
                         double *ret_total, char *ret_why)
{
    double peak;
    count_stage(stage, &peak);
    const double border = border_bytes(stage, sharded);
    const double held = cost->weights_bytes - cost->stream_buffer_bytes + cost->streamed_bytes;
    if (!is_near(held, stage->weights) || !is_near(cost->activations_peak_bytes, peak) ||
        !is_near(cost->communication_bytes, border)) {
        (void)snprintf(ret_why, 256, "Stage %u: weights %.17g, counted %.17g; peak %.17g, %.17g; border %.17g, %.17g.",
                       stage->number, held, stage->weights, cost->activations_peak_bytes, peak,
                       cost->communication_bytes, border);
        return false;
    }
    const double total =
        stage->weights - cost->streamed_bytes + cost->stream_buffer_bytes + stage->kept + peak + border;
    if (!is_near(cost->total_bytes, total) || !is_near(cost->cache_bytes, stage->kept)) {
        (void)snprintf(ret_why, 256, "Stage %u: %.17g bytes in all, counted %.17g.", stage->number, cost->total_bytes,
                       total);
        return false;
    }
    *ret_total = total;
    return true;
}

static bool stage_holds(struct stage *stage, const struct sp_sharded_stage *sharded, const struct sp_cluster *cluster,
                        const struct sp_stage_cost *cost, bool fits, char *ret_why)
{
    const struct sp_placement *placement = stage->placement;
    double total;
    if (!figures_hold(stage, sharded, cost, &total, ret_why))
        return false;
    const uint32_t devices =
        sp_placement_size(placement, stage->number) * sp_placement_replicas(placement, stage->number);
    for (uint32_t d = placement->stage_device[stage->number]; d < placement->stage_device[stage->number] + devices;
         d++) {
        const double memory = d < cluster->device_count ? sp_cluster_memory(cluster, d) : -1;
        if (memory < 0 || (fits && total > memory * (1 + 1e-12))) {
            (void)snprintf(ret_why, 256, "Stage %u: %.17g bytes on device %u, which has %.17g.", stage->number, total,
                           d, memory);
            return false;
        }
    }
    return true;
}

/* ---- unequal devices --------------------------------------------------------------------------------------------- */

static const struct sp_strategy_mesh *mesh_of(const struct sp_sharded_stage *sharded, uint32_t stage)
{
    return table_of(sharded, stage) == NULL ? NULL : sp_strategy_table_mesh(table_of(sharded, stage));
}

/* Each device by itself, of each replica; the stage's figures are those of the fullest one. */
static bool members_hold(const struct stage *all, const struct sp_sharded_stage *sharded,
                         const struct sp_cluster *cluster, const struct sp_evaluation *evaluation, bool fits,
                         char *ret_why)
{
    const struct sp_strategy_mesh *mesh = mesh_of(sharded, all->number);
    const uint32_t first = all->placement->stage_device[all->number];
    const uint32_t devices = mesh->member_count * sp_placement_replicas(all->placement, all->number);
    const struct sp_stage_cost *told = &evaluation->stages[all->number];
    double blocks = 0, worst = -INFINITY;
    for (uint32_t m = 0; m < mesh->member_count; m++)
        blocks += mesh->members[m].share;
    for (uint32_t d = 0; d < devices; d++) {
        struct stage stage = *all;
        double total;
        const double memory = first + d < cluster->device_count ? sp_cluster_memory(cluster, first + d) : -1;
        stage.share = mesh->members[d % mesh->member_count].share / blocks;
        if (evaluation->members == NULL || memory < 0 ||
            !figures_hold(&stage, sharded, &evaluation->members[first + d], &total, ret_why))
            return false;
        worst = fmax(worst, total - memory);
        if (evaluation->members[first + d].capacity_bytes != memory || (fits && total > memory * (1 + 1e-12))) {
            (void)snprintf(ret_why, 256, "Stage %u: %.17g bytes on device %u, which has %.17g.", all->number, total,
                           first + d, memory);
            return false;
        }
    }
    if (is_near(told->total_bytes - told->capacity_bytes, worst))
        return true;
    (void)snprintf(ret_why, 256, "Stage %u lacks %.17g bytes, counted %.17g.", all->number,
                   told->total_bytes - told->capacity_bytes, worst);
    return false;
}

/* ---- a plan ----------------------------------------------------------------------------------------------------- */

static bool devices_differ(struct sp_arena *scratch, const struct sp_cluster *cluster,
                           const struct sp_placement *placement, char *ret_why)
{
    bool *used = SP_NEW_ARRAY(scratch, cluster->device_count, bool);
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        const uint32_t count = sp_placement_size(placement, s) * sp_placement_replicas(placement, s);
        for (uint32_t d = placement->stage_device[s]; d < placement->stage_device[s] + count; d++) {
            if (d >= cluster->device_count || used[d]) {
                (void)snprintf(ret_why, 256, "Stage %u: device %u is not there, or in another stage too.", s, d);
                return false;
            }
            used[d] = true;
        }
    }
    return true;
}

bool recount_holds(const struct sp_workload *workload, const struct sp_cluster *cluster,
                   const struct sp_placement *placement, const struct sp_sharded_stage *sharded,
                   const struct sp_evaluation *evaluation, bool fits, char ret_why[256])
{
    if (placement->shares_devices)
        return recount_shared_holds(workload, cluster, placement, evaluation, fits, ret_why);
    struct sp_arena *scratch = sp_arena_create(NULL);
    uint32_t *strategy_at = SP_NEW_ARRAY(scratch, workload->node_count, uint32_t);
    bool holds = devices_differ(scratch, cluster, placement, ret_why);
    for (uint32_t s = 0; sharded != NULL && s < placement->stage_count; s++) {
        for (uint32_t i = 0; sharded[s].table != NULL && i < sharded[s].node_count; i++)
            strategy_at[sharded[s].nodes[i]] = sharded[s].strategy_of[i];
    }
    for (uint32_t s = 0; holds && s < placement->stage_count; s++) {
        struct stage stage = {.scratch = scratch,
                              .workload = workload,
                              .placement = placement,
                              .sharded = table_of(sharded, s) != NULL ? &sharded[s] : NULL,
                              .number = s,
                              .strategy_at = strategy_at};
        const struct sp_arena_mark mark = sp_arena_mark(scratch);
        const bool is_unequal = stage.sharded != NULL && mesh_of(sharded, s)->member_count > 0;
        holds = is_unequal ? members_hold(&stage, sharded, cluster, evaluation, fits, ret_why)
                           : stage_holds(&stage, sharded, cluster, &evaluation->stages[s], fits, ret_why);
        sp_arena_rewind(scratch, mark);
    }
    sp_arena_destroy(scratch);
    return holds;
}

void recount_expect(const struct sp_workload *workload, const struct sp_cluster *cluster,
                    const struct sp_placement *placement, const struct sp_sharded_stage *sharded,
                    const struct sp_evaluation *evaluation, bool fits)
{
    char why[256] = "";
    const bool holds = recount_holds(workload, cluster, placement, sharded, evaluation, fits, why);
    cr_assert(holds, "%s", why);
}

void recount_expect_result(const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_search_result *result)
{
    recount_expect(workload, cluster, &result->placement, result->sharded, result->evaluation, true);
}
