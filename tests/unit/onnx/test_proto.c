/*
 * The schema against published encodings, and the generated code against real files: a file of a canonical writer
 * (fields in the order of their numbers, shortest numbers) comes out of unpacking and packing as it went in.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "onnx_files.h"

static void expect_stable(const ProtobufCMessageDescriptor *descriptor, const char *notation)
{
    struct sp_buf bytes = onnx_encode(notation);
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, NULL, bytes.size, (const uint8_t *)bytes.data);
    cr_assert_not_null(message, "%s", notation);
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(size + 1);
    cr_assert_not_null(packed);
    cr_expect_eq(protobuf_c_message_pack(message, packed), bytes.size, "%s", notation);
    cr_expect_eq(memcmp(packed, bytes.data, bytes.size), 0, "%s", notation);
    cr_expect_eq(message->n_unknown_fields, 0, "%s: the schema lacks a field", notation);
    free(packed);
    protobuf_c_message_free_unpacked(message, NULL);
    sp_buf_release(&bytes);
}

/* Every field of the messages that have most of them, in the order in which a proto2 writer puts them. */
Test(proto, knows_every_field)
{
    expect_stable(&onnx__model_proto__descriptor,
                  "1:14 2'p' 3'v' 4'd' 5:1 6's' 7{} 8{1'' 2:21} 14{1'k' 2'v'} 20{1{} 2{} 3{1'a'} 4{2'b'}} 25{} 26{1'c' "
                  "2:2 3'x' 3'y'}");
    expect_stable(&onnx__graph_proto__descriptor,
                  "1{} 2'g' 5{} 10'doc' 11{1'x' 2{} 3'd' 4{1'k'}} 12{} 13{} 14{1't' 2{1'SCALE' 2's'}} 15{1{} 2{} 3:4} "
                  "16{1'k'}");
    expect_stable(&onnx__node_proto__descriptor,
                  "1'x' 2'y' 3'n' 4'Relu' 5{} 6'doc' 7'd' 8'o' 9{1'k'} 10{1'c' 2{1'x'} 3:0}");
    expect_stable(&onnx__attribute_proto__descriptor,
                  "1'a' 2~1.5 3:-1 4'bytes' 5{} 6{} 7~0.5 8:1 8:2 9'q' 10{} 11{} 13'd' 14{} 15{} 20:3 21'r' 22{} 23{}");
    expect_stable(&onnx__tensor_proto__descriptor,
                  "1:2 1:3 2:1 3{1:0 2:1} 4h0000803f 5h01 6's' 7h02 8'w' 9h00 10h0000000000000000 11h01 12'd' 13{1'k' "
                  "2'v'} 14:1 16{1'k'}");
    expect_stable(&onnx__function_proto__descriptor, "1'f' 4'x' 5'y' 6'a' 7{} 8'd' 9{} 10'dom' 11{} 12{} 13'o' 14{}");
    expect_stable(&onnx__type_proto__descriptor, "1{1:1 2{1{1:2 3'N'} 1{2'n'} 1{}}} 6'd'");
    expect_stable(&onnx__type_proto__descriptor, "4{1{9{1{8{1:1 2{}}}}}}");
    expect_stable(&onnx__type_proto__descriptor, "5{1:8 2{7{1'd' 2'n'}}}");
    expect_stable(&onnx__sequence_proto__descriptor,
                  "1's' 2:1 3{} 4{} 5{} 6{1'm' 2:7 3:1 4'k' 5{}} 7{1'o' 2:1 3{} 4{} 5{} 6{} 7{}}");
    expect_stable(&onnx__operator_set_proto__descriptor,
                  "1'ONNXOPSET' 2:1 3'' 4'd' 5:1 6'd' 7'm' 8{1'o' 2:1 3:1 10'd'} 9{}");
}

/* Encodings of ShardingSpecProto for the examples of proposals 0006 and 0007, made with the official library. */
Test(proto, encodes_the_examples_of_the_proposals)
{
    static const struct {
        const char *notation, *hex;
    } cases[] = {
        {"1'X' 2:0 2:1 4{1:0 2{3:2}}", "0a0158100010012206080012021802"},
        {"1'X' 2:0 2:1 4{1:1 2{3:2}}", "0a0158100010012206080112021802"},
        {"1'X' 2:0 2:1 2:2 2:3 4{1:0 2{3:2}} 4{1:1 2{3:2}}", "0a0158100010011002100322060800120218022206080112021802"},
        {"1'X' 2:-1 3{1:-1 2:0 2:1}", "0a015810ffffffffffffffffff011a0f08ffffffffffffffffff0110001001"},
        {"1'X' 2:0 2:1 4{1:-1 2{2'N' 3:2}}", "0a015810001001221208ffffffffffffffffff01120512014e1802"},
        {"1'X' 2:0 2:1 4{1:0 2{1:4 3:2} 2{2'N' 3:1}}", "0a015810001001220f0800120408041802120512014e1801"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_buf bytes = onnx_encode(cases[i].notation);
        char hex[256] = "";
        for (size_t k = 0; k < bytes.size; k++)
            (void)snprintf(hex + 2 * k, 3, "%02x", (unsigned char)bytes.data[k]);
        cr_expect_str_eq(hex, cases[i].hex);
        expect_stable(&onnx__sharding_spec_proto__descriptor, cases[i].notation);
        sp_buf_release(&bytes);
    }
    expect_stable(&onnx__node_device_configuration_proto__descriptor, "1'c0' 3:0");
    expect_stable(&onnx__device_configuration_proto__descriptor, "1'c0' 2:2 3'a' 3'b'");
}

struct tally {
    unsigned files, equal;
};

static void repack(const char *path, const void *bytes, size_t size, void *context)
{
    struct tally *tally = context;
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, bytes);
    tally->files++;
    cr_expect_not_null(model, "%s", path);
    if (model == NULL)
        return;
    uint8_t *packed = malloc(onnx__model_proto__get_packed_size(model) + 1);
    cr_assert_not_null(packed);
    size_t packed_size = onnx__model_proto__pack(model, packed);
    if (packed_size == size && memcmp(packed, bytes, size) == 0)
        tally->equal++;
    else
        (void)fprintf(stderr, "# not canonical: %s (%zu bytes, packed %zu)\n", path, size, packed_size);
    free(packed);
    onnx__model_proto__free_unpacked(model, NULL);
}

static void expect_repacked(const char *folder)
{
    struct tally tally = {0};
    if (!onnx_each_file(folder, repack, &tally))
        cr_skip("no test data");
    cr_expect_eq(tally.equal, tally.files, "%u of %u files are reproduced", tally.equal, tally.files);
}

Test(proto, reproduces_exported_models)
{
    expect_repacked(onnx_data("models"));
}

Test(proto, reproduces_onnx_light)
{
    expect_repacked(onnx_data("onnx-light"));
}

Test(proto, reproduces_the_multi_device_corpus)
{
    expect_repacked(onnx_data("multi-device-corpus"));
}

Test(proto, reproduces_the_backend_tests)
{
    const char *folder = onnx_unpack_backend_tests();
    if (folder == NULL)
        cr_skip("no test data");
    expect_repacked(folder);
    onnx_remove_folder(folder);
}
