#include <stdio.h>

#include "cli.h"

static const char help[] =
    "Usage: shardplan inspect MODEL [OPTIONS]\n"
    "\n"
    "Says what an ONNX model is: operators, parameters, FLOPs, inputs, outputs, configurations. Weights are not read,\n"
    "and files with external data need not be there.\n"
    "\n"
    "  --values         the inferred type and shape of every value\n" SIZE_HELP "  --json           for machines\n"
    "  --server URL     ask a daemon (or the variable SHARDPLAN_SERVER)\n";

static int run_local(const struct common *common, struct input *input, bool values, const json_t *request)
{
    struct progress progress;
    struct sp_error err = {0};
    struct sp_job *job = NULL;
    progress_init(&progress, 0);
    struct sp_sizes sizes = {0};
    struct sp_arena *arena = sp_arena_create(NULL);
    const struct sp_job_options options = {
        .bytes = input->bytes, .size = input->size, .name = input->name, .watch = &progress.watch, .sizes = &sizes};
    enum sp_status status = arena != NULL ? sp_sizes_parse(arena, request, "", &sizes, &err) : sp_fail_memory(&err);
    if (status == SP_OK)
        status = sp_job_open(&options, &job, &err);
    progress_clear(&progress);
    if (status == SP_OK && common->json) {
        struct sp_json json;
        sp_json_init(&json, false, write_stdout, NULL);
        status = sp_job_inspect_json(job, values, &json, &err);
        if (status == SP_OK) {
            (void)sp_json_finish(&json, NULL);
            (void)write_stdout(NULL, "\n", 1);
            status = finish_stdout(&err);
        }
    } else if (status == SP_OK) {
        struct sp_buf text;
        sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
        status = sp_job_inspect_text(job, values, &text, &err);
        if (status == SP_OK)
            status = print_buf(&text, &err);
        sp_buf_release(&text);
    }
    if (status == SP_OK && sources_look(input, sp_job_model(job), &err) != SP_OK)
        print_note("%s", err.message);
    sp_job_destroy(job);
    sp_arena_destroy(arena);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}

int cmd_inspect(int argc, char **argv, struct common *common)
{
    static const struct member_option options[] = {{"values", "list", MEMBER_FLAG, 0, NULL, NULL}, SIZE_OPTIONS};
    struct sp_error err = {0};
    struct input input = {.fd = -1};
    bool wants_help = false;
    json_t *request = json_object();
    if (request == NULL) {
        (void)sp_fail_memory(&err);
        return report_error(common, &err, NULL);
    }
    int code = parse_members(common, argc, argv, &OPTIONS_AND_HELP(options, help), request, &wants_help);
    const bool values = json_object_get(request, "list") != NULL;
    (void)json_object_del(request, "list");
    if (code != EXIT_DONE || wants_help)
        goto out;
    if (optind + 1 != argc)
        code = report_usage(common, optind == argc ? "The model is missing." : "There is more than one model.");
    else if (input_open(argv[optind], &input, &err) != SP_OK || put_config_beside(request, argv[optind], &err) != SP_OK)
        code = report_error(common, &err, NULL);
    else if (common->server != NULL)
        code = remote_inspect(common, &input, values, request);
    else
        code = run_local(common, &input, values, request);
out:
    input_close(&input);
    json_decref(request);
    return code;
}
