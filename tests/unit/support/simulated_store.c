#include "simulated_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server_limits.h"

#define LEASE_MS 15000

const char sim_model[65] = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

struct sim {
    struct store base;
    struct simulated_world *world;
    int daemon;
};

static struct sim *sim_of(struct store *base)
{
    return (struct sim *)base;
}

static bool before(const struct sim *sim)
{
    return sim->world->before(sim->world->context, sim->daemon);
}

static bool after(const struct sim *sim)
{
    return sim->world->after(sim->world->context, sim->daemon);
}

static bool away(struct problem *problem)
{
    if (problem != NULL)
        (void)problem_set(problem, 503, "STORE_UNAVAILABLE", "The simulated store does not answer.");
    return false;
}

/* Tenants are "0", "1"; NULL is all. */
static int tenant_of(const char *tenant)
{
    return tenant == NULL ? -1 : tenant[0] - '0';
}

/* ---- numbers ---- */

static bool reserve(struct store *base, const char *id, int64_t *ret_number, struct problem *problem)
{
    struct simulated_world *world = sim_of(base)->world;
    (void)id;
    if (!before(sim_of(base)) || world->number + 1 >= SIM_NUMBERS)
        return away(problem);
    const int64_t number = ++world->number;
    world->reservations[number].number = number;
    world->reservations[number].owner = sim_of(base)->daemon;
    *ret_number = number;
    return after(sim_of(base)) || away(problem);
}

static bool unreserve(struct store *base, int64_t number)
{
    if (!before(sim_of(base)))
        return false;
    sim_of(base)->world->reservations[number].number = 0;
    return after(sim_of(base));
}

static bool is_named(const struct simulated_world *world, int64_t number, enum store_file file)
{
    bool named = number < SIM_NUMBERS && world->reservations[number].number == number;
    for (int i = 0; i < SIM_ROWS; i++)
        named = named || (world->rows[i].is_there &&
                          (file == FILE_BLOB ? world->rows[i].blob : world->rows[i].inspection) == number);
    return named;
}

static enum store_found names(struct store *base, const char *id, int64_t number, enum store_file file)
{
    (void)id;
    if (!before(sim_of(base)))
        return STORE_ERROR;
    const enum store_found found = is_named(sim_of(base)->world, number, file) ? STORE_DONE : STORE_NOT_FOUND;
    return after(sim_of(base)) ? found : STORE_ERROR;
}

static bool lives(const struct simulated_world *world, int daemon)
{
    return world->beat_at[daemon] > world->now_ms - 10 * LEASE_MS;
}

static bool end_reservations(struct store *base)
{
    struct simulated_world *world = sim_of(base)->world;
    if (!before(sim_of(base)))
        return false;
    for (int i = 1; i < SIM_NUMBERS; i++) {
        if (world->reservations[i].owner != sim_of(base)->daemon && !lives(world, world->reservations[i].owner))
            world->reservations[i].number = 0;
    }
    return after(sim_of(base));
}

/* ---- models ---- */

static int64_t known_blob(const struct simulated_world *world)
{
    for (int i = 0; i < SIM_ROWS; i++) {
        if (world->rows[i].is_there)
            return world->rows[i].blob;
    }
    return -1;
}

static enum store_added add_model(struct store *base, struct model_row *row, bool replaces,
                                  const struct store_quota *quota, struct problem *problem)
{
    struct simulated_world *world = sim_of(base)->world;
    const int tenant = tenant_of(row->tenant);
    (void)quota;
    if (!before(sim_of(base))) {
        (void)away(problem);
        return STORE_FAILED;
    }
    if (world->reservations[row->number].number != row->number)
        return store_overtaken(problem);
    world->reservations[row->number].number = 0;
    const bool existed = world->rows[tenant].is_there;
    const int64_t known = known_blob(world), blob = replaces || known < 0 ? row->number : known;
    for (int i = 0; replaces && i < SIM_ROWS; i++)
        world->rows[i].blob = blob;
    world->rows[tenant].is_there = true;
    world->rows[tenant].blob = blob;
    world->rows[tenant].inspection = row->number;
    store_blob_name(row->id, blob, row->blob);
    if (!after(sim_of(base))) {
        (void)away(problem);
        return STORE_FAILED;
    }
    world->rows[tenant].told = true;
    return existed ? STORE_EXISTS : STORE_ADDED;
}

static enum store_found find_model(struct store *base, const char *tenant, const char *id)
{
    const int wanted = tenant_of(tenant);
    bool found = false;
    (void)id;
    if (!before(sim_of(base)))
        return STORE_ERROR;
    for (int i = 0; i < SIM_ROWS; i++)
        found = found || ((wanted < 0 || wanted == i) && sim_of(base)->world->rows[i].is_there);
    return !after(sim_of(base)) ? STORE_ERROR : found ? STORE_DONE : STORE_NOT_FOUND;
}

static enum store_found find_blob(struct store *base, const char *tenant, const char *id, int64_t *ret_number)
{
    const enum store_found found = find_model(base, tenant, id);
    if (found == STORE_DONE)
        *ret_number = known_blob(sim_of(base)->world);
    return found;
}

static enum store_found get_model(struct store *base, const char *tenant, const char *id, struct model_row *ret_row)
{
    int64_t number = 0;
    const enum store_found found = find_blob(base, tenant, id, &number);
    *ret_row = (struct model_row){.bytes = 1};
    store_blob_name(sim_model, number, ret_row->blob);
    return found;
}

static enum store_found delete_model(struct store *base, const char *tenant, const char *id)
{
    const int row = tenant_of(tenant);
    struct simulated_world *world = sim_of(base)->world;
    (void)id;
    if (!before(sim_of(base)))
        return STORE_ERROR;
    const bool was = world->rows[row].is_there;
    world->rows[row].is_there = world->rows[row].told = false;
    return !after(sim_of(base)) ? STORE_ERROR : was ? STORE_DONE : STORE_NOT_FOUND;
}

/* No model has files beside it. */
static bool list_files(struct store *base, const char *tenant, const char *model,
                       void (*each)(void *context, const struct file_row *row), void *context)
{
    (void)tenant;
    (void)model;
    (void)each;
    (void)context;
    return before(sim_of(base)) && after(sim_of(base));
}

/* ---- plans ---- */

void simulated_plan_id(int plan, char ret_id[STORE_ID_SIZE])
{
    (void)snprintf(ret_id, STORE_ID_SIZE, "%032d", plan);
}

static struct simulated_plan *plan_of(const struct sim *sim, const char *id)
{
    struct simulated_plan *plan = &sim->world->plans[strtol(id, NULL, 10) % SIM_PLANS];
    return plan->is_there ? plan : NULL;
}

static void fill_row(const struct sim *sim, const struct simulated_plan *plan, struct plan_row *ret_row)
{
    *ret_row = (struct plan_row){.state = plan->state,
                                 .has_result = plan->has_result,
                                 .attempts = plan->attempts,
                                 .crashes = plan->crashes,
                                 .finished_at = plan->finished_at};
    simulated_plan_id((int)(plan - sim->world->plans), ret_row->id);
    (void)snprintf(ret_row->model, sizeof ret_row->model, "%s", sim_model);
}

static void end_plan(const struct sim *sim, struct simulated_plan *plan, enum plan_state state)
{
    plan->state = state;
    plan->finished_at = sim->world->now_ms;
    plan->ends++;
}

static enum store_found get_plan(struct store *base, const char *tenant, const char *id, struct plan_row *ret_row)
{
    (void)tenant;
    if (!before(sim_of(base)))
        return STORE_ERROR;
    const struct simulated_plan *plan = plan_of(sim_of(base), id);
    if (plan != NULL)
        fill_row(sim_of(base), plan, ret_row);
    return !after(sim_of(base)) ? STORE_ERROR : plan != NULL ? STORE_DONE : STORE_NOT_FOUND;
}

static enum store_found claim(struct store *base, const char *tenant, struct plan_row *ret_row)
{
    const struct sim *sim = sim_of(base);
    (void)tenant;
    if (!before(sim))
        return STORE_ERROR;
    struct simulated_plan *plan = sim->world->plans;
    while (plan < sim->world->plans + SIM_PLANS && (!plan->is_there || plan->state != PLAN_QUEUED))
        plan++;
    const bool found = plan < sim->world->plans + SIM_PLANS;
    if (found) {
        plan->state = PLAN_RUNNING;
        plan->has_result = false;
        plan->attempts++;
        plan->owner = sim->daemon;
        plan->lease_until = sim->world->now_ms + LEASE_MS;
        fill_row(sim, plan, ret_row);
    }
    return !after(sim) ? STORE_ERROR : found ? STORE_DONE : STORE_NOT_FOUND;
}

/* All plans are of one tenant. */
static bool list_waiting(struct store *base, const char *from, int limit,
                         void (*each)(void *context, const char *tenant), void *context)
{
    bool is_queued = false;
    (void)from;
    (void)limit;
    if (!before(sim_of(base)))
        return false;
    for (int i = 0; i < SIM_PLANS; i++)
        is_queued = is_queued || sim_of(base)->world->plans[i].state == PLAN_QUEUED;
    if (is_queued)
        each(context, "0");
    return after(sim_of(base));
}

static bool beat(struct store *base, const char (*held)[STORE_ID_SIZE], unsigned count)
{
    const struct sim *sim = sim_of(base);
    struct simulated_world *world = sim->world;
    if (!before(sim))
        return false;
    world->beat_at[sim->daemon] = world->now_ms;
    for (int i = 0; i < SIM_PLANS; i++) {
        struct simulated_plan *plan = &world->plans[i];
        char id[STORE_ID_SIZE];
        bool is_held = false;
        simulated_plan_id(i, id);
        for (unsigned j = 0; j < count; j++)
            is_held = is_held || strcmp(held[j], id) == 0;
        if (plan->state == PLAN_RUNNING && plan->owner == sim->daemon)
            plan->lease_until = is_held ? world->now_ms + LEASE_MS : world->now_ms - 1;
    }
    return after(sim);
}

static enum store_changed finish(struct store *base, const char *id, int64_t attempt, enum plan_state state,
                                 bool has_result, const char *error, const char *files)
{
    const struct sim *sim = sim_of(base);
    (void)error;
    (void)files;
    if (!before(sim))
        return STORE_BROKEN;
    struct simulated_plan *plan = plan_of(sim, id);
    const bool is_its = plan != NULL && plan->state == PLAN_RUNNING && plan->attempts == attempt;
    if (is_its) {
        plan->has_result = has_result;
        end_plan(sim, plan, state);
    }
    return !after(sim) ? STORE_BROKEN : is_its ? STORE_CHANGED : STORE_LOST;
}

static enum store_changed requeue(struct store *base, const char *id, int64_t attempt, bool crashed)
{
    const struct sim *sim = sim_of(base);
    if (!before(sim))
        return STORE_BROKEN;
    struct simulated_plan *plan = plan_of(sim, id);
    const bool is_its = plan != NULL && plan->state == PLAN_RUNNING && plan->attempts == attempt;
    if (is_its) {
        plan->state = PLAN_QUEUED;
        plan->crashes += crashed;
    }
    return !after(sim) ? STORE_BROKEN : is_its ? STORE_CHANGED : STORE_LOST;
}

static int64_t reclaim(struct store *base, bool all)
{
    const struct sim *sim = sim_of(base);
    int64_t count = 0;
    if (!before(sim))
        return -1;
    for (struct simulated_plan *plan = sim->world->plans; plan < sim->world->plans + SIM_PLANS; plan++) {
        if (!plan->is_there || plan->state != PLAN_RUNNING || (!all && plan->lease_until >= sim->world->now_ms))
            continue;
        count++;
        if (plan->attempts >= SPD_MAX_ATTEMPTS)
            end_plan(sim, plan, PLAN_FAILED);
        else
            plan->state = PLAN_QUEUED;
    }
    return after(sim) ? count : -1;
}

static bool expire(struct store *base, int64_t finished_before, int limit, void (*each)(void *context, const char *id),
                   void *context)
{
    (void)finished_before;
    (void)limit;
    (void)each;
    (void)context;
    return before(sim_of(base)) && after(sim_of(base));
}

static int64_t clock_of_store(struct store *base)
{
    return before(sim_of(base)) && after(sim_of(base)) ? sim_of(base)->world->now_ms : 0;
}

static bool owner_lives(struct store *base, const char *owner)
{
    const int daemon = owner[0] - '0';
    if (!before(sim_of(base)) || daemon < 0 || daemon >= SIM_DAEMONS)
        return true;
    return daemon == sim_of(base)->daemon || lives(sim_of(base)->world, daemon);
}

static void close_store(struct store *base)
{
    free(base);
}

static const struct store_ops ops = {
    .close = close_store,
    .reserve = reserve,
    .unreserve = unreserve,
    .names = names,
    .end_reservations = end_reservations,
    .add_model = add_model,
    .find_model = find_model,
    .find_blob = find_blob,
    .get_model = get_model,
    .delete_model = delete_model,
    .list_files = list_files,
    .get_plan = get_plan,
    .claim = claim,
    .list_waiting = list_waiting,
    .beat = beat,
    .finish = finish,
    .requeue = requeue,
    .reclaim = reclaim,
    .expire = expire,
    .time = clock_of_store,
    .owner_lives = owner_lives,
};

struct store *simulated_store(struct simulated_world *world, int daemon)
{
    struct sim *sim = calloc(1, sizeof *sim);
    struct store_options options = {.lease_seconds = LEASE_MS / 1000};
    if (sim == NULL)
        return NULL;
    (void)snprintf(options.owner, sizeof options.owner, "%d", daemon);
    store_init(&sim->base, &ops, &options);
    sim->world = world;
    sim->daemon = daemon;
    return &sim->base;
}
