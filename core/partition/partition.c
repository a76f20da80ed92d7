/*
 * The walk over a model: its nodes in order, expanded calls in place of themselves, results at the end.
 */
#include <string.h>

#include "base/hash_map.h"
#include "ops/bodies/control.h"
#include "partition/node_internal.h"

/* ---- what is needed --------------------------------------------------------------------------------------------- */

static void need(struct sp_partitioner *part, const struct sp_value *value)
{
    if (value != NULL && !sp_part_is_constant(value))
        part->tensors[sp_dataflow_tensor(part->dataflow, value)].is_needed = true;
}

static bool is_needed(const struct sp_partitioner *part, const struct sp_node *node)
{
    for (uint32_t o = 0; o < node->output_count; o++)
        if (node->outputs[o] != NULL && part->tensors[sp_dataflow_tensor(part->dataflow, node->outputs[o])].is_needed)
            return true;
    return false;
}

/* From the graph's outputs that are needed, backwards. */
static enum sp_status find_needed(struct sp_partitioner *part, const struct sp_graph *graph)
{
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const struct sp_node *node = &graph->nodes[n];
        struct sp_arena_mark mark = sp_arena_mark(part->scratch);
        uint32_t count = 0;
        const struct sp_value **captured = NULL;
        if (!is_needed(part, node))
            continue;
        for (uint32_t i = sp_control_branch(node) != NULL ? 1 : 0; i < node->input_count; i++) /* a known condition */
            need(part, node->inputs[i]);
        if (sp_has_graphs(node) && !sp_captured(part->scratch, node, &count, &captured))
            return sp_fail_memory(part->err);
        for (uint32_t i = 0; i < count; i++)
            need(part, captured[i]);
        sp_arena_rewind(part->scratch, mark);
    }
    return SP_OK;
}

/* ---- the walk --------------------------------------------------------------------------------------------------- */

struct frame {
    const struct sp_graph *graph;
    uint32_t next;
    struct sp_part_control_run *control; /* whose graph it is; NULL: it runs in the place of `node` */
    const struct sp_node *node;          /* a call, an If; NULL: the main graph */
    const struct sp_node_cut *branch;    /* of the partitioner, while its nodes run */
};

/* The box as the other name of the tensor has it, of which more extents may be known. */
static enum sp_status know_box(struct sp_partitioner *part, const struct sp_value *name, const struct sp_box *box,
                               struct sp_box *ret_box)
{
    struct sp_box whole;
    enum sp_status status = sp_part_whole_box(part, name, &whole);
    if (status != SP_OK || box->rank != whole.rank) { /* what has no rank is whole */
        *ret_box = whole;
        return status;
    }
    struct sp_axis_ranges *axes = SP_NEW_ARRAY(part->arena, whole.rank, struct sp_axis_ranges);
    if (axes == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t a = 0; a < whole.rank; a++) {
        const bool is_open = box->axes[a].count > 0 && box->axes[a].ranges[0].limit < 0;
        axes[a] = is_open ? whole.axes[a] : box->axes[a];
    }
    *ret_box = (struct sp_box){whole.rank, axes, box->is_whole};
    return SP_OK;
}

static bool is_as_known(const struct sp_value *a, const struct sp_value *b)
{
    if (sp_part_rank(a) != sp_part_rank(b))
        return false;
    for (uint32_t i = 0; i < sp_part_rank(a); i++)
        if (sp_part_extent(a, i) != sp_part_extent(b, i))
            return false;
    return true;
}

/* Names of one tensor: the call's argument and the body's input, the body's output and the call's. Where a declaration
   tells more of one than of the other, the pieces are the same and their boxes are told anew. */
static enum sp_status same(struct sp_partitioner *part, const struct sp_value *name, const struct sp_value *as)
{
    const uint32_t root = sp_part_root(part, as);
    struct sp_part_tensor *tensor = &part->tensors[sp_dataflow_tensor(part->dataflow, name)];
    if (part->tensors[root].first == NULL || is_as_known(name, part->dataflow->tensors[root])) {
        tensor->same_as = root;
        return SP_OK;
    }
    enum sp_status status = SP_OK;
    for (const struct sp_part_held *held = part->tensors[root].first; held != NULL && status == SP_OK;
         held = held->next) {
        struct sp_box *boxes = SP_NEW_ARRAY(part->arena, held->count, struct sp_box);
        if (boxes == NULL)
            return sp_fail_memory(part->err);
        for (uint32_t i = 0; i < held->count && status == SP_OK; i++)
            status = know_box(part, name, &held->boxes[i], &boxes[i]);
        if (status == SP_OK)
            status = sp_part_hold(part, name, held->sharding, held->count, held->devices, held->pieces, boxes);
    }
    return status;
}

static enum sp_status enter(struct sp_partitioner *part, const struct sp_node *node, struct frame *frame)
{
    const struct sp_graph *body = node->body;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < body->input_count && i < node->input_count && status == SP_OK; i++)
        if (node->inputs[i] != NULL && !body->inputs[i]->is_absent)
            status = same(part, body->inputs[i], node->inputs[i]);
    for (uint32_t o = 0; o < body->output_count && o < node->output_count; o++)
        if (node->outputs[o] != NULL && part->tensors[sp_dataflow_tensor(part->dataflow, node->outputs[o])].is_needed)
            need(part, body->outputs[o]);
    *frame = (struct frame){body, 0, NULL, node, part->branch};
    return status == SP_OK ? find_needed(part, body) : status;
}

/* The branch of an If whose condition is known: where the If is, unless something inside is cut. */
static enum sp_status enter_branch(struct sp_partitioner *part, const struct sp_node *node,
                                   const struct sp_graph *graph, struct frame *frame)
{
    struct sp_node_cut *placement = SP_NEW(part->arena, struct sp_node_cut);
    enum sp_status status = placement != NULL ? SP_OK : sp_fail_memory(part->err);
    bool is_cut = false;
    if (status == SP_OK && part->branch == NULL)
        status = sp_part_is_cut_inside(part, node, &is_cut);
    if (status == SP_OK && part->branch == NULL && !is_cut)
        status = sp_part_place_apart(part, node, placement);
    for (uint32_t o = 0; o < node->output_count; o++)
        if (node->outputs[o] != NULL && part->tensors[sp_dataflow_tensor(part->dataflow, node->outputs[o])].is_needed)
            need(part, graph->outputs[o]);
    *frame = (struct frame){graph, 0, NULL, node, part->branch != NULL || is_cut ? part->branch : placement};
    return status == SP_OK ? find_needed(part, graph) : status;
}

/* A graph of control flow: all that it gives is needed. */
static enum sp_status enter_graph(struct sp_partitioner *part, struct sp_part_control_run *control,
                                  const struct sp_graph *graph, struct frame *frame)
{
    for (uint32_t o = 0; o < graph->output_count; o++)
        need(part, graph->outputs[o]);
    *frame = (struct frame){graph, 0, control, NULL, NULL};
    return find_needed(part, graph);
}

static enum sp_status leave(struct sp_partitioner *part, const struct sp_node *node, const struct sp_graph *body)
{
    enum sp_status status = SP_OK;
    for (uint32_t o = 0; o < body->output_count && o < node->output_count && status == SP_OK; o++)
        if (node->outputs[o] != NULL)
            status = same(part, node->outputs[o], body->outputs[o]);
    return status;
}

/* A graph's nodes are done. */
static enum sp_status end_frame(struct sp_partitioner *part, struct frame *frames, uint32_t *depth)
{
    struct frame *frame = &frames[*depth - 1];
    const struct sp_graph *next = NULL;
    if (frame->control == NULL)
        return --*depth > 0 ? leave(part, frame->node, frame->graph) : SP_OK;
    enum sp_status status = sp_control_next(part, frame->control, &next);
    if (status == SP_OK && next != NULL)
        return enter_graph(part, frame->control, next, frame);
    --*depth;
    return status;
}

static enum sp_status run_node(struct sp_partitioner *part, struct sp_node *node, struct frame *frames, uint32_t *depth)
{
    const struct sp_graph *branch = sp_control_branch(node);
    bool is_split = false;
    enum sp_status status = SP_OK;
    if (*depth > SP_MAX_NET_DEPTH)
        return sp_part_node(part, node);
    if (node->body != NULL)
        return enter(part, node, &frames[(*depth)++]);
    if (branch != NULL)
        return enter_branch(part, node, branch, &frames[(*depth)++]);
    if (sp_has_graphs(node) && part->branch == NULL)
        status = sp_part_is_split_control(part, node, &is_split);
    if (status != SP_OK || !is_split)
        return status == SP_OK ? sp_part_node(part, node) : status;
    struct sp_part_control_run *control = NULL;
    const struct sp_graph *graph = NULL;
    status = sp_control_begin(part, node, &control, &graph);
    return status == SP_OK ? enter_graph(part, control, graph, &frames[(*depth)++]) : status;
}

static enum sp_status walk(struct sp_partitioner *part)
{
    struct frame *frames = SP_NEW_ARRAY(part->arena, SP_MAX_NET_DEPTH + 1, struct frame);
    uint32_t depth = 1;
    if (frames == NULL)
        return sp_fail_memory(part->err);
    frames[0] = (struct frame){.graph = part->model->graph};
    for (uint32_t o = 0; o < part->model->graph->output_count; o++)
        need(part, part->model->graph->outputs[o]);
    enum sp_status status = find_needed(part, part->model->graph);
    while (depth > 0 && status == SP_OK) {
        struct frame *frame = &frames[depth - 1];
        if (frame->next == frame->graph->node_count) {
            status = end_frame(part, frames, &depth);
            continue;
        }
        struct sp_node *node = &frame->graph->nodes[frame->next++];
        part->branch = frame->branch;
        if (depth == 1 && (node->index & 63) == 0 &&
            !sp_watch_tick(part->request->watch, "partition", (double)node->index / frame->graph->node_count, 0, 0))
            return sp_fail(part->err, SP_ERR_CANCELLED, "CANCELLED", "The job was cancelled.");
        bool is_weight =
            node->output_count == 1 && node->outputs[0] != NULL && sp_part_weight(node->outputs[0]) != NULL;
        if (is_needed(part, node) && !is_weight)
            status = run_node(part, node, frames, &depth);
    }
    return status;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

/* An output that no node makes, or of which all is known: whole on the first device. */
static enum sp_status bring_result(struct sp_partitioner *part, const struct sp_value *value,
                                   const struct sp_part_held **ret_held)
{
    int64_t *device = SP_NEW(part->arena, int64_t);
    struct sp_box *box = SP_NEW(part->arena, struct sp_box);
    const struct sp_piece **piece = SP_NEW(part->arena, const struct sp_piece *);
    struct sp_part_held *held = SP_NEW(part->arena, struct sp_part_held);
    struct sp_part_target target = {.count = 1, .devices = device, .boxes = box};
    if (device == NULL || box == NULL || piece == NULL || held == NULL)
        return sp_fail_memory(part->err);
    enum sp_status status = sp_part_whole_box(part, value, box);
    if (status == SP_OK)
        status = sp_part_bring(part, value, &target, piece);
    *held = (struct sp_part_held){.count = 1, .devices = device, .pieces = piece, .boxes = box};
    *ret_held = held;
    return status;
}

/* One shard, which all of the devices have. */
static enum sp_status replicated_on(struct sp_partitioner *part, uint32_t rank, uint32_t count, const int64_t *devices,
                                    const struct sp_sharding **ret_sharding)
{
    struct sp_sharding *sharding = SP_NEW(part->arena, struct sp_sharding);
    struct sp_block_dim *blocks = SP_NEW_ARRAY(part->arena, rank, struct sp_block_dim);
    uint32_t *first = SP_NEW_ARRAY(part->arena, 2, uint32_t);
    if (sharding == NULL || blocks == NULL || first == NULL)
        return sp_fail_memory(part->err);
    first[1] = count;
    *sharding = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS,
                                     .rank = rank,
                                     .blocks = blocks,
                                     .shard_count = 1,
                                     .first = first,
                                     .devices = devices};
    *ret_sharding = sharding;
    return SP_OK;
}

/* All of an output on the first device that has some of it, or on all devices. */
static enum sp_status make_whole(struct sp_partitioner *part, const struct sp_value *value,
                                 const struct sp_part_held **held)
{
    const bool is_everywhere = part->request->results == SP_RESULTS_EVERYWHERE;
    const uint32_t count = is_everywhere ? (uint32_t)part->request->assignment->device_count : 1;
    int64_t *devices = SP_NEW_ARRAY(part->arena, count, int64_t);
    struct sp_box *boxes = SP_NEW_ARRAY(part->arena, count, struct sp_box);
    const struct sp_piece **pieces = SP_NEW_ARRAY(part->arena, count, const struct sp_piece *);
    struct sp_part_held *whole = SP_NEW(part->arena, struct sp_part_held);
    struct sp_part_target target = {.count = count, .devices = devices, .boxes = boxes};
    if (devices == NULL || boxes == NULL || pieces == NULL || whole == NULL)
        return sp_fail_memory(part->err);
    uint32_t first = 0;
    while (first + 1 < (*held)->count && (*held)->pieces[first] == NULL)
        first++;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        devices[i] = is_everywhere ? i : (*held)->devices[first];
        status = sp_part_whole_box(part, value, &boxes[i]);
    }
    if (status == SP_OK && is_everywhere && sp_part_rank(value) > 0 && (*held)->sharding != NULL)
        status = replicated_on(part, sp_part_rank(value), count, devices, &target.sharding);
    if (status == SP_OK)
        status = sp_part_bring(part, value, &target, pieces);
    *whole = (struct sp_part_held){.count = count, .devices = devices, .pieces = pieces, .boxes = boxes};
    *held = whole;
    return status;
}

/* The first holding that is as the assignment says, whatever its users were brought behind it; else *ret_held stays. */
static enum sp_status find_wanted(struct sp_partitioner *part, const struct sp_value *value,
                                  const struct sp_sharding *wanted, const struct sp_part_held **ret_held)
{
    for (const struct sp_part_held *at = sp_part_tensor(part, value)->first; at != NULL; at = at->next) {
        const struct sp_arena_mark mark = sp_arena_mark(part->scratch);
        bool is_wanted = at->sharding == wanted;
        enum sp_status status = SP_OK;
        if (!is_wanted && at->sharding != NULL)
            status = sp_sharding_equal(part->scratch, at->sharding, wanted, sp_part_rank(value), NULL, &is_wanted,
                                       part->err);
        sp_arena_rewind(part->scratch, mark);
        if (is_wanted)
            *ret_held = at;
        if (status != SP_OK || is_wanted)
            return status;
    }
    return SP_OK;
}

static enum sp_status tell_result(struct sp_partitioner *part, uint32_t output)
{
    const struct sp_value *value = part->model->graph->outputs[output];
    const struct sp_part_tensor *tensor = sp_part_tensor(part, value);
    struct sp_part_tensor *own = &part->tensors[sp_dataflow_tensor(part->dataflow, value)];
    if (own->is_told) /* the model lists it twice */
        return SP_OK;
    own->is_told = true;
    const struct sp_part_held *held = tensor->last; /* as the assignment wants it, if it says so */
    const struct sp_sharding *wanted = NULL;
    enum sp_status status = SP_OK;
    const bool is_outside = sp_part_is_outside(part, part->dataflow->tensors[sp_part_root(part, value)]);
    if (is_outside)
        status = bring_result(part, value, &held);
    if (status != SP_OK)
        return status;
    if (value->producer != NULL && !is_outside) {
        const struct sp_spec_entry *specs =
            part->stated->nodes[sp_dataflow_node(part->dataflow, value->producer)].operands;
        wanted = specs != NULL ? specs[value->producer->input_count + value->producer_output].sharding : NULL;
    }
    if (wanted == NULL && !is_outside)
        held = tensor->first;
    else if (wanted != NULL)
        status = find_wanted(part, value, wanted, &held);
    if (status != SP_OK)
        return status;
    if (held == NULL)
        return sp_fail(part->err, SP_ERR_INTERNAL, "RESULT_NOT_THERE", "Nothing makes the model's output '%.200s'.",
                       value->name);
    if (part->request->results != SP_RESULTS_AS_HELD)
        status = make_whole(part, value, &held);
    if (status != SP_OK)
        return status;
    uint32_t rank = sp_part_rank(value), count = 0;
    struct sp_exchange_member *holders = SP_NEW_ARRAY(part->scratch, held->count, struct sp_exchange_member);
    int64_t *shape = SP_NEW_ARRAY(part->scratch, rank, int64_t);
    if (holders == NULL || shape == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t a = 0; a < rank; a++) {
        struct sp_dim dim = value->type.shape.dims[a];
        shape[a] = sp_dim_is_known(dim) ? dim.value : -1;
    }
    for (uint32_t i = 0; i < held->count; i++)
        if (held->pieces[i] != NULL)
            holders[count++] = (struct sp_exchange_member){
                .device = held->devices[i], .before = held->pieces[i], .held = held->boxes[i]};
    struct sp_part_result result = {output, value, rank, shape, count, holders};
    return part->sink->result != NULL ? part->sink->result(part->sink->context, &result, part->err) : SP_OK;
}

/* A model may list one value several times: it is one result. */
static enum sp_status tell_results(struct sp_partitioner *part)
{
    const struct sp_graph *graph = part->model->graph;
    struct sp_hash_map told = {.arena = part->arena};
    enum sp_status status = SP_OK;
    for (uint32_t o = 0; status == SP_OK && o < graph->output_count; o++) {
        struct sp_hash_slot *slot = sp_hash_map_put(&told, (uintptr_t)graph->outputs[o]);
        if (slot == NULL)
            return sp_fail_memory(part->err);
        if (slot->number == 0)
            status = tell_result(part, o);
        slot->number = 1;
    }
    return status;
}

/* ---- setting up ------------------------------------------------------------------------------------------------- */

const char *sp_part_marker(struct sp_arena *arena, const struct sp_model *model)
{
    size_t longest = 0;
    for (uint32_t i = 0; i < sp_intern_count(model->names); i++)
        for (const char *at = strchr(sp_intern_name(model->names, i), '@'); at != NULL;) {
            size_t run = strspn(at, "@");
            longest = run > longest ? run : longest;
            at = strchr(at + run, '@');
        }
    char *marker = SP_NEW_ARRAY(arena, longest + 2, char);
    if (marker != NULL)
        memset(marker, '@', longest + 1);
    return marker;
}

static enum sp_status set_up(struct sp_partitioner *part)
{
    const struct sp_dataflow *dataflow = part->dataflow;
    struct sp_node_specs *nodes = SP_NEW_ARRAY(part->arena, dataflow->node_count, struct sp_node_specs);
    part->tensors = SP_NEW_ARRAY(part->arena, dataflow->tensor_count, struct sp_part_tensor);
    part->relation_of = SP_NEW_ARRAY(part->arena, dataflow->node_count, uint32_t);
    if (nodes == NULL || part->tensors == NULL || part->relation_of == NULL) {
        (void)sp_fail_memory(part->err);
        return SP_ERR_MEMORY;
    }
    memcpy(nodes, part->stated->nodes, dataflow->node_count * sizeof *nodes);
    part->assignment = *part->stated;
    part->assignment.nodes = nodes;
    for (uint32_t t = 0; t < dataflow->tensor_count; t++)
        part->tensors[t].same_as = t;
    for (uint32_t n = 0; n < dataflow->node_count; n++)
        part->relation_of[n] = SP_NO_TENSOR;
    for (uint32_t r = 0; r < dataflow->relation_count; r++)
        if (dataflow->relations[r].kind == SP_RELATION_NODE)
            part->relation_of[dataflow->relations[r].node_id] = r;
    part->near = (struct sp_mesh_level){
        .name = "device", .size = (uint32_t)part->stated->device_count, .bandwidth = 1e11, .latency = 1e-6};
    part->links = part->request->links != NULL ? *part->request->links : (struct sp_links){1, &part->near};
    part->marker = sp_part_marker(part->arena, part->model);
    return part->marker != NULL ? SP_OK : sp_fail_memory(part->err);
}

enum sp_status sp_partition_run(struct sp_arena *arena, const struct sp_partition_request *request,
                                const struct sp_part_sink *sink, struct sp_error *err)
{
    struct sp_partitioner part = {.request = request,
                                  .sink = sink,
                                  .err = err,
                                  .arena = arena,
                                  .model = request->model,
                                  .dataflow = request->assignment->dataflow,
                                  .stated = request->assignment};
    part.scratch = sp_arena_create(sp_arena_budget(arena));
    if (part.scratch == NULL)
        return sp_fail_memory(err);
    enum sp_status status = set_up(&part);
    if (status == SP_OK)
        status = walk(&part);
    if (status == SP_OK)
        status = tell_results(&part);
    sp_arena_destroy(part.scratch);
    return status;
}
