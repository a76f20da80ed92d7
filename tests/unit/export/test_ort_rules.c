/* What ONNX Runtime's Distributed operators take, against its own test suite and the published reading of its kernels.
 */
#include <criterion/criterion.h>

#include <jansson.h>

#include "data_files.h"
#include "export/ort_rules.h"

/* A case as text: extents like "2x3", a mesh as the digits of its devices, specs as ONNX Runtime writes them. */
struct text_case {
    const char *op, *shape, *second_shape, *out_shape, *mesh, *out_mesh, *spec, *second_spec, *out_spec, *axes;
};

/* All of onnxruntime_test_distributed.py (January 2025; world size 2). */
static const struct text_case tested[] = {
    {"Reshape", "2x3", NULL, "6", "01", "01", "S[0]R", NULL, "S[0]", NULL},
    {"Reshape", "2x4", NULL, "8", "01", "0101", "RS[0]", NULL, "S[0]", NULL},
    {"Reshape", "2x3x5", NULL, "2x15", "01", "01", "S[0]RR", NULL, "S[0]R", NULL},
    {"Reshape", "2x4x5", NULL, "2x20", "01", "01", "RS[0]R", NULL, "RS[0]", NULL},
    {"Reshape", "2x3x6", NULL, "2x18", "01", "010101", "RRS[0]", NULL, "RS[0]", NULL},
    {"Reshape", "6", NULL, "2x3", "01", "01", "S[0]", NULL, "S[0]R", NULL},
    {"Reshape", "16", NULL, "1x16", "01", "01", "S[0]", NULL, "RS[0]", NULL},
    {"Reshape", "16", NULL, "2x8", "01", "01", "S[0]", NULL, "S[0]R", NULL},
    {"Reshape", "16", NULL, "4x4", "01", "01", "S[0]", NULL, "S[0]R", NULL},
    {"Reshape", "16", NULL, "8x2", "01", "01", "S[0]", NULL, "S[0]R", NULL},
    {"Reshape", "16", NULL, "16x1", "01", "01", "S[0]", NULL, "S[0]R", NULL},
    {"Reshape", "16", NULL, "1x16", "0101", "0101", "S[0]", NULL, "RS[0]", NULL},
    {"Reshape", "16", NULL, "2x8", "0101", "01", "S[0]", NULL, "RS[0]", NULL},
    {"Reshape", "16", NULL, "4x4", "0101", "0101", "S[0]", NULL, "S[0]R", NULL},
    {"Reshape", "16", NULL, "8x2", "0101", "0101", "S[0]", NULL, "S[0]R", NULL},
    {"Reshape", "16", NULL, "16x1", "0101", "0101", "S[0]", NULL, "S[0]R", NULL},
    {"Reshape", "21x4096", NULL, "3x7x4096", "01", "01", "RS[0]", NULL, "RRS[0]", NULL},
    {"Reshape", "3x7x4096", NULL, "3x7x64x64", "01", "01", "RRS[0]", NULL, "RRS[0]R", NULL},
    {"Reshape", "3x7x4096", NULL, "21x4096", "01", "01", "RRR", NULL, "RR", NULL},
    {"Reshape", "21x4096", NULL, "3x7x4096", "01", "01", "RR", NULL, "RRR", NULL},
    {"Reshape", "3x64x7x64", NULL, "192x7x64", "01", "010101", "RS[0]RR", NULL, "S[0]RR", NULL},
    {"Reshape", "192x7x7", NULL, "3x64x7x7", "010101", "01", "S[0]RR", NULL, "RS[0]RR", NULL},
    {"Reshape", "3x64x7x7", NULL, "192x7x7", "01", "010101", "RS[0]RR", NULL, "S[0]RR", NULL},
    {"Reshape", "192x7x64", NULL, "3x64x7x64", "010101", "01", "S[0]RR", NULL, "RS[0]RR", NULL},
    {"Reshape", "3x7x64x64", NULL, "3x7x4096", "01", "01", "RRS[0]R", NULL, "RRS[0]", NULL},
    {"Reshape", "3x7x4096", NULL, "21x4096", "01", "01", "RRS[0]", NULL, "RS[0]", NULL},
    {"Expand", "8x1", NULL, "8x4", "01", "01", "RR", NULL, "RS[0]", NULL},
    {"Expand", "8x1", NULL, "8x8", "01", "0101", "RR", NULL, "RS[0]", NULL},
    {"Expand", "8x1", NULL, "8x4", "01", "01", "RR", NULL, "RR", NULL},
    {"Expand", "8x1", NULL, "8x4", "01", "01", "S[0]R", NULL, "S[0]R", NULL},
    {"Expand", "2x4x256x4", NULL, "2x4x256x4", "01", "01", "RS[0]RR", NULL, "RS[0]RR", NULL},
    {"Unsqueeze", "8x2", NULL, "8x1x2", "01", "01", "RS[0]", NULL, "RRS[0]", "1"},
    {"Unsqueeze", "8x2", NULL, "1x1x8x2x1", "01", "01", "RS[0]", NULL, "RRRS[0]R", "4,1,0"},
    {"Unsqueeze", "8x2", NULL, "8x2x1", "01", "01", "RR", NULL, "RRR", "2"},
    {"Squeeze", "1x2", NULL, "2", "01", "01", "RS[0]", NULL, "S[0]", "0"},
    {"Squeeze", "8x1x1x1", NULL, "8x1", "01", "01", "RRRR", NULL, "RR", "1,3"},
    {"ReduceSum", "8x4", NULL, "1x4", "01", "01", "RR", NULL, "RR", "0"},
    {"ReduceMax", "8x4", NULL, "1x4", "01", "01", "RR", NULL, "RR", "0"},
    {"ReduceMean", "8x4", NULL, "1x4", "01", "01", "RR", NULL, "RR", "0"},
    {"ReduceSum", "8x4", NULL, "8x1", "01", "01", "S[0]R", NULL, "S[0]R", "1"},
    {"ReduceMax", "8x4", NULL, "8x1", "01", "01", "S[0]R", NULL, "S[0]R", "1"},
    {"ReduceMean", "8x4", NULL, "8x1", "01", "01", "S[0]R", NULL, "S[0]R", "1"},
    {"MatMul", "2x4", "4x2", "2x2", "01", "01", "RS[0]", "S[0]R", "RR", NULL},
    {"MatMul", "2x4", "4x2", "2x2", "01", "01", "RS[0]", "RS[0]", "RR", NULL},
    {"MatMul", "2x4", "4x2", "2x2", "01", "01", "RS[0]", "RS[0]", "RS[0]", NULL},
    {"MatMul", "2x2x4", "4x2", "2x2x2", "01", "01", "S[0]RR", "RR", "S[0]RR", NULL},
    {"MatMul", "2x2x4", "1x2x4x2", "1x2x2x2", "01", "01", "S[0]RR", "RRRR", "RS[0]RR", NULL},
    {"MatMul", "4x2", "2x2", "4x2", "01", "01", "S[0]R", "RS[0]", "RR", NULL},
    {"MatMul", "4x2", "2x4", "4x4", "01", "01", "RR", "RS[0]", "RS[0]", NULL},
    {"MatMul", "4x2", "2x6", "4x6", "01", "01", "RR", "S[0]R", "RR", NULL},
    {"Slice", "2x4", NULL, "2x2", "01", "01", "S[0]R", NULL, "S[0]R", "1"},
    {"Slice", "2x4", NULL, "2x2", "01", "01", "RS[0]", NULL, "RS[0]", "1"},
};

struct made {
    struct sp_arena *arena;
    struct sp_ort_case it;
};

static uint32_t numbers(const char *text, char separator, int64_t *ret_numbers)
{
    uint32_t count = 0;
    while (text != NULL && *text != '\0') {
        char *end;
        ret_numbers[count++] = strtol(text, &end, 10);
        cr_assert(*end == separator || *end == '\0', "%s", text);
        text = *end == '\0' ? end : end + 1;
    }
    return count;
}

static struct sp_ort_tensor tensor(struct made *made, const char *shape, const char *mesh, const char *text)
{
    struct sp_error err = {0};
    struct sp_ort_spec *spec = SP_NEW(made->arena, struct sp_ort_spec);
    int64_t *extents = SP_NEW_ARRAY(made->arena, 16, int64_t), *elements = SP_NEW_ARRAY(made->arena, 32, int64_t);
    cr_assert_eq(sp_ort_read_spec(made->arena, text, strlen(text), spec, &err), SP_OK, "%s: %s", text, err.message);
    cr_assert_eq(numbers(shape, 'x', extents), spec->rank, "%s %s", shape, text);
    spec->element_count = (int64_t)strlen(mesh);
    for (int64_t i = 0; i < spec->element_count; i++)
        elements[i] = mesh[i] - '0';
    spec->mesh_elements = elements;
    spec->mesh_rank = 1;
    spec->mesh_shape = &spec->element_count;
    return (struct sp_ort_tensor){spec, extents};
}

static struct made make(const struct text_case *text)
{
    struct made made = {.arena = sp_arena_create(NULL)};
    int64_t *axes = SP_NEW_ARRAY(made.arena, 16, int64_t);
    made.it = (struct sp_ort_case){.op_type = text->op, .dtype = SP_DTYPE_FLOAT, .world = 2, .keeps_dims = true};
    made.it.inputs[0] = tensor(&made, text->shape, text->mesh, text->spec);
    if (text->second_spec != NULL)
        made.it.inputs[1] = tensor(&made, text->second_shape, text->mesh, text->second_spec);
    made.it.output = tensor(&made, text->out_shape, text->out_mesh, text->out_spec);
    made.it.has_axes = text->axes != NULL;
    made.it.axis_count = numbers(text->axes, ',', axes);
    made.it.axes = axes;
    return made;
}

static void expect(const struct text_case *text, enum sp_ort_verdict verdict)
{
    struct made made = make(text);
    const char *why = NULL;
    const enum sp_ort_verdict found = sp_ort_judge(&made.it, made.arena, &why);
    cr_expect_eq(found, verdict, "%s %s %s -> %s: %d: %s", text->op, text->spec,
                 text->second_spec != NULL ? text->second_spec : "", text->out_spec, (int)found,
                 why != NULL ? why : "");
    cr_expect_eq(why == NULL, found == SP_ORT_ACCEPTED);
    if (why != NULL)
        cr_expect_eq(why[strlen(why) - 1], '.', "%s", why);
    sp_arena_destroy(made.arena);
}

Test(ort_rules, what_its_tests_do_is_accepted)
{
    cr_assert_eq(sizeof tested / sizeof tested[0], 52);
    for (size_t i = 0; i < sizeof tested / sizeof tested[0]; i++)
        expect(&tested[i], SP_ORT_ACCEPTED);
}

/* ---- what is refused, or wrong ----------------------------------------------------------------------------------- */

struct judged {
    struct text_case text;
    enum sp_ort_verdict verdict;
};

#define MATMUL(a, b, y, verdict)                                                                                       \
    {                                                                                                                  \
        {"MatMul", "4x4", "4x4", "4x4", "01", "01", a, b, y, NULL}, verdict                                            \
    }
#define BATCHED(a, b, y, verdict)                                                                                      \
    {                                                                                                                  \
        {"MatMul", "2x4x4", "2x4x4", "2x4x4", "01", "01", a, b, y, NULL}, verdict                                      \
    }

/* The published matrix, and what it follows from the code besides. */
static const struct judged judged[] = {
    MATMUL("RR", "RS[0]", "RR", SP_ORT_REFUSED),
    MATMUL("RR", "RS[0]", "S[0]R", SP_ORT_REFUSED),
    MATMUL("RR", "S[0]R", "RS[0]", SP_ORT_WRONG),
    MATMUL("RS[0]", "RR", "RR", SP_ORT_UNTESTED),
    MATMUL("RS[0]", "RR", "RS[0]", SP_ORT_REFUSED),
    MATMUL("S[0]R", "RR", "S[0]R", SP_ORT_UNTESTED),
    MATMUL("S[0]R", "RR", "RR", SP_ORT_REFUSED),
    MATMUL("RS[0]", "RS[0]", "S[0]R", SP_ORT_REFUSED),
    MATMUL("RS[0]", "S[0]R", "RS[0]", SP_ORT_REFUSED),
    MATMUL("RS[0]", "S[0]R", "S[0]R", SP_ORT_REFUSED),
    MATMUL("S[0]R", "RS[0]", "S[0]R", SP_ORT_REFUSED),
    MATMUL("S[0]R", "RS[0]", "RS[0]", SP_ORT_REFUSED),
    MATMUL("S[0]R", "S[0]R", "RR", SP_ORT_WRONG),
    MATMUL("RR", "RR", "RR", SP_ORT_WRONG),
    MATMUL("S[0]S[1]", "RR", "S[0]R", SP_ORT_REFUSED),
    BATCHED("RRR", "S[0]RR", "S[0]RR", SP_ORT_REFUSED),
    BATCHED("S[0]RR", "RRR", "S[0]RR", SP_ORT_UNTESTED),
    BATCHED("S[0]RR", "RRR", "RRR", SP_ORT_REFUSED),
    BATCHED("S[0]RR", "S[0]RR", "S[0]RR", SP_ORT_REFUSED),
    {{"MatMul", "4", "4x4", "4", "01", "01", "R", "RR", "R", NULL}, SP_ORT_REFUSED},
    /* Gathered or sliced by rank on a mesh in another order; not where nothing is moved. */
    {{"MatMul", "4x4", "4x4", "4x4", "10", "10", "RS[0]", "RS[0]", "RR", NULL}, SP_ORT_WRONG},
    {{"MatMul", "4x4", "4x4", "4x4", "10", "10", "RR", "RS[0]", "RS[0]", NULL}, SP_ORT_ACCEPTED},
    /* A result on another mesh; a part of the ranks; uneven pieces; an element type without a kernel is below. */
    {{"MatMul", "4x4", "4x4", "4x4", "01", "10", "RR", "RS[0]", "RS[0]", NULL}, SP_ORT_WRONG},
    {{"MatMul", "4x4", "4x4", "4x4", "0", "0", "RR", "RS[0]", "RS[0]", NULL}, SP_ORT_WRONG},
    {{"MatMul", "4x4", "4x5", "4x5", "01", "01", "RR", "RS[0]", "RS[0]", NULL}, SP_ORT_REFUSED},

    {{"Slice", "4x4", NULL, "4x2", "01", "01", "RR", NULL, "RR", "1"}, SP_ORT_REFUSED},
    {{"Slice", "4x4", "2", "4x2", "01", "01", "S[0]R", "S[0]", "S[0]R", "1"}, SP_ORT_REFUSED},
    {{"Slice", "4x4", NULL, "4x2", "01", "01", "S[0]R", NULL, "RS[0]", "1"}, SP_ORT_UNTESTED},
    {{"Slice", "4x4", NULL, "4x2", "01", "01", "S[0]R", NULL, "RR", "1"}, SP_ORT_REFUSED},
    {{"Slice", "4x4", NULL, "4x2", "01", "01", "RS[0]", NULL, "RR", "1"}, SP_ORT_UNTESTED},
    {{"Slice", "4x4", NULL, "4x2", "01", "01", "S[0]R", NULL, "S[0]R", NULL}, SP_ORT_REFUSED},
    {{"Slice", "4x4", NULL, "4x2", "01", "01", "RS[0]", NULL, "RS[0]", "-1"}, SP_ORT_WRONG},

    {{"Reshape", "2x4", "2", "8", "01", "01", "S[0]R", "S[0]", "S[0]", NULL}, SP_ORT_REFUSED},
    {{"Reshape", "2x4", NULL, "8", "01", "01", "RR", NULL, "S[0]", NULL}, SP_ORT_REFUSED},
    {{"Reshape", "2x2x2", NULL, "8", "01", "01", "S[0]RR", NULL, "S[0]", NULL}, SP_ORT_REFUSED},
    {{"Reshape", "2x4", NULL, "2x4", "01", "01", "S[0]R", NULL, "RS[0]", NULL}, SP_ORT_REFUSED},
    {{"Reshape", "2x4", NULL, "8", "01", "10", "S[0]R", NULL, "S[0]", NULL}, SP_ORT_REFUSED},
    {{"Reshape", "12", NULL, "4x3", "01", "01", "S[0]", NULL, "S[0]R", NULL}, SP_ORT_ACCEPTED},
    {{"Reshape", "12", NULL, "3x4", "01", "01", "S[0]", NULL, "S[0]R", NULL}, SP_ORT_REFUSED},
    {{"Reshape", "12", NULL, "6x2", "011010", "011010", "S[0]", NULL, "S[0]R", NULL}, SP_ORT_REFUSED},
    {{"Reshape", "16", NULL, "1x16", "01", "01", "S[0]", NULL, "S[0]R", NULL}, SP_ORT_REFUSED},
    /* Repeated twice as often as the inner axis needs: the mesh that comes out contradicts itself. */
    {{"Reshape", "32", NULL, "2x16", "01010101", "01", "S[0]", NULL, "RS[0]", NULL}, SP_ORT_WRONG},

    {{"Expand", "8x1", "2", "8x4", "01", "01", "RR", "S[0]", "RS[0]", NULL}, SP_ORT_REFUSED},
    {{"Expand", "8x1", NULL, "8x4", "01", "01", "S[0]R", NULL, "RS[0]", NULL}, SP_ORT_WRONG},
    {{"Expand", "8x1", NULL, "8x4", "01", "01", "S[0]R", NULL, "RR", NULL}, SP_ORT_WRONG},
    {{"Expand", "8x4", NULL, "8x4", "01", "01", "RR", NULL, "RS[0]", NULL}, SP_ORT_WRONG},

    {{"ReduceSum", "8x4", NULL, "1x4", "01", "01", "S[0]R", NULL, "RR", "0"}, SP_ORT_REFUSED},
    {{"ReduceSum", "8x4", NULL, "8x1", "01", "01", "S[0]R", NULL, "RR", "1"}, SP_ORT_REFUSED},
    {{"ReduceSum", "8x4", NULL, "8x4", "01", "01", "RS[0]", NULL, "RS[0]", "-1"}, SP_ORT_WRONG},
    {{"ReduceSum", "8x4", NULL, "8x4", "01", "01", "RS[0]", NULL, "RS[0]", NULL}, SP_ORT_WRONG},

    {{"Squeeze", "1x2", NULL, "2", "01", "01", "RS[0]", NULL, "R", "0"}, SP_ORT_REFUSED},
    {{"Squeeze", "4x2", NULL, "2", "01", "01", "S[0]R", NULL, "R", "0"}, SP_ORT_REFUSED},
    {{"Squeeze", "1x2", NULL, "2", "01", "01", "RS[0]", NULL, "S[0]", "-2"}, SP_ORT_ACCEPTED},
    {{"Unsqueeze", "8x2", NULL, "8x1x2", "01", "01", "RS[0]", NULL, "RS[0]R", "1"}, SP_ORT_REFUSED},
    {{"Unsqueeze", "8x2", NULL, "8x1x2x1", "01", "01", "RS[0]", NULL, "RRS[0]R", "-1,1"}, SP_ORT_WRONG},

    {{"Relu", "8x2", NULL, "8x2", "01", "01", "RS[0]", NULL, "RS[0]", NULL}, SP_ORT_REFUSED},
};

Test(ort_rules, what_is_refused_or_wrong_is_known)
{
    for (size_t i = 0; i < sizeof judged / sizeof judged[0]; i++)
        expect(&judged[i].text, judged[i].verdict);
}

Test(ort_rules, keepdims_and_element_types)
{
    const char *why;
    struct made made = make(&(struct text_case){"ReduceSum", "8x4", NULL, "8", "01", "01", "S[0]R", NULL, "S[0]", "1"});
    made.it.keeps_dims = false;
    cr_expect_eq(sp_ort_judge(&made.it, made.arena, &why), SP_ORT_REFUSED);
    sp_arena_destroy(made.arena);

    static const struct {
        const char *op;
        enum sp_dtype dtype;
        enum sp_ort_verdict verdict;
    } types[] = {{"MatMul", SP_DTYPE_FLOAT16, SP_ORT_ACCEPTED},
                 {"MatMul", SP_DTYPE_BFLOAT16, SP_ORT_REFUSED},
                 {"MatMul", SP_DTYPE_DOUBLE, SP_ORT_REFUSED}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        made = make(&(struct text_case){types[i].op, "4x4", "4x4", "4x4", "01", "01", "RR", "RS[0]", "RS[0]", NULL});
        made.it.dtype = types[i].dtype;
        cr_expect_eq(sp_ort_judge(&made.it, made.arena, &why), types[i].verdict);
        sp_arena_destroy(made.arena);
    }
    made = make(&(struct text_case){"Reshape", "2x4", NULL, "8", "01", "01", "S[0]R", NULL, "S[0]", NULL});
    made.it.dtype = SP_DTYPE_INT64;
    cr_expect_eq(sp_ort_judge(&made.it, made.arena, &why), SP_ORT_ACCEPTED);
    sp_arena_destroy(made.arena);
}

/* ---- the published refusals -------------------------------------------------------------------------------------- */

static enum sp_ort_verdict verdict_called(const char *name)
{
    if (strcmp(name, "refused") == 0)
        return SP_ORT_REFUSED;
    return strcmp(name, "accepted_untested") == 0 ? SP_ORT_UNTESTED : SP_ORT_WRONG;
}

/* Every MatMul case of the data, on square matrices: their verdicts depend on specs alone. */
Test(ort_rules, the_published_cases_of_matmul)
{
    char path[512];
    size_t size, count = 0;
    (void)snprintf(path, sizeof path, "%s/ort_distributed_cases.json", data_folder());
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL)
        cr_skip_test("no test data");
    json_t *data = json_loadb((const char *)bytes, size, 0, NULL), *item;
    size_t index;
    json_array_foreach(json_object_get(data, "refusals_and_untested"), index, item)
    {
        const json_t *in = json_object_get(item, "input_specs"), *out = json_object_get(item, "output_specs");
        const char *a = json_string_value(json_array_get(in, 0)), *b = json_string_value(json_array_get(in, 1));
        const char *y = json_string_value(json_array_get(out, 0));
        static const char *const shapes[] = {"", "4", "4x4", "4x4x4"};
        size_t ranks[3] = {0};
        const char *texts[3] = {a, b, y};
        if (strcmp(json_string_value(json_object_get(item, "op")), "DistributedMatMul") != 0)
            continue;
        for (int i = 0; i < 3; i++) {
            for (const char *c = texts[i]; *c != '\0'; c++)
                ranks[i] += *c == 'R' || *c == 'S';
        }
        const struct text_case text = {
            "MatMul", shapes[ranks[0]], shapes[ranks[1]], shapes[ranks[2]], "01", "01", a, b, y, NULL};
        expect(&text, verdict_called(json_string_value(json_object_get(item, "ort_result"))));
        count++;
    }
    cr_expect_eq(count, 20);
    json_decref(data);
    free(bytes);
}
