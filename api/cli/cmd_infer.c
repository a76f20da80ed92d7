#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "plan/infer/infer.h"

static const char help[] =
    "Usage: shardplan infer MODEL [OPTIONS] [-o OUT]\n"
    "\n"
    "Completes the multi-device annotations of a model: says which sharding every tensor has that neither the\n"
    "file nor --set says anything of, why, what must be communicated, and where it stopped.\n"
    "\n"
    "  --mode MODE            forward: as ONNX proposal 0007 says, from inputs to outputs (the default);\n"
    "                         propagate: forward and backward until nothing changes\n"
    "  --set TENSOR=SPEC      the sharding of a tensor, in any notation that 'shardplan convert' reads; '*' in\n"
    "                         TENSOR is any text; may be repeated\n"
    "  --set-weight NODE=SPEC the sharding of the weight of a node, its largest constant operand; '*' in NODE is\n"
    "                         any text; may be repeated\n"
    "  --mesh MESH            the mesh of specs that name none, like '<[\"x\"=2]>'; propagate works on it\n"
    "  --devices N            how many devices there are\n"
    "  --configuration NAME   the configuration to complete or to add\n"
    "  --all                  list the tensors that are whole on their devices, too\n" SIZE_HELP
    "  -o, --output OUT       write the completed model; '-' is standard output\n"
    "  --json                 for machines\n"
    "  --server URL           ask a daemon (or the variable SHARDPLAN_SERVER)\n";

static enum sp_status print_completion(const struct common *common, const struct sp_completion *completion,
                                       struct sp_error *err)
{
    enum sp_status status;
    if (common->json) {
        struct sp_json json;
        sp_json_init(&json, false, write_stdout, NULL);
        status = sp_completion_json(completion, &json, err);
        if (status != SP_OK)
            return status;
        (void)sp_json_finish(&json, NULL);
        (void)write_stdout(NULL, "\n", 1);
        return finish_stdout(err);
    }
    struct sp_buf text;
    sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
    status = sp_completion_text(completion, &text, err);
    if (status == SP_OK)
        status = print_buf(&text, err);
    sp_buf_release(&text);
    return status;
}

/* Written, but not yet at its place. */
static enum sp_status write_model(const struct sp_completion *completion, const struct input *input, const char *path,
                                  struct output *output, struct sp_error *err)
{
    struct sp_splice *splice = NULL;
    enum sp_status status = sp_completion_annotate(completion, &splice, err);
    if (status == SP_OK)
        status = output_open(path, input, output, err);
    if (status == SP_OK)
        status = output_splice(output, splice, err);
    sp_splice_destroy(splice);
    return status;
}

enum sp_status infer_printed(const struct common *common, const char *path, enum sp_status status, struct sp_error *err)
{
    if (status == SP_OK || path == NULL || common->json || strcmp(err->code, "ANSWER_TOO_LARGE") != 0)
        return status;
    (void)report_error(common, err, NULL);
    sp_error_clear(err);
    return SP_OK;
}

static int run_local(const struct common *common, const struct input *input, const json_t *request, const char *path)
{
    struct progress progress;
    struct sp_error err = {0};
    struct sp_completion *completion = NULL;
    struct output output = {.fd = -1};
    progress_init(&progress, 0);
    const struct sp_job_options options = {
        .bytes = input->bytes, .size = input->size, .name = input->name, .watch = &progress.watch};
    enum sp_status status = sp_completion_create(&options, request, &completion, &err);
    progress_clear(&progress);
    if (status == SP_OK && path != NULL)
        status = write_model(completion, input, path, &output, &err);
    /* A model on standard output is alone there. A file appears when the list is out. */
    if (status == SP_OK && (path == NULL || strcmp(path, "-") != 0))
        status = infer_printed(common, path, print_completion(common, completion, &err), &err);
    if (status == SP_OK && path != NULL)
        status = output_commit(&output, &err);
    if (status == SP_OK && path != NULL)
        output_tell_weights(&output, sp_completion_model(completion));
    output_close(&output);
    sp_completion_destroy(completion);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}

/* NAME=SPEC. Specs hold '=', so the first one ends the name; in a name '*' stands for it. */
static enum sp_status add_spec(json_t *request, const char *member, const char *option, char *text,
                               struct sp_error *err)
{
    json_t *sets = json_object_get(request, member);
    char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        return sp_fail(err, SP_ERR_REQUEST, "BAD_OPTION", "%s=SPEC, not '%.80s'.", option, text);
    if (sets == NULL) {
        sets = json_object();
        if (sets == NULL || json_object_set_new(request, member, sets) != 0)
            return sp_fail_memory(err);
    }
    *equals = '\0';
    enum sp_status status = SP_OK;
    if (json_object_get(sets, text) != NULL)
        status = sp_fail(err, SP_ERR_REQUEST, "DUPLICATE_TENSOR", "%s is given twice.", text);
    if (status == SP_OK)
        status = put_spec(sets, text, equals + 1, err);
    *equals = '=';
    return status;
}

static enum sp_status add_set(json_t *request, char *text, struct sp_error *err)
{
    return add_spec(request, "set", "--set takes TENSOR", text, err);
}

static enum sp_status add_weight(json_t *request, char *text, struct sp_error *err)
{
    return add_spec(request, "set_weights", "--set-weight takes NODE", text, err);
}

int cmd_infer(int argc, char **argv, struct common *common)
{
    const char *path = NULL;
    json_t *request = json_object();
    const struct member_option options[] = {
        {"mode", "mode", MEMBER_TEXT, 0, NULL},
        {"mesh", "mesh", MEMBER_TEXT, 0, NULL},
        {"devices", "devices", MEMBER_COUNT, 1, NULL},
        {"configuration", "configuration", MEMBER_TEXT, 0, NULL},
        {"output", NULL, MEMBER_LOCAL, 'o', &path},
        {"set", NULL, MEMBER_EACH, 0, NULL, add_set},
        {"all", "all", MEMBER_FLAG, 0, NULL},
        {"set-weight", NULL, MEMBER_EACH, 0, NULL, add_weight},
        SIZE_OPTIONS,
    };
    struct sp_error err = {0};
    struct input input = {.fd = -1};
    bool wants_help = false;
    if (request == NULL) {
        (void)sp_fail_memory(&err);
        return report_error(common, &err, NULL);
    }
    int code = parse_members(common, argc, argv, &OPTIONS_AND_HELP(options, help), request, &wants_help);
    if (code != EXIT_DONE || wants_help)
        goto out;
    if (optind + 1 != argc)
        code = report_usage(common, optind == argc ? "The model is missing." : "There is more than one model.");
    else if (path != NULL && strcmp(path, "-") == 0 && common->json)
        code = report_usage(common, "The model and the JSON cannot both go to standard output.");
    else if (input_open(argv[optind], &input, &err) != SP_OK || put_config_beside(request, argv[optind], &err) != SP_OK)
        code = report_error(common, &err, NULL);
    else if (common->server != NULL)
        code = remote_infer(common, &input, request, path);
    else
        code = run_local(common, &input, request, path);
out:
    input_close(&input);
    json_decref(request);
    return code;
}
