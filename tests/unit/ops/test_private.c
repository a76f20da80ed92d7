/* Operators that callers describe: what is read, what is refused and where, and models that have them. */
#include <criterion/criterion.h>
#include <string.h>

#include "build_model.h"
#include "ops/table/private.h"
#include "ops/table/rule_text.h"

static struct build build;
static struct sp_private_operators operators;

static void start(void)
{
    build_init(&build, 21);
    build_opset(&build, "com.example", 2);
}

static void stop(void)
{
    build_release(&build);
}

TestSuite(private_operators, .init = start, .fini = stop);

static enum sp_status read_list(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    cr_assert_not_null(json, "%s", text);
    sp_error_clear(&build.err);
    operators = (struct sp_private_operators){0};
    enum sp_status status = sp_private_parse(build.arena, json, "/operators", &operators, &build.err);
    json_decref(json);
    build.model->operators = &operators;
    return status;
}

Test(private_operators, shapes_rules_and_work_follow_from_the_text)
{
    cr_assert_eq(
        read_list("[{\"domain\":\"com.example\",\"name\":\"Gate\",\"versions\":[1,2],\"rule\":\"[b.., k] [k, n] "
                  "[n] -> [b.., n] [b..]; k sum\",\"types\":[0,\"int64\"],\"flops\":\"2*b..*k*n + 5*n\"}]"),
        SP_OK, "%s", build.err.message);
    build_input(&build, "x", SP_DTYPE_FLOAT16, "2,3,8");
    build_weight(&build, "w", SP_DTYPE_FLOAT16, "8,4");
    build_weight(&build, "v", SP_DTYPE_FLOAT16, "4");
    struct sp_node *node = build_node_in(&build, "com.example", "Gate", "x w v", "y z");
    cr_assert_eq(build_infer(&build), SP_OK, "%s", build.err.message);
    cr_expect_str_eq(build_type(&build, "y"), "float16[2,3,4]");
    cr_expect_str_eq(build_type(&build, "z"), "int64[2,3]");
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_op_rule(build.model, node, build.arena, &rule, &build.err), SP_OK, "%s", build.err.message);
    cr_expect_eq(sp_rule_flops(rule, NULL), 2 * 6 * 8 * 4 + 5 * 4);
    cr_expect_eq(rule->factors[sp_rule_named(rule, "k")].kind, SP_FACTOR_REDUCTION);
}

Test(private_operators, versions_choose_the_rule)
{
    cr_assert_eq(read_list("[{\"domain\":\"com.example\",\"name\":\"F\",\"versions\":[1,1],\"rule\":\"[a] -> [a, a]\"},"
                           "{\"domain\":\"com.example\",\"name\":\"F\",\"versions\":2,\"rule\":\"[a] -> [a, 7]\"}]"),
                 SP_OK, "%s", build.err.message);
    cr_expect_eq(sp_private_find(&operators, "com.example", "F", 1), &operators.ops[0]);
    cr_expect_eq(sp_private_find(&operators, "com.example", "F", 9), &operators.ops[1]);
    cr_expect_null(sp_private_find(&operators, "com.example", "G", 1));
    cr_expect_null(sp_private_find(NULL, "com.example", "F", 1));
    build_input(&build, "x", SP_DTYPE_FLOAT, "5");
    build_node_in(&build, "com.example", "F", "x", "y");
    cr_assert_eq(build_infer(&build), SP_OK, "%s", build.err.message);
    cr_expect_str_eq(build_type(&build, "y"), "float32[5,7]");
}

/* The caller's rule of an operator stands before that of the model; adopting twice adds nothing. */
Test(private_operators, models_carry_their_own)
{
    struct sp_metadata entries[] = {{"other", "[]"},
                                    {SP_PRIVATE_METADATA_KEY,
                                     "[{\"domain\":\"com.example\",\"name\":\"F\",\"rule\":\"[a] -> [a, 7]\"},"
                                     "{\"domain\":\"com.example\",\"name\":\"G\",\"rule\":\"[a] -> [a, 8]\"}]"}};
    build.model->metadata = entries;
    build.model->metadata_count = 2;
    cr_assert_eq(sp_private_adopt(build.model, &build.err), SP_OK, "%s", build.err.message);
    build_input(&build, "x", SP_DTYPE_FLOAT, "5");
    build_node_in(&build, "com.example", "F", "x", "y");
    build_node_in(&build, "com.example", "G", "x", "z");
    cr_assert_eq(build_infer(&build), SP_OK, "%s", build.err.message);
    cr_expect_str_eq(build_type(&build, "y"), "float32[5,7]");
    cr_assert_eq(read_list("[{\"domain\":\"com.example\",\"name\":\"F\",\"rule\":\"[a] -> [a, 6]\"}]"), SP_OK);
    cr_assert_eq(sp_private_adopt(build.model, &build.err), SP_OK, "%s", build.err.message);
    cr_assert_eq(build_infer(&build), SP_OK, "%s", build.err.message);
    cr_expect_str_eq(build_type(&build, "y"), "float32[5,6]");
    cr_expect_str_eq(build_type(&build, "z"), "float32[5,8]");
    const struct sp_private_operators *adopted = build.model->operators;
    cr_assert_eq(sp_private_adopt(build.model, &build.err), SP_OK);
    cr_expect(build.model->operators == adopted && adopted->count == 3);
}

Test(private_operators, what_a_model_carries_wrongly_is_refused)
{
    struct sp_metadata entry = {SP_PRIVATE_METADATA_KEY,
                                "[{\"domain\":\"com.example\",\"name\":\"F\",\"rule\":\"[a\"}]"};
    build.model->metadata = &entry;
    build.model->metadata_count = 1;
    cr_assert_eq(sp_private_adopt(build.model, &build.err), SP_ERR_MODEL);
    cr_expect_str_eq(build.err.code, "INVALID_RULE");
    cr_expect_str_eq(build.err.where, "/metadata/shardplan.operators/0/rule");
    const char *const texts[] = {"", "[", "{}", "[1]", "[{\"domain\":\"\",\"name\":\"Relu\",\"rule\":\"[a] -> [a]\"}]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        entry.value = texts[i];
        sp_error_clear(&build.err);
        cr_expect_eq(sp_private_adopt(build.model, &build.err), SP_ERR_MODEL, "%s", texts[i]);
        cr_expect_null(build.model->operators);
    }
}

Test(private_operators, inputs_that_do_not_fit_are_refused)
{
    cr_assert_eq(read_list("[{\"domain\":\"com.example\",\"name\":\"F\",\"rule\":\"[a, b] [b] -> [a]\"}]"), SP_OK);
    build_input(&build, "x", SP_DTYPE_FLOAT, "5,4");
    build_input(&build, "v", SP_DTYPE_FLOAT, "3");
    build_node_in(&build, "com.example", "F", "x v", "y");
    cr_assert_eq(build_infer(&build), SP_ERR_MODEL);
    cr_expect_str_eq(build.err.code, "OPERAND_SHAPE");
}

Test(private_operators, what_is_wrong_is_refused_with_its_place)
{
    static const struct {
        const char *text, *code, *where;
    } cases[] = {
        {"{}", "INVALID_OPERATOR", "/operators"},
        {"[7]", "MEMBER_TYPE", "/operators/0"},
        {"[{\"name\":\"F\",\"rule\":\"[a] -> [a]\"}]", "INVALID_OPERATOR", "/operators/0/domain"},
        {"[{\"domain\":\"d\",\"rule\":\"[a] -> [a]\"}]", "INVALID_OPERATOR", "/operators/0/name"},
        {"[{\"domain\":\"d\",\"name\":\"F\"}]", "INVALID_OPERATOR", "/operators/0/rule"},
        {"[{\"domain\":\"ai.onnx\",\"name\":\"F\",\"rule\":\"[a] -> [a]\"}]", "INVALID_OPERATOR",
         "/operators/0/domain"},
        {"[{\"domain\":\"d\",\"name\":\"F\",\"rule\":\"[a] [b\"}]", "INVALID_RULE", "/operators/0/rule"},
        {"[{\"domain\":\"d\",\"name\":\"F\",\"rule\":\"[a.., m] [m..] -> [m]\"}]", "INVALID_RULE", "/operators/0/rule"},
        {"[{\"domain\":\"d\",\"name\":\"F\",\"rule\":\"[a] ->\"}]", "INVALID_RULE", "/operators/0/rule"},
        {"[{\"domain\":\"d\",\"name\":\"F\",\"rule\":\"[a] -> [a]\",\"versions\":[2,1]}]", "INVALID_OPERATOR",
         "/operators/0/versions"},
        {"[{\"domain\":\"d\",\"name\":\"F\",\"rule\":\"[a] -> [a]\",\"versions\":0}]", "INVALID_OPERATOR",
         "/operators/0/versions"},
        {"[{\"domain\":\"d\",\"name\":\"F\",\"rule\":\"[a] -> [a]\",\"types\":[\"float17\"]}]", "INVALID_OPERATOR",
         "/operators/0/types"},
        {"[{\"domain\":\"d\",\"name\":\"F\",\"rule\":\"[a] -> [a]\",\"types\":[]}]", "INVALID_OPERATOR",
         "/operators/0/types"},
        {"[{\"domain\":\"d\",\"name\":\"F\",\"rule\":\"[a] -> [a]\",\"flops\":-1}]", "INVALID_OPERATOR",
         "/operators/0/flops"},
        {"[{\"domain\":\"d\",\"name\":\"F\",\"rule\":\"[a] -> [a]\",\"flops\":\"2*\"}]", "INVALID_OPERATOR",
         "/operators/0/flops"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_expect_eq(read_list(cases[i].text), SP_ERR_REQUEST, "%s", cases[i].text);
        cr_expect(strcmp(build.err.code, cases[i].code) == 0 || strcmp(cases[i].code, "MEMBER_TYPE") == 0, "%s: %s",
                  cases[i].text, build.err.code);
        cr_expect_str_eq(build.err.where, cases[i].where, "%s: %s", cases[i].text, build.err.where);
    }
}
