/* What becomes of a sharding; results are written in the version that the input was written in. */
#include <inttypes.h>
#include <string.h>

#include "sharding/transform.h"
#include "sharding_cases.h"

/* NULL and errors are null in the cases. */
static void expect_result(struct test *test, enum sp_status status, const struct sp_sharding *result,
                          enum sp_hlo_version version)
{
    const char *found = status == SP_OK && result ? write_common(test, result, version) : NULL;
    const json_t *expected = json_object_get(test->in, "expect");
    if (found && json_is_string(expected))
        expect_text(test, found);
    else if (found)
        differs(test, "expected nothing, found %s", found);
    else if (!json_is_null(expected))
        differs(test, "found nothing: %s", test->err.message);
}

static void reshape(struct test *test, bool best_effort)
{
    struct input in;
    uint32_t from_rank, to_rank;
    const int64_t *from = get_numbers(test, "input_shape", &from_rank);
    const int64_t *to = get_numbers(test, "output_shape", &to_rank);
    struct sp_sharding *result = NULL;
    if (!read_input(test, get_text(test, "sharding"), &in))
        return;
    enum sp_status status =
        sp_sharding_reshape(test->arena, in.sharding, from_rank, from, to_rank, to, best_effort, &result, &test->err);
    expect_result(test, status, result, in.version);
}

static void check_reshape(struct test *test)
{
    reshape(test, false);
}

static void check_reshape_best_effort(struct test *test)
{
    reshape(test, true);
}

static int64_t tiles_of(const struct sp_sharding *sharding)
{
    int64_t tiles = 1;
    for (uint32_t i = 0; sharding->kind == SP_SHARDING_AXES && i < sharding->rank; i++)
        tiles *= sp_sharding_shards(sharding, i);
    return tiles;
}

/* Of tile assignments, XLA calls a merge that gains no tiles none; of named shardings it does not. */
static void check_merge(struct test *test)
{
    struct input in, dst;
    struct sp_sharding *result = NULL;
    if (!read_input(test, get_text(test, "to_merge"), &in) || !read_input(test, get_text(test, "dst"), &dst))
        return;
    enum sp_status status = sp_sharding_merge(test->arena, in.sharding, dst.sharding, &result, &test->err);
    if (status == SP_OK && result && dst.version != SP_HLO_V3 && tiles_of(result) <= tiles_of(dst.sharding))
        result = NULL;
    if (json_is_true(json_object_get(test->in, "expect_ok")) != (status == SP_OK && result))
        differs(test, "%s", result ? "merged" : "not merged");
    if (result)
        expect_result(test, status, result,
                      dst.version == in.version || dst.version == SP_HLO_V3 ? in.version : SP_HLO_V2);
}

static void check_move_tiles(struct test *test)
{
    struct input in;
    struct sp_sharding *result = NULL;
    if (!read_input(test, get_text(test, "sharding"), &in))
        return;
    enum sp_status status = sp_sharding_move_tiles(test->arena, in.sharding, (uint32_t)get_number(test, "source_dim"),
                                                   (uint32_t)get_number(test, "target_dim"), &result, &test->err);
    expect_result(test, status, result, in.version);
}

static void check_merge_dim(struct test *test)
{
    struct input in;
    struct sp_sharding *result = NULL;
    if (!read_input(test, get_text(test, "sharding"), &in))
        return;
    enum sp_status status =
        sp_sharding_merge_dims(test->arena, in.sharding, (uint32_t)get_number(test, "dim"), &result, &test->err);
    expect_result(test, status, result, in.version);
}

static void check_split_dim(struct test *test)
{
    struct input in;
    struct sp_sharding *result = NULL;
    if (!read_input(test, get_text(test, "sharding"), &in))
        return;
    enum sp_status status = sp_sharding_split_dim(test->arena, in.sharding, (uint32_t)get_number(test, "dim"),
                                                  get_number(test, "size"), &result, &test->err);
    expect_result(test, status, result, in.version);
}

static void check_transpose(struct test *test)
{
    struct input in;
    uint32_t rank;
    const uint32_t *perm = get_indices(test, "perm", &rank);
    struct sp_sharding *result = NULL;
    if (!read_input(test, get_text(test, "sharding"), &in))
        return;
    /* A longer one goes on over the subgroups, which have an order of their own. */
    if (in.sharding->kind == SP_SHARDING_AXES && in.sharding->rank > rank)
        return differs(test, "the permutation is for rank %" PRIu32 ", not %" PRIu32, rank, in.sharding->rank);
    enum sp_status status = sp_sharding_transpose(test->arena, in.sharding, perm, &result, &test->err);
    expect_result(test, status, result, in.version);
}

static void check_copy_dims(struct test *test)
{
    struct input in;
    uint32_t count, target_count;
    const uint32_t *sources = get_indices(test, "source_dims", &count);
    const uint32_t *targets = get_indices(test, "target_dims", &target_count);
    struct sp_sharding *result = NULL;
    if (count != target_count || !read_input(test, get_text(test, "sharding"), &in))
        return differs(test, "the case has no source for each target");
    enum sp_status status = sp_sharding_copy_dims(test->arena, in.sharding, count, sources, targets,
                                                  (uint32_t)get_number(test, "target_rank"), &result, &test->err);
    expect_result(test, status, result, in.version);
}

typedef enum sp_status change_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t count,
                                   const uint32_t *axes, struct sp_sharding **ret, struct sp_error *err);

static void check_change(struct test *test, change_dims *change)
{
    struct input in;
    uint32_t count;
    const uint32_t *axes = get_indices(test, "dims", &count);
    struct sp_sharding *result = NULL;
    if (!read_input(test, get_text(test, "sharding"), &in))
        return;
    enum sp_status status = change(test->arena, in.sharding, count, axes, &result, &test->err);
    expect_result(test, status, result, in.version);
}

static void check_replicate_dims(struct test *test)
{
    check_change(test, sp_sharding_replicate_dims);
}

static void check_remove_dims(struct test *test)
{
    check_change(test, sp_sharding_remove_dims);
}

static void check_add_dims(struct test *test)
{
    check_change(test, sp_sharding_add_dims);
}

static void check_is_sub_tiling(struct test *test)
{
    struct input fine, coarse;
    uint32_t rank;
    const int64_t *shape = get_numbers(test, "shape", &rank);
    bool is = false;
    if (!read_input(test, get_text(test, "fine"), &fine) || !read_input(test, get_text(test, "coarse"), &coarse))
        return;
    if (sp_sharding_is_sub_tiling(test->arena, fine.sharding, coarse.sharding, rank, shape, &is, &test->err) != SP_OK)
        return differs(test, "%s", test->err.message);
    expect_bool(test, is);
}

static void check_first_dim(struct test *test)
{
    struct input in;
    uint32_t rank;
    const int64_t *shape = get_numbers(test, "shape", &rank);
    int64_t axis = -1;
    if (!read_input(test, get_text(test, "sharding"), &in))
        return;
    if (sp_sharding_first_dim_for_tiles(in.sharding, rank, shape, (uint32_t)get_number(test, "source_dim"), &axis,
                                        &test->err) != SP_OK)
        return differs(test, "%s", test->err.message);
    const json_t *expected = json_object_get(test->in, "expect");
    if (axis < 0 ? !json_is_null(expected) : !json_is_integer(expected) || json_integer_value(expected) != axis)
        differs(test, "found %" PRId64, axis);
}

const struct check transform_checks[] = {
    {"reshape", check_reshape},
    {"reshape_propagate_best_effort", check_reshape_best_effort},
    {"merge", check_merge},
    {"move_tiles", check_move_tiles},
    {"merge_dim_with_next", check_merge_dim},
    {"split_dim", check_split_dim},
    {"transpose", check_transpose},
    {"copy_dims", check_copy_dims},
    {"replicate_dims", check_replicate_dims},
    {"remove_dims", check_remove_dims},
    {"add_dims", check_add_dims},
    {"is_sub_tiling_or_equal", check_is_sub_tiling},
    {"first_dim_to_move_tiles_to", check_first_dim},
    {NULL, NULL},
};
