/*
 * PopRT: points of manual sharding as YAML, and the attributes that they end in.
 *
 * PopRT's rule. The points are gone through in the order of the model. From each one walks towards the inputs and takes
 * every node that is not taken yet; all of them get the point's device and stage. What is left in the end goes to the
 * next device.
 *
 * So a node gets what the first point says that it leads to. Every node with a user elsewhere is a point, and every
 * node without users: then the first point that a node leads to is on its own device and stage, since on the way to any
 * other place there is an earlier point. Nothing is left in the end. Of points one after the other in the same place,
 * those that lead to a later one of them are not needed.
 *
 * A walk follows the inputs that a node lists, not what its subgraphs use by name; only those edges count here.
 */
#include <inttypes.h>

#include "export/internal.h"
#include "onnx/wire.h"

#define TOOL "PopRT"

struct place {
    int64_t device;
    int32_t stage;
};

static bool is_same(struct place a, struct place b)
{
    return a.device == b.device && a.stage == b.stage;
}

/* The place of every node; one device each. */
static enum sp_status find_places(const struct sp_export *out, struct place **ret_places, struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    struct place *places = SP_NEW_ARRAY(out->scratch, graph->node_count, struct place);
    enum sp_status status = places != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        status = sp_export_device(out, i, TOOL, &places[i].device, err);
        places[i].stage = sp_export_stage(out, i);
    }
    *ret_places = places;
    return status;
}

/* Whether the node has a user in another place, or none. */
static bool is_border(const struct sp_node *node, const struct place *places)
{
    bool has_user = false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const struct sp_value *value = node->outputs[i];
        for (uint32_t u = 0; value != NULL && u < value->use_count; u++) {
            if (value->uses[u].input == UINT32_MAX)
                continue; /* of a subgraph */
            has_user = true;
            if (!is_same(places[value->uses[u].node->index], places[node->index]))
                return true;
        }
    }
    return !has_user;
}

/*
 * Keeps of the points of one run, nodes [first, last], those that lead to none of the run behind them. `leads` says of
 * a node that it leads to a point that is kept; it is looked at within the run only.
 */
static void thin_run(const struct sp_graph *graph, uint32_t first, uint32_t last, bool *is_point, bool *leads)
{
    for (uint32_t i = last + 1; i-- > first;) {
        const struct sp_node *node = &graph->nodes[i];
        for (uint32_t k = 0; k < node->output_count; k++) {
            const struct sp_value *value = node->outputs[k];
            for (uint32_t u = 0; value != NULL && u < value->use_count && !leads[i]; u++) {
                const struct sp_use *use = &value->uses[u];
                leads[i] = use->input != UINT32_MAX && use->node->index <= last &&
                           (leads[use->node->index] || is_point[use->node->index]);
            }
        }
        is_point[i] = is_point[i] && !leads[i];
    }
}

/* Which nodes are points. */
static enum sp_status find_points(const struct sp_export *out, const struct place *places, bool **ret_points,
                                  struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    bool *is_point = SP_NEW_ARRAY(out->scratch, graph->node_count, bool);
    bool *leads = SP_NEW_ARRAY(out->scratch, graph->node_count, bool);
    uint32_t first = 0, last = 0; /* points of the present run */
    bool has_run = false;
    if (is_point == NULL || leads == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < graph->node_count; i++)
        is_point[i] = is_border(&graph->nodes[i], places);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (!is_point[i])
            continue;
        if (has_run && !is_same(places[i], places[first])) {
            thin_run(graph, first, last, is_point, leads);
            has_run = false;
        }
        if (!has_run)
            first = i;
        last = i;
        has_run = true;
    }
    if (has_run)
        thin_run(graph, first, last, is_point, leads);
    *ret_points = is_point;
    return SP_OK;
}

/* Names must tell the points apart from all other nodes. */
enum sp_status sp_export_poprt(struct sp_export *out, struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    struct place *places = NULL;
    bool *is_point = NULL, has_points = false;
    enum sp_status status = sp_export_check_names(out, TOOL, false, err);
    if (status == SP_OK)
        status = find_places(out, &places, err);
    if (status == SP_OK)
        status = find_points(out, places, &is_point, err);
    for (uint32_t i = 0; status == SP_OK && is_point != NULL && i < graph->node_count; i++) {
        if (!is_point[i])
            continue;
        has_points = true;
        sp_export_text(out, "- node: ");
        sp_export_quoted(out, graph->nodes[i].name);
        sp_export_printf(out, "\n  device: %" PRId64 "\n  stage: %" PRId32 "\n", places[i].device, places[i].stage);
    }
    if (status == SP_OK && !has_points)
        sp_export_text(out, "[]\n");
    return status;
}

/* ---- the model ------------------------------------------------------------------------------------------------- */

enum {
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_INT = 3,
    ATTRIBUTE_TYPE = 20,
};

static void put_number(struct sp_buf *buf, uint32_t field, uint64_t value)
{
    unsigned char bytes[20];
    const uint64_t tag = (uint64_t)field << 3 | SP_WIRE_VARINT;
    const uint32_t head = sp_wire_varint_size(tag), tail = sp_wire_varint_size(value);
    sp_wire_put_varint(bytes, tag, head);
    sp_wire_put_varint(bytes + head, value, tail);
    sp_buf_append(buf, bytes, head + tail);
}

static enum sp_status put_attribute(const char *name, int64_t value, struct sp_buf *buf, struct sp_error *err)
{
    struct sp_buf attribute;
    sp_buf_init(&attribute, 1024);
    sp_export_put_field(&attribute, ATTRIBUTE_NAME, name, strlen(name));
    put_number(&attribute, ATTRIBUTE_INT, (uint64_t)value);
    put_number(&attribute, ATTRIBUTE_TYPE, SP_ATTR_INT);
    if (!sp_buf_failed(&attribute))
        sp_export_put_field(buf, NODE_ATTRIBUTE, attribute.data, attribute.size);
    const bool is_made = !sp_buf_failed(&attribute) && !sp_buf_failed(buf);
    sp_buf_release(&attribute);
    return is_made ? SP_OK : sp_fail_memory(err);
}

static const char *const attribute_names[] = {"__ipu_number", "__pipeline_stage"};

static enum sp_status write_attributes(struct sp_export *out, uint32_t node, struct sp_buf *buf, void *context,
                                       struct sp_error *err)
{
    const struct place *places = context;
    (void)out;
    enum sp_status status = put_attribute(attribute_names[0], places[node].device, buf, err);
    return status == SP_OK ? put_attribute(attribute_names[1], places[node].stage, buf, err) : status;
}

enum sp_status sp_export_poprt_model(struct sp_export *out, struct sp_error *err)
{
    struct place *places = NULL;
    struct sp_splice *splice = NULL;
    enum sp_status status = find_places(out, &places, err);
    const struct sp_export_field field = {NODE_ATTRIBUTE, 2, attribute_names, write_attributes, places};
    if (status == SP_OK)
        status = sp_export_fields(out, &field, &splice, err);
    return status == SP_OK ? sp_export_model(out, splice, err) : status;
}
