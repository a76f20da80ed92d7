/*
 * Partitions for Qualcomm's Cloud AI compiler, qaic-compile -mdp-load-partition-config:
 *
 *   {"connections": [{"devices": [0, 1], "type": "p2p"}],
 *    "partitions": [{"name": "Partition0", "nodeList": ["conv1", ..], "devices": [{"deviceId": 0, "numCores": 16}]},
 * ..]}
 *
 * A partition is a stage, and the devices that run it; of a model without stages what runs on the same devices. They are
 * in the order of stages. How the compiler splits operators of a partition with several devices is its own affair; one
 * partition of all devices has no nodeList, by which the compiler splits everything over all of them.
 *
 * Names are those of the compiler's graph (Qualcomm's own writer, QEfficient/compile/mdp_generator.py): without nodes
 * that it computes itself since all their inputs are constants, and with the nodes inside of calls of functions that it
 * inlines, CALL/NODE, one level deep. Names that it does not have are ignored.
 */
#include <inttypes.h>

#include "export/internal.h"
#include "onnx/reader.h"

#define DEFAULT_CORES   16 /* of one Cloud AI 100 device; all of them */
#define LARGEST_INLINED 99 /* nodes of a function that the compiler puts in the place of its call */

#define TOOL "Qualcomm's compiler"

struct partition {
    bool has_stage;
    int32_t stage;
    const int64_t *listed; /* without a stage: the nodes' list */
    uint32_t number;       /* in the order of stages */
    uint32_t device_count;
    int64_t *devices; /* ascending */
};

struct partitions {
    uint32_t count;
    struct partition *items; /* in order of their first nodes */
    uint32_t *of;            /* by node */
    bool *is_folded;         /* by node: the compiler computes it */
    uint64_t unnamed;        /* nodes */
};

/* ---- partitions ------------------------------------------------------------------------------------------------- */

static struct partition *find(struct partitions *all, const struct sp_subject_node *place)
{
    for (uint32_t i = all->count; i-- > 0;) {
        struct partition *at = &all->items[i];
        if (at->has_stage == place->has_stage &&
            (place->has_stage ? at->stage == place->stage : at->listed == place->devices))
            return at;
    }
    return NULL;
}

static enum sp_status place_node(struct sp_export *out, struct partitions *all, uint32_t node, struct sp_error *err)
{
    const struct sp_subject_node *place = &out->subject->nodes[node];
    if (place->device_count == 0) {
        int64_t none;
        return sp_export_device(out, node, TOOL, &none, err);
    }
    struct partition *at = find(all, place);
    if (at == NULL && all->count == SP_MAX_EXPORT_MESHES)
        return sp_fail_limit(err, "TOO_MANY_GROUPS", "SP_MAX_EXPORT_MESHES", SP_MAX_EXPORT_MESHES,
                             SP_MAX_EXPORT_MESHES + 1, "The model is in more than %d partitions.",
                             SP_MAX_EXPORT_MESHES);
    if (at == NULL) {
        at = &all->items[all->count++];
        *at = (struct partition){.has_stage = place->has_stage, .stage = place->stage, .listed = place->devices};
        at->devices = SP_NEW_ARRAY(out->scratch, (size_t)out->subject->device_count, int64_t);
        if (at->devices == NULL)
            return sp_fail_memory(err);
    }
    all->of[node] = (uint32_t)(at - all->items);
    /* devices of nodes and of the partition ascend: what is new is put in its place */
    for (int64_t d = 0; d < place->device_count; d++) {
        uint32_t i = at->device_count;
        while (i > 0 && at->devices[i - 1] > place->devices[d])
            i--;
        if (i > 0 && at->devices[i - 1] == place->devices[d])
            continue;
        memmove(at->devices + i + 1, at->devices + i, (at->device_count - i) * sizeof *at->devices);
        at->devices[i] = place->devices[d];
        at->device_count++;
    }
    return SP_OK;
}

/* By stage; what has none keeps the order of its first nodes, and comes first. */
static void number_partitions(struct partitions *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct partition *one = &all->items[i];
        for (uint32_t k = 0; k < all->count; k++) {
            const struct partition *other = &all->items[k];
            const int64_t a = one->has_stage ? one->stage : -1, b = other->has_stage ? other->stage : -1;
            all->items[i].number += b < a || (b == a && k < i);
        }
    }
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

static bool is_kept(const struct sp_node *node)
{
    static const char *const kept[] = {"Loop", "Const", "Constant", "Identity", "If", "DequantizeLinear"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (strcmp(node->op_type, kept[i]) == 0)
            return true;
    }
    return false;
}

static bool is_constant(const struct partitions *all, const struct sp_graph *graph, const struct sp_value *value)
{
    if (value->producer == NULL || value->producer->graph != graph)
        return value->kind == SP_VALUE_INITIALIZER;
    return strcmp(value->producer->op_type, "Constant") == 0 || all->is_folded[value->producer->index];
}

/* All its inputs are compile-time constants, and there is one. */
static void find_folded(struct partitions *all, const struct sp_graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        bool has_input = false, is_folded = !is_kept(node);
        for (uint32_t k = 0; is_folded && k < node->input_count; k++) {
            if (node->inputs[k] == NULL)
                continue;
            has_input = true;
            is_folded = is_constant(all, graph, node->inputs[k]);
        }
        all->is_folded[i] = is_folded && has_input;
    }
}

static enum sp_status sort_nodes(struct sp_export *out, struct partitions *all, struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    enum sp_status status = SP_OK;
    all->items = SP_NEW_ARRAY(out->scratch, SP_MAX_EXPORT_MESHES, struct partition);
    all->of = SP_NEW_ARRAY(out->scratch, graph->node_count, uint32_t);
    all->is_folded = SP_NEW_ARRAY(out->scratch, graph->node_count, bool);
    if (all->items == NULL || all->of == NULL || all->is_folded == NULL)
        return sp_fail_memory(err);
    find_folded(all, graph);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        all->unnamed += graph->nodes[i].name[0] == '\0';
        status = place_node(out, all, i, err);
    }
    number_partitions(all);
    return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void write_connections(const struct sp_export *out, struct sp_json *json)
{
    sp_json_key(json, "connections");
    sp_json_begin_array(json);
    sp_json_begin_object(json);
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (int64_t d = 0; d < out->subject->device_count; d++)
        sp_json_int(json, d);
    sp_json_end_array(json);
    sp_json_member_string(json, "type", "p2p");
    sp_json_end_object(json);
    sp_json_end_array(json);
}

static bool keeps_calls(const char *op_type)
{
    return strcmp(op_type, "CustomRMSNorm") == 0 || strcmp(op_type, "CastToUInt4") == 0;
}

/* A node by what the compiler calls it: a call that is inlined by the nodes of the function's body. */
static enum sp_status write_node(struct sp_export *out, const struct sp_node *node, struct sp_json *json,
                                 struct sp_error *err)
{
    const struct sp_function *function = sp_onnx_function(out->subject->model, node);
    const struct sp_arena_mark mark = sp_arena_mark(out->scratch);
    struct sp_graph *body = NULL;
    enum sp_status status = SP_OK;
    if (function != NULL && !keeps_calls(node->op_type))
        status = sp_onnx_body(out->subject->model, out->scratch, function, &body, err);
    if (status == SP_OK && (body == NULL || body->node_count > LARGEST_INLINED)) {
        sp_json_string(json, node->name);
    } else if (status == SP_OK) {
        for (uint32_t i = 0; status == SP_OK && i < body->node_count; i++) {
            if (body->nodes[i].name[0] == '\0')
                continue;
            const char *name = sp_arena_printf(out->scratch, "%s/%s", node->name, body->nodes[i].name);
            if (name == NULL)
                status = sp_fail_memory(err);
            else
                sp_json_string(json, name);
        }
    }
    sp_arena_rewind(out->scratch, mark);
    return status;
}

static enum sp_status write_nodes(struct sp_export *out, const struct partitions *all, uint32_t item,
                                  struct sp_json *json, struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    enum sp_status status = SP_OK;
    sp_json_key(json, "nodeList");
    sp_json_begin_array(json);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        if (all->of[i] == item && !all->is_folded[i] && graph->nodes[i].name[0] != '\0')
            status = write_node(out, &graph->nodes[i], json, err);
    }
    sp_json_end_array(json);
    return status;
}

static enum sp_status write_partition(struct sp_export *out, const struct partitions *all, uint32_t number,
                                      struct sp_json *json, struct sp_error *err)
{
    uint32_t item = 0;
    while (all->items[item].number != number)
        item++;
    const struct partition *partition = &all->items[item];
    const int64_t cores = out->request->cores > 0 ? out->request->cores : DEFAULT_CORES;
    char name[32];
    enum sp_status status = SP_OK;
    (void)snprintf(name, sizeof name, "Partition%" PRIu32, number);
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", name);
    if (all->count > 1 || partition->device_count < out->subject->device_count)
        status = write_nodes(out, all, item, json, err);
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (uint32_t d = 0; d < partition->device_count; d++) {
        sp_json_begin_object(json);
        sp_json_member_int(json, "deviceId", partition->devices[d]);
        sp_json_member_int(json, "numCores", cores);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
    return status;
}

static enum sp_status tell(struct sp_export *out, const struct partitions *all, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    bool is_split = false;
    for (uint32_t p = 0; p < all->count; p++)
        is_split = is_split || all->items[p].device_count > 1;
    if (is_split)
        status = sp_export_note(out, "SPLITS_LOST", NULL, err,
                                "Partitions with several devices name these only: the compiler chooses itself how "
                                "operators are split over them.");
    if (status == SP_OK && all->unnamed > 0)
        status = sp_export_note(out, "NODES_UNNAMED", NULL, err,
                                "%" PRIu64 " nodes have no name and are in no partition: the compiler places them "
                                "itself.",
                                all->unnamed);
    return status;
}

enum sp_status sp_export_mdp(struct sp_export *out, struct sp_error *err)
{
    struct partitions all = {0};
    struct sp_json json;
    enum sp_status status = sp_export_check_names(out, TOOL, true, err);
    if (status == SP_OK)
        status = sort_nodes(out, &all, err);
    if (status == SP_OK)
        status = tell(out, &all, err);
    if (status != SP_OK)
        return status;
    sp_export_json(out, true, &json);
    sp_json_begin_object(&json);
    write_connections(out, &json);
    sp_json_key(&json, "partitions");
    sp_json_begin_array(&json);
    for (uint32_t p = 0; status == SP_OK && p < all.count; p++)
        status = write_partition(out, &all, p, &json, err);
    sp_json_end_array(&json);
    sp_json_end_object(&json);
    (void)sp_json_finish(&json, NULL); /* a failure is the export's own */
    sp_export_text(out, "\n");
    return status;
}
