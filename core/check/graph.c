/* What onnx.checker checks of a model: the walk over its graphs. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "check/graph_internal.h"
#include "onnx/reader.h"

static enum sp_status push_graph(struct sp_graph_check *check, const struct sp_graph *graph)
{
    if (!SP_MAKE_ROOM(NULL, check->graphs, check->graph_count, check->graph_capacity, 1))
        return sp_fail_memory(check->err);
    check->graphs[check->graph_count++] = graph;
    return SP_OK;
}

static enum sp_status push_subgraphs(struct sp_graph_check *check, const struct sp_node *node)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const struct sp_attribute *attribute = &node->attributes[i];
        for (uint32_t k = 0; status == SP_OK && attribute->graphs != NULL && k < attribute->count; k++)
            status = push_graph(check, attribute->graphs[k]);
    }
    return status;
}

/* ---- one graph ------------------------------------------------------------------------------------------------ */

/* Before IR 4 the initializers of a graph are defaults of its inputs. */
static enum sp_status check_initializers_are_inputs(struct sp_graph_check *check, const struct sp_graph *graph)
{
    struct sp_arena_mark mark = sp_arena_mark(check->scratch);
    bool *by_id = SP_NEW_ARRAY(check->scratch, graph->value_count, bool);
    enum sp_status status = by_id == NULL ? sp_fail_memory(check->err) : SP_OK;
    for (uint32_t i = 0; by_id != NULL && i < graph->input_count; i++) {
        if (graph->inputs[i]->id < graph->value_count)
            by_id[graph->inputs[i]->id] = true;
    }
    for (uint32_t i = 0; status == SP_OK && i < graph->initializer_count; i++) {
        const struct sp_value *value = graph->initializers[i];
        if (value->id < graph->value_count && by_id[value->id])
            continue;
        struct sp_finding finding = {.code = "INITIALIZER_NOT_INPUT", .graph = graph, .tensor = value->name};
        status = sp_diagnose(check->list, &finding, check->err,
                             "Initializer '%.120s' is no input of graph '%.80s', as IR version %lld requires.",
                             value->name, graph->name, (long long)check->model->ir_version);
    }
    sp_arena_rewind(check->scratch, mark);
    return status;
}

static enum sp_status check_graph_itself(struct sp_graph_check *check, const struct sp_graph *graph)
{
    const struct sp_model *model = check->model;
    const bool is_body = check->function != NULL && graph->parent == NULL;
    enum sp_status status = SP_OK;
    if (!is_body && (graph->name == NULL || graph->name[0] == '\0')) {
        struct sp_finding finding = {.code = "UNNAMED_GRAPH", .graph = graph};
        status = sp_diagnose(check->list, &finding, check->err, "%s has no name.",
                             graph->parent == NULL ? "The main graph" : "A subgraph");
    }
    if (status == SP_OK && model->has_ir_version && model->ir_version <= 3)
        status = check_initializers_are_inputs(check, graph);
    for (uint32_t i = 0; status == SP_OK && i < graph->initializer_count; i++) {
        const struct sp_value *value = graph->initializers[i];
        if (value->tensor != NULL)
            status = sp_check_tensor(check, graph, NULL, value->tensor);
        else if (value->sparse != NULL)
            status = sp_check_sparse(check, graph, NULL, value->sparse);
        if (status == SP_OK && value->is_listed_again) {
            struct sp_finding finding = {.code = "DUPLICATE_NAME", .tensor = value->name};
            status = sp_diagnose(check->list, &finding, check->err,
                                 "Graph '%.80s' has two initializers named '%.120s'.", graph->name, value->name);
        }
    }
    return status;
}

static enum sp_status check_nodes(struct sp_graph_check *check, const struct sp_graph *graph)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        const struct sp_value *early = sp_node_early_input(node);
        status = sp_check_node(check, node);
        if (status == SP_OK && early != NULL) {
            struct sp_finding finding = {.code = "NOT_TOPOLOGICAL", .node = node, .tensor = early->name};
            status = sp_diagnose(check->list, &finding, check->err,
                                 "The node stands before the node that makes its input '%.120s'.", early->name);
        }
        if (status == SP_OK && check->function != NULL)
            status = sp_check_function_node(check, node);
        if (status == SP_OK)
            status = push_subgraphs(check, node);
    }
    return status;
}

/* The graph and all below it. */
static enum sp_status check_root(struct sp_graph_check *check, const struct sp_graph *root)
{
    check->graph_count = 0;
    enum sp_status status = push_graph(check, root);
    for (uint32_t i = 0; status == SP_OK && i < check->graph_count; i++) {
        status = check_graph_itself(check, check->graphs[i]);
        if (status == SP_OK)
            status = check_nodes(check, check->graphs[i]);
    }
    return status;
}

/* ---- functions ------------------------------------------------------------------------------------------------ */

static enum sp_status check_body(struct sp_graph_check *check, const struct sp_function *function)
{
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(check->model->arena));
    struct sp_graph *body = NULL;
    if (arena == NULL)
        return sp_fail_memory(check->err);
    enum sp_status status = sp_onnx_body(check->model, arena, function, &body, check->err);
    if (status == SP_OK) {
        const uint32_t first = check->list->count;
        check->function = function;
        status = check_root(check, body);
        check->function = NULL;
        /* The body goes: findings keep its places as text. */
        for (uint32_t i = first; i < check->list->count; i++)
            check->list->items[i].node = NULL;
    }
    sp_arena_destroy(arena);
    return status;
}

static enum sp_status check_functions(struct sp_graph_check *check)
{
    const struct sp_model *model = check->model;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < model->function_count; i++) {
        status = sp_check_function(check, &model->functions[i]);
        if (status == SP_OK)
            status = check_body(check, &model->functions[i]);
        /* What was found for its nodes goes with them: the next body may lie where this one lay. */
        struct sp_arena *arena = check->operators.arena;
        sp_arena_rewind(arena, (struct sp_arena_mark){0});
        check->operators = (struct sp_hash_map){.arena = arena};
    }
    return status;
}

enum sp_status sp_check_graph(struct sp_model *model, struct sp_diagnostics *list, struct sp_error *err)
{
    struct sp_graph_check check = {.model = model, .list = list, .err = err};
    check.scratch = sp_arena_create(sp_arena_budget(model->arena));
    check.operators.arena = sp_arena_create(sp_arena_budget(model->arena));
    enum sp_status status =
        check.scratch == NULL || check.operators.arena == NULL ? sp_fail_memory(err) : sp_check_model_fields(&check);
    if (status == SP_OK)
        status = sp_check_interface(&check);
    if (status == SP_OK)
        status = check_root(&check, model->graph);
    if (status == SP_OK)
        status = check_functions(&check);
    sp_arena_destroy(check.operators.arena);
    free(check.graphs);
    sp_arena_destroy(check.scratch);
    return status;
}
