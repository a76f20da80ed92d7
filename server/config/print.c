/* --help and --print-config: the table of options as text. */
#include <string.h>

#include "config/reader.h"

#define HELP_COLUMN  34 /* of the explanations */
#define VALUE_COLUMN 48 /* of the origins */

/* One line per option, or two when its name is long. */
static void write_option(const struct option *option, struct sp_buf *buf)
{
    struct config defaults = {0};
    char head[64];
    (void)snprintf(head, sizeof head, "  --%s %s", option->name, option->argument);
    if (option->section != NULL)
        sp_buf_printf(buf, "\n%s\n", option->section);
    sp_buf_printf(buf, "%-*s%s", HELP_COLUMN, head, option->help);
    option_set_default(option, &defaults);
    if (strcmp(option->name, "data") == 0) {
        sp_buf_printf(buf, "\n%*s(default $XDG_DATA_HOME/shardplan or ~/.local/share/shardplan)", HELP_COLUMN, "");
    } else if (strcmp(option->name, "workers") == 0) {
        sp_buf_text(buf, " (default: one per core)");
    } else if (option->text == NULL ? option->number != 0 : *option->text != '\0') {
        sp_buf_text(buf, " (default ");
        option_write(option, &defaults, buf);
        sp_buf_text(buf, ")");
    }
    sp_buf_text(buf, "\n");
}

void config_write_help(struct sp_buf *buf)
{
    sp_buf_text(buf, "Usage: shardpland [OPTION]...\n"
                     "       shardpland --healthcheck [URL] [OPTION]...\n"
                     "       shardpland --replay JOB [--data DIR]\n"
                     "       shardpland token NAME [--tenant T] [--scopes S] [--days N]\n"
                     "Serves model planning over HTTP.\n"
                     "\n");
    for (size_t i = 0; i < CONFIG_OPTIONS; i++)
        write_option(&config_options[i], buf);
    sp_buf_text(
        buf, "\nInstead of serving\n"
             "  --check-config                  read everything, the files that are named too, and say OK\n"
             "  --print-config                  each value, and where it comes from\n"
             "  --healthcheck [URL]             exit status 0 when a daemon is ready: this one, as it is configured\n"
             "  --replay JOB                    do the job again that a worker died over: 0 done, 1 failed, or dies\n"
             "  --help, --version\n"
             "\n"
             "BYTES may end in K, M, G or T (powers of 1024), TIME (else seconds) in s, m, h or d.\n"
             "Each option may also stand in the environment, as SHARDPLAND_ and its name in capitals with\n"
             "underscores (SHARDPLAND_MAX_UPLOAD=1G), and in the file, as a line max-upload = 1G. Flags go before\n"
             "the environment, that before the file.\n"
             "SIGTERM ends the daemon when running plans had their time, a second one at once; SIGHUP reads the\n"
             "files of --tokens and of TLS again.\n");
}

void config_write(const struct config_reader *reader, struct sp_buf *buf)
{
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        const struct option *option = &config_options[i];
        const char *origin = reader->origins[i] != NULL ? reader->origins[i] : "default";
        size_t start = buf->size;
        /* The path of the file is no option of the file. */
        sp_buf_printf(buf, "%s%s = ", i == CONFIG_OPTION_FILE ? "# " : "", option->name);
        option_write(option, reader->config, buf);
        size_t used = buf->size - start;
        int padding = used < VALUE_COLUMN ? (int)(VALUE_COLUMN - used) : 1;
        sp_buf_printf(buf, "%*s# %s%s\n", padding, "", strncmp(origin, "--", 2) == 0 ? "flag " : "", origin);
    }
}
