/*
 * One way to cut a node, tried: what its operator's function asks for on a device, and what that costs.
 */
#include <math.h>
#include <string.h>

#include "cost/cache.h"
#include "cost/kernel_work.h"
#include "ops/lowering/recorder.h"
#include "search/strategy/strategy_internal.h"

struct probe {
    struct sp_strategy_way *way;
    struct sp_strategy_table *table;
    uint32_t coordinate[SP_STRATEGY_AXES]; /* of the device that is looked at */
    struct sp_lowering local;
    uint64_t next;       /* number of the next piece */
    double base_seconds; /* the operator itself on the shard */
    /* what one device's record adds up to */
    bool runs_itself;
    double other_seconds, communication_seconds, communication_bytes, weight_bytes;
};

const struct sp_value *sp_strategy_operand_value(const struct sp_node *node, const struct sp_rule *rule,
                                                 uint32_t operand)
{
    return operand < rule->input_count ? node->inputs[operand] : node->outputs[operand - rule->input_count];
}

static uint32_t rank_of(const struct sp_value *value)
{
    bool is_tensor = value->type.kind == SP_TYPE_TENSOR || value->type.kind == SP_TYPE_SPARSE_TENSOR;
    return is_tensor && value->type.shape.has_rank ? value->type.shape.rank : 0;
}

static int64_t extent_of(struct sp_dim dim)
{
    return sp_dim_is_known(dim) ? dim.value : -1;
}

/* ---- the work of the operator on its shard ---------------------------------------------------------------------- */

static double operand_bytes(const struct sp_strategy_way *way, uint32_t operand, bool is_local)
{
    const struct sp_value *value = sp_strategy_operand_value(way->model_node, way->rule, operand);
    int64_t bytes = value != NULL ? sp_value_stored_bytes(value) : 0;
    if (bytes <= 0)
        return 0;
    return is_local ? (double)bytes * sp_strategy_layout_share(way->table, value, way->layouts[operand])
                    : (double)bytes;
}

/* What a node computes in shards of factors, with the operands' shares of their bytes. */
static struct sp_kernel_work work_of(const struct sp_strategy_way *way, const struct sp_node_kernel *of,
                                     const struct sp_device *device, const int64_t *shards, const double *shares,
                                     double kept_bytes)
{
    return sp_kernel_work_of(&(struct sp_kernel_part){.node = way->model_node,
                                                      .rule = way->rule,
                                                      .shards = shards,
                                                      .shares = shares,
                                                      .caches = sp_device_runtime(device)->caches,
                                                      .kernel = of,
                                                      .kept_bytes = kept_bytes});
}

/* Of so many blocks, from what one of `blocks` is and all of them are: what is not cut is in both. */
static double of_share(double one, double all, uint32_t share, uint32_t blocks)
{
    return all - (all - one) * (blocks - share) / (blocks - 1);
}

/* What the slowest of unequal devices takes for its share. Of the one with the most blocks are the way's FLOPs and
   bytes. False without memory. */
static bool slowest_member(struct sp_strategy_way *way, const struct sp_node_kernel *of, double *shares,
                           double *ret_seconds)
{
    const struct sp_strategy_mesh *mesh = &way->table->mesh;
    const struct sp_work_node *work = &way->table->workload->nodes[way->node];
    const double kept = sp_cache_local_bytes(work->cache, way->rule, way->shards);
    int64_t *whole = SP_NEW_ARRAY(way->table->scratch, way->rule->factor_count, int64_t);
    *ret_seconds = 0;
    if (whole == NULL)
        return false;
    for (uint32_t f = 0; f < way->rule->factor_count; f++)
        whole[f] = 1;
    for (uint32_t m = 0; m < mesh->member_count; m++) {
        const struct sp_strategy_member *member = &mesh->members[m];
        const uint32_t share = member->share, blocks = mesh->size[0];
        for (uint32_t i = 0; i < way->operand_count; i++)
            if (shares[i] > 0 && way->layouts[i] != 0)
                shares[i] = (double)share / blocks;
        const double own = kept < work->resident_bytes ? kept * share : kept;
        struct sp_kernel_work kernel = work_of(way, of, member->device, way->shards, shares, own);
        const struct sp_kernel_work all = work_of(way, of, member->device, whole, shares, own);
        kernel.flops = of_share(kernel.flops, all.flops, share, blocks);
        kernel.functions = of_share(kernel.functions, all.functions, share, blocks);
        way->flops = fmax(way->flops, kernel.flops);
        way->bytes = fmax(way->bytes, kernel.bytes);
        *ret_seconds = fmax(*ret_seconds, sp_roofline_seconds(member->device, mesh->cluster,
                                                              sp_node_dtype(member->device, way->model_node), &kernel));
    }
    return true;
}

/* The same as in cost/node_cost.c, with what is cut divided. */
static bool find_work(struct sp_strategy_way *way, double *ret_seconds)
{
    const struct sp_strategy_mesh *mesh = &way->table->mesh;
    const struct sp_work_node *work = &way->table->workload->nodes[way->node];
    const struct sp_node *node = way->model_node;
    double *shares = SP_NEW_ARRAY(way->table->scratch, way->operand_count, double);
    const struct sp_node_kernel *of = sp_work_kernel(way->table->workload, mesh->kind, way->node);
    const bool narrows = of != NULL && of->narrows;
    *ret_seconds = 0;
    if (shares == NULL || (work->flops == 0 && work->bytes == 0 && !narrows)) /* views, what looks at shapes only */
        return shares != NULL;
    for (uint32_t i = 0; i < way->operand_count; i++) {
        const struct sp_value *value = sp_strategy_operand_value(node, way->rule, i);
        shares[i] = value != NULL ? sp_strategy_layout_share(way->table, value, way->layouts[i]) : 0;
    }
    if (mesh->member_count > 0) {
        const bool is_found = slowest_member(way, of, shares, ret_seconds);
        way->bytes = narrows ? 0 : way->bytes;
        return is_found;
    }
    const struct sp_kernel_work kernel =
        work_of(way, of, mesh->device, way->shards, shares, sp_cache_local_bytes(work->cache, way->rule, way->shards));
    way->flops = kernel.flops;
    way->bytes = narrows ? 0 : kernel.bytes; /* as the node's own, which is a view */
    *ret_seconds = sp_roofline_seconds(mesh->device, mesh->cluster, sp_node_dtype(mesh->device, node), &kernel);
    return true;
}

/* ---- the device's view of the node ------------------------------------------------------------------------------ */

/* One shard of an extent behind a major part: a range for each of the `before` elements of that. Of an extent that is
   not known (-1), all. */
static struct sp_axis_ranges shard_ranges(struct sp_arena *arena, int64_t extent, int64_t before, int64_t shards,
                                          int64_t shard)
{
    const int64_t rest = extent / before, size = rest / shards, count = shards > 1 ? before : 1;
    struct sp_range *ranges = SP_NEW_ARRAY(arena, (size_t)count, struct sp_range);
    if (ranges == NULL)
        return (struct sp_axis_ranges){0};
    ranges[0] = (struct sp_range){0, extent};
    for (int64_t i = 0; shards > 1 && i < count; i++)
        ranges[i] = (struct sp_range){i * rest + shard * size, i * rest + (shard + 1) * size};
    return (struct sp_axis_ranges){extent != 0 ? (uint32_t)count : 0, ranges};
}

static bool fill_factors(struct probe *probe, struct sp_lower_factor *factors)
{
    const struct sp_strategy_way *way = probe->way;
    for (uint32_t f = 0; f < way->rule->factor_count; f++) {
        struct sp_lower_factor one = {.extent = extent_of(way->rule->factors[f].extent), .shards = way->shards[f]};
        for (uint32_t a = 0; a < probe->table->mesh.axis_count; a++)
            if (way->factor_of[a] == f)
                one.shard = one.shard * probe->table->mesh.size[a] + probe->coordinate[a];
        one.is_split = one.shards > 1;
        one.size = one.is_split ? one.extent / one.shards : one.extent;
        one.ranges = shard_ranges(probe->local.arena, one.extent, way->before[f], one.shards, one.shard);
        if (one.ranges.ranges == NULL)
            return false;
        one.start = one.ranges.ranges[0].start;
        one.is_contiguous = one.ranges.count <= 1;
        factors[f] = one;
    }
    return true;
}

/* Parts of tensor axes are one range each, or one for each element of the major part behind which they are cut. */
static bool fill_operand(struct probe *probe, uint32_t operand, struct sp_lower_operand *ret_operand)
{
    const struct sp_strategy_way *way = probe->way;
    const struct sp_strategy_cut *cut = &way->cuts[operand];
    const struct sp_value *value = sp_strategy_operand_value(way->model_node, way->rule, operand);
    if (value == NULL)
        return true;
    uint32_t rank = rank_of(value);
    struct sp_lower_axis *axes = SP_NEW_ARRAY(probe->local.arena, rank, struct sp_lower_axis);
    for (uint32_t a = 0; axes != NULL && a < rank; a++) {
        int64_t shards = 1, shard = 0, before = 1;
        axes[a].extent = axes[a].size = extent_of(value->type.shape.dims[a]);
        for (uint32_t i = 0; i < cut->count; i++) {
            const struct sp_strategy_inner inner = sp_strategy_tensor_axis(probe->table, cut->tensor_axis[i]);
            if (inner.axis != a)
                continue;
            before = inner.before;
            shards *= probe->table->mesh.size[cut->mesh_axis[i]];
            shard = shard * probe->table->mesh.size[cut->mesh_axis[i]] + probe->coordinate[cut->mesh_axis[i]];
        }
        if (shards > 1) {
            axes[a].is_cut = true;
            axes[a].size /= shards;
        }
        axes[a].ranges = shard_ranges(probe->local.arena, axes[a].extent, before, shards, shard);
        if (axes[a].ranges.ranges == NULL)
            return false;
    }
    *ret_operand = (struct sp_lower_operand){value, rank, axes};
    return axes != NULL;
}

static enum sp_status make_local(struct probe *probe, struct sp_error *err)
{
    const struct sp_strategy_way *way = probe->way;
    struct sp_node *node = way->model_node;
    struct sp_arena *arena = probe->table->scratch;
    struct sp_lower_factor *factors = SP_NEW_ARRAY(arena, way->rule->factor_count, struct sp_lower_factor);
    struct sp_lower_operand *inputs = SP_NEW_ARRAY(arena, node->input_count, struct sp_lower_operand);
    struct sp_lower_operand *outputs = SP_NEW_ARRAY(arena, node->output_count, struct sp_lower_operand);
    struct sp_lower_recorder *recorder = SP_NEW(arena, struct sp_lower_recorder);
    bool is_done = factors != NULL && inputs != NULL && outputs != NULL && recorder != NULL;
    probe->local = (struct sp_lowering){.model = probe->table->dataflow->model,
                                        .node = node,
                                        .rule = way->rule,
                                        .version = node->version,
                                        .opset = sp_graph_opset(node->graph, ""),
                                        .arena = arena,
                                        .factor_count = way->rule->factor_count,
                                        .input_count = node->input_count,
                                        .output_count = node->output_count,
                                        .factors = factors,
                                        .inputs = inputs,
                                        .outputs = outputs,
                                        .recorder = recorder,
                                        .err = err};
    for (uint32_t a = 0; a < probe->table->mesh.axis_count; a++)
        probe->local.device = probe->local.device * probe->table->mesh.size[a] + probe->coordinate[a];
    if (is_done)
        *recorder = (struct sp_lower_recorder){.kept = arena, .marker = "@", .next = &probe->next};
    is_done = is_done && fill_factors(probe, factors);
    for (uint32_t i = 0; is_done && i < node->input_count; i++)
        is_done = fill_operand(probe, i, &inputs[i]);
    for (uint32_t i = 0; is_done && i < node->output_count; i++)
        is_done = fill_operand(probe, way->rule->input_count + i, &outputs[i]);
    return is_done ? SP_OK : sp_fail_memory(err);
}

/* ---- what it asked for ------------------------------------------------------------------------------------------ */

static uint32_t mesh_axes_of(const struct sp_strategy_way *way, uint32_t count, const uint8_t *factors)
{
    uint32_t axes = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t a = 0; a < way->table->mesh.axis_count; a++)
            if (way->factor_of[a] == factors[i])
                axes |= 1u << a;
    return axes;
}

/* Bytes of a piece; where its extents are not known, those of the largest part of an output. */
static double piece_bytes(const struct probe *probe, const struct sp_piece *piece)
{
    int64_t elements = 1;
    if (piece != NULL && piece->dims != NULL) {
        for (uint32_t a = 0; a < piece->rank && elements >= 0; a++)
            if (piece->dims[a] < 0 || __builtin_mul_overflow(elements, piece->dims[a], &elements))
                elements = -1;
        if (elements >= 0)
            return (double)sp_dtype_bytes(piece->dtype, elements);
    }
    double largest = 0;
    for (uint32_t o = probe->way->rule->input_count; piece != NULL && o < probe->way->operand_count; o++)
        largest = fmax(largest, operand_bytes(probe->way, o, true));
    return largest;
}

static double range_overlap(const struct sp_axis_ranges *asked, const struct sp_axis_ranges *part)
{
    int64_t overlap = 0;
    for (uint32_t i = 0, j = 0; i < asked->count && j < part->count;) {
        const struct sp_range *a = &asked->ranges[i], *b = &part->ranges[j];
        const int64_t start = a->start > b->start ? a->start : b->start;
        const int64_t limit = a->limit < b->limit ? a->limit : b->limit;
        overlap += limit > start ? limit - start : 0;
        if (a->limit < b->limit)
            i++;
        else
            j++;
    }
    return (double)overlap;
}

/* Elements that other devices have are sent: the latency of a message to each of those, and the bytes that are missing,
   over the slowest links that the axis' shards are apart. */
static void add_borders(struct probe *probe, uint32_t input, const struct sp_lower_event *event)
{
    const struct sp_lower_operand *operand = &probe->local.inputs[input];
    const struct sp_strategy_cut *cut = &probe->way->cuts[input];
    const struct sp_links *links = &probe->table->mesh.links;
    double asked = 1, own = 1, messages = 0, latency = 0, slowness = 0;
    for (uint32_t a = 0; a < operand->rank; a++) {
        const struct sp_axis_ranges *ranges = &event->input.axes[a];
        double wanted = 0, here;
        if (!operand->axes[a].is_cut && operand->axes[a].extent < 0)
            continue; /* whole on both sides */
        for (uint32_t i = 0; i < ranges->count; i++)
            wanted += (double)(ranges->ranges[i].limit - ranges->ranges[i].start);
        here = range_overlap(ranges, &operand->axes[a].ranges);
        asked *= wanted;
        own *= here;
        if (here < wanted)
            messages += ceil((wanted - here) / (double)(operand->axes[a].size > 0 ? operand->axes[a].size : 1));
    }
    if (asked <= own)
        return;
    for (uint32_t i = 0; i < cut->count; i++)
        for (uint32_t l = 0; l < links->level_count; l++)
            if (probe->table->span[cut->mesh_axis[i]][l] > 1) {
                latency = fmax(latency, links->levels[l].latency);
                slowness = fmax(slowness, 1 / links->levels[l].bandwidth);
            }
    double bytes = (double)sp_dtype_bytes(operand->value->type.dtype, (int64_t)fmin(asked - own, 9e18));
    /* A border on both sides: of one side there may be less, but two neighbours are told to send. */
    probe->communication_seconds += fmax(messages, 1) * latency + bytes * slowness;
    probe->communication_bytes += bytes;
}

static void add_input(struct probe *probe, const struct sp_lower_event *event)
{
    const struct sp_strategy_way *way = probe->way;
    uint32_t input = event->input.index;
    const struct sp_value *value = way->model_node->inputs[input];
    const struct sp_work_tensor *tensor = &probe->table->workload->tensors[value->id];
    if (tensor->kind == SP_WORK_WEIGHT) {
        uint32_t first = 0; /* the same part for two operands is there once */
        while (way->model_node->inputs[first] != value || way->layouts[first] != way->layouts[input])
            first++;
        if (probe->table->is_own_weight[value->id] && (first == input || !event->input.is_part)) {
            double whole = (double)sp_value_bytes(value), bytes = piece_bytes(probe, event->piece);
            const struct sp_work_tensor *root =
                &probe->table->workload->tensors[sp_work_root(probe->table->workload, value->id)];
            probe->weight_bytes += whole > 0 ? root->bytes * (bytes / whole) : root->bytes;
        }
        return;
    }
    if (event->input.is_part || tensor->kind == SP_WORK_INPUT || way->layouts[input] == 0)
        return; /* it is there, or comes from outside in any way */
    if (event->input.is_whole) {
        double bytes;
        probe->communication_seconds += sp_strategy_reshard(probe->table, value->id, way->layouts[input], 0, &bytes);
        probe->communication_bytes += bytes;
        return;
    }
    add_borders(probe, input, event);
}

/* An operator that helps: it reads and writes its pieces. */
static void add_operator(struct probe *probe, const struct sp_lower_event *event)
{
    const struct sp_op *op = sp_op_find(event->op.domain, event->op.op_type, probe->local.opset);
    const struct sp_strategy_mesh *mesh = &probe->table->mesh;
    struct sp_kernel_work kernel = {0};
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    if (event->op.is_same) {
        probe->runs_itself = true;
        return;
    }
    if (op != NULL && (op->flags & (SP_OP_VIEW | SP_OP_METADATA | SP_OP_CONSTANT)) != 0)
        return;
    for (uint32_t i = 0; i < event->op.input_count; i++)
        kernel.bytes += event->op.inputs[i] != NULL ? piece_bytes(probe, event->op.inputs[i]) : 0;
    for (uint32_t i = 0; i < event->op.output_count; i++) {
        const struct sp_piece *piece = event->op.outputs[i];
        if (piece == NULL)
            continue;
        double bytes = piece_bytes(probe, piece), width = (double)sp_dtype_bytes(piece->dtype, 8) / 8;
        kernel.bytes += bytes;
        kernel.flops += width > 0 ? bytes / width : 0;
        dtype = i == 0 ? piece->dtype : dtype;
    }
    kernel.permutes = op != NULL && (op->flags & SP_OP_PERMUTES) != 0;
    kernel.functions = op != NULL && (op->flags & SP_OP_FUNCTION) != 0 ? kernel.flops : 0;
    double slowest = mesh->member_count == 0 ? sp_roofline_seconds(mesh->device, mesh->cluster, dtype, &kernel) : 0;
    for (uint32_t m = 0; m < mesh->member_count; m++) { /* pieces of a block each */
        struct sp_kernel_work own = kernel;
        own.bytes *= mesh->members[m].share;
        own.flops *= mesh->members[m].share;
        own.functions *= mesh->members[m].share;
        slowest = fmax(slowest, sp_roofline_seconds(mesh->members[m].device, mesh->cluster, dtype, &own));
    }
    probe->other_seconds += slowest;
}

static void add_collective(struct probe *probe, const struct sp_lower_event *event)
{
    uint32_t axes = mesh_axes_of(probe->way, event->collective.factor_count, event->collective.factors);
    double bytes = piece_bytes(probe, event->collective.from);
    if (event->kind == SP_LOWER_ALL_GATHER) {
        for (uint32_t a = 0; a < probe->table->mesh.axis_count; a++)
            bytes *= (axes >> a & 1) ? probe->table->mesh.size[a] : 1;
        probe->communication_seconds +=
            sp_strategy_collective(probe->table, SP_ALL_GATHER, axes, bytes, &probe->communication_bytes);
        return;
    }
    probe->communication_seconds +=
        sp_strategy_collective(probe->table, SP_ALL_REDUCE, axes, bytes, &probe->communication_bytes);
}

static void read_record(struct probe *probe)
{
    const struct sp_lower_recorder *recorder = probe->local.recorder;
    for (uint32_t i = 0; i < recorder->count; i++) {
        const struct sp_lower_event *event = &recorder->events[i];
        switch (event->kind) {
        case SP_LOWER_INPUT:
            add_input(probe, event);
            break;
        case SP_LOWER_OP:
            add_operator(probe, event);
            break;
        case SP_LOWER_ALL_REDUCE:
        case SP_LOWER_ALL_GATHER:
            add_collective(probe, event);
            break;
        case SP_LOWER_OUTPUT:
            if (event->output.kind == SP_LOWER_PARTIAL)
                probe->way->partial[event->output.index] =
                    mesh_axes_of(probe->way, event->output.factor_count, event->output.factors);
            break;
        case SP_LOWER_CONSTANT:
            break;
        }
    }
}

/* ---- the way ---------------------------------------------------------------------------------------------------- */

/* On one device: refused, or what it takes becomes the way's where that is more than on another. */
static enum sp_status probe_device(struct probe *probe, struct sp_error *err)
{
    struct sp_strategy_way *way = probe->way;
    struct sp_error own = {0};
    const struct sp_op *op = way->model_node->op;
    enum sp_status status = make_local(probe, err);
    if (status != SP_OK)
        return status;
    probe->local.err = &own;
    probe->runs_itself = false;
    probe->other_seconds = probe->communication_seconds = probe->communication_bytes = probe->weight_bytes = 0;
    status = op->lower != NULL ? op->lower(&probe->local) : sp_lower_default(&probe->local);
    if (status == SP_ERR_MEMORY)
        return sp_fail_memory(err);
    if (status != SP_OK) {
        way->is_refused = true;
        return SP_OK;
    }
    read_record(probe);
    double seconds = probe->runs_itself ? probe->base_seconds + probe->other_seconds
                                        : fmax(probe->base_seconds, probe->other_seconds);
    way->compute_seconds = fmax(way->compute_seconds, seconds);
    way->communication_seconds = fmax(way->communication_seconds, probe->communication_seconds);
    way->communication_bytes = fmax(way->communication_bytes, probe->communication_bytes);
    if (probe->table->mesh.member_count == 0) /* else what the layouts say */
        way->weight_bytes = fmax(way->weight_bytes, probe->weight_bytes);
    return SP_OK;
}

/* Whether devices in the middle may have more to do than those at the border. */
static bool has_middle(const struct sp_strategy_way *way)
{
    for (uint32_t a = 0; a < way->table->mesh.axis_count; a++) {
        if (way->factor_of[a] == SP_STRATEGY_NO_FACTOR)
            continue;
        const struct sp_factor *factor = &way->rule->factors[way->factor_of[a]];
        if (factor->kind == SP_FACTOR_HALO || factor->kind == SP_FACTOR_PERMUTATION || factor->is_resized)
            return true;
    }
    return false;
}

/* What the layouts say that a device has of the weights that this node alone uses, each layout of each once: a device
   has it, also where the operator's function needs less of it, or nothing but its value. */
static double stated_weight_bytes(const struct sp_strategy_way *way)
{
    const struct sp_workload *workload = way->table->workload;
    double sum = 0;
    for (uint32_t input = 0; input < way->rule->input_count; input++) {
        const struct sp_value *value = way->model_node->inputs[input];
        uint32_t first = 0;
        if (value == NULL || !way->table->is_own_weight[value->id])
            continue;
        while (way->model_node->inputs[first] != value || way->layouts[first] != way->layouts[input])
            first++;
        if (first == input)
            sum += workload->tensors[sp_work_root(workload, value->id)].bytes *
                   sp_strategy_layout_share(way->table, value, way->layouts[input]);
    }
    return sum;
}

enum sp_status sp_strategy_probe(struct sp_strategy_way *way, struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(way->table->scratch);
    struct probe probe = {.way = way, .table = way->table};
    enum sp_status status;
    way->is_refused = false;
    way->flops = way->bytes = 0;
    way->compute_seconds = way->communication_seconds = way->communication_bytes = way->weight_bytes = 0;
    memset(way->partial, 0, way->rule->output_count * sizeof *way->partial);
    status = find_work(way, &probe.base_seconds) ? probe_device(&probe, err) : sp_fail_memory(err);
    if (status == SP_OK && !way->is_refused && has_middle(way)) {
        for (uint32_t a = 0; a < way->table->mesh.axis_count; a++)
            probe.coordinate[a] = way->table->mesh.size[a] / 2;
        status = probe_device(&probe, err);
    }
    way->weight_bytes = fmax(way->weight_bytes, stated_weight_bytes(way));
    sp_arena_rewind(way->table->scratch, mark);
    return status;
}
