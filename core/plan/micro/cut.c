/* Which dimension is the batch, and whether a model may be cut along it. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "infer/forward.h"
#include "onnx/reader.h"
#include "plan/internal.h"
#include "plan/micro/micro.h"

#define POINTER "/options/micro_batches"

struct cutting {
    struct sp_arena *arena, *scratch;
    const struct sp_micro_request *request;
    struct sp_model *open; /* with nothing bound */
    uint32_t symbol;
    struct sp_cut_tensor *inputs, *outputs;
    struct sp_micro_batches made;
    struct sp_error *err;
};

static const struct sp_shape *shape_of(const struct sp_type *type)
{
    return type->kind == SP_TYPE_TENSOR && type->shape.has_rank ? &type->shape : NULL;
}

static enum sp_status mixed(const struct cutting *c, const char *what, const char *name, const char *why)
{
    (void)sp_fail(
        c->err, SP_ERR_REQUEST, "MICRO_BATCHES_MIXED",
        "The model cannot be cut in micro-batches along '%.80s': %s '%.200s' mixes parts of the batch%s%.600s",
        c->made.dimension, what, name, why != NULL ? ": " : ".", why != NULL ? why : "");
    return sp_error_at(c->err, POINTER);
}

/* ---- the symbol --------------------------------------------------------------------------------------------------- */

const char *sp_batch_symbol(const struct sp_model *open, uint32_t *ret_symbol)
{
    const struct sp_graph *graph = open->graph;
    const char *found = NULL;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const struct sp_shape *shape = shape_of(&graph->inputs[i]->declared);
        for (uint32_t axis = 0; shape != NULL && sp_is_request_input(graph->inputs[i]) && axis < shape->rank; axis++) {
            uint32_t symbol;
            if (!sp_dim_is_symbol(open->dims, shape->dims[axis], &symbol))
                continue;
            const char *name = sp_dims_symbol_name(open->dims, symbol);
            const bool is_named = strcasestr(name, "batch") != NULL;
            if (!is_named && (axis > 0 || found != NULL))
                continue;
            found = name;
            *ret_symbol = symbol;
            if (is_named)
                return found;
        }
    }
    return found;
}

static enum sp_status find_symbol(struct cutting *c)
{
    c->made.dimension = sp_batch_symbol(c->open, &c->symbol);
    if (c->made.dimension != NULL)
        return SP_OK;
    (void)sp_fail(c->err, SP_ERR_REQUEST, "MICRO_BATCHES_FIXED",
                  "No dimension of the model's inputs is a symbol that may be the batch: micro-batches need a model "
                  "that is exported with a symbolic batch.");
    return sp_error_at(c->err, POINTER);
}

/* Whether the symbol is a part of a dimension that is not the symbol itself. */
static enum sp_status is_inside(const struct cutting *c, struct sp_dim dim, bool *ret_inside)
{
    bool *marks = SP_NEW_ARRAY(c->scratch, sp_dims_symbol_count(c->open->dims), bool);
    if (marks == NULL)
        return sp_fail_memory(c->err);
    sp_dim_mark(dim);
    sp_dims_take_marks(c->open->dims, marks);
    *ret_inside = marks[c->symbol];
    return SP_OK;
}

static enum sp_status find_axis(const struct cutting *c, const struct sp_value *input, uint32_t *ret_axis)
{
    const struct sp_shape *shape = shape_of(&input->declared);
    *ret_axis = SP_CUT_WHOLE;
    for (uint32_t axis = 0; shape != NULL && axis < shape->rank; axis++) {
        uint32_t symbol;
        bool is_part = false;
        if (sp_dim_is_symbol(c->open->dims, shape->dims[axis], &symbol)) {
            if (symbol != c->symbol)
                continue;
            if (*ret_axis != SP_CUT_WHOLE)
                return mixed(c, "the input", input->name, "it has the batch on two axes.");
            *ret_axis = axis;
            continue;
        }
        if (shape->dims[axis].kind != SP_DIM_SYMBOLIC)
            continue;
        enum sp_status status = is_inside(c, shape->dims[axis], &is_part);
        if (status != SP_OK)
            return status;
        if (is_part)
            return mixed(c, "the input", input->name, "one of its dimensions is made of the batch and something else.");
    }
    return SP_OK;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------- */

static enum sp_status take_extent(struct cutting *c, const struct sp_value *whole, struct sp_cut_tensor *tensor)
{
    const struct sp_shape *shape = shape_of(&whole->type);
    const uint32_t count = c->request->count;
    if (shape == NULL || !sp_dim_is_known(shape->dims[tensor->axis]))
        return mixed(c, "the tensor", whole->name, "its size is not known.");
    const int64_t extent = shape->dims[tensor->axis].value;
    if (c->made.batch == 0)
        c->made.batch = extent;
    if (extent % count != 0 || extent == 0) {
        (void)sp_fail(c->err, SP_ERR_REQUEST, "MICRO_BATCHES_UNEVEN",
                      "A batch of %" PRId64 " ('%.80s') cannot be cut in %u equal micro-batches: give a number that "
                      "divides it, or another batch.",
                      extent, c->made.dimension, count);
        return sp_error_at(c->err, POINTER);
    }
    tensor->extent = extent / count;
    return SP_OK;
}

static enum sp_status find_inputs(struct cutting *c)
{
    const struct sp_graph *graph = c->open->graph;
    c->inputs = SP_NEW_ARRAY(c->arena, graph->input_count, struct sp_cut_tensor);
    if (c->inputs == NULL)
        return sp_fail_memory(c->err);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const struct sp_value *input = graph->inputs[i];
        const struct sp_value *whole = sp_graph_value(c->request->whole->graph, input->name);
        if (!sp_is_request_input(input) || whole == NULL)
            continue;
        struct sp_cut_tensor *tensor = &c->inputs[c->made.cuts.input_count];
        *tensor = (struct sp_cut_tensor){.name = whole->name};
        enum sp_status status = find_axis(c, input, &tensor->axis);
        if (status == SP_OK && tensor->axis != SP_CUT_WHOLE)
            status = take_extent(c, whole, tensor);
        if (status != SP_OK)
            return status;
        c->made.cuts.input_count++;
    }
    return SP_OK;
}

/* A state that all micro-batches had in common would be another one behind each. */
static enum sp_status check_states(struct cutting *c)
{
    struct sp_states states;
    enum sp_status status = sp_model_states(c->scratch, c->request->whole, &states, c->err);
    for (uint32_t i = 0; status == SP_OK && i < states.count; i++) {
        for (uint32_t t = 0; t < c->made.cuts.input_count; t++) {
            if (strcmp(c->inputs[t].name, states.items[i].past->name) == 0 && c->inputs[t].axis == SP_CUT_WHOLE)
                return mixed(c, "the state", c->inputs[t].name, "it has no axis of the batch.");
        }
    }
    return status;
}

/* ---- whether parts are independent --------------------------------------------------------------------------------- */

static enum sp_status split_inputs(struct cutting *c, struct sp_set_specs *ret_sets)
{
    struct sp_mesh_axis axis = {"micro_batch", c->request->count};
    struct sp_set_spec *sets = SP_NEW_ARRAY(c->scratch, c->made.cuts.input_count, struct sp_set_spec);
    struct sp_axis_ref *refs = SP_NEW_ARRAY(c->scratch, 1, struct sp_axis_ref);
    struct sp_mesh *mesh;
    if (sets == NULL || refs == NULL)
        return sp_fail_memory(c->err);
    enum sp_status status = sp_mesh_create(c->scratch, 1, &axis, NULL, &mesh, c->err);
    for (uint32_t i = 0; status == SP_OK && i < c->made.cuts.input_count; i++) {
        const struct sp_cut_tensor *tensor = &c->inputs[i];
        const struct sp_value *value = sp_graph_value(c->request->whole->graph, tensor->name);
        struct sp_sharding *sharding;
        if (tensor->axis == SP_CUT_WHOLE || value == NULL)
            continue;
        status = sp_sharding_create_axes(c->scratch, mesh, value->type.shape.rank, &sharding, c->err);
        if (status != SP_OK)
            return status;
        refs[0] = sp_axis_full(mesh, 0);
        sharding->dims[tensor->axis].axes = (struct sp_axis_list){1, refs};
        sets[ret_sets->count++] = (struct sp_set_spec){tensor->name, sharding};
    }
    ret_sets->items = sets;
    return status;
}

static const char *label_of(const struct sp_node *node)
{
    return node->name[0] != '\0' ? node->name : node->op_type;
}

/* What devices would have to exchange, first node first. */
static enum sp_status check_exchanges(struct cutting *c, const struct sp_assignment *assignment)
{
    struct sp_communications list = {0};
    if (assignment->stop_count > 0) {
        const struct sp_stop *stop = &assignment->stops[0];
        return mixed(c, stop->node != NULL ? "node" : "the tensor",
                     stop->node != NULL     ? label_of(stop->node)
                     : stop->tensor != NULL ? stop->tensor
                                            : "",
                     stop->message);
    }
    enum sp_status status = sp_assignment_communications(assignment, &list, c->err);
    if (status != SP_OK || list.count == 0)
        return status;
    const struct sp_communication *first = &list.items[0];
    return mixed(c, first->node != NULL ? "node" : "the output",
                 first->node != NULL ? label_of(first->node) : first->tensor, first->because);
}

/* What the outputs are split by: each part has to be where it is among the inputs. */
static enum sp_status find_output(struct cutting *c, const struct sp_assignment *assignment,
                                  const struct sp_value *value, struct sp_cut_tensor *tensor)
{
    const struct sp_dataflow *dataflow = assignment->dataflow;
    const struct sp_sharding *sharding = NULL;
    *tensor = (struct sp_cut_tensor){.name = value->name, .axis = SP_CUT_WHOLE};
    for (uint32_t i = 0; i < c->made.cuts.input_count; i++) /* one that is an input */
        if (strcmp(c->inputs[i].name, value->name) == 0)
            *tensor = c->inputs[i];
    if (value->producer != NULL)
        sharding = sp_spec_of(assignment, sp_dataflow_node(dataflow, value->producer),
                              value->producer->input_count + value->producer_output)
                       ->sharding;
    const struct sp_shape *shape = shape_of(&value->type);
    if (sharding == NULL || shape == NULL)
        return SP_OK;
    int64_t extents[SP_MAX_RANK];
    for (uint32_t axis = 0; axis < shape->rank && axis < SP_MAX_RANK; axis++) {
        extents[axis] = sp_dim_is_known(shape->dims[axis]) ? shape->dims[axis].value : -1;
        if (sp_sharding_shards(sharding, axis) <= 1)
            continue;
        if (tensor->axis != SP_CUT_WHOLE)
            return mixed(c, "the output", value->name, "it is split along two axes.");
        tensor->axis = axis;
    }
    if (tensor->axis == SP_CUT_WHOLE)
        return SP_OK;
    enum sp_status status = take_extent(c, value, tensor);
    for (uint32_t part = 0; status == SP_OK && part < c->request->count; part++) {
        struct sp_tile tile;
        bool is_found = false;
        status = sp_sharding_tile(sharding, shape->rank, extents, part, &is_found, &tile, c->err);
        const struct sp_range range = is_found ? tile.ranges[tensor->axis] : (struct sp_range){0, 0};
        if (status == SP_OK && (range.start != part * tensor->extent || range.limit != (part + 1) * tensor->extent))
            return mixed(c, "the output", value->name, "its parts are not one behind the other.");
    }
    return status;
}

static enum sp_status check(struct cutting *c)
{
    const struct sp_graph *graph = c->request->whole->graph;
    struct sp_dataflow *dataflow;
    struct sp_assignment *assignment = NULL;
    struct sp_set_specs sets = {0};
    enum sp_status status = split_inputs(c, &sets);
    if (status == SP_OK)
        status = sp_dataflow_create(c->scratch, c->request->whole, &dataflow, c->err);
    if (status == SP_OK)
        status = sp_assignment_create(c->scratch, dataflow, "", c->request->count, &sets, &assignment, c->err);
    if (status == SP_OK)
        status = sp_infer_forward(assignment, c->err);
    if (status == SP_OK)
        status = check_exchanges(c, assignment);
    c->outputs = SP_NEW_ARRAY(c->arena, graph->output_count, struct sp_cut_tensor);
    if (status == SP_OK && c->outputs == NULL)
        status = sp_fail_memory(c->err);
    for (uint32_t i = 0; status == SP_OK && i < graph->output_count; i++)
        status = find_output(c, assignment, graph->outputs[i], &c->outputs[i]);
    c->made.cuts.output_count = graph->output_count;
    return status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

enum sp_status sp_micro_find(struct sp_arena *arena, const struct sp_micro_request *request,
                             struct sp_micro_batches *ret_micro, struct sp_error *err)
{
    struct cutting c = {.arena = arena,
                        .scratch = sp_arena_create(sp_arena_budget(arena)),
                        .request = request,
                        .made = {.cuts = {.count = request->count}},
                        .err = err};
    const struct sp_read_options read = {.hash_seed = request->hash_seed, .watch = request->watch};
    if (c.scratch == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_onnx_read(c.scratch, request->file->bytes, request->file->size, &read, &c.open, err);
    if (status == SP_OK)
        status = find_symbol(&c);
    if (status == SP_OK)
        status = find_inputs(&c);
    if (status == SP_OK)
        status = check_states(&c);
    if (status == SP_OK)
        status = check(&c);
    c.made.cuts.inputs = c.inputs;
    c.made.cuts.outputs = c.outputs;
    if (status == SP_OK) {
        const struct sp_micro_batches *copy = sp_micro_copy(arena, &c.made);
        if (copy != NULL)
            *ret_micro = *copy;
        else
            status = sp_fail_memory(err);
    }
    sp_arena_destroy(c.scratch);
    return status;
}

static const struct sp_cut_tensor *copy_tensors(struct sp_arena *arena, uint32_t count,
                                                const struct sp_cut_tensor *tensors)
{
    struct sp_cut_tensor *copies = SP_NEW_ARRAY(arena, count, struct sp_cut_tensor);
    for (uint32_t i = 0; copies != NULL && i < count; i++) {
        copies[i] = tensors[i];
        copies[i].name = sp_arena_string(arena, tensors[i].name, strlen(tensors[i].name));
        if (copies[i].name == NULL)
            return NULL;
    }
    return copies;
}

struct sp_micro_batches *sp_micro_copy(struct sp_arena *arena, const struct sp_micro_batches *micro)
{
    struct sp_micro_batches *copy = SP_NEW(arena, struct sp_micro_batches);
    if (copy == NULL)
        return NULL;
    *copy = *micro;
    copy->constant_count = 0;
    copy->constants = NULL;
    copy->dimension = sp_arena_string(arena, micro->dimension, strlen(micro->dimension));
    copy->cuts.inputs = copy_tensors(arena, micro->cuts.input_count, micro->cuts.inputs);
    copy->cuts.outputs = copy_tensors(arena, micro->cuts.output_count, micro->cuts.outputs);
    return copy->dimension != NULL && copy->cuts.inputs != NULL && copy->cuts.outputs != NULL ? copy : NULL;
}

/* ---- the options of one part --------------------------------------------------------------------------------------- */

enum sp_status sp_micro_options(struct sp_arena *arena, const struct sp_plan_options *options,
                                const struct sp_micro_batches *micro, struct sp_plan_options *ret_options,
                                struct sp_error *err)
{
    const struct sp_sizes *given = &options->sizes;
    const char **names = SP_NEW_ARRAY(arena, (size_t)given->dim_count + 1, const char *);
    int64_t *values = SP_NEW_ARRAY(arena, (size_t)given->dim_count + 1, int64_t);
    uint32_t count = 0;
    if (names == NULL || values == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < given->dim_count; i++) {
        if (strcmp(given->dim_names[i], micro->dimension) == 0)
            continue;
        names[count] = given->dim_names[i];
        values[count++] = given->dim_values[i];
    }
    names[count] = micro->dimension;
    values[count++] = micro->batch / micro->cuts.count;
    *ret_options = *options;
    ret_options->batch = 0;
    ret_options->sizes.dim_count = count;
    ret_options->sizes.dim_names = names;
    ret_options->sizes.dim_values = values;
    return SP_OK;
}

enum sp_status sp_micro_check_options(const struct sp_plan_options *options, bool is_costs, struct sp_error *err)
{
    const struct {
        bool is_asked;
        const char *what;
    } others[] = {{is_costs, "a graph of costs, which has no batch"},
                  {options->what_if, "changed clusters (what if)"},
                  {options->replan != NULL, "a plan that follows another one"},
                  {options->any_sets, "any sets of nodes on devices"},
                  {options->strategy == SP_STRATEGY_ROUTES, "the strategy 'routes'"}};
    for (size_t i = 0; options->micro_batches > 1 && i < sizeof others / sizeof *others; i++) {
        if (!others[i].is_asked)
            continue;
        (void)sp_fail(err, SP_ERR_REQUEST, "MICRO_BATCHES_UNSUPPORTED",
                      "Micro-batches are not for %s: leave one of both out.", others[i].what);
        return sp_error_at(err, POINTER);
    }
    return SP_OK;
}

uint32_t sp_micro_count(const struct sp_plan_options *options, uint32_t found)
{
    const uint32_t asked = options->micro_batches == SP_MICRO_BATCHES_AUTO ? 1 : options->micro_batches;
    return found > 0 ? found : asked;
}

enum sp_status sp_micro_cut_workload(const struct sp_micro_batches *micro, struct sp_workload *workload,
                                     struct sp_error *err)
{
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (workload->nodes[n].cache == NULL)
            continue;
        (void)sp_fail(err, SP_ERR_REQUEST, "MICRO_BATCHES_UNSUPPORTED",
                      "Micro-batches are not for the constraint 'kv_cache', which is of all sequences in one step: "
                      "leave one of both out.");
        return sp_error_at(err, "/constraints/kv_cache");
    }
    sp_workload_set_micro_batches(workload, micro->cuts.count);
    return SP_OK;
}
