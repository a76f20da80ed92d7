#include "search/joint/candidate.h"

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

struct sp_stage_parts *sp_joint_parts(const struct sp_joint *joint, const struct sp_proposal *proposal,
                                      uint32_t part_count, const uint32_t *part_of)
{
    struct sp_stage_block *blocks = SP_NEW_ARRAY(joint->arena, proposal->profile_count, struct sp_stage_block);
    for (uint32_t i = 0; blocks != NULL && i < proposal->profile_count; i++)
        blocks[i] = proposal->profiles[i]->bytes;
    return blocks == NULL ? NULL
                          : sp_stage_parts_create(joint->arena, joint->workload, part_count, part_of,
                                                  proposal->profile_count, blocks);
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
