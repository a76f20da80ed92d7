/*
 * Branches beside a path.
 *
 * A branch leaves the path at one node and comes back at a later one, and what lies between is on it alone. A stage
 * that has the first and not the last has the branch up to some node, for else it would wait for another stage and that
 * for it: it takes the time of these nodes and sends what comes out. Likewise a stage that has the last and not the
 * first. Branches are listed so that no two have a node, nor a unit, in common. Those which one tensor begins are a group:
 * where one of them begins elsewhere, the tensor is sent, once for all.
 */
#include <math.h>

#include "solvers/stages/latency/branches.h"

#define NOTHING UINT32_MAX

struct branch {
    uint32_t tensor, from, to; /* which begins it; places on the path */
    uint32_t start, count;     /* its nodes */
    double *send, *receive;    /* per option: the least that a stage with its first part, or its last, takes for it.
                                  Without what sends its tensor */
};

struct listing {
    const struct sp_latency_graph *graph;
    const struct sp_latency_places *places;
    bool *is_taken; /* per unit */
    uint32_t *nodes, node_count;
    struct branch *branches;
    uint32_t count;
};

/* A node's unit may be on a branch between two places where no stage with one end alone has it for another reason. */
static bool may_be_between(const struct listing *listing, uint32_t node, uint32_t from, uint32_t to)
{
    const struct sp_latency_graph *graph = listing->graph;
    const struct sp_latency_places *places = listing->places;
    const uint32_t unit = graph->unit_of[node];
    if (listing->is_taken[unit] || places->after[node] != from || places->until[node] != to)
        return false;
    for (uint32_t i = graph->nodes.start[unit]; i < graph->nodes.start[unit + 1]; i++)
        if (places->after[graph->nodes.items[i]] > from || places->until[graph->nodes.items[i]] < to)
            return false;
    return true;
}

/* The next node of a branch: of the same unit where there is one, else of one that no branch has; NOTHING at its
   end. */
static uint32_t next_node(const struct listing *listing, uint32_t node, uint32_t from, uint32_t to)
{
    const struct sp_latency_graph *graph = listing->graph;
    uint32_t next = NOTHING;
    for (uint32_t i = graph->after.start[node]; i < graph->after.start[node + 1]; i++) {
        const uint32_t user = graph->after.items[i];
        const bool is_same = graph->unit_of[user] == graph->unit_of[node] && listing->places->after[user] == from &&
                             listing->places->until[user] == to;
        if (is_same)
            return user;
        if (may_be_between(listing, user, from, to))
            next = user;
    }
    return next;
}

/* Whether the path's node at a place uses what a node makes. */
static bool is_used_at(const struct listing *listing, uint32_t node, uint32_t place)
{
    const struct sp_rows *after = &listing->graph->after;
    for (uint32_t i = after->start[node]; i < after->start[node + 1]; i++)
        if (listing->places->path[place - 1] == after->items[i])
            return true;
    return false;
}

/* Follows a branch from its first node; one that does not come back to the path is none. */
static void follow(struct listing *listing, uint32_t tensor, uint32_t first)
{
    const struct sp_latency_graph *graph = listing->graph;
    const uint32_t from = listing->places->after[first], to = listing->places->until[first];
    struct branch branch = {.tensor = tensor, .from = from, .to = to, .start = listing->node_count};
    uint32_t last = NOTHING;
    for (uint32_t node = first; node != NOTHING; node = next_node(listing, node, from, to)) {
        listing->is_taken[graph->unit_of[node]] = true;
        listing->nodes[listing->node_count++] = node;
        branch.count++;
        last = node;
    }
    if (is_used_at(listing, last, to))
        listing->branches[listing->count++] = branch;
}

static void list_branches(struct listing *listing)
{
    const struct sp_latency_graph *graph = listing->graph;
    const struct sp_latency_places *places = listing->places;
    for (uint32_t place = 1; place < places->count; place++) {
        const uint32_t node = places->path[place - 1];
        for (uint32_t i = graph->makes.start[node]; i < graph->makes.start[node + 1]; i++) {
            const struct sp_stages_tensor *tensor = &graph->problem->tensors[graph->makes.items[i]];
            for (uint32_t j = 0; j < tensor->consumer_count; j++) {
                const uint32_t user = tensor->consumers[j], to = places->until[user];
                if (to > place && to <= places->count && may_be_between(listing, user, place, to))
                    follow(listing, graph->makes.items[i], user);
            }
        }
    }
}

/* The least transfer between a node and the next of its branch, or the path's node at its end. */
static double least_transfer(const struct listing *listing, uint32_t o, uint32_t node, uint32_t user)
{
    const struct sp_latency_graph *graph = listing->graph;
    double least = INFINITY;
    for (uint32_t i = graph->takes.start[user]; i < graph->takes.start[user + 1]; i++) {
        const struct sp_stages_tensor *tensor = &graph->problem->tensors[graph->takes.items[i]];
        if (tensor->producer == node) /* one that is sure is counted already */
            least = fmin(least, graph->is_sure[o][graph->takes.items[i]]
                                    ? 0
                                    : sp_latency_transfer(&graph->problem->options[o], tensor));
    }
    return least;
}

/* The least over all ways to cut a branch. */
static void weigh(const struct listing *listing, struct branch *branch, uint32_t o)
{
    const struct sp_latency_graph *graph = listing->graph;
    const uint32_t *nodes = &listing->nodes[branch->start];
    double all = 0, before = 0, send = INFINITY, receive = INFINITY;
    for (uint32_t i = 0; i < branch->count; i++)
        if (i == 0 || graph->unit_of[nodes[i]] != graph->unit_of[nodes[i - 1]])
            all += graph->model->seconds[o][graph->unit_of[nodes[i]]];
    if (all < INFINITY)
        receive = all;
    for (uint32_t i = 0; i < branch->count; i++) {
        const uint32_t user = i + 1 < branch->count ? nodes[i + 1] : listing->places->path[branch->to - 1];
        if (i == 0 || graph->unit_of[nodes[i]] != graph->unit_of[nodes[i - 1]])
            before += graph->model->seconds[o][graph->unit_of[nodes[i]]];
        if (i + 1 < branch->count && graph->unit_of[user] == graph->unit_of[nodes[i]])
            continue;
        const double transfer = least_transfer(listing, o, nodes[i], user);
        send = fmin(send, before + transfer);
        receive = fmin(receive, (all < INFINITY ? all - before : 0) + transfer);
    }
    branch->send[o] = send;
    branch->receive[o] = fmax(receive, 0);
}

/* What a group sends while some of its branches are still open; returns how many records that takes. */
static uint32_t add_sends(const struct listing *listing, const struct branch *group, uint32_t count, uint32_t o,
                          struct sp_latency_branch *ret_sends)
{
    const uint32_t tensor = group[0].tensor, from = group[0].from;
    const struct sp_stages_problem *problem = listing->graph->problem;
    const double whole = sp_latency_transfer(&problem->options[o], &problem->tensors[tensor]);
    uint32_t first = listing->places->tensor_after[tensor], next = 0, filled = 0;
    if (listing->graph->is_sure[o][tensor]) /* it is counted already, as it is in stages that end before `first` */
        return 0;
    for (first = first > from ? first : from; next != NOTHING; first = next) {
        double parts = 0;
        next = NOTHING;
        for (uint32_t i = 0; i < count; i++) {
            if (group[i].to <= first)
                continue;
            next = group[i].to < next ? group[i].to : next;
            parts += group[i].send[o];
        }
        if (next != NOTHING)
            ret_sends[filled++] = (struct sp_latency_branch){from, first, next, fmin(whole, parts)};
    }
    return filled;
}

static void list_option(const struct listing *listing, uint32_t o, struct sp_latency_branches *branches)
{
    uint32_t filled = 0, place = 0;
    for (uint32_t g = 0, count; g < listing->count; g += count) {
        const struct branch *group = &listing->branches[g];
        for (count = 1; g + count < listing->count && group[count].tensor == group->tensor;)
            count++;
        while (place <= group->from)
            branches->send_start[o][place++] = filled;
        filled += add_sends(listing, group, count, o, &branches->sends[o][filled]);
    }
    while (place <= listing->places->count + 1)
        branches->send_start[o][place++] = filled;
    for (uint32_t i = 0; i < listing->count; i++) {
        const struct branch *branch = &listing->branches[i];
        branches->receives[o][i] = (struct sp_latency_branch){branch->from, branch->to, branch->to, branch->receive[o]};
    }
}

static bool weigh_branches(struct sp_arena *arena, const struct listing *listing,
                           struct sp_latency_branches *ret_branches)
{
    const uint32_t options = listing->graph->problem->option_count, places = listing->places->count;
    uint32_t *ends = SP_NEW_ARRAY(arena, listing->count, uint32_t);
    ret_branches->sends = SP_NEW_ARRAY(arena, options, struct sp_latency_branch *);
    ret_branches->receives = SP_NEW_ARRAY(arena, options, struct sp_latency_branch *);
    ret_branches->send_start = SP_NEW_ARRAY(arena, options, uint32_t *);
    if (ends == NULL || ret_branches->sends == NULL || ret_branches->receives == NULL ||
        ret_branches->send_start == NULL)
        return false;
    for (uint32_t i = 0; i < listing->count; i++) {
        struct branch *branch = &listing->branches[i];
        ends[i] = branch->to;
        branch->send = SP_NEW_ARRAY(arena, options, double);
        branch->receive = SP_NEW_ARRAY(arena, options, double);
        for (uint32_t o = 0; branch->send != NULL && branch->receive != NULL && o < options; o++)
            weigh(listing, branch, o);
        if (branch->send == NULL || branch->receive == NULL)
            return false;
    }
    for (uint32_t o = 0; o < options; o++) {
        ret_branches->sends[o] = SP_NEW_ARRAY(arena, listing->count, struct sp_latency_branch);
        ret_branches->receives[o] = SP_NEW_ARRAY(arena, listing->count, struct sp_latency_branch);
        ret_branches->send_start[o] = SP_NEW_ARRAY(arena, (size_t)places + 2, uint32_t);
        if (ret_branches->sends[o] == NULL || ret_branches->receives[o] == NULL || ret_branches->send_start[o] == NULL)
            return false;
        list_option(listing, o, ret_branches);
    }
    return sp_rows_sort(arena, ends, listing->count, places + 1, &ret_branches->ends);
}

bool sp_latency_branches_list(struct sp_arena *arena, const struct sp_latency_graph *graph,
                              const struct sp_latency_places *places, struct sp_latency_branches *ret_branches)
{
    struct listing listing = {.graph = graph,
                              .places = places,
                              .is_taken = SP_NEW_ARRAY(arena, graph->model->unit_count, bool),
                              .nodes = SP_NEW_ARRAY(arena, graph->node_count, uint32_t),
                              .branches = SP_NEW_ARRAY(arena, graph->model->unit_count, struct branch)};
    if (listing.is_taken == NULL || listing.nodes == NULL || listing.branches == NULL)
        return false;
    list_branches(&listing);
    return weigh_branches(arena, &listing, ret_branches);
}
