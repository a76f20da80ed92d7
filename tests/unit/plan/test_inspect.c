#include <criterion/criterion.h>

#include "onnx_bytes.h"
#include "plan/job.h"

struct inspected {
    struct sp_buf file;
    struct sp_job *job;
    struct sp_error err;
    json_t *json;
};

static void open_and_inspect(struct inspected *i, const struct onnx_mlp *model, uint32_t dim_count,
                             const char *const *names, const int64_t *values)
{
    struct sp_buf text;
    struct sp_json json;
    memset(i, 0, sizeof *i);
    onnx_mlp(&i->file, model);
    const struct sp_sizes sizes = {.dim_count = dim_count, .dim_names = names, .dim_values = values};
    const struct sp_job_options options = {
        .bytes = i->file.data, .size = i->file.size, .name = "mlp.onnx", .sizes = &sizes};
    enum sp_status status = sp_job_open(&options, &i->job, &i->err);
    if (status != SP_OK)
        return;
    sp_buf_init(&text, (size_t)1 << 24);
    sp_json_init_buf(&json, true, &text);
    cr_assert_eq(sp_job_inspect_json(i->job, true, &json, &i->err), SP_OK, "%s", i->err.message);
    cr_assert_eq(sp_json_finish(&json, &i->err), SP_OK);
    json_error_t where;
    i->json = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &where);
    cr_assert_not_null(i->json, "%s", where.text);
    sp_buf_release(&text);
}

static void release(struct inspected *i)
{
    json_decref(i->json);
    sp_job_destroy(i->job);
    sp_buf_release(&i->file);
}

static json_int_t integer(const struct inspected *i, const char *name)
{
    json_t *value = json_object_get(i->json, name);
    cr_assert(json_is_integer(value), "%s is no integer", name);
    return json_integer_value(value);
}

Test(inspect, counts_are_those_of_the_model)
{
    struct inspected i;
    open_and_inspect(&i, &(struct onnx_mlp){.layers = 3, .width = 64, .batch = "2"}, 0, NULL, NULL);
    cr_assert_str_eq(json_string_value(json_object_get(i.json, "name")), "mlp.onnx");
    cr_assert_eq(integer(&i, "ir_version"), 8);
    cr_assert_eq(integer(&i, "node_count"), 6);
    cr_assert_eq(integer(&i, "parameters"), 3 * 64 * 64);
    cr_assert_eq(json_number_value(json_object_get(i.json, "parameter_bytes")), 3 * 64 * 64 * 4);
    const json_t *operators = json_object_get(i.json, "operators");
    cr_assert_eq(json_integer_value(json_object_get(operators, "MatMul")), 3);
    cr_assert_eq(json_integer_value(json_object_get(operators, "Relu")), 3);
    cr_assert_eq(json_integer_value(json_object_get(json_object_get(i.json, "opsets"), "ai.onnx")), 16);
    /* A multiply-add is 2, a Relu 1 for each element. */
    cr_assert_eq(json_number_value(json_object_get(i.json, "flops")), 3 * (2.0 * 2 * 64 * 64 + 2 * 64));
    const json_t *external = json_object_get(i.json, "external_data");
    cr_assert_eq(json_integer_value(json_object_get(external, "files")), 1);
    cr_assert_eq(json_number_value(json_object_get(external, "bytes")), 3 * 64 * 64 * 4);
    release(&i);
}

Test(inspect, symbols_stay_and_leave_the_flops_open)
{
    struct inspected i;
    open_and_inspect(&i, &(struct onnx_mlp){.layers = 1, .width = 16, .batch = "n"}, 0, NULL, NULL);
    cr_assert(json_is_null(json_object_get(i.json, "flops")));
    cr_assert_eq(json_array_size(json_object_get(i.json, "symbols")), 1);
    const json_t *values = json_object_get(i.json, "values");
    const json_t *shape = json_object_get(json_object_get(values, "h0"), "shape");
    cr_assert_str_eq(json_string_value(json_object_get(json_object_get(values, "h0"), "dtype")), "float32");
    cr_assert_str_eq(json_string_value(json_array_get(shape, 0)), "n");
    cr_assert_eq(json_integer_value(json_array_get(shape, 1)), 16);
    cr_assert_eq(json_object_size(values), 4); /* x, w0, h0, y */
    release(&i);
}

Test(inspect, a_bound_symbol_is_a_number)
{
    struct inspected i;
    open_and_inspect(&i, &(struct onnx_mlp){.layers = 1, .width = 16, .batch = "n"}, 1, (const char *[]){"n"},
                     (int64_t[]){5});
    const json_t *values = json_object_get(i.json, "values");
    const json_t *shape = json_object_get(json_object_get(values, "y"), "shape");
    cr_assert_eq(json_integer_value(json_array_get(shape, 0)), 5);
    cr_assert_eq(json_number_value(json_object_get(i.json, "flops")), 2.0 * 5 * 16 * 16 + 5 * 16);
    cr_assert_eq(json_array_size(json_object_get(i.json, "symbols")), 0);
    release(&i);
}

Test(inspect, a_name_that_the_model_does_not_have_is_refused)
{
    struct inspected i;
    open_and_inspect(&i, &(struct onnx_mlp){.layers = 1, .width = 16, .batch = "n"}, 1, (const char *[]){"batch"},
                     (int64_t[]){5});
    cr_assert_null(i.job);
    cr_assert_eq(i.err.status, SP_ERR_REQUEST);
    cr_assert_str_eq(i.err.code, "UNKNOWN_DIMENSION");
    cr_assert_not_null(strstr(i.err.message, ": n."), "%s", i.err.message);
    release(&i);
}

Test(inspect, a_name_given_twice_is_refused)
{
    struct inspected i;
    open_and_inspect(&i, &(struct onnx_mlp){.layers = 1, .width = 16, .batch = "n"}, 2, (const char *[]){"n", "n"},
                     (int64_t[]){5, 6});
    cr_assert_str_eq(i.err.code, "DIMENSION_TWICE");
    release(&i);
}

Test(inspect, text_says_the_same)
{
    struct inspected i;
    struct sp_buf text;
    open_and_inspect(&i, &(struct onnx_mlp){.layers = 2, .width = 64, .batch = "2"}, 0, NULL, NULL);
    sp_buf_init(&text, (size_t)1 << 20);
    cr_assert_eq(sp_job_inspect_text(i.job, false, &text, &i.err), SP_OK);
    cr_assert_not_null(strstr(text.data, "mlp.onnx"), "%s", text.data);
    cr_assert_not_null(strstr(text.data, "8,192 (32.8 kB)"), "%s", text.data);
    cr_assert_not_null(strstr(text.data, "x  float32 [2, 64]"), "%s", text.data);
    cr_assert_null(strstr(text.data, "h0"), "%s", text.data);
    sp_buf_clear(&text);
    cr_assert_eq(sp_job_inspect_text(i.job, true, &text, &i.err), SP_OK);
    cr_assert_not_null(strstr(text.data, "h0  float32 [2, 64]"), "%s", text.data);
    sp_buf_release(&text);
    release(&i);
}

Test(inspect, a_small_budget_is_an_error)
{
    struct sp_buf file;
    struct sp_job *job = NULL;
    struct sp_error err = {0};
    onnx_mlp(&file, &(struct onnx_mlp){.layers = 200, .width = 16, .batch = "1"});
    const struct sp_job_options options = {.bytes = file.data, .size = file.size, .memory_budget = 64 << 10};
    cr_assert_eq(sp_job_open(&options, &job, &err), SP_ERR_MEMORY);
    cr_assert_null(job);
    sp_buf_release(&file);
}
