#pragma once
/*
 * phase_join - the phases of one model as one workload, in which weights are there once.
 *
 * A phase is the model with other extents: a prompt, and one token behind it; a single picture, and thirty-two. Each was
 * read, bound and costed on its own. The joint workload has the nodes of all phases, one phase behind the other; they
 * share their weights, and what is computed of weights alone when the model is loaded. Nothing else leads from one phase
 * to another. So whatever chooses strategies and stages for a workload chooses them for all phases together, with two
 * rules more (search/states.h): a node is in the same stage in every phase, and takes its weights in the same
 * layout.
 *
 * Time and bytes sent are of one request, which runs each phase so many times. Phases run one after the other on a
 * device: its memory is the weights, states at their largest, and the most that any one phase has alive beside these. A
 * state's tensors are in memory in the phase in which they are largest, and always then; another phase uses a part of
 * that memory. Whatever names two phases by their states has those of the later one take what the first one makes.
 *
 * Node and tensor i of phase p have the numbers p * (nodes or tensors of the model) + i.
 */
#include "cost/workload.h"

#define SP_JOIN_PHASES 64 /* at most */

struct sp_phase {
    const char *name;       /* distinct */
    double times;           /* how often a request runs it: above 0 */
    struct sp_model *model; /* NULL: a graph of costs */
    const struct sp_workload *workload;
};

struct sp_joined_phases {
    struct sp_workload *workload;
    struct sp_model *model; /* whose main graph has the nodes and values of the workload; NULL as above. It is for
                               sp_dataflow_create() and sp_op_rule(), and no file has it */
    uint32_t phase_count, node_count, tensor_count; /* of one phase */
};

/*
 * In `arena`, beside the phases, which have to stay. All workloads are of the same devices. SP_ERR_REQUEST
 * "PHASES_DIFFER" where two phases are not the same graph: names the first node at which they differ.
 */
enum sp_status sp_phases_join(struct sp_arena *arena, uint32_t count, const struct sp_phase *phases,
                              struct sp_joined_phases *ret_joined, struct sp_error *err);
