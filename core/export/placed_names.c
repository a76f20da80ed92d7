/*
 * Where nodes run, said by their names, or beside them:
 *
 *   ort-layers-names   ONNX Runtime's other option, session.name_based_layer_assignment: parts of nodes' names, of which the
 *                      longest counts: "gpu:0(embed, layers.0/q); gpu:1(layers.1/q)". All of a name is the longest part
 *                      of it, whatever others are called. The model stays as it is
 *   olive-splits       Olive's SplitModel, `split_assignments`: "embed=0;layers.0=0;layers.1=1". A node's name with dots for
 *                      slashes is of the longest such beginning of it
 *   netron             the model with what a reader wants to see at each node, as metadata, which Netron shows
 *
 * Of Olive's, names are as short as tells the nodes apart: the beginning, up to a '/' or '.', that only nodes of one stage
 * have.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/internal.h"

#define SETTING "session.name_based_layer_assignment"

enum { NODE_METADATA = 9, ENTRY_KEY = 1, ENTRY_VALUE = 2 };

struct names {
    struct sp_intern *beginnings; /* mark: 2 + where, or MIXED */
    bool *is_told;                /* by beginning */
    int64_t *place_of;            /* by node: the device, or the stage */
};

static char mixed;
#define MIXED ((void *)&mixed)

static bool ends_word(char c)
{
    return c == '/' || c == '.' || c == '\0';
}

/* What a node is called there. */
static const char *name_of(const struct sp_export *out, uint32_t node, bool is_dotted)
{
    const char *name = out->subject->model->graph->nodes[node].name;
    return is_dotted && name[0] == '/' ? name + 1 : name;
}

static enum sp_status count_beginnings(struct sp_export *out, struct names *names, bool is_dotted, struct sp_error *err)
{
    int64_t *places = names->place_of;
    for (uint32_t i = 0; i < out->subject->model->graph->node_count; i++) {
        const char *name = name_of(out, i, is_dotted);
        for (size_t at = 1; name[0] != '\0' && name[at - 1] != '\0'; at++) {
            if (!ends_word(name[at]))
                continue;
            const uint32_t id = sp_intern_add(names->beginnings, name, at);
            if (id == SP_NO_NAME)
                return sp_fail_memory(err);
            void **mark = sp_intern_mark(sp_intern_name(names->beginnings, id));
            if (*mark == NULL)
                *mark = &places[i];
            else if (*mark != MIXED && *(int64_t *)*mark != places[i])
                *mark = MIXED;
        }
    }
    return SP_OK;
}

/* The shortest beginning of the node's name that only nodes of its place have; its number, or SP_NO_NAME. */
static uint32_t shortest(const struct sp_export *out, const struct names *names, uint32_t node, bool is_dotted)
{
    const char *name = name_of(out, node, is_dotted);
    for (size_t at = 1; name[0] != '\0' && name[at - 1] != '\0'; at++) {
        const uint32_t id = ends_word(name[at]) ? sp_intern_find(names->beginnings, name, at) : SP_NO_NAME;
        if (id != SP_NO_NAME && *sp_intern_mark(sp_intern_name(names->beginnings, id)) != MIXED)
            return id;
    }
    /* all of it: a name that others begin with, and the longest counts */
    return sp_intern_find(names->beginnings, name, strlen(name));
}

static enum sp_status begin(struct sp_export *out, const char *tool, bool by_stage, struct names *names,
                            struct sp_error *err)
{
    const uint32_t count = out->subject->model->graph->node_count;
    enum sp_status status = sp_export_check_names(out, tool, false, err);
    names->beginnings = sp_intern_create(out->scratch, out->subject->model->hash_seed);
    names->place_of = SP_NEW_ARRAY(out->scratch, count, int64_t);
    names->is_told = NULL;
    if (names->beginnings == NULL || names->place_of == NULL) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY; /* said so that an analyser sees it */
    }
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        status = sp_export_device(out, i, tool, &names->place_of[i], err);
        if (by_stage)
            names->place_of[i] = sp_export_stage(out, i);
    }
    if (status == SP_OK)
        status = count_beginnings(out, names, by_stage, err);
    if (status != SP_OK)
        return status;
    names->is_told = SP_NEW_ARRAY(out->scratch, sp_intern_count(names->beginnings), bool);
    if (names->is_told != NULL)
        return SP_OK;
    (void)sp_fail_memory(err);
    return SP_ERR_MEMORY;
}

static enum sp_status check_marks(const char *name, const char *marks, const char *tool, struct sp_error *err)
{
    if (strpbrk(name, marks) == NULL)
        return SP_OK;
    return sp_fail(err, SP_ERR_UNSUPPORTED, "NODE_NAMES",
                   "%s separates names by one of '%s', which '%.200s' has in it; give the node another name.", tool,
                   marks, name);
}

enum sp_status sp_export_ort_names(struct sp_export *out, struct sp_error *err)
{
    static const char tool[] = "ONNX Runtime";
    const struct sp_subject *subject = out->subject;
    struct names names;
    struct sp_buf text;
    char device[32];
    enum sp_status status = begin(out, tool, false, &names, err);
    sp_buf_init(&text, SP_MAX_ANSWER_BYTES);
    for (int64_t d = 0; status == SP_OK && d < subject->device_count; d++) {
        bool is_first = true;
        for (uint32_t i = 0; status == SP_OK && i < subject->model->graph->node_count; i++) {
            const char *name = subject->model->graph->nodes[i].name;
            if (names.place_of[i] != d)
                continue;
            status = check_marks(name, ",;()=", tool, err);
            sp_export_ort_device(out, d, device, sizeof device);
            if (is_first)
                sp_buf_printf(&text, "%s%s(", text.size > 0 ? "; " : "", device);
            sp_buf_text(&text, is_first ? "" : ", ");
            sp_buf_text(&text, name);
            is_first = false;
        }
        if (!is_first)
            sp_buf_text(&text, ")");
    }
    if (status == SP_OK && sp_buf_failed(&text))
        status = sp_fail_memory(err);
    if (status == SP_OK) {
        sp_export_text(out, "{\"" SETTING "\": ");
        sp_export_quoted(out, text.size > 0 ? text.data : "");
        sp_export_text(out, "}\n");
    }
    sp_buf_release(&text);
    return status;
}

enum sp_status sp_export_olive(struct sp_export *out, struct sp_error *err)
{
    static const char tool[] = "Olive";
    struct names names;
    bool is_first = true;
    enum sp_status status = begin(out, tool, true, &names, err);
    for (uint32_t i = 0; status == SP_OK && i < out->subject->model->graph->node_count; i++) {
        const uint32_t id = shortest(out, &names, i, true);
        if (id == SP_NO_NAME || names.is_told[id])
            continue;
        names.is_told[id] = true;
        const char *name = sp_intern_name(names.beginnings, id);
        status = check_marks(name, ";=", tool, err);
        if (!is_first)
            sp_export_text(out, ";");
        is_first = false;
        for (const char *c = name; *c != '\0'; c++)
            sp_export_bytes(out, *c == '/' ? "." : c, 1);
        sp_export_printf(out, "=%" PRId64, names.place_of[i]);
    }
    sp_export_text(out, "\n");
    return status;
}

/* ---- Netron ------------------------------------------------------------------------------------------------------ */

static void put_entry(struct sp_buf *buf, const char *key, const char *value)
{
    struct sp_buf entry;
    sp_buf_init(&entry, SP_MAX_RECORD_BYTES);
    sp_export_put_field(&entry, ENTRY_KEY, key, strlen(key));
    sp_export_put_field(&entry, ENTRY_VALUE, value, strlen(value));
    if (!sp_buf_failed(&entry))
        sp_export_put_field(buf, NODE_METADATA, entry.data, entry.size);
    sp_buf_release(&entry);
}

static enum sp_status write_metadata(struct sp_export *out, uint32_t node, struct sp_buf *buf, void *context,
                                     struct sp_error *err)
{
    const struct sp_subject_node *place = &out->subject->nodes[node];
    struct sp_buf text;
    char stage[16];
    (void)context;
    sp_buf_init(&text, SP_MAX_RECORD_BYTES);
    for (int64_t d = 0; d < place->device_count; d++)
        sp_buf_printf(&text, "%s%" PRId64, d > 0 ? ", " : "", place->devices[d]);
    if (place->device_count > 0 && !sp_buf_failed(&text))
        put_entry(buf, "shardplan.devices", text.data);
    if (place->has_stage) {
        (void)snprintf(stage, sizeof stage, "%" PRId32, place->stage);
        put_entry(buf, "shardplan.stage", stage);
    }
    const bool is_made = !sp_buf_failed(&text) && !sp_buf_failed(buf);
    sp_buf_release(&text);
    return is_made ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_export_netron(struct sp_export *out, struct sp_error *err)
{
    static const char *const keys[] = {"shardplan.devices", "shardplan.stage"};
    const struct sp_export_field field = {NODE_METADATA, 2, keys, write_metadata, NULL};
    struct sp_splice *splice = NULL;
    enum sp_status status = sp_export_fields(out, &field, &splice, err);
    return status == SP_OK ? sp_export_model(out, splice, err) : status;
}
