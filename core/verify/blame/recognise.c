/* What ranks have of the original: elements, by their numbers. */
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

#define REPEATED UINT64_MAX

static uint64_t place_key(const struct sp_value *value, uint64_t field)
{
    return sp_scramble(field) ^ (uint64_t)(uintptr_t)value;
}

static enum sp_status add_items(struct sp_recognised *known, const struct sp_value *value, const struct sp_numbers *x,
                                struct sp_error *err)
{
    if (!sp_is_variable(x) || (uint64_t)known->places.count + x->count > SP_MAX_RECOGNISED_NUMBERS)
        return SP_OK;
    for (uint64_t i = 0; i < x->count; i++) {
        struct sp_hash_slot *slot = sp_hash_map_put(&known->values, x->items[i].field);
        if (slot == NULL)
            return sp_fail_memory(err);
        if (slot->item == NULL)
            slot->item = (void *)(uintptr_t)value;
        if ((slot = sp_hash_map_put(&known->places, place_key(value, x->items[i].field))) == NULL)
            return sp_fail_memory(err);
        slot->number = slot->number == 0 ? i + 1 : slot->number == i + 1 ? i + 1 : REPEATED;
    }
    return SP_OK;
}

static enum sp_status add_value(struct sp_verification *all, struct sp_recognised *known, const struct sp_value *value,
                                struct sp_error *err)
{
    const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(&all->original, value) : NULL;
    return outcome != NULL ? add_items(known, value, outcome->numbers, err) : SP_OK;
}

static enum sp_status add_original(struct sp_verification *all, struct sp_recognised *known, struct sp_error *err)
{
    const struct sp_graph *graph = all->original.model->graph;
    enum sp_status status = SP_OK;
    known->values.arena = known->places.arena = known->good.arena = all->arena;
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++) {
        if (graph->values[i]->producer == NULL)
            status = add_value(all, known, graph->values[i], err);
    }
    for (uint32_t i = 0; status == SP_OK && i < all->original.order_count; i++) {
        const struct sp_node *node = all->original.order[i];
        for (uint32_t k = 0; status == SP_OK && k < node->output_count; k++)
            status = add_value(all, known, node->outputs[k], err);
    }
    return status;
}

const struct sp_value *sp_blame_find_items(const struct sp_recognised *known, const struct sp_numbers *x)
{
    const struct sp_value *first = NULL;
    for (uint64_t i = 0; i < x->count; i++) {
        if (x->items[i].field == 0)
            continue; /* padding */
        const struct sp_hash_slot *slot = sp_hash_map_get(&known->values, x->items[i].field);
        if (slot == NULL)
            return NULL;
        first = first == NULL ? slot->item : first;
    }
    return first;
}

bool sp_blame_is_within(const struct sp_recognised *known, const struct sp_value *value, const struct sp_numbers *x)
{
    for (uint64_t i = 0; i < x->count; i++) {
        if (x->items[i].field != 0 && sp_hash_map_get(&known->places, place_key(value, x->items[i].field)) == NULL)
            return false;
    }
    return true;
}

/* Whether the items lie in the order that they have in the value. */
static bool are_in_order(const struct sp_recognised *known, const struct sp_value *value, const struct sp_numbers *x)
{
    uint64_t last = 0;
    for (uint64_t i = 0; i < x->count; i++) {
        const struct sp_hash_slot *slot = sp_hash_map_get(&known->places, place_key(value, x->items[i].field));
        if (x->items[i].field == 0)
            continue;
        if (slot == NULL || (slot->number != REPEATED && slot->number <= last))
            return false;
        last = slot->number != REPEATED ? slot->number : last;
    }
    return true;
}

/* What a rank's value is of. One that has the name of a value of the original has its items, in their order; where it
   has others it is scattered. */
static void recognise_value(struct sp_verification *all, const struct sp_recognised *known,
                            const struct sp_value *value, struct sp_outcome *own)
{
    const struct sp_value *named = sp_original_value(all, value->name);
    const struct sp_outcome *outcome = named != NULL ? sp_run_outcome(&all->original, named) : NULL;
    own->of = sp_blame_find_items(known, own->numbers);
    if (own->of == NULL || outcome == NULL || !sp_is_variable(outcome->numbers) ||
        outcome->numbers->rank != own->numbers->rank)
        return;
    /* steps of an exchange have the name of what they are for, which another tensor may be packed for */
    const char *at = strrchr(value->name, '@');
    if (at != NULL && strchr(at, '/') != NULL && !sp_blame_is_within(known, named, own->numbers))
        return;
    own->is_scattered = !are_in_order(known, named, own->numbers);
    own->of = own->is_scattered ? own->of : named;
}

enum sp_status sp_blame_recognise(struct sp_verification *all, struct sp_recognised *known, struct sp_error *err)
{
    enum sp_status status = add_original(all, known, err);
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
        struct sp_verify_run *run = &all->runs[i];
        for (uint32_t v = 0; v < run->model->graph->value_count; v++) {
            const struct sp_value *value = run->model->graph->values[v];
            struct sp_outcome *outcome = sp_variable_of(run, value);
            if (outcome != NULL)
                recognise_value(all, known, value, outcome);
        }
        for (uint32_t n = 0; n < run->order_count; n++) {
            for (uint32_t k = 0; run->order[n]->graph != run->model->graph && k < run->order[n]->output_count; k++) {
                struct sp_outcome *outcome = sp_variable_of(run, run->order[n]->outputs[k]);
                if (outcome != NULL)
                    recognise_value(all, known, run->order[n]->outputs[k], outcome);
            }
        }
    }
    return status;
}

bool sp_blame_is_good_number(const struct sp_recognised *known, uint64_t field)
{
    return field == 0 || sp_hash_map_get(&known->values, field) != NULL || sp_hash_map_get(&known->good, field) != NULL;
}

bool sp_blame_is_good(const struct sp_recognised *known, const struct sp_outcome *outcome)
{
    for (uint64_t i = 0; outcome != NULL && i < outcome->numbers->count; i++) {
        if (!sp_blame_is_good_number(known, outcome->numbers->items[i].field))
            return false;
    }
    return true;
}
