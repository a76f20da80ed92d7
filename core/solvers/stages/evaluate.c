#include <math.h>
#include <string.h>

#include "solvers/stages/internal.h"
#include "solvers/stages/lists.h"

/* What given stages cost, straight from the definitions: one pass over tensors, one over nodes. */

struct evaluation {
    struct sp_arena *arena, *scratch;
    const struct sp_stages_problem *problem;
    uint32_t stage_count;
    struct sp_stage *stages;
    uint32_t *stage_of;
    uint32_t *seen;      /* per stage: the tensor or weight it was last counted for, plus one */
    double *again_bytes; /* per stage: what it sends more than once */
    const char *fault;
    struct sp_error *err;
};

#define FAULT(evaluation, ...)                                                                                         \
    ((evaluation)->fault =                                                                                             \
         (evaluation)->fault != NULL ? (evaluation)->fault : sp_arena_printf((evaluation)->arena, __VA_ARGS__))

static const struct sp_stages_option *option_of(const struct evaluation *evaluation, uint32_t stage)
{
    return &evaluation->problem->options[evaluation->stages[stage].option];
}

/* Each node in one stage; nothing else can be worked out where that is not so. */
static void place_nodes(struct evaluation *evaluation)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    for (uint32_t i = 0; i < problem->node_count; i++)
        evaluation->stage_of[i] = UINT32_MAX;
    for (uint32_t i = 0; i < evaluation->stage_count && evaluation->fault == NULL; i++) {
        const struct sp_stage *stage = &evaluation->stages[i];
        if (stage->option >= problem->option_count || stage->replicas == 0)
            FAULT(evaluation, "Stage %u has no replica, or an option that does not exist.", i);
        else if (stage->node_count == 0)
            FAULT(evaluation, "Stage %u has no node.", i);
        for (uint32_t j = 0; j < stage->node_count && evaluation->fault == NULL; j++) {
            uint32_t node = stage->nodes[j];
            if (node >= problem->node_count)
                FAULT(evaluation, "Stage %u has node %u, which does not exist.", i, node);
            else if (evaluation->stage_of[node] != UINT32_MAX)
                FAULT(evaluation, "Node %u is in stages %u and %u.", node, evaluation->stage_of[node], i);
            else
                evaluation->stage_of[node] = i;
        }
    }
    for (uint32_t i = 0; i < problem->node_count && evaluation->fault == NULL; i++)
        if (evaluation->stage_of[i] == UINT32_MAX)
            FAULT(evaluation, "Node %u is in no stage.", i);
}

static bool runs_free(const struct evaluation *evaluation, uint32_t stage)
{
    return evaluation->problem->objective == SP_STAGES_LATENCY && option_of(evaluation, stage)->is_free;
}

/* What `bytes` of `stage` take to or from another one. */
static double transfer_seconds(const struct evaluation *evaluation, uint32_t stage, uint32_t other, double bytes)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    const struct sp_stages_option *option = option_of(evaluation, stage), *far = option_of(evaluation, other);
    if (problem->levels == NULL || problem->objective == SP_STAGES_LATENCY)
        return option->transfer_fixed + option->transfer_per_byte * bytes;
    const uint64_t a = (uint64_t)problem->class_first[option->device_class] + evaluation->stages[stage].place;
    const uint64_t b = (uint64_t)problem->class_first[far->device_class] + evaluation->stages[other].place;
    const uint64_t a_last = a + (uint64_t)option->devices * evaluation->stages[stage].replicas - 1;
    const uint64_t b_last = b + (uint64_t)far->devices * evaluation->stages[other].replicas - 1;
    const uint32_t level = a < b ? sp_stages_level_of(problem, a_last, b) : sp_stages_level_of(problem, a, b_last);
    return problem->levels[level].fixed + problem->levels[level].per_byte * (option->transfer_share * bytes);
}

static void add_compute(struct evaluation *evaluation)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        struct sp_stage *stage = &evaluation->stages[i];
        stage->compute_seconds = stage->receive_seconds = stage->send_seconds = 0;
        for (uint32_t j = 0; j < stage->node_count; j++)
            stage->compute_seconds += problem->options[stage->option].seconds[stage->nodes[j]];
        if (stage->compute_seconds == INFINITY)
            FAULT(evaluation, "Stage %u has a node that does not run under its option.", i);
    }
}

static void add_transfers(struct evaluation *evaluation)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    const bool to_each = problem->sends_to_each && problem->objective != SP_STAGES_LATENCY;
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        const struct sp_stages_tensor *tensor = &problem->tensors[i];
        uint32_t from = evaluation->stage_of[tensor->producer], receivers = 0;
        for (uint32_t j = 0; j < tensor->consumer_count; j++) {
            uint32_t to = evaluation->stage_of[tensor->consumers[j]];
            if (to == from || evaluation->seen[to] == i + 1)
                continue;
            evaluation->seen[to] = i + 1;
            receivers++;
            if (!runs_free(evaluation, to))
                evaluation->stages[to].receive_seconds += transfer_seconds(evaluation, to, from, tensor->bytes);
            if (!runs_free(evaluation, from) && (to_each || receivers == 1))
                evaluation->stages[from].send_seconds += transfer_seconds(evaluation, from, to, tensor->bytes);
        }
        if (problem->sends_to_each && receivers > 1)
            evaluation->again_bytes[from] += (receivers - 1) * tensor->bytes;
    }
}

/* Seconds of nodes, of what is received and of what is sent. */
static bool add_seconds(struct evaluation *evaluation)
{
    evaluation->again_bytes = SP_NEW_ARRAY(evaluation->scratch, evaluation->stage_count, double);
    if (evaluation->again_bytes == NULL)
        return false;
    add_compute(evaluation);
    add_transfers(evaluation);
    return true;
}

/* Copies are as long as computing, or it waits for them; `set` is the problem's own count of the stage's memory. */
static void add_copies(struct evaluation *evaluation, uint32_t index, void *set)
{
    struct sp_stage *stage = &evaluation->stages[index];
    const double copies = sp_stages_copies(evaluation->problem, stage->option, set, stage->memory_bytes);
    stage->compute_seconds = fmax(stage->compute_seconds, copies);
    if (copies == INFINITY)
        FAULT(evaluation, "Stage %u lacks memory, and has not enough that can be copied.", index);
}

static void sum_loads(struct evaluation *evaluation)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        struct sp_stage *stage = &evaluation->stages[i];
        double transfer = stage->receive_seconds + stage->send_seconds, sum = stage->compute_seconds + transfer;
        if (problem->combine == SP_STAGES_MAX)
            sum = fmax(stage->compute_seconds, fmax(stage->receive_seconds, stage->send_seconds));
        stage->load_seconds = sum / stage->replicas;
    }
}

static void add_memory(struct evaluation *evaluation)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    memset(evaluation->seen, 0, evaluation->stage_count * sizeof *evaluation->seen);
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        struct sp_stage *stage = &evaluation->stages[i];
        const struct sp_stages_option *option = option_of(evaluation, i);
        double weight = 0, held = 0;
        for (uint32_t j = 0; j < stage->node_count; j++) {
            uint32_t id = stage->nodes[j];
            const struct sp_stages_node *node = &problem->nodes[id];
            double bytes =
                option->held_bytes != NULL ? option->held_bytes[id] : node->held_bytes * option->memory_scale;
            weight +=
                option->weight_bytes != NULL ? option->weight_bytes[id] : node->weight_bytes * option->memory_scale;
            held = bytes > held ? bytes : held;
        }
        stage->memory_bytes = weight + held;
    }
    for (uint32_t i = 0; i < problem->weight_count; i++)
        for (uint32_t j = 0; j < problem->weights[i].user_count; j++) {
            uint32_t stage = evaluation->stage_of[problem->weights[i].users[j]];
            if (evaluation->seen[stage] == i + 1)
                continue;
            evaluation->seen[stage] = i + 1;
            evaluation->stages[stage].memory_bytes +=
                problem->weights[i].bytes * option_of(evaluation, stage)->memory_scale;
        }
}

static bool count_memory(struct evaluation *evaluation)
{
    const struct sp_stages_memory *memory = evaluation->problem->memory;
    if (memory == NULL) {
        add_memory(evaluation);
        for (uint32_t i = 0; i < evaluation->stage_count; i++)
            add_copies(evaluation, i, NULL);
        return true;
    }
    void *set = memory->create(memory->context, evaluation->scratch);
    if (set == NULL)
        return false;
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        struct sp_stage *stage = &evaluation->stages[i];
        for (uint32_t j = 0; j < stage->node_count; j++)
            memory->put(set, stage->nodes[j]);
        stage->memory_bytes = memory->bytes(set, stage->option) +
                              2 * evaluation->again_bytes[i] * option_of(evaluation, i)->transfer_share;
        add_copies(evaluation, i, set);
        for (uint32_t j = stage->node_count; j-- > 0;)
            memory->take(set, stage->nodes[j]);
    }
    return true;
}

static void check_memory(struct evaluation *evaluation)
{
    for (uint32_t i = 0; i < evaluation->stage_count; i++)
        if (evaluation->stages[i].memory_bytes > option_of(evaluation, i)->memory_bytes * (1 + SP_STAGES_SLACK))
            FAULT(evaluation, "Stage %u takes %.0f bytes, more than the %.0f there are.", i,
                  evaluation->stages[i].memory_bytes, option_of(evaluation, i)->memory_bytes);
}

static void check_devices(struct evaluation *evaluation)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    uint64_t stages = 0;
    for (uint32_t kind = 0; kind < problem->class_count; kind++) {
        uint64_t used = 0;
        for (uint32_t i = 0; i < evaluation->stage_count; i++)
            if (option_of(evaluation, i)->device_class == kind && !runs_free(evaluation, i))
                used += (uint64_t)option_of(evaluation, i)->devices * evaluation->stages[i].replicas;
        if (used > problem->class_size[kind])
            FAULT(evaluation, "The stages need %llu devices of class %u; there are %u.", (unsigned long long)used, kind,
                  problem->class_size[kind]);
    }
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        const struct sp_stages_option *option = option_of(evaluation, i);
        stages += !runs_free(evaluation, i);
        if (option->max_replicas != 0 && evaluation->stages[i].replicas > option->max_replicas)
            FAULT(evaluation, "Stage %u has %u replicas; its option allows %u.", i, evaluation->stages[i].replicas,
                  option->max_replicas);
    }
    if (problem->max_stages != 0 && stages > problem->max_stages)
        FAULT(evaluation, "There are %llu stages; the most is %u.", (unsigned long long)stages, problem->max_stages);
}

static void check_order(struct evaluation *evaluation, bool is_turned)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        const struct sp_stages_tensor *tensor = &problem->tensors[i];
        bool is_backward = problem->nodes[tensor->producer].is_backward, is_reverse = is_backward && !is_turned;
        uint32_t from = evaluation->stage_of[tensor->producer];
        for (uint32_t j = 0; j < tensor->consumer_count; j++) {
            uint32_t node = tensor->consumers[j], to = evaluation->stage_of[node];
            if (problem->nodes[node].is_backward == is_backward && (is_reverse ? from < to : from > to))
                FAULT(evaluation,
                      "Node %u uses what node %u makes, but their stages, %u and %u, are the other way round.", node,
                      tensor->producer, to, from);
        }
    }
}

/* One stage for each colour, and in contiguous solutions the order of the stages. */
static enum sp_status check_edges(struct evaluation *evaluation)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    struct sp_stages_prepared *units;
    enum sp_status status =
        sp_stages_prepare(evaluation->scratch, problem, SP_STAGES_UNITS_FREE, &units, evaluation->err);
    if (status != SP_OK)
        return status;
    for (uint32_t unit = 0; unit < units->unit_count; unit++)
        for (uint32_t i = units->nodes.start[unit]; i < units->nodes.start[unit + 1]; i++) {
            uint32_t first = units->nodes.items[units->nodes.start[unit]], node = units->nodes.items[i];
            if (evaluation->stage_of[node] != evaluation->stage_of[first])
                FAULT(evaluation, "Nodes %u and %u have one colour and are in two stages.", first, node);
        }
    bool has_backward = false;
    for (uint32_t i = 0; i < problem->node_count; i++)
        has_backward |= problem->nodes[i].is_backward;
    if (problem->objective == SP_STAGES_LATENCY ||
        (problem->objective == SP_STAGES_THROUGHPUT && problem->non_contiguous))
        return SP_OK;
    if (has_backward) /* the way of their edges follows from all nodes */
        status = sp_stages_prepare(evaluation->scratch, problem, SP_STAGES_UNITS_CHAIN, &units, evaluation->err);
    if (status == SP_OK)
        check_order(evaluation, units->is_turned);
    return status;
}
/*
 * Start and end of all stages. A part of the graph that starts and ends as one is a stage, or a node of a free stage:
 * these are put in order as their inputs come.
 */
struct timing {
    struct evaluation *evaluation;
    uint32_t count;
    uint32_t *part_of; /* per node */
    uint32_t *stage;   /* of a part */
    double *start, *end;
    struct sp_rows after;
};

static bool list_parts(struct timing *timing)
{
    struct evaluation *evaluation = timing->evaluation;
    const struct sp_stages_problem *problem = evaluation->problem;
    struct sp_arena *scratch = evaluation->scratch;
    struct sp_stages_pairs pairs;
    size_t room = 0;
    for (uint32_t i = 0; i < problem->tensor_count; i++)
        room += problem->tensors[i].consumer_count;
    timing->part_of = SP_NEW_ARRAY(scratch, problem->node_count, uint32_t);
    timing->stage = SP_NEW_ARRAY(scratch, problem->node_count, uint32_t);
    timing->start = SP_NEW_ARRAY(scratch, problem->node_count, double);
    timing->end = SP_NEW_ARRAY(scratch, problem->node_count, double);
    if (timing->part_of == NULL || timing->stage == NULL || timing->start == NULL || timing->end == NULL ||
        !sp_stages_pairs_init(scratch, &pairs, room))
        return false;
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        const struct sp_stage *stage = &evaluation->stages[i];
        for (uint32_t j = 0; j < stage->node_count; j++) {
            if (j == 0 || runs_free(evaluation, i))
                timing->stage[timing->count++] = i;
            timing->part_of[stage->nodes[j]] = timing->count - 1;
        }
    }
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        uint32_t from = timing->part_of[problem->tensors[i].producer];
        for (uint32_t j = 0; j < problem->tensors[i].consumer_count; j++)
            if (timing->part_of[problem->tensors[i].consumers[j]] != from)
                sp_stages_pairs_add(&pairs, from, timing->part_of[problem->tensors[i].consumers[j]]);
    }
    return sp_stages_lists_make(scratch, &pairs, timing->count, timing->count, &timing->after);
}

/* Ends parts in the order of their inputs; `seconds` is what each takes. */
static bool run_parts(struct timing *timing, const double *seconds)
{
    uint32_t done = 0, filled = 0, count = timing->count;
    uint32_t *waits = SP_NEW_ARRAY(timing->evaluation->scratch, count, uint32_t);
    uint32_t *ready = SP_NEW_ARRAY(timing->evaluation->scratch, count, uint32_t);
    if (waits == NULL || ready == NULL)
        return false;
    for (uint32_t i = 0; i < timing->after.start[count]; i++)
        waits[timing->after.items[i]]++;
    for (uint32_t i = 0; i < count; i++)
        if (waits[i] == 0)
            ready[filled++] = i;
    for (; done < filled; done++) {
        uint32_t part = ready[done];
        timing->end[part] = timing->start[part] + seconds[part];
        for (uint32_t i = timing->after.start[part]; i < timing->after.start[part + 1]; i++) {
            uint32_t next = timing->after.items[i];
            timing->start[next] = fmax(timing->start[next], timing->end[part]);
            if (--waits[next] == 0)
                ready[filled++] = next;
        }
    }
    if (done < count)
        FAULT(timing->evaluation, "The stages wait for each other.");
    return true;
}

static enum sp_status add_times(struct evaluation *evaluation, double *value)
{
    struct timing timing = {.evaluation = evaluation};
    double *seconds = SP_NEW_ARRAY(evaluation->scratch, evaluation->problem->node_count, double);
    if (seconds == NULL || !list_parts(&timing))
        return sp_fail_memory(evaluation->err);
    for (uint32_t i = 0; i < evaluation->problem->node_count; i++) {
        const struct sp_stage *stage = &evaluation->stages[evaluation->stage_of[i]];
        seconds[timing.part_of[i]] = runs_free(evaluation, evaluation->stage_of[i])
                                         ? evaluation->problem->options[stage->option].seconds[i]
                                         : stage->compute_seconds + stage->receive_seconds + stage->send_seconds;
    }
    if (!run_parts(&timing, seconds))
        return sp_fail_memory(evaluation->err);
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        evaluation->stages[i].start_seconds = INFINITY;
        evaluation->stages[i].end_seconds = 0;
    }
    *value = 0;
    for (uint32_t i = 0; i < timing.count; i++) {
        struct sp_stage *stage = &evaluation->stages[timing.stage[i]];
        stage->start_seconds = fmin(stage->start_seconds, timing.start[i]);
        stage->end_seconds = fmax(stage->end_seconds, timing.end[i]);
        *value = fmax(*value, timing.end[i]);
    }
    return SP_OK;
}

static void check_loads(struct evaluation *evaluation)
{
    const double limit = evaluation->problem->load_limit * (1 + SP_STAGES_SLACK);
    for (uint32_t i = 0; limit > 0 && i < evaluation->stage_count; i++) {
        if (evaluation->stages[i].load_seconds > limit)
            FAULT(evaluation, "Stage %u takes longer than the limit of %g seconds.", i, limit);
    }
}

static double value_of(struct evaluation *evaluation)
{
    const struct sp_stages_problem *problem = evaluation->problem;
    double load = 0, devices = 0;
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        const struct sp_stage *stage = &evaluation->stages[i];
        load = fmax(load, stage->load_seconds);
        devices += (double)option_of(evaluation, i)->devices * stage->replicas;
    }
    return problem->objective == SP_STAGES_THROUGHPUT ? load : devices;
}

enum sp_status sp_stages_evaluate(struct sp_arena *arena, const struct sp_stages_problem *problem, uint32_t stage_count,
                                  struct sp_stage *stages, double *ret_value, const char **ret_fault,
                                  struct sp_error *err)
{
    struct evaluation evaluation = {
        .arena = arena, .problem = problem, .stage_count = stage_count, .stages = stages, .err = err};
    enum sp_status status = SP_OK;
    double value = 0;
    evaluation.scratch = sp_arena_create(sp_arena_budget(arena));
    if (evaluation.scratch == NULL)
        return sp_fail_memory(err);
    evaluation.stage_of = SP_NEW_ARRAY(evaluation.scratch, problem->node_count, uint32_t);
    evaluation.seen = SP_NEW_ARRAY(evaluation.scratch, stage_count, uint32_t);
    if (evaluation.stage_of == NULL || evaluation.seen == NULL) {
        status = sp_fail_memory(err);
        goto end;
    }
    place_nodes(&evaluation);
    if (evaluation.fault == NULL) {
        status = add_seconds(&evaluation) && count_memory(&evaluation) ? SP_OK : sp_fail_memory(err);
        sum_loads(&evaluation);
        check_memory(&evaluation);
        check_devices(&evaluation);
        check_loads(&evaluation);
        if (status == SP_OK)
            status = check_edges(&evaluation);
        if (status == SP_OK && problem->objective == SP_STAGES_LATENCY)
            status = add_times(&evaluation, &value);
        else
            value = value_of(&evaluation);
    }
    if (status == SP_OK) {
        *ret_value = value;
        *ret_fault = evaluation.fault;
    }
end:
    sp_arena_destroy(evaluation.scratch);
    return status;
}
