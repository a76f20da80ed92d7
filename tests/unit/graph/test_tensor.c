/* Tensors: what is kept of them, what is refused, and the elements of small ones. Notation: onnx_files.h. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/limits.h"
#include "onnx_files.h"

/* A model whose one initializer is the tensor `fields`. */
#define TENSOR(fields) "1:8 8{2:17} 7{2'g' 5{8'w' " fields "}}"

struct loaded {
    struct sp_buf file;
    struct onnx_model m;
    struct sp_tensor *tensor;
    struct sp_data *data;
};

static struct loaded load(const char *notation)
{
    struct loaded loaded = {.file = onnx_encode(notation)};
    struct sp_error err = {0};
    cr_assert_eq(onnx_read(&loaded.m, loaded.file.data, loaded.file.size), SP_OK, "%s: %s", notation,
                 loaded.m.err.message);
    loaded.tensor = loaded.m.model->graph->initializers[0]->tensor;
    cr_assert_eq(sp_onnx_tensor_data(loaded.m.model, loaded.m.arena, loaded.tensor, &loaded.data, &err), SP_OK, "%s",
                 err.message);
    return loaded;
}

static void unload(struct loaded *loaded)
{
    onnx_release(&loaded->m);
    sp_buf_release(&loaded->file);
}

static void expect_ints(const char *notation, uint32_t count, const int64_t *values)
{
    struct loaded l = load(notation);
    cr_assert(l.data != NULL && l.data->ints != NULL && l.data->reals == NULL, "%s", notation);
    cr_assert_eq(l.data->count, count, "%s", notation);
    for (uint32_t i = 0; i < count; i++)
        cr_expect(sp_dim_is(l.data->ints[i], values[i]), "%s: element %u is %ld", notation, i,
                  (long)l.data->ints[i].value);
    unload(&l);
}

static void expect_reals(const char *notation, uint32_t count, const double *values)
{
    struct loaded l = load(notation);
    cr_assert(l.data != NULL && l.data->reals != NULL && l.data->ints == NULL && l.data->count == count, "%s",
              notation);
    for (uint32_t i = 0; i < count; i++)
        cr_expect_eq(l.data->reals[i], values[i], "%s: element %u is %g", notation, i, l.data->reals[i]);
    unload(&l);
}

Test(tensor, keeps_dims_and_place)
{
    struct loaded l = load(TENSOR("1h0203 2:1 9h000000000000000000000000000000000000000000000000"));
    cr_expect(l.tensor->rank == 2 && l.tensor->dims[0] == 2 && l.tensor->dims[1] == 3); /* packed dims */
    cr_expect(l.tensor->elements == 6 && l.tensor->bytes == 24 && l.tensor->storage == SP_STORAGE_RAW);
    cr_expect(l.tensor->raw.size == 24 && l.tensor->raw.offset + 24 == l.file.size);
    cr_expect_eq(l.tensor->span.offset + l.tensor->span.size, l.file.size);
    unload(&l);
    l = load(TENSOR("2:7 7:5"));
    cr_expect(l.tensor->rank == 0 && l.tensor->elements == 1 && l.tensor->storage == SP_STORAGE_TYPED &&
              l.tensor->field == 7);
    unload(&l);
    l = load(TENSOR("1:0 1:9223372036854775807 1:5 2:1"));
    cr_expect(l.tensor->elements == 0 && l.tensor->bytes == 0 && l.tensor->storage == SP_STORAGE_NONE);
    cr_expect(l.data != NULL && l.data->count == 0);
    unload(&l);
    l = load(TENSOR("1:4 2:1"));
    cr_expect(l.tensor->storage == SP_STORAGE_NONE && l.data == NULL);
    unload(&l);
}

Test(tensor, reads_integers_in_every_storage)
{
    expect_ints(TENSOR("1:2 2:7 9hffffffffffffffff0500000000000000"), 2, (int64_t[]){-1, 5});
    expect_ints(TENSOR("1:3 2:7 7h01 7:2 7h03"), 3, (int64_t[]){1, 2, 3}); /* split and mixed packed */
    expect_ints(TENSOR("1:2 2:6 5:-7 5:8"), 2, (int64_t[]){-7, 8});
    expect_ints(TENSOR("1:2 2:6 9hf9ffffff08000000"), 2, (int64_t[]){-7, 8});
    expect_ints(TENSOR("1:2 2:3 9hff7f"), 2, (int64_t[]){-1, 127});
    expect_ints(TENSOR("1:2 2:2 9hff7f"), 2, (int64_t[]){255, 127});
    expect_ints(TENSOR("1:2 2:2 5:255 5:1"), 2, (int64_t[]){255, 1});
    expect_ints(TENSOR("1:2 2:5 9hfeff0100"), 2, (int64_t[]){-2, 1});
    expect_ints(TENSOR("1:1 2:4 9hfeff"), 1, (int64_t[]){65534});
    expect_ints(TENSOR("1:1 2:12 11:4294967295"), 1, (int64_t[]){UINT32_MAX});
    expect_ints(TENSOR("1:2 2:9 9h0200"), 2, (int64_t[]){1, 0});
    expect_ints(TENSOR("1:1 2:13 9h0500000000000000"), 1, (int64_t[]){5});
    struct loaded l = load(TENSOR("1:1 2:13 11:-1")); /* 2^64 - 1 */
    cr_expect_eq(l.data->ints[0].kind, SP_DIM_UNKNOWN);
    unload(&l);
}

/* 4- and 2-bit types: raw packs from the lowest bits; the typed field holds 2 (4), or 8 (16), or 1 per item. */
Test(tensor, reads_packed_integers)
{
    expect_ints(TENSOR("1:3 2:22 9h8107"), 3, (int64_t[]){1, -8, 7});
    expect_ints(TENSOR("1:3 2:21 9h8107"), 3, (int64_t[]){1, 8, 7});
    expect_ints(TENSOR("1:4 2:26 9he4"), 4, (int64_t[]){0, 1, -2, -1});
    expect_ints(TENSOR("1:4 2:25 9he4"), 4, (int64_t[]){0, 1, 2, 3});
    expect_ints(TENSOR("1:3 2:21 5:33 5:3"), 3, (int64_t[]){1, 2, 3});
    expect_ints(TENSOR("1:3 2:21 5:801"), 3, (int64_t[]){1, 2, 3});
    expect_ints(TENSOR("1:3 2:21 5:1 5:2 5:3"), 3, (int64_t[]){1, 2, 3});
    expect_ints(TENSOR("1:8 2:25 5:228 5:27"), 8, (int64_t[]){0, 1, 2, 3, 3, 2, 1, 0});
    expect_ints(TENSOR("1:8 2:25 5:7140"), 8, (int64_t[]){0, 1, 2, 3, 3, 2, 1, 0});
}

Test(tensor, reads_floats_in_every_storage)
{
    expect_reals(TENSOR("1:2 2:1 9h0000803f000000c0"), 2, (double[]){1, -2});
    expect_reals(TENSOR("1:3 2:1 4h0000803f 4~0.5 4h00000040"), 3, (double[]){1, 0.5, 2});
    expect_reals(TENSOR("1:1 2:11 9h000000000000f03f"), 1, (double[]){1});
    expect_reals(TENSOR("1:1 2:11 10h000000000000e03f"), 1, (double[]){0.5});
    expect_reals(TENSOR("1:2 2:10 9h003c0040"), 2, (double[]){1, 2});
    expect_reals(TENSOR("1:1 2:10 5:15360"), 1, (double[]){1});
    expect_reals(TENSOR("1:1 2:16 5:16256"), 1, (double[]){1});
    expect_reals(TENSOR("1:2 2:23 9h71"), 1 + 1, (double[]){0.5, 6});
}

Test(tensor, leaves_the_rest_alone)
{
    static const char *const none[] = {
        TENSOR("1:1 2:8 6'text'"),
        TENSOR("1:1 2:14 4~1 4~2"),
        TENSOR("1:4 2:1 14:1 13{1'location' 2'../../etc/passwd'} 13{1'offset' 2'4096'} 13{1'length' 2'16'}"),
        TENSOR("1:5000 2:2 9h00*1"),
    };
    for (size_t i = 0; i < 3; i++) {
        struct loaded l = load(none[i]);
        cr_expect_null(l.data, "%s", none[i]);
        unload(&l);
    }
    struct loaded l = load(none[2]); /* a key, never a path: nothing is wrong with it */
    cr_expect_eq(l.tensor->storage, SP_STORAGE_EXTERNAL);
    cr_expect_str_eq(l.tensor->external.location, "../../etc/passwd");
    cr_expect(l.tensor->external.offset == 4096 && l.tensor->external.length == 16);
    unload(&l);
    struct sp_buf text; /* one element more than what is loaded */
    sp_buf_init(&text, 1 << 20);
    sp_buf_printf(&text, "7{5{8'w' 2:6 1:%d 5:1*%d}}", SP_MAX_DATA_ELEMENTS + 1, SP_MAX_DATA_ELEMENTS + 1);
    l = load(text.data);
    cr_expect_null(l.data);
    unload(&l);
    sp_buf_release(&text);
}

Test(tensor, refuses_what_does_not_fit_together)
{
    static const struct {
        const char *notation, *code;
    } cases[] = {
        {TENSOR("1:-1 2:1"), "NEGATIVE_DIMENSION"},
        {TENSOR("1:1"), "UNKNOWN_DATA_TYPE"},
        {TENSOR("1:1 2:99"), "UNKNOWN_DATA_TYPE"},
        {TENSOR("1:1 2:1 3{1:0}"), "TENSOR_SEGMENT"},
        {TENSOR("1:2 2:1 9h00000000"), "TENSOR_SIZE_MISMATCH"},
        {TENSOR("1:2 2:1 9h000000000000000000000000"), "TENSOR_SIZE_MISMATCH"},
        {TENSOR("1:3 2:21 9h00"), "TENSOR_SIZE_MISMATCH"},
        {TENSOR("1:2 2:1 4~1"), "TENSOR_SIZE_MISMATCH"},
        {TENSOR("1:1 2:1 4~1 4~1"), "TENSOR_SIZE_MISMATCH"},
        {TENSOR("1:2 2:7 7h010203"), "TENSOR_SIZE_MISMATCH"},
        {TENSOR("1:1 2:14 4~1"), "TENSOR_SIZE_MISMATCH"},
        {TENSOR("1:2 2:21 5:1*3"), "TENSOR_SIZE_MISMATCH"},
        {TENSOR("1:2 2:8 6'a'"), "TENSOR_SIZE_MISMATCH"},
        {TENSOR("1:1 2:1 7:1"), "WRONG_TENSOR_FIELD"},
        {TENSOR("1:1 2:8 9h00"), "WRONG_TENSOR_FIELD"},
        {TENSOR("1:1 2:1 4~1 9h00000000"), "AMBIGUOUS_TENSOR_DATA"},
        {TENSOR("1:1 2:1 4~1 7:1"), "AMBIGUOUS_TENSOR_DATA"},
        {TENSOR("1:1 2:1 14:1 9h00000000 13{1'location' 2'f'}"), "AMBIGUOUS_TENSOR_DATA"},
        {TENSOR("1:1 2:1 14:1"), "BAD_EXTERNAL_DATA"},
        {TENSOR("1:1 2:1 14:1 13{1'location' 2''}"), "BAD_EXTERNAL_DATA"},
        {TENSOR("1:1 2:1 14:1 13{1'location' 2'a'} 13{1'location' 2'b'}"), "BAD_EXTERNAL_DATA"},
        {TENSOR("1:1 2:1 14:1 13{1'location' 2'a'} 13{1'offset' 2'-16'}"), "BAD_EXTERNAL_DATA"},
        {TENSOR("1:1 2:1 14:1 13{1'location' 2'a'} 13{1'offset' 2'9223372036854775807'}"), "BAD_EXTERNAL_DATA"},
        {TENSOR("1:1 2:1 14:1 13{1'location' 2'a'} 13{1'offset' 2'99999999999999999999'}"), "BAD_EXTERNAL_DATA"},
        {TENSOR("1:1 2:1 14:1 13{1'location' 2'a'} 13{1'length' 2'4x'}"), "BAD_EXTERNAL_DATA"},
        {TENSOR("1:1 2:1 14:1 13{1'location' 2'a'} 13{1'length' 2'5'}"), "TENSOR_SIZE_MISMATCH"},
        {"7{15{1{2:1 1:1} 3:4}}", "BAD_SPARSE_TENSOR"},
        {"7{15{1{8's' 2:1 1:1} 2{2:6 1:1} 3:4}}", "BAD_SPARSE_TENSOR"},
        {"7{15{1{8's' 2:1 1:2} 2{2:7 1:1} 3:4}}", "BAD_SPARSE_TENSOR"},
        {"7{15{1{8's' 2:1 1:5} 2{2:7 1:5} 3:4}}", "BAD_SPARSE_TENSOR"},
        {"7{15{1{8's' 2:1 1:1} 2{2:7 1:1} 3:4 3:0}}", "BAD_SPARSE_TENSOR"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        onnx_expect(cases[i].notation, SP_ERR_MODEL, cases[i].code, NULL);
    onnx_expect(TENSOR("1:1099511627776*4 2:1"), SP_ERR_LIMIT, "TENSOR_TOO_LARGE", "SP_MAX_TENSOR_BYTES");
    onnx_expect(TENSOR("1:9223372036854775807 2:7"), SP_ERR_LIMIT, "TENSOR_TOO_LARGE", "SP_MAX_TENSOR_BYTES");
}

Test(tensor, reads_sparse_initializers)
{
    struct sp_buf file = onnx_encode("7{2'g' 15{1{8's' 2:1 1:2 4~1 4~2} 2{2:7 1:2 1:2 7h00000101} 3:4 3:3}}");
    struct onnx_model m;
    cr_assert_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
    const struct sp_value *value = m.model->graph->initializers[0];
    cr_expect(value->tensor == NULL && value->sparse != NULL && value->type.kind == SP_TYPE_SPARSE_TENSOR);
    cr_expect(strcmp(value->name, "s") == 0 && sp_dim_is(value->type.shape.dims[1], 3));
    onnx_release(&m);
    sp_buf_release(&file);
}
