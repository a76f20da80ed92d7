/* Measured times (plan/request/measured.h, cost/profile.h): what is read, and what it does to a workload. */
#include <criterion/criterion.h>
#include <string.h>

#include "plan/job.h"
#include "random_workload.h"
#include "recount.h"

/* ---- reading ------------------------------------------------------------------------------------------------------
 */

static enum sp_status parse_text(struct sp_arena *arena, const char *text, struct sp_profile **ret_profile,
                                 struct sp_error *err)
{
    json_error_t where;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
    cr_assert_not_null(json, "%s: %s", text, where.text);
    *err = (struct sp_error){0};
    enum sp_status status = sp_profile_parse(arena, json, "/options/profile", ret_profile, err);
    json_decref(json);
    cr_assert_eq(status, err->status);
    return status;
}

static struct sp_profile *parse_good(struct sp_arena *arena, const char *text)
{
    struct sp_profile *profile = NULL;
    struct sp_error err;
    cr_assert_eq(parse_text(arena, text, &profile, &err), SP_OK, "%s: %s at %s", text, err.message, err.where);
    return profile;
}

static double seconds_of(const struct sp_profile *profile, const char *name)
{
    for (uint32_t t = 0; t < profile->count; t++) {
        if (strcmp(profile->times[t].name, name) == 0)
            return profile->times[t].seconds;
    }
    return -1;
}

Test(profile, seconds_by_node)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const struct sp_profile *profile =
        parse_good(arena, "{\"device\":\"X\",\"nodes\":{\"b\":1,\"a\":{\"X\":2.5,\"Y\":0},\"c\":3}}");
    cr_expect_str_eq(profile->device, "X");
    cr_assert_eq(profile->count, 4);
    cr_expect_str_eq(profile->times[1].name, "a");
    cr_expect_str_eq(profile->times[1].device, "X");
    cr_expect_eq(profile->times[1].seconds, 2.5);
    cr_expect_str_eq(profile->times[2].device, "Y");
    cr_expect_null(profile->times[3].device);
    cr_expect_str_eq(profile->times[3].name, "c");
    sp_arena_destroy(arena);
}

Test(profile, what_is_written_is_read_again)
{
    static const char text[] = "{\"device\":\"X\",\"nodes\":{\"b\":1,\"a\":{\"X\":2.5,\"Y\":0},\"c\":0.1}}";
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, 4096);
    sp_json_init_buf(&json, false, &buf);
    sp_profile_write(parse_good(arena, text), &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    cr_expect_str_eq(buf.data, text);
    sp_buf_release(&buf);
    sp_arena_destroy(arena);
}

#define KERNEL(name, ts, dur) "{\"cat\":\"Node\",\"name\":\"" name "_kernel_time\",\"ts\":" #ts ",\"dur\":" #dur "}"
#define RUN(ts, dur)          "{\"cat\":\"Session\",\"name\":\"model_run\",\"ts\":" #ts ",\"dur\":" #dur "}"

/* Four runs of which the first is the slowest: it is left out. n runs twice in each (a body of a loop), and only in the
   first does o run. */
Test(profile, events_of_a_profiler)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const char *text =
        "[" KERNEL("n", 10, 500) "," KERNEL("n", 20, 500) "," KERNEL("o", 25, 7) "," RUN(0, 99) "," KERNEL("n", 110, 4) "," KERNEL(
            "n", 120,
            5) "," RUN(100,
                       99) "," KERNEL("n", 210,
                                      1) "," KERNEL("n", 220,
                                                    2) "," RUN(200,
                                                               99) "," KERNEL("n", 310,
                                                                              20) "," KERNEL("n", 320,
                                                                                             30) "," RUN(300,
                                                                                                         99) ",{"
                                                                                                             "\"cat\":"
                                                                                                             "\"Node\","
                                                                                                             "\"name\":"
                                                                                                             "\"n_"
                                                                                                             "fence_"
                                                                                                             "before\","
                                                                                                             "\"ts\":1,"
                                                                                                             "\"dur\":"
                                                                                                             "9}"
                                                                                                             "," KERNEL(
                                                                                                                 "late",
                                                                                                                 500,
                                                                                                                 3) "]";
    const struct sp_profile *profile = parse_good(arena, text);
    cr_expect_eq(profile->count, 2);
    cr_expect_float_eq(seconds_of(profile, "n"), 9e-6, 1e-15); /* of 9, 3 and 50 */
    cr_expect_float_eq(seconds_of(profile, "o"), 7e-6, 1e-15);
    /* Two runs behind the first: the mean. */
    profile = parse_good(arena, "{\"events\":[" KERNEL("n", 1, 50) "," RUN(0, 9) "," KERNEL("n", 11, 2) "," RUN(
                                    10, 9) "," KERNEL("n", 21, 5) "," RUN(20, 9) "]}");
    cr_expect_float_eq(seconds_of(profile, "n"), 3.5e-6, 1e-15);
    /* Without runs each event is one. */
    profile =
        parse_good(arena, "[" KERNEL("n", 1, 50) "," KERNEL("n", 2, 4) "," KERNEL("n", 3, 8) "," KERNEL("n", 4, 6) "]");
    cr_expect_float_eq(seconds_of(profile, "n"), 6e-6, 1e-15);
    sp_arena_destroy(arena);
}

Test(profile, what_is_wrong)
{
    static const struct {
        const char *text, *code, *where;
    } cases[] = {
        {"1", "MEMBER_TYPE", "/options/profile"},
        {"{}", "PROFILE_FORM", "/options/profile"},
        {"{\"nodes\":{},\"events\":[]}", "PROFILE_FORM", "/options/profile"},
        {"{\"nodes\":[]}", "MEMBER_TYPE", "/options/profile/nodes"},
        {"{\"nodes\":{\"a/b\":-1}}", "PROFILE_SECONDS", "/options/profile/nodes/a~1b"},
        {"{\"nodes\":{\"a\":\"1\"}}", "PROFILE_SECONDS", "/options/profile/nodes/a"},
        {"{\"nodes\":{\"a\":{}}}", "PROFILE_SECONDS", "/options/profile/nodes/a"},
        {"{\"nodes\":{\"a\":{\"X\":1e7}}}", "PROFILE_SECONDS", "/options/profile/nodes/a/X"},
        {"{\"nodes\":{},\"runs\":1}", "MEMBER_UNKNOWN", "/options/profile/runs"},
        {"{\"events\":{}}", "MEMBER_TYPE", "/options/profile/events"},
        {"[]", "PROFILE_EMPTY", "/options/profile"},
        {"[1,null,{\"cat\":1}]", "PROFILE_EMPTY", "/options/profile"},
        {"[{\"cat\":\"Node\",\"name\":\"n_kernel_time\",\"ts\":1}]", "PROFILE_EVENT", "/options/profile/0"},
    };
    struct sp_arena *arena = sp_arena_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_profile *profile;
        struct sp_error err;
        cr_expect_eq(parse_text(arena, cases[i].text, &profile, &err), SP_ERR_REQUEST, "%s", cases[i].text);
        cr_expect_str_eq(err.code, cases[i].code, "%s: %s", cases[i].text, err.message);
        cr_expect_str_eq(err.where, cases[i].where, "%s", cases[i].text);
    }
    sp_arena_destroy(arena);
}

/* ---- times of nodes -----------------------------------------------------------------------------------------------
 */

#define DEVICE(name)                                                                                                   \
    "{\"name\":\"" name "\",\"memory_bytes\":1e9,\"memory_bandwidth\":1e12,\"flops\":{\"float32\":1e12},"              \
    "\"link_bandwidth\":1e9}"

struct used {
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_workload *work;
    struct sp_profile_use use;
    struct sp_error err;
};

/* x -> n0 (4 s) -> n1 (4 s; its result is "r") -> n2 (4 s); kind 1 takes three times as long. */
static enum sp_status apply_to(struct used *used, const char *profile)
{
    *used = (struct used){.arena = sp_arena_create(NULL)};
    used->cluster = cluster_from(used->arena, "{\"groups\":[{\"count\":1,\"device\":" DEVICE(
                                                  "X") "},{\"count\":1,\"device\":" DEVICE("Y") "}]}");
    struct sp_workload *work = used->work = workload_new(used->arena, used->cluster);
    uint32_t last = workload_input(work, 8);
    static const char *const names[] = {"n0", "n1", "n2"};
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t node = workload_node(work, 4, 1, &last);
        last = workload_result(work, node, 8);
        work->nodes[node].name = names[i];
        work->nodes[node].seconds[1] = 12;
        work->tensors[last].name = i == 1 ? "r" : "other";
    }
    workload_finish(work);
    return sp_profile_apply(parse_good(used->arena, profile), used->cluster, 3, work, &used->use, &used->err);
}

static void expect_seconds(const struct used *used, uint32_t node, double x, double y)
{
    cr_expect_float_eq(used->work->nodes[node].seconds[0], x, 1e-12, "node %u: %g", node,
                       used->work->nodes[node].seconds[0]);
    cr_expect_float_eq(used->work->nodes[node].seconds[1], y, 1e-12, "node %u: %g", node,
                       used->work->nodes[node].seconds[1]);
}

Test(profile, names_find_nodes)
{
    struct used used;
    cr_assert_eq(apply_to(&used, "{\"nodes\":{\"n0\":1,\"r\":2,\"n2/MatMulAddFusion\":5,\"z\":9,\"y\":9}}"), SP_OK);
    expect_seconds(&used, 0, 1, 3);
    expect_seconds(&used, 1, 2, 6);
    expect_seconds(&used, 2, 5, 15);
    cr_expect_eq(used.use.by_name, 1);
    cr_expect_eq(used.use.by_output, 1);
    cr_expect_eq(used.use.by_fusion, 1);
    cr_expect_eq(used.use.unknown, 2);
    cr_expect_str_eq(used.use.first_unknown, "z");
    cr_expect_eq(used.use.measured, 3);
    cr_expect_float_eq(sp_work_measured_scale(&used.work->nodes[0], 1), 0.25, 1e-12);
    sp_arena_destroy(used.arena);
}

Test(profile, what_nobody_measured_stays)
{
    struct used used;
    cr_assert_eq(apply_to(&used, "{\"nodes\":{\"n1\":2,\"r\":7}}"), SP_OK);
    expect_seconds(&used, 0, 4, 12);
    expect_seconds(&used, 1, 2, 6);
    cr_expect_eq(used.use.twice, 1);
    cr_expect_eq(used.use.unmeasured, 2);
    cr_expect_eq(sp_work_measured_scale(&used.work->nodes[0], 0), 1);
    sp_arena_destroy(used.arena);
}

Test(profile, devices_of_times)
{
    struct used used;
    cr_assert_eq(apply_to(&used, "{\"device\":\"y\",\"nodes\":{\"n0\":6,\"n1\":{\"X\":1,\"Y\":2},\"n2\":{\"Y\":3}}}"),
                 SP_OK);
    expect_seconds(&used, 0, 2, 6);
    expect_seconds(&used, 1, 1, 2);
    expect_seconds(&used, 2, 1, 3);
    sp_arena_destroy(used.arena);
    cr_expect_eq(apply_to(&used, "{\"device\":\"Z\",\"nodes\":{\"n0\":6}}"), SP_ERR_REQUEST);
    cr_expect_str_eq(used.err.code, "PROFILE_DEVICE");
    sp_arena_destroy(used.arena);
    cr_expect_eq(apply_to(&used, "{\"nodes\":{\"m0\":6,\"m1\":6}}"), SP_ERR_REQUEST);
    cr_expect_str_eq(used.err.code, "PROFILE_MATCHES_NOTHING");
    cr_expect_not_null(strstr(used.err.message, "'m0'"));
    sp_arena_destroy(used.arena);
}

/* ---- a plan -------------------------------------------------------------------------------------------------------
 */

/* What ONNX Runtime 1.30 wrote for six nodes, four runs without optimisations. The medians of the last three runs, in
   microseconds: relu0 9 5 4, relu1 3 3 3, relu2 5 4 3, add3 7 5 4, relu4 3 3 3, relu5 27 5 4. */
Test(profile, a_plan_with_a_real_profile)
{
    static const char model[] =
        "{\"opset\":17,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[64,256]}],\"outputs\":[\"y\"],"
        "\"nodes\":[{\"op\":\"Relu\",\"name\":\"relu0\",\"inputs\":[\"x\"],\"outputs\":[\"a\"]},"
        "{\"op\":\"Relu\",\"name\":\"relu1\",\"inputs\":[\"a\"],\"outputs\":[\"b\"]},"
        "{\"op\":\"Relu\",\"name\":\"relu2\",\"inputs\":[\"b\"],\"outputs\":[\"c\"]},"
        "{\"op\":\"Add\",\"name\":\"add3\",\"inputs\":[\"c\",\"b\"],\"outputs\":[\"d\"]},"
        "{\"op\":\"Relu\",\"name\":\"relu4\",\"inputs\":[\"d\"],\"outputs\":[\"e\"]},"
        "{\"op\":\"Relu\",\"name\":\"relu5\",\"inputs\":[\"e\"],\"outputs\":[\"y\"]}]}";
    static const double medians[] = {5, 3, 4, 5, 3, 5};
    const struct sp_job_options options = {.bytes = model, .size = strlen(model), .name = "chain"};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_plan_options asked;
    struct sp_error err = {0};
    struct sp_profile *profile;
    struct sp_job *job;
    struct sp_plan *plan;
    json_error_t where;
    json_t *events = json_load_file(SOURCE_ROOT "/tests/data/chain_6_profile.json", JSON_REJECT_DUPLICATES, &where);
    cr_assert_not_null(events, "%s", where.text);
    cr_assert_eq(sp_profile_parse(arena, events, "", &profile, &err), SP_OK, "%s", err.message);
    json_decref(events);
    sp_plan_options_init(&asked);
    asked.max_replicas = 1; /* one plan, no copies */
    asked.profile = profile;
    const struct sp_cluster *cluster = cluster_from(arena, "{\"device\":" DEVICE("X") ",\"count\":1}");
    cr_assert_eq(sp_job_plan(&options, cluster, &asked, &job, &plan, &err), SP_OK, "%s", err.message);
    recount_expect_result(plan->workload, plan->cluster, plan->result);
    cr_assert_eq(plan->workload->node_count, 6);
    for (uint32_t i = 0; i < 6; i++)
        cr_expect_float_eq(plan->workload->nodes[i].seconds[0], medians[i] * 1e-6, 1e-15);
    cr_expect_float_eq(plan->result->evaluation->interval_seconds, 25e-6, 1e-15);
    cr_assert_eq(plan->note_count, 1);
    cr_expect_str_eq(plan->notes[0].code, "PROFILE_USED");
    cr_expect_not_null(strstr(plan->options_json, "\"profile\":{\"nodes\":{\"relu0\":5e-06,"), "%s",
                       plan->options_json);
    sp_job_destroy(job);
    sp_arena_destroy(arena);
}
