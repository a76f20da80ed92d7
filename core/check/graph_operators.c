/* Which operator a node is of, remembered by the pointers of its interned names. */
#include <string.h>

#include "check/graph_internal.h"
#include "onnx/reader.h"

static bool is_same(const void *item, const void *key)
{
    const struct sp_known_operator *known = item, *other = key;
    return known->op_type == other->op_type && known->domain == other->domain && known->overload == other->overload &&
           known->opsets == other->opsets;
}

static void look_up(const struct sp_graph_check *check, const struct sp_node *node, struct sp_known_operator *known)
{
    /* A body without imports of its own has been found wrong already; the model's are the best guess for the rest. */
    known->version = sp_graph_import(node->graph, node->domain);
    if (known->version == 0 && node->domain[0] == '\0' && check->model->has_ir_version && check->model->ir_version < 3)
        known->version = 1; /* before there were imports */
    known->is_published = sp_signature_domain(node->domain);
    known->function = sp_onnx_function(check->model, node);
    if (known->version > 0)
        known->signature = sp_signature_find(node->domain, node->op_type, known->version);
    if (known->signature == NULL)
        known->first = sp_signature_first(node->domain, node->op_type);
}

struct sp_known_operator *sp_known_operator(struct sp_graph_check *check, const struct sp_node *node)
{
    const struct sp_known_operator key = {
        .domain = node->domain, .op_type = node->op_type, .overload = node->overload, .opsets = node->graph->opsets};
    const void *const pointers[] = {key.domain, key.op_type, key.overload, key.opsets};
    const uint64_t digest = sp_digest(pointers, sizeof pointers, check->model->hash_seed);
    struct sp_known_operator *known = sp_hash_set_find(&check->operators, digest, is_same, &key);
    if (known != NULL)
        return known;
    known = SP_NEW(check->operators.arena, struct sp_known_operator);
    if (known == NULL || !sp_hash_set_add(&check->operators, digest, known))
        return NULL;
    *known = key;
    look_up(check, node, known);
    return known;
}
