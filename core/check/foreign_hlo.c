/* XLA's shardings in metadata: text or bytes, against the tensors that they are for. */
#include <stdio.h>
#include <string.h>

#include "check/foreign.h"
#include "sharding/hlo/hlo.h"

#define MOST_LEAVES 4096 /* operands that a tuple of shardings is compared with */

static bool is_sharding_key(const char *key)
{
    return strcmp(key, "mhlo.sharding") == 0 || strcmp(key, "sharding") == 0;
}

/* The shape to validate against. An extent that is not known does not matter to it. */
static bool shape_of(struct sp_foreign_check *check, const struct sp_value *value, struct sp_hlo_shape *shape)
{
    *shape = (struct sp_hlo_shape){.is_token = true};
    if (value == NULL || value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank)
        return true;
    const uint32_t rank = value->type.shape.rank;
    int64_t *dims = SP_NEW_ARRAY(check->scratch, rank, int64_t);
    if (dims == NULL)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = sp_dim_is_known(value->type.shape.dims[i]) ? value->type.shape.dims[i].value : -1;
    *shape = (struct sp_hlo_shape){.rank = rank, .dims = dims};
    return true;
}

/* `where`: "node 'x' (Add)", "tensor 't'", "the model"; shape NULL: nothing to compare with. */
static enum sp_status check_entry(struct sp_foreign_check *check, const struct sp_metadata *entry,
                                  const struct sp_hlo_shape *shape, const struct sp_node *node, const char *tensor,
                                  const char *where)
{
    struct sp_hlo *hlo = NULL;
    struct sp_error why;
    sp_error_clear(&why);
    enum sp_status status = sp_hlo_read_attribute(check->scratch, entry->value, strlen(entry->value), &hlo, &why);
    if (status == SP_ERR_MEMORY)
        return sp_fail_memory(check->err);
    if (status != SP_OK) {
        /* "sharding" may be anybody's key; "mhlo.sharding" is XLA's. */
        const bool is_xla = strcmp(entry->key, "sharding") != 0;
        return sp_foreign_report(check, is_xla ? "HLO_SHARDING_UNREADABLE" : "SHARDING_METADATA_UNKNOWN", node, tensor,
                                 "The metadata '%.80s' of %s is not a sharding in XLA's notation: %s", entry->key,
                                 where, why.message);
    }
    if (shape == NULL)
        return SP_OK;
    status = sp_hlo_validate(hlo, shape, 0, &why);
    if (status == SP_ERR_MEMORY)
        return sp_fail_memory(check->err);
    if (status == SP_OK)
        return SP_OK;
    return sp_foreign_report(check, "HLO_SHARDING_MISMATCH", node, tensor,
                             "The sharding in metadata '%.80s' of %s does not fit: %s", entry->key, where, why.message);
}

enum sp_status sp_check_hlo_value(struct sp_foreign_check *check, const struct sp_value *value)
{
    char where[192];
    struct sp_hlo_shape shape;
    enum sp_status status = SP_OK;
    (void)snprintf(where, sizeof where, "tensor '%.120s'", value->name);
    for (uint32_t i = 0; value->metadata != NULL && status == SP_OK && i < value->metadata->count; i++) {
        if (!is_sharding_key(value->metadata->items[i].key))
            continue;
        status = shape_of(check, value, &shape)
                     ? check_entry(check, &value->metadata->items[i], &shape, value->producer, value->name, where)
                     : sp_fail_memory(check->err);
    }
    return status;
}

/* A node with one output has its sharding, one with several a tuple of theirs. */
static enum sp_status node_shape(struct sp_foreign_check *check, const struct sp_node *node, struct sp_hlo_shape *shape)
{
    struct sp_hlo_shape *elements = SP_NEW_ARRAY(check->scratch, node->output_count, struct sp_hlo_shape);
    if (elements == NULL)
        return sp_fail_memory(check->err);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!shape_of(check, node->outputs[i], &elements[i]))
            return sp_fail_memory(check->err);
    }
    if (node->output_count == 1)
        *shape = elements[0];
    else
        *shape = (struct sp_hlo_shape){.is_tuple = true, .element_count = node->output_count, .elements = elements};
    return SP_OK;
}

enum sp_status sp_check_hlo_node(struct sp_foreign_check *check, const struct sp_node *node)
{
    char where[SP_ERROR_WHERE_SIZE];
    struct sp_hlo_shape shape;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; node->metadata != NULL && status == SP_OK && i < node->metadata->count; i++) {
        if (!is_sharding_key(node->metadata->items[i].key) || node->output_count > MOST_LEAVES)
            continue;
        (void)sp_node_label(node, where, sizeof where);
        status = node_shape(check, node, &shape);
        if (status == SP_OK)
            status = check_entry(check, &node->metadata->items[i], &shape, node, NULL, where);
    }
    return status;
}

/* XLA's module attributes: one element for each parameter, and for each result. */
static enum sp_status list_shape(struct sp_foreign_check *check, uint32_t count, struct sp_value *const *values,
                                 bool is_always_tuple, struct sp_hlo_shape *shape)
{
    struct sp_hlo_shape *elements = SP_NEW_ARRAY(check->scratch, count, struct sp_hlo_shape);
    if (elements == NULL)
        return sp_fail_memory(check->err);
    for (uint32_t i = 0; i < count; i++) {
        if (!shape_of(check, values[i], &elements[i]))
            return sp_fail_memory(check->err);
    }
    *shape = count == 1 && !is_always_tuple
                 ? elements[0]
                 : (struct sp_hlo_shape){.is_tuple = true, .element_count = count, .elements = elements};
    return SP_OK;
}

enum sp_status sp_check_hlo_model(struct sp_foreign_check *check)
{
    const struct sp_model *model = check->model;
    const struct sp_graph *graph = model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < model->metadata_count; i++) {
        const struct sp_metadata *entry = &model->metadata[i];
        struct sp_arena_mark mark = sp_arena_mark(check->scratch);
        struct sp_hlo_shape shape;
        if (is_sharding_key(entry->key)) {
            status = check_entry(check, entry, NULL, NULL, NULL, "the model");
        } else if (strcmp(entry->key, "mhlo.spmd_output_sharding") == 0) {
            status = list_shape(check, graph->output_count, graph->outputs, false, &shape);
            if (status == SP_OK)
                status = check_entry(check, entry, &shape, NULL, NULL, "the model's outputs");
        } else if (strcmp(entry->key, "mhlo.spmd_parameters_shardings") == 0) {
            status = list_shape(check, graph->input_count, graph->inputs, true, &shape);
            if (status == SP_OK)
                status = check_entry(check, entry, &shape, NULL, NULL, "the model's inputs");
        }
        sp_arena_rewind(check->scratch, mark);
    }
    return status;
}
