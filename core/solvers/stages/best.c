#include <math.h>

#include "solvers/stages/chain.h"

/* The best chain of a lattice: how the search is asked. */

/* Labels tell apart all numbers of devices that were used: with more of them than this the load is bisected. */
#define FEW_COUNTS 256

static bool has_few_counts(const struct sp_stages_problem *problem)
{
    double counts = 1;
    for (uint32_t i = 0; i < problem->class_count; i++)
        counts *= 1 + (double)problem->class_size[i];
    return counts <= FEW_COUNTS;
}

/* Is what was found better than `solution`? Then it is the solution. */
static enum sp_status take(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                           struct sp_stages_solution *found, struct sp_stages_solution *solution)
{
    const char *fault;
    enum sp_status status = sp_stages_measure(run, prepared, found, &fault);
    if (status == SP_OK && found->is_feasible && (!solution->is_feasible || found->value < solution->value))
        *solution = *found;
    return status;
}

/* The least load at which the devices suffice, between what was proved and what was found. */
static enum sp_status bisect(struct sp_stages_run *run, struct sp_stages_chain *chain, double bound, double limit,
                             struct sp_stages_solution *solution, bool *ret_complete)
{
    enum sp_status status = SP_OK;
    double low = bound, high = limit;
    bool is_complete = true;
    chain->aim = SP_STAGES_AIM_DEVICES;
    chain->is_any = true;
    for (uint32_t round = 0; round < 200 && status == SP_OK && is_complete; round++) {
        if (high < INFINITY && high - low <= 1e-10 * high)
            break;
        double middle = low + (high - low) / 2;
        if (high == INFINITY)
            middle = low > 0 ? low * (1 << (round < 20 ? round + 1 : 20)) : ldexp(1e-9, (int)round);
        else if (low > 0 && high > 4 * low)
            middle = sqrt(low) * sqrt(high);
        struct sp_stages_solution found;
        bool is_searched;
        chain->limit = INFINITY;
        chain->load_limit = middle;
        status = sp_stages_chain_search(run, chain, &found, &is_searched);
        if (status != SP_OK)
            break;
        if (!found.is_feasible) {
            is_complete = is_searched;
            low = middle;
            if (high == INFINITY && round > 100)
                break;
            continue;
        }
        status = take(run, chain->prepared, &found, solution);
        high = solution->is_feasible ? fmin(middle, solution->value) : middle;
    }
    *ret_complete = is_complete;
    return status;
}

enum sp_status sp_stages_chain_best(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                    const struct sp_stages_lattice *lattice, const struct sp_stages_rates *rates,
                                    double limit, struct sp_stages_solution *solution, bool *ret_complete)
{
    const struct sp_stages_problem *problem = prepared->problem;
    struct sp_stages_chain chain = {.prepared = prepared,
                                    .lattice = lattice,
                                    .rates = rates,
                                    .load_limit = problem->load_limit > 0 ? problem->load_limit : INFINITY,
                                    .limit = limit};
    struct sp_stages_solution found;
    *solution = (struct sp_stages_solution){0};
    if (problem->objective == SP_STAGES_THROUGHPUT && !has_few_counts(problem))
        return bisect(run, &chain, fmax(fmax(rates->time_sum, rates->largest), rates->copies), limit, solution,
                      ret_complete);
    static const enum sp_stages_aim aims[] = {[SP_STAGES_THROUGHPUT] = SP_STAGES_AIM_LOAD,
                                              [SP_STAGES_LATENCY] = SP_STAGES_AIM_SUM,
                                              [SP_STAGES_DEVICES] = SP_STAGES_AIM_DEVICES};
    chain.aim = aims[problem->objective];
    enum sp_status status = sp_stages_chain_search(run, &chain, &found, ret_complete);
    if (status == SP_OK && found.is_feasible)
        status = take(run, prepared, &found, solution);
    return status;
}
