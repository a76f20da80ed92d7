#include "search/joint/candidate.h"

#include "cost/streaming.h"

enum sp_status sp_joint_table(struct sp_joint *joint, const struct sp_space_option *option,
                              struct sp_strategy_table **ret_table, struct sp_error *err)
{
    const size_t index = (size_t)(option - joint->space->options);
    const bool is_missing = option->mesh.axis_count > 0 && joint->tables[index] == NULL;
    enum sp_status status = SP_OK;
    if (is_missing && option->mesh.member_count == 0) {
        status = sp_search_store_table(joint->store, &option->mesh, joint->options->watch, &joint->tables[index], err);
    } else if (is_missing) {
        status = sp_strategy_table_create(joint->arena, joint->workload, joint->dataflow, &option->mesh,
                                          joint->options->watch, &joint->tables[index], err);
        joint->own_tables[index] = joint->tables[index];
    }
    if (status == SP_OK)
        *ret_table = joint->tables[index];
    return status;
}

/* What may be streamed of a block's weights; NULL where nothing is, or without memory, which *ret_done tells. */
static const double *streamable(const struct sp_joint *joint, const struct sp_model_choice *profile,
                                const uint32_t *users, bool *ret_done)
{
    const struct sp_workload *workload = joint->workload;
    if (users == NULL || profile->option->mesh.member_count > 0)
        return NULL;
    double *bytes = SP_NEW_ARRAY(joint->arena, workload->node_count, double);
    *ret_done = *ret_done && bytes != NULL;
    for (uint32_t n = 0; bytes != NULL && n < workload->node_count; n++) {
        if (workload->nodes[n].folded)
            continue;
        bytes[n] = profile->table == NULL ? sp_stream_own_bytes(workload, users, n)
                                          : sp_strategy_weight_bytes(profile->table, n, profile->strategy_of[n]);
    }
    return bytes;
}

struct sp_stage_parts *sp_joint_parts(const struct sp_joint *joint, const struct sp_proposal *proposal,
                                      uint32_t part_count, const uint32_t *part_of)
{
    struct sp_stage_block *blocks = SP_NEW_ARRAY(joint->arena, proposal->profile_count, struct sp_stage_block);
    const bool has_hosts = joint->cluster->host_of != NULL;
    const uint32_t *users = has_hosts ? sp_work_users(joint->arena, joint->workload) : NULL;
    bool is_done = blocks != NULL && (!has_hosts || users != NULL);
    for (uint32_t i = 0; is_done && i < proposal->profile_count; i++) {
        blocks[i] = proposal->profiles[i]->bytes;
        blocks[i].streamable_bytes = streamable(joint, proposal->profiles[i], users, &is_done);
    }
    return !is_done ? NULL
                    : sp_stage_parts_create(joint->arena, joint->workload, part_count, part_of, proposal->profile_count,
                                            blocks);
}

enum sp_status sp_joint_tell(const struct sp_joint *joint, const struct sp_joint_candidate *candidate, bool *ret_keep,
                             struct sp_error *err)
{
    const struct sp_plan_listener *listener = joint->options->listener;
    const struct sp_seen_plan seen = {.placement = &candidate->placement,
                                      .sharded = candidate->sharded,
                                      .routes = candidate->routed,
                                      .evaluation = candidate->evaluation,
                                      .strategy = candidate->strategy,
                                      .devices_used = candidate->devices_used};
    *ret_keep = false;
    return listener == NULL || !candidate->fits ? SP_OK : listener->hear(listener->context, &seen, ret_keep, err);
}

struct sp_joint_candidate *sp_joint_candidate_create(struct sp_joint *joint, uint32_t stage_count)
{
    struct sp_arena *arena = joint->arena;
    struct sp_joint_candidate *candidate = SP_NEW(arena, struct sp_joint_candidate);
    if (candidate == NULL)
        return NULL;
    candidate->placement = (struct sp_placement){
        .stage_count = stage_count,
        .stage_of = SP_NEW_ARRAY(arena, joint->workload->node_count, uint32_t),
        .stage_device = SP_NEW_ARRAY(arena, stage_count, uint32_t),
        .stage_size = SP_NEW_ARRAY(arena, stage_count, uint32_t),
        .stage_replicas = SP_NEW_ARRAY(arena, stage_count, uint32_t),
    };
    candidate->sharded = SP_NEW_ARRAY(arena, stage_count, struct sp_sharded_stage);
    candidate->options = SP_NEW_ARRAY(arena, stage_count, const struct sp_space_option *);
    const struct sp_placement *placement = &candidate->placement;
    if (placement->stage_of == NULL || placement->stage_device == NULL || placement->stage_size == NULL ||
        placement->stage_replicas == NULL || candidate->sharded == NULL || candidate->options == NULL)
        return NULL;
    return candidate;
}
