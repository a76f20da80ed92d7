/* Which results are wrong, and where what was moved comes from. */
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

#define MAX_COMPARED 4096

/* Whether a rank's known numbers, as masks are, have one that those of the same name in the original have not. */
static bool is_other_constant(const struct sp_verification *all, const struct sp_verify_run *run,
                              const struct sp_value *value)
{
    const char *at = value != NULL ? strrchr(value->name, '@') : NULL;
    const struct sp_value *named = at != NULL && strchr(at, '/') == NULL ? sp_original_value(all, value->name) : NULL;
    const struct sp_numbers *own = named != NULL ? sp_blame_constant_of(run, value) : NULL,
                            *whole = own != NULL ? sp_blame_constant_of(&all->original, named) : NULL;
    if (whole == NULL || value->producer == NULL || named->producer == NULL || !sp_dtype_is_float(own->dtype) ||
        own->dtype != whole->dtype || own->count > MAX_COMPARED || whole->count > MAX_COMPARED)
        return false;
    for (uint64_t i = 0; i < own->count; i++) {
        bool is_there = own->items[i].field == 0;
        for (uint64_t k = 0; !is_there && k < whole->count; k++)
            is_there = own->items[i].field == whole->items[k].field;
        if (!is_there)
            return true;
    }
    return false;
}

bool sp_blame_reads_well(const struct sp_recognised *known, const struct sp_verify_run *run, const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!sp_blame_is_good(known, sp_variable_of(run, node->inputs[i])))
            return false;
    }
    return true;
}

const struct sp_verify_exchange *sp_blame_exchange_of(const struct sp_verification *all, const struct sp_node *node)
{
    for (uint32_t i = 0; i < all->exchanges.count; i++) {
        const struct sp_verify_exchange *exchange = &all->exchanges.items[i];
        for (uint32_t m = 0; m < exchange->member_count; m++) {
            if (exchange->nodes[m] == node)
                return exchange;
        }
    }
    return NULL;
}

bool sp_blame_members_read_well(const struct sp_verification *all, const struct sp_recognised *known,
                                const struct sp_node *node)
{
    const struct sp_verify_exchange *exchange = sp_blame_exchange_of(all, node);
    for (uint32_t m = 0; exchange != NULL && m < exchange->member_count; m++) {
        if (!sp_blame_reads_well(known, exchange->runs[m], exchange->nodes[m]))
            return false;
    }
    return true;
}

/* Adds what a collective makes for all its members. */
static void add_members(const struct sp_verification *all, const struct sp_node *node, struct sp_run_place *queue,
                        uint32_t *count)
{
    const struct sp_verify_exchange *exchange = sp_blame_exchange_of(all, node);
    for (uint32_t m = 0; exchange != NULL && m < exchange->member_count && *count < SP_MAX_FOLLOWED; m++) {
        if (exchange->nodes[m]->output_count > 0 && exchange->nodes[m]->outputs[0] != NULL)
            queue[(*count)++] = (struct sp_run_place){exchange->runs[m], exchange->nodes[m]->outputs[0]};
    }
}

/* Whether nothing good comes of a node that computes with the value, although all that it reads is good. */
static bool is_spoilt(const struct sp_recognised *known, const struct sp_verify_run *run, const struct sp_node *user)
{
    for (uint32_t k = 0; sp_blame_reads_well(known, run, user) && k < user->output_count; k++) {
        const struct sp_outcome *result = user->outputs[k] != NULL ? sp_run_outcome(run, user->outputs[k]) : NULL;
        if (result != NULL && (result->numbers == NULL || result->is_scattered ||
                               !sp_blame_is_good(known, sp_variable_of(run, user->outputs[k]))))
            return true;
    }
    return false;
}

/* Whether a value is a step of an exchange ("X@0.12/3") of the value that it is named after. */
static bool is_repacked(const struct sp_value *value)
{
    return value->producer != NULL && sp_blame_moves(value->producer) && sp_blame_is_step(value);
}

/* Whether what is out of order is computed with, here or behind moves, and nothing good comes of it. */
static bool is_misplaced(const struct sp_verification *all, const struct sp_recognised *known,
                         const struct sp_verify_run *run, const struct sp_value *value)
{
    struct sp_run_place queue[SP_MAX_FOLLOWED] = {{run, value}};
    const struct sp_outcome *outcome = sp_variable_of(run, value);
    const bool is_followed = !is_repacked(value); /* what is packed for a collective lies in no order */
    const bool has_places = value->producer != NULL && strncmp(value->producer->op_type, "Scatter", 7) == 0;
    uint32_t count = outcome != NULL && outcome->is_scattered && !has_places ? 1 : 0; /* those are where they are put */
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_run_place place = queue[i];
        for (uint32_t u = 0; u < place.value->use_count; u++) {
            const struct sp_node *user = place.value->uses[u].node;
            if (sp_is_collective(user) && sp_blame_moves(user) && is_followed)
                add_members(all, user, queue, &count);
            else if (sp_is_collective(user))
                continue;
            else if (!sp_blame_moves(user) && is_spoilt(known, place.run, user))
                return true;
            for (uint32_t k = 0;
                 is_followed && sp_blame_moves(user) && !sp_is_collective(user) && k < user->output_count; k++) {
                if (user->outputs[k] != NULL && count < SP_MAX_FOLLOWED)
                    queue[count++] = (struct sp_run_place){place.run, user->outputs[k]};
            }
        }
    }
    return false;
}

/* Whether what is moved is nothing but zeros, under the name of a value of the original that has none: padding that was
   taken for it. */
static bool is_lost(const struct sp_verification *all, const struct sp_verify_run *run, const struct sp_value *value)
{
    const struct sp_outcome *own = sp_variable_of(run, value);
    const char *at = strrchr(value->name, '@');
    const struct sp_value *named = sp_original_value(all, value->name);
    const struct sp_outcome *outcome =
        named != NULL && at != NULL && strchr(at, '/') == NULL ? sp_variable_of(&all->original, named) : NULL;
    if (own == NULL || outcome == NULL)
        return false;
    for (uint64_t i = 0; i < own->numbers->count; i++) {
        if (own->numbers->items[i].field != 0)
            return false;
    }
    for (uint64_t i = 0; i < outcome->numbers->count; i++) {
        if (outcome->numbers->items[i].field == 0)
            return false;
    }
    return true;
}

const struct sp_value *sp_blame_wrong_result(const struct sp_verification *all, const struct sp_recognised *known,
                                             const struct sp_verify_run *run, const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL &&
            (!sp_blame_is_good(known, sp_variable_of(run, node->outputs[i])) ||
             is_misplaced(all, known, run, node->outputs[i]) || is_other_constant(all, run, node->outputs[i]) ||
             (sp_blame_moves(node) && is_lost(all, run, node->outputs[i]))))
            return node->outputs[i];
    }
    return NULL;
}

/* Adds what a node moves: its operands, or those of all members of the collective. */
static void add_operands(const struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node,
                         struct sp_run_place *queue, uint32_t *count)
{
    const struct sp_verify_exchange *exchange = sp_is_collective(node) ? sp_blame_exchange_of(all, node) : NULL;
    for (uint32_t m = 0; exchange != NULL && m < exchange->member_count && *count < SP_MAX_FOLLOWED; m++)
        queue[(*count)++] = (struct sp_run_place){exchange->runs[m], exchange->nodes[m]->inputs[0]};
    if (exchange != NULL)
        return;
    for (uint32_t i = 0; i < node->input_count && *count < SP_MAX_FOLLOWED; i++) {
        if (sp_variable_of(run, node->inputs[i]) != NULL)
            queue[(*count)++] = (struct sp_run_place){run, node->inputs[i]};
    }
}

bool sp_blame_find_source(struct sp_verification *all, const struct sp_recognised *known,
                          const struct sp_run_place *moved, struct sp_run_place *ret)
{
    const struct sp_value *expected = sp_original_value(all, moved->value->name);
    struct sp_run_place queue[SP_MAX_FOLLOWED],
        behind[SP_MAX_FOLLOWED]; /* what a move reads, and what it makes of it */
    uint32_t count = 0;
    if (expected != NULL)
        add_operands(all, moved->run, moved->value->producer, queue, &count);
    for (uint32_t k = 0; k < count; k++)
        behind[k] = *moved;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_value *value = queue[i].value, *own;
        const struct sp_outcome *outcome = sp_variable_of(queue[i].run, value);
        const struct sp_node *producer = value != NULL ? value->producer : NULL;
        const uint32_t first = count;
        struct sp_verify_run *giver;
        if (value == NULL || outcome == NULL || sp_blame_is_within(known, expected, outcome->numbers))
            continue;
        own = sp_original_value(all, value->name);
        if (own != NULL && own != expected && sp_blame_is_within(known, own, outcome->numbers)) {
            *ret = behind[i]; /* right as it is, and moved where something else belongs */
            return true;
        }
        if (producer != NULL && !sp_blame_moves(producer)) {
            *ret = queue[i];
            return true;
        }
        const struct sp_value *given = producer == NULL ? sp_ports_source(all, queue[i].run, value, &giver) : NULL;
        if (producer != NULL)
            add_operands(all, queue[i].run, producer, queue, &count);
        else if (given != NULL && count < SP_MAX_FOLLOWED)
            queue[count++] = (struct sp_run_place){giver, given};
        for (uint32_t k = first; k < count; k++)
            behind[k] = queue[i];
    }
    return false;
}

struct sp_run_place sp_blame_behind_moves(struct sp_verification *all, struct sp_run_place place,
                                          struct sp_run_place *ret_identity)
{
    if (ret_identity != NULL)
        *ret_identity = place;
    for (uint32_t hops = 0; place.value != NULL && hops < SP_MAX_FOLLOWED; hops++) {
        const struct sp_node *node = place.value->producer;
        struct sp_verify_run *giver = NULL;
        if (node != NULL && !sp_is_collective(node) && sp_blame_moves(node) && strcmp(node->op_type, "Gather") != 0) {
            if (ret_identity != NULL && strcmp(node->op_type, "Identity") == 0)
                *ret_identity = place;
            place.value = node->inputs[0];
        } else if (node == NULL && place.run != &all->original &&
                   (place.value = sp_ports_source(all, place.run, place.value, &giver)) != NULL)
            place.run = giver;
        else
            break;
    }
    return place;
}
