#include <getopt.h>
#include <stdio.h>

#include "cli.h"

static const char help[] =
    "Usage: shardplan inspect MODEL [OPTIONS]\n"
    "\n"
    "Says what an ONNX model is: operators, parameters, FLOPs, inputs, outputs, configurations. Weights are not read,\n"
    "and files with external data need not be there.\n"
    "\n"
    "  --values         the inferred type and shape of every value\n"
    "  --dim NAME=N     bind a symbolic dimension; may be repeated\n"
    "  --json           for machines\n"
    "  --server URL     ask a daemon (or the variable SHARDPLAN_SERVER)\n";

static int run_local(const struct common *common, struct input *input, bool values, const struct dims *dims)
{
    struct progress progress;
    struct sp_error err = {0};
    struct sp_job *job = NULL;
    progress_init(&progress, 0);
    const struct sp_job_options options = {
        .bytes = input->bytes, .size = input->size, .name = input->name, .watch = &progress.watch};
    enum sp_status status = sp_job_open(&options, dims->count, dims->names, dims->values, &job, &err);
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
    sp_job_destroy(job);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}

int cmd_inspect(int argc, char **argv, struct common *common)
{
    enum { OPT_HELP = 256, OPT_JSON, OPT_VALUES, OPT_DIM };
    static const struct option options[] = {
        {"help", no_argument, NULL, OPT_HELP},     {"json", no_argument, NULL, OPT_JSON},     SERVER_OPTIONS,
        {"values", no_argument, NULL, OPT_VALUES}, {"dim", required_argument, NULL, OPT_DIM}, {NULL, 0, NULL, 0},
    };
    struct dims dims = {0};
    struct input input = {.fd = -1};
    struct sp_error err = {0};
    bool values = false;
    int code, option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case 'h':
        case OPT_HELP:
            (void)fputs(help, stdout);
            code = finish_stdout(&err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
            goto out;
        case OPT_JSON:
            break;
        case OPT_VALUES:
            values = true;
            break;
        case OPT_DIM:
            if (!dims_add(&dims, optarg)) {
                code = report_usage(common, "--dim takes NAME=N with N of 1 or more, not '%.80s'.", optarg);
                goto out;
            }
            break;
        default:
            if (take_server_option(common, option, optarg))
                break;
            code = report_bad_option(common, option, argv[optind - 1]);
            goto out;
        }
    }
    if (optind + 1 != argc) {
        code = report_usage(common, optind == argc ? "The model is missing." : "There is more than one model.");
        goto out;
    }
    code = complete_server_options(common);
    if (code != EXIT_DONE)
        goto out;
    if (input_open(argv[optind], &input, &err) != SP_OK)
        code = report_error(common, &err, NULL);
    else if (common->server != NULL)
        code = remote_inspect(common, &input, values, &dims);
    else
        code = run_local(common, &input, values, &dims);
out:
    input_close(&input);
    dims_release(&dims);
    return code;
}
