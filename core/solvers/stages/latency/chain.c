/* Where the search for a latency begins: the best chain of stages, as if they ran one after the other. */
#include <math.h>
#include <string.h>

#include "solvers/stages/chain.h"
#include "solvers/stages/latency/latency.h"

/* The same problem for chains: loads are sums, links as options have them, and what runs freely takes no device and no
   transfer. */
static struct sp_stages_problem *as_chain(struct sp_arena *arena, const struct sp_stages_problem *problem)
{
    struct sp_stages_problem *chain = SP_NEW(arena, struct sp_stages_problem);
    struct sp_stages_option *options = SP_NEW_ARRAY(arena, problem->option_count, struct sp_stages_option);
    if (chain == NULL || options == NULL)
        return NULL;
    *chain = *problem;
    chain->options = options;
    chain->combine = SP_STAGES_SUM;
    chain->levels = NULL;
    memcpy(options, problem->options, problem->option_count * sizeof *options);
    for (uint32_t o = 0; o < problem->option_count; o++) {
        options[o].max_replicas = 1;
        if (!options[o].is_free)
            continue;
        options[o].devices = 0;
        options[o].transfer_fixed = options[o].transfer_per_byte = 0;
        options[o].memory_bytes = INFINITY;
    }
    return chain;
}

/* The chain's stages, which become the first slots, and where its units are. */
static bool take_chain(const struct sp_latency_graph *graph, const struct sp_stages_prepared *chain,
                       const struct sp_stages_solution *found, struct sp_latency_chain *ret_chain)
{
    const struct sp_stages_option *options = graph->problem->options;
    uint32_t *slot = SP_NEW_ARRAY(graph->arena, found->stage_count, uint32_t);
    ret_chain->choices = SP_NEW_ARRAY(graph->arena, found->stage_count, struct sp_stages_choice);
    ret_chain->slot_of = SP_NEW_ARRAY(graph->arena, graph->model->unit_count, uint32_t);
    if (slot == NULL || ret_chain->choices == NULL || ret_chain->slot_of == NULL)
        return false;
    for (uint32_t s = 0; s < found->stage_count; s++) {
        const uint32_t option = found->choices[s].option;
        slot[s] = options[option].is_free ? SP_LATENCY_FREE + option : ret_chain->count;
        if (!options[option].is_free)
            ret_chain->choices[ret_chain->count++] = (struct sp_stages_choice){.option = option, .replicas = 1};
    }
    ret_chain->is_found = ret_chain->count <= graph->slot_count - graph->free_count;
    for (uint32_t v = 0; v < graph->node_count; v++) {
        const uint32_t stage = found->stage_of[chain->unit_of[v]], unit = graph->unit_of[v];
        ret_chain->slot_of[unit] = slot[stage];
        ret_chain->is_found = ret_chain->is_found && graph->allowed[found->choices[stage].option][unit];
    }
    return true;
}

/* Whether chains are all that there is: nodes of one unit may be apart where they run freely, and edges of backward nodes
   go another way in a chain. */
static bool is_of_chains(const struct sp_stages_problem *problem)
{
    for (uint32_t o = 0; o < problem->option_count; o++) {
        if (problem->options[o].is_free)
            return false;
    }
    for (uint32_t v = 0; v < problem->node_count; v++) {
        if (problem->nodes[v].is_backward)
            return false;
    }
    return true;
}

/* Whether what a stage may hold does not depend on the stages behind it, so that a chain that is the best of those that
   were compared is the best of all. */
static bool is_apart(const struct sp_stages_problem *problem)
{
    bool is_roomy = true;
    for (uint32_t o = 0; o < problem->option_count; o++)
        is_roomy = is_roomy && problem->options[o].memory_bytes == INFINITY;
    return is_roomy || (problem->memory == NULL && !problem->sends_to_each);
}

enum sp_status sp_latency_chain_find(struct sp_stages_run *run, const struct sp_latency_graph *graph,
                                     struct sp_latency_chain *ret_chain)
{
    struct sp_stages_problem *problem = as_chain(run->scratch, graph->problem);
    struct sp_stages_prepared *prepared;
    struct sp_stages_solution found = {0};
    struct sp_stages_rates rates;
    const uint64_t later = run->work_left / 2;
    *ret_chain = (struct sp_latency_chain){0};
    if (problem == NULL)
        return sp_fail_memory(run->err);
    enum sp_status status = sp_stages_prepare(run->scratch, problem, SP_STAGES_UNITS_CHAIN, &prepared, run->err);
    if (status == SP_OK)
        status = sp_stages_rates_make(run->scratch, prepared, &rates, run->err);
    run->work_left -= later;
    if (status == SP_OK)
        status = sp_stages_linear(run, prepared, &rates, &found, &ret_chain->is_all);
    run->work_left += later;
    ret_chain->is_all = ret_chain->is_all && is_of_chains(graph->problem);
    ret_chain->is_best = ret_chain->is_all && is_apart(graph->problem);
    if (status != SP_OK || !found.is_feasible)
        return status;
    return take_chain(graph, prepared, &found, ret_chain) ? SP_OK : sp_fail_memory(run->err);
}
