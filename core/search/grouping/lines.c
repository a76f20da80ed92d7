#include <string.h>

#include "search/grouping/internal.h"

/* Loading sets every table entry of the tensors that the line makes or uses before anything reads it, so nothing needs
   clearing. Positions are visited in order: the last use is simply the latest one noted. */

static bool is_inside(const struct sp_grouping_search *search, uint32_t tensor)
{
    uint32_t producer = search->workload->tensors[tensor].producer;
    return producer != SP_NO_WORK && search->line.position[producer] != SP_NO_POSITION;
}

/* A use of what is made outside the line: it is alive from its first use to the last one in the line. */
static void load_input(struct sp_grouping_search *search, uint32_t tensor, uint32_t position)
{
    const struct sp_workload *workload = search->workload;
    if (!is_inside(search, tensor))
        search->line.last_use[tensor] = position;
    uint32_t memory = sp_memory_of(workload, tensor);
    if (workload->tensors[memory].kind == SP_WORK_WEIGHT || is_inside(search, memory))
        return;
    search->line.last_memory[memory] = position;
    if (search->line.loaded[memory] != search->line.load) {
        search->line.loaded[memory] = search->line.load;
        search->line.stays[memory] = false;
    }
}

/* Users of a tensor outside the line: each stage among them receives it once. */
static void load_outside(struct sp_grouping_search *search, uint32_t tensor, const struct sp_candidate *around,
                         uint32_t left, uint32_t right)
{
    const struct sp_work_tensor *t = &search->workload->tensors[tensor];
    search->stage_stamp++;
    for (uint32_t i = 0; i < t->consumer_count; i++) {
        if (search->line.position[t->consumers[i]] != SP_NO_POSITION)
            continue;
        uint32_t stage = around->stage_of[t->consumers[i]];
        if (search->stage_seen[stage] == search->stage_stamp)
            continue;
        search->stage_seen[stage] = search->stage_stamp;
        uint32_t device = around->stage_device[stage];
        search->line.outside[tensor]++;
        search->line.outside_left[tensor] += sp_work_transfer_seconds(search->cluster, t, left, device);
        search->line.outside_right[tensor] += sp_work_transfer_seconds(search->cluster, t, right, device);
    }
}

static void load_output(struct sp_grouping_search *search, uint32_t tensor, uint32_t position)
{
    const struct sp_workload *workload = search->workload;
    const struct sp_work_tensor *t = &workload->tensors[tensor];
    if (t->kind != SP_WORK_ACTIVATION)
        return;
    uint32_t last = position;
    bool leaves = t->is_output;
    for (uint32_t i = 0; i < t->consumer_count; i++) {
        uint32_t at = search->line.position[t->consumers[i]];
        if (at == SP_NO_POSITION)
            leaves = true;
        else if (at > last)
            last = at;
    }
    search->line.last_use[tensor] = last;
    search->line.outside[tensor] = 0;
    search->line.outside_left[tensor] = search->line.outside_right[tensor] = 0;
    uint32_t memory = sp_memory_of(workload, tensor);
    if (memory == tensor) {
        search->line.last_memory[memory] = last;
        search->line.stays[memory] = leaves;
        return;
    }
    if (workload->tensors[memory].kind == SP_WORK_WEIGHT)
        return;
    /* The uses of the alias are uses of its memory, also of memory that came from outside; those that lie in the line
       are noted when the line gets there, but memory from inside must know them now. */
    if (is_inside(search, memory) && last > search->line.last_memory[memory])
        search->line.last_memory[memory] = last;
    search->line.stays[memory] |= leaves;
}

static void list_death(struct sp_grouping_search *search, uint32_t memory)
{
    if (search->line.stays[memory])
        return;
    uint32_t death = search->line.last_memory[memory];
    search->line.death_next[memory] = search->line.death_first[death];
    search->line.death_first[death] = memory;
}

/* Memory that dies in the line, from inside and from outside, each once. */
static void list_deaths(struct sp_grouping_search *search, uint32_t id)
{
    const struct sp_workload *workload = search->workload;
    const struct sp_work_node *node = &workload->nodes[id];
    for (uint32_t j = 0; j < node->input_count; j++) {
        uint32_t memory = sp_memory_of(workload, node->inputs[j]);
        if (workload->tensors[memory].kind == SP_WORK_WEIGHT || is_inside(search, memory) ||
            search->line.loaded[memory] != search->line.load)
            continue;
        search->line.loaded[memory] = search->line.load - 1; /* listed; loads count in twos */
        list_death(search, memory);
    }
    for (uint32_t j = 0; j < node->output_count; j++) {
        const struct sp_work_tensor *tensor = &workload->tensors[node->outputs[j]];
        if (tensor->kind == SP_WORK_ACTIVATION && tensor->alias_of == SP_NO_WORK)
            list_death(search, node->outputs[j]);
    }
}

void sp_line_load(struct sp_grouping_search *search, const uint32_t *nodes, uint32_t count,
                  const struct sp_candidate *around, uint32_t left, uint32_t right)
{
    const struct sp_workload *workload = search->workload;
    search->line.nodes = nodes;
    search->line.length = count;
    search->line.load += 2;
    for (uint32_t i = 0; i < count; i++) {
        search->line.position[nodes[i]] = i;
        search->line.death_first[i] = SP_NO_POSITION;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_work_node *node = &workload->nodes[nodes[i]];
        (void)sp_search_step(search, 4);
        for (uint32_t j = 0; j < node->input_count; j++)
            load_input(search, node->inputs[j], i);
        for (uint32_t j = 0; j < node->output_count; j++) {
            load_output(search, node->outputs[j], i);
            if (around != NULL && workload->tensors[node->outputs[j]].kind == SP_WORK_ACTIVATION)
                load_outside(search, node->outputs[j], around, left, right);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        list_deaths(search, nodes[i]);
}

void sp_line_unload(struct sp_grouping_search *search)
{
    for (uint32_t i = 0; i < search->line.length; i++)
        search->line.position[search->line.nodes[i]] = SP_NO_POSITION;
    search->line.length = 0;
}

/* ---- whole-model lines ---- */

/* What a scrambled order takes its turns from: the finaliser of MurmurHash3, a fixed function of a counter. */
static uint32_t scramble(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ x >> 16;
}

#define SCRAMBLE_REACH 3 /* how far below the top of the stack a scrambled order takes */

/*
 * Depth first with a stack: a node runs right after the one that made it ready, so tensors die soon and few cross any
 * cut. Nodes without activations (sources) lie at the bottom of the stack and run when nothing else can. With a seed
 * other than 0 the next node is one of the topmost few: other orders of parallel work, the same ones in every run.
 */
static void depth_first(struct sp_grouping_search *search, uint32_t seed, uint32_t *line, uint32_t *waiting,
                        uint32_t *stack)
{
    const struct sp_workload *workload = search->workload;
    uint32_t depth = 0, length = 0;
    for (uint32_t i = search->live_count; i-- > 0;) {
        const struct sp_work_node *node = &workload->nodes[search->live[i]];
        waiting[search->live[i]] = 0;
        for (uint32_t j = 0; j < node->input_count; j++)
            waiting[search->live[i]] += workload->tensors[node->inputs[j]].kind == SP_WORK_ACTIVATION;
        if (waiting[search->live[i]] == 0)
            stack[depth++] = search->live[i];
    }
    while (depth > 0) {
        if (seed != 0) {
            uint32_t reach = depth < SCRAMBLE_REACH ? depth : SCRAMBLE_REACH;
            uint32_t other = depth - 1 - scramble(seed * 0x9e3779b9u + length) % reach, top = stack[depth - 1];
            stack[depth - 1] = stack[other];
            stack[other] = top;
        }
        uint32_t id = stack[--depth];
        line[length++] = id;
        const struct sp_work_node *node = &workload->nodes[id];
        for (uint32_t j = node->output_count; j-- > 0;) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->outputs[j]];
            for (uint32_t k = tensor->consumer_count; k-- > 0 && tensor->kind == SP_WORK_ACTIVATION;)
                if (--waiting[tensor->consumers[k]] == 0)
                    stack[depth++] = tensor->consumers[k];
        }
    }
}

enum sp_status sp_line_scrambled(struct sp_grouping_search *search, uint32_t seed, uint32_t *line)
{
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    uint32_t *waiting = SP_NEW_ARRAY(search->arena, search->workload->node_count, uint32_t);
    uint32_t *stack = SP_NEW_ARRAY(search->arena, search->live_count, uint32_t);
    if (waiting == NULL || stack == NULL)
        return sp_fail_memory(search->err);
    depth_first(search, seed, line, waiting, stack);
    sp_arena_rewind(search->arena, mark);
    return SP_OK;
}

/* The same from the results backwards: a node runs as late as its users allow, so what is made early and used late
   crosses few cuts. */
static void depth_first_backwards(struct sp_grouping_search *search, uint32_t *line, uint32_t *waiting, uint32_t *stack)
{
    const struct sp_workload *workload = search->workload;
    uint32_t depth = 0, place = search->live_count;
    for (uint32_t i = 0; i < search->live_count; i++) {
        const struct sp_work_node *node = &workload->nodes[search->live[i]];
        waiting[search->live[i]] = 0;
        for (uint32_t j = 0; j < node->output_count; j++)
            if (workload->tensors[node->outputs[j]].kind == SP_WORK_ACTIVATION)
                waiting[search->live[i]] += workload->tensors[node->outputs[j]].consumer_count;
        if (waiting[search->live[i]] == 0)
            stack[depth++] = search->live[i];
    }
    while (depth > 0) {
        uint32_t id = stack[--depth];
        line[--place] = id;
        const struct sp_work_node *node = &workload->nodes[id];
        for (uint32_t j = 0; j < node->input_count; j++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[j]];
            if (tensor->kind == SP_WORK_ACTIVATION && --waiting[tensor->producer] == 0)
                stack[depth++] = tensor->producer;
        }
    }
}

enum sp_status sp_lines_init(struct sp_grouping_search *search)
{
    size_t bytes = search->live_count * sizeof(uint32_t);
    uint32_t *dfs = SP_NEW_ARRAY(search->arena, search->live_count, uint32_t);
    uint32_t *back = SP_NEW_ARRAY(search->arena, search->live_count, uint32_t);
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    uint32_t *waiting = SP_NEW_ARRAY(search->arena, search->workload->node_count, uint32_t);
    uint32_t *stack = SP_NEW_ARRAY(search->arena, search->live_count, uint32_t);
    if (dfs == NULL || back == NULL || waiting == NULL || stack == NULL)
        return sp_fail_memory(search->err);

    depth_first(search, 0, dfs, waiting, stack);
    depth_first_backwards(search, back, waiting, stack);
    sp_arena_rewind(search->arena, mark);
    search->lines[search->line_count++] = search->live;
    if (memcmp(dfs, search->live, bytes) != 0)
        search->lines[search->line_count++] = dfs;
    if (memcmp(back, search->live, bytes) != 0 && memcmp(back, dfs, bytes) != 0)
        search->lines[search->line_count++] = back;
    return SP_OK;
}
