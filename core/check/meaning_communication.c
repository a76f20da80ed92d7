/* What the devices send each other, as in the models that are exported. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/meaning.h"
#include "infer/complete.h"
#include "partition/communications.h"

static bool is_output(const struct sp_node *node, const char *tensor)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (tensor != NULL && node->outputs[i] != NULL && strcmp(node->outputs[i]->name, tensor) == 0)
            return true;
    }
    return false;
}

static const char *communication_code(const struct sp_communication *one)
{
    switch (one->kind) {
    case SP_COMMUNICATE_REDUCE:
        return "REDUCTION";
    case SP_COMMUNICATE_HALO:
        return "HALO_EXCHANGE";
    case SP_COMMUNICATE_GATHER:
        return "GATHER";
    case SP_COMMUNICATE_RESHARD:
    default:
        return is_output(one->node, one->tensor) ? "OUTPUT_RESHARD" : "RESHARD";
    }
}

/* "2 devices", "4 devices (2 groups of 2)"; several steps have groups of several sizes. */
static const char *among(const struct sp_communication *one, char *text, size_t size)
{
    if (one->group_size == 0)
        return "groups of devices";
    if (one->group_count < 2)
        (void)snprintf(text, size, "%" PRId64 " devices", one->group_size);
    else
        (void)snprintf(text, size, "%" PRId64 " devices (%" PRId64 " groups of %" PRId64 ")",
                       one->group_count * one->group_size, one->group_count, one->group_size);
    return text;
}

static enum sp_status report(struct sp_meaning *meaning, const struct sp_communications *list)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < list->count; i++) {
        const struct sp_communication *one = &list->items[i];
        char each[64], all[64], devices[96];
        (void)sp_meaning_bytes(one->bytes, each, sizeof each);
        (void)sp_meaning_bytes(one->total_bytes, all, sizeof all);
        const char *steps = one->steps == NULL ? "" : one->steps;
        if (one->bytes > 0)
            status =
                sp_meaning_report(meaning, communication_code(one), one->node, one->tensor, NULL, one->bytes,
                                  "%s It takes %s of '%.120s' among %s; the busiest sends %s, all together %s.",
                                  one->because, steps, one->tensor, among(one, devices, sizeof devices), each, all);
        else
            status = sp_meaning_report(meaning, communication_code(one), one->node, one->tensor, NULL, 0,
                                       "%s It takes %s of '%.120s' among %s.", one->because,
                                       steps[0] == '\0' ? "a copy" : steps, one->tensor,
                                       among(one, devices, sizeof devices));
    }
    return status;
}

/* What was completed forward tells contradictions; what is exported is completed otherwise. */
static enum sp_status list(struct sp_meaning *meaning, struct sp_arena *arena, struct sp_communications *list)
{
    const struct sp_assignment *own = meaning->assignment;
    struct sp_assignment *assignment = NULL;
    struct sp_error why = {0};
    enum sp_status status =
        sp_assignment_completed(arena, own->dataflow, meaning->configuration, own->device_count, &assignment, &why);
    if (status == SP_ERR_MEMORY)
        return sp_fail_memory(meaning->err);
    return sp_part_communications(status == SP_OK ? assignment : own, NULL, list, meaning->err);
}

enum sp_status sp_check_meaning_communication(struct sp_meaning *meaning)
{
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(meaning->list->arena));
    struct sp_communications found = {0};
    enum sp_status status = arena != NULL ? list(meaning, arena, &found) : sp_fail_memory(meaning->err);
    if (status == SP_OK)
        status = report(meaning, &found);
    sp_arena_destroy(arena);
    return status;
}
