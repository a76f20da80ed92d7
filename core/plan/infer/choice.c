/* Which specs of a completed assignment are written into the model, and as what. */
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "infer/stored.h"
#include "plan/infer/internal.h"
#include "sharding/dialect.h"

const struct sp_value *sp_completion_value(const struct sp_node *node, uint32_t operand)
{
    return operand < node->input_count ? node->inputs[operand] : node->outputs[operand - node->input_count];
}

static uint32_t operand_count(const struct sp_node *node)
{
    return node->input_count + node->output_count;
}

static bool get(const struct sp_completion *completion, uint32_t bit)
{
    return (completion->kept[bit / 32] >> (bit % 32) & 1) != 0;
}

static void set(struct sp_completion *completion, uint32_t bit, bool value)
{
    uint32_t mask = (uint32_t)1 << (bit % 32);
    completion->kept[bit / 32] = value ? completion->kept[bit / 32] | mask : completion->kept[bit / 32] & ~mask;
}

bool sp_completion_writes(const struct sp_completion *completion, uint32_t node, uint32_t operand)
{
    return get(completion, completion->first_operand[node] + operand);
}

enum sp_status sp_completion_spec(const struct sp_completion *completion, struct sp_arena *arena,
                                  const struct sp_value *value, const struct sp_sharding *sharding,
                                  struct sp_sharding_spec *ret_spec, struct sp_error *err)
{
    const struct sp_shape *shape = &value->type.shape;
    struct sp_dialect_context context = {
        .rank = -1, .device_count = completion->device_count, .tensor_name = value->name};
    struct sp_losses losses = {0};
    if (value->type.kind == SP_TYPE_TENSOR && shape->has_rank) {
        int64_t *extents = SP_NEW_ARRAY(arena, shape->rank + 1, int64_t);
        if (extents == NULL)
            return sp_fail_memory(err);
        for (uint32_t axis = 0; axis < shape->rank; axis++)
            extents[axis] = sp_dim_is_known(shape->dims[axis]) ? shape->dims[axis].value : -1;
        context.rank = shape->rank;
        context.shape = extents;
    }
    return sp_onnx_spec_from_sharding(arena, sharding, &context, ret_spec, &losses, err);
}

/* ---- the choice ----------------------------------------------------------------------------------------------- */

/* A node's expanded body is not in the file, so nothing is written there. */
static bool is_in_file(const struct sp_node *node)
{
    const struct sp_graph *graph = node->graph;
    while (graph->parent != NULL)
        graph = graph->parent;
    return graph == graph->model->graph;
}

/* One spec for a tensor in a node, even where it is several operands: the first that has one speaks. */
static bool is_repeated(const struct sp_node *node, uint32_t operand, const struct sp_completion *completion,
                        uint32_t first)
{
    for (uint32_t i = 0; i < operand; i++) {
        if (sp_completion_value(node, i) == sp_completion_value(node, operand) && get(completion, first + i))
            return true;
    }
    return false;
}

static void choose_stated(struct sp_completion *completion, uint32_t id)
{
    const struct sp_node *node = completion->dataflow->nodes[id];
    const struct sp_node_specs *specs = &completion->assignment->nodes[id];
    uint32_t first = completion->first_operand[id];
    for (uint32_t i = 0; specs->operands != NULL && is_in_file(node) && i < operand_count(node); i++) {
        const struct sp_spec_entry *entry = &specs->operands[i];
        bool is_stated = entry->sharding != NULL && entry->origin != SP_SPEC_ASSUMED && entry->origin != SP_SPEC_NONE;
        if (is_stated && sp_completion_value(node, i) != NULL && !is_repeated(node, i, completion, first)) {
            set(completion, first + i, true);
            completion->added += entry->origin != SP_SPEC_GIVEN;
        }
    }
}

/*
 * The node as it will be read again: what is written is stated then. A whole operand that was inferred and meets a
 * split one is left unwritten: stated, the two would contradict each other; unstated, the device slices what it has.
 */
static enum sp_status drop_contradictions(struct sp_completion *completion, const struct sp_relation *relation,
                                          struct sp_arena *scratch, struct sp_error *err)
{
    struct sp_assignment stated = *completion->assignment;
    uint32_t id = relation->node_id, first = completion->first_operand[id];
    const struct sp_node_specs *own = &completion->assignment->nodes[id];
    struct sp_spec_entry *entries = SP_NEW_ARRAY(scratch, relation->operand_count, struct sp_spec_entry);
    struct sp_node_specs *saved = &stated.nodes[id], old = *saved;
    struct sp_view *view;
    if (own->operands == NULL)
        return SP_OK;
    if (entries == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < relation->operand_count; i++) {
        entries[i] = own->operands[i];
        if (get(completion, first + i))
            entries[i].origin = SP_SPEC_GIVEN;
    }
    saved->operands = entries;
    stated.arena = scratch;
    enum sp_status status = sp_view_create(scratch, &stated, relation, &view, err);
    *saved = old;
    for (uint32_t i = 0; status == SP_OK && i < view->conflict_count; i++) {
        const struct sp_conflict *conflict = &view->conflicts[i];
        uint32_t sides[2] = {conflict->operand, conflict->other};
        for (int k = 0; conflict->kind == SP_CONFLICT_WHOLE && k < 2; k++) {
            if (sides[k] == SP_NO_TENSOR || own->operands[sides[k]].origin != SP_SPEC_INFERRED ||
                !get(completion, first + sides[k]))
                continue;
            set(completion, first + sides[k], false);
            completion->added--;
        }
    }
    return status;
}

enum sp_status sp_completion_choose(struct sp_completion *completion, struct sp_error *err)
{
    const struct sp_dataflow *dataflow = completion->dataflow;
    uint32_t total = 0;
    uint32_t *first = SP_NEW_ARRAY(completion->arena, dataflow->node_count, uint32_t);
    if (first == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < dataflow->node_count; i++) {
        first[i] = total;
        total += operand_count(dataflow->nodes[i]);
    }
    completion->first_operand = first;
    completion->kept = SP_NEW_ARRAY(completion->arena, (size_t)total / 32 + 1, uint32_t);
    if (completion->kept == NULL)
        return sp_fail_memory(err);
    struct sp_arena *scratch = sp_arena_create(&completion->budget);
    enum sp_status status = scratch != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < dataflow->node_count; i++)
        choose_stated(completion, i);
    for (uint32_t i = 0; status == SP_OK && i < dataflow->relation_count; i++) {
        struct sp_arena_mark mark = sp_arena_mark(scratch);
        if (dataflow->relations[i].kind == SP_RELATION_NODE)
            status = drop_contradictions(completion, &dataflow->relations[i], scratch, err);
        sp_arena_rewind(scratch, mark);
    }
    sp_arena_destroy(scratch);
    return status;
}

/* ---- the model ------------------------------------------------------------------------------------------------ */

/* The specs of one node that are not in the file yet. */
static enum sp_status annotate_node(const struct sp_completion *completion, struct sp_arena *arena, uint32_t id,
                                    struct sp_annotation *annotation, struct sp_error *err)
{
    const struct sp_node *node = completion->dataflow->nodes[id];
    const struct sp_node_specs *specs = &completion->assignment->nodes[id];
    uint32_t count = operand_count(node);
    struct sp_sharding_spec *list = SP_NEW_ARRAY(arena, count, struct sp_sharding_spec);
    enum sp_status status = list != NULL ? SP_OK : sp_fail_memory(err);
    annotation->node = node;
    annotation->configuration = (struct sp_node_configuration){.specs = list};
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        const struct sp_spec_entry *entry = &specs->operands[i];
        if (entry->origin == SP_SPEC_GIVEN || !sp_completion_writes(completion, id, i))
            continue;
        status = sp_completion_spec(completion, arena, sp_completion_value(node, i), entry->sharding,
                                    &list[annotation->configuration.spec_count], err);
        annotation->configuration.spec_count += status == SP_OK;
    }
    return status;
}

static int64_t devices_in(const struct sp_node_configuration *configuration)
{
    int64_t count = 0;
    for (uint32_t i = 0; configuration->specs != NULL && i < configuration->spec_count; i++) {
        const struct sp_sharding_spec *spec = &configuration->specs[i];
        count += spec->device_count;
        for (uint32_t k = 0; k < spec->group_count; k++)
            count += spec->groups[k].count;
    }
    return count;
}

static enum sp_status count_written(const struct sp_annotation *annotation, int64_t *total, struct sp_error *err)
{
    *total += devices_in(&annotation->configuration);
    if (*total <= SP_MAX_WRITTEN_DEVICES)
        return SP_OK;
    return sp_fail_limit(err, "ANSWER_TOO_LARGE", "SP_MAX_WRITTEN_DEVICES", SP_MAX_WRITTEN_DEVICES, *total,
                         "The specs of the completed model would list more than %d devices in all.",
                         SP_MAX_WRITTEN_DEVICES);
}

enum sp_status sp_completion_annotate(const struct sp_completion *completion, struct sp_splice **ret_splice,
                                      struct sp_error *err)
{
    const struct sp_dataflow *dataflow = completion->dataflow;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(completion->arena));
    struct sp_annotation *list = arena == NULL ? NULL : SP_NEW_ARRAY(arena, dataflow->node_count, struct sp_annotation);
    struct sp_annotations annotations = {.configuration = completion->configuration,
                                         .num_devices = (int32_t)completion->device_count,
                                         .nodes = list,
                                         .is_completing = !completion->is_new_configuration};
    enum sp_status status = SP_OK;
    int64_t written = 0;
    if (list == NULL) {
        sp_arena_destroy(arena);
        return sp_fail_memory(err);
    }
    for (uint32_t i = 0; status == SP_OK && i < dataflow->node_count; i++) {
        if (completion->assignment->nodes[i].operands == NULL)
            continue;
        status = annotate_node(completion, arena, i, &list[annotations.count], err);
        if (status == SP_OK)
            status = count_written(&list[annotations.count], &written, err);
        annotations.count += status == SP_OK && list[annotations.count].configuration.spec_count > 0;
    }
    json_t *stored = NULL;
    if (status == SP_OK)
        status = sp_assignment_write_stored(completion->assignment, &stored, err);
    annotations.stored = stored;
    if (status == SP_OK && annotations.count > 1)
        qsort(list, annotations.count, sizeof *list, sp_annotation_by_place);
    if (status == SP_OK)
        status = sp_onnx_annotate(completion->model, &annotations, ret_splice, err);
    json_decref(stored);
    if (status == SP_OK)
        status = sp_model_file_splice(&completion->file, ret_splice, err);
    sp_arena_destroy(arena);
    return status;
}
