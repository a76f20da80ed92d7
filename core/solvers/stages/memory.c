#include <math.h>
#include <string.h>

#include "solvers/stages/chain.h"

/* Where nothing fits: the stages that would take least more memory. */

/* The rates that hold whatever the memory. */
static enum sp_status free_rates(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                 struct sp_stages_rates *rates, double *ret_bound)
{
    struct sp_stages_problem problem = *prepared->problem;
    struct sp_stages_prepared copy = *prepared;
    struct sp_stages_option *options = SP_NEW_ARRAY(run->scratch, problem.option_count, struct sp_stages_option);
    if (options == NULL)
        return sp_fail_memory(run->err);
    memcpy(options, problem.options, problem.option_count * sizeof *options);
    for (uint32_t i = 0; i < problem.option_count; i++)
        options[i].memory_bytes = INFINITY;
    problem.options = options;
    copy.problem = &problem;
    enum sp_status status = sp_stages_rates_make(run->scratch, &copy, rates, run->err);
    if (status == SP_OK)
        *ret_bound = sp_stages_rates_bound(&problem, rates);
    return status;
}

static enum sp_status search(struct sp_stages_run *run, struct sp_stages_chain *chain,
                             const struct sp_stages_lattice *lattice, struct sp_stages_solution *closest)
{
    struct sp_stages_solution found;
    bool is_complete;
    chain->lattice = lattice;
    enum sp_status status = sp_stages_chain_search(run, chain, &found, &is_complete);
    if (status == SP_OK && found.is_feasible && found.value < chain->limit) {
        *closest = found;
        chain->limit = found.value;
    }
    return status;
}

enum sp_status sp_stages_minimum_memory(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                        struct sp_stages_solution *closest)
{
    uint64_t most = run->options->max_ideals != 0 ? run->options->max_ideals : SP_STAGES_IDEALS;
    struct sp_stages_rates rates;
    struct sp_stages_lattice *lattice;
    double bound = INFINITY;
    enum sp_status status = free_rates(run, prepared, &rates, &bound);
    struct sp_stages_chain chain = {
        .prepared = prepared, .rates = &rates, .aim = SP_STAGES_AIM_MEMORY, .load_limit = INFINITY, .limit = INFINITY};
    *closest = (struct sp_stages_solution){.value = INFINITY};
    if (status != SP_OK || bound == INFINITY)
        return status; /* memory is not what lacks */
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(run->scratch));
    if (arena == NULL)
        return sp_fail_memory(run->err);
    for (uint32_t line = 0; line < SP_STAGES_LINES && status == SP_OK; line++) {
        status = sp_stages_order_line(run, prepared, &rates, line, &lattice);
        if (status == SP_OK)
            status = search(run, &chain, lattice, closest);
    }
    if (status == SP_OK)
        status = sp_stages_ideals(run, arena, prepared, most, &lattice);
    if (status == SP_OK && lattice != NULL)
        status = search(run, &chain, lattice, closest);
    sp_arena_destroy(arena);
    return status;
}
