/* Axes and parts of axes: refs are [AXIS] (the whole axis) or [AXIS, PRE_SIZE, SIZE]. */
#include <inttypes.h>
#include <string.h>

#include "sharding/axis.h"
#include "sharding_cases.h"

#define MAX_AXES 16

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Makes the axis of a ref long enough for it to be a real part. */
static void cover_ref(struct sp_mesh_axis *axes, uint32_t *count, const json_t *ref)
{
    int64_t axis = json_integer_value(json_array_get(ref, 0)), next = 2;
    if (axis < 0 || axis >= MAX_AXES)
        return;
    if (json_array_size(ref) == 3)
        next *= json_integer_value(json_array_get(ref, 1)) * json_integer_value(json_array_get(ref, 2));
    if (axis >= *count)
        *count = (uint32_t)axis + 1;
    if (next > 0)
        axes[axis].size *= next / gcd(axes[axis].size, next);
}

/* The mesh of the case; where it has none, one whose axes are common multiples of all refs. */
static struct sp_mesh *mesh_of(struct test *test)
{
    static const char *const keys[] = {"a", "b", "input", "other"};
    static const char *const names[MAX_AXES] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                                "i", "j", "k", "l", "m", "n", "o", "p"};
    struct sp_mesh_axis axes[MAX_AXES];
    uint32_t count = 0;
    for (int i = 0; i < MAX_AXES; i++)
        axes[i] = (struct sp_mesh_axis){.name = names[i], .size = 1};
    const json_t *sizes = json_object_get(test->in, "mesh");
    for (size_t i = 0; i < json_array_size(sizes) && i < MAX_AXES; i++)
        axes[count++].size = json_integer_value(json_array_get(sizes, i));
    for (int k = 0; !sizes && k < 4; k++) {
        const json_t *member = json_object_get(test->in, keys[k]);
        if (json_is_integer(json_array_get(member, 0)))
            cover_ref(axes, &count, member);
        else
            for (size_t i = 0; i < json_array_size(member); i++)
                cover_ref(axes, &count, json_array_get(member, i));
    }
    struct sp_mesh *mesh = NULL;
    if (sp_mesh_create(test->arena, count, axes, NULL, &mesh, &test->err) != SP_OK)
        differs(test, "no mesh: %s", test->err.message);
    return mesh;
}

static struct sp_axis_ref read_ref(const struct sp_mesh *mesh, const json_t *ref)
{
    uint32_t axis = (uint32_t)json_integer_value(json_array_get(ref, 0));
    if (json_array_size(ref) != 3)
        return sp_axis_full(mesh, axis);
    return (struct sp_axis_ref){.axis = axis,
                                .pre = json_integer_value(json_array_get(ref, 1)),
                                .size = json_integer_value(json_array_get(ref, 2))};
}

static struct sp_axis_list read_refs(struct test *test, const struct sp_mesh *mesh, const char *key)
{
    const json_t *list = get_list(test, key);
    struct sp_axis_list refs = {.count = (uint32_t)json_array_size(list)};
    refs.refs = SP_NEW_ARRAY(test->arena, (size_t)refs.count + 1, struct sp_axis_ref);
    for (uint32_t i = 0; i < refs.count; i++)
        refs.refs[i] = read_ref(mesh, json_array_get(list, i));
    return refs;
}

static void expect_ref(struct test *test, const struct sp_mesh *mesh, struct sp_axis_ref found, const json_t *expected)
{
    if (!json_is_array(expected) || !sp_axis_equal(found, read_ref(mesh, expected)))
        differs(test, "found [%" PRIu32 ", %" PRId64 ", %" PRId64 "]", found.axis, found.pre, found.size);
}

static void expect_refs(struct test *test, const struct sp_mesh *mesh, const struct sp_axis_list *found,
                        const json_t *expected)
{
    if (!json_is_array(expected) || json_array_size(expected) != found->count)
        differs(test, "found %" PRIu32 " refs", found->count);
    for (uint32_t i = 0; i < found->count; i++)
        expect_ref(test, mesh, found->refs[i], json_array_get(expected, i));
}

static bool read_pair(struct test *test, const struct sp_mesh **ret_mesh, struct sp_axis_ref *ret_a,
                      struct sp_axis_ref *ret_b)
{
    const struct sp_mesh *mesh = mesh_of(test);
    const json_t *a = get_list(test, "a"), *b = get_list(test, "b");
    if (!mesh || json_array_size(a) == 0 || json_array_size(b) == 0)
        return false;
    *ret_mesh = mesh;
    *ret_a = read_ref(mesh, a);
    *ret_b = read_ref(mesh, b);
    return true;
}

/* ---- one ref and another ---- */

static void compare(struct test *test, bool (*relation)(struct sp_axis_ref, struct sp_axis_ref))
{
    const struct sp_mesh *mesh;
    struct sp_axis_ref a, b;
    if (read_pair(test, &mesh, &a, &b))
        expect_bool(test, relation(a, b));
    else
        differs(test, "the case has no two refs");
}

static void check_overlaps(struct test *test)
{
    compare(test, sp_axis_overlaps);
}

static void check_can_coexist(struct test *test)
{
    compare(test, sp_axis_can_coexist);
}

static void check_can_coexist_without_overlap(struct test *test)
{
    compare(test, sp_axis_can_coexist_without_overlap);
}

static void check_less(struct test *test)
{
    compare(test, sp_axis_less);
}

static void check_can_merge(struct test *test)
{
    compare(test, sp_axis_can_merge);
}

/* A ref, or nothing: then null is expected. */
static void expect_maybe(struct test *test, const struct sp_mesh *mesh, bool exists, struct sp_axis_ref found)
{
    const json_t *expected = json_object_get(test->in, "expect");
    if (exists)
        expect_ref(test, mesh, found, expected);
    else if (!json_is_null(expected))
        differs(test, "found nothing");
}

static void check_merge(struct test *test)
{
    const struct sp_mesh *mesh;
    struct sp_axis_ref a, b;
    if (!read_pair(test, &mesh, &a, &b))
        return differs(test, "the case has no two refs");
    bool can = sp_axis_can_merge(a, b);
    expect_maybe(test, mesh, can, can ? sp_axis_merge(a, b) : a);
}

static void check_prefix(struct test *test)
{
    const struct sp_mesh *mesh;
    struct sp_axis_ref a, b, found = {0};
    if (!read_pair(test, &mesh, &a, &b))
        return differs(test, "the case has no two refs");
    bool exists = sp_axis_prefix_without_overlap(a, b, &found);
    expect_maybe(test, mesh, exists, found);
}

/* ---- lists ---- */

static void check_list_merge(struct test *test)
{
    const struct sp_mesh *mesh = mesh_of(test);
    if (!mesh)
        return;
    struct sp_axis_list refs = read_refs(test, mesh, "input");
    sp_axes_merge(&refs);
    expect_refs(test, mesh, &refs, json_object_get(test->in, "expect"));
}

static void check_list_sort_and_merge(struct test *test)
{
    const struct sp_mesh *mesh = mesh_of(test);
    if (!mesh)
        return;
    struct sp_axis_list refs = read_refs(test, mesh, "input");
    sp_axes_sort_and_merge(&refs);
    expect_refs(test, mesh, &refs, json_object_get(test->in, "expect"));
}

static void check_list_truncate(struct test *test)
{
    const struct sp_mesh *mesh = mesh_of(test);
    if (!mesh)
        return;
    struct sp_axis_list refs = read_refs(test, mesh, "input"), other = read_refs(test, mesh, "other");
    sp_axes_truncate_by_overlap(&refs, &other);
    expect_refs(test, mesh, &refs, json_object_get(test->in, "expect"));
}

static void check_append(struct test *test)
{
    const struct sp_mesh *mesh = mesh_of(test);
    if (!mesh)
        return;
    struct sp_axis_list a = read_refs(test, mesh, "a"), b = read_refs(test, mesh, "b"), both;
    if (sp_axes_append(test->arena, &a, &b, &both, &test->err) != SP_OK)
        return differs(test, "%s", test->err.message);
    expect_refs(test, mesh, &both, json_object_get(test->in, "expect"));
}

static void check_slice(struct test *test)
{
    const struct sp_mesh *mesh = mesh_of(test);
    if (!mesh)
        return;
    struct sp_axis_list list = read_refs(test, mesh, "dim"), major, rest;
    const json_t *expected = json_object_get(test->in, "expect");
    bool ok;
    if (sp_axes_slice(test->arena, &list, get_number(test, "size"), &ok, &major, &rest, &test->err) != SP_OK)
        return differs(test, "%s", test->err.message);
    if (!ok) {
        if (!json_is_null(expected))
            differs(test, "found nothing");
        return;
    }
    expect_refs(test, mesh, &major, json_object_get(expected, "slice"));
    expect_refs(test, mesh, &rest, json_object_get(expected, "rest"));
}

static void check_is_prefix(struct test *test)
{
    const struct sp_mesh *mesh = mesh_of(test);
    if (!mesh)
        return;
    struct sp_axis_list a = read_refs(test, mesh, "a"), b = read_refs(test, mesh, "b");
    expect_bool(test, sp_axes_is_prefix(&a, &b));
}

const struct check axis_checks[] = {
    {"axis_overlaps", check_overlaps},
    {"axis_can_coexist", check_can_coexist},
    {"axis_can_coexist_without_overlap", check_can_coexist_without_overlap},
    {"axis_less", check_less},
    {"axis_can_merge", check_can_merge},
    {"axis_merge", check_merge},
    {"axis_prefix_without_overlap", check_prefix},
    {"axes_merge", check_list_merge},
    {"axes_sort_and_merge", check_list_sort_and_merge},
    {"axes_truncate_by_overlap", check_list_truncate},
    {"dim_append", check_append},
    {"dim_slice", check_slice},
    {"dim_is_prefix", check_is_prefix},
    {NULL, NULL},
};
