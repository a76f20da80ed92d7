/* ONNX Runtime's Distributed* nodes: six attributes of strings that say where each operand is. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/foreign.h"

/* The attributes of one side of a node. */
struct side {
    const char *name; /* "input" */
    const struct sp_attribute *specs, *shapes, *elements;
    uint32_t operand_count;
    struct sp_value *const *values;
};

struct ort_check {
    struct sp_foreign_check *check;
    const struct sp_node *node;
    char label[SP_ERROR_WHERE_SIZE];
    bool is_sound;
};

static enum sp_status find_strings(struct ort_check *ort, const char *side, const char *what,
                                   const struct sp_attribute **ret_attribute)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s_%s", side, what);
    *ret_attribute = sp_node_attribute(ort->node, name);
    if (*ret_attribute != NULL && (*ret_attribute)->type == SP_ATTR_STRINGS)
        return SP_OK;
    ort->is_sound = false;
    return sp_foreign_report(ort->check, "ORT_ATTRIBUTE_MISSING", ort->node, NULL,
                             "%s has no attribute '%s' of strings.", ort->label, name);
}

/* The three lists of one side have one entry for each operand; more specs than operands do no harm. */
static enum sp_status check_counts(struct ort_check *ort, const struct side *side)
{
    const uint32_t specs = side->specs->count;
    if (specs != side->shapes->count || specs != side->elements->count) {
        ort->is_sound = false;
        return sp_foreign_report(ort->check, "ORT_COUNT_MISMATCH", ort->node, NULL,
                                 "%s has %" PRIu32 " %s_shard_specs, %" PRIu32 " %s_device_mesh_shapes and %" PRIu32
                                 " %s_device_mesh_elements; there must be as many of each.",
                                 ort->label, specs, side->name, side->shapes->count, side->name, side->elements->count,
                                 side->name);
    }
    if (specs < side->operand_count) {
        ort->is_sound = false;
        return sp_foreign_report(ort->check, "ORT_COUNT_MISMATCH", ort->node, NULL,
                                 "%s has %" PRIu32 " %ss, but only %" PRIu32 " %s_shard_specs.", ort->label,
                                 side->operand_count, side->name, specs, side->name);
    }
    if (specs > side->operand_count)
        return sp_foreign_report(ort->check, "ORT_SPEC_UNUSED", ort->node, NULL,
                                 "%s has %" PRIu32 " %s_shard_specs for %" PRIu32 " %ss; the last ones are for none.",
                                 ort->label, specs, side->name, side->operand_count, side->name);
    return SP_OK;
}

/* ---- one operand ---------------------------------------------------------------------------------------------- */

static enum sp_status unreadable(struct ort_check *ort, const struct side *side, uint32_t index, const char *what,
                                 const struct sp_error *why)
{
    if (why->status == SP_ERR_MEMORY)
        return sp_fail_memory(ort->check->err);
    ort->is_sound = false;
    return sp_foreign_report(ort->check, "ORT_SPEC_INVALID", ort->node, NULL,
                             "The %s of %s %" PRIu32 " of %s is wrong: %s", what, side->name, index, ort->label,
                             why->message);
}

static enum sp_status read_mesh(struct ort_check *ort, const struct side *side, uint32_t index,
                                struct sp_ort_operand *operand)
{
    struct sp_arena *arena = ort->check->list->arena;
    const struct sp_string *shape = &side->shapes->strings[index], *elements = &side->elements->strings[index];
    struct sp_error why;
    int64_t count = 0;
    sp_error_clear(&why);
    if (sp_ort_read_ints(arena, shape->bytes, shape->size, &count, &operand->spec.mesh_shape, &why) != SP_OK)
        return unreadable(ort, side, index, "device mesh shape", &why);
    operand->spec.mesh_rank = (uint32_t)count;
    if (sp_ort_read_ints(arena, elements->bytes, elements->size, &operand->spec.element_count,
                         &operand->spec.mesh_elements, &why) != SP_OK)
        return unreadable(ort, side, index, "device mesh", &why);
    return SP_OK;
}

static enum sp_status read_operand(struct ort_check *ort, const struct side *side, uint32_t index,
                                   struct sp_ort_operand *operand)
{
    struct sp_arena *arena = ort->check->list->arena; /* shardings stay, for the views of all nodes */
    const struct sp_string *text = &side->specs->strings[index];
    const struct sp_value *value = index < side->operand_count ? side->values[index] : NULL;
    struct sp_sharding *sharding = NULL;
    struct sp_error why;
    sp_error_clear(&why);
    operand->value = value;
    operand->axis = -1;
    if (sp_ort_read_spec(arena, text->bytes, text->size, &operand->spec, &why) != SP_OK)
        return unreadable(ort, side, index, "shard spec", &why);
    enum sp_status status = read_mesh(ort, side, index, operand);
    if (status != SP_OK || !ort->is_sound)
        return status;
    const struct sp_dialect_context context = {.rank = -1};
    status = sp_ort_to_sharding(arena, &operand->spec, &context, &sharding, &why);
    /* An irregular list of devices has a meaning only with the extents: its kernel refuses it, see there. */
    if (status != SP_OK && why.status == SP_ERR_REQUEST && operand->spec.mesh_rank == 1)
        sharding = NULL;
    else if (status != SP_OK)
        return unreadable(ort, side, index, "device mesh", &why);
    operand->sharding = sharding;
    for (uint32_t i = 0; i < operand->spec.rank; i++) {
        if (operand->spec.mesh_axes[i] < 0)
            continue;
        if (operand->sharded_count++ == 0)
            operand->axis = i;
    }
    if (value == NULL || value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank ||
        value->type.shape.rank == operand->spec.rank)
        return SP_OK;
    ort->is_sound = false;
    return sp_foreign_report(ort->check, "ORT_RANK_MISMATCH", ort->node, value->name,
                             "The shard spec '%.80s' of '%.120s' at %s has %" PRIu32
                             " axes, but the tensor has rank %" PRIu32 ".",
                             text->bytes, value->name, ort->label, operand->spec.rank, value->type.shape.rank);
}

static enum sp_status read_side(struct ort_check *ort, struct side *side, uint32_t *ret_count,
                                struct sp_ort_operand **ret_operands)
{
    enum sp_status status = find_strings(ort, side->name, "shard_specs", &side->specs);
    if (status == SP_OK)
        status = find_strings(ort, side->name, "device_mesh_shapes", &side->shapes);
    if (status == SP_OK)
        status = find_strings(ort, side->name, "device_mesh_elements", &side->elements);
    if (status == SP_OK && ort->is_sound)
        status = check_counts(ort, side);
    if (status != SP_OK || !ort->is_sound)
        return status;
    struct sp_ort_operand *operands = SP_NEW_ARRAY(ort->check->scratch, side->specs->count, struct sp_ort_operand);
    if (operands == NULL)
        return sp_fail_memory(ort->check->err);
    for (uint32_t i = 0; status == SP_OK && i < side->specs->count; i++)
        status = read_operand(ort, side, i, &operands[i]);
    *ret_count = side->specs->count;
    *ret_operands = operands;
    return status;
}

/* ---- a node --------------------------------------------------------------------------------------------------- */

/* The first version of these operators had one mesh for all operands, in integers. */
static bool is_first_dialect(const struct sp_node *node)
{
    const struct sp_attribute *shape = sp_node_attribute(node, "device_mesh_shape");
    return shape != NULL && shape->type == SP_ATTR_INTS;
}

enum sp_status sp_check_ort_node(struct sp_foreign_check *check, const struct sp_node *node)
{
    struct ort_check ort = {.check = check, .node = node, .is_sound = true};
    struct side inputs = {.name = "input", .operand_count = node->input_count, .values = node->inputs},
                outputs = {.name = "output", .operand_count = node->output_count, .values = node->outputs};
    struct sp_ort_node read = {.node = node};
    (void)sp_node_label(node, ort.label, sizeof ort.label);
    if (is_first_dialect(node))
        return sp_foreign_report(
            check, "ORT_FIRST_DIALECT", node, NULL,
            "%s has one device mesh for all operands (device_mesh_shape of integers); ONNX Runtime "
            "since October 2023 reads a list of strings, one for each operand.",
            ort.label);
    enum sp_status status = read_side(&ort, &inputs, &read.input_count, &read.inputs);
    if (status == SP_OK)
        status = read_side(&ort, &outputs, &read.output_count, &read.outputs);
    if (status == SP_OK && ort.is_sound)
        status = sp_ort_state(check, &read);
    return status == SP_OK && ort.is_sound ? sp_check_ort_kernel(check, &read) : status;
}
