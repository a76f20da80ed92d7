/* `plans`, and `jobs`: those that are not finished. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static const char plans_help[] =
    "Usage: shardplan plans [list]         the plans that a daemon keeps, newest first\n"
    "       shardplan plans show ID        how one stands, and the plan itself when it is finished\n"
    "       shardplan plans fetch ID WHAT -o FILE\n"
    "       shardplan plans wait ID        until it is finished; the exit status is that of the plan\n"
    "       shardplan plans watch ID       the same, and says how the search goes\n"
    "       shardplan plans cancel ID      a finished one stays as it is\n"
    "       shardplan plans delete ID      cancels it if need be\n"
    "\n"
    "The first digits of an ID are enough where no other begins with them. WHAT is one of\n"
    "  --plan               the plan as JSON\n"
    "  --annotated          the model with the plan's annotations\n"
    "  --simulation         one plain model that does what all devices do\n"
    "  --timeline           the first requests on every device, for Perfetto\n"
    "  --device K           what device K runs; with --export as that format has it\n"
    "  --export FORMAT      what 'shardplan export' writes; of devices' models -o is their folder\n"
    "\n"
    "  -o, --output FILE    where to; '-' is standard output\n"
    "  --json               for machines; 'watch' prints an object for each thing that happens\n" SERVER_HELP;

static const char jobs_help[] =
    "Usage: shardplan jobs [list]          the plans that a daemon works on or has queued\n"
    "       shardplan jobs watch ID        how the search goes, until it is finished\n"
    "       shardplan jobs cancel ID\n"
    "\n"
    "The first digits of an ID are enough where no other begins with them.\n"
    "\n"
    "  --json               for machines; 'watch' prints an object for each thing that happens\n" SERVER_HELP;

#define ID_SIZE      33
#define MAX_PATH     256
#define MODEL_DIGITS 12

/* What `fetch` is asked for. */
struct fetch {
    const char *output, *device, *export;
    int64_t device_number;
    const char *part; /* behind the plan's route; NULL: the plan itself */
    const json_t *flags;
};

/* ---- list ---- */

static const char *text_of(const json_t *item, const char *name)
{
    const char *text = json_string_value(json_object_get(item, name));
    return text != NULL ? text : "";
}

/* A plan that begins to run between two lists is in both. */
static bool take_plan(void *context, const json_t *item)
{
    json_t *all = context;
    for (size_t i = 0; i < json_array_size(all); i++) {
        if (strcmp(text_of(json_array_get(all, i), "id"), text_of(item, "id")) == 0)
            return json_array_set(all, i, (json_t *)(uintptr_t)item) == 0;
    }
    return json_array_append(all, (json_t *)(uintptr_t)item) == 0;
}

static bool keep_plan(void *context, const json_t *item)
{
    return json_array_append((json_t *)context, (json_t *)(uintptr_t)item) == 0;
}

static void print_plan(const json_t *item)
{
    char created[24], note[64];
    write_time(text_of(item, "created_at"), created, sizeof created);
    (void)snprintf(note, sizeof note, "%s", text_of(json_object_get(item, "error"), "code"));
    sp_make_printable(note, sizeof note);
    (void)printf("%-*.32s  %-9.9s  %-19s  %.*s%s%s\n", ID_SIZE - 1, text_of(item, "id"), text_of(item, "state"),
                 created, MODEL_DIGITS, text_of(item, "model"), note[0] != '\0' ? "  " : "", note);
}

static enum sp_status list_plans(const struct common *common, struct client *client, bool jobs_only,
                                 struct sp_error *err)
{
    json_t *all = json_array();
    if (all == NULL)
        return sp_fail_memory(err);
    enum sp_status status;
    if (jobs_only) {
        status = client_list(client, "plans", "state=queued", take_plan, all, err);
        if (status == SP_OK)
            status = client_list(client, "plans", "state=running", take_plan, all, err);
    } else {
        status = client_list(client, "plans", NULL, keep_plan, all, err);
    }
    if (status == SP_OK && common->json) {
        status = print_list("plans", all, err);
    } else if (status == SP_OK) {
        if (json_array_size(all) > 0)
            (void)printf("%-*s  %-9s  %-19s  %-*s  %s\n", ID_SIZE - 1, "ID", "State", "Submitted", MODEL_DIGITS,
                         "Model", "Error");
        for (size_t i = 0; i < json_array_size(all); i++)
            print_plan(json_array_get(all, i));
        status = finish_stdout(err);
    }
    json_decref(all);
    return status;
}

/* ---- one plan ---- */

static enum sp_status show(const struct common *common, struct client *client, const char *id, struct sp_error *err)
{
    struct answer answer;
    char path[MAX_PATH];
    (void)snprintf(path, sizeof path, "/v1/plans/%s", id);
    const struct call call = {
        .method = "GET", .path = path, .accept = common->json ? "application/json" : "text/plain"};
    enum sp_status status = client_ask(client, &call, &answer, err);
    if (status == SP_OK)
        status = client_print(common, answer.body.data, answer.body.size, err);
    sp_buf_release(&answer.body);
    return status;
}

static enum sp_status cancel(const struct common *common, struct client *client, const char *id, struct sp_error *err)
{
    struct answer answer;
    char state[32];
    enum sp_status status = client_cancel(client, id, &answer, err);
    if (status == SP_OK && !json_member_word(answer.body.data, answer.body.size, "state", state, sizeof state))
        status = sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server's answer does not say how the plan stands.");
    sp_buf_release(&answer.body);
    return status == SP_OK ? print_done(common, id, state, err) : status;
}

static enum sp_status delete_plan(const struct common *common, struct client *client, const char *id,
                                  struct sp_error *err)
{
    struct answer answer;
    char path[MAX_PATH];
    (void)snprintf(path, sizeof path, "/v1/plans/%s", id);
    const struct call call = {.method = "DELETE", .path = path};
    enum sp_status status = client_ask(client, &call, &answer, err);
    sp_buf_release(&answer.body);
    return status == SP_OK ? print_done(common, id, "deleted", err) : status;
}

/* ---- wait, watch ---- */

struct told {
    const struct common *common;
    bool is_shown; /* the bar says it already */
    char last[160];
};

/* A line for each thing that happens, where no terminal shows a bar. */
static void tell_progress(void *context, const char *event, const char *data, size_t size)
{
    struct told *told = context;
    char phase[32] = "", line[sizeof told->last];
    if (told->common->json) {
        json_t *json = json_pack("{s:s, s:o}", "event", event, "data", json_loadb(data, size, 0, NULL));
        if (json != NULL) /* what is no JSON is told to nobody */
            (void)print_value(json, NULL);
        json_decref(json);
        return;
    }
    const double best = json_member_number(data, size, "best_seconds");
    const double bound = json_member_number(data, size, "lower_bound_seconds");
    if (told->is_shown || !json_member_word(data, size, "phase", phase, sizeof phase))
        return;
    sp_make_printable(phase, sizeof phase);
    int used = snprintf(line, sizeof line, "%-8s %3.0f%%", phase, 100 * json_member_number(data, size, "fraction"));
    if (best > 0 && used > 0)
        (void)snprintf(line + used, sizeof line - (size_t)used, "  best %.4g ms, bound %.4g ms", best * 1e3,
                       bound * 1e3);
    if (strcmp(line, told->last) == 0)
        return;
    (void)snprintf(told->last, sizeof told->last, "%s", line);
    (void)printf("%s\n", line);
    (void)fflush(stdout);
}

/* Whoever leaves early leaves the plan alone. */
static enum sp_status await(const struct common *common, struct client *client, const char *id, bool watches,
                            struct sp_error *err)
{
    struct progress progress;
    struct answer answer;
    char state[32] = "";
    bool done = false;
    progress_init(&progress, 0);
    struct told told = {.common = common, .is_shown = progress.visible};
    struct follow follow = {.progress = &progress, .tell = watches ? tell_progress : NULL, .context = &told};
    progress.visible = progress.visible && watches;
    enum sp_status status = client_follow(client, id, &follow, &answer, err);
    progress_clear(&progress);
    if (status == SP_OK) {
        (void)json_member_word(answer.body.data, answer.body.size, "state", state, sizeof state);
        status = client_judge(client, &answer, &done, err);
    }
    sp_buf_release(&answer.body);
    if (status == SP_OK && watches && common->json) {
        (void)printf("{\"event\":\"done\",\"data\":{\"id\":\"%s\",\"state\":\"%s\"}}\n", id, state);
        return finish_stdout(err);
    }
    return status == SP_OK ? print_done(common, id, state, err) : status;
}

/* ---- fetch ---- */

static enum sp_status fetch_plan(struct client *client, const char *id, const char *path, struct sp_error *err)
{
    struct output output = {.fd = -1};
    struct answer answer;
    const char *plan;
    size_t size;
    char route[MAX_PATH];
    (void)snprintf(route, sizeof route, "/v1/plans/%s", id);
    const struct call call = {.method = "GET", .path = route};
    enum sp_status status = client_ask(client, &call, &answer, err);
    if (status == SP_OK && !json_member(answer.body.data, answer.body.size, "plan", &plan, &size))
        status = sp_fail(err, SP_ERR_IO, "PLAN_NOT_READY", "There is no plan yet, or none was made: see 'plans show'.");
    if (status == SP_OK)
        status = output_open(path, NULL, &output, err);
    if (status == SP_OK && (!output_write(&output, plan, size) || !output_write(&output, "\n", 1)))
        status = sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write the plan to '%.200s'.", path);
    if (status == SP_OK)
        status = output_commit(&output, err);
    output_close(&output);
    sp_buf_release(&answer.body);
    return status;
}

static enum sp_status fetch_file(struct client *client, const char *id, const struct fetch *fetch, struct sp_error *err)
{
    char route[MAX_PATH];
    if (fetch->device != NULL) {
        (void)snprintf(route, sizeof route, "/v1/plans/%s/devices/%lld/model?format=%s", id,
                       (long long)fetch->device_number, fetch->export != NULL ? fetch->export : "ort-collectives");
        return client_download(client, route, fetch->output, err);
    }
    if (fetch->export != NULL)
        return client_export(
            client, id,
            &(struct remote_file){
                .format = fetch->export, .forms = "", .path = fetch->output, .device = SP_FILE_NO_DEVICE},
            err);
    if (fetch->part == NULL)
        return fetch_plan(client, id, fetch->output, err);
    (void)snprintf(route, sizeof route, "/v1/plans/%s/%s", id, fetch->part);
    return client_download(client, route, fetch->output, err);
}

static int check_fetch(const struct common *common, struct fetch *fetch)
{
    static const char *const parts[][2] = {
        {"plan", NULL}, {"annotated", "model"}, {"simulation", "simulation"}, {"timeline", "timeline"}};
    enum sp_realize_target target;
    unsigned count = fetch->device != NULL || fetch->export != NULL;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (json_object_get(fetch->flags, parts[i][0]) == NULL)
            continue;
        fetch->part = parts[i][1];
        count++;
    }
    if (count != 1)
        return report_usage(common, "'plans fetch' takes one of --plan, --annotated, --simulation, --timeline, "
                                    "--device K and --export FORMAT.");
    if (fetch->output == NULL)
        return report_usage(common, "Where it is written is missing: -o FILE.");
    if (common->json)
        return report_usage(common, "'plans fetch' has no JSON of its own: leave out --json.");
    if (fetch->device != NULL && !parse_integer(fetch->device, 0, &fetch->device_number))
        return report_usage(common, "--device takes the number of a device, not '%.64s'.", fetch->device);
    if (fetch->export == NULL)
        return EXIT_DONE;
    if (sp_file_format_text(fetch->export) == NULL)
        return report_usage(common, "There is no export format '%.64s'; 'shardplan export --help' lists them.",
                            fetch->export);
    const bool of_devices = sp_file_is_of_devices(fetch->export, &target);
    if (fetch->device != NULL && !of_devices && strcmp(fetch->export, "ort") != 0)
        return report_usage(common, "The format '%s' has no model for each device: leave out --device.", fetch->export);
    if (fetch->device == NULL && of_devices && strcmp(fetch->output, "-") == 0)
        return report_usage(common, "The devices' models are several files: give their folder with -o DIR.");
    return EXIT_DONE;
}

/* ---- the commands ---- */

static int run_verb(const struct common *common, const char *verb, const char *given, bool jobs_only,
                    const struct fetch *fetch)
{
    struct client *client = NULL;
    struct sp_error err = {0};
    char id[ID_SIZE] = "";
    enum sp_status status = client_open(common, &client, &err);
    if (status == SP_OK && given != NULL)
        status = client_find(client, "plans", given, id, sizeof id, &err);
    if (status != SP_OK) {
        /* told below */
    } else if (strcmp(verb, "list") == 0) {
        status = list_plans(common, client, jobs_only, &err);
    } else if (strcmp(verb, "show") == 0) {
        status = show(common, client, id, &err);
    } else if (strcmp(verb, "cancel") == 0) {
        status = cancel(common, client, id, &err);
    } else if (strcmp(verb, "delete") == 0) {
        status = delete_plan(common, client, id, &err);
    } else if (strcmp(verb, "fetch") == 0) {
        status = fetch_file(client, id, fetch, &err);
    } else {
        status = await(common, client, id, strcmp(verb, "watch") == 0, &err);
    }
    client_close(client);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}

int cmd_plans(int argc, char **argv, struct common *common)
{
    static const struct verb verbs[] = {{"list", false}, {"show", true},   {"fetch", true},  {"wait", true},
                                        {"watch", true}, {"cancel", true}, {"delete", true}, {NULL, false}};
    struct fetch fetch = {0};
    const struct member_option options[] = {
        {"plan", "plan", MEMBER_FLAG, 0, NULL, NULL},
        {"annotated", "annotated", MEMBER_FLAG, 0, NULL, NULL},
        {"simulation", "simulation", MEMBER_FLAG, 0, NULL, NULL},
        {"timeline", "timeline", MEMBER_FLAG, 0, NULL, NULL},
        {"device", NULL, MEMBER_LOCAL, 0, &fetch.device, NULL},
        {"export", NULL, MEMBER_LOCAL, 0, &fetch.export, NULL},
        {"output", NULL, MEMBER_LOCAL, 'o', &fetch.output, NULL},
    };
    const char *verb = NULL, *given = NULL;
    struct sp_error err = {0};
    bool wants_help = false;
    json_t *flags = json_object();
    if (flags == NULL) {
        (void)sp_fail_memory(&err);
        return report_error(common, &err, NULL);
    }
    fetch.flags = flags;
    int code = parse_members(common, argc, argv, &OPTIONS_AND_HELP(options, plans_help), flags, &wants_help);
    if (code != EXIT_DONE || wants_help)
        goto out;
    code = take_verb(common, argc, argv, verbs, &verb, &given);
    if (code == EXIT_DONE && strcmp(verb, "fetch") == 0)
        code = check_fetch(common, &fetch);
    else if (code == EXIT_DONE &&
             (json_object_size(flags) > 0 || fetch.device != NULL || fetch.export != NULL || fetch.output != NULL))
        code = report_usage(common, "What to fetch, and -o FILE, are for 'plans fetch'.");
    if (code == EXIT_DONE)
        code = need_server(common);
    if (code == EXIT_DONE)
        code = run_verb(common, verb, given, false, &fetch);
out:
    json_decref(flags);
    return code;
}

int cmd_jobs(int argc, char **argv, struct common *common)
{
    static const struct verb verbs[] = {{"list", false}, {"watch", true}, {"cancel", true}, {NULL, false}};
    const char *verb = NULL, *given = NULL;
    const struct fetch nothing = {0};
    bool wants_help = false;
    int code = parse_members(common, argc, argv, &(struct member_options){NULL, 0, jobs_help}, NULL, &wants_help);
    if (code != EXIT_DONE || wants_help)
        return code;
    code = take_verb(common, argc, argv, verbs, &verb, &given);
    if (code == EXIT_DONE)
        code = need_server(common);
    return code == EXIT_DONE ? run_verb(common, verb, given, true, &nothing) : code;
}
