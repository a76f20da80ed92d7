/* Services that no other one beats: in tokens per second of a device against the time per token, and in the price of
   tokens against the time of a request. */
#include <math.h>

#include "base/array.h"
#include "base/sorted.h"
#include "plan/service/internal.h"

#define ROUNDING 1e-9
#define HOUR     3600.0
#define MILLION  1e6

enum sp_status sp_service_add_point(struct sp_serving *serving, const struct sp_service *service,
                                    const struct sp_service_point *of, struct sp_error *err)
{
    if (!SP_MAKE_ROOM(serving->arena, serving->points, serving->point_count, serving->point_capacity, 1))
        return sp_fail_memory(err);
    struct sp_service_point *point = &serving->points[serving->point_count++];
    const double tokens = service->tokens_per_second.value;
    *point = *of;
    point->concurrency = service->concurrency;
    point->ttft_seconds = service->ttft_seconds.value;
    point->tpot_seconds = service->tpot_seconds.value;
    point->request_seconds = service->request_seconds.value;
    point->tokens_per_second_per_device = tokens / (of->prompt_copies * of->prompt_devices + of->copies * of->devices);
    point->dollars_per_million_tokens = service->price_per_hour / HOUR / tokens * MILLION;
    return SP_OK;
}

/* Ascending by what is to be small, then by what else is to be. */
struct by {
    double first, second;
    uint32_t point;
};

SP_ASCENDING(by_both, struct by, first, second, point)

/* Those of the points, in order of the first figure, whose second one is less than that of all before. */
static enum sp_status take_front(const struct sp_serving *serving, bool by_price, uint32_t *ret_count,
                                 const struct sp_service_point **ret_front, struct sp_error *err)
{
    struct sp_service_point *front = SP_NEW_ARRAY(serving->arena, serving->point_count, struct sp_service_point);
    struct by *order = SP_NEW_ARRAY(serving->arena, serving->point_count, struct by);
    uint32_t count = 0;
    double least = INFINITY;
    if (front == NULL || order == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < serving->point_count; i++) {
        const struct sp_service_point *point = &serving->points[i];
        order[i] = by_price ? (struct by){point->request_seconds, point->dollars_per_million_tokens, i}
                            : (struct by){point->tpot_seconds, -point->tokens_per_second_per_device, i};
    }
    qsort(order, serving->point_count, sizeof *order, by_both);
    for (uint32_t i = 0; i < serving->point_count; i++) {
        const struct sp_service_point *point = &serving->points[order[i].point];
        if (by_price && point->dollars_per_million_tokens <= 0)
            continue; /* the price is not known */
        if (isfinite(least) && order[i].second >= least - ROUNDING * fabs(least))
            continue;
        least = order[i].second;
        front[count++] = *point;
    }
    *ret_count = count;
    *ret_front = front;
    return SP_OK;
}

enum sp_status sp_service_find_front(const struct sp_serving *serving, struct sp_service *service, struct sp_error *err)
{
    if (serving->point_count == 0)
        return SP_OK;
    enum sp_status status = take_front(serving, false, &service->by_tpot_count, &service->by_tpot, err);
    if (status == SP_OK)
        status = take_front(serving, true, &service->by_price_count, &service->by_price, err);
    return status;
}
