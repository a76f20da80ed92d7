/*
 * Partial results: what joins them.
 *
 * A split reduction factor that no output has leaves partial results on the devices that differ in it alone. They are
 * all-reduced; where the node states an output that is cut further over these devices, a reduce-scatter does both: the
 * devices are laid out as a mesh of the node's factors, the partial result is partial along those of its reductions,
 * and the reshard planner finds the way.
 *
 * A split reduction factor that an output has as well (Softmax, LayerNormalization) leaves statistics to be joined: a
 * number or two for each row.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "infer/communication_internal.h"

static bool output_has(const struct sp_operand_rule *output, uint8_t factor)
{
    for (uint32_t axis = 0; axis < output->rank; axis++)
        for (uint32_t i = 0; i < output->axes[axis].count; i++)
            if (output->axes[axis].factors[i] == factor)
                return true;
    return false;
}

/* The first output that has the factor, or UINT32_MAX. */
static uint32_t first_output_with(const struct sp_rule *rule, uint8_t factor)
{
    for (uint32_t i = 0; i < rule->output_count; i++)
        if (output_has(&rule->outputs[i], factor))
            return i;
    return UINT32_MAX;
}

static bool is_split_reduction(const struct sp_view *view, uint32_t factor)
{
    return view->rule->factors[factor].kind == SP_FACTOR_REDUCTION && view->coordinates[factor] != NULL;
}

static bool is_partial(const struct sp_view *view, uint32_t factor)
{
    return is_split_reduction(view, factor) && first_output_with(view->rule, (uint8_t)factor) == UINT32_MAX;
}

/* "k", "c, r": the split reductions of one kind. */
static void name_factors(const struct sp_view *view, bool partial, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t f = 0; f < view->rule->factor_count && used < size; f++)
        if (is_split_reduction(view, f) && is_partial(view, f) == partial) {
            int length = snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", view->rule->factors[f].name);
            used += length > 0 ? (size_t)length : 0;
        }
}

/* ---- a mesh of the node's factors -------------------------------------------------------------------------------- */

#define MAX_AXES 32

struct grid {
    uint32_t count; /* cut factors; the replicas come behind them */
    uint8_t factors[MAX_AXES];
    struct sp_mesh_axis axes[MAX_AXES + 1];
    char names[MAX_AXES + 1][16];
    int64_t points, replicas;
};

/* False where the participants are no full grid. */
static bool lay_out(const struct sp_view *view, struct grid *grid)
{
    grid->points = 1;
    for (uint32_t f = 0; f < view->rule->factor_count; f++) {
        if (view->coordinates[f] == NULL)
            continue;
        if (grid->count == MAX_AXES)
            return false;
        (void)snprintf(grid->names[grid->count], sizeof grid->names[0], "f%" PRIu32, f);
        grid->axes[grid->count] = (struct sp_mesh_axis){grid->names[grid->count], sp_view_shards(view, (uint8_t)f)};
        grid->points *= grid->axes[grid->count].size; /* at most the participants: each point has one */
        grid->factors[grid->count++] = (uint8_t)f;
    }
    (void)snprintf(grid->names[grid->count], sizeof grid->names[0], "r");
    grid->replicas = view->participant_count / grid->points;
    grid->axes[grid->count] = (struct sp_mesh_axis){grid->names[grid->count], grid->replicas};
    return grid->points * grid->replicas == view->participant_count;
}

/* The participants by point; *ret_ok is false when some point has more than others. */
static enum sp_status order_devices(struct sp_communicator *all, const struct grid *grid,
                                    struct sp_device_order *ret_order, bool *ret_ok)
{
    const struct sp_view *view = all->view;
    int64_t *ids = SP_NEW_ARRAY(all->scratch, (size_t)view->participant_count, int64_t);
    int64_t *used = SP_NEW_ARRAY(all->scratch, (size_t)grid->points, int64_t);
    *ret_ok = false;
    if (ids == NULL || used == NULL)
        return sp_fail_memory(all->err);
    for (int64_t p = 0; p < view->participant_count; p++) {
        int64_t point = 0;
        for (uint32_t i = 0; i < grid->count; i++)
            point = point * grid->axes[i].size + view->coordinates[grid->factors[i]][p];
        if (used[point] == grid->replicas)
            return SP_OK;
        ids[point * grid->replicas + used[point]++] = view->participants[p];
    }
    *ret_ok = true;
    return sp_device_order_list(all->scratch, view->participant_count, ids, ret_order, all->err);
}

static enum sp_status add_ref(struct sp_communicator *all, const struct sp_mesh *mesh, const struct grid *grid,
                              uint8_t factor, struct sp_axis_list *list)
{
    for (uint32_t i = 0; i < grid->count; i++) {
        if (grid->factors[i] != factor)
            continue;
        struct sp_axis_ref ref = sp_axis_full(mesh, i);
        struct sp_axis_list one = {1, &ref};
        return sp_axes_append(all->scratch, list, &one, list, all->err);
    }
    return SP_OK;
}

static enum sp_combiner combiner_of(const struct sp_view *view)
{
    for (uint32_t f = 0; f < view->rule->factor_count; f++) {
        enum sp_combiner combiner = view->rule->factors[f].combiner;
        if (is_partial(view, f) && (combiner == SP_COMBINE_MAX || combiner == SP_COMBINE_MIN))
            return combiner;
    }
    return SP_COMBINE_SUM; /* what else there is takes as long */
}

/* The result before its reduction, on the mesh; *ret_from is NULL where a mesh cannot say it. */
static enum sp_status partial_result(struct sp_communicator *all, uint32_t output, struct sp_sharding **ret_from)
{
    const struct sp_view *view = all->view;
    const struct sp_operand_rule *rule = &view->rule->outputs[output];
    struct grid grid = {0};
    struct sp_device_order order;
    struct sp_mesh *mesh = NULL;
    struct sp_sharding *from = NULL;
    bool is_ok = lay_out(view, &grid);
    *ret_from = NULL;
    for (uint32_t axis = 0; axis < rule->rank; axis++)
        is_ok = is_ok && view->results[output]->blocks[axis].part_count <= 1;
    if (!is_ok)
        return SP_OK;
    enum sp_status status = order_devices(all, &grid, &order, &is_ok);
    if (status != SP_OK || !is_ok)
        return status;
    status = sp_mesh_create(all->scratch, grid.count + 1, grid.axes, &order, &mesh, all->err);
    if (status == SP_OK)
        status = sp_sharding_create_axes(all->scratch, mesh, rule->rank, &from, all->err);
    for (uint32_t axis = 0; status == SP_OK && axis < rule->rank; axis++)
        for (uint32_t i = 0; status == SP_OK && i < rule->axes[axis].count; i++)
            status = add_ref(all, mesh, &grid, rule->axes[axis].factors[i], &from->dims[axis].axes);
    for (uint32_t f = 0; status == SP_OK && f < view->rule->factor_count; f++)
        if (is_partial(view, f))
            status = add_ref(all, mesh, &grid, (uint8_t)f, &from->partial);
    if (status != SP_OK)
        return status;
    from->combiner = combiner_of(view);
    *ret_from = from;
    return SP_OK;
}

/* ---- one output -------------------------------------------------------------------------------------------------- */

static int64_t group_size(const struct sp_view *view, bool partial)
{
    int64_t size = 1;
    for (uint32_t f = 0; f < view->rule->factor_count; f++)
        if (is_split_reduction(view, f) && is_partial(view, f) == partial)
            size *= sp_view_shards(view, (uint8_t)f);
    return size;
}

static enum sp_status all_reduce(struct sp_communicator *all, uint32_t output)
{
    const struct sp_view *view = all->view;
    const struct sp_value *value = sp_communicated_value(all, all->relation->input_count + output);
    int64_t tile[SP_MAX_RANK], group = group_size(view, true);
    char names[64], text[SP_SPEC_TEXT_SIZE];
    double piece = sp_communicated_tile(all, value, view->results[output], tile);
    double bytes = piece < 0 ? -1 : sp_collective_bytes(SP_ALL_REDUCE, (double)group, piece);
    struct sp_communication what = {.kind = SP_COMMUNICATE_REDUCE,
                                    .tensor = value->name,
                                    .steps = sp_collective_name(SP_ALL_REDUCE),
                                    .group_size = group,
                                    .bytes = bytes,
                                    .total_bytes = bytes < 0 ? -1 : bytes * (double)view->participant_count};
    name_factors(view, true, names, sizeof names);
    return sp_communicate(all, &what,
                          "The reduction over %s is split in %" PRId64 ", so '%.120s' is partial; it becomes %s.",
                          names, group, value->name, sp_spec_text(view->results[output], text, sizeof text));
}

/* The way from the partial result to the stated spec; it is not found where there is none on a mesh. */
static enum sp_status plan_reduction(struct sp_communicator *all, uint32_t output, const struct sp_sharding *to,
                                     const int64_t *shape, struct sp_known_way *way)
{
    const struct sp_value *value = sp_communicated_value(all, all->relation->input_count + output);
    struct sp_sharding *from = NULL;
    struct sp_reshard *reshard = NULL;
    enum sp_status status = partial_result(all, output, &from);
    if (status != SP_OK || from == NULL)
        return status;
    status = sp_plan_way(all, value, shape, from, to, &reshard);
    if (status != SP_OK || reshard == NULL)
        return status;
    way->is_found = true;
    way->group_size = sp_group_of(reshard);
    way->bytes = reshard->bytes;
    way->total_bytes = reshard->total_bytes;
    return sp_name_steps(all, reshard, &way->steps);
}

static enum sp_status work_out(struct sp_communicator *all, uint32_t output, const struct sp_sharding *to,
                               const int64_t *shape, struct sp_known_way *way)
{
    const struct sp_value *value = sp_communicated_value(all, all->relation->input_count + output);
    enum sp_status status = sp_sharding_equal(all->scratch, to, all->view->results[output], value->type.shape.rank,
                                              shape, &way->is_equal, all->err);
    if (status == SP_OK && !way->is_equal)
        status = plan_reduction(all, output, to, shape, way);
    return status;
}

/* The same for nodes that look the same. */
static enum sp_status find_reduction(struct sp_communicator *all, uint32_t output, const struct sp_sharding *to,
                                     struct sp_known_way *ret_way, bool *ret_known)
{
    const struct sp_value *value = sp_communicated_value(all, all->relation->input_count + output);
    struct sp_view_cache *cache = all->assignment->cache;
    int64_t shape[SP_MAX_RANK];
    enum sp_status status = sp_view_cache_sharding(cache, to, true, &to, all->err);
    if (status != SP_OK)
        return status;
    *ret_known = sp_communicated_shape(value, to, all->view->results[output], shape);
    struct sp_view_cache_key key = sp_way_key(all, SP_CACHE_REDUCTION, all->view->results[output], to, value, shape);
    sp_view_cache_key_add(&key, &all->view->known, sizeof all->view->known);
    sp_view_cache_key_add(&key, &output, sizeof output);
    struct sp_known_way *known = all->view->known != NULL ? sp_view_cache_get(cache, &key) : NULL;
    if (known != NULL) {
        *ret_way = *known;
        return SP_OK;
    }
    *ret_way = (struct sp_known_way){0};
    status = work_out(all, output, to, shape, ret_way);
    if (status != SP_OK || all->view->known == NULL)
        return status;
    known = sp_view_cache_put(cache, &key, sizeof *known);
    if (known == NULL)
        return sp_fail_memory(all->err);
    *known = *ret_way;
    return SP_OK;
}

static enum sp_status reduce_to(struct sp_communicator *all, uint32_t output, const struct sp_sharding *to,
                                const struct sp_known_way *way, bool is_known)
{
    const struct sp_value *value = sp_communicated_value(all, all->relation->input_count + output);
    const struct sp_communication what = {.kind = SP_COMMUNICATE_REDUCE,
                                          .tensor = value->name,
                                          .steps = way->steps,
                                          .group_size = way->group_size,
                                          .bytes = is_known ? way->bytes : -1,
                                          .total_bytes = is_known ? way->total_bytes : -1};
    char names[64], text[SP_SPEC_TEXT_SIZE];
    name_factors(all->view, true, names, sizeof names);
    return sp_communicate(all, &what,
                          "The reduction over %s is split in %" PRId64 ", so '%.120s' is partial; it is stated %s.",
                          names, group_size(all->view, true), value->name, sp_spec_text(to, text, sizeof text));
}

static enum sp_status reduce_output(struct sp_communicator *all, uint32_t output, bool *ret_done)
{
    uint32_t index = all->relation->input_count + output;
    const struct sp_value *value = sp_communicated_value(all, index);
    const struct sp_sharding *stated = sp_spec_of(all->assignment, all->relation->node_id, index)->sharding;
    struct sp_known_way way = {.is_equal = stated == NULL};
    bool is_known = false;
    enum sp_status status = SP_OK;
    if (value == NULL || all->view->results[output] == NULL || sp_dtype_bytes(value->type.dtype, 1) <= 0)
        return SP_OK;
    if (stated != NULL)
        status = find_reduction(all, output, stated, &way, &is_known);
    if (status != SP_OK)
        return status;
    *ret_done = !way.is_equal && way.is_found;
    return *ret_done ? reduce_to(all, output, stated, &way, is_known) : all_reduce(all, output);
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

/* Numbers for each row. */
static double numbers_of(enum sp_combiner combiner)
{
    switch (combiner) {
    case SP_COMBINE_SOFTMAX: /* maximum, sum */
    case SP_COMBINE_MOMENTS: /* sum, sum of squares */
    case SP_COMBINE_SELECT:  /* winner, its index */
        return 2;
    default:
        return 1;
    }
}

static enum sp_status join_statistics(struct sp_communicator *all, uint8_t first)
{
    const struct sp_view *view = all->view;
    uint32_t output = first_output_with(view->rule, first);
    const struct sp_value *value = sp_communicated_value(all, all->relation->input_count + output);
    int64_t tile[SP_MAX_RANK], group = group_size(view, false);
    char names[64];
    if (value == NULL || view->results[output] == NULL)
        return SP_OK;
    double piece = sp_communicated_tile(all, value, view->results[output], tile);
    for (uint32_t f = 0; f < view->rule->factor_count && piece >= 0; f++) {
        struct sp_dim extent = view->rule->factors[f].extent;
        if (view->rule->factors[f].kind != SP_FACTOR_REDUCTION || !output_has(&view->rule->outputs[output], (uint8_t)f))
            continue;
        int64_t shards = sp_view_shards(view, (uint8_t)f);
        int64_t own = sp_dim_is_known(extent) ? extent.value / shards + (extent.value % shards != 0) : 1;
        piece /= own > 0 ? (double)own : 1;
    }
    piece *= piece < 0 ? 1 : numbers_of(view->rule->factors[first].combiner);
    double bytes = piece < 0 ? -1 : sp_collective_bytes(SP_ALL_REDUCE, (double)group, piece);
    struct sp_communication what = {.kind = SP_COMMUNICATE_REDUCE,
                                    .tensor = value->name,
                                    .steps = sp_collective_name(SP_ALL_REDUCE),
                                    .group_size = group,
                                    .bytes = bytes,
                                    .total_bytes = bytes < 0 ? -1 : bytes * (double)view->participant_count};
    name_factors(view, false, names, sizeof names);
    return sp_communicate(
        all, &what, "'%.120s' stays cut along %s, in %" PRId64 "; the devices join what they need to know of each row.",
        value->name, names, group);
}

enum sp_status sp_communicate_reductions(struct sp_communicator *all, bool *ret_done)
{
    const struct sp_view *view = all->view;
    enum sp_status status = SP_OK;
    bool has_partial = false;
    uint32_t statistic = UINT32_MAX;
    for (uint32_t f = view->rule->factor_count; f-- > 0;) {
        has_partial = has_partial || is_partial(view, f);
        if (is_split_reduction(view, f) && !is_partial(view, f))
            statistic = f;
    }
    if (statistic != UINT32_MAX)
        status = join_statistics(all, (uint8_t)statistic);
    for (uint32_t i = 0; i < view->rule->output_count && has_partial && status == SP_OK; i++)
        status = reduce_output(all, i, &ret_done[i]);
    return status;
}
