/* Plans for a part of the devices, of which copies take requests in turn (copies.h). */
#include "search/joint/run/run.h"
#include "search/joint/unequal/unequal.h"

#define MOST_PARTS 8 /* divisions of the devices that are tried */

/* Whether a plan for such a part of the devices is worth a search: it has the memory, and the best plan is not as good as
   any can be. */
static enum sp_status is_part_hopeful(struct sp_search_run *search, uint32_t parts, bool *ret_hopeful)
{
    const struct sp_joint *joint = &search->joint;
    const struct sp_cluster *cluster = joint->cluster;
    double memory = 0;
    enum sp_status status = sp_run_find_bounds(search);
    for (uint32_t d = 0; d < cluster->device_count; d++)
        memory += sp_cluster_room(cluster, d);
    *ret_hopeful = joint->workload->weight_bytes * parts <= memory &&
                   (search->front.count == 0 || search->front.plans[0]->evaluation->interval_seconds >
                                                    search->bounds.interval_seconds * (1 + joint->options->tolerance));
    return status;
}

enum sp_status sp_run_propose_parts(struct sp_search_run *search)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_joint_options *options = joint->options;
    const uint32_t devices = joint->cluster->device_count;
    enum sp_status status = SP_OK;
    uint32_t tried = 0;
    if (options->max_copies == 1 || options->objective != SP_OBJECTIVE_THROUGHPUT ||
        options->strategy == SP_STRATEGY_TENSOR || sp_run_has_pins(options->constraints))
        return SP_OK;
    for (uint32_t parts = 2; parts <= devices / 2 && tried < MOST_PARTS && status == SP_OK; parts++) {
        bool is_hopeful = false;
        if ((options->max_copies != 0 && parts > options->max_copies) || !sp_run_goes_on(search, 0.93))
            break;
        if (!sp_space_divide(joint->space, parts))
            continue;
        status = is_part_hopeful(search, parts, &is_hopeful);
        if (status != SP_OK || !is_hopeful)
            break;
        tried++;
        status = sp_run_propose_laid(search);
    }
    sp_space_lay(joint->space, 0, true);
    return status;
}
