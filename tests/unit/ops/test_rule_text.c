/* Rules read from their text: the notation, and texts laid over the operands of nodes. */
#include <criterion/criterion.h>
#include <string.h>

#include "build_model.h"
#include "ops/table/rule.h"
#include "ops/table/rule_text.h"

/* ---- the notation ------------------------------------------------------------------------------------------------ */

static const struct sp_text_factor *factor_of(const struct sp_rule_text *text, const char *name)
{
    for (uint8_t i = 0; i < text->factor_count; i++)
        if (strcmp(text->factors[i].name, name) == 0)
            return &text->factors[i];
    return NULL;
}

Test(rule_text, factors_have_the_kind_of_their_clause)
{
    struct sp_rule_text text;
    cr_assert(sp_rule_text_parse("[n, g*c, h..] [m, c] -> [n, m, h..]; c, h.. sum; g whole, m sequential", &text));
    cr_expect_eq(text.input_count, 2);
    cr_expect_eq(text.output_count, 1);
    cr_expect_eq(text.factor_count, 5);
    cr_expect_eq(factor_of(&text, "n")->kind, SP_FACTOR_PARALLEL);
    cr_expect_eq(factor_of(&text, "c")->kind, SP_FACTOR_REDUCTION);
    cr_expect_eq(factor_of(&text, "c")->combiner, SP_COMBINE_SUM);
    cr_expect_eq(factor_of(&text, "h")->combiner, SP_COMBINE_SUM);
    cr_expect(factor_of(&text, "h")->is_group);
    cr_expect_eq(factor_of(&text, "g")->kind, SP_FACTOR_REPLICATE);
    cr_expect_eq(factor_of(&text, "m")->kind, SP_FACTOR_SEQUENTIAL);
    cr_expect_eq(text.inputs[0].axes[1].count, 2);
}

Test(rule_text, a_clause_may_name_all_factors)
{
    struct sp_rule_text text;
    cr_assert(sp_rule_text_parse("[a, b] -> [c]; all whole", &text));
    for (uint8_t i = 0; i < text.factor_count; i++)
        cr_expect_eq(text.factors[i].kind, SP_FACTOR_REPLICATE);
}

Test(rule_text, other_clauses_are_remarks)
{
    struct sp_rule_text text;
    cr_assert(sp_rule_text_parse("[i..] [i..] -> [i..]; size-1 axes broadcast", &text));
    cr_expect_eq(factor_of(&text, "i")->kind, SP_FACTOR_PARALLEL);
}

Test(rule_text, words_are_operands_without_factors)
{
    struct sp_rule_text text;
    cr_assert(sp_rule_text_parse("sequence of [_..], [] -> [_..]; all whole", &text));
    cr_expect_eq(text.factor_count, 0);
    cr_assert(sp_rule_text_parse("-> sequence", &text));
    cr_expect_eq(text.output_count, 0);
}

Test(rule_text, what_is_not_in_the_notation_is_refused)
{
    static const char *const texts[] = {
        "",
        "[a]",                          /* no arrow */
        "[a -> [a]",                    /* no end */
        "[a+b] -> [a]",                 /* no such product */
        "[a*b*c*d] -> [a]",             /* more factors than an axis has room for */
        "[a*b..] -> [a]",               /* a group is no part of a product */
        "[a.., b.., c..] -> [a]",       /* which is which? */
        "[a, b, c, d, e, f, g] -> [a]", /* more axes than an operand has room for */
        "[a] -> [a]; a",                /* a factor without its kind */
        "[a_very_long_name] -> [a]",
        "[a, b, c, d, e, f] [g, h, i, j, k, l] [m, n, o, p, q, r] -> [a]", /* more factors than there is room for */
    };
    struct sp_rule_text text;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        cr_expect_not(sp_rule_text_parse(texts[i], &text), "%s", texts[i]);
}

/* ---- texts over operands ------------------------------------------------------------------------------------------ */

static struct build build;

static void start(void)
{
    build_init(&build, 13);
}

static void stop(void)
{
    build_release(&build);
}

TestSuite(rule_fill, .init = start, .fini = stop);

static char *fill(struct sp_node *node, const char *text, uint32_t count, const struct sp_text_size *sizes)
{
    static char printed[512];
    struct sp_op_context context = {build.model, build.arena, build.model->dims, node, node->version, &build.err, NULL};
    struct sp_rule *rule = NULL;
    struct sp_buf buf;
    cr_assert_eq(sp_rule_new(node, build.arena, &rule, &build.err), SP_OK);
    cr_assert_eq(sp_rule_from_text(&context, rule, text, count, sizes), SP_OK, "%s", build.err.message);
    cr_assert_eq(sp_rule_check(build.model, node, rule, &build.err), SP_OK, "%s", build.err.message);
    sp_buf_init(&buf, sizeof(printed));
    sp_rule_print(rule, &buf);
    (void)snprintf(printed, sizeof(printed), "%.*s", (int)buf.size, buf.data);
    sp_buf_release(&buf);
    return printed;
}

static struct sp_node *add(const char *a, const char *b)
{
    build_input(&build, "a", SP_DTYPE_FLOAT, a);
    build_input(&build, "b", SP_DTYPE_FLOAT, b);
    struct sp_node *node = build_node(&build, "Add", "a b", "y");
    cr_assert_eq(build_infer(&build), SP_OK);
    return node;
}

Test(rule_fill, groups_align_at_the_right)
{
    cr_expect_str_eq(fill(add("2,3,4", "3,4"), "[b.., k] [b.., k] -> [b.., k]", 0, NULL),
                     "[b0,b1,k] [b1,k] -> [b0,b1,k]");
}

Test(rule_fill, axes_of_one_element_are_broadcast)
{
    cr_expect_str_eq(fill(add("2,3,4", "1,4"), "[d..] [d..] -> [d..]", 0, NULL), "[d0,d1,d2] [_,d2] -> [d0,d1,d2]");
}

Test(rule_fill, windows_have_their_own_names)
{
    cr_expect_str_eq(fill(add("2,3,4,5", "4,5"), "[n, c, h..] [h..] -> [n, c, h..]; h.. max", 0, NULL),
                     "[n,c,h,w] [h,w] -> [n,c,h,w]  h: max reduction; w: max reduction");
}

Test(rule_fill, products_share_an_axis)
{
    const struct sp_text_size sizes[] = {{"n", sp_dim_unknown()}, {"g", sp_dim_known(3)}};
    cr_expect_str_eq(fill(add("2,12", "12"), "[n, g*c] [g*c] -> [n, g*c]; c moments", 2, sizes),
                     "[n,g*c] [g*c] -> [n,g*c]  c: moments reduction");
}

Test(rule_fill, literals_and_blanks_have_no_factor)
{
    cr_expect_str_eq(fill(add("2,3", "2,1"), "[i, 3] [_, 1] -> [i, _]", 0, NULL), "[i,_] [_,_] -> [i,_]");
}

Test(rule_fill, the_last_operand_stands_for_those_behind_it)
{
    cr_expect_str_eq(fill(add("2,3", "2,3"), "[d..] -> [d..]", 0, NULL), "[d0,d1] [d0,d1] -> [d0,d1]");
}

static struct sp_node *product(const char *a, const char *b)
{
    build_input(&build, "a", SP_DTYPE_FLOAT, a);
    build_input(&build, "b", SP_DTYPE_FLOAT, b);
    struct sp_node *node = build_node(&build, "MatMul", "a b", "y");
    cr_assert_eq(build_infer(&build), SP_OK);
    return node;
}

Test(rule_fill, a_vector_lacks_what_is_parallel)
{
    const char *const text = "[b.., m, k] [b.., k, n] -> [b.., m, n]; k sum";
    cr_expect_str_eq(fill(product("3", "2,3,4"), text, 0, NULL), "[k] [b0,k,n] -> [b0,n]  k: sum reduction");
}

Test(rule_fill, a_second_vector_lacks_its_column)
{
    const char *const text = "[b.., m, k] [b.., k, n] -> [b.., m, n]; k sum";
    cr_expect_str_eq(fill(product("2,4,3", "3"), text, 0, NULL), "[b0,m,k] [k] -> [b0,m]  k: sum reduction");
}

Test(rule_fill, a_text_that_cannot_be_read_is_our_fault)
{
    struct sp_node *node = add("2", "2");
    struct sp_op_context context = {build.model, build.arena, build.model->dims, node, node->version, &build.err, NULL};
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_rule_new(node, build.arena, &rule, &build.err), SP_OK);
    cr_expect_eq(sp_rule_from_text(&context, rule, "[a", 0, NULL), SP_ERR_INTERNAL);
    cr_expect_str_eq(build.err.code, "BROKEN_RULE");
}

/* ---- equations and shapes ------------------------------------------------------------------------------------------ */

Test(rule_text, equations_tell_extents)
{
    struct sp_rule_text text;
    cr_assert(sp_rule_text_parse("[b, h*d] -> [b, h, d]; h = heads; h whole; d = (k[0] - 1) / stride:2 + 1", &text));
    cr_expect_eq(text.equation_count, 2);
    cr_expect_eq(text.equations[0].attribute_length, strlen("heads"));
    cr_expect_eq(text.equations[1].attribute_length, 0);
    cr_expect_eq(factor_of(&text, "h")->kind, SP_FACTOR_REPLICATE);
    cr_assert(sp_rule_text_parse("[b, h*g] -> [b]; h*g = heads", &text));
    cr_expect_eq(text.equations[0].count, 2);
}

Test(rule_text, texts_of_users_say_where_they_are_wrong)
{
    static const struct {
        const char *text;
        size_t at;
    } cases[] = {
        {"[a, b -> [a]", 6},         {"(a, b) -> [a]", 0},        {"[a] -> [a]; a hole", 14}, {"[a] [b]", 7},
        {"[a] -> [a]; a = (2", 14},  {"[a] -> [a]; a = 2 +", 14}, {"[a] -> [a]; remark", 12}, {"[2*a] -> [a]", 4},
        {"[a] -> [a]; a = 2 3", 14}, {"[a] -> [a]; a = )", 14},   {"[a] -> [a]; a = x[", 14},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sp_rule_text text;
        const char *at = NULL;
        cr_expect_not(sp_rule_text_parse_strict(cases[i].text, &text, &at), "%s", cases[i].text);
        cr_expect_eq((size_t)(at - cases[i].text), cases[i].at, "%s: %zu", cases[i].text, (size_t)(at - cases[i].text));
    }
}

static enum sp_status shapes(struct sp_node *node, const char *text, char type[256])
{
    struct sp_op_context context = {build.model, build.arena, build.model->dims, node, node->version, &build.err};
    for (uint32_t i = 0; i < node->output_count; i++)
        node->outputs[i]->type = (struct sp_type){0};
    sp_error_clear(&build.err);
    enum sp_status status = sp_shapes_by_text(&context, text);
    (void)snprintf(type, 256, "%s", status == SP_OK ? build_type(&build, "y") : build.err.code);
    return status;
}

Test(rule_fill, shapes_follow_from_the_text)
{
    static const struct {
        const char *text, *type;
    } cases[] = {
        {"[b, s, h] [k] -> [b, s, k]", "float32[2,s,5]"},
        {"[b.., h] [k] -> [k, b..]", "float32[5,2,s]"},
        {"[b, s, h*d] [d] -> [b, h, s, d]; d = 4", "OPERAND_SHAPE"}, /* the second input says 5 */
        {"[b, s, h*d] [_] -> [b, h, s, d]; h = heads", "float32[2,3,s,4]"},
        {"[b, s, h*d] [_] -> [b, o, 7]; o = (h * d - 2) / 3 + 1; h = heads", "float32[2,4,7]"},
        {"[b, s, h] [_] -> [b, o]; o = missing", "ATTRIBUTE_MISSING"},
        {"[b, s, h] [_] -> [b, o]; o = missing:6", "float32[2,6]"},
        {"[b, s, h] [_] -> [b, o]; o = list[1]", "float32[2,9]"},
        {"[b, s, h] [_] -> [b, o]; o = list[2]", "ATTRIBUTE_MISSING"},
        {"[b, s, h] [_] -> [b, o]; o = h - 20", "OPERAND_SHAPE"},
        {"[b, s, h*d] [_] -> [b]; h = 5", "OPERAND_SHAPE"}, /* 12 elements do not divide into 5 */
        {"[b, h] [_] -> [b]", "OPERAND_SHAPE"},
        {"[b, s, 11] [_] -> [b]", "OPERAND_SHAPE"},
        {"[b, s, h] [h] -> [b]", "OPERAND_SHAPE"},
        {"[b, s, h] [_] -> [b, n, n]; n whole", "float32[2,Add_0,Add_0]"}, /* what nothing tells depends on data */
        {"[b, s, h] [_] -> [b, _, _]", "float32[2,Add_0_1,Add_0_2]"},
    };
    build_input(&build, "a", SP_DTYPE_FLOAT, "2,s,12");
    build_input(&build, "b", SP_DTYPE_FLOAT, "5");
    struct sp_node *node = build_node(&build, "Add", "a b", "y");
    build_attr_int(&build, node, "heads", 3);
    build_attr_ints(&build, node, "list", 2, (int64_t[]){8, 9});
    node->op = sp_op_find("", "Add", 13);
    node->inputs[0]->type = node->inputs[0]->declared;
    node->inputs[1]->type = node->inputs[1]->declared;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char type[256];
        (void)shapes(node, cases[i].text, type);
        cr_expect_str_eq(type, cases[i].type, "%s: %s, %s", cases[i].text, type, build.err.message);
    }
}

Test(rule_fill, work_is_terms_of_factors)
{
    struct sp_node *node = add("2,3,4", "3,4");
    struct sp_op_context context = {build.model, build.arena, build.model->dims, node, node->version, &build.err};
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_rule_new(node, build.arena, &rule, &build.err), SP_OK);
    cr_assert_eq(sp_rule_from_text(&context, rule, "[b.., k] [b.., k] -> [b.., k]", 0, NULL), SP_OK);
    sp_rule_terms_of(rule, "2*b..*k + 3*k*other + 1.5");
    cr_expect_eq(sp_rule_flops(rule, NULL), 2 * 24 + 3 * 4 + 1.5);
    cr_expect(sp_work_is_valid("2*b..*k + 3*k"));
    cr_expect_not(sp_work_is_valid("2*"));
    cr_expect_not(sp_work_is_valid("2-k"));
    cr_expect_not(sp_work_is_valid(""));
}
