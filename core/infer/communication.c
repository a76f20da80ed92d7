#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "infer/communication_internal.h"

/* ---- ways from one sharding to another ------------------------------------------------------------------------- */

static enum sp_status plan_way(struct sp_communicator *all, const struct sp_value *value, const int64_t *shape,
                               const struct sp_sharding *from, const struct sp_sharding *to, struct sp_known_way *way)
{
    struct sp_reshard *reshard = NULL;
    enum sp_status status = sp_plan_way(all, value, shape, from, to, &reshard);
    if (status != SP_OK)
        return status;
    if (reshard == NULL) {
        way->steps = "reshard";
        way->bytes = way->total_bytes = -1;
        return SP_OK;
    }
    way->group_size = sp_group_of(reshard);
    way->bytes = reshard->bytes;
    way->total_bytes = reshard->total_bytes;
    return sp_name_steps(all, reshard, &way->steps);
}

static enum sp_status work_out(struct sp_communicator *all, const struct sp_value *value, const int64_t *shape,
                               const struct sp_sharding *from, const struct sp_sharding *to, struct sp_known_way *way)
{
    bool is_equal = from == to;
    enum sp_status status =
        is_equal ? SP_OK
                 : sp_sharding_equal(all->scratch, from, to, value->type.shape.rank, shape, &is_equal, all->err);
    way->steps = "";
    if (status == SP_OK && !is_equal && sp_dtype_bytes(value->type.dtype, 1) > 0)
        status = plan_way(all, value, shape, from, to, way);
    return status;
}

/* The way from one sharding of a value to another: its steps, "" when nothing is sent. */
static enum sp_status find_way(struct sp_communicator *all, const struct sp_value *value,
                               const struct sp_sharding *from, const struct sp_sharding *to,
                               struct sp_known_way *ret_way)
{
    struct sp_view_cache *cache = all->assignment->cache;
    int64_t shape[SP_MAX_RANK];
    const bool is_known = sp_communicated_shape(value, from, to, shape);
    enum sp_status status = sp_view_cache_sharding(cache, from, true, &from, all->err);
    if (status == SP_OK)
        status = sp_view_cache_sharding(cache, to, true, &to, all->err);
    if (status != SP_OK)
        return status;
    struct sp_view_cache_key key = sp_way_key(all, SP_CACHE_WAY, from, to, value, shape);
    struct sp_known_way *known = sp_view_cache_get(cache, &key), way = {0};
    if (known == NULL) {
        struct sp_arena_mark mark = sp_arena_mark(all->scratch);
        status = work_out(all, value, shape, from, to, &way);
        if (key.large == NULL) /* else it lies behind the mark */
            sp_arena_rewind(all->scratch, mark);
        known = status == SP_OK ? sp_view_cache_put(cache, &key, sizeof *known) : NULL;
        if (known == NULL)
            return status == SP_OK ? sp_fail_memory(all->err) : status;
        *known = way;
    }
    *ret_way = *known;
    ret_way->bytes = is_known ? ret_way->bytes : -1;
    ret_way->total_bytes = is_known ? ret_way->total_bytes : -1;
    return SP_OK;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Where a value is made: the entry of its producer's output, or NULL. */
static const struct sp_spec_entry *entry_at_producer(const struct sp_communicator *all, const struct sp_value *value)
{
    const struct sp_node *producer = value->producer;
    uint32_t id = producer != NULL ? sp_dataflow_node(all->assignment->dataflow, producer) : UINT32_MAX;
    return id == UINT32_MAX ? NULL : sp_spec_of(all->assignment, id, producer->input_count + value->producer_output);
}

static enum sp_status communicate_input(struct sp_communicator *all, uint32_t index)
{
    const struct sp_value *value = sp_communicated_value(all, index);
    const struct sp_spec_entry *entry = sp_spec_of(all->assignment, all->relation->node_id, index);
    const struct sp_spec_entry *made = value != NULL ? entry_at_producer(all, value) : NULL;
    struct sp_known_way way = {.steps = ""};
    char label[264], from[SP_SPEC_TEXT_SIZE], to[SP_SPEC_TEXT_SIZE];
    if (value == NULL || entry->sharding == NULL || made == NULL || made->sharding == NULL ||
        entry->origin == SP_SPEC_ASSUMED)
        return SP_OK;
    for (uint32_t i = 0; i < index; i++)
        if (all->relation->tensors[i] == all->relation->tensors[index])
            return SP_OK; /* f(x, x): it arrives once */
    enum sp_status status = find_way(all, value, made->sharding, entry->sharding, &way);
    if (status != SP_OK || way.steps[0] == '\0')
        return status;
    struct sp_communication what = {.kind = SP_COMMUNICATE_RESHARD,
                                    .producer = value->producer,
                                    .tensor = value->name,
                                    .steps = way.steps,
                                    .group_size = way.group_size,
                                    .bytes = way.bytes,
                                    .total_bytes = way.total_bytes};
    return sp_communicate(all, &what, "'%.120s' is %s where %s makes it, and is needed %s.", value->name,
                          sp_spec_text(made->sharding, from, sizeof from),
                          sp_node_label(value->producer, label, sizeof label),
                          sp_spec_text(entry->sharding, to, sizeof to));
}

/* ---- axes that the operator needs whole, or of which it needs the neighbours' ends ------------------------------- */

/* An all-gather of an axis in `group` shards, of a piece of `bytes`. */
static enum sp_status communicate_gather(struct sp_communicator *all, const struct sp_conflict *conflict)
{
    const struct sp_value *value = sp_communicated_value(all, conflict->operand);
    const struct sp_sharding *sharding =
        sp_spec_of(all->assignment, all->relation->node_id, conflict->operand)->sharding;
    int64_t tile[SP_MAX_RANK], group = sharding != NULL ? sp_sharding_shards(sharding, conflict->axis) : 1;
    if (conflict->factor != SP_NO_FACTOR)
        group = sp_view_shards(all->view, conflict->factor);
    if (value == NULL || sharding == NULL || group < 2)
        return SP_OK;
    double piece = sp_communicated_tile(all, value, sharding, tile);
    double bytes = piece < 0 ? -1 : sp_collective_bytes(SP_ALL_GATHER, (double)group, piece * (double)group);
    struct sp_communication what = {.kind = SP_COMMUNICATE_GATHER,
                                    .tensor = value->name,
                                    .steps = sp_collective_name(SP_ALL_GATHER),
                                    .group_size = group,
                                    .bytes = bytes,
                                    .total_bytes = bytes < 0 ? -1 : bytes * (double)all->view->participant_count};
    return sp_communicate(all, &what, "%s", conflict->message);
}

/* A cut axis of an input whose factor exchanges what lies at the cuts, or moves everything. */
static enum sp_status communicate_border(struct sp_communicator *all, uint32_t index, uint32_t axis, uint8_t factor)
{
    const struct sp_factor *is = &all->view->rule->factors[factor];
    const struct sp_value *value = sp_communicated_value(all, index);
    const struct sp_sharding *sharding = sp_spec_of(all->assignment, all->relation->node_id, index)->sharding;
    int64_t tile[SP_MAX_RANK] = {0}, group = sp_view_shards(all->view, factor);
    bool is_halo = is->kind == SP_FACTOR_HALO;
    int64_t low = is->halo_low > 0 ? is->halo_low : 0, high = is->halo_high > 0 ? is->halo_high : 0;
    if (value == NULL || sharding == NULL || group < 2 || sp_sharding_shards(sharding, axis) < 2 ||
        (is_halo && low + high == 0))
        return SP_OK;
    double piece = sp_communicated_tile(all, value, sharding, tile), bytes = piece, total = piece;
    double groups = (double)all->view->participant_count / (double)group;
    if (piece >= 0 && is_halo) {
        double slice = tile[axis] > 0 ? piece / (double)tile[axis] : 0;
        bytes = slice * (double)(group > 2 ? low + high : low > high ? low : high);
        total = slice * (double)(low + high) * (double)(group - 1) * groups;
    } else if (piece >= 0) {
        total = piece * (double)all->view->participant_count;
    }
    struct sp_communication what = {.kind = is_halo ? SP_COMMUNICATE_HALO : SP_COMMUNICATE_PERMUTE,
                                    .tensor = value->name,
                                    .steps = is_halo ? "halo-exchange" : sp_collective_name(SP_COLLECTIVE_PERMUTE),
                                    .group_size = group,
                                    .bytes = bytes,
                                    .total_bytes = total};
    if (is_halo)
        return sp_communicate(all, &what,
                              "Axis %" PRIu32 " of '%.120s' is cut in %" PRId64 ", and each piece needs %" PRId64
                              " elements of the piece before it and %" PRId64 " of the piece behind it.",
                              axis, value->name, group, low, high);
    return sp_communicate(all, &what,
                          "Axis %" PRIu32 " of '%.120s' is cut in %" PRId64
                          ", and its elements change their places along it.",
                          axis, value->name, group);
}

static enum sp_status communicate_borders(struct sp_communicator *all)
{
    const struct sp_rule *rule = all->view->rule;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < rule->input_count && status == SP_OK; i++)
        for (uint32_t axis = 0; axis < rule->inputs[i].rank && status == SP_OK; axis++)
            for (uint32_t k = 0; k < rule->inputs[i].axes[axis].count && status == SP_OK; k++) {
                uint8_t factor = rule->inputs[i].axes[axis].factors[k];
                enum sp_factor_kind kind = rule->factors[factor].kind;
                if (kind == SP_FACTOR_HALO || kind == SP_FACTOR_PERMUTATION)
                    status = communicate_border(all, i, axis, factor);
            }
    return status;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* A stated output that is not what the node computes. */
static enum sp_status communicate_output(struct sp_communicator *all, uint32_t output)
{
    uint32_t index = all->relation->input_count + output;
    const struct sp_value *value = sp_communicated_value(all, index);
    const struct sp_spec_entry *entry = sp_spec_of(all->assignment, all->relation->node_id, index);
    const struct sp_sharding *result = all->view->results[output];
    struct sp_known_way way = {.steps = ""};
    char label[264], from[SP_SPEC_TEXT_SIZE], to[SP_SPEC_TEXT_SIZE];
    if (value == NULL || entry->sharding == NULL || result == NULL)
        return SP_OK;
    enum sp_status status = find_way(all, value, result, entry->sharding, &way);
    if (status != SP_OK || way.steps[0] == '\0')
        return status;
    struct sp_communication what = {.kind = SP_COMMUNICATE_RESHARD,
                                    .producer = all->relation->node,
                                    .tensor = value->name,
                                    .steps = way.steps,
                                    .group_size = way.group_size,
                                    .bytes = way.bytes,
                                    .total_bytes = way.total_bytes};
    return sp_communicate(all, &what, "%s computes '%.120s' %s, and states it %s.",
                          sp_node_label(all->relation->node, label, sizeof label), value->name,
                          sp_spec_text(result, from, sizeof from), sp_spec_text(entry->sharding, to, sizeof to));
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static enum sp_status communicate_node(struct sp_communicator *all)
{
    const struct sp_rule *rule = all->view->rule;
    enum sp_status status = SP_OK;
    bool *is_done = SP_NEW_ARRAY(all->scratch, rule->output_count, bool);
    if (is_done == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; i < rule->input_count && status == SP_OK; i++)
        status = communicate_input(all, i);
    for (uint32_t i = 0; i < all->view->conflict_count && status == SP_OK; i++)
        if (all->view->conflicts[i].kind == SP_CONFLICT_NEEDS_WHOLE)
            status = communicate_gather(all, &all->view->conflicts[i]);
    if (status == SP_OK && all->view->coordinates != NULL)
        status = communicate_borders(all);
    if (status == SP_OK && all->view->coordinates != NULL)
        status = sp_communicate_reductions(all, is_done);
    for (uint32_t i = 0; i < rule->output_count && status == SP_OK; i++)
        if (!is_done[i])
            status = communicate_output(all, i);
    return status;
}

enum sp_status sp_view_communications(const struct sp_assignment *assignment, const struct sp_relation *relation,
                                      const struct sp_view *view, struct sp_communications *list, struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(assignment->arena));
    if (scratch == NULL)
        return sp_fail_memory(err);
    struct sp_communicator all = {
        .assignment = assignment, .relation = relation, .view = view, .list = list, .scratch = scratch, .err = err};
    enum sp_status status = communicate_node(&all);
    sp_arena_destroy(scratch);
    return status;
}

/* Of a node none of whose operands has a spec nobody knows where it is computed. */
static bool has_spec(const struct sp_assignment *assignment, const struct sp_relation *relation)
{
    const struct sp_spec_entry *entries = assignment->nodes[relation->node_id].operands;
    for (uint32_t i = 0; entries != NULL && i < relation->operand_count; i++)
        if (entries[i].sharding != NULL)
            return true;
    return false;
}

enum sp_status sp_assignment_communications(const struct sp_assignment *assignment, struct sp_communications *list,
                                            struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(assignment->arena));
    struct sp_communicator all = {.assignment = assignment, .list = list, .scratch = scratch, .err = err};
    enum sp_status status = SP_OK;
    if (scratch == NULL)
        return sp_fail_memory(err);
    for (uint32_t r = 0; r < assignment->dataflow->relation_count && status == SP_OK; r++) {
        const struct sp_relation *relation = &assignment->dataflow->relations[r];
        struct sp_arena_mark mark = sp_arena_mark(scratch);
        struct sp_view *view = NULL;
        if (relation->kind != SP_RELATION_NODE || !has_spec(assignment, relation))
            continue;
        status = sp_view_create(scratch, assignment, relation, &view, err);
        all.relation = relation;
        all.view = view;
        if (status == SP_OK)
            status = communicate_node(&all);
        sp_arena_rewind(scratch, mark);
    }
    sp_arena_destroy(scratch);
    return status;
}
