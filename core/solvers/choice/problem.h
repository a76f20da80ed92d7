#pragma once
/* problem - whether a choice problem is well formed; private to the solver. */
#include "base/limits.h"
#include "solvers/choice/choice.h"

/* SP_ERR_REQUEST or SP_ERR_LIMIT, naming the node or edge: no strategies, negative figures, edges that lead nowhere,
   sums that could overflow. */
enum sp_status sp_choice_check(const struct sp_choice_problem *problem, struct sp_error *err);
