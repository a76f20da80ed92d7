#include "plan/service/cuts.h"

#include <string.h>

#include "plan/micro/micro.h"

#define CANNOT "MICRO_BATCHES_"

bool sp_cannot_be_cut(enum sp_status status, const struct sp_error *err)
{
    return status == SP_ERR_REQUEST && strncmp(err->code, CANNOT, strlen(CANNOT)) == 0;
}

bool sp_is_uneven_cut(enum sp_status status, const struct sp_error *err)
{
    return status == SP_ERR_REQUEST && strcmp(err->code, "MICRO_BATCHES_UNEVEN") == 0;
}

static enum sp_status look(struct sp_copy *copy, const struct sp_cut_sizes *at, struct sp_phase_cuts *cuts,
                           struct sp_error *err)
{
    const struct sp_phase_figures *figures;
    enum sp_status status = sp_copy_evaluate(copy, at, &figures, err);
    if (status == SP_OK)
        cuts->items[cuts->count++] = (struct sp_phase_cut){at->micro_batches, figures};
    return status;
}

/* More parts until one more cut brings nothing, or the batch cannot be cut any more. */
static enum sp_status look_at_cuts(struct sp_copy *copy, const struct sp_sizes *sizes, struct sp_phase_cuts *cuts,
                                   struct sp_error *err)
{
    for (uint32_t parts = 2; parts <= SP_MOST_MICRO_BATCHES; parts *= 2) {
        struct sp_error why = {0};
        enum sp_status status = look(copy, &(struct sp_cut_sizes){*sizes, parts}, cuts, &why);
        if (sp_cannot_be_cut(status, &why))
            return SP_OK;
        if (status != SP_OK) {
            if (err != NULL)
                *err = why;
            return status;
        }
        const struct sp_phase_figures *now = cuts->items[cuts->count - 1].figures,
                                      *before = cuts->items[cuts->count - 2].figures;
        if (now->latency_seconds.value >= before->latency_seconds.value &&
            (before->excess_bytes <= 0 || now->excess_bytes >= before->excess_bytes))
            return SP_OK;
    }
    return SP_OK;
}

/* Those that fit; without one the one that lacks least. */
static void keep_fitting(struct sp_phase_cuts *cuts)
{
    uint32_t kept = 0, least = 0;
    for (uint32_t i = 0; i < cuts->count; i++) {
        if (cuts->items[i].figures->excess_bytes < cuts->items[least].figures->excess_bytes)
            least = i;
    }
    const struct sp_phase_cut closest = cuts->items[least];
    for (uint32_t i = 0; i < cuts->count; i++) {
        if (cuts->items[i].figures->excess_bytes <= 0)
            cuts->items[kept++] = cuts->items[i];
    }
    if (kept == 0)
        cuts->items[kept++] = closest;
    cuts->count = kept;
}

enum sp_status sp_phase_cuts_find(struct sp_copy *copy, const struct sp_sizes *sizes, uint32_t asked,
                                  bool is_shorter_better, struct sp_phase_cuts *ret_cuts, struct sp_error *err)
{
    const bool is_open = asked == 0 || asked == SP_MICRO_BATCHES_AUTO;
    const struct sp_cut_sizes whole = {*sizes, 1};
    struct sp_error why = {0};
    ret_cuts->count = 0;
    if (!is_open) {
        enum sp_status status = look(copy, &(struct sp_cut_sizes){*sizes, asked}, ret_cuts, &why);
        if (!sp_is_uneven_cut(status, &why)) {
            if (status != SP_OK && err != NULL)
                *err = why;
            return status;
        }
    }
    enum sp_status status = look(copy, &whole, ret_cuts, err);
    if (status != SP_OK || !is_open)
        return status;
    const bool has_stages = sp_copy_plan_of(copy)->result->placement.stage_count > 1;
    if (ret_cuts->items[0].figures->excess_bytes > 0 || (is_shorter_better && has_stages))
        status = look_at_cuts(copy, sizes, ret_cuts, err);
    keep_fitting(ret_cuts);
    return status;
}
