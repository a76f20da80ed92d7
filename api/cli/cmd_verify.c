#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli.h"
#include "plan/proof/verified.h"

static const char help[] =
    "Usage: shardplan verify ORIGINAL RANK0.onnx RANK1.onnx .. [OPTIONS]\n"
    "       shardplan verify ORIGINAL --manifest FOLDER/manifest.json [OPTIONS]\n"
    "       shardplan verify ORIGINAL --simulation FILE [OPTIONS]\n"
    "       shardplan verify --annotated FILE [OPTIONS]\n"
    "\n"
    "Says whether the models of several ranks together compute what the original computes. Nothing is run: both are\n"
    "evaluated in a finite field, with variables for inputs and weights, so that equal results prove equality up to\n"
    "the order of sums. Otherwise the first node is named that computes something else, or what is not decided.\n"
    "\n"
    "Without a manifest, a tensor of a rank is its part of the original's of the same name, in the order of the\n"
    "ranks, where one axis is a fraction of the original's.\n"
    "\n"
    "  --manifest FILE     the models that it lists, beside it ('plan --emit' writes one); also a\n"
    "                      genai_config.json with a pipeline\n"
    "  --phase WHICH       prompt or token, where a pipeline has other stages for the one than for the other\n"
    "  --simulation FILE   one model with the original's inputs and outputs\n"
    "  --annotated FILE    what the devices of an annotated model run; the model without its annotations is the\n"
    "                      original\n"
    "  --dim NAME=N        bind a dimension; may be repeated. Others are those of the manifest, or 3\n"
    "  --value INPUT=V     what an input is (true, 1 or 2,3), where models are made for that; may be repeated\n"
    "  --weights           compare all bytes of weights, also in files beside the models; without it, those of large\n"
    "                      models are taken for the parts that names, shapes and the order of ranks say\n"
    "  --json              for machines, with what each collective makes\n"
    "\n"
    "Exit status: 0 proved; 1 refuted; 2 wrong usage or unreadable input; 3 undecided; 4 I/O failure, memory.\n";

struct files {
    const char *folder; /* of the manifest */
    uint32_t count, capacity;
    struct input *items; /* of the programs, in their order */
    const struct input *original;
    struct beside beside;
};

struct question {
    struct input original;
    struct files files;
    struct sp_arena *arena;
    json_t *manifest;
    const char *manifest_path, *simulation, *annotated;
    json_t *asked; /* sizes, as options say them */
    struct sp_verify_question verify;
};

static enum sp_status open_file(struct files *files, const char *path, const struct input **ret, struct sp_error *err)
{
    if (files->count == files->capacity) {
        const uint32_t capacity = files->capacity > 0 ? 2 * files->capacity : 16;
        struct input *items = realloc(files->items, capacity * sizeof *items);
        if (items == NULL) {
            (void)sp_fail_memory(err);
            return SP_ERR_MEMORY; /* said so that an analyser sees it */
        }
        files->items = items;
        files->capacity = capacity;
    }
    struct input *input = &files->items[files->count];
    *input = (struct input){.fd = -1};
    enum sp_status status = input_open(path, input, err);
    if (status == SP_OK) {
        *ret = input;
        files->count++;
    }
    return status;
}

/* The model of a rank, or one that the manifest names. */
static enum sp_status find_model(void *context, const char *name, const void **ret_bytes, uint64_t *ret_size,
                                 struct sp_error *err)
{
    struct files *files = context;
    const struct input *input = NULL;
    char *path = NULL;
    if (files->folder != NULL && strchr(name, '/') != NULL)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_MANIFEST", "The manifest names a model in another folder: '%s'.",
                       name);
    if (files->folder != NULL && (path = path_in(files->folder, name)) == NULL)
        return sp_fail_memory(err);
    enum sp_status status = open_file(files, path != NULL ? path : name, &input, err);
    free(path);
    if (status == SP_OK) {
        *ret_bytes = input->bytes;
        *ret_size = input->size;
    }
    return status;
}

static bool read_weight(void *context, uint32_t program, const char *location, uint64_t offset, void *bytes,
                        size_t size)
{
    struct files *files = context;
    const struct input *input = program == SP_VERIFY_ORIGINAL ? files->original : &files->items[program];
    return beside_read(&files->beside, input, location, offset, bytes, size);
}

static enum sp_status read_manifest(struct question *question, struct sp_error *err)
{
    struct sp_buf text;
    json_error_t why;
    const char *path = question->manifest_path, *slash = strrchr(path, '/');
    enum sp_status status = read_small_file(path, CLI_MAX_MANIFEST_BYTES, "CLI_MAX_MANIFEST_BYTES", &text, err);
    if (status == SP_OK && (question->manifest = json_loadb(text.data, text.size, 0, &why)) == NULL)
        status = sp_fail(err, SP_ERR_MALFORMED, "BAD_MANIFEST", "The manifest is not JSON: %s.", why.text);
    sp_buf_release(&text);
    question->files.folder = slash != NULL ? sp_arena_string(question->arena, path, (size_t)(slash - path + 1)) : ".";
    question->verify.manifest = question->manifest;
    return status == SP_OK && question->files.folder == NULL ? sp_fail_memory(err) : status;
}

/* What is asked, out of the options and the paths: the original's first. */
static enum sp_status make_question(struct question *question, int count, char **paths, struct sp_error *err)
{
    struct sp_verify_question *verify = &question->verify;
    if ((question->arena = sp_arena_create(NULL)) == NULL)
        return sp_fail_memory(err);
    verify->is_annotated = question->annotated != NULL;
    verify->original = verify->is_annotated ? question->annotated : paths[0];
    enum sp_status status = sp_sizes_parse(question->arena, question->asked, "", &verify->sizes, err);
    if (status == SP_OK && question->manifest_path != NULL)
        return read_manifest(question, err);
    if (question->simulation != NULL) {
        verify->ranks = &question->simulation;
        verify->rank_count = 1;
    } else if (!verify->is_annotated) {
        verify->ranks = (const char *const *)(paths + 1);
        verify->rank_count = (uint32_t)count - 1;
    }
    return status;
}

static enum sp_status print_answer(const struct common *common, const struct sp_verification *verification,
                                   struct sp_error *err)
{
    struct sp_buf text;
    if (common->json) {
        struct sp_json json;
        sp_json_init(&json, false, write_stdout, NULL);
        sp_verification_json(verification, &json);
        (void)sp_json_finish(&json, NULL);
        (void)write_stdout(NULL, "\n", 1);
        return finish_stdout(err);
    }
    sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
    sp_verification_text(verification, &text);
    enum sp_status status = print_buf(&text, err);
    sp_buf_release(&text);
    return status;
}

static const int codes[] = {[SP_PROVED] = EXIT_DONE, [SP_REFUTED] = EXIT_MODEL, [SP_UNDECIDED] = EXIT_NOFIT};

static int answer(struct common *common, struct question *question, int count, char **paths)
{
    struct sp_error err = {0};
    struct sp_verified *verified = NULL;
    struct progress progress;
    enum sp_status status = make_question(question, count, paths, &err);
    if (status == SP_OK)
        status = input_open(question->verify.original, &question->original, &err);
    question->files.original = &question->original;
    const struct sp_verify_access access = {find_model, read_weight, &question->files};
    progress_init(&progress, 0);
    const struct sp_job_options original = {.bytes = question->original.bytes,
                                            .size = question->original.size,
                                            .name = question->original.name,
                                            .watch = &progress.watch};
    if (status == SP_OK)
        status = sp_verified_create(&original, &question->verify, &access, common->json, &verified, &err);
    progress_clear(&progress);
    if (status == SP_OK)
        status = print_answer(common, sp_verified_verification(verified), &err);
    const int code = status == SP_OK ? codes[sp_verification_verdict(sp_verified_verification(verified))]
                                     : report_error(common, &err, NULL);
    sp_verified_destroy(verified);
    return code;
}

enum {
    OPT_HELP = 256,
    OPT_JSON,
    OPT_MANIFEST,
    OPT_PHASE,
    OPT_SIMULATION,
    OPT_ANNOTATED,
    OPT_DIM,
    OPT_VALUE,
    OPT_WEIGHTS
};

/* Takes one option; an exit code. */
static int take_option(struct common *common, struct question *question, int option, const char *text)
{
    struct sp_error err = {0};
    switch (option) {
    case OPT_JSON:
        return EXIT_DONE;
    case OPT_MANIFEST:
        question->manifest_path = optarg;
        return EXIT_DONE;
    case OPT_PHASE:
        if (strcmp(optarg, "prompt") != 0 && strcmp(optarg, "token") != 0)
            return report_usage(common, "--phase takes prompt or token, not '%.64s'.", optarg);
        question->verify.phase = optarg;
        return EXIT_DONE;
    case OPT_SIMULATION:
        question->simulation = optarg;
        return EXIT_DONE;
    case OPT_ANNOTATED:
        question->annotated = optarg;
        return EXIT_DONE;
    case OPT_WEIGHTS:
        question->verify.weights = true;
        return EXIT_DONE;
    case OPT_DIM:
        return put_dim(question->asked, optarg, &err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
    case OPT_VALUE:
        return put_input_value(question->asked, optarg, &err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
    default:
        return take_server_option(common, option, optarg) ? EXIT_DONE : report_bad_option(common, option, text);
    }
}

static int answer_question(struct common *common, struct question *question, int given, char **paths)
{
    const int ways = (question->manifest_path != NULL) + (question->simulation != NULL) + (given > 1);
    if (given < 1 && question->annotated == NULL)
        return report_usage(common, "The original model is missing.");
    if (question->annotated != NULL && (given > 0 || ways > 0))
        return report_usage(common, "--annotated takes no other file: the original is in it.");
    if (question->verify.phase != NULL && question->manifest_path == NULL)
        return report_usage(common, "--phase is for --manifest genai_config.json.");
    if (question->annotated != NULL && question->verify.weights)
        return report_usage(common, "--weights is for ranks' models: an annotated model is one file.");
    if (question->annotated == NULL && ways != 1)
        return report_usage(common,
                            "What is verified is either the ranks' models, --manifest FILE or --simulation FILE.");
    return answer(common, question, given, paths);
}

int cmd_verify(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, OPT_HELP},
        {"json", no_argument, NULL, OPT_JSON},
        {"manifest", required_argument, NULL, OPT_MANIFEST},
        {"phase", required_argument, NULL, OPT_PHASE},
        {"simulation", required_argument, NULL, OPT_SIMULATION},
        {"annotated", required_argument, NULL, OPT_ANNOTATED},
        {"dim", required_argument, NULL, OPT_DIM},
        {"value", required_argument, NULL, OPT_VALUE},
        {"weights", no_argument, NULL, OPT_WEIGHTS},
        SERVER_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    struct sp_error err = {0};
    struct question question = {.original = {.fd = -1}, .asked = json_object()};
    bool wants_help = false;
    int option, code = EXIT_DONE;
    opterr = 0;
    if (question.asked == NULL) {
        (void)sp_fail_memory(&err);
        code = report_error(common, &err, NULL);
    }
    while (code == EXIT_DONE && !wants_help && (option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        wants_help = option == 'h' || option == OPT_HELP;
        if (!wants_help)
            code = take_option(common, &question, option, argv[optind - 1]);
    }
    if (code == EXIT_DONE && wants_help) {
        (void)fputs(help, stdout);
        code = finish_stdout(&err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
    } else if (code == EXIT_DONE) {
        code = answer_question(common, &question, argc - optind, argv + optind);
    }
    for (uint32_t i = 0; i < question.files.count; i++)
        input_close(&question.files.items[i]);
    beside_close(&question.files.beside);
    free(question.files.items);
    input_close(&question.original);
    json_decref(question.manifest);
    json_decref(question.asked);
    sp_arena_destroy(question.arena);
    return code;
}
