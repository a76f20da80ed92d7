/* PopRT's points, walked as PopRT walks them, and fields added to the nodes of a model. */
#include <criterion/criterion.h>

#include "build_export.h"
#include "data_files.h"
#include "onnx.pb-c.h"
#include "onnx_files.h"

#define MAX_NODES 4096

struct point {
    uint32_t node;
    int64_t device, stage;
};

static uint32_t find_node(const struct sp_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (strcmp(graph->nodes[i].name, name) == 0)
            return i;
    }
    cr_assert_fail("no node %s", name);
    return 0;
}

/* The points of the text, in its order. */
static uint32_t read_points(const struct sp_graph *graph, const char *text, struct point *points)
{
    uint32_t count = 0;
    for (const char *line = text; *line != '\0';) {
        const char *end = strchr(line, '\n');
        cr_assert_not_null(end);
        if (strncmp(line, "- node: ", 8) == 0) {
            json_t *name = json_loadb(line + 8, (size_t)(end - line) - 8, JSON_DECODE_ANY, NULL);
            cr_assert(json_is_string(name), "%.60s", line);
            points[count++].node = find_node(graph, json_string_value(name));
            json_decref(name);
        } else if (strncmp(line, "  device: ", 10) == 0) {
            points[count - 1].device = strtol(line + 10, NULL, 10);
        } else {
            cr_assert_eq(strncmp(line, "  stage: ", 9), 0, "%.60s", line);
            points[count - 1].stage = strtol(line + 9, NULL, 10);
        }
        line = end + 1;
    }
    return count;
}

static int by_node(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

/* The published rule: points in order; each takes what it reaches towards the inputs that is not taken yet. */
static void walk(const struct sp_graph *graph, uint32_t count, struct point *points, const struct point **ret_taken)
{
    static uint32_t stack[MAX_NODES * 8];
    qsort(points, count, sizeof *points, by_node);
    for (uint32_t p = 0; p < count; p++) {
        uint32_t depth = 0;
        stack[depth++] = points[p].node;
        while (depth > 0) {
            const struct sp_node *node = &graph->nodes[stack[--depth]];
            if (ret_taken[node->index] != NULL)
                continue;
            ret_taken[node->index] = &points[p];
            for (uint32_t i = 0; i < node->input_count; i++) {
                const struct sp_value *value = node->inputs[i];
                cr_assert_lt(depth, MAX_NODES * 8 - 1);
                if (value != NULL && value->producer != NULL)
                    stack[depth++] = value->producer->index;
            }
        }
    }
}

/* What the walk gives is the subject's assignment, and nothing is left; returns the number of points. */
static uint32_t expect_plan_back(const struct sp_subject *subject)
{
    static struct point points[MAX_NODES];
    static const struct point *taken[MAX_NODES];
    const struct sp_graph *graph = subject->model->graph;
    struct exported text = export_of(subject, "poprt");
    cr_assert_lt(graph->node_count, MAX_NODES);
    memset(taken, 0, sizeof taken);
    const uint32_t count = read_points(graph, text.bytes.data, points);
    walk(graph, count, points, taken);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        cr_assert_not_null(taken[i], "node %u is left", i);
        cr_assert_eq(taken[i]->device, subject->nodes[i].devices[0], "node %u", i);
        cr_assert_eq(taken[i]->stage, subject->nodes[i].has_stage ? subject->nodes[i].stage : 0, "node %u", i);
    }
    exported_release(&text);
    return count;
}

Test(export_poprt, a_chain_needs_a_point_for_each_stage)
{
    struct planned_model model;
    for (uint32_t devices = 1; devices <= 4; devices++) {
        planned_mlp(&model, &(struct onnx_mlp){.layers = 8, .width = 4096, .batch = "512"}, devices);
        cr_assert_eq(model.plan->result->placement.stage_count, devices);
        cr_expect_eq(expect_plan_back(model.subject), devices);
        planned_release(&model);
    }
}

Test(export_poprt, the_walk_gives_the_plan_back_for_real_models)
{
    static const char *const names[] = {"transformer_tiny.onnx", "resnet50.onnx", "vit_l_16.onnx"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct planned_model model;
        struct sp_buf file;
        size_t size;
        char path[512];
        (void)snprintf(path, sizeof path, SOURCE_ROOT "/tests/data/%s", names[i]);
        unsigned char *bytes = data_read(path, &size);
        cr_assert_not_null(bytes);
        sp_buf_init(&file, size + 1);
        sp_buf_append(&file, bytes, size);
        free(bytes);
        planned_make(&model, file, 4);
        const uint32_t count = expect_plan_back(model.subject);
        cr_expect_geq(count, model.plan->result->placement.stage_count);
        cr_expect_lt(count, model.subject->model->graph->node_count / 4);
        planned_release(&model);
    }
}

/* PopRT's own published cut of ViT-L/16 for two devices: behind half of its 24 layers (auto-sharding tutorial, 2023).
 */
Test(export_poprt, vit_is_cut_where_poprt_cuts_it)
{
    struct planned_model model;
    struct sp_buf file;
    size_t size;
    unsigned char *bytes = data_read(SOURCE_ROOT "/tests/data/vit_l_16.onnx", &size);
    cr_assert_not_null(bytes);
    sp_buf_init(&file, size + 1);
    sp_buf_append(&file, bytes, size);
    free(bytes);
    planned_make(&model, file, 2);
    struct exported text = export_of(model.subject, "poprt");
    /* The residual's sum, the layer's last node, may be on either side of the border. */
    static const char behind[] = "- node: \"/encoder/layers/encoder_layer_11/Add_1\"\n  device: 0\n  stage: 0\n",
                      before[] =
                          "- node: \"/encoder/layers/encoder_layer_11/mlp/mlp.3/Add\"\n  device: 0\n  stage: 0\n";
    cr_expect(strncmp(text.bytes.data, behind, strlen(behind)) == 0 ||
                  strncmp(text.bytes.data, before, strlen(before)) == 0,
              "%s", text.bytes.data);
    exported_release(&text);
    planned_release(&model);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Any graph and any assignment: nodes add two earlier values; places change now and then, forward or back. */
Test(export_poprt, the_walk_gives_any_assignment_back)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t state = seed;
        struct sp_buf text;
        uint32_t device = 0, stage = 0, count = 5 + (uint32_t)(seed % 40);
        sp_buf_init(&text, (size_t)1 << 20);
        sp_buf_text(&text, "1:11 8{2:17} 26{1'a' 2:4} 7{ 2'g' ");
        for (uint32_t i = 0; i < count; i++) {
            char inputs[2][32];
            for (int k = 0; k < 2; k++) {
                const uint32_t from = (uint32_t)(next_random(&state) % (i + 1));
                (void)snprintf(inputs[k], sizeof inputs[k], from == i ? "x" : "v%u", from);
            }
            if (next_random(&state) % 5 == 0) {
                device = (uint32_t)(next_random(&state) % 4);
                stage = (uint32_t)(next_random(&state) % 3);
            }
            sp_buf_printf(&text, "1{1'%s' 1'%s' 2'v%u' 3'n%u' 4'Add' 10{1'a' 3:%u 2{1'v%u' 2:%u}}} ", inputs[0],
                          inputs[1], i, i, stage, i, device);
        }
        sp_buf_printf(&text, "11{1'x' 2{1{1:1 2{1{1:8}}}}} 12{1'v%u' 2{1{1:1 2{1{1:8}}}}} }", count - 1);
        struct sp_buf file = onnx_encode(text.data);
        struct sp_subject *subject = subject_of(&file);
        (void)expect_plan_back(subject);
        sp_subject_destroy(subject);
        sp_buf_release(&file);
        sp_buf_release(&text);
    }
}

Test(export_poprt, names_are_quoted)
{
    struct sp_buf file = onnx_encode("1:11 8{2:17} 26{1'a' 2:2} 7{ 2'g' 1{1'x' 2'y' 3'a\"\\: #\xe2\x80\xa8' 4'Relu'"
                                     " 10{1'a' 3:1 2{1'y' 2:1}}} 11{1'x' 2{1{1:1 2{1{1:8}}}}}"
                                     " 12{1'y' 2{1{1:1 2{1{1:8}}}}} }");
    struct sp_subject *subject = subject_of(&file);
    struct exported text = export_of(subject, "poprt");
    cr_expect_str_eq(text.bytes.data, "- node: \"a\\\"\\\\: #\\u2028\"\n  device: 1\n  stage: 1\n");
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

/* ---- fields of nodes ----------------------------------------------------------------------------------------------
 */

static Onnx__ModelProto *unpack(const struct sp_buf *bytes)
{
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, bytes->size, (const uint8_t *)bytes->data);
    cr_assert_not_null(proto);
    return proto;
}

/* Takes the last `count` attributes and metadata entries of every node off again. */
static void take_off(Onnx__ModelProto *proto, size_t attributes, size_t metadata)
{
    for (size_t i = 0; i < proto->graph->n_node; i++) {
        Onnx__NodeProto *node = proto->graph->node[i];
        for (size_t k = 0; k < attributes; k++)
            onnx__attribute_proto__free_unpacked(node->attribute[--node->n_attribute], NULL);
        for (size_t k = 0; k < metadata; k++)
            onnx__string_string_entry_proto__free_unpacked(node->metadata_props[--node->n_metadata_props], NULL);
    }
}

static void expect_same(Onnx__ModelProto *a, Onnx__ModelProto *b)
{
    const size_t size = onnx__model_proto__get_packed_size(a);
    cr_assert_eq(size, onnx__model_proto__get_packed_size(b));
    uint8_t *x = malloc(size), *y = malloc(size);
    (void)onnx__model_proto__pack(a, x);
    (void)onnx__model_proto__pack(b, y);
    cr_expect_eq(memcmp(x, y, size), 0);
    free(x);
    free(y);
}

Test(export_poprt, the_model_gets_two_attributes_at_each_node_and_nothing_else)
{
    struct planned_model model;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"}, 2);
    struct exported file = export_of(model.subject, "poprt-model");
    Onnx__ModelProto *original = unpack(&model.file), *changed = unpack(&file.bytes);
    for (size_t i = 0; i < changed->graph->n_node; i++) {
        const Onnx__NodeProto *node = changed->graph->node[i];
        const int64_t values[2] = {model.subject->nodes[i].devices[0], model.subject->nodes[i].stage};
        static const char *const names[2] = {"__ipu_number", "__pipeline_stage"};
        for (size_t k = 0; k < 2; k++) {
            const Onnx__AttributeProto *attribute = node->attribute[node->n_attribute - 2 + k];
            cr_expect_str_eq(attribute->name, names[k]);
            cr_expect_eq(attribute->type, SP_ATTR_INT);
            cr_expect_eq(attribute->i, values[k]);
        }
    }
    take_off(changed, 2, 0);
    expect_same(original, changed);
    onnx__model_proto__free_unpacked(original, NULL);
    onnx__model_proto__free_unpacked(changed, NULL);
    exported_release(&file);
    planned_release(&model);
}

Test(export_poprt, layers_are_metadata_that_the_options_place)
{
    struct planned_model model;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"}, 2);
    struct exported file = export_of(model.subject, "ort-layers"),
                    options = export_of(model.subject, "ort-layers-options");
    Onnx__ModelProto *original = unpack(&model.file), *changed = unpack(&file.bytes);
    for (size_t i = 0; i < changed->graph->n_node; i++) {
        const Onnx__NodeProto *node = changed->graph->node[i];
        char layer[64];
        (void)snprintf(layer, sizeof layer, "stage_%d_device_%d", model.subject->nodes[i].stage,
                       (int)model.subject->nodes[i].devices[0]);
        cr_assert_eq(node->n_metadata_props, 1);
        cr_expect_str_eq(node->metadata_props[0]->key, "layer_ann");
        cr_expect_str_eq(node->metadata_props[0]->value, layer);
    }
    take_off(changed, 0, 1);
    expect_same(original, changed);
    cr_expect_str_eq(options.bytes.data, "{\"session.layer_assignment_settings\": "
                                         "\"gpu:0(=stage_0_device_0); gpu:1(=stage_1_device_1)\"}\n");
    cr_expect_not_null(strstr(file.notes.data, "ONE_PROVIDER "));
    cr_expect_str_eq(options.notes.data, "ONE_PROVIDER ");
    onnx__model_proto__free_unpacked(original, NULL);
    onnx__model_proto__free_unpacked(changed, NULL);
    exported_release(&file);
    exported_release(&options);
    planned_release(&model);
}

/* An export of what was exported replaces what is there. */
Test(export_poprt, fields_are_replaced_not_repeated)
{
    static const char *const formats[] = {"poprt-model", "ort-layers"};
    struct planned_model model;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"}, 2);
    struct sp_buf annotated = planned_annotated(&model);
    struct sp_subject *first = subject_of(&annotated);
    for (size_t f = 0; f < 2; f++) {
        struct exported once = export_of(first, formats[f]);
        cr_expect_gt(once.bytes.size, annotated.size);
        struct sp_subject *second = subject_of(&once.bytes);
        struct exported twice = export_of(second, formats[f]);
        cr_assert_eq(once.bytes.size, twice.bytes.size);
        cr_expect_eq(memcmp(once.bytes.data, twice.bytes.data, once.bytes.size), 0);
        sp_subject_destroy(second);
        exported_release(&twice);
        exported_release(&once);
    }
    sp_subject_destroy(first);
    sp_buf_release(&annotated);
    planned_release(&model);
}

/* Length prefixes of a graph and a node that are longer than they need be keep their widths; unknown fields stay. */
Test(export_poprt, odd_encodings_come_out_as_they_went_in)
{
    static const unsigned char head[] = {0x08, 0x0b, 0x42, 0x02, 0x10, 0x11, 0xd2, 0x01, 5, 0x0a, 1, 'a', 0x10, 1};
    static const unsigned char node[] = {0x0a, 1, 'x', 0x12, 1, 'y', 0x22, 4, 'R', 'e', 'l', 'u', 0x9a, 0x06, 2, 'z',
                                         'z',
                                         /* device_configurations: y on device 0 */
                                         0x52, 10, 0x0a, 1, 'a', 0x12, 5, 0x0a, 1, 'y', 0x10, 0};
    static const unsigned char ends[] = {0x5a, 15, 0x0a, 1, 'x',  0x12, 10,   0x0a, 8,    0x08, 1,
                                         0x12, 4,  0x0a, 2, 0x08, 8,    0x62, 3,    0x0a, 1,    'y'};
    struct sp_buf file, result;
    const size_t graph = 4 + sizeof node + sizeof ends;
    const unsigned char graph_head[] = {0x3a, (unsigned char)(graph | 0x80), 0x80, 0x00};
    const unsigned char node_head[] = {0x0a, (unsigned char)(sizeof node | 0x80), 0x80, 0x00};
    sp_buf_init(&file, 4096);
    sp_buf_append(&file, head, sizeof head);
    sp_buf_append(&file, graph_head, sizeof graph_head);
    sp_buf_append(&file, node_head, sizeof node_head);
    sp_buf_append(&file, node, sizeof node);
    sp_buf_append(&file, ends, sizeof ends);
    struct sp_subject *subject = subject_of(&file);
    struct exported out = export_of(subject, "ort-layers");
    static const char entry[] = "\x4a\x1f\x0a\x09layer_ann\x12\x12stage_0_device_0";
    const size_t added = 2 + 2 + 9 + 2 + 16; /* the entry's bytes: keys of 9, a value of 16 */
    sp_buf_init(&result, 4096);
    sp_buf_append(&result, file.data, file.size);
    cr_assert_eq(out.bytes.size, file.size + added);
    result.data[sizeof head + 1] = (char)((graph + added) | 0x80);
    result.data[sizeof head + 5] = (char)((sizeof node + added) | 0x80);
    const size_t at = sizeof head + 8 + sizeof node;
    cr_expect_eq(memcmp(out.bytes.data, result.data, at), 0);
    cr_expect_eq((unsigned char)out.bytes.data[at], 0x4a);
    cr_expect_eq(memcmp(out.bytes.data + at + 2, entry + 2, 11), 0);
    cr_expect_eq(memcmp(out.bytes.data + at + added, file.data + at, file.size - at), 0);
    sp_buf_release(&result);
    exported_release(&out);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}
