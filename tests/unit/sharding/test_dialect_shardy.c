#include <criterion/criterion.h>

#include "sharding/dialect.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define MESH            "sdy.mesh @mesh = <[\"x\"=4, \"y\"=2, \"z\"=8]>\n"

static struct sp_arena *arena;
static struct sp_error err;
static struct sp_buf buf;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
    sp_buf_init(&buf, 1 << 20);
}

static void teardown(void)
{
    sp_buf_release(&buf);
    sp_arena_destroy(arena);
}

TestSuite(dialect_shardy, .init = setup, .fini = teardown);

static enum sp_status read_in(const char *text, const struct sp_dialect_context *context,
                              struct sp_sharding **ret_sharding)
{
    sp_error_clear(&err);
    return sp_shardy_read(arena, text, strlen(text), context, ret_sharding, &err);
}

static struct sp_sharding *must_read(const char *text)
{
    struct sp_sharding *sharding = NULL;
    cr_assert_eq(read_in(text, NULL, &sharding), SP_OK, "%s: %s (%s)", text, err.message, err.where);
    return sharding;
}

static const char *written(const struct sp_sharding *sharding)
{
    sp_buf_clear(&buf);
    cr_assert_eq(sp_shardy_write(sharding, false, &buf, &err), SP_OK, "%s", err.message);
    return buf.data;
}

/* Texts that are canonical: read and written, they come out as they are. */
Test(dialect_shardy, canonical)
{
    static const char *const texts[] = {
        "#sdy.sharding<@mesh, []>",
        "#sdy.sharding<@mesh, [{\"x\"}, {}]>",
        "#sdy.sharding<@mesh, [{\"x\", \"y\"}, {?}]>",
        "#sdy.sharding<@mesh, [{\"y\", ?}p1, {\"z\":(2)4}p0]>",
        "#sdy.sharding<@mesh, [{\"z\":(2)2, \"z\":(1)2}, {\"z\":(4)2}]>",
        "#sdy.sharding<@mesh, [{\"x\"}], replicated={\"y\", \"z\":(1)2}, unreduced={\"z\":(4)2}>",
        "#sdy.sharding<@mesh, [{?}p3], unreduced=max{\"x\"}>",
        "#sdy.sharding<@mesh, [{}], unreduced=min{\"x\", \"z\"}>",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, MESH "%s", texts[i]);
        cr_expect_str_eq(written(must_read(text)), texts[i]);
    }
}

/* The same in other words. */
Test(dialect_shardy, variants)
{
    static const char *const canonical =
        "#sdy.sharding<@mesh, [{\"x\", ?}, {}], replicated={\"y\"}, unreduced={\"z\"}>";
    static const char *const texts[] = {
        "sdy.mesh @mesh=<[\"x\"=4,\"y\"=2,\"z\"=8]> sdy.sharding = #sdy.sharding<@mesh,[{\"x\",?},{}],"
        "unreduced=sum{\"z\"},replicated={\"y\"}>",
        "// a comment\nsdy.mesh @other = <[\"x\"=2]>\n" MESH
        "<@mesh, [{\"x\" ?}, { }], replicated = {\"y\"}, unreduced "
        "= {\"z\"}>\n",
        "sdy.mesh @\"mesh\" = <[\"\\78\"=4, \"y\"=2, \"z\"=8]>\n#sdy.sharding<@mesh, [{\"x\", ?}, {}], "
        "replicated={\"y\"}, unreduced={\"z\"}>",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        cr_expect_str_eq(written(must_read(texts[i])), canonical);
}

Test(dialect_shardy, what_it_means)
{
    struct sp_sharding *sharding =
        must_read(MESH "#sdy.sharding<@mesh, [{\"z\":(2)4, ?}p7, {}], replicated={\"y\"}, unreduced=max{\"x\"}>");
    cr_assert_eq(sharding->kind, SP_SHARDING_AXES);
    cr_assert_eq(sharding->rank, 2);
    cr_expect_str_eq(sharding->mesh->name, "mesh");
    cr_expect_eq(sharding->mesh->order.count, 64);
    cr_assert_eq(sharding->dims[0].axes.count, 1);
    struct sp_axis_ref ref = sharding->dims[0].axes.refs[0];
    cr_expect(ref.axis == 2 && ref.pre == 2 && ref.size == 4);
    cr_expect(sharding->dims[0].is_open && sharding->dims[0].has_priority && sharding->dims[0].priority == 7);
    cr_expect(!sharding->dims[1].is_open && !sharding->dims[1].has_priority && sharding->dims[1].axes.count == 0);
    cr_expect(sharding->replicated.count == 1 && sharding->replicated.refs[0].axis == 1);
    cr_expect(sharding->partial.count == 1 && sharding->partial.refs[0].axis == 0);
    cr_expect_eq(sharding->combiner, SP_COMBINE_MAX);
    cr_expect_eq(sp_sharding_check(sharding, 2, NULL, 64, &err), SP_OK, "%s", err.message);
}

Test(dialect_shardy, meshes)
{
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {"<[\"x\"=2, \"y\"=4]>", "<[\"x\"=2, \"y\"=4]>"},
        {"mesh<[\"x\"=2], device_ids=[1,0]>", "<[\"x\"=2], device_ids=[1,0]>"},
        {"#sdy.mesh<[\"x\"=2], device_ids=[0, 1]>", "<[\"x\"=2]>"}, /* the identity is dropped */
        {"sdy.mesh @m = <[], device_ids=[3]>", "<[], device_ids=[3]>"},
        {"<[], device_ids=[0]>", "<[], device_ids=[0]>"},
        {"<[]>", "<[]>"},
        {"<[], device_ids=[]>", "<[]>"},
        {"<[\"a\\\\b\\22\"=1, \"\\C3\\A9\"=1]>", "<[\"a\\\\b\\22\"=1, \"\\C3\\A9\"=1]>"},
        {"<[\"x\"=1099511627776]>", "<[\"x\"=1099511627776]>"}, /* 2^40 devices, never listed */
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_mesh *mesh;
        sp_error_clear(&err);
        cr_assert_eq(sp_shardy_read_mesh(arena, cases[i].text, strlen(cases[i].text), &mesh, &err), SP_OK, "%s: %s",
                     cases[i].text, err.message);
        sp_buf_clear(&buf);
        sp_shardy_write_mesh(mesh, &buf);
        cr_expect_str_eq(buf.data, cases[i].canonical);
    }
}

/* The diagnostics of Shardy's verifier; offsets count bytes of the text. */
Test(dialect_shardy, wrong_meshes)
{
    static const struct {
        const char *text, *message, *where;
    } cases[] = {
        {"<[\"a\"=0]>", "axis size must be at least 1, got: 0", "offset 2"},
        {"<[\"a\"=2, \"a\"=2]>", "duplicate axis name: \"a\"", "offset 9"},
        {"<[\"a\"=2], device_ids=[0, -1]>", "device id must be non-negative, got: -1", "offset 25"},
        {"<[], device_ids=[0, 1]>", "axes is empty and device_ids has more than one element", "offset 17"},
        {"<[\"a\"=4], device_ids=[0,1,2,3,4,5]>",
         "total product of axis sizes must match total number of device ids, got: 4 != 6", "offset 22"},
        {"<[\"a\"=2], device_ids=[2,1]>", "sorted device ids must be iota(product(axes)), got: 1, 2", "offset 22"},
        {"<[\"a\"=2], device_ids=[1,1]>", "sorted device ids must be iota(product(axes)), got: 1, 1", "offset 22"},
        {"<[\"a\"=4611686018427387904, \"b\"=2]>", "overflows", "offset 27"},
        {"<[\"a\"=9223372036854775808]>", "does not fit in a 64-bit integer", "offset 6"},
        {"<[\"a\"=2]", "Expected '>'", "offset 8"},
        {"<[\"a\"=2]> x", "should end here", "offset 10"},
        {"<[\"a=2]>", "no closing", "offset 2"},
        {"<[\"\"=2]>", "at least one character", "offset 2"},
        {"<[\"a\\00\"=2]>", "without NUL", "offset 2"},
        {"<[\"\\C3\"=2]>", "UTF-8", "offset 2"},
        {"<[\"a\\q\"=2]>", "backslash", "offset 4"},
        {"<[\"a\"=2], device_ids=[1", "closing", "offset 22"},
        {"<[\"a\"=2], ids=[1]>", "Expected 'device_ids'", "offset 10"},
        {"sdy.mesh mesh = <[\"a\"=2]>", "Expected '@'", "offset 9"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_mesh *mesh;
        sp_error_clear(&err);
        cr_assert_neq(sp_shardy_read_mesh(arena, cases[i].text, strlen(cases[i].text), &mesh, &err), SP_OK, "%s",
                      cases[i].text);
        cr_expect(strstr(err.message, cases[i].message) != NULL, "%s: %s", cases[i].text, err.message);
        cr_expect_str_eq(err.where, cases[i].where, "%s: %s", cases[i].text, err.where);
    }
}

Test(dialect_shardy, wrong_shardings)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"<@x, []>", "unknown mesh: @x"},
        {"<@mesh, [{\"c\"}]>", "unknown axis name: \"c\""},
        {"<@mesh, [{\"z\", \"z\"}]>", "duplicate axis ref: \"z\""},
        {"<@mesh, [{\"z\":(1)2}, {\"z\":(1)2}]>", "duplicate axis ref: \"z\":(1)2"},
        {"<@mesh, [{\"z\":(1)2}], unreduced={\"z\"}>", "both sub-axis and full-axis are used for axis name: \"z\""},
        {"<@mesh, [{\"z\":(1)4}, {\"z\":(2)4}]>", "overlapping sub-axes: \"z\":(1)4, \"z\":(2)4"},
        {"<@mesh, [{\"z\":(1)2, \"z\":(2)2}]>", "two consecutive sub-axes can be merged: \"z\":(1)2, \"z\":(2)2"},
        {"<@mesh, [{}], replicated={\"z\":(1)2, \"z\":(2)2}>", "two consecutive sub-axes can be merged"},
        {"<@mesh, [{\"z\":(0)2}]>", "sub-axis pre-size must be at least 1"},
        {"<@mesh, [{\"z\":(1)1}]>", "sub-axis sizes must be greater than 1"},
        {"<@mesh, [{\"z\":(3)2}]>", "sub-axis next pre-size 6 doesn't divide the size of the full axis 8: \"z\":(3)2"},
        {"<@mesh, [{\"z\":(4)9223372036854775807}]>", "doesn't divide the size of the full axis 8"},
        {"<@mesh, [{\"z\":(1)8}]>", "sub-axis size is equal to the full axis size: \"z\":(1)8"},
        {"<@mesh, [{}], replicated={\"y\", \"x\"}>", "replicated axes are not ordered w.r.t. mesh"},
        {"<@mesh, [{}], unreduced={\"z\":(4)2, \"z\":(1)2}>", "unreduced axes are not ordered w.r.t. mesh"},
        {"<@mesh, [{}p0]>", "dim 0 is empty and closed but has a priority"},
        {"<@mesh, [{\"x\"}p00]>", "without leading zeros"},
        {"<@mesh, [{\"x\"}p]>", "without leading zeros"},
        {"<@mesh, [{\"x\"}p9223372036854775808]>", "does not fit"},
        {"<@mesh, [{?, \"x\"}]>", "'?' stands last"},
        {"<@mesh, [{\"x\",}]>", "before the name of an axis"},
        {"<@mesh, [{}], replicated={}>", "before the name of an axis"},
        {"<@mesh, [{}], replicated={\"x\"}, replicated={\"y\"}>", "replicated axes twice"},
        {"<@mesh, [{}], manual={\"x\"}>", "Expected 'replicated=' or 'unreduced='"},
        {"<@mesh, [{}], unreduced=prod{\"x\"}>", "before a list of axes"},
        {"<@mesh, {}>", "Expected '['"},
        {"<@mesh, []> <@mesh, []>", "should end here"},
        {"<@max, [{}]>", "a maximal sharding can only have a sharding with rank 0"},
        {"<@max, [], replicated={\"x\"}>", "unknown axis name: \"x\""},
        {"<@ mesh, []>", "must follow '@' directly"},
        {"sdy.mesh @mesh = <[]> <@mesh, []>", "defined twice"},
        {"#sdy.sharding_per_value<[<@mesh, []>, ]>", "before the sharding"},
        {"", "Expected '<'"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_sharding *sharding;
        char text[512];
        (void)snprintf(text, sizeof text, MESH "sdy.mesh @max = <[], device_ids=[3]>\n%s", cases[i].text);
        cr_assert_neq(read_in(text, NULL, &sharding), SP_OK, "%s", cases[i].text);
        cr_expect(strstr(err.message, cases[i].message) != NULL, "%s: %s", cases[i].text, err.message);
        cr_expect_eq(strncmp(err.where, "offset ", 7), 0, "%s: %s", cases[i].text, err.where);
    }
}

Test(dialect_shardy, context)
{
    struct sp_sharding *sharding = NULL;
    struct sp_mesh *mesh;
    struct sp_dialect_context context = {.rank = 1};
    static const char *const text = "#sdy.sharding<@mesh, [{\"x\"}]>";
    cr_assert_eq(sp_shardy_read_mesh(arena, "<[\"x\"=2]>", 9, &mesh, &err), SP_OK);
    context.mesh = mesh;
    cr_assert_eq(read_in(text, &context, &sharding), SP_OK, "%s", err.message);
    cr_expect_eq(sharding->mesh, mesh);
    cr_expect_str_eq(written(sharding), text);
    context.rank = 2;
    cr_assert_eq(read_in(text, &context, &sharding), SP_ERR_REQUEST);
    cr_expect(strstr(err.message, "sharding doesn't match tensor rank: 1 != 2") != NULL, "%s", err.message);
    mesh->name = "other";
    cr_assert_eq(read_in(text, &context, &sharding), SP_ERR_REQUEST);
    cr_expect(strstr(err.message, "unknown mesh: @mesh") != NULL, "%s", err.message);
}

Test(dialect_shardy, one_device)
{
    struct sp_sharding *sharding = must_read("#sdy.sharding<mesh<[], device_ids=[3]>, []>");
    cr_assert_eq(sharding->kind, SP_SHARDING_SINGLE);
    cr_expect_eq(sharding->device, 3);
    cr_expect_str_eq(written(sharding), "#sdy.sharding<@maximal_mesh_3, []>");
    sp_buf_clear(&buf);
    cr_assert_eq(sp_shardy_write(sharding, true, &buf, &err), SP_OK);
    cr_expect_str_eq(buf.data, "#sdy.sharding<mesh<[], device_ids=[3]>, []>");
}

Test(dialect_shardy, inline_mesh)
{
    static const char *const text = "#sdy.sharding<mesh<[\"a b\"=2, \"c\"=2], device_ids=[3,1,2,0]>, [{\"c\"}]>";
    struct sp_sharding *sharding = must_read(text);
    sp_buf_clear(&buf);
    cr_assert_eq(sp_shardy_write(sharding, true, &buf, &err), SP_OK);
    cr_expect_str_eq(buf.data, text);
}

Test(dialect_shardy, tuples)
{
    struct sp_sharding *sharding =
        must_read(MESH "#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>, <mesh<[], device_ids=[1]>, []>]>");
    cr_assert_eq(sharding->kind, SP_SHARDING_TUPLE);
    cr_assert_eq(sharding->element_count, 2);
    cr_expect_eq(sharding->elements[0].kind, SP_SHARDING_AXES);
    cr_expect_eq(sharding->elements[1].device, 1);
    cr_expect_eq(must_read("#sdy.sharding_per_value<[]>")->element_count, 0);
}

/* Meshes that Shardy does not know have no text there. */
Test(dialect_shardy, cannot_be_written)
{
    struct sp_mesh_axis axis = {"x", 2};
    struct sp_device_order order;
    struct sp_mesh *mesh;
    struct sp_sharding *sharding;
    cr_assert_eq(sp_device_order_list(arena, 2, (int64_t[]){2, 5}, &order, &err), SP_OK);
    cr_assert_eq(sp_mesh_create(arena, 1, &axis, &order, &mesh, &err), SP_OK);
    cr_assert_eq(sp_sharding_create_axes(arena, mesh, 1, &sharding, &err), SP_OK);
    cr_expect_eq(sp_shardy_write(sharding, true, &buf, &err), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "SHARDY_DEVICES");
    sharding = must_read(MESH "<@mesh, [{}]>");
    struct sp_axis_ref manual = {0, 1, 4};
    sharding->manual = (struct sp_axis_list){1, &manual};
    sp_error_clear(&err);
    cr_expect_eq(sp_shardy_write(sharding, false, &buf, &err), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "MANUAL_LOST");
}

Test(dialect_shardy, limits)
{
    sp_buf_text(&buf, "#sdy.sharding<mesh<[\"x\"=2]>, [");
    for (int i = 0; i < SP_MAX_RANK + 1; i++)
        sp_buf_text(&buf, i == 0 ? "{}" : ", {}");
    sp_buf_text(&buf, "]>");
    struct sp_sharding *sharding;
    cr_assert_eq(read_in(buf.data, NULL, &sharding), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_RANK");
    sp_buf_clear(&buf);
    sp_buf_text(&buf, "<[");
    for (int i = 0; i < SP_MAX_SHARDING_AXES + 1; i++)
        sp_buf_printf(&buf, "%s\"a%d\"=1", i == 0 ? "" : ", ", i);
    sp_buf_text(&buf, "]>");
    struct sp_mesh *mesh;
    sp_error_clear(&err);
    cr_assert_eq(sp_shardy_read_mesh(arena, buf.data, buf.size, &mesh, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_SHARDING_AXES");
}
