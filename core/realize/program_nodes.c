#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "realize/program.h"
#include "realize/protobuf_fields.h"

/* ---- names ------------------------------------------------------------------------------------------------------ */

const char *sp_program_fresh(struct sp_program *program, const char *what)
{
    return sp_arena_printf(program->arena, "%s/%s%" PRIu64, program->hint, what, program->next++);
}

/* Only digests of names are kept, for there may be a million. */
const char *sp_program_node_name(struct sp_program *program, const char *name)
{
    while (name != NULL) {
        struct sp_hash_slot *slot = sp_hash_map_put(&program->node_names, sp_digest(name, strlen(name), 0));
        if (slot == NULL)
            return NULL;
        if (slot->number == 0) {
            slot->number = 1;
            return name;
        }
        name = sp_arena_printf(program->arena, "%s/%" PRIu64, name, program->next++);
    }
    return NULL;
}

enum sp_status sp_program_add_initializer(struct sp_program *program, uint32_t field, const char *name,
                                          struct sp_error *err)
{
    if (!SP_MAKE_ROOM(program->arena, program->constants, program->constant_count, program->constant_capacity, 1))
        return sp_fail_memory(err);
    program->constants[program->constant_count++] = name;
    sp_put_message(program->initializers, field, program->message);
    return sp_recipe_status(program->initializers, err);
}

/* ---- operators -------------------------------------------------------------------------------------------------- */

/* The place of an equal node's result. */
static enum sp_status find_taken(struct sp_program *program, const struct sp_program_op *op, void ***ret_entry,
                                 struct sp_error *err)
{
    struct sp_buf key;
    sp_buf_init(&key, SP_MAX_RECORD_BYTES);
    sp_buf_append(&key, op->op_type, strlen(op->op_type) + 1);
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        sp_buf_append(&key, &op->attributes[i].i, sizeof op->attributes[i].i);
        sp_buf_append(&key, op->attributes[i].ints, op->attributes[i].count * sizeof *op->attributes[i].ints);
    }
    for (uint32_t i = 0; i < op->input_count; i++)
        sp_buf_append(&key, op->inputs[i], strlen(op->inputs[i]) + 1);
    *ret_entry = sp_buf_failed(&key) ? NULL : sp_program_entry(program->taken, key.data, key.size);
    sp_buf_release(&key);
    return *ret_entry == NULL ? sp_fail_memory(err) : SP_OK;
}

enum sp_status sp_program_emit(struct sp_program *program, const struct sp_program_op *op, const char **ret_name,
                               struct sp_error *err)
{
    void **entry = NULL;
    enum sp_status status = program->taken == NULL ? SP_OK : find_taken(program, op, &entry, err);
    if (status != SP_OK)
        return status;
    if (entry != NULL && *entry != NULL) {
        *ret_name = *entry;
        return SP_OK;
    }
    const char *output = op->want != NULL ? op->want : sp_program_fresh(program, "");
    const char *name = output == NULL ? NULL : sp_program_node_name(program, output);
    if (name == NULL)
        return sp_fail_memory(err);
    const struct sp_encode_operator node = {.domain = op->domain == NULL ? "" : op->domain,
                                            .op_type = op->op_type,
                                            .name = name,
                                            .input_count = op->input_count,
                                            .inputs = op->inputs,
                                            .output_count = 1,
                                            .outputs = &output,
                                            .attribute_count = op->attribute_count,
                                            .attributes = op->attributes};
    status = sp_encode_operator(&program->encoder, program->nodes, &node, err);
    if (entry != NULL)
        *entry = (void *)output;
    *ret_name = output;
    return status;
}

enum sp_status sp_program_ints(struct sp_program *program, uint32_t count, const int64_t *values, const char **ret_name,
                               struct sp_error *err)
{
    enum sp_status status = SP_OK;
    struct sp_buf key;
    sp_buf_init(&key, SP_MAX_RECORD_BYTES);
    sp_buf_append(&key, "ints", sizeof "ints");
    for (uint32_t i = 0; i < count; i++) {
        unsigned char bytes[8];
        for (unsigned k = 0; k < 8; k++)
            bytes[k] = (unsigned char)((uint64_t)values[i] >> (8 * k));
        sp_buf_append(&key, bytes, sizeof bytes);
    }
    void **entry = sp_buf_failed(&key) ? NULL : sp_program_entry(program->made, key.data, key.size);
    if (entry != NULL && *entry == NULL) {
        const char *name = sp_arena_printf(program->arena, "%sints.%" PRIu64, program->marker, program->next++);
        *entry = (void *)name;
        sp_recipe_clear(program->message);
        sp_put_int(program->message, SP_PUT_TENSOR_DIMS, count);
        sp_put_int(program->message, SP_PUT_TENSOR_DATA_TYPE, SP_DTYPE_INT64);
        if (name != NULL)
            sp_put_text(program->message, SP_PUT_TENSOR_NAME, name);
        sp_put_bytes(program->message, SP_PUT_TENSOR_RAW_DATA, key.data + sizeof "ints", key.size - sizeof "ints");
        if (name != NULL)
            status = sp_program_add_initializer(program, SP_PUT_GRAPH_INITIALIZER, name, err);
    }
    sp_buf_release(&key);
    if (entry == NULL || *entry == NULL)
        return sp_fail_memory(err);
    *ret_name = *entry;
    return status;
}

/* What pieces are gathered in has an axis more than these. */
struct slice {
    uint32_t count;
    int64_t axes[SP_MAX_RANK + 1], starts[SP_MAX_RANK + 1], ends[SP_MAX_RANK + 1];
};

/* Slice was given its bounds as attributes before opset 10. */
static enum sp_status emit_slice(struct sp_program *program, const char *x, const struct slice *slice, const char *want,
                                 const char **ret_name, struct sp_error *err)
{
    const struct sp_lower_attribute attributes[] = {SP_INTS_ATTR("axes", slice->count, slice->axes),
                                                    SP_INTS_ATTR("starts", slice->count, slice->starts),
                                                    SP_INTS_ATTR("ends", slice->count, slice->ends)};
    const char *inputs[4] = {x};
    enum sp_status status = SP_OK;
    if (program->opset < 10)
        return sp_program_emit(program,
                               &(struct sp_program_op){.op_type = "Slice",
                                                       .input_count = 1,
                                                       .inputs = inputs,
                                                       .attribute_count = 3,
                                                       .attributes = attributes,
                                                       .want = want},
                               ret_name, err);
    status = sp_program_ints(program, slice->count, slice->starts, &inputs[1], err);
    if (status == SP_OK)
        status = sp_program_ints(program, slice->count, slice->ends, &inputs[2], err);
    if (status == SP_OK)
        status = sp_program_ints(program, slice->count, slice->axes, &inputs[3], err);
    if (status == SP_OK)
        status = sp_program_emit(
            program, &(struct sp_program_op){.op_type = "Slice", .input_count = 4, .inputs = inputs, .want = want},
            ret_name, err);
    return status;
}

enum sp_status sp_program_slice(struct sp_program *program, const struct sp_program_tensor *x,
                                const struct sp_range *ranges, const char *want, const char **ret_name,
                                struct sp_error *err)
{
    struct slice slice = {0};
    for (uint32_t i = 0; i < x->rank; i++) {
        const bool is_end = ranges[i].limit < 0 || (x->dims != NULL && ranges[i].limit == x->dims[i]);
        if (ranges[i].start == 0 && is_end)
            continue;
        slice.axes[slice.count] = i;
        slice.starts[slice.count] = ranges[i].start;
        slice.ends[slice.count++] = ranges[i].limit < 0 ? INT64_MAX : ranges[i].limit;
    }
    if (slice.count > 0)
        return emit_slice(program, x->name, &slice, want, ret_name, err);
    *ret_name = x->name;
    return SP_OK;
}

enum sp_status sp_program_concat(struct sp_program *program, uint32_t axis, uint32_t count, const char *const *names,
                                 const char *want, const char **ret_name, struct sp_error *err)
{
    const struct sp_lower_attribute attribute = SP_INT_ATTR("axis", axis);
    if (count == 1) {
        *ret_name = names[0];
        return SP_OK;
    }
    return sp_program_emit(program,
                           &(struct sp_program_op){.op_type = "Concat",
                                                   .input_count = count,
                                                   .inputs = names,
                                                   .attribute_count = 1,
                                                   .attributes = &attribute,
                                                   .want = want},
                           ret_name, err);
}

/* ---- types that cannot be cut -------------------------------------------------------------------------------------
 */

#define CONCAT_ANY_SINCE 4 /* floats only before it */
#define CAST_INT_SINCE   6 /* the type is an integer; a name before it */

enum sp_dtype sp_program_carrier(const struct sp_program *program, enum sp_dtype dtype)
{
    switch (dtype) {
    case SP_DTYPE_INT4:
    case SP_DTYPE_INT2:
    case SP_DTYPE_UINT4:
    case SP_DTYPE_UINT2:
    case SP_DTYPE_FLOAT8E4M3FN:
    case SP_DTYPE_FLOAT8E4M3FNUZ:
    case SP_DTYPE_FLOAT8E5M2:
    case SP_DTYPE_FLOAT8E5M2FNUZ:
    case SP_DTYPE_FLOAT8E8M0:
    case SP_DTYPE_FLOAT4E2M1:
    case SP_DTYPE_FLOAT6E2M3:
    case SP_DTYPE_FLOAT6E3M2:
        return SP_DTYPE_FLOAT;
    case SP_DTYPE_BOOL:
    case SP_DTYPE_INT8:
    case SP_DTYPE_INT16:
    case SP_DTYPE_INT32:
    case SP_DTYPE_UINT8:
    case SP_DTYPE_UINT16:
    case SP_DTYPE_UINT32:
        return program->opset < CONCAT_ANY_SINCE ? SP_DTYPE_DOUBLE : dtype;
    default:
        return dtype;
    }
}

/* The types that old versions of Cast name. */
static const char *const type_names[] = {"UNDEFINED", "FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32",
                                         "INT64",     "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64"};

enum sp_status sp_program_cast(struct sp_program *program, const char *x, enum sp_dtype dtype, const char *want,
                               const char **ret_name, struct sp_error *err)
{
    const bool is_float8 = sp_dtype_is_float(dtype) && sp_dtype_bits(dtype) == 8;
    /* Infinities stay what they are. */
    struct sp_lower_attribute attributes[] = {SP_INT_ATTR("to", dtype), SP_INT_ATTR("saturate", 0)};
    if (program->opset < CAST_INT_SINCE && (size_t)dtype < sizeof type_names / sizeof type_names[0])
        attributes[0] = (struct sp_lower_attribute){.name = "to", .type = SP_ATTR_STRING, .s = type_names[dtype]};
    return sp_program_emit(program,
                           &(struct sp_program_op){.op_type = "Cast",
                                                   .input_count = 1,
                                                   .inputs = &x,
                                                   .attribute_count = is_float8 ? 2 : 1,
                                                   .attributes = attributes,
                                                   .want = want},
                           ret_name, err);
}

/* ---- boxes --------------------------------------------------------------------------------------------------------
 */

/* The parts of one axis that has several ranges, one after the other. */
static enum sp_status cut_axis(struct sp_program *program, const char *name, const struct sp_box *box, uint32_t axis,
                               const char *want, const char **ret_name, struct sp_error *err)
{
    const struct sp_program_tensor x = {.name = name, .rank = box->rank};
    const struct sp_axis_ranges *all = &box->axes[axis];
    struct sp_range ranges[SP_MAX_RANK];
    const char **parts = SP_NEW_ARRAY(program->scratch, all->count, const char *);
    enum sp_status status = parts == NULL ? sp_fail_memory(err) : SP_OK;
    for (uint32_t i = 0; i < x.rank; i++)
        ranges[i] = (struct sp_range){0, -1};
    for (uint32_t k = 0; status == SP_OK && k < all->count; k++) {
        ranges[axis] = all->ranges[k];
        status = sp_program_slice(program, &x, ranges, NULL, &parts[k], err);
    }
    return status == SP_OK ? sp_program_concat(program, axis, all->count, parts, want, ret_name, err) : status;
}

static enum sp_status cut_box(struct sp_program *program, const struct sp_program_tensor *x, const struct sp_box *box,
                              const char *want, const char **ret_name, struct sp_error *err)
{
    struct sp_range ranges[SP_MAX_RANK];
    uint32_t last = SP_MAX_RANK; /* the last axis with several ranges */
    for (uint32_t i = 0; i < x->rank; i++) {
        if (box->axes[i].count > 1)
            last = i;
        ranges[i] = box->axes[i].count == 1 ? box->axes[i].ranges[0] : (struct sp_range){0, -1};
        if (box->axes[i].count == 0)
            ranges[i].limit = 0;
    }
    enum sp_status status = sp_program_slice(program, x, ranges, last == SP_MAX_RANK ? want : NULL, ret_name, err);
    for (uint32_t i = 0; status == SP_OK && last < SP_MAX_RANK && i <= last; i++) {
        if (box->axes[i].count > 1)
            status = cut_axis(program, *ret_name, box, i, i == last ? want : NULL, ret_name, err);
    }
    return status;
}

enum sp_status sp_program_cut(struct sp_program *program, const struct sp_program_tensor *x, enum sp_dtype dtype,
                              const struct sp_box *box, const char *want, const char **ret_name, struct sp_error *err)
{
    const enum sp_dtype carrier = sp_program_carrier(program, dtype);
    if (box->is_whole) {
        *ret_name = x->name;
        return SP_OK;
    }
    if (box->rank > SP_MAX_RANK || box->rank != x->rank)
        return sp_fail(err, SP_ERR_INTERNAL, "BAD_BOX", "A box has another number of axes than its tensor can have.");
    if (carrier == dtype)
        return cut_box(program, x, box, want, ret_name, err);
    struct sp_program_tensor carried = *x;
    enum sp_status status = sp_program_cast(program, x->name, carrier, NULL, &carried.name, err);
    if (status == SP_OK)
        status = cut_box(program, &carried, box, NULL, ret_name, err);
    return status == SP_OK ? sp_program_cast(program, *ret_name, dtype, want, ret_name, err) : status;
}

/* ---- combining -------------------------------------------------------------------------------------------------- */

/* Before opset 12 Max and Min take floats only: a comparison picks. */
static enum sp_status pick(struct sp_program *program, const char *op_type, const char *a, const char *b,
                           const char *want, const char **ret_name, struct sp_error *err)
{
    const char *inputs[3] = {a, b};
    const char *condition = NULL;
    if (program->opset < 9)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "COMBINER_NEEDS_OPSET",
                       "The largest or least of integers of several devices cannot be written in operator set "
                       "%" PRId64 "; convert the model to 9 or newer.",
                       program->opset);
    enum sp_status status = sp_program_emit(
        program,
        &(struct sp_program_op){
            .op_type = strcmp(op_type, "Max") == 0 ? "Greater" : "Less", .input_count = 2, .inputs = inputs},
        &condition, err);
    const char *choice[3] = {condition, a, b};
    return status != SP_OK ? status
                           : sp_program_emit(program,
                                             &(struct sp_program_op){
                                                 .op_type = "Where", .input_count = 3, .inputs = choice, .want = want},
                                             ret_name, err);
}

enum sp_status sp_program_combine(struct sp_program *program, enum sp_combiner combiner, enum sp_dtype dtype,
                                  const struct sp_program_op *parts, const char **ret_name, struct sp_error *err)
{
    const uint32_t count = parts->input_count;
    const char *const *names = parts->inputs;
    const char *op_type = combiner == SP_COMBINE_SUM    ? "Add"
                          : combiner == SP_COMBINE_MAX  ? "Max"
                          : combiner == SP_COMBINE_MIN  ? "Min"
                          : combiner == SP_COMBINE_PROD ? "Mul"
                                                        : NULL;
    const bool picks =
        (combiner == SP_COMBINE_MAX || combiner == SP_COMBINE_MIN) && program->opset < 12 && !sp_dtype_is_float(dtype);
    const char *sum = names[0];
    enum sp_status status = SP_OK;
    if (op_type == NULL)
        return sp_fail(err, SP_ERR_INTERNAL, "BAD_COMBINER", "An exchange combines by what is no operator.");
    if (combiner == SP_COMBINE_SUM && program->opset < 7 && count > 1) /* Add is not the operator it is now */
        return sp_program_emit(
            program,
            &(struct sp_program_op){.op_type = "Sum", .input_count = count, .inputs = names, .want = parts->want},
            ret_name, err);
    for (uint32_t i = 1; status == SP_OK && i < count; i++) {
        const char *inputs[2] = {sum, names[i]}, *wanted = i + 1 == count ? parts->want : NULL;
        if (picks)
            status = pick(program, op_type, sum, names[i], wanted, &sum, err);
        else
            status = sp_program_emit(
                program,
                &(struct sp_program_op){.op_type = op_type, .input_count = 2, .inputs = inputs, .want = wanted}, &sum,
                err);
    }
    *ret_name = sum;
    return status;
}
