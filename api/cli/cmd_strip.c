#include <getopt.h>
#include <stdio.h>

#include "cli.h"
#include "onnx/reader.h"
#include "onnx/writer.h"
#include "plan/model_file.h"

static const char help[] =
    "Usage: shardplan strip MODEL -o OUT [--json]\n"
    "\n"
    "Takes the multi-device annotations off a model. What 'shardplan plan' annotated comes back byte for byte.\n"
    "\n"
    "  -o, --output OUT   where to write the model; '-' is standard output\n"
    "  --json             for machines\n"
    "  --server URL       changes nothing: all that it takes is in the file, so it is done here\n";

/* Reads, strips and writes; the file appears only when it is complete. */
static enum sp_status strip(const struct input *input, const char *path, uint64_t *ret_size, struct sp_error *err)
{
    struct sp_budget budget = {.limit = SP_DEFAULT_JOB_BYTES};
    struct output output = {.fd = -1};
    struct sp_splice *splice = NULL;
    struct sp_model_file file = {0};
    struct sp_model *model;
    struct sp_arena *arena = sp_arena_create(&budget);
    if (arena == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_model_file_open(&budget, input->bytes, input->size, NULL, &file, err);
    if (status == SP_OK)
        status = sp_onnx_read(arena, file.bytes, file.size, NULL, &model, err);
    if (status == SP_OK)
        status = sp_onnx_strip(model, &splice, err);
    if (status == SP_OK)
        status = sp_model_file_splice(&file, &splice, err);
    if (status == SP_OK)
        status = output_open(path, input, &output, err);
    if (status == SP_OK)
        status = output_splice(&output, splice, err);
    if (status == SP_OK)
        status = output_commit(&output, err);
    if (status == SP_OK)
        *ret_size = sp_splice_size(splice);
    if (status == SP_OK)
        output_tell_weights(&output, model);
    output_close(&output);
    sp_splice_destroy(splice);
    sp_arena_destroy(arena);
    sp_model_file_release(&file);
    return status;
}

static enum sp_status print_result(const char *path, uint64_t before, uint64_t after, struct sp_error *err)
{
    struct sp_json json;
    sp_json_init(&json, false, write_stdout, NULL);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "output", path);
    sp_json_member_int(&json, "size_bytes", (int64_t)after);
    sp_json_member_int(&json, "removed_bytes", (int64_t)before - (int64_t)after);
    sp_json_end_object(&json);
    (void)sp_json_finish(&json, NULL);
    (void)write_stdout(NULL, "\n", 1);
    return finish_stdout(err);
}

int cmd_strip(int argc, char **argv, struct common *common)
{
    enum { OPT_HELP = 256, OPT_JSON };
    static const struct option options[] = {
        {"help", no_argument, NULL, OPT_HELP},
        {"json", no_argument, NULL, OPT_JSON},
        SERVER_OPTIONS,
        {"output", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0},
    };
    struct sp_error err = {0};
    struct input input = {.fd = -1};
    const char *path = NULL;
    uint64_t size = 0;
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
        case 'o':
            path = optarg;
            break;
        default:
            if (!take_server_option(common, option, optarg))
                return report_bad_option(common, option, argv[optind - 1]);
        }
    }
    if (optind + 1 != argc)
        return report_usage(common, optind == argc ? "The model is missing." : "There is more than one model.");
    if (path == NULL)
        return report_usage(common, "The output is missing: -o OUT.");
    if (common->json && path[0] == '-' && path[1] == '\0')
        return report_usage(common, "The model and the JSON cannot both go to standard output.");
    enum sp_status status = input_open(argv[optind], &input, &err);
    if (status == SP_OK)
        status = strip(&input, path, &size, &err);
    if (status == SP_OK && common->json)
        status = print_result(path, input.size, size, &err);
    input_close(&input);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}
