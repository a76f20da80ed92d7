#include "plan/accepted.h"

#include <string.h>

/* What is taken; a note without an entry says so itself. */
static const struct {
    const char *code, *taken;
} kinds[] = {
    {"SHAPE_CONTRADICTS_DECLARATION", "What the operators give is taken."},
    {"RANK_CONTRADICTS_DECLARATION", "What the operators give is taken."},
    {"OPERAND_SHAPE", "The missing axis is taken for one of 1 element, as runtimes do."},
    {"DUPLICATE_NAME",
     "The last one is taken, or one that is sparse; where they differ, runtimes may take another one."},
    {"NOT_TOPOLOGICAL", "The nodes are taken in topological order; written files keep the order of the model."},
};

struct gathering {
    struct sp_accepted *accepted;
    struct sp_arena *arena;
    struct sp_error *err;
};

static enum sp_status add(const struct gathering *gathering, const char *code, const char *message)
{
    struct sp_accepted *accepted = gathering->accepted;
    uint32_t i = 0;
    while (i < accepted->count && strcmp(accepted->notes[i].code, code) != 0)
        i++;
    if (i == SP_ACCEPTED_KINDS)
        return SP_OK;
    struct sp_accepted_note *note = &accepted->notes[i];
    if (i == accepted->count) {
        note->code = sp_arena_string(gathering->arena, code, strlen(code));
        note->message = sp_arena_string(gathering->arena, message, strlen(message));
        if (note->code == NULL || note->message == NULL)
            return sp_fail_memory(gathering->err);
        accepted->count++;
    }
    note->count++;
    return SP_OK;
}

static enum sp_status accept(void *context, const struct sp_node *node, const struct sp_error *error)
{
    const struct gathering *gathering = context;
    (void)node;
    if (gathering->accepted->refuses && strcmp(error->code, "DOMAIN_NOT_IMPORTED") != 0) {
        if (gathering->err != NULL)
            *gathering->err = *error;
        return error->status;
    }
    return add(gathering, error->code, error->message);
}

/* The first node of the main graph that stands too early; those of subgraphs may be the only ones. */
static enum sp_status add_order(const struct gathering *gathering, const struct sp_model *model)
{
    char label[SP_ERROR_WHERE_SIZE], text[SP_ERROR_MESSAGE_SIZE] = "Nodes of a subgraph stand in no topological order.";
    for (uint32_t i = 0; i < model->graph->node_count; i++) {
        const struct sp_node *node = &model->graph->nodes[i];
        const struct sp_value *early = sp_node_early_input(node);
        if (early == NULL)
            continue;
        (void)snprintf(text, sizeof text, "Node %s stands before the node that makes its input '%.120s'.",
                       sp_node_label(node, label, sizeof label), early->name);
        break;
    }
    return add(gathering, "NOT_TOPOLOGICAL", text);
}

/* Values with several initializers; those of subgraphs may be the only ones. */
static enum sp_status add_doubles(const struct gathering *gathering, const struct sp_model *model)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < model->graph->initializer_count; i++) {
        const struct sp_value *value = model->graph->initializers[i];
        char text[SP_ERROR_MESSAGE_SIZE];
        if (!value->is_listed_again)
            continue;
        (void)snprintf(text, sizeof text, "Two initializers are named '%.120s'.", value->name);
        status = add(gathering, "DUPLICATE_NAME", text);
    }
    const uint32_t found = gathering->accepted->count;
    if (status == SP_OK && (found == 0 || strcmp(gathering->accepted->notes[found - 1].code, "DUPLICATE_NAME") != 0))
        status = add(gathering, "DUPLICATE_NAME", "Two initializers of a subgraph have one name.");
    return status;
}

/* The messages in their last form. */
static enum sp_status finish(const struct gathering *gathering)
{
    for (uint32_t i = 0; i < gathering->accepted->count; i++) {
        struct sp_accepted_note *note = &gathering->accepted->notes[i];
        const char *taken = "";
        char more[64] = "";
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            taken = strcmp(kinds[k].code, note->code) == 0 ? kinds[k].taken : taken;
        if (note->count > 1)
            (void)snprintf(more, sizeof more, " (%u more like it.)", note->count - 1);
        note->message =
            sp_arena_printf(gathering->arena, "%s%s%s%s", note->message, more, taken[0] != '\0' ? " " : "", taken);
        if (note->message == NULL)
            return sp_fail_memory(gathering->err);
    }
    return SP_OK;
}

enum sp_status sp_infer_shapes_accepting(struct sp_model *model, const struct sp_watch *watch,
                                         struct sp_accepted *accepted, struct sp_shape_summary *ret_summary,
                                         struct sp_error *err)
{
    struct gathering gathering = {accepted, model->arena, err};
    const struct sp_shape_options options = {.watch = watch, .accept = accept, .report_context = &gathering};
    enum sp_status status = model->is_sorted ? add_order(&gathering, model) : SP_OK;
    if (status == SP_OK && model->lists_again)
        status = add_doubles(&gathering, model);
    if (status == SP_OK)
        status = sp_infer_shapes_with(model, &options, ret_summary, err);
    return status == SP_OK ? finish(&gathering) : status;
}
