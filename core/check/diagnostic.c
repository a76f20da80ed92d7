/* Findings: the list, and the words for places. */
#include "check/diagnostic.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "check/check.h"

#define NAME_IN_PLACE 120 /* bytes of a name that a place shows */

/* ---- places --------------------------------------------------------------------------------------------------- */

/* The attribute of the owner that holds this graph, with its position where it holds several; "" for none. */
static const char *branch_name(const struct sp_graph *graph, char *text, size_t size)
{
    const struct sp_node *owner = graph->owner;
    text[0] = '\0';
    for (uint32_t i = 0; i < owner->attribute_count; i++) {
        const struct sp_attribute *attribute = &owner->attributes[i];
        for (uint32_t k = 0; attribute->graphs != NULL && k < attribute->count; k++) {
            if (attribute->graphs[k] != graph)
                continue;
            if (attribute->type == SP_ATTR_GRAPHS)
                (void)snprintf(text, size, ".%.*s[%u]", NAME_IN_PLACE, attribute->name, k);
            else
                (void)snprintf(text, size, ".%.*s", NAME_IN_PLACE, attribute->name);
            return text;
        }
    }
    return text;
}

static void write_node(struct sp_buf *buf, const struct sp_node *node)
{
    if (node->name[0] != '\0')
        sp_buf_printf(buf, "/%.*s '%.*s'", NAME_IN_PLACE, node->op_type, NAME_IN_PLACE, node->name);
    else
        sp_buf_printf(buf, "/%.*s_%u", NAME_IN_PLACE, node->op_type, node->index);
}

/* The graphs from the root to `graph`. Expanded calls nest as deep as calls may, with subgraphs between. */
static void write_graphs(struct sp_buf *buf, const struct sp_graph *graph)
{
    const struct sp_graph *path[SP_MAX_NESTING + SP_MAX_CALL_DEPTH + 2];
    char text[NAME_IN_PLACE + 32];
    uint32_t depth = 0;
    while (graph->owner != NULL && depth < sizeof path / sizeof path[0]) {
        path[depth++] = graph;
        graph = graph->owner->graph;
    }
    if (graph->owner != NULL)
        sp_buf_text(buf, "...");
    else if (graph->model != NULL && graph != graph->model->graph)
        sp_buf_printf(buf, "function %.*s", NAME_IN_PLACE, graph->name == NULL ? "" : graph->name);
    else
        sp_buf_text(buf, "main");
    while (depth > 0) {
        const struct sp_graph *next = path[--depth];
        const struct sp_node *owner = next->owner;
        sp_buf_printf(buf, "/%.*s_%u%s", NAME_IN_PLACE, owner->op_type, owner->index,
                      next->parent == NULL ? "()" : branch_name(next, text, sizeof text));
    }
}

/* Text fit for a person's terminal and for JSON: an error object makes its message so. */
static const char *clean_copy(struct sp_arena *arena, const char *text)
{
    struct sp_error printable = {0};
    sp_fail(&printable, SP_ERR_MODEL, "TEXT", "%s", text);
    return sp_arena_string(arena, printable.message, strlen(printable.message));
}

const char *sp_diagnostic_place(struct sp_arena *arena, const struct sp_graph *graph, const struct sp_node *node)
{
    struct sp_buf buf;
    sp_buf_init(&buf, (size_t)1 << 20);
    write_graphs(&buf, node != NULL ? node->graph : graph);
    if (node != NULL)
        write_node(&buf, node);
    const char *place = sp_buf_failed(&buf) ? NULL : clean_copy(arena, buf.data);
    sp_buf_release(&buf);
    return place;
}

/* ---- findings ------------------------------------------------------------------------------------------------- */

static void count(struct sp_diagnostics *list, enum sp_severity severity)
{
    if (severity == SP_SEVERITY_ERROR)
        list->errors++;
    else if (severity == SP_SEVERITY_WARNING)
        list->warnings++;
    else
        list->notes++;
}

static bool copy_text(struct sp_arena *arena, const char *text, const char **ret_copy)
{
    *ret_copy = text == NULL ? NULL : sp_arena_string(arena, text, strlen(text));
    return text == NULL || *ret_copy != NULL;
}

static enum sp_status add(struct sp_diagnostics *list, const struct sp_finding *finding, const char *message,
                          struct sp_error *err)
{
    const struct sp_diagnostic_code *code = sp_diagnostic_find(finding->code);
    if (code == NULL)
        return sp_fail(err, SP_ERR_INTERNAL, "UNKNOWN_DIAGNOSTIC", "The finding %.64s is not in the table of codes.",
                       finding->code);
    if (list->count >= SP_MAX_DIAGNOSTICS) {
        count(list, code->severity);
        return SP_OK;
    }
    struct sp_diagnostic item = {
        .code = code,
        .severity = code->severity,
        .message = clean_copy(list->arena, message),
        .node = finding->node,
        .bytes = finding->bytes > 0 ? finding->bytes : -1,
    };
    if (finding->place != NULL)
        item.place = clean_copy(list->arena, finding->place);
    else if (finding->node != NULL || finding->graph != NULL)
        item.place = sp_diagnostic_place(list->arena, finding->graph, finding->node);
    const bool has_place = finding->place != NULL || finding->node != NULL || finding->graph != NULL;
    if (item.message == NULL || (has_place && item.place == NULL) ||
        !SP_MAKE_ROOM(list->arena, list->items, list->count, list->capacity, 1) ||
        !copy_text(list->arena, finding->hint != NULL ? finding->hint : code->remedy, &item.hint) ||
        !copy_text(list->arena, finding->tensor, &item.tensor) ||
        !copy_text(list->arena, finding->configuration, &item.configuration))
        return sp_fail_memory(err);
    list->items[list->count++] = item;
    count(list, code->severity);
    return SP_OK;
}

enum sp_status sp_diagnose(struct sp_diagnostics *list, const struct sp_finding *finding, struct sp_error *err,
                           const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    return add(list, finding, message, err);
}

enum sp_status sp_check_add_error(struct sp_diagnostics *list, const struct sp_node *node, const struct sp_error *what,
                                  struct sp_error *err)
{
    /* Operators have two words for one rule, and words that mean something else about annotations. */
    static const char *const renamed[][2] = {
        {"ATTRIBUTE_MISSING", "MISSING_ATTRIBUTE"},
        {"AXIS_OUT_OF_RANGE", "OPERATOR_AXIS_OUT_OF_RANGE"},
        {"AXIS_TWICE", "OPERATOR_AXIS_TWICE"},
    };
    struct sp_finding finding = {.code = what->code, .node = node};
    if (node == NULL && what->where[0] != '\0')
        finding.place = what->where;
    if (what->status == SP_OK)
        return SP_OK;
    for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++) {
        if (strcmp(what->code, renamed[i][0]) == 0)
            finding.code = renamed[i][1];
    }
    if (sp_diagnostic_find(finding.code) == NULL)
        finding.code = "MODEL_UNREADABLE";
    return add(list, &finding, what->message, err);
}
