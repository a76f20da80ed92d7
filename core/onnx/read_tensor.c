#include <string.h>

#include "base/arith.h"
#include "onnx/read.h"

/* Field numbers of TensorProto. */
enum {
    DIMS = 1,
    DATA_TYPE = 2,
    SEGMENT = 3,
    FLOAT_DATA = 4,
    INT32_DATA = 5,
    STRING_DATA = 6,
    INT64_DATA = 7,
    NAME = 8,
    RAW_DATA = 9,
    DOUBLE_DATA = 10,
    UINT64_DATA = 11,
    DOC_STRING = 12,
    EXTERNAL_DATA = 13,
    DATA_LOCATION = 14,
    METADATA_PROPS = 16
};

#define LOCATION_EXTERNAL 1
#define MAX_INT32_BYTES   10 /* a negative int32 takes as long a varint as any */

/* What the walk over a TensorProto finds before dims, type and storage are held against each other. */
struct survey {
    int64_t data_type, location;
    bool has_raw, has_segment;
    uint32_t typed_field;          /* the typed field in use, 0 for none */
    uint64_t typed_min, typed_max; /* bounds on its number of items; equal when they were counted */
    uint32_t external_entries;
    struct sp_wire external; /* from the first entry to the end of the last */
    bool is_mixed;           /* several data fields are in use */
    bool has_name;
    struct sp_wire_field name;
    uint64_t name_hash;
};

/* The typed field that belongs to a data type, and how many of its items one element takes (onnx.proto). */
static uint32_t typed_field(enum sp_dtype dtype, uint32_t *ret_per_element)
{
    *ret_per_element = dtype == SP_DTYPE_COMPLEX64 || dtype == SP_DTYPE_COMPLEX128 ? 2 : 1;
    switch (dtype) {
    case SP_DTYPE_FLOAT:
    case SP_DTYPE_COMPLEX64:
        return FLOAT_DATA;
    case SP_DTYPE_DOUBLE:
    case SP_DTYPE_COMPLEX128:
        return DOUBLE_DATA;
    case SP_DTYPE_INT64:
        return INT64_DATA;
    case SP_DTYPE_UINT32:
    case SP_DTYPE_UINT64:
        return UINT64_DATA;
    case SP_DTYPE_STRING:
        return STRING_DATA;
    default:
        return INT32_DATA;
    }
}

static enum sp_wire_type item_type(uint32_t field)
{
    return field == FLOAT_DATA    ? SP_WIRE_I32
           : field == DOUBLE_DATA ? SP_WIRE_I64
           : field == STRING_DATA ? SP_WIRE_LEN
                                  : SP_WIRE_VARINT;
}

/* Counts the items of one occurrence. A long packed run of varints is weight data: its pages stay untouched, and bounds
   on the count have to do. */
static enum sp_status survey_typed(struct sp_reader *r, const struct sp_wire_field *field, struct survey *survey)
{
    const enum sp_wire_type wire = item_type(field->number);
    uint64_t least = 1, most = 1;
    enum sp_status status = SP_OK;
    if (wire == SP_WIRE_LEN) {
        status = sp_wire_expect(field, SP_WIRE_LEN, r->err);
    } else if (wire == SP_WIRE_VARINT && field->type == SP_WIRE_LEN && field->payload.size > SP_MAX_RECORD_BYTES) {
        least = field->payload.size / MAX_INT32_BYTES;
        most = field->payload.size;
    } else {
        status = sp_wire_count_items(r->bytes, field, wire, &least, r->err);
        most = least;
    }
    if (status != SP_OK || most == 0)
        return status;
    survey->is_mixed = survey->is_mixed || (survey->typed_field != 0 && survey->typed_field != field->number);
    survey->typed_field = field->number;
    survey->typed_min += least;
    survey->typed_max += most;
    return SP_OK;
}

/* The name is looked up when the rest has been read: its place comes from memory meanwhile. */
static enum sp_status note_name(struct sp_reader *r, const struct sp_wire_field *field, struct survey *survey)
{
    enum sp_status status = sp_wire_expect(field, SP_WIRE_LEN, r->err);
    if (status == SP_OK && field->payload.size > SP_MAX_NAME_BYTES)
        return sp_reader_check_text(r, field);
    if (status != SP_OK)
        return status;
    survey->has_name = true;
    survey->name = *field;
    survey->name_hash =
        sp_intern_hash(r->model->names, (const char *)r->bytes + field->payload.offset, field->payload.size);
    return SP_OK;
}

static enum sp_status survey_field(struct sp_reader *r, const struct sp_wire_field *field, struct sp_tensor *tensor,
                                   struct survey *survey)
{
    uint64_t items;
    enum sp_status status;
    switch (field->number) {
    case DIMS:
        status = sp_wire_count_items(r->bytes, field, SP_WIRE_VARINT, &items, r->err);
        return status == SP_OK ? sp_reader_rank(r, &tensor->rank, items) : status;
    case DATA_TYPE:
        return sp_reader_int(r, field, &survey->data_type);
    case SEGMENT:
        survey->has_segment = true;
        return sp_reader_message(r, field);
    case FLOAT_DATA:
    case INT32_DATA:
    case STRING_DATA:
    case INT64_DATA:
    case DOUBLE_DATA:
    case UINT64_DATA:
        return survey_typed(r, field, survey);
    case NAME:
        return note_name(r, field, survey);
    case RAW_DATA:
        survey->has_raw = field->payload.size > 0;
        tensor->raw = field->payload;
        return sp_wire_expect(field, SP_WIRE_LEN, r->err);
    case EXTERNAL_DATA:
        status = sp_reader_message(r, field);
        if (survey->external_entries == 0)
            survey->external = (struct sp_wire){r->bytes, field->at, 0};
        survey->external.end = field->payload.offset + field->payload.size;
        if (status == SP_OK && ++survey->external_entries > SP_MAX_METADATA)
            status =
                sp_fail_limit(r->err, "MODEL_TOO_COMPLEX", "SP_MAX_METADATA", SP_MAX_METADATA, survey->external_entries,
                              "A tensor has more than %d external data entries.", SP_MAX_METADATA);
        return status;
    case DATA_LOCATION:
        return sp_reader_int(r, field, &survey->location);
    case DOC_STRING:
    case METADATA_PROPS:
        return SP_OK;
    default:
        return sp_reader_unknown(r, field);
    }
}

static enum sp_status tensor_fail(struct sp_reader *r, const struct sp_tensor *tensor, const char *code,
                                  const char *what)
{
    sp_fail(r->err, SP_ERR_MODEL, code, "The tensor '%.120s' %s.", tensor->name, what);
    if (r->depth == 0 || r->frames[r->depth - 1].node == NULL)
        sp_error_at(r->err, "tensor %.120s", tensor->name);
    return sp_reader_where(r, SP_ERR_MODEL);
}

static enum sp_status too_large(struct sp_reader *r, const struct sp_tensor *tensor, const char *unit)
{
    sp_fail_limit(r->err, "TENSOR_TOO_LARGE", "SP_MAX_TENSOR_BYTES", SP_MAX_TENSOR_BYTES, INT64_MAX,
                  "The tensor '%.120s' has more %s than 64 bits can count (limit SP_MAX_TENSOR_BYTES).", tensor->name,
                  unit);
    if (r->depth == 0 || r->frames[r->depth - 1].node == NULL)
        sp_error_at(r->err, "tensor %.120s", tensor->name);
    return sp_reader_where(r, SP_ERR_LIMIT);
}

static enum sp_status read_dims(struct sp_reader *r, struct sp_tensor *tensor)
{
    struct sp_wire wire = sp_wire_of(r->bytes, tensor->span);
    struct sp_wire_field field;
    uint32_t count = 0;
    bool has_zero = false, overflow = false;
    enum sp_status status = SP_OK;
    tensor->dims = SP_NEW_ARRAY(r->arena, tensor->rank, int64_t);
    if (tensor->dims == NULL)
        return sp_fail_memory(r->err);
    while (count < tensor->rank && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == DIMS && (status = sp_reader_ints(r, &field, tensor->dims, &count)) != SP_OK)
            return status;
    }
    if (status != SP_OK)
        return status;
    tensor->elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] < 0)
            return tensor_fail(r, tensor, "NEGATIVE_DIMENSION", "has a negative dimension");
        if (tensor->dims[i] == 0)
            has_zero = true; /* decides the product, whatever the others multiply to */
        else if (!sp_mul_i64(tensor->elements, tensor->dims[i], &tensor->elements))
            overflow = true;
    }
    if (has_zero)
        tensor->elements = 0;
    else if (overflow)
        return too_large(r, tensor, "elements");
    tensor->bytes = sp_dtype_bytes(tensor->dtype, tensor->elements);
    return tensor->bytes < 0 ? too_large(r, tensor, "bytes") : SP_OK;
}

/* A decimal number without sign, spaces or overflow. */
static bool parse_number(const struct sp_reader *r, struct sp_span text, int64_t *ret)
{
    int64_t number = 0;
    for (uint64_t i = 0; i < text.size; i++) {
        const unsigned char digit = r->bytes[text.offset + i];
        if (digit < '0' || digit > '9' || !sp_mul_i64(number, 10, &number) || !sp_add_i64(number, digit - '0', &number))
            return false;
    }
    *ret = number;
    return text.size > 0;
}

/* What the entries say, by key; runtimes keep keys of their own among them. */
enum { LOCATION, OFFSET, LENGTH, CHECKSUM, KEYS };
static const struct sp_string external_keys[KEYS] = {{"location", 8}, {"offset", 6}, {"length", 6}, {"checksum", 8}};

struct external {
    bool has[KEYS];
    struct sp_wire_field values[KEYS];
};

static uint32_t find_key(const struct sp_reader *r, struct sp_span key)
{
    uint32_t i = 0;
    while (i < KEYS && (key.size != external_keys[i].size ||
                        memcmp(r->bytes + key.offset, external_keys[i].bytes, external_keys[i].size) != 0))
        i++;
    return i;
}

static enum sp_status read_external_entry(struct sp_reader *r, struct sp_span span, const struct sp_tensor *tensor,
                                          struct external *external)
{
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field, value = {.number = 2, .type = SP_WIRE_LEN};
    uint32_t key = KEYS;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == 1) {
            status = sp_wire_expect(&field, SP_WIRE_LEN, r->err);
            key = status == SP_OK ? find_key(r, field.payload) : KEYS;
            if (status == SP_OK && key == KEYS)
                status = sp_reader_check_text(r, &field);
        } else if (field.number == 2) {
            value = field;
        } else {
            status = sp_reader_unknown(r, &field);
        }
        if (status != SP_OK)
            return status;
    }
    if (status != SP_OK || key == KEYS)
        return status;
    if (external->has[key])
        return tensor_fail(r, tensor, "BAD_EXTERNAL_DATA", "says twice where its external data lies");
    external->has[key] = true;
    external->values[key] = value;
    return sp_wire_expect(&value, SP_WIRE_LEN, r->err);
}

/* Where the data lies: places in other files are as many as tensors, so they are not kept as names. */
static enum sp_status read_place(struct sp_reader *r, struct sp_tensor *tensor, const struct external *external)
{
    enum sp_status status = SP_OK;
    tensor->external.length = -1;
    if (external->has[LOCATION])
        status = sp_reader_text(r, &external->values[LOCATION], &tensor->external.location);
    if (status == SP_OK && external->has[CHECKSUM])
        status = sp_reader_text(r, &external->values[CHECKSUM], &tensor->external.checksum);
    if (status != SP_OK)
        return status;
    if (tensor->external.location == NULL || tensor->external.location[0] == '\0')
        return tensor_fail(r, tensor, "BAD_EXTERNAL_DATA", "is external but names no location");
    if ((external->has[OFFSET] && !parse_number(r, external->values[OFFSET].payload, &tensor->external.offset)) ||
        (external->has[LENGTH] && !parse_number(r, external->values[LENGTH].payload, &tensor->external.length)))
        return tensor_fail(r, tensor, "BAD_EXTERNAL_DATA", "has an external offset or length that is no number >= 0");
    return SP_OK;
}

static enum sp_status read_external(struct sp_reader *r, struct sp_tensor *tensor, struct sp_wire wire)
{
    struct sp_wire_field field;
    struct external external;
    int64_t end;
    enum sp_status status;
    memset(external.has, 0, sizeof external.has);
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == EXTERNAL_DATA &&
            (status = read_external_entry(r, field.payload, tensor, &external)) != SP_OK)
            return status;
    }
    if (status == SP_OK)
        status = read_place(r, tensor, &external);
    if (status != SP_OK)
        return status;
    if (!sp_add_i64(tensor->external.offset, tensor->bytes, &end) ||
        (tensor->external.length > 0 && !sp_add_i64(tensor->external.offset, tensor->external.length, &end)))
        return tensor_fail(r, tensor, "BAD_EXTERNAL_DATA", "has an external range that 64 bits cannot hold");
    if (external.has[LENGTH] && tensor->dtype != SP_DTYPE_STRING && tensor->external.length != tensor->bytes)
        return tensor_fail(r, tensor, "TENSOR_SIZE_MISMATCH", "has an external length that does not fit its dims");
    tensor->storage = SP_STORAGE_EXTERNAL;
    return SP_OK;
}

/* Whether a typed field with between `least` and `most` items can hold the elements. The standard's comment packs two
   4-bit (four 2-bit) elements into an int32, its checker eight (sixteen), and some writers one: all are accepted. */
static bool count_fits(const struct sp_tensor *tensor, uint32_t per_element, uint64_t least, uint64_t most)
{
    int bits = sp_dtype_bits(tensor->dtype);
    uint64_t elements = (uint64_t)tensor->elements;
    if (bits > 0 && bits < 8)
        return most >= (elements * (uint64_t)bits + 31) / 32 && least <= elements;
    return elements <= UINT64_MAX / 2 && most >= elements * per_element && least <= elements * per_element;
}

static enum sp_status determine_storage(struct sp_reader *r, struct sp_tensor *tensor, const struct survey *survey)
{
    uint32_t per_element, expected = typed_field(tensor->dtype, &per_element);
    if (survey->has_segment)
        return tensor_fail(r, tensor, "TENSOR_SEGMENT", "is a segment of another, which is not supported");
    if (survey->is_mixed || (survey->has_raw && survey->typed_field != 0) ||
        (survey->location == LOCATION_EXTERNAL && (survey->has_raw || survey->typed_field != 0)))
        return tensor_fail(r, tensor, "AMBIGUOUS_TENSOR_DATA", "has data in more than one field");
    if (survey->location == LOCATION_EXTERNAL)
        return read_external(r, tensor, survey->external);
    if (survey->has_raw) {
        if (tensor->dtype == SP_DTYPE_STRING)
            return tensor_fail(r, tensor, "WRONG_TENSOR_FIELD", "has strings in raw_data");
        if (tensor->raw.size != (uint64_t)tensor->bytes)
            return tensor_fail(r, tensor, "TENSOR_SIZE_MISMATCH", "has raw data that does not fit its dims");
        tensor->storage = SP_STORAGE_RAW;
    } else if (survey->typed_field != 0) {
        if (survey->typed_field != expected)
            return tensor_fail(r, tensor, "WRONG_TENSOR_FIELD", "has its data in a field of another data type");
        if (!count_fits(tensor, per_element, survey->typed_min, survey->typed_max))
            return tensor_fail(r, tensor, "TENSOR_SIZE_MISMATCH", "has a number of items that does not fit its dims");
        tensor->storage = SP_STORAGE_TYPED;
        tensor->field = expected;
    }
    return SP_OK; /* without data: no elements, or weights that were taken out; planning needs none */
}

enum sp_status sp_read_tensor(struct sp_reader *r, struct sp_span span, struct sp_tensor **ret_tensor)
{
    struct sp_tensor *tensor = SP_NEW(r->arena, struct sp_tensor);
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field;
    struct survey survey = {0};
    uint64_t local = 0;
    if (tensor == NULL)
        return sp_fail_memory(r->err);
    enum sp_status status = sp_reader_count(r, r->counting ? &r->model->counts.tensors : &local, 1, "SP_MAX_TENSORS",
                                            SP_MAX_TENSORS, "tensors");
    tensor->name = "";
    tensor->span = span;
    while (status == SP_OK && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0)
        status = survey_field(r, &field, tensor, &survey);
    if (status == SP_OK && survey.has_name)
        status = sp_reader_hashed(r, &survey.name, survey.name_hash, &tensor->name);
    if (status != SP_OK)
        return status;
    if (survey.data_type == SP_DTYPE_UNDEFINED || sp_dtype_name(survey.data_type) == NULL)
        return tensor_fail(r, tensor, "UNKNOWN_DATA_TYPE", "has no data type, or one that ONNX does not define");
    tensor->dtype = (enum sp_dtype)survey.data_type;
    status = read_dims(r, tensor);
    if (status == SP_OK)
        status = determine_storage(r, tensor, &survey);
    if (tensor->storage != SP_STORAGE_RAW)
        tensor->raw = (struct sp_span){0, 0};
    if (status == SP_OK)
        *ret_tensor = tensor;
    return status;
}
