/* Plans of reshards: which way exists for two shardings, and the best of them. */
#include "sharding/reshard/reshard.h"

#include <math.h>
#include <string.h>

#include "sharding/convert_forms.h"
#include "sharding/reshard/internal.h"

struct planner {
    struct sp_arena *arena, *scratch;
    const struct sp_reshard_request *request;
    struct sp_reshard_search *search;
    double element_bytes;
    /* Both as AXES with a mesh, or NULL: device lists that are no mesh. */
    const struct sp_sharding *from, *to;
    int64_t device_count; /* of kinds that name none, in a send-receive */
};

/* ---- what was asked ---- */

static enum sp_status check_one(const struct sp_reshard_request *request, const struct sp_sharding *sharding,
                                const char *which, struct sp_error *err)
{
    if (sharding->kind == SP_SHARDING_MANUAL || sharding->kind == SP_SHARDING_UNKNOWN ||
        (sharding->kind == SP_SHARDING_AXES && sharding->manual.count > 0))
        return sp_fail(err, SP_ERR_REQUEST, "HOLDING_UNKNOWN",
                       "What devices hold under the sharding '%s' is the program's own affair (manual or unknown), so "
                       "that it cannot be resharded.",
                       which);
    if (sharding->kind == SP_SHARDING_TUPLE)
        return sp_fail(err, SP_ERR_REQUEST, "TUPLE_SHARDING",
                       "The sharding '%s' is one of several tensors; give the shardings of one tensor.", which);
    return sp_sharding_check(sharding, request->rank, request->shape, request->device_count, err);
}

static enum sp_status check_request(const struct sp_reshard_request *request, struct sp_error *err)
{
    if (request->links == NULL || request->links->level_count == 0 || request->links->level_count > SP_MAX_MESH_AXES)
        return sp_fail(err, SP_ERR_REQUEST, "LINKS_MISSING",
                       "A reshard needs a cluster with 1 to %d levels of links to be timed on.", SP_MAX_MESH_AXES);
    if (request->rank > SP_MAX_RANK)
        return sp_fail_limit(err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, request->rank,
                             "A tensor has at most %d axes.", SP_MAX_RANK);
    for (uint32_t a = 0; a < request->rank; a++)
        if (request->shape[a] < 0)
            return sp_fail(err, SP_ERR_REQUEST, "EXTENT_NEGATIVE",
                           "Axis %u has the extent %lld; 0 or more is expected.", a, (long long)request->shape[a]);
    if (sp_reshard_element_bytes(request->dtype) <= 0)
        return sp_fail(err, SP_ERR_REQUEST, "DTYPE_UNKNOWN", "A reshard needs the tensor's element type.");
    enum sp_status status = check_one(request, request->from, "from", err);
    return status == SP_OK ? check_one(request, request->to, "to", err) : status;
}

/* ---- as meshes ---- */

/* Kinds that are the same on whatever devices there are. */
static bool is_anywhere(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_REPLICATED || sharding->kind == SP_SHARDING_UNREDUCED ||
           (sharding->kind == SP_SHARDING_AXES && sp_mesh_is_empty(sharding->mesh));
}

/* Whether some device holds several shards: they lie one after the other there, which no mesh says. */
static enum sp_status has_several(struct planner *planner, const struct sp_sharding *sharding, bool *ret_several,
                                  struct sp_error *err)
{
    struct sp_holders holders;
    enum sp_status status = sp_sharding_holders(planner->scratch, sharding, &holders, err);

    *ret_several = false;
    for (int64_t i = 1; status == SP_OK && i < holders.count; i++)
        *ret_several = *ret_several || holders.items[i].device == holders.items[i - 1].device;
    return status;
}

/* A sharding that names its devices, as AXES; NULL when it is no mesh. */
static enum sp_status to_mesh(struct planner *planner, const struct sp_sharding *sharding,
                              const struct sp_sharding **ret_axes, struct sp_error *err)
{
    const struct sp_reshard_request *request = planner->request;
    struct sp_sharding *axes = NULL;
    struct sp_error reason = {SP_OK};

    *ret_axes = sharding;
    if (sharding->kind == SP_SHARDING_AXES)
        return SP_OK;
    *ret_axes = NULL;
    bool several = false;
    enum sp_status status = SP_OK;
    if (sharding->kind == SP_SHARDING_BLOCKS && sharding->first != NULL)
        status = has_several(planner, sharding, &several, err);
    if (status != SP_OK || several)
        return status;
    const struct sp_dialect_context of = {
        .rank = request->rank, .shape = request->shape, .device_count = request->device_count};
    status = sp_sharding_to_axes(planner->arena, sharding, &of, &axes, NULL, &reason);
    if (status == SP_ERR_MEMORY)
        return sp_fail_memory(err);
    *ret_axes = status == SP_OK ? axes : NULL;
    return SP_OK;
}

/* A mesh of one axis: the devices 0 .. count - 1, or, without a number, those of a sharding that is no mesh. */
static enum sp_status make_mesh(struct planner *planner, const struct sp_sharding *other, int64_t count,
                                struct sp_mesh **ret_mesh, struct sp_error *err)
{
    struct sp_device_order order, *given = NULL;
    enum sp_status status = SP_OK;

    if (count == 0) {
        const int64_t *devices;

        status = sp_sharding_devices(planner->scratch, other, 0, &count, &devices, err);
        if (status == SP_OK)
            status = sp_device_order_list(planner->arena, count, devices, &order, err);
        given = &order;
    }
    if (status != SP_OK)
        return status;
    return sp_mesh_create(planner->arena, 1, &(struct sp_mesh_axis){"devices", count}, given, ret_mesh, err);
}

/* One that names no devices, on the mesh of the other where that has the right ones. */
static enum sp_status place_anywhere(struct planner *planner, const struct sp_sharding *sharding,
                                     const struct sp_sharding *other, const struct sp_sharding *other_axes,
                                     const struct sp_sharding **ret_axes, struct sp_error *err)
{
    const struct sp_reshard_request *request = planner->request;
    const struct sp_mesh *mesh = other_axes != NULL ? other_axes->mesh : NULL;
    int64_t count = request->device_count;
    struct sp_sharding *axes;
    enum sp_status status = SP_OK;

    if (mesh != NULL && count > 0 && (mesh->order.count != count || !sp_device_order_is_permutation(&mesh->order)))
        mesh = NULL;
    if (mesh == NULL) {
        struct sp_mesh *made = NULL;

        status = make_mesh(planner, other, count, &made, err);
        mesh = made;
    }
    if (status == SP_OK)
        status = sp_sharding_create_axes(planner->arena, mesh, request->rank, &axes, err);
    if (status != SP_OK)
        return status;
    if (sharding->kind == SP_SHARDING_UNREDUCED) {
        axes->combiner = sharding->combiner;
        axes->partial.refs = SP_NEW_ARRAY(planner->arena, mesh->axis_count, struct sp_axis_ref);
        if (axes->partial.refs == NULL)
            return sp_fail_memory(err);
        for (uint32_t a = 0; a < mesh->axis_count; a++)
            axes->partial.refs[axes->partial.count++] = sp_axis_full(mesh, a);
    }
    *ret_axes = axes;
    return SP_OK;
}

/* With an order that is computed where the list is one: digits of two lists are not compared. */
static enum sp_status compute_order(struct planner *planner, const struct sp_sharding **sharding, struct sp_error *err)
{
    struct sp_device_order order;
    if (*sharding == NULL || (*sharding)->mesh->order.ids == NULL)
        return SP_OK;
    enum sp_status status = sp_device_order_computed(planner->arena, &(*sharding)->mesh->order, &order, err);
    if (status != SP_OK || order.ids != NULL)
        return status;
    struct sp_mesh *mesh = SP_NEW(planner->arena, struct sp_mesh);
    struct sp_sharding *copy = SP_NEW(planner->arena, struct sp_sharding);
    if (mesh == NULL || copy == NULL)
        return sp_fail_memory(err);
    *mesh = *(*sharding)->mesh;
    mesh->order = order;
    *copy = **sharding;
    copy->mesh = mesh;
    *sharding = copy;
    return SP_OK;
}

static enum sp_status normalise(struct planner *planner, struct sp_error *err)
{
    const struct sp_sharding *from = planner->request->from, *to = planner->request->to;
    enum sp_status status = SP_OK;

    planner->from = planner->to = NULL;
    if (!is_anywhere(from))
        status = to_mesh(planner, from, &planner->from, err);
    if (status == SP_OK && !is_anywhere(to))
        status = to_mesh(planner, to, &planner->to, err);
    if (status == SP_OK && is_anywhere(from))
        status = place_anywhere(planner, from, to, planner->to, &planner->from, err);
    if (status == SP_OK && is_anywhere(to))
        status = place_anywhere(planner, to, from, planner->from, &planner->to, err);
    if (status == SP_OK)
        status = compute_order(planner, &planner->from, err);
    return status == SP_OK ? compute_order(planner, &planner->to, err) : status;
}

/* ---- sequences of collectives ---- */

static bool have_two_combiners(const struct sp_sharding *from, const struct sp_sharding *to)
{
    return from->partial.count > 0 && to->partial.count > 0 && from->combiner != to->combiner;
}

/* The digits for two shardings on the same devices: common ones, or those of either; in primes or, where these are too
   many, not. *ret_ok is false when even then there are too many. */
static enum sp_status make_task(struct planner *planner, const struct sp_sharding *from, const struct sp_sharding *to,
                                struct sp_reshard_task *task, bool *ret_ok, struct sp_error *err)
{
    const struct sp_reshard_request *request = planner->request;
    enum sp_status status = SP_OK;
    bool ok = false;

    memset(task, 0, sizeof *task);
    task->links = request->links;
    task->rank = request->rank;
    task->shape = request->shape;
    task->element_bytes = planner->element_bytes;
    task->memory_limit = request->memory_limit_bytes;
    task->two_combiners = have_two_combiners(from, to);
    for (int primes = 1; primes >= 0 && status == SP_OK && !ok; primes--) {
        task->is_joined = !primes;
        status = sp_grid_common(planner->scratch, request->links, from, to, primes, &task->pair, err);
        ok = task->pair.grid != NULL;
    }
    for (int primes = 1; primes >= 0 && status == SP_OK && !ok; primes--) {
        struct sp_grid_pair target = {0};

        task->is_joined = !primes;
        status = sp_grid_common(planner->scratch, request->links, from, from, primes, &task->pair, err);
        if (status == SP_OK)
            status = sp_grid_common(planner->scratch, request->links, to, to, primes, &target, err);
        ok = task->pair.grid != NULL && target.grid != NULL;
        task->pair.to = target.to;
        task->other = target.grid;
    }
    *ret_ok = ok;
    return status;
}

/* The best sequence between two shardings on the same devices, appended; *ret_found is false without one. */
static enum sp_status add_sequence(struct planner *planner, const struct sp_sharding *from,
                                   const struct sp_sharding *to, bool *ret_found, struct sp_reshard *reshard,
                                   struct sp_error *err)
{
    struct sp_solution *solution = SP_NEW(planner->scratch, struct sp_solution);
    struct sp_reshard_task task;
    bool ok;

    *ret_found = false;
    if (solution == NULL)
        return sp_fail_memory(err);
    enum sp_status status = make_task(planner, from, to, &task, &ok, err);
    if (status == SP_OK && ok)
        status = sp_reshard_solve(planner->scratch, planner->search, &task, SP_GOAL_SECONDS, solution, err);
    if (status != SP_OK || !ok || !solution->is_found)
        return status;
    *ret_found = true;
    reshard->is_optimal = reshard->is_optimal && solution->is_optimal;
    return sp_reshard_steps(planner->arena, planner->request, solution, from, to, reshard, err);
}

/* The smallest peak of any sequence; INFINITY without one. */
static enum sp_status smallest_peak(struct planner *planner, double *ret_peak, struct sp_error *err)
{
    struct sp_solution *solution = SP_NEW(planner->scratch, struct sp_solution);
    struct sp_reshard_task task;
    bool ok;

    *ret_peak = INFINITY;
    if (solution == NULL)
        return sp_fail_memory(err);
    enum sp_status status = make_task(planner, planner->from, planner->to, &task, &ok, err);
    task.memory_limit = 0;
    if (status == SP_OK && ok)
        status = sp_reshard_solve(planner->scratch, planner->search, &task, SP_GOAL_PEAK, solution, err);
    if (status == SP_OK && ok && solution->is_found)
        *ret_peak = solution->path.peak;
    return status;
}

/* ---- send-receive, and collectives before and after it ---- */

static enum sp_status copy_axes(struct planner *planner, const struct sp_sharding *sharding, bool keep_partial,
                                struct sp_sharding **ret_copy, struct sp_error *err)
{
    struct sp_sharding *copy;
    enum sp_status status = sp_sharding_create_axes(planner->arena, sharding->mesh, sharding->rank, &copy, err);

    for (uint32_t a = 0; status == SP_OK && a < sharding->rank; a++)
        status = sp_axes_copy(planner->arena, &sharding->dims[a].axes, &copy->dims[a].axes, err);
    if (status == SP_OK && keep_partial)
        status = sp_axes_copy(planner->arena, &sharding->partial, &copy->partial, err);
    if (status != SP_OK)
        return status;
    copy->combiner = keep_partial ? sharding->combiner : copy->combiner;
    *ret_copy = copy;
    return SP_OK;
}

/* The sharding without partial axes, and with `axes` at the minor end of one tensor axis's list; NULL when blocks would
   shift. */
static enum sp_status with_axes(struct planner *planner, const struct sp_sharding *sharding, uint32_t axis,
                                const struct sp_axis_list *axes, struct sp_sharding **ret, struct sp_error *err)
{
    struct sp_sharding *copy;
    int64_t shards = sp_sharding_shards(sharding, axis), more = sp_axes_size(axes), all;
    enum sp_status status = copy_axes(planner, sharding, false, &copy, err);

    *ret = NULL;
    if (status != SP_OK || more < 0 || !sp_mul_i64(shards, more, &all) ||
        !sp_blocks_nest(planner->request->shape[axis], shards, all))
        return status;
    status = sp_axes_append(planner->arena, &sharding->dims[axis].axes, axes, &copy->dims[axis].axes, err);
    *ret = copy;
    return status;
}

/* The axes of a mesh that a sharding does not use at all. */
static enum sp_status free_axes(struct planner *planner, const struct sp_sharding *sharding,
                                struct sp_axis_list *ret_axes, struct sp_error *err)
{
    struct sp_grid_pair pair;
    struct sp_axis_list list = {.refs = SP_NEW_ARRAY(planner->arena, SP_RESHARD_MAX_DIGITS, struct sp_axis_ref)};
    enum sp_status status =
        sp_grid_common(planner->scratch, planner->request->links, sharding, sharding, false, &pair, err);

    if (list.refs == NULL)
        return sp_fail_memory(err);
    for (uint32_t d = 0; status == SP_OK && pair.grid != NULL && d < pair.grid->count; d++)
        if (pair.from.axis[d] == SP_LAYOUT_REPLICATED)
            list.refs[list.count++] = pair.grid->digits[d].ref;
    sp_axes_merge(&list);
    *ret_axes = list;
    return status;
}

/* What to have when pieces are sent, and what to have when they have come: NULL for the shardings themselves, which may
   be no meshes. */
struct detour {
    struct sp_sharding *departure, *arrival;
    struct sp_reshard_arrival *known; /* of the arrival; NULL: not shared */
};

/* What the collectives from the arrival take, once for all requests that share it. */
static enum sp_status find_arrival(struct planner *planner, const struct detour *detour, const struct sp_sharding *to,
                                   struct sp_error *err)
{
    struct sp_reshard_arrival *known = detour->known;
    enum sp_status status = SP_OK;

    if (known->is_known)
        return SP_OK;
    known->way = (struct sp_reshard){.is_optimal = true};
    status = add_sequence(planner, detour->arrival, to, &known->is_found, &known->way, err);
    known->way.steps = NULL;
    known->is_known = status == SP_OK;
    return status;
}

static void add_arrival(struct sp_reshard *reshard, const struct sp_reshard *way)
{
    reshard->seconds += way->seconds;
    reshard->bytes += way->bytes;
    reshard->total_bytes += way->total_bytes;
    reshard->peak_bytes = fmax(reshard->peak_bytes, way->peak_bytes);
    reshard->is_optimal = reshard->is_optimal && way->is_optimal;
}

/* Collectives to the departure, send-receive, collectives from the arrival. */
static enum sp_status travel(struct planner *planner, const struct detour *detour, bool *ret_found,
                             struct sp_reshard *reshard, struct sp_error *err)
{
    const struct sp_reshard_request *request = planner->request;
    const struct sp_sharding *from = planner->from != NULL ? planner->from : request->from;
    const struct sp_sharding *to = planner->to != NULL ? planner->to : request->to;
    struct sp_reshard_step step;
    enum sp_status status = SP_OK;

    *ret_found = true;
    memset(reshard, 0, sizeof *reshard);
    reshard->is_optimal = true;
    if (detour->departure != NULL) {
        status = add_sequence(planner, from, detour->departure, ret_found, reshard, err);
        from = detour->departure;
    }
    if (status == SP_OK && *ret_found)
        status = sp_reshard_send_receive(planner->arena, request, from, detour->arrival != NULL ? detour->arrival : to,
                                         planner->device_count, &step, err);
    if (status != SP_OK || !*ret_found)
        return status;
    if (request->memory_limit_bytes > 0 && step.peak_bytes > request->memory_limit_bytes)
        *ret_found = false;
    status = sp_reshard_add(planner->arena, reshard, &step, err);
    if (status == SP_OK && *ret_found && detour->known != NULL)
        add_arrival(reshard, &detour->known->way);
    else if (status == SP_OK && *ret_found && detour->arrival != NULL)
        status = add_sequence(planner, detour->arrival, to, ret_found, reshard, err);
    return status;
}

/* Keeps the better of two ways; `best->steps` NULL and seconds INFINITY: none yet. */
static void keep_better(struct sp_reshard *best, const struct sp_reshard *other)
{
    if (other->seconds < best->seconds * (1 - 1e-12) || isinf(best->seconds))
        *best = *other;
}

/* Where partial values go before anything is sent: reduced everywhere, or scattered over one axis. */
static enum sp_status list_departures(struct planner *planner, uint32_t *ret_count, struct sp_sharding **departures,
                                      struct sp_error *err)
{
    const struct sp_sharding *from = planner->from;
    uint32_t count = 0;
    enum sp_status status = SP_OK;

    departures[count] = NULL;
    if (from != NULL && from->partial.count > 0) {
        status = copy_axes(planner, from, false, &departures[count], err);
        count++;
        for (uint32_t a = 0; status == SP_OK && a < from->rank; a++) {
            status = with_axes(planner, from, a, &from->partial, &departures[count], err);
            count += status == SP_OK && departures[count] != NULL;
        }
    }
    *ret_count = count > 0 ? count : 1;
    return status;
}

/* What may arrive: the target, without its partial axes; or less, split over the axes that it does not use, to be
   gathered then. */
static enum sp_status list_arrivals(struct planner *planner, uint32_t *ret_count, struct sp_sharding **arrivals,
                                    struct sp_error *err)
{
    const struct sp_sharding *to = planner->to;
    struct sp_axis_list unused = {0};
    uint32_t count = 1;
    enum sp_status status = SP_OK;

    arrivals[0] = NULL;
    if (to != NULL && to->partial.count > 0)
        status = copy_axes(planner, to, false, &arrivals[0], err);
    if (status == SP_OK && to != NULL)
        status = free_axes(planner, to, &unused, err);
    for (uint32_t a = 0; status == SP_OK && unused.count > 0 && a < to->rank; a++) {
        status = with_axes(planner, to, a, &unused, &arrivals[count], err);
        count += status == SP_OK && arrivals[count] != NULL;
    }
    *ret_count = count;
    return status;
}

/* The best way with a send-receive step; seconds INFINITY when none fits the memory, `*peak` then gets the least. */
static enum sp_status send_receive(struct planner *planner, struct sp_reshard *best, double *peak, struct sp_error *err)
{
    struct sp_sharding *departures[SP_MAX_RANK + 2], *arrivals[SP_RESHARD_MAX_ARRIVALS];
    uint32_t departure_count = 0, arrival_count = 0;
    enum sp_status status = list_departures(planner, &departure_count, departures, err);

    if (status == SP_OK)
        status = list_arrivals(planner, &arrival_count, arrivals, err);
    for (uint32_t i = 0; i < departure_count && status == SP_OK; i++)
        for (uint32_t j = 0; j < arrival_count && status == SP_OK; j++) {
            const bool is_shared = arrivals[j] != NULL && planner->request->arrivals != NULL;
            const struct detour detour = {departures[i], arrivals[j],
                                          is_shared ? &planner->request->arrivals[j] : NULL};
            struct sp_reshard way;
            bool found;

            status = is_shared ? find_arrival(planner, &detour, planner->to, err) : SP_OK;
            if (status != SP_OK ||
                (is_shared && (!detour.known->is_found || detour.known->way.seconds >= best->seconds)))
                continue;
            status = travel(planner, &detour, &found, &way, err);
            if (status == SP_OK && found)
                keep_better(best, &way);
            else if (status == SP_OK && way.peak_bytes > 0)
                *peak = fmin(*peak, way.peak_bytes);
        }
    return status;
}

/* ---- the plan ---- */

static enum sp_status no_fit(struct planner *planner, bool same_devices, double peak, struct sp_error *err)
{
    double smallest = INFINITY;
    enum sp_status status = same_devices ? smallest_peak(planner, &smallest, err) : SP_OK;

    if (status != SP_OK)
        return status;
    return sp_fail(err, SP_ERR_NOFIT, "RESHARD_MEMORY",
                   "No way of resharding keeps every device within %.0f bytes; the smallest peak is %.0f bytes.",
                   planner->request->memory_limit_bytes, fmin(smallest, peak));
}

/* Whether a device holds the same in the same order. */
static bool is_same_held(const struct sp_held *a, const struct sp_held *b)
{
    if (a->shard_count != b->shard_count)
        return false;
    for (size_t i = 0; i < (size_t)a->shard_count * a->rank; i++) {
        const struct sp_axis_ranges *left = &a->shards[i], *right = &b->shards[i];

        if (left->count != right->count)
            return false;
        for (uint32_t r = 0; r < left->count; r++)
            if (left->ranges[r].start != right->ranges[r].start || left->ranges[r].limit != right->ranges[r].limit)
                return false;
    }
    return true;
}

/* A send-receive in which nothing is sent and nothing has to be put in another order is none. */
static enum sp_status is_idle(const struct planner *planner, const struct sp_reshard *reshard, bool *ret_idle,
                              struct sp_error *err)
{
    const struct sp_reshard_request *request = planner->request;
    const struct sp_reshard_step *step = reshard->steps;
    int64_t counts[2];
    const int64_t *devices[2];

    *ret_idle = false;
    if (reshard->step_count != 1 || step->kind != SP_SEND_RECEIVE || reshard->total_bytes > 0)
        return SP_OK;
    enum sp_status status =
        sp_sharding_devices(planner->scratch, step->before, planner->device_count, &counts[0], &devices[0], err);
    if (status == SP_OK)
        status =
            sp_sharding_devices(planner->scratch, step->after, planner->device_count, &counts[1], &devices[1], err);
    if (status != SP_OK || counts[0] != counts[1] ||
        memcmp(devices[0], devices[1], (size_t)counts[0] * sizeof(int64_t)) != 0)
        return status;
    for (int64_t i = 0; i < counts[0]; i++) {
        struct sp_held before, after;

        status = sp_sharding_held(planner->scratch, step->before, request->rank, request->shape, devices[0][i], &before,
                                  err);
        if (status == SP_OK)
            status = sp_sharding_held(planner->scratch, step->after, request->rank, request->shape, devices[0][i],
                                      &after, err);
        if (status != SP_OK || !is_same_held(&before, &after))
            return status;
    }
    *ret_idle = true;
    return SP_OK;
}

/* Whether pieces are counted though there is a sequence of collectives. */
static bool may_compete(const struct planner *planner)
{
    return !planner->request->collectives_only && planner->from->mesh->order.count <= SP_RESHARD_DIRECT_DEVICES;
}

/* Whether a send-receive will do where no sequence was found: not if only the memory kept all of them away. */
static bool may_send(const struct planner *planner, bool same_devices)
{
    const struct sp_reshard_request *request = planner->request;

    return !same_devices || !request->collectives_only || request->memory_limit_bytes <= 0;
}

static enum sp_status plan(struct planner *planner, struct sp_reshard *best, struct sp_error *err)
{
    const struct sp_sharding *from = planner->from, *to = planner->to;
    bool same_devices =
        from != NULL && to != NULL && sp_device_order_same_devices(&from->mesh->order, &to->mesh->order);
    bool found = false, idle;
    double peak = INFINITY;
    struct sp_reshard sequence = {.is_optimal = true};
    enum sp_status status = SP_OK;

    *best = (struct sp_reshard){.seconds = INFINITY};
    if (same_devices)
        status = add_sequence(planner, from, to, &found, &sequence, err);
    if (status != SP_OK)
        return status;
    if (found)
        *best = sequence;
    if (found ? sequence.seconds > 0 && may_compete(planner) : may_send(planner, same_devices)) {
        /* Only a way more where there is one already: its limits are no errors then. */
        struct sp_error ignored = {SP_OK};

        status = send_receive(planner, best, &peak, found ? &ignored : err);
        if (found && status != SP_ERR_MEMORY)
            status = SP_OK;
        else if (found)
            status = sp_fail_memory(err);
        if (found)
            best->is_optimal = sequence.is_optimal;
    }
    if (status != SP_OK)
        return status;
    if (isinf(best->seconds))
        return no_fit(planner, same_devices, peak, err);
    status = is_idle(planner, best, &idle, err);
    if (status == SP_OK && idle)
        best->step_count = 0;
    return status;
}

/* Both are whole on whatever devices there are. */
static bool is_nothing(const struct sp_reshard_request *request)
{
    return is_anywhere(request->from) && is_anywhere(request->to) && request->from->kind != SP_SHARDING_UNREDUCED &&
           request->to->kind != SP_SHARDING_UNREDUCED;
}

static double whole_bytes(const struct sp_reshard_request *request)
{
    double bytes = sp_reshard_element_bytes(request->dtype);

    for (uint32_t a = 0; a < request->rank; a++)
        bytes *= (double)request->shape[a];
    return bytes;
}

enum sp_status sp_reshard_plan(struct sp_arena *arena, const struct sp_reshard_request *request,
                               struct sp_reshard **ret_reshard, struct sp_error *err)
{
    struct planner planner = {.arena = arena, .request = request, .device_count = request->device_count};
    struct sp_reshard *best = SP_NEW(arena, struct sp_reshard);
    enum sp_status status = best != NULL ? check_request(request, err) : sp_fail_memory(err);

    if (status != SP_OK)
        return status;
    if (is_nothing(request)) {
        best->peak_bytes = whole_bytes(request);
        best->is_optimal = true;
        *ret_reshard = best;
        return SP_OK;
    }
    planner.element_bytes = sp_reshard_element_bytes(request->dtype);
    planner.scratch = sp_arena_create(sp_arena_budget(arena));
    planner.search = planner.scratch != NULL ? sp_search_create(planner.scratch) : NULL;
    if (planner.search != NULL)
        planner.search->left = request->steps_left;
    status = planner.search != NULL ? normalise(&planner, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = plan(&planner, best, err);
    sp_arena_destroy(planner.scratch);
    if (status == SP_OK)
        *ret_reshard = best;
    return status;
}
