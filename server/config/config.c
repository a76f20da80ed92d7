#include "config/config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/reader.h"
#include "server_limits.h"
#include "version.h"

#define MAX_OUTPUT (1u << 20)

/* ---- the environment ---- */

/* Kubernetes tells every container of the services of its namespace; those of a service that is called shardpland look
   like ours. */
static bool is_service_link(const char *name, size_t size)
{
    static const char *const links[] = {"PORT", "PORT_", "SERVICE_"};
    const char *rest = name + strlen(CONFIG_PREFIX);
    size_t left = size - strlen(CONFIG_PREFIX);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        size_t length = strlen(links[i]);
        if (left >= length && memcmp(rest, links[i], length) == 0 && (left == length || links[i][length - 1] == '_'))
            return true;
    }
    return false;
}

static const struct option *option_of_variable(const char *name, size_t size)
{
    char variable[64];
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        option_variable(&config_options[i], variable, sizeof variable);
        if (strlen(variable) == size && memcmp(variable, name, size) == 0)
            return &config_options[i];
    }
    return NULL;
}

/* Takes --config alone, or everything else. An empty variable counts as not given. */
static void take_environment(struct config_reader *reader, char **environment, bool only_file)
{
    for (char **entry = environment; *entry != NULL; entry++) {
        size_t size = strcspn(*entry, "=");
        char origin[128];
        if (strncmp(*entry, CONFIG_PREFIX, strlen(CONFIG_PREFIX)) != 0 || (*entry)[size] != '=')
            continue;
        const struct option *option = option_of_variable(*entry, size);
        if ((option == &config_options[CONFIG_OPTION_FILE]) != only_file)
            continue;
        (void)snprintf(origin, sizeof origin, "environment %.*s", (int)size, *entry);
        if (option == NULL && !is_service_link(*entry, size))
            config_wrong(reader, "%s: there is no option with this name; --help lists all.", origin);
        else if (option != NULL && (*entry)[size + 1] != '\0')
            config_apply(reader, option, *entry + size + 1, origin);
    }
}

/* ---- flags ---- */

struct flags {
    enum config_result result;
    bool print;
};

/* Words that are no options. True when the argument was one. */
static bool take_action(struct config_reader *reader, const char *name, struct flags *flags)
{
    if (strcmp(name, "--help") == 0) {
        config_write_help(reader->output);
        flags->result = CONFIG_DONE;
    } else if (strcmp(name, "--version") == 0) {
        sp_buf_text(reader->output, "shardpland " SPD_VERSION "\n");
        flags->result = CONFIG_DONE;
    } else if (strcmp(name, "--print-config") == 0) {
        flags->print = true;
    } else if (strcmp(name, "--check-config") == 0) {
        flags->result = CONFIG_CHECK;
    } else if (strcmp(name, "--healthcheck") == 0) {
        flags->result = CONFIG_HEALTH;
    } else {
        return false;
    }
    return true;
}

/* The arguments, in two rounds: first --config alone, then everything else. */
static void take_flags(struct config_reader *reader, int argc, char **argv, bool only_file, struct flags *flags)
{
    for (int i = 1; i < argc && flags->result != CONFIG_DONE; i++) {
        const char *name = argv[i], *value = strchr(name, '=');
        size_t size = value != NULL ? (size_t)(value - name) : strlen(name);
        char origin[96];
        if (take_action(reader, name, flags))
            continue;
        const struct option *option = size > 2 && strncmp(name, "--", 2) == 0 ? option_find(name + 2, size - 2) : NULL;
        if (option == NULL) {
            if (!only_file && flags->result == CONFIG_HEALTH && name[0] != '-' && *reader->config->health_url == '\0')
                reader->config->health_url = name;
            else if (!only_file)
                config_wrong(reader, "%.200s: there is no such option; try 'shardpland --help'.", name);
            continue;
        }
        (void)snprintf(origin, sizeof origin, "--%s", option->name);
        const bool is_switch = option->kind == OPTION_SWITCH;
        if (value == NULL && !is_switch && i + 1 == argc) {
            if (!only_file)
                config_wrong(reader, "%s: a value must follow.", origin);
            return;
        }
        value = value != NULL ? value + 1 : is_switch ? "yes" : argv[++i];
        if ((option == &config_options[CONFIG_OPTION_FILE]) == only_file)
            config_apply(reader, option, value, origin);
    }
}

/* ---- defaults ---- */

static unsigned default_workers(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores < 1)
        cores = 1;
    return cores > SPD_MAX_WORKERS ? SPD_MAX_WORKERS : (unsigned)cores;
}

static const char *variable(char **environment, const char *name)
{
    size_t size = strlen(name);
    for (char **entry = environment; *entry != NULL; entry++) {
        if (strncmp(*entry, name, size) == 0 && (*entry)[size] == '=')
            return *entry + size + 1;
    }
    return "";
}

static const char *default_data(struct config *config, char **environment)
{
    char *text = NULL;
    const char *base = variable(environment, "XDG_DATA_HOME"), *home = variable(environment, "HOME"), *kept = NULL;
    int length = -1;
    if (base[0] == '/')
        length = asprintf(&text, "%s/shardplan", base);
    else if (home[0] == '/')
        length = asprintf(&text, "%s/.local/share/shardplan", home);
    if (length >= 0) {
        kept = config_keep(config, text, (size_t)length);
        free(text);
    }
    return kept != NULL ? kept : "";
}

/* ---- what only several values together can be ---- */

/* The connection string is printed and logged; a password belongs into a file of its own. */
static bool has_password(const char *store)
{
    const char *scheme = strstr(store, "://");
    if (strcasestr(store, "password") != NULL)
        return true;
    if (scheme == NULL)
        return false;
    const char *authority = scheme + 3, *at = memchr(authority, '@', strcspn(authority, "/?"));
    return at != NULL && memchr(authority, ':', (size_t)(at - authority)) != NULL;
}

static void check_store(struct config_reader *reader, const struct config *config)
{
    const char *store = config->store;
    if (*store == '\0' && *config->store_password_file != '\0')
        config_wrong(reader, "--store-password-file is given without --store.");
    if (*store == '\0')
        return;
    if (strncmp(store, "postgres://", 11) != 0 && strncmp(store, "postgresql://", 13) != 0 &&
        strchr(store, '=') == NULL)
        config_wrong(reader, "--store is not a connection string of PostgreSQL, like postgresql://HOST/DATABASE.");
    else if (has_password(store))
        config_wrong(reader, "--store has a password in it; put it into a file and name that with "
                             "--store-password-file.");
}

static void check_together(struct config_reader *reader, const struct config *config)
{
    if ((*config->tls_certificate != '\0') != (*config->tls_key != '\0'))
        config_wrong(reader, "--tls-certificate and --tls-key only work together; one of them is missing.");
    if (*config->tls_client_ca != '\0' && *config->tls_certificate == '\0')
        config_wrong(reader, "--tls-client-ca needs --tls-certificate and --tls-key: clients show certificates in TLS "
                             "only.");
    if (*config->listen.text == '\0')
        config_wrong(reader, "--listen is empty; there is nothing to serve on.");
    if (*config->admin_listen.text != '\0' && strcmp(config->listen.host, config->admin_listen.host) == 0 &&
        strcmp(config->listen.port, config->admin_listen.port) == 0 && strcmp(config->listen.port, "0") != 0)
        config_wrong(reader, "--listen and --admin-listen are the same address.");
    if (*config->data == '\0' || strlen(config->data) > PATH_MAX - 256)
        config_wrong(reader, "there is no usable data folder; give one with --data DIR.");
    check_store(reader, config);
}

/* ---- all of it ---- */

static void set_defaults(struct config *config, char **environment)
{
    *config = (struct config){.health_url = ""};
    for (size_t i = 0; i < CONFIG_OPTIONS; i++)
        option_set_default(&config_options[i], config);
    config->workers = default_workers();
    config->data = "";
    (void)option_set(option_find("data", strlen("data")), default_data(config, environment), config);
}

enum config_result config_read_from(int argc, char **argv, char **environment, struct config *config,
                                    struct sp_buf *output, struct sp_buf *errors)
{
    struct config_reader reader = {.config = config, .output = output, .errors = errors};
    struct flags flags = {.result = CONFIG_RUN};
    set_defaults(config, environment);
    take_environment(&reader, environment, true);
    take_flags(&reader, argc, argv, true, &flags);
    if (flags.result == CONFIG_DONE)
        return flags.result;
    if (*config->file != '\0')
        config_read_file(&reader, config->file);
    take_environment(&reader, environment, false);
    take_flags(&reader, argc, argv, false, &flags);
    if (!reader.wrong)
        check_together(&reader, config);
    if (reader.wrong)
        return CONFIG_WRONG;
    if (flags.print) {
        config_write(&reader, output);
        return CONFIG_DONE;
    }
    return flags.result;
}

enum config_result config_read(int argc, char **argv, struct config *config)
{
    struct sp_buf output, errors;
    sp_buf_init(&output, MAX_OUTPUT);
    sp_buf_init(&errors, MAX_OUTPUT);
    enum config_result result = config_read_from(argc, argv, environ, config, &output, &errors);
    if (output.data != NULL)
        (void)fputs(output.data, stdout);
    if (errors.data != NULL)
        (void)fputs(errors.data, stderr);
    sp_buf_release(&output);
    sp_buf_release(&errors);
    return result;
}
