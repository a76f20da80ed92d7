#include <getopt.h>
#include <stdio.h>

#include "cli.h"

static const char help[] = "Usage: shardplan devices [--json] [--server URL]\n"
                           "\n"
                           "Lists the built-in device catalog; the JSON form adds where each figure comes from.\n";

static int run_local(const struct common *common)
{
    struct sp_error err = {0};
    enum sp_status status;
    if (common->json) {
        struct sp_json json;
        sp_json_init(&json, false, write_stdout, NULL);
        sp_devices_write_json(&json);
        (void)sp_json_finish(&json, NULL);
        (void)write_stdout(NULL, "\n", 1);
        status = finish_stdout(&err);
    } else {
        struct sp_buf text;
        sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
        sp_devices_write_text(&text);
        status = print_buf(&text, &err);
        sp_buf_release(&text);
    }
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}

int cmd_devices(int argc, char **argv, struct common *common)
{
    enum { OPT_HELP = 256, OPT_JSON };
    static const struct option options[] = {
        {"help", no_argument, NULL, OPT_HELP},
        {"json", no_argument, NULL, OPT_JSON},
        SERVER_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    struct sp_error err = {0};
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
        default:
            if (!take_server_option(common, option, optarg))
                return report_bad_option(common, option, argv[optind - 1]);
        }
    }
    if (optind != argc)
        return report_usage(common, "'devices' takes no argument.");
    int code = complete_server_options(common);
    if (code != EXIT_DONE)
        return code;
    return common->server != NULL ? remote_devices(common) : run_local(common);
}
