/* The file of --config: `name = value` in each line, # begins a comment, quotes keep blanks and # in a value. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/reader.h"
#include "server_limits.h"

struct position {
    const char *path;
    unsigned line;
};

/* Cuts the value out of what stands behind '='; false with an error when quotes are open or text follows them. */
static bool cut_value(struct config_reader *reader, const struct position *at, char *text, char **ret_value)
{
    text += strspn(text, " \t");
    if (*text == '"' || *text == '\'') {
        char *end = strchr(text + 1, *text);
        if (end == NULL) {
            config_wrong(reader, "%s:%u: the quotes are not closed.", at->path, at->line);
            return false;
        }
        const char *rest = end + 1 + strspn(end + 1, " \t");
        if (*rest != '\0' && *rest != '#') {
            config_wrong(reader, "%s:%u: after the closing quotes only a comment may follow.", at->path, at->line);
            return false;
        }
        *end = '\0';
        *ret_value = text + 1;
        return true;
    }
    /* A comment needs a blank in front, so that a value may have a # inside. */
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '#' && (c == text || c[-1] == ' ' || c[-1] == '\t')) {
            *c = '\0';
            break;
        }
    }
    size_t length = strlen(text);
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        text[--length] = '\0';
    *ret_value = text;
    return true;
}

static void take_line(struct config_reader *reader, const struct position *at, char *line, unsigned *seen)
{
    char *name = line + strspn(line, " \t"), *value;
    char origin[1024];
    if (*name == '\0' || *name == '#')
        return;
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    char *equals = name + size + strspn(name + size, " \t");
    if (size == 0 || *equals != '=') {
        config_wrong(reader, "%s:%u: a line is NAME = VALUE.", at->path, at->line);
        return;
    }
    const struct option *option = option_find(name, size);
    if (option == NULL) {
        config_wrong(reader, "%s:%u: there is no option '%.*s'; --help lists all.", at->path, at->line,
                     size < 64 ? (int)size : 64, name);
        return;
    }
    if (option == &config_options[CONFIG_OPTION_FILE]) {
        config_wrong(reader, "%s:%u: a file cannot name another one.", at->path, at->line);
        return;
    }
    unsigned *first = &seen[option - config_options];
    if (*first != 0) {
        config_wrong(reader, "%s:%u: %s is said in line %u already.", at->path, at->line, option->name, *first);
        return;
    }
    *first = at->line;
    if (!cut_value(reader, at, equals + 1, &value))
        return;
    (void)snprintf(origin, sizeof origin, "%s:%u", at->path, at->line);
    config_apply(reader, option, value, origin);
}

static void take_lines(struct config_reader *reader, const char *path, char *text)
{
    unsigned seen[CONFIG_OPTIONS] = {0};
    struct position at = {.path = path};
    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        size_t length = strlen(line);
        if (length > 0 && line[length - 1] == '\r')
            line[length - 1] = '\0';
        at.line++;
        take_line(reader, &at, line, seen);
    }
}

void config_read_file(struct config_reader *reader, const char *path)
{
    char *text = malloc(SPD_MAX_CONFIG_BYTES + 1);
    FILE *file = fopen(path, "re");
    if (text == NULL || file == NULL) {
        config_wrong(reader, "%s cannot be opened: %s.", path, file == NULL ? strerrordesc_np(errno) : "out of memory");
    } else {
        size_t size = fread(text, 1, SPD_MAX_CONFIG_BYTES + 1, file);
        if (ferror(file))
            config_wrong(reader, "%s cannot be read: %s.", path, strerrordesc_np(errno));
        else if (size > SPD_MAX_CONFIG_BYTES)
            config_wrong(reader, "%s is larger than %u bytes.", path, SPD_MAX_CONFIG_BYTES);
        else if (memchr(text, '\0', size) != NULL)
            config_wrong(reader, "%s is not a text.", path);
        else {
            text[size] = '\0';
            take_lines(reader, path, text);
        }
    }
    if (file != NULL)
        (void)fclose(file);
    free(text);
}
