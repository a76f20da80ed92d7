/*
 * The cost of one node with everything inside it. Subgraphs and bodies nest as deep as the input likes (within the
 * reader's limits), so the walk keeps its own stack: a frame per node whose inside is being walked.
 */
#include "cost/kernel_work.h"
#include "cost/kernels/body_memory.h"
#include "cost/workload.h"
#include "ops/bodies/control.h"
#include "ops/table/op.h"

/* Exporters write "until the condition fails" as a trip count near 2^63; beyond this the number says nothing. */
#define MAX_BELIEVED_TRIPS 1000000

struct figures {
    struct sp_node_cost cost;
    double *seconds;                 /* per device */
    const struct sp_node_times *own; /* of the node itself; NULL: nobody asks */
};

/* The longest kernel so far on a device. */
struct longest {
    double seconds;
    enum sp_device_class class;
};

struct frame {
    struct frame *below;
    struct sp_arena_mark mark;
    const struct sp_node *node;
    uint32_t attribute, item;          /* the graph at hand: of this attribute, unless it is the body */
    struct sp_graph *graph;            /* NULL: all done */
    const struct sp_kernels **kernels; /* of that graph, per device */
    uint32_t next;                     /* node of that graph */
    double trips;
    bool alternatives, loops;
    struct sp_inner_memory memory; /* of that graph */
    struct figures sum, total;     /* of that graph so far; of those before it */
};

struct walk {
    struct sp_model *model;
    struct sp_arena *scratch;
    const struct sp_timed_devices *devices;
    struct longest *longest; /* per device */
    struct sp_error *err;
    struct frame *top;
};

static bool has_inside(const struct sp_node *node)
{
    if (sp_inner_is_folded(node))
        return false;
    if (node->body != NULL)
        return true;
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const struct sp_attribute *attribute = &node->attributes[i];
        if ((attribute->type == SP_ATTR_GRAPH || attribute->type == SP_ATTR_GRAPHS) && attribute->count > 0 &&
            attribute->graphs != NULL)
            return true;
    }
    return false;
}

static double operand_bytes(struct sp_value *const *values, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t bytes = values[i] == NULL ? 0 : sp_value_stored_bytes(values[i]);
        sum += bytes > 0 ? (double)bytes : 0;
    }
    return sum;
}

/* What an operator that nobody knows is given is dequantised before it. */
static double dequantized_bytes(const struct sp_node *node)
{
    double sum = 0;
    for (uint32_t i = 0; node->op == NULL && node->body == NULL && i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        const int64_t bytes = value != NULL && value->stored_bits > 0 ? sp_value_bytes(value) : 0;
        sum += bytes > 0 ? (double)bytes : 0;
    }
    return sum;
}

static bool has_work(const struct sp_node *node)
{
    const uint32_t free_of_work = SP_OP_VIEW | SP_OP_METADATA | SP_OP_CONSTANT | SP_OP_CONTROL;
    return !sp_inner_is_folded(node) && node->body == NULL && !sp_inner_is_view(node) &&
           (node->op == NULL || (node->op->flags & free_of_work) == 0);
}

/* The work of the operator itself; rule NULL: of one that has none. */
static struct sp_kernel_work own_work(const struct sp_node *node, const struct sp_rule *rule,
                                      const struct sp_runtime *runtime, const struct sp_node_kernel *kernel)
{
    if (rule == NULL)
        return (struct sp_kernel_work){.bytes = operand_bytes(node->inputs, node->input_count) +
                                                operand_bytes(node->outputs, node->output_count) +
                                                2 * dequantized_bytes(node)};
    return sp_kernel_work_of(
        &(struct sp_kernel_part){.node = node, .rule = rule, .caches = runtime->caches, .kernel = kernel});
}

static bool narrows_somewhere(const struct walk *walk, const struct sp_node *node,
                              const struct sp_kernels *const *kernels)
{
    for (uint32_t i = 0; kernels != NULL && i < walk->devices->count; i++)
        if (kernels[i] != NULL && kernels[i]->nodes[node->index].narrows)
            return true;
    return false;
}

/* Adds what the node does itself. A view does nothing but where it narrows, and that is no traffic of the model's own:
   other runtimes have none. */
static enum sp_status add_own(const struct walk *walk, struct sp_node *node, const struct sp_kernels *const *kernels,
                              struct figures *figures)
{
    const struct sp_timed_devices *devices = walk->devices;
    const struct sp_arena_mark mark = sp_arena_mark(walk->scratch);
    struct sp_rule *rule = NULL;
    enum sp_status status = SP_OK;

    const bool is_free = !has_work(node);
    if (is_free && !narrows_somewhere(walk, node, kernels))
        return SP_OK;
    if (node->op != NULL)
        status = sp_op_rule(walk->model, node, walk->scratch, &rule, walk->err);
    if (status != SP_OK)
        return status;
    const struct sp_runtime *first = devices->count > 0 ? sp_device_runtime(devices->items[0]) : sp_runtime(0);
    const struct sp_kernel_work none = {0}, alone = is_free ? none : own_work(node, rule, first, NULL);
    figures->cost.flops += alone.flops;
    figures->cost.bytes += alone.bytes;
    for (uint32_t i = 0; i < devices->count; i++) {
        const struct sp_device *device = devices->items[i];
        const struct sp_kernels *of = kernels != NULL ? kernels[i] : NULL;
        const struct sp_node_kernel *kernel = of != NULL ? &of->nodes[node->index] : NULL;
        const bool is_same = is_free ? kernel == NULL || !kernel->narrows
                                     : kernel == NULL && sp_device_runtime(device)->caches == first->caches;
        const struct sp_kernel_work work = is_same ? alone : own_work(node, rule, sp_device_runtime(device), kernel);
        const enum sp_dtype dtype = sp_node_dtype(device, node);
        const double seconds = sp_roofline_seconds(device, devices->cluster, dtype, &work);
        figures->seconds[i] += seconds;
        if (seconds > walk->longest[i].seconds)
            walk->longest[i] = (struct longest){seconds, sp_roofline_class(dtype, work.kind)};
        if (figures->own != NULL) {
            figures->own->start_seconds[i] = sp_roofline_start_seconds(device, devices->cluster, dtype, &work);
            figures->own->alone_start_seconds[i] = sp_roofline_start_seconds(device, devices->cluster, dtype, &alone);
            figures->own->alone_seconds[i] = sp_roofline_seconds(device, devices->cluster, dtype, &alone);
            figures->own->moved_bytes[i] = work.bytes - alone.bytes;
        }
    }
    sp_arena_rewind(walk->scratch, mark);
    return SP_OK;
}

static void add_scaled(const struct walk *walk, struct figures *to, const struct figures *from, double factor)
{
    to->cost.flops += factor * from->cost.flops;
    to->cost.bytes += factor * from->cost.bytes;
    to->cost.inner_weight_bytes += from->cost.inner_weight_bytes;
    for (uint32_t i = 0; i < walk->devices->count; i++)
        to->seconds[i] += factor * from->seconds[i];
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Either ran: the more expensive one counts. Both are in memory. */
static void take_larger(const struct walk *walk, struct figures *to, const struct figures *from)
{
    to->cost.flops = larger(to->cost.flops, from->cost.flops);
    to->cost.bytes = larger(to->cost.bytes, from->cost.bytes);
    to->cost.inner_weight_bytes += from->cost.inner_weight_bytes;
    for (uint32_t i = 0; i < walk->devices->count; i++)
        to->seconds[i] = larger(to->seconds[i], from->seconds[i]);
}

static double believed_trips(struct sp_dim trips)
{
    return sp_dim_is_known(trips) && trips.value >= 0 && trips.value <= MAX_BELIEVED_TRIPS ? (double)trips.value : 1;
}

static struct sp_dim extent(const struct sp_value *value, int64_t axis)
{
    const struct sp_shape *shape = &value->type.shape;
    if (axis < 0)
        axis += shape->rank;
    return shape->has_rank && axis >= 0 && axis < shape->rank ? shape->dims[axis] : sp_dim_unknown();
}

/*
 * How often the subgraph runs. Loop: input 0 is the number of trips. Scan: the extent of the scanned axis of the first
 * scan input, which comes after the states; in version 8 axis 1, and once per element of the batch axis 0. (ONNX
 * operator specification, Loop and Scan.)
 */
static double count_trips(const struct sp_node *node)
{
    if (sp_node_is(node, "Loop")) {
        const struct sp_value *trips = node->input_count > 0 ? node->inputs[0] : NULL;
        bool known = trips != NULL && trips->data != NULL && trips->data->ints != NULL && trips->data->count == 1;
        return known ? believed_trips(trips->data->ints[0]) : 1;
    }
    if (sp_node_is(node, "Scan")) {
        int64_t scanned = sp_node_int(node, "num_scan_inputs", 0);
        const struct sp_value *value;
        uint32_t count;
        const int64_t *axes = sp_node_ints(node, "scan_input_axes", &count);
        if (scanned < 1 || scanned > node->input_count)
            return 1;
        value = node->inputs[node->input_count - (uint32_t)scanned];
        if (value == NULL)
            return 1;
        if (node->version == 8)
            return believed_trips(extent(value, 0)) * believed_trips(extent(value, 1));
        return believed_trips(extent(value, count > 0 ? axes[0] : 0));
    }
    return 1;
}

/* The branch of an If that is never taken: its condition is known. */
static bool never_runs(const struct sp_node *node, const struct sp_graph *graph)
{
    const struct sp_graph *taken = sp_control_branch(node);
    return taken != NULL && taken != graph;
}

/* Goes to the frame's next graph, or to none. */
static enum sp_status open_next_graph(const struct walk *walk, struct frame *frame)
{
    const struct sp_node *node = frame->node;

    frame->graph = NULL;
    frame->next = 0;
    if (node->body != NULL) {
        if (frame->item == 0)
            frame->graph = node->body;
        frame->item = 1;
    } else {
        for (; frame->attribute < node->attribute_count; frame->attribute++, frame->item = 0) {
            const struct sp_attribute *attribute = &node->attributes[frame->attribute];
            bool graphs = attribute->type == SP_ATTR_GRAPH || attribute->type == SP_ATTR_GRAPHS;
            if (graphs && attribute->graphs != NULL && frame->item < attribute->count &&
                !never_runs(node, attribute->graphs[frame->item])) {
                frame->graph = attribute->graphs[frame->item++];
                break;
            }
        }
    }
    if (frame->graph == NULL)
        return SP_OK;
    memset(frame->sum.seconds, 0, walk->devices->count * sizeof *frame->sum.seconds);
    frame->sum.cost = (struct sp_node_cost){0};
    if (!sp_inner_memory_init(&frame->memory, walk->scratch, frame->graph, frame->loops))
        return sp_fail_memory(walk->err);
    return sp_kernels_of_devices(walk->scratch, walk->model, frame->graph, walk->devices->items, walk->devices->count,
                                 &frame->kernels, walk->err);
}

static enum sp_status push(struct walk *walk, const struct sp_node *node)
{
    struct sp_arena_mark mark = sp_arena_mark(walk->scratch);
    struct frame *frame = SP_NEW(walk->scratch, struct frame);

    if (frame == NULL)
        return sp_fail_memory(walk->err);
    frame->below = walk->top;
    frame->mark = mark;
    frame->node = node;
    frame->alternatives = sp_node_is(node, "If");
    frame->loops = node->body == NULL && !frame->alternatives;
    frame->trips = node->body == NULL ? count_trips(node) : 1;
    frame->sum.seconds = SP_NEW_ARRAY(walk->scratch, walk->devices->count, double);
    frame->total.seconds = SP_NEW_ARRAY(walk->scratch, walk->devices->count, double);
    if (frame->sum.seconds == NULL || frame->total.seconds == NULL)
        return sp_fail_memory(walk->err);
    const enum sp_status status = open_next_graph(walk, frame);
    if (status == SP_OK)
        walk->top = frame;
    return status;
}

static enum sp_status close_graph(const struct walk *walk, struct frame *frame)
{
    frame->sum.cost.inner_weight_bytes += frame->memory.weight_bytes;
    if (frame->alternatives)
        take_larger(walk, &frame->total, &frame->sum);
    else
        add_scaled(walk, &frame->total, &frame->sum, 1);
    frame->total.cost.workspace_bytes = larger(frame->total.cost.workspace_bytes, frame->memory.live.peak);
    return open_next_graph(walk, frame);
}

/* One step of the topmost frame: a node of its graph, the end of that graph, or its own end. */
static enum sp_status step(struct walk *walk, struct figures *result)
{
    struct frame *frame = walk->top;

    if (frame->graph != NULL && frame->next < frame->graph->node_count) {
        struct sp_node *node = &frame->graph->nodes[frame->next];
        enum sp_status status;
        if (has_inside(node))
            return push(walk, node);
        status = add_own(walk, node, frame->kernels, &frame->sum);
        if (status == SP_OK && !sp_inner_is_folded(node))
            (void)sp_live_step(&frame->memory.live, frame->next, 0);
        frame->next++;
        return status;
    }
    if (frame->graph != NULL)
        return close_graph(walk, frame);

    struct frame *below = frame->below;
    if (below == NULL) {
        add_scaled(walk, result, &frame->total, frame->trips);
        result->cost.workspace_bytes = frame->total.cost.workspace_bytes;
    } else {
        enum sp_status status = add_own(walk, &below->graph->nodes[below->next], below->kernels, &below->sum);
        if (status != SP_OK)
            return status;
        add_scaled(walk, &below->sum, &frame->total, frame->trips);
        (void)sp_live_step(&below->memory.live, below->next, frame->total.cost.workspace_bytes);
        below->next++;
    }
    walk->top = below;
    sp_arena_rewind(walk->scratch, frame->mark);
    return SP_OK;
}

enum sp_status sp_node_cost(struct sp_model *model, struct sp_node *node, struct sp_arena *scratch,
                            const struct sp_timed_devices *devices, struct sp_node_cost *ret_cost,
                            const struct sp_node_times *times, struct sp_error *err)
{
    struct sp_arena_mark start = sp_arena_mark(scratch);
    struct walk walk = {model, scratch, devices, SP_NEW_ARRAY(scratch, devices->count, struct longest), err, NULL};
    struct figures result = {.seconds = SP_NEW_ARRAY(scratch, devices->count, double), .own = times};
    enum sp_status status = result.seconds == NULL || walk.longest == NULL
                                ? sp_fail_memory(err)
                                : add_own(&walk, node, devices->kernels, &result);

    result.cost.workspace_bytes = dequantized_bytes(node);
    if (status == SP_OK && has_inside(node))
        status = push(&walk, node);
    while (status == SP_OK && walk.top != NULL)
        status = step(&walk, &result);
    if (status == SP_OK) {
        *ret_cost = result.cost;
        for (uint32_t i = 0; times != NULL && i < devices->count; i++) {
            times->seconds[i] = result.seconds[i];
            times->classes[i] = (uint8_t)walk.longest[i].class;
            times->moved_bytes[i] += result.cost.bytes; /* add_own() left the difference there */
            if (has_inside(node) || times->alone_seconds[i] <= 0)
                times->alone_seconds[i] = result.seconds[i];
        }
    }
    sp_arena_rewind(scratch, start);
    return status;
}

enum sp_status sp_node_work(struct sp_model *model, struct sp_node *node, struct sp_arena *scratch, double *ret_flops,
                            double *ret_bytes, struct sp_error *err)
{
    struct sp_node_cost cost;
    enum sp_status status = sp_node_cost(model, node, scratch, &(struct sp_timed_devices){0}, &cost, NULL, err);

    if (status != SP_OK)
        return status;
    *ret_flops = cost.flops;
    *ret_bytes = cost.bytes;
    return SP_OK;
}
