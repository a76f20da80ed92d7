/*
 * Nodes that are equal in all that their strategies follow from: operator, attributes, types, what is known of the
 * elements of their inputs, which of these are weights, and what the workload says they cost.
 */
#include <string.h>

#include "cost/cache.h"
#include "search/strategy/strategy_internal.h"

#define HASHED_ELEMENTS 16 /* of known data; all are compared */

bool sp_strategy_has_inside(const struct sp_node *node)
{
    if (node->body != NULL)
        return true;
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        enum sp_attr_type type = node->attributes[i].type;
        if (type == SP_ATTR_GRAPH || type == SP_ATTR_GRAPHS)
            return true;
    }
    return false;
}

static const struct sp_value *operand_of(const struct sp_node *node, uint32_t operand)
{
    return operand < node->input_count ? node->inputs[operand] : node->outputs[operand - node->input_count];
}

static uint32_t operand_count(const struct sp_node *node)
{
    return node->input_count + node->output_count;
}

/* The first operand that is the same value: which of them are one tensor is part of what a node is. Long lists are not
   gone through again for each. */
#define MOST_COMPARED 64
static uint32_t first_operand(const struct sp_node *node, uint32_t operand)
{
    uint32_t first = 0;
    if (operand >= MOST_COMPARED)
        return operand;
    while (operand_of(node, first) != operand_of(node, operand))
        first++;
    return first;
}

/* What an operand is to the workload: kind of its memory, whether it is another's, whether only this node uses it. */
static uint32_t role_of(const struct sp_strategy_table *table, const struct sp_value *value)
{
    const struct sp_work_tensor *tensor = &table->workload->tensors[value->id];
    return (uint32_t)tensor->kind | (uint32_t)(tensor->alias_of != SP_NO_WORK) << 4 |
           (uint32_t)table->is_own_weight[value->id] << 5;
}

/* ---- hashing ---------------------------------------------------------------------------------------------------- */

static void hash_data(struct sp_digest *digest, const struct sp_data *data)
{
    sp_digest_number(digest, data->count);
    for (uint32_t i = 0; i < data->count && i < HASHED_ELEMENTS; i++) {
        if (data->ints != NULL)
            sp_digest_number(digest, (uint64_t)data->ints[i].value);
        else
            sp_digest_add(digest, &data->reals[i], sizeof data->reals[i]);
    }
}

static void hash_value(const struct sp_strategy_table *table, struct sp_digest *digest, const struct sp_value *value)
{
    const struct sp_shape *shape = &value->type.shape;
    sp_digest_number(digest,
                     (uint64_t)value->type.kind << 32 | (uint64_t)value->type.dtype << 8 | role_of(table, value));
    sp_digest_number(digest, shape->has_rank ? shape->rank : UINT64_MAX);
    for (uint32_t a = 0; shape->has_rank && a < shape->rank; a++)
        sp_digest_number(digest, (uint64_t)shape->dims[a].value);
}

static void hash_attribute(struct sp_digest *digest, const struct sp_attribute *attribute)
{
    sp_digest_add(digest, attribute->name, strlen(attribute->name));
    sp_digest_number(digest, (uint64_t)attribute->type << 32 | attribute->count);
    sp_digest_number(digest, (uint64_t)attribute->i);
    sp_digest_add(digest, &attribute->f, sizeof attribute->f);
    sp_digest_add(digest, attribute->s.bytes, attribute->s.bytes != NULL ? attribute->s.size : 0);
    for (uint32_t i = 0; attribute->ints != NULL && i < attribute->count; i++)
        sp_digest_number(digest, (uint64_t)attribute->ints[i]);
}

static uint64_t hash_node(const struct sp_strategy_table *table, const struct sp_work_node *work)
{
    const struct sp_node *node = work->node;
    struct sp_digest digest;
    sp_digest_begin(&digest, table->dataflow->model->hash_seed);
    sp_digest_number(&digest, (uint64_t)(uintptr_t)node->op);
    sp_digest_number(&digest, (uint64_t)node->input_count << 32 | node->output_count);
    sp_digest_add(&digest, &work->seconds[table->mesh.kind], sizeof(double));
    sp_digest_number(&digest, sp_work_kernel_key(table->workload, table->mesh.kind, node->index));
    for (uint32_t i = 0; i < operand_count(node); i++) {
        const struct sp_value *value = operand_of(node, i);
        if (value == NULL) {
            sp_digest_number(&digest, UINT64_MAX);
            continue;
        }
        sp_digest_number(&digest, first_operand(node, i));
        hash_value(table, &digest, value);
        if (value->data != NULL && i < node->input_count)
            hash_data(&digest, value->data);
    }
    for (uint32_t i = 0; i < node->attribute_count && !sp_strategy_has_inside(node); i++)
        hash_attribute(&digest, &node->attributes[i]);
    return sp_digest_end(&digest);
}

/* ---- equality --------------------------------------------------------------------------------------------------- */

static bool is_same_dim(struct sp_dim a, struct sp_dim b)
{
    return a.kind == b.kind && (a.kind != SP_DIM_KNOWN || a.value == b.value) &&
           (a.kind != SP_DIM_SYMBOLIC || a.expr == b.expr);
}

static bool is_same_data(const struct sp_data *a, const struct sp_data *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL || a->count != b->count || (a->ints == NULL) != (b->ints == NULL))
        return false;
    for (uint32_t i = 0; a->ints != NULL && i < a->count; i++)
        if (!is_same_dim(a->ints[i], b->ints[i]))
            return false;
    return a->ints != NULL || a->count == 0 || memcmp(a->reals, b->reals, a->count * sizeof *a->reals) == 0;
}

static bool is_same_type(const struct sp_type *a, const struct sp_type *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype || a->elem != b->elem || a->shape.has_rank != b->shape.has_rank)
        return false;
    if (!a->shape.has_rank)
        return true;
    if (a->shape.rank != b->shape.rank)
        return false;
    for (uint32_t i = 0; i < a->shape.rank; i++)
        if (!is_same_dim(a->shape.dims[i], b->shape.dims[i]))
            return false;
    return true;
}

static bool is_same_text(struct sp_string a, struct sp_string b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.bytes, b.bytes, a.size) == 0);
}

static bool is_same_array(const void *a, const void *b, uint32_t count, size_t size)
{
    return a == b || (a != NULL && b != NULL && memcmp(a, b, count * size) == 0);
}

static bool is_same_attribute(const struct sp_attribute *a, const struct sp_attribute *b)
{
    if (strcmp(a->name, b->name) != 0 || a->type != b->type || a->count != b->count || a->i != b->i || a->f != b->f ||
        !is_same_text(a->s, b->s) || !is_same_array(a->ints, b->ints, a->count, sizeof *a->ints) ||
        !is_same_array(a->floats, b->floats, a->count, sizeof *a->floats) ||
        (a->strings == NULL) != (b->strings == NULL))
        return false;
    for (uint32_t i = 0; a->strings != NULL && i < a->count; i++)
        if (!is_same_text(a->strings[i], b->strings[i]))
            return false;
    return a->tensors == b->tensors && a->sparse_tensors == b->sparse_tensors && a->types == b->types;
}

static bool has_same_attributes(const struct sp_node *a, const struct sp_node *b)
{
    if (a->attribute_count != b->attribute_count)
        return false;
    for (uint32_t i = 0; i < a->attribute_count; i++)
        if (!is_same_attribute(&a->attributes[i], &b->attributes[i]))
            return false;
    return true;
}

/* Whether quantised weights are dequantised alike: that says how they may be cut. */
static bool is_same_source(const struct sp_value *left, const struct sp_value *right)
{
    for (uint32_t i = 0; i < SP_STRATEGY_MOST_FOLDED && left != right; i++) {
        const struct sp_node *a = left->producer, *b = right->producer;
        if (left->stored_bits != right->stored_bits || (a == NULL) != (b == NULL))
            return false;
        if (left->stored_bits <= 0 || !left->is_constant || a == NULL)
            return true;
        if (a->op != b->op || a->input_count != b->input_count || !has_same_attributes(a, b))
            return false;
        for (uint32_t input = 0; input < a->input_count; input++) {
            const struct sp_value *p = a->inputs[input], *q = b->inputs[input];
            if ((p == NULL) != (q == NULL) ||
                (p != NULL && (!is_same_type(&p->type, &q->type) || !is_same_data(p->data, q->data))))
                return false;
        }
        left = a->inputs[0];
        right = b->inputs[0];
        if (left == NULL)
            return true;
    }
    return true;
}

static bool is_same_operand(const struct sp_strategy_table *table, const struct sp_node *a, const struct sp_node *b,
                            uint32_t operand)
{
    const struct sp_value *left = operand_of(a, operand), *right = operand_of(b, operand);
    if (left == NULL || right == NULL)
        return left == right;
    return is_same_type(&left->type, &right->type) && role_of(table, left) == role_of(table, right) &&
           is_same_source(left, right) && first_operand(a, operand) == first_operand(b, operand) &&
           table->workload->tensors[left->id].bytes == table->workload->tensors[right->id].bytes &&
           (operand >= a->input_count || is_same_data(left->data, right->data));
}

struct node_key {
    const struct sp_strategy_table *table;
    uint32_t node, apart_count;
    const struct sp_strategy_apart *apart;
};

static bool is_taken_apart_alike(const struct sp_strategy_class *class, const struct node_key *key)
{
    bool is_same = class->apart_count == key->apart_count;
    for (uint32_t i = 0; i < key->apart_count && is_same; i++)
        is_same = class->apart[i].operand == key->apart[i].operand && class->apart[i].axis == key->apart[i].axis &&
                  class->apart[i].before == key->apart[i].before;
    return is_same;
}

static bool is_same_node(const void *item, const void *key)
{
    const struct node_key *wanted = key;
    const struct sp_strategy_table *table = wanted->table;
    uint32_t kind = table->mesh.kind;
    const struct sp_work_node *left = &table->workload->nodes[((const struct sp_strategy_class *)item)->node];
    const struct sp_work_node *right = &table->workload->nodes[wanted->node];
    const struct sp_node *a = left->node, *b = right->node;
    bool has_inside = sp_strategy_has_inside(a);
    if (!is_taken_apart_alike(item, wanted))
        return false;
    if (sp_work_times(table->workload, left->phase) != sp_work_times(table->workload, right->phase))
        return false;
    if (left->flops != right->flops || left->bytes != right->bytes || left->seconds[kind] != right->seconds[kind] ||
        left->inner_weight_bytes != right->inner_weight_bytes || left->workspace_bytes != right->workspace_bytes ||
        left->resident_bytes != right->resident_bytes || !sp_cache_is_same(left->cache, right->cache))
        return false;
    if (sp_work_kernel_key(table->workload, kind, a->index) != sp_work_kernel_key(table->workload, kind, b->index))
        return false;
    if (a->op != b->op || a->version != b->version || a->load != b->load || a->input_count != b->input_count ||
        a->output_count != b->output_count || has_inside != sp_strategy_has_inside(b))
        return false;
    for (uint32_t i = 0; i < operand_count(a); i++)
        if (!is_same_operand(table, a, b, i))
            return false;
    if (has_inside)
        return true;
    return has_same_attributes(a, b);
}

/* The rule, in the table's memory; NULL where nothing may be split. */
static enum sp_status take_rule(struct sp_strategy_table *table, const struct sp_node *known,
                                const struct sp_rule **ret_rule, struct sp_error *err)
{
    struct sp_rule *rule = NULL;
    *ret_rule = NULL;
    if (known == NULL || table->mesh.axis_count == 0 || known->op == NULL || sp_strategy_has_inside(known))
        return SP_OK;
    enum sp_status status =
        sp_op_rule(table->dataflow->model, &known->graph->nodes[known->index], table->arena, &rule, err);
    if (status == SP_OK && rule->input_count == known->input_count && rule->output_count == known->output_count)
        *ret_rule = rule;
    return status;
}

static enum sp_status make_class(const struct node_key *key, struct sp_strategy_table *table,
                                 struct sp_strategy_class **ret_class, struct sp_error *err)
{
    struct sp_strategy_class *class = SP_NEW(table->arena, struct sp_strategy_class);
    struct sp_strategy_apart *apart = SP_NEW_ARRAY(table->arena, key->apart_count, struct sp_strategy_apart);
    if (class == NULL || apart == NULL) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY;
    }
    if (key->apart_count > 0)
        memcpy(apart, key->apart, key->apart_count * sizeof *apart);
    class->node = key->node;
    class->apart_count = key->apart_count;
    class->apart = apart;
    *ret_class = class;
    if (key->apart_count == 0)
        return take_rule(table, table->workload->nodes[key->node].node, &class->strategies.rule, err);
    class->strategies.rule = table->class_of[key->node]->strategies.rule;
    return SP_OK;
}

enum sp_status sp_strategy_class_find(struct sp_strategy_table *table, uint32_t node, uint32_t apart_count,
                                      const struct sp_strategy_apart *apart, struct sp_strategy_class **ret_class,
                                      struct sp_error *err)
{
    struct node_key key = {table, node, apart_count, apart};
    uint64_t hash = hash_node(table, &table->workload->nodes[node]);
    struct sp_strategy_class *known = sp_hash_set_find(&table->class_set, hash, is_same_node, &key);
    if (known == NULL) {
        enum sp_status status = make_class(&key, table, &known, err);
        if (status != SP_OK)
            return status;
        if (!sp_hash_set_add(&table->class_set, hash, known))
            return sp_fail_memory(err);
    }
    *ret_class = known;
    return SP_OK;
}
