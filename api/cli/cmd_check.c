#include <stdio.h>

#include "cli.h"
#include "cost/cluster/cluster.h"
#include "plan/check.h"

static const char help[] =
    "Usage: shardplan check MODEL [OPTIONS]\n"
    "\n"
    "Says whether a model and its multi-device annotations are sound, and what communication they imply. What\n"
    "each code means is in api/diagnostics.md. The exit status is 1 when there is an error.\n"
    "\n"
    "  --configuration NAME   check the annotations of this configuration only\n"
    "  --device TYPE          the type of the devices, or a FILE.json with its figures: says what does not fit into "
    "its\n"
    "                         memory ('shardplan devices' lists the types)\n"
    "  --memory BYTES         the same with a number of bytes, like 80e9\n"
    "  --placement-file FILE  check where a file of another tool puts the nodes, too: Qualcomm's partition\n"
    "                         configuration, ONNX Runtime's layer assignment, PopRT's YAML, GenAI's\n"
    "                         genai_config.json, Polygraphy's hints\n" SIZE_HELP
    "  --json                 for machines\n"
    "  --server URL           ask a daemon (or the variable SHARDPLAN_SERVER)\n";

/* A device that is a file becomes the bytes of its memory, which are all that a check wants of it. */
static enum sp_status fill_in_memory(json_t *request, struct sp_error *err)
{
    json_t *name = json_object_get(request, "device");
    json_t *cluster = json_pack("{s:O*, s:i}", "device", name, "count", 1);
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_cluster *parsed = NULL;
    enum sp_status status = arena != NULL && cluster != NULL ? fill_in_devices(cluster, ".", err) : sp_fail_memory(err);
    if (status == SP_OK && json_is_object(json_object_get(cluster, "device"))) {
        status = sp_cluster_parse(arena, cluster, "", &parsed, err);
        if (status == SP_OK && json_object_get(request, "memory_bytes") == NULL &&
            json_object_set_new(request, "memory_bytes", json_real(parsed->groups[0].device.memory_bytes)) != 0)
            status = sp_fail_memory(err);
        if (status == SP_OK)
            (void)json_object_del(request, "device");
    }
    json_decref(cluster);
    sp_arena_destroy(arena);
    return status;
}

static int run_local(const struct common *common, const struct input *input, const json_t *request)
{
    struct progress progress;
    struct sp_error err = {0};
    struct sp_check_answer *answer = NULL;
    progress_init(&progress, 0);
    const struct sp_job_options options = {
        .bytes = input->bytes, .size = input->size, .name = input->name, .watch = &progress.watch};
    enum sp_status status = sp_check_answer_create(&options, request, &answer, &err);
    progress_clear(&progress);
    if (status == SP_OK)
        status = sources_look(input, sp_check_answer_model(answer), &err);
    if (status == SP_OK && common->json) {
        struct sp_json json;
        sp_json_init(&json, false, write_stdout, NULL);
        sp_check_answer_json(answer, &json);
        (void)sp_json_finish(&json, NULL);
        (void)write_stdout(NULL, "\n", 1);
        status = finish_stdout(&err);
    } else if (status == SP_OK) {
        struct sp_buf text;
        sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
        sp_check_answer_text(answer, &text);
        status = print_buf(&text, &err);
        sp_buf_release(&text);
    }
    int code = status != SP_OK                    ? report_error(common, &err, NULL)
               : sp_check_answer_is_valid(answer) ? EXIT_DONE
                                                  : EXIT_MODEL;
    sp_check_answer_destroy(answer);
    return code;
}

int cmd_check(int argc, char **argv, struct common *common)
{
    static const struct member_option options[] = {
        {"configuration", "configuration", MEMBER_TEXT, 0, NULL},
        {"device", "device", MEMBER_TEXT, 0, NULL},
        {"memory", "memory_bytes", MEMBER_BYTES, 0, NULL},
        {"placement-file", NULL, MEMBER_EACH, 0, NULL, put_placement},
        SIZE_OPTIONS,
    };
    struct sp_error err = {0};
    struct input input = {.fd = -1};
    bool wants_help = false;
    json_t *request = json_object();
    if (request == NULL) {
        (void)sp_fail_memory(&err);
        return report_error(common, &err, NULL);
    }
    int code = parse_members(common, argc, argv, &OPTIONS_AND_HELP(options, help), request, &wants_help);
    if (code != EXIT_DONE || wants_help)
        goto out;
    if (optind + 1 != argc)
        code = report_usage(common, optind == argc ? "The model is missing." : "There is more than one model.");
    else if (common->server != NULL && json_object_get(request, "placement") != NULL)
        code = report_usage(common, "--placement-file is not sent to a daemon: leave out --server, or ask for "
                                    "/v1/models/ID/check with the member \"placement\".");
    else if (fill_in_memory(request, &err) != SP_OK || input_open(argv[optind], &input, &err) != SP_OK ||
             put_config_beside(request, argv[optind], &err) != SP_OK)
        code = report_error(common, &err, NULL);
    else
        code = common->server != NULL ? remote_check(common, &input, request) : run_local(common, &input, request);
out:
    input_close(&input);
    json_decref(request);
    return code;
}
