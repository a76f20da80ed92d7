/*
 * The placement of one node, from the specs of its operands.
 */
#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "partition/partition_internal.h"

struct placer {
    struct sp_partitioner *part;
    const struct sp_relation *relation;
    const struct sp_rule *rule;
    struct sp_node_cut *placement;
};

static const struct sp_value *operand_value(const struct placer *placer, uint32_t operand)
{
    uint32_t tensor = placer->relation->tensors[operand];
    return tensor == SP_NO_TENSOR ? NULL : placer->part->dataflow->tensors[tensor];
}

static struct sp_spec_entry *entry_of(const struct placer *placer, uint32_t operand)
{
    return &placer->part->assignment.nodes[placer->relation->node_id].operands[operand];
}

/* ---- specs ------------------------------------------------------------------------------------------------------ */

/* The node's entries become copies that may be changed. An input without a spec is as its producer made it; a model
   input or weight that nothing is said of is sliced by whoever needs it. */
static enum sp_status copy_entries(struct placer *placer)
{
    struct sp_partitioner *part = placer->part;
    uint32_t count = placer->relation->operand_count;
    struct sp_spec_entry *entries = SP_NEW_ARRAY(part->scratch, count, struct sp_spec_entry);
    if (entries == NULL)
        return sp_fail_memory(part->err);
    memcpy(entries, part->stated->nodes[placer->relation->node_id].operands, count * sizeof *entries);
    for (uint32_t i = 0; i < placer->relation->input_count; i++) {
        const struct sp_value *value = operand_value(placer, i);
        if (value == NULL || entries[i].sharding != NULL)
            continue;
        const struct sp_part_tensor *tensor = sp_part_tensor(part, value);
        for (const struct sp_part_held *held = tensor->first; held != NULL; held = held->next)
            if (held->sharding != NULL && value->producer != NULL)
                entries[i] = (struct sp_spec_entry){held->sharding, SP_SPEC_INFERRED, NULL};
    }
    part->assignment.nodes[placer->relation->node_id].operands = entries;
    return SP_OK;
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

/* Those of the first operand that names any, else all: for nodes without inputs that are told of. */
static enum sp_status default_devices(struct placer *placer, uint32_t *ret_count, const int64_t **ret_devices)
{
    struct sp_partitioner *part = placer->part;
    int64_t count = 0;
    const int64_t *devices = NULL;
    for (uint32_t i = 0; i < placer->relation->operand_count && count == 0; i++) {
        /* outputs first: they say where the node's work is wanted */
        uint32_t outputs = placer->relation->operand_count - placer->relation->input_count;
        uint32_t operand = i < outputs ? placer->relation->input_count + i : i - outputs;
        const struct sp_sharding *sharding = entry_of(placer, operand)->sharding;
        enum sp_status status = SP_OK;
        if (sharding != NULL)
            status =
                sp_sharding_devices(part->arena, sharding, part->assignment.device_count, &count, &devices, part->err);
        if (status != SP_OK)
            return status;
    }
    if (count == 0) {
        struct sp_sharding everywhere = {.kind = SP_SHARDING_REPLICATED};
        enum sp_status status =
            sp_sharding_devices(part->arena, &everywhere, part->assignment.device_count, &count, &devices, part->err);
        if (status != SP_OK)
            return status;
    }
    *ret_count = (uint32_t)count;
    *ret_devices = devices;
    return SP_OK;
}

/* ---- what the inputs say ---------------------------------------------------------------------------------------- */

static bool may_split(const struct sp_factor *factor)
{
    return factor->kind != SP_FACTOR_REPLICATE && factor->kind != SP_FACTOR_SEQUENTIAL;
}

/* The node stays whole along this factor, because nobody says how long it is: the first axis that has it is named. */
static enum sp_status tell_open(struct placer *placer, uint32_t factor)
{
    char label[256];
    for (uint32_t o = 0; o < placer->relation->operand_count; o++) {
        const struct sp_value *value = operand_value(placer, o);
        const struct sp_operand_rule *rule = sp_rule_operand(placer->rule, o);
        for (uint32_t a = 0; value != NULL && a < rule->rank; a++) {
            if (rule->axes[a].count == 0 || memchr(rule->axes[a].factors, (int)factor, rule->axes[a].count) == NULL)
                continue;
            return sp_part_tell(placer->part, "EXTENT_UNKNOWN", placer->relation->node, value->name,
                                "Node %s is not split along axis %" PRIu32
                                " of '%.200s', whose size is not known; it is split where the size is given (--dim).",
                                sp_node_label(placer->relation->node, label, sizeof label), a, value->name);
        }
    }
    return SP_OK;
}

static enum sp_status take_view(struct placer *placer, const struct sp_view *view)
{
    struct sp_partitioner *part = placer->part;
    int64_t *devices = SP_NEW_ARRAY(part->arena, (size_t)view->participant_count, int64_t);
    if (devices == NULL)
        return sp_fail_memory(part->err);
    memcpy(devices, view->participants, (size_t)view->participant_count * sizeof *devices);
    enum sp_status status = sp_placement_whole(part, placer->rule->factor_count, (uint32_t)view->participant_count,
                                               devices, placer->placement);
    for (uint32_t f = 0; status == SP_OK && f < placer->rule->factor_count; f++) {
        if (view->coordinates[f] == NULL || !may_split(&placer->rule->factors[f]))
            continue;
        if (!sp_dim_is_known(placer->rule->factors[f].extent)) {
            status = tell_open(placer, f);
            continue;
        }
        placer->placement->cuts[f] = view->splits[f];
        placer->placement->shards[f] = sp_cut_shards(&view->splits[f]);
        placer->placement->coordinates[f] = view->coordinates[f];
    }
    return status;
}

static enum sp_status view_inputs(struct placer *placer)
{
    struct sp_partitioner *part = placer->part;
    struct sp_view *view = NULL;
    struct sp_node *node = placer->relation->node;
    char label[256];
    enum sp_status status = sp_view_create(part->scratch, &part->assignment, placer->relation, &view, part->err);
    if (status != SP_OK)
        return status;
    if (view->participant_count > 0 && view->conflict_count == 0 && !view->is_too_large)
        return take_view(placer, view);
    uint32_t count;
    const int64_t *devices;
    if (view->participant_count > 0) {
        int64_t *kept = SP_NEW_ARRAY(part->arena, (size_t)view->participant_count, int64_t);
        if (kept == NULL)
            return sp_fail_memory(part->err);
        memcpy(kept, view->participants, (size_t)view->participant_count * sizeof *kept);
        count = (uint32_t)view->participant_count;
        devices = kept;
    } else {
        status = default_devices(placer, &count, &devices);
    }
    if (status == SP_OK && view->conflict_count > 0)
        status = sp_part_tell(part, "OPERANDS_DISAGREE", node, NULL,
                              "Node %s is computed whole on each of its devices, because its operands do not agree: %s",
                              sp_node_label(node, label, sizeof label), view->conflicts[0].message);
    return status == SP_OK ? sp_placement_whole(part, placer->rule->factor_count, count, devices, placer->placement)
                           : status;
}

/* ---- what the outputs add --------------------------------------------------------------------------------------- */

/* A stated output in one shard for each device; the shard of each device of the placement. */
struct wanted {
    const struct sp_sharding *blocks;
    int64_t *shard_of;
};

static enum sp_status read_output(struct placer *placer, uint32_t operand, struct wanted *ret_wanted, bool *ret_ok)
{
    struct sp_partitioner *part = placer->part;
    const struct sp_value *value = operand_value(placer, operand);
    const struct sp_sharding *stated = entry_of(placer, operand)->sharding, *regular = NULL;
    struct sp_sharding *blocks = NULL;
    int64_t extents[SP_MAX_RANK];
    struct sp_holders holders = {0};
    uint32_t rank = value != NULL ? sp_part_rank(value) : 0;
    *ret_ok = false;
    if (stated == NULL || rank == 0)
        return SP_OK;
    for (uint32_t a = 0; a < rank; a++)
        extents[a] = sp_dim_is_known(value->type.shape.dims[a]) ? value->type.shape.dims[a].value : -1;
    enum sp_status status =
        sp_sharding_to_blocks(part->scratch, stated, rank, part->assignment.device_count, &blocks, NULL, part->err);
    if (status == SP_OK)
        status = sp_sharding_regular(part->scratch, blocks, extents, &regular, part->err);
    if (status != SP_OK || regular == NULL || regular->first == NULL)
        return status;
    status = sp_sharding_holders(part->scratch, regular, &holders, part->err);
    if (status != SP_OK || holders.count != placer->placement->device_count)
        return status;
    ret_wanted->blocks = regular;
    ret_wanted->shard_of = SP_NEW_ARRAY(part->scratch, (size_t)holders.count, int64_t);
    if (ret_wanted->shard_of == NULL)
        return sp_fail_memory(part->err);
    *ret_ok = true;
    for (int64_t i = 0; i < holders.count; i++) {
        ret_wanted->shard_of[i] = holders.items[i].shard;
        *ret_ok = *ret_ok && holders.items[i].device == placer->placement->devices[i];
    }
    return SP_OK;
}

/* The shard of one axis out of a device's shard number. */
static int64_t axis_index(const struct sp_sharding *blocks, uint32_t axis, int64_t shard)
{
    for (uint32_t a = blocks->rank; a-- > axis + 1;)
        shard /= sp_sharding_shards(blocks, a);
    return shard % sp_sharding_shards(blocks, axis);
}

/* Whether every combination of shards has a device. */
static bool covers(struct sp_partitioner *part, const struct sp_node_cut *placement, bool *ret_covers)
{
    int64_t points = 1, seen = 0;
    *ret_covers = false;
    for (uint32_t f = 0; f < placement->factor_count; f++)
        if (!sp_mul_i64(points, placement->shards[f], &points) || points > placement->device_count)
            return true;
    bool *is_seen = SP_NEW_ARRAY(part->scratch, (size_t)points, bool);
    if (is_seen == NULL)
        return false;
    for (uint32_t at = 0; at < placement->device_count; at++) {
        int64_t point = 0;
        for (uint32_t f = 0; f < placement->factor_count; f++)
            if (placement->coordinates[f] != NULL)
                point = point * placement->shards[f] + placement->coordinates[f][at];
        seen += !is_seen[point];
        is_seen[point] = true;
    }
    *ret_covers = seen == points;
    return true;
}

/* The cut of one axis of an output becomes that of its factors, where no input says otherwise. */
static enum sp_status adopt_axis(struct placer *placer, const struct wanted *wanted, uint32_t axis,
                                 const struct sp_axis_factors *list)
{
    struct sp_partitioner *part = placer->part;
    struct sp_node_cut *placement = placer->placement;
    struct sp_block_dim cuts[SP_RULE_MAX_FACTORS];
    int64_t extents[SP_RULE_MAX_FACTORS], below = 1;
    bool is_ok = false, is_covered = false;
    for (uint32_t i = 0; i < list->count; i++) {
        struct sp_dim extent = placer->rule->factors[list->factors[i]].extent;
        extents[i] = sp_dim_is_known(extent) ? extent.value : -1;
    }
    enum sp_status status =
        sp_cut_deal(part->arena, &wanted->blocks->blocks[axis], list->count, extents, cuts, &is_ok, part->err);
    if (status != SP_OK || !is_ok)
        return status;
    for (uint32_t i = list->count; i-- > 0;) {
        uint8_t f = list->factors[i];
        int64_t shards = sp_cut_shards(&cuts[i]);
        const bool is_wanted = shards > 1 && placement->coordinates[f] == NULL && may_split(&placer->rule->factors[f]);
        if (is_wanted && !sp_dim_is_known(placer->rule->factors[f].extent)) {
            status = tell_open(placer, f);
            if (status != SP_OK)
                return status;
        } else if (is_wanted) {
            int32_t *coordinates = SP_NEW_ARRAY(part->scratch, placement->device_count, int32_t);
            if (coordinates == NULL)
                return sp_fail_memory(part->err);
            for (uint32_t at = 0; at < placement->device_count; at++)
                coordinates[at] = (int32_t)(axis_index(wanted->blocks, axis, wanted->shard_of[at]) / below % shards);
            placement->cuts[f] = cuts[i];
            placement->shards[f] = shards;
            placement->coordinates[f] = coordinates;
            if (!covers(part, placement, &is_covered))
                return sp_fail_memory(part->err);
            if (!is_covered)
                sp_placement_make_whole(placement, f);
        }
        below *= shards;
    }
    return SP_OK;
}

static enum sp_status adopt_outputs(struct placer *placer)
{
    const struct sp_relation *relation = placer->relation;
    for (uint32_t o = relation->input_count; o < relation->operand_count; o++) {
        const struct sp_operand_rule *rule = sp_rule_operand(placer->rule, o);
        struct wanted wanted;
        bool is_ok;
        enum sp_status status = read_output(placer, o, &wanted, &is_ok);
        for (uint32_t a = 0; status == SP_OK && is_ok && a < rule->rank && a < wanted.blocks->rank; a++)
            if (wanted.blocks->blocks[a].part_count > 0 && rule->axes[a].count > 0)
                status = adopt_axis(placer, &wanted, a, &rule->axes[a]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- what cannot be --------------------------------------------------------------------------------------------- */

/* Whether each shard of the factor is there, and begins at a multiple of its block. */
static bool is_sound(const struct sp_factor *factor, const struct sp_block_dim *cut, const char **ret_why)
{
    int64_t extent = factor->extent.value, rest = extent;
    *ret_why = "some of its shards would be empty";
    for (uint32_t i = 0; i < cut->part_count; i++)
        rest = cut->parts[i].extent > 0 ? rest / cut->parts[i].extent : rest;
    for (uint32_t i = 0; i < cut->part_count; i++) {
        int64_t own = cut->parts[i].extent > 0 ? cut->parts[i].extent : rest;
        if (sp_part_has_empty(&cut->parts[i], own))
            return false;
        if (i + 1 == cut->part_count && factor->block > 1 && sp_part_run(&cut->parts[i], own) % factor->block != 0) {
            *ret_why = "its shards would not be whole blocks";
            return false;
        }
    }
    return true;
}

/* Whether an axis that is cut for itself (a halo, or of another extent than its factor) has a part for every shard. */
static bool is_axis_sound(const struct placer *placer, const struct sp_axis_factors *list, struct sp_dim dim)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < list->count; i++)
        product *= placer->rule->factors[list->factors[i]].extent.value;
    struct sp_block_part own = sp_placement_own_cut(placer->placement, list);
    if (own.shards == 1 || !sp_dim_is_known(dim))
        return own.shards == 1;
    return product == dim.value || !sp_part_has_empty(&own, dim.value);
}

/* Factors with an operand that has too little for all shards are whole. */
static enum sp_status drop_short_axes(struct placer *placer)
{
    char label[256];
    for (uint32_t o = 0; o < placer->relation->operand_count; o++) {
        const struct sp_value *value = operand_value(placer, o);
        const struct sp_operand_rule *rule = sp_rule_operand(placer->rule, o);
        for (uint32_t a = 0; value != NULL && a < rule->rank && a < sp_part_rank(value); a++) {
            if (is_axis_sound(placer, &rule->axes[a], value->type.shape.dims[a]))
                continue;
            enum sp_status status =
                sp_part_tell(placer->part, "SHARDS_UNEVEN", placer->relation->node, value->name,
                             "Node %s is not split along axis %" PRIu32
                             " of '%.200s': there would be nothing for some of the devices.",
                             sp_node_label(placer->relation->node, label, sizeof label), a, value->name);
            for (uint32_t i = 0; i < rule->axes[a].count; i++)
                sp_placement_make_whole(placer->placement, rule->axes[a].factors[i]);
            if (status != SP_OK)
                return status;
        }
    }
    return SP_OK;
}

static enum sp_status drop_unsound(struct placer *placer)
{
    struct sp_node_cut *placement = placer->placement;
    char label[256];
    for (uint32_t f = 0; f < placement->factor_count; f++) {
        const struct sp_factor *factor = &placer->rule->factors[f];
        const char *why;
        if (placement->coordinates[f] == NULL || is_sound(factor, &placement->cuts[f], &why))
            continue;
        enum sp_status status =
            sp_part_tell(placer->part, "SHARDS_UNEVEN", placer->relation->node, NULL,
                         "Node %s is not split along %s, of extent %" PRId64 ", in %" PRId64 ": %s.",
                         sp_node_label(placer->relation->node, label, sizeof label), factor->name, factor->extent.value,
                         placement->shards[f], why);
        sp_placement_make_whole(placement, (uint8_t)f);
        if (status != SP_OK)
            return status;
    }
    return drop_short_axes(placer);
}

enum sp_status sp_part_place(struct sp_partitioner *part, const struct sp_relation *relation,
                             const struct sp_rule *rule, struct sp_node_cut *ret_placement)
{
    struct placer placer = {part, relation, rule, ret_placement};
    enum sp_status status = copy_entries(&placer);
    if (status == SP_OK)
        status = view_inputs(&placer);
    if (status == SP_OK)
        status = adopt_outputs(&placer);
    if (status == SP_OK)
        status = drop_unsound(&placer);
    return status;
}
