/* A problem checked, and as the search reads it. */
#include <math.h>
#include <string.h>

#include "solvers/routes/internal.h"

static enum sp_status check_nodes(const struct sp_routes_problem *problem, double *most, struct sp_error *err)
{
    for (uint32_t i = 0; i < problem->node_count; i++) {
        const struct sp_routes_node *node = &problem->nodes[i];
        if (node->most == 0 || node->most > problem->layer_count || (node->stride != 0 && node->stride < node->most))
            return sp_fail(err, SP_ERR_REQUEST, "ROUTES_NODE",
                           "Node %u holds up to %u layers; it has to be from 1 to %u.", i, node->most,
                           problem->layer_count);
        const uint32_t firsts = node->stride == 0 ? 1 : problem->layer_count;
        for (uint32_t first = 0; first < firsts; first++)
            for (uint32_t k = 0; k < node->most && k + first < problem->layer_count; k++) {
                const double rate = node->rates[(size_t)first * node->stride + k];
                if (!(rate >= 0) || !isfinite(rate))
                    return sp_fail(err, SP_ERR_REQUEST, "ROUTES_RATE",
                                   "The rate of node %u with %u layers has to be finite, 0 or more.", i, k + 1);
                *most = rate > *most ? rate : *most;
            }
    }
    return SP_OK;
}

static enum sp_status check_link(const struct sp_routes_table *table, uint32_t number, double *most, uint32_t *ret_cell,
                                 struct sp_error *err)
{
    const struct sp_routes_link *link = &table->problem->links[number];
    const uint32_t from = link->from == SP_ROUTES_SOURCE ? table->nodes : link->from;
    const uint32_t to = link->to == SP_ROUTES_SINK ? table->nodes : link->to;
    const bool is_known = (from < table->nodes || link->from == SP_ROUTES_SOURCE) &&
                          (to < table->nodes || link->to == SP_ROUTES_SINK) && from != to;
    if (!is_known || table->link[(size_t)from * table->side + to] != UINT32_MAX)
        return sp_fail(err, SP_ERR_REQUEST, "ROUTES_LINK",
                       "Link %u has to join two different ends that exist, and no other link may join them.", number);
    for (uint32_t p = 0; p <= (link->by_layer == NULL ? 0 : table->layers); p++) {
        const double capacity = link->by_layer != NULL ? link->by_layer[p] : link->capacity;
        if (!(capacity >= 0) || !isfinite(capacity))
            return sp_fail(err, SP_ERR_REQUEST, "ROUTES_CAPACITY",
                           "The capacity of link %u has to be finite, 0 or more.", number);
        *most = capacity > *most ? capacity : *most;
    }
    *ret_cell = from * table->side + to;
    return SP_OK;
}

static bool are_equal_links(const struct sp_routes_table *table, uint32_t one, uint32_t other)
{
    if (one == UINT32_MAX || other == UINT32_MAX)
        return one == other;
    const struct sp_routes_link *a = &table->problem->links[one], *b = &table->problem->links[other];
    if (a->by_layer == NULL || b->by_layer == NULL || a->by_layer == b->by_layer)
        return a->by_layer == b->by_layer && (a->by_layer != NULL || a->capacity == b->capacity);
    return memcmp(a->by_layer, b->by_layer, (table->layers + 1) * sizeof *a->by_layer) == 0;
}

/* Whether nothing changes when the two nodes change places. */
static bool are_alike(const struct sp_routes_table *table, uint32_t one, uint32_t other)
{
    const struct sp_routes_node *a = &table->problem->nodes[one], *b = &table->problem->nodes[other];
    if (a->most != b->most || a->stride != b->stride)
        return false;
    const size_t rates = a->stride == 0 ? a->most : (size_t)a->stride * table->layers;
    if (a->rates != b->rates && memcmp(a->rates, b->rates, rates * sizeof *a->rates) != 0)
        return false;
    const uint32_t *link = table->link, side = table->side;
    for (uint32_t i = 0; i < side; i++)
        if (i != one && i != other &&
            (!are_equal_links(table, link[(size_t)one * side + i], link[(size_t)other * side + i]) ||
             !are_equal_links(table, link[(size_t)i * side + one], link[(size_t)i * side + other])))
            return false;
    return are_equal_links(table, link[(size_t)one * side + other], link[(size_t)other * side + one]);
}

enum sp_status sp_routes_table_create(struct sp_arena *arena, const struct sp_routes_problem *problem,
                                      struct sp_routes_table *ret_table, struct sp_error *err)
{
    if (problem->layer_count == 0 || problem->layer_count > SP_ROUTES_MAX_LAYERS || problem->node_count == 0 ||
        problem->node_count > SP_ROUTES_MAX_NODES)
        return sp_fail(err, SP_ERR_REQUEST, "ROUTES_SIZE",
                       "There are %u layers and %u nodes; there may be from 1 to %d and from 1 to %d.",
                       problem->layer_count, problem->node_count, SP_ROUTES_MAX_LAYERS, SP_ROUTES_MAX_NODES);
    struct sp_routes_table table = {.problem = problem,
                                    .layers = problem->layer_count,
                                    .nodes = problem->node_count,
                                    .side = problem->node_count + 1};
    const size_t cells = (size_t)table.side * table.side;
    table.link = SP_NEW_ARRAY(arena, cells, uint32_t);
    table.kind_of = SP_NEW_ARRAY(arena, table.nodes, uint32_t);
    if (table.link == NULL || table.kind_of == NULL)
        return sp_fail_memory(err);
    memset(table.link, 0xff, cells * sizeof *table.link);
    double rate = 0, capacity = 0;
    enum sp_status status = check_nodes(problem, &rate, err);
    for (uint32_t i = 0; i < problem->link_count && status == SP_OK; i++) {
        uint32_t cell = 0;
        status = check_link(&table, i, &capacity, &cell, err);
        if (status == SP_OK)
            table.link[cell] = i;
    }
    if (status != SP_OK)
        return status;
    table.most = rate < capacity ? rate : capacity;
    table.is_ample = problem->link_count == cells - table.side;
    for (uint32_t i = 0; i < problem->link_count && table.is_ample; i++)
        table.is_ample = problem->links[i].by_layer == NULL && problem->links[i].capacity >= rate * problem->node_count;
    for (uint32_t i = 0; i < table.nodes; i++)
        for (table.kind_of[i] = 0; table.kind_of[i] < i; table.kind_of[i]++)
            if (table.kind_of[table.kind_of[i]] == table.kind_of[i] && are_alike(&table, table.kind_of[i], i))
                break;
    *ret_table = table;
    return SP_OK;
}
