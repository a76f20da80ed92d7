#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

/* A node of another rank, or of a simulation, that makes another part of the same value of the original. */
static bool is_peer(struct sp_verification *all, const struct sp_node *a, const struct sp_node *b)
{
    if (a == b || strcmp(a->op_type, b->op_type) != 0 || b->output_count == 0 || b->outputs[0] == NULL)
        return false;
    const struct sp_value *value = sp_original_value(all, a->outputs[0]->name);
    return value != NULL && value == sp_original_value(all, b->outputs[0]->name);
}

/* The value of the original of which the peers' results add up to a part, or NULL. */
static const struct sp_value *partial_of(struct sp_verification *all, const struct sp_recognised *known,
                                         const struct sp_verify_run *run, const struct sp_node *node, uint32_t position)
{
    const struct sp_outcome *own = sp_variable_of(run, node->outputs[0]);
    const struct sp_numbers *sum = own != NULL ? own->numbers : NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; sum != NULL && i < all->run_count; i++) {
        const struct sp_verify_run *other = &all->runs[i];
        for (uint32_t n = 0; n < other->order_count; n++) {
            const struct sp_node *peer = other->order[n];
            const bool is_beside = other != run && n == position && other->program->world == run->program->world &&
                                   strcmp(peer->op_type, node->op_type) == 0 && peer->output_count > 0;
            const struct sp_outcome *outcome =
                is_beside || is_peer(all, node, peer) ? sp_variable_of(other, peer->outputs[0]) : NULL;
            struct sp_numbers *next;
            struct sp_error ignored = {0};
            if (outcome == NULL || outcome->numbers->count != sum->count ||
                sp_numbers_binary(all->arena, sum, outcome->numbers, sum->dtype, sp_number_add, &next, &ignored) !=
                    SP_OK)
                continue;
            sum = next;
            count++;
        }
    }
    return count > 0 ? sp_blame_find_items(known, sum) : NULL;
}

static enum sp_verdict verdict_of(const struct sp_verification *all)
{
    for (uint32_t i = 0; i < all->failures.count; i++) {
        if (all->failures.items[i].verdict == SP_REFUTED)
            return SP_REFUTED;
    }
    return SP_UNDECIDED;
}

/* The first node behind it that computes with the value. */
static const struct sp_node *first_user(const struct sp_value *value)
{
    for (uint32_t hops = 0; value->use_count > 0 && hops < 16; hops++) {
        const struct sp_node *node = value->uses[0].node;
        if (!sp_evaluate_is_movement(node) || node->output_count == 0 || node->outputs[0] == NULL)
            return node;
        value = node->outputs[0];
    }
    return value->use_count > 0 ? value->uses[0].node : NULL;
}

/* What stands in its place beside others' nodes. */
static enum sp_status name_odd(struct sp_verification *all, struct sp_run_place odd, struct sp_run_place peer,
                               struct sp_error *err)
{
    struct sp_verify_failure failure = {
        .verdict = verdict_of(all), .run = odd.run, .node = odd.value->producer, .certainty = 1};
    const struct sp_node *original = sp_blame_original_node(all, failure.node, odd.value);
    if (original != NULL && sp_blame_differs_in_form(all, odd.run, failure.node, original))
        failure.verdict = SP_REFUTED;
    failure.message = "It differs from what stands in its place for other parts of the same tensor.";
    failure.nearest = sp_blame_describe(all, odd.run, failure.node);
    failure.expected = sp_blame_describe(all, peer.run, peer.value->producer);
    return failure.nearest != NULL && failure.expected != NULL ? sp_verify_fail(all, failure, err)
                                                               : sp_fail_memory(err);
}

static enum sp_status name_node(struct sp_verification *all, const struct sp_recognised *known,
                                const struct sp_verify_run *run, uint32_t position, struct sp_error *err)
{
    const struct sp_node *node = run->order[position];
    const struct sp_value *result = sp_blame_wrong_result(all, known, run, node);
    struct sp_run_place source;
    if (result != NULL && sp_blame_moves(node) &&
        sp_blame_find_source(all, known, &(struct sp_run_place){run, result}, &source) &&
        source.value->producer != NULL) {
        run = source.run;
        node = source.value->producer;
        result = source.value;
    }
    struct sp_run_place odd, peer;
    if (sp_blame_odd_one(all, known, run, node, &odd, &peer))
        return name_odd(all, odd, peer, err);
    const struct sp_value *whole = sp_is_collective(node) ? NULL : partial_of(all, known, run, node, position);
    const struct sp_node *user = whole != NULL ? first_user(result) : NULL;
    const struct sp_node *named = user != NULL ? user : node,
                         *expected = sp_blame_original_node(all, named, sp_blame_wrong_result(all, known, run, named));
    struct sp_verify_failure failure = {.verdict = verdict_of(all), .run = run, .node = named};
    if (expected != NULL && sp_blame_differs_in_form(all, run, named, expected))
        failure.verdict = SP_REFUTED;
    failure.message =
        whole != NULL && user != NULL && !sp_is_collective(named)
            ? sp_arena_printf(all->arena,
                              "It reads a partial sum of '%s', which has to be added up over the ranks first.",
                              whole->name)
        : sp_is_collective(named)
            ? sp_arena_printf(all->arena,
                              "What it makes of its members' tensors is nothing that the original computes.")
            : sp_arena_printf(all->arena, "Its result is nothing that the original computes.");
    failure.nearest = sp_blame_describe(all, run, named);
    failure.expected = expected != NULL ? sp_blame_describe(all, &all->original, expected) : NULL;
    if (failure.message == NULL || failure.nearest == NULL)
        return sp_fail_memory(err);
    return sp_verify_fail(all, failure, err);
}

/* A node that goes wrong, and where the original has the node that it is a part of. */
struct suspect {
    const struct sp_verify_run *run;
    uint32_t position, place;
};

static int compare_suspects(const void *a, const void *b)
{
    const struct suspect *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->run != y->run ? (x->run < y->run ? -1 : 1) : x->position < y->position ? -1 : 1;
}

/* The first node of a run that goes wrong; false where none does. */
static bool suspect_of(struct sp_verification *all, const struct sp_recognised *known, const struct sp_verify_run *run,
                       struct suspect *ret)
{
    *ret = (struct suspect){.run = run};
    for (uint32_t n = 0; n < run->order_count; n++) {
        struct sp_node *node = run->order[n];
        const struct sp_node *original =
            sp_blame_original_node(all, node, node->output_count > 0 ? node->outputs[0] : NULL);
        if (original != NULL && original->graph == all->original.model->graph)
            ret->place = original->index > ret->place ? original->index : ret->place;
        ret->position = n;
        if (sp_blame_wrong_result(all, known, run, node) != NULL && sp_blame_reads_well(known, run, node) &&
            (!sp_is_collective(node) || sp_blame_members_read_well(all, known, node)))
            return true;
    }
    return false;
}

/* Where a node stands: the last node of the original that it or one before it makes a part of. */
static uint32_t place_of(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node)
{
    uint32_t place = 0;
    for (uint32_t n = 0; n < run->order_count; n++) {
        struct sp_node *own = run->order[n];
        const struct sp_node *original =
            sp_blame_original_node(all, own, own->output_count > 0 ? own->outputs[0] : NULL);
        if (original != NULL && original->graph == all->original.model->graph && original->index > place)
            place = original->index;
        if (own == node)
            break;
    }
    return place;
}

/* Whether a failure is told before another one: wrong inputs, then the first node, of one place what is more certain. */
static bool comes_before(const struct sp_verify_failure *a, uint32_t place, const struct sp_verify_failure *b,
                         uint32_t other)
{
    if ((a->certainty == 2) != (b->certainty == 2))
        return a->certainty == 2;
    return place != other ? place < other : a->certainty > b->certainty;
}

/* Failures that name nodes, the first one first; those of outputs behind them. */
static enum sp_status order_failures(struct sp_verification *all, struct sp_error *err)
{
    struct sp_verify_failure *items = all->failures.items;
    uint32_t *places = SP_NEW_ARRAY(all->arena, all->failures.count, uint32_t);
    if (places == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < all->failures.count; i++) {
        const struct sp_verify_failure own = items[i];
        const bool names_node = own.run != NULL && own.node != NULL && own.output == NULL;
        const uint32_t place = names_node ? place_of(all, own.run, own.node) : UINT32_MAX;
        uint32_t at = i;
        for (; at > 0 && comes_before(&own, place, &items[at - 1], places[at - 1]); at--) {
            items[at] = items[at - 1];
            places[at] = places[at - 1];
        }
        items[at] = own;
        places[at] = place;
    }
    return SP_OK;
}

/* Inputs that have the name of one computed value of the original, and are given parts of another one. */
static enum sp_status name_inputs(struct sp_verification *all, const struct sp_recognised *known,
                                  const struct sp_verify_run *run, struct sp_error *err)
{
    const struct sp_graph *graph = run->model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++) {
        const struct sp_value *value = graph->inputs[i], *named = sp_original_value(all, value->name);
        const struct sp_outcome *outcome = sp_variable_of(run, value);
        const char *at = strrchr(value->name, '@');
        if (outcome == NULL || outcome->of == NULL || outcome->of->producer == NULL || named == NULL || at == NULL ||
            strchr(at, '/') != NULL || value->use_count == 0 || sp_blame_is_within(known, named, outcome->numbers))
            continue;
        struct sp_verify_run *giver;
        const struct sp_value *given = sp_ports_source(all, run, value, &giver);
        if (given != NULL && sp_original_value(all, given->name) == named) /* what gives it is wrong */
            continue;
        const struct sp_verify_failure failure = {
            .verdict = verdict_of(all),
            .run = run,
            .node = value->uses[0].node,
            .certainty = 2,
            .message = sp_arena_printf(all->arena, "It is given a part of '%.200s', where one of '%.200s' is due.",
                                       outcome->of->name, named->name)};
        status = failure.message != NULL ? sp_verify_fail(all, failure, err) : sp_fail_memory(err);
    }
    return status;
}

/* How many collectives of the same name over all ranks read a tensor of the same extents. */
static uint32_t count_alike(const struct sp_verification *all, const struct sp_node *node, const struct sp_numbers *own)
{
    const struct sp_value *value = sp_original_value(all, node->outputs[0]->name);
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->run_count; i++) {
        const struct sp_verify_run *run = &all->runs[i];
        for (uint32_t n = 0; n < run->model->graph->node_count; n++) {
            const struct sp_node *other = &run->model->graph->nodes[n];
            if (!sp_is_collective(other) || other->output_count == 0 || other->outputs[0] == NULL ||
                sp_original_value(all, other->outputs[0]->name) != value)
                continue;
            const struct sp_outcome *outcome = sp_variable_of(run, other->inputs[0]);
            bool is_alike = outcome != NULL && outcome->numbers->rank == own->rank;
            for (uint32_t axis = 0; is_alike && axis < own->rank; axis++)
                is_alike = outcome->numbers->axes[axis].extent == own->axes[axis].extent;
            count += is_alike;
        }
    }
    return count;
}

/* Where parts cannot be joined, what made the one of a shape that the fewest have. */
static void name_odd_part(struct sp_verification *all, struct sp_verify_failure *failure)
{
    const struct sp_node *node = failure->node;
    uint32_t least = UINT32_MAX, most = 0;
    struct sp_run_place odd = {0};
    if (failure->run == NULL || node == NULL || strcmp(node->op_type, "Concat") != 0)
        return;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_outcome *own = sp_variable_of(failure->run, node->inputs[i]);
        uint32_t alike = 0;
        for (uint32_t k = 0; own != NULL && k < node->input_count; k++) {
            const struct sp_outcome *other = sp_variable_of(failure->run, node->inputs[k]);
            bool is_alike = other != NULL && other->numbers->rank == own->numbers->rank;
            for (uint32_t axis = 0; is_alike && axis < own->numbers->rank; axis++)
                is_alike = axis == (uint32_t)sp_node_int(node, "axis", 0) ||
                           own->numbers->axes[axis].extent == other->numbers->axes[axis].extent;
            alike += is_alike;
        }
        most = own != NULL && alike > most ? alike : most;
        if (own != NULL && alike < least) {
            least = alike;
            odd = (struct sp_run_place){failure->run, node->inputs[i]};
        }
    }
    odd = least < most ? sp_blame_behind_moves(all, odd, NULL) : odd;
    if (least < most && odd.value != NULL && odd.value->producer != NULL) {
        failure->run = odd.run;
        failure->node = odd.value->producer;
    }
}

/* Where members do not fit, the one is named whose tensor has a shape that no other collective of that name has. */
static void name_odd_shape(const struct sp_verification *all, struct sp_verify_failure *failure)
{
    const struct sp_node *node = failure->node;
    if (failure->run == NULL || node == NULL || !sp_is_collective(node) || node->output_count == 0 ||
        node->outputs[0] == NULL || sp_original_value(all, node->outputs[0]->name) == NULL)
        return;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < all->run_count; i++) {
        const struct sp_verify_run *run = &all->runs[i];
        for (uint32_t n = 0; n < run->model->graph->node_count; n++) {
            const struct sp_node *other = &run->model->graph->nodes[n];
            const struct sp_outcome *outcome = sp_is_collective(other) && other->output_count > 0 &&
                                                       other->outputs[0] != NULL &&
                                                       sp_original_value(all, other->outputs[0]->name) ==
                                                           sp_original_value(all, node->outputs[0]->name)
                                                   ? sp_variable_of(run, other->inputs[0])
                                                   : NULL;
            const uint32_t alike = outcome != NULL ? count_alike(all, other, outcome->numbers) : UINT32_MAX;
            const bool is_own = other == node;
            if (alike < least || (alike == least && is_own)) {
                least = alike;
                failure->run = run;
                failure->node = other;
            }
        }
    }
}

static void name_misfit(struct sp_verification *all, struct sp_verify_failure *failure)
{
    if (failure->output == NULL && failure->verdict == SP_REFUTED) {
        name_odd_shape(all, failure);
        name_odd_part(all, failure);
    }
}

enum sp_status sp_blame(struct sp_verification *all, struct sp_error *err)
{
    struct sp_recognised known = {0};
    struct suspect *suspects = SP_NEW_ARRAY(all->arena, all->run_count, struct suspect);
    uint32_t count = 0;
    enum sp_status status = suspects != NULL ? sp_blame_recognise(all, &known, err) : sp_fail_memory(err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < all->failures.count; i++)
        name_misfit(all, &all->failures.items[i]);
    sp_blame_vouch(all, &known);
    for (uint32_t i = 0; i < all->run_count; i++)
        count += suspect_of(all, &known, &all->runs[i], &suspects[count]);
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++)
        status = name_inputs(all, &known, &all->runs[i], err);
    qsort(suspects, count, sizeof *suspects, compare_suspects);
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        status = name_node(all, &known, suspects[i].run, suspects[i].position, err);
    return status == SP_OK ? order_failures(all, err) : status;
}
