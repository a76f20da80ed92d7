#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli.h"
#include "plan/micro/micro.h"
#include "plan/service/traffic.h"
#include "plan/variants/variants.h"
#include "threads/executor.h"

static const char help[] =
    "Usage: shardplan plan MODEL --devices N[,N..] [--device TYPE[,TYPE..]] [OPTIONS]\n"
    "       shardplan plan MODEL --cluster FILE [--devices N[,N..]] [OPTIONS]\n"
    "\n"
    "Searches how the model runs on several devices.\n"
    "\n"
    "  --devices N[,N..]    that many devices of one type; several numbers are all planned and\n"
    "                       compared. With --cluster: the first N devices of the cluster\n"
    "  --device TYPE[,..]   a type of 'shardplan devices' or a FILE.json with a device's figures, or\n"
    "                       several that are compared; " CLI_DEFAULT_DEVICE " when not given\n"
    "  --cluster FILE       devices and links as JSON; '-' is standard input\n"
    "  --runtime NAME       what runs the model on the devices: onnxruntime (default), tensorrt, vllm,\n"
    "                       or generic, which makes each operator a kernel; instead of the cluster's\n"
    "  --choose WHICH       of several clusters: smallest (default), the fewest devices that fit, or\n"
    "                       best by the objective\n"
    "  --what-if            also say what one more device, one fewer, faster links, more or less\n"
    "                       memory and faster devices would bring\n"
    "  --objective WHAT     throughput (default), latency, or devices: the fewest that fit; with\n"
    "                       --workload also cost: the cheapest that keep its limits\n"
    "  --strategy NAME      grouping or pipeline: whole operators, stages of one device; tensor: one\n"
    "                       stage, operators split over its devices; routes: devices hold parts that\n"
    "                       overlap, and requests flow through any of them; auto (default): the best of\n"
    "                       all, routes where devices are unequal\n"
    "  --placement WHICH    contiguous (default): a device runs one stage of the pipeline; any: it may\n"
    "                       hold any nodes of a graph of costs, if that gives more throughput\n"
    "  --replicas N         at most N replicas of a stage, or copies of the whole plan, that take requests\n"
    "                       in turn; 1: none. When not given, the strategy auto has any number of copies\n"
    "  --batch N            bind the symbolic batch of the inputs\n"
    "  --micro-batches N    cut each request in N parts along its batch, which follow one another through\n"
    "                       the stages; auto: as many as are best\n" SIZE_HELP
    "  --profile FILE       measured times instead of estimates: {\"nodes\": {NAME: SECONDS}} or\n"
    "                       what ONNX Runtime's profiler wrote\n"
    "  --profile-device D   the device that was measured on; the first when not given\n"
    "  --constraints FILE   what the plan must keep, as JSON: {\"max_stages\", \"max_latency_seconds\",\n"
    "                       \"reserved_bytes\", \"pins\", \"together\", \"specs\", \"forbid\"}\n"
    "  --placement-file FILE  keep nodes where a file of another tool puts them: Qualcomm's partition\n"
    "                       configuration, ONNX Runtime's layer assignment, PopRT's YAML, GenAI's\n"
    "                       genai_config.json; or tensors split as Polygraphy's hints say\n"
    "  --max-latency TIME   one request takes no longer: 50ms, 1.5s; short for {\"max_latency_seconds\"} of\n"
    "                       the constraints\n"
    "  --workload FILE      plan a service instead of one step, as JSON: {\"llm\": {\"input\": 2048, \"output\": "
    "256},\n"
    "                       \"concurrency\": 64 or \"best\", \"rate_per_second\", \"limits\": {\"ttft_seconds\",\n"
    "                       \"tpot_seconds\", \"request_seconds\"}}, or {\"phases\": [{\"name\", \"dims\", \"share\"}, "
    "..]}\n"
    "  --tolerance T        a plan that is better by no more than this share counts as equal, and one\n"
    "                       route, fewer devices, more free memory, fewer messages, then the latency (or the\n"
    "                       interval) decide; 0.02 when not given\n"
    "  --first-fit          take the first placement that fits instead of improving it\n"
    "  --seed N             recorded with the plan; equal questions have equal plans\n"
    "  --time-limit S       stop searching after S seconds with the best placement so far; reading the model\n"
    "                       and writing files (--emit) are not cut\n"
    "  -o, --output OUT     write the annotated model; '-' is standard output\n"
    "  --plan FILE          write the plan as JSON\n"
    "  --emit DIR           write plan.json, annotated.onnx, simulation.onnx, a model for each\n"
    "                       device with manifest.json, and timeline.pftrace into this folder; models of\n"
    "                       devices that an earlier plan left there are removed\n"
    "  --no-simulation      with --emit: without simulation.onnx\n"
    "  --no-proof           do not verify that the devices compute what the model computes\n"
    "  --json               the plan as JSON on standard output\n"
    "  --server URL         ask a daemon (or the variable SHARDPLAN_SERVER); an interrupt then cancels the\n"
    "                       plan and takes the best that was found, a second one leaves\n"
    "  --priority WHICH     among your plans on the daemon: low, normal (default) or high\n";

struct arguments {
    const char *model;
    struct plan_devices target;
    bool wants_help;
};

/* ---- arguments ---- */

static int take_strategy(const struct common *common, const char *name, struct plan_request *request)
{
    if (!sp_search_strategy_parse(name, &request->options.strategy))
        return report_usage(
            common, "There is no strategy '%.64s'; it must be auto, grouping, pipeline, tensor or routes.", name);
    return EXIT_DONE;
}

enum {
    OPT_HELP = 256,
    OPT_JSON,
    OPT_DEVICES,
    OPT_DEVICE,
    OPT_CLUSTER,
    OPT_RUNTIME,
    OPT_CHOOSE,
    OPT_WHAT_IF,
    OPT_OBJECTIVE,
    OPT_STRATEGY,
    OPT_PLACEMENT,
    OPT_REPLICAS,
    OPT_BATCH,
    OPT_MICRO_BATCHES,
    OPT_SIZE,
    OPT_TIME_LIMIT,
    OPT_TOLERANCE,
    OPT_FIRST_FIT,
    OPT_SEED,
    OPT_PROFILE,
    OPT_PROFILE_DEVICE,
    OPT_PLAN,
    OPT_CONSTRAINTS,
    OPT_PLACEMENT_FILE,
    OPT_WORKLOAD,
    OPT_MAX_LATENCY,
    OPT_EMIT,
    OPT_NO_SIMULATION,
    OPT_NO_PROOF,
    OPT_PRIORITY
};

#define SIZE_OPTION(name_, put_)                                                                                       \
    {                                                                                                                  \
        name_, required_argument, NULL, OPT_SIZE                                                                       \
    }

static const struct option options[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"json", no_argument, NULL, OPT_JSON},
    SERVER_OPTIONS,
    {"devices", required_argument, NULL, OPT_DEVICES},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"cluster", required_argument, NULL, OPT_CLUSTER},
    {"runtime", required_argument, NULL, OPT_RUNTIME},
    {"choose", required_argument, NULL, OPT_CHOOSE},
    {"what-if", no_argument, NULL, OPT_WHAT_IF},
    {"objective", required_argument, NULL, OPT_OBJECTIVE},
    {"strategy", required_argument, NULL, OPT_STRATEGY},
    {"placement", required_argument, NULL, OPT_PLACEMENT},
    {"replicas", required_argument, NULL, OPT_REPLICAS},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"micro-batches", required_argument, NULL, OPT_MICRO_BATCHES},
    SIZE_OPTION_LIST(SIZE_OPTION),
    {"time-limit", required_argument, NULL, OPT_TIME_LIMIT},
    {"tolerance", required_argument, NULL, OPT_TOLERANCE},
    {"first-fit", no_argument, NULL, OPT_FIRST_FIT},
    {"seed", required_argument, NULL, OPT_SEED},
    {"output", required_argument, NULL, 'o'},
    {"profile", required_argument, NULL, OPT_PROFILE},
    {"profile-device", required_argument, NULL, OPT_PROFILE_DEVICE},
    {"plan", required_argument, NULL, OPT_PLAN},
    {"constraints", required_argument, NULL, OPT_CONSTRAINTS},
    {"placement-file", required_argument, NULL, OPT_PLACEMENT_FILE},
    {"workload", required_argument, NULL, OPT_WORKLOAD},
    {"max-latency", required_argument, NULL, OPT_MAX_LATENCY},
    {"emit", required_argument, NULL, OPT_EMIT},
    {"no-simulation", no_argument, NULL, OPT_NO_SIMULATION},
    {"no-proof", no_argument, NULL, OPT_NO_PROOF},
    {"priority", required_argument, NULL, OPT_PRIORITY},
    {NULL, 0, NULL, 0},
};

/* One option that carries a value of the search. */
static int take_option(struct common *common, int option, char *value, struct plan_request *request)
{
    int64_t seed, replicas;
    switch (option) {
    case OPT_OBJECTIVE:
        if (!sp_plan_options_aim(&request->options, value))
            return report_usage(
                common, "There is no objective '%.64s'; it must be throughput, latency, devices or cost.", value);
        return EXIT_DONE;
    case OPT_STRATEGY:
        return take_strategy(common, value, request);
    case OPT_PLACEMENT:
        if (!sp_placement_parse(value, &request->options.any_sets))
            return report_usage(common, "There is no placement '%.64s'; it must be contiguous or any.", value);
        return EXIT_DONE;
    case OPT_REPLICAS:
        if (!parse_integer(value, 1, &replicas) || replicas > SP_MAX_DEVICES)
            return report_usage(common, "--replicas takes a whole number from 1 to %d, not '%.64s'.", SP_MAX_DEVICES,
                                value);
        request->options.max_replicas = (uint32_t)replicas;
        return EXIT_DONE;
    case OPT_BATCH:
        if (!parse_integer(value, 1, &request->options.batch))
            return report_usage(common, "--batch takes a whole number of 1 or more, not '%.64s'.", value);
        return EXIT_DONE;
    case OPT_MICRO_BATCHES:
        if (!sp_micro_batches_parse(value, &request->options.micro_batches))
            return report_usage(common, "--micro-batches takes a whole number from 1 to %d, or auto, not '%.64s'.",
                                SP_MAX_MICRO_BATCHES, value);
        return EXIT_DONE;
    case OPT_TIME_LIMIT:
        if (!parse_seconds(value, &request->options.time_limit_seconds))
            return report_usage(common, "--time-limit takes seconds above 0, not '%.64s'.", value);
        return EXIT_DONE;
    case OPT_TOLERANCE:
        if (!parse_share(value, &request->options.tolerance) || !sp_tolerance_is_valid(request->options.tolerance))
            return report_usage(common, "--tolerance takes a share from 0 to below 1, like 0.02, not '%.64s'.", value);
        return EXIT_DONE;
    case OPT_SEED:
        if (!parse_integer(value, 0, &seed))
            return report_usage(common, "--seed takes a whole number of 0 or more, not '%.64s'.", value);
        request->options.seed = (uint64_t)seed;
        return EXIT_DONE;
    case OPT_PROFILE:
        request->profile_path = value;
        return EXIT_DONE;
    case OPT_PROFILE_DEVICE:
        request->profile_device = value;
        return EXIT_DONE;
    case OPT_CONSTRAINTS:
        request->constraints_path = value;
        return EXIT_DONE;
    case OPT_PLACEMENT_FILE:
        request->placement_path = value;
        return EXIT_DONE;
    case OPT_WORKLOAD:
        request->workload_path = value;
        return EXIT_DONE;
    case OPT_MAX_LATENCY:
        if (!sp_parse_seconds(value, &request->max_latency_seconds) || request->max_latency_seconds <= 0)
            return report_usage(common, "--max-latency takes a time above 0 like 50ms or 1.5s, not '%.64s'.", value);
        return EXIT_DONE;
    case OPT_EMIT:
        request->emit = value;
        return EXIT_DONE;
    case OPT_PRIORITY:
        request->priority = value;
        if (strcmp(value, "low") != 0 && strcmp(value, "normal") != 0 && strcmp(value, "high") != 0)
            return report_usage(common, "--priority takes low, normal or high, not '%.64s'.", value);
        return EXIT_DONE;
    default:
        return EXIT_USAGE;
    }
}

/* One option that says which devices there are. */
static int take_target(struct common *common, int option, const char *value, struct plan_devices *target)
{
    enum sp_sweep_choice choice;
    switch (option) {
    case OPT_DEVICES:
        target->devices = value;
        if (!sp_is_count_list(value))
            return report_usage(
                common, "--devices takes a whole number of 1 or more, or several like 1,2,4, not '%.64s'.", value);
        return EXIT_DONE;
    case OPT_CHOOSE:
        target->choose = value;
        if (!sp_sweep_choice_parse(value, &choice))
            return report_usage(common, "--choose takes smallest or best, not '%.64s'.", value);
        return EXIT_DONE;
    case OPT_DEVICE:
        target->device = value;
        return EXIT_DONE;
    case OPT_RUNTIME:
        target->runtime = value;
        if (sp_runtime_find(value) == SP_RUNTIME_COUNT)
            return report_usage(common, "--runtime takes onnxruntime, tensorrt, vllm or generic, not '%.64s'.", value);
        return EXIT_DONE;
    default:
        target->cluster = value;
        return EXIT_DONE;
    }
}

static int parse(int argc, char **argv, struct common *common, struct arguments *arguments,
                 struct plan_request *request)
{
    int option, index = 0, code = EXIT_DONE;
    struct sp_error err = {0};
    opterr = 0;
    while (code == EXIT_DONE && (option = getopt_long(argc, argv, ":ho:", options, &index)) != -1) {
        switch (option) {
        case 'h':
        case OPT_HELP:
            arguments->wants_help = true;
            return EXIT_DONE;
        case OPT_JSON:
            break;
        case OPT_DEVICES:
        case OPT_DEVICE:
        case OPT_CLUSTER:
        case OPT_RUNTIME:
        case OPT_CHOOSE:
            code = take_target(common, option, optarg, &arguments->target);
            break;
        case OPT_SIZE:
            if (put_size(request->sizes, options[index].name, optarg, &err) != SP_OK)
                code = report_error(common, &err, NULL);
            break;
        case OPT_WHAT_IF:
            request->options.what_if = true;
            break;
        case OPT_FIRST_FIT:
            request->options.optimal = false;
            break;
        case OPT_NO_SIMULATION:
            request->skips_simulation = true;
            break;
        case OPT_NO_PROOF:
            request->options.skips_proof = true;
            break;
        case 'o':
            request->annotated = optarg;
            break;
        case OPT_PLAN:
            request->plan_path = optarg;
            break;
        case ':':
        case '?':
            code = report_bad_option(common, option, argv[optind - 1]);
            break;
        default:
            if (!take_server_option(common, option, optarg))
                code = take_option(common, option, optarg, request);
        }
    }
    if (code == EXIT_DONE && optind + 1 != argc)
        code = report_usage(common, optind == argc ? "The model is missing." : "There is more than one model.");
    arguments->model = code == EXIT_DONE ? argv[optind] : NULL;
    return code;
}

static int check(struct common *common, const struct arguments *arguments, const struct plan_request *request)
{
    const struct plan_devices *target = &arguments->target;
    if (target->cluster != NULL && target->device != NULL)
        return report_usage(common, "--cluster already names the types of devices: leave out --device.");
    if (target->cluster == NULL && target->devices == NULL)
        return report_usage(common, "The devices are missing: --devices N or --cluster FILE.");
    if (target->choose != NULL && target->devices == NULL)
        return report_usage(common, "--choose is for several clusters: give --devices N,N.. too.");
    if (is_dash(target->cluster) && is_dash(arguments->model))
        return report_usage(common, "The model and the cluster cannot both come from standard input.");
    if (request->profile_device != NULL && request->profile_path == NULL)
        return report_usage(common, "--profile-device says what a profile was measured on: give --profile FILE too.");
    if (is_dash(request->constraints_path) + is_dash(request->placement_path) + is_dash(request->workload_path) +
            is_dash(request->profile_path) + is_dash(arguments->model) + is_dash(target->cluster) >
        1)
        return report_usage(common, "Only one input can come from standard input.");
    if (is_dash(request->annotated) + is_dash(request->plan_path) + common->json > 1)
        return report_usage(common, "Only one result can go to standard output.");
    if (request->skips_simulation && request->emit == NULL)
        return report_usage(common, "--no-simulation says what --emit leaves out: give --emit DIR too.");
    int code = complete_server_options(common);
    if (code == EXIT_DONE && request->priority != NULL && common->server == NULL)
        code = report_usage(common, "--priority is for the plans of a daemon: give --server URL too.");
    return code;
}

/* ---- files of JSON ---- */

/* A kind of small file: what messages call it, its limit, and that of its errors. */
struct small_json {
    const char *what, *code, *limit_name;
    size_t limit;
};

/* *ret_json is the caller's. */
static enum sp_status load_json(const char *path, const struct small_json *kind, json_t **ret_json,
                                struct sp_error *err)
{
    struct sp_buf text = {0};
    json_error_t where;
    enum sp_status status = read_small_file(path, kind->limit, kind->limit_name, &text, err);
    if (status == SP_OK) {
        *ret_json = json_loadb(text.data != NULL ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &where);
        if (*ret_json == NULL) {
            (void)sp_fail(err, SP_ERR_MALFORMED, kind->code, "The %s not valid JSON: %s.", kind->what, where.text);
            status = sp_error_at(err, "line %d, column %d of '%.200s'", where.line, where.column, path);
        }
    }
    sp_buf_release(&text);
    return status;
}

static enum sp_status load_profile(struct plan_request *request, struct sp_error *err)
{
    static const struct small_json kind = {"profile is", "PROFILE_NOT_JSON", "CLI_MAX_PROFILE_BYTES",
                                           CLI_MAX_PROFILE_BYTES};
    struct sp_profile *profile;
    json_t *json = NULL;
    if (request->profile_path == NULL)
        return SP_OK;
    enum sp_status status = load_json(request->profile_path, &kind, &json, err);
    if (status == SP_OK)
        status = sp_profile_parse(request->arena, json, "", &profile, err);
    json_decref(json);
    if (status != SP_OK)
        return status;
    if (request->profile_device != NULL)
        profile->device = request->profile_device;
    request->options.profile = profile;
    return SP_OK;
}

/* The limit on latency that the command line gives, beside the constraints of a file. */
static enum sp_status put_limit(const struct plan_request *request, json_t *constraints, struct sp_error *err)
{
    if (request->max_latency_seconds <= 0 || !json_is_object(constraints))
        return SP_OK;
    if (json_object_get(constraints, "max_latency_seconds") != NULL)
        return sp_fail(err, SP_ERR_REQUEST, "CONSTRAINT_CONFLICT",
                       "The limit on latency is given by --max-latency and by the constraints: leave one out.");
    return json_object_set_new(constraints, "max_latency_seconds", json_real(request->max_latency_seconds)) == 0
               ? SP_OK
               : sp_fail_memory(err);
}

static enum sp_status load_constraints(struct plan_request *request, struct sp_error *err)
{
    static const struct small_json kind = {"constraints are", "CONSTRAINTS_NOT_JSON", "CLI_MAX_CONSTRAINTS_BYTES",
                                           CLI_MAX_CONSTRAINTS_BYTES};
    json_t *json = NULL;
    enum sp_status status = SP_OK;
    if (request->constraints_path != NULL)
        status = load_json(request->constraints_path, &kind, &json, err);
    else if (request->max_latency_seconds <= 0 && request->placement_path == NULL)
        return SP_OK;
    else if ((json = json_object()) == NULL)
        return sp_fail_memory(err);
    if (status == SP_OK)
        status = put_limit(request, json, err);
    if (status == SP_OK && request->placement_path != NULL && json_is_object(json))
        status = add_placed_constraints(request, json, err);
    if (status == SP_OK)
        status = sp_demands_parse(request->arena, json, "", &request->options.constraints, err);
    json_decref(json);
    return status;
}

static enum sp_status load_workload(struct plan_request *request, struct sp_error *err)
{
    static const struct small_json kind = {"workload is", "WORKLOAD_NOT_JSON", "CLI_MAX_WORKLOAD_BYTES",
                                           CLI_MAX_WORKLOAD_BYTES};
    json_t *json = NULL;
    if (request->workload_path == NULL)
        return SP_OK;
    enum sp_status status = load_json(request->workload_path, &kind, &json, err);
    if (status == SP_OK)
        status = sp_traffic_parse(request->arena, json, "", &request->options.traffic, err);
    json_decref(json);
    return status;
}

/* ---- offline ---- */

/* Pointers are into the file of a cluster, else into what a daemon would be sent. */
static enum sp_status parse_target(struct sp_arena *arena, const struct plan_request *request,
                                   struct sp_plan_target *ret_target, struct sp_error *err)
{
    struct sp_cluster *cluster;
    if (request->is_sweep)
        return sp_plan_target_parse(arena, NULL, request->target, ret_target, err);
    enum sp_status status = sp_cluster_parse(arena, request->target, "", &cluster, err);
    if (status == SP_OK)
        *ret_target = (struct sp_plan_target){.cluster = cluster};
    return status;
}

static enum sp_status plan_offline(const struct common *common, struct plan_request *request, struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_threads *threads = sp_threads_create(0);
    struct sp_plan_target target;
    struct sp_job *job = NULL;
    struct sp_plan *plan;
    enum sp_status status = arena == NULL || threads == NULL ? sp_fail_memory(err) : SP_OK;
    if (status == SP_OK)
        status = parse_target(arena, request, &target, err);
    if (status == SP_OK)
        status = input_hash(&request->input, err);
    if (status != SP_OK)
        goto out;
    const struct sp_job_options job_options = {
        .bytes = request->input.bytes,
        .size = request->input.size,
        .name = request->input.name,
        .sha256 = request->input.sha256,
        .watch = &request->progress.watch,
        .executor = sp_threads_executor(threads),
    };
    status = sp_plan_answer(arena, &job_options, &target, &request->options, &job, &plan, err);
    double seconds = progress_elapsed(&request->progress);
    request->progress.limit = 0; /* the limit is the search's: what was found is written to its end */
    progress_clear(&request->progress);
    if (status == SP_ERR_CANCELLED && request->progress.timed_out) {
        sp_error_clear(err);
        (void)sp_fail(err, status, "TIME_LIMIT", "The time limit of %g seconds ran out before the search ended.",
                      request->options.time_limit_seconds);
    }
    if (status == SP_OK)
        status = prove_plan(request, job, plan, err);
    if (status == SP_OK)
        status = deliver_plan(common, request, job, plan, seconds, err);
out:
    sp_job_destroy(job);
    sp_threads_destroy(threads);
    sp_arena_destroy(arena);
    return status;
}

int cmd_plan(int argc, char **argv, struct common *common)
{
    struct arguments arguments = {0};
    struct plan_request request = {.input = {.fd = -1}, .sizes = json_object()};
    struct sp_error err = {0};
    enum sp_status status;
    sp_plan_options_init(&request.options);
    int code = parse(argc, argv, common, &arguments, &request);
    if (code == EXIT_DONE && arguments.wants_help) {
        (void)fputs(help, stdout);
        code = finish_stdout(&err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
        goto out;
    }
    if (code == EXIT_DONE)
        code = check(common, &arguments, &request);
    if (code != EXIT_DONE)
        goto out;
    status = load_target(&arguments.target, &request.target, &request.is_sweep, &err);
    request.model = arguments.model;
    request.arena = sp_arena_create(NULL);
    if (status == SP_OK && request.arena == NULL)
        status = sp_fail_memory(&err);
    if (status == SP_OK)
        status = put_config_beside(request.sizes, arguments.model, &err);
    if (status == SP_OK)
        status = sp_sizes_parse(request.arena, request.sizes, "", &request.options.sizes, &err);
    if (status == SP_OK)
        status = load_profile(&request, &err);
    if (status == SP_OK)
        status = load_workload(&request, &err);
    if (status == SP_OK)
        status = input_open(arguments.model, &request.input, &err);
    if (status == SP_OK)
        status = load_constraints(&request, &err);
    if (status != SP_OK) {
        code = report_error(common, &err, NULL);
        goto out;
    }
    if (arguments.target.cluster == NULL && arguments.target.device == NULL)
        print_note("no --device is given: " CLI_DEFAULT_DEVICE " is assumed ('shardplan devices' lists the others)");
    progress_init(&request.progress, request.options.time_limit_seconds);
    if (common->server != NULL) {
        code = remote_plan(common, &request);
    } else {
        status = plan_offline(common, &request, &err);
        const char *hint = err.status == SP_ERR_CANCELLED && request.progress.timed_out
                               ? "Give it more time, or take the first placement that fits: --first-fit."
                               : NULL;
        code = status == SP_OK ? EXIT_DONE : report_error(common, &err, hint);
    }
out:
    input_close(&request.input);
    sp_arena_destroy(request.arena);
    json_decref(request.target);
    json_decref(request.sizes);
    return code;
}
