#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "Usage: shardplan reshard --shape DIMS [--dtype T] --from SPEC --to SPEC [OPTIONS]\n"
    "\n"
    "The steps that turn one sharding of a tensor into another in the least time, with bytes, time and memory.\n"
    "SPEC '-' is standard input; 'shardplan convert --help' tells the notations.\n"
    "\n"
    "  --shape DIMS         the tensor's shape, like 1024,512\n"
    "  --dtype T            its element type; float32 when not given\n"
    "  --from SPEC          the sharding that there is\n"
    "  --to SPEC            the sharding that is wanted\n"
    "  --from-format F      its notation: onnx, ort, op-sharding, hlo, shardy; recognised when not given\n"
    "  --to-format F        the same for the other one\n"
    "  --mesh TEXT          the mesh of specs that name none: <[\"x\"=2]>\n"
    "  --cluster FILE       devices and links as JSON; '-' is standard input\n"
    "  --device TYPE        a type of 'shardplan devices' or a FILE.json; h100-sxm-80gb when not given\n"
    "  --devices N          that many of them; as many as the shardings name when not given\n"
    "  --memory-limit BYTES no device may hold more than that on the way\n"
    "  --json               for machines\n"
    "  --server URL         ask a daemon (or the variable SHARDPLAN_SERVER)\n";

static enum sp_status put_cluster_file(json_t *request, const char *path, struct sp_error *err)
{
    json_t *cluster = NULL;
    enum sp_status status = load_cluster(path, &cluster, err);
    if (status != SP_OK)
        json_decref(cluster);
    else if (json_object_set_new(request, "cluster", cluster) != 0)
        status = sp_fail_memory(err);
    return status;
}

/* A type and a number are the short form of a cluster; a number alone is left to the library. */
static enum sp_status put_device(json_t *request, const char *device, struct sp_error *err)
{
    json_t *count = json_object_get(request, "devices");
    json_t *cluster = json_pack("{s:s, s:O}", "device", device, "count", count);
    if (cluster == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "NOT_TEXT", "The type of the device is not UTF-8 text.");
    if (json_object_set_new(request, "cluster", cluster) != 0)
        return sp_fail_memory(err);
    return fill_in_devices(cluster, ".", err);
}

static int ask(int argc, char **argv, const struct common *common, json_t *request, const char *device,
               const char *cluster)
{
    struct sp_error err = {0};
    enum sp_status status = SP_OK;
    if (optind != argc)
        return report_usage(common, "'reshard' takes no argument, but found '%.64s'.", argv[optind]);
    for (int i = 0; i < 3; i++) {
        static const char *const required[] = {"shape", "from", "to"};
        if (json_object_get(request, required[i]) == NULL)
            return report_usage(common, "--%s is missing.", required[i]);
    }
    if (cluster != NULL && device != NULL)
        return report_usage(common, "--cluster already names the devices: leave out --device.");
    if (device != NULL && json_object_get(request, "devices") == NULL)
        return report_usage(common, "--device needs --devices N: how many of them.");
    if (cluster != NULL)
        status = put_cluster_file(request, cluster, &err);
    else if (device != NULL)
        status = put_device(request, device, &err);
    return status == SP_OK ? answer_sharding(common, true, request) : report_error(common, &err, NULL);
}

/* Three things may be read from standard input, but only one of them. */
static bool asks_twice(const char *from, const char *to, const char *cluster)
{
    return is_dash(from) + is_dash(to) + is_dash(cluster) > 1;
}

int cmd_reshard(int argc, char **argv, struct common *common)
{
    const char *from = NULL, *to = NULL, *device = NULL, *cluster = NULL;
    const struct member_option options[] = {
        {"shape", "shape", MEMBER_SHAPE, 0, NULL},
        {"dtype", "dtype", MEMBER_TEXT, 0, NULL},
        {"from", NULL, MEMBER_LOCAL, 0, &from},
        {"to", NULL, MEMBER_LOCAL, 0, &to},
        {"from-format", "from_dialect", MEMBER_TEXT, 0, NULL},
        {"to-format", "to_dialect", MEMBER_TEXT, 0, NULL},
        {"mesh", "mesh", MEMBER_TEXT, 0, NULL},
        {"cluster", NULL, MEMBER_LOCAL, 0, &cluster},
        {"device", NULL, MEMBER_LOCAL, 0, &device},
        {"devices", "devices", MEMBER_COUNT, 1, NULL},
        {"memory-limit", "memory_limit_bytes", MEMBER_BYTES, 0, NULL},
    };
    struct sp_error err = {0};
    bool wants_help = false;
    json_t *request = json_object();
    if (request == NULL) {
        (void)sp_fail_memory(&err);
        return report_error(common, &err, NULL);
    }
    int code = parse_members(common, argc, argv, &OPTIONS_AND_HELP(options, help), request, &wants_help);
    if (code == EXIT_DONE && !wants_help && asks_twice(from, to, cluster)) {
        code = report_usage(common, "Only one of --from, --to and --cluster can come from standard input.");
    } else if (code == EXIT_DONE && !wants_help) {
        if ((from != NULL && put_spec(request, "from", from, &err) != SP_OK) ||
            (to != NULL && put_spec(request, "to", to, &err) != SP_OK))
            code = report_error(common, &err, NULL);
        else
            code = ask(argc, argv, common, request, device, cluster);
    }
    json_decref(request);
    return code;
}
