/*
 * Hints for `polygraphy multi-device shard MODEL -s HINTS -o OUT`, which writes one model for all ranks of TensorRT:
 *
 *   {"parallelism": "CP", "group_size": 0, "root": -1, "groups": [], "attention_layers": [{"q": "q", "gather_kv": true,
 *    "gather_q": false, "polygraphy_class": "AttentionLayerHint"}], "inputs": [{"name": "x", "seq_len_idx": 1, "rank": 3,
 *    "polygraphy_class": "ShardTensor"}], "outputs": [..], "k_seq_len_idx": 3, "v_seq_len_idx": 2, "kv_rank": 4,
 *    "reduce_scatter_reduce_op": "max", "polygraphy_class": "ShardHints"}
 *
 * It knows context parallelism only: inputs are scattered along one axis over all ranks, keys and values are gathered where
 * attention (MatMul, Softmax, MatMul) takes them, outputs are gathered. A plan of that form has every weight whole, inputs
 * and outputs whole or split along one axis, and nothing else exchanged.
 *
 * Source: Polygraphy's tools/multi_device (ShardHints, subtool/shard.py) at TensorRT 11.1.
 */
#include <string.h>

#include "export/internal.h"

#define TOOL "Polygraphy"

enum { WHOLE = -1, OTHERWISE = -2 };

struct hints {
    int32_t *axis_of;  /* by value: along which axis all devices split it, or WHOLE, OTHERWISE */
    bool *is_gathered; /* by value: some node takes it whole though it is split */
    uint32_t layers;
    int32_t k_axis, v_axis;
    uint32_t kv_rank;
};

static int32_t axis_of(const struct sp_export *out, const struct sp_export_value *item)
{
    int32_t axis = WHOLE;
    for (uint32_t i = 0; i < item->rank; i++) {
        const int64_t shards = sp_sharding_shards(item->sharding, i);
        if (shards > 1 && (axis != WHOLE || shards != out->subject->device_count))
            return OTHERWISE;
        axis = shards > 1 ? (int32_t)i : axis;
    }
    return axis;
}

static enum sp_status look_at(struct sp_export *out, const struct sp_export_value *item, void *context,
                              struct sp_error *err)
{
    struct hints *hints = context;
    const int32_t axis = axis_of(out, item);
    char label[264];
    if (axis == OTHERWISE || (item->value->kind == SP_VALUE_INITIALIZER && axis != WHOLE))
        return sp_fail(
            err, SP_ERR_UNSUPPORTED, "NOT_BY_SEQUENCE",
            TOOL "'s hints split sequences over all devices and leave weights whole, and in this plan '%.200s' is "
                 "split in another way.",
            item->value->name);
    if (!item->is_other) {
        hints->axis_of[item->value->id] = axis;
        return SP_OK;
    }
    if (axis != WHOLE)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "NOT_BY_SEQUENCE",
                       TOOL
                       "'s hints gather keys and values, and in this plan %s takes '%.200s' split along another axis.",
                       sp_node_label(item->node, label, sizeof label), item->value->name);
    hints->is_gathered[item->value->id] = true;
    return SP_OK;
}

/* The node whose only output this is, of this operator; or NULL. */
static const struct sp_node *made_by(const struct sp_value *value, const char *op_type)
{
    const struct sp_node *node = value != NULL ? value->producer : NULL;
    return node != NULL && node->domain[0] == '\0' && strcmp(node->op_type, op_type) == 0 ? node : NULL;
}

/* The product that takes attention's weights first. */
static const struct sp_node *second_product(const struct sp_node *softmax)
{
    const struct sp_value *value = softmax->outputs[0];
    for (uint32_t i = 0; i < value->use_count; i++) {
        const struct sp_use *use = &value->uses[i];
        if (use->input == 0 && strcmp(use->node->op_type, "MatMul") == 0)
            return use->node;
    }
    return NULL;
}

/* *ret_k and *ret_v: what the attention of this softmax takes; false where it is none. */
static bool find_attention(const struct sp_node *softmax, const struct sp_value **ret_q, const struct sp_value **ret_k,
                           const struct sp_value **ret_v)
{
    const struct sp_node *first = strcmp(softmax->op_type, "Softmax") == 0 && softmax->domain[0] == '\0'
                                      ? made_by(softmax->inputs[0], "MatMul")
                                      : NULL;
    const struct sp_node *second = first != NULL ? second_product(softmax) : NULL;
    if (second == NULL)
        return false;
    *ret_q = first->inputs[0];
    *ret_k = first->inputs[1];
    *ret_v = second->inputs[1];
    return true;
}

static enum sp_status check_axes(struct hints *hints, const struct sp_value *k, const struct sp_value *v,
                                 struct sp_error *err)
{
    const int32_t k_axis = hints->axis_of[k->id], v_axis = hints->axis_of[v->id];
    if (hints->layers > 0 &&
        (hints->k_axis != k_axis || hints->v_axis != v_axis || hints->kv_rank != k->type.shape.rank))
        return sp_fail(err, SP_ERR_UNSUPPORTED, "NOT_BY_SEQUENCE",
                       TOOL
                       "'s hints name one axis of keys and one of values for all layers, and '%.200s' is split along "
                       "another one.",
                       k->name);
    hints->k_axis = k_axis;
    hints->v_axis = v_axis;
    hints->kv_rank = k->type.shape.rank;
    hints->layers++;
    return SP_OK;
}

static enum sp_status write_layers(struct sp_export *out, struct hints *hints, struct sp_json *json,
                                   struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    enum sp_status status = SP_OK;
    sp_json_key(json, "attention_layers");
    sp_json_begin_array(json);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        const struct sp_value *q, *k, *v;
        if (!find_attention(&graph->nodes[i], &q, &k, &v) || !hints->is_gathered[k->id] || !hints->is_gathered[v->id])
            continue;
        status = check_axes(hints, k, v, err);
        hints->is_gathered[k->id] = hints->is_gathered[v->id] = false; /* said */
        sp_json_begin_object(json);
        sp_json_member_string(json, "q", q->name);
        sp_json_member_bool(json, "gather_kv", true);
        sp_json_member_bool(json, "gather_q", false);
        sp_json_member_string(json, "polygraphy_class", "AttentionLayerHint");
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++) {
        if (hints->is_gathered[i])
            return sp_fail(err, SP_ERR_UNSUPPORTED, "NOT_BY_SEQUENCE",
                           TOOL
                           "'s hints gather keys and values of MatMul, Softmax, MatMul, and in this plan '%.200s' is "
                           "gathered, too.",
                           graph->values[i]->name);
    }
    return status;
}

static void write_tensors(struct sp_json *json, const char *member, uint32_t count, struct sp_value *const *values,
                          const int32_t *axes)
{
    sp_json_key(json, member);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        if (axes[values[i]->id] == WHOLE)
            continue;
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", values[i]->name);
        sp_json_member_int(json, "seq_len_idx", axes[values[i]->id]);
        sp_json_member_int(json, "rank", values[i]->type.shape.rank);
        sp_json_member_string(json, "polygraphy_class", "ShardTensor");
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static enum sp_status write_hints(struct sp_export *out, struct hints *hints, struct sp_json *json,
                                  struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    sp_json_begin_object(json);
    sp_json_member_string(json, "parallelism", "CP");
    sp_json_member_int(json, "group_size", 0);
    sp_json_member_int(json, "root", -1);
    sp_json_key(json, "groups");
    sp_json_begin_array(json);
    sp_json_end_array(json);
    enum sp_status status = write_layers(out, hints, json, err);
    write_tensors(json, "inputs", graph->input_count, graph->inputs, hints->axis_of);
    write_tensors(json, "outputs", graph->output_count, graph->outputs, hints->axis_of);
    sp_json_member_int(json, "k_seq_len_idx", hints->k_axis > 0 ? hints->k_axis : 0);
    sp_json_member_int(json, "v_seq_len_idx", hints->v_axis > 0 ? hints->v_axis : 0);
    sp_json_member_int(json, "kv_rank", hints->kv_rank);
    sp_json_member_string(json, "reduce_scatter_reduce_op", "max");
    sp_json_member_string(json, "polygraphy_class", "ShardHints");
    sp_json_end_object(json);
    return status;
}

enum sp_status sp_export_polygraphy(struct sp_export *out, struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    struct hints hints = {.axis_of = SP_NEW_ARRAY(out->scratch, graph->value_count, int32_t),
                          .is_gathered = SP_NEW_ARRAY(out->scratch, graph->value_count, bool)};
    struct sp_json json;
    if (hints.axis_of == NULL || hints.is_gathered == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < graph->value_count; i++)
        hints.axis_of[i] = WHOLE;
    if (out->subject->stage_count > 1)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "NOT_BY_SEQUENCE",
                       TOOL "'s hints have one model for all devices, and this plan has %d stages.",
                       out->subject->stage_count);
    enum sp_status status = sp_export_values(out, look_at, &hints, err);
    if (status != SP_OK)
        return status;
    sp_export_json(out, true, &json);
    status = write_hints(out, &hints, &json, err);
    (void)sp_json_finish(&json, NULL); /* a failure is the export's own */
    sp_export_text(out, "\n");
    return status;
}
