/*
 * What is refused about a model and what is not. The rules are those that onnx.checker applies (its sources' names of
 * rules stand at the groups); for each there is a smallest model that breaks it, and for what must pass there are the
 * models of the test data, all of which onnx.checker passes. Notation of models: onnx_files.h.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "check/check.h"
#include "onnx_files.h"

/* A float32 ValueInfoProto of one axis of 4, in this field. */
#define VALUE(field, name) #field "{1'" name "' 2{1{1:1 2{1{1:4}}}}}"
#define INT64(field, name) #field "{1'" name "' 2{1{1:7 2{1{1:4}}}}}"
#define RELU               "1{1'x' 2'y' 4'Relu'}"
#define XY                 VALUE(11, "x") VALUE(12, "y")
/* A model of IR 8 and ai.onnx 17 with this graph; the graph alone; a graph that computes y from x. */
#define MODEL(graph)       "1:8 8{2:17} 7{2'g' " graph "}"
#define MODEL_AT(v, graph) "1:8 8{2:" #v "} 7{2'g' " graph "}"
#define COMPUTE(nodes)     MODEL(XY nodes)
#define FLOATS4            "9h00000000000000000000000000000000"

/* Reads the notation and checks it; what the reader refuses is a finding too. */
static void check(const char *notation, struct sp_diagnostics *list, struct onnx_model *model, struct sp_buf *file)
{
    struct sp_error err = {0};
    *file = onnx_encode(notation);
    enum sp_status status = onnx_read(model, file->data, file->size);
    *list = (struct sp_diagnostics){.arena = model->arena};
    status =
        status == SP_OK ? sp_check_graph(model->model, list, &err) : sp_check_add_error(list, NULL, &model->err, &err);
    cr_assert_eq(status, SP_OK, "%s", err.message);
}

static bool has(const struct sp_diagnostics *list, const char *code)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].code->code, code) == 0)
            return true;
    }
    return false;
}

/* The model breaks this rule and no other. */
static void expect(const char *notation, const char *code)
{
    struct sp_diagnostics list;
    struct onnx_model model;
    struct sp_buf file;
    check(notation, &list, &model, &file);
    cr_expect(has(&list, code), "%s is not found in %s", code, notation);
    for (uint32_t i = 0; i < list.count; i++)
        cr_expect_str_eq(list.items[i].code->code, code, "%s: %s in %s", list.items[i].code->code,
                         list.items[i].message, notation);
    onnx_release(&model);
    sp_buf_release(&file);
}

static void expect_sound(const char *notation)
{
    struct sp_diagnostics list;
    struct onnx_model model;
    struct sp_buf file;
    check(notation, &list, &model, &file);
    cr_expect_eq(list.count, 0, "%s: %s in %s", list.count == 0 ? "" : list.items[0].code->code,
                 list.count == 0 ? "" : list.items[0].message, notation);
    onnx_release(&model);
    sp_buf_release(&file);
}

Test(check_graph, passes_what_is_sound)
{
    expect_sound(COMPUTE(RELU));
    expect_sound("1:3 8{2:17} 7{2'g' " XY VALUE(11, "w") "5{8'w' 2:1 1:4 " FLOATS4 "} 1{1'x' 1'w' 2'y' 4'Add'}}");
    expect_sound(COMPUTE("1{1'x' 2'y' 4'Relu' 5{1'__note' 3:1 20:2}}")); /* names for programs' own use */
    expect_sound("1:8 8{2:17} 8{1'org' 2:1} 25{1'F' 10'org' 4'a' 5'b' 7{1'a' 2'b' 4'Relu'} 9{2:17}}"
                 "7{2'g' " XY "1{1'x' 2'y' 4'F' 7'org'}}");
}

/* check_model */
Test(check_graph, rules_of_models)
{
    expect("8{2:17} 7{2'g' " XY RELU "}", "NO_IR_VERSION");
    expect("1:15 8{2:17} 7{2'g' " XY RELU "}", "IR_VERSION_TOO_NEW");
    expect_sound("1:14 8{2:17} 7{2'g' " XY RELU "}");
    expect("1:-1 8{2:17} 7{2'g' " XY RELU "}", "BAD_IR_VERSION");
    expect("14{1'k' 2'a'} 14{1'l' 2'b'} 14{1'k' 2'c'} " COMPUTE(RELU), "DUPLICATE_METADATA");
    expect("1:8 8{2:2147483648} 7{2'g' " XY RELU "}", "BAD_OPSET_VERSION");
    expect("8{2:16} " COMPUTE(RELU), "DUPLICATE_OPSET");
    expect("1:14 8{2:29} 7{2'g' " XY RELU "}", "OPSET_TOO_NEW");
    expect("1:8 8{2:17}", "NO_GRAPH");
    /* Without imports no node has a meaning either. */
    struct sp_diagnostics list;
    struct onnx_model model;
    struct sp_buf file;
    check("1:8 7{2'g' " XY RELU "}", &list, &model, &file);
    cr_expect(has(&list, "NO_OPSET") && has(&list, "DOMAIN_NOT_IMPORTED") && list.errors == 2);
    onnx_release(&model);
    sp_buf_release(&file);
    expect("1:2 8{2:1} 7{2'g' " XY RELU "}", "OPSET_BEFORE_IR_3");
}

/* check_graph, check_value_info */
Test(check_graph, rules_of_graphs)
{
    expect("1:8 8{2:17} 7{" XY RELU "}", "UNNAMED_GRAPH");
    expect(COMPUTE(RELU "11{2{1{1:1 2{}}}}"), "UNNAMED_INPUT");
    expect(MODEL("11{1'x'} " VALUE(12, "y") RELU), "NO_VALUE_TYPE");
    expect(MODEL(VALUE(11, "x") "12{1'y'} " RELU), "NO_VALUE_TYPE");
    expect(MODEL(VALUE(11, "x") "12{1'y'} " VALUE(13, "y") RELU), "NO_VALUE_TYPE");
    expect(MODEL("11{1'x' 2{1{2{1{1:4}}}}} " VALUE(12, "y") RELU), "NO_ELEMENT_TYPE");
    expect(MODEL("11{1'x' 2{4{}}} " VALUE(12, "y") "1{2'y' 4'Constant' 5{1'value_float' 2~1 20:1}}"),
           "NO_ELEMENT_TYPE");
    expect(MODEL("11{1'x' 2{1{1:1}}} " VALUE(12, "y") RELU), "NO_VALUE_SHAPE");
    expect(MODEL(VALUE(11, "x") "12{1'y' 2{1{1:1}}} " RELU), "NO_VALUE_SHAPE");
    expect(COMPUTE(VALUE(11, "x") RELU), "DUPLICATE_NAME");
    expect(COMPUTE(RELU "5{8'w' 2:1 1:4 " FLOATS4 "} 5{8'w' 2:1 1:4 " FLOATS4 "}"), "DUPLICATE_NAME");
    expect(COMPUTE(RELU "5{8'w' 2:1 1:4 " FLOATS4 "} 15{1{8'w' 2:1 1:1 4~1} 2{2:7 1:1 7:0} 3:4}"), "DUPLICATE_NAME");
    expect(COMPUTE(RELU "5{2:1 1:4 " FLOATS4 "}"), "UNNAMED_INITIALIZER");
    expect("1:3 8{2:17} 7{2'g' " XY "5{8'w' 2:1 1:4 " FLOATS4 "} 1{1'x' 1'w' 2'y' 4'Add'}}", "INITIALIZER_NOT_INPUT");
    expect(COMPUTE("1{1'h' 2'y' 4'Relu'} 1{1'x' 2'h' 4'Relu'}"), "NOT_TOPOLOGICAL");
    expect(COMPUTE("1{1'h' 2'y' 4'Relu'}"), "UNDEFINED_INPUT");
    expect(COMPUTE(RELU RELU), "DUPLICATE_NAME");
    expect(MODEL(XY), "UNDEFINED_OUTPUT");
}

#define BRANCH(field, name, nodes) "5{1'" name "' 20:5 6{" field " " nodes " 12{1'r'}}}"
#define IF(then_nodes)                                                                                                 \
    MODEL("11{1'c' 2{1{1:9 2{}}}}" XY "1{1'c' 2'y' 4'If' " BRANCH("2't'", "then_branch", then_nodes)                   \
              BRANCH("2'e'", "else_branch", "1{1'x' 2'r' 4'Relu'}") "}")

/* Subgraphs see outer names, and the rules hold in them. */
Test(check_graph, rules_hold_in_subgraphs)
{
    expect_sound(IF("1{1'x' 2'r' 4'Neg'}"));
    expect(IF("1{1'x' 2'r' 4'Nope'}"), "UNKNOWN_OPERATOR");
    expect(IF("1{1'x' 2'x' 4'Neg'} 1{1'x' 2'r' 4'Neg'}"), "SHADOWED_NAME");
    expect(IF("1{1'z' 2'r' 4'Neg'}"), "UNDEFINED_INPUT");
    struct sp_diagnostics list;
    struct onnx_model model;
    struct sp_buf file;
    check(IF("1{1'x' 2'r' 4'Nope' 3'inner'}"), &list, &model, &file);
    cr_assert_eq(list.count, 1);
    cr_expect_str_eq(list.items[0].place, "main/If_0.then_branch/Nope 'inner'");
    cr_expect_eq(list.items[0].severity, SP_SEVERITY_ERROR);
    cr_expect_str_eq(list.items[0].hint, list.items[0].code->remedy);
    onnx_release(&model);
    sp_buf_release(&file);
    expect(MODEL("11{1'c' 2{1{1:9 2{}}}}" XY "1{1'c' 2'y' 4'If' " BRANCH("", "then_branch", "1{1'x' 2'r' 4'Neg'}")
                     BRANCH("2'e'", "else_branch", "1{1'x' 2'r' 4'Relu'}") "}"),
           "UNNAMED_GRAPH");
}

/* check_node, OpSchema::Verify */
Test(check_graph, rules_of_nodes)
{
    expect(COMPUTE("1{1'x' 2'y' 3'longer'}"), "NO_OPERATOR_TYPE");
    expect(COMPUTE(RELU "1{4'Relu'}"), "INCOMPLETE_NODE");
    expect(COMPUTE("1{1'x' 2'y' 4'Op' 7'org'}"), "DOMAIN_NOT_IMPORTED");
    expect(COMPUTE("1{1'x' 2'y' 4'Nope'}"), "UNKNOWN_OPERATOR");
    expect(MODEL_AT(19, XY "1{1'x' 2'y' 4'Gelu'}"), "UNKNOWN_OPERATOR");                    /* since 20 */
    expect(MODEL_AT(16, XY "1{1'x' 1'x' 2'y' 4'LayerNormalization'}"), "RUNTIME_OPERATOR"); /* ONNX has it since 17 */
    expect_sound(MODEL_AT(20, XY "1{1'x' 2'y' 4'Gelu'}"));
    expect("8{1'ai.onnx.ml' 2:3} " COMPUTE("1{1'x' 2'y' 4'Relu' 7'ai.onnx.ml'}"), "UNKNOWN_OPERATOR");
    expect("8{1'org' 2:1} " COMPUTE("1{1'x' 2'y' 4'Op' 7'org'}"), "UNKNOWN_CUSTOM_OPERATOR");
    expect(COMPUTE("1{1'x' 2'y' 4'ScaledTanh'}"), "REMOVED_OPERATOR");
    expect(COMPUTE("5{8's' 2:1 1:1 4~1} 1{1'x' 1's' 2'y' 4'Upsample'}"), "DEPRECATED_OPERATOR"); /* 10 */
    expect(COMPUTE("1{1'x' 2'y' 4'Add'}"), "MISSING_INPUT");
    expect(COMPUTE("1{1'x' 1'' 2'y' 4'Add'}"), "MISSING_INPUT");
    expect_sound(COMPUTE("1{1'x' 1'' 1'x' 2'y' 4'Clip'}")); /* min is optional */
    expect(COMPUTE("1{1'x' 1'x' 2'y' 4'Relu'}"), "TOO_MANY_INPUTS");
    expect(COMPUTE(RELU "1{1'x' 4'Neg'}"), "MISSING_OUTPUT");
    expect(COMPUTE(RELU "1{1'x' 2'' 4'Neg'}"), "MISSING_OUTPUT");
    expect(COMPUTE("1{1'x' 2'y' 2'z' 4'Relu'}"), "TOO_MANY_OUTPUTS");
    expect(COMPUTE("1{1'x' 2'y' 4'Elu' 5{1'alpha' 2~1 20:1} 5{1'alpha' 2~2 20:1}}"), "DUPLICATE_ATTRIBUTE");
    expect(COMPUTE("1{1'x' 2'y' 4'Elu' 5{1'beta' 2~1 20:1}}"), "UNKNOWN_ATTRIBUTE");
    expect(COMPUTE("1{1'x' 2'y' 4'Elu' 5{1'alpha' 3:1 20:2}}"), "WRONG_ATTRIBUTE_TYPE");
    expect(COMPUTE("1{1'x' 2'y' 4'Concat'}"), "MISSING_ATTRIBUTE");
    /* An attribute of another version: axes of ReduceSum up to 12. */
    expect(MODEL_AT(13, XY "1{1'x' 2'y' 4'ReduceSum' 5{1'axes' 8:0 20:7}}"), "UNKNOWN_ATTRIBUTE");
    expect_sound(MODEL_AT(12, XY "1{1'x' 2'y' 4'ReduceSum' 5{1'axes' 8:0 20:7}}"));
}

/* check_attribute */
Test(check_graph, rules_of_attributes)
{
    expect(COMPUTE("1{1'x' 2'y' 4'Elu' 5{2~1 20:1}}"), "UNNAMED_ATTRIBUTE");
    expect(COMPUTE("1{1'x' 2'y' 4'Elu' 5{1'alpha' 2~1}}"), "NO_ATTRIBUTE_TYPE");
    expect_sound("1:1 7{2'g' " XY "1{1'x' 2'y' 4'Elu' 5{1'alpha' 2~1}}}"); /* IR 1 had no types, and no imports */
    expect(COMPUTE("1{1'x' 2'y' 4'Elu' 5{1'alpha' 2~1 20:77}}"), "BAD_ATTRIBUTE_TYPE");
    expect(COMPUTE("1{1'x' 2'y' 4'Elu' 5{1'alpha' 2~1 3:1 20:1}}"), "ATTRIBUTE_MISMATCH");
    expect(COMPUTE("1{1'x' 2'y' 4'Elu' 5{1'alpha' 3:1 20:1}}"), "ATTRIBUTE_MISMATCH");
    expect(COMPUTE("1{2'y' 4'Constant' 5{1'value' 20:4}}"), "NO_ATTRIBUTE_VALUE");
    expect(COMPUTE("1{1'x' 2'y' 4'Elu' 5{1'alpha' 21'a' 20:1}}"), "STRAY_REFERENCE");
}

#define CONSTANT(tensor)    COMPUTE("1{2'y' 4'Constant' 5{1'value' 20:4 5{" tensor "}}}")
#define INITIALIZER(tensor) COMPUTE(RELU "5{8'w' " tensor "}")

/* check_tensor, resolve_external_data_location */
Test(check_graph, rules_of_tensors)
{
    expect_sound(CONSTANT("2:1 1:4 " FLOATS4));
    expect(CONSTANT("1:4 " FLOATS4), "UNKNOWN_DATA_TYPE");
    expect(CONSTANT("2:0 1:4 " FLOATS4), "UNKNOWN_DATA_TYPE");
    expect(CONSTANT("2:99 1:4 " FLOATS4), "UNKNOWN_DATA_TYPE");
    expect(CONSTANT("2:1 1:1 4~1 9h00000000"), "AMBIGUOUS_TENSOR_DATA");
    expect(CONSTANT("2:1 1:1 4~1 5:1"), "AMBIGUOUS_TENSOR_DATA");
    expect(CONSTANT("2:1 1:4"), "NO_TENSOR_DATA");
    expect(INITIALIZER("2:1 1:4"), "NO_TENSOR_DATA");
    expect_sound(INITIALIZER("2:1 1:0"));
    expect(INITIALIZER("2:1 1:0 4~1"), "TENSOR_SIZE_MISMATCH");
    expect(INITIALIZER("2:1 1:1 7:1"), "WRONG_TENSOR_FIELD");
    expect(INITIALIZER("2:8 1:1 9h61"), "WRONG_TENSOR_FIELD");
    expect(INITIALIZER("2:1 1:4 9h0000"), "TENSOR_SIZE_MISMATCH");
    expect(INITIALIZER("2:1 1:4 4~1"), "TENSOR_SIZE_MISMATCH");
    expect(INITIALIZER("2:1 1:4294967296 1:4294967296 4~1"), "TENSOR_TOO_LARGE");
    expect(INITIALIZER("2:1 1:-1 4~1"), "NEGATIVE_DIMENSION");
    expect(INITIALIZER("2:1 1:1 3{1:0 2:1} 4~1"), "TENSOR_SEGMENT");
    expect_sound(INITIALIZER("2:1 1:4 14:1 13{1'location' 2'weights/w.bin'}"));
    expect_sound(INITIALIZER("2:1 1:4 14:1 13{1'location' 2'w..bin'}"));
    expect_sound(INITIALIZER("2:1 1:4 14:1 13{1'location' 2'#/in memory/../w'}"));
    expect(INITIALIZER("2:1 1:4 14:1 13{1'offset' 2'0'}"), "BAD_EXTERNAL_DATA");
    expect(INITIALIZER("2:1 1:4 14:1 13{1'location' 2''}"), "BAD_EXTERNAL_DATA");
    expect(INITIALIZER("2:1 1:4 14:1 13{1'location' 2'/etc/passwd'}"), "EXTERNAL_DATA_PATH");
    expect(INITIALIZER("2:1 1:4 14:1 13{1'location' 2'../w.bin'}"), "EXTERNAL_DATA_PATH");
    expect(INITIALIZER("2:1 1:4 14:1 13{1'location' 2'a/../../w.bin'}"), "EXTERNAL_DATA_PATH");
    expect(INITIALIZER("2:1 1:4 14:1 13{1'location' 2'a/..'}"), "EXTERNAL_DATA_PATH");
    expect(INITIALIZER("2:1 1:1 14:1 4~1 13{1'location' 2'w'}"), "AMBIGUOUS_TENSOR_DATA");
}

#define SPARSE(values, indices, dims) COMPUTE(RELU "15{1{8'w' " values "} 2{" indices "} " dims "}")
#define TWO                           "2:1 1:2 4~1 4~2"

/* check_sparse_tensor and its indices */
Test(check_graph, rules_of_sparse_tensors)
{
    expect_sound(SPARSE(TWO, "2:7 1:2 7:0 7:11", "3:3 3:4"));
    expect_sound(SPARSE(TWO, "2:7 1:2 1:2 7:0 7:3 7:2 7:0", "3:3 3:4"));
    expect_sound(SPARSE(TWO, "2:7 1:2 9h01000000000000000b00000000000000", "3:3 3:4"));
    expect(SPARSE("2:1 1:2 1:1 4~1 4~2", "2:7 1:2 7:0 7:11", "3:3 3:4"), "BAD_SPARSE_TENSOR");
    expect(SPARSE(TWO, "2:6 1:2 5:0 5:11", "3:3 3:4"), "BAD_SPARSE_TENSOR");
    expect(SPARSE(TWO, "2:7 1:2 1:1 1:1 7:0 7:11", "3:3 3:4"), "BAD_SPARSE_TENSOR");
    expect(SPARSE(TWO, "2:7 1:2 7:0 7:11", "3:3 3:0"), "BAD_SPARSE_TENSOR");
    expect(SPARSE(TWO, "2:7 1:2 7:0 7:11", ""), "BAD_SPARSE_TENSOR");
    expect(SPARSE(TWO, "2:7 1:2 7:0 7:12", "3:3 3:4"), "SPARSE_INDEX_RANGE");
    expect(SPARSE(TWO, "2:7 1:2 7:-1 7:1", "3:3 3:4"), "SPARSE_INDEX_RANGE");
    expect(SPARSE(TWO, "2:7 1:2 1:2 7:0 7:4 7:2 7:0", "3:3 3:4"), "SPARSE_INDEX_RANGE");
    expect(SPARSE(TWO, "2:7 1:2 7:5 7:5", "3:3 3:4"), "SPARSE_INDEX_ORDER");
    expect(SPARSE(TWO, "2:7 1:2 1:2 7:1 7:0 7:0 7:3", "3:3 3:4"), "SPARSE_INDEX_ORDER");
    expect(SPARSE(TWO, "2:7 1:2 9h0b000000000000000100000000000000", "3:3 3:4"), "SPARSE_INDEX_ORDER");
    expect(SPARSE(TWO, "2:7 1:2", "3:3 3:4"), "NO_TENSOR_DATA");
}

#define CALL             "7{2'g' " XY "1{1'x' 2'y' 4'F' 7'org'}}"
#define FUNCTION(fields) "1:8 8{2:17} 8{1'org' 2:1} 25{" fields "} " CALL
#define BODY             "7{1'a' 2'b' 4'Relu'}"

/* check_model_local_functions, check_function */
Test(check_graph, rules_of_functions)
{
    expect_sound(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:17} " BODY));
    expect(FUNCTION("10'org' 4'a' 5'b' 9{2:17} " BODY), "UNNAMED_FUNCTION");
    expect("1:8 8{2:17} 25{1'F' 4'a' 5'b' 9{2:17} " BODY "} 7{2'g' " XY RELU "}", "NO_FUNCTION_DOMAIN");
    expect(FUNCTION("1'F' 10'org' 4'a' 4'a' 5'b' 9{2:17} " BODY), "DUPLICATE_NAME");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 5'b' 9{2:17} " BODY), "DUPLICATE_FUNCTION_OUTPUT");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 6'p' 6'p' 9{2:17} " BODY), "DUPLICATE_ATTRIBUTE");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:17} 7{1'h' 2'b' 4'Relu'} 7{1'a' 2'h' 4'Relu'}"), "NOT_TOPOLOGICAL");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:17} " BODY BODY), "DUPLICATE_NAME");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'c' 9{2:17} " BODY), "UNDEFINED_OUTPUT");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' " BODY), "NO_FUNCTION_OPSET");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:17} 7{1'a' 2'b' 4'Op' 7'elsewhere'}"), "DOMAIN_NOT_IMPORTED");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:17} 7{1'a' 2'b' 4'Nope'}"), "UNKNOWN_OPERATOR");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:13} " BODY), "FUNCTION_OPSET_CONFLICT"); /* Relu: 13, 14 */
    expect_sound(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:14} " BODY));
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:17} 9{1'org' 2:1} 7{1'a' 2'b' 4'F' 7'org'}"), "CYCLIC_FUNCTIONS");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:17} " BODY "} 25{1'F' 10'org' 4'a' 5'b' 9{2:17} " BODY),
           "DUPLICATE_FUNCTION");
    expect("1:7 8{2:17} 8{1'org' 2:1} 25{1'F' 10'org' 4'a' 5'b' 9{2:17} " BODY "} " CALL, "FUNCTIONS_BEFORE_IR_8");
    expect("1:8 8{2:17} 25{1'F' 10'org' 4'a' 5'b' 9{2:17} " BODY "} " CALL, "DOMAIN_NOT_IMPORTED");
    expect("1:8 8{2:17} 8{1'org' 2:1} 25{1'F' 10'org' 4'a' 5'b' 9{2:17} " BODY "} 7{2'g' " XY
           "1{1'x' 1'x' 2'y' 4'F' 7'org'}}",
           "WRONG_CALL");
    /* Attributes may refer to the function's own. */
    expect_sound(FUNCTION("1'F' 10'org' 4'a' 5'b' 6'p' 9{2:17} 7{1'a' 2'b' 4'Elu' 5{1'alpha' 21'p' 20:1}}"));
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:17} 7{1'a' 2'b' 4'Elu' 5{1'alpha' 21'p' 20:1}}"), "UNKNOWN_REFERENCE");
    expect(FUNCTION("1'F' 10'org' 4'a' 5'b' 6'p' 9{2:17} 7{1'a' 2'b' 4'Elu' 5{1'alpha' 21'p' 20:2}}"),
           "WRONG_ATTRIBUTE_TYPE");
}

/* A place in a function's body names the function. */
Test(check_graph, findings_in_functions_keep_their_place)
{
    struct sp_diagnostics list;
    struct onnx_model model;
    struct sp_buf file;
    check(FUNCTION("1'F' 10'org' 4'a' 5'b' 9{2:17} 7{1'a' 2'b' 4'Nope' 3'n'}"), &list, &model, &file);
    cr_assert_eq(list.count, 1);
    cr_expect_str_eq(list.items[0].place, "function F/Nope 'n'");
    cr_expect_null(list.items[0].node);
    onnx_release(&model);
    sp_buf_release(&file);
}

/* Beyond what onnx.checker looks at by default: types, where they are known. */
Test(check_graph, types_of_inputs)
{
    expect(MODEL(VALUE(11, "x") INT64(11, "i") VALUE(12, "y") "1{1'x' 1'i' 2'y' 4'Add'}"), "TYPES_DISAGREE");
    expect(MODEL_AT(13, INT64(11, "x") INT64(12, "y") "1{1'x' 2'y' 4'Relu'}"), "WRONG_DATA_TYPE"); /* since 14 */
    expect_sound(MODEL_AT(14, INT64(11, "x") INT64(12, "y") "1{1'x' 2'y' 4'Relu'}"));
    expect(MODEL(XY "1{1'x' 1'x' 2'y' 4'Reshape'}"), "WRONG_DATA_TYPE"); /* the shape is int64 */
    expect_sound(MODEL(VALUE(11, "x") INT64(11, "i") VALUE(12, "y") "1{1'x' 1'i' 2'y' 4'Reshape'}"));
    expect_sound(MODEL(VALUE(11, "x") INT64(11, "i") VALUE(12, "y") "1{1'x' 1'i' 2'y' 4'Pow'}")); /* T and T1 */
    expect(MODEL("11{1'x' 2{4{1{1{1:1 2{}}}}}} " VALUE(12, "y") RELU), "WRONG_TYPE");
    expect_sound(MODEL("11{1'x' 2{4{1{1{1:1 2{}}}}}} 12{1'y' 2{4{1{1{1:1 2{}}}}}} 1{1'x' 2'y' 4'Identity'}"));
    expect(MODEL(XY "1{1'x' 2'y' 4'SequenceLength'}"), "WRONG_TYPE");
    expect(MODEL(XY INT64(11, "i") "1{1'x' 1'x' 1'i' 2'y' 4'Concat' 5{1'axis' 3:0 20:2}}"), "TYPES_DISAGREE");
    /* A value between nodes has the type that value_info declares. */
    expect(MODEL(XY INT64(13, "h") "1{1'x' 2'h' 4'NonZero'} 1{1'x' 1'h' 2'y' 4'Add'}"), "TYPES_DISAGREE");
    expect_sound(MODEL(XY "1{1'x' 2'h' 4'NonZero'} 1{1'x' 1'h' 2'y' 4'Add'}")); /* not known: not checked */
}

/* A check goes on: all that is wrong is listed. */
Test(check_graph, lists_all_that_is_wrong)
{
    struct sp_diagnostics list;
    struct onnx_model model;
    struct sp_buf file;
    check("1:15 8{2:17} 7{" XY "1{1'x' 2'h' 4'Nope'} 1{1'h' 1'h' 2'i' 4'Relu'} 1{1'i' 2'y' 4'Elu' 5{1'a' 3:1 20:2}}}",
          &list, &model, &file);
    cr_expect(list.count == 5 && list.errors == 5 && list.warnings == 0 && list.notes == 0);
    cr_expect(has(&list, "IR_VERSION_TOO_NEW") && has(&list, "UNNAMED_GRAPH") && has(&list, "UNKNOWN_OPERATOR") &&
              has(&list, "TOO_MANY_INPUTS") && has(&list, "UNKNOWN_ATTRIBUTE"));
    onnx_release(&model);
    sp_buf_release(&file);
}

/* ---- models that onnx.checker passes -------------------------------------------------------------------------- */

static uint32_t files;

static void expect_no_error(const char *path, const void *bytes, size_t size, void *context)
{
    struct onnx_model model;
    struct sp_diagnostics list;
    struct sp_error err = {0};
    (void)context;
    files++;
    cr_assert_eq(onnx_read(&model, bytes, size), SP_OK, "%s: %s", path, model.err.message);
    list = (struct sp_diagnostics){.arena = model.arena};
    cr_assert_eq(sp_check_graph(model.model, &list, &err), SP_OK, "%s: %s", path, err.message);
    for (uint32_t i = 0; i < list.count; i++)
        cr_expect_neq(list.items[i].severity, SP_SEVERITY_ERROR, "%s: %s: %s at %s", path, list.items[i].code->code,
                      list.items[i].message, list.items[i].place == NULL ? "-" : list.items[i].place);
    onnx_release(&model);
}

Test(check_graph, real_models_have_no_error)
{
    files = 0;
    if (!onnx_each_file(onnx_data("models"), expect_no_error, NULL))
        cr_skip_test("no test data");
    onnx_each_file(onnx_data("onnx-light"), expect_no_error, NULL);
    onnx_each_file(onnx_data("multi-device-corpus"), expect_no_error, NULL);
    cr_expect_geq(files, 30);
}

/* The models of ONNX 1.22.0's backend cases. */
Test(check_graph, backend_models_have_no_error)
{
    const char *folder = onnx_unpack_backend_tests();
    if (folder == NULL)
        cr_skip_test("no test data");
    files = 0;
    onnx_each_file(folder, expect_no_error, NULL);
    onnx_remove_folder(folder);
    cr_expect_eq(files, 988, "%u", files);
}
