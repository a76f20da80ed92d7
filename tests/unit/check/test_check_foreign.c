/* Shardings of other programs: ONNX Runtime's Distributed* nodes (its published tests and refusals), and XLA's in
   metadata. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_files.h"
#include "data_files.h"

#define STRINGS(name, items) "5{1'" name "' 20:8 " items "}"
#define TEXT(text)           "9'" text "' "
/* All six attributes; a mesh of devices 0 and 1 for all operands. */
#define MESHES(in, out) STRINGS("input_device_mesh_shapes", in) STRINGS("output_device_mesh_shapes", out)
#define MESH_2          TEXT("[2]")
#define ON_01           TEXT("[0,1]")
#define ORT_2(op, in_specs, out_spec, more)                                                                            \
    "1:8 7{2'g' 1{1'A' 1'B' 2'Y' 3'n0' 4'" op "' 7'com.microsoft' " STRINGS("input_shard_specs", in_specs)             \
        STRINGS("input_device_mesh_shapes", MESH_2 MESH_2) STRINGS("input_device_mesh_elements", ON_01 ON_01)          \
            STRINGS("output_shard_specs", out_spec) STRINGS("output_device_mesh_shapes", MESH_2)                       \
                STRINGS("output_device_mesh_elements", ON_01) more "} 11" VALUE("A", DIM("4") DIM("4")) "11" VALUE(    \
                    "B", DIM("4") DIM("4")) "12" VALUE("Y", DIM("4") DIM("4")) "} 8{2:17} 8{1'com.microsoft' 2:1}"
#define MATMUL(a, b, y) ORT_2("DistributedMatMul", TEXT(a) TEXT(b), TEXT(y), "")
/* A node whose attributes are given one by one. */
#define ORT_OF(attributes)                                                                                             \
    "1:8 7{2'g' 1{1'A' 2'Y' 3'n0' 4'DistributedOther' 7'com.microsoft' " attributes                                    \
    "} 11" VALUE("A", DIM("4") DIM("4")) "12" VALUE("Y", DIM("4") DIM("4")) "} 8{2:17} 8{1'com.microsoft' 2:1}"
#define SIX(specs, shapes, elements)                                                                                   \
    STRINGS("input_shard_specs", specs)                                                                                \
    STRINGS("input_device_mesh_shapes", shapes)                                                                        \
    STRINGS("input_device_mesh_elements", elements)                                                                    \
    STRINGS("output_shard_specs", TEXT("RR"))                                                                          \
    STRINGS("output_device_mesh_shapes", MESH_2) STRINGS("output_device_mesh_elements", ON_01)

static const struct check_case attributes[] = {
    {"sound", ORT_OF(SIX(TEXT("RR"), MESH_2, ON_01)), "", NULL},
    {"an attribute is missing", ORT_OF(STRINGS("input_shard_specs", TEXT("RR"))),
     "ORT_ATTRIBUTE_MISSING ORT_ATTRIBUTE_MISSING ORT_ATTRIBUTE_MISSING ORT_ATTRIBUTE_MISSING ORT_ATTRIBUTE_MISSING",
     "'input_device_mesh_shapes'"},
    {"lists of other lengths", ORT_OF(SIX(TEXT("RR"), MESH_2 MESH_2, ON_01)), "ORT_COUNT_MISMATCH",
     "1 input_shard_specs"},
    {"too few specs", ORT_OF(SIX("", "", "")), "ORT_COUNT_MISMATCH", "only 0"},
    {"too many specs", ORT_OF(SIX(TEXT("RR") TEXT("R"), MESH_2 MESH_2, ON_01 ON_01)), "ORT_SPEC_UNUSED", "2 input"},
    {"no spec", ORT_OF(SIX(TEXT("RX"), MESH_2, ON_01)), "ORT_SPEC_INVALID", "shard spec"},
    {"a mesh of three devices for two", ORT_OF(SIX(TEXT("RR"), MESH_2, TEXT("[0,1,2]"))), "ORT_SPEC_INVALID",
     "device mesh"},
    {"an axis that the mesh does not have", ORT_OF(SIX(TEXT("S[1]R"), MESH_2, ON_01)), "ORT_SPEC_INVALID", NULL},
    {"no numbers", ORT_OF(SIX(TEXT("RR"), TEXT("[x]"), ON_01)), "ORT_SPEC_INVALID", NULL},
    {"another rank", ORT_OF(SIX(TEXT("R"), MESH_2, ON_01)), "ORT_RANK_MISMATCH", "rank 2"},
    {"the first version", ORT_OF("5{1'device_mesh_shape' 20:7 8:2}"), "ORT_FIRST_DIALECT", "October 2023"},
    {"not even",
     "1:8 7{2'g' 1{1'A' 2'Y' 3'n0' 4'DistributedOther' 7'com.microsoft' " SIX(
         TEXT("S[0]R"), MESH_2,
         ON_01) "} 11" VALUE("A", DIM("5") DIM("4")) "12" VALUE("Y",
                                                                DIM("4") DIM("4")) "} 8{2:17} 8{1'com.microsoft' 2:1}",
     "ORT_UNEVEN ORT_OPERANDS ORT_COMMUNICATION", "5 elements"},
};

/* The matrix of DistributedMatMul. */
static const struct check_case products[] = {
    {"whole, columns", MATMUL("RR", "RS[0]", "RS[0]"), "", NULL},
    {"columns, rows", MATMUL("RS[0]", "S[0]R", "RR"), "ORT_COMMUNICATION", "all-reduce"},
    {"columns, rows to a scattered result", MATMUL("RS[0]", "S[0]R", "S[0]R"), "ORT_REFUSED ORT_COMMUNICATION",
     "reduce-scatter"},
    {"rows, rows", MATMUL("S[0]R", "S[0]R", "RR"), "ORT_WRONG_RESULT ORT_OPERANDS", "all-reduce is missing"},
    {"whole, whole", MATMUL("RR", "RR", "RR"), "ORT_WRONG_RESULT", "without an output"},
    {"two axes", ORT_2("DistributedMatMul", TEXT("S[0]S[0]") TEXT("RR"), TEXT("RR"), ""), "ORT_SPEC_INVALID", NULL},
};

/* A node of one tensor and one list of integers: a shape or axes. */
#define ORT_I(op, dims, spec, ints_spec, count, ints, out_spec)                                                        \
    "1:8 7{2'g' 1{1'A' 1'I' 2'Y' 3'n0' 4'" op                                                                          \
    "' 7'com.microsoft' " STRINGS("input_shard_specs", TEXT(spec) TEXT(ints_spec))                                     \
        STRINGS("input_device_mesh_shapes", MESH_2 MESH_2) STRINGS("input_device_mesh_elements", ON_01 ON_01)          \
            STRINGS("output_shard_specs", TEXT(out_spec)) STRINGS("output_device_mesh_shapes", MESH_2)                 \
                STRINGS("output_device_mesh_elements", ON_01) "} 5{2:7 8'I' 1:" count " " ints "} 11" VALUE(           \
                    "A", dims) "12" ANY("Y") "} 8{2:17} 8{1'com.microsoft' 2:1}"

static const struct check_case others[] = {
    {"two axes of a product", ORT_2("DistributedMatMul", TEXT("S[0]R") TEXT("R"), TEXT("S[0]R"), ""),
     "ORT_RANK_MISMATCH", NULL},
    {"the sharded axis is reduced", ORT_I("DistributedReduceSum", DIM("4") DIM("4"), "S[0]R", "R", "1", "7:0", "RR"),
     "ORT_REFUSED ORT_COMMUNICATION", "may not be reduced"},
    {"another axis is reduced", ORT_I("DistributedReduceSum", DIM("4") DIM("4"), "S[0]R", "R", "1", "7:1", "S[0]R"), "",
     NULL},
    {"reduced to another spec", ORT_I("DistributedReduceMax", DIM("4") DIM("4"), "S[0]R", "R", "1", "7:1", "RR"),
     "ORT_REFUSED ORT_COMMUNICATION", "same spec"},
    {"an axis counted from the back is reduced",
     ORT_I("DistributedReduceMean", DIM("4") DIM("4"), "RS[0]", "R", "1", "7:-1", "RR"),
     "ORT_WRONG_RESULT ORT_COMMUNICATION", "not counted from the back"},
    {"a sharded shape", ORT_I("DistributedExpand", DIM("1") DIM("4"), "RS[0]", "S[0]", "2", "7:4 7:4", "RS[0]"),
     "ORT_REFUSED ORT_OPERANDS ORT_COMMUNICATION", "shape"},
    {"expanded with another axis sharded",
     ORT_I("DistributedExpand", DIM("4") DIM("4"), "S[0]R", "R", "2", "7:4 7:4", "RS[0]"),
     "ORT_WRONG_RESULT ORT_COMMUNICATION", "not looked at"},
    {"squeezed", ORT_I("DistributedSqueeze", DIM("4") DIM("1") DIM("4"), "S[0]RR", "R", "1", "7:1", "S[0]R"), "", NULL},
    {"squeezed to another axis",
     ORT_I("DistributedSqueeze", DIM("4") DIM("1") DIM("4"), "S[0]RR", "R", "1", "7:1", "RS[0]"),
     "ORT_REFUSED ORT_COMMUNICATION", "as the input is"},
    {"unsqueezed", ORT_I("DistributedUnsqueeze", DIM("4") DIM("4"), "RS[0]", "R", "1", "7:1", "RRS[0]"), "", NULL},
    {"unsqueezed to another axis", ORT_I("DistributedUnsqueeze", DIM("4") DIM("4"), "S[0]R", "R", "1", "7:1", "RRS[0]"),
     "ORT_REFUSED ORT_COMMUNICATION", "as the input is"},
    {"12 as 4 by 3", ORT_I("DistributedReshape", DIM("12"), "S[0]", "R", "2", "7:4 7:3", "S[0]R"), "", NULL},
    {"whole data to a sharded result", ORT_I("DistributedReshape", DIM("12"), "R", "R", "2", "7:4 7:3", "S[0]R"),
     "ORT_REFUSED", "whole"},
    {"no reshape of two axes", ORT_I("DistributedReshape", DIM("4") DIM("3"), "S[0]R", "R", "2", "7:4 7:3", "S[0]R"),
     "ORT_REFUSED", "two axes must become one"},
};

#define NODE_WITH(metadata)                                                                                            \
    "1:10 7{2'g' 1{1'X' 2'Y' 3'n0' 4'Relu' 9{" metadata                                                                \
    "}} 11" VALUE("X", DIM("4") DIM("8")) "12" VALUE("Y", DIM("4") DIM("8")) "} 8{2:17}"
#define MODEL_WITH(metadata)                                                                                           \
    "1:10 7{2'g' 1{1'X' 2'Y' 3'n0' 4'Relu'} 11" VALUE("X", DIM("4") DIM("8")) "12" VALUE(                              \
        "Y", DIM("4") DIM("8")) "} 8{2:17} 14{" metadata "}"

static const struct check_case metadata[] = {
    {"of a node", NODE_WITH("1'mhlo.sharding' 2'{devices=[2,1]0,1}'"), "", NULL},
    {"replicated", NODE_WITH("1'sharding' 2'{replicated}'"), "", NULL},
    {"of another rank", NODE_WITH("1'mhlo.sharding' 2'{devices=[2]0,1}'"), "HLO_SHARDING_MISMATCH", "'n0'"},
    {"of bytes in hexadecimal", NODE_WITH("1'mhlo.sharding' 2'08031a02020122020001'"), "", NULL},
    {"none", NODE_WITH("1'mhlo.sharding' 2'{devices=[2,1]0}'"), "HLO_SHARDING_UNREADABLE", "mhlo.sharding"},
    {"somebody's", NODE_WITH("1'sharding' 2'by rows'"), "SHARDING_METADATA_UNKNOWN", "sharding"},
    {"another key", NODE_WITH("1'pkg.torch.onnx.stack_trace' 2'{devices=[2]0,1}'"), "", NULL},
    {"of a value",
     "1:10 7{2'g' 1{1'X' 2'Y' 3'n0' 4'Relu'} 11{1'X' 2{1{1:1 2{1{1:4}}}} 4{1'mhlo.sharding' 2'{devices=[2,1]0,1}'}} "
     "12" VALUE("Y", DIM("4")) "} 8{2:17}",
     "HLO_SHARDING_MISMATCH", "tensor 'X'"},
    {"of the inputs", MODEL_WITH("1'mhlo.spmd_parameters_shardings' 2'{{devices=[2,1]0,1}}'"), "", NULL},
    {"of more inputs than there are", MODEL_WITH("1'mhlo.spmd_parameters_shardings' 2'{{replicated},{replicated}}'"),
     "HLO_SHARDING_MISMATCH", "inputs"},
    {"of the output", MODEL_WITH("1'mhlo.spmd_output_sharding' 2'{devices=[2]0,1}'"), "HLO_SHARDING_MISMATCH",
     "outputs"},
    {"of the model", MODEL_WITH("1'mhlo.sharding' 2'nonsense'"), "HLO_SHARDING_UNREADABLE", "the model"},
};

static const struct check_cases all[] = {
#define CASES(name)                                                                                                    \
    {                                                                                                                  \
        name, sizeof(name) / sizeof(name[0])                                                                           \
    }
    CASES(attributes),
    CASES(products),
    CASES(others),
    CASES(metadata),
};
#define ALL_COUNT (sizeof(all) / sizeof(all[0]))

Test(check_foreign, cases)
{
    for (size_t i = 0; i < ALL_COUNT; i++) {
        for (size_t k = 0; k < all[i].count; k++)
            check_case(&all[i].items[k], CHECK_FOREIGN);
    }
}

Test(check_foreign, every_code_is_raised)
{
    check_coverage(sp_codes_foreign, ALL_COUNT, all);
}

/* ---- the published cases ---- */

static void add_strings(struct sp_buf *text, const char *side, const char *what, const json_t *operands,
                        const char *member)
{
    sp_buf_printf(text, " 5{1'%s_%s' 20:8", side, what);
    for (size_t i = 0; i < json_array_size(operands); i++) {
        const json_t *value = json_object_get(json_array_get(operands, i), member);
        if (json_is_string(value)) {
            sp_buf_printf(text, " 9'%s'", json_string_value(value));
            continue;
        }
        sp_buf_text(text, " 9'[");
        for (size_t k = 0; k < json_array_size(value); k++)
            sp_buf_printf(text, "%s%lld", k == 0 ? "" : ",", json_integer_value(json_array_get(value, k)));
        sp_buf_text(text, "]'");
    }
    sp_buf_text(text, "}");
}

/* Inputs with integers are initializers: shapes, axes, starts. */
static void add_operand(struct sp_buf *text, const json_t *operand, int field, char letter, size_t index)
{
    const json_t *shape = json_object_get(operand, "global_shape"), *values = json_object_get(operand, "global_values");
    const bool is_constant = field == 11 && values != NULL &&
                             strcmp(json_string_value(json_object_get(operand, "dtype")), "int64") == 0 && index > 0;
    if (is_constant) {
        sp_buf_printf(text, " 5{2:7 8'%c%zu'", letter, index);
        for (size_t k = 0; k < json_array_size(shape); k++)
            sp_buf_printf(text, " 1:%lld", json_integer_value(json_array_get(shape, k)));
        for (size_t k = 0; k < json_array_size(values); k++)
            sp_buf_printf(text, " 7:%lld", json_integer_value(json_array_get(values, k)));
        sp_buf_text(text, "}");
        return;
    }
    sp_buf_printf(text, " %d{1'%c%zu' 2{1{1:1 2{", field, letter, index);
    for (size_t k = 0; k < json_array_size(shape); k++)
        sp_buf_printf(text, "1{1:%lld}", json_integer_value(json_array_get(shape, k)));
    sp_buf_text(text, "}}}}");
}

static void write_case(struct sp_buf *text, const json_t *entry)
{
    const json_t *inputs = json_object_get(entry, "inputs"), *outputs = json_object_get(entry, "outputs");
    const json_t *keepdims = json_object_get(json_object_get(entry, "attributes"), "keepdims");
    sp_buf_text(text, "1:8 7{2'g' 1{");
    for (size_t i = 0; i < json_array_size(inputs); i++)
        sp_buf_printf(text, "1'i%zu' ", i);
    for (size_t i = 0; i < json_array_size(outputs); i++)
        sp_buf_printf(text, "2'o%zu' ", i);
    sp_buf_printf(text, "4'%s' 7'com.microsoft'", json_string_value(json_object_get(entry, "op")));
    add_strings(text, "input", "shard_specs", inputs, "shard_spec");
    add_strings(text, "input", "device_mesh_shapes", inputs, "device_mesh_shape");
    add_strings(text, "input", "device_mesh_elements", inputs, "device_mesh_elements");
    add_strings(text, "output", "shard_specs", outputs, "shard_spec");
    add_strings(text, "output", "device_mesh_shapes", outputs, "device_mesh_shape");
    add_strings(text, "output", "device_mesh_elements", outputs, "device_mesh_elements");
    if (keepdims != NULL)
        sp_buf_printf(text, " 5{1'keepdims' 20:2 3:%lld}", json_integer_value(keepdims));
    sp_buf_text(text, "}");
    for (size_t i = 0; i < json_array_size(inputs); i++)
        add_operand(text, json_array_get(inputs, i), 11, 'i', i);
    for (size_t i = 0; i < json_array_size(outputs); i++)
        add_operand(text, json_array_get(outputs, i), 12, 'o', i);
    sp_buf_text(text, "} 8{2:17} 8{1'com.microsoft' 2:1}");
}

/* ONNX Runtime passes its own tests. */
Test(check_foreign, published_cases_are_not_refused)
{
    char path[1024];
    size_t size = 0, run = 0;
    (void)snprintf(path, sizeof path, "%s/ort_distributed_cases.json", data_folder());
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL)
        cr_skip_test("no %s", path);
    json_t *root = json_loadb((const char *)bytes, size, 0, NULL);
    const json_t *cases = json_object_get(root, "cases"), *entry;
    size_t index;
    json_array_foreach(cases, index, entry)
    {
        struct check_result result;
        struct sp_buf text;
        if (strcmp(json_string_value(json_object_get(entry, "category")), "test") != 0)
            continue;
        sp_buf_init(&text, 1 << 20);
        write_case(&text, entry);
        cr_assert_not(sp_buf_failed(&text));
        check_run(&result, text.data, CHECK_FOREIGN, 0);
        for (uint32_t i = 0; i < result.list.count; i++)
            cr_expect_eq(result.list.items[i].severity, SP_SEVERITY_NOTE, "%s: %s",
                         json_string_value(json_object_get(entry, "id")), result.list.items[i].message);
        check_release(&result);
        sp_buf_release(&text);
        run++;
    }
    cr_assert_gt(run, 20);
    json_decref(root);
    free(bytes);
}

/* What the list of refusals says of specs alone; what depends on shapes has cases of its own. */
Test(check_foreign, published_refusals_are_told)
{
    char path[1024];
    size_t size = 0, run = 0;
    (void)snprintf(path, sizeof path, "%s/ort_distributed_cases.json", data_folder());
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL)
        cr_skip_test("no %s", path);
    json_t *root = json_loadb((const char *)bytes, size, 0, NULL);
    const json_t *cases = json_object_get(root, "refusals_and_untested"), *entry;
    size_t index;
    json_array_foreach(cases, index, entry)
    {
        const char *op = json_string_value(json_object_get(entry, "op")),
                   *expected = json_string_value(json_object_get(entry, "ort_result"));
        const json_t *inputs = json_object_get(entry, "input_specs"), *outputs = json_object_get(entry, "output_specs");
        if (strcmp(op, "DistributedMatMul") != 0 ||
            strstr(json_string_value(json_array_get(inputs, 0)), "S[1]") != NULL)
            continue;
        struct check_result result;
        struct sp_buf text;
        sp_buf_init(&text, 1 << 20);
        sp_buf_printf(&text, "1:8 7{2'g' 1{1'A' 1'B' 2'Y' 4'%s' 7'com.microsoft'", op);
        sp_buf_printf(&text, " 5{1'input_shard_specs' 20:8 9'%s' 9'%s'}", json_string_value(json_array_get(inputs, 0)),
                      json_string_value(json_array_get(inputs, 1)));
        sp_buf_text(
            &text, STRINGS("input_device_mesh_shapes", MESH_2 MESH_2) STRINGS("input_device_mesh_elements", ON_01 ON_01)
                       STRINGS("output_device_mesh_shapes", MESH_2) STRINGS("output_device_mesh_elements", ON_01));
        sp_buf_printf(&text,
                      " 5{1'output_shard_specs' 20:8 9'%s'}} 11" ANY("A") "11" ANY("B") "12" ANY(
                          "Y") "} 8{2:17} 8{1'com.microsoft' 2:1}",
                      json_string_value(json_array_get(outputs, 0)));
        check_run(&result, text.data, CHECK_FOREIGN, 0);
        const char *wanted = strcmp(expected, "refused") == 0             ? "ORT_REFUSED"
                             : strcmp(expected, "accepted_untested") == 0 ? ""
                                                                          : "ORT_WRONG_RESULT";
        cr_expect_str_eq(result.codes, wanted, "%s: %s", json_string_value(json_object_get(entry, "reason")),
                         result.codes);
        check_release(&result);
        sp_buf_release(&text);
        run++;
    }
    cr_assert_gt(run, 15);
    json_decref(root);
    free(bytes);
}
