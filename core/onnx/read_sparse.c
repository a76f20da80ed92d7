#include "base/arith.h"
#include "onnx/read.h"

/* Field numbers of SparseTensorProto. */
enum { VALUES = 1, INDICES = 2, DIMS = 3 };

static enum sp_status survey_field(struct sp_reader *r, const struct sp_wire_field *field,
                                   struct sp_sparse_tensor *sparse, bool *has_values, bool *has_indices)
{
    uint64_t items;
    enum sp_status status;
    switch (field->number) {
    case VALUES:
        status = sp_reader_single(r, field, has_values);
        return status != SP_OK ? status : sp_read_tensor(r, field->payload, &sparse->values);
    case INDICES:
        status = sp_reader_single(r, field, has_indices);
        return status != SP_OK ? status : sp_read_tensor(r, field->payload, &sparse->indices);
    case DIMS:
        status = sp_wire_count_items(r->bytes, field, SP_WIRE_VARINT, &items, r->err);
        return status == SP_OK ? sp_reader_rank(r, &sparse->rank, items) : status;
    default:
        return sp_reader_unknown(r, field);
    }
}

static enum sp_status read_dims(struct sp_reader *r, struct sp_span span, struct sp_sparse_tensor *sparse)
{
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field;
    uint32_t count = 0;
    enum sp_status status = SP_OK;
    sparse->dims = SP_NEW_ARRAY(r->arena, sparse->rank, int64_t);
    if (sparse->dims == NULL)
        return sp_fail_memory(r->err);
    while (count < sparse->rank && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == DIMS && (status = sp_reader_ints(r, &field, sparse->dims, &count)) != SP_OK)
            return status;
    }
    return status;
}

/* Values are a list, indices either one linear index or one index per axis for each value (docs/IR.md). */
static bool is_consistent(const struct sp_sparse_tensor *sparse)
{
    const struct sp_tensor *values = sparse->values, *indices = sparse->indices;
    int64_t elements = 1;
    for (uint32_t i = 0; i < sparse->rank; i++) {
        if (sparse->dims[i] <= 0 || !sp_mul_i64(elements, sparse->dims[i], &elements))
            return false;
    }
    if (sparse->rank == 0 || values->rank != 1 || values->dims[0] > elements || indices->dtype != SP_DTYPE_INT64)
        return false;
    if (indices->rank == 1)
        return indices->dims[0] == values->dims[0];
    return indices->rank == 2 && indices->dims[0] == values->dims[0] && indices->dims[1] == (int64_t)sparse->rank;
}

enum sp_status sp_read_sparse(struct sp_reader *r, struct sp_span span, struct sp_sparse_tensor **ret_sparse)
{
    struct sp_sparse_tensor *sparse = SP_NEW(r->arena, struct sp_sparse_tensor);
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field;
    bool has_values = false, has_indices = false;
    enum sp_status status = sparse == NULL ? sp_fail_memory(r->err) : SP_OK;
    while (status == SP_OK && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0)
        status = survey_field(r, &field, sparse, &has_values, &has_indices);
    if (status == SP_OK)
        status = read_dims(r, span, sparse);
    if (status != SP_OK)
        return status;
    if (!has_values || !has_indices || !is_consistent(sparse))
        return sp_reader_fail(r, "BAD_SPARSE_TENSOR",
                              "The sparse tensor '%.120s' lacks values, indices or dims, or they do not fit together.",
                              has_values ? sparse->values->name : "");
    *ret_sparse = sparse;
    return SP_OK;
}
