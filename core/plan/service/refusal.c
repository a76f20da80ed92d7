/* Why there is no service: which limits the closest one breaks, by how much, and what would do. */
#include <math.h>
#include <string.h>

#include "plan/service/choosing.h"

/* "tpot_seconds 0.05 (it has 0.062, 24 % over)" for each limit that the closest service breaks. */
static void list_broken(const struct sp_service *nearest, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < nearest->limit_count; i++) {
        const struct sp_service_limit *limit = &nearest->limits[i];
        const bool is_rate = strcmp(limit->name, "rate_per_second") == 0;
        const double off = is_rate ? 1 - limit->figure.value / limit->limit : limit->figure.value / limit->limit - 1;
        if (limit->state == SP_LIMIT_BROKEN)
            sp_buf_printf(buf, "%s%s %.4g (it has %.4g, %.3g %% %s)", buf->size > 0 ? " and " : "", limit->name,
                          limit->limit, limit->figure.value, 100 * off, is_rate ? "too few" : "over");
    }
}

/* So many times the copies of the closest service serve the rate, where it keeps all other limits. */
static bool add_copies(const struct sp_choosing *c, struct sp_buf *buf)
{
    const struct sp_service *nearest = &c->nearest;
    const double of_copy = nearest->capacity_per_second.value / nearest->copies;
    const double copies = floor(nearest->rate_per_second / of_copy) + 1;
    for (uint32_t i = 0; i < nearest->limit_count; i++) {
        const bool is_rate = strcmp(nearest->limits[i].name, "rate_per_second") == 0;
        if (strcmp(nearest->limits[i].name, "budget_per_hour") == 0) /* which more copies need more of */
            return false;
        if (is_rate == (nearest->limits[i].state != SP_LIMIT_BROKEN))
            return false;
    }
    if (!nearest->has_rate || !(copies <= SP_MAX_DEVICES))
        return false;
    sp_buf_printf(buf, " %.0f copies like it, on %.0f devices, serve that rate.", copies,
                  copies * sp_plan_devices_used(sp_copy_plan_of(c->near.copy)));
    return true;
}

/* What would do, as far as the closest service says it. */
static enum sp_status add_remedy(const struct sp_choosing *c, struct sp_buf *buf, struct sp_error *err)
{
    const struct sp_traffic *traffic = c->serving.traffic;
    struct sp_service at = {0};
    enum sp_status status = SP_OK;
    if (c->near.copy != NULL && add_copies(c, buf))
        return SP_OK;
    if (c->near.copy != NULL && traffic->is_llm && traffic->rate_per_second <= 0)
        status = sp_serve_llm_limits(&c->near, &at, err);
    if (at.limit_concurrency > 0)
        sp_buf_printf(buf, " With %lld sequences in flight it keeps them.", (long long)at.limit_concurrency);
    else
        sp_buf_text(buf, " Give it more or faster devices, or change the limits.");
    return status;
}

static enum sp_status refuse_limits(const struct sp_choosing *c, struct sp_error *err)
{
    const struct sp_service *nearest = &c->nearest;
    struct sp_buf broken, remedy;
    sp_buf_init(&broken, SP_ERROR_MESSAGE_SIZE);
    sp_buf_init(&remedy, SP_ERROR_MESSAGE_SIZE);
    list_broken(nearest, &broken);
    enum sp_status status = add_remedy(c, &remedy, err);
    if (status == SP_OK && (sp_buf_failed(&broken) || sp_buf_failed(&remedy)))
        status = sp_fail_memory(err);
    if (status == SP_OK && nearest->is_llm)
        status = sp_fail(err, SP_ERR_NOFIT, "LIMIT_NOT_KEPT",
                         "No plan keeps the limits. The closest, %u copies of the model with %lld sequences in flight, "
                         "breaks %s.%s",
                         nearest->copies, (long long)nearest->concurrency, broken.data, remedy.data);
    else if (status == SP_OK)
        status = sp_fail(err, SP_ERR_NOFIT, "LIMIT_NOT_KEPT",
                         "No plan keeps the limits. The closest, %u copies of the model, breaks %s.%s", nearest->copies,
                         broken.data, remedy.data);
    sp_buf_release(&broken);
    sp_buf_release(&remedy);
    return status;
}

enum sp_status sp_choosing_refuse(const struct sp_choosing *c, struct sp_error *err)
{
    if (c->closest > 0)
        return refuse_limits(c, err);
    if (err != NULL)
        *err = c->nofit;
    return c->nofit.status != SP_OK
               ? c->nofit.status
               : sp_fail(err, SP_ERR_NOFIT, "SERVICE_NO_MEMORY",
                         "Plans of one phase fit the devices, but none has memory for all phases of the workload: "
                         "give it more devices, or fewer sequences in flight.");
}
