#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "cli.h"
#include "plan/version.h"

static const char usage[] =
    "Usage: shardplan COMMAND [OPTIONS]\n"
    "\n"
    "Plans how one ONNX model runs on many devices.\n"
    "\n"
    "Commands\n"
    "  inspect MODEL          what the model is: operators, parameters, FLOPs, inputs, outputs\n"
    "  check MODEL            whether the model and its annotations are sound, and what they imply\n"
    "  infer MODEL            complete the annotations\n"
    "  plan MODEL             search a plan for some devices and write the annotated model\n"
    "  replan --from PLAN     a new plan where devices came, went or changed, counting what moving costs\n"
    "  verify MODEL RANK..    whether the models of several ranks together compute what the model computes\n"
    "  simulate PLAN          requests of a plan for a service one by one: percentiles of what they see\n"
    "  strip MODEL -o OUT     take the multi-device annotations off again\n"
    "  export WHAT --format F a plan or an annotated model in the notation of another tool\n"
    "  convert --to F SPEC    write one sharding in another notation\n"
    "  reshard                the way from one sharding of a tensor to another, and what it costs\n"
    "  operators [NAME]       the operators and their sharding rules\n"
    "  devices                the built-in device catalog\n"
    "  cluster                a cluster's JSON from what 'nvidia-smi topo -m' prints\n"
    "  calibrate              measure a device of your own, and describe it for a plan\n"
    "  models, plans, jobs    what a daemon keeps and works on: list, show, fetch, cancel, watch, delete\n"
    "\n"
    "Every command takes --help and --json. MODEL may be '-': standard input. With --server URL (or SHARDPLAN_SERVER)\n"
    "the work is done by a daemon; the output is the same. Where the daemon asks for a token: --token-file FILE, or "
    "the\n"
    "variables SHARDPLAN_TOKEN_FILE or SHARDPLAN_TOKEN; where it asks for a certificate: --client-certificate FILE "
    "and\n"
    "--client-key FILE; where an authority of your own signed its certificate: --ca-file FILE (or SHARDPLAN_CA_FILE).\n"
    "\n"
    "Exit status: 0 done; 1 the model or the plan has errors; 2 wrong usage or unreadable input; 3 no plan fits;\n"
    "4 server or I/O failure.\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv, struct common *common);
} commands[] = {
    {"inspect", cmd_inspect}, {"check", cmd_check},         {"infer", cmd_infer},     {"plan", cmd_plan},
    {"strip", cmd_strip},     {"convert", cmd_convert},     {"reshard", cmd_reshard}, {"operators", cmd_operators},
    {"devices", cmd_devices}, {"export", cmd_export},       {"models", cmd_models},   {"plans", cmd_plans},
    {"jobs", cmd_jobs},       {"calibrate", cmd_calibrate}, {"replan", cmd_replan},   {"cluster", cmd_cluster},
    {"verify", cmd_verify},   {"simulate", cmd_simulate},
};

static void on_signal(int number)
{
    interrupted = number;
    is_time_to_stop = true;
}

/* The file under the mapping was cut short by someone else: nothing that was read of it can be trusted. */
static void on_bus_error(int number)
{
    static const char text[] = "shardplan: The model file was cut short while it was read. [FILE_CHANGED]\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(EXIT_FAILED);
}

static void set_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    action.sa_handler = on_bus_error;
    (void)sigaction(SIGBUS, &action, NULL);
    action.sa_handler = SIG_IGN; /* a closed pipe is an error of the write, with an exit code of its own */
    (void)sigaction(SIGPIPE, &action, NULL);
}

/* Whether --json stands among the options: errors of parsing the others must already know. */
static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}

static int print_text(const struct common *common, const char *text)
{
    struct sp_error err = {0};
    (void)write_stdout(NULL, text, strlen(text));
    return finish_stdout(&err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}

static int run(int argc, char **argv)
{
    struct common common = {.json = wants_json(argc, argv)};
    if (argc < 2)
        return report_usage(
            &common, "A command is missing: inspect, check, infer, plan, replan, verify, simulate, strip, export, "
                     "convert, reshard, operators, devices, calibrate, models, plans or jobs.");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || (strcmp(argv[1], "help") == 0 && argc == 2))
        return print_text(&common, usage);
    if (strcmp(argv[1], "--version") == 0)
        return print_text(&common, "shardplan " SP_VERSION "\n");
    char *help[] = {argv[0], (char *)"--help", NULL};
    bool wants_help = strcmp(argv[1], "help") == 0;
    const char *name = wants_help ? argv[2] : argv[1];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        common.command = commands[i].name;
        return wants_help ? commands[i].run(2, help, &common) : commands[i].run(argc - 1, argv + 1, &common);
    }
    return report_usage(&common, "There is no command '%.64s'.", name);
}

int main(int argc, char **argv)
{
    sp_arena_set_up_process();
    set_signals();
    int code = run(argc, argv);
    if (interrupted) {
        /* End as the signal would have ended us, so that a calling shell stops too. */
        (void)signal(interrupted, SIG_DFL);
        (void)raise(interrupted);
    }
    return code;
}
