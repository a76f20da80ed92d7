/*
 * Weights: a box of a tensor in every storage, written and read back, against the elements of the whole. The notation
 * of files is that of onnx_files.h.
 */
#include "realize/weights.h"

#include <string.h>

#include "onnx.pb-c.h"
#include "realize_files.h"

/* A model whose one initializer is the tensor `fields`. */
#define TENSOR(fields) "1:8 8{2:25} 7{2'g' 5{8'w' 12'kept' " fields "}}"

struct subject {
    struct sp_buf file;
    struct onnx_model m;
    struct sp_tensor *tensor;
    struct realize_world world;
    struct sp_realize_request request;
    struct sp_weights weights;
    bool shares;
};

static const unsigned char other[] = "................0123456789abcdefghijklmnopqrstuvwxyz";

static void open_subject(struct subject *subject, const char *notation)
{
    memset(subject, 0, sizeof *subject);
    subject->file = onnx_encode(notation);
    cr_assert_eq(onnx_read(&subject->m, subject->file.data, subject->file.size), SP_OK, "%s: %s", notation,
                 subject->m.err.message);
    subject->tensor = subject->m.model->graph->initializers[0]->tensor;
    subject->world = (struct realize_world){subject->file.data, subject->file.size, other, sizeof other};
    subject->request.partition.model = subject->m.model;
}

static void close_subject(struct subject *subject)
{
    sp_weights_release(&subject->weights);
    onnx_release(&subject->m);
    sp_buf_release(&subject->file);
}

/* The written tensor as the initializer of a model; false where it cannot be done. */
static bool write_box(struct subject *subject, const struct sp_axis_ranges *axes, struct subject *ret_written)
{
    struct sp_error err = {0};
    struct sp_recipe *recipe = sp_recipe_create();
    bool done;
    cr_assert_eq(sp_weights_init(&subject->weights, &subject->request, &err), SP_OK);
    subject->weights.shares = subject->shares;
    cr_assert_eq(sp_weight_put(&subject->weights, recipe, "piece", subject->tensor, axes, &done, &err), SP_OK, "%s",
                 err.message);
    if (done) {
        struct sp_buf tensor = realize_bytes(recipe, &subject->world), head = onnx_encode("1:8 8{2:25}");
        struct sp_buf graph = onnx_encode("2'g'");
        unsigned char prefix[3] = {5 << 3 | 2, (unsigned char)(tensor.size | 0x80), (unsigned char)(tensor.size >> 7)};
        cr_assert_lt(tensor.size, (size_t)1 << 14);
        sp_buf_append(&graph, prefix, 3);
        sp_buf_append(&graph, tensor.data, tensor.size);
        unsigned char outer[3] = {7 << 3 | 2, (unsigned char)(graph.size | 0x80), (unsigned char)(graph.size >> 7)};
        sp_buf_append(&head, outer, 3);
        sp_buf_append(&head, graph.data, graph.size);
        memset(ret_written, 0, sizeof *ret_written);
        ret_written->file = head;
        cr_assert_eq(onnx_read(&ret_written->m, head.data, head.size), SP_OK, "%s", ret_written->m.err.message);
        ret_written->tensor = ret_written->m.model->graph->initializers[0]->tensor;
        cr_expect_str_eq(ret_written->tensor->name, "piece");
        cr_expect_eq(ret_written->tensor->dtype, subject->tensor->dtype);
        sp_buf_release(&tensor);
        sp_buf_release(&graph);
    } else {
        cr_expect_eq(sp_recipe_size(recipe), 0);
    }
    sp_recipe_destroy(recipe);
    return done;
}

static double element(const struct sp_data *data, uint32_t i)
{
    return data->reals != NULL ? data->reals[i] : (double)data->ints[i].value;
}

static struct sp_data *elements_of(struct subject *subject)
{
    struct sp_data *data;
    struct sp_error err = {0};
    cr_assert_eq(sp_onnx_tensor_data(subject->m.model, subject->m.arena, subject->tensor, &data, &err), SP_OK);
    cr_assert_not_null(data);
    return data;
}

/* Rows 1.. and columns of `columns` of a matrix; expects the same elements in the same order. */
static void expect_box(const char *notation, const struct sp_axis_ranges *columns)
{
    struct subject subject, written;
    open_subject(&subject, notation);
    const int64_t *dims = subject.tensor->dims;
    struct sp_range rows = {1, dims[0]};
    const struct sp_axis_ranges axes[] = {{1, &rows}, *columns};
    cr_assert(write_box(&subject, axes, &written), "%s", notation);
    struct sp_data *all = elements_of(&subject), *part = elements_of(&written);
    uint32_t next = 0;
    for (int64_t row = 1; row < dims[0]; row++) {
        for (uint32_t k = 0; k < columns->count; k++) {
            for (int64_t column = columns->ranges[k].start; column < columns->ranges[k].limit; column++, next++)
                cr_assert(next < part->count && element(part, next) == element(all, (uint32_t)(row * dims[1] + column)),
                          "%s: element %u is %g", notation, next, element(part, next));
        }
    }
    cr_expect(part->count == next && written.tensor->rank == 2 && written.tensor->dims[0] == dims[0] - 1 &&
              written.tensor->dims[1] * (dims[0] - 1) == next);
    cr_expect(written.tensor->storage == SP_STORAGE_RAW);
    close_subject(&written);
    close_subject(&subject);
}

/* [3, 4] in each form: columns 1 and 2, columns 0 and 3, the odd column that cuts bytes in two. */
static const char *const matrices[] = {
    TENSOR("1:3 1:4 2:3 9h000102030405060708090a0b"),                           /* int8, raw */
    TENSOR("1:3 1:4 2:5 9h000100020003000400050006000700080009000a000b000c"),   /* int16, raw */
    TENSOR("1:3 1:4 2:1 4~1.5 4~2 4~3 4~4 4~5 4~6 4~7 4~8 4~9 4~10 4~11 4~12"), /* float32, one by one */
    TENSOR("1:3 1:4 2:1 4h0000803f000000400000404000008040"                     /* packed, in two chunks */
           " 4h0000803f0000004000004040000080400000803f000000400000404000008040"),
    TENSOR("1:3 1:4 2:1 "
           "4h0000803f0000004000004040000080400000a0400000c0400000e0400000004100001041000020410000304100004041"),
    TENSOR("1:3 1:4 2:7 7h0102037f808001ffffffffffffffffff01040506070809"),             /* int64, packed varints */
    TENSOR("1:3 1:4 2:3 5:1 5:-2 5:3 5:-4 5:5 5:-6 5:7 5:-8 5:9 5:-10 5:11 5:-12"),     /* int8 as int32 items */
    TENSOR("1:3 1:4 2:10 5:15360 5:16384 5:0 5:1 5:2 5:3 5:4 5:5 5:6 5:7 5:8 5:49152"), /* float16 as int32 items */
    TENSOR("1:3 1:4 2:9 5:1 5:0 5:1 5:1 5:0 5:0 5:0 5:1 5:1 5:0 5:0 5:1"),              /* bool */
    TENSOR("1:3 1:4 2:12 11:4000000000 11:1 11:2 11:3 11:4 11:5 11:6 11:7 11:8 11:9 11:10 11:11"), /* uint32 */
    TENSOR("1:3 1:4 2:22 9h1032547698ba"),                                                         /* int4, raw */
    TENSOR("1:3 1:4 2:21 5:50462976 5:117835012"),                             /* uint4, 8 in an item */
    TENSOR("1:3 1:4 2:21 5:16 5:50 5:84 5:118 5:152 5:186"),                   /* uint4, 2 in an item */
    TENSOR("1:3 1:4 2:26 9h1be41b"),                                           /* int2, raw */
    TENSOR("1:3 1:4 2:27 9h0110831451876122cb"),                               /* 6-bit floats, raw */
    TENSOR("1:3 1:4 2:28 5:1 5:16 5:131 5:20 5:81 5:135 5:97 5:34 5:203"),     /* a byte in an item */
    TENSOR("1:3 1:4 2:28 5:1 5:2 5:3 5:4 5:5 5:6 5:7 5:8 5:9 5:10 5:11 5:63"), /* an element in an item */
    TENSOR(
        "1:3 1:4 2:11 10h000000000000f03f0000000000000040000000000000084000000000000010400000000000001440000000000000"
        "18400000000000001c40000000000000204000000000000022400000000000002440000000000000264000000000000028"
        "40"), /* double, packed */
};

Test(weights, cuts_every_storage)
{
    struct sp_range middle = {1, 3}, sides[] = {{0, 1}, {3, 4}}, last = {3, 4}, all = {0, 4};
    const struct sp_axis_ranges columns[] = {{1, &middle}, {2, sides}, {1, &last}, {1, &all}};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
            expect_box(matrices[i], &columns[k]);
    }
}

/* All of it: the file's own bytes, but for the name. */
Test(weights, keeps_whole_tensors_as_they_are)
{
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        struct subject subject;
        open_subject(&subject, matrices[i]);
        struct sp_recipe *recipe = sp_recipe_create();
        bool done;
        cr_assert_eq(sp_weights_init(&subject.weights, &subject.request, NULL), SP_OK);
        cr_assert_eq(sp_weight_put(&subject.weights, recipe, "v", subject.tensor, NULL, &done, NULL), SP_OK);
        struct sp_buf written = realize_bytes(recipe, &subject.world);
        /* The name is the first field of the original, and of what is written; both have one letter. */
        cr_expect(done && written.size == subject.tensor->span.size && memcmp(written.data, "\x42\x01v", 3) == 0 &&
                  memcmp(written.data + 3, subject.file.data + subject.tensor->span.offset + 3, written.size - 3) == 0);
        sp_buf_release(&written);
        sp_recipe_destroy(recipe);
        close_subject(&subject);
    }
}

#define WORDS TENSOR("1:2 1:3 2:8 6'one' 6'two' 6'three' 6'four' 6'' 6'six'")

Test(weights, cuts_strings)
{
    struct subject subject, written;
    open_subject(&subject, WORDS);
    struct sp_range rows = {0, 2}, columns[] = {{0, 1}, {2, 3}};
    const struct sp_axis_ranges axes[] = {{1, &rows}, {2, columns}};
    static const char *const expected[] = {"one", "three", "four", "six"};
    cr_assert(write_box(&subject, axes, &written));
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(
        NULL, written.tensor->span.size, (const uint8_t *)written.file.data + written.tensor->span.offset);
    cr_assert(proto != NULL && proto->n_string_data == 4 && proto->n_dims == 2 && proto->dims[1] == 2);
    for (size_t i = 0; i < 4; i++)
        cr_expect(proto->string_data[i].len == strlen(expected[i]) &&
                  memcmp(proto->string_data[i].data, expected[i], proto->string_data[i].len) == 0);
    onnx__tensor_proto__free_unpacked(proto, NULL);
    close_subject(&written);
    close_subject(&subject);
}

#define OUTSIDE TENSOR("1:3 1:4 2:3 13{1'location' 2'w.bin'} 13{1'offset' 2'16'} 13{1'length' 2'12'} 14:1")

Test(weights, reads_external_data_into_the_file)
{
    struct subject subject, written;
    open_subject(&subject, OUTSIDE);
    struct sp_range rows = {0, 3}, columns = {1, 3};
    const struct sp_axis_ranges axes[] = {{1, &rows}, {1, &columns}};
    cr_assert(write_box(&subject, axes, &written));
    cr_expect(written.tensor->storage == SP_STORAGE_RAW && written.tensor->raw.size == 6 &&
              memcmp(written.file.data + written.tensor->raw.offset, "12569a", 6) == 0);
    close_subject(&written);
    sp_weights_release(&subject.weights);
    cr_assert(write_box(&subject, NULL, &written));
    cr_expect(written.tensor->storage == SP_STORAGE_RAW && written.tensor->raw.size == 12 &&
              memcmp(written.file.data + written.tensor->raw.offset, "0123456789ab", 12) == 0);
    close_subject(&written);
    close_subject(&subject);
}

Test(weights, refers_to_external_data)
{
    struct subject subject, written;
    open_subject(&subject, OUTSIDE);
    subject.request.external = SP_EXTERNAL_REFER;
    struct sp_range rows = {1, 3}, all = {0, 4}, few = {1, 3};
    const struct sp_axis_ranges run[] = {{1, &rows}, {1, &all}}, box[] = {{1, &rows}, {1, &few}};
    cr_assert(write_box(&subject, run, &written));
    cr_expect(written.tensor->storage == SP_STORAGE_EXTERNAL && written.tensor->external.offset == 20 &&
              written.tensor->external.length == 8 && strcmp(written.tensor->external.location, "w.bin") == 0);
    close_subject(&written);
    sp_weights_release(&subject.weights);
    cr_assert(write_box(&subject, NULL, &written));
    cr_expect(written.tensor->storage == SP_STORAGE_EXTERNAL && written.tensor->external.offset == 16);
    close_subject(&written);
    sp_weights_release(&subject.weights);
    cr_expect_not(write_box(&subject, box, &written), "two runs cannot be one reference");
    close_subject(&subject);
}

/* 64 rows of 32 bytes are more than is kept in the model; half of their columns are not. */
Test(weights, puts_large_ones_in_a_file_of_their_own)
{
    struct subject subject, written;
    struct sp_recipe *data = sp_recipe_create();
    open_subject(&subject, TENSOR("1:64 1:32 2:3 5:1 5:2 5:3*2046"));
    subject.request.data = data;
    subject.request.data_name = "model.data";
    struct sp_range rows = {0, 64}, half = {0, 16};
    const struct sp_axis_ranges axes[] = {{1, &rows}, {1, &half}};
    cr_assert(sp_recipe_add(data, "x", 1)); /* somebody's */
    cr_assert(write_box(&subject, axes, &written));
    cr_expect(written.tensor->storage == SP_STORAGE_RAW, "1024 bytes stay");
    close_subject(&written);
    sp_weights_release(&subject.weights);
    cr_assert(write_box(&subject, NULL, &written));
    cr_expect(written.tensor->storage == SP_STORAGE_EXTERNAL && written.tensor->external.offset == 64 &&
              written.tensor->external.length == 2048);
    cr_expect_str_eq(written.tensor->external.location, "model.data");
    struct sp_buf bytes = realize_bytes(data, &subject.world);
    cr_expect(bytes.size == 64 + 2048 && memcmp(bytes.data + 64, "\1\2\3\3", 4) == 0 && bytes.data[63] == 0);
    sp_buf_release(&bytes);
    sp_recipe_destroy(data);
    close_subject(&written);
    close_subject(&subject);
}

/* A file that shares refers to the box that another file's data holds; any other box of the tensor is its own. */
Test(weights, refers_to_boxes_that_other_files_hold)
{
    struct subject subject, written;
    struct sp_recipe *data = sp_recipe_create(), *own = sp_recipe_create();
    open_subject(&subject, TENSOR("1:64 1:64 2:3 5:1 5:2 5:3*4094"));
    subject.request.places = sp_weight_places_create(subject.m.arena);
    struct sp_range first = {0, 32}, second = {32, 64}, columns = {0, 64};
    const struct sp_axis_ranges upper[] = {{1, &first}, {1, &columns}}, lower[] = {{1, &second}, {1, &columns}};
    subject.request.data = data;
    subject.request.data_name = "device-0.onnx.data";
    cr_assert(write_box(&subject, upper, &written));
    close_subject(&written);
    sp_weights_release(&subject.weights);
    cr_assert(sp_recipe_size(data) == 2048);

    subject.request.data = own;
    subject.request.data_name = "simulation.onnx.data";
    subject.shares = true;
    cr_assert(write_box(&subject, upper, &written));
    cr_expect_str_eq(written.tensor->external.location, "device-0.onnx.data");
    cr_expect(written.tensor->external.offset == 0 && written.tensor->external.length == 2048);
    cr_expect(sp_recipe_size(own) == 0);
    close_subject(&written);
    sp_weights_release(&subject.weights);
    cr_assert(write_box(&subject, lower, &written));
    cr_expect_str_eq(written.tensor->external.location, "simulation.onnx.data");
    close_subject(&written);
    sp_weights_release(&subject.weights);
    cr_assert(write_box(&subject, NULL, &written));
    cr_expect_str_eq(written.tensor->external.location, "simulation.onnx.data");
    cr_expect(written.tensor->external.offset == 2048 && sp_recipe_size(own) == 2048 + 4096);
    sp_recipe_destroy(own);
    sp_recipe_destroy(data);
    close_subject(&written);
    close_subject(&subject);
}

/* Weights that were taken out of the file are not there in the result either. */
Test(weights, writes_what_has_no_data)
{
    struct subject subject, written;
    struct sp_range rows = {1, 3}, all = {0, 4};
    const struct sp_axis_ranges axes[] = {{1, &rows}, {1, &all}}, none[] = {{1, &rows}, {0, NULL}};
    open_subject(&subject, TENSOR("1:3 1:4 2:1"));
    cr_assert(write_box(&subject, axes, &written));
    cr_expect(written.tensor->storage == SP_STORAGE_NONE && written.tensor->dims[0] == 2);
    close_subject(&written);
    close_subject(&subject);
    open_subject(&subject, matrices[0]);
    cr_assert(write_box(&subject, none, &written));
    cr_expect(written.tensor->elements == 0 && written.tensor->dims[0] == 2 && written.tensor->dims[1] == 0);
    close_subject(&written);
    close_subject(&subject);
}
