/*
 * Operands of dot products. The dims of the product are told either as XLA's DotConvolutionDimsInfo does, in lists of
 * [LHS, RHS, OUTPUT] (or objects with these members) by what the dims are, or as dot's own dimension numbers with the
 * operands' shapes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sharding/transform.h"
#include "sharding_cases.h"

/* Where each axis of the operand is found; -1 for nowhere. */
struct places {
    uint32_t rank;
    int64_t result[SP_MAX_RANK], other[SP_MAX_RANK];
};

/* The first of these members that is there. */
static const json_t *find(const json_t *in, const char *const *keys)
{
    const json_t *found = NULL;
    for (; !found && *keys; keys++)
        found = json_object_get(in, *keys);
    return json_is_null(found) ? NULL : found;
}

static int64_t place_in(const json_t *dim, const char *key, size_t index)
{
    const json_t *place = json_is_array(dim) ? json_array_get(dim, index) : json_object_get(dim, key);
    return json_is_integer(place) ? json_integer_value(place) : -1;
}

static void place(struct places *places, int64_t axis, int64_t result, int64_t other)
{
    if (axis < 0 || axis >= SP_MAX_RANK)
        return;
    for (; places->rank <= axis; places->rank++)
        places->result[places->rank] = places->other[places->rank] = -1;
    places->result[axis] = result;
    places->other[axis] = other;
}

static bool read_dims_info(const json_t *in, int64_t operand, struct places *places)
{
    static const char *const groups[] = {"batch", "contracting", "lhs_non_contracting", "rhs_non_contracting"};
    bool found = false;
    for (size_t g = 0; g < 4; g++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%s_dims", groups[g]);
        const json_t *dims = find(in, (const char *const[]){name, groups[g], NULL});
        found = found || dims;
        for (size_t i = 0; i < json_array_size(dims); i++) {
            const json_t *dim = json_array_get(dims, i);
            int64_t lhs = place_in(dim, "lhs", 0), rhs = place_in(dim, "rhs", 1);
            place(places, operand == 0 ? lhs : rhs, place_in(dim, "output", 2), operand == 0 ? rhs : lhs);
        }
    }
    return found;
}

static bool contains(const json_t *list, size_t number, size_t *ret_index)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == (json_int_t)number) {
            *ret_index = i;
            return true;
        }
    return false;
}

static const json_t *dimension_numbers(const json_t *in, const char *side, const char *what)
{
    char with_dims[64], without[64], proto[64];
    (void)snprintf(with_dims, sizeof(with_dims), "%s_%s_dims", side, what);
    (void)snprintf(without, sizeof(without), "%s_%s", side, what);
    (void)snprintf(proto, sizeof(proto), "%s_%s_dimensions", side, what);
    return find(in, (const char *const[]){with_dims, without, proto, NULL});
}

/* The result's axes: batch, then what is left of lhs, then of rhs. */
static bool read_dimension_numbers(const json_t *in, const json_t *shapes, int64_t operand, struct places *places)
{
    static const char *const sides[] = {"lhs", "rhs"};
    const char *mine = sides[operand], *others = sides[1 - operand];
    const json_t *batch = dimension_numbers(in, mine, "batch"), *other_batch = dimension_numbers(in, others, "batch");
    const json_t *inner = dimension_numbers(in, mine, "contracting");
    const json_t *other_inner = dimension_numbers(in, others, "contracting");
    char key[64];
    (void)snprintf(key, sizeof(key), "%s_shape", mine);
    size_t rank = json_array_size(json_object_get(shapes, key)), index;
    (void)snprintf(key, sizeof(key), "%s_shape", others);
    size_t other_rank = json_array_size(json_object_get(shapes, key));
    if (rank == 0 || !inner || !other_inner)
        return false;
    size_t next = json_array_size(batch);
    if (operand == 1)
        next = other_rank - json_array_size(other_inner);
    for (size_t i = 0; i < rank; i++) {
        if (contains(batch, i, &index))
            place(places, (int64_t)i, (int64_t)index, json_integer_value(json_array_get(other_batch, index)));
        else if (contains(inner, i, &index))
            place(places, (int64_t)i, -1, json_integer_value(json_array_get(other_inner, index)));
        else
            place(places, (int64_t)i, (int64_t)next++, -1);
    }
    return true;
}

static void check_infer_operand(struct test *test)
{
    const json_t *in = test->in;
    const json_t *info = find(in, (const char *const[]){"dnums", "dims", "dimension_numbers", NULL});
    const json_t *index = find(in, (const char *const[]){"operand_index", "operand", "index", NULL});
    const json_t *result = find(in, (const char *const[]){"result_sharding", "dot_sharding", "output_sharding",
                                                          "result", "dot", "output", NULL});
    const json_t *other =
        find(in, (const char *const[]){"other_operand_sharding", "other_sharding", "other_operand", "other", NULL});
    int64_t operand = json_is_string(index) ? strcmp(json_string_value(index), "rhs") == 0 : json_integer_value(index);
    struct places places = {0};
    struct input of_result = {0}, of_other = {0};
    struct sp_sharding *found = NULL;
    info = info ? info : in;
    if (operand < 0 || !json_is_string(result ? result : other) || operand > 1 || (!result && !other) ||
        (!read_dimension_numbers(info, in, operand, &places) && !read_dims_info(info, operand, &places)))
        return differs(test, "the case does not say what is multiplied");
    if (json_is_false(json_object_get(in, "consider_other_operand")))
        other = NULL;
    if ((other && !read_input(test, json_string_value(other), &of_other)) ||
        (result && !read_input(test, json_string_value(result), &of_result)))
        return;
    if (sp_sharding_infer_operand(test->arena, places.rank, places.result, of_result.sharding, places.other,
                                  of_other.sharding, &found, &test->err) != SP_OK)
        return differs(test, "%s", test->err.message);
    if (found)
        expect_text(test, write_common(test, found, result ? of_result.version : of_other.version));
    else
        differs(test, "found nothing");
}

const struct check dot_checks[] = {
    {"infer_dot_operand", check_infer_operand},
    {NULL, NULL},
};
