/* Annotations into and out of models, byte for byte. Notation: onnx_files.h. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "onnx/wire.h"
#include "onnx_files.h"

/* Two nodes, with fields that the schema does not know around them. */
#define GRAPH "7{2'g' 11{1'x'} 1{1'x' 2'h' 4'Relu' 3'a'} 1{1'h' 2'y' 4'Add' 99'left' 5{1'k' 8:1}} 12{1'y'} 77:5}"

static void hex(const struct sp_buf *bytes, char *text, size_t size)
{
    for (size_t i = 0; i < bytes->size && 2 * i + 3 < size; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", (unsigned char)bytes->data[i]);
}

static void expect_same(const struct sp_buf *got, const struct sp_buf *expected, const char *what)
{
    static char a[40000], b[40000];
    if (got->size == expected->size && memcmp(got->data, expected->data, got->size) == 0)
        return;
    hex(got, a, sizeof a);
    hex(expected, b, sizeof b);
    cr_expect_str_eq(a, b, "%s\n got      %s\n expected %s", what, a, b);
}

static struct sp_buf annotate_with(const struct sp_buf *file, const char *configuration, bool is_completing);

static struct sp_buf annotate(const struct sp_buf *file, const char *configuration)
{
    return annotate_with(file, configuration, false);
}

/* Every node gets a stage; the first also a spec (X split on axis 0 over devices 0 and 1). */
static struct sp_buf annotate_with(const struct sp_buf *file, const char *configuration, bool is_completing)
{
    struct onnx_model m;
    struct sp_splice *splice;
    struct sp_error err = {0};
    cr_assert_eq(onnx_read(&m, file->data, file->size), SP_OK, "%s", m.err.message);
    const struct sp_graph *graph = m.model->graph;
    struct sp_annotation *nodes = SP_NEW_ARRAY(m.arena, graph->node_count, struct sp_annotation);
    int64_t devices[] = {0, 1};
    struct sp_sharded_dim_part part = {.has_shards = true, .num_shards = 2};
    struct sp_sharded_axis axis = {.has_axis = true, .axis = 0, .part_count = 1, .parts = &part};
    struct sp_sharding_spec spec = {
        .tensor_name = "X", .device_count = 2, .devices = devices, .axis_count = 1, .axes = &axis};
    for (uint32_t i = 0; i < graph->node_count; i++) {
        nodes[i].node = &graph->nodes[i];
        nodes[i].configuration.has_stage = true;
        nodes[i].configuration.stage = (int32_t)i;
        nodes[i].configuration.spec_count = i == 0;
        nodes[i].configuration.specs = &spec;
    }
    const char *names[] = {"a", "b"};
    struct sp_annotations annotations = {.configuration = configuration,
                                         .num_devices = 2,
                                         .device_names = names,
                                         .count = graph->node_count,
                                         .nodes = nodes,
                                         .is_completing = is_completing};
    cr_assert_eq(sp_onnx_annotate(m.model, &annotations, &splice, &err), SP_OK, "%s", err.message);
    struct sp_buf result = onnx_result(splice, file->data);
    onnx_release(&m);
    return result;
}

static struct sp_buf strip(const struct sp_buf *file)
{
    struct onnx_model m;
    struct sp_splice *splice;
    struct sp_error err = {0};
    cr_assert_eq(onnx_read(&m, file->data, file->size), SP_OK, "%s", m.err.message);
    cr_assert_eq(sp_onnx_strip(m.model, &splice, &err), SP_OK, "%s", err.message);
    struct sp_buf result = onnx_result(splice, file->data);
    onnx_release(&m);
    return result;
}

#define RECORD(json) "14{1'shardplan.annotations' 2'" json "'}"

Test(writer, adds_exactly_the_annotations)
{
    struct sp_buf file = onnx_encode("1:8 2'p' 8{2:17} " GRAPH " 14{1'k' 2'v'}");
    struct sp_buf annotated = annotate(&file, "c0"), restored = strip(&annotated);
    struct sp_buf expected =
        onnx_encode("1:11 2'p' 8{2:17} 7{2'g' 11{1'x'} "
                    "1{1'x' 2'h' 4'Relu' 3'a' 10{1'c0' 2h0a0158100010012206080012021802 3:0}} "
                    "1{1'h' 2'y' 4'Add' 99'left' 5{1'k' 8:1} 10{1'c0' 3:1}} 12{1'y'} 77:5} 14{1'k' 2'v'} 26{1'c0' 2:2 "
                    "3'a' 3'b'} " RECORD("{\"ir_version\":8,\"ir_version_added\":false,\"configurations\":[\"c0\"]}"));
    expect_same(&annotated, &expected, "annotated");
    expect_same(&restored, &file, "stripped");
    sp_buf_release(&expected);
    sp_buf_release(&restored);
    sp_buf_release(&annotated);
    sp_buf_release(&file);
}

Test(writer, gives_back_every_form_of_a_file)
{
    /* ir_version absent, last, newer than needed, twice, in a longer form than needed, 0, from before operator sets had
       versions; fields in other orders. */
    static const char *const files[] = {
        GRAPH,
        GRAPH " 1:8",
        "1:13 " GRAPH,
        "1:11 " GRAPH,
        "1:7 8{2:17} " GRAPH " 1:8",
        "1:0 " GRAPH,
        "26{1'other' 2:3} 1:12 7{1{4'Relu' 2'h' 10{1'other' 3:2} 3'n'} 2'g'}",
        "1:8 20{1{1{2'h' 4'T'}} 2{}} 25{1'f' 7{2'q' 4'R'} 10'd'} 7{2'g' 1{2'y' 4'If' 5{1'b' 20:5 6{1{2'z' 4'R'}}}}}",
        "1:8 7{2'g'}",
        "1:2 8{2:1} " GRAPH,
        "1:2 8{1'ai.onnx.ml' 2:1} " GRAPH,
        "1:2 8{1'ai.onnx' 2:7} 8{1'ai.onnx.ml' 2:2} " GRAPH,
    };
    static const char *const domains[] = {"", "ai.onnx.ml", "other"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct sp_buf file = onnx_encode(files[i]);
        struct sp_buf annotated = annotate(&file, "plan"), restored = strip(&annotated);
        expect_same(&restored, &file, files[i]);
        struct onnx_model m, old;
        cr_expect_eq(onnx_read(&m, annotated.data, annotated.size), SP_OK, "%s", m.err.message);
        cr_expect_eq(onnx_read(&old, file.data, file.size), SP_OK, "%s", old.err.message);
        cr_expect_geq(m.model->ir_version, SP_MULTI_DEVICE_IR_VERSION, "%s", files[i]);
        for (size_t j = 0; j < sizeof domains / sizeof domains[0]; j++)
            cr_expect_eq(sp_graph_opset(m.model->graph, domains[j]), sp_graph_opset(old.model->graph, domains[j]), "%s",
                         files[i]);
        onnx_release(&m);
        onnx_release(&old);
        sp_buf_release(&restored);
        sp_buf_release(&annotated);
        sp_buf_release(&file);
    }
}

Test(writer, gives_back_a_long_ir_version)
{
    struct sp_buf file = onnx_encode(GRAPH), whole;
    sp_buf_init(&whole, 10000);
    sp_buf_append(&whole, "\x08\x88\x80\x00", 4); /* 8 in three bytes */
    sp_buf_append(&whole, file.data, file.size);
    struct sp_buf annotated = annotate(&whole, "plan"), restored = strip(&annotated);
    expect_same(&restored, &whole, "long varint");
    sp_buf_release(&restored);
    sp_buf_release(&annotated);
    sp_buf_release(&whole);
    sp_buf_release(&file);
}

/* A model of one node whose payload has `payload` bytes, with length prefixes of these widths. */
static struct sp_buf wide(size_t payload, uint32_t graph_width, uint32_t node_width)
{
    struct sp_buf file;
    unsigned char length[10];
    sp_buf_init(&file, 1 << 20);
    sp_buf_append(&file, "\x08\x08\x3a", 3);
    sp_wire_put_varint(length, 1 + node_width + payload, graph_width);
    sp_buf_append(&file, length, graph_width);
    sp_buf_append(&file, "\x0a", 1);
    sp_wire_put_varint(length, payload, node_width);
    sp_buf_append(&file, length, node_width);
    sp_buf_append(&file, "\x12\x01y\x22\x01R\x32", 7); /* output, op_type, doc_string of what is left */
    const size_t doc = payload - 7 - 2;
    sp_wire_put_varint(length, doc, 2);
    sp_buf_append(&file, length, 2);
    for (size_t i = 0; i < doc; i++)
        sp_buf_append(&file, "d", 1);
    return file;
}

/* Sizes around the places where a length takes one byte more, with every width that the length fits in. */
Test(writer, gives_back_length_prefixes_of_any_width)
{
    for (size_t payload = 20; payload < 140; payload += payload < 80 ? 13 : 1) {
        for (uint32_t graph_width = payload > 122 ? 2 : 1; graph_width <= 5; graph_width++) {
            for (uint32_t node_width = payload > 127 ? 2 : 1; node_width <= 5; node_width++) {
                if (sp_wire_varint_size(1 + node_width + payload) > graph_width)
                    continue;
                struct sp_buf file = wide(payload, graph_width, node_width);
                struct sp_buf once = annotate(&file, "one"), twice = annotate(&once, "two");
                struct sp_buf replaced = annotate(&twice, "one"), restored = strip(&once);
                expect_same(&restored, &file, "one annotation");
                sp_buf_release(&restored);
                restored = strip(&twice);
                expect_same(&restored, &file, "two annotations");
                sp_buf_release(&restored);
                restored = strip(&replaced);
                expect_same(&restored, &file, "replaced annotation");
                sp_buf_release(&restored);
                sp_buf_release(&replaced);
                sp_buf_release(&twice);
                sp_buf_release(&once);
                sp_buf_release(&file);
            }
        }
    }
}

Test(writer, replaces_its_own_annotation)
{
    struct sp_buf file = onnx_encode("1:8 " GRAPH);
    struct sp_buf once = annotate(&file, "c0"), again = annotate(&once, "c0");
    expect_same(&again, &once, "annotated again");
    /* Another configuration is added beside it; one record stays, with the original ir_version. */
    struct sp_buf other = annotate(&once, "c1"), restored;
    struct onnx_model m;
    cr_assert_eq(onnx_read(&m, other.data, other.size), SP_OK, "%s", m.err.message);
    cr_expect(m.model->configuration_count == 2 && m.model->metadata_count == 1);
    cr_expect_str_eq(m.model->metadata[0].value,
                     "{\"ir_version\":8,\"ir_version_added\":false,\"configurations\":[\"c0\",\"c1\"]}");
    const struct sp_node *node = &m.model->graph->nodes[1];
    cr_expect(node->configuration_count == 2 && strcmp(node->configurations[0].configuration_id, "c0") == 0 &&
              strcmp(node->configurations[1].configuration_id, "c1") == 0);
    onnx_release(&m);
    restored = strip(&other);
    expect_same(&restored, &file, "stripped");
    sp_buf_release(&restored);
    sp_buf_release(&other);
    sp_buf_release(&again);
    sp_buf_release(&once);
    sp_buf_release(&file);
}

/* Annotations of others under the same name are replaced, also in subgraphs and functions; other names stay. */
Test(writer, replaces_foreign_annotations_of_its_name)
{
    struct sp_buf file = onnx_encode(
        "1:11 26{1'c0' 2:9} 26{1'mine' 2:1} 25{1'f' 10'd' 7{2'q' 4'R' 10{1'c0' 3:4}}} 7{2'g' 1{2'y' 4'If' 10{1'mine' "
        "3:7} 10{3:5 1'c0'} 5{1'b' 20:5 6{1{2'z' 4'R' 10{1'c0'} 10{1'mine'}}}}}}");
    struct sp_buf annotated = annotate(&file, "c0"), restored = strip(&annotated);
    struct sp_buf expected =
        onnx_encode("1:11 26{1'mine' 2:1} 25{1'f' 10'd' 7{2'q' 4'R'}} 7{2'g' 1{2'y' 4'If' 10{1'mine' 3:7} 5{1'b' 20:5 "
                    "6{1{2'z' 4'R' "
                    "10{1'mine'}}}} 10{1'c0' 2h0a0158100010012206080012021802 3:0}}} 26{1'c0' 2:2 3'a' 3'b'} " RECORD(
                        "{\"ir_version\":11,\"ir_version_added\":false,\"configurations\":[\"c0\"]}"));
    expect_same(&annotated, &expected, "annotated");
    sp_buf_release(&expected);
    expected = onnx_encode("1:11 26{1'mine' 2:1} 25{1'f' 10'd' 7{2'q' 4'R'}} 7{2'g' 1{2'y' 4'If' 10{1'mine' 3:7} "
                           "5{1'b' 20:5 6{1{2'z' 4'R' "
                           "10{1'mine'}}}}}}");
    expect_same(&restored, &expected, "stripped");
    sp_buf_release(&expected);
    sp_buf_release(&restored);
    sp_buf_release(&annotated);
    sp_buf_release(&file);
}

Test(writer, strips_everything_without_a_record)
{
    struct sp_buf file =
        onnx_encode("1:12 26{1'a' 2:2} 14{1'k' 2'v'} 7{2'g' 1{2'y' 4'R' 10{1'a' 3:1} 10{1'b'}} 1{2'z' 4'R'}} "
                    "26{1'b' 2:2}");
    struct sp_buf restored = strip(&file);
    struct sp_buf expected = onnx_encode("1:12 14{1'k' 2'v'} 7{2'g' 1{2'y' 4'R'} 1{2'z' 4'R'}}");
    expect_same(&restored, &expected, "stripped");
    sp_buf_release(&expected);
    sp_buf_release(&restored);
    sp_buf_release(&file);
}

/* A model with a configuration of its own, in which the second node has an entry and the first has none. */
#define OWN                                                                                                            \
    "1:11 7{2'g' 11{1'x'} 1{1'x' 2'h' 4'Relu' 3'a'} 1{1'h' 2'y' 4'Relu' 3'b' 10{1'mine' 2{1'h' 2:0 2:1} 3:4}} "        \
    "12{1'y'}} 8{2:17} 26{1'mine' 2:2}"

Test(writer, completes_a_configuration_of_the_file)
{
    struct sp_buf file = onnx_encode(OWN), completed = annotate_with(&file, "mine", true), restored;
    struct sp_buf again = annotate_with(&completed, "mine", true);
    struct onnx_model m;
    cr_assert_eq(onnx_read(&m, completed.data, completed.size), SP_OK, "%s", m.err.message);
    const struct sp_node *nodes = m.model->graph->nodes;
    cr_assert_eq(m.model->configuration_count, 1);
    cr_expect_eq(m.model->configurations[0].num_devices, 2);
    cr_assert_eq(nodes[0].configuration_count, 1);
    cr_expect_eq(nodes[0].configurations[0].spec_count, 1);
    cr_assert_eq(nodes[1].configuration_count, 1);
    cr_expect_eq(nodes[1].configurations[0].spec_count, 1);
    cr_expect_str_eq(nodes[1].configurations[0].specs[0].tensor_name, "h");
    cr_expect_eq(nodes[1].configurations[0].stage, 4);
    onnx_release(&m);
    restored = strip(&completed);
    expect_same(&restored, &file, "completed");
    sp_buf_release(&restored);
    restored = strip(&again);
    expect_same(&restored, &file, "completed twice");
    sp_buf_release(&restored);
    sp_buf_release(&again);
    sp_buf_release(&completed);
    sp_buf_release(&file);
}

/* Specs are added behind those of an entry, and taken off again; a configuration of ours besides does not matter. */
Test(writer, completes_entries_of_nodes)
{
    struct sp_buf file = onnx_encode(
        "1:11 7{2'g' 11{1'x'} 1{1'x' 2'h' 4'Relu' 10{1'mine' 2{1'h' 2:0} 3:4} 10{1'other'}} 12{1'h'}} 8{2:17} "
        "26{1'mine' 2:2} 26{1'other' 2:1}");
    struct sp_buf completed = annotate_with(&file, "mine", true), planned = annotate(&completed, "plan"), restored;
    struct onnx_model m;
    cr_assert_eq(onnx_read(&m, planned.data, planned.size), SP_OK, "%s", m.err.message);
    const struct sp_node *node = &m.model->graph->nodes[0];
    cr_assert_eq(node->configuration_count, 3);
    cr_assert_eq(node->configurations[0].spec_count, 2);
    cr_expect_str_eq(node->configurations[0].specs[0].tensor_name, "h");
    cr_expect_eq(node->configurations[0].stage, 4);
    onnx_release(&m);
    restored = strip(&planned);
    expect_same(&restored, &file, "completed and planned");
    sp_buf_release(&restored);
    restored = strip(&completed);
    expect_same(&restored, &file, "completed");
    sp_buf_release(&restored);
    sp_buf_release(&planned);
    sp_buf_release(&completed);
    sp_buf_release(&file);
}

Test(writer, refuses_damaged_records)
{
    static const char *const records[] = {
        "not JSON",
        "{}",
        "[]",
        "{\"ir_version\":\"8\",\"ir_version_added\":false,\"configurations\":[]}",
        "{\"ir_version\":-8,\"ir_version_added\":false,\"configurations\":[]}",
        "{\"ir_version\":8,\"configurations\":[]}",
        "{\"ir_version\":8,\"ir_version_added\":false,\"configurations\":[1]}",
        "{\"ir_version\":8,\"ir_version_added\":false,\"configurations\":[],\"widths\":\"3:9\"}",
        "{\"ir_version\":8,\"ir_version_added\":false,\"configurations\":[],\"widths\":\"3:2 3:2\"}",
        "{\"ir_version\":8,\"ir_version_added\":false,\"configurations\":[],\"widths\":\"99999999999:2\"}",
        "{\"ir_version\":8,\"ir_version_added\":false,\"configurations\":[],\"widths\":7}",
    };
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        struct sp_buf text, file;
        struct onnx_model m;
        struct sp_splice *splice;
        struct sp_error err = {0};
        sp_buf_init(&text, 10000);
        sp_buf_printf(&text, "1:8 7{2'g'} " RECORD("%s"), records[i]);
        file = onnx_encode(text.data);
        cr_assert_eq(onnx_read(&m, file.data, file.size), SP_OK);
        cr_expect_eq(sp_onnx_strip(m.model, &splice, &err), SP_ERR_MODEL, "%s", records[i]);
        cr_expect_str_eq(err.code, "BAD_ANNOTATION_RECORD");
        onnx_release(&m);
        sp_buf_release(&file);
        sp_buf_release(&text);
    }
}

Test(writer, refuses_wrong_annotations)
{
    struct sp_buf file = onnx_encode("1:8 " GRAPH);
    struct onnx_model m;
    struct sp_splice *splice;
    cr_assert_eq(onnx_read(&m, file.data, file.size), SP_OK);
    const struct sp_node *nodes = m.model->graph->nodes;
    struct sp_annotation wrong[] = {{.node = &nodes[1]}, {.node = &nodes[0]}};
    const struct sp_annotations cases[] = {
        {.configuration = "", .num_devices = 1},
        {.configuration = "\xff", .num_devices = 1},
        {.configuration = "c", .num_devices = 0},
        {.configuration = "c", .num_devices = 1, .count = 2, .nodes = wrong},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(sp_onnx_annotate(m.model, &cases[i], &splice, NULL), SP_ERR_REQUEST, "case %zu", i);
    onnx_release(&m);
    sp_buf_release(&file);
}

/* ---- subgraphs ------------------------------------------------------------------------------------------------- */

/* A Loop whose body holds an If; the If's branch ends where the If, the body and the Loop end. */
#define NESTED                                                                                                         \
    "1:9 7{1{1'm' 1'' 1'x' 2'y' 4'Loop' 3'loop' 5{1'body' 20:5 6{11{1'i'} 11{1'c'} 11{1's'} 12{1'c'} 12{1'q'} "        \
    "1{1's' 2'p' 4'Relu' 3'before'} 1{1'c' 2'q' 4'If' 3'if' "                                                          \
    "5{1'else_branch' 20:5 6{1{1'p' 2'e' 4'Neg' 3'else'} 12{1'e'}}} "                                                  \
    "5{1'then_branch' 20:5 6{12{1'f'} 1{1'p' 2'f' 4'Abs' 3'then'}}}}}}} 1{1'y' 2'z' 4'Relu' 3'after'} 11{1'm'} "       \
    "11{1'x'} 12{1'z'} 2'g'} 8{2:17}"

/* All nodes of a graph and, one level after the other, of the graphs in it; those with `skip` in their name are left
   out. */
static uint32_t collect(const struct sp_graph *graph, const char *skip, struct sp_annotation *list, uint32_t room)
{
    const struct sp_graph *graphs[16] = {graph};
    uint32_t count = 0, graph_count = 1;
    for (uint32_t g = 0; g < graph_count; g++) {
        for (uint32_t i = 0; i < graphs[g]->node_count; i++) {
            const struct sp_node *node = &graphs[g]->nodes[i];
            cr_assert(count < room);
            if (strstr(skip, node->name) == NULL)
                list[count++].node = node;
            for (uint32_t k = 0; k < node->attribute_count; k++) {
                if (node->attributes[k].type == SP_ATTR_GRAPH)
                    graphs[graph_count++] = node->attributes[k].graphs[0];
            }
        }
    }
    qsort(list, count, sizeof(*list), sp_annotation_by_place);
    for (uint32_t i = 0; i < count; i++)
        list[i].configuration = (struct sp_node_configuration){.has_stage = true, .stage = (int32_t)i};
    return count;
}

static struct sp_buf annotate_nested(const struct sp_buf *file, const char *configuration, const char *skip)
{
    struct onnx_model m;
    struct sp_splice *splice;
    struct sp_annotation list[16] = {0};
    struct sp_error err = {0};
    cr_assert_eq(onnx_read(&m, file->data, file->size), SP_OK, "%s", m.err.message);
    struct sp_annotations annotations = {.configuration = configuration,
                                         .num_devices = 1,
                                         .count = collect(m.model->graph, skip, list, 16),
                                         .nodes = list};
    cr_assert_eq(sp_onnx_annotate(m.model, &annotations, &splice, &err), SP_OK, "%s", err.message);
    struct sp_buf result = onnx_result(splice, file->data);
    onnx_release(&m);
    return result;
}

/* Stages are numbered in the order of the file: a node before the nodes in it. */
Test(writer, annotates_nodes_of_subgraphs)
{
    struct sp_buf file = onnx_encode(NESTED);
    struct sp_buf annotated = annotate_nested(&file, "c0", "none"), restored = strip(&annotated);
    struct sp_buf expected = onnx_encode(
        "1:11 7{1{1'm' 1'' 1'x' 2'y' 4'Loop' 3'loop' 5{1'body' 20:5 6{11{1'i'} 11{1'c'} 11{1's'} 12{1'c'} 12{1'q'} "
        "1{1's' 2'p' 4'Relu' 3'before' 10{1'c0' 3:1}} 1{1'c' 2'q' 4'If' 3'if' "
        "5{1'else_branch' 20:5 6{1{1'p' 2'e' 4'Neg' 3'else' 10{1'c0' 3:3}} 12{1'e'}}} "
        "5{1'then_branch' 20:5 6{12{1'f'} 1{1'p' 2'f' 4'Abs' 3'then' 10{1'c0' 3:4}}}} 10{1'c0' 3:2}}}} 10{1'c0' 3:0}} "
        "1{1'y' 2'z' 4'Relu' 3'after' 10{1'c0' 3:5}} 11{1'm'} 11{1'x'} 12{1'z'} 2'g'} 8{2:17} 26{1'c0' 2:1} " RECORD(
            "{\"ir_version\":9,\"ir_version_added\":false,\"configurations\":[\"c0\"]}"));
    expect_same(&annotated, &expected, "annotated");
    expect_same(&restored, &file, "stripped");
    sp_buf_release(&expected);
    sp_buf_release(&restored);
    sp_buf_release(&annotated);
    sp_buf_release(&file);
}

Test(writer, annotates_some_nodes_of_subgraphs_twice)
{
    static const char *const skips[] = {"loop", "then else", "if before", "loop if after", "after", "before else"};
    struct sp_buf file = onnx_encode(NESTED);
    for (size_t i = 0; i < sizeof skips / sizeof skips[0]; i++) {
        struct sp_buf once = annotate_nested(&file, "c0", skips[i]), twice = annotate_nested(&once, "c1", "loop then");
        struct sp_buf again = annotate_nested(&twice, "c1", "none"), back = annotate_nested(&again, "c1", "loop then");
        struct sp_buf restored = strip(&twice);
        expect_same(&restored, &file, skips[i]);
        expect_same(&back, &twice, skips[i]);
        sp_buf_release(&restored);
        restored = strip(&again);
        expect_same(&restored, &file, skips[i]);
        sp_buf_release(&restored);
        sp_buf_release(&back);
        sp_buf_release(&again);
        sp_buf_release(&twice);
        sp_buf_release(&once);
    }
    sp_buf_release(&file);
}

Test(writer, refuses_nodes_that_are_in_no_file)
{
    struct sp_buf file = onnx_encode(NESTED);
    struct onnx_model m;
    struct sp_splice *splice;
    cr_assert_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
    struct sp_graph body = {.model = m.model, .owner = &m.model->graph->nodes[0]}; /* as an expanded call has it */
    struct sp_node inside = {.graph = &body, .span = m.model->graph->nodes[0].span};
    struct sp_annotation list[] = {{.node = &m.model->graph->nodes[0]}, {.node = &m.model->graph->nodes[0]}};
    struct sp_annotations annotations = {.configuration = "c", .num_devices = 1, .count = 2, .nodes = list};
    cr_expect_eq(sp_onnx_annotate(m.model, &annotations, &splice, NULL), SP_ERR_REQUEST, "one node twice");
    annotations.count = 1;
    list[0].node = &inside;
    cr_expect_eq(sp_onnx_annotate(m.model, &annotations, &splice, NULL), SP_ERR_REQUEST, "a node of a call");
    onnx_release(&m);
    sp_buf_release(&file);
}

/* ---- real files ------------------------------------------------------------------------------------------------ */

struct tally {
    unsigned files, identical;
};

static void round_trip(const char *path, const void *bytes, size_t size, void *context)
{
    struct tally *tally = context;
    struct sp_buf file = {.data = (char *)(uintptr_t)bytes, .size = size};
    struct onnx_model before, after;
    tally->files++;
    enum sp_status status = onnx_read(&before, bytes, size);
    cr_expect_eq(status, SP_OK, "%s: %s", path, before.err.message);
    if (status != SP_OK) {
        onnx_release(&before);
        return;
    }
    struct sp_buf annotated = annotate(&file, "test of the writer"), restored = strip(&annotated);
    if (restored.size == size && memcmp(restored.data, bytes, size) == 0)
        tally->identical++;
    else
        (void)fprintf(stderr, "# not restored: %s\n", path);
    cr_expect_eq(onnx_read(&after, annotated.data, annotated.size), SP_OK, "%s: %s", path, after.err.message);
    const struct sp_model *a = before.model, *b = after.model;
    cr_expect(a->counts.nodes == b->counts.nodes && a->counts.values == b->counts.values &&
                  a->counts.tensors == b->counts.tensors && a->counts.attributes == b->counts.attributes &&
                  a->metadata_count + 1 == b->metadata_count && a->configuration_count + 1 == b->configuration_count,
              "%s", path);
    for (uint32_t i = 0; i < a->graph->node_count; i++)
        cr_expect_eq(b->graph->nodes[i].configuration_count, a->graph->nodes[i].configuration_count + 1, "%s", path);
    onnx_release(&before);
    onnx_release(&after);
    sp_buf_release(&restored);
    sp_buf_release(&annotated);
}

static void expect_round_trips(const char *folder)
{
    struct tally tally = {0};
    if (!onnx_each_file(folder, round_trip, &tally))
        cr_skip("no test data");
    cr_expect_eq(tally.identical, tally.files);
}

Test(writer, gives_back_exported_models)
{
    expect_round_trips(onnx_data("models"));
}

Test(writer, gives_back_onnx_light)
{
    expect_round_trips(onnx_data("onnx-light"));
}

Test(writer, gives_back_the_multi_device_corpus)
{
    expect_round_trips(onnx_data("multi-device-corpus"));
}

Test(writer, gives_back_the_backend_tests)
{
    const char *folder = onnx_unpack_backend_tests();
    if (folder == NULL)
        cr_skip("no test data");
    expect_round_trips(folder);
    onnx_remove_folder(folder);
}
