/* Nodes of the problem: what their seconds cost, and how many strategies they have. */
#include <math.h>

#include "search/strategy/intra_internal.h"

int64_t sp_intra_cost(double seconds)
{
    double cost = seconds * SP_INTRA_SECOND;
    if (!(cost < (double)SP_CHOICE_INFINITE))
        return SP_CHOICE_INFINITE;
    return llround(cost);
}

uint32_t sp_intra_strategy_count(const struct sp_intra *intra, uint32_t node)
{
    if (node < intra->member_count)
        return intra->members[node].strategies->count;
    if (node < intra->member_count + intra->hub_count)
        return intra->hubs[node - intra->member_count].layout_count;
    return intra->problem.first[node + 1] - intra->problem.first[node];
}
