/*
 * Evaluation of one program, node by node.
 */
#include "verify/programs.h"

#include <string.h>

#include "base/limits.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"

#define ASSUMED_EXTENT 3 /* of a dimension that nobody gives */

static enum sp_status pass_over(void *context, const struct sp_node *node, const struct sp_error *error)
{
    (void)context;
    (void)node;
    (void)error;
    return SP_OK;
}

static int64_t choose_extent(void *context, uint32_t index, int64_t upper)
{
    (void)context;
    (void)index;
    return upper >= 0 && upper < ASSUMED_EXTENT ? upper : ASSUMED_EXTENT;
}

static enum sp_status read_model(struct sp_verification *all, struct sp_verify_run *run, const void *bytes,
                                 uint64_t size, struct sp_read_options options, struct sp_error *err)
{
    const struct sp_shape_options shapes = {.watch = options.watch, .report = pass_over};
    const struct sp_dim_chooser chooser = {NULL, choose_extent};
    struct sp_shape_summary summary;
    enum sp_status status = sp_onnx_read(all->arena, bytes, size, &options, &run->model, err);
    if (status == SP_OK)
        status = sp_infer_shapes_with(run->model, &shapes, &summary, err);
    if (status == SP_OK)
        sp_dims_estimate(run->model->dims, &chooser);
    return status;
}

/* What a dimension of the original was when the ranks' models were made; -1 where no manifest says it. */
static int64_t extent_when_made(const json_t *inputs, const struct sp_model *model, uint32_t symbol)
{
    const struct sp_graph *graph = model->graph;
    for (uint32_t i = 0; graph != NULL && i < graph->input_count; i++) {
        const struct sp_value *value = graph->inputs[i];
        const json_t *shape = NULL;
        size_t at;
        const json_t *input;
        json_array_foreach(inputs, at, input)
        {
            const char *name = json_string_value(json_object_get(input, "name"));
            if (name != NULL && strcmp(name, value->name) == 0)
                shape = json_object_get(input, "shape");
        }
        for (uint32_t k = 0; json_array_size(shape) == value->type.shape.rank && k < value->type.shape.rank; k++) {
            uint32_t index;
            const json_t *extent = json_array_get(shape, k);
            if (sp_dim_is_symbol(model->dims, value->type.shape.dims[k], &index) && index == symbol &&
                json_is_integer(extent) && json_integer_value(extent) >= 0)
                return json_integer_value(extent);
        }
    }
    return -1;
}

/* What a rank's dimension is: that of the original's input of the same name that has it, or as assumed. */
static int64_t extent_of(const struct sp_verification *all, const struct sp_model *model, uint32_t symbol)
{
    const struct sp_graph *own = model->graph, *whole = all->original.model != NULL ? all->original.model->graph : NULL;
    const int64_t made = whole == own ? extent_when_made(all->request->inputs, model, symbol) : -1;
    if (made >= 0)
        return made;
    for (uint32_t i = 0; whole != NULL && i < own->input_count; i++) {
        const struct sp_shape *shape = &own->inputs[i]->type.shape;
        const struct sp_value *other = sp_original_value(all, own->inputs[i]->name);
        for (uint32_t k = 0; other != NULL && other->type.shape.rank == shape->rank && k < shape->rank; k++) {
            uint32_t index;
            const int64_t extent = sp_dim_estimate(other->type.shape.dims[k]);
            if (sp_dim_is_symbol(model->dims, shape->dims[k], &index) && index == symbol && extent >= 0)
                return extent;
        }
    }
    return sp_dims_symbol_is_fresh(model->dims, symbol) ? -1 : ASSUMED_EXTENT;
}

/* The options with each dimension bound that the model's file names and nobody gives; false where there is none. */
static bool bind_open(struct sp_verification *all, const struct sp_model *model, struct sp_read_options *options)
{
    const uint32_t symbols = sp_dims_symbol_count(model->dims);
    const size_t room = (size_t)symbols + options->binding_count;
    const char **names = SP_NEW_ARRAY(all->arena, room, const char *);
    int64_t *values = SP_NEW_ARRAY(all->arena, room, int64_t);
    uint32_t count = options->binding_count;
    if (names == NULL || values == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        names[i] = options->binding_names[i];
        values[i] = options->binding_values[i];
    }
    for (uint32_t i = 0; i < symbols; i++) {
        if ((values[count] = extent_of(all, model, i)) >= 0)
            names[count++] = sp_dims_symbol_name(model->dims, i);
    }
    const bool has_any = count > options->binding_count;
    options->binding_count = count;
    options->binding_names = names;
    options->binding_values = values;
    return has_any;
}

enum sp_status sp_run_open(struct sp_verification *all, struct sp_verify_run *run, const void *bytes, uint64_t size,
                           struct sp_error *err)
{
    const struct sp_verify_request *request = all->request;
    struct sp_read_options options = {.watch = request->watch,
                                      .hash_seed = request->hash_seed,
                                      .binding_count = request->binding_count,
                                      .binding_names = request->binding_names,
                                      .binding_values = request->binding_values};
    run->outcomes.arena = all->arena;
    if (run->program == NULL && request->model != NULL) {
        run->model = request->model;
        return SP_OK;
    }
    options.given = run->program == NULL ? request->given : NULL;
    enum sp_status status = read_model(all, run, bytes, size, options, err);
    if (status == SP_OK && bind_open(all, run->model, &options))
        status = read_model(all, run, bytes, size, options, err);
    if (status != SP_OK && run->program != NULL)
        return sp_error_at(err, "%s", run->program->name);
    return status;
}

static enum sp_status give_all(struct sp_verification *all, struct sp_verify_run *run, const struct sp_node *node,
                               const struct sp_outcome *outcome, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++) {
        if (node->outputs[i] != NULL)
            status = sp_run_set(all, run, node->outputs[i], *outcome, err);
    }
    return status;
}

/* A branch of an If whose condition is known, or the body of a call, in whose nodes a run is. */
struct inner {
    struct sp_node *node; /* in whose place it stands */
    struct sp_graph *graph;
    uint32_t next; /* node of the graph */
};

/* Gives the inputs of a body what the node's came to. */
static enum sp_status enter(struct sp_verification *all, struct sp_verify_run *run, const struct inner *inner,
                            struct sp_error *err)
{
    const struct sp_node *node = inner->node;
    const struct sp_graph *graph = inner->graph;
    const struct sp_outcome *outcome;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && graph == node->body && i < graph->input_count; i++) {
        status = sp_run_operand(all, run, i < node->input_count ? node->inputs[i] : NULL, &outcome, err);
        if (status == SP_OK && outcome != NULL)
            status = sp_run_set(all, run, graph->inputs[i], *outcome, err);
    }
    return status;
}

/* Makes the results of the graph the node's. */
static enum sp_status leave(struct sp_verification *all, struct sp_verify_run *run, const struct inner *inner,
                            struct sp_error *err)
{
    const struct sp_node *node = inner->node;
    const struct sp_graph *graph = inner->graph;
    const struct sp_outcome *outcome;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->output_count && i < node->output_count; i++) {
        status = sp_run_operand(all, run, graph->outputs[i], &outcome, err);
        if (status == SP_OK && outcome != NULL && node->outputs[i] != NULL)
            status = sp_run_set(all, run, node->outputs[i], *outcome, err);
    }
    return status;
}

/* The graph that stands in the node's place, or NULL. */
static struct sp_graph *inner_graph(struct sp_verify_run *run, struct sp_node *node)
{
    if (node->body != NULL || !sp_node_is(node, "If") || node->input_count != 1)
        return node->body;
    const struct sp_outcome *condition = sp_run_outcome(run, node->inputs[0]);
    if (condition == NULL || condition->numbers == NULL || condition->numbers->count != 1 ||
        !condition->numbers->is_known)
        return NULL;
    const struct sp_attribute *branch =
        sp_node_attribute(node, condition->numbers->items[0].field != 0 ? "then_branch" : "else_branch");
    return branch != NULL && branch->type == SP_ATTR_GRAPH && branch->count == 1 ? branch->graphs[0] : NULL;
}

/* ---- what was computed already ---------------------------------------------------------------------------------- */

/* A node that was evaluated. One with the same operator, attributes and operands makes the same numbers. */
struct computed {
    const struct sp_node *node;
    int64_t version;
    uint64_t attributes; /* digest */
    const struct sp_numbers *const *in;
    struct sp_numbers *const *out;
};

static uint64_t digest_attribute(const struct sp_attribute *a)
{
    const double f = a->f;
    uint64_t digest = sp_digest(a->name, strlen(a->name), (uint64_t)a->type);
    digest = sp_digest(&a->i, sizeof a->i, digest);
    digest = sp_digest(&f, sizeof f, digest);
    digest = sp_digest(a->s.bytes != NULL ? a->s.bytes : "", a->s.size, digest);
    if (a->ints != NULL)
        digest = sp_digest(a->ints, a->count * sizeof *a->ints, digest);
    if (a->floats != NULL)
        digest = sp_digest(a->floats, a->count * sizeof *a->floats, digest);
    for (uint32_t k = 0; a->strings != NULL && k < a->count; k++)
        digest = sp_digest(a->strings[k].bytes, a->strings[k].size, digest);
    return digest;
}

/* Of the attributes, and of the results' types, which shapes that are not computed are taken from; false for a node that
   is not looked up. */
static bool digest_node(const struct sp_node *node, uint64_t *ret)
{
    *ret = node->output_count;
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const struct sp_attribute *a = &node->attributes[i];
        if (a->type == SP_ATTR_GRAPH || a->graphs != NULL || a->tensors != NULL)
            return false;
        *ret = sp_scramble(*ret ^ digest_attribute(a));
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const struct sp_type *type = node->outputs[i] != NULL ? &node->outputs[i]->type : NULL;
        *ret = sp_scramble(*ret ^ (type != NULL ? (uint64_t)type->dtype + 1 : 0));
        for (uint32_t k = 0; type != NULL && type->shape.has_rank && k < type->shape.rank; k++)
            *ret =
                sp_scramble(*ret ^ (uint64_t)(sp_dim_is_known(type->shape.dims[k]) ? type->shape.dims[k].value : -1));
    }
    return node->input_count > 0;
}

static bool are_same(const struct sp_numbers *a, const struct sp_numbers *b)
{
    if (a == NULL || b == NULL || a == b)
        return a == b;
    if (a->items != b->items || a->rank != b->rank || a->dtype != b->dtype || a->is_known != b->is_known)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (!sp_index_equal(&a->axes[i], &b->axes[i]))
            return false;
    }
    return true;
}

static bool is_repeated(const struct computed *old, const struct sp_call *call, uint64_t attributes)
{
    if (old->attributes != attributes || old->version != call->version ||
        old->node->input_count != call->node->input_count || old->node->output_count != call->node->output_count ||
        strcmp(old->node->op_type, call->node->op_type) != 0 || strcmp(old->node->domain, call->node->domain) != 0)
        return false;
    for (uint32_t i = 0; i < call->in_count; i++) {
        if (!are_same(old->in[i], call->in[i]))
            return false;
    }
    return true;
}

/* The indices of an axis: an operand's, or a copy. */
static bool keep_axis(struct sp_verification *all, const struct sp_call *call, struct sp_index_axis *axis)
{
    if (axis->at == NULL)
        return true;
    for (uint32_t i = 0; i < call->in_count; i++) {
        for (uint32_t k = 0; call->in[i] != NULL && k < call->in[i]->rank; k++) {
            if (call->in[i]->axes[k].at == axis->at)
                return true;
        }
    }
    int64_t *at = SP_NEW_ARRAY(all->arena, axis->count, int64_t);
    if (at != NULL && axis->count > 0)
        memcpy(at, axis->at, axis->count * sizeof *at);
    axis->at = at;
    return at != NULL;
}

/* What a node made, out of the scratch arena; what it only views of an operand is not copied. */
static struct sp_numbers *keep(struct sp_verification *all, const struct sp_call *call, const struct sp_numbers *x)
{
    struct sp_numbers *own = SP_NEW(all->arena, struct sp_numbers);
    struct sp_index_axis *axes = SP_NEW_ARRAY(all->arena, x->rank, struct sp_index_axis);
    bool is_view = false;
    if (own == NULL || axes == NULL)
        return NULL;
    *own = *x;
    own->axes = axes;
    for (uint32_t i = 0; i < x->rank; i++) {
        axes[i] = x->axes[i];
        if (!keep_axis(all, call, &axes[i]))
            return NULL;
    }
    bool has_minuend = false, has_subtrahend = false;
    for (uint32_t i = 0; i < call->in_count; i++) {
        is_view = is_view || (call->in[i] != NULL && call->in[i]->items == x->items);
        has_minuend = has_minuend || call->in[i] == x->minuend;
        has_subtrahend = has_subtrahend || call->in[i] == x->subtrahend;
    }
    if (!is_view && !(has_minuend && has_subtrahend)) /* they were made on the way */
        own->minuend = own->subtrahend = NULL;
    if (is_view)
        return own;
    if ((own->items = SP_NEW_ARRAY(all->arena, x->count, struct sp_number)) == NULL)
        return NULL;
    if (x->count > 0)
        memcpy(own->items, x->items, x->count * sizeof *own->items);
    if (x->radicands == NULL)
        return own;
    struct sp_number *radicands = SP_NEW_ARRAY(all->arena, x->count, struct sp_number);
    if (radicands != NULL && x->count > 0)
        memcpy(radicands, x->radicands, x->count * sizeof *radicands);
    own->radicands = radicands;
    return radicands != NULL ? own : NULL;
}

/* Evaluates a node; what it needs meanwhile is given back. */
static enum sp_status evaluate_in_scratch(struct sp_verification *all, struct sp_call *call)
{
    const struct sp_arena_mark mark = sp_arena_mark(all->scratch);
    call->arena = all->scratch;
    enum sp_status status = sp_evaluate_node(call);
    for (uint32_t i = 0; status == SP_OK && i < call->out_count; i++) {
        if (call->out[i] != NULL && (call->out[i] = keep(all, call, call->out[i])) == NULL)
            status = sp_fail_memory(call->err);
    }
    sp_arena_rewind(all->scratch, mark);
    return status;
}

/* Evaluates a node, or takes what the same one made before. */
static enum sp_status compute(struct sp_verification *all, struct sp_call *call)
{
    uint64_t attributes, key;
    const bool is_looked_up = digest_node(call->node, &attributes);
    key = attributes ^ sp_digest(call->node->op_type, strlen(call->node->op_type), 1);
    for (uint32_t i = 0; i < call->in_count; i++)
        key = sp_scramble(key ^ (call->in[i] != NULL ? (uint64_t)(uintptr_t)call->in[i]->items : 1));
    struct sp_hash_slot *slot = is_looked_up ? sp_hash_map_get(&all->computed, key) : NULL;
    if (slot != NULL && is_repeated(slot->item, call, attributes)) {
        const struct computed *old = slot->item;
        for (uint32_t i = 0; i < call->out_count; i++)
            call->out[i] = old->out[i];
        return SP_OK;
    }
    enum sp_status status = evaluate_in_scratch(all, call);
    if (status != SP_OK || !is_looked_up || slot != NULL)
        return status;
    struct computed *made = SP_NEW(all->arena, struct computed);
    all->computed.arena = all->arena;
    slot = sp_hash_map_put(&all->computed, key);
    if (made == NULL || slot == NULL)
        return sp_fail_memory(call->err);
    *made = (struct computed){call->node, call->version, attributes, call->in, call->out};
    slot->item = made;
    return SP_OK;
}

static enum sp_status evaluate(struct sp_verification *all, struct sp_verify_run *run, struct sp_node *node,
                               const struct sp_numbers **in, struct sp_error *err)
{
    struct sp_error why = {0};
    struct sp_outcome outcome = {.at = node, .run = run};
    struct sp_call call = {.model = run->model,
                           .node = node,
                           .version = node->version > 0 ? node->version : sp_graph_opset(node->graph, node->domain),
                           .in_count = node->input_count,
                           .out_count = node->output_count,
                           .in = in,
                           .sets = &all->sets,
                           .err = &why};
    if ((call.out = SP_NEW_ARRAY(all->arena, node->output_count, struct sp_numbers *)) == NULL)
        return sp_fail_memory(err);
    enum sp_status status = compute(all, &call);
    if (status == SP_ERR_MEMORY)
        return sp_fail_memory(err);
    if (status != SP_OK) {
        outcome.is_wrong = status == SP_ERR_MODEL;
        outcome.why = sp_arena_printf(all->arena, "%s", why.message);
        return outcome.why != NULL ? give_all(all, run, node, &outcome, err) : sp_fail_memory(err);
    }
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++) {
        if (node->outputs[i] == NULL)
            continue;
        outcome.numbers = call.out[i];
        outcome.why = call.out[i] != NULL ? NULL : "this result of the operator is not evaluated";
        status = sp_run_set(all, run, node->outputs[i], outcome, err);
    }
    return status;
}

/* Evaluates a node, or where a graph stands in its place, and there may be one, says which: *ret_inner is NULL else. */
static enum sp_status begin_node(struct sp_verification *all, struct sp_verify_run *run, struct sp_node *node,
                                 bool may_enter, struct sp_graph **ret_inner, struct sp_error *err)
{
    const struct sp_numbers **in = SP_NEW_ARRAY(all->arena, node->input_count, const struct sp_numbers *);
    const struct sp_outcome *missing = NULL;
    enum sp_status status = in != NULL ? SP_OK : sp_fail_memory(err);
    *ret_inner = NULL;
    if (status == SP_OK && all->request->watch != NULL)
        status = sp_watch_tick(all->request->watch, "verify", 0, 0, 0)
                     ? SP_OK
                     : sp_fail(err, SP_ERR_CANCELLED, "CANCELLED", "The verification was cancelled.");
    for (uint32_t i = 0; status == SP_OK && i < node->input_count; i++) {
        const struct sp_outcome *outcome;
        status = sp_run_operand(all, run, node->inputs[i], &outcome, err);
        if (status != SP_OK || outcome == NULL)
            continue;
        in[i] = outcome->numbers;
        missing = missing == NULL && in[i] == NULL ? outcome : missing;
    }
    if (status != SP_OK)
        return status;
    if (!SP_MAKE_ROOM(all->arena, run->order, run->order_count, run->order_capacity, 1))
        return sp_fail_memory(err);
    run->order[run->order_count++] = node;
    *ret_inner = may_enter ? inner_graph(run, node) : NULL;
    if (*ret_inner != NULL)
        return SP_OK;
    return missing != NULL ? give_all(all, run, node, missing, err) : evaluate(all, run, node, in, err);
}

/* A node of the main graph, with all nodes of graphs that stand in its place. */
static enum sp_status run_node(struct sp_verification *all, struct sp_verify_run *run, struct sp_node *node,
                               struct sp_error *err)
{
    struct inner stack[SP_MAX_NESTING]; /* each in a node of the one before it */
    uint32_t depth = 0;
    struct sp_graph *graph;
    enum sp_status status = begin_node(all, run, node, true, &graph, err);
    while (status == SP_OK && (graph != NULL || depth > 0)) {
        if (graph != NULL) {
            stack[depth] = (struct inner){node, graph, 0};
            status = enter(all, run, &stack[depth++], err);
            graph = NULL;
        } else if (stack[depth - 1].next == stack[depth - 1].graph->node_count) {
            status = leave(all, run, &stack[--depth], err);
        } else {
            node = &stack[depth - 1].graph->nodes[stack[depth - 1].next++];
            status = begin_node(all, run, node, depth < SP_MAX_NESTING, &graph, err);
        }
    }
    return status;
}

/* Initializers are read where they are first used; those of a collective before others look at them. */
static enum sp_status read_operands(struct sp_verification *all, struct sp_verify_run *run, const struct sp_node *node,
                                    struct sp_error *err)
{
    const struct sp_outcome *outcome;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < node->input_count; i++)
        status = sp_run_operand(all, run, node->inputs[i], &outcome, err);
    return status;
}

enum sp_status sp_run_on(struct sp_verification *all, struct sp_verify_run *run, struct sp_error *err)
{
    const struct sp_graph *graph = run->model->graph;
    enum sp_status status = SP_OK;
    while (status == SP_OK && run->next < graph->node_count) {
        if (run->program != NULL && sp_is_collective(&graph->nodes[run->next])) {
            run->state = SP_RUN_WAITS;
            return read_operands(all, run, &graph->nodes[run->next], err);
        }
        status = run_node(all, run, &graph->nodes[run->next++], err);
    }
    run->state = SP_RUN_DONE;
    return status;
}
