/*
 * The golden bytes of ONNX's multi-device messages in canonical proto2 encoding (made with protoc from onnx-ml.proto,
 * examples of proposals 0006 and 0007), and the device composition example of proposal 0007.
 */
#include <stdlib.h>
#include <string.h>

#include "../unit/support/compose.h"
#include "../unit/support/spec_bytes.h"
#include "onnx/reader.h"
#include "onnx/write.h"
#include "ort_cases.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define SPLIT(axis)     "{\"axis\":" #axis ",\"simpleSharding\":[{\"numShards\":2}]}"

static const struct {
    const char *id, *hex, *json;
} specs[] = {
    {"split-axis-0", "0a0158100010012206080012021802",
     "{\"tensorName\":\"X\",\"device\":[0,1],\"shardedDim\":[" SPLIT(0) "]}"},
    {"split-axis-1", "0a0158100010012206080112021802",
     "{\"tensorName\":\"X\",\"device\":[0,1],\"shardedDim\":[" SPLIT(1) "]}"},
    {"split-axes-0-and-1", "0a0158100010011002100322060800120218022206080112021802",
     "{\"tensorName\":\"X\",\"device\":[0,1,2,3],\"shardedDim\":[" SPLIT(0) "," SPLIT(1) "]}"},
    {"replicated", "0a015810ffffffffffffffffff011a0f08ffffffffffffffffff0110001001",
     "{\"tensorName\":\"X\",\"device\":[-1],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]}]}"},
    {"split-and-replicated",
     "0a015810ffffffffffffffffff0110feffffffffffffffff011a0f08ffffffffffffffffff01100010011a0f08feffffffffffffffff01100"
     "210"
     "032206080012021802",
     "{\"tensorName\":\"X\",\"device\":[-1,-2],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]},{\"key\":-2,"
     "\"value\":[2,3]}],\"shardedDim\":[" SPLIT(0) "]}"},
    {"0007-input-2",
     "0a015810ffffffffffffffffff0110feffffffffffffffff011a0f08ffffffffffffffffff01100010021a0f08feffffffffffffffff01100"
     "110"
     "032206080112021802",
     "{\"tensorName\":\"X\",\"device\":[-1,-2],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,2]},{\"key\":-2,"
     "\"value\":[1,3]}],\"shardedDim\":[" SPLIT(1) "]}"},
    {"negative-axis-and-symbol", "0a015810001001221208ffffffffffffffffff01120512014e1802",
     "{\"tensorName\":\"X\",\"device\":[0,1],\"shardedDim\":[{\"axis\":-1,\"simpleSharding\":[{\"dimParam\":\"N\","
     "\"numShards\":2}]}]}"},
    {"two-simple-shardings", "0a015810001001220f0800120408041802120512014e1801",
     "{\"tensorName\":\"X\",\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":4,"
     "\"numShards\":2},{\"dimParam\":\"N\",\"numShards\":1}]}]}"},
};

/* NodeDeviceConfigurationProto "c0" with stage 0; DeviceConfigurationProto "c0" with 2 devices, a and b. */
static const char *const node_configuration_hex = "0a0263301800";
static const char *const configuration_hex = "0a02633010021a01611a0162";

static size_t from_hex(const char *hex, unsigned char *bytes, size_t size)
{
    size_t count = strlen(hex) / 2;
    for (size_t i = 0; i < count && i < size; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return count;
}

static void expect_bytes(struct tap_case *test, const struct sp_buf *buf, const char *hex)
{
    char found[512] = "";
    for (size_t i = 0; i < buf->size && 2 * i + 2 < sizeof found; i++)
        (void)snprintf(found + 2 * i, 3, "%02x", (unsigned char)buf->data[i]);
    if (strcmp(found, hex) != 0)
        case_differs(test, "expected %s, found %s", hex, found);
}

static void expect_json(struct tap_case *test, const struct sp_sharding_spec *spec, const char *expected)
{
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, 1 << 16);
    sp_json_init_buf(&json, false, &buf);
    sp_onnx_spec_write_json(spec, &json);
    if (sp_json_finish(&json, &test->err) != SP_OK || strcmp(buf.data, expected) != 0)
        case_differs(test, "expected %s, found %s", expected, buf.data);
    sp_buf_release(&buf);
}

static void expect_encoded(struct tap_case *test, const struct sp_sharding_spec *spec, const char *hex)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 16);
    if (sp_encode_sharding_spec(spec, test->arena, &buf, &test->err) != SP_OK)
        case_differs(test, "not written: %s", test->err.message);
    else
        expect_bytes(test, &buf, hex);
    sp_buf_release(&buf);
}

/* JSON to bytes, bytes to JSON; and through the meaning to the same bytes, where the form is the canonical one. */
static void check_spec(struct tap_case *test, size_t i)
{
    unsigned char bytes[256];
    size_t size = from_hex(specs[i].hex, bytes, sizeof bytes);
    struct sp_sharding_spec spec = {0};
    if (sp_onnx_spec_read_json(test->arena, specs[i].json, strlen(specs[i].json), &spec, &test->err) != SP_OK) {
        case_differs(test, "JSON is not read: %s", test->err.message);
        return;
    }
    expect_encoded(test, &spec, specs[i].hex);
    if (spec_read_bytes(test->arena, bytes, size, &spec, &test->err) != SP_OK) {
        case_differs(test, "bytes are not read: %s", test->err.message);
        return;
    }
    expect_json(test, &spec, specs[i].json);
    if (strcmp(specs[i].id, "negative-axis-and-symbol") == 0)
        return; /* written with axis 1 */
    struct sp_dialect_context context = {.rank = 2, .tensor_name = "X"};
    struct sp_sharding *sharding;
    struct sp_losses losses = {0};
    if (sp_onnx_spec_to_sharding(test->arena, &spec, &context, &sharding, &losses, &test->err) != SP_OK ||
        sp_onnx_spec_from_sharding(test->arena, sharding, &context, &spec, &losses, &test->err) != SP_OK) {
        case_differs(test, "no sharding: %s", test->err.message);
        return;
    }
    expect_encoded(test, &spec, specs[i].hex);
}

/* A model with one node and both messages, read; then the messages written again. */
static void check_configurations(struct tap_case *test)
{
    unsigned char node[64], configuration[64];
    size_t node_size = from_hex(node_configuration_hex, node, sizeof node);
    size_t configuration_size = from_hex(configuration_hex, configuration, sizeof configuration);
    struct sp_buf node_field, graph_field, body, model, written;
    struct sp_buf *const all[] = {&node_field, &graph_field, &body, &model, &written};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        sp_buf_init(all[i], 1 << 16);
    sp_encode_field(2, "y", 1, &body);    /* output */
    sp_encode_field(4, "Relu", 4, &body); /* op_type */
    sp_encode_field(10, node, node_size, &body);
    sp_encode_field(1, body.data, body.size, &graph_field); /* node */
    sp_encode_field(2, "g", 1, &graph_field);               /* name */
    sp_buf_append(&model, "\x08\x0b", 2);                   /* ir_version 11 */
    sp_encode_field(7, graph_field.data, graph_field.size, &model);
    sp_encode_field(26, configuration, configuration_size, &model);
    struct sp_read_options options = {0};
    struct sp_model *read;
    if (sp_onnx_read(test->arena, model.data, model.size, &options, &read, &test->err) != SP_OK) {
        case_differs(test, "not read: %s", test->err.message);
        goto done;
    }
    const struct sp_device_configuration *devices = read->configurations;
    const struct sp_node_configuration *of_node = read->graph->nodes[0].configurations;
    if (read->configuration_count != 1 || strcmp(devices->name, "c0") != 0 || devices->num_devices != 2 ||
        devices->device_count != 2 || strcmp(devices->devices[0], "a") != 0 || strcmp(devices->devices[1], "b") != 0)
        case_differs(test, "the model's configuration is read wrongly");
    if (read->graph->nodes[0].configuration_count != 1 || strcmp(of_node->configuration_id, "c0") != 0 ||
        !of_node->has_stage || of_node->stage != 0 || of_node->spec_count != 0)
        case_differs(test, "the node's configuration is read wrongly");
    struct sp_annotations annotations = {.configuration = "c0", .num_devices = 2, .device_names = devices->devices};
    char expected[256];
    if (sp_encode_configuration(&annotations, test->arena, &written, &test->err) != SP_OK)
        case_differs(test, "not written: %s", test->err.message);
    (void)snprintf(expected, sizeof expected, "d201%02zx%s", configuration_size, configuration_hex);
    expect_bytes(test, &written, expected);
    sp_buf_clear(&written);
    if (sp_encode_node_configuration("c0", of_node, test->arena, &written, &test->err) != SP_OK)
        case_differs(test, "not written: %s", test->err.message);
    (void)snprintf(expected, sizeof expected, "52%02zx%s", node_size, node_configuration_hex);
    expect_bytes(test, &written, expected);
done:
    for (size_t i = 0; i < COUNT_OF(all); i++)
        sp_buf_release(all[i]);
}

/* Add(A[M,1], B[1,N]) of proposal 0007: Y is on devices 0 to 3, both axes in 2. */
static void check_composition(struct tap_case *test)
{
    static const int64_t a_shape[] = {4, 1}, b_shape[] = {1, 6}, y_shape[] = {4, 6};
    static const int64_t *const shapes[] = {a_shape, b_shape};
    static const uint32_t ranks[] = {2, 2};
    struct sp_dialect_context context = {.rank = 2, .shape = a_shape};
    const struct sp_sharding *inputs[2];
    struct sp_sharding *result;
    struct sp_sharding_spec spec;
    struct sp_losses losses = {0};
    inputs[0] = case_read(test, SP_DIALECT_ONNX,
                          "{\"device\":[-1,-2],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]},{\"key\":-2,"
                          "\"value\":[2,3]}],\"shardedDim\":[" SPLIT(0) "]}",
                          &context);
    context.shape = b_shape;
    inputs[1] = case_read(test, SP_DIALECT_ONNX,
                          "{\"device\":[-1,-2],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,2]},{\"key\":-2,"
                          "\"value\":[1,3]}],\"shardedDim\":[" SPLIT(1) "]}",
                          &context);
    if (inputs[0] == NULL || inputs[1] == NULL)
        return;
    context.shape = y_shape;
    if (compose_shardings(test->arena, 2, inputs, ranks, shapes, 0, &result, &test->err) != SP_OK ||
        sp_onnx_spec_from_sharding(test->arena, result, &context, &spec, &losses, &test->err) != SP_OK) {
        case_differs(test, "not composed: %s", test->err.message);
        return;
    }
    expect_json(
        test, &spec,
        "{\"device\":[0,1,2,3],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":4,\"numShards\":2}]},"
        "{\"axis\":1,\"simpleSharding\":[{\"dimValue\":6,\"numShards\":2}]}]}");
}

bool run_golden(void)
{
    struct tap_count golden = {.kind = "onnx/golden"}, composition = {.kind = "onnx/composition"};
    struct tap_case test;
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        case_begin(&test);
        check_spec(&test, i);
        case_end(&test, &golden, specs[i].id);
    }
    case_begin(&test);
    check_configurations(&test);
    case_end(&test, &golden, "configurations");
    case_begin(&test);
    check_composition(&test);
    case_end(&test, &composition, "0007-add");
    bool golden_passed = count_end(&golden);
    return count_end(&composition) && golden_passed;
}
