#include "cost/kernels/expert_loads.h"

#include <math.h>
#include <string.h>

#include "ops/table/load.h"
#include "ops/table/traffic.h"

#define NEGLIGIBLE 1e-12 /* difference of chances */

struct attaching {
    struct sp_model *model;
    struct sp_arena *scratch;
    const struct sp_given_loads *given;
    const struct sp_load **loads; /* per list: the last one that was made of it */
    bool *is_used;                /* per list */
    uint32_t layers;
    struct sp_error *err;
};

static enum sp_status refuse(struct attaching *a)
{
    return sp_error_at(a->err, "%s", a->given->where);
}

static uint32_t list_of(const struct attaching *a, const struct sp_node *node)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < a->given->count; i++) {
        const char *name = a->given->lists[i].node;
        if (name != NULL && strcmp(name, node->name) == 0)
            return i;
        found = name == NULL ? i : found;
    }
    return found;
}

/* ---- one load --------------------------------------------------------------------------------------------------- */

static bool are_alike(const struct sp_load *load)
{
    double least = load->chances[0], most = least;
    for (uint32_t e = 1; e < load->count; e++) {
        least = fmin(least, load->chances[e]);
        most = fmax(most, load->chances[e]);
    }
    return most - least <= most * NEGLIGIBLE;
}

/* An order for each number of shards that divides the experts. */
static bool balance(struct attaching *a, struct sp_load *load)
{
    uint32_t count = 0;
    for (uint32_t shards = 2; shards <= load->count; shards++)
        count += load->count % shards == 0;
    struct sp_load_order *orders = SP_NEW_ARRAY(a->model->arena, count, struct sp_load_order);
    load->orders = orders;
    for (uint32_t shards = 2; orders != NULL && shards <= load->count; shards++) {
        if (load->count % shards != 0)
            continue;
        uint32_t *order = SP_NEW_ARRAY(a->model->arena, load->count, uint32_t);
        if (order == NULL || !sp_load_balance(a->scratch, load->count, load->chances, shards, order))
            return false;
        orders[load->order_count++] = (struct sp_load_order){shards, order};
    }
    return orders != NULL;
}

static struct sp_load *make_load(struct attaching *a, const struct sp_load_list *list, uint32_t count, double each)
{
    struct sp_load *load = SP_NEW(a->model->arena, struct sp_load);
    double *chances = SP_NEW_ARRAY(a->model->arena, count, double);
    double *shares = SP_NEW_ARRAY(a->scratch, count, double);
    if (load == NULL || chances == NULL || shares == NULL)
        return NULL;
    for (uint32_t e = 0; e < count; e++)
        shares[e] = list->count > 0 ? list->shares[e] : pow(e + 1.0, -list->zipf);
    sp_load_chances(count, shares, each, chances);
    *load = (struct sp_load){.count = count, .each = each, .chances = chances};
    return !a->given->is_balanced || are_alike(load) || balance(a, load) ? load : NULL;
}

/* ---- layers ----------------------------------------------------------------------------------------------------- */

static enum sp_status give(struct attaching *a, struct sp_node *node, const struct sp_rule *rule)
{
    const struct sp_dim extent = rule->factors[rule->drawn->factor].extent;
    const uint32_t i = list_of(a, node);
    a->layers++;
    if (i == UINT32_MAX || !sp_dim_is_known(extent) || extent.value < 1 || extent.value > SP_MAX_EXPERTS ||
        rule->drawn->each <= 0 || rule->drawn->each > (double)extent.value)
        return SP_OK;
    const struct sp_load_list *list = &a->given->lists[i];
    const uint32_t count = (uint32_t)extent.value;
    a->is_used[i] = true;
    if (list->count > 0 && list->count != count) {
        (void)sp_fail(a->err, SP_ERR_REQUEST, "EXPERT_LOAD_COUNT",
                      "The expected load has %u numbers, and the layer '%.120s' has %u experts: give one for each.",
                      list->count, node->name, count);
        return refuse(a);
    }
    const struct sp_load *load = a->loads[i];
    if (load == NULL || load->count != count || load->each != rule->drawn->each)
        load = a->loads[i] = make_load(a, list, count, rule->drawn->each);
    if (load == NULL)
        return sp_fail_memory(a->err);
    node->load = are_alike(load) ? NULL : load;
    return SP_OK;
}

static enum sp_status attach_all(struct attaching *a)
{
    const struct sp_graph *graph = a->model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t n = 0; status == SP_OK && n < graph->node_count; n++) {
        const struct sp_arena_mark mark = sp_arena_mark(a->scratch);
        struct sp_rule *rule;
        if (graph->nodes[n].op == NULL || graph->nodes[n].is_folded)
            continue;
        status = sp_op_rule(a->model, &graph->nodes[n], a->scratch, &rule, a->err);
        if (status == SP_OK && rule->drawn != NULL)
            status = give(a, &graph->nodes[n], rule);
        sp_arena_rewind(a->scratch, mark);
    }
    return status;
}

static enum sp_status check_used(struct attaching *a)
{
    if (a->layers == 0) {
        (void)sp_fail(a->err, SP_ERR_REQUEST, "NO_EXPERTS",
                      "An expected load of experts is given, and no operator of the model sends tokens to some of "
                      "several experts (MoE, QMoE): what computes every expert takes as long whatever is chosen.");
        return refuse(a);
    }
    for (uint32_t i = 0; i < a->given->count; i++) {
        if (a->is_used[i] || a->given->lists[i].node == NULL)
            continue;
        (void)sp_fail(a->err, SP_ERR_REQUEST, "UNKNOWN_EXPERTS",
                      "An expected load of experts is given for '%.120s', which is no layer with experts of a known "
                      "number.",
                      a->given->lists[i].node);
        return refuse(a);
    }
    return SP_OK;
}

enum sp_status sp_expert_loads_attach(struct sp_model *model, struct sp_error *err)
{
    struct attaching a = {.model = model, .given = model->loads, .err = err};
    if (a.given == NULL)
        return SP_OK;
    a.scratch = sp_arena_create(sp_arena_budget(model->arena));
    if (a.scratch == NULL)
        return sp_fail_memory(err);
    a.loads = SP_NEW_ARRAY(a.scratch, a.given->count, const struct sp_load *);
    a.is_used = SP_NEW_ARRAY(a.scratch, a.given->count, bool);
    enum sp_status status = a.loads != NULL && a.is_used != NULL ? attach_all(&a) : sp_fail_memory(err);
    if (status == SP_OK)
        status = check_used(&a);
    sp_arena_destroy(a.scratch);
    return status;
}
