#include <stdio.h>

#include "cli.h"
#include "plan/answer/operators.h"

static const char help[] =
    "Usage: shardplan operators [NAME] [--json] [--server URL]\n"
    "\n"
    "Lists the operators that Shardplan knows, each with its sharding rule: which axes are which factors of the\n"
    "computation, and what a factor that is not simply parallel needs when it is split. NAME is one operator,\n"
    "with its domain (com.microsoft.Attention) or without.\n";

static enum sp_status print_operators(const struct common *common, const char *name, struct sp_error *err)
{
    enum sp_status status;
    if (common->json) {
        struct sp_json json;
        sp_json_init(&json, false, write_stdout, NULL);
        status = sp_operators_json(name, &json, err);
        if (status != SP_OK)
            return status;
        (void)sp_json_finish(&json, NULL);
        (void)write_stdout(NULL, "\n", 1);
        return finish_stdout(err);
    }
    struct sp_buf text;
    sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
    status = sp_operators_text(name, &text, err);
    if (status == SP_OK)
        status = print_buf(&text, err);
    sp_buf_release(&text);
    return status;
}

int cmd_operators(int argc, char **argv, struct common *common)
{
    struct sp_error err = {0};
    bool wants_help = false;
    int code = parse_members(common, argc, argv, &(struct member_options){NULL, 0, help}, NULL, &wants_help);
    if (code != EXIT_DONE || wants_help)
        return code;
    if (optind + 1 < argc)
        return report_usage(common, "'operators' takes one name.");
    const char *name = optind < argc ? argv[optind] : NULL;
    if (common->server != NULL)
        return remote_operators(common, name);
    return print_operators(common, name, &err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}
