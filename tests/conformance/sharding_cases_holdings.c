/* Predicates of one sharding or two: what devices hold, and which axes of the mesh are used. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sharding_cases.h"

/* ---- named shardings -------------------------------------------------------------------------------------------- */

struct predicates {
    bool replicated, single_device, manual, unreduced, partial_replication;
};

/* Axes of one device do not count. */
static struct predicates predicates_of(const struct sp_sharding *sharding)
{
    struct predicates found = {.replicated = sharding->kind == SP_SHARDING_REPLICATED,
                               .single_device = sharding->kind == SP_SHARDING_SINGLE,
                               .manual = sharding->kind == SP_SHARDING_MANUAL,
                               .unreduced = sharding->kind == SP_SHARDING_UNREDUCED};
    if (sharding->kind != SP_SHARDING_AXES)
        return found;
    const int64_t devices = sharding->mesh->order.count, manual = sp_axes_size(&sharding->manual);
    const int64_t partial = sp_axes_size(&sharding->partial);
    int64_t used = manual * partial;
    for (uint32_t axis = 0; axis < sharding->rank; axis++)
        used *= sp_sharding_shards(sharding, axis);
    found.manual = sharding->manual.count > 0 && manual == devices;
    found.unreduced = sharding->partial.count > 0 && partial == devices;
    found.replicated = used == 1 && !found.manual && !found.unreduced;
    found.partial_replication = used > 1 && used < devices;
    return found;
}

static void check_named_predicate(struct test *test)
{
    const struct sp_sharding *sharding = read_common(test, get_text(test, "sharding"));
    json_t *expected = json_object_get(test->in, "expect"), *value;
    const char *key;
    if (sharding == NULL)
        return;
    const struct predicates found = predicates_of(sharding);
    const struct {
        const char *name;
        bool value;
    } all[] = {{"replicated", found.replicated},
               {"single_device", found.single_device},
               {"manual", found.manual},
               {"unreduced", found.unreduced},
               {"partial_replication", found.partial_replication}};
    json_object_foreach(expected, key, value)
    {
        size_t i = 0;
        while (i < sizeof all / sizeof all[0] && strcmp(all[i].name, key) != 0)
            i++;
        if (i == sizeof all / sizeof all[0])
            differs(test, "there is no predicate %s", key);
        else if (json_is_true(value) != all[i].value)
            differs(test, "%s is %s", key, all[i].value ? "true" : "false");
    }
}

static bool is_same_list(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    return a->count == b->count && (a->count == 0 || memcmp(a->refs, b->refs, a->count * sizeof *a->refs) == 0);
}

/* Names of axes and explicit replication do not count; what is whole everywhere is equal. */
static void check_named_equal(struct test *test)
{
    const struct sp_sharding *a = read_common(test, get_text(test, "a")), *b = read_common(test, get_text(test, "b"));
    if (a == NULL || b == NULL)
        return;
    const bool is_whole = predicates_of(a).replicated;
    bool is_equal = is_whole == predicates_of(b).replicated;
    if (is_equal && !is_whole && a->kind == SP_SHARDING_AXES && b->kind == SP_SHARDING_AXES) {
        is_equal = a->rank == b->rank && sp_mesh_equal(a->mesh, b->mesh, false) &&
                   is_same_list(&a->partial, &b->partial) && is_same_list(&a->manual, &b->manual);
        for (uint32_t axis = 0; is_equal && axis < a->rank; axis++)
            is_equal = is_same_list(&a->dims[axis].axes, &b->dims[axis].axes);
    } else if (is_equal && !is_whole) {
        is_equal = a->kind == b->kind && a->device == b->device;
    }
    expect_bool(test, is_equal);
}

/* ---- axes that no list mentions ----------------------------------------------------------------------------------- */

/* The first cut at or behind `from` at which a used part of the axis begins; *ret_end is where it ends. */
static int64_t next_used(const struct sp_sharding *sharding, uint32_t axis, int64_t from, int64_t *ret_end)
{
    const struct sp_axis_list *others[] = {&sharding->replicated, &sharding->partial, &sharding->manual};
    int64_t first = sharding->mesh->axes[axis].size;
    *ret_end = first;
    for (uint32_t i = 0; i < sharding->rank + 3; i++) {
        const struct sp_axis_list *list = i < sharding->rank ? &sharding->dims[i].axes : others[i - sharding->rank];
        for (uint32_t k = 0; k < list->count; k++) {
            const struct sp_axis_ref ref = list->refs[k];
            if (ref.axis == axis && ref.pre >= from && ref.pre < first) {
                first = ref.pre;
                *ret_end = ref.pre * ref.size;
            }
        }
    }
    return first;
}

/* "b", or "b:(2)4"; or as numbers. */
static bool is_ref(const struct sp_mesh *mesh, struct sp_axis_ref ref, const json_t *expected)
{
    char text[256], bare[256];
    size_t size = 0;
    const char *given = json_string_value(expected);
    if (given == NULL) {
        const int64_t found[] = {ref.axis, ref.pre, ref.size};
        const size_t count = sp_axis_is_full(mesh, ref) ? 1 : 3;
        for (size_t i = 0; i < count; i++)
            if (json_integer_value(json_array_get(expected, i)) != found[i])
                return false;
        return json_array_size(expected) == count;
    }
    for (; *given != '\0' && size + 1 < sizeof bare; given++)
        if (*given != '\'' && *given != '"')
            bare[size++] = *given;
    bare[size] = '\0';
    if (sp_axis_is_full(mesh, ref))
        (void)snprintf(text, sizeof text, "%s", mesh->axes[ref.axis].name);
    else
        (void)snprintf(text, sizeof text, "%s:(%" PRId64 ")%" PRId64, mesh->axes[ref.axis].name, ref.pre, ref.size);
    return strcmp(text, bare) == 0;
}

static void check_unused_axes(struct test *test)
{
    const struct sp_sharding *sharding = read_common(test, get_text(test, "sharding"));
    const json_t *expected = get_list(test, "expect");
    size_t count = 0;
    if (sharding == NULL || sharding->kind != SP_SHARDING_AXES)
        return differs(test, "the sharding has no mesh");
    for (uint32_t axis = 0; axis < sharding->mesh->axis_count; axis++) {
        int64_t end = 1;
        for (int64_t from = 1; from < sharding->mesh->axes[axis].size; from = end) {
            int64_t begin = next_used(sharding, axis, from, &end);
            const struct sp_axis_ref ref = {.axis = axis, .pre = from, .size = begin / from};
            if (begin > from && !is_ref(sharding->mesh, ref, json_array_get(expected, count++)))
                differs(test, "found axis %" PRIu32 ":(%" PRId64 ")%" PRId64, axis, ref.pre, ref.size);
        }
    }
    if (count != json_array_size(expected))
        differs(test, "found %zu axes", count);
}

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

/* Every device's fine tile lies in its coarse tile, unless it is empty. */
static void check_is_sub_tiling(struct test *test)
{
    uint32_t rank;
    const int64_t *shape = get_numbers(test, "shape", &rank);
    const struct sp_sharding *fine = read_common(test, get_text(test, "fine"));
    const struct sp_sharding *coarse = read_common(test, get_text(test, "coarse"));
    const struct sp_sharding *one = fine != NULL && fine->kind == SP_SHARDING_AXES ? fine : coarse;
    bool is_inside = true;
    if (fine == NULL || coarse == NULL)
        return;
    for (int64_t device = 0; one->kind == SP_SHARDING_AXES && device < one->mesh->order.count; device++) {
        struct sp_tile inner, outer;
        bool is_held = false, is_empty = false, is_in = true;
        if (sp_sharding_tile(fine, rank, shape, device, &is_held, &inner, &test->err) != SP_OK || !is_held ||
            sp_sharding_tile(coarse, rank, shape, device, &is_held, &outer, &test->err) != SP_OK || !is_held)
            return differs(test, "device %" PRId64 " has no tile: %s", device, test->err.message);
        for (uint32_t axis = 0; axis < rank; axis++) {
            is_empty = is_empty || inner.ranges[axis].start >= inner.ranges[axis].limit;
            is_in = is_in && inner.ranges[axis].start >= outer.ranges[axis].start &&
                    inner.ranges[axis].limit <= outer.ranges[axis].limit;
        }
        is_inside = is_inside && (is_in || is_empty);
    }
    expect_bool(test, is_inside);
}

/* The tensor of which each device has such a tile; its tiles have this shape again. */
static void check_untile_shape(struct test *test)
{
    uint32_t rank;
    const int64_t *tile = get_numbers(test, "shape", &rank);
    const struct sp_sharding *sharding = read_common(test, get_text(test, "sharding"));
    int64_t shape[SP_MAX_RANK], again[SP_MAX_RANK];
    if (sharding == NULL || rank > SP_MAX_RANK)
        return;
    for (uint32_t axis = 0; axis < rank; axis++)
        shape[axis] = tile[axis] * sp_sharding_shards(sharding, axis);
    if (sp_sharding_tile_shape(sharding, rank, shape, again, &test->err) != SP_OK)
        differs(test, "%s", test->err.message);
    else if (memcmp(again, tile, rank * sizeof *tile) != 0)
        differs(test, "its tiles have another shape");
    expect_numbers(test, rank, shape);
}

const struct check holding_checks[] = {
    {"named_predicate", check_named_predicate},
    {"named_equal", check_named_equal},
    {"implicitly_replicated_axes", check_unused_axes},
    {"is_sub_tiling_or_equal", check_is_sub_tiling},
    {"untile_shape", check_untile_shape},
    {NULL, NULL},
};
