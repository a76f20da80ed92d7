#include "realize/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "onnx/wire.h"
#include "realize/protobuf_fields.h"
#include "realize/recipe_internal.h"
#include "realize/tensor_elements.h"

#define LOCATION_EXTERNAL 1
#define MAX_BOX_BYTES     ((size_t)1 << 20) /* of the text of a box */
#define STRING_BYTES      16                /* that a string counts as: graph/dtype.h */

enum sp_status sp_weights_init(struct sp_weights *weights, const struct sp_realize_request *request,
                               struct sp_error *err)
{
    memset(weights, 0, sizeof *weights);
    weights->model = request->partition.model;
    weights->external = request->external;
    weights->data = request->data;
    weights->data_name = request->data_name;
    weights->declares_boxes = request->declares_boxes;
    weights->places = request->data != NULL ? request->places : NULL;
    weights->payload = sp_recipe_create();
    return weights->payload == NULL ? sp_fail_memory(err) : SP_OK;
}

void sp_weights_release(struct sp_weights *weights)
{
    sp_recipe_destroy(weights->payload);
    free(weights->bytes);
    memset(weights, 0, sizeof *weights);
}

/* ---- places in data files --------------------------------------------------------------------------------------- */

struct place {
    const char *location; /* NULL: in no file yet */
    uint64_t offset;
};

struct sp_weight_places {
    struct sp_arena *arena;
    struct sp_intern *boxes; /* each marked with its place */
};

struct sp_weight_places *sp_weight_places_create(struct sp_arena *arena)
{
    struct sp_weight_places *places = SP_NEW(arena, struct sp_weight_places);
    if (places == NULL)
        return NULL;
    *places = (struct sp_weight_places){.arena = arena, .boxes = sp_intern_create(arena, 0)};
    return places->boxes != NULL ? places : NULL;
}

void sp_weight_key(struct sp_buf *key, const void *what, uint32_t rank, const struct sp_axis_ranges *axes)
{
    sp_buf_append(key, &what, sizeof what);
    for (uint32_t i = 0; axes != NULL && i < rank; i++) {
        sp_buf_append(key, &axes[i].count, sizeof axes[i].count);
        sp_buf_append(key, axes[i].ranges, axes[i].count * sizeof *axes[i].ranges);
    }
}

/* The place of a box; NULL without memory. */
static struct place *place_of(struct sp_weight_places *places, const struct sp_tensor *tensor,
                              const struct sp_axis_ranges *axes)
{
    struct sp_buf key;
    sp_buf_init(&key, SP_MAX_RECORD_BYTES * 16);
    /* Another reading of the same file has the tensor elsewhere in memory. */
    const void *what = tensor->span.size > 0 ? (const void *)(uintptr_t)tensor->span.offset : tensor;
    sp_weight_key(&key, what, tensor->rank, axes);
    const char *box = sp_buf_failed(&key) ? NULL : sp_intern_text(places->boxes, key.data, key.size);
    sp_buf_release(&key);
    if (box == NULL)
        return NULL;
    void **mark = sp_intern_mark(box);
    if (*mark == NULL)
        *mark = SP_NEW(places->arena, struct place);
    return *mark;
}

/* ---- where bytes come from -------------------------------------------------------------------------------------- */

/* A box of the bytes at `offset` of a source into the payload; `axes` NULL: all. */
static void take_box(struct sp_weights *weights, uint32_t source, uint64_t offset, const struct sp_tensor *tensor,
                     const struct sp_axis_ranges *axes)
{
    const uint32_t bits = (uint32_t)sp_dtype_bits(tensor->dtype);
    if (axes == NULL)
        (void)sp_recipe_keep(weights->payload, source, offset, (uint64_t)tensor->bytes);
    else
        (void)sp_recipe_box(weights->payload, source, offset, tensor->rank, tensor->dims, bits, axes);
}

/* The tensor's bytes in memory: those of the file, or the unpacked ones, which are kept for the next box of it. */
static enum sp_status load(struct sp_weights *weights, const struct sp_tensor *tensor, const unsigned char **ret_bytes,
                           struct sp_error *err)
{
    if (tensor->storage == SP_STORAGE_RAW) {
        *ret_bytes = weights->model->bytes + tensor->raw.offset;
        return SP_OK;
    }
    if (weights->unpacked != tensor) {
        free(weights->bytes);
        weights->unpacked = NULL;
        weights->bytes = calloc(1, (size_t)tensor->bytes + 1);
        if (weights->bytes == NULL)
            return sp_fail_memory(err);
        enum sp_status status = sp_unpack_typed(weights->model, tensor, weights->bytes, err);
        if (status != SP_OK)
            return status;
        weights->unpacked = tensor;
    }
    *ret_bytes = weights->bytes;
    return SP_OK;
}

static enum sp_status take_in_memory(struct sp_weights *weights, const struct sp_tensor *tensor,
                                     const struct sp_axis_ranges *axes, struct sp_error *err)
{
    const uint32_t bits = (uint32_t)sp_dtype_bits(tensor->dtype);
    const unsigned char *bytes = NULL;
    enum sp_status status = load(weights, tensor, &bytes, err);
    if (status != SP_OK)
        return status;
    if (axes == NULL) {
        (void)sp_recipe_add(weights->payload, bytes, (size_t)tensor->bytes);
        return SP_OK;
    }
    const int64_t size = sp_dtype_bytes(tensor->dtype, sp_box_elements(tensor->rank, axes));
    unsigned char *box = calloc(1, (size_t)size + 1);
    if (box == NULL)
        return sp_fail_memory(err);
    sp_box_pick(tensor->rank, tensor->dims, axes, bits, bytes, box);
    (void)sp_recipe_add(weights->payload, box, (size_t)size);
    free(box);
    return SP_OK;
}

/* The box's bytes, as raw_data has them, into the payload; *ret_done false when that cannot be. */
static enum sp_status take(struct sp_weights *weights, const struct sp_tensor *tensor,
                           const struct sp_axis_ranges *axes, bool *ret_done, struct sp_error *err)
{
    const bool fits =
        axes == NULL || sp_recipe_box_fits(tensor->rank, tensor->dims, (uint32_t)sp_dtype_bits(tensor->dtype), axes);
    uint64_t offset;
    uint32_t source;
    enum sp_status status = SP_OK;
    sp_recipe_clear(weights->payload);
    *ret_done = true;
    if (tensor->storage == SP_STORAGE_EXTERNAL && fits) {
        if (sp_recipe_source(weights->payload, tensor->external.location, &source))
            take_box(weights, source, (uint64_t)tensor->external.offset, tensor, axes);
    } else if (fits && sp_unpack_run(weights->model, tensor, &offset)) {
        take_box(weights, 0, offset, tensor, axes);
    } else if ((tensor->storage == SP_STORAGE_TYPED || tensor->storage == SP_STORAGE_RAW) &&
               tensor->bytes <= SP_MAX_REPACKED_BYTES) {
        status = take_in_memory(weights, tensor, axes, err);
    } else {
        *ret_done = false;
    }
    return status == SP_OK && *ret_done ? sp_recipe_status(weights->payload, err) : status;
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static void put_header(struct sp_recipe *out, const char *name, const struct sp_tensor *tensor,
                       const struct sp_axis_ranges *axes)
{
    for (uint32_t i = 0; i < tensor->rank; i++)
        sp_put_int(out, SP_PUT_TENSOR_DIMS, axes == NULL ? tensor->dims[i] : sp_box_elements(1, &axes[i]));
    sp_put_int(out, SP_PUT_TENSOR_DATA_TYPE, tensor->dtype);
    sp_put_text(out, SP_PUT_TENSOR_NAME, name);
}

static void put_place(struct sp_recipe *out, const char *location, uint64_t offset, uint64_t size)
{
    char number[24];
    sp_put_entry(out, SP_PUT_TENSOR_EXTERNAL_DATA, "location", location);
    (void)snprintf(number, sizeof number, "%" PRIu64, offset);
    sp_put_entry(out, SP_PUT_TENSOR_EXTERNAL_DATA, "offset", number);
    (void)snprintf(number, sizeof number, "%" PRIu64, size);
    sp_put_entry(out, SP_PUT_TENSOR_EXTERNAL_DATA, "length", number);
    sp_put_int(out, SP_PUT_TENSOR_DATA_LOCATION, LOCATION_EXTERNAL);
}

/* The payload, this box of the tensor, as raw_data, or in a data file. */
static enum sp_status put_payload(struct sp_weights *weights, struct sp_recipe *out, const struct sp_tensor *tensor,
                                  const struct sp_axis_ranges *axes, struct sp_error *err)
{
    static const unsigned char zeros[SP_WEIGHT_ALIGNMENT];
    const uint64_t size = sp_recipe_size(weights->payload);
    struct place *place = NULL;
    if (weights->data == NULL || size <= SP_WEIGHT_INLINE_BYTES) {
        sp_put_message(out, SP_PUT_TENSOR_RAW_DATA, weights->payload);
        return SP_OK;
    }
    if (weights->places != NULL) {
        place = place_of(weights->places, tensor, axes);
        if (place == NULL)
            return sp_fail_memory(err);
        const bool is_own = place->location != NULL && strcmp(place->location, weights->data_name) == 0;
        if (is_own || (weights->shares && place->location != NULL)) {
            put_place(out, place->location, place->offset, size);
            return SP_OK;
        }
        place->location = sp_arena_string(weights->places->arena, weights->data_name, strlen(weights->data_name));
        if (place->location == NULL)
            return sp_fail_memory(err);
    }
    const uint64_t end = sp_recipe_size(weights->data) % SP_WEIGHT_ALIGNMENT;
    (void)sp_recipe_add(weights->data, zeros, end == 0 ? 0 : (size_t)(SP_WEIGHT_ALIGNMENT - end));
    if (place != NULL)
        place->offset = sp_recipe_size(weights->data);
    put_place(out, weights->data_name, sp_recipe_size(weights->data), size);
    (void)sp_recipe_append(weights->data, weights->payload);
    return sp_recipe_status(weights->data, err);
}

/* Everything as in the file, but for the name. */
static enum sp_status put_whole(struct sp_weights *weights, struct sp_recipe *out, const char *name,
                                const struct sp_tensor *tensor, struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(weights->model->bytes, tensor->span);
    struct sp_wire_field field;
    enum sp_status status;
    uint64_t at = tensor->span.offset;
    if (strcmp(name, tensor->name) == 0) {
        sp_put_original(out, weights->model, tensor->span);
        return SP_OK;
    }
    sp_put_text(out, SP_PUT_TENSOR_NAME, name);
    while ((status = sp_wire_next(&wire, &field, err)) == SP_OK && field.number != 0) {
        if (field.number != SP_PUT_TENSOR_NAME)
            continue;
        sp_put_original(out, weights->model, (struct sp_span){at, field.at - at});
        at = wire.at;
    }
    sp_put_original(out, weights->model, (struct sp_span){at, tensor->span.offset + tensor->span.size - at});
    return status;
}

struct string_run {
    struct sp_recipe *out;
    const struct sp_model *model;
    const struct sp_span *spans;
};

static void put_strings(void *context, int64_t first, int64_t count)
{
    const struct string_run *run = context;
    for (int64_t i = first; i < first + count; i++) {
        sp_put_head(run->out, SP_PUT_TENSOR_STRING_DATA, run->spans[i].size);
        sp_put_original(run->out, run->model, run->spans[i]);
    }
}

static enum sp_status put_string_box(struct sp_weights *weights, struct sp_recipe *out, const char *name,
                                     const struct sp_tensor *tensor, const struct sp_axis_ranges *axes, bool *ret_done,
                                     struct sp_error *err)
{
    *ret_done = tensor->storage == SP_STORAGE_TYPED && tensor->elements <= SP_MAX_REPACKED_BYTES / STRING_BYTES;
    if (!*ret_done)
        return SP_OK;
    struct sp_span *spans = calloc((size_t)tensor->elements + 1, sizeof *spans);
    if (spans == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_unpack_strings(weights->model, tensor, spans, err);
    if (status == SP_OK) {
        struct string_run run = {out, weights->model, spans};
        put_header(out, name, tensor, axes);
        sp_box_each_run(tensor->rank, tensor->dims, axes, put_strings, &run);
    }
    free(spans);
    return status;
}

/* A box of an external tensor that stays where it is: possible where the box is one run of bytes. */
static enum sp_status put_reference(struct sp_weights *weights, struct sp_recipe *out, const char *name,
                                    const struct sp_tensor *tensor, const struct sp_axis_ranges *axes, bool *ret_done,
                                    struct sp_error *err)
{
    enum sp_status status = take(weights, tensor, axes, ret_done, err);
    const struct sp_recipe *payload = weights->payload;
    if (status != SP_OK || !*ret_done)
        return status;
    *ret_done = payload->segment_count == 1 && payload->segments[0].kind == SP_SEGMENT_RANGE;
    if (*ret_done) {
        put_header(out, name, tensor, axes);
        put_place(out, tensor->external.location, payload->segments[0].offset, payload->size);
    }
    return SP_OK;
}

/* Whether a whole tensor is written anew: its bytes go elsewhere than where they are. */
static bool moves(const struct sp_weights *weights, const struct sp_tensor *tensor)
{
    if (tensor->storage == SP_STORAGE_EXTERNAL)
        return weights->external == SP_EXTERNAL_INLINE;
    return weights->data != NULL && tensor->bytes > SP_WEIGHT_INLINE_BYTES && tensor->storage != SP_STORAGE_NONE &&
           tensor->dtype != SP_DTYPE_STRING;
}

/* Says which box of the original's a tensor is. */
static enum sp_status declare_box(struct sp_recipe *out, uint32_t rank, const struct sp_axis_ranges *axes,
                                  struct sp_error *err)
{
    struct sp_buf text;
    sp_buf_init(&text, MAX_BOX_BYTES);
    for (uint32_t i = 0; i < rank; i++) {
        for (uint32_t k = 0; k < axes[i].count; k++)
            sp_buf_printf(&text, "%s%" PRId64 ":%" PRId64,
                          k > 0   ? "+"
                          : i > 0 ? ","
                                  : "",
                          axes[i].ranges[k].start, axes[i].ranges[k].limit);
    }
    if (!text.failed && text.size > 0)
        sp_put_entry(out, SP_PUT_TENSOR_METADATA, SP_BOX_KEY, text.data);
    const bool has_failed = text.failed;
    sp_buf_release(&text);
    return has_failed ? sp_fail_memory(err) : SP_OK;
}

static enum sp_status put(struct sp_weights *weights, struct sp_recipe *out, const char *name,
                          const struct sp_tensor *tensor, const struct sp_axis_ranges *axes, bool *ret_done,
                          struct sp_error *err)
{
    enum sp_status status;
    *ret_done = true;
    if (axes == NULL && !moves(weights, tensor))
        return put_whole(weights, out, name, tensor, err);
    if (tensor->storage == SP_STORAGE_NONE || (axes != NULL && sp_box_elements(tensor->rank, axes) == 0)) {
        put_header(out, name, tensor, axes); /* no elements, or weights that were taken out of the file */
        return SP_OK;
    }
    if (tensor->dtype == SP_DTYPE_STRING)
        return axes == NULL ? put_whole(weights, out, name, tensor, err)
                            : put_string_box(weights, out, name, tensor, axes, ret_done, err);
    if (tensor->storage == SP_STORAGE_EXTERNAL && weights->external == SP_EXTERNAL_REFER)
        return put_reference(weights, out, name, tensor, axes, ret_done, err);
    status = take(weights, tensor, axes, ret_done, err);
    if (status != SP_OK)
        return status;
    if (!*ret_done && axes == NULL) { /* too large to be taken apart */
        *ret_done = true;
        return put_whole(weights, out, name, tensor, err);
    }
    if (*ret_done) {
        put_header(out, name, tensor, axes);
        status = put_payload(weights, out, tensor, axes, err);
    }
    return status;
}

enum sp_status sp_weight_put(struct sp_weights *weights, struct sp_recipe *out, const char *name,
                             const struct sp_tensor *tensor, const struct sp_axis_ranges *axes, bool *ret_done,
                             struct sp_error *err)
{
    enum sp_status status = put(weights, out, name, tensor, axes, ret_done, err);
    return status == SP_OK && *ret_done && axes != NULL && weights->declares_boxes
               ? declare_box(out, tensor->rank, axes, err)
               : status;
}

enum sp_status sp_weight_put_sparse(struct sp_weights *weights, struct sp_recipe *out, const char *name,
                                    const struct sp_sparse_tensor *sparse, struct sp_error *err)
{
    enum { VALUES = 1, INDICES = 2, DIMS = 3 };
    struct sp_recipe *part = sp_recipe_create();
    bool done;
    if (part == NULL)
        return sp_fail_memory(err);
    enum sp_status status =
        sparse->values == NULL ? SP_OK : sp_weight_put(weights, part, name, sparse->values, NULL, &done, err);
    if (status == SP_OK && sparse->values != NULL)
        sp_put_message(out, VALUES, part);
    sp_recipe_clear(part);
    if (status == SP_OK && sparse->indices != NULL)
        status = sp_weight_put(weights, part, sparse->indices->name, sparse->indices, NULL, &done, err);
    if (status == SP_OK && sparse->indices != NULL)
        sp_put_message(out, INDICES, part);
    for (uint32_t i = 0; i < sparse->rank; i++)
        sp_put_int(out, DIMS, sparse->dims[i]);
    sp_recipe_destroy(part);
    return status;
}
