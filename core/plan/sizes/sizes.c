#include "plan/sizes/sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "ops/table/private.h"
#include "plan/sizes/given_states.h"

struct reader {
    struct sp_members_reader members;
    struct sp_arena *arena;
    struct sp_error *err;
};

bool sp_sizes_is_member(const char *member)
{
    return strcmp(member, "dims") == 0 || strcmp(member, "values") == 0 || strcmp(member, "shapes") == 0 ||
           strcmp(member, "operators") == 0 || strcmp(member, "state") == 0;
}

/* An object of at most `limit` members; *ret_pointer is where it stands. An absent one has none. */
static enum sp_status open_object(struct reader *r, const json_t *root, const char *pointer, const char *member,
                                  const char *like, json_t **ret_object, const char **ret_pointer)
{
    json_t *object = json_object_get(root, member);
    *ret_pointer = sp_members_child(&r->members, pointer, member);
    *ret_object = object;
    if (object != NULL && !json_is_object(object))
        return sp_members_refuse(&r->members, *ret_pointer, "INVALID_OPTION", "\"%s\" must be an object, like %s.",
                                 member, like);
    return *ret_pointer == NULL ? sp_fail_memory(r->err) : SP_OK;
}

/* ---- dims ------------------------------------------------------------------------------------------------------ */

static enum sp_status read_dims(struct reader *r, const json_t *root, const char *pointer, struct sp_sizes *sizes)
{
    json_t *object, *value;
    const char *at, *name;
    uint32_t count = 0;
    enum sp_status status = open_object(r, root, pointer, "dims", "{\"seq\": 128}", &object, &at);
    if (status != SP_OK || object == NULL)
        return status;
    if (json_object_size(object) > SP_MAX_BOUND_DIMS)
        return sp_fail_limit(r->err, "TOO_MANY_DIMENSIONS", "SP_MAX_BOUND_DIMS", SP_MAX_BOUND_DIMS,
                             (int64_t)json_object_size(object), "One request may bind at most %d dimensions.",
                             SP_MAX_BOUND_DIMS);
    const char **names = SP_NEW_ARRAY(r->arena, json_object_size(object), const char *);
    int64_t *values = SP_NEW_ARRAY(r->arena, json_object_size(object), int64_t);
    if (names == NULL || values == NULL)
        return sp_fail_memory(r->err);
    json_object_foreach(object, name, value)
    {
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return sp_members_refuse(&r->members, sp_members_child(&r->members, at, name), "INVALID_OPTION",
                                     "A dimension must be a whole number of 0 or more.");
        names[count] = sp_arena_string(r->arena, name, strlen(name));
        values[count] = json_integer_value(value);
        if (names[count++] == NULL)
            return sp_fail_memory(r->err);
    }
    sizes->dim_count = count;
    sizes->dim_names = names;
    sizes->dim_values = values;
    return SP_OK;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static enum sp_status refuse_value(struct reader *r, const char *pointer)
{
    return sp_members_refuse(&r->members, pointer, "INVALID_OPTION",
                             "The value of an input is true, false, a number, or lists of them of one length each.");
}

static bool add_number(struct sp_given_value *value, int64_t *ints, const json_t *item)
{
    const double real = json_is_boolean(item) ? json_is_true(item) : json_number_value(item);
    if (!json_is_boolean(item) && !json_is_number(item))
        return false;
    if (value->count == 0)
        value->is_bool = json_is_boolean(item);
    if (value->is_bool != json_is_boolean(item))
        return false;
    ints[value->count] = json_is_boolean(item) ? json_is_true(item) : json_integer_value(item);
    value->ints = json_is_real(item) ? NULL : value->ints;
    value->reals[value->count++] = real;
    return true;
}

/* Lists in lists, row-major: a stack of the lists that are open. */
static enum sp_status read_value(struct reader *r, const json_t *json, const char *pointer,
                                 struct sp_given_value *value)
{
    struct {
        const json_t *list;
        size_t next;
    } open[SP_MAX_RANK];
    uint32_t depth = 0;
    const json_t *item = json;
    int64_t *ints = SP_NEW_ARRAY(r->arena, SP_MAX_DATA_ELEMENTS, int64_t);
    value->reals = SP_NEW_ARRAY(r->arena, SP_MAX_DATA_ELEMENTS, double);
    value->ints = ints;
    if (ints == NULL || value->reals == NULL)
        return sp_fail_memory(r->err);
    for (; json_is_array(item); item = json_array_get(item, 0)) {
        if (value->rank == SP_MAX_RANK)
            return refuse_value(r, pointer);
        value->dims[value->rank++] = (int64_t)json_array_size(item);
    }
    for (item = json;;) {
        if (json_is_array(item)) {
            if (depth == value->rank || (int64_t)json_array_size(item) != value->dims[depth])
                return refuse_value(r, pointer);
            open[depth].list = item;
            open[depth++].next = 0;
        } else if (value->count == SP_MAX_DATA_ELEMENTS) {
            return sp_fail_limit(r->err, "VALUE_TOO_LARGE", "SP_MAX_DATA_ELEMENTS", SP_MAX_DATA_ELEMENTS,
                                 SP_MAX_DATA_ELEMENTS + 1, "The value of an input may have at most %d elements.",
                                 SP_MAX_DATA_ELEMENTS);
        } else if (depth != value->rank || !add_number(value, ints, item)) {
            return refuse_value(r, pointer);
        }
        while (depth > 0 && open[depth - 1].next == json_array_size(open[depth - 1].list))
            depth--;
        if (depth == 0)
            return SP_OK;
        item = json_array_get(open[depth - 1].list, open[depth - 1].next++);
    }
}

static enum sp_status read_values(struct reader *r, const json_t *root, const char *pointer, struct sp_sizes *sizes)
{
    json_t *object, *json;
    const char *at, *name;
    uint32_t count = 0;
    enum sp_status status = open_object(r, root, pointer, "values", "{\"use_cache\": true}", &object, &at);
    if (status != SP_OK || object == NULL)
        return status;
    if (json_object_size(object) > SP_MAX_GIVEN_VALUES)
        return sp_fail_limit(r->err, "TOO_MANY_VALUES_GIVEN", "SP_MAX_GIVEN_VALUES", SP_MAX_GIVEN_VALUES,
                             (int64_t)json_object_size(object), "One request may give the values of at most %d inputs.",
                             SP_MAX_GIVEN_VALUES);
    struct sp_given_value *values = SP_NEW_ARRAY(r->arena, json_object_size(object), struct sp_given_value);
    if (values == NULL)
        return sp_fail_memory(r->err);
    json_object_foreach(object, name, json)
    {
        const char *place = sp_members_child(&r->members, at, name);
        values[count].input = sp_arena_string(r->arena, name, strlen(name));
        if (values[count].input == NULL || place == NULL)
            return sp_fail_memory(r->err);
        status = read_value(r, json, place, &values[count++]);
        if (status != SP_OK)
            return status;
    }
    sizes->given.value_count = count;
    sizes->given.values = values;
    return SP_OK;
}

/* ---- shapes ---------------------------------------------------------------------------------------------------- */

static enum sp_status read_extents(struct reader *r, const json_t *list, const char *pointer,
                                   struct sp_given_shape *shape)
{
    const size_t rank = json_array_size(list);
    if (!json_is_array(list) || rank > SP_MAX_RANK)
        return sp_members_refuse(&r->members, pointer, "INVALID_OPTION",
                                 "A shape is a list of at most %d extents, like [2, \"seq\", null].", SP_MAX_RANK);
    struct sp_given_extent *extents = SP_NEW_ARRAY(r->arena, rank, struct sp_given_extent);
    if (extents == NULL)
        return sp_fail_memory(r->err);
    for (size_t i = 0; i < rank; i++) {
        const json_t *item = json_array_get(list, i);
        const char *text = json_string_value(item);
        const bool is_number = json_is_integer(item) && json_integer_value(item) >= 0;
        if (!is_number && !json_is_null(item) && (text == NULL || text[0] == '\0' || strlen(text) > SP_MAX_NAME_BYTES))
            return sp_members_refuse(&r->members, sp_members_item(&r->members, pointer, i), "INVALID_OPTION",
                                     "An extent is a whole number of 0 or more, the name of a dimension, or null.");
        extents[i].text = text != NULL ? sp_arena_string(r->arena, text, strlen(text)) : NULL;
        extents[i].value = is_number ? json_integer_value(item) : -1;
        if (text != NULL && extents[i].text == NULL)
            return sp_fail_memory(r->err);
    }
    shape->rank = (uint32_t)rank;
    shape->extents = extents;
    return SP_OK;
}

static enum sp_status read_shape(struct reader *r, json_t *json, const char *pointer, struct sp_given_shape *shape)
{
    static const char *const members[] = {"dtype", "shape"};
    const char *dtype = NULL;
    if (!json_is_object(json))
        return read_extents(r, json, pointer, shape);
    enum sp_status status = sp_members_check(&r->members, json, pointer, "A shape with its type", members, 2);
    if (status == SP_OK)
        status = sp_members_text(&r->members, json, pointer, "dtype", SP_MAX_NAME_BYTES, &dtype);
    if (status != SP_OK)
        return status;
    shape->dtype = dtype != NULL ? sp_dtype_parse(dtype) : SP_DTYPE_UNDEFINED;
    if (dtype != NULL && shape->dtype == SP_DTYPE_UNDEFINED)
        return sp_members_refuse(&r->members, sp_members_child(&r->members, pointer, "dtype"), "INVALID_OPTION",
                                 "There is no type of elements '%.80s'.", dtype);
    return read_extents(r, json_object_get(json, "shape"), sp_members_child(&r->members, pointer, "shape"), shape);
}

static enum sp_status read_shapes(struct reader *r, const json_t *root, const char *pointer, struct sp_sizes *sizes)
{
    json_t *object, *json;
    const char *at, *name;
    uint32_t count = 0;
    enum sp_status status = open_object(r, root, pointer, "shapes", "{\"tokens\": [2, \"seq\"]}", &object, &at);
    if (status != SP_OK || object == NULL)
        return status;
    if (json_object_size(object) > SP_MAX_GIVEN_SHAPES)
        return sp_fail_limit(r->err, "TOO_MANY_SHAPES_GIVEN", "SP_MAX_GIVEN_SHAPES", SP_MAX_GIVEN_SHAPES,
                             (int64_t)json_object_size(object),
                             "One request may give the shapes of at most %d tensors.", SP_MAX_GIVEN_SHAPES);
    struct sp_given_shape *shapes = SP_NEW_ARRAY(r->arena, json_object_size(object), struct sp_given_shape);
    if (shapes == NULL)
        return sp_fail_memory(r->err);
    json_object_foreach(object, name, json)
    {
        const char *place = sp_members_child(&r->members, at, name);
        shapes[count].tensor = sp_arena_string(r->arena, name, strlen(name));
        if (shapes[count].tensor == NULL || place == NULL)
            return sp_fail_memory(r->err);
        status = read_shape(r, json, place, &shapes[count++]);
        if (status != SP_OK)
            return status;
    }
    sizes->given.shape_count = count;
    sizes->given.shapes = shapes;
    return SP_OK;
}

static enum sp_status read_operators(struct reader *r, const json_t *root, const char *pointer, struct sp_sizes *sizes)
{
    const json_t *list = json_object_get(root, "operators");
    const char *at = sp_members_child(&r->members, pointer, "operators");
    struct sp_private_operators *operators = SP_NEW(r->arena, struct sp_private_operators);
    if (list == NULL)
        return SP_OK;
    if (at == NULL || operators == NULL)
        return sp_fail_memory(r->err);
    enum sp_status status = sp_private_parse(r->arena, list, at, operators, r->err);
    sizes->given.operators = operators;
    return status;
}

static enum sp_status read_states(struct reader *r, const json_t *root, const char *pointer, struct sp_sizes *sizes)
{
    json_t *json = json_object_get(root, "state");
    const char *at = sp_members_child(&r->members, pointer, "state");
    if (json == NULL)
        return SP_OK;
    return at != NULL ? sp_given_states_parse(&r->members, json, at, &sizes->given.states) : sp_fail_memory(r->err);
}

enum sp_status sp_sizes_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                              struct sp_sizes *ret_sizes, struct sp_error *err)
{
    struct reader reader = {{arena, err}, arena, err};
    struct sp_sizes sizes = {0};
    enum sp_status status = read_dims(&reader, json, pointer, &sizes);
    if (status == SP_OK)
        status = read_values(&reader, json, pointer, &sizes);
    if (status == SP_OK)
        status = read_shapes(&reader, json, pointer, &sizes);
    if (status == SP_OK)
        status = read_operators(&reader, json, pointer, &sizes);
    if (status == SP_OK)
        status = read_states(&reader, json, pointer, &sizes);
    if (status == SP_OK)
        *ret_sizes = sizes;
    return status;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

struct named {
    const char *name;
    uint32_t index;
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static struct named *sorted(struct sp_arena *arena, uint32_t count, const void *first_name, size_t size)
{
    struct named *list = SP_NEW_ARRAY(arena, count, struct named);
    for (uint32_t i = 0; list != NULL && i < count; i++)
        list[i] = (struct named){*(const char *const *)((const char *)first_name + i * size), i};
    if (list != NULL && count > 1)
        qsort(list, count, sizeof *list, by_name);
    return list;
}

static void write_number(struct sp_json *json, const struct sp_given_value *value, uint32_t i)
{
    if (value->is_bool)
        sp_json_bool(json, value->reals[i] != 0);
    else if (value->ints != NULL)
        sp_json_int(json, value->ints[i]);
    else
        sp_json_double(json, value->reals[i]);
}

static void write_value(struct sp_json *json, const struct sp_given_value *value)
{
    sp_json_key(json, value->input);
    if (value->count == 0) { /* lists of no elements: only the outer ones have a form */
        for (uint32_t axis = 0; axis < value->rank; axis++)
            sp_json_begin_array(json);
        for (uint32_t axis = 0; axis < value->rank; axis++)
            sp_json_end_array(json);
        return;
    }
    for (uint32_t i = 0; i < value->count; i++) {
        uint32_t starts = 0, ends = 0;
        uint64_t size = 1;
        for (uint32_t axis = value->rank; axis-- > 0;) {
            size *= (uint64_t)value->dims[axis];
            starts += i % size == 0;
            ends += (i + 1) % size == 0;
        }
        for (uint32_t n = 0; n < starts; n++)
            sp_json_begin_array(json);
        write_number(json, value, i);
        for (uint32_t n = 0; n < ends; n++)
            sp_json_end_array(json);
    }
}

static void write_shape(struct sp_json *json, const struct sp_given_shape *shape)
{
    sp_json_key(json, shape->tensor);
    if (shape->dtype != SP_DTYPE_UNDEFINED) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "dtype", sp_dtype_name(shape->dtype));
        sp_json_key(json, "shape");
    }
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->extents[i].text == NULL && shape->extents[i].value >= 0)
            sp_json_int(json, shape->extents[i].value);
        else
            sp_json_string(json, shape->extents[i].text);
    }
    sp_json_end_array(json);
    if (shape->dtype != SP_DTYPE_UNDEFINED)
        sp_json_end_object(json);
}

bool sp_sizes_write(struct sp_arena *arena, const struct sp_sizes *sizes, struct sp_json *json)
{
    const struct named *dims = sorted(arena, sizes->dim_count, sizes->dim_names, sizeof(const char *));
    const struct named *values =
        sorted(arena, sizes->given.value_count, sizes->given.values, sizeof *sizes->given.values);
    const struct named *shapes =
        sorted(arena, sizes->given.shape_count, sizes->given.shapes, sizeof *sizes->given.shapes);
    if (dims == NULL || values == NULL || shapes == NULL)
        return false;
    sp_json_key(json, "dims");
    sp_json_begin_object(json);
    for (uint32_t i = 0; i < sizes->dim_count; i++)
        sp_json_member_int(json, dims[i].name, sizes->dim_values[dims[i].index]);
    sp_json_end_object(json);
    if (sizes->given.value_count > 0) {
        sp_json_key(json, "values");
        sp_json_begin_object(json);
        for (uint32_t i = 0; i < sizes->given.value_count; i++)
            write_value(json, &sizes->given.values[values[i].index]);
        sp_json_end_object(json);
    }
    if (sizes->given.shape_count > 0) {
        sp_json_key(json, "shapes");
        sp_json_begin_object(json);
        for (uint32_t i = 0; i < sizes->given.shape_count; i++)
            write_shape(json, &sizes->given.shapes[shapes[i].index]);
        sp_json_end_object(json);
    }
    if (sizes->given.operators != NULL) {
        sp_json_key(json, "operators");
        sp_private_write(sizes->given.operators, json);
    }
    if (sizes->given.states != NULL) {
        sp_json_key(json, "state");
        sp_given_states_write(sizes->given.states, json);
    }
    return true;
}
