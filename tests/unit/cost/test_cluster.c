#include <criterion/criterion.h>
#include <math.h>

#include "random_workload.h"

#define BOX                                                                                                            \
    "{\"name\": \"box\", \"count\": 8, \"device\": {\"name\": \"a100-sxm-80gb\", \"memory_bytes\": 80e9,"              \
    " \"memory_bandwidth\": 2.0e12, \"flops\": {\"float16\": 312e12, \"float32\": 19.5e12}}}"
#define MESH                                                                                                           \
    "[{\"name\": \"node\", \"size\": 2, \"bandwidth\": 25e9, \"latency\": 5e-6},"                                      \
    " {\"name\": \"gpu\", \"size\": 4, \"bandwidth\": 300e9, \"latency\": 2e-6}]"
#define FULL "{\"groups\": [" BOX "], \"mesh\": " MESH ", \"memory_limit_bytes\": 60e9, \"efficiency\": 0.5}"

static struct sp_arena *arena;
static struct sp_error err;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(cluster, .init = setup, .fini = teardown);

static enum sp_status parse(const char *text, const char *pointer, struct sp_cluster **ret_cluster)
{
    json_error_t problem;
    json_t *json = json_loads(text, JSON_DECODE_ANY, &problem);
    enum sp_status status;
    cr_assert_not_null(json, "%s in %s", problem.text, text);
    sp_error_clear(&err);
    status = sp_cluster_parse(arena, json, pointer, ret_cluster, &err);
    json_decref(json);
    return status;
}

Test(cluster, uniform)
{
    struct sp_cluster *cluster = NULL;
    cr_assert_eq(sp_cluster_uniform(arena, "H100-SXM-80GB", 8, &cluster, &err), SP_OK, "%s", err.message);
    cr_assert_eq(cluster->device_count, 8);
    cr_assert_eq(cluster->level_count, 1);
    cr_assert_eq(cluster->levels[0].size, 8);
    cr_assert_eq(sp_level_bandwidth(&cluster->levels[0]), 450e9); /* NVLink 4: 900 GB/s in both directions */
    cr_assert_eq(cluster->efficiency, 0);
    cr_assert_eq(cluster->launch_seconds, SP_LAUNCH_NOT_STATED);
    cr_assert_str_eq(sp_cluster_device(cluster, 7)->name, "h100-sxm-80gb");
    /* What the driver reports, less the context of a process that runs ONNX Runtime. */
    cr_assert_eq(sp_cluster_memory(cluster, 0), sp_device_find("h100-sxm-80gb")->memory_reported_bytes - 0.72e9);
}

Test(cluster, uniform_refuses)
{
    struct sp_cluster *cluster = NULL;
    cr_assert_eq(sp_cluster_uniform(arena, "h1000", 8, &cluster, &err), SP_ERR_REQUEST);
    cr_assert(strstr(err.message, "h1000") != NULL && strstr(err.message, "h100-sxm-80gb") != NULL, "%s", err.message);
    const int64_t counts[] = {0, -1, SP_MAX_DEVICES + 1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        sp_error_clear(&err);
        cr_assert_eq(sp_cluster_uniform(arena, "tpu-v5e", counts[i], &cluster, &err), SP_ERR_REQUEST);
        cr_assert_str_eq(err.code, "DEVICE_COUNT");
    }
    cr_assert_null(cluster);
}

/* No scale-up link: PCIe 4 x16, 64 GB/s in both directions. */
Test(cluster, traffic_goes_over_the_host_without_a_link)
{
    struct sp_cluster *cluster = NULL;
    cr_assert_eq(sp_cluster_uniform(arena, "l4-24gb", 2, &cluster, &err), SP_OK);
    cr_assert_eq(cluster->levels[0].bandwidth, 32e9);
    cr_assert_eq(cluster->levels[0].latency, 5e-6);
}

Test(cluster, short_form)
{
    struct sp_cluster *cluster = NULL;
    cr_assert_eq(parse("{\"device\": \"a100-sxm4-40gb\", \"count\": 4, \"memory_limit_bytes\": 30000000000,"
                       " \"launch_seconds\": 0}",
                       "/cluster", &cluster),
                 SP_OK, "%s", err.message);
    cr_assert_eq(cluster->device_count, 4);
    cr_assert_eq(sp_cluster_memory(cluster, 3), 30e9);
    cr_assert_eq(cluster->launch_seconds, 0);
    cr_assert_eq(sp_level_bandwidth(&cluster->levels[0]), 300e9);
}

/* A group's runtime stands before the cluster's; what its process takes is no plan's. */
Test(cluster, runtimes)
{
    struct sp_cluster *cluster = NULL;
    cr_assert_eq(parse("{\"groups\": [{\"count\": 1, \"device\": \"a100-sxm4-80gb\"}, {\"count\": 1, \"device\": "
                       "\"a100-sxm4-80gb\", \"runtime\": \"vllm\"}], \"runtime\": \"generic\"}",
                       "", &cluster),
                 SP_OK, "%s", err.message);
    const double reported = sp_device_find("a100-sxm4-80gb")->memory_reported_bytes;
    cr_assert_eq(sp_cluster_device(cluster, 0)->runtime, SP_RUNTIME_GENERIC);
    cr_assert_eq(sp_cluster_device(cluster, 1)->runtime, SP_RUNTIME_VLLM);
    cr_assert_eq(sp_cluster_memory(cluster, 0), reported - 0.72e9);
    cr_assert_eq(sp_cluster_memory(cluster, 1), reported - 4e9);
    cr_assert_null(cluster->levels[0].forms, "nobody measured both together");
    cr_assert_eq(parse("{\"device\": \"a100-sxm4-80gb\", \"count\": 8}", "", &cluster), SP_OK);
    cr_assert_not_null(cluster->levels[0].forms);
    cr_assert_eq(parse("{\"device\": \"a100-sxm4-80gb\", \"count\": 8, \"runtime\": \"torch\"}", "/c", &cluster),
                 SP_ERR_REQUEST);
    cr_assert_str_eq(err.code, "CLUSTER_RUNTIME");
    cr_assert_str_eq(err.where, "/c/runtime");
}

/* A message to another node takes as long to start as one within the node, for which there are measurements, and so does
   a collective, for which the host adds its part. */
Test(cluster, nothing_is_quicker_over_outer_links)
{
    static const enum sp_collective kinds[] = {SP_ALL_GATHER, SP_REDUCE_SCATTER, SP_ALL_REDUCE, SP_ALL_TO_ALL};
    struct sp_cluster *cluster = NULL;
    cr_assert_eq(parse("{\"groups\": [{\"count\": 8, \"device\": \"a100-sxm4-80gb\"}], \"mesh\": [{\"size\": 2, "
                       "\"bandwidth\": 25e9, \"latency\": 4e-6}, {\"size\": 4, \"bandwidth\": 300e9}]}",
                       "", &cluster),
                 SP_OK, "%s", err.message);
    cr_assert_not_null(cluster->levels[1].forms);
    cr_expect_gt(cluster->levels[1].latency, 4e-6);
    cr_expect_eq(cluster->levels[0].latency, cluster->levels[1].latency);
    cr_expect_eq(sp_level_latency(&cluster->levels[0]), 4e-6);
    cr_expect_eq(sp_level_bandwidth(&cluster->levels[0]), 25e9);
    cr_expect_eq(cluster->levels[0].bandwidth, 25e9);
    const struct sp_links links = sp_cluster_links(cluster);
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (double bytes = 16; bytes < 1e9; bytes *= 4) {
            const uint32_t inner[] = {1, 2}, outer[] = {2, 1};
            cr_expect_geq(sp_collective_seconds(&links, kinds[k], outer, bytes),
                          sp_collective_seconds(&links, kinds[k], inner, bytes), "%s of %g bytes",
                          sp_collective_name(kinds[k]), bytes);
        }
    }
    cr_expect_lt(sp_cluster_transfer_seconds(cluster, 0, 7, 16), sp_runtime(SP_RUNTIME_ONNXRUNTIME)->collective_seconds,
                 "a send waits for no start of a collective");
}

Test(cluster, full_form)
{
    struct sp_cluster *cluster = cluster_from(arena, FULL);
    cr_assert_eq(cluster->device_count, 8);
    cr_assert_eq(cluster->level_count, 2);
    cr_assert_str_eq(cluster->levels[1].name, "gpu");
    cr_assert_eq(cluster->efficiency, 0.5);
    cr_assert_eq(sp_cluster_memory(cluster, 5), 60e9);
    cr_assert_eq(sp_cluster_device(cluster, 5)->flops[SP_DTYPE_FLOAT16], 312e12);
    cr_assert_eq(sp_cluster_device(cluster, 5)->flops[SP_DTYPE_BFLOAT16], 0);
}

/* The example of cluster.h: 5 = (1,1); 5 and 6 differ at gpu, 1 and 5 at node. */
Test(cluster, links)
{
    struct sp_cluster *cluster = cluster_from(arena, FULL);
    cr_assert_str_eq(sp_cluster_link(cluster, 5, 6)->name, "gpu");
    cr_assert_str_eq(sp_cluster_link(cluster, 1, 5)->name, "node");
    cr_assert_str_eq(sp_cluster_link(cluster, 3, 4)->name, "node");
    cr_assert_str_eq(sp_cluster_link(cluster, 0, 3)->name, "gpu");
    cr_assert_float_eq(sp_cluster_transfer_seconds(cluster, 0, 1, 3e9), 2e-6 + 0.01, 1e-15);
    cr_assert_float_eq(sp_cluster_transfer_seconds(cluster, 0, 4, 3e9), 5e-6 + 0.12, 1e-15);
    cr_assert_eq(sp_cluster_transfer_seconds(cluster, 2, 2, 3e9), 0);
}

/* Coordinates of every pair, the slow way: divide by the strides. */
Test(cluster, links_of_three_levels)
{
    struct sp_cluster *cluster =
        cluster_from(arena, "{\"device\": \"tpu-v5e\", \"count\": 24, \"mesh\": [{\"size\": 2, \"bandwidth\": 1},"
                            "{\"size\": 3, \"bandwidth\": 2}, {\"size\": 4, \"bandwidth\": 3}]}");
    for (uint32_t a = 0; a < 24; a++) {
        for (uint32_t b = 0; b < 24; b++) {
            double expected = a / 12 != b / 12 ? 1 : a / 4 % 3 != b / 4 % 3 ? 2 : 3;
            if (a != b)
                cr_assert_eq(sp_cluster_link(cluster, a, b)->bandwidth, expected, "%u %u", a, b);
        }
    }
    cr_assert_str_eq(cluster->levels[2].name, "level2");
}

Test(cluster, groups_number_devices_in_order)
{
    struct sp_cluster *cluster =
        cluster_from(arena, "{\"groups\": [{\"count\": 2, \"device\": \"t4-16gb\"}, {\"name\": \"big\", \"count\": 1,"
                            " \"device\": \"a100-sxm4-80gb\"}]}");
    cr_assert_str_eq(sp_cluster_device(cluster, 1)->name, "t4-16gb");
    cr_assert_str_eq(sp_cluster_device(cluster, 2)->name, "a100-sxm4-80gb");
    cr_assert_str_eq(cluster->groups[0].name, "group0");
    cr_assert_eq(cluster->levels[0].bandwidth, 16e9); /* the T4's PCIe 3 is the slowest */
    cr_assert_eq(cluster->levels[0].latency, 5e-6);
}

/* A device alone needs no link. */
Test(cluster, one_device_without_links)
{
    struct sp_cluster *cluster = cluster_from(arena, "{\"count\": 1, \"device\": {\"name\": \"d\", \"memory_bytes\": 1,"
                                                     "\"memory_bandwidth\": 2, \"flops\": {\"int8\": 3}}}");
    cr_assert_eq(cluster->level_count, 1);
    cr_assert_eq(sp_cluster_transfer_seconds(cluster, 0, 0, 1e9), 0);
}

Test(cluster, prefix)
{
    struct sp_cluster *cluster = cluster_from(arena, FULL);
    struct sp_cluster *four = sp_cluster_prefix(arena, cluster, 4), *six = sp_cluster_prefix(arena, cluster, 6);
    cr_assert_eq(four->device_count, 4);
    cr_assert_eq(four->groups[0].count, 4);
    cr_assert_eq(four->level_count, 2);
    cr_assert_eq(four->levels[0].size, 1);
    cr_assert_eq(four->levels[1].size, 4);
    cr_assert_eq(six->device_count, 6);
    for (uint32_t a = 0; a < 6; a++) {
        for (uint32_t b = 0; b < 6; b++) {
            if (a != b)
                cr_assert_str_eq(sp_cluster_link(six, a, b)->name, sp_cluster_link(cluster, a, b)->name);
            if (a != b && a < 4 && b < 4)
                cr_assert_str_eq(sp_cluster_link(four, a, b)->name, "gpu");
        }
    }
    cr_assert_eq(cluster->levels[0].size, 2, "the original stays as it is");
    cr_assert_eq(sp_cluster_prefix(arena, cluster, 1)->levels[1].size, 1);
}

Test(cluster, prefix_drops_groups)
{
    struct sp_cluster *cluster =
        cluster_from(arena, "{\"groups\": [{\"count\": 3, \"device\": \"t4-16gb\"}, {\"count\": 5, \"device\":"
                            " \"l4-24gb\"}, {\"count\": 2, \"device\": \"tpu-v5p\"}]}");
    struct sp_cluster *some = sp_cluster_prefix(arena, cluster, 5), *few = sp_cluster_prefix(arena, cluster, 3);
    cr_assert_eq(some->group_count, 2);
    cr_assert_eq(some->groups[1].count, 2);
    cr_assert_eq(few->group_count, 1);
    cr_assert_eq(few->groups[0].count, 3);
    cr_assert_eq(cluster->groups[1].count, 5);
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

#define DEVICE(members) "{\"count\": 1, \"device\": {" members "}}"
#define WITH(members)   DEVICE("\"name\": \"d\", " FIGURES ", \"flops\": {\"int8\": 1}, " members)
#define FIGURES         "\"memory_bytes\": 1e9, \"memory_bandwidth\": 1e9"
#define GROUPS(mesh)    "{\"groups\": [" BOX "], \"mesh\": " mesh "}"
#define LEVEL(members)  GROUPS("[{" members "}]")

Test(cluster, every_refusal_says_where)
{
    static const struct {
        const char *json, *where, *mentions;
    } cases[] = {
        {"[]", "/c", "JSON object"},
        {"3", "/c", "JSON object"},
        {"{}", "/c", "'groups'"},
        {"{\"count\": 2}", "/c", "'device'"},
        {"{\"device\": \"tpu-v5e\"}", "/c", "'count'"},
        {"{\"device\": \"tpu\", \"count\": 2}", "/c/device", "tpu-v5e"},
        {"{\"device\": 3, \"count\": 2}", "/c/device", "catalog"},
        {"{\"device\": null, \"count\": 2}", "/c/device", "catalog"},
        {"{\"device\": \"tpu-v5e\", \"count\": 0}", "/c/count", "65536"},
        {"{\"device\": \"tpu-v5e\", \"count\": -4}", "/c/count", "integer"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2.5}", "/c/count", "integer"},
        {"{\"device\": \"tpu-v5e\", \"count\": \"2\"}", "/c/count", "integer"},
        {"{\"device\": \"tpu-v5e\", \"count\": 65537}", "/c/count", "65536"},
        {"{\"device\": \"tpu-v5e\", \"count\": 9223372036854775807}", "/c/count", "65536"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"gpu\": 1}", "/c/gpu", "memory_limit_bytes"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"a/b~c\": 1}", "/c/a~1b~0c", "unknown"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"efficiency\": 0}", "/c/efficiency", "to 1"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"efficiency\": 1.01}", "/c/efficiency", "to 1"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"efficiency\": -0.5}", "/c/efficiency", "to 1"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"efficiency\": true}", "/c/efficiency", "number"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"memory_limit_bytes\": 0}", "/c/memory_limit_bytes", "bytes"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"memory_limit_bytes\": -1}", "/c/memory_limit_bytes", "bytes"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"memory_limit_bytes\": \"60e9\"}", "/c/memory_limit_bytes",
         "number"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"launch_seconds\": -1e-6}", "/c/launch_seconds", "seconds"},
        {"{\"device\": \"tpu-v5e\", \"count\": 2, \"groups\": [" BOX "]}", "/c/", "known are groups"},
        {"{\"groups\": []}", "/c/groups", "1 to"},
        {"{\"groups\": {}}", "/c/groups", "array"},
        {"{\"groups\": [3]}", "/c/groups/0", "object"},
        {"{\"groups\": [" BOX ", {\"count\": 1}]}", "/c/groups/1", "'device'"},
        {"{\"groups\": [" BOX ", {\"device\": \"tpu-v5e\"}]}", "/c/groups/1", "'count'"},
        {"{\"groups\": [" BOX ", " BOX "]}", "/c/groups/1", "same name"},
        {"{\"groups\": [" BOX ", {\"device\": \"tpu-v5e\", \"count\": 65529}]}", "/c/groups/1/count", "65528"},
        {"{\"groups\": [" BOX ", {\"device\": \"tpu-v5e\", \"count\": 1, \"n\": 1}]}", "/c/groups/1/n", "unknown"},
        {"{\"groups\": [{\"name\": \"\", \"device\": \"tpu-v5e\", \"count\": 1}]}", "/c/groups/0/name", "string"},
        {"{\"groups\": [" BOX "], \"mesh\": " MESH ", \"device_count\": 9}", "/c/device_count", "1 to 8"},
        {"{\"groups\": [" BOX "], \"mesh\": " MESH ", \"device_count\": 0}", "/c/device_count", "1 to 8"},
        {"{\"groups\": [" BOX "]}", "/c/groups/0/device", "link"},
        {DEVICE(FIGURES ", \"flops\": {\"int8\": 1}"), "/c/device", "'name'"},
        {DEVICE("\"name\": 7, " FIGURES ", \"flops\": {\"int8\": 1}"), "/c/device/name", "string"},
        {DEVICE("\"name\": \"1234567890123456789012345678901234567890123456789012345678901234\", " FIGURES
                ", \"flops\": {\"int8\": 1}"),
         "/c/device/name", "63"},
        {DEVICE("\"name\": \"d\", \"memory_bytes\": 1e9, \"flops\": {\"int8\": 1}"), "/c/device", "'memory_bandwidth'"},
        {DEVICE("\"name\": \"d\", \"memory_bytes\": -1, \"memory_bandwidth\": 1e9, \"flops\": {\"int8\": 1}"),
         "/c/device/memory_bytes", "bytes"},
        {DEVICE("\"name\": \"d\", \"memory_bytes\": 1e300, \"memory_bandwidth\": 1e9, \"flops\": {\"int8\": 1}"),
         "/c/device/memory_bytes", "bytes"},
        {DEVICE("\"name\": \"d\", " FIGURES), "/c/device", "'flops'"},
        {DEVICE("\"name\": \"d\", " FIGURES ", \"flops\": {}"), "/c/device/flops", "at least one"},
        {DEVICE("\"name\": \"d\", " FIGURES ", \"flops\": 1e12"), "/c/device/flops", "object"},
        {DEVICE("\"name\": \"d\", " FIGURES ", \"flops\": {\"fp16\": 1e12}"), "/c/device/flops/fp16", "float16"},
        {DEVICE("\"name\": \"d\", " FIGURES ", \"flops\": {\"float16\": 0}"), "/c/device/flops/float16", "FLOP"},
        {DEVICE("\"name\": \"d\", " FIGURES ", \"flops\": {\"int8\": 1}, \"link_bandwidth\": -1"),
         "/c/device/link_bandwidth", "bytes per second"},
        {DEVICE("\"name\": \"d\", " FIGURES ", \"flops\": {\"int8\": 1}, \"cores\": 1"), "/c/device/cores", "unknown"},
        {WITH("\"kind\": \"fpga\""), "/c/device/kind", "npu"},
        {WITH("\"kind\": 1"), "/c/device/kind", "gpu"},
        {WITH("\"units\": 0"), "/c/device/units", "integer"},
        {WITH("\"memory_reported_bytes\": 0"), "/c/device/memory_reported_bytes", "bytes"},
        {WITH("\"products\": []"), "/c/device/products", "object"},
        {WITH("\"products\": {\"fp16\": {}}"), "/c/device/products/fp16", "float32"},
        {WITH("\"products\": {\"int8\": 1}"), "/c/device/products/int8", "object"},
        {WITH("\"products\": {\"int8\": {\"share\": 1}}"), "/c/device/products/int8/share", "flops_share"},
        {WITH("\"products\": {\"int8\": {\"flops_share\": 0}}"), "/c/device/products/int8/flops_share", "share"},
        {WITH("\"products\": {\"int8\": {\"start_seconds\": 0}}"), "/c/device/products/int8/start_seconds", "seconds"},
        {WITH("\"attention\": {\"prefill\": {}}"), "/c/device/attention/prefill", "'start_seconds'"},
        {WITH("\"attention\": {\"encode\": {}}"), "/c/device/attention/encode", "prefill"},
        {WITH("\"attention\": {\"decode\": {\"start_seconds\": 1e-6, \"memory_share\": 1, \"half_queries\": 1}}"),
         "/c/device/attention/decode/half_queries", "tile_keys"},
        {WITH("\"other\": {\"memory_share\": 1}"), "/c/device/other", "'start_seconds'"},
        {WITH("\"narrowing\": {\"vllm\": {\"memory_share\": 1}}"), "/c/device/narrowing/vllm", "'start_seconds'"},
        {WITH("\"narrowing\": []"), "/c/device/narrowing", "object"},
        {WITH("\"residuals\": {\"all\": {}}"), "/c/device/residuals/all", "narrow_products"},
        {WITH("\"residuals\": {\"other\": {\"low\": 0.5}}"), "/c/device/residuals/other", "'high'"},
        {WITH("\"residuals\": {\"other\": {\"low\": 2, \"high\": 3}}"), "/c/device/residuals/other/low", "0.001 to 1"},
        {WITH("\"collectives\": 1"), "/c/device/collectives", "object"},
        {WITH("\"collectives\": {\"nccl\": {\"all-reduce\": {}}}"), "/c/device/collectives/nccl/all-reduce",
         "all_reduce"},
        {WITH("\"collectives\": {\"a/b\": {\"all_reduce\": {}}}"), "/c/device/collectives/a~1b/all_reduce",
         "'start_seconds'"},
        {WITH("\"collectives\": {\"nccl\": {\"all_reduce\": {\"start_seconds\": 1e-6, \"rank_seconds\": 0}}}"),
         "/c/device/collectives/nccl/all_reduce", "link_share"},
        {WITH("\"collectives\": {\"nccl\": {\"all_reduce\": {\"start_seconds\": 1e-6, \"rank_seconds\": 0, "
              "\"link_share\": {\"3\": 1}}}}"),
         "/c/device/collectives/nccl/all_reduce/link_share/3", "known are 2, 4, 8"},
        {WITH("\"measured\": {\"products\": 1}"), "/c/device/measured/products", "true"},
        {WITH("\"measured\": true"), "/c/device/measured", "object"},
        {WITH("\"price_per_hour\": {\"provider\": \"x\"}"), "/c/device/price_per_hour", "'usd'"},
        {WITH("\"price_per_hour\": 3"), "/c/device/price_per_hour", "object"},
        {WITH("\"sources\": [\"x\"]"), "/c/device/sources", "object"},
        {WITH("\"sources\": {\"flops.int8\": 1}"), "/c/device/sources/flops.int8", "string"},
        {GROUPS("[]"), "/c/mesh", "outermost"},
        {GROUPS("{}"), "/c/mesh", "outermost"},
        {GROUPS("[8]"), "/c/mesh/0", "object"},
        {LEVEL("\"size\": 8"), "/c/mesh/0", "'bandwidth'"},
        {LEVEL("\"bandwidth\": 8"), "/c/mesh/0", "'size'"},
        {LEVEL("\"size\": 8, \"bandwidth\": 0"), "/c/mesh/0/bandwidth", "bytes per second"},
        {LEVEL("\"size\": 8, \"bandwidth\": -3e9"), "/c/mesh/0/bandwidth", "bytes per second"},
        {LEVEL("\"size\": 8, \"bandwidth\": null"), "/c/mesh/0/bandwidth", "number"},
        {LEVEL("\"size\": 8, \"bandwidth\": 1e9, \"latency\": -1"), "/c/mesh/0/latency", "seconds"},
        {LEVEL("\"size\": 0, \"bandwidth\": 1e9"), "/c/mesh/0/size", "integer"},
        {LEVEL("\"size\": 4, \"bandwidth\": 1e9"), "/c/mesh", "multiply to 4"},
        {LEVEL("\"size\": 9, \"bandwidth\": 1e9"), "/c/mesh", "at least 9"},
        {LEVEL("\"size\": 8, \"bandwidth\": 1e9, \"width\": 1"), "/c/mesh/0/width", "unknown"},
        {GROUPS("[{\"size\": 65536, \"bandwidth\": 1}, {\"size\": 65536, \"bandwidth\": 1}, {\"size\": 65536,"
                "\"bandwidth\": 1}, {\"size\": 65536, \"bandwidth\": 1}]"),
         "/c/mesh", "8"},
        {GROUPS("[{\"name\": \"l\", \"size\": 2, \"bandwidth\": 1}, {\"name\": \"l\", \"size\": 4, \"bandwidth\": 1}]"),
         "/c/mesh/1", "same name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_cluster *cluster = NULL;
        size_t size = strlen(cases[i].where);
        cr_expect_eq(parse(cases[i].json, "/c", &cluster), SP_ERR_REQUEST, "%s", cases[i].json);
        cr_expect_null(cluster);
        if (size > 0 && cases[i].where[size - 1] == '/')
            cr_expect(strncmp(err.where, cases[i].where, size) == 0, "%s for %s", err.where, cases[i].json);
        else
            cr_expect_str_eq(err.where, cases[i].where, "%s for %s", err.where, cases[i].json);
        cr_expect(strstr(err.message, cases[i].mentions) != NULL, "%s for %s", err.message, cases[i].json);
    }
}

/* JSON has no NaN, but a caller may build one: jansson itself refuses, and so do we for a huge number. */
Test(cluster, not_a_number)
{
    struct sp_cluster *cluster = NULL;
    json_t *json = json_pack("{s:s, s:i, s:f}", "device", "tpu-v5e", "count", 2, "efficiency", 0.5);
    cr_assert_eq(json_real_set(json_object_get(json, "efficiency"), NAN), -1);
    cr_assert_eq(sp_cluster_parse(arena, json, "", &cluster, &err), SP_OK);
    json_decref(json);
    cr_assert_eq(sp_cluster_parse(arena, NULL, "", &cluster, &err), SP_ERR_REQUEST);
}

Test(cluster, too_many_groups)
{
    json_t *json = json_pack("{s:[]}", "groups"), *groups = json_object_get(json, "groups");
    struct sp_cluster *cluster = NULL;
    for (int i = 0; i < SP_MAX_DEVICE_GROUPS + 1; i++)
        json_array_append_new(groups, json_pack("{s:s, s:i}", "device", "t4-16gb", "count", 1));
    cr_assert_eq(sp_cluster_parse(arena, json, "", &cluster, &err), SP_ERR_REQUEST);
    cr_assert_str_eq(err.where, "/groups");
    json_array_remove(groups, 0);
    sp_error_clear(&err);
    cr_assert_eq(sp_cluster_parse(arena, json, "", &cluster, &err), SP_OK, "%s", err.message);
    cr_assert_eq(cluster->device_count, SP_MAX_DEVICE_GROUPS);
    json_decref(json);
}

/* ---- written and read again ------------------------------------------------------------------------------------ */

static char *written(const struct sp_cluster *cluster)
{
    struct sp_buf buf;
    struct sp_json json;
    char *text;
    sp_buf_init(&buf, 1 << 20);
    sp_json_init_buf(&json, false, &buf);
    sp_cluster_write(cluster, &json);
    cr_assert_eq(sp_json_finish(&json, &err), SP_OK);
    text = sp_arena_string(arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

static void assert_same(const struct sp_cluster *a, const struct sp_cluster *b)
{
    cr_assert_eq(a->device_count, b->device_count);
    cr_assert_eq(a->group_count, b->group_count);
    cr_assert_eq(a->level_count, b->level_count);
    cr_assert_eq(a->memory_limit_bytes, b->memory_limit_bytes);
    cr_assert_eq(a->efficiency, b->efficiency);
    cr_assert_eq(a->launch_seconds, b->launch_seconds);
    cr_assert_arr_eq(a->group_of, b->group_of, a->device_count * sizeof *a->group_of);
    for (uint32_t i = 0; i < a->group_count; i++) {
        const struct sp_device *x = &a->groups[i].device, *y = &b->groups[i].device;
        cr_assert_str_eq(a->groups[i].name, b->groups[i].name);
        cr_assert_eq(a->groups[i].count, b->groups[i].count);
        cr_assert_str_eq(x->name, y->name);
        cr_assert_str_eq(x->source, y->source);
        cr_assert_eq(x->memory_bytes, y->memory_bytes);
        cr_assert_eq(x->memory_bandwidth, y->memory_bandwidth);
        cr_assert_arr_eq(x->flops, y->flops, sizeof x->flops);
        cr_assert_eq(x->link_bandwidth, y->link_bandwidth);
        cr_assert_eq(x->link_latency, y->link_latency);
        cr_assert_eq(x->host_bandwidth, y->host_bandwidth);
        cr_assert_eq(x->watts, y->watts);
        cr_assert_eq(x->permuted_bandwidth, y->permuted_bandwidth);
        cr_assert_eq(x->functions_per_second, y->functions_per_second);
        cr_assert_eq(x->unhidden, y->unhidden);
    }
    for (uint32_t i = 0; i < a->level_count; i++) {
        cr_assert_str_eq(a->levels[i].name, b->levels[i].name);
        cr_assert_eq(a->levels[i].size, b->levels[i].size);
        cr_assert_eq(a->levels[i].bandwidth, b->levels[i].bandwidth);
        cr_assert_eq(a->levels[i].latency, b->levels[i].latency);
    }
}

Test(cluster, reading_what_was_written_gives_the_same)
{
    static const char *const texts[] = {
        "{\"device\": \"h100-sxm-80gb\", \"count\": 8}",
        FULL,
        "{\"groups\": [{\"count\": 3, \"device\": \"t4-16gb\"}, {\"count\": 5, \"device\": \"l4-24gb\"}]}",
        "{\"count\": 1, \"device\": {\"name\": \"d\", \"memory_bytes\": 1, \"memory_bandwidth\": 2,"
        " \"flops\": {\"int8\": 3}}}",
        "{\"device\": \"cpu-core\", \"count\": 2}",
        "{\"count\": 1, \"device\": {\"name\": \"d\", \"memory_bytes\": 1, \"memory_bandwidth\": 2,"
        " \"permuted_bandwidth\": 1.5, \"functions_per_second\": 4, \"unhidden\": 0.5, \"flops\": {\"int8\": 3}}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct sp_cluster *cluster = cluster_from(arena, texts[i]);
        for (uint32_t count = 1; count <= cluster->device_count; count++) {
            struct sp_cluster *prefix = sp_cluster_prefix(arena, cluster, count);
            assert_same(prefix, cluster_from(arena, written(prefix)));
        }
        assert_same(cluster, cluster_from(arena, written(cluster)));
    }
}
