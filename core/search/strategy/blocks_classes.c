/*
 * Numbers of nodes: equal for equal operators on equal operands.
 *
 * A node is described as bytes, in which operands are numbers and names do not occur; equal descriptions are equal
 * nodes. The description has two parts. The second has the known elements of operands, which decide what some operators
 * are (a ReduceSum's axes) and mean nothing to others (a Gather's index, a scale): nodes that differ only in these are
 * equal when their rules are.
 */
#include <string.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "cost/cache.h"
#include "infer/interned_rules.h"
#include "search/strategy/blocks_internal.h"

#define MOST_DESCRIBED ((size_t)1 << 30) /* bytes of one node; what is described is in the file */
#define MOST_ELEMENTS  64                /* of one operand; more of them are equal when they are the same tensor */

struct description {
    size_t size;
    const char *bytes;
    uint32_t class_id;
};

struct classifier {
    struct sp_arena *arena, *scratch;
    const struct sp_workload *workload;
    uint64_t seed;
    struct sp_hash_map exact, alike; /* by the whole description; by its first part and the rule */
    struct sp_rules *rules;
    struct sp_buf text, graphs;
    uint32_t *ordinal; /* per tensor: where it is among the inputs of the node at hand */
    uint32_t *users;   /* per tensor that is no alias: nodes that use it, under any name */
    uint32_t class_count;
    uint64_t steps;
};

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

static void put(struct classifier *c, uint64_t number)
{
    sp_buf_append(&c->text, &number, sizeof number);
}

static void put_real(struct classifier *c, double real)
{
    sp_buf_append(&c->text, &real, sizeof real);
}

static void put_bytes(struct classifier *c, const char *bytes, size_t size)
{
    put(c, size);
    sp_buf_append(&c->text, bytes, size);
}

static void put_text(struct classifier *c, const char *text)
{
    put_bytes(c, text, strlen(text));
}

/* Equal expressions are one pointer. */
static void put_dim(struct classifier *c, struct sp_dim dim)
{
    put(c, dim.kind);
    put(c, dim.kind == SP_DIM_KNOWN ? (uint64_t)dim.value : (uint64_t)(uintptr_t)dim.expr);
}

static void put_type(struct classifier *c, const struct sp_type *type)
{
    for (; type != NULL; type = type->elem) {
        const bool has_rank = type->shape.has_rank;
        put(c, (uint64_t)type->kind | (uint64_t)type->dtype << 8 | (uint64_t)has_rank << 16);
        put(c, has_rank ? type->shape.rank : 0);
        for (uint32_t i = 0; has_rank && i < type->shape.rank; i++)
            put_dim(c, type->shape.dims[i]);
    }
    put(c, UINT64_MAX);
}

/* Its elements are data: what a node costs and how it may be split does not depend on them. */
static void put_tensor(struct classifier *c, const struct sp_tensor *tensor)
{
    put(c, (uint64_t)tensor->dtype << 32 | tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        put(c, (uint64_t)tensor->dims[i]);
}

static void put_list(struct classifier *c, const struct sp_attribute *attribute)
{
    for (uint32_t i = 0; i < attribute->count; i++) {
        switch (attribute->type) {
        case SP_ATTR_FLOATS:
            put_real(c, attribute->floats[i]);
            break;
        case SP_ATTR_INTS:
            put(c, (uint64_t)attribute->ints[i]);
            break;
        case SP_ATTR_STRINGS:
            put_bytes(c, attribute->strings[i].bytes, attribute->strings[i].size);
            break;
        case SP_ATTR_TENSOR:
        case SP_ATTR_TENSORS:
            put_tensor(c, attribute->tensors[i]);
            break;
        case SP_ATTR_SPARSE_TENSOR:
        case SP_ATTR_SPARSE_TENSORS:
            put_tensor(c, attribute->sparse_tensors[i]->values);
            break;
        case SP_ATTR_GRAPH:
        case SP_ATTR_GRAPHS: /* described when its turn comes */
            sp_buf_append(&c->graphs, &attribute->graphs[i], sizeof attribute->graphs[i]);
            break;
        case SP_ATTR_TYPE_PROTO:
        case SP_ATTR_TYPE_PROTOS:
            put_type(c, &attribute->types[i]);
            break;
        default:
            break;
        }
    }
}

static void put_attribute(struct classifier *c, const struct sp_attribute *attribute)
{
    put_text(c, attribute->name);
    put(c, attribute->type);
    put(c, attribute->count);
    if (attribute->type == SP_ATTR_FLOAT)
        put_real(c, attribute->f);
    else if (attribute->type == SP_ATTR_INT)
        put(c, (uint64_t)attribute->i);
    else if (attribute->type == SP_ATTR_STRING)
        put_bytes(c, attribute->s.bytes, attribute->s.size);
    else
        put_list(c, attribute);
}

static void put_operator(struct classifier *c, const struct sp_node *node)
{
    put_text(c, node->op_type);
    put_text(c, node->domain);
    put_text(c, node->overload);
    put(c, (uint64_t)node->version);
    put(c, node->attribute_count);
    for (uint32_t i = 0; i < node->attribute_count; i++)
        put_attribute(c, &node->attributes[i]);
}

/* Values of the main graph are what the node at hand reads; others are of graphs inside of it. */
static void put_operand(struct classifier *c, const struct sp_value *value)
{
    if (value == NULL) {
        put(c, 0);
    } else if (value->graph == c->workload->nodes[0].node->graph) {
        put(c, 1 + (uint64_t)c->ordinal[value->id]);
    } else {
        put(c, UINT64_MAX - value->graph->depth);
        put(c, value->id);
    }
}

static void put_inner_graph(struct classifier *c, const struct sp_graph *graph)
{
    put(c, graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        c->steps += 1 + (uint64_t)node->input_count + node->output_count;
        put_operator(c, node);
        put(c, (uint64_t)node->input_count << 32 | node->output_count);
        for (uint32_t i = 0; i < node->input_count; i++)
            put_operand(c, node->inputs[i]);
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (node->outputs[i] != NULL)
                put_type(c, &node->outputs[i]->type);
        }
    }
    put(c, graph->output_count);
    for (uint32_t i = 0; i < graph->output_count; i++)
        put_operand(c, graph->outputs[i]);
}

static bool has_integers(const struct sp_work_tensor *tensor)
{
    return tensor->value != NULL && tensor->value->data != NULL && tensor->value->data->ints != NULL;
}

bool sp_blocks_is_plain(const struct sp_work_tensor *tensor)
{
    if (tensor->kind != SP_WORK_WEIGHT || tensor->value == NULL)
        return false;
    return has_integers(tensor) ||
           (tensor->value->type.kind == SP_TYPE_TENSOR && sp_shape_elements(&tensor->value->type.shape) == 1);
}

/* ---- one node --------------------------------------------------------------------------------------------------- */

/* An input as the node sees it: activations and the model's inputs are alike, and a weight may be its own. */
static void put_input(struct classifier *c, uint32_t tensor)
{
    const struct sp_work_tensor *work = &c->workload->tensors[tensor];
    const bool is_weight = work->kind == SP_WORK_WEIGHT;
    const bool is_own = is_weight && !sp_blocks_is_plain(work) && c->users[sp_work_root(c->workload, tensor)] == 1;
    put(c, (uint64_t)is_weight | (uint64_t)has_integers(work) << 1 | (uint64_t)is_own << 2);
    if (work->value != NULL)
        put_type(c, &work->value->type);
    else
        put_real(c, work->bytes);
}

static void put_model_node(struct classifier *c, const struct sp_node *node)
{
    sp_buf_clear(&c->graphs);
    put_operator(c, node);
    put(c, (uint64_t)node->input_count << 32 | node->output_count);
    put(c, (uint64_t)(uintptr_t)node->load);
    for (uint32_t i = 0; i < node->input_count; i++)
        put_operand(c, node->inputs[i]);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL)
            put_type(c, &node->outputs[i]->type);
        else
            put(c, UINT64_MAX - 1);
    }
    for (size_t done = 0; done < c->graphs.size; done += sizeof(struct sp_graph *)) {
        struct sp_graph *graph;
        memcpy(&graph, c->graphs.data + done, sizeof graph);
        put_inner_graph(c, graph);
    }
}

/* What a device keeps follows from these, however the node is split. */
static void put_cache(struct classifier *c, const struct sp_work_node *work)
{
    put_real(c, work->resident_bytes);
    put_real(c, work->cache == NULL ? 0 : work->cache->key_bytes);
    put(c, work->cache == NULL ? 0 : (uint64_t)work->cache->heads);
}

static void put_figures(struct classifier *c, const struct sp_work_node *work)
{
    put_real(c, work->flops);
    put_real(c, work->bytes);
    put_real(c, work->inner_weight_bytes);
    put_real(c, work->workspace_bytes);
    put_cache(c, work);
    for (uint32_t i = 0; i < c->workload->kind_count; i++) {
        put_real(c, work->seconds[i]);
        put(c, work->node == NULL ? 0 : sp_work_kernel_key(c->workload, i, work->node->index));
    }
}

/* The second part. */
static void put_known(struct classifier *c, const struct sp_work_node *work)
{
    for (uint32_t i = 0; i < work->input_count; i++) {
        const struct sp_value *value = c->workload->tensors[work->inputs[i]].value;
        const struct sp_data *data = value != NULL ? value->data : NULL;
        if (data == NULL)
            continue;
        put(c, i);
        put(c, data->count);
        if (data->count > MOST_ELEMENTS)
            put(c, (uint64_t)(uintptr_t)data);
        for (uint32_t j = 0; data->count <= MOST_ELEMENTS && j < data->count; j++) {
            if (data->ints != NULL)
                put_dim(c, data->ints[j]);
            else
                put_real(c, data->reals[j]);
        }
    }
}

/* Returns the size of the first part. */
static size_t describe(struct classifier *c, const struct sp_work_node *work)
{
    sp_buf_clear(&c->text);
    for (uint32_t i = 0; i < work->input_count; i++)
        c->ordinal[work->inputs[i]] = i;
    if (work->node != NULL)
        put_model_node(c, work->node);
    put(c, (uint64_t)work->input_count << 32 | work->output_count);
    for (uint32_t i = 0; i < work->input_count; i++)
        put_input(c, work->inputs[i]);
    for (uint32_t i = 0; i < work->output_count; i++)
        put_real(c, c->workload->tensors[work->outputs[i]].bytes);
    put_figures(c, work);
    size_t first = c->text.size;
    put_known(c, work);
    c->steps += 1 + c->text.size / 64;
    return first;
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

static bool is_same_text(const void *item, const void *key)
{
    const struct description *a = item, *b = key;
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

static uint64_t digest_text(const struct classifier *c)
{
    struct sp_digest digest;
    sp_digest_begin(&digest, c->seed);
    sp_digest_add(&digest, c->text.data, c->text.size);
    return sp_digest_end(&digest);
}

/* The description that is equal to the text, new with the class NO_WORK where there was none; NULL without memory. */
static struct description *keep(struct classifier *c, struct sp_hash_map *set)
{
    struct description key = {c->text.size, c->text.data, SP_NO_WORK};
    uint64_t hash = digest_text(c);
    struct description *found = sp_hash_set_find(set, hash, is_same_text, &key);
    if (found != NULL)
        return found;
    found = SP_NEW(c->arena, struct description);
    if (found == NULL)
        return NULL;
    *found = key;
    found->bytes = sp_arena_string(c->arena, c->text.data, c->text.size);
    return found->bytes != NULL && sp_hash_set_add(set, hash, found) ? found : NULL;
}

/* Puts a node's rule in place of the second part; false where that is not known or there is no memory for it: then the
   second part stays. */
static bool put_rule(struct classifier *c, const struct sp_work_node *work, size_t first)
{
    struct sp_node *node = &work->node->graph->nodes[work->node->index];
    struct sp_arena_mark mark = sp_arena_mark(c->scratch);
    struct sp_error ignored = {0};
    struct sp_rule *rule, *kept = NULL;
    if (node->op != NULL && sp_op_rule(node->graph->model, node, c->scratch, &rule, &ignored) == SP_OK &&
        sp_rules_keep(c->rules, rule, &kept, &ignored) != SP_OK)
        kept = NULL;
    sp_arena_rewind(c->scratch, mark);
    if (kept == NULL)
        return false;
    c->text.size = first;
    put(c, (uint64_t)(uintptr_t)kept);
    return true;
}

static bool classify(struct classifier *c, const struct sp_work_node *work, uint32_t *ret_class)
{
    size_t first = describe(c, work);
    struct description *exact = sp_buf_failed(&c->text) || sp_buf_failed(&c->graphs) ? NULL : keep(c, &c->exact);
    if (exact == NULL)
        return false;
    if (exact->class_id == SP_NO_WORK && work->node != NULL && put_rule(c, work, first)) {
        struct description *alike = sp_buf_failed(&c->text) ? NULL : keep(c, &c->alike);
        if (alike == NULL)
            return false;
        if (alike->class_id == SP_NO_WORK)
            alike->class_id = c->class_count++;
        exact->class_id = alike->class_id;
    }
    if (exact->class_id == SP_NO_WORK)
        exact->class_id = c->class_count++;
    *ret_class = exact->class_id;
    return true;
}

static uint64_t seed_of(const struct sp_workload *workload)
{
    const struct sp_node *node = workload->node_count > 0 ? workload->nodes[0].node : NULL;
    return node != NULL ? node->graph->model->hash_seed : 0;
}

enum sp_status sp_blocks_classify(struct sp_arena *arena, const struct sp_workload *workload, uint32_t *class_of,
                                  uint32_t *ret_class_count, uint64_t *steps, struct sp_error *err)
{
    struct classifier c = {.arena = arena,
                           .scratch = sp_arena_create(sp_arena_budget(arena)),
                           .workload = workload,
                           .seed = seed_of(workload),
                           .exact = {.arena = arena},
                           .alike = {.arena = arena},
                           .ordinal = SP_NEW_ARRAY(arena, workload->tensor_count, uint32_t),
                           .users = SP_NEW_ARRAY(arena, workload->tensor_count, uint32_t)};
    bool is_done = c.scratch != NULL && c.ordinal != NULL && c.users != NULL;
    sp_buf_init(&c.text, MOST_DESCRIBED);
    sp_buf_init(&c.graphs, MOST_DESCRIBED);
    c.rules = is_done ? sp_rules_create(arena, c.seed, UINT64_MAX) : NULL;
    is_done = is_done && c.rules != NULL;
    for (uint32_t t = 0; is_done && t < workload->tensor_count; t++)
        c.users[sp_work_root(workload, t)] += workload->tensors[t].consumer_count;
    for (uint32_t n = 0; is_done && n < workload->node_count; n++) {
        class_of[n] = SP_NO_WORK;
        if (!workload->nodes[n].folded)
            is_done = classify(&c, &workload->nodes[n], &class_of[n]);
    }
    sp_buf_release(&c.text);
    sp_buf_release(&c.graphs);
    sp_arena_destroy(c.scratch);
    *ret_class_count = c.class_count;
    *steps += c.steps;
    return is_done ? SP_OK : sp_fail_memory(err);
}
