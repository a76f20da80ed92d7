/* Weights whose parts lie on other ranks than those of all other weights do. */
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

#define MAX_RANKS 64
#define FEW       4 /* one of so many weights at most may lie in an order of its own */

/* Where the parts of one weight begin, by device. */
struct order {
    const struct sp_value *whole;
    uint32_t count;
    const struct sp_verify_run *runs[MAX_RANKS];
    const struct sp_value *parts[MAX_RANKS];
    uint64_t devices[MAX_RANKS], starts[MAX_RANKS];
    bool has_descent; /* a later device has an earlier part */
};

struct search {
    struct sp_verification *all;
    const struct sp_recognised *known;
    struct sp_hash_map orders;
    SP_ARRAY(struct order *) list;
};

static bool add_part(struct search *search, const struct sp_verify_run *run, const struct sp_value *value)
{
    const struct sp_value *whole = value->tensor != NULL ? sp_original_value(search->all, value->name) : NULL;
    const struct sp_outcome *own = whole != NULL && value->use_count > 0 ? sp_variable_of(run, value) : NULL,
                            *outcome = own != NULL ? sp_variable_of(&search->all->original, whole) : NULL;
    if (outcome == NULL || whole->tensor == NULL || own->numbers->count < 2 ||
        own->numbers->count >= outcome->numbers->count)
        return true;
    const uint64_t start = sp_blame_place_in(search->known, whole, own->numbers->items[0].field);
    if (start == UINT64_MAX)
        return true;
    struct sp_hash_slot *slot = sp_hash_map_put(&search->orders, (uint64_t)(uintptr_t)whole);
    struct order *order = slot != NULL ? slot->item : NULL;
    if (slot != NULL && order == NULL) {
        slot->item = order = SP_NEW(search->all->scratch, struct order);
        if (order == NULL || !SP_PUSH(search->all->scratch, &search->list, order))
            return false;
        order->whole = whole;
    }
    if (order == NULL || order->count == MAX_RANKS)
        return order != NULL;
    order->runs[order->count] = run;
    order->parts[order->count] = value;
    order->devices[order->count] = (uint64_t)run->program->device << 32 | sp_blame_device(value);
    order->has_descent = order->has_descent || (order->count > 0 && order->starts[order->count - 1] > start);
    order->starts[order->count++] = start;
    return true;
}

/* Whether the parts of two weights lie on the same devices in the same order. */
static bool are_alike(const struct order *a, const struct order *b)
{
    bool is_alike = a->count == b->count;
    for (uint32_t i = 0; is_alike && i < a->count; i++) {
        is_alike = a->devices[i] == b->devices[i];
        for (uint32_t k = 0; is_alike && k < i; k++)
            is_alike = (a->starts[i] < a->starts[k]) == (b->starts[i] < b->starts[k]) &&
                       (a->starts[i] > a->starts[k]) == (b->starts[i] > b->starts[k]);
    }
    return is_alike;
}

static bool has_twin(const struct search *search, uint32_t own)
{
    for (uint32_t i = 0; i < search->list.count; i++) {
        if (i != own && are_alike(search->list.items[own], search->list.items[i]))
            return true;
    }
    return false;
}

/* Whether the node reads what is made of the weight by one product, or the weight. */
static bool is_made_of(const struct sp_verify_run *run, const struct sp_node *node, const struct sp_value *part)
{
    static const char *const products[] = {"Conv", "Einsum", "Gemm", "MatMul", NULL};
    const struct sp_node *queue[SP_MAX_FOLLOWED] = {node};
    uint32_t count = 1;
    for (uint32_t i = 0; i < count; i++) {
        const char *const *name = products;
        while (*name != NULL && strcmp(*name, queue[i]->op_type) != 0)
            name++;
        for (uint32_t k = 0; k < queue[i]->input_count; k++) {
            const struct sp_value *input = queue[i]->inputs[k];
            if (input == part)
                return true;
            if (input != NULL && input->producer != NULL && (i == 0 || *name == NULL) && count < SP_MAX_FOLLOWED &&
                sp_variable_of(run, input) != NULL)
                queue[count++] = input->producer;
        }
    }
    return false;
}

/* The first part behind which an earlier one follows, where the node is made of one of the parts; NULL else. */
static bool find_part(const struct order *order, const struct sp_verify_run *run, const struct sp_node *node,
                      struct sp_run_place *ret)
{
    uint32_t first = 0;
    while (order->starts[first] <= order->starts[first + 1])
        first++;
    for (uint32_t k = 0; k < order->count; k++) {
        if (order->runs[k]->program->device != run->program->device ||
            !is_made_of(order->runs[k], node, order->parts[k]))
            continue;
        *ret = (struct sp_run_place){order->runs[first], order->parts[first]};
        return true;
    }
    return false;
}

enum sp_status sp_blame_find_misordered(struct sp_verification *all, const struct sp_recognised *known,
                                        const struct sp_verify_run *run, const struct sp_node *node,
                                        const struct sp_value **ret_whole, struct sp_run_place *ret,
                                        struct sp_error *err)
{
    const struct sp_arena_mark mark = sp_arena_mark(all->scratch);
    struct search search = {.all = all, .known = known};
    uint32_t alone = 0;
    bool is_fine = true;
    *ret_whole = NULL;
    search.orders.arena = all->scratch;
    for (uint32_t i = 0; i < all->run_count; i++) {
        const struct sp_graph *graph = all->runs[i].model->graph;
        for (uint32_t v = 0; is_fine && v < graph->value_count; v++)
            is_fine = add_part(&search, &all->runs[i], graph->values[v]);
    }
    for (uint32_t i = 0; i < search.list.count; i++)
        alone += search.list.items[i]->has_descent && !has_twin(&search, i);
    for (uint32_t i = 0; *ret_whole == NULL && alone * FEW <= search.list.count && i < search.list.count; i++) {
        const struct order *order = search.list.items[i];
        if (order->has_descent && !has_twin(&search, i) && find_part(order, run, node, ret))
            *ret_whole = order->whole;
    }
    sp_arena_rewind(all->scratch, mark);
    return is_fine ? SP_OK : sp_fail_memory(err);
}
