/* What the daemon is told: the table of options, its three sources, and what they may not say together. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/options.h"
#include "observe/log.h"
#include "server_limits.h"

#define MAX_WORDS 24

struct reading {
    struct config config;
    struct sp_buf output, errors;
    enum config_result result;
};

static unsigned split(const char *const *words, char **ret)
{
    unsigned count = 0;
    while (words != NULL && words[count] != NULL) {
        ret[count] = (char *)(uintptr_t)words[count]; /* which nobody writes to */
        count++;
    }
    ret[count] = NULL;
    return count;
}

/* Reads these flags in this environment, which always has a home. */
static struct reading *read_words(const char *const *flags, const char *const *variables)
{
    static char *argv[MAX_WORDS], *environment[MAX_WORDS];
    struct reading *reading = calloc(1, sizeof *reading);
    static char program[] = "shardpland", home[] = "HOME=/home/someone";
    argv[0] = program;
    environment[0] = home;
    unsigned argc = split(flags, argv + 1) + 1;
    (void)split(variables, environment + 1);
    sp_buf_init(&reading->output, 1u << 20);
    sp_buf_init(&reading->errors, 1u << 20);
    reading->result =
        config_read_from((int)argc, argv, environment, &reading->config, &reading->output, &reading->errors);
    return reading;
}

static void release(struct reading *reading)
{
    config_release(&reading->config);
    sp_buf_release(&reading->output);
    sp_buf_release(&reading->errors);
    free(reading);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static const char *errors_of(const struct reading *reading)
{
    return reading->errors.data != NULL ? reading->errors.data : "";
}

/* These flags are wrong, and the errors say this. */
static void wrong(const char *const *flags, const char *const *variables, const char *say)
{
    struct reading *reading = read_words(flags, variables);
    cr_expect_eq(reading->result, CONFIG_WRONG, "%s was taken", flags[0] != NULL ? flags[0] : variables[0]);
    cr_expect_not_null(strstr(errors_of(reading), say), "'%s' does not say '%s'", errors_of(reading), say);
    release(reading);
}

/* Writes a file of options; the caller unlinks and frees the path. */
static char *write_file(const char *text)
{
    char *path = strdup("/tmp/shardpland-config-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    return path;
}

Test(config, defaults)
{
    struct reading *reading = read_words(WORDS(), WORDS());
    const struct config *config = &reading->config;
    cr_assert_eq(reading->result, CONFIG_RUN, "%s", errors_of(reading));
    cr_expect_str_eq(config->listen.host, "127.0.0.1");
    cr_expect_str_eq(config->listen.port, "8080");
    cr_expect_str_eq(config->admin_listen.text, "");
    cr_expect_str_eq(config->data, "/home/someone/.local/share/shardplan");
    cr_expect_str_eq(config->store, "");
    cr_expect_eq(config->lease_seconds, SPD_DEFAULT_LEASE_SECONDS);
    cr_expect_geq(config->workers, 1);
    cr_expect_eq(config->max_upload, SPD_DEFAULT_MAX_UPLOAD);
    cr_expect_eq(config->job_memory, SPD_DEFAULT_JOB_MEMORY);
    cr_expect_eq(config->job_seconds, SPD_DEFAULT_JOB_SECONDS);
    cr_expect_eq(config->max_queued_plans, SPD_DEFAULT_QUEUED_PLANS);
    cr_expect_eq(config->keep_seconds, SPD_DEFAULT_KEEP_SECONDS);
    cr_expect_eq(config->max_connections, SPD_DEFAULT_CONNECTIONS);
    cr_expect_eq(config->drain_seconds, SPD_DEFAULT_DRAIN_SECONDS);
    cr_expect_eq(config->shutdown_delay_seconds, 0);
    cr_expect_eq(config->tenant_bytes, 0);
    cr_expect_eq(config->log_level, LOG_INFO);
    cr_expect_not(config->log_json);
    release(reading);
}

Test(config, data_folder_of_the_environment)
{
    struct reading *reading = read_words(WORDS(), WORDS("XDG_DATA_HOME=/srv"));
    cr_expect_str_eq(reading->config.data, "/srv/shardplan");
    release(reading);
}

Test(config, every_kind_as_flag)
{
    struct reading *reading =
        read_words(WORDS("--listen=[::1]:0", "--admin-listen", "127.0.0.1:9", "--data", "relative", "--max-upload",
                         "3K", "--keep-plans", "12h", "--drain=90", "--workers=7", "--log-format", "json",
                         "--log-level=warning", "--cors-origins", "https://a.example http://b.example:81"),
                   WORDS());
    const struct config *config = &reading->config;
    char here[4096];
    cr_assert_eq(reading->result, CONFIG_RUN, "%s", errors_of(reading));
    cr_expect_str_eq(config->listen.host, "::1");
    cr_expect_str_eq(config->listen.port, "0");
    cr_expect_str_eq(config->admin_listen.port, "9");
    cr_assert_not_null(getcwd(here, sizeof here));
    cr_expect_eq(strncmp(config->data, here, strlen(here)), 0);
    cr_expect_str_eq(config->data + strlen(here), "/relative");
    cr_expect_eq(config->max_upload, 3072);
    cr_expect_eq(config->keep_seconds, 43200);
    cr_expect_eq(config->drain_seconds, 90);
    cr_expect_eq(config->workers, 7);
    cr_expect(config->log_json);
    cr_expect_eq(config->log_level, LOG_WARNING);
    cr_expect_str_eq(config->cors_origins, "https://a.example http://b.example:81");
    release(reading);
}

Test(config, flags_before_environment_before_file)
{
    char *path = write_file("workers = 2\njob-seconds = 20\nmax-queued-plans = 200\n");
    char *flag;
    cr_assert_geq(asprintf(&flag, "--config=%s", path), 0);
    struct reading *reading =
        read_words(WORDS(flag, "--workers", "4"), WORDS("SHARDPLAND_WORKERS=3", "SHARDPLAND_JOB_SECONDS=30"));
    cr_assert_eq(reading->result, CONFIG_RUN, "%s", errors_of(reading));
    cr_expect_eq(reading->config.workers, 4);
    cr_expect_eq(reading->config.job_seconds, 30);
    cr_expect_eq(reading->config.max_queued_plans, 200);
    release(reading);
    (void)unlink(path);
    free(path);
    free(flag);
}

Test(config, file_of_the_environment)
{
    char *path = write_file("workers = 5\n"), *variable;
    cr_assert_geq(asprintf(&variable, "SHARDPLAND_CONFIG=%s", path), 0);
    struct reading *reading = read_words(WORDS("--print-config"), WORDS(variable));
    cr_assert_eq(reading->result, CONFIG_DONE, "%s", errors_of(reading));
    cr_expect_eq(reading->config.workers, 5);
    char *origin;
    cr_assert_geq(asprintf(&origin, "# %s:1\n", path), 0);
    cr_expect_not_null(strstr(reading->output.data, origin), "%s", reading->output.data);
    release(reading);
    (void)unlink(path);
    free(path);
    free(variable);
    free(origin);
}

Test(config, forms_of_lines)
{
    char *path = write_file("# a comment\n\n  workers=3   # behind\r\n\tdata = \"/a folder#1\"# comment\n"
                            "tokens = '/b\"c'\ntls-key=/k#ey\ntls-certificate = /c");
    char *flag;
    cr_assert_geq(asprintf(&flag, "--config=%s", path), 0);
    struct reading *reading = read_words(WORDS(flag), WORDS());
    cr_assert_eq(reading->result, CONFIG_RUN, "%s", errors_of(reading));
    cr_expect_eq(reading->config.workers, 3);
    cr_expect_str_eq(reading->config.data, "/a folder#1");
    cr_expect_str_eq(reading->config.tokens, "/b\"c");
    cr_expect_str_eq(reading->config.tls_key, "/k#ey");
    cr_expect_str_eq(reading->config.tls_certificate, "/c");
    release(reading);
    (void)unlink(path);
    free(path);
    free(flag);
}

/* A file with this text is wrong at this line. */
static void wrong_file(const char *text, const char *say)
{
    char *path = write_file(text), *flag, *expected;
    cr_assert_geq(asprintf(&flag, "--config=%s", path), 0);
    cr_assert_geq(asprintf(&expected, "%s:%s", path, say), 0);
    wrong(WORDS(flag), WORDS(), expected);
    (void)unlink(path);
    free(path);
    free(flag);
    free(expected);
}

Test(config, wrong_files)
{
    wrong_file("\nworker = 3\n", "2: there is no option 'worker'");
    wrong_file("workers\n", "1: a line is NAME = VALUE");
    wrong_file("workers: 3\n", "1: a line is NAME = VALUE");
    wrong_file("= 3\n", "1: a line is NAME = VALUE");
    wrong_file("workers = 3\n#\nworkers = 3\n", "3: workers is said in line 1 already");
    wrong_file("workers = 65\n", "1: '65' is wrong; expected a whole number from 1 to 64");
    wrong_file("workers =\n", "1: '' is wrong");
    wrong_file("data = \"/a\n", "1: the quotes are not closed");
    wrong_file("data = \"/a\" b\n", "1: after the closing quotes");
    wrong_file("config = /b\n", "1: a file cannot name another one");
    wrong(WORDS("--config", "/nowhere/at/all"), WORDS(), "/nowhere/at/all cannot be opened");
    wrong(WORDS("--config", "/tmp"), WORDS(), "/tmp cannot be read");
    wrong(WORDS("--config", "/dev/zero"), WORDS(), "is larger than");
}

/* Whether the flag is taken with this value. */
static bool takes(const char *name, const char *value)
{
    struct reading *reading = read_words(WORDS(name, value), WORDS());
    bool taken = reading->result == CONFIG_RUN;
    release(reading);
    return taken;
}

Test(config, borders_of_values)
{
    static const struct {
        const char *name, *good, *bad;
    } cases[] = {
        {"--workers", "64", "65"},
        {"--workers", "1", "0"},
        {"--workers", "08", "0x8"},
        {"--max-upload", "1", "0"},
        {"--max-upload", "8388607T", "8388608T"}, /* 2^63 - 1 at most; 2^23 T are 2^63 */
        {"--max-upload", "1K", "1k"},
        {"--max-upload", "1K", "1KB"},
        {"--max-upload", "1M", "1 M"},
        {"--max-upload", "2", "-2"},
        {"--max-upload", "2", "+2"},
        {"--max-upload", "2", "99999999999999999999"},
        {"--max-upload", "17G", "17179869184T"}, /* 2^34 * 2^40 overflows */
        {"--job-seconds", "1d", "2d"},
        {"--job-seconds", "60m", "1K"},
        {"--keep-plans", "0", "-1"},
        {"--keep-plans", "30d", "d"},
        {"--lease-seconds", "3", "2"},
        {"--listen", "127.0.0.1:65535", "127.0.0.1:65536"},
        {"--listen", "[::]:1", "::1"},
        {"--listen", "0.0.0.0:1", "localhost:1"},
        {"--listen", "1.2.3.4:1", "1.2.3:1"},
        {"--listen", "127.0.0.1:0", "127.0.0.1:"},
        {"--listen", "127.0.0.1:0", "127.0.0.1"},
        {"--listen", "127.0.0.1:0", ""},
        {"--log-format", "text", "TEXT"},
        {"--log-level", "debug", "verbose"},
        {"--cors-origins", "https://a.example", "https://a.example/"},
        {"--cors-origins", "https://a.example:8443 http://b", "a.example"},
        {"--cors-origins", "http://[::1]:1", "*"},
        {"--data", "/srv", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect(takes(cases[i].name, cases[i].good), "%s %s", cases[i].name, cases[i].good);
        cr_expect_not(takes(cases[i].name, cases[i].bad), "%s %s", cases[i].name, cases[i].bad);
    }
}

Test(config, wrong_flags)
{
    wrong(WORDS("--nothing"), WORDS(), "--nothing: there is no such option");
    wrong(WORDS("--work", "3"), WORDS(), "there is no such option"); /* no beginnings of names */
    wrong(WORDS("word"), WORDS(), "word: there is no such option");
    wrong(WORDS("--workers"), WORDS(), "--workers: a value must follow");
    wrong(WORDS("--workers=", "3"), WORDS(), "--workers: '' is wrong");
}

Test(config, all_errors_are_told)
{
    struct reading *reading = read_words(WORDS("--workers", "x", "--nothing"), WORDS("SHARDPLAND_JOB_SECONDS=y"));
    cr_expect_eq(reading->result, CONFIG_WRONG);
    cr_expect_not_null(strstr(errors_of(reading), "--workers: 'x'"));
    cr_expect_not_null(strstr(errors_of(reading), "--nothing"));
    cr_expect_not_null(strstr(errors_of(reading), "environment SHARDPLAND_JOB_SECONDS: 'y'"));
    release(reading);
}

Test(config, variables)
{
    wrong(WORDS(), WORDS("SHARDPLAND_WORKER=1"), "environment SHARDPLAND_WORKER: there is no option");
    wrong(WORDS(), WORDS("SHARDPLAND_workers=1"), "environment SHARDPLAND_workers");
    wrong(WORDS(), WORDS("SHARDPLAND_PRINT_CONFIG=1"), "there is no option");
    wrong(WORDS(), WORDS("SHARDPLAND_PORTS=1"), "there is no option");
    /* What Kubernetes tells of a service that is called shardpland, others' variables, and empty ones. */
    struct reading *reading =
        read_words(WORDS(), WORDS("SHARDPLAND_PORT=tcp://10.0.0.1:8080", "SHARDPLAND_SERVICE_HOST=10.0.0.1",
                                  "SHARDPLAND_PORT_8080_TCP_ADDR=10.0.0.1", "SHARDPLAN_SERVER=x",
                                  "SHARDPLAND_TOKENS=", "SHARDPLAND_WORKERS="));
    cr_expect_eq(reading->result, CONFIG_RUN, "%s", errors_of(reading));
    release(reading);
}

Test(config, every_option_from_every_source)
{
    for (size_t i = 1; i < CONFIG_OPTIONS; i++) {
        const struct option *option = &config_options[i];
        char variable[64], *from_variable;
        option_variable(option, variable, sizeof variable);
        cr_assert_geq(asprintf(&from_variable, "%s=%s", variable, "!"), 0);
        /* Texts and paths take anything, at least alone; all others say that "!" is wrong, and where it stands. */
        struct reading *reading = read_words(WORDS("--print-config"), WORDS(from_variable));
        bool is_text = option->kind == OPTION_PATH || option->kind == OPTION_TEXT;
        if (reading->result == CONFIG_DONE)
            cr_expect(is_text && strstr(reading->output.data, variable) != NULL, "%s", reading->output.data);
        else
            cr_expect_not_null(strstr(errors_of(reading), is_text ? option->name : variable), "%s: %s", variable,
                               errors_of(reading));
        release(reading);
        free(from_variable);
    }
}

/* A switch is on by its name alone; what follows is the next option. */
Test(config, switches)
{
    struct reading *reading = read_words(WORDS("--require-sandbox", "--workers=3"), WORDS());
    cr_expect(reading->config.require_sandbox && reading->config.workers == 3, "%s", errors_of(reading));
    release(reading);
    reading = read_words(WORDS("--require-sandbox=no"), WORDS("SHARDPLAND_REQUIRE_SANDBOX=yes"));
    cr_expect_not(reading->config.require_sandbox);
    release(reading);
    reading = read_words(WORDS("--workers=3"), WORDS("SHARDPLAND_REQUIRE_SANDBOX=yes"));
    cr_expect(reading->config.require_sandbox);
    release(reading);
    wrong(WORDS("--require-sandbox", "no"), WORDS(), "no: there is no such option");
    wrong(WORDS("--require-sandbox=maybe"), WORDS(), "'maybe' is wrong; expected yes or no");
}

Test(config, weights)
{
    static const char *const bad[] = {"a",    "a=",    "=1",  "a=0",   "a=101",   "a=1.5",
                                      "a=-1", "a=1 b", "a:2", "a=1=2", "a=1,b=2", "a=99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        wrong(WORDS("--tenant-weights", bad[i]), WORDS(), "--tenant-weights");
    struct reading *reading = read_words(WORDS("--tenant-weights", " a.b=2  c@d=100 a=3 "), WORDS());
    cr_assert_eq(reading->result, CONFIG_RUN, "%s", errors_of(reading));
    cr_expect_eq(config_tenant_weight(&reading->config, "a.b"), 2);
    cr_expect_eq(config_tenant_weight(&reading->config, "c@d"), 100);
    cr_expect_eq(config_tenant_weight(&reading->config, "a"), 3);
    cr_expect_eq(config_tenant_weight(&reading->config, "b"), 1);
    cr_expect_eq(config_tenant_weight(&reading->config, ""), 1);
    release(reading);
}

Test(config, what_does_not_go_together)
{
    wrong(WORDS("--tls-certificate", "/c"), WORDS(), "--tls-certificate and --tls-key only work together");
    wrong(WORDS("--tls-key", "/k"), WORDS(), "--tls-certificate and --tls-key only work together");
    wrong(WORDS("--tls-client-ca", "/a"), WORDS(), "--tls-client-ca needs --tls-certificate");
    wrong(WORDS("--store-password-file", "/p"), WORDS(), "--store-password-file is given without --store");
    wrong(WORDS("--store", "somewhere"), WORDS(), "--store is not a connection string");
    wrong(WORDS("--listen", "127.0.0.1:7000", "--admin-listen", "127.0.0.1:7000"), WORDS(), "the same address");
    cr_expect(takes("--store", "postgresql://user@host:5432/plans"));
    cr_expect(takes("--store", "host=db user=plans"));
    struct reading *reading = read_words(WORDS("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"), WORDS());
    cr_expect_eq(reading->result, CONFIG_RUN); /* two free ports are different ones */
    release(reading);
}

Test(config, passwords_stay_in_files)
{
    static const char *const stores[] = {"postgresql://user:secret@host/plans", "host=db password=secret",
                                         "postgresql://host/plans?password=secret", "host=db PASSWORD = secret"};
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
        struct reading *reading = read_words(WORDS("--print-config", "--store", stores[i]), WORDS());
        cr_expect_eq(reading->result, CONFIG_WRONG, "%s", stores[i]);
        cr_expect_not_null(strstr(errors_of(reading), "--store has a password in it"));
        cr_expect_null(strstr(errors_of(reading), "secret"), "%s", errors_of(reading));
        cr_expect_null(reading->output.data);
        release(reading);
    }
}

/* What --print-config writes is a file that says the same. */
Test(config, printed_and_read_again)
{
    const char *const flags[] = {
        "--print-config",    "--workers=9",    "--data=/a b#c", "--max-upload=1025", "--job-seconds",      "90",
        "--log-level=error", "--max-store=3T", "--store",       "host=h dbname=d",   "--listen=[::1]:443", NULL};
    struct reading *first = read_words(flags, WORDS());
    cr_assert_eq(first->result, CONFIG_DONE, "%s", errors_of(first));
    char *path = write_file(first->output.data), *flag;
    cr_assert_geq(asprintf(&flag, "--config=%s", path), 0);
    struct reading *second = read_words(WORDS(flag, "--print-config"), WORDS());
    cr_assert_eq(second->result, CONFIG_DONE, "%s", errors_of(second));
    for (size_t i = 1; i < CONFIG_OPTIONS; i++) {
        struct sp_buf before, after;
        sp_buf_init(&before, 4096);
        sp_buf_init(&after, 4096);
        option_write(&config_options[i], &first->config, &before);
        option_write(&config_options[i], &second->config, &after);
        cr_expect_str_eq(before.data, after.data, "%s", config_options[i].name);
        sp_buf_release(&before);
        sp_buf_release(&after);
    }
    cr_expect_eq(second->config.max_upload, 1025);
    cr_expect_str_eq(second->config.data, "/a b#c");
    release(first);
    release(second);
    (void)unlink(path);
    free(path);
    free(flag);
}

Test(config, actions)
{
    static const struct {
        const char *flag;
        enum config_result result;
        const char *says;
    } cases[] = {
        {"--help", CONFIG_DONE, "--keep-plans TIME"},  {"--version", CONFIG_DONE, "shardpland "},
        {"--print-config", CONFIG_DONE, "workers = "}, {"--check-config", CONFIG_CHECK, NULL},
        {"--healthcheck", CONFIG_HEALTH, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading *reading = read_words(WORDS(cases[i].flag), WORDS());
        cr_expect_eq(reading->result, cases[i].result, "%s", cases[i].flag);
        cr_expect(cases[i].says == NULL || strstr(reading->output.data, cases[i].says) != NULL, "%s", cases[i].flag);
        release(reading);
    }
    struct reading *reading = read_words(WORDS("--healthcheck", "http://h:1"), WORDS());
    cr_expect_str_eq(reading->config.health_url, "http://h:1");
    release(reading);
    wrong(WORDS("--healthcheck", "http://h:1", "again"), WORDS(), "again: there is no such option");
    wrong(WORDS("http://h:1"), WORDS(), "there is no such option");
}

Test(config, help_names_every_option)
{
    struct reading *reading = read_words(WORDS("--help"), WORDS("SHARDPLAND_NONSENSE=1"));
    cr_assert_eq(reading->result, CONFIG_DONE);
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "  --%s ", config_options[i].name);
        cr_expect_not_null(strstr(reading->output.data, name), "%s", name);
    }
    for (const char *line = reading->output.data; *line != '\0'; line += strcspn(line, "\n") + 1)
        cr_expect_leq(strcspn(line, "\n"), 120, "%.100s", line);
    release(reading);
}
