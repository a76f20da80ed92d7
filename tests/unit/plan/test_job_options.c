#include <criterion/criterion.h>

#include "plan/job.h"

/* What a request's JSON is understood as; the arena lives as long as the test. */
struct parsed {
    struct sp_arena *arena;
    json_t *objective, *options;
    struct sp_plan_options result;
    struct sp_error err;
    enum sp_status status;
};

static struct parsed parse(const char *objective, const char *options)
{
    struct parsed p = {.arena = sp_arena_create(NULL)};
    if (objective != NULL)
        p.objective = json_loads(objective, JSON_DECODE_ANY, NULL);
    if (options != NULL)
        p.options = json_loads(options, JSON_DECODE_ANY, NULL);
    p.status = sp_plan_options_parse(p.arena, p.objective, p.options, &p.result, &p.err);
    return p;
}

static void release(struct parsed *p)
{
    json_decref(p->objective);
    json_decref(p->options);
    sp_arena_destroy(p->arena);
}

Test(job_options, nothing_gives_the_defaults)
{
    struct parsed p = parse(NULL, NULL);
    cr_assert_eq(p.status, SP_OK);
    cr_assert_eq(p.result.objective, SP_OBJECTIVE_THROUGHPUT);
    cr_assert_eq(p.result.strategy, SP_STRATEGY_AUTO);
    cr_assert(p.result.optimal);
    cr_assert_eq(p.result.tolerance, 0.02);
    cr_assert_not(p.result.what_if);
    cr_assert_eq(p.result.batch, 0);
    cr_assert_eq(p.result.sizes.dim_count, 0);
    cr_assert_eq(p.result.time_limit_seconds, 0);
    release(&p);
}

Test(job_options, everything_is_taken)
{
    struct parsed p =
        parse("\"latency\"", "{\"strategy\": \"grouping\", \"batch\": 8, \"dims\": {\"seq\": 128, \"a/b\": 1},"
                             " \"optimal\": false, \"seed\": 7, \"what_if\": true, \"time_limit_seconds\": 2.5,"
                             " \"tolerance\": 0.125}");
    cr_assert_eq(p.status, SP_OK, "%s", p.err.message);
    cr_assert_eq(p.result.objective, SP_OBJECTIVE_LATENCY);
    cr_assert_eq(p.result.strategy, SP_STRATEGY_GROUPING);
    cr_assert_eq(p.result.batch, 8);
    cr_assert_eq(p.result.sizes.dim_count, 2);
    cr_assert_str_eq(p.result.sizes.dim_names[0], "seq");
    cr_assert_eq(p.result.sizes.dim_values[0], 128);
    cr_assert_str_eq(p.result.sizes.dim_names[1], "a/b");
    cr_assert_not(p.result.optimal);
    cr_assert_eq(p.result.seed, 7);
    cr_assert(p.result.what_if);
    cr_assert_eq(p.result.time_limit_seconds, 2.5);
    cr_assert_eq(p.result.tolerance, 0.125);
    release(&p);
}

/* Values are flattened row-major; shapes have numbers, names and what is not known. */
Test(job_options, sizes_are_taken_and_written_alike)
{
    static const char text[] = "{\"dims\":{\"past\":0,\"seq\":4},\"values\":{\"flag\":true,\"grid\":[[1,2,3],[4,5,6]],"
                               "\"scale\":[0.5]},\"shapes\":{\"a\":[2,\"seq + 1\",null],"
                               "\"b\":{\"dtype\":\"float16\",\"shape\":[]}}}";
    struct parsed p = parse(NULL, text);
    cr_assert_eq(p.status, SP_OK, "%s at %s", p.err.message, p.err.where);
    const struct sp_given *given = &p.result.sizes.given;
    cr_assert_eq(given->value_count, 3);
    cr_expect(given->values[0].is_bool && given->values[0].rank == 0 && given->values[0].reals[0] == 1);
    cr_expect(given->values[1].rank == 2 && given->values[1].dims[0] == 2 && given->values[1].dims[1] == 3);
    cr_expect(given->values[1].count == 6 && given->values[1].ints[4] == 5);
    cr_expect(given->values[2].ints == NULL && given->values[2].reals[0] == 0.5);
    cr_assert_eq(given->shape_count, 2);
    cr_expect(given->shapes[0].rank == 3 && given->shapes[0].extents[0].value == 2);
    cr_expect_str_eq(given->shapes[0].extents[1].text, "seq + 1");
    cr_expect(given->shapes[0].extents[2].text == NULL && given->shapes[0].extents[2].value == -1);
    cr_expect_eq(given->shapes[1].dtype, SP_DTYPE_FLOAT16);
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, 4096);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    cr_expect(sp_sizes_write(p.arena, &p.result.sizes, &json));
    sp_json_end_object(&json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    cr_expect_str_eq(buf.data, text);
    sp_buf_release(&buf);
    release(&p);
}

Test(job_options, what_is_wrong_is_refused_with_its_place)
{
    static const struct {
        const char *objective, *options, *where;
    } cases[] = {
        {"\"speed\"", NULL, "/objective"},
        {"3", NULL, "/objective"},
        {NULL, "[]", "/options"},
        {NULL, "{\"colour\": 1}", "/options/colour"},
        {NULL, "{\"a/b~c\": 1}", "/options/a~1b~0c"},
        {NULL, "{\"strategy\": 1}", "/options/strategy"},
        {NULL, "{\"strategy\": \"best\"}", "/options/strategy"},
        {NULL, "{\"batch\": 0}", "/options/batch"},
        {NULL, "{\"batch\": 1.5}", "/options/batch"},
        {NULL, "{\"batch\": \"8\"}", "/options/batch"},
        {NULL, "{\"batch\": null}", "/options/batch"},
        {NULL, "{\"dims\": 3}", "/options/dims"},
        {NULL, "{\"dims\": {\"seq\": -1}}", "/options/dims/seq"},
        {NULL, "{\"dims\": {\"a/b\": \"x\"}}", "/options/dims/a~1b"},
        {NULL, "{\"values\": {\"x\": \"1\"}}", "/options/values/x"},
        {NULL, "{\"values\": {\"x\": [[1], [2, 3]]}}", "/options/values/x"},
        {NULL, "{\"values\": {\"x\": [true, 1]}}", "/options/values/x"},
        {NULL, "{\"shapes\": {\"x\": 3}}", "/options/shapes/x"},
        {NULL, "{\"shapes\": {\"x\": [2, -1]}}", "/options/shapes/x/1"},
        {NULL, "{\"shapes\": {\"x\": {\"dtype\": \"float33\", \"shape\": []}}}", "/options/shapes/x/dtype"},
        {NULL, "{\"shapes\": {\"x\": {\"dtype\": \"float32\"}}}", "/options/shapes/x/shape"},
        {NULL, "{\"optimal\": 1}", "/options/optimal"},
        {NULL, "{\"tolerance\": \"2 %\"}", "/options/tolerance"},
        {NULL, "{\"tolerance\": -0.01}", "/options/tolerance"},
        {NULL, "{\"tolerance\": 1}", "/options/tolerance"},
        {NULL, "{\"what_if\": \"yes\"}", "/options/what_if"},
        {NULL, "{\"seed\": -1}", "/options/seed"},
        {NULL, "{\"time_limit_seconds\": 0}", "/options/time_limit_seconds"},
        {NULL, "{\"time_limit_seconds\": true}", "/options/time_limit_seconds"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct parsed p = parse(cases[i].objective, cases[i].options);
        cr_expect_eq(p.status, SP_ERR_REQUEST, "case %zu: %s", i, cases[i].where);
        cr_expect_str_eq(p.err.where, cases[i].where, "case %zu is at %s", i, p.err.where);
        release(&p);
    }
}

Test(job_options, every_strategy_is_known)
{
    static const char *const options[] = {"{}", "{\"strategy\": \"grouping\"}",
                                          "{\"strategy\": \"pipeline\", \"replicas\": 3}",
                                          "{\"strategy\": \"tensor\"}"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        struct parsed p = parse(NULL, options[i]);
        cr_assert_eq(p.status, SP_OK, "%s", p.err.message);
        cr_expect_eq(p.result.strategy, (enum sp_search_strategy)i);
        cr_expect_eq(p.result.max_replicas, i == 2 ? 3 : SP_REPLICAS_NOT_GIVEN);
        release(&p);
    }
}

Test(job_options, objectives_have_names)
{
    enum sp_objective objective = SP_OBJECTIVE_THROUGHPUT;
    cr_assert(sp_objective_parse("devices", &objective));
    cr_assert_eq(objective, SP_OBJECTIVE_DEVICES);
    cr_assert_str_eq(sp_objective_name(objective), "devices");
    cr_assert_not(sp_objective_parse("Latency", &objective));
}
