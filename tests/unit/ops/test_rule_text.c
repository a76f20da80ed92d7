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
