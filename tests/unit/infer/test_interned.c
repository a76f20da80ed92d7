/* kept, rules: what is equal is one pointer. */
#include <criterion/criterion.h>
#include <string.h>

#include "build_rule.h"
#include "build_sharding.h"
#include "infer/interned_rules.h"
#include "infer/interned_shardings.h"

static struct sp_arena *arena;
static struct sp_mesh *mesh;

static void open_arena(void)
{
    struct sp_mesh_axis axes[] = {{"x", 4}, {"y", 2}};
    arena = sp_arena_create(NULL);
    cr_assert_eq(sp_mesh_create(arena, 2, axes, NULL, &mesh, NULL), SP_OK);
}

static void close_arena(void)
{
    sp_arena_destroy(arena);
}

TestSuite(kept, .init = open_arena, .fini = close_arena);

/* ---- numbers and shardings ---- */

Test(kept, numbers_are_kept_once)
{
    struct sp_interned kept = sp_interned_in(arena, 1);
    int64_t shape[] = {8, -1, 64};
    const int64_t *first = sp_keep_numbers(&kept, 3, shape);
    shape[0] = 9;
    const int64_t *second = sp_keep_numbers(&kept, 3, shape), *shorter = sp_keep_numbers(&kept, 2, shape);
    cr_expect_eq(first[0], 8);
    cr_expect_eq(first[2], 64);
    cr_expect_neq(first, second);
    cr_expect_neq(second, shorter);
    shape[0] = 8;
    cr_expect_eq(sp_keep_numbers(&kept, 3, shape), first);
    cr_expect_eq(sp_keep_numbers(&kept, 0, NULL), sp_keep_numbers(&kept, 0, shape));
}

Test(kept, shardings_are_kept_once)
{
    struct sp_interned kept = sp_interned_in(arena, 1);
    struct sp_mesh *twin = NULL;
    struct sp_mesh_axis axes[] = {{"x", 4}, {"y", 2}};
    cr_assert_eq(sp_mesh_create(arena, 2, axes, NULL, &twin, NULL), SP_OK);
    struct sp_sharding *made = build_axes(arena, mesh, "x | y");
    const struct sp_sharding *first = sp_keep_sharding(&kept, made);
    cr_expect_neq(first, made, "a copy");
    cr_expect_eq(sp_keep_sharding(&kept, build_axes(arena, mesh, "x | y")), first);
    cr_expect_neq(sp_keep_sharding(&kept, build_axes(arena, mesh, "y | x")), first);
    cr_expect_neq(sp_keep_sharding(&kept, build_axes(arena, mesh, "x | y |")), first);
    cr_expect_neq(sp_keep_sharding(&kept, build_axes(arena, mesh, "x y |")), first);
    cr_expect_neq(sp_keep_sharding(&kept, build_axes(arena, twin, "x | y")), first);
    made->dims[1].is_open = true;
    cr_expect_neq(sp_keep_sharding(&kept, made), first);
    made->dims[1].is_open = false;
    made->replicated = made->dims[1].axes;
    cr_expect_neq(sp_keep_sharding(&kept, made), first);
    made->replicated = (struct sp_axis_list){0};
    made->dims[0].axes.refs[0].size = 2; /* a part of x */
    cr_expect_neq(sp_keep_sharding(&kept, made), first);
    cr_expect_eq(first->dims[0].axes.refs[0].size, 4, "the copy has its own refs");
}

/* ---- rules ---- */

static struct sp_rule *keep(struct sp_rules *rules, const struct sp_rule *rule)
{
    struct sp_rule *kept = NULL;
    cr_assert_eq(sp_rules_keep(rules, rule, &kept, NULL), SP_OK);
    return kept;
}

static const char *rule_text(const struct sp_rule *rule)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 12);
    sp_rule_print(rule, &buf);
    const char *text = sp_arena_string(arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

#define DOT "([i, k], [k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}"

Test(kept, rules_are_kept_once)
{
    struct sp_rules *rules = sp_rules_create(arena, 1, 1000);
    struct sp_rule *made = build_rule_text(arena, DOT), *first = keep(rules, made);
    cr_expect_neq(first, made);
    cr_expect_eq(keep(rules, build_rule_text(arena, DOT)), first);
    cr_expect_eq(sp_rules_count(rules), 1);
    cr_expect_eq(sp_rules_units(rules), 3 + 3 + 6, "factors, operands, axes");
    cr_expect_str_eq(rule_text(first), rule_text(made));
    cr_expect_eq(first->input_count, 2);
    cr_expect_eq(first->term_count, 0);
}

Test(kept, rules_differ_in_each_part)
{
    struct sp_rules *rules = sp_rules_create(arena, 1, 1000);
    struct sp_rule *made = build_rule_text(arena, DOT), *first = keep(rules, made);
    struct sp_factor *factor = &made->factors[0], whole = *factor;
    static const char *const others[] = {"([i, k], [k, j])->([i, j]) {i=8, j=16, k=32}",
                                         "([i, k], [k, j])->([i, j]) {i=8, j=16, k=64} reduction={k}",
                                         "([i, k], [k, j])->([j, i]) {i=8, j=16, k=32} reduction={k}",
                                         "([i, k])->([i, k]) {i=8, k=32}", "([ik])->([i, k]) {i=8, k=32}"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cr_expect_neq(keep(rules, build_rule_text(arena, others[i])), first, "%s", others[i]);
        cr_expect_eq(sp_rules_count(rules), i + 2);
    }
#define DIFFERS(change)                                                                                                \
    do {                                                                                                               \
        change;                                                                                                        \
        cr_expect_neq(keep(rules, made), first, #change);                                                              \
        *factor = whole;                                                                                               \
    } while (0)
    DIFFERS(factor->block = 2);
    DIFFERS(factor->halo_low = 1);
    DIFFERS(factor->halo_high = 1);
    DIFFERS(factor->is_blocked = true);
    DIFFERS(factor->is_resized = true);
    DIFFERS(factor->combiner = SP_COMBINE_MAX);
    DIFFERS(factor->extent = sp_dim_unknown());
    DIFFERS(factor->name[0] = 'q');
    DIFFERS((made->inputs[0].position_count = 1, made->inputs[0].positions = (uint8_t[]){0}));
    made->inputs[0].position_count = 0;
    cr_expect_eq(keep(rules, made), first);
}

/* A sum of many: its operands are alike, and what they are mapped to is there once. */
Test(kept, operands_alike_share_their_axes)
{
    enum { COUNT = 1000 };
    struct sp_rules *rules = sp_rules_create(arena, 1, 2 * COUNT);
    struct sp_rule *pair = build_rule_text(arena, "([i, j])->([i, j]) {i=8, j=16}"), wide = *pair;
    wide.inputs = SP_NEW_ARRAY(arena, COUNT, struct sp_operand_rule);
    wide.input_count = COUNT;
    for (int i = 0; i < COUNT; i++)
        wide.inputs[i] = pair->inputs[0];
    struct sp_rule *kept = keep(rules, &wide);
    cr_assert_not_null(kept);
    cr_expect_eq(kept->inputs[0].axes, kept->inputs[COUNT - 1].axes);
    cr_expect_eq(sp_rules_units(rules), 2 + (COUNT + 1) + 2);
}

Test(kept, rules_beyond_the_limit_are_not_kept)
{
    struct sp_rules *rules = sp_rules_create(arena, 1, 12);
    struct sp_rule *first = keep(rules, build_rule_text(arena, DOT));
    cr_expect_not_null(first);
    cr_expect_null(keep(rules, build_rule_text(arena, "([i])->([i]) {i=8}")));
    cr_expect_eq(keep(rules, build_rule_text(arena, DOT)), first, "what is there is found");
    cr_expect_eq(sp_rules_units(rules), 12);
}
