#include <getopt.h>
#include <stdio.h>

#include "cli.h"
#include "cost/cluster/cluster.h"
#include "cost/cluster/nvidia_topology.h"

#define TOPOLOGY_BYTES ((size_t)1 << 20)

static const char help[] =
    "Usage: shardplan cluster --from-nvidia-smi FILE --device TYPE [-o OUT]\n"
    "\n"
    "Writes a cluster's JSON, for --cluster, from what 'nvidia-smi topo -m' prints.\n"
    "\n"
    "  --from-nvidia-smi FILE  the text as it is; '-' is standard input\n"
    "  --device TYPE           what the GPUs are, which the text does not say; 'shardplan devices' lists the types\n"
    "  -o, --output OUT        where to write; standard output if it is not given\n"
    "  --json                  changes nothing: the answer is JSON\n"
    "  --server URL            changes nothing: all that it takes is in the file, so it is done here\n";

static enum sp_status describe(const char *file, const char *type, const char *path, struct sp_error *err)
{
    const struct sp_device *device = sp_device_find(type);
    struct sp_arena *arena = sp_arena_create(NULL);
    struct output output = {.fd = -1};
    struct sp_buf text, made;
    struct sp_json json;
    sp_buf_init(&made, TOPOLOGY_BYTES);
    sp_json_init_buf(&json, true, &made);
    enum sp_status status = read_small_file(file, TOPOLOGY_BYTES, "TOPOLOGY_BYTES", &text, err);
    if (status == SP_OK && arena == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK && device == NULL)
        status = sp_cluster_unknown_device(type, err);
    if (status == SP_OK)
        status = sp_cluster_from_topology(arena, text.size > 0 ? text.data : "", text.size, device, &json, err);
    if (status == SP_OK)
        status = sp_json_finish(&json, err);
    if (status == SP_OK)
        status = output_open(path, NULL, &output, err);
    if (status == SP_OK && (!output_write(&output, made.data, made.size) || !output_write(&output, "\n", 1)))
        status = sp_fail(err, SP_ERR_IO, "WRITE_FAILED", "Writing the cluster failed.");
    if (status == SP_OK)
        status = output_commit(&output, err);
    output_close(&output);
    sp_buf_release(&made);
    sp_buf_release(&text);
    sp_arena_destroy(arena);
    return status;
}

int cmd_cluster(int argc, char **argv, struct common *common)
{
    enum { OPT_HELP = 256, OPT_JSON, OPT_FROM, OPT_DEVICE };
    static const struct option options[] = {
        {"help", no_argument, NULL, OPT_HELP},
        {"json", no_argument, NULL, OPT_JSON},
        SERVER_OPTIONS,
        {"from-nvidia-smi", required_argument, NULL, OPT_FROM},
        {"device", required_argument, NULL, OPT_DEVICE},
        {"output", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0},
    };
    struct sp_error err = {0};
    const char *file = NULL, *type = NULL, *path = "-";
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
        switch (option) {
        case 'h':
        case OPT_HELP:
            (void)fputs(help, stdout);
            return finish_stdout(&err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
        case OPT_JSON:
            break;
        case OPT_FROM:
            file = optarg;
            break;
        case OPT_DEVICE:
            type = optarg;
            break;
        case 'o':
            path = optarg;
            break;
        default:
            if (!take_server_option(common, option, optarg))
                return report_bad_option(common, option, argv[optind - 1]);
        }
    }
    if (optind != argc)
        return report_usage(common, "The command takes options only: --from-nvidia-smi FILE and --device TYPE.");
    if (file == NULL)
        return report_usage(common, "The text of 'nvidia-smi topo -m' is missing: --from-nvidia-smi FILE.");
    if (type == NULL)
        return report_usage(common, "The type of the GPUs is missing, which the text does not say: --device TYPE.");
    return describe(file, type, path, &err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}
