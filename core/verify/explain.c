/* What collectives make, in terms of the original. */
#include <string.h>

#include "verify/programs.h"

/* The first of the items that is not 0, or NULL. */
static const struct sp_number *first_item(const struct sp_numbers *x)
{
    uint64_t i = 0;
    while (i < x->count && x->items[i].field == 0)
        i++;
    return i < x->count ? &x->items[i] : NULL;
}

static struct sp_outcome *made_by(const struct sp_verify_exchange *exchange)
{
    const struct sp_node *node = exchange->nodes[0];
    return node->output_count > 0 ? sp_variable_of(exchange->runs[0], node->outputs[0]) : NULL;
}

#define WANTED 1 /* of an element for which no value is found yet */

/* Finds the first value of the original that has each of the wanted elements. */
static void find_values(const struct sp_verification *all, struct sp_hash_map *wanted, const struct sp_value *value)
{
    const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(&all->original, value) : NULL;
    for (uint64_t i = 0; outcome != NULL && sp_is_variable(outcome->numbers) && i < outcome->numbers->count; i++) {
        struct sp_hash_slot *slot = sp_hash_map_get(wanted, outcome->numbers->items[i].field);
        if (slot != NULL && slot->number == WANTED)
            slot->item = (void *)(uintptr_t)value;
    }
}

/* Whether all elements of x are some of the value's. */
static bool is_part_of(struct sp_verification *all, const struct sp_numbers *x, const struct sp_value *value)
{
    const struct sp_numbers *whole = sp_run_outcome(&all->original, value)->numbers;
    const struct sp_arena_mark mark = sp_arena_mark(all->scratch);
    struct sp_hash_map items = {.arena = all->scratch};
    bool is_part = true;
    for (uint64_t i = 0; is_part && i < whole->count; i++) {
        struct sp_hash_slot *slot = sp_hash_map_put(&items, whole->items[i].field);
        is_part = slot != NULL;
        if (is_part)
            slot->number = 1;
    }
    for (uint64_t i = 0; is_part && i < x->count; i++)
        is_part = x->items[i].field == 0 || sp_hash_map_get(&items, x->items[i].field) != NULL;
    sp_arena_rewind(all->scratch, mark);
    return is_part;
}

enum sp_status sp_recognise(struct sp_verification *all, struct sp_error *err)
{
    const struct sp_graph *graph = all->original.model->graph;
    struct sp_hash_map wanted = {.arena = all->arena};
    for (uint32_t i = 0; i < all->exchanges.count; i++) {
        const struct sp_outcome *made = made_by(&all->exchanges.items[i]);
        const struct sp_number *first = made != NULL ? first_item(made->numbers) : NULL;
        struct sp_hash_slot *slot = first != NULL ? sp_hash_map_put(&wanted, first->field) : NULL;
        if (first != NULL && slot == NULL)
            return sp_fail_memory(err);
        if (first != NULL)
            slot->number = WANTED;
    }
    for (uint32_t i = 0; wanted.count > 0 && i < graph->value_count; i++) {
        if (graph->values[i]->producer == NULL)
            find_values(all, &wanted, graph->values[i]);
    }
    for (uint32_t i = 0; wanted.count > 0 && i < all->original.order_count; i++) {
        const struct sp_node *node = all->original.order[i];
        for (uint32_t k = 0; k < node->output_count; k++)
            find_values(all, &wanted, node->outputs[k]);
    }
    for (uint32_t i = 0; i < all->exchanges.count; i++) {
        struct sp_outcome *made = made_by(&all->exchanges.items[i]);
        const struct sp_number *first = made != NULL ? first_item(made->numbers) : NULL;
        const struct sp_hash_slot *slot = first != NULL ? sp_hash_map_get(&wanted, first->field) : NULL;
        if (slot != NULL && slot->number != WANTED && is_part_of(all, made->numbers, slot->item))
            made->of = slot->item;
    }
    return SP_OK;
}
