/* Tables that the program has built in: devices and operators. */
#include <stdio.h>

#include "cli.h"
#include "plan/answer/device_catalog.h"
#include "plan/answer/operators.h"

struct table {
    const char *command, *path, *help; /* the path is the server's */
    enum sp_status (*write_json)(const char *name, struct sp_json *json, struct sp_error *err);
    enum sp_status (*write_text)(const char *name, struct sp_buf *buf, struct sp_error *err);
};

static const struct table devices = {
    "devices", "/v1/devices",
    "Usage: shardplan devices [NAME] [--json] [--server URL]\n"
    "\n"
    "Lists the built-in devices. NAME is one of them, or a slice of one (a100-sxm4-80gb/3g.40gb): its\n"
    "figures, what kernels and collectives reach of them, and where each comes from. A part of names lists\n"
    "those that have it, such as h100 or a100-sxm4-80gb/. The JSON form has the members that a file for\n"
    "'plan --device FILE' may have.\n",
    sp_devices_json, sp_devices_text};

static const struct table operators = {
    "operators", "/v1/operators",
    "Usage: shardplan operators [NAME] [--json] [--server URL]\n"
    "\n"
    "Lists the operators that Shardplan knows, each with its sharding rule: which axes are which factors of the\n"
    "computation, and what a factor that is not simply parallel needs when it is split. NAME is one operator,\n"
    "with its domain (com.microsoft.Attention) or without.\n",
    sp_operators_json, sp_operators_text};

static enum sp_status print_table(const struct common *common, const struct table *table, const char *name,
                                  struct sp_error *err)
{
    enum sp_status status;
    if (common->json) {
        struct sp_json json;
        sp_json_init(&json, false, write_stdout, NULL);
        status = table->write_json(name, &json, err);
        if (status != SP_OK)
            return status;
        (void)sp_json_finish(&json, NULL);
        (void)write_stdout(NULL, "\n", 1);
        return finish_stdout(err);
    }
    struct sp_buf text;
    sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
    status = table->write_text(name, &text, err);
    if (status == SP_OK)
        status = print_buf(&text, err);
    sp_buf_release(&text);
    return status;
}

static int show_table(int argc, char **argv, struct common *common, const struct table *table)
{
    struct sp_error err = {0};
    bool wants_help = false;
    int code = parse_members(common, argc, argv, &(struct member_options){NULL, 0, table->help}, NULL, &wants_help);
    if (code != EXIT_DONE || wants_help)
        return code;
    if (optind + 1 < argc)
        return report_usage(common, "'%s' takes one name.", table->command);
    const char *name = optind < argc ? argv[optind] : NULL;
    if (common->server != NULL)
        return remote_table(common, table->path, name);
    return print_table(common, table, name, &err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}

int cmd_devices(int argc, char **argv, struct common *common)
{
    return show_table(argc, argv, common, &devices);
}

int cmd_operators(int argc, char **argv, struct common *common)
{
    return show_table(argc, argv, common, &operators);
}
