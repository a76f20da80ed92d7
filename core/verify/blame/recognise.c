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
    known->values.arena = known->places.arena = known->good.arena = known->terms.arena = all->arena;
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

/* Whether the items are a box of the value, in its order: an index along an axis stands for one index of the value, and a later
   one for a later one. */
static bool are_in_order(struct sp_arena *scratch, const struct sp_recognised *known, const struct sp_value *value,
                         const struct sp_numbers *whole, const struct sp_numbers *x)
{
    uint64_t at = 0;
    for (uint32_t a = 0; a < x->rank; a++)
        at += x->axes[a].count;
    int64_t *indices = SP_NEW_ARRAY(scratch, at + 1, int64_t); /* of the value, plus 1; for one axis after the other */
    for (uint64_t i = 0; indices != NULL && i < x->count; i++) {
        const struct sp_hash_slot *slot = sp_hash_map_get(&known->places, place_key(value, x->items[i].field));
        if (x->items[i].field == 0 || (slot != NULL && slot->number == REPEATED))
            continue;
        if (slot == NULL)
            return false;
        uint64_t own = i, place = slot->number - 1, base = at;
        for (uint32_t a = x->rank; a-- > 0;) {
            base -= x->axes[a].count;
            int64_t *index = &indices[base + own % x->axes[a].count];
            const int64_t found = (int64_t)(place % whole->axes[a].count) + 1;
            if (*index != 0 && *index != found)
                return false;
            *index = found;
            own /= x->axes[a].count;
            place /= whole->axes[a].count;
        }
    }
    for (uint32_t a = 0, k = 0; indices != NULL && a < x->rank; a++) {
        int64_t last = 0;
        for (uint32_t i = 0; i < x->axes[a].count; i++, k++) {
            if (indices[k] != 0 && indices[k] <= last)
                return false;
            last = indices[k] != 0 ? indices[k] : last;
        }
    }
    return true;
}

uint64_t sp_blame_device(const struct sp_value *value)
{
    const char *at = strrchr(value->name, '@');
    uint64_t device = 0;
    for (const char *c = at != NULL ? at + 1 : ""; *c >= '0' && *c <= '9'; c++)
        device = device * 10 + (uint64_t)(*c - '0');
    return device;
}

uint64_t sp_blame_place_in(const struct sp_recognised *known, const struct sp_value *value, uint64_t field)
{
    const struct sp_hash_slot *slot = sp_hash_map_get(&known->places, place_key(value, field));
    return slot != NULL && slot->number != REPEATED ? slot->number - 1 : UINT64_MAX;
}

static bool is_named_as_step(const struct sp_value *value)
{
    const char *at = strrchr(value->name, '@');
    return at != NULL && strchr(at, '/') != NULL;
}

bool sp_blame_is_step(const struct sp_value *value)
{
    bool is_handed_on = value->use_count > 0;
    for (uint32_t u = 0; is_handed_on && u < value->use_count; u++) {
        const struct sp_node *user = value->uses[u].node;
        is_handed_on = user->output_count > 0 && user->outputs[0] != NULL && !is_named_as_step(user->outputs[0]);
    }
    return is_named_as_step(value) && !is_handed_on;
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
    if (sp_blame_is_step(value) && !sp_blame_is_within(known, named, own->numbers))
        return;
    const struct sp_arena_mark mark = sp_arena_mark(all->scratch);
    own->is_scattered = !are_in_order(all->scratch, known, named, outcome->numbers, own->numbers);
    sp_arena_rewind(all->scratch, mark);
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
