/* `replan`: the plan that follows another one on a new cluster. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli.h"
#include "plan/replan/from_plan.h"
#include "plan/variants/variants.h"
#include "threads/executor.h"

static const char help[] =
    "Usage: shardplan replan [MODEL] --from PLAN.json --cluster NEW [--horizon 1h] [OPTIONS]\n"
    "       shardplan replan --from PLAN_ID --cluster NEW [--horizon 1h] [OPTIONS] --server URL\n"
    "\n"
    "Plans once more where devices came, went or changed: the best plan when the time that it takes to move weights\n"
    "counts, too. Says what each device keeps, what is moved from where to where, the least that any plan would move,\n"
    "the plan that would be best without the past, and from which horizon on it pays to leave the plan that runs.\n"
    "\n"
    "  --from PLAN.json     the plan that runs, as 'shardplan plan --plan FILE' wrote it\n"
    "  MODEL                the model it was made for; when not given, the file of that name beside the plan or here\n"
    "  --cluster FILE       the devices and links that there are now, as JSON; '-' is standard input\n"
    "  --devices N          in its place: so many devices of one type\n"
    "  --device TYPE        their type; " CLI_DEFAULT_DEVICE " when not given\n"
    "  --horizon TIME       how long the new plan will run: 90 (seconds), 30m, 1h (when not given), 2d; 0 is a plan "
    "that\n"
    "                       moves nothing, where one can run\n"
    "  --map A,B,-,C        for each device of the plan's cluster its number in the new one, '-' where it is lost. "
    "When\n"
    "                       nothing is said, equal devices are taken to be those that move least\n"
    "  --lost N,N           in its place: these are lost, the others keep their order\n"
    "  --time-limit S       stop searching after S seconds; writing files (--emit) is not cut\n"
    "  -o, --output OUT     write the annotated model; '-' is standard output\n"
    "  --plan FILE          write the plan as JSON\n"
    "  --emit DIR           write all files of the plan, as 'shardplan plan --emit' does\n"
    "  --no-simulation      with --emit: without simulation.onnx\n"
    "  --no-proof           do not verify that the devices compute what the model computes\n"
    "  --json               the plan as JSON on standard output\n"
    "  --server URL         asks the daemon (or the variable SHARDPLAN_SERVER) to follow a plan that it keeps, by its "
    "ID\n"
    "                       there; files are followed here\n";

struct replan_arguments {
    const char *from, *model, *horizon, *map, *lost, *time_limit;
    struct plan_devices target;
};

/* ---- arguments -------------------------------------------------------------------------------------------------- */

/* One entry of "0,1,-,2" after the other, `-` being -1; false after the last one, or with *ret_ok false. */
static bool next_entry(const char **at, bool takes_dash, int64_t *ret_number, bool *ret_ok)
{
    char entry[24] = "";
    const size_t size = strcspn(*at, ",");
    if (**at == '\0')
        return false;
    *ret_ok = size > 0 && size < sizeof entry;
    if (!*ret_ok)
        return false;
    memcpy(entry, *at, size);
    *at += size;
    if (**at == ',')
        (*at)++;
    *ret_number = -1;
    *ret_ok = (takes_dash && strcmp(entry, "-") == 0) ||
              (parse_integer(entry, 0, ret_number) && *ret_number < SP_MAX_DEVICES);
    return *ret_ok;
}

/* The map of --map, as it stands there. */
static bool read_map(const char *text, json_t *map)
{
    bool ok = true;
    int64_t number;
    while (next_entry(&text, true, &number, &ok))
        ok = json_array_append_new(map, number < 0 ? json_null() : json_integer(number)) == 0;
    return ok && json_array_size(map) > 0;
}

/* The map of --lost, of so many devices. */
static bool read_lost(const char *text, size_t devices, json_t *map)
{
    bool ok = true;
    int64_t number, next = 0;
    for (size_t i = 0; i < devices; i++)
        (void)json_array_append_new(map, json_true());
    while (next_entry(&text, false, &number, &ok)) {
        if ((size_t)number >= devices)
            return false;
        (void)json_array_set_new(map, (size_t)number, json_null());
    }
    for (size_t i = 0; i < devices; i++) {
        if (json_is_true(json_array_get(map, i)))
            (void)json_array_set_new(map, i, json_integer(next++));
    }
    return ok && next < (int64_t)devices;
}

/* The terms as a request has them. */
static int make_terms(const struct common *common, const struct replan_arguments *arguments, size_t devices,
                      json_t *terms)
{
    double horizon = SP_REPLAN_HORIZON;
    json_t *map = json_array();
    if (arguments->horizon != NULL &&
        (!sp_parse_seconds(arguments->horizon, &horizon) || horizon > SP_REPLAN_MAX_HORIZON)) {
        json_decref(map);
        return report_usage(common, "--horizon takes a time like 90, 30m, 1h or 2d, not '%.64s'.", arguments->horizon);
    }
    (void)json_object_set_new(terms, "horizon_seconds", json_real(horizon));
    bool ok = true;
    if (arguments->map != NULL)
        ok = read_map(arguments->map, map);
    else if (arguments->lost != NULL)
        ok = read_lost(arguments->lost, devices, map);
    if (ok && json_array_size(map) > 0)
        (void)json_object_set(terms, "map", map);
    json_decref(map);
    if (ok)
        return EXIT_DONE;
    if (arguments->map != NULL)
        return report_usage(common, "--map takes numbers and '-', like 0,1,-,2, not '%.64s'.", arguments->map);
    return report_usage(common, "--lost takes numbers of devices of the plan, from 0 to %zu, not '%.64s'.", devices - 1,
                        arguments->lost);
}

/* The id of a plan; anything else is a file, which is here. */
static bool is_on_server(const struct common *common, const struct replan_arguments *arguments)
{
    return common->server != NULL && is_plan_id(arguments->from);
}

static int check(struct common *common, const struct replan_arguments *arguments, const struct plan_request *request)
{
    const struct plan_devices *target = &arguments->target;
    double seconds;
    if (arguments->from == NULL)
        return report_usage(common, "The plan that runs is missing: --from PLAN.json.");
    if (target->cluster == NULL && target->devices == NULL)
        return report_usage(common, "The new cluster is missing: --cluster FILE or --devices N.");
    if (target->cluster != NULL && (target->device != NULL || target->devices != NULL))
        return report_usage(common,
                            "--cluster already says which devices there are: leave out --devices and --device.");
    if (target->devices != NULL && (!sp_is_count_list(target->devices) || strchr(target->devices, ',') != NULL))
        return report_usage(common, "--devices takes a whole number of 1 or more, not '%.64s'.", target->devices);
    if (arguments->map != NULL && arguments->lost != NULL)
        return report_usage(common, "--map already says which devices are lost: leave out --lost.");
    if (arguments->time_limit != NULL && !parse_seconds(arguments->time_limit, &seconds))
        return report_usage(common, "--time-limit takes seconds above 0, not '%.64s'.", arguments->time_limit);
    if (is_dash(arguments->from) + is_dash(target->cluster) + is_dash(arguments->model) > 1)
        return report_usage(common, "Only one input can come from standard input.");
    if (is_dash(request->annotated) + is_dash(request->plan_path) + common->json > 1)
        return report_usage(common, "Only one result can go to standard output.");
    if (request->skips_simulation && request->emit == NULL)
        return report_usage(common, "--no-simulation says what --emit leaves out: give --emit DIR too.");
    int code = complete_server_options(common);
    if (code != EXIT_DONE || !is_on_server(common, arguments))
        return code;
    if (arguments->model != NULL)
        return report_usage(common, "The server has the model of its plan: leave it out.");
    if (arguments->lost != NULL)
        return report_usage(common, "For a plan on a server give --map in place of --lost.");
    return EXIT_DONE;
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* The model that the plan names, in the folder of the plan or here; the caller's, NULL where it is in neither. */
static char *find_model(const char *from, const json_t *plan)
{
    const char *name = json_string_value(json_object_get(json_object_get(plan, "model"), "name"));
    char *copy = strdup(from), *path = NULL;
    if (name == NULL || strchr(name, '/') != NULL || copy == NULL) {
        free(copy);
        return NULL;
    }
    path = path_in(dirname(copy), name);
    free(copy);
    if (path != NULL && access(path, R_OK) == 0)
        return path;
    free(path);
    return access(name, R_OK) == 0 ? strdup(name) : NULL;
}

static enum sp_status open_inputs(const struct replan_arguments *arguments, struct plan_request *request,
                                  json_t **ret_plan, struct sp_error *err)
{
    struct input source = {.fd = -1};
    char *found = NULL;
    enum sp_status status = input_open(arguments->from, &source, err);
    if (status == SP_OK)
        status = read_plan_file(&source, ret_plan, err);
    input_close(&source);
    if (status == SP_OK && arguments->model == NULL && (found = find_model(arguments->from, *ret_plan)) == NULL)
        status =
            sp_fail(err, SP_ERR_REQUEST, "MODEL_MISSING",
                    "Say which model the plan was made for: shardplan replan MODEL --from '%.200s'.", arguments->from);
    if (status == SP_OK)
        status = input_open(arguments->model != NULL ? arguments->model : found, &request->input, err);
    if (status == SP_OK)
        status = input_hash(&request->input, err);
    free(found);
    return status;
}

/* ---- the plan --------------------------------------------------------------------------------------------------- */

static enum sp_status follow(const struct common *common, struct plan_request *request, const json_t *plan,
                             const json_t *terms, struct sp_error *err)
{
    struct sp_threads *threads = sp_threads_create(0);
    struct sp_replan_terms parsed;
    struct sp_cluster *cluster;
    struct sp_job *job = NULL;
    struct sp_plan *result = NULL;
    json_t *options = json_object();
    enum sp_status status = threads == NULL || options == NULL ? sp_fail_memory(err) : SP_OK;
    if (status == SP_OK && request->options.time_limit_seconds > 0)
        (void)json_object_set_new(options, "time_limit_seconds", json_real(request->options.time_limit_seconds));
    if (status == SP_OK)
        status = sp_cluster_parse(request->arena, request->target, "", &cluster, err);
    if (status == SP_OK)
        status = sp_replan_terms_parse(request->arena, terms, "", &parsed, err);
    if (status == SP_OK) {
        const struct sp_job_options job_options = {.bytes = request->input.bytes,
                                                   .size = request->input.size,
                                                   .name = request->input.name,
                                                   .sha256 = request->input.sha256,
                                                   .watch = &request->progress.watch,
                                                   .executor = sp_threads_executor(threads)};
        const struct sp_replan_question question = {
            .plan = plan, .cluster = cluster, .terms = &parsed, .options = options};
        status = sp_plan_follow(request->arena, &job_options, &question, &job, &result, err);
    }
    const double seconds = progress_elapsed(&request->progress);
    request->progress.limit = 0; /* the limit is the search's: what was found is written to its end */
    progress_clear(&request->progress);
    if (status == SP_OK)
        status = prove_plan(request, job, result, err);
    if (status == SP_OK)
        status = deliver_plan(common, request, job, result, seconds, err);
    sp_job_destroy(job);
    sp_threads_destroy(threads);
    json_decref(options);
    return status;
}

static int run(struct common *common, const struct replan_arguments *arguments, struct plan_request *request)
{
    struct sp_error err = {0};
    json_t *plan = NULL, *terms = json_pack("{s:s}", "from", "plan");
    enum sp_status status = terms != NULL ? SP_OK : sp_fail_memory(&err);
    int code = EXIT_DONE;
    if (status == SP_OK)
        status = load_target(&arguments->target, &request->target, &request->is_sweep, &err);
    const bool is_remote = is_on_server(common, arguments);
    if (status == SP_OK && !is_remote)
        status = open_inputs(arguments, request, &plan, &err);
    if (status == SP_OK)
        code = make_terms(common, arguments, json_array_size(json_object_get(plan, "devices")), terms);
    if (status == SP_OK && code == EXIT_DONE) {
        if (arguments->time_limit != NULL)
            (void)parse_seconds(arguments->time_limit, &request->options.time_limit_seconds);
        progress_init(&request->progress, request->options.time_limit_seconds);
        request->follows = arguments->from;
        request->terms = terms;
        if (is_remote)
            code = remote_plan(common, request);
        else
            status = follow(common, request, plan, terms, &err);
    }
    json_decref(plan);
    json_decref(terms);
    return status == SP_OK ? code : report_error(common, &err, NULL);
}

int cmd_replan(int argc, char **argv, struct common *common)
{
    struct replan_arguments arguments = {0};
    struct plan_request request = {.input = {.fd = -1}, .arena = sp_arena_create(NULL)};
    const struct member_option options[] = {
        {"from", NULL, MEMBER_LOCAL, 0, &arguments.from, NULL},
        {"model", NULL, MEMBER_LOCAL, 0, &arguments.model, NULL},
        {"cluster", NULL, MEMBER_LOCAL, 0, &arguments.target.cluster, NULL},
        {"devices", NULL, MEMBER_LOCAL, 0, &arguments.target.devices, NULL},
        {"device", NULL, MEMBER_LOCAL, 0, &arguments.target.device, NULL},
        {"horizon", NULL, MEMBER_LOCAL, 0, &arguments.horizon, NULL},
        {"map", NULL, MEMBER_LOCAL, 0, &arguments.map, NULL},
        {"lost", NULL, MEMBER_LOCAL, 0, &arguments.lost, NULL},
        {"time-limit", NULL, MEMBER_LOCAL, 0, &arguments.time_limit, NULL},
        {"output", NULL, MEMBER_LOCAL, 'o', &request.annotated, NULL},
        {"plan", NULL, MEMBER_LOCAL, 0, &request.plan_path, NULL},
        {"emit", NULL, MEMBER_LOCAL, 0, &request.emit, NULL},
        {"no-simulation", "skips_simulation", MEMBER_FLAG, 0, NULL, NULL},
        {"no-proof", "skips_proof", MEMBER_FLAG, 0, NULL, NULL},
    };
    struct sp_error err = {0};
    json_t *flags = json_object();
    bool wants_help = false;
    int code = EXIT_DONE;
    sp_plan_options_init(&request.options);
    if (flags == NULL || request.arena == NULL) {
        (void)sp_fail_memory(&err);
        code = report_error(common, &err, NULL);
    } else {
        code = parse_members(common, argc, argv, &OPTIONS_AND_HELP(options, help), flags, &wants_help);
    }
    if (code == EXIT_DONE && !wants_help) {
        request.skips_simulation = json_object_get(flags, "skips_simulation") != NULL;
        request.options.skips_proof = json_object_get(flags, "skips_proof") != NULL;
        if (optind + 1 < argc || (optind + 1 == argc && arguments.model != NULL))
            code = report_usage(common, "There is more than one model.");
        else if (optind + 1 == argc)
            arguments.model = argv[optind];
        if (code == EXIT_DONE)
            code = check(common, &arguments, &request);
        if (code == EXIT_DONE)
            code = run(common, &arguments, &request);
    }
    input_close(&request.input);
    sp_arena_destroy(request.arena);
    json_decref(request.target);
    json_decref(flags);
    return code;
}
