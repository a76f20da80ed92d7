#include "search/grouping/internal.h"

struct sp_search_link sp_search_link(const struct sp_cluster *cluster, uint32_t from, uint32_t to)
{
    if (from == to)
        return (struct sp_search_link){0, 0};
    const struct sp_mesh_level *level = sp_cluster_link(cluster, from, to);
    return (struct sp_search_link){level->latency, 1 / level->bandwidth};
}

void sp_window_start(struct sp_grouping_search *search, struct sp_node_window *window, uint32_t begin, uint32_t stage)
{
    uint32_t count = search->cluster->device_count, device = search->devices[stage];
    *window = (struct sp_node_window){.begin = begin, .device = device, .kind = search->workload->kind_of[device]};
    window->before = sp_search_link(search->cluster, search->devices[stage > 0 ? stage - 1 : stage], device);
    window->after = sp_search_link(search->cluster, device, search->devices[stage + 1 < count ? stage + 1 : stage]);
    search->line.stamp++;
}

void sp_window_start_left(struct sp_grouping_search *search, struct sp_node_window *window,
                          const struct sp_candidate *around, uint32_t left, uint32_t right)
{
    *window = (struct sp_node_window){.device = left, .kind = search->workload->kind_of[left], .around = around};
    window->after = sp_search_link(search->cluster, left, right);
    search->line.stamp++;
}

/* Memory that a node touches, counted once in each window. Model inputs are there when the stage starts, so they raise
   everything before their first use too. */
static void hold(struct sp_grouping_search *search, struct sp_node_window *window, uint32_t tensor)
{
    uint32_t memory = sp_memory_of(search->workload, tensor);
    const struct sp_work_tensor *held = &search->workload->tensors[memory];
    if (search->line.born[memory] == search->line.stamp)
        return;
    search->line.born[memory] = search->line.stamp;
    if (held->kind == SP_WORK_WEIGHT) {
        window->weights += held->bytes;
        return;
    }
    window->live += held->bytes;
    if (held->kind == SP_WORK_INPUT)
        window->peak += held->bytes;
}

static void add_input(struct sp_grouping_search *search, struct sp_node_window *window, uint32_t id, uint32_t position)
{
    const struct sp_work_tensor *tensor = &search->workload->tensors[id];
    hold(search, window, id);
    if (tensor->kind != SP_WORK_ACTIVATION)
        return;
    uint32_t made_at = search->line.position[tensor->producer];
    if (made_at != SP_NO_POSITION && made_at >= window->begin) {
        if (search->line.last_use[id] == position) { /* it was held ready to be sent until here */
            window->send -= sp_link_seconds(window->after, tensor);
            window->out -= tensor->bytes;
        }
        return;
    }
    if (search->line.seen[id] == search->line.stamp)
        return;
    search->line.seen[id] = search->line.stamp;
    window->in += tensor->bytes;
    if (made_at != SP_NO_POSITION) {
        window->receive += sp_link_seconds(window->before, tensor);
        return;
    }
    uint32_t from = window->around->stage_device[window->around->stage_of[tensor->producer]];
    window->receive += sp_work_transfer_seconds(search->cluster, tensor, from, window->device);
}

static void add_output(struct sp_grouping_search *search, struct sp_node_window *window, uint32_t id, uint32_t position)
{
    const struct sp_work_tensor *tensor = &search->workload->tensors[id];
    hold(search, window, id);
    if (tensor->kind != SP_WORK_ACTIVATION)
        return;
    if (search->line.last_use[id] > position) {
        window->send += sp_link_seconds(window->after, tensor);
        window->out += tensor->bytes;
    }
    if (search->line.outside[id] > 0) {
        window->send += search->line.outside_left[id];
        window->out += tensor->bytes * search->line.outside[id];
    }
}

void sp_window_extend(struct sp_grouping_search *search, struct sp_node_window *window, uint32_t position)
{
    const struct sp_workload *workload = search->workload;
    const struct sp_work_node *node = &workload->nodes[search->line.nodes[position]];
    window->compute += node->seconds[window->kind];
    window->weights += node->inner_weight_bytes + node->resident_bytes;
    for (uint32_t i = 0; i < node->input_count; i++)
        add_input(search, window, node->inputs[i], position);
    for (uint32_t i = 0; i < node->output_count; i++)
        add_output(search, window, node->outputs[i], position);
    if (window->live + node->workspace_bytes > window->peak)
        window->peak = window->live + node->workspace_bytes;
    for (uint32_t id = search->line.death_first[position]; id != SP_NO_POSITION; id = search->line.death_next[id])
        if (search->line.born[id] == search->line.stamp)
            window->live -= workload->tensors[id].bytes;
}
