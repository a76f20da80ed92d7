/* The completed model read again, without its bytes: the specs that will be written are put to the nodes in memory. */
#include <string.h>

#include "base/hash_map.h"
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
    struct sp_hash_map specs; /* struct known_spec */
};

/* The record of a sharding of a tensor of these extents: thousands of operands share it. */
struct known_spec {
    const struct sp_sharding *sharding;
    const struct sp_shape *shape;
    struct sp_sharding_spec spec;
};

static bool is_same_spec(const void *item, const void *key)
{
    const struct known_spec *a = item, *b = key;
    if (a->sharding != b->sharding || a->shape->rank != b->shape->rank)
        return false;
    for (uint32_t axis = 0; axis < a->shape->rank; axis++) {
        if (a->shape->dims[axis].kind != b->shape->dims[axis].kind ||
            a->shape->dims[axis].value != b->shape->dims[axis].value)
            return false;
    }
    return true;
}

/* The record of an operand's spec; its lists are shared. */
static enum sp_status spec_of(struct reading *all, const struct sp_value *value, const struct sp_sharding *sharding,
                              struct sp_sharding_spec *ret_spec)
{
    struct known_spec wanted = {.sharding = sharding, .shape = &value->type.shape};
    struct sp_digest digest;
    sp_digest_begin(&digest, all->completion->model->hash_seed);
    sp_digest_number(&digest, (uint64_t)(uintptr_t)sharding);
    sp_digest_number(&digest, wanted.shape->rank);
    uint64_t hash = sp_digest_end(&digest);
    const struct known_spec *known = sp_hash_set_find(&all->specs, hash, is_same_spec, &wanted);
    if (known == NULL) {
        enum sp_status status =
            sp_completion_spec(all->completion, all->arena, value, sharding, &wanted.spec, all->err);
        struct known_spec *own = status == SP_OK ? SP_NEW(all->arena, struct known_spec) : NULL;
        if (own == NULL || !sp_hash_set_add(&all->specs, hash, own))
            return status != SP_OK ? status : sp_fail_memory(all->err);
        *own = wanted;
        known = own;
    }
    *ret_spec = known->spec;
    ret_spec->tensor_name = value->name;
    return SP_OK;
}

/* A copy of the node's entries with the specs that will be written behind those of its configuration. */
static enum sp_status attach(struct reading *all, uint32_t id)
{
    const struct sp_completion *completion = all->completion;
    struct sp_node *node = completion->dataflow->nodes[id];
    const uint32_t count = node->configuration_count, operands = node->input_count + node->output_count;
    struct sp_node_configuration *list = SP_NEW_ARRAY(all->arena, (size_t)count + 1, struct sp_node_configuration);
    uint32_t at = 0;
    if (list == NULL)
        return sp_fail_memory(all->err);
    if (count > 0)
        memcpy(list, node->configurations, count * sizeof *list);
    while (at < count && strcmp(list[at].configuration_id, completion->configuration) != 0)
        at++;
    if (at == count)
        list[at] = (struct sp_node_configuration){.configuration_id = completion->configuration};
    struct sp_sharding_spec *specs =
        SP_NEW_ARRAY(all->arena, (size_t)list[at].spec_count + operands, struct sp_sharding_spec);
    if (specs == NULL)
        return sp_fail_memory(all->err);
    if (list[at].spec_count > 0)
        memcpy(specs, list[at].specs, list[at].spec_count * sizeof *specs);
    list[at].specs = specs;
    for (uint32_t i = 0; i < operands; i++) {
        const struct sp_spec_entry *entry = &completion->assignment->nodes[id].operands[i];
        if (entry->origin == SP_SPEC_GIVEN || !sp_completion_writes(completion, id, i))
            continue;
        enum sp_status status =
            spec_of(all, sp_completion_value(node, i), entry->sharding, &specs[list[at].spec_count]);
        if (status != SP_OK)
            return status;
        list[at].spec_count++;
    }
    all->before[all->count++] = (struct before){node, count, node->configurations};
    node->configurations = list;
    node->configuration_count = count + (at == count);
    return SP_OK;
}

static enum sp_status attach_all(struct reading *all)
{
    const struct sp_completion *completion = all->completion;
    enum sp_status status = SP_OK;
    all->before = SP_NEW_ARRAY(all->arena, completion->dataflow->node_count, struct before);
    if (all->before == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t id = 0; status == SP_OK && id < completion->dataflow->node_count; id++) {
        const struct sp_node *node = completion->dataflow->nodes[id];
        bool is_any = false;
        for (uint32_t i = 0; completion->assignment->nodes[id].operands != NULL && !is_any &&
                             i < node->input_count + node->output_count;
             i++)
            is_any = sp_completion_writes(completion, id, i);
        if (is_any)
            status = attach(all, id);
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
    struct sp_error why = {0};
    enum sp_status status = sp_assignment_completed(completion->arena, completion->dataflow, completion->configuration,
                                                    completion->device_count, &assignment, &why);
    if (status == SP_OK) {
        assignment->stored = completion->assignment->stored;
        return sp_part_communications(assignment, watch, &completion->communications, all->err);
    }
    if (status == SP_ERR_LIMIT) /* it is too large to be read again */
        return sp_assignment_communications(completion->assignment, &completion->communications, all->err);
    return sp_fail(all->err, status, why.code, "%s", why.message);
}

enum sp_status sp_completion_verify(struct sp_completion *completion, const struct sp_watch *watch,
                                    struct sp_error *err)
{
    struct reading all = {
        .completion = completion, .arena = sp_arena_create(sp_arena_budget(completion->arena)), .err = err};
    all.specs.arena = all.arena;
    enum sp_status status = all.arena != NULL ? attach_all(&all) : sp_fail_memory(err);
    if (status == SP_OK)
        status = check(&all);
    if (status == SP_OK)
        status = communicate(&all, watch);
    detach_all(&all);
    sp_arena_destroy(all.arena);
    return status;
}
