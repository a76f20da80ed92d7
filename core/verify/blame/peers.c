/* Nodes beside those that do the same for other parts. */
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

#define MAX_PEERS 8
#define MAX_DEPTH 24 /* nodes from what is wrong to where it began */

/* A node of one chain and the one that stands in its place in another. */
struct step {
    struct sp_run_place own, peer;
    uint32_t depth;
    bool is_extra; /* the other chain lacks it */
};

static bool is_commutative(const struct sp_node *node)
{
    return strcmp(node->op_type, "Add") == 0 || strcmp(node->op_type, "Mul") == 0 || strcmp(node->op_type, "And") == 0;
}

/* The only number of a constant; false where it is none. */
static bool single_number(const struct sp_verify_run *run, const struct sp_value *value, double *ret)
{
    const struct sp_numbers *x = sp_blame_constant_of(run, value);
    if (x == NULL || x->count != 1 || !sp_dtype_is_float(x->dtype))
        return false;
    *ret = x->items[0].real;
    return true;
}

static bool are_different(double a, double b)
{
    return fabs(a - b) > SP_CONSTANT_TOLERANCE * fmax(fabs(a), fabs(b));
}

/* Whether two nodes of one operator read different numbers, or what one has as its first operand is the other's second. */
static bool read_differently(const struct step *step)
{
    const struct sp_node *a = step->own.value->producer, *b = step->peer.value->producer;
    for (uint32_t i = 0; i < a->input_count && i < b->input_count; i++) {
        double x, y;
        const bool has_x = single_number(step->own.run, a->inputs[i], &x),
                   has_y = single_number(step->peer.run, b->inputs[i], &y);
        if (has_x && has_y && are_different(x, y))
            return true;
        const bool is_x = a->inputs[i] != NULL && a->inputs[i]->tensor != NULL,
                   is_y = b->inputs[i] != NULL && b->inputs[i]->tensor != NULL;
        if (a->input_count == 2 && b->input_count == 2 && is_x != is_y && !is_commutative(a))
            return true;
    }
    return false;
}

static const char *operator_behind(struct sp_verification *all, struct sp_run_place place)
{
    place = sp_blame_behind_moves(all, place, NULL);
    return place.value != NULL && place.value->producer != NULL ? place.value->producer->op_type : "";
}

/* Whether the first operand of one node is made as the second one of the other is, and the other way round. */
static bool are_turned(struct sp_verification *all, const struct step *step)
{
    const struct sp_node *a = step->own.value->producer, *b = step->peer.value->producer;
    if (a->input_count != 2 || b->input_count != 2 || is_commutative(a))
        return false;
    const char *own[2], *peer[2];
    for (uint32_t i = 0; i < 2; i++) {
        own[i] = operator_behind(all, (struct sp_run_place){step->own.run, a->inputs[i]});
        peer[i] = operator_behind(all, (struct sp_run_place){step->peer.run, b->inputs[i]});
    }
    return strcmp(own[0], own[1]) != 0 && strcmp(own[0], peer[1]) == 0 && strcmp(own[1], peer[0]) == 0;
}

static bool have_other_attributes(const struct sp_node *a, const struct sp_node *b)
{
    for (uint32_t i = 0; i < a->attribute_count; i++) {
        const struct sp_attribute *own = &a->attributes[i], *other = sp_node_attribute(b, own->name);
        if (other == NULL || other->type != own->type)
            continue;
        if ((own->type == SP_ATTR_FLOAT && are_different(own->f, other->f)) ||
            (own->type == SP_ATTR_INT && strcmp(own->name, "axis") == 0 && own->i != other->i))
            return true;
    }
    return false;
}

/* Whether what one node computes is only more than the other has: a bias that one rank adds for all. */
static bool is_more(struct sp_verification *all, struct sp_run_place place, const struct sp_node *other)
{
    const struct sp_node *node = place.value->producer;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_run_place before =
            sp_blame_behind_moves(all, (struct sp_run_place){place.run, node->inputs[i]}, NULL);
        if (before.value != NULL && before.value->producer != NULL &&
            strcmp(before.value->producer->op_type, other->op_type) == 0)
            return true;
    }
    return false;
}

/* Whether a move has the name of what the peer computes: it was computed here, too. */
static bool is_left_out(const struct sp_verification *all, struct sp_run_place last, struct sp_run_place peer)
{
    const struct sp_value *value = sp_original_value(all, last.value->name);
    return last.value->producer != NULL && strcmp(last.value->producer->op_type, "Identity") == 0 && value != NULL &&
           value == sp_original_value(all, peer.value->name);
}

/* Follows both chains backwards, step by step, to the first at which they differ, or else to one that only the own has;
   false where they are alike. */
static bool find_difference(struct sp_verification *all, struct step first, struct step *ret)
{
    struct step queue[SP_MAX_FOLLOWED] = {first};
    uint32_t count = 1;
    bool has_extra = false;
    for (uint32_t i = 0; i < count; i++) {
        struct step step = queue[i];
        struct sp_run_place last, last_of_peer;
        step.own = sp_blame_behind_moves(all, step.own, &last);
        step.peer = sp_blame_behind_moves(all, step.peer, &last_of_peer);
        const struct sp_node *a = step.own.value != NULL ? step.own.value->producer : NULL,
                             *b = step.peer.value != NULL ? step.peer.value->producer : NULL;
        if (a == NULL || b == NULL || a == b || sp_is_collective(a) || sp_is_collective(b))
            continue;
        const bool is_other = strcmp(a->op_type, b->op_type) != 0;
        if (is_other && is_left_out(all, last, step.peer)) {
            *ret = (struct step){last, step.peer, step.depth, false};
            return true;
        }
        if (is_other && (is_more(all, step.own, b) || is_more(all, step.peer, a))) {
            if (!has_extra && is_more(all, step.own, b))
                *ret = (struct step){step.own, step.peer, step.depth, true};
            has_extra = has_extra || is_more(all, step.own, b);
            continue;
        }
        if (is_other || read_differently(&step) || are_turned(all, &step) || have_other_attributes(a, b)) {
            *ret = step;
            return true;
        }
        for (uint32_t k = 0; k < a->input_count && k < b->input_count && count < SP_MAX_FOLLOWED; k++) {
            const struct step next = {
                {step.own.run, a->inputs[k]}, {step.peer.run, b->inputs[k]}, step.depth + 1, false};
            if (next.own.value != NULL && next.peer.value != NULL && next.depth < MAX_DEPTH)
                queue[count++] = next;
        }
    }
    return has_extra;
}

/* ---- which one is wrong ----------------------------------------------------------------------------------------- */

static bool has_number(const struct sp_verify_run *run, const struct sp_node *node, double number)
{
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        if (node->attributes[i].type == SP_ATTR_FLOAT && !are_different(node->attributes[i].f, number))
            return true;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        double own;
        if (single_number(run, node->inputs[i], &own) && !are_different(own, number))
            return true;
    }
    return false;
}

/* Whether the original has the number that the peer reads, and not the own one. */
static bool has_number_of_peer(struct sp_verification *all, const struct step *step)
{
    const struct sp_node *own = step->own.value->producer, *peer = step->peer.value->producer,
                         *original = sp_blame_original_node(all, peer, step->peer.value);
    for (uint32_t i = 0; original != NULL && i < own->input_count && i < peer->input_count; i++) {
        double x, y;
        if (single_number(step->own.run, own->inputs[i], &x) && single_number(step->peer.run, peer->inputs[i], &y) &&
            are_different(x, y))
            return has_number(&all->original, original, y) && !has_number(&all->original, original, x);
    }
    return false;
}

/* Whether the node of the original of which both make parts is as the peer is, and not as the own one. */
static bool is_as_peer(struct sp_verification *all, const struct step *step)
{
    const struct sp_node *own = step->own.value->producer, *peer = step->peer.value->producer,
                         *original = sp_blame_original_node(all, peer, step->peer.value);
    const struct sp_node *of_own = sp_blame_original_node(all, own, step->own.value);
    if (original == NULL || (of_own != NULL && of_own != original))
        return false;
    if (strcmp(own->op_type, peer->op_type) != 0)
        return strcmp(peer->op_type, original->op_type) == 0;
    return has_number_of_peer(all, step) ||
           (strcmp(original->op_type, peer->op_type) == 0 && have_other_attributes(own, original) &&
            !have_other_attributes(peer, original));
}

/* The values that a collective puts together, or a sum where the original has none. */
static uint32_t terms_of(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node,
                         struct sp_run_place *terms)
{
    const struct sp_verify_exchange *exchange = sp_is_collective(node) ? sp_blame_exchange_of(all, node) : NULL;
    uint32_t count = 0;
    for (uint32_t m = 0; exchange != NULL && m < exchange->member_count && count < MAX_PEERS; m++)
        terms[count++] = (struct sp_run_place){exchange->runs[m], exchange->nodes[m]->inputs[0]};
    const struct sp_node *original =
        sp_blame_original_node(all, node, node->output_count > 0 ? node->outputs[0] : NULL);
    const bool is_sum = (strcmp(node->op_type, "Add") == 0 || strcmp(node->op_type, "Sum") == 0) && original != NULL &&
                        strcmp(original->op_type, node->op_type) != 0;
    for (uint32_t i = 0; is_sum && i < node->input_count && count < MAX_PEERS; i++)
        terms[count++] = (struct sp_run_place){run, node->inputs[i]};
    for (uint32_t i = 0; is_sum && i < count; i++) { /* sums of sums */
        const struct sp_run_place term = sp_blame_behind_moves(all, terms[i], NULL);
        const struct sp_node *inner = term.value != NULL ? term.value->producer : NULL;
        if (inner == NULL || inner->input_count != 2 || strcmp(inner->op_type, node->op_type) != 0 ||
            sp_blame_original_node(all, inner, inner->outputs[0]) != original || count == MAX_PEERS)
            continue;
        terms[i--] = (struct sp_run_place){term.run, inner->inputs[0]};
        terms[count++] = (struct sp_run_place){term.run, inner->inputs[1]};
    }
    return count;
}

/* The result of the last of the nodes that an operator was taken apart into, of which the node is one; or its own. */
static const struct sp_value *result_of_all(struct sp_verification *all, const struct sp_verify_run *run,
                                            const struct sp_node *node, const struct sp_verify_run **ret_part)
{
    *ret_part = run;
    const struct sp_value *value = node->output_count > 0 ? node->outputs[0] : NULL;
    const struct sp_node *original = value != NULL ? sp_blame_original_node(all, node, value) : NULL;
    const struct sp_value *whole = original != NULL && original->output_count > 0 ? original->outputs[0] : NULL;
    if (whole == NULL || sp_original_value(all, value->name) == whole)
        return value;
    for (uint32_t i = 0; i < all->run_count; i++) {
        const struct sp_verify_run *part = &all->runs[i]; /* a device's parts run one after the other */
        for (uint32_t n = 0; part->program->device == run->program->device && n < part->order_count; n++) {
            const struct sp_node *last = part->order[n];
            if (last->output_count > 0 && last->outputs[0] != NULL && !sp_blame_moves(last) &&
                !sp_is_collective(last) && sp_original_value(all, last->outputs[0]->name) == whole) {
                *ret_part = part;
                return last->outputs[0];
            }
        }
    }
    return value;
}

/* The results of the same name on other ranks, or in other parts of one program. */
static uint32_t peers_of(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node,
                         struct sp_run_place *peers)
{
    const struct sp_value *value = result_of_all(all, run, node, &run),
                          *named = value != NULL ? sp_original_value(all, value->name) : NULL;
    uint32_t count = 0;
    if (named == NULL)
        return 0;
    peers[count++] = (struct sp_run_place){run, value};
    for (uint32_t i = 0; i < all->run_count; i++) {
        const struct sp_verify_run *other = &all->runs[i];
        for (uint32_t n = 0; n < other->order_count && count < MAX_PEERS; n++) {
            const struct sp_node *peer = other->order[n];
            if (peer->output_count > 0 && peer->outputs[0] != NULL && peer->outputs[0] != value &&
                sp_original_value(all, peer->outputs[0]->name) == named && !sp_blame_moves(peer) &&
                !sp_is_collective(peer))
                peers[count++] = (struct sp_run_place){other, peer->outputs[0]};
        }
    }
    return count;
}

/* Whether a term has anything that the sum has not, or nothing at all. */
static bool is_foreign(const struct sp_recognised *known, const struct sp_value *sum, struct sp_run_place term)
{
    const struct sp_outcome *outcome = sp_variable_of(term.run, term.value);
    bool is_empty = true;
    for (uint64_t i = 0; outcome != NULL && is_empty && i < outcome->numbers->count; i++)
        is_empty = outcome->numbers->items[i].field == 0;
    return sum != NULL && outcome != NULL &&
           (is_empty || (outcome->of != NULL && !sp_blame_is_within(known, sum, outcome->numbers)));
}

/* How the own chain compares with all others; false where nothing says that it is the wrong one. */
static bool is_odd(struct sp_verification *all, const struct sp_recognised *known, const struct sp_value *sum,
                   const struct sp_run_place *chains, uint32_t count, uint32_t own, struct step *ret)
{
    uint32_t unlike = 0;
    bool is_shown = false;
    for (uint32_t k = 0; k < count; k++) {
        struct step step = {0};
        if (k == own || !find_difference(all, (struct step){chains[own], chains[k], 0, false}, &step))
            continue;
        const bool is_alone = is_foreign(known, sum, chains[own]) && !is_foreign(known, sum, chains[k]);
        if (step.is_extra && !is_alone)
            continue;
        unlike++;
        *ret = step;
        is_shown = is_shown || is_alone || (!step.is_extra && is_as_peer(all, &step));
    }
    return unlike > 0 && (is_shown || (count > 2 && unlike == count - 1));
}

bool sp_blame_odd_one(struct sp_verification *all, const struct sp_recognised *known, const struct sp_verify_run *run,
                      const struct sp_node *suspect, struct sp_run_place *ret_odd, struct sp_run_place *ret_peer)
{
    struct sp_run_place chains[MAX_PEERS];
    uint32_t count = terms_of(all, run, suspect, chains);
    const struct sp_value *sum = count > 0 && suspect->output_count > 0 && suspect->outputs[0] != NULL
                                     ? sp_original_value(all, suspect->outputs[0]->name)
                                     : NULL;
    if (count < 2)
        count = peers_of(all, run, suspect, chains);
    for (uint32_t a = 0; a < count; a++) {
        struct step found = {0};
        if (!is_odd(all, known, sum, chains, count, a, &found))
            continue;
        *ret_odd = found.own;
        *ret_peer = found.peer;
        return true;
    }
    for (uint32_t a = 0; sum != NULL && a < count; a++) { /* alike, but of other rows of a table, say */
        struct sp_run_place identity;
        *ret_odd = *ret_peer = sp_blame_behind_moves(all, chains[a], &identity);
        const struct sp_outcome *outcome = sp_variable_of(chains[a].run, chains[a].value);
        if (outcome != NULL && outcome->of != NULL && is_foreign(known, sum, chains[a]) && ret_odd->value != NULL &&
            ret_odd->value->producer != NULL && !sp_is_collective(ret_odd->value->producer))
            return true;
    }
    return false;
}
