#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

/* What a node reads that is a partial sum; NULL where there is none. */
static const struct sp_value *partial_operand(const struct sp_recognised *known, const struct sp_verify_run *run,
                                              const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_outcome *outcome = sp_variable_of(run, node->inputs[i]);
        if (outcome != NULL && sp_blame_partial_term(known, outcome->numbers) != NULL)
            return node->inputs[i];
    }
    return NULL;
}

/* Of a node that reads a partial sum: the first one that does, back to what made the terms. */
static const struct sp_node *first_reader(const struct sp_recognised *known, const struct sp_verify_run *run,
                                          const struct sp_node *node)
{
    const struct sp_value *operand = sp_is_collective(node) ? NULL : partial_operand(known, run, node);
    while (operand != NULL && operand->producer != NULL && !sp_is_collective(operand->producer) &&
           partial_operand(known, run, operand->producer) != NULL) {
        node = operand->producer;
        operand = partial_operand(known, run, node);
    }
    return node;
}

/* What is told of a node that reads a partial sum; NULL where it reads none. */
static const char *tell_partial(struct sp_verification *all, const struct sp_recognised *known,
                                const struct sp_verify_run *run, const struct sp_node *node)
{
    const struct sp_value *operand = sp_is_collective(node) ? NULL : partial_operand(known, run, node);
    if (operand == NULL)
        return NULL;
    const struct sp_value *whole = sp_blame_partial_term(known, sp_variable_of(run, operand)->numbers)->whole;
    return sp_arena_printf(all->arena,
                           "It reads a partial sum of '%.200s', which has to be added up over the ranks first.",
                           whole != NULL ? whole->name : operand->name);
}

static enum sp_verdict verdict_of(const struct sp_verification *all)
{
    for (uint32_t i = 0; i < all->failures.count; i++) {
        if (all->failures.items[i].verdict == SP_REFUTED)
            return SP_REFUTED;
    }
    return SP_UNDECIDED;
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

/* Who reads a part of a weight that lies on another rank. */
static enum sp_status name_misordered(struct sp_verification *all, struct sp_run_place part,
                                      const struct sp_value *whole, struct sp_error *err)
{
    struct sp_verify_failure failure = {
        .verdict = SP_REFUTED, .run = part.run, .node = part.value->uses[0].node, .certainty = 1};
    failure.message = sp_arena_printf(
        all->arena, "The parts of '%.200s' lie on the ranks in another order than the parts of other weights.",
        whole->name);
    return failure.message != NULL ? sp_verify_fail(all, failure, err) : sp_fail_memory(err);
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
    const struct sp_value *whole = NULL;
    if (verdict_of(all) == SP_REFUTED) {
        const enum sp_status status = sp_blame_find_misordered(all, known, run, node, &whole, &source, err);
        if (status != SP_OK || whole != NULL)
            return status == SP_OK ? name_misordered(all, source, whole, err) : status;
    }
    struct sp_run_place odd, peer;
    if (sp_blame_odd_one(all, known, run, node, &odd, &peer))
        return name_odd(all, odd, peer, err);
    node = first_reader(known, run, node);
    const struct sp_node *expected = sp_blame_original_node(all, node, sp_blame_wrong_result(all, known, run, node));
    struct sp_verify_failure failure = {.verdict = verdict_of(all), .run = run, .node = node};
    const struct sp_outcome *own = result != NULL ? sp_variable_of(run, result) : NULL;
    failure.certainty = own != NULL && own->is_scattered && sp_blame_moves(node); /* whatever comes of it */
    if (expected != NULL && sp_blame_differs_in_form(all, run, node, expected))
        failure.verdict = SP_REFUTED;
    failure.message = tell_partial(all, known, run, node);
    if (failure.message == NULL)
        failure.message = sp_is_collective(node)
                              ? "What it makes of its members' tensors is nothing that the original computes."
                              : "Its result is nothing that the original computes.";
    failure.nearest = sp_blame_describe(all, run, node);
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

enum sp_status sp_blame(struct sp_verification *all, struct sp_error *err)
{
    struct sp_recognised known = {0};
    struct suspect *suspects = SP_NEW_ARRAY(all->arena, all->run_count, struct suspect);
    uint32_t count = 0;
    enum sp_status status = suspects != NULL ? sp_blame_recognise(all, &known, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_blame_add_steps(all, &known, err);
    if (status == SP_OK)
        status = sp_blame_add_partial(all, &known, err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < all->failures.count; i++)
        sp_blame_name_misfit(all, &all->failures.items[i]);
    if (verdict_of(all) == SP_REFUTED)
        status = sp_blame_name_oversized(all, err);
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
