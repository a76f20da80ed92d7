#include <criterion/criterion.h>

#include "onnx_bytes.h"
#include "plan/job.h"

/* One planned model and what it says of what it assumes. */
struct planned {
    struct sp_buf file;
    struct sp_arena *arena;
    struct sp_job *job;
    struct sp_plan *plan;
    json_t *json;
};

static void make(struct planned *p, const char *cluster_text)
{
    static const struct onnx_mlp model = {.layers = 4, .width = 1024, .batch = "64"};
    struct sp_plan_options options;
    struct sp_cluster *cluster;
    struct sp_error err = {0};
    struct sp_buf text;
    struct sp_json json;
    json_error_t where;
    json_t *description = json_loads(cluster_text, 0, &where);

    memset(p, 0, sizeof *p);
    cr_assert_not_null(description, "%s", where.text);
    onnx_mlp(&p->file, &model);
    p->arena = sp_arena_create(NULL);
    cr_assert_eq(sp_cluster_parse(p->arena, description, "", &cluster, &err), SP_OK, "%s", err.message);
    json_decref(description);
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    const struct sp_job_options job = {.bytes = p->file.data, .size = p->file.size, .name = "mlp.onnx"};
    cr_assert_eq(sp_job_plan(&job, cluster, &options, &p->job, &p->plan, &err), SP_OK, "%s", err.message);
    sp_buf_init(&text, (size_t)1 << 26);
    sp_json_init_buf(&json, false, &text);
    sp_plan_write_json(p->plan, 0.25, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    p->json = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &where);
    cr_assert_not_null(p->json, "%s", where.text);
    sp_buf_release(&text);
}

static void release(struct planned *p)
{
    json_decref(p->json);
    sp_job_destroy(p->job);
    sp_arena_destroy(p->arena);
    sp_buf_release(&p->file);
}

/* What is assumed of a device's member (of the cluster's: NULL); "" where nothing is. */
static const char *assumed(const struct planned *p, const char *device, const char *member)
{
    json_t *entry;
    size_t i;
    json_array_foreach(json_object_get(p->json, "assumptions"), i, entry)
    {
        const char *of = json_string_value(json_object_get(entry, "device"));
        if ((of == NULL) == (device == NULL) && (of == NULL || strcmp(of, device) == 0) &&
            strcmp(json_string_value(json_object_get(entry, "member")), member) == 0)
            return json_string_value(json_object_get(entry, "text"));
    }
    return "";
}

/* The warning about links, or "". */
static const char *warned(const struct planned *p)
{
    for (uint32_t i = 0; i < p->plan->note_count; i++) {
        if (strcmp(p->plan->notes[i].code, "LINKS_ASSUMED") == 0) {
            cr_expect_str_eq(p->plan->notes[i].severity, "warning");
            return p->plan->notes[i].message;
        }
    }
    return "";
}

#define EXPECT_SAYS(text, part) cr_expect_not_null(strstr(text, part), "'%s' does not say '%s'", text, part)

/* The figures are those of api/devices/h100-sxm-80gb.json and core/cost/kernels/runtime.c. */
Test(assumptions, of_a_measured_device)
{
    static const char h100[] = "h100-sxm-80gb";
    struct planned p;
    make(&p, "{\"device\": \"h100-sxm-80gb\", \"count\": 8}");
    EXPECT_SAYS(assumed(&p, h100, "runtime"), "onnxruntime, the default, runs the model and takes 720.0 MB");
    EXPECT_SAYS(assumed(&p, h100, "efficiency"), "float32 products reach 78.3 % of peak and 82 % of memory bandwidth, "
                                                 "as in the nearest type with figures");
    EXPECT_SAYS(assumed(&p, h100, "launch_seconds"), "a kernel takes 3.80 us to start");
    cr_expect_str_eq(assumed(&p, h100, "device.flops_tf32"),
                     "float32 products use TF32, as is the default of onnxruntime");
    cr_expect_str_eq(assumed(&p, h100, "device"),
                     "peaks of data sheets; measured: products, attention, other kernels, collectives");
    EXPECT_SAYS(assumed(&p, NULL, "mesh"), "450.0 GB/s and 2.00 us a message");
    cr_expect_str_eq(warned(&p), "");
    release(&p);
    make(&p, "{\"device\": \"h100-sxm-80gb\", \"count\": 1, \"runtime\": \"vllm\"}");
    cr_expect_str_eq(assumed(&p, h100, "device.flops.float32"), "float32 products do not use TF32");
    release(&p);
}

Test(assumptions, of_what_a_cluster_states)
{
    struct planned p;
    make(&p, "{\"device\": \"h100-sxm-80gb\", \"count\": 2, \"runtime\": \"tensorrt\", \"efficiency\": 0.5, "
             "\"launch_seconds\": 9e-6, \"mesh\": [{\"name\": \"gpu\", \"size\": 2, \"bandwidth\": 1e11}]}");
    EXPECT_SAYS(assumed(&p, "h100-sxm-80gb", "runtime"), "tensorrt runs the model");
    EXPECT_SAYS(assumed(&p, "h100-sxm-80gb", "efficiency"),
                "50 % of peak and 50 % of memory bandwidth, as the cluster");
    EXPECT_SAYS(assumed(&p, "h100-sxm-80gb", "launch_seconds"), "9.00 us to start");
    cr_expect_str_eq(assumed(&p, NULL, "mesh"), "", "the cluster states its links");
    release(&p);
}

#define MINE                                                                                                           \
    "\"name\": \"mine\", \"memory_bytes\": 48e9, \"memory_bandwidth\": 9e11, \"flops\": {\"float32\": 4e13}, "         \
    "\"link_bandwidth\": 5e10"

/* Whoever wants TF32 with any runtime describes the device with that peak. */
Test(assumptions, of_described_devices)
{
    struct planned p;
    make(&p, "{\"device\": {" MINE "}, \"count\": 1}");
    EXPECT_SAYS(assumed(&p, "mine", "runtime"), "each operator as a kernel of its own");
    EXPECT_SAYS(assumed(&p, "mine", "efficiency"), "70 % of peak");
    cr_expect_str_eq(assumed(&p, "mine", "device"), "described by the user");
    cr_expect_str_eq(assumed(&p, NULL, "mesh"), "", "one device has no links");
    release(&p);
    make(&p, "{\"device\": {" MINE ", \"kind\": \"gpu\", \"flops_tf32\": 4e13, "
             "\"source\": \"calibrated: ONNX Runtime 1.30, 2026-11-26\", \"other\": {\"start_seconds\": 2e-6, "
             "\"memory_share\": 0.8}, \"measured\": {\"other\": true}}, \"count\": 1}");
    cr_expect_str_eq(assumed(&p, "mine", "device"),
                     "calibrated: ONNX Runtime 1.30, 2026-11-26; measured: other kernels; "
                     "defaults of the kind gpu: products, attention");
    cr_expect_str_eq(assumed(&p, "mine", "device.flops.float32"), "float32 products use TF32");
    release(&p);
    make(&p, "{\"device\": {" MINE ", \"kind\": \"gpu\", \"flops_tf32\": 8e13, \"products\": {\"float32\": "
             "{\"start_seconds\": 2e-6, \"flops_share\": 1.2, \"memory_share\": 0.8}}}, \"count\": 1}");
    cr_expect_str_eq(assumed(&p, "mine", "device.flops.float32"),
                     "float32 products with TF32 or not as they were measured");
    release(&p);
}

/* PCI Express of the L4 (api/devices/l4-24gb.json) is the slowest of the links. */
Test(assumptions, links_between_types)
{
    struct planned p;
    make(&p, "{\"groups\": [{\"device\": \"h100-sxm-80gb\", \"count\": 2}, {\"device\": \"l4-24gb\", \"count\": 2}]}");
    EXPECT_SAYS(warned(&p),
                "32.0 GB/s and 5.00 us a message between any two devices, as the host link of l4-24gb has.");
    EXPECT_SAYS(assumed(&p, "l4-24gb", "device"), "defaults of the kind gpu: products, attention, other kernels");
    release(&p);
    make(&p, "{\"groups\": [{\"device\": \"h100-sxm-80gb\", \"count\": 2}, {\"device\": \"l4-24gb\", \"count\": 2}], "
             "\"mesh\": [{\"size\": 4, \"bandwidth\": 1e10}]}");
    cr_expect_str_eq(warned(&p), "");
    release(&p);
}

/* NVLink joins the eight devices of a server. */
Test(assumptions, links_beyond_a_server)
{
    struct planned p;
    make(&p, "{\"device\": \"h100-sxm-80gb\", \"count\": 16}");
    EXPECT_SAYS(warned(&p), "That link joins 8 devices, and the cluster has 16.");
    release(&p);
}
