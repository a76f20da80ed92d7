/* Building, checking, counting and printing rules. */
#include <criterion/criterion.h>
#include <string.h>

#include "build_model.h"

/* A rule over [2,3] -> [2,3] with no factors yet. */
struct fixture {
    struct sp_arena *arena;
    struct sp_rule rule;
    struct sp_operand_rule input, output;
};

static struct fixture fixture;

static void setup(void)
{
    memset(&fixture, 0, sizeof(fixture));
    fixture.arena = sp_arena_create(NULL);
    fixture.rule.arena = fixture.arena;
    fixture.rule.input_count = fixture.rule.output_count = 1;
    fixture.rule.inputs = &fixture.input;
    fixture.rule.outputs = &fixture.output;
    fixture.input.rank = fixture.output.rank = 2;
    fixture.input.axes = SP_NEW_ARRAY(fixture.arena, 2, struct sp_axis_factors);
    fixture.output.axes = SP_NEW_ARRAY(fixture.arena, 2, struct sp_axis_factors);
}

static void teardown(void)
{
    sp_arena_destroy(fixture.arena);
}

TestSuite(rule, .init = setup, .fini = teardown);

Test(rule, counts_flops_of_all_terms)
{
    struct sp_rule *rule = &fixture.rule;
    uint8_t a = sp_rule_factor(rule, "a", SP_FACTOR_PARALLEL, sp_dim_known(2));
    uint8_t b = sp_rule_factor(rule, "b", SP_FACTOR_PARALLEL, sp_dim_known(3));
    uint8_t k = sp_rule_factor(rule, "k", SP_FACTOR_REDUCTION, sp_dim_known(5));
    uint8_t n = sp_rule_factor(rule, "n", SP_FACTOR_PARALLEL, sp_dim_unknown());
    sp_rule_map_output(rule, 0, 0, a);
    sp_rule_map_output(rule, 0, 1, b);
    sp_rule_map_output(rule, 0, 1, a); /* counted once, however often it occurs */
    sp_rule_term(rule, 2, 3, (uint8_t[]){a, b, k});
    sp_rule_term(rule, 7, 2, (uint8_t[]){a, n});
    sp_rule_term_output(rule, 1);
    cr_expect_eq(sp_rule_flops(rule, NULL), 2 * 2 * 3 * 5 + 7 * 2 + 2 * 3);
    cr_expect_eq(rule->faults, 0);
}

Test(rule, prints_factors_and_kinds)
{
    struct sp_rule *rule = &fixture.rule;
    struct sp_buf buf;
    sp_buf_init(&buf, 1024);
    uint8_t a = sp_rule_factor(rule, "a", SP_FACTOR_PARALLEL, sp_dim_known(2));
    uint8_t k = sp_rule_factor(rule, "a_name_that_is_too_long", SP_FACTOR_REDUCTION, sp_dim_known(5));
    rule->factors[k].combiner = SP_COMBINE_MAX;
    uint8_t h = sp_rule_factor(rule, "h", SP_FACTOR_HALO, sp_dim_known(8));
    rule->factors[h].halo_low = 1;
    rule->factors[h].halo_high = 2;
    rule->factors[h].block = 4;
    sp_rule_map_input(rule, 0, 0, a);
    sp_rule_map_input(rule, 0, 0, k);
    sp_rule_map_output(rule, 0, 1, h);
    sp_rule_print(rule, &buf);
    cr_expect_str_eq(buf.data, "[a*a_name_that,_] -> [_,h]  a_name_that: max reduction; h: halo 1+2 in blocks of 4",
                     "%s", buf.data);
    sp_buf_release(&buf);
}

Test(rule, remembers_mistakes)
{
    struct sp_rule *rule = &fixture.rule;
    uint8_t a = sp_rule_factor(rule, "a", SP_FACTOR_PARALLEL, sp_dim_known(2));
    sp_rule_map_input(rule, 0, 1, a);
    cr_expect_eq(rule->faults, 0);
    sp_rule_map_input(rule, 0, 2, a);
    cr_expect_neq(rule->faults, 0);
    rule->faults = 0;
    sp_rule_map_output(rule, 1, 0, a);
    cr_expect_neq(rule->faults, 0);
    rule->faults = 0;
    sp_rule_map_output(rule, 0, 0, 1);
    cr_expect_neq(rule->faults, 0);
    rule->faults = 0;
    sp_rule_term(rule, 1, 1, (uint8_t[]){9});
    cr_expect_neq(rule->faults, 0);
}

Test(rule, has_a_ceiling_of_factors_and_terms)
{
    struct sp_rule *rule = &fixture.rule;
    for (int i = 0; i < SP_RULE_MAX_FACTORS; i++)
        cr_assert_eq(sp_rule_factor(rule, "f", SP_FACTOR_PARALLEL, sp_dim_known(i)), i);
    cr_expect_eq(rule->faults, 0);
    for (int i = 0; i < SP_RULE_MAX_FACTORS; i++)
        cr_assert_eq(rule->factors[i].extent.value, i); /* growing kept them */
    (void)sp_rule_factor(rule, "f", SP_FACTOR_PARALLEL, sp_dim_known(1));
    cr_expect_eq(rule->factor_count, SP_RULE_MAX_FACTORS);
    cr_expect_neq(rule->faults, 0);
    rule->faults = 0;
    for (int i = 0; i < SP_RULE_MAX_TERMS; i++)
        sp_rule_term(rule, 1, 0, NULL);
    cr_expect_eq(rule->faults, 0);
    sp_rule_term(rule, 1, 0, NULL);
    cr_expect_neq(rule->faults, 0);
}

Test(rule, survives_an_exhausted_budget)
{
    struct sp_budget budget = {.limit = 1 << 16};
    struct sp_rule *rule = &fixture.rule;
    rule->arena = sp_arena_create(&budget);
    cr_assert_not_null(rule->arena);
    while (sp_arena_alloc(rule->arena, 256) != NULL)
        ;
    while (sp_arena_alloc(rule->arena, 1) != NULL)
        ;
    uint8_t a = sp_rule_factor(rule, "a", SP_FACTOR_PARALLEL, sp_dim_known(2));
    sp_rule_map_input(rule, 0, 0, a);
    sp_rule_term(rule, 1, 0, NULL);
    cr_expect_neq(rule->faults, 0);
    sp_arena_destroy(rule->arena);
}

/* ---- sp_op_rule ---- */

static enum sp_status keep_type(struct sp_op_context *context)
{
    (void)context;
    return SP_OK;
}

static enum sp_status wrong_extent(struct sp_op_context *context, struct sp_rule *rule)
{
    (void)context;
    sp_rule_map_input(rule, 0, 0, sp_rule_factor(rule, "a", SP_FACTOR_PARALLEL, sp_dim_known(99)));
    return SP_OK;
}

static enum sp_status wrong_axis(struct sp_op_context *context, struct sp_rule *rule)
{
    (void)context;
    sp_rule_map_input(rule, 0, 9, sp_rule_factor(rule, "a", SP_FACTOR_PARALLEL, sp_dim_known(2)));
    return SP_OK;
}

static enum sp_status too_many(struct sp_op_context *context, struct sp_rule *rule)
{
    (void)context;
    for (int i = 0; i <= SP_RULE_MAX_FACTORS; i++)
        (void)sp_rule_factor(rule, "a", SP_FACTOR_PARALLEL, sp_dim_known(2));
    return SP_OK;
}

static enum sp_status rule_of(struct build *build, enum sp_status (*function)(struct sp_op_context *, struct sp_rule *))
{
    static struct sp_op op;
    struct sp_rule *rule = NULL;
    op = (struct sp_op){.domain = "", .name = "Test", .shapes = keep_type, .rule = function};
    build_init(build, 13);
    build_input(build, "x", SP_DTYPE_FLOAT, "2,3");
    struct sp_node *node = build_node(build, "Identity", "x", "y");
    cr_assert_eq(build_infer(build), SP_OK);
    node->op = function == NULL ? NULL : &op;
    enum sp_status status = sp_op_rule(build->model, node, build->arena, &rule, &build->err);
    cr_expect_eq(status == SP_OK, rule != NULL);
    return status;
}

Test(rule, is_checked_before_it_is_given_out)
{
    struct build build;
    cr_expect_eq(rule_of(&build, wrong_extent), SP_ERR_MODEL);
    cr_expect_str_eq(build.err.code, "SHAPES_DISAGREE");
    build_release(&build);
    cr_expect_eq(rule_of(&build, wrong_axis), SP_ERR_INTERNAL);
    build_release(&build);
    cr_expect_eq(rule_of(&build, too_many), SP_ERR_LIMIT);
    cr_expect_str_eq(build.err.limit, "SP_RULE_MAX_FACTORS");
    build_release(&build);
    cr_expect_eq(rule_of(&build, NULL), SP_ERR_UNSUPPORTED);
    build_release(&build);
}

/* Without a rank there are no axes to map: everything is replicated. */
Test(rule, of_an_unranked_operand_is_empty)
{
    struct build build;
    build_init(&build, 13);
    build_input(&build, "x", SP_DTYPE_FLOAT, NULL);
    struct sp_node *node = build_node(&build, "Transpose", "x", "y");
    cr_assert_eq(build_infer(&build), SP_OK);
    cr_expect_str_eq(build_rule(&build, node), "[] -> []");
    cr_expect_eq(build_flops(&build, node), 0);
    build_release(&build);
}
