#include "verify/sources.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash_map.h"
#include "base/limits.h"
#include "onnx/wire.h"
#include "verify/operators/evaluate.h"

/* ---- data ------------------------------------------------------------------------------------------------------- */

static double half_of(uint64_t bits)
{
    const int exponent = (int)(bits >> 10 & 31);
    const double mantissa = (double)(bits & 1023);
    const double size = exponent == 31  ? (mantissa == 0 ? INFINITY : NAN)
                        : exponent == 0 ? ldexp(mantissa, -24)
                                        : ldexp(1024 + mantissa, exponent - 25);
    return (bits >> 15 & 1) != 0 ? -size : size;
}

/* The number of these bits; false for a type without numbers. */
static bool read_literal(enum sp_dtype dtype, uint64_t bits, struct sp_number *ret)
{
    switch (dtype) {
    case SP_DTYPE_FLOAT:
        *ret = sp_number_of_real(sp_wire_float(bits));
        return true;
    case SP_DTYPE_DOUBLE:
        *ret = sp_number_of_real(sp_wire_double(bits));
        return true;
    case SP_DTYPE_FLOAT16:
        *ret = (struct sp_number){sp_field_of_type(half_of(bits), dtype), half_of(bits)};
        return true;
    case SP_DTYPE_BFLOAT16:
        *ret = (struct sp_number){sp_field_of_type(sp_wire_float(bits << 16), dtype), sp_wire_float(bits << 16)};
        return true;
    case SP_DTYPE_INT8:
        *ret = sp_number_of_int((int8_t)bits);
        return true;
    case SP_DTYPE_INT16:
        *ret = sp_number_of_int((int16_t)bits);
        return true;
    case SP_DTYPE_INT32:
        *ret = sp_number_of_int((int32_t)bits);
        return true;
    case SP_DTYPE_INT64:
    case SP_DTYPE_UINT64:
    case SP_DTYPE_UINT32:
    case SP_DTYPE_UINT16:
    case SP_DTYPE_UINT8:
    case SP_DTYPE_BOOL:
        *ret = sp_number_of_int((int64_t)bits);
        return true;
    default:
        return false;
    }
}

/* The bits of elements one by one, wherever they lie. */
struct bits {
    const unsigned char *bytes; /* RAW */
    int size;                   /* of an element, bytes */
    struct sp_wire wire;        /* TYPED */
    struct sp_wire_field field;
    uint64_t left, at;
    enum sp_wire_type type;
    const struct sp_model *model;
    uint32_t number;
    struct sp_tensor_data *data; /* EXTERNAL */
};

static bool next_bits(struct bits *bits, uint64_t *ret)
{
    if (bits->bytes != NULL) {
        *ret = 0;
        memcpy(ret, bits->bytes, (size_t)bits->size);
        bits->bytes += bits->size;
        return true;
    }
    if (bits->data != NULL) {
        const unsigned char *at = sp_tensor_data_near(bits->data, bits->at, (size_t)bits->size);
        *ret = 0;
        bits->at += (unsigned)bits->size;
        if (at != NULL)
            memcpy(ret, at, (size_t)bits->size);
        return at != NULL;
    }
    while (bits->left == 0) {
        if (sp_wire_next(&bits->wire, &bits->field, NULL) != SP_OK || bits->field.number == 0)
            return false;
        if (bits->field.number == bits->number &&
            sp_wire_count_items(bits->model->bytes, &bits->field, bits->type, &bits->left, NULL) != SP_OK)
            return false;
        bits->at = bits->field.payload.offset;
    }
    bits->left--;
    *ret = sp_wire_item(bits->model->bytes, &bits->field, bits->type, &bits->at);
    return true;
}

static bool begin_bits(struct sp_tensor_data *data, struct bits *ret)
{
    const struct sp_model *model = data->model;
    const struct sp_tensor *tensor = data->tensor;
    *ret = (struct bits){.size = sp_dtype_bits(tensor->dtype) / 8, .model = model, .number = tensor->field};
    if (tensor->storage == SP_STORAGE_RAW) {
        ret->bytes = model->bytes + tensor->raw.offset;
        return ret->size > 0 && ret->size <= 8 && tensor->raw.size >= (uint64_t)tensor->elements * (unsigned)ret->size;
    }
    if (tensor->storage == SP_STORAGE_EXTERNAL) {
        ret->data = data;
        return sp_tensor_data_is_there(data);
    }
    enum { FLOAT_DATA = 4, DOUBLE_DATA = 10 };
    ret->wire = sp_wire_of(model->bytes, tensor->span);
    ret->type = tensor->field == FLOAT_DATA ? SP_WIRE_I32 : tensor->field == DOUBLE_DATA ? SP_WIRE_I64 : SP_WIRE_VARINT;
    return tensor->storage == SP_STORAGE_TYPED;
}

enum sp_status sp_numbers_of_tensor(struct sp_arena *arena, const struct sp_model *model,
                                    const struct sp_tensor *tensor, enum sp_source_kind kind, struct sp_numbers **ret,
                                    struct sp_error *err)
{
    struct sp_tensor_data data = {.model = model, .tensor = tensor};
    return sp_numbers_of_data(arena, &data, kind, ret, err);
}

enum sp_status sp_numbers_of_data(struct sp_arena *arena, struct sp_tensor_data *data, enum sp_source_kind kind,
                                  struct sp_numbers **ret, struct sp_error *err)
{
    const struct sp_tensor *tensor = data->tensor;
    struct bits bits = {0};
    struct sp_numbers *out;
    const bool is_weight = kind == SP_SOURCE_WEIGHT && sp_dtype_is_float(tensor->dtype);
    if (tensor->elements > 0 && !begin_bits(data, &bits))
        return sp_fail(err, SP_ERR_UNSUPPORTED, "DATA_MISSING", "the data of the tensor '%s' is not in the file",
                       tensor->name);
    enum sp_status status = sp_numbers_create_full(arena, tensor->dtype, tensor->rank, tensor->dims, &out, err);
    for (uint64_t i = 0; status == SP_OK && i < out->count; i++) {
        uint64_t raw;
        struct sp_number *item = &out->items[i];
        if (!next_bits(&bits, &raw))
            return sp_fail(err, SP_ERR_UNSUPPORTED, "DATA_MISSING", "the tensor '%s' has too little data",
                           tensor->name);
        if (is_weight)
            *item = (struct sp_number){sp_field_hash(sp_tag("weight"), raw), sp_real_of_hash(raw)};
        else if (!read_literal(tensor->dtype, raw, item))
            return sp_fail(err, SP_ERR_UNSUPPORTED, "TYPE_WITHOUT_NUMBERS",
                           "the tensor '%s' has a type that is not evaluated", tensor->name);
    }
    if (status != SP_OK)
        return status;
    out->is_known = !is_weight;
    *ret = out;
    return SP_OK;
}

/* A whole number of decimal digits, which the cursor passes. */
static bool read_number(const char **at, int64_t *ret)
{
    int64_t value = 0;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9' && value < INT64_MAX / 10 - 1; ++*at)
        value = 10 * value + (**at - '0');
    *ret = value;
    return *at != first;
}

/* Ranges of one axis, joined by '+'. */
static bool read_ranges(const char **at, struct sp_axis_ranges *axis)
{
    for (;;) {
        struct sp_range range;
        if (!read_number(at, &range.start) || *(*at)++ != ':' || !read_number(at, &range.limit))
            return false;
        axis->ranges[axis->count++] = range;
        if (**at != '+')
            return true;
        ++*at;
    }
}

static enum sp_status parse_box(struct sp_arena *arena, const char *text, uint32_t rank, struct sp_axis_ranges **ret,
                                struct sp_error *err)
{
    struct sp_axis_ranges *box = SP_NEW_ARRAY(arena, rank, struct sp_axis_ranges);
    const size_t most = strlen(text) / 3 + 1;
    for (uint32_t i = 0; box != NULL && i < rank; i++) {
        box[i].ranges = SP_NEW_ARRAY(arena, most, struct sp_range);
        if (box[i].ranges == NULL)
            return sp_fail_memory(err);
        if (!read_ranges(&text, &box[i]) || *text != (i + 1 < rank ? ',' : '\0'))
            return sp_fail(err, SP_ERR_UNSUPPORTED, "BOX_UNKNOWN", "a tensor declares a box that cannot be read");
        text += i + 1 < rank;
    }
    *ret = box;
    return box != NULL ? SP_OK : sp_fail_memory(err);
}

/* The value of an entry of a tensor's metadata with our key, or an empty span. */
static struct sp_span box_entry(const struct sp_model *model, struct sp_span entry)
{
    static const char key[] = "shardplan.box";
    enum { KEY = 1, VALUE = 2 };
    struct sp_wire wire = sp_wire_of(model->bytes, entry);
    struct sp_wire_field field;
    struct sp_span value = {0, 0};
    bool is_ours = false;
    while (sp_wire_next(&wire, &field, NULL) == SP_OK && field.number != 0) {
        if (field.number == KEY && field.type == SP_WIRE_LEN)
            is_ours = field.payload.size == sizeof key - 1 &&
                      memcmp(model->bytes + field.payload.offset, key, sizeof key - 1) == 0;
        else if (field.number == VALUE && field.type == SP_WIRE_LEN)
            value = field.payload;
    }
    return is_ours ? value : (struct sp_span){0, 0};
}

enum sp_status sp_source_box(struct sp_arena *arena, const struct sp_model *model, const struct sp_tensor *tensor,
                             struct sp_axis_ranges **ret, struct sp_error *err)
{
    enum { METADATA = 16 };
    struct sp_wire wire = sp_wire_of(model->bytes, tensor->span);
    struct sp_wire_field field;
    *ret = NULL;
    while (sp_wire_next(&wire, &field, NULL) == SP_OK && field.number != 0) {
        if (field.number != METADATA || field.type != SP_WIRE_LEN)
            continue;
        const struct sp_span value = box_entry(model, field.payload);
        const char *text =
            value.size == 0 ? NULL : sp_arena_string(arena, (const char *)model->bytes + value.offset, value.size);
        if (value.size > 0)
            return text != NULL ? parse_box(arena, text, tensor->rank, ret, err) : sp_fail_memory(err);
    }
    return SP_OK;
}

bool sp_source_has_data(struct sp_tensor_data *data)
{
    const struct sp_tensor *tensor = data->tensor;
    return tensor->elements == 0 || tensor->storage == SP_STORAGE_RAW || tensor->storage == SP_STORAGE_TYPED ||
           (tensor->storage == SP_STORAGE_EXTERNAL && sp_tensor_data_is_there(data));
}

/* A tensor at the sets of its extents, and a walk over the places of its elements in the whole. */
static enum sp_status begin_sets(struct sp_index_sets *sets, enum sp_dtype dtype, uint32_t rank, const int64_t *extents,
                                 struct sp_numbers **ret, struct sp_error *err)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < rank; i++)
        status = sp_index_sets_axis(sets, extents[i], &axes[i], err);
    return status == SP_OK ? sp_numbers_create(sets->arena, dtype, rank, axes, ret, err) : status;
}

/* The place of an item in the whole, row-major. */
static uint64_t place_of(const struct sp_numbers *x, uint64_t item)
{
    uint64_t place = 0, stride = 1;
    for (uint32_t i = x->rank; i-- > 0;) {
        place += (uint64_t)sp_index_at(&x->axes[i], (uint32_t)(item % x->axes[i].count)) * stride;
        item /= x->axes[i].count;
        stride *= (uint64_t)x->axes[i].extent;
    }
    return place;
}

static struct sp_number weight_of(uint64_t raw)
{
    return (struct sp_number){sp_field_hash(sp_tag("weight"), raw), sp_real_of_hash(raw)};
}

bool sp_numbers_read_weight(struct sp_numbers *x, struct sp_tensor_data *data, bool sets)
{
    const unsigned width = sp_tensor_data_width(data->tensor);
    const uint64_t tag = sp_tag("weight");
    if (width == 0)
        return false;
    for (uint64_t i = 0; i < x->count; i++) {
        uint64_t raw = 0;
        const unsigned char *at = sp_tensor_data_near(data, place_of(x, i) * width, width);
        if (at == NULL)
            return false;
        memcpy(&raw, at, width);
        const struct sp_number item = {sp_field_hash(tag, raw), sp_real_of_hash(raw)};
        if (!sets && item.field != x->items[i].field)
            return false;
        x->items[i] = item;
    }
    return true;
}

enum sp_status sp_numbers_of_weight(struct sp_index_sets *sets, struct sp_tensor_data *data, struct sp_numbers **ret,
                                    struct sp_error *err)
{
    const struct sp_tensor *tensor = data->tensor;
    if (sp_source_has_data(data) && (!sets->is_used || tensor->storage == SP_STORAGE_TYPED))
        return sp_numbers_of_data(sets->arena, data, SP_SOURCE_WEIGHT, ret, err);
    enum sp_status status = begin_sets(sets, tensor->dtype, tensor->rank, tensor->dims, ret, err);
    const uint64_t tag = sp_tag(tensor->name);
    if (status != SP_OK || sp_numbers_read_weight(*ret, data, true))
        return status;
    for (uint64_t i = 0; i < (*ret)->count; i++)
        (*ret)->items[i] = weight_of(sp_field_hash(tag, place_of(*ret, i)));
    return SP_OK;
}

/* Operators that read sizes, steps or powers out of floating-point operands behind the first. */
static bool is_size(const struct sp_use *use)
{
    static const char *const names[] = {"Resize", "Upsample", "Range", "Pow", NULL};
    for (const char *const *name = names; *name != NULL; name++) {
        if (use->input != UINT32_MAX && use->input > 0 && sp_node_is(use->node, *name))
            return true;
    }
    return false;
}

enum sp_source_kind sp_source_kind_of(const struct sp_value *value)
{
    const struct sp_tensor *tensor = value->tensor;
    bool is_weight = tensor != NULL && tensor->elements > 1 && sp_dtype_is_float(tensor->dtype);
    for (uint32_t i = 0; is_weight && i < value->use_count; i++)
        is_weight = !is_size(&value->uses[i]);
    return is_weight ? SP_SOURCE_WEIGHT : SP_SOURCE_LITERAL;
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

#define MAX_FOLLOWED 256
#define FEW_ROWS     8 /* of so few each element takes any: masks are no stripes */

/* How many elements a tensor has, or -1. */
static int64_t places_of(const struct sp_shape *shape)
{
    int64_t total = 1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        const int64_t extent = sp_dim_estimate(shape->dims[i]);
        if (extent <= 0 || total > SP_MAX_EVALUATED_NUMBERS / extent)
            return -1;
        total *= extent;
    }
    return shape->has_rank ? total : -1;
}

/* A step that reaches all of so many rows before one comes again: about the golden section of them. */
static uint64_t step_of(uint64_t rows)
{
    uint64_t step = (uint64_t)((double)rows * 0.6180339887498949) + 1;
    for (bool divides = true; divides; step += divides) {
        uint64_t a = step, b = rows;
        while (b != 0) {
            const uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        divides = a != 1 && rows > 1;
    }
    return step;
}

/* The least extent of the axes that a node's indices are of: one axis, or those of tuples along the last axis. */
static int64_t least_indexed(const struct sp_node *node)
{
    const struct sp_shape *shape = &node->inputs[0]->type.shape, *tuples = &node->inputs[1]->type.shape;
    const bool has_tuples = strcmp(node->op_type, "GatherND") == 0 && tuples->has_rank && tuples->rank > 0;
    int64_t first = sp_node_int(node, has_tuples ? "batch_dims" : "axis", 0), least = INT64_MAX;
    const int64_t count = has_tuples ? sp_dim_estimate(tuples->dims[tuples->rank - 1]) : 1;
    first = first < 0 ? first + shape->rank : first;
    for (int64_t i = first; i >= 0 && i < first + count && i < shape->rank; i++) {
        const int64_t extent = sp_dim_estimate(shape->dims[i]);
        least = extent < least ? extent : least;
    }
    return least == INT64_MAX ? -1 : least;
}

/* How many rows there are to look up for an integer input: the least extent that it is an index of, or `otherwise`. */
static int64_t rows_for(const struct sp_value *input, int64_t otherwise)
{
    const struct sp_value *queue[MAX_FOLLOWED] = {input};
    int64_t rows = INT64_MAX;
    uint32_t count = 1;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t u = 0; u < queue[i]->use_count; u++) {
            const struct sp_use *use = &queue[i]->uses[u];
            const struct sp_node *node = use->node;
            if (strncmp(node->op_type, "Gather", 6) == 0 && use->input == 1 && node->inputs[0] != NULL) {
                const int64_t extent = least_indexed(node);
                rows = extent > 0 && extent < rows ? extent : rows;
            } else if (sp_node_is(node, "MaxUnpool") && use->input == 1 && node->outputs[0] != NULL) {
                const int64_t places = places_of(&node->outputs[0]->type.shape);
                rows = places > 0 && places < rows ? places : rows;
            } else if (use->input != UINT32_MAX && node->output_count > 0 && node->outputs[0] != NULL &&
                       count < MAX_FOLLOWED && !sp_dtype_is_float(node->outputs[0]->type.dtype)) {
                queue[count++] = node->outputs[0];
            }
        }
    }
    return rows == INT64_MAX ? otherwise : rows;
}

/* What somebody says that an input is. */
static bool read_known(const struct sp_value *input, struct sp_numbers *x)
{
    const struct sp_data *data = input->data;
    if (data == NULL || data->count != x->count || !sp_numbers_is_complete(x))
        return false;
    for (uint64_t i = 0; i < x->count; i++) {
        if (data->reals == NULL && !sp_dim_is_known(data->ints[i]))
            return false;
        x->items[i] = data->reals != NULL ? sp_number_of_real(data->reals[i]) : sp_number_of_int(data->ints[i].value);
    }
    x->is_known = true;
    return true;
}

enum sp_status sp_numbers_of_input(struct sp_index_sets *sets, const struct sp_value *input, struct sp_numbers **ret,
                                   struct sp_error *err)
{
    const struct sp_shape *shape = &input->type.shape;
    const enum sp_dtype dtype = input->type.dtype;
    int64_t extents[SP_MAX_RANK];
    struct sp_index_axis rows;
    struct sp_numbers *out;
    if (input->type.kind != SP_TYPE_TENSOR || !shape->has_rank || dtype == SP_DTYPE_STRING || shape->rank > SP_MAX_RANK)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "INPUT_UNKNOWN", "the input '%s' is no tensor of numbers", input->name);
    for (uint32_t i = 0; i < shape->rank; i++)
        extents[i] = sp_dim_estimate(shape->dims[i]);
    enum sp_status status = begin_sets(sets, dtype, shape->rank, extents, &out, err);
    if (status == SP_OK)
        status = sp_index_sets_axis(sets, dtype == SP_DTYPE_BOOL ? 2 : rows_for(input, 2), &rows, err);
    if (status != SP_OK)
        return status;
    if (read_known(input, out)) {
        *ret = out;
        return SP_OK;
    }
    const uint64_t tag = sp_tag(input->name);
    /* so that few elements reach all parts of a table */
    const uint64_t step = step_of(rows.count);
    const bool are_few = rows.count < FEW_ROWS;
    for (uint64_t i = 0; i < out->count; i++) {
        const uint64_t place = place_of(out, i), hash = sp_field_hash(tag, place);
        out->items[i] =
            sp_dtype_is_float(dtype)
                ? (struct sp_number){hash, sp_real_of_hash(hash)}
                : sp_number_of_int(sp_index_at(&rows, (uint32_t)((are_few ? hash : tag + place * step) % rows.count)));
    }
    out->is_known = !sp_dtype_is_float(dtype);
    *ret = out;
    return SP_OK;
}

enum sp_status sp_numbers_of_box(struct sp_arena *arena, const struct sp_numbers *x, const struct sp_axis_ranges *box,
                                 struct sp_numbers **ret, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    struct sp_numbers *out = NULL;
    for (uint32_t axis = 0; status == SP_OK && axis < x->rank; axis++) {
        const struct sp_axis_ranges *ranges = &box[axis];
        const struct sp_numbers **parts = SP_NEW_ARRAY(arena, ranges->count, const struct sp_numbers *);
        if (parts == NULL || ranges->count == 0)
            return parts == NULL ? sp_fail_memory(err)
                                 : sp_fail(err, SP_ERR_UNSUPPORTED, "BOX_EMPTY", "a box has no elements");
        for (uint32_t i = 0; status == SP_OK && i < ranges->count; i++) {
            struct sp_numbers *part = NULL;
            const struct sp_range range = ranges->ranges[i];
            if (range.start < 0 || range.limit < range.start || range.limit > x->axes[axis].extent)
                return sp_fail(err, SP_ERR_MODEL, "BOX_OUTSIDE",
                               "A device has the elements %" PRId64 " to %" PRId64 " of axis %" PRIu32
                               " of a tensor that has %" PRId64
                               " there; bind the model's dimensions as they were when its files "
                               "were made (--dim NAME=N).",
                               range.start, range.limit, axis, x->axes[axis].extent);
            status = sp_numbers_slice(arena, x, axis, (struct sp_index_run){range.start, 1, range.limit - range.start},
                                      &part, err);
            parts[i] = part;
        }
        if (status == SP_OK)
            status = sp_numbers_concat(arena, ranges->count, parts, axis, &out, err);
        x = out;
    }
    return status == SP_OK ? sp_numbers_view(arena, x, x->rank, x->axes, ret, err) : status;
}
