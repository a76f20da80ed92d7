/* Notes of a plan: what was assumed, left out or found on the way to it. */
#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "plan/internal.h"
#include "plan/replan/replan.h"
#include "search/states.h"

#define SP_LABEL_SIZE 256 /* of sp_node_label() */

bool sp_note_add(struct sp_bindings *bindings, const struct sp_plan_note *note)
{
    if (!SP_MAKE_ROOM(bindings->arena, bindings->notes, bindings->note_count, bindings->note_capacity, 1))
        return false;
    bindings->notes[bindings->note_count++] = *note;
    return true;
}

bool sp_plan_add_note(struct sp_plan *plan, const struct sp_plan_note *note)
{
    struct sp_plan_note *notes = SP_NEW_ARRAY(plan->arena, (size_t)plan->note_count + 1, struct sp_plan_note);
    if (notes == NULL)
        return false;
    if (plan->note_count > 0)
        memcpy(notes, plan->notes, plan->note_count * sizeof *notes);
    notes[plan->note_count++] = *note;
    plan->notes = notes;
    return true;
}

bool sp_note_replaced(const struct sp_model *model, struct sp_bindings *bindings)
{
    bool is_replaced = false;
    if (model == NULL || model->configuration_count == 0)
        return true;
    for (uint32_t i = 0; i < model->configuration_count; i++)
        is_replaced = is_replaced || strcmp(model->configurations[i].name, SP_PLAN_CONFIGURATION) == 0;
    const char *name = model->configurations[0].name;
    const struct sp_plan_note note = {
        .code = "ANNOTATIONS_IGNORED",
        .severity = "note",
        .message = is_replaced
                       ? "The model is annotated already: the plan does not follow what it states, and the annotated "
                         "model has the plan's configuration '" SP_PLAN_CONFIGURATION "' in the place of the one there."
                       : sp_arena_printf(bindings->arena,
                                         "The model is annotated already: the plan does not follow its configuration "
                                         "'%.120s', which the annotated model keeps beside that of the plan.",
                                         name),
        .hint = "To keep shardings, give them as constraints; 'shardplan infer' completes what is there.",
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_accepted(const struct sp_accepted *accepted, struct sp_bindings *bindings)
{
    for (uint32_t i = 0; i < accepted->count; i++) {
        const struct sp_plan_note note = {.code = accepted->notes[i].code,
                                          .severity = "note",
                                          .message = accepted->notes[i].message,
                                          .hint = "A check lists each place: the standard forbids it."};
        if (!sp_note_add(bindings, &note))
            return false;
    }
    return true;
}

bool sp_note_unknown_operators(const struct sp_shape_summary *summary, struct sp_bindings *bindings)
{
    char label[SP_LABEL_SIZE];
    const struct sp_node *first = summary->first_unknown_op;
    if (summary->unknown_op_count == 0 || first == NULL)
        return true;
    if (!SP_MAKE_ROOM(bindings->arena, bindings->notes, bindings->note_count, bindings->note_capacity, 1))
        return false;
    struct sp_plan_note note = {
        .code = "OPERATOR_WITHOUT_RULE",
        .severity = "warning",
        .message =
            sp_arena_printf(bindings->arena,
                            "Operators of %" PRIu64 " nodes have no rule, first node %s: their time is taken to be "
                            "that of moving their operands, and results of unknown shape to be as large as what they "
                            "are made of. --operators tells rules, --shape shapes.",
                            summary->unknown_op_count, sp_node_label(first, label, sizeof label)),
        .node = first->name[0] != '\0' ? first->name : NULL,
    };
    if (note.message == NULL)
        return false;
    bindings->notes[bindings->note_count++] = note;
    return true;
}

bool sp_note_containers(const struct sp_model *model, struct sp_bindings *bindings)
{
    const char *first = NULL;
    for (uint32_t i = 0; model != NULL && first == NULL && i < model->graph->input_count; i++) {
        const struct sp_value *input = model->graph->inputs[i];
        if (input->type.kind != SP_TYPE_TENSOR && input->type.kind != SP_TYPE_NONE)
            first = input->name;
    }
    if (first == NULL)
        return true;
    const struct sp_plan_note note = {
        .code = "INPUT_NOT_A_TENSOR",
        .severity = "note",
        .message = sp_arena_printf(bindings->arena,
                                   "Inputs that are no tensors (first '%.80s') are placed whole; each counts as one "
                                   "tensor of its type.",
                                   first),
        .hint = "A type without a shape counts as nothing; --shape tells the shapes of tensors that are taken out.",
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_states(const struct sp_states *states, struct sp_bindings *bindings)
{
    const struct sp_state *first = states->items;
    uint32_t given = 0, growing = 0;
    for (uint32_t i = 0; i < states->count; i++) {
        given += first[i].origin == SP_STATE_GIVEN;
        growing += first[i].axis != SP_STATE_FIXED;
    }
    if (states->count == 0)
        return true;
    const struct sp_plan_note note = {
        .code = "STATES_FOUND",
        .severity = "note",
        .message =
            sp_arena_printf(bindings->arena,
                            "%u inputs are states, outputs of the step before ('%.60s' was '%.60s'%s), by %s and "
                            "types; %u grow. A plan keeps each where it is made.",
                            states->count, first->past->name, first->present->name, states->count > 1 ? ", .." : "",
                            given == states->count ? "what was given"
                            : given > 0            ? "names, what was given"
                                                   : "names",
                            growing),
        .tensor = first->past->name,
        .hint = "The option state (--state IN=OUT) names them where this is not so.",
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_moved_states(const struct sp_workload *workload, const struct sp_search_result *result,
                          struct sp_bindings *bindings)
{
    const struct sp_work_state *first = NULL;
    uint32_t count = 0;
    for (uint32_t i = workload->state_count; i-- > 0;) {
        struct sp_workload one = *workload;
        one.state_count = 1;
        one.states = &workload->states[i];
        if (!sp_states_are_kept(&one, &result->placement, result->sharded)) {
            first = &workload->states[i];
            count++;
        }
    }
    if (first == NULL)
        return true;
    const struct sp_plan_note note = {
        .code = "STATE_MOVES",
        .severity = "warning",
        .message = sp_arena_printf(
            bindings->arena,
            "No plan fits that keeps all states where they are: %u are made in another stage, or in other shards, than "
            "the next step takes them in (first '%.80s', for '%.80s'). What moving them takes is in no figure.",
            count, workload->tensors[first->present].name, workload->tensors[first->past].name),
        .tensor = workload->tensors[first->present].name,
        .hint = "Give it more or larger devices, or a model with a state for each layer.",
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_profile(const struct sp_profile_use *use, struct sp_bindings *bindings)
{
    struct sp_plan_note used = {
        .code = "PROFILE_USED",
        .severity = "note",
        .message =
            sp_arena_printf(bindings->arena,
                            "Measured times are used for %u nodes (%u names of the profile are those of nodes, %u "
                            "of results, %u of fused operators); %u nodes keep their estimates.",
                            use->measured, use->by_name, use->by_output, use->by_fusion, use->unmeasured),
    };
    if (used.message == NULL || !sp_note_add(bindings, &used))
        return false;
    if (use->unknown == 0)
        return true;
    struct sp_plan_note unknown = {
        .code = "PROFILE_NAMES_UNKNOWN",
        .severity = "warning",
        .message = sp_arena_printf(bindings->arena,
                                   "The profile has times for %u names that no node and no result of a node has, first "
                                   "'%.200s'; they are not used.",
                                   use->unknown, use->first_unknown),
        .hint = "A runtime that optimises renames, fuses and adds nodes; measured without that, names are those of the "
                "model.",
    };
    return unknown.message != NULL && sp_note_add(bindings, &unknown);
}

bool sp_note_search_failed(const struct sp_error *failure, struct sp_bindings *bindings)
{
    const struct sp_plan_note note = {
        .code = "SEARCH_FAILED",
        .severity = "warning",
        .message = sp_arena_printf(bindings->arena,
                                   "A way of searching ended with an error, and the plan is the best of the others: "
                                   "%s [%s]",
                                   failure->message, failure->code),
        .hint = failure->status == SP_ERR_INTERNAL ? "This is a defect of Shardplan: please report it with the model."
                                                   : NULL,
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_stopped(struct sp_bindings *bindings)
{
    if (!SP_MAKE_ROOM(bindings->arena, bindings->notes, bindings->note_count, bindings->note_capacity, 1))
        return false;
    bindings->notes[bindings->note_count++] = (struct sp_plan_note){
        .code = "SEARCH_STOPPED",
        .severity = "note",
        .message =
            "The search was ended early, by its time limit or because that was asked for: this is the best placement "
            "found until then.",
        .hint = "Give it more time to look for a better one.",
    };
    return true;
}

bool sp_note_first_route(const struct sp_search_result *result, struct sp_bindings *bindings)
{
    const struct sp_routed *routed = result->routes;
    if (routed == NULL)
        return true;
    const struct sp_plan_note note = {
        .code = "FIRST_ROUTE",
        .severity = "note",
        .message = sp_arena_printf(bindings->arena,
                                   "Requests take %u routes. In JSON stages, tensors, collectives and caches are those "
                                   "of the first one, which %.3g %% of the requests take, and so are the annotated "
                                   "model, the simulation, the timeline and exports; routes, devices and the devices' "
                                   "models are of all.",
                                   routed->route_count, 100 * routed->routes[0].share),
        .hint = "--strategy pipeline has one route, and other strategies split operators.",
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_first_copy(const struct sp_search_result *result, struct sp_bindings *bindings)
{
    const uint32_t copies = sp_placement_copies(&result->placement);
    if (copies < 2)
        return true;
    const struct sp_plan_note note = {
        .code = "FIRST_COPY",
        .severity = "note",
        .message = sp_arena_printf(bindings->arena,
                                   "%u copies of the plan take requests in turn. Stages, tensors, the annotated model, "
                                   "the devices' models, the timeline and exports are those of the first; 'copies' has "
                                   "the devices of each, and all steps of one loop go to the same.",
                                   copies),
        .hint = "--replicas 1 is one plan for all devices.",
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_caches_stay(const struct sp_plan *plan, struct sp_bindings *bindings)
{
    const struct sp_workload *workload = plan->workload;
    bool has_caches = workload->state_count > 0;
    for (uint32_t n = 0; n < workload->node_count && !has_caches; n++)
        has_caches = workload->nodes[n].cache != NULL;
    if (!has_caches || plan->migration == NULL || plan->migration->moves.bytes <= 0)
        return true;
    const struct sp_plan_note note = {
        .code = "CACHES_NOT_MOVED",
        .severity = "note",
        .message =
            "Only weights are moved: what a loop keeps from step to step is lost where its nodes change devices.",
        .hint = "Let sequences end before the move, or start them again after it.",
    };
    return sp_note_add(bindings, &note);
}
