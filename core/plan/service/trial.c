/* What a copy costs, and how it is called. */
#include <string.h>

#include "plan/service/internal.h"

void sp_trial_find_price(struct sp_trial *trial)
{
    const struct sp_plan *plan = sp_copy_plan_of(trial->copy);
    const uint32_t *stages = sp_plan_device_stages(plan);
    double price = 0;
    for (uint32_t d = 0; stages != NULL && d < plan->cluster->device_count; d++) {
        const double listed = sp_cluster_device(plan->cluster, d)->price.usd;
        const double stated = sp_cluster_price(plan->cluster, d);
        const bool is_used = stages[d] != SP_NO_STAGE || sp_routed_holder(plan->result->routes, d) != NULL;
        if (is_used && stated <= 0 && listed <= 0)
            return;
        price += !is_used ? 0 : stated > 0 ? stated : listed;
        trial->price_is_listed = trial->price_is_listed || (is_used && stated <= 0);
    }
    trial->price_per_hour = trial->copies * price;
}

const char *sp_trial_description(const struct sp_trial *trial)
{
    const struct sp_search_result *result = sp_copy_plan_of(trial->copy)->result;
    const char *description = "";
    for (uint32_t i = 0; i < result->front_count; i++) {
        if (result->front[i].is_chosen)
            description = result->front[i].description;
    }
    return sp_arena_string(trial->serving->arena, description, strlen(description));
}
