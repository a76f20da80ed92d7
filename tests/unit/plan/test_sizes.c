/* What a caller says of sizes: dimensions, values of inputs, shapes of tensors. Expected figures are computed by hand from
   what the operators' specifications say. */
#include <criterion/criterion.h>

#include "plan/job.h"

struct opened {
    struct sp_arena *arena;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error err;
    enum sp_status status;
    json_t *json, *inspection;
};

static void read_sizes(struct opened *o, const char *sizes, struct sp_plan_options *options)
{
    memset(o, 0, sizeof *o);
    o->arena = sp_arena_create(NULL);
    o->json = json_loads(sizes, 0, NULL);
    cr_assert_not_null(o->json, "%s", sizes);
    o->status = sp_plan_options_parse(o->arena, NULL, o->json, options, &o->err);
}

/* Inspects a description; the inspection has every value. */
static void inspect(struct opened *o, const char *model, const char *sizes)
{
    struct sp_plan_options options;
    struct sp_buf text;
    struct sp_json json;
    read_sizes(o, sizes, &options);
    const struct sp_job_options job = {.bytes = model, .size = strlen(model), .name = "m", .sizes = &options.sizes};
    if (o->status == SP_OK)
        o->status = sp_job_open(&job, &o->job, &o->err);
    if (o->status != SP_OK)
        return;
    sp_buf_init(&text, (size_t)1 << 24);
    sp_json_init_buf(&json, false, &text);
    cr_assert_eq(sp_job_inspect_json(o->job, true, &json, &o->err), SP_OK, "%s", o->err.message);
    cr_assert_eq(sp_json_finish(&json, &o->err), SP_OK);
    o->inspection = json_loadb(text.data, text.size, 0, NULL);
    sp_buf_release(&text);
}

static void plan(struct opened *o, const char *model, const char *sizes)
{
    struct sp_plan_options options;
    struct sp_cluster *cluster;
    read_sizes(o, sizes, &options);
    const struct sp_job_options job = {.bytes = model, .size = strlen(model), .name = "m"};
    if (o->status == SP_OK)
        o->status = sp_cluster_uniform(o->arena, "l4-24gb", 2, &cluster, &o->err);
    if (o->status == SP_OK)
        o->status = sp_job_plan(&job, cluster, &options, &o->job, &o->plan, &o->err);
}

static void release(struct opened *o)
{
    json_decref(o->inspection);
    json_decref(o->json);
    sp_job_destroy(o->job);
    sp_arena_destroy(o->arena);
}

/* The shape of a value as JSON, like [2,"n"]. */
static void expect_shape(const struct opened *o, const char *tensor, const char *shape)
{
    const json_t *value = json_object_get(json_object_get(o->inspection, "values"), tensor);
    char *found = json_dumps(json_object_get(value, "shape"), JSON_COMPACT);
    cr_expect(found != NULL && strcmp(found, shape) == 0, "%s is %s, not %s (%s)", tensor, found, shape,
              o->err.message);
    free(found);
}

static void expect_note(const struct opened *o, const char *code, const char *part)
{
    bool is_found = false;
    cr_assert_eq(o->status, SP_OK, "%s", o->err.message);
    for (uint32_t i = 0; i < o->plan->note_count; i++)
        is_found = is_found || (strcmp(o->plan->notes[i].code, code) == 0 && strstr(o->plan->notes[i].message, part));
    cr_expect(is_found, "%s: %s", code, part);
}

static double bytes_of(const struct opened *o, const char *tensor)
{
    for (uint32_t t = 0; t < o->plan->workload->tensor_count; t++) {
        if (strcmp(o->plan->workload->tensors[t].name, tensor) == 0)
            return o->plan->workload->tensors[t].bytes;
    }
    return -1;
}

static void expect_refused(const char *model, const char *sizes, const char *code)
{
    struct opened o;
    inspect(&o, model, sizes);
    cr_expect_eq(o.status, SP_ERR_REQUEST, "%s: %s", sizes, o.err.message);
    cr_expect_str_eq(o.err.code, code, "%s: %s", sizes, o.err.message);
    release(&o);
}

#define FOUND                                                                                                          \
    "{\"opset\":13,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[4,\"n\"]}],\"nodes\":["                \
    "{\"op\":\"NonZero\",\"inputs\":[\"x\"],\"outputs\":[\"a\"]},"                                                     \
    "{\"op\":\"Unique\",\"inputs\":[\"x\"],\"outputs\":[\"u\"]},"                                                      \
    "{\"op\":\"NonZero\",\"inputs\":[\"u\"],\"outputs\":[\"b\"]}],\"outputs\":[\"a\",\"b\"]}"

Test(sizes, symbols_that_operators_make_are_bound)
{
    struct opened o;
    inspect(&o, FOUND, "{\"dims\": {\"NonZero_1\": 5, \"n\": 3}}");
    expect_shape(&o, "a", "[2,\"NonZero_0\"]");
    expect_shape(&o, "b", "[1,5]");
    expect_shape(&o, "u", "[\"Unique_0\"]");
    release(&o);
    inspect(&o, FOUND, "{\"dims\": {\"a:1\": 7, \"x:1\": 3, \"Unique_0\": 0}}");
    expect_shape(&o, "x", "[4,3]");
    expect_shape(&o, "a", "[2,7]");
    expect_shape(&o, "u", "[0]");
    release(&o);
    expect_refused(FOUND, "{\"dims\": {\"NonZero_2\": 5}}", "UNKNOWN_DIMENSION");
    expect_refused(FOUND, "{\"dims\": {\"x:0\": 5}}", "DIMENSIONS_CONTRADICT");
    expect_refused(FOUND, "{\"dims\": {\"x:1\": 5, \"n\": 4}}", "DIMENSIONS_CONTRADICT");
    expect_refused(FOUND, "{\"dims\": {\"x:2\": 5}}", "UNKNOWN_DIMENSION");
}

/* Unique finds at most 4 * 6 elements, and NonZero of them as many. */
Test(sizes, plans_count_on_the_most_that_data_can_ask_for)
{
    struct opened o;
    plan(&o, FOUND, "{\"dims\": {\"n\": 6}}");
    expect_note(&o, "DIMENSION_BOUNDED", "'NonZero_0' depends on the data");
    expect_note(&o, "DIMENSION_BOUNDED", "24");
    cr_expect_eq(bytes_of(&o, "a"), 2 * 24 * 8);
    cr_expect_eq(bytes_of(&o, "u"), 24 * 4);
    cr_expect_eq(bytes_of(&o, "b"), 24 * 8);
    release(&o);
}

/* 3 images of 5 classes with at most 10 of 100 boxes each; a TopK of an axis of 100; 100 of a Compress. */
Test(sizes, every_operator_has_its_own_most)
{
    static const char model[] =
        "{\"opset\":13,\"inputs\":[{\"name\":\"boxes\",\"dtype\":\"float32\",\"shape\":[3,100,4]},"
        "{\"name\":\"scores\",\"dtype\":\"float32\",\"shape\":[3,5,100]},{\"name\":\"k\",\"dtype\":\"int64\",\"shape\":"
        "[1]},"
        "{\"name\":\"keep\",\"dtype\":\"bool\",\"shape\":[100]},{\"name\":\"to\",\"dtype\":\"int64\",\"shape\":[]}],"
        "\"initializers\":[{\"name\":\"most\",\"dtype\":\"int64\",\"shape\":[1],\"data\":[10]},"
        "{\"name\":\"zero\",\"dtype\":\"int64\",\"shape\":[],\"data\":[0]},"
        "{\"name\":\"one\",\"dtype\":\"int64\",\"shape\":[],\"data\":[1]}],\"nodes\":["
        "{\"op\":\"NonMaxSuppression\",\"inputs\":[\"boxes\",\"scores\",\"most\"],\"outputs\":[\"selected\"]},"
        "{\"op\":\"TopK\",\"inputs\":[\"scores\",\"k\"],\"outputs\":[\"best\",\"places\"]},"
        "{\"op\":\"Compress\",\"inputs\":[\"boxes\",\"keep\"],\"outputs\":[\"kept\"],\"attributes\":{\"axis\":1}},"
        "{\"op\":\"Range\",\"inputs\":[\"zero\",\"to\",\"one\"],\"outputs\":[\"range\"]}],"
        "\"outputs\":[\"selected\",\"best\",\"places\",\"kept\",\"range\"]}";
    struct opened o;
    plan(&o, model, "{}");
    cr_assert_eq(o.status, SP_OK, "%s", o.err.message);
    cr_expect_eq(bytes_of(&o, "selected"), 150 * 3 * 8);
    cr_expect_eq(bytes_of(&o, "best"), 3 * 5 * 100 * 4);
    cr_expect_eq(bytes_of(&o, "places"), 3 * 5 * 100 * 8);
    cr_expect_eq(bytes_of(&o, "kept"), 3 * 100 * 4 * 4);
    cr_expect_eq(bytes_of(&o, "range"), 128 * 8);
    expect_note(&o, "DIMENSION_BOUNDED", "'NonMaxSuppression_0'");
    expect_note(&o, "DIMENSION_ASSUMED", "'Range_0'");
    release(&o);
    plan(&o, model, "{\"dims\": {\"NonMaxSuppression_0\": 7, \"Range_0\": 2}}");
    cr_assert_eq(o.status, SP_OK, "%s", o.err.message);
    cr_expect_eq(bytes_of(&o, "selected"), 7 * 3 * 8);
    cr_expect_eq(bytes_of(&o, "range"), 2 * 8);
    release(&o);
}

#define SUM                                                                                                            \
    "{\"opset\":13,\"inputs\":[{\"name\":\"past\",\"dtype\":\"float32\",\"shape\":[\"b\",\"past\"]},"                  \
    "{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[\"b\",\"seq\"]},"                                                \
    "{\"name\":\"mask\",\"dtype\":\"float32\",\"shape\":[\"b\",\"total\"]},"                                           \
    "{\"name\":\"bias\",\"dtype\":\"float32\",\"shape\":[\"past + seq\"]}],\"nodes\":["                                \
    "{\"op\":\"Concat\",\"inputs\":[\"past\",\"x\"],\"outputs\":[\"all\"],\"attributes\":{\"axis\":1}},"               \
    "{\"op\":\"Add\",\"inputs\":[\"all\",\"mask\"],\"outputs\":[\"seen\"]},"                                           \
    "{\"op\":\"Add\",\"inputs\":[\"seen\",\"bias\"],\"outputs\":[\"y\"]}],\"outputs\":[\"y\"]}"

Test(sizes, arithmetic_ties_symbols_together)
{
    static const char *const sizes[] = {
        "{\"dims\": {\"past\": 5, \"seq\": 2}}", "{\"dims\": {\"past\": 5, \"total\": 7}}",
        "{\"dims\": {\"past + seq\": 7, \"past\": 5}}", "{\"dims\": {\"seq\": 2, \"bias:0\": 7}}"};
    struct opened o;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        inspect(&o, SUM, sizes[i]);
        expect_shape(&o, "past", "[\"b\",5]");
        expect_shape(&o, "x", "[\"b\",2]");
        expect_shape(&o, "mask", "[\"b\",7]");
        expect_shape(&o, "bias", "[7]");
        release(&o);
    }
    expect_refused(SUM, "{\"dims\": {\"past + seq\": 7, \"past\": 5, \"seq\": 1}}", "DIMENSIONS_CONTRADICT");
    expect_refused(SUM, "{\"dims\": {\"past + seq\": 7, \"past\": 8}}", "DIMENSIONS_CONTRADICT");
    expect_refused(SUM, "{\"dims\": {\"past - seq\": 7}}", "DIMENSIONS_OPEN");
    expect_refused(SUM, "{\"dims\": {\"past + other\": 7}}", "UNKNOWN_DIMENSION");
}

/* What is assumed of a sum follows from its parts: 128 + 128, and 0 + 128 with an empty past. */
Test(sizes, what_follows_is_not_assumed)
{
    struct opened o;
    plan(&o, SUM, "{}");
    expect_note(&o, "DIMENSION_ASSUMED", "'past' of the input 'past'");
    expect_note(&o, "DIMENSION_FOLLOWS", "'total' of the input 'mask' is taken to be 256");
    cr_expect_eq(bytes_of(&o, "y"), 256 * 4);
    release(&o);
    plan(&o, SUM, "{\"dims\": {\"past\": 0}}");
    expect_note(&o, "DIMENSION_FOLLOWS", "'total' of the input 'mask' is taken to be 128");
    cr_expect_eq(bytes_of(&o, "past"), 0);
    release(&o);
}

#define CHOICE                                                                                                         \
    "{\"opset\":13,\"inputs\":[{\"name\":\"c\",\"dtype\":\"bool\",\"shape\":[1]},"                                     \
    "{\"name\":\"to\",\"dtype\":\"int64\",\"shape\":[\"r\"]},{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[\"n\","  \
    "8]}],"                                                                                                            \
    "\"nodes\":[{\"op\":\"If\",\"inputs\":[\"c\"],\"outputs\":[\"y\"],\"attributes\":{\"then_branch\":{\"graph\":{"    \
    "\"nodes\":["                                                                                                      \
    "{\"op\":\"Relu\",\"inputs\":[\"x\"],\"outputs\":[\"t\"]}],\"outputs\":[\"t\"]}},\"else_branch\":{\"graph\":{"     \
    "\"nodes\":["                                                                                                      \
    "{\"op\":\"Concat\",\"inputs\":[\"x\",\"x\"],\"outputs\":[\"e\"],\"attributes\":{\"axis\":0}}],\"outputs\":["      \
    "\"e\"]}}}},"                                                                                                      \
    "{\"op\":\"Reshape\",\"inputs\":[\"y\",\"to\"],\"outputs\":[\"z\"]}],\"outputs\":[\"z\"]}"

Test(sizes, values_of_inputs_are_known_from_there_on)
{
    struct opened o;
    inspect(&o, CHOICE, "{\"values\": {\"c\": false, \"to\": [4, -1]}, \"dims\": {\"n\": 3}}");
    expect_shape(&o, "y", "[6,8]");
    expect_shape(&o, "z", "[4,12]");
    expect_shape(&o, "e", "[6,8]"); /* the branch that runs stands in the graph */
    release(&o);
    inspect(&o, CHOICE, "{\"values\": {\"c\": [true]}}");
    expect_shape(&o, "y", "[\"n\",8]");
    expect_shape(&o, "t", "[\"n\",8]");
    release(&o);
    plan(&o, CHOICE, "{\"values\": {\"to\": [0, 8]}}");
    expect_note(&o, "DIMENSION_BOUNDED", "'y:0'"); /* the most of n and 2 * n */
    cr_expect_eq(bytes_of(&o, "y"), 2 * 8 * 4);
    release(&o);
    expect_refused(CHOICE, "{\"values\": {\"z\": 1}}", "UNKNOWN_INPUT");
    expect_refused(CHOICE, "{\"values\": {\"c\": [true, true]}}", "VALUE_CONTRADICTED");
    expect_refused(CHOICE, "{\"values\": {\"c\": 0.5}}", "VALUE_CONTRADICTED");
    expect_refused(CHOICE, "{\"values\": {\"x\": 1}}", "VALUE_CONTRADICTED");
    expect_refused(CHOICE, "{\"values\": {\"to\": [1, 2]}, \"dims\": {\"r\": 3}}", "DIMENSIONS_CONTRADICT");
}

#define OWN                                                                                                            \
    "{\"opset\":{\"\":13,\"own\":1},\"inputs\":[{\"name\":\"x\",\"dtype\":\"float16\",\"shape\":[\"n\",8]}],"          \
    "\"initializers\":[{\"name\":\"w\",\"dtype\":\"float16\",\"shape\":[8,4]}],\"nodes\":["                            \
    "{\"op\":\"Blend\",\"domain\":\"own\",\"inputs\":[\"x\"],\"outputs\":[\"b\"]},"                                    \
    "{\"op\":\"MatMul\",\"inputs\":[\"b\",\"w\"],\"outputs\":[\"y\"]}],\"outputs\":[\"y\"]}"

Test(sizes, shapes_that_nobody_knows_are_given)
{
    struct opened o;
    inspect(&o, OWN, "{\"shapes\": {\"b\": [\"2*n\", 8]}, \"dims\": {\"n\": 3}}");
    expect_shape(&o, "b", "[6,8]");
    expect_shape(&o, "y", "[6,4]");
    release(&o);
    inspect(&o, OWN, "{\"shapes\": {\"b\": [null, 8], \"y\": [5, 4]}}");
    expect_shape(&o, "y", "[5,4]");
    release(&o);
    inspect(&o, OWN, "{\"shapes\": {\"x\": [7, 8]}}"); /* says what n is */
    expect_shape(&o, "x", "[7,8]");
    release(&o);
    plan(&o, OWN, "{\"shapes\": {\"b\": [6, 8]}, \"dims\": {\"n\": 3}}");
    cr_assert_eq(o.status, SP_OK, "%s", o.err.message);
    cr_expect_eq(bytes_of(&o, "b"), 6 * 8 * 2, "elements are those of the input");
    release(&o);
    plan(&o, OWN, "{\"shapes\": {\"b\": {\"dtype\": \"float16\", \"shape\": [6, 8]}}}");
    cr_expect_eq(o.status, SP_OK, "%s", o.err.message);
    release(&o);
    expect_refused(OWN, "{\"shapes\": {\"nobody\": [1]}}", "UNKNOWN_TENSOR");
    expect_refused(OWN, "{\"shapes\": {\"w\": [8, 5]}}", "SHAPE_CONTRADICTED");
    expect_refused(OWN, "{\"shapes\": {\"x\": [7, 8]}, \"dims\": {\"n\": 6}}", "DIMENSIONS_CONTRADICT");
}

/* A plan's options are written with it, and make it again. */
Test(sizes, a_plan_keeps_what_it_was_told)
{
    struct opened o;
    plan(&o, CHOICE, "{\"values\": {\"to\": [0, 8], \"c\": true}, \"dims\": {\"n\": 4}}");
    cr_assert_eq(o.status, SP_OK, "%s", o.err.message);
    cr_expect_not_null(strstr(o.plan->options_json, "\"values\":{\"c\":true,\"to\":[0,8]}"), "%s",
                       o.plan->options_json);
    cr_expect_eq(o.plan->workload->node_count, 3, "Relu, Identity and Reshape");
    release(&o);
}

/* past [n, 4] ++ x [1, 4] -> present [n + 1, 4]; a [8] -> b [8]. */
#define CACHE                                                                                                          \
    "{\"opset\":13,\"inputs\":[{\"name\":\"past_key\",\"dtype\":\"float32\",\"shape\":[\"n\",4]},"                     \
    "{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[1,4]},{\"name\":\"a.0\",\"dtype\":\"float32\",\"shape\":[8]}],"  \
    "\"nodes\":[{\"op\":\"Concat\",\"inputs\":[\"past_key\",\"x\"],\"outputs\":[\"present_key\"],\"attributes\":"      \
    "{\"axis\":0}},{\"op\":\"Tanh\",\"inputs\":[\"a.0\"],\"outputs\":[\"b.0\"]}],"                                     \
    "\"outputs\":[\"present_key\",\"b.0\"]}"

static void expect_states(const char *sizes, const char *states)
{
    struct opened o;
    inspect(&o, CACHE, sizes);
    char *found = json_dumps(json_object_get(o.inspection, "states"), JSON_COMPACT);
    cr_expect(found != NULL && strcmp(found, states) == 0, "%s: %s, not %s (%s)", sizes, found, states, o.err.message);
    free(found);
    release(&o);
}

Test(sizes, states_are_given_or_known_by_name)
{
    static const char by_name[] = "{\"past\":\"past_key\",\"present\":\"present_key\",\"grows\":0,\"from\":\"names\"}";
    static const char given[] = "{\"past\":\"a.0\",\"present\":\"b.0\",\"from\":\"given\"}";
    char text[256];
    (void)snprintf(text, sizeof text, "[%s]", by_name);
    expect_states("{}", text);
    expect_states("{\"state\": []}", "[]");
    (void)snprintf(text, sizeof text, "[%s]", given);
    expect_states("{\"state\": [[\"a.*\", \"b.*\"]]}", text);
    (void)snprintf(text, sizeof text, "[%s,%s]", by_name, given);
    expect_states("{\"state\": {\"genai_config\": {\"model\": {\"decoder\": {\"inputs\": {\"past_names\": \"a.%d\", "
                  "\"past_key_names\": \"k.%d\"}, \"outputs\": {\"present_names\": \"b.%d\", \"present_key_names\": "
                  "\"l.%d\"}}}}}}",
                  text);
    expect_refused(CACHE, "{\"state\": [[\"c.*\", \"b.*\"]]}", "STATE_UNKNOWN");
    expect_refused(CACHE, "{\"state\": [[\"a.*\", \"c.*\"]]}", "STATE_UNKNOWN");
    expect_refused(CACHE, "{\"state\": [[\"a.0\", \"present_key\"]]}", "STATE_CONTRADICTED");
    expect_refused(CACHE, "{\"state\": [[\"a.*\", \"b.0\"]]}", "INVALID_OPTION");
    expect_refused(CACHE, "{\"state\": [[\"a.0\"]]}", "INVALID_OPTION");
    expect_refused(CACHE, "{\"state\": {\"genai_config\": {}}}", "INVALID_OPTION");
    expect_refused(CACHE, "{\"state\": {}}", "INVALID_OPTION");
    expect_refused(CACHE, "{\"state\": \"a\"}", "INVALID_OPTION");
}

Test(sizes, a_plan_says_which_states_there_are)
{
    struct opened o;
    plan(&o, CACHE, "{\"dims\": {\"n\": 3}}");
    expect_note(&o, "STATES_FOUND", "1 inputs are states");
    cr_assert_eq(o.plan->workload->state_count, 1);
    cr_expect_eq(o.plan->workload->states[0].axis, 0);
    release(&o);
    plan(&o, CACHE,
         "{\"dims\": {\"n\": 3}, \"state\": {\"genai_config\": {\"model\": {\"decoder\": {\"inputs\": "
         "{\"past_names\": \"a.%d\"}, \"outputs\": {\"present_names\": \"b.%d\"}}}}}}");
    expect_note(&o, "STATES_FOUND", "2 inputs are states");
    cr_expect_not_null(strstr(o.plan->options_json, "\"state\":{\"genai_config\":{\"model\":{\"decoder\":{\"inputs\":"
                                                    "{\"past_names\":\"a.%d\"},\"outputs\":{\"present_names\":\"b.%d\""
                                                    "}}}}}"),
                       "%s", o.plan->options_json);
    release(&o);
    plan(&o, CACHE, "{\"dims\": {\"n\": 3}, \"state\": [[\"a.0\", \"b.0\"]]}");
    cr_assert_eq(o.status, SP_OK, "%s", o.err.message);
    cr_expect_not_null(strstr(o.plan->options_json, "\"state\":[[\"a.0\",\"b.0\"]]"), "%s", o.plan->options_json);
    release(&o);
}
