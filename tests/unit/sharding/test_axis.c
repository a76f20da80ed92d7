#include <criterion/criterion.h>

#include "build_sharding.h"

static struct sp_arena *arena;
static struct sp_error err;
static struct sp_mesh *mesh; /* a 16, b 16 */

static void set_up(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
    mesh = build_mesh(arena, "a=16 b=16", NULL);
}

static void tear_down(void)
{
    sp_arena_destroy(arena);
}

TestSuite(axis, .init = set_up, .fini = tear_down);

static struct sp_axis_ref ref(const char *text)
{
    return build_refs(arena, mesh, text).refs[0];
}

static void expect_refs(const struct sp_axis_list *list, const char *expected)
{
    cr_expect_str_eq(refs_text(arena, mesh, list), expected, "%s is not %s", refs_text(arena, mesh, list), expected);
}

/* Shardy's diagnostics for sub-axes, with an axis of 8. */
Test(axis, check)
{
    static const struct {
        struct sp_axis_ref ref;
        const char *text;
    } cases[] = {
        {{0, 0, 2}, "sub-axis pre-size must be at least 1"},
        {{0, 2, 1}, "sub-axis sizes must be greater than 1"},
        {{0, 3, 2}, "doesn't divide the size of the full axis 8"},
        {{0, 4, 4}, "doesn't divide the size of the full axis 8"},
        {{0, INT64_MAX, 2}, "doesn't divide the size of the full axis 8"},
        {{2, 1, 2}, "the mesh has only 2 axes"},
    };
    struct sp_mesh *small = build_mesh(arena, "x=8 one=1", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sp_error_clear(&err);
        cr_expect_eq(sp_axis_check(small, cases[i].ref, &err), SP_ERR_MALFORMED);
        cr_expect(strstr(err.message, cases[i].text) != NULL, "%s", err.message);
    }
    for (int64_t pre = 1; pre <= 4; pre *= 2)
        cr_expect_eq(sp_axis_check(small, (struct sp_axis_ref){0, pre, 2}, &err), SP_OK);
    cr_expect_eq(sp_axis_check(small, sp_axis_full(small, 0), &err), SP_OK);
    cr_expect_eq(sp_axis_check(small, sp_axis_full(small, 1), &err), SP_OK);
}

/* Published tables of XLA's AxisRef. */
Test(axis, overlap_and_coexistence)
{
    static const struct {
        const char *a, *b;
        bool overlaps, coexists;
    } cases[] = {
        {"a", "b", false, true},
        {"a", "a", true, true},
        {"a:(1)2", "b:(1)2", false, true},
        {"a:(1)2", "a:(2)2", false, true},
        {"a:(1)2", "a:(4)4", false, true},
        {"a:(1)2", "a:(1)4", true, true},
        {"a:(1)4", "a:(8)2", false, true},
        {"a:(1)4", "a:(2)2", true, true},
        {"a:(2)8", "a:(4)2", true, true},
        {"a:(1)2", "a:(1)3", true, false},
        {"a:(1)2", "a:(3)2", false, false},
        {"a:(1)6", "a:(4)3", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_axis_ref a = ref(cases[i].a), b = ref(cases[i].b);
        cr_expect_eq(sp_axis_overlaps(a, b), cases[i].overlaps, "%s %s", cases[i].a, cases[i].b);
        cr_expect_eq(sp_axis_overlaps(b, a), cases[i].overlaps, "%s %s", cases[i].b, cases[i].a);
        cr_expect_eq(sp_axis_can_coexist(a, b), cases[i].coexists, "%s %s", cases[i].a, cases[i].b);
        cr_expect_eq(sp_axis_can_coexist(b, a), cases[i].coexists, "%s %s", cases[i].b, cases[i].a);
        cr_expect_eq(sp_axis_can_coexist_without_overlap(a, b), cases[i].coexists && !cases[i].overlaps);
    }
}

Test(axis, merge)
{
    cr_expect(sp_axis_can_merge(ref("a:(2)4"), ref("a:(8)2")));
    cr_expect_not(sp_axis_can_merge(ref("a:(2)4"), ref("a:(1)2")));
    cr_expect_not(sp_axis_can_merge(ref("a:(1)2"), ref("b:(2)4")));
    cr_expect_not(sp_axis_can_merge(ref("a"), ref("b")));
    struct sp_axis_list list = build_refs(arena, mesh, "a:(2)2 a:(4)2 a:(1)2 b:(1)2 b:(4)2 b:(2)2");
    sp_axes_sort_and_merge(&list);
    expect_refs(&list, "a:(1)8 b:(1)8");
    list = build_refs(arena, mesh, "a:(1)8 a:(8)2 b");
    sp_axes_merge(&list);
    expect_refs(&list, "a b");
    list = build_refs(arena, mesh, "b a");
    sp_axes_merge(&list);
    expect_refs(&list, "b a");
}

Test(axis, prefixes)
{
    struct sp_axis_ref left;
    cr_expect(sp_axis_prefix_without_overlap(ref("a"), ref("b"), &left) && sp_axis_equal(left, ref("a")));
    cr_expect(sp_axis_prefix_without_overlap(ref("a:(1)4"), ref("a:(2)2"), &left) &&
              sp_axis_equal(left, ref("a:(1)2")));
    cr_expect_not(sp_axis_prefix_without_overlap(ref("a:(2)2"), ref("a:(1)4"), &left));
    struct sp_axis_list list = build_refs(arena, mesh, "a:(1)4"), other = build_refs(arena, mesh, "a:(2)2");
    sp_axes_truncate_by_overlap(&list, &other);
    expect_refs(&list, "a:(1)2");
    list = build_refs(arena, mesh, "b a:(2)8");
    other = build_refs(arena, mesh, "a:(8)2 a:(4)2");
    sp_axes_truncate_by_overlap(&list, &other);
    expect_refs(&list, "b a:(2)2");
    list = build_refs(arena, mesh, "a:(1)2 b");
    other = build_refs(arena, mesh, "a:(1)4");
    sp_axes_truncate_by_overlap(&list, &other);
    expect_refs(&list, "");
}

/* XLA's table for slices of a dimension's sharding: axes of 2, 4, 3, 8 and 1. */
Test(axis, slice)
{
    static const struct {
        const char *list;
        int64_t size;
        const char *major, *rest; /* NULL: there is none */
    } cases[] = {
        {"a b", 4, "a b:(1)2", "b:(2)2"},
        {"b d", 16, "b d:(1)4", "d:(4)2"},
        {"a b:(1)2 c", 6, NULL, NULL},
        {"b c", 6, NULL, NULL},
        {"a c", 6, "a c", ""},
        {"a b", 1, "", "a b"},
        {"a b", 16, NULL, NULL},
        {"e a", 2, "e a", ""},
        {"a e", 2, "a", "e"},
        {"a b", 0, NULL, NULL},
        {"b:(2)2 a", 2, "b:(2)2", "a"},
    };
    mesh = build_mesh(arena, "a=2 b=4 c=3 d=8 e=1", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_axis_list list = build_refs(arena, mesh, cases[i].list), major, rest;
        bool is_ok;
        cr_assert_eq(sp_axes_slice(arena, &list, cases[i].size, &is_ok, &major, &rest, &err), SP_OK);
        cr_expect_eq(is_ok, cases[i].major != NULL, "case %zu", i);
        if (is_ok && cases[i].major) {
            expect_refs(&major, cases[i].major);
            expect_refs(&rest, cases[i].rest);
        }
    }
}

Test(axis, lists)
{
    mesh = build_mesh(arena, "a=2 b=4 c=3 d=8", NULL);
    struct sp_axis_list one = build_refs(arena, mesh, "b:(1)2"), two = build_refs(arena, mesh, "b"), joined;
    struct sp_axis_list three = build_refs(arena, mesh, "b c"), four = build_refs(arena, mesh, "b:(1)2 c");
    cr_expect(sp_axes_is_prefix(&one, &two));
    cr_expect(sp_axes_is_prefix(&two, &three));
    cr_expect(sp_axes_is_prefix(&one, &three));
    cr_expect_not(sp_axes_is_prefix(&two, &one));
    cr_expect_not(sp_axes_is_prefix(&four, &three), "c does not follow all of b");
    cr_expect_not(sp_axes_is_prefix(&two, &four));
    struct sp_axis_list half = build_refs(arena, mesh, "a b:(1)2"), tail = build_refs(arena, mesh, "b:(2)2 d");
    cr_assert_eq(sp_axes_append(arena, &half, &tail, &joined, &err), SP_OK);
    expect_refs(&joined, "a b d");
    cr_expect_eq(sp_axes_size(&joined), 64);
    struct sp_axis_ref large[3] = {{0, 1, INT64_MAX}, {1, 1, 2}};
    cr_expect_eq(sp_axes_size(&(struct sp_axis_list){2, large}), -1);
}
