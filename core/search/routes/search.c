/* Units, what devices can do with intervals of them, the flow, and the routes that it is made of. */
#include <assert.h>
#include <math.h>

#include "cost/stage_set.h"
#include "search/joint/cut_units.h"
#include "search/routes/routed.h"
#include "solvers/routes/routes.h"

#define AMPLE    1e18 /* requests a second of links that nothing has to pass, or that nothing is known to hold up */
#define ROUNDS   3    /* of the solver: units are more than layers, and one route is a plan, too */
#define TRIES    4    /* with less memory each time, where a plan turns out not to fit */
#define LESS     0.97
#define SMALLEST 1e-6 /* share of a route that is told of */

struct routing {
    struct sp_arena *arena;
    const struct sp_routed_request *request;
    uint32_t units, side; /* side: units + 1 */
    uint32_t *unit_of;    /* per work node; SP_NO_WORK for folded ones */
    uint32_t *first_node; /* per unit, and how many nodes there are behind the last */
    /* By first * side + end, of a stage of these units: what it needs, receives and sends. */
    double *bytes, *sent_bytes, *sent_count, *received_bytes, *received_count;
    double *border_bytes, *border_count; /* per border: of tensors that go from the unit before it to the one behind */
    struct sp_routes_problem problem;
    double *latency, *per_byte; /* by device a * devices + b */
    double bound_seconds;
    struct sp_error *err;
};

/* ---- units ------------------------------------------------------------------------------------------------------ */

/* A loop's state stays where it is made: no border between the nodes that use it and the one that makes the next one. */
static void keep_states(const struct routing *r, const struct sp_units *units, double *crossing)
{
    const struct sp_workload *workload = r->request->workload;
    for (uint32_t i = 0; i < workload->state_count; i++) {
        const struct sp_work_tensor *past = &workload->tensors[workload->states[i].past];
        const uint32_t producer = workload->tensors[workload->states[i].present].producer;
        uint32_t first = producer == SP_NO_WORK ? SP_NO_WORK : units->of[producer], last = first;
        for (uint32_t c = 0; c < past->consumer_count; c++) {
            const struct sp_node *node = workload->nodes[past->consumers[c]].node;
            const uint32_t unit =
                node == NULL || sp_work_takes_elements(node) ? units->of[past->consumers[c]] : SP_NO_WORK;
            first = first == SP_NO_WORK || (unit != SP_NO_WORK && unit < first) ? unit : first;
            last = last == SP_NO_WORK || (unit != SP_NO_WORK && unit > last) ? unit : last;
        }
        for (uint32_t at = first + 1; first != SP_NO_WORK && at <= last; at++)
            crossing[at] = INFINITY;
    }
}

/* What crosses in front of each unit; infinite where nodes that belong together are on both sides. */
static bool measure_borders(struct routing *r, const struct sp_units *units, double *crossing)
{
    const struct sp_workload *workload = r->request->workload;
    uint32_t most_group = 0;
    for (uint32_t n = 0; n < workload->node_count; n++)
        most_group = workload->nodes[n].together > most_group ? workload->nodes[n].together : most_group;
    uint32_t *begin = SP_NEW_ARRAY(r->arena, (size_t)most_group + 1, uint32_t);
    if (begin == NULL)
        return false;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK || tensor->consumer_count == 0 ||
            units->of[tensor->producer] == SP_NO_WORK)
            continue;
        const uint32_t last = units->of[tensor->consumers[tensor->consumer_count - 1]];
        for (uint32_t u = units->of[tensor->producer] + 1; u <= last; u++)
            crossing[u] += tensor->bytes;
    }
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const uint32_t group = workload->nodes[n].together, u = units->of[n];
        if (group == 0 || u == SP_NO_WORK)
            continue;
        for (uint32_t at = begin[group] == 0 ? u + 1 : begin[group]; at <= u; at++)
            crossing[at] = INFINITY;
        begin[group] = u + 1;
    }
    keep_states(r, units, crossing);
    return true;
}

/* Seconds of a unit on the device that is fastest with it. */
static bool time_nodes(struct routing *r, double *seconds)
{
    const struct sp_workload *workload = r->request->workload;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        seconds[n] = workload->nodes[n].folded ? 0 : INFINITY;
        for (uint32_t d = 0; d < r->request->cluster->device_count; d++)
            seconds[n] = fmin(seconds[n], workload->nodes[n].seconds[workload->kind_of[d]]);
        if (!isfinite(seconds[n]))
            return false;
    }
    return true;
}

/* Of the units' borders, in each of so many windows of equal time the one that least crosses. */
static enum sp_status make_units(struct routing *r, bool *ret_is_possible)
{
    const struct sp_workload *workload = r->request->workload;
    double *seconds = SP_NEW_ARRAY(r->arena, workload->node_count, double), total = 0, sum = 0;
    struct sp_units *units;
    if (seconds == NULL)
        return sp_fail_memory(r->err);
    *ret_is_possible = time_nodes(r, seconds);
    if (!*ret_is_possible)
        return SP_OK;
    enum sp_status status = sp_units_create(r->arena, workload, seconds, SP_ROUTED_UNITS, &units, r->err);
    *ret_is_possible = status == SP_OK && units->count > 0;
    if (!*ret_is_possible)
        return status;
    double *crossing = SP_NEW_ARRAY(r->arena, (size_t)units->count + 1, double);
    bool *is_border = SP_NEW_ARRAY(r->arena, (size_t)units->count + 1, bool);
    r->unit_of = SP_NEW_ARRAY(r->arena, workload->node_count, uint32_t);
    r->first_node = SP_NEW_ARRAY(r->arena, (size_t)SP_ROUTED_UNITS + 2, uint32_t);
    if (crossing == NULL || is_border == NULL || r->unit_of == NULL || r->first_node == NULL ||
        !measure_borders(r, units, crossing))
        return sp_fail_memory(r->err);
    for (uint32_t p = 0; p < units->live_count; p++)
        total += seconds[units->order[p]];
    uint32_t best = 0, window = 0;
    for (uint32_t u = 0, p = 0; u < units->count; u++) {
        const double share = total > 0 ? sum / total : (double)u / units->count;
        const uint32_t now = units->count <= SP_ROUTED_UNITS ? u : (uint32_t)(share * (SP_ROUTED_UNITS - 1));
        if (now > window && best > 0)
            is_border[best] = true;
        if (now > window)
            best = 0;
        window = now;
        if (u > 0 && isfinite(crossing[u]) && (best == 0 || crossing[u] <= crossing[best]))
            best = u;
        for (; p < units->live_count && units->of[units->order[p]] == u; p++)
            sum += seconds[units->order[p]];
    }
    is_border[best] = best > 0;
    uint32_t *of = SP_NEW_ARRAY(r->arena, (size_t)units->count + 1, uint32_t);
    if (of == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t u = 0; u < units->count; u++) {
        if (is_border[u])
            r->first_node[++r->units] = units->order[units->is_chain ? units->first[u] : u];
        of[u] = r->units;
    }
    r->first_node[++r->units] = workload->node_count;
    r->side = r->units + 1;
    for (uint32_t n = 0; n < workload->node_count; n++)
        r->unit_of[n] = units->of[n] == SP_NO_WORK ? SP_NO_WORK : of[units->of[n]];
    return SP_OK;
}

/* ---- intervals -------------------------------------------------------------------------------------------------- */

/* Adds to all intervals that begin at first .. last and end at low .. high: in the corners, which are then summed up. */
static void add_box(struct routing *r, double *table, const uint32_t box[4], double amount)
{
    const uint32_t first = box[0], last = box[1], low = box[2], high = box[3], side = r->side;
    if (first > last || low > high)
        return;
    table[(size_t)first * side + low] += amount;
    if (high < r->units)
        table[(size_t)first * side + high + 1] -= amount;
    if (last < r->units)
        table[(size_t)(last + 1) * side + low] -= amount;
    if (last < r->units && high < r->units)
        table[(size_t)(last + 1) * side + high + 1] += amount;
}

static void add_up(const struct routing *r, double *table)
{
    for (uint32_t i = 0; i < r->side; i++)
        for (uint32_t j = 1; j < r->side; j++)
            table[(size_t)i * r->side + j] += table[(size_t)i * r->side + j - 1];
    for (uint32_t i = 1; i < r->side; i++)
        for (uint32_t j = 0; j < r->side; j++)
            table[(size_t)i * r->side + j] += table[(size_t)(i - 1) * r->side + j];
}

/* An interval sends what it makes and others behind it use, and receives what it uses and others in front of it make. */
static void add_tensor(struct routing *r, const struct sp_work_tensor *tensor)
{
    const uint32_t made = r->unit_of[tensor->producer];
    uint32_t last = made;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        const uint32_t used = r->unit_of[tensor->consumers[i]];
        if (used == last || used == made)
            continue;
        const uint32_t box[4] = {last + 1, used, used + 1, r->units};
        add_box(r, r->received_bytes, box, tensor->bytes);
        add_box(r, r->received_count, box, 1);
        if (last == made && used == made + 1) {
            r->border_bytes[used] += tensor->bytes;
            r->border_count[used] += 1;
        }
        last = used;
    }
    if (last == made)
        return;
    const uint32_t box[4] = {0, made, made + 1, last};
    add_box(r, r->sent_bytes, box, tensor->bytes);
    add_box(r, r->sent_count, box, 1);
}

static enum sp_status measure_memory(struct routing *r)
{
    const struct sp_workload *workload = r->request->workload;
    double *kept = SP_NEW_ARRAY(r->arena, workload->node_count, double);
    double *workspace = SP_NEW_ARRAY(r->arena, workload->node_count, double);
    double *tensors = SP_NEW_ARRAY(r->arena, workload->tensor_count, double);
    if (kept == NULL || workspace == NULL || tensors == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        kept[n] = workload->nodes[n].inner_weight_bytes + workload->nodes[n].resident_bytes;
        workspace[n] = workload->nodes[n].workspace_bytes;
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        tensors[t] = workload->tensors[t].bytes;
    const struct sp_stage_block block = {kept, workspace, tensors};
    struct sp_stage_parts *parts = sp_stage_parts_create(r->arena, workload, r->units, r->unit_of, 1, &block);
    struct sp_stage_set *set = parts != NULL ? sp_stage_set_create(r->arena, parts) : NULL;
    if (set == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t first = 0; first < r->units; first++) {
        if (!sp_watch_tick(r->request->watch, "routes", (double)first / r->units, 0, 0))
            return sp_fail(r->err, SP_ERR_CANCELLED, "CANCELLED", "The search was cancelled.");
        for (uint32_t u = first; u < r->units; u++) {
            sp_stage_set_put(set, u);
            r->bytes[(size_t)first * r->side + u + 1] = sp_stage_set_bytes(set, 0);
        }
        for (uint32_t u = first; u < r->units; u++)
            sp_stage_set_take(set, u);
    }
    return SP_OK;
}

static enum sp_status measure_intervals(struct routing *r)
{
    const struct sp_workload *workload = r->request->workload;
    const size_t cells = (size_t)r->side * r->side;
    double **tables[] = {&r->bytes, &r->sent_bytes, &r->sent_count, &r->received_bytes, &r->received_count};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if ((*tables[i] = SP_NEW_ARRAY(r->arena, cells, double)) == NULL)
            return sp_fail_memory(r->err);
    r->border_bytes = SP_NEW_ARRAY(r->arena, r->side, double);
    r->border_count = SP_NEW_ARRAY(r->arena, r->side, double);
    if (r->border_bytes == NULL || r->border_count == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (tensor->kind == SP_WORK_ACTIVATION && tensor->producer != SP_NO_WORK && !tensor->has_transfer_seconds &&
            r->unit_of[tensor->producer] != SP_NO_WORK)
            add_tensor(r, tensor);
    }
    for (size_t i = 1; i < sizeof tables / sizeof *tables; i++)
        add_up(r, *tables[i]);
    return measure_memory(r);
}

/* ---- the problem ------------------------------------------------------------------------------------------------ */

static double fastest_rate(const struct routing *r, uint32_t device, uint32_t first, uint32_t end, double compute)
{
    const uint32_t devices = r->request->cluster->device_count;
    const size_t cell = (size_t)first * r->side + end;
    double send = devices > 1 ? INFINITY : 0, receive = send;
    for (uint32_t other = 0; other < devices; other++) {
        if (other == device)
            continue;
        const size_t out = (size_t)device * devices + other, in = (size_t)other * devices + device;
        send = fmin(send, r->sent_count[cell] * r->latency[out] + r->sent_bytes[cell] * r->per_byte[out]);
        receive = fmin(receive, r->received_count[cell] * r->latency[in] + r->received_bytes[cell] * r->per_byte[in]);
    }
    const double longest = fmax(compute, fmax(send, receive));
    return longest > 0 ? fmin(1 / longest, AMPLE) : AMPLE;
}

static bool make_rates(struct routing *r, uint32_t device, double memory_share, struct sp_routes_node *node)
{
    const struct sp_workload *workload = r->request->workload;
    const double memory = sp_cluster_memory(r->request->cluster, device) * memory_share;
    double *rates = SP_NEW_ARRAY(r->arena, (size_t)r->units * r->units, double);
    double *seconds = SP_NEW_ARRAY(r->arena, r->units, double);
    if (rates == NULL || seconds == NULL)
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++)
        if (r->unit_of[n] != SP_NO_WORK)
            seconds[r->unit_of[n]] += workload->nodes[n].seconds[workload->kind_of[device]];
    for (uint32_t first = 0; first < r->units; first++) {
        double compute = 0;
        for (uint32_t end = first + 1; end <= r->units; end++) {
            compute += seconds[end - 1];
            if (isfinite(compute) && r->bytes[(size_t)first * r->side + end] <= memory)
                rates[(size_t)first * r->units + end - first - 1] = fastest_rate(r, device, first, end, compute);
        }
    }
    *node = (struct sp_routes_node){.most = r->units, .rates = rates, .stride = r->units};
    return true;
}

/* Whether two devices are the same to the problem, so that they may share their rates. */
static bool are_alike(const struct routing *r, uint32_t a, uint32_t b)
{
    const struct sp_cluster *cluster = r->request->cluster;
    const uint32_t devices = cluster->device_count;
    if (r->request->workload->kind_of[a] != r->request->workload->kind_of[b] ||
        sp_cluster_memory(cluster, a) != sp_cluster_memory(cluster, b))
        return false;
    for (uint32_t d = 0; d < devices; d++) {
        const size_t at = (size_t)a * devices + d, bt = (size_t)b * devices + d;
        if (d != a && d != b && (r->latency[at] != r->latency[bt] || r->per_byte[at] != r->per_byte[bt]))
            return false;
    }
    return true;
}

static bool make_nodes(struct routing *r, double memory_share)
{
    const uint32_t devices = r->request->cluster->device_count;
    struct sp_routes_node *nodes = SP_NEW_ARRAY(r->arena, devices, struct sp_routes_node);
    if (nodes == NULL)
        return false;
    for (uint32_t d = 0; d < devices; d++) {
        uint32_t other = 0;
        while (other < d && !are_alike(r, other, d))
            other++;
        if (other < d)
            nodes[d] = nodes[other];
        else if (!make_rates(r, d, memory_share, &nodes[d]))
            return false;
    }
    r->problem.nodes = nodes;
    return true;
}

/* What a link carries in front of each unit; links that are alike share it. */
static const double *link_rates(struct routing *r, const struct sp_routes_link *links, uint32_t link_count, size_t pair)
{
    const uint32_t devices = r->request->cluster->device_count;
    for (uint32_t l = 0; l < link_count; l++) {
        if (links[l].by_layer == NULL)
            continue;
        const size_t other = (size_t)links[l].from * devices + links[l].to;
        if (r->latency[other] == r->latency[pair] && r->per_byte[other] == r->per_byte[pair])
            return links[l].by_layer;
    }
    double *rates = SP_NEW_ARRAY(r->arena, r->side, double);
    for (uint32_t u = 0; rates != NULL && u < r->side; u++) {
        const double seconds = r->border_count[u] * r->latency[pair] + r->border_bytes[u] * r->per_byte[pair];
        rates[u] = seconds > 0 ? fmin(1 / seconds, AMPLE) : AMPLE;
    }
    return rates;
}

static bool make_links(struct routing *r)
{
    const uint32_t devices = r->request->cluster->device_count;
    struct sp_routes_link *links = SP_NEW_ARRAY(r->arena, (size_t)devices * (devices + 1), struct sp_routes_link);
    uint32_t count = 0;
    if (links == NULL)
        return false;
    for (uint32_t a = 0; a < devices; a++) {
        links[count++] = (struct sp_routes_link){.from = SP_ROUTES_SOURCE, .to = a, .capacity = AMPLE};
        links[count++] = (struct sp_routes_link){.from = a, .to = SP_ROUTES_SINK, .capacity = AMPLE};
        for (uint32_t b = 0; b < devices; b++) {
            if (a == b)
                continue;
            const double *rates = link_rates(r, links, count, (size_t)a * devices + b);
            if (rates == NULL)
                return false;
            links[count++] = (struct sp_routes_link){.from = a, .to = b, .by_layer = rates};
        }
    }
    r->problem.links = links;
    r->problem.link_count = count;
    return true;
}

static bool make_problem(struct routing *r)
{
    const struct sp_cluster *cluster = r->request->cluster;
    const uint32_t devices = cluster->device_count;
    r->problem = (struct sp_routes_problem){.layer_count = r->units, .node_count = devices};
    r->latency = SP_NEW_ARRAY(r->arena, (size_t)devices * devices, double);
    r->per_byte = SP_NEW_ARRAY(r->arena, (size_t)devices * devices, double);
    if (r->latency == NULL || r->per_byte == NULL)
        return false;
    for (uint32_t a = 0; a < devices; a++)
        for (uint32_t b = 0; b < devices; b++) {
            const double none = sp_cluster_transfer_seconds(cluster, a, b, 0);
            r->latency[(size_t)a * devices + b] = none;
            r->per_byte[(size_t)a * devices + b] = (sp_cluster_transfer_seconds(cluster, a, b, 1e9) - none) / 1e9;
        }
    return make_links(r);
}

/* ---- routes ----------------------------------------------------------------------------------------------------- */

/* The route that follows the most of what is left of the flow; its share of `value` is taken from it. 0: none is left. */
static double follow(const struct routing *r, const struct sp_routes_result *result, double *left, uint32_t *devices,
                     uint32_t *ret_count)
{
    const struct sp_routes_link *links = r->problem.links;
    uint32_t at = SP_ROUTES_SOURCE, count = 0, path[SP_ROUTES_MAX_NODES + 1];
    double most = INFINITY;
    assert(links != NULL);
    while (at != SP_ROUTES_SINK && count <= r->problem.node_count) {
        uint32_t best = 0;
        double largest = 0;
        for (uint32_t u = 0; u < result->use_count; u++) {
            if (links[result->uses[u].link].from != at || left[u] <= largest)
                continue;
            best = u;
            largest = left[u];
        }
        if (largest <= 0)
            return 0;
        most = fmin(most, largest);
        path[count] = best;
        at = links[result->uses[best].link].to;
        if (at != SP_ROUTES_SINK)
            devices[count] = at;
        count++;
    }
    for (uint32_t i = 0; i < count; i++)
        left[path[i]] = left[path[i]] > most * (1 + 1e-12) ? left[path[i]] - most : 0;
    *ret_count = count - 1;
    return most / result->value;
}

static enum sp_status make_routes(struct routing *r, const struct sp_routes_result *result, struct sp_route *routes,
                                  uint32_t *ret_count)
{
    double *left = SP_NEW_ARRAY(r->arena, result->use_count, double), sum = 0;
    uint32_t devices[SP_ROUTES_MAX_NODES] = {0}, count = 0;
    if (left == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t u = 0; u < result->use_count; u++)
        left[u] = result->uses[u].rate;
    for (uint32_t tries = 0; tries < result->use_count && count < SP_ROUTED_ROUTES; tries++) {
        struct sp_route *route = &routes[count];
        route->share = follow(r, result, left, devices, &route->count);
        if (route->share <= 0)
            break;
        if (route->share < SMALLEST)
            continue;
        uint32_t *own = SP_NEW_ARRAY(r->arena, route->count, uint32_t);
        uint32_t *ends = SP_NEW_ARRAY(r->arena, route->count, uint32_t);
        if (own == NULL || ends == NULL)
            return sp_fail_memory(r->err);
        for (uint32_t s = 0; s < route->count; s++) {
            const struct sp_routes_interval interval = result->intervals[devices[s]];
            own[s] = devices[s];
            ends[s] = r->first_node[interval.first + interval.count];
        }
        route->devices = own;
        route->ends = ends;
        sum += routes[count++].share;
    }
    for (uint32_t i = 0; i < count; i++)
        routes[i].share /= sum;
    *ret_count = count;
    return SP_OK;
}

static enum sp_status try_memory(struct routing *r, double memory_share, struct sp_routed **ret_routed)
{
    const struct sp_routes_options options = {.seed = r->request->seed,
                                              .rounds = ROUNDS,
                                              .is_first = r->request->is_first,
                                              .least = 1 / r->request->most_seconds,
                                              .executor = r->request->executor,
                                              .watch = r->request->watch,
                                              .stop = sp_watch_stop(r->request->watch)};
    struct sp_route *routes = SP_NEW_ARRAY(r->arena, SP_ROUTED_ROUTES, struct sp_route);
    struct sp_routes_result *result;
    uint32_t count = 0;
    if (routes == NULL || !make_nodes(r, memory_share))
        return sp_fail_memory(r->err);
    enum sp_status status = sp_routes_solve(r->arena, &r->problem, &options, &result, r->err);
    if (status == SP_OK && memory_share == 1)
        r->bound_seconds = result->bound > 0 ? 1 / result->bound : INFINITY;
    if (status != SP_OK || result->value <= 0)
        return status;
    status = make_routes(r, result, routes, &count);
    if (status == SP_OK)
        status =
            sp_routed_evaluate(r->arena, r->request->workload, r->request->cluster, count, routes, ret_routed, r->err);
    if (status == SP_OK)
        (*ret_routed)->bound_seconds = r->bound_seconds; /* of all the memory that there is */
    return status;
}

enum sp_status sp_routed_search(struct sp_arena *arena, const struct sp_routed_request *request,
                                struct sp_routed **ret_routed, double *ret_bound_seconds, struct sp_error *err)
{
    struct routing r = {.arena = arena, .request = request, .err = err};
    bool is_possible = false;
    double share = 1;
    *ret_routed = NULL;
    *ret_bound_seconds = 0;
    if (request->cluster->device_count > SP_ROUTES_MAX_NODES)
        return SP_OK;
    enum sp_status status = make_units(&r, &is_possible);
    if (status != SP_OK || !is_possible)
        return status;
    status = measure_intervals(&r);
    if (status == SP_OK && !make_problem(&r))
        status = sp_fail_memory(err);
    for (uint32_t tries = 0; status == SP_OK && tries < TRIES; tries++, share *= LESS) {
        struct sp_routed *routed = NULL;
        status = try_memory(&r, share, &routed);
        if (status != SP_OK || routed == NULL)
            break;
        if (routed->worst_excess_bytes > 0)
            continue;
        if (routed->interval_seconds < request->most_seconds)
            *ret_routed = routed;
        break;
    }
    *ret_bound_seconds = r.bound_seconds;
    return status;
}
