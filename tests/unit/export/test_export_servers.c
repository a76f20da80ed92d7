/* Options of servers of language models. The notation of files is that of onnx_files.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "build_export.h"
#include "onnx_files.h"

/* A node of a layer: y = Relu(x), on a device of a stage. */
#define LAYER(name, from, to, device, stage)                                                                           \
    " 1{1'" from "' 2'" to "' 3'" name "' 4'Relu' 10{1'a' 2{1'" to "' 2:" device "} 3:" stage "}}"
#define MODEL(devices, nodes)                                                                                          \
    "1:11 8{2:18} 26{1'a' 2:" devices "} 7{2'g' " nodes                                                                \
    " 11{1'x' 2{1{1:1 2{1{1:4} 1{1:4}}}}} 12{1'y' 2{1{1:1 2{1{1:4} 1{1:4}}}}}}"

/* Three layers on two stages: two on the first one. */
#define UNEVEN                                                                                                         \
    MODEL("2", LAYER("/embed", "x", "e", "0", "0") LAYER("/layers.0/act", "e", "a", "0", "0")                          \
                   LAYER("/layers.1/act", "a", "b", "0", "0") LAYER("/layers.2/act", "b", "c", "1", "1")               \
                       LAYER("/head", "c", "y", "1", "1"))
#define EVEN MODEL("2", LAYER("/layers.0/act", "x", "a", "0", "0") LAYER("/layers.1/act", "a", "y", "1", "1"))
/* One layer of two products whose weights are split over both devices of the only stage. */
#define SPLIT(tensor, axis, extent) "2{1'" tensor "' 2:0 2:1 4{1:" axis " 2{1:" extent " 3:2}}}"
#define WHOLE(tensor)               "2{1'" tensor "' 2:-1 3{1:-1 2:0 2:1}}"
/* Eight floats. */
#define ZEROS        "0000000000000000000000000000000000000000000000000000000000000000"
#define WEIGHT(name) "5{1:4 1:4 2:1 8'" name "' 9h" ZEROS ZEROS "}"
#define TENSOR                                                                                                         \
    "1:11 8{2:18} 26{1'a' 2:2} 7{2'g' " WEIGHT("layers.0.up")                                                          \
        WEIGHT("layers.0.down") " 1{1'x' 1'layers.0.up' 2'h' 3'one' 4'MatMul' 10{1'a' " WHOLE("x")                     \
            SPLIT("layers.0.up", "1", "4")                                                                             \
                SPLIT("h", "1",                                                                                        \
                      "4") "}}"                                                                                        \
                           " 1{1'h' 1'layers.0.down' 2'y' 3'two' 4'MatMul' 10{1'a' " SPLIT("h", "1", "4")              \
                               SPLIT("layers.0.down", "0", "4") WHOLE(                                                 \
                                   "y") "}}"                                                                           \
                                        " 11{1'x' 2{1{1:1 2{1{1:4} 1{1:4}}}}} 12{1'y' 2{1{1:1 2{1{1:4} 1{1:4}}}}}}"
/* The same product with the requests split, and the weight whole. */
#define BATCH                                                                                                          \
    "1:11 8{2:18} 26{1'a' 2:2} 7{2'g' " WEIGHT(                                                                        \
        "layers.0.up") " 1{1'x' 1'layers.0.up' 2'y' 3'one' 4'MatMul' 10{1'a' " SPLIT("x", "0", "4")                    \
        WHOLE("layers.0.up")                                                                                           \
            SPLIT("y", "0", "4") "}}"                                                                                  \
                                 " 11{1'x' 2{1{1:1 2{1{1:4} 1{1:4}}}}} 12{1'y' 2{1{1:1 2{1{1:4} 1{1:4}}}}}}"

static const struct {
    const char *model, *format, *expected; /* the text, or the code of the error */
} cases[] = {
    {UNEVEN, "vllm-args", "VLLM_PP_LAYER_PARTITION=2,1\n--tensor-parallel-size 1 --pipeline-parallel-size 2\n"},
    {UNEVEN, "sglang-args", "SGLANG_PP_LAYER_PARTITION=2,1\n--tp-size 1 --pp-size 2\n"},
    {UNEVEN, "trtllm-args", "--tp_size 1 --pp_size 2\npp_partition: [2, 1]\n"},
    {UNEVEN, "llamacpp-args", "-sm layer -ts 2,1 -dev CUDA0,CUDA1 -ngl all\n"},
    {UNEVEN, "mlx", "LAYERS_UNEVEN"},
    {UNEVEN, "olive-splits", "embed=0;layers.0=0;layers.1=0;layers.2=1;head=1\n"},
    {UNEVEN, "ort-layers-names",
     "{\"session.name_based_layer_assignment\": \"gpu:0(/embed, /layers.0/act, /layers.1/act); "
     "gpu:1(/layers.2/act, /head)\"}\n"},
    {MODEL("2", LAYER("a,b", "x", "a", "0", "0") LAYER("c", "a", "y", "1", "1")), "ort-layers-names", "NODE_NAMES"},
    {TENSOR, "polygraphy-hints", "NOT_BY_SEQUENCE"},
    {UNEVEN, "polygraphy-hints", "NOT_BY_SEQUENCE"},
    {TENSOR, "olive-splits", "NODE_IS_SPLIT"},
    {EVEN, "vllm-args", "--tensor-parallel-size 1 --pipeline-parallel-size 2\n"},
    {EVEN, "sglang-args", "--tp-size 1 --pp-size 2\n"},
    {EVEN, "trtllm-args", "--tp_size 1 --pp_size 2\n"},
    {EVEN, "mlx", "--backend ring --pipeline\n"},
    {TENSOR, "vllm-args", "--tensor-parallel-size 2 --pipeline-parallel-size 1\n"},
    {TENSOR, "llamacpp-args", "-sm tensor -fa on -ts 1,1 -dev CUDA0,CUDA1 -ngl all\n"},
    {TENSOR, "mlx", "--backend ring\n"},
    {BATCH, "vllm-args", "NOT_BY_WEIGHTS"},
    {MODEL("2", LAYER("/layers.0/one", "x", "a", "0", "0") LAYER("/layers.0/two", "a", "y", "1", "1")), "vllm-args",
     "LAYER_IS_CUT"},
    {MODEL("2", LAYER("/layers.1/act", "x", "a", "0", "0") LAYER("/layers.0/act", "a", "y", "1", "1")), "vllm-args",
     "LAYERS_UNORDERED"},
    {MODEL("2", LAYER("act", "x", "a", "0", "0") LAYER("act_1", "a", "y", "1", "1")), "vllm-args", "LAYERS_UNKNOWN"},
};

Test(export_servers, options_are_those_of_the_plan_or_it_is_refused)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_buf file = onnx_encode(cases[i].model);
        struct sp_subject *subject = subject_of(&file);
        struct exported text = export_any(subject, cases[i].format);
        cr_expect_str_eq(text.status == SP_OK ? text.bytes.data : text.err.code, cases[i].expected, "case %zu: %s", i,
                         text.err.message);
        exported_release(&text);
        sp_subject_destroy(subject);
        sp_buf_release(&file);
    }
}

/* Of a service: what steps of a copy have, where that is known. */
Test(export_servers, chunks_of_prompts_are_those_of_the_service)
{
    static const struct {
        const char *format;
        struct sp_subject_steps steps;
        const char *expected;
    } of_steps[] = {
        {"vllm-args", {true, 512, 24}, " --enable-chunked-prefill --max-num-batched-tokens 536\n"},
        {"vllm-args", {true, 0, 24}, " --no-enable-chunked-prefill\n"},
        {"vllm-args", {false, 0, 0}, "\n"},
        {"sglang-args", {true, 512, 24}, " --chunked-prefill-size 512 --enable-mixed-chunk\n"},
        {"sglang-args", {true, 0, 24}, " --chunked-prefill-size -1\n"},
        {"sglang-args", {false, 0, 0}, "\n"},
        {"trtllm-args", {true, 512, 24}, "\n"},
    };
    for (size_t i = 0; i < sizeof of_steps / sizeof *of_steps; i++) {
        struct sp_buf file = onnx_encode(EVEN);
        struct sp_subject *subject = subject_of(&file);
        struct exported plain = export_any(subject, of_steps[i].format);
        subject->steps = of_steps[i].steps;
        struct exported text = export_any(subject, of_steps[i].format);
        cr_assert_eq(text.status, SP_OK, "case %zu: %s", i, text.err.message);
        cr_expect_eq(strncmp(text.bytes.data, plain.bytes.data, plain.bytes.size - 1), 0, "case %zu", i);
        cr_expect_str_eq((const char *)text.bytes.data + plain.bytes.size - 1, of_steps[i].expected, "case %zu", i);
        exported_release(&plain);
        exported_release(&text);
        sp_subject_destroy(subject);
        sp_buf_release(&file);
    }
}

/* Attention of sequences that are split over both devices: keys and values are gathered. q is x; k is x turned. */
#define PART(tensor, axis) "2{1'" tensor "' 2:0 2:1 4{1:" axis " 2{1:4 3:2}}}"
#define HINTED                                                                                                         \
    "1:11 8{2:18} 26{1'a' 2:2} 7{2'g'"                                                                                 \
    " 1{1'x' 2'k' 3'turn' 4'Transpose' 10{1'a' " PART("x", "0") PART(                                                  \
        "k",                                                                                                           \
        "1") "}}"                                                                                                      \
             " 1{1'x' 1'k' 2's' 3'scores' 4'MatMul' 10{1'a' " PART("x", "0") WHOLE("k") PART(                          \
                 "s",                                                                                                  \
                 "0") "}}"                                                                                             \
                      " 1{1's' 2'p' 3'weights' 4'Softmax' 10{1'a' " PART("s", "0") PART(                               \
                          "p",                                                                                         \
                          "0") "}}"                                                                                    \
                               " 1{1'p' 1'x' 2'y' 3'mix' 4'MatMul' 10{1'a' " PART("p", "0") WHOLE("x") PART(           \
                                   "y",                                                                                \
                                   "0") "}}"                                                                           \
                                        " 11{1'x' 2{1{1:1 2{1{1:4} 1{1:4}}}}} 12{1'y' 2{1{1:1 2{1{1:4} 1{1:4}}}}}}"

Test(export_servers, hints_of_polygraphy_have_its_members)
{
    struct sp_buf file = onnx_encode(HINTED);
    struct sp_subject *subject = subject_of(&file);
    struct exported text = export_of(subject, "polygraphy-hints");
    json_t *json = json_loadb(text.bytes.data, text.bytes.size, JSON_REJECT_DUPLICATES, NULL);
    char *compact = json_dumps(json, JSON_COMPACT);
    cr_expect_str_eq(
        compact,
        "{\"parallelism\":\"CP\",\"group_size\":0,\"root\":-1,\"groups\":[],\"attention_layers\":[{\"q\":\"x\","
        "\"gather_kv\":true,\"gather_q\":false,\"polygraphy_class\":\"AttentionLayerHint\"}],\"inputs\":[{\"name\":"
        "\"x\",\"seq_len_idx\":0,\"rank\":2,\"polygraphy_class\":\"ShardTensor\"}],\"outputs\":[{\"name\":\"y\","
        "\"seq_len_idx\":0,\"rank\":2,\"polygraphy_class\":\"ShardTensor\"}],\"k_seq_len_idx\":1,"
        "\"v_seq_len_idx\":0,\"kv_rank\":2,\"reduce_scatter_reduce_op\":\"max\","
        "\"polygraphy_class\":\"ShardHints\"}");
    free(compact);
    json_decref(json);
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

/* What Netron shows: the metadata of each node. */
Test(export_servers, netron_shows_metadata_of_nodes)
{
    struct sp_buf file = onnx_encode(UNEVEN);
    struct sp_subject *subject = subject_of(&file);
    struct exported text = export_of(subject, "netron");
    struct onnx_model model;
    cr_assert_eq(onnx_read(&model, text.bytes.data, text.bytes.size), SP_OK, "%s", model.err.message);
    const struct sp_graph *graph = model.model->graph;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const bool is_last = i >= 3;
        const struct sp_span span = graph->nodes[i].span;
        const char *bytes = (const char *)text.bytes.data + span.offset;
        cr_expect_not_null(memmem(bytes, span.size,
                                  is_last ? "\x0fshardplan.stage\x12\x01"
                                            "1"
                                          : "\x0fshardplan.stage\x12\x01"
                                            "0",
                                  19));
        cr_expect_not_null(memmem(bytes, span.size,
                                  is_last ? "\x11shardplan.devices\x12\x01"
                                            "1"
                                          : "\x11shardplan.devices\x12\x01"
                                            "0",
                                  21));
    }
    onnx_release(&model);
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

/* The ranges of layers of exo's shards. */
Test(export_servers, shards_of_exo_are_ranges)
{
    struct sp_buf file = onnx_encode(UNEVEN);
    struct sp_subject *subject = subject_of(&file);
    struct exported text = export_of(subject, "exo");
    json_t *json = json_loadb(text.bytes.data, text.bytes.size, JSON_REJECT_DUPLICATES, NULL);
    char *compact = json_dumps(json, JSON_COMPACT);
    cr_expect_str_eq(compact,
                     "[{\"PipelineShardMetadata\":{\"deviceRank\":0,\"worldSize\":2,\"startLayer\":0,\"endLayer\":2,"
                     "\"nLayers\":3}},{\"PipelineShardMetadata\":{\"deviceRank\":1,\"worldSize\":2,\"startLayer\":2,"
                     "\"endLayer\":3,\"nLayers\":3}}]");
    cr_expect_str_eq(text.notes.data, "MODEL_CARD ");
    free(compact);
    json_decref(json);
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}
