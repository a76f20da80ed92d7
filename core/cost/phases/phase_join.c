#include "cost/phases/phase_join.h"

#include <string.h>

#include "base/arith.h"
#include "base/sorted.h"

struct joining {
    struct sp_arena *arena;
    uint32_t count, nodes, tensors, kinds; /* phases; of one phase */
    const struct sp_phase *phases;
    struct sp_workload *workload;
    struct sp_graph *graph; /* NULL: graphs of costs */
    uint32_t *number;       /* per tensor of all phases: what it is in the joint workload */
    struct sp_error *err;
};

/* ---- the same graph ---------------------------------------------------------------------------------------------- */

static bool is_same_list(const uint32_t *a, const uint32_t *b, uint32_t count)
{
    return count == 0 || memcmp(a, b, count * sizeof *a) == 0;
}

static bool is_same_node(const struct sp_work_node *a, const struct sp_work_node *b)
{
    return (a->node == NULL) == (b->node == NULL) && a->input_count == b->input_count &&
           a->output_count == b->output_count && is_same_list(a->inputs, b->inputs, a->input_count) &&
           is_same_list(a->outputs, b->outputs, a->output_count) &&
           (a->node == NULL || (strcmp(a->node->op_type, b->node->op_type) == 0 &&
                                strcmp(a->node->domain, b->node->domain) == 0 && a->node->op == b->node->op));
}

static enum sp_status check(const struct joining *j)
{
    const struct sp_phase *first = &j->phases[0];
    for (uint32_t p = 1; p < j->count; p++) {
        const struct sp_workload *workload = j->phases[p].workload;
        uint32_t n = 0;
        while (n < j->nodes && n < workload->node_count &&
               is_same_node(&first->workload->nodes[n], &workload->nodes[n]))
            n++;
        if (n == j->nodes && n == workload->node_count && workload->tensor_count == j->tensors)
            continue;
        const char *name = n < j->nodes ? first->workload->nodes[n].name : "(end)";
        return sp_fail(j->err, SP_ERR_REQUEST, "PHASES_DIFFER",
                       "The phases '%.64s' and '%.64s' run different graphs: they differ from node '%.128s' on. One "
                       "placement needs the same nodes in every phase; give sizes with which the model takes the same "
                       "branches.",
                       first->name, j->phases[p].name, name);
    }
    return SP_OK;
}

/* ---- what phases share ------------------------------------------------------------------------------------------- */

/* Weights of the file are the same in each phase, and so is what is computed of such alone. */
static bool is_shared(const struct joining *j, uint32_t phase, uint32_t tensor)
{
    const struct sp_workload *first = j->phases[0].workload, *workload = j->phases[phase].workload;
    const struct sp_work_tensor *a = &first->tensors[tensor], *b = &workload->tensors[tensor];
    if (phase == 0 || a->kind != SP_WORK_WEIGHT || b->kind != SP_WORK_WEIGHT || a->producer != b->producer)
        return phase == 0;
    if (a->producer == SP_NO_WORK)
        return true;
    const struct sp_work_node *maker = &first->nodes[a->producer];
    bool is = maker->folded && workload->nodes[b->producer].folded && a->bytes == b->bytes;
    for (uint32_t i = 0; is && i < maker->input_count; i++)
        is = j->number[(size_t)phase * j->tensors + maker->inputs[i]] == maker->inputs[i];
    return is;
}

static bool number_tensors(struct joining *j)
{
    j->number = SP_NEW_ARRAY(j->arena, (size_t)j->count * j->tensors, uint32_t);
    for (uint32_t p = 0; j->number != NULL && p < j->count; p++) {
        const struct sp_workload *workload = j->phases[p].workload;
        uint32_t *number = &j->number[(size_t)p * j->tensors];
        for (uint32_t t = 0; t < j->tensors; t++)
            number[t] = workload->tensors[t].producer == SP_NO_WORK && is_shared(j, p, t) ? t : p * j->tensors + t;
        for (uint32_t n = 0; n < j->nodes; n++) { /* what a node takes is numbered before what it makes */
            const struct sp_work_node *node = &workload->nodes[n];
            for (uint32_t i = 0; i < node->output_count; i++)
                if (is_shared(j, p, node->outputs[i]))
                    number[node->outputs[i]] = node->outputs[i];
        }
    }
    return j->number != NULL;
}

static uint32_t number_of(const struct joining *j, uint32_t phase, uint32_t tensor)
{
    return j->number[(size_t)phase * j->tensors + tensor];
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* A copy, times a factor; NULL stays NULL. False without memory. */
static bool scale(const struct joining *j, double times, double **figures)
{
    double *scaled;
    if (*figures == NULL)
        return true;
    if ((scaled = SP_NEW_ARRAY(j->arena, j->kinds, double)) == NULL)
        return false;
    for (uint32_t k = 0; k < j->kinds; k++)
        scaled[k] = (*figures)[k] * times;
    *figures = scaled;
    return true;
}

static bool scale_node(const struct joining *j, double times, struct sp_work_node *node)
{
    if (node->measured_scale == NULL) {
        node->measured_scale = SP_NEW_ARRAY(j->arena, j->kinds, double);
        for (uint32_t k = 0; node->measured_scale != NULL && k < j->kinds; k++)
            node->measured_scale[k] = times;
    } else if (!scale(j, times, &node->measured_scale)) {
        return false;
    }
    return node->measured_scale != NULL && scale(j, times, &node->seconds) && scale(j, times, &node->start_seconds) &&
           scale(j, times, &node->alone_seconds) && scale(j, times, &node->alone_start_seconds);
}

static bool renumber(const struct joining *j, uint32_t phase, uint32_t count, uint32_t **tensors)
{
    uint32_t *others = SP_NEW_ARRAY(j->arena, count, uint32_t);
    for (uint32_t i = 0; others != NULL && i < count; i++)
        others[i] = number_of(j, phase, (*tensors)[i]);
    *tensors = others;
    return others != NULL;
}

static const char *name_of(const struct joining *j, uint32_t phase, const char *name)
{
    const size_t size = strlen(j->phases[phase].name) + strlen(name) + 2;
    char *text = phase == 0 || name == NULL ? NULL : SP_NEW_ARRAY(j->arena, size, char);
    if (text != NULL)
        (void)snprintf(text, size, "%s/%s", j->phases[phase].name, name);
    return phase == 0 ? name : text;
}

static bool add_nodes(struct joining *j, uint32_t phase)
{
    const struct sp_workload *from = j->phases[phase].workload;
    const double times = j->phases[phase].times;
    for (uint32_t n = 0; n < j->nodes; n++) {
        struct sp_work_node *node = &j->workload->nodes[(size_t)phase * j->nodes + n];
        const struct sp_work_node *first = &j->phases[0].workload->nodes[n];
        *node = from->nodes[n];
        node->phase = phase;
        node->name = name_of(j, phase, node->name);
        node->node = j->graph == NULL ? NULL : &j->graph->nodes[(size_t)phase * j->nodes + n];
        if (phase > 0 && node->inner_weight_bytes == first->inner_weight_bytes && !first->folded)
            node->inner_weight_bytes = 0; /* the same constants */
        if (node->together != 0 && phase > 0)
            node->together = first->together;
        if (node->name == NULL || !renumber(j, phase, node->input_count, &node->inputs) ||
            !renumber(j, phase, node->output_count, &node->outputs) || (times != 1 && !scale_node(j, times, node)))
            return false;
    }
    return true;
}

static bool add_kernels(struct joining *j)
{
    const struct sp_kernels **joint = SP_NEW_ARRAY(j->arena, j->kinds, const struct sp_kernels *);
    j->workload->kernels = joint;
    for (uint32_t k = 0; joint != NULL && k < j->kinds; k++) {
        struct sp_kernels *kernels = SP_NEW(j->arena, struct sp_kernels);
        bool are_known = true;
        for (uint32_t p = 0; p < j->count; p++) {
            const struct sp_workload *from = j->phases[p].workload;
            are_known = are_known && from->kernels != NULL && from->kernels[k] != NULL;
        }
        if (kernels == NULL)
            return false;
        if (!are_known)
            continue;
        kernels->node_count = j->workload->node_count;
        kernels->nodes = SP_NEW_ARRAY(j->arena, kernels->node_count, struct sp_node_kernel);
        if (kernels->nodes == NULL)
            return false;
        for (uint32_t p = 0, at = 0; p < j->count; p++) {
            for (uint32_t n = 0; n < j->nodes; n++, at++) {
                kernels->nodes[at] = j->phases[p].workload->kernels[k]->nodes[n];
                kernels->nodes[at].kernel += p * j->nodes;
            }
        }
        joint[k] = kernels;
    }
    return joint != NULL;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The consumers in all phases in which the tensor is this one, ascending. */
static bool join_consumers(const struct joining *j, uint32_t tensor, struct sp_work_tensor *joint)
{
    uint32_t count = 0;
    for (uint32_t p = joint->phase; p < j->count; p++)
        if (number_of(j, p, tensor) == joint->phase * j->tensors + tensor)
            count += j->phases[p].workload->tensors[tensor].consumer_count;
    joint->consumer_count = 0;
    joint->consumers = SP_NEW_ARRAY(j->arena, count, uint32_t);
    for (uint32_t p = joint->phase; joint->consumers != NULL && p < j->count; p++) {
        const struct sp_work_tensor *from = &j->phases[p].workload->tensors[tensor];
        if (number_of(j, p, tensor) != joint->phase * j->tensors + tensor)
            continue;
        for (uint32_t i = 0; i < from->consumer_count; i++)
            joint->consumers[joint->consumer_count++] = p * j->nodes + from->consumers[i];
    }
    return joint->consumers != NULL;
}

static bool add_tensors(struct joining *j, uint32_t phase)
{
    const struct sp_workload *from = j->phases[phase].workload;
    for (uint32_t t = 0; t < j->tensors; t++) {
        struct sp_work_tensor *tensor = &j->workload->tensors[(size_t)phase * j->tensors + t];
        *tensor = from->tensors[t];
        tensor->phase = phase;
        tensor->name = name_of(j, phase, tensor->name);
        tensor->value = j->graph == NULL ? NULL : j->graph->values[(size_t)phase * j->tensors + t];
        tensor->producer += tensor->producer == SP_NO_WORK ? 0 : phase * j->nodes;
        if (tensor->alias_of != SP_NO_WORK)
            tensor->alias_of = number_of(j, phase, tensor->alias_of);
        if ((tensor->name == NULL && from->tensors[t].name != NULL) || !join_consumers(j, t, tensor))
            return false;
    }
    return true;
}

static void sum_up(struct joining *j)
{
    struct sp_workload *workload = j->workload;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        bool is_used = tensor->consumer_count > 0;
        if (tensor->kind == SP_WORK_WEIGHT && tensor->alias_of == SP_NO_WORK && is_used)
            workload->weight_bytes += tensor->bytes;
    }
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        workload->weight_bytes += node->folded ? 0 : node->inner_weight_bytes;
        workload->flops += node->flops * j->phases[node->phase].times;
        workload->bytes += node->bytes * j->phases[node->phase].times;
    }
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* The state of a phase whose present tensor is this one of the model; NULL: it has none. */
static const struct sp_work_state *state_of(const struct sp_phase *phase, uint32_t present)
{
    for (uint32_t i = 0; i < phase->workload->state_count; i++)
        if (phase->workload->states[i].present == present)
            return &phase->workload->states[i];
    return NULL;
}

static double state_bytes(const struct sp_phase *phase, const struct sp_work_state *state)
{
    const struct sp_work_tensor *tensors = phase->workload->tensors;
    return state == NULL ? -1 : tensors[state->past].bytes + tensors[state->present].bytes;
}

/* The state is in the memory that it has in the phase in which it is largest. */
static void settle(struct joining *j, uint32_t present)
{
    uint32_t largest = 0;
    for (uint32_t p = 1; p < j->count; p++)
        if (state_bytes(&j->phases[p], state_of(&j->phases[p], present)) >
            state_bytes(&j->phases[largest], state_of(&j->phases[largest], present)))
            largest = p;
    for (uint32_t p = 0; p < j->count; p++) {
        const struct sp_work_state *state = state_of(&j->phases[p], present);
        const enum sp_work_life life = p == largest ? SP_WORK_ALWAYS : SP_WORK_ELSEWHERE;
        if (state == NULL)
            continue;
        j->workload->tensors[p * j->tensors + sp_work_root(j->phases[p].workload, state->past)].life = life;
        j->workload->tensors[p * j->tensors + sp_work_root(j->phases[p].workload, state->present)].life = life;
    }
}

/* Those of each phase, and from the first one that makes a state to the others that take it. */
static bool add_states(struct joining *j)
{
    struct sp_work_state *states;
    size_t most = 0;
    for (uint32_t p = 0; p < j->count; p++)
        most += 2 * (size_t)j->phases[p].workload->state_count;
    if ((states = SP_NEW_ARRAY(j->arena, most, struct sp_work_state)) == NULL)
        return false;
    for (uint32_t p = 0; p < j->count; p++) {
        for (uint32_t i = 0; i < j->phases[p].workload->state_count; i++) {
            const struct sp_work_state *state = &j->phases[p].workload->states[i];
            uint32_t first = 0;
            while (state_of(&j->phases[first], state->present) == NULL)
                first++;
            states[j->workload->state_count++] =
                (struct sp_work_state){p * j->tensors + state->past, p * j->tensors + state->present, state->axis};
            if (first < p)
                states[j->workload->state_count++] = (struct sp_work_state){
                    p * j->tensors + state->past, first * j->tensors + state->present, state->axis};
            else
                settle(j, state->present);
        }
    }
    j->workload->states = states;
    return true;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static struct sp_value *value_of(const struct joining *j, uint32_t phase, const struct sp_value *value)
{
    if (value == NULL || value->graph != j->phases[phase].model->graph)
        return (struct sp_value *)value;
    return j->graph->values[number_of(j, phase, value->id)];
}

static bool add_values(struct joining *j, uint32_t phase)
{
    const struct sp_graph *from = j->phases[phase].model->graph;
    for (uint32_t t = 0; t < j->tensors; t++) {
        struct sp_value *value = SP_NEW(j->arena, struct sp_value);
        if (value == NULL)
            return false;
        *value = *from->values[t];
        value->graph = j->graph;
        value->id = phase * j->tensors + t;
        value->use_count = 0; /* nothing that chooses strategies follows a value to its users */
        value->uses = NULL;
        if (value->producer != NULL)
            value->producer = &j->graph->nodes[(size_t)phase * j->nodes + value->producer->index];
        if ((value->name = name_of(j, phase, value->name)) == NULL)
            return false;
        j->graph->values[value->id] = value;
    }
    return true;
}

static bool add_model_nodes(struct joining *j, uint32_t phase)
{
    const struct sp_graph *from = j->phases[phase].model->graph;
    for (uint32_t n = 0; n < j->nodes; n++) {
        struct sp_node *node = &j->graph->nodes[(size_t)phase * j->nodes + n];
        *node = from->nodes[n];
        node->graph = j->graph;
        node->index = phase * j->nodes + n;
        node->inputs = SP_NEW_ARRAY(j->arena, node->input_count, struct sp_value *);
        node->outputs = SP_NEW_ARRAY(j->arena, node->output_count, struct sp_value *);
        if (node->inputs == NULL || node->outputs == NULL)
            return false;
        for (uint32_t i = 0; i < node->input_count; i++)
            node->inputs[i] = value_of(j, phase, from->nodes[n].inputs[i]);
        for (uint32_t i = 0; i < node->output_count; i++)
            node->outputs[i] = from->nodes[n].outputs[i] == NULL
                                   ? NULL
                                   : j->graph->values[phase * j->tensors + from->nodes[n].outputs[i]->id];
    }
    return true;
}

/* A list of values of one phase's graph, such as its inputs, for all phases. */
static bool join_list(const struct joining *j, const uint32_t *counts, struct sp_value **const *lists,
                      uint32_t *ret_count, struct sp_value ***ret_list)
{
    size_t total = 0;
    for (uint32_t p = 0; p < j->count; p++)
        total += counts[p];
    struct sp_value **list = SP_NEW_ARRAY(j->arena, total, struct sp_value *);
    *ret_count = 0;
    *ret_list = list;
    for (uint32_t p = 0; list != NULL && p < j->count; p++)
        for (uint32_t i = 0; i < counts[p]; i++)
            list[(*ret_count)++] = value_of(j, p, lists[p][i]);
    return list != NULL;
}

static bool join_borders(struct joining *j)
{
    uint32_t inputs[SP_JOIN_PHASES], outputs[SP_JOIN_PHASES];
    struct sp_value **ins[SP_JOIN_PHASES], **outs[SP_JOIN_PHASES];
    for (uint32_t p = 0; p < j->count; p++) {
        const struct sp_graph *graph = j->phases[p].model->graph;
        inputs[p] = graph->input_count;
        outputs[p] = graph->output_count;
        ins[p] = graph->inputs;
        outs[p] = graph->outputs;
    }
    return join_list(j, inputs, ins, &j->graph->input_count, &j->graph->inputs) &&
           join_list(j, outputs, outs, &j->graph->output_count, &j->graph->outputs);
}

static bool join_models(struct joining *j, struct sp_model **ret_model)
{
    struct sp_model *model = SP_NEW(j->arena, struct sp_model);
    if (j->phases[0].model == NULL)
        return true;
    j->graph = SP_NEW(j->arena, struct sp_graph);
    if (model == NULL || j->graph == NULL)
        return false;
    *model = *j->phases[0].model;
    *j->graph = *model->graph;
    model->graph = j->graph;
    j->graph->model = model;
    j->graph->node_count = j->count * j->nodes;
    j->graph->value_count = j->count * j->tensors;
    j->graph->nodes = SP_NEW_ARRAY(j->arena, j->graph->node_count, struct sp_node);
    j->graph->values = SP_NEW_ARRAY(j->arena, j->graph->value_count, struct sp_value *);
    bool is_done = j->graph->nodes != NULL && j->graph->values != NULL;
    for (uint32_t p = 0; is_done && p < j->count; p++)
        is_done = add_values(j, p) && add_model_nodes(j, p);
    *ret_model = model;
    return is_done && join_borders(j);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static bool join(struct joining *j, struct sp_model **ret_model)
{
    struct sp_workload *workload = j->workload = SP_NEW(j->arena, struct sp_workload);
    struct sp_work_phase *phases = SP_NEW_ARRAY(j->arena, j->count, struct sp_work_phase);
    if (workload == NULL || phases == NULL || !number_tensors(j) || !join_models(j, ret_model))
        return false;
    *workload = (struct sp_workload){.arena = j->arena,
                                     .node_count = j->count * j->nodes,
                                     .tensor_count = j->count * j->tensors,
                                     .kind_count = j->kinds,
                                     .kind_of = j->phases[0].workload->kind_of,
                                     .phase_count = j->count,
                                     .phases = phases};
    workload->nodes = SP_NEW_ARRAY(j->arena, workload->node_count, struct sp_work_node);
    workload->tensors = SP_NEW_ARRAY(j->arena, workload->tensor_count, struct sp_work_tensor);
    bool is_done = workload->nodes != NULL && workload->tensors != NULL;
    for (uint32_t p = 0; is_done && p < j->count; p++) {
        phases[p] = (struct sp_work_phase){j->phases[p].name, j->phases[p].times, p * j->nodes, p * j->tensors};
        is_done = add_nodes(j, p) && add_tensors(j, p);
    }
    if (!is_done || !add_kernels(j) || !add_states(j))
        return false;
    sum_up(j);
    return true;
}

enum sp_status sp_phases_join(struct sp_arena *arena, uint32_t count, const struct sp_phase *phases,
                              struct sp_joined_phases *ret_joined, struct sp_error *err)
{
    struct joining j = {.arena = arena,
                        .count = count,
                        .nodes = phases[0].workload->node_count,
                        .tensors = phases[0].workload->tensor_count,
                        .kinds = phases[0].workload->kind_count,
                        .phases = phases,
                        .err = err};
    struct sp_model *model = NULL;
    if (count > SP_JOIN_PHASES || (uint64_t)count * j.tensors >= SP_NO_WORK || (uint64_t)count * j.nodes >= SP_NO_WORK)
        return sp_fail_limit(err, "TOO_MANY_PHASES", "SP_JOIN_PHASES", SP_JOIN_PHASES, count,
                             "The request has %u phases, at most %d are allowed.", count, SP_JOIN_PHASES);
    enum sp_status status = check(&j);
    if (status == SP_OK && !join(&j, &model))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        *ret_joined = (struct sp_joined_phases){j.workload, model, count, j.nodes, j.tensors};
    return status;
}

bool sp_work_ties_weight(const struct sp_workload *workload, uint32_t node, uint32_t operand)
{
    const uint32_t first = sp_work_first_node(workload, node);
    if (first == node || workload->nodes[node].folded || workload->nodes[first].folded)
        return false;
    const struct sp_value *here = workload->nodes[node].node->inputs[operand];
    const struct sp_value *there = workload->nodes[first].node->inputs[operand];
    return here != NULL && there != NULL && workload->tensors[here->id].kind == SP_WORK_WEIGHT &&
           workload->tensors[there->id].kind == SP_WORK_WEIGHT;
}

/* ---- memory of phases -------------------------------------------------------------------------------------------- */

struct sp_work_stretch sp_work_phase_stretch(const struct sp_workload *workload, uint32_t count, const uint32_t *nodes,
                                             uint32_t phase)
{
    struct sp_work_stretch stretch = {0, count};
    if (workload->phase_count == 0)
        return stretch;
    SP_LOWER_BOUND(stretch.from, count, nodes[stretch.from] < workload->phases[phase].first_node);
    if (phase + 1 < workload->phase_count)
        SP_LOWER_BOUND(stretch.to, count, nodes[stretch.to] < workload->phases[phase + 1].first_node);
    return stretch;
}

bool sp_work_phase_life(const struct sp_workload *workload, uint32_t count, const uint32_t *nodes, uint32_t tensor,
                        uint32_t *first, uint32_t *last)
{
    const struct sp_work_tensor *work = &workload->tensors[tensor];
    if (workload->phase_count == 0 || count == 0)
        return true;
    if (work->life == SP_WORK_ALWAYS) {
        *first = 0;
        *last = count - 1;
    }
    const struct sp_work_stretch stretch = sp_work_phase_stretch(workload, count, nodes, work->phase);
    if (work->life == SP_WORK_ELSEWHERE || stretch.from == stretch.to)
        return false;
    if (work->life == SP_WORK_IN_PHASE) {
        *first = *first < stretch.from ? stretch.from : *first;
        *last = *last >= stretch.to ? stretch.to - 1 : *last;
    }
    return true;
}
