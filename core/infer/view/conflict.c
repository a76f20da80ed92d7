#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "infer/view/internal.h"

#define MARK '\x01' /* begins and ends the number of an operand */

enum sp_status sp_viewer_conflict(struct sp_viewer *viewer, const struct sp_conflict *what, const char *format, ...)
{
    struct sp_view *view = viewer->view;
    if (view->conflict_count == SP_MAX_VIEW_CONFLICTS)
        return SP_OK;
    if (!SP_MAKE_ROOM(viewer->arena, view->conflicts, view->conflict_count, viewer->conflict_capacity, 1))
        return sp_fail_memory(viewer->err);
    char text[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(text, format);
    const char *message = sp_arena_string(viewer->arena, text, strlen(text));
    if (message == NULL)
        return sp_fail_memory(viewer->err);
    struct sp_conflict *conflict = &view->conflicts[view->conflict_count++];
    *conflict = *what;
    conflict->message = message;
    return SP_OK;
}

const struct sp_value *sp_viewer_input(const struct sp_viewer *viewer, uint32_t operand)
{
    uint32_t tensor = viewer->relation->tensors[operand];
    return tensor == SP_NO_TENSOR ? NULL : viewer->assignment->dataflow->tensors[tensor];
}

const char *sp_viewer_operand_text(uint32_t operand, char text[SP_OPERAND_TEXT_SIZE])
{
    (void)snprintf(text, SP_OPERAND_TEXT_SIZE, "%c%" PRIu32 "%c", MARK, operand, MARK);
    return text;
}

/* "'X' (axis 0 in 2 on devices 0, 1)". */
static size_t add_operand(const struct sp_viewer *viewer, uint32_t operand, char *text, size_t size)
{
    char spec[SP_SPEC_TEXT_SIZE];
    const struct sp_value *value = sp_viewer_input(viewer, operand);
    int length = snprintf(
        text, size, "'%.120s' (%s)", value != NULL ? value->name : "",
        sp_spec_text(sp_spec_of(viewer->assignment, viewer->relation->node_id, operand)->sharding, spec, sizeof spec));
    return length > 0 && (size_t)length < size ? (size_t)length : size - 1;
}

/* The sentence with this node's operands in place of the marks. */
static const char *tell(const struct sp_viewer *viewer, const char *sentence)
{
    char text[SP_ERROR_MESSAGE_SIZE], label[264];
    size_t used = 0;
    while (*sentence != '\0' && used + 1 < sizeof text) {
        char *end;
        if (*sentence != MARK) {
            text[used++] = *sentence++;
            continue;
        }
        used += add_operand(viewer, (uint32_t)strtoul(sentence + 1, &end, 10), text + used, sizeof text - used);
        sentence = end + 1;
    }
    text[used] = '\0';
    (void)sp_node_label(viewer->relation->node, label, sizeof label);
    return sp_arena_printf(viewer->arena, "Node %s %s", label + (strncmp(label, "node ", 5) == 0 ? 5 : 0), text);
}

enum sp_status sp_viewer_tell_conflicts(struct sp_viewer *viewer)
{
    struct sp_view *view = viewer->view;
    struct sp_conflict *own = SP_NEW_ARRAY(viewer->arena, view->conflict_count, struct sp_conflict);
    if (own == NULL)
        return sp_fail_memory(viewer->err);
    for (uint32_t i = 0; i < view->conflict_count; i++) {
        own[i] = view->conflicts[i];
        own[i].message = tell(viewer, view->conflicts[i].message);
        if (own[i].message == NULL)
            return sp_fail_memory(viewer->err);
    }
    view->conflicts = own;
    return SP_OK;
}
