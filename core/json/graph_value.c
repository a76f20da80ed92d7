#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "onnx.pb-c.h"
#include "json/graph.h"
#include "json/proto.h"
#include "json/scalar.h"

#define WEIGHTS_FILE "weights.bin"

/* ---- types ----------------------------------------------------------------------------------------------------- */

static enum sp_status read_dtype(struct sp_description *description, uint32_t value, enum sp_dtype *ret_dtype)
{
    const struct sp_tree *tree = description->tree;
    struct sp_tree_text text = {"", 0};
    char name[32];
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    if (sp_tree_kind(tree, value) == SP_TREE_STRING && sp_tree_text(tree, value, &text) != SP_OK)
        return SP_ERR_MALFORMED;
    if (text.size < sizeof name) {
        memcpy(name, text.bytes, text.size);
        name[text.size] = '\0';
        dtype = sp_dtype_parse(name);
    }
    if (dtype == SP_DTYPE_UNDEFINED)
        return sp_tree_fail(tree, value, "DTYPE_UNKNOWN",
                            "'dtype' must be an element type: \"float32\", \"float16\", \"bfloat16\", \"int64\", "
                            "\"bool\", and the others of ONNX in lower case.");
    sp_description_needs(description, sp_dtype_ir_version(dtype));
    *ret_dtype = dtype;
    return SP_OK;
}

static enum sp_status put_dim(struct sp_description *description, uint32_t value)
{
    const struct sp_tree *tree = description->tree;
    struct sp_emit *emit = &description->emit;
    enum sp_status status = SP_OK;
    int64_t extent;
    sp_emit_begin(emit, SP_FIELD_SHAPE_DIM);
    if (sp_tree_kind(tree, value) == SP_TREE_STRING) {
        status = sp_description_text(description, SP_FIELD_DIM_PARAM, value, "A dimension");
    } else if (sp_tree_kind(tree, value) == SP_TREE_NUMBER) {
        status = sp_scalar_int(tree, value, 0, INT64_MAX, &extent);
        if (status == SP_OK)
            sp_emit_int(emit, SP_FIELD_DIM_VALUE, extent);
    } else if (sp_tree_kind(tree, value) != SP_TREE_NULL) {
        status = sp_tree_fail(tree, value, "DIMENSION_EXPECTED",
                              "A dimension is a number, a symbol's name, or null where it is not known.");
    }
    sp_emit_end(emit);
    return status;
}

static enum sp_status put_tensor_type(struct sp_description *description, uint32_t dtype_at, uint32_t shape)
{
    struct sp_emit *emit = &description->emit;
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    enum sp_status status = read_dtype(description, dtype_at, &dtype);
    if (status == SP_OK && shape != SP_TREE_NONE)
        status = sp_description_array(description->tree, shape, "'shape', an array of dimensions,");
    if (status != SP_OK)
        return status;
    sp_emit_begin(emit, SP_FIELD_VALUE_TYPE);
    sp_emit_begin(emit, SP_FIELD_TYPE_TENSOR);
    sp_emit_int(emit, SP_FIELD_TENSOR_TYPE_ELEM, dtype);
    if (shape != SP_TREE_NONE) {
        const uint32_t end = sp_tree_end(description->tree, shape);
        sp_emit_begin(emit, SP_FIELD_TENSOR_TYPE_SHAPE);
        for (uint32_t i = sp_tree_begin(shape); status == SP_OK && i != end; i = sp_tree_after(description->tree, i))
            status = put_dim(description, i);
        sp_emit_end(emit);
    }
    sp_emit_end(emit);
    sp_emit_end(emit);
    return status;
}

enum sp_status sp_description_value(struct sp_description *description, uint32_t field, uint32_t value)
{
    enum { NAME, DTYPE, SHAPE, TYPE, COUNT };
    static const char *const names[COUNT] = {"name", "dtype", "shape", "type"};
    const struct sp_tree *tree = description->tree;
    uint32_t slots[COUNT];
    enum sp_status status = sp_description_members(tree, value, "A value", names, COUNT, slots);
    if (status != SP_OK)
        return status;
    if (slots[NAME] == SP_TREE_NONE)
        return sp_tree_fail(tree, value, "MEMBER_MISSING", "A value needs a name.");
    if (slots[TYPE] != SP_TREE_NONE && slots[DTYPE] != SP_TREE_NONE)
        return sp_tree_fail(tree, slots[TYPE], "MEMBER_TWICE", "'type' and 'dtype' exclude each other.");
    if (slots[SHAPE] != SP_TREE_NONE && slots[DTYPE] == SP_TREE_NONE)
        return sp_tree_fail(tree, value, "MEMBER_MISSING", "A value with a shape needs a dtype.");
    sp_emit_begin(&description->emit, field);
    status = sp_description_text(description, SP_FIELD_VALUE_NAME, slots[NAME], "A value's name");
    if (status == SP_OK && slots[DTYPE] != SP_TREE_NONE) {
        status = put_tensor_type(description, slots[DTYPE], slots[SHAPE]);
    } else if (status == SP_OK && slots[TYPE] != SP_TREE_NONE) {
        sp_emit_begin(&description->emit, SP_FIELD_VALUE_TYPE);
        status = sp_proto_message(tree, slots[TYPE], &onnx__type_proto__descriptor, &description->emit);
        sp_emit_end(&description->emit);
    }
    sp_emit_end(&description->emit);
    return status;
}

/* Whether a dimension is just a symbol of the model, by this name. */
static bool is_symbol(struct sp_dims *dims, struct sp_dim dim, const char *name)
{
    for (uint32_t i = 0; i < sp_dims_symbol_count(dims); i++) {
        if (strcmp(sp_dims_symbol_name(dims, i), name) == 0)
            return !sp_dims_symbol_is_fresh(dims, i) && sp_dim_equal(dim, sp_dim_symbol(dims, name));
    }
    return false;
}

/* A dimension that was inferred: expressions, and what depends on data, have no place in a file. */
static void put_inferred_dim(struct sp_description *description, struct sp_dim dim)
{
    struct sp_emit *emit = &description->emit;
    struct sp_buf name;
    sp_emit_begin(emit, SP_FIELD_SHAPE_DIM);
    sp_buf_init(&name, SP_MAX_NAME_BYTES);
    if (dim.kind == SP_DIM_SYMBOLIC)
        sp_dim_print(dim, &name);
    if (sp_dim_is_known(dim))
        sp_emit_int(emit, SP_FIELD_DIM_VALUE, dim.value);
    else if (name.size > 0 && !sp_buf_failed(&name) && is_symbol(description->typed->dims, dim, name.data))
        sp_emit_bytes(emit, SP_FIELD_DIM_PARAM, name.data, name.size);
    sp_buf_release(&name);
    sp_emit_end(emit);
}

static void put_inferred_type(struct sp_description *description, const struct sp_type *type)
{
    struct sp_emit *emit = &description->emit;
    sp_emit_begin(emit, SP_FIELD_VALUE_TYPE);
    sp_emit_begin(emit, SP_FIELD_TYPE_TENSOR);
    sp_emit_int(emit, SP_FIELD_TENSOR_TYPE_ELEM, type->dtype);
    if (type->shape.has_rank) {
        sp_emit_begin(emit, SP_FIELD_TENSOR_TYPE_SHAPE);
        for (uint32_t i = 0; i < type->shape.rank; i++)
            put_inferred_dim(description, type->shape.dims[i]);
        sp_emit_end(emit);
    }
    sp_emit_end(emit);
    sp_emit_end(emit);
}

enum sp_status sp_description_output(struct sp_description *description, uint32_t value,
                                     const struct sp_value *inferred)
{
    if (sp_tree_kind(description->tree, value) != SP_TREE_STRING)
        return sp_description_value(description, SP_FIELD_GRAPH_OUTPUT, value);
    sp_emit_begin(&description->emit, SP_FIELD_GRAPH_OUTPUT);
    enum sp_status status = sp_description_text(description, SP_FIELD_VALUE_NAME, value, "A name");
    if (inferred != NULL && inferred->type.kind == SP_TYPE_TENSOR && inferred->type.dtype != SP_DTYPE_UNDEFINED)
        put_inferred_type(description, &inferred->type);
    else
        description->untyped++;
    sp_emit_end(&description->emit);
    return status;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

struct tensor_parts {
    uint32_t name, dtype_at, shape, data; /* SP_TREE_NONE: absent */
    enum sp_dtype dtype;
    int64_t elements, bytes;
};

static enum sp_status read_extents(const struct sp_tree *tree, struct tensor_parts *parts)
{
    enum sp_status status = sp_description_array(tree, parts->shape, "'shape', an array of numbers,");
    int64_t extent = 0;
    bool has_zero = false;
    parts->elements = 1;
    if (status != SP_OK)
        return status;
    for (uint32_t i = sp_tree_begin(parts->shape); i != sp_tree_end(tree, parts->shape); i = sp_tree_after(tree, i)) {
        if (sp_tree_kind(tree, i) != SP_TREE_NUMBER)
            return sp_tree_fail(tree, i, "NUMBER_EXPECTED", "The shape of a constant tensor has numbers only.");
        status = sp_scalar_int(tree, i, 0, INT64_MAX, &extent);
        if (status != SP_OK)
            return status;
        has_zero = has_zero || extent == 0;
        if (extent != 0 && !sp_mul_i64(parts->elements, extent, &parts->elements))
            return sp_tree_fail(tree, parts->shape, "TENSOR_TOO_LARGE",
                                "A tensor of this shape has too many elements.");
    }
    parts->elements = has_zero ? 0 : parts->elements;
    parts->bytes = sp_dtype_bytes(parts->dtype, parts->elements);
    if (parts->bytes < 0)
        return sp_tree_fail(tree, parts->shape, "TENSOR_TOO_LARGE", "A tensor of this shape has too many bytes.");
    return SP_OK;
}

static enum sp_status read_tensor(struct sp_description *description, uint32_t value, bool is_initializer,
                                  struct tensor_parts *parts)
{
    enum { DTYPE, SHAPE, DATA, NAME, COUNT };
    static const char *const names[COUNT] = {"dtype", "shape", "data", "name"};
    const struct sp_tree *tree = description->tree;
    const char *what = is_initializer ? "An initializer" : "A tensor";
    uint32_t slots[COUNT];
    enum sp_status status = sp_description_members(tree, value, what, names, COUNT, slots);
    if (status != SP_OK)
        return status;
    *parts = (struct tensor_parts){
        .name = slots[NAME], .dtype_at = slots[DTYPE], .shape = slots[SHAPE], .data = slots[DATA]};
    for (int i = 0; i < COUNT; i++) {
        if (slots[i] == SP_TREE_NONE && (i <= SHAPE || i == (is_initializer ? NAME : DATA)))
            return sp_tree_fail(tree, value, "MEMBER_MISSING", "%s needs the member '%s'.", what, names[i]);
    }
    status = read_dtype(description, parts->dtype_at, &parts->dtype);
    return status == SP_OK ? read_extents(tree, parts) : status;
}

/* The bits of a float of 8 or 16 bits nearest to the number, ties to even; beyond `most` it is that: infinity, or where
   the type has none the largest number. */
static uint64_t bits_of_float(double number, int exponent_bits, int mantissa_bits, uint64_t most)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint64_t sign = signbit(number) ? UINT64_C(1) << (exponent_bits + mantissa_bits) : 0;
    int exponent;
    if (isnan(number))
        return most | (mantissa_bits > 3 ? UINT64_C(1) << (mantissa_bits - 1) : 1);
    if (isinf(number))
        return sign | most;
    if (number == 0)
        return sign;
    (void)frexp(number, &exponent);
    exponent = exponent - 1 + bias; /* below 1: subnormal, with the step of exponent 1 */
    if (exponent < 1)
        exponent = 1;
    /* A mantissa that rounds up to the next power of two carries into the exponent, to infinity at the end. */
    const uint64_t steps = (uint64_t)nearbyint(ldexp(fabs(number), mantissa_bits + bias - exponent));
    const uint64_t bits = ((uint64_t)(exponent - 1) << mantissa_bits) + steps;
    return sign | (bits > most ? most : bits);
}

static enum sp_status read_element(const struct sp_tree *tree, uint32_t value, enum sp_dtype dtype, uint64_t *ret_bits)
{
    const int width = sp_dtype_bits(dtype);
    const bool is_signed =
        dtype == SP_DTYPE_INT8 || dtype == SP_DTYPE_INT16 || dtype == SP_DTYPE_INT32 || dtype == SP_DTYPE_INT64;
    enum sp_status status;
    double number = 0;
    float single = 0;
    int64_t integer = 0;
    uint32_t bits32;
    if (dtype == SP_DTYPE_BOOL && sp_tree_kind(tree, value) != SP_TREE_NUMBER) {
        if (sp_tree_kind(tree, value) != SP_TREE_TRUE && sp_tree_kind(tree, value) != SP_TREE_FALSE)
            return sp_tree_fail(tree, value, "BOOLEAN_EXPECTED", "true or false is expected here.");
        *ret_bits = sp_tree_kind(tree, value) == SP_TREE_TRUE;
        return SP_OK;
    }
    if (dtype == SP_DTYPE_FLOAT) {
        status = sp_scalar_float(tree, value, &single);
        memcpy(&bits32, &single, sizeof bits32);
        *ret_bits = bits32;
    } else if (sp_dtype_is_float(dtype)) {
        status = sp_scalar_double(tree, value, &number);
        memcpy(ret_bits, &number, sizeof *ret_bits);
        if (dtype == SP_DTYPE_FLOAT16)
            *ret_bits = bits_of_float(number, 5, 10, 0x7c00);
        else if (dtype == SP_DTYPE_BFLOAT16)
            *ret_bits = bits_of_float(number, 8, 7, 0x7f80);
        else if (dtype == SP_DTYPE_FLOAT8E4M3FN)
            *ret_bits = bits_of_float(number, 4, 3, 0x7e);
        else if (dtype == SP_DTYPE_FLOAT8E5M2)
            *ret_bits = bits_of_float(number, 5, 2, 0x7c);
    } else if (is_signed) {
        const int64_t high = INT64_MAX >> (64 - width);
        status = sp_scalar_int(tree, value, -high - 1, high, &integer);
        *ret_bits = (uint64_t)integer;
    } else {
        status = sp_scalar_uint(tree, value, dtype == SP_DTYPE_BOOL ? 1 : UINT64_MAX >> (64 - width), ret_bits);
    }
    return status;
}

/* Types whose elements are whole bytes that people write down. */
static bool has_plain_elements(enum sp_dtype dtype)
{
    const bool is_small_float = sp_dtype_is_float(dtype) && sp_dtype_bits(dtype) < 16 &&
                                dtype != SP_DTYPE_FLOAT8E4M3FN && dtype != SP_DTYPE_FLOAT8E5M2;
    const bool is_complex = dtype == SP_DTYPE_COMPLEX64 || dtype == SP_DTYPE_COMPLEX128;
    return sp_dtype_bits(dtype) >= 8 && !is_small_float && !is_complex;
}

static enum sp_status put_raw_data(struct sp_description *description, const struct tensor_parts *parts)
{
    const struct sp_tree *tree = description->tree;
    const size_t width = (size_t)sp_dtype_bits(parts->dtype) / 8;
    enum sp_status status = SP_OK;
    if (!has_plain_elements(parts->dtype))
        return sp_tree_fail(tree, parts->data, "DATA_UNSUPPORTED",
                            "Elements of type %s cannot be written here; leave the data out, or give the model in "
                            "protobuf's JSON mapping or as an ONNX file.",
                            sp_dtype_name(parts->dtype));
    sp_emit_begin(&description->emit, SP_FIELD_TENSOR_RAW_DATA);
    for (uint32_t i = sp_tree_begin(parts->data); status == SP_OK && i != sp_tree_end(tree, parts->data);
         i = sp_tree_after(tree, i)) {
        unsigned char bytes[8];
        uint64_t bits = 0;
        status = read_element(tree, i, parts->dtype, &bits);
        for (size_t k = 0; k < width; k++)
            bytes[k] = (unsigned char)(bits >> (8 * k));
        sp_buf_append(description->emit.buf, bytes, width);
    }
    sp_emit_end(&description->emit);
    return status;
}

static enum sp_status put_data(struct sp_description *description, const struct tensor_parts *parts)
{
    const struct sp_tree *tree = description->tree;
    enum sp_status status = sp_description_array(tree, parts->data, "'data', an array of the elements one by one,");
    if (status != SP_OK)
        return status;
    const uint32_t count = sp_tree_count(tree, parts->data);
    if ((int64_t)count != parts->elements)
        return sp_tree_fail(tree, parts->data, "DATA_COUNT",
                            "'data' has %u elements where the shape has %" PRId64
                            ": all elements stand in one array, the last dimension running fastest.",
                            count, parts->elements);
    if (parts->dtype != SP_DTYPE_STRING)
        return count > 0 ? put_raw_data(description, parts) : SP_OK;
    for (uint32_t i = sp_tree_begin(parts->data); status == SP_OK && i != sp_tree_end(tree, parts->data);
         i = sp_tree_after(tree, i))
        status = sp_description_text(description, SP_FIELD_TENSOR_STRING_DATA, i, "An element of a string tensor");
    return status;
}

static void put_entry(struct sp_emit *emit, const char *key, const char *value)
{
    sp_emit_begin(emit, SP_FIELD_TENSOR_EXTERNAL_DATA);
    sp_emit_word(emit, SP_FIELD_ENTRY_KEY, key);
    sp_emit_word(emit, SP_FIELD_ENTRY_VALUE, value);
    sp_emit_end(emit);
}

/* A weight of which only the place is known: behind the one before, in a file beside the model. */
static enum sp_status put_absent(struct sp_description *description, const struct tensor_parts *parts)
{
    char number[24];
    int64_t end;
    if (parts->dtype == SP_DTYPE_STRING)
        return sp_tree_fail(description->tree, parts->dtype_at, "DATA_MISSING",
                            "A tensor of strings needs its data: ONNX keeps strings in the model.");
    if (!sp_add_i64(description->weight_bytes, parts->bytes, &end))
        return sp_tree_fail(description->tree, parts->shape, "TENSOR_TOO_LARGE",
                            "The weights have too many bytes together.");
    put_entry(&description->emit, "location", WEIGHTS_FILE);
    (void)snprintf(number, sizeof number, "%" PRId64, description->weight_bytes);
    put_entry(&description->emit, "offset", number);
    (void)snprintf(number, sizeof number, "%" PRId64, parts->bytes);
    put_entry(&description->emit, "length", number);
    sp_emit_int(&description->emit, SP_FIELD_TENSOR_LOCATION, SP_FIELD_TENSOR_IS_EXTERNAL);
    description->weight_bytes = end;
    return SP_OK;
}

static enum sp_status put_tensor(struct sp_description *description, uint32_t field, const struct tensor_parts *parts)
{
    const struct sp_tree *tree = description->tree;
    struct sp_emit *emit = &description->emit;
    enum sp_status status = SP_OK;
    int64_t extent = 0;
    sp_emit_begin(emit, field);
    for (uint32_t i = sp_tree_begin(parts->shape); i != sp_tree_end(tree, parts->shape); i = sp_tree_after(tree, i)) {
        (void)sp_scalar_int(tree, i, 0, INT64_MAX, &extent);
        sp_emit_int(emit, SP_FIELD_TENSOR_DIMS, extent);
    }
    sp_emit_int(emit, SP_FIELD_TENSOR_TYPE, parts->dtype);
    if (parts->name != SP_TREE_NONE)
        status = sp_description_text(description, SP_FIELD_TENSOR_NAME, parts->name, "A tensor's name");
    if (status == SP_OK && parts->data != SP_TREE_NONE)
        status = put_data(description, parts);
    else if (status == SP_OK && parts->elements > 0)
        status = put_absent(description, parts);
    sp_emit_end(emit);
    return status;
}

enum sp_status sp_description_initializer(struct sp_description *description, uint32_t field, uint32_t value)
{
    struct tensor_parts parts;
    enum sp_status status = read_tensor(description, value, true, &parts);
    return status == SP_OK ? put_tensor(description, field, &parts) : status;
}

enum sp_status sp_description_tensor(struct sp_description *description, uint32_t field, uint32_t value)
{
    struct tensor_parts parts;
    enum sp_status status = read_tensor(description, value, false, &parts);
    return status == SP_OK ? put_tensor(description, field, &parts) : status;
}
