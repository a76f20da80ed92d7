#include <getopt.h>
#include <stdio.h>

#include "cli.h"

static const char help[] =
    "Usage: shardplan convert --to FORMAT [--from FORMAT] SPEC [OPTIONS]\n"
    "\n"
    "Writes one sharding in another notation. SPEC '-' is standard input.\n"
    "\n"
    "  onnx           ShardingSpecProto as JSON: {\"device\": [0, 1], \"shardedDim\": [..]}\n"
    "  ort            ONNX Runtime: S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]\n"
    "  op-sharding    XLA's OpSharding bytes: \"\\08\\03\\1A..\" or hexadecimal\n"
    "  hlo            XLA's text: {devices=[2,1]0,1}\n"
    "  shardy         sdy.mesh @mesh = <[\"x\"=2]> and #sdy.sharding<@mesh, [{\"x\"}, {}]>\n"
    "\n"
    "  --from FORMAT      the notation of SPEC; recognised when not given\n"
    "  --to FORMAT        the notation that is wanted\n"
    "  --shape DIMS       the tensor's shape, like 2,2; '?' for an extent that is not known\n"
    "  --rank N           the number of its axes, where the notation does not say it\n"
    "  --devices N        the number of devices, where it matters: {replicated} names none\n"
    "  --mesh TEXT        the mesh of a spec that names none, and of what is written: <[\"x\"=2]>, or\n"
    "                     'device_mesh_shape=[2] device_mesh_elements=[0,1]'\n"
    "  --hlo-version N    1 lists devices, 2 computes them (<=[8]), 3 names axes\n"
    "  --tensor NAME      the tensor_name in onnx\n"
    "  --holdings         what each device holds; needs --shape\n"
    "  --json             for machines\n"
    "  --server URL       ask a daemon (or the variable SHARDPLAN_SERVER)\n"
    "\n"
    "The sharding alone goes to standard output; what the other notation cannot say is a note.\n";

static const struct member_option options[] = {
    {"from", "from", MEMBER_TEXT, 0, NULL},
    {"to", "to", MEMBER_TEXT, 0, NULL},
    {"shape", "shape", MEMBER_SHAPE, 0, NULL},
    {"rank", "rank", MEMBER_COUNT, 0, NULL},
    {"devices", "devices", MEMBER_COUNT, 1, NULL},
    {"mesh", "mesh", MEMBER_TEXT, 0, NULL},
    {"hlo-version", "hlo_version", MEMBER_COUNT, 1, NULL},
    {"tensor", "tensor_name", MEMBER_TEXT, 0, NULL},
    {"holdings", "holdings", MEMBER_FLAG, 0, NULL},
};

static int ask(int argc, char **argv, const struct common *common, json_t *request)
{
    struct sp_error err = {0};
    if (optind + 1 != argc)
        return report_usage(common, optind == argc ? "The sharding is missing." : "There is more than one sharding.");
    if (json_object_get(request, "to") == NULL)
        return report_usage(common, "The wanted notation is missing: --to onnx, ort, op-sharding, hlo or shardy.");
    if (put_spec(request, "spec", argv[optind], &err) != SP_OK)
        return report_error(common, &err, NULL);
    return answer_sharding(common, false, request);
}

int cmd_convert(int argc, char **argv, struct common *common)
{
    struct sp_error err = {0};
    bool wants_help = false;
    json_t *request = json_object();
    if (request == NULL) {
        (void)sp_fail_memory(&err);
        return report_error(common, &err, NULL);
    }
    int code = parse_members(common, argc, argv, &OPTIONS_AND_HELP(options, help), request, &wants_help);
    if (code == EXIT_DONE && !wants_help)
        code = ask(argc, argv, common, request);
    json_decref(request);
    return code;
}
