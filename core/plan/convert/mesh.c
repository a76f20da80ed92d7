/*
 * The mesh that stands beside a sharding: as Shardy writes it, as ONNX Runtime's two attributes, or as JSON.
 */
#include <string.h>

#include "plan/convert/internal.h"

#define ORT_SHAPE    "device_mesh_shape"
#define ORT_ELEMENTS "device_mesh_elements"

struct ints {
    int64_t count;
    int64_t *items;
};

/* ---- ONNX Runtime ---- */

/* The bracketed list behind `name=` in the text, with or without quotes around it. */
static bool find_list(const char *text, const char *name, const char **ret_list, size_t *ret_size)
{
    const char *at = strstr(text, name);
    if (at == NULL)
        return false;
    at += strlen(name);
    at += strspn(at, " \t");
    if (*at != '=')
        return false;
    at++;
    at += strspn(at, " \t\"'");
    const char *end = strchr(at, ']');
    if (*at != '[' || end == NULL)
        return false;
    *ret_list = at;
    *ret_size = (size_t)(end + 1 - at);
    return true;
}

static enum sp_status read_list(struct sp_members_reader *reader, const char *text, const char *name,
                                struct ints *ret_ints)
{
    const char *list;
    size_t size;
    if (!find_list(text, name, &list, &size))
        return sp_members_refuse(reader, "/mesh", "MESH_MALFORMED",
                                 "The mesh must have '%s=[..]'; both " ORT_SHAPE " and " ORT_ELEMENTS " are needed.",
                                 name);
    return sp_ort_read_ints(reader->arena, list, size, &ret_ints->count, &ret_ints->items, reader->err);
}

/* Axes "axis_0", .. of these sizes over these devices. */
static enum sp_status make_mesh(struct sp_members_reader *reader, const struct ints *shape, const struct ints *elements,
                                const struct sp_mesh **ret_mesh)
{
    struct sp_device_order order;
    struct sp_mesh *mesh = NULL;
    if (shape->count > SP_MAX_SHARDING_AXES)
        return sp_fail_limit(reader->err, "TOO_MANY_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES, shape->count,
                             "A mesh may have %d axes.", SP_MAX_SHARDING_AXES);
    struct sp_mesh_axis *axes = SP_NEW_ARRAY(reader->arena, (size_t)shape->count + 1, struct sp_mesh_axis);
    if (axes == NULL)
        return sp_fail_memory(reader->err);
    for (int64_t i = 0; i < shape->count; i++) {
        axes[i] = (struct sp_mesh_axis){sp_arena_printf(reader->arena, "axis_%lld", (long long)i), shape->items[i]};
        if (axes[i].name == NULL)
            return sp_fail_memory(reader->err);
    }
    enum sp_status status = sp_device_order_list(reader->arena, elements->count, elements->items, &order, reader->err);
    if (status == SP_OK)
        status = sp_mesh_create(reader->arena, (uint32_t)shape->count, axes, &order, &mesh, reader->err);
    if (status == SP_OK)
        *ret_mesh = mesh;
    return status;
}

static enum sp_status write_ort(struct sp_members_reader *reader, const struct ints *shape, const struct ints *elements,
                                const char **ret_text)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SP_MAX_SHARDING_BYTES);
    for (int list = 0; list < 2; list++) {
        const struct ints *ints = list == 0 ? shape : elements;
        sp_buf_text(&buf, list == 0 ? ORT_SHAPE "=[" : " " ORT_ELEMENTS "=[");
        for (int64_t i = 0; i < ints->count; i++)
            sp_buf_printf(&buf, "%s%lld", i > 0 ? "," : "", (long long)ints->items[i]);
        sp_buf_text(&buf, "]");
    }
    *ret_text = sp_buf_failed(&buf) ? NULL : sp_arena_string(reader->arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return *ret_text != NULL ? SP_OK : sp_fail_memory(reader->err);
}

static enum sp_status take_ort(struct sp_members_reader *reader, const struct ints *shape, const struct ints *elements,
                               struct sp_convert_mesh *ret_mesh)
{
    struct sp_error err = {0};
    struct sp_members_reader trial = {reader->arena, &err};
    enum sp_status status = write_ort(reader, shape, elements, &ret_mesh->ort);
    if (status != SP_OK)
        return status;
    status = make_mesh(&trial, shape, elements, &ret_mesh->mesh);
    /* A mesh of one axis may repeat devices. It is none for other notations, and that of a spec of ONNX Runtime. */
    if (status == SP_OK || (status == SP_ERR_MALFORMED && shape->count == 1))
        return SP_OK;
    if (reader->err != NULL)
        *reader->err = err;
    return status;
}

/* ---- JSON ---- */

static enum sp_status read_array(struct sp_members_reader *reader, const json_t *object, const char *member,
                                 struct ints *ret_ints)
{
    const json_t *array = json_object_get(object, member);
    size_t count = json_array_size(array);
    const char *pointer = sp_members_child(reader, "/mesh", member);
    if (pointer == NULL)
        return sp_fail_memory(reader->err);
    if (json_is_string(array))
        return sp_ort_read_ints(reader->arena, json_string_value(array), json_string_length(array), &ret_ints->count,
                                &ret_ints->items, reader->err);
    if (!json_is_array(array) || count > SP_MAX_LISTED_DEVICES)
        return sp_members_refuse(reader, pointer, "MEMBER_TYPE", "'%s' must be an array of at most %d integers.",
                                 member, SP_MAX_LISTED_DEVICES);
    ret_ints->count = (int64_t)count;
    ret_ints->items = SP_NEW_ARRAY(reader->arena, count + 1, int64_t);
    if (ret_ints->items == NULL)
        return sp_fail_memory(reader->err);
    for (size_t i = 0; i < count; i++) {
        if (!json_is_integer(json_array_get(array, i)))
            return sp_members_refuse(reader, sp_members_item(reader, pointer, i), "MEMBER_TYPE",
                                     "This must be an integer.");
        ret_ints->items[i] = json_integer_value(json_array_get(array, i));
    }
    return SP_OK;
}

static enum sp_status read_ort_object(struct sp_members_reader *reader, json_t *object,
                                      struct sp_convert_mesh *ret_mesh)
{
    static const char *const members[] = {ORT_SHAPE, ORT_ELEMENTS};
    struct ints shape = {0}, elements = {0};
    enum sp_status status = sp_members_check(reader, object, "/mesh", "A mesh of ONNX Runtime", members, 2);
    if (status == SP_OK)
        status = read_array(reader, object, ORT_SHAPE, &shape);
    if (status == SP_OK)
        status = read_array(reader, object, ORT_ELEMENTS, &elements);
    return status == SP_OK ? take_ort(reader, &shape, &elements, ret_mesh) : status;
}

static enum sp_status read_axes(struct sp_members_reader *reader, const json_t *array, struct sp_mesh_axis *axes)
{
    static const char *const members[] = {"name", "size"};
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *axis = json_array_get(array, i);
        const json_t *size = json_object_get(axis, "size");
        const char *pointer = sp_members_item(reader, "/mesh/axes", i);
        enum sp_status status = pointer == NULL ? sp_fail_memory(reader->err)
                                                : sp_members_check(reader, json_array_get(array, i), pointer,
                                                                   "An axis of a mesh", members, 2);
        if (status == SP_OK)
            status = sp_members_text(reader, axis, pointer, "name", SP_MAX_NAME_BYTES, &axes[i].name);
        if (status == SP_OK && (axes[i].name == NULL || !json_is_integer(size)))
            status = sp_members_refuse(reader, pointer, "MEMBER_MISSING",
                                       "An axis of a mesh needs 'name', a string, and 'size', an integer.");
        if (status != SP_OK)
            return status;
        axes[i].size = json_integer_value(size);
    }
    return SP_OK;
}

static enum sp_status read_axes_object(struct sp_members_reader *reader, json_t *object,
                                       struct sp_convert_mesh *ret_mesh)
{
    static const char *const members[] = {"name", "axes", "device_ids"};
    const json_t *array = json_object_get(object, "axes");
    size_t count = json_array_size(array);
    const char *name = NULL;
    struct ints ids = {0};
    struct sp_device_order order;
    struct sp_mesh *mesh = NULL;
    enum sp_status status = sp_members_check(reader, object, "/mesh", "A mesh", members, 3);
    if (status == SP_OK && (!json_is_array(array) || count == 0 || count > SP_MAX_SHARDING_AXES))
        status = sp_members_refuse(reader, "/mesh/axes", "MEMBER_TYPE", "'axes' must be an array of 1 to %d axes.",
                                   SP_MAX_SHARDING_AXES);
    struct sp_mesh_axis *axes = SP_NEW_ARRAY(reader->arena, count + 1, struct sp_mesh_axis);
    if (status == SP_OK && axes == NULL)
        status = sp_fail_memory(reader->err);
    if (status == SP_OK)
        status = read_axes(reader, array, axes);
    if (status == SP_OK)
        status = sp_members_text(reader, object, "/mesh", "name", SP_MAX_NAME_BYTES, &name);
    bool listed = json_object_get(object, "device_ids") != NULL;
    if (status == SP_OK && listed)
        status = read_array(reader, object, "device_ids", &ids);
    if (status == SP_OK && listed)
        status = sp_device_order_list(reader->arena, ids.count, ids.items, &order, reader->err);
    if (status == SP_OK)
        status = sp_mesh_create(reader->arena, (uint32_t)count, axes, listed ? &order : NULL, &mesh, reader->err);
    if (status == SP_OK) {
        mesh->name = name;
        ret_mesh->mesh = mesh;
    }
    return status;
}

/* ---- any ---- */

static enum sp_status read_mesh_text(struct sp_members_reader *reader, const json_t *value,
                                     struct sp_convert_mesh *ret_mesh)
{
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);
    if (size > SP_MAX_SHARDING_BYTES)
        return sp_fail_limit(reader->err, "MESH_TOO_LARGE", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES,
                             (int64_t)size, "The text of a mesh may have %u bytes.", SP_MAX_SHARDING_BYTES);
    if (strstr(text, ORT_SHAPE) != NULL || strstr(text, ORT_ELEMENTS) != NULL) {
        struct ints shape = {0}, elements = {0};
        enum sp_status status = read_list(reader, text, ORT_SHAPE, &shape);
        if (status == SP_OK)
            status = read_list(reader, text, ORT_ELEMENTS, &elements);
        return status == SP_OK ? take_ort(reader, &shape, &elements, ret_mesh) : status;
    }
    struct sp_mesh *mesh = NULL;
    enum sp_status status = sp_shardy_read_mesh(reader->arena, text, size, &mesh, reader->err);
    if (status == SP_OK)
        ret_mesh->mesh = mesh;
    return status;
}

static enum sp_status read_mesh(struct sp_members_reader *reader, const json_t *request,
                                struct sp_convert_mesh *ret_mesh)
{
    json_t *value = json_object_get(request, "mesh");
    const struct sp_convert_spec place = {.pointer = "/mesh"};
    enum sp_status status;
    if (value == NULL)
        return SP_OK;
    if (json_is_string(value))
        status = read_mesh_text(reader, value, ret_mesh);
    else if (json_object_get(value, ORT_SHAPE) != NULL || json_object_get(value, ORT_ELEMENTS) != NULL)
        status = read_ort_object(reader, value, ret_mesh);
    else
        status = read_axes_object(reader, value, ret_mesh);
    /* An error of a member inside names it already. */
    if (status == SP_OK || (reader->err != NULL && reader->err->where[0] == '/'))
        return status;
    return sp_convert_blame(&place, reader->err);
}

enum sp_status sp_convert_read_context(struct sp_members_reader *reader, const json_t *request,
                                       struct sp_dialect_context *context, struct sp_convert_mesh *ret_mesh)
{
    struct sp_dialect_context found = {.rank = -1};
    struct sp_convert_mesh mesh = {0};
    int64_t rank = -1;
    enum sp_status status = sp_convert_read_shape(reader, request, &found.rank, &found.shape);
    if (status == SP_OK)
        status = sp_convert_read_integer(reader, request, "rank", 0, SP_MAX_RANK, &rank);
    if (status == SP_OK && rank >= 0 && found.rank >= 0 && rank != found.rank)
        status = sp_members_refuse(reader, "/rank", "RANK_MISMATCH", "'rank' is %lld, but 'shape' has %lld extents.",
                                   (long long)rank, (long long)found.rank);
    if (status == SP_OK && rank >= 0)
        found.rank = rank;
    if (status == SP_OK)
        status = sp_convert_read_integer(reader, request, "devices", 1, INT64_MAX, &found.device_count);
    if (status == SP_OK)
        status = read_mesh(reader, request, &mesh);
    if (status != SP_OK)
        return status;
    found.mesh = mesh.mesh;
    *context = found;
    *ret_mesh = mesh;
    return SP_OK;
}
