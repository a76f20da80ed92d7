/*
 * YAML as JSON, by libyaml. Of YAML's ways to say more with less, none is taken: no anchors, no tags, one document.
 */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/limits.h"
#include "import/internal.h"

struct yaml {
    yaml_parser_t parser;
    json_t *open[SP_MAX_YAML_DEPTH]; /* lists and maps that are not closed; borrowed of `root` */
    char *keys[SP_MAX_YAML_DEPTH];   /* of a map whose value comes next; NULL: a key comes next */
    uint32_t depth, count;
    json_t *root;
    struct sp_error *err;
};

static enum sp_status refuse(struct yaml *yaml, const yaml_mark_t *at, const char *why)
{
    (void)sp_fail(yaml->err, SP_ERR_REQUEST, "PLACEMENT_FILE", "The YAML file is not read: %s.", why);
    return sp_error_at(yaml->err, "line %zu, column %zu", at->line + 1, at->column + 1);
}

/* Takes the reference. */
static enum sp_status put(struct yaml *yaml, const yaml_mark_t *at, json_t *item)
{
    if (item == NULL)
        return sp_fail_memory(yaml->err);
    if (++yaml->count > SP_MAX_YAML_NODES) {
        json_decref(item);
        return sp_fail_limit(yaml->err, "PLACEMENT_FILE", "SP_MAX_YAML_NODES", SP_MAX_YAML_NODES, yaml->count,
                             "The YAML file has more than %d items.", SP_MAX_YAML_NODES);
    }
    if (yaml->depth == 0) {
        yaml->root = item;
        return SP_OK;
    }
    json_t *into = yaml->open[yaml->depth - 1];
    if (json_is_array(into))
        return json_array_append_new(into, item) == 0 ? SP_OK : sp_fail_memory(yaml->err);
    char **key = &yaml->keys[yaml->depth - 1];
    if (*key == NULL) { /* a list or map as the key of a map */
        json_decref(item);
        return refuse(yaml, at, "a key is no text");
    }
    const bool is_twice = json_object_get(into, *key) != NULL;
    const int failed = json_object_set_new(into, *key, item);
    free(*key);
    *key = NULL;
    return is_twice ? refuse(yaml, at, "a key is there twice") : failed == 0 ? SP_OK : sp_fail_memory(yaml->err);
}

/* Text; of a plain scalar that is an integer, the integer. */
static json_t *scalar_of(const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    const size_t size = event->data.scalar.length;
    char *end;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && size > 0 && size < 19 &&
        strspn(text, "-0123456789") == size) {
        const long long value = strtoll(text, &end, 10);
        if (*end == '\0')
            return json_integer(value);
    }
    return json_stringn(text, size);
}

static enum sp_status take_scalar(struct yaml *yaml, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    const bool is_key =
        yaml->depth > 0 && json_is_object(yaml->open[yaml->depth - 1]) && yaml->keys[yaml->depth - 1] == NULL;
    if (memchr(text, '\0', event->data.scalar.length) != NULL)
        return refuse(yaml, &event->start_mark, "a text has a NUL in it");
    if (!is_key)
        return put(yaml, &event->start_mark, scalar_of(event));
    yaml->keys[yaml->depth - 1] = strdup(text);
    return yaml->keys[yaml->depth - 1] != NULL ? SP_OK : sp_fail_memory(yaml->err);
}

static enum sp_status open_item(struct yaml *yaml, const yaml_event_t *event, json_t *item)
{
    if (yaml->depth == SP_MAX_YAML_DEPTH) {
        json_decref(item);
        return sp_fail_limit(yaml->err, "PLACEMENT_FILE", "SP_MAX_YAML_DEPTH", SP_MAX_YAML_DEPTH, yaml->depth + 1,
                             "The YAML file has more than %d levels.", SP_MAX_YAML_DEPTH);
    }
    enum sp_status status = put(yaml, &event->start_mark, item);
    if (status == SP_OK)
        yaml->open[yaml->depth++] = item;
    return status;
}

static enum sp_status take_event(struct yaml *yaml, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor != NULL ? refuse(yaml, &event->start_mark, "it has an anchor")
                                                 : take_scalar(yaml, event);
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor != NULL ? refuse(yaml, &event->start_mark, "it has an anchor")
                                                         : open_item(yaml, event, json_array());
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor != NULL ? refuse(yaml, &event->start_mark, "it has an anchor")
                                                        : open_item(yaml, event, json_object());
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        yaml->depth--;
        return SP_OK;
    case YAML_ALIAS_EVENT:
        return refuse(yaml, &event->start_mark, "it has an alias");
    case YAML_DOCUMENT_START_EVENT:
        return yaml->root == NULL ? SP_OK : refuse(yaml, &event->start_mark, "it has several documents");
    default:
        return SP_OK;
    }
}

enum sp_status sp_yaml_read(const char *text, size_t size, json_t **ret_json, struct sp_error *err)
{
    struct yaml yaml = {.err = err};
    enum sp_status status = SP_OK;
    bool is_end = false;
    if (yaml_parser_initialize(&yaml.parser) == 0)
        return sp_fail_memory(err);
    yaml_parser_set_input_string(&yaml.parser, (const unsigned char *)text, size);
    while (status == SP_OK && !is_end) {
        yaml_event_t event;
        if (yaml_parser_parse(&yaml.parser, &event) == 0) {
            status = yaml.parser.error == YAML_MEMORY_ERROR
                         ? sp_fail_memory(err)
                         : refuse(&yaml, &yaml.parser.problem_mark,
                                  yaml.parser.problem != NULL ? yaml.parser.problem : "it is not YAML");
            break;
        }
        is_end = event.type == YAML_STREAM_END_EVENT;
        status = take_event(&yaml, &event);
        yaml_event_delete(&event);
    }
    if (status == SP_OK && yaml.root == NULL)
        status = refuse(&yaml, &yaml.parser.mark, "it is empty");
    for (uint32_t i = 0; i < SP_MAX_YAML_DEPTH; i++)
        free(yaml.keys[i]);
    yaml_parser_delete(&yaml.parser);
    if (status == SP_OK)
        *ret_json = yaml.root;
    else
        json_decref(yaml.root);
    return status;
}
