#include "cost/cache.h"

#include <math.h>

#include "cost/cache_internal.h"
#include "cost/kernel_work.h"

#define NO_OPERAND UINT32_MAX

/* ---- operators --------------------------------------------------------------------------------------------------- */

/* The table of cache.h: where an operator has its keys and values, and past and present ones. */
struct cache_operator {
    const char *domain, *name;
    uint32_t key, value, past_key, past_value, present_key, present_value;
};

static const struct cache_operator operators[] = {
    {"", "Attention", 1, 2, 4, 5, 1, 2},
    {"ai.onnx.preview", "FlexAttention", 1, 2, NO_OPERAND, NO_OPERAND, NO_OPERAND, NO_OPERAND},
    {"com.microsoft", "GroupQueryAttention", 1, 2, 3, 4, 1, 2},
    {"com.microsoft", "MultiHeadAttention", 1, 2, 6, 7, 1, 2},
    {"com.microsoft", "Attention", 0, 0, 4, 4, 1, 1},
};

static const struct cache_operator *find_operator(const struct sp_node *node)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (strcmp(node->op_type, operators[i].name) == 0 && strcmp(node->domain, operators[i].domain) == 0)
            return &operators[i];
    }
    return NULL;
}

static const struct sp_value *operand(struct sp_value *const *values, uint32_t count, uint32_t index)
{
    return index < count ? values[index] : NULL;
}

/* The index of a factor by its name; factor_count: there is none. */
static uint32_t find_factor(const struct sp_rule *rule, const char *name)
{
    uint32_t f = 0;
    while (f < rule->factor_count && strcmp(rule->factors[f].name, name) != 0)
        f++;
    return f;
}

/* Its extent; -1 where it is not known, or there is none. */
static double extent_of(const struct sp_rule *rule, const char *name)
{
    const uint32_t f = find_factor(rule, name);
    return f < rule->factor_count && sp_dim_is_known(rule->factors[f].extent) ? (double)rule->factors[f].extent.value
                                                                              : -1;
}

/* Bits of an element of K or V: those of the past, whose heads may be packed, or as the node says. */
static double own_bits(const struct sp_node *node, const struct sp_value *given, const struct sp_value *past,
                       double size)
{
    const int64_t width = sp_node_int(node, "kv_cache_bit_width", 0);
    if (past != NULL && past->type.shape.has_rank && past->type.shape.rank > 0) {
        const struct sp_dim last = past->type.shape.dims[past->type.shape.rank - 1];
        const double packed = sp_dim_is_known(last) && (double)last.value < size ? (double)last.value / size : 1;
        return sp_dtype_bits(past->type.dtype) * packed;
    }
    if (width > 0)
        return (double)width;
    return sp_dtype_bits((given != NULL ? given : node->inputs[0])->type.dtype);
}

static enum sp_status keep_operator(const struct sp_workload *workload, struct sp_model *model, struct sp_node *node,
                                    const struct cache_operator *entry, struct sp_cached_operands *cached,
                                    struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(workload->arena);
    const struct sp_value *past_key = operand(node->inputs, node->input_count, entry->past_key);
    const struct sp_value *past_value = operand(node->inputs, node->input_count, entry->past_value);
    const struct sp_value *key = operand(node->outputs, node->output_count, entry->present_key);
    const struct sp_value *value = operand(node->outputs, node->output_count, entry->present_value);
    const double both = entry->past_key == entry->past_value ? 0.5 : 1; /* of a tensor that has keys and values */
    struct sp_rule *rule;
    enum sp_status status = sp_op_rule(model, node, workload->arena, &rule, err);
    if (status != SP_OK)
        return status;
    const double heads = extent_of(rule, "kv"), d = extent_of(rule, "d");
    const double e = find_factor(rule, "e") < rule->factor_count ? extent_of(rule, "e") : d;
    sp_arena_rewind(workload->arena, mark);
    if (heads <= 0 || d <= 0 || e <= 0)
        return sp_fail(
            err, SP_ERR_REQUEST, "KV_CACHE_SIZE",
            "How much the attention node '%.200s' keeps of a position is not known: its heads are of unknown "
            "size.",
            workload->nodes[node->index].name);
    cached->key = (struct sp_cache_half){
        heads * d, own_bits(node, operand(node->inputs, node->input_count, entry->key), past_key, d),
        both * fmax(sp_cache_bytes_of_input(workload, past_key), sp_cache_bytes_of_output(key))};
    cached->value = (struct sp_cache_half){
        heads * e, own_bits(node, operand(node->inputs, node->input_count, entry->value), past_value, e),
        both * fmax(sp_cache_bytes_of_input(workload, past_value), sp_cache_bytes_of_output(value))};
    return SP_OK;
}

/* ---- all nodes --------------------------------------------------------------------------------------------------- */

static enum sp_status find_cached(const struct sp_workload *workload, struct sp_model *model,
                                  struct sp_cached_operands *cached, struct sp_error *err)
{
    for (uint32_t n = 0; n < workload->node_count; n++) {
        struct sp_node *node = &model->graph->nodes[n];
        const struct cache_operator *entry = find_operator(node);
        enum sp_status status = SP_OK;
        if (workload->nodes[n].folded)
            continue;
        if (entry != NULL)
            status = keep_operator(workload, model, node, entry, &cached[n], err);
        else if (strcmp(node->op_type, "Softmax") == 0 && node->domain[0] == '\0')
            sp_cache_find_products(workload, node, cached);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* Bytes of one position of one sequence. */
static double half_bytes(const struct sp_cache_half *half, const struct sp_cache_demand *demand)
{
    const double stated = demand->dtype == SP_DTYPE_UNDEFINED ? 0 : sp_dtype_bits(demand->dtype);
    return half->elements * (stated > 0 ? stated : half->bits) / 8;
}

static struct sp_work_cache *make_cache(struct sp_arena *arena, const struct sp_cached_operands *cached,
                                        const struct sp_cache_demand *demand, double positions)
{
    struct sp_work_cache *cache = SP_NEW(arena, struct sp_work_cache);
    const double key = half_bytes(&cached->key, demand) * positions,
                 value = half_bytes(&cached->value, demand) * positions;
    if (cache == NULL)
        return NULL;
    *cache = (struct sp_work_cache){.demanded_bytes = key + value,
                                    .key_bytes = fmax(0, key - cached->key.held),
                                    .value_bytes = fmax(0, value - cached->value.held),
                                    .is_product = cached->is_product,
                                    .heads = cached->heads};
    return cache;
}

/* A device of each kind. */
static const struct sp_device *device_of(const struct sp_workload *workload, const struct sp_cluster *cluster,
                                         uint32_t kind)
{
    uint32_t d = 0;
    while (d + 1 < cluster->device_count && workload->kind_of[d] != kind)
        d++;
    return sp_cluster_device(cluster, d);
}

/* What is kept is read, as all other operands of the node are: now resident_bytes, before `known` of them. */
static enum sp_status read_cache(struct sp_workload *workload, struct sp_model *model, const struct sp_cluster *cluster,
                                 uint32_t n, double known, struct sp_error *err)
{
    struct sp_work_node *work = &workload->nodes[n];
    struct sp_node *node = &model->graph->nodes[n];
    struct sp_arena_mark mark = sp_arena_mark(workload->arena);
    struct sp_rule *rule;
    enum sp_status status = sp_op_rule(model, node, workload->arena, &rule, err);
    if (status != SP_OK)
        return status;
    struct sp_kernel_part part = {.node = node, .rule = rule, .kept_bytes = known};
    for (uint32_t k = 0; k < workload->kind_count; k++) {
        const struct sp_device *device = device_of(workload, cluster, k);
        part.caches = sp_device_runtime(device)->caches;
        part.kernel = sp_work_kernel(workload, k, n);
        part.kept_bytes = known;
        const struct sp_kernel_work without = sp_kernel_work_of(&part);
        part.kept_bytes = work->resident_bytes;
        const struct sp_kernel_work with = sp_kernel_work_of(&part);
        const enum sp_dtype dtype = sp_node_dtype(device, node);
        work->seconds[k] += sp_work_measured_scale(work, k) * (sp_roofline_seconds(device, cluster, dtype, &with) -
                                                               sp_roofline_seconds(device, cluster, dtype, &without));
        work->moved_bytes[k] += work->resident_bytes - known;
    }
    sp_arena_rewind(workload->arena, mark);
    work->bytes += work->resident_bytes - known;
    workload->bytes += work->resident_bytes - known;
    return SP_OK;
}

enum sp_status sp_workload_cache(struct sp_workload *workload, struct sp_model *model, const struct sp_cluster *cluster,
                                 const struct sp_cache_demand *demand, uint32_t *ret_nodes, struct sp_error *err)
{
    struct sp_cached_operands *cached = SP_NEW_ARRAY(workload->arena, workload->node_count, struct sp_cached_operands);
    double position = 0, positions = demand->sequences * demand->positions;
    *ret_nodes = 0;
    if (cached == NULL)
        return sp_fail_memory(err);
    enum sp_status status = find_cached(workload, model, cached, err);
    if (status != SP_OK)
        return status;
    for (uint32_t n = 0; n < workload->node_count; n++)
        position += half_bytes(&cached[n].key, demand) + half_bytes(&cached[n].value, demand);
    if (demand->total_bytes > 0)
        positions = position > 0 ? demand->total_bytes / position : 0;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (cached[n].key.elements + cached[n].value.elements <= 0)
            continue;
        struct sp_work_cache *cache = make_cache(workload->arena, &cached[n], demand, positions);
        if (cache == NULL)
            return sp_fail_memory(err);
        const double known = workload->nodes[n].resident_bytes;
        workload->nodes[n].cache = cache;
        workload->nodes[n].resident_bytes = cache->key_bytes + cache->value_bytes;
        status = read_cache(workload, model, cluster, n, known, err);
        if (status != SP_OK)
            return status;
        ++*ret_nodes;
    }
    return SP_OK;
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

/* What input 1 of a MatMul is cut in: its second axis has the heads. */
static double product_shards(const struct sp_work_cache *cache, const struct sp_rule *rule, const int64_t *shards)
{
    const struct sp_operand_rule *input = &rule->inputs[1];
    double pieces = 1;
    for (uint32_t a = 0; rule->input_count > 1 && a < input->rank; a++) {
        double axis = 1;
        for (uint32_t i = 0; i < input->axes[a].count; i++)
            axis *= (double)shards[input->axes[a].factors[i]];
        pieces *= a == 1 && cache->heads > 0 ? fmin(axis, (double)cache->heads) : axis;
    }
    return pieces;
}

static double factor_shards(const struct sp_rule *rule, const int64_t *shards, const char *name)
{
    const uint32_t f = find_factor(rule, name);
    return f < rule->factor_count ? (double)shards[f] : 1;
}

double sp_cache_local_bytes(const struct sp_work_cache *cache, const struct sp_rule *rule, const int64_t *shards)
{
    if (cache == NULL)
        return 0;
    if (cache->is_product)
        return (cache->key_bytes + cache->value_bytes) / product_shards(cache, rule, shards);
    const double common =
        factor_shards(rule, shards, "b") * factor_shards(rule, shards, "kv") * factor_shards(rule, shards, "t");
    const char *value_size = find_factor(rule, "e") < rule->factor_count ? "e" : "d";
    return cache->key_bytes / (common * factor_shards(rule, shards, "d")) +
           cache->value_bytes / (common * factor_shards(rule, shards, value_size));
}

bool sp_cache_is_same(const struct sp_work_cache *a, const struct sp_work_cache *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->demanded_bytes == b->demanded_bytes && a->key_bytes == b->key_bytes && a->value_bytes == b->value_bytes &&
           a->is_product == b->is_product && a->heads == b->heads;
}
