/* What commands with verbs of their own share. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void name_all(const struct verb *verbs, char *text, size_t size)
{
    text[0] = '\0';
    for (const struct verb *verb = verbs; verb->name != NULL; verb++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, size - used, "%s%s",
                       verb == verbs          ? ""
                       : verb[1].name == NULL ? " and "
                                              : ", ",
                       verb->name);
    }
}

int take_verb(const struct common *common, int argc, char **argv, const struct verb *verbs, const char **ret_verb,
              const char **ret_argument)
{
    const char *given = optind < argc ? argv[optind] : "list";
    const int left = argc - optind - 1; /* behind the verb */
    const struct verb *verb = verbs;
    char all[128];
    while (verb->name != NULL && strcmp(verb->name, given) != 0)
        verb++;
    name_all(verbs, all, sizeof all);
    if (verb->name == NULL)
        return report_usage(common, "'%s' has no verb '%.64s'; it has %s.", common->command, given, all);
    if (verb->takes_one && left < 1)
        return report_usage(common, "'%s %s' needs to know which one.", common->command, verb->name);
    if (left > (int)verb->takes_one)
        return report_usage(common, "'%s %s' takes no '%.64s'.", common->command, verb->name,
                            argv[optind + 1 + (int)verb->takes_one]);
    *ret_verb = verb->name;
    *ret_argument = verb->takes_one ? argv[optind + 1] : NULL;
    return EXIT_DONE;
}

void write_time(const char *stamp, char *text, size_t size)
{
    static const size_t seconds = sizeof "2026-11-22T18:30:05" - 1;
    (void)snprintf(text, size, "%.*s", (int)seconds, stamp != NULL ? stamp : "-");
    char *letter = strchr(text, 'T');
    if (letter != NULL)
        *letter = ' ';
    sp_make_printable(text, size);
}

enum sp_status print_value(const json_t *json, struct sp_error *err)
{
    char *text = json_dumps(json, JSON_COMPACT);
    if (text == NULL)
        return sp_fail_memory(err);
    (void)write_stdout(NULL, text, strlen(text));
    (void)write_stdout(NULL, "\n", 1);
    free(text);
    return finish_stdout(err);
}

enum sp_status print_list(const char *name, json_t *value, struct sp_error *err)
{
    json_t *json = json_pack("{s:O}", name, value);
    enum sp_status status = json != NULL ? print_value(json, err) : sp_fail_memory(err);
    json_decref(json);
    return status;
}

enum sp_status print_done(const struct common *common, const char *id, const char *state, struct sp_error *err)
{
    if (!common->json) {
        (void)printf("%s %s\n", id, state);
        return finish_stdout(err);
    }
    json_t *json = json_pack("{s:s, s:s}", "id", id, "state", state);
    enum sp_status status = json != NULL ? print_value(json, err) : sp_fail_memory(err);
    json_decref(json);
    return status;
}
