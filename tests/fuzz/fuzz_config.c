/*
 * What the daemon is told: any file, flags and environment give a configuration or whole sentences that say why not,
 * and a configuration that is written as a file is read as the same one.
 *
 * An input is texts with NULs between them: the file first, behind it flags ("--..") and variables of the environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/config.h"
#include "config/options.h"
#include "fuzz.h"

#define MAX_WORDS 32
#define MAX_TEXT  ((size_t)4 << 20)

struct told {
    unsigned flag_count, variable_count;
    char *flags[MAX_WORDS + 3], *variables[MAX_WORDS + 2];
};

static char program[] = "shardpland", file_flag[] = "--config", home[] = "HOME=/home/someone", file_path[64];
static int file_fd = -1;

static void fill_file(const char *text, size_t size)
{
    if (file_fd < 0) {
        file_fd = memfd_create("config", 0);
        (void)snprintf(file_path, sizeof file_path, "/proc/self/fd/%d", file_fd);
    }
    if (file_fd < 0 || ftruncate(file_fd, 0) != 0 || pwrite(file_fd, text, size, 0) != (ssize_t)size)
        abort();
}

static void begin(struct told *told)
{
    *told = (struct told){.flag_count = 3, .variable_count = 1};
    told->flags[0] = program;
    told->flags[1] = file_flag;
    told->flags[2] = file_path;
    told->variables[0] = home;
}

static enum config_result read_told(struct told *told, struct config *config)
{
    struct sp_buf output, errors;
    sp_buf_init(&output, MAX_TEXT);
    sp_buf_init(&errors, MAX_TEXT);
    enum config_result result =
        config_read_from((int)told->flag_count, told->flags, told->variables, config, &output, &errors);
    /* Who asks for help gets it, also behind something wrong. */
    if ((result == CONFIG_WRONG && errors.size == 0) || (result == CONFIG_DONE) != (output.size > 0) ||
        (errors.size > 0 && result != CONFIG_WRONG && result != CONFIG_DONE))
        abort();
    if (errors.size > 0 && (strncmp(errors.data, "shardpland: ", 12) != 0 || errors.data[errors.size - 1] != '\n'))
        abort();
    sp_buf_release(&output);
    sp_buf_release(&errors);
    return result;
}

static void write_all(const struct config *config, struct sp_buf *buf)
{
    sp_buf_init(buf, MAX_TEXT);
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        if (i == CONFIG_OPTION_FILE)
            continue;
        sp_buf_printf(buf, "%s = ", config_options[i].name);
        option_write(&config_options[i], config, buf);
        sp_buf_text(buf, "   # why\n");
    }
}

/* It comes back from its own text, unless that is more than a file may have. */
static void check_round_trip(const struct config *config)
{
    struct sp_buf first, second;
    struct told told;
    struct config again;
    write_all(config, &first);
    if (first.size <= (size_t)64 * 1024) {
        fill_file(first.data, first.size);
        begin(&told);
        enum config_result result = read_told(&told, &again);
        write_all(&again, &second);
        if (result != CONFIG_RUN || first.size != second.size || memcmp(first.data, second.data, first.size) != 0) {
            (void)fprintf(stderr, "%s\nbecame\n%s\n", first.data, second.data);
            abort();
        }
        sp_buf_release(&second);
        config_release(&again);
    }
    sp_buf_release(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    struct told told;
    struct config config;
    if (text == NULL)
        return 0;
    memcpy(text, bytes, size);
    text[size] = '\0';
    fill_file(text, strlen(text));
    begin(&told);
    for (char *word = text + strlen(text) + 1; word < text + size + 1; word += strlen(word) + 1) {
        if (*word == '-' && told.flag_count < MAX_WORDS)
            told.flags[told.flag_count++] = word;
        else if (*word != '-' && told.variable_count < MAX_WORDS)
            told.variables[told.variable_count++] = word;
    }
    enum config_result result = read_told(&told, &config);
    if (result == CONFIG_RUN || result == CONFIG_CHECK)
        check_round_trip(&config);
    config_release(&config);
    free(text);
    return 0;
}
