#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/units.h"
#include "client.h"

static const char help[] =
    "Usage: shardplan models [list]                     the models that a daemon keeps, newest first\n"
    "       shardplan models show ID                    what one of them is\n"
    "       shardplan models fetch ID -o FILE           its bytes, compared with the id\n"
    "       shardplan models delete ID                  unless plans refer to it\n"
    "       shardplan models upload FILE [--name NAME]  prints the id; what is there already is not sent again;\n"
    "                                                   files beside it that its weights lie in go along\n"
    "\n"
    "An ID is the SHA-256 of the model's bytes; the first digits are enough where no other begins with them.\n"
    "\n"
    "  -o, --output FILE    where a fetched model is written; '-' is standard output\n"
    "  --name NAME          what to call an uploaded model instead of its file's name\n"
    "  --json               for machines\n" SERVER_HELP;

#define ID_SIZE      65
#define MAX_PATH     1024
#define SHOWN_DIGITS 16

/* ---- list ---- */

static bool collect(void *context, const json_t *item)
{
    return json_array_append((json_t *)context, (json_t *)(uintptr_t)item) == 0;
}

static bool print_model(void *context, const json_t *item)
{
    const char *id = json_string_value(json_object_get(item, "id"));
    const char *name = json_string_value(json_object_get(item, "name"));
    char created[24], clean[256];
    struct sp_buf bytes;
    if (id == NULL)
        return true;
    (void)snprintf(clean, sizeof clean, "%s", name != NULL ? name : "");
    sp_make_printable(clean, sizeof clean);
    sp_buf_init(&bytes, 64);
    sp_text_bytes(&bytes, json_number_value(json_object_get(item, "bytes")));
    write_time(json_string_value(json_object_get(item, "created_at")), created, sizeof created);
    if (*(bool *)context)
        (void)printf("%-*s  %9s  %-19s  %s\n", SHOWN_DIGITS, "ID", "Bytes", "Stored", "Name");
    *(bool *)context = false;
    (void)printf("%.*s  %9s  %-19s  %s\n", SHOWN_DIGITS, id, bytes.data != NULL ? bytes.data : "", created, clean);
    sp_buf_release(&bytes);
    return !ferror(stdout);
}

static enum sp_status list(const struct common *common, struct client *client, struct sp_error *err)
{
    bool is_first = true;
    if (!common->json) {
        enum sp_status status = client_list(client, "models", NULL, print_model, &is_first, err);
        return status == SP_OK ? finish_stdout(err) : status;
    }
    json_t *all = json_array();
    enum sp_status status = all != NULL ? client_list(client, "models", NULL, collect, all, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = print_list("models", all, err);
    json_decref(all);
    return status;
}

/* ---- one model ---- */

static enum sp_status show(const struct common *common, struct client *client, const char *id, struct sp_error *err)
{
    static const struct sp_buf nothing = {0};
    struct answer answer;
    char path[MAX_PATH];
    (void)snprintf(path, sizeof path, "/v1/models/%s%s", id, common->json ? "" : "/inspect");
    const struct call get = {.method = "GET", .path = path};
    const struct call post = {.method = "POST", .path = path, .accept = "text/plain", .body = &nothing};
    enum sp_status status = client_ask(client, common->json ? &get : &post, &answer, err);
    if (status == SP_OK)
        status = client_print(common, answer.body.data, answer.body.size, err);
    sp_buf_release(&answer.body);
    return status;
}

/* The id is the hash of the bytes, so what arrived can be held to it; not so on standard output. */
static enum sp_status compare(const struct output *output, const char *id, struct sp_error *err)
{
    struct stat info;
    if (output->temporary == NULL)
        return SP_OK;
    if (fstat(output->fd, &info) != 0)
        return sp_fail(err, SP_ERR_IO, "FILE_CHANGED", "'%s' cannot be read again.", output->path);
    struct input written = {.fd = output->fd, .size = (uint64_t)info.st_size};
    (void)snprintf(written.name, sizeof written.name, "%s", output->path);
    enum sp_status status = input_hash(&written, err);
    if (status == SP_OK && strcmp(written.sha256, id) != 0)
        status = sp_fail(err, SP_ERR_IO, "MODEL_DAMAGED",
                         "What came is not the model: its SHA-256 is another one. Nothing was written.");
    return status;
}

static enum sp_status fetch(struct client *client, const char *id, const char *path, struct sp_error *err)
{
    struct output output = {.fd = -1};
    struct progress progress;
    struct answer answer;
    char route[MAX_PATH];
    progress_init(&progress, 0);
    (void)snprintf(route, sizeof route, "/v1/models/%s/content", id);
    enum sp_status status = output_open(path, NULL, &output, err);
    if (status != SP_OK)
        return status;
    const struct call call = {
        .method = "GET",
        .path = route,
        .accept = "application/octet-stream",
        .download = &output,
        .progress = &progress,
    };
    status = client_ask(client, &call, &answer, err);
    progress_clear(&progress);
    sp_buf_release(&answer.body);
    if (status == SP_OK)
        status = compare(&output, id, err);
    if (status == SP_OK)
        status = output_commit(&output, err);
    output_close(&output);
    return status;
}

static enum sp_status delete_model(const struct common *common, struct client *client, const char *id,
                                   struct sp_error *err)
{
    struct answer answer;
    char path[MAX_PATH];
    (void)snprintf(path, sizeof path, "/v1/models/%s", id);
    const struct call call = {.method = "DELETE", .path = path};
    enum sp_status status = client_ask(client, &call, &answer, err);
    sp_buf_release(&answer.body);
    return status == SP_OK ? print_done(common, id, "deleted", err) : status;
}

static enum sp_status upload(const struct common *common, struct client *client, const char *path, const char *name,
                             struct sp_error *err)
{
    struct input input = {.fd = -1};
    struct progress progress;
    bool is_new = false;
    progress_init(&progress, 0);
    enum sp_status status = input_open(path, &input, err);
    if (status == SP_OK)
        status = client_ensure_model(client, &input, name, &progress, &is_new, err);
    if (status == SP_OK)
        status = client_ensure_files(client, &input, &progress, err);
    progress_clear(&progress);
    if (status == SP_OK && common->json) {
        json_t *done =
            json_pack("{s:s, s:I, s:b}", "id", input.sha256, "bytes", (json_int_t)input.size, "stored", is_new);
        status = done != NULL ? print_value(done, err) : sp_fail_memory(err);
        json_decref(done);
    } else if (status == SP_OK) {
        if (!is_new)
            print_note("the server has the model already");
        (void)printf("%s\n", input.sha256);
        status = finish_stdout(err);
    }
    input_close(&input);
    return status;
}

/* ---- the command ---- */

static const struct verb verbs[] = {
    {"list", 0}, {"show", 1}, {"fetch", 1}, {"delete", 1}, {"upload", 1}, {NULL, 0},
};

int cmd_models(int argc, char **argv, struct common *common)
{
    const char *path = NULL, *name = NULL, *verb, *given;
    char id[ID_SIZE] = "";
    const struct member_option options[] = {
        {"output", NULL, MEMBER_LOCAL, 'o', &path, NULL},
        {"name", NULL, MEMBER_LOCAL, 0, &name, NULL},
    };
    struct client *client = NULL;
    struct sp_error err = {0};
    bool wants_help = false;
    int code = parse_members(common, argc, argv, &OPTIONS_AND_HELP(options, help), NULL, &wants_help);
    if (code != EXIT_DONE || wants_help)
        return code;
    code = take_verb(common, argc, argv, verbs, &verb, &given);
    if (code == EXIT_DONE && (path != NULL) != (strcmp(verb, "fetch") == 0))
        code = report_usage(common, path == NULL ? "Where the model is written is missing: -o FILE."
                                                 : "-o FILE is for 'models fetch'.");
    if (code == EXIT_DONE && name != NULL && strcmp(verb, "upload") != 0)
        code = report_usage(common, "--name is for 'models upload'.");
    if (code == EXIT_DONE && common->json && path != NULL)
        code = report_usage(common, "'models fetch' has no JSON: leave out --json.");
    if (code == EXIT_DONE)
        code = need_server(common);
    if (code != EXIT_DONE)
        return code;
    enum sp_status status = client_open(common, &client, &err);
    if (status == SP_OK && given != NULL && strcmp(verb, "upload") != 0)
        status = client_find(client, "models", given, id, sizeof id, &err);
    if (status != SP_OK) {
        /* told below */
    } else if (strcmp(verb, "list") == 0) {
        status = list(common, client, &err);
    } else if (strcmp(verb, "show") == 0) {
        status = show(common, client, id, &err);
    } else if (strcmp(verb, "fetch") == 0) {
        status = fetch(client, id, path, &err);
    } else if (strcmp(verb, "delete") == 0) {
        status = delete_model(common, client, id, &err);
    } else {
        status = upload(common, client, given, name, &err);
    }
    client_close(client);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}
