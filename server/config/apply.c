/* One value: kept, set, or said to be wrong. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/reader.h"

struct owned_text {
    struct owned_text *next;
    char bytes[];
};

char *config_keep(struct config *config, const char *text, size_t size)
{
    struct owned_text *owned = malloc(sizeof *owned + size + 1);
    if (owned == NULL)
        return NULL;
    memcpy(owned->bytes, text, size);
    owned->bytes[size] = '\0';
    owned->next = config->owned;
    config->owned = owned;
    return owned->bytes;
}

void config_release(struct config *config)
{
    struct owned_text *list = config->owned;
    while (list != NULL) {
        struct owned_text *next = list->next;
        free(list);
        list = next;
    }
    *config = (struct config){0};
}

void config_wrong(struct config_reader *reader, const char *format, ...)
{
    va_list args;
    char text[1024];
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sp_buf_printf(reader->errors, "shardpland: %s\n", text);
    reader->wrong = true;
}

/* Relative paths count from the folder that the daemon is started in. */
static const char *absolute(struct config *config, const char *path)
{
    char *joined = NULL, *here;
    if (path[0] == '/' || path[0] == '\0')
        return path;
    here = getcwd(NULL, 0);
    if (here == NULL || asprintf(&joined, "%s/%s", here, path) < 0)
        joined = NULL;
    const char *kept = joined != NULL ? config_keep(config, joined, strlen(joined)) : NULL;
    free(here);
    free(joined);
    return kept;
}

void config_apply(struct config_reader *reader, const struct option *option, const char *text, const char *origin)
{
    struct config *config = reader->config;
    const char *value = config_keep(config, text, strlen(text));
    const char *kept_origin = config_keep(config, origin, strlen(origin));
    if (value != NULL && option->kind == OPTION_PATH)
        value = absolute(config, value);
    if (value == NULL || kept_origin == NULL) {
        config_wrong(reader, "%s: out of memory.", origin);
        return;
    }
    if (option_set(option, value, config)) {
        reader->origins[option - config_options] = kept_origin;
        return;
    }
    struct sp_buf expected;
    sp_buf_init(&expected, 1024);
    option_expected(option, &expected);
    config_wrong(reader, "%s: '%.200s' is wrong; expected %s.", origin, text,
                 expected.data != NULL ? expected.data : "something else");
    sp_buf_release(&expected);
}
