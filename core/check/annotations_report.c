/* Findings about annotations, and what is known of names. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "check/annotations.h"

#define MAX_MESSAGE 2048

/* The body of a call is the same text at every call: what is wrong with it is told once. */
static enum sp_status is_new(struct sp_annotation_check *check, const char *code, const char *message, bool *ret_new)
{
    char key[MAX_MESSAGE + 128];
    *ret_new = true;
    if (!check->is_in_call || check->node == NULL || check->list->count >= SP_MAX_DIAGNOSTICS)
        return SP_OK;
    const uint32_t before = sp_intern_count(check->told);
    int size = snprintf(key, sizeof key, "%" PRIu64 " %s %s", check->node->span.offset, code, message);
    size_t length = size < 0 ? 0 : (size_t)size < sizeof key ? (size_t)size : sizeof key - 1;
    if (sp_intern_add(check->told, key, length) == SP_NO_NAME)
        return sp_fail_memory(check->err);
    *ret_new = sp_intern_count(check->told) != before;
    return SP_OK;
}

enum sp_status sp_annotation_report(struct sp_annotation_check *check, const char *code, const char *tensor,
                                    const char *hint, const char *format, ...)
{
    const struct sp_node_configuration *entry = check->entry;
    struct sp_finding finding = {.code = code, .node = check->node, .tensor = tensor, .hint = hint};
    char message[MAX_MESSAGE];
    bool fresh = true;
    SP_FORMAT(message, format);
    if (entry != NULL && entry->configuration_id[0] != '\0')
        finding.configuration = entry->configuration_id;
    else if (check->node == NULL && check->device != NULL && check->device->name[0] != '\0')
        finding.configuration = check->device->name;
    enum sp_status status = is_new(check, code, message, &fresh);
    return status == SP_OK && fresh ? sp_diagnose(check->list, &finding, check->err, "%s", message) : status;
}

struct sp_name_stamp *sp_annotation_stamp(struct sp_annotation_check *check, const char *name)
{
    const uint32_t id = sp_intern_add(check->model->names, name, strlen(name));
    if (id == SP_NO_NAME)
        return NULL;
    const bool has_place = SP_MAKE_PLACE(check->list->arena, check->stamps, check->stamp_capacity, id);
    return has_place ? &check->stamps[id] : NULL;
}
