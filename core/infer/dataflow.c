#include "infer/dataflow.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/sorted.h"

struct sp_dataflow_rules {
    struct sp_arena *arena;
    struct sp_rules *kept; /* NULL: none yet */
    struct sp_rule **of;   /* per relation; NULL: not kept */
};

/* ---- the graphs ----------------------------------------------------------------------------------------------- */

struct frame {
    struct sp_graph *graph;
    uint32_t graph_index;  /* in the dataflow */
    struct sp_node *owner; /* whose inner graph it is; NULL: the main graph */
    uint32_t *operands;    /* room for those of the nodes that are still to come */
    uint32_t next_node;
    /* Where the walk stands inside node `next_node`: which of its inner graphs comes next. */
    uint32_t next_attribute, next_item;
    bool is_inside;
};

/* The walk is made twice where there are inner graphs: to count what there will be, and to fill it in. */
struct builder {
    struct sp_arena *arena;
    struct sp_dataflow *dataflow;
    struct sp_error *err;
    bool is_counting;
    bool is_flat; /* there is the main graph and no other */
    uint32_t depth;
    struct frame frames[SP_MAX_NET_DEPTH];
};

static uint32_t *new_operands(struct sp_arena *arena, const struct sp_graph *graph)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < graph->node_count; i++)
        total += (uint64_t)graph->nodes[i].input_count + graph->nodes[i].output_count;
    return SP_NEW_ARRAY(arena, total, uint32_t);
}

static enum sp_status push(struct builder *builder, struct sp_graph *graph, struct sp_node *owner)
{
    struct sp_dataflow *dataflow = builder->dataflow;
    struct frame frame = {.graph = graph, .graph_index = dataflow->graph_count, .owner = owner};
    if (builder->depth == SP_MAX_NET_DEPTH)
        return sp_fail_limit(builder->err, "GRAPHS_TOO_DEEP", "SP_MAX_NET_DEPTH", SP_MAX_NET_DEPTH, builder->depth + 1,
                             "Subgraphs and function calls are nested more than %d deep.", SP_MAX_NET_DEPTH);
    if (graph->value_count > UINT32_MAX - dataflow->tensor_count ||
        graph->node_count > UINT32_MAX - dataflow->node_count)
        return sp_fail_memory(builder->err);
    if (!builder->is_counting) {
        frame.operands = new_operands(builder->arena, graph);
        if (frame.operands == NULL)
            return sp_fail_memory(builder->err);
        dataflow->graphs[dataflow->graph_count] =
            (struct sp_dataflow_graph){graph, dataflow->tensor_count, dataflow->node_count};
        for (uint32_t i = 0; !builder->is_flat && i < graph->value_count; i++)
            dataflow->tensors[dataflow->tensor_count + i] = graph->values[i];
        for (uint32_t i = 0; i < graph->node_count; i++)
            dataflow->nodes[dataflow->node_count + i] = &graph->nodes[i];
    }
    dataflow->graph_count++;
    dataflow->tensor_count += graph->value_count;
    dataflow->node_count += graph->node_count;
    builder->frames[builder->depth++] = frame;
    return SP_OK;
}

/* The inner graph that comes next in the node of this frame, or NULL. */
static struct sp_graph *next_inner(struct frame *frame, const struct sp_node *node)
{
    if (node->body != NULL) {
        struct sp_graph *body = frame->next_item == 0 ? node->body : NULL;
        frame->next_item = 1;
        return body;
    }
    for (; frame->next_attribute < node->attribute_count; frame->next_attribute++, frame->next_item = 0) {
        const struct sp_attribute *attribute = &node->attributes[frame->next_attribute];
        bool holds_graphs = attribute->type == SP_ATTR_GRAPH || attribute->type == SP_ATTR_GRAPHS;
        if (holds_graphs && frame->next_item < attribute->count)
            return attribute->graphs[frame->next_item++];
    }
    return NULL;
}

/* ---- relations ------------------------------------------------------------------------------------------------ */

static void add_relation(struct builder *builder, struct sp_relation *relation)
{
    struct sp_dataflow *dataflow = builder->dataflow;
    relation->id = dataflow->relation_count;
    dataflow->relations[dataflow->relation_count++] = *relation;
}

/* The graphs that are open, and the one that was left last, which relate_out() is about: all that can be asked for
   while the dataflow is built. */
static const struct sp_dataflow_graph *find_open(const struct builder *builder, const struct sp_graph *graph)
{
    for (uint32_t i = builder->depth < SP_MAX_NET_DEPTH ? builder->depth + 1 : builder->depth; i-- > 0;) {
        const struct frame *frame = &builder->frames[i];
        if (frame->graph == graph)
            return &builder->dataflow->graphs[frame->graph_index];
    }
    return NULL;
}

static uint32_t tensor_of(const struct builder *builder, const struct sp_value *value)
{
    const struct sp_dataflow_graph *graph = value == NULL ? NULL : find_open(builder, value->graph);
    return graph == NULL ? SP_NO_TENSOR : graph->first_tensor + value->id;
}

static uint32_t node_id_of(const struct builder *builder, const struct sp_node *node)
{
    return find_open(builder, node->graph)->first_node + node->index;
}

static void add_node(struct builder *builder, struct sp_node *node)
{
    struct sp_relation relation = {.kind = SP_RELATION_NODE,
                                   .node = node,
                                   .node_id = node_id_of(builder, node),
                                   .input_count = node->input_count,
                                   .operand_count = node->input_count + node->output_count,
                                   .extra_axis = {-1, -1}};
    struct frame *frame = &builder->frames[builder->depth - 1];
    uint32_t *tensors = frame->operands;
    frame->operands += relation.operand_count;
    for (uint32_t i = 0; i < node->input_count; i++)
        tensors[i] = tensor_of(builder, node->inputs[i]);
    for (uint32_t i = 0; i < node->output_count; i++)
        tensors[node->input_count + i] = tensor_of(builder, node->outputs[i]);
    relation.tensors = tensors;
    add_relation(builder, &relation);
}

struct side {
    const struct sp_value *value;
    int64_t extra_axis; /* that this side has and the other has not, or -1 */
};

/* A negative axis counts from the back of this side's shape. */
static bool count_axis_from_front(struct side *side)
{
    const struct sp_shape *shape = &side->value->type.shape;
    if (side->extra_axis == -1)
        return true;
    if (!shape->has_rank)
        return false;
    if (side->extra_axis < 0)
        side->extra_axis += 1 + (int64_t)shape->rank; /* written as axis - 1, so that -1 can mean none */
    return side->extra_axis >= 0 && side->extra_axis < shape->rank && side->extra_axis < SP_MAX_RANK;
}

static enum sp_status add_same(struct builder *builder, struct sp_node *node, struct side from, struct side to,
                               bool is_back)
{
    if (from.value == NULL || to.value == NULL || from.value == to.value)
        return SP_OK;
    if (!count_axis_from_front(&from) || !count_axis_from_front(&to))
        return SP_OK; /* of unknown rank: nothing can be carried */
    if (builder->is_counting) {
        builder->dataflow->relation_count++;
        return SP_OK;
    }
    uint32_t outer = tensor_of(builder, from.value), inner = tensor_of(builder, to.value);
    if (outer == SP_NO_TENSOR || inner == SP_NO_TENSOR)
        return SP_OK;
    uint32_t *tensors = SP_NEW_ARRAY(builder->arena, 2, uint32_t);
    if (tensors == NULL)
        return sp_fail_memory(builder->err);
    tensors[0] = outer;
    tensors[1] = inner;
    struct sp_relation relation = {.kind = SP_RELATION_SAME,
                                   .node = node,
                                   .node_id = node_id_of(builder, node),
                                   .input_count = 1,
                                   .operand_count = 2,
                                   .tensors = tensors,
                                   .is_back = is_back,
                                   .extra_axis = {(int8_t)from.extra_axis, (int8_t)to.extra_axis}};
    add_relation(builder, &relation);
    return SP_OK;
}

static struct sp_value *at(struct sp_value *const *values, uint32_t count, uint32_t index)
{
    return index < count ? values[index] : NULL;
}

static struct side plain(const struct sp_value *value)
{
    return (struct side){value, -1};
}

/* ---- boundaries ----------------------------------------------------------------------------------------------- */

enum boundary { BOUNDARY_NONE, BOUNDARY_PLAIN, BOUNDARY_LOOP, BOUNDARY_SCAN };

static enum boundary boundary_of(const struct sp_node *node)
{
    if (node->body != NULL)
        return BOUNDARY_PLAIN;
    if (node->domain[0] != '\0')
        return BOUNDARY_NONE;
    if (strcmp(node->op_type, "If") == 0)
        return BOUNDARY_PLAIN;
    if (strcmp(node->op_type, "Loop") == 0)
        return BOUNDARY_LOOP;
    /* Scan-8 has a batch axis besides the scan axis: nothing is carried through it. */
    if (strcmp(node->op_type, "Scan") == 0 && node->version >= 9)
        return BOUNDARY_SCAN;
    return BOUNDARY_NONE;
}

/* Which of a Scan's operands are states (the first ones); the others are scanned. */
static uint32_t scan_states(const struct sp_node *node)
{
    int64_t scanned = sp_node_int(node, "num_scan_inputs", 0);
    return scanned < 0 || scanned > node->input_count ? 0 : node->input_count - (uint32_t)scanned;
}

/* The scan axis of the operand, as count_axis_from_front() takes it. */
static int64_t scan_axis(const struct sp_node *node, const char *attribute, uint32_t index)
{
    uint32_t count;
    const int64_t *axes = sp_node_ints(node, attribute, &count);
    int64_t axis = axes != NULL && index < count ? axes[index] : 0;
    return axis < 0 ? axis - 1 : axis;
}

static enum sp_status relate_in(struct builder *builder, struct sp_node *node, struct sp_graph *inner)
{
    enum boundary kind = boundary_of(node);
    enum sp_status status = SP_OK;
    /* An If's branches have no inputs; a Loop's first two inputs (trip count, condition) are scalars. */
    for (uint32_t i = kind == BOUNDARY_LOOP ? 2 : 0; status == SP_OK && kind != BOUNDARY_NONE && i < inner->input_count;
         i++) {
        struct side outer = plain(at(node->inputs, node->input_count, i));
        if (kind == BOUNDARY_SCAN && i >= scan_states(node))
            outer.extra_axis = scan_axis(node, "scan_input_axes", i - scan_states(node));
        status = add_same(builder, node, outer, plain(inner->inputs[i]), false);
    }
    return status;
}

static enum sp_status relate_out(struct builder *builder, struct sp_node *node, struct sp_graph *inner)
{
    enum boundary kind = boundary_of(node);
    enum sp_status status = SP_OK;
    uint32_t skipped = kind == BOUNDARY_LOOP ? 1 : 0; /* the condition is no result */
    uint32_t carried = kind == BOUNDARY_LOOP   ? (inner->input_count > 2 ? inner->input_count - 2 : 0)
                       : kind == BOUNDARY_SCAN ? scan_states(node)
                                               : UINT32_MAX;
    if (kind == BOUNDARY_NONE)
        return SP_OK;
    for (uint32_t i = skipped; status == SP_OK && i < inner->output_count; i++) {
        uint32_t result = i - skipped;
        struct side outer = plain(at(node->outputs, node->output_count, result));
        if (result >= carried)
            outer.extra_axis = kind == BOUNDARY_SCAN ? scan_axis(node, "scan_output_axes", result - carried) : 0;
        status = add_same(builder, node, plain(inner->outputs[i]), outer, false);
    }
    for (uint32_t i = 0; status == SP_OK && carried != UINT32_MAX && i < carried; i++) {
        uint32_t input = kind == BOUNDARY_LOOP ? i + 2 : i;
        status = add_same(builder, node, plain(at(inner->outputs, inner->output_count, i + skipped)),
                          plain(at(inner->inputs, inner->input_count, input)), true);
    }
    return status;
}

/* ---- the walk ------------------------------------------------------------------------------------------------- */

/* What is inside an operator with its own rule (graph attributes that are functions of single elements) is not looked
   at; the inside of calls and of control flow is. */
static bool has_inner(const struct sp_node *node)
{
    return node->body != NULL || (node->op != NULL && (node->op->flags & SP_OP_CONTROL) != 0);
}

static enum sp_status step(struct builder *builder)
{
    struct frame *frame = &builder->frames[builder->depth - 1];
    if (frame->next_node == frame->graph->node_count) {
        builder->depth--;
        return frame->owner == NULL ? SP_OK : relate_out(builder, frame->owner, frame->graph);
    }
    struct sp_node *node = &frame->graph->nodes[frame->next_node];
    if (!frame->is_inside) {
        frame->is_inside = true;
        frame->next_attribute = frame->next_item = 0;
        if (!has_inner(node)) {
            frame->is_inside = false;
            frame->next_node++;
            if (builder->is_counting)
                builder->dataflow->relation_count++;
            else
                add_node(builder, node);
            return SP_OK;
        }
    }
    struct sp_graph *inner = next_inner(frame, node);
    if (inner == NULL) {
        frame->is_inside = false;
        frame->next_node++;
        return SP_OK;
    }
    enum sp_status status = push(builder, inner, node);
    return status == SP_OK ? relate_in(builder, node, inner) : status;
}

/* ---- finding -------------------------------------------------------------------------------------------------- */

struct addressed {
    uintptr_t address;
    uint32_t index;
};

SP_ASCENDING(by_address, struct addressed, address)

static enum sp_status sort_graphs(struct sp_arena *arena, struct sp_arena *scratch, struct sp_dataflow *dataflow,
                                  struct sp_error *err)
{
    struct addressed *sorted = SP_NEW_ARRAY(scratch, dataflow->graph_count, struct addressed);
    uint32_t *order = SP_NEW_ARRAY(arena, dataflow->graph_count, uint32_t);
    if (sorted == NULL || order == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < dataflow->graph_count; i++)
        sorted[i] = (struct addressed){(uintptr_t)dataflow->graphs[i].graph, i};
    qsort(sorted, dataflow->graph_count, sizeof *sorted, by_address);
    for (uint32_t i = 0; i < dataflow->graph_count; i++)
        order[i] = sorted[i].index;
    dataflow->by_address = order;
    return SP_OK;
}

static const struct sp_dataflow_graph *find_graph(const struct sp_dataflow *dataflow, const struct sp_graph *graph)
{
    if (graph == dataflow->graphs[0].graph)
        return &dataflow->graphs[0];
    const struct sp_dataflow_graph *all = dataflow->graphs;
    const uint32_t *order = dataflow->by_address, count = dataflow->graph_count;
    uint32_t at;
    SP_LOWER_BOUND(at, count, (uintptr_t)all[order[at]].graph < (uintptr_t)graph);
    return at < count && all[order[at]].graph == graph ? &all[order[at]] : NULL;
}

uint32_t sp_dataflow_tensor(const struct sp_dataflow *dataflow, const struct sp_value *value)
{
    const struct sp_dataflow_graph *graph = value == NULL ? NULL : find_graph(dataflow, value->graph);
    return graph == NULL ? SP_NO_TENSOR : graph->first_tensor + value->id;
}

uint32_t sp_dataflow_node(const struct sp_dataflow *dataflow, const struct sp_node *node)
{
    const struct sp_dataflow_graph *graph = find_graph(dataflow, node->graph);
    return graph == NULL ? UINT32_MAX : graph->first_node + node->index;
}

#define AHEAD 6 /* nodes whose values are fetched before their turn: they lie all over memory */

static void fetch_values(const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count && i < 4; i++) {
        if (node->inputs[i] != NULL)
            __builtin_prefetch(&node->inputs[i]->id);
    }
}

static void relate_nodes(struct builder *builder, struct sp_graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (i + AHEAD < graph->node_count)
            fetch_values(&graph->nodes[i + AHEAD]);
        add_node(builder, &graph->nodes[i]);
    }
}

static enum sp_status walk(struct builder *builder)
{
    struct sp_dataflow *dataflow = builder->dataflow;
    dataflow->graph_count = dataflow->tensor_count = dataflow->node_count = dataflow->relation_count = 0;
    enum sp_status status = push(builder, dataflow->model->graph, NULL);
    if (status == SP_OK && builder->is_flat) {
        relate_nodes(builder, dataflow->model->graph);
        return SP_OK;
    }
    while (status == SP_OK && builder->depth > 0)
        status = step(builder);
    return status;
}

static enum sp_status build(struct builder *builder)
{
    struct sp_dataflow *dataflow = builder->dataflow;
    const struct sp_graph *main = dataflow->model->graph;
    enum sp_status status = SP_OK;
    if (builder->is_flat) {
        dataflow->graph_count = 1;
        dataflow->node_count = dataflow->relation_count = main->node_count;
    } else {
        builder->is_counting = true;
        status = walk(builder);
        builder->is_counting = false;
    }
    if (status != SP_OK)
        return status;
    dataflow->graphs = SP_NEW_ARRAY(builder->arena, dataflow->graph_count, struct sp_dataflow_graph);
    dataflow->tensors =
        builder->is_flat ? main->values : SP_NEW_ARRAY(builder->arena, dataflow->tensor_count, struct sp_value *);
    dataflow->nodes = SP_NEW_ARRAY(builder->arena, dataflow->node_count, struct sp_node *);
    dataflow->relations = SP_NEW_ARRAY(builder->arena, dataflow->relation_count, struct sp_relation);
    if (dataflow->graphs == NULL || (dataflow->tensors == NULL && !builder->is_flat) || dataflow->nodes == NULL ||
        dataflow->relations == NULL)
        return sp_fail_memory(builder->err);
    return walk(builder);
}

static bool is_flat(const struct sp_graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (has_inner(&graph->nodes[i]))
            return false;
    }
    return true;
}

enum sp_status sp_dataflow_create(struct sp_arena *arena, struct sp_model *model, struct sp_dataflow **ret_dataflow,
                                  struct sp_error *err)
{
    struct sp_dataflow *dataflow = SP_NEW(arena, struct sp_dataflow);
    struct sp_arena *own = sp_arena_create(sp_arena_budget(arena));
    struct builder *builder = own == NULL ? NULL : SP_NEW(own, struct builder);
    enum sp_status status = SP_ERR_MEMORY;
    if (dataflow == NULL || builder == NULL || (dataflow->rules = SP_NEW(arena, struct sp_dataflow_rules)) == NULL) {
        status = sp_fail_memory(err);
    } else {
        dataflow->model = model;
        dataflow->rules->arena = arena;
        builder->arena = arena;
        builder->dataflow = dataflow;
        builder->err = err;
        builder->is_flat = is_flat(model->graph);
        status = build(builder);
        if (status == SP_OK)
            status = sort_graphs(arena, own, dataflow, err);
    }
    sp_arena_destroy(own);
    if (status == SP_OK)
        *ret_dataflow = dataflow;
    return status;
}

/* ---- rules ---------------------------------------------------------------------------------------------------- */

static enum sp_status new_operand(struct sp_arena *arena, const struct sp_value *value, struct sp_operand_rule *operand)
{
    if (value == NULL || value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank)
        return SP_OK;
    operand->rank = value->type.shape.rank;
    operand->axes = SP_NEW_ARRAY(arena, operand->rank, struct sp_axis_factors);
    return operand->axes == NULL ? SP_ERR_MEMORY : SP_OK;
}

static enum sp_status new_rule(struct sp_arena *arena, const struct sp_dataflow *dataflow,
                               const struct sp_relation *relation, struct sp_rule **ret_rule)
{
    struct sp_rule *rule = SP_NEW(arena, struct sp_rule);
    if (rule == NULL)
        return SP_ERR_MEMORY;
    *rule = (struct sp_rule){.arena = arena,
                             .bytes = -1,
                             .input_count = relation->input_count,
                             .output_count = relation->operand_count - relation->input_count};
    rule->factors = SP_NEW(arena, struct sp_factor);
    rule->inputs = SP_NEW_ARRAY(arena, rule->input_count, struct sp_operand_rule);
    rule->outputs = SP_NEW_ARRAY(arena, rule->output_count, struct sp_operand_rule);
    if (rule->factors == NULL || rule->inputs == NULL || rule->outputs == NULL)
        return SP_ERR_MEMORY;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < relation->operand_count; i++) {
        const struct sp_value *value =
            relation->tensors[i] == SP_NO_TENSOR ? NULL : dataflow->tensors[relation->tensors[i]];
        struct sp_operand_rule *operand =
            i < rule->input_count ? &rule->inputs[i] : &rule->outputs[i - rule->input_count];
        status = new_operand(arena, value, operand);
    }
    *ret_rule = rule;
    return status;
}

/* Factors of the axes that both sides have; where their extents differ (a carried value that grows) nothing is. */
static void fill_same(const struct sp_dataflow *dataflow, const struct sp_relation *relation, struct sp_rule *rule)
{
    const struct sp_shape *from = &dataflow->tensors[relation->tensors[0]]->type.shape;
    const struct sp_shape *to = &dataflow->tensors[relation->tensors[1]]->type.shape;
    const int8_t *extra = relation->extra_axis;
    uint32_t a = 0, b = 0;
    if (rule->inputs[0].rank + (extra[1] >= 0) != rule->outputs[0].rank + (extra[0] >= 0))
        return;
    if (extra[0] >= 0) /* the iterations */
        sp_rule_map_input(rule, 0, (uint32_t)extra[0],
                          sp_rule_factor(rule, "t", SP_FACTOR_SEQUENTIAL, from->dims[(uint32_t)extra[0]]));
    if (extra[1] >= 0)
        sp_rule_map_output(rule, 0, (uint32_t)extra[1],
                           sp_rule_factor(rule, "t", SP_FACTOR_SEQUENTIAL, to->dims[(uint32_t)extra[1]]));
    for (;; a++, b++) {
        a += extra[0] == (int64_t)a;
        b += extra[1] == (int64_t)b;
        if (a >= rule->inputs[0].rank || b >= rule->outputs[0].rank)
            return;
        if (sp_dim_is_known(from->dims[a]) && sp_dim_is_known(to->dims[b]) && from->dims[a].value != to->dims[b].value)
            continue;
        if (sp_dim_is(from->dims[a], 1) || sp_dim_is(to->dims[b], 1))
            continue;
        char name[SP_FACTOR_NAME_SIZE] = {'a', (char)('0' + a / 10), (char)('0' + a % 10)};
        uint8_t factor = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, from->dims[a]);
        sp_rule_map_input(rule, 0, a, factor);
        sp_rule_map_output(rule, 0, b, factor);
    }
}

static enum sp_status make_rule(const struct sp_dataflow *dataflow, const struct sp_relation *relation,
                                struct sp_arena *arena, struct sp_rule **ret_rule, struct sp_error *err)
{
    if (relation->kind == SP_RELATION_NODE && relation->node->op != NULL)
        return sp_op_rule(dataflow->model, relation->node, arena, ret_rule, err);
    struct sp_rule *rule = NULL;
    if (new_rule(arena, dataflow, relation, &rule) != SP_OK)
        return sp_fail_memory(err);
    if (relation->kind == SP_RELATION_SAME)
        fill_same(dataflow, relation, rule);
    if (rule->faults != 0)
        return sp_fail_memory(err);
    *ret_rule = rule;
    return SP_OK;
}

struct sp_rules *sp_dataflow_rules(const struct sp_dataflow *dataflow)
{
    struct sp_dataflow_rules *rules = dataflow->rules;
    if (rules->kept == NULL)
        rules->kept = sp_rules_create(rules->arena, dataflow->model->hash_seed,
                                      SP_FREE_RULE_UNITS + dataflow->model->size / SP_RULE_UNIT_BYTES);
    return rules->kept;
}

/* Keeps a rule of this relation, if there is room. */
static enum sp_status keep(const struct sp_dataflow *dataflow, const struct sp_relation *relation,
                           const struct sp_rule *rule, struct sp_error *err)
{
    struct sp_dataflow_rules *rules = dataflow->rules;
    if (rules->of == NULL)
        rules->of = SP_NEW_ARRAY(rules->arena, dataflow->relation_count, struct sp_rule *);
    if (rules->of == NULL || sp_dataflow_rules(dataflow) == NULL)
        return sp_fail_memory(err);
    return sp_rules_keep(rules->kept, rule, &rules->of[relation->id], err);
}

bool sp_dataflow_has_rule(const struct sp_dataflow *dataflow, const struct sp_relation *relation)
{
    return dataflow->rules->of != NULL && dataflow->rules->of[relation->id] != NULL;
}

enum sp_status sp_dataflow_rule(const struct sp_dataflow *dataflow, const struct sp_relation *relation,
                                struct sp_arena *arena, struct sp_rule **ret_rule, struct sp_error *err)
{
    struct sp_rule *rule = NULL;
    enum sp_status status = SP_OK;
    if (!sp_dataflow_has_rule(dataflow, relation)) {
        status = make_rule(dataflow, relation, arena, &rule, err);
        if (status == SP_OK)
            status = keep(dataflow, relation, rule, err);
    }
    if (status == SP_OK)
        *ret_rule = sp_dataflow_has_rule(dataflow, relation) ? dataflow->rules->of[relation->id] : rule;
    return status;
}

enum sp_status sp_dataflow_keep_rule(const struct sp_dataflow *dataflow, const struct sp_relation *relation,
                                     struct sp_arena *scratch, const struct sp_rule **ret_rule, struct sp_error *err)
{
    struct sp_rule *rule = NULL;
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    enum sp_status status = sp_dataflow_rule(dataflow, relation, scratch, &rule, err);
    if (status == SP_OK)
        *ret_rule = sp_dataflow_has_rule(dataflow, relation) ? rule : NULL;
    sp_arena_rewind(scratch, mark);
    return status;
}
