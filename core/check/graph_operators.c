/* Which operator a node is of, remembered by the pointers of its interned names. */
#include <stdlib.h>
#include <string.h>

#include "check/graph_internal.h"
#include "onnx/reader.h"

static uint64_t mix(uint64_t hash, const void *pointer)
{
    hash ^= (uint64_t)(uintptr_t)pointer >> 3;
    hash *= 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* The place of this key, or the free one where it belongs. */
static struct sp_known_operator *place_of(struct sp_known_operator *table, uint32_t capacity,
                                          const struct sp_known_operator *key)
{
    uint64_t hash = mix(mix(mix(mix(0, key->domain), key->op_type), key->overload), key->opsets);
    for (uint32_t i = (uint32_t)(hash >> 16) & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
        struct sp_known_operator *place = &table[i];
        if (place->op_type == NULL || (place->op_type == key->op_type && place->domain == key->domain &&
                                       place->overload == key->overload && place->opsets == key->opsets))
            return place;
    }
}

static bool grow(struct sp_graph_check *check)
{
    if (check->operator_count < check->capacity / 2)
        return true;
    const uint32_t capacity = check->capacity == 0 ? 256 : check->capacity * 2;
    struct sp_known_operator *table = calloc(capacity, sizeof *table);
    if (table == NULL)
        return false;
    for (uint32_t i = 0; i < check->capacity; i++) {
        if (check->operators[i].op_type != NULL)
            *place_of(table, capacity, &check->operators[i]) = check->operators[i];
    }
    free(check->operators);
    check->operators = table;
    check->capacity = capacity;
    return true;
}

static void look_up(const struct sp_graph_check *check, const struct sp_node *node, struct sp_known_operator *known)
{
    /* A body without imports of its own has been found wrong already; the model's are the best guess for the rest. */
    known->version = sp_graph_opset(node->graph, node->domain);
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
    if (!grow(check))
        return NULL;
    struct sp_known_operator *known = place_of(check->operators, check->capacity, &key);
    if (known->op_type == NULL) {
        *known = key;
        look_up(check, node, known);
        check->operator_count++;
    }
    return known;
}
