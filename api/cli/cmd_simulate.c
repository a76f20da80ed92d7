/* `simulate`: the requests of a plan for a service, one by one. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "plan/service/simulate.h"

static const char help[] =
    "Usage: shardplan simulate PLAN.json [--trace FILE | --rate R | --closed-loop] [OPTIONS]\n"
    "       shardplan simulate PLAN_ID [OPTIONS] --server URL\n"
    "\n"
    "Serves requests by a plan that was made for a workload ('shardplan plan --workload FILE --plan PLAN.json'), one "
    "by\n"
    "one, and says what they see: percentiles of the time to the first token, per output token, of whole requests and\n"
    "of the wait in the queue, and how many are served. The model is not needed. Lengths are those of the workload.\n"
    "\n"
    "  --trace FILE       requests as they came: lines of 'seconds,input,output' under these names, or those of the\n"
    "                     traces of Azure, BurstGPT and Vidur; '-' is standard input\n"
    "  --rate R           requests a second that come at random; when not given, those of the workload, if it says so\n"
    "  --closed-loop      a request comes when one ends, also where the workload has a rate; so it is without one\n"
    "  --concurrency C    requests in flight at most, others wait; in a closed loop at any time. When not given, as\n"
    "                     many as memory and limits of the plan allow, and in a closed loop as the plan has\n"
    "  --requests N       so many are counted, behind others that fill the service; 10000 when not given\n"
    "  --balance WHERE    where a request goes: to the copy with the fewest ('fewest', when not given), or 'random'\n"
    "  --seed N           of what is drawn; 0 when not given. The same seed draws the same requests\n"
    "  --json             for machines\n"
    "  --server URL       takes a plan that a daemon keeps, by its ID there (or the variable SHARDPLAN_SERVER)\n";

static enum sp_status not_a_plan(const json_error_t *why, struct sp_error *err)
{
    return sp_fail(err, SP_ERR_MALFORMED, "PLAN_NOT_JSON", "The plan is not valid JSON: %s.", why->text);
}

static enum sp_status read_here(const char *path, json_t **ret_plan, struct sp_error *err)
{
    struct input input = {.fd = -1};
    enum sp_status status = input_open(path, &input, err);
    if (status == SP_OK)
        status = read_plan_file(&input, ret_plan, err);
    input_close(&input);
    return status;
}

static enum sp_status read_there(const struct common *common, const char *id, json_t **ret_plan, struct sp_error *err)
{
    struct client *client = NULL;
    struct answer answer = {0};
    char route[128];
    const char *plan;
    size_t size;
    json_error_t why;
    (void)snprintf(route, sizeof route, "/v1/plans/%.100s", id);
    const struct call call = {.method = "GET", .path = route};
    enum sp_status status = client_open(common, &client, err);
    if (status == SP_OK)
        status = client_ask(client, &call, &answer, err);
    if (status == SP_OK && !json_member(answer.body.data, answer.body.size, "plan", &plan, &size))
        status = sp_fail(err, SP_ERR_IO, "PLAN_NOT_READY", "There is no plan yet, or none was made: see 'plans show'.");
    if (status == SP_OK && (*ret_plan = json_loadb(plan, size, JSON_REJECT_DUPLICATES, &why)) == NULL)
        status = not_a_plan(&why, err);
    sp_buf_release(&answer.body);
    client_close(client);
    return status;
}

static enum sp_status print_answer(const struct common *common, const struct sp_simulated_service *simulated,
                                   struct sp_error *err)
{
    struct sp_buf text;
    struct sp_json json;
    if (common->json) {
        sp_json_init(&json, false, write_stdout, NULL);
        sp_simulated_write_json(simulated, &json);
        (void)sp_json_finish(&json, NULL);
        (void)write_stdout(NULL, "\n", 1);
        return finish_stdout(err);
    }
    sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
    sp_simulated_write_text(simulated, &text);
    enum sp_status status = print_buf(&text, err);
    sp_buf_release(&text);
    return status;
}

static int answer(const struct common *common, const char *source, const char *trace_path,
                  const struct sp_simulate_question *asked)
{
    struct sp_simulate_question question = *asked;
    struct sp_error err = {0};
    struct sp_buf text = {0};
    struct sp_trace trace;
    struct sp_simulated_service simulated;
    struct progress progress;
    struct sp_arena *arena = sp_arena_create(NULL);
    json_t *plan = NULL;
    enum sp_status status = arena != NULL ? SP_OK : sp_fail_memory(&err);
    if (status == SP_OK)
        status = common->server != NULL && is_plan_id(source) ? read_there(common, source, &plan, &err)
                                                              : read_here(source, &plan, &err);
    if (status == SP_OK && trace_path != NULL) {
        status = read_small_file(trace_path, SP_MAX_TRACE_BYTES, "SP_MAX_TRACE_BYTES", &text, &err);
        if (status == SP_OK)
            status = sp_trace_parse(arena, text.size > 0 ? text.data : "", text.size, &trace, &err);
        question.trace = &trace;
    }
    progress_init(&progress, 0);
    question.plan = plan;
    question.watch = &progress.watch;
    if (status == SP_OK)
        status = sp_service_simulate(arena, &question, &simulated, &err);
    progress_clear(&progress);
    if (status == SP_OK)
        status = print_answer(common, &simulated, &err);
    sp_buf_release(&text);
    json_decref(plan);
    sp_arena_destroy(arena);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}

/* The texts of options that are numbers. */
struct numbers {
    const char *rate, *requests, *concurrency, *seed;
};

static int read_numbers(const struct common *common, const struct numbers *given, struct sp_simulate_question *question)
{
    int64_t seed = 0;
    if (given->rate != NULL && !parse_seconds(given->rate, &question->rate))
        return report_usage(common, "--rate takes requests a second, above 0, not '%.64s'.", given->rate);
    if (given->requests != NULL && !parse_integer(given->requests, 1, &question->requests))
        return report_usage(common, "--requests takes a whole number of 1 or more, not '%.64s'.", given->requests);
    if (given->concurrency != NULL &&
        (!parse_integer(given->concurrency, 1, &question->concurrency) || question->concurrency > (1 << 20)))
        return report_usage(common, "--concurrency takes a whole number from 1 to 1048576, not '%.64s'.",
                            given->concurrency);
    if (given->seed != NULL && !parse_integer(given->seed, 0, &seed))
        return report_usage(common, "--seed takes a whole number of 0 or more, not '%.64s'.", given->seed);
    question->seed = (uint64_t)seed;
    return EXIT_DONE;
}

static bool take_balance(const char *text, enum sp_simulated_balance *balance)
{
    *balance = strcmp(text, "random") == 0 ? SP_BALANCE_RANDOM : SP_BALANCE_FEWEST;
    return *balance == SP_BALANCE_RANDOM || strcmp(text, "fewest") == 0;
}

static int check(const struct common *common, const struct numbers *given, const char *trace,
                 const struct sp_simulate_question *question, int plans)
{
    if (plans < 1)
        return report_usage(common, "The plan is missing: shardplan simulate PLAN.json.");
    if (plans > 1)
        return report_usage(common, "One plan can be simulated at a time.");
    if ((trace != NULL) + (given->rate != NULL) + question->is_closed_loop > 1)
        return report_usage(common, "Requests come from --trace, at --rate or in a --closed-loop: give one of these.");
    if (trace != NULL && given->requests != NULL)
        return report_usage(common, "--trace already says how many requests there are: leave out --requests.");
    return EXIT_DONE;
}

int cmd_simulate(int argc, char **argv, struct common *common)
{
    enum {
        OPT_HELP = 256,
        OPT_JSON,
        OPT_TRACE,
        OPT_RATE,
        OPT_CLOSED,
        OPT_REQUESTS,
        OPT_CONCURRENCY,
        OPT_SEED,
        OPT_BALANCE
    };
    static const struct option options[] = {
        {"help", no_argument, NULL, OPT_HELP},
        {"json", no_argument, NULL, OPT_JSON},
        SERVER_OPTIONS,
        {"trace", required_argument, NULL, OPT_TRACE},
        {"rate", required_argument, NULL, OPT_RATE},
        {"closed-loop", no_argument, NULL, OPT_CLOSED},
        {"requests", required_argument, NULL, OPT_REQUESTS},
        {"concurrency", required_argument, NULL, OPT_CONCURRENCY},
        {"seed", required_argument, NULL, OPT_SEED},
        {"balance", required_argument, NULL, OPT_BALANCE},
        {NULL, 0, NULL, 0},
    };
    struct sp_error err = {0};
    struct sp_simulate_question question = {0};
    struct numbers given = {0};
    const char *trace = NULL;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case 'h':
        case OPT_HELP:
            (void)fputs(help, stdout);
            return finish_stdout(&err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
        case OPT_JSON:
            break;
        case OPT_TRACE:
            trace = optarg;
            break;
        case OPT_RATE:
            given.rate = optarg;
            break;
        case OPT_CLOSED:
            question.is_closed_loop = true;
            break;
        case OPT_REQUESTS:
            given.requests = optarg;
            break;
        case OPT_CONCURRENCY:
            given.concurrency = optarg;
            break;
        case OPT_SEED:
            given.seed = optarg;
            break;
        case OPT_BALANCE:
            if (!take_balance(optarg, &question.balance))
                return report_usage(common, "--balance takes 'fewest' or 'random', not '%.64s'.", optarg);
            break;
        default:
            if (!take_server_option(common, option, optarg))
                return report_bad_option(common, option, argv[optind - 1]);
        }
    }
    int code = check(common, &given, trace, &question, argc - optind);
    if (code == EXIT_DONE)
        code = read_numbers(common, &given, &question);
    if (code == EXIT_DONE)
        code = complete_server_options(common);
    return code == EXIT_DONE ? answer(common, argv[optind], trace, &question) : code;
}
