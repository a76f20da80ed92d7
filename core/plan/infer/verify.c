/* The completed model read again, without its bytes: the specs that will be written are put to the nodes in memory. */
#include <string.h>

#include "check/check.h"
#include "infer/complete.h"
#include "partition/communications.h"
#include "plan/infer/internal.h"

/* What a node had before. */
struct before {
    struct sp_node *node;
    uint32_t count;
    struct sp_node_configuration *configurations;
};

struct reading {
    struct sp_completion *completion;
    struct sp_arena *arena;
    struct sp_error *err;
    uint32_t count;
    struct before *before;
};

/* A copy of the node's entries with the specs of `added` behind those of its configuration. */
static enum sp_status attach(struct reading *all, struct sp_node *node, const struct sp_node_configuration *added)
{
    const uint32_t count = node->configuration_count;
    struct sp_node_configuration *list = SP_NEW_ARRAY(all->arena, (size_t)count + 1, struct sp_node_configuration);
    uint32_t at = 0;
    if (list == NULL)
        return sp_fail_memory(all->err);
    if (count > 0)
        memcpy(list, node->configurations, count * sizeof *list);
    while (at < count && strcmp(list[at].configuration_id, all->completion->configuration) != 0)
        at++;
    if (at == count)
        list[at] = (struct sp_node_configuration){.configuration_id = all->completion->configuration};
    struct sp_sharding_spec *specs =
        SP_NEW_ARRAY(all->arena, (size_t)list[at].spec_count + added->spec_count, struct sp_sharding_spec);
    if (specs == NULL)
        return sp_fail_memory(all->err);
    if (list[at].spec_count > 0)
        memcpy(specs, list[at].specs, list[at].spec_count * sizeof *specs);
    memcpy(specs + list[at].spec_count, added->specs, added->spec_count * sizeof *specs);
    list[at].specs = specs;
    list[at].spec_count += added->spec_count;
    all->before[all->count++] = (struct before){node, count, node->configurations};
    node->configurations = list;
    node->configuration_count = count + (at == count);
    return SP_OK;
}

static enum sp_status attach_all(struct reading *all)
{
    const struct sp_dataflow *dataflow = all->completion->dataflow;
    enum sp_status status = SP_OK;
    all->before = SP_NEW_ARRAY(all->arena, dataflow->node_count, struct before);
    if (all->before == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; status == SP_OK && i < dataflow->node_count; i++) {
        struct sp_annotation annotation = {0};
        if (all->completion->assignment->nodes[i].operands == NULL)
            continue;
        status = sp_completion_annotation(all->completion, all->arena, i, &annotation, all->err);
        if (status == SP_OK && annotation.configuration.spec_count > 0)
            status = attach(all, dataflow->nodes[i], &annotation.configuration);
    }
    return status;
}

static void detach_all(const struct reading *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        all->before[i].node->configurations = all->before[i].configurations;
        all->before[i].node->configuration_count = all->before[i].count;
    }
}

/* The first error that a check of the completed model would find. */
static enum sp_status check(struct reading *all)
{
    const struct sp_completion *completion = all->completion;
    struct sp_diagnostics list = {.arena = all->arena};
    enum sp_status status = sp_check_contradictions(completion->model, completion->configuration,
                                                    completion->device_count, &list, all->err);
    for (uint32_t i = 0; status == SP_OK && i < list.count; i++) {
        const struct sp_diagnostic *item = &list.items[i];
        if (item->severity == SP_SEVERITY_ERROR)
            return sp_fail(all->err, SP_ERR_MODEL, item->code->code, "%s", item->message);
    }
    return status;
}

static enum sp_status communicate(struct reading *all, const struct sp_watch *watch)
{
    struct sp_completion *completion = all->completion;
    struct sp_assignment *assignment = NULL;
    enum sp_status status = sp_assignment_completed(completion->arena, completion->dataflow, completion->configuration,
                                                    completion->device_count, &assignment, all->err);
    return status == SP_OK ? sp_part_communications(assignment, watch, &completion->communications, all->err) : status;
}

enum sp_status sp_completion_verify(struct sp_completion *completion, const struct sp_watch *watch,
                                    struct sp_error *err)
{
    struct reading all = {
        .completion = completion, .arena = sp_arena_create(sp_arena_budget(completion->arena)), .err = err};
    enum sp_status status = all.arena != NULL ? attach_all(&all) : sp_fail_memory(err);
    if (status == SP_OK)
        status = check(&all);
    if (status == SP_OK)
        status = communicate(&all, watch);
    detach_all(&all);
    sp_arena_destroy(all.arena);
    return status;
}
