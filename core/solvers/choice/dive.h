#pragma once
/*
 * dive - a good choice from what the bound's relaxation takes.
 *
 * The soft bound says of each state how much of its variable takes it. States of which hardly anything is taken are
 * left out, what remains is reduced again and searched by branch and bound for a while. It proves nothing; where the
 * bound is tight it finds choices next to it.
 */
#include "solvers/choice/bound.h"

struct sp_dive {
    double share;         /* states with less are left out */
    int64_t cost;         /* of the whole problem: only better choices are looked for */
    uint64_t work;        /* about so many steps */
    uint64_t most;        /* entries of all tables that are searched; more are not */
    const uint32_t *keep; /* states that stay in any case, or NULL */
    const struct sp_executor *executor;
    const volatile bool *stop;
    struct sp_budget *budget;
};

/* `ret_states` has room for the variables of the bound's problem and is written when something is found. The work that
   was done is added to `*ret_work`. */
enum sp_status sp_dive(const struct sp_bound_state *bound, const struct sp_dive *dive, uint32_t *ret_states,
                       bool *ret_found, uint64_t *ret_work, struct sp_error *err);
