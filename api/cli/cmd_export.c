#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char help_head[] =
    "Usage: shardplan export PLAN_OR_MODEL --format FORMAT [-o OUT] [OPTIONS]\n"
    "       shardplan export PLAN_ID --format FORMAT [-o OUT] --server URL\n"
    "\n"
    "Writes what the devices of a plan, or of an annotated model, run, or the plan in the notation of another tool.\n"
    "\n"
    "  --format FORMAT          one of those below\n"
    "  -o, --output OUT         where to; standard output when it is not given. A folder for the devices' models\n"
    "  --model MODEL            the model that a plan (of 'shardplan plan --plan FILE') was made for\n"
    "  --configuration NAME     of an annotated model, where it has several\n" SIZE_HELP
    "  --device N               whose model the format ort writes; device 0 when not given\n"
    "  --form WORD,..           where readers of a format differ. tensorrt: upper (case of DistCollective's values), "
    "listed\n"
    "                           (groups name all ranks), casts (around collectives), no-all-to-all (for TensorRT "
    "10.16);\n"
    "                           ort-collectives: no-bfloat16 (before ONNX Runtime 1.30); qualcomm-mdp: cores=N\n"
    "  --json                   for machines: what was written, and the notes\n"
    "  --server URL             asks the daemon for a plan that it keeps, by its ID there; files are exported here\n"
    "\n";

static const char help_tail[] = "\n"
                                "What the other notation cannot say is a note; a server tells none.\n";

struct export_arguments {
    const char *source, *model, *format, *path, *configuration, *device_text, *form_text;
    int64_t device;
    struct sp_file_forms forms;
    json_t *sizes; /* of an annotated model */
};

static void make_help(struct sp_buf *help)
{
    sp_buf_init(help, (size_t)64 << 10);
    sp_buf_text(help, help_head);
    for (uint32_t i = 0; i < sp_file_format_count(); i++) {
        const char *format = sp_file_format_name(i);
        sp_buf_printf(help, "  %-25s%s\n", format, sp_file_format_text(format));
    }
    sp_buf_text(help, help_tail);
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

/* A plan is a JSON object whose first member is "plan"; a model in JSON begins otherwise. */
static bool looks_like_plan(const struct input *input)
{
    static const char blanks[] = " \t\r\n", member[] = "\"plan\"";
    const char *text = input->bytes;
    uint64_t at = 0;
    while (at < input->size && text[at] != '\0' && strchr(blanks, text[at]) != NULL)
        at++;
    if (at == input->size || text[at] != '{')
        return false;
    at++;
    while (at < input->size && text[at] != '\0' && strchr(blanks, text[at]) != NULL)
        at++;
    return input->size - at >= sizeof member - 1 && memcmp(text + at, member, sizeof member - 1) == 0;
}

static enum sp_status open_plan(const struct export_arguments *arguments, const struct input *plan, struct input *model,
                                const struct sp_watch *watch, struct sp_subject **ret_subject, struct sp_error *err)
{
    json_t *json = NULL;
    if (arguments->model == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "MODEL_MISSING",
                       "'%.200s' is a plan; say which model it was made for: --model MODEL.", plan->name);
    enum sp_status status = read_plan_file(plan, &json, err);
    if (status == SP_OK)
        status = input_open(arguments->model, model, err);
    if (status == SP_OK)
        status = input_hash(model, err);
    if (status == SP_OK) {
        const struct sp_job_options options = {
            .bytes = model->bytes, .size = model->size, .name = model->name, .sha256 = model->sha256, .watch = watch};
        status = sp_subject_from_json(&options, json, ret_subject, err);
    }
    json_decref(json);
    return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static bool is_of_devices(const char *format)
{
    enum sp_realize_target target;
    return sp_file_is_of_devices(format, &target);
}

/* For machines; `notes` are NULL where nobody told any. */
static enum sp_status print_json(const struct export_arguments *arguments, const json_t *notes, struct sp_error *err)
{
    struct sp_json json;
    char *text = notes != NULL ? json_dumps(notes, JSON_COMPACT) : NULL;
    if (text == NULL && notes != NULL)
        return sp_fail_memory(err);
    sp_json_init(&json, false, write_stdout, NULL);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "format", arguments->format);
    sp_json_member_string(&json, "media_type",
                          sp_file_media_type(arguments->format, is_of_devices(arguments->format) ? 0 : -1));
    if (text != NULL) {
        sp_json_key(&json, "notes");
        sp_json_raw(&json, text, strlen(text));
    }
    sp_json_end_object(&json);
    (void)sp_json_finish(&json, NULL);
    (void)write_stdout(NULL, "\n", 1);
    free(text);
    return finish_stdout(err);
}

static enum sp_status write_export(const struct common *common, const struct export_arguments *arguments,
                                   const struct sp_subject *subject, const struct input *model,
                                   const struct sp_watch *watch, struct sp_error *err)
{
    struct sources sources = sources_open(model);
    struct emit emit = {0};
    enum sp_status status = emit_init(&emit, subject, &sources, watch, err);
    emit.device = arguments->device;
    emit.forms = arguments->forms;
    if (status == SP_OK)
        status = sp_file_check(subject, arguments->format, err);
    if (status == SP_OK && is_of_devices(arguments->format)) {
        status = emit_folder(arguments->path, err);
        if (status == SP_OK)
            status = emit_devices(&emit, arguments->path, arguments->format, err);
    } else if (status == SP_OK) {
        status = emit_file(&emit, arguments->path, arguments->format, err);
    }
    if (status == SP_OK && common->json)
        status = print_json(arguments, emit.notes, err);
    else if (emit.notes != NULL)
        emit_print_notes(&emit); /* after an error: what cannot be had */
    emit_release(&emit);
    sources_close(&sources);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static int run_export(const struct common *common, const struct export_arguments *arguments)
{
    struct input source = {.fd = -1}, model = {.fd = -1};
    struct sp_subject *subject = NULL;
    struct sp_sizes sizes = {0};
    struct sp_error err = {0};
    struct progress progress;
    struct sp_arena *arena = sp_arena_create(NULL);
    progress_init(&progress, 0);
    enum sp_status status = arena != NULL ? input_open(arguments->source, &source, &err) : sp_fail_memory(&err);
    const bool is_plan = status == SP_OK && (arguments->model != NULL || looks_like_plan(&source));
    if (status == SP_OK && is_plan) {
        status = open_plan(arguments, &source, &model, &progress.watch, &subject, &err);
    } else if (status == SP_OK) {
        const struct sp_job_options options = {
            .bytes = source.bytes, .size = source.size, .name = source.name, .watch = &progress.watch, .sizes = &sizes};
        status = sp_sizes_parse(arena, arguments->sizes, "", &sizes, &err);
        if (status == SP_OK)
            status = sp_subject_from_model(&options, arguments->configuration, &subject, &err);
    }
    if (status == SP_OK)
        status = write_export(common, arguments, subject, is_plan ? &model : &source, &progress.watch, &err);
    progress_clear(&progress);
    sp_subject_destroy(subject);
    sp_arena_destroy(arena);
    input_close(&model);
    input_close(&source);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}

static int export_from_server(const struct common *common, const struct export_arguments *arguments)
{
    struct sp_error err = {0};
    int code = remote_export(common, arguments->source,
                             &(struct remote_file){.format = arguments->format,
                                                   .forms = arguments->form_text,
                                                   .path = arguments->path,
                                                   .device = arguments->device});
    if (code == EXIT_DONE && common->json && print_json(arguments, NULL, &err) != SP_OK)
        code = report_error(common, &err, NULL);
    return code;
}

/* The id of a plan; anything else is a file, which is here. */
static bool is_on_server(const struct common *common, const struct export_arguments *arguments)
{
    return common->server != NULL && is_plan_id(arguments->source);
}

static int check(const struct common *common, struct export_arguments *arguments)
{
    const char *model = arguments->model;
    struct sp_error err = {0};
    if (sp_file_forms_parse(arguments->form_text, &arguments->forms, &err) != SP_OK)
        return report_usage(common, "%s", err.message);
    if (arguments->device_text != NULL && !parse_integer(arguments->device_text, 0, &arguments->device))
        return report_usage(common, "--device takes the number of a device, not '%.64s'.", arguments->device_text);
    if (arguments->format == NULL)
        return report_usage(common, "The format is missing: --format FORMAT; 'shardplan export --help' lists them.");
    if (sp_file_format_text(arguments->format) == NULL)
        return report_usage(common, "There is no export format '%.64s'; 'shardplan export --help' lists them.",
                            arguments->format);
    if (is_of_devices(arguments->format) && strcmp(arguments->path, "-") == 0)
        return report_usage(common, "The devices' models are several files: give their folder with -o DIR.");
    if (is_on_server(common, arguments) && (model != NULL || arguments->configuration != NULL))
        return report_usage(common, "The server has the model of its plan: leave out --model and --configuration.");
    if (model != NULL && strcmp(model, "-") == 0 && strcmp(arguments->source, "-") == 0)
        return report_usage(common, "The plan and the model cannot both come from standard input.");
    if ((model != NULL || is_on_server(common, arguments)) && json_object_size(arguments->sizes) > 0)
        return report_usage(common, "A plan has the sizes that it was made for: leave out --dim, --value and --shape.");
    if (model != NULL && arguments->configuration != NULL)
        return report_usage(common, "--configuration is for annotated models, not for plans.");
    if (common->json && strcmp(arguments->path, "-") == 0)
        return report_usage(common, "The export and the JSON cannot both go to standard output: give -o OUT.");
    return EXIT_DONE;
}

int cmd_export(int argc, char **argv, struct common *common)
{
    struct export_arguments arguments = {
        .path = "-", .form_text = "", .device = SP_FILE_NO_DEVICE, .sizes = json_object()};
    const struct member_option options[] = {
        {"format", NULL, MEMBER_LOCAL, 0, &arguments.format, NULL},
        {"output", NULL, MEMBER_LOCAL, 'o', &arguments.path, NULL},
        {"model", NULL, MEMBER_LOCAL, 0, &arguments.model, NULL},
        {"configuration", NULL, MEMBER_LOCAL, 0, &arguments.configuration, NULL},
        {"device", NULL, MEMBER_LOCAL, 0, &arguments.device_text, NULL},
        {"form", NULL, MEMBER_LOCAL, 0, &arguments.form_text, NULL},
        SIZE_OPTIONS,
    };
    struct sp_error err = {0};
    struct sp_buf help;
    bool wants_help = false;
    int code;
    make_help(&help);
    if (sp_buf_failed(&help)) {
        (void)sp_fail_memory(&err);
        code = report_error(common, &err, NULL);
        goto out;
    }
    code = parse_members(common, argc, argv, &OPTIONS_AND_HELP(options, help.data), arguments.sizes, &wants_help);
    if (code != EXIT_DONE || wants_help)
        goto out;
    if (optind + 1 != argc) {
        code = report_usage(common, optind == argc ? "The plan or the model is missing."
                                                   : "There is more than one plan or model.");
        goto out;
    }
    arguments.source = argv[optind];
    code = check(common, &arguments);
    if (code == EXIT_DONE)
        code =
            is_on_server(common, &arguments) ? export_from_server(common, &arguments) : run_export(common, &arguments);
out:
    sp_buf_release(&help);
    json_decref(arguments.sizes);
    return code;
}
