/* The schedule beside a second implementation that looks at everything each time, and what it promises in simulations. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "jobs/schedule.h"
#include "server_limits.h"

#define TENANTS 8
#define WORKERS 9
#define JOBS    100

static uint64_t seed = 1;

static unsigned below(unsigned bound)
{
    return (unsigned)sp_random_below(&seed, bound);
}

static const char *name_of(unsigned tenant)
{
    static char names[16][16];
    (void)snprintf(names[tenant], sizeof names[0], "t%u", tenant);
    return names[tenant];
}

static unsigned tenant_of(const char *name)
{
    return (unsigned)strtoul(name + 1, NULL, 10);
}

static unsigned weights[16];

static unsigned weight_of(const void *context, const char *tenant)
{
    (void)context;
    return weights[tenant_of(tenant)];
}

/* ---- a second implementation: amounts are kept up to date for everybody, at every moment ---- */

struct person {
    int64_t balance;
    unsigned running, passed;
    unsigned stamp; /* of the last turn, or since when it waits */
    bool waits, offered;
};

struct job {
    unsigned tenant, class, number; /* number 0: it does not wait */
    struct work work;
};

struct model {
    unsigned workers, floors[WORK_CLASSES], running[WORK_CLASSES];
    struct person persons[TENANTS];
    struct job jobs[JOBS];
    uint64_t now;
    unsigned stamps;
};

static int64_t full(unsigned tenant)
{
    return (int64_t)SPD_QUANTUM_US * weights[tenant];
}

static struct job *model_first(struct model *model, unsigned tenant, unsigned class)
{
    struct job *first = NULL;
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *job = &model->jobs[i];
        if (job->number != 0 && job->tenant == tenant && job->class == class &&
            (first == NULL || job->number < first->number))
            first = job;
    }
    return first;
}

static void model_look(struct model *model)
{
    for (unsigned t = 0; t < TENANTS; t++) {
        struct person *person = &model->persons[t];
        bool waits = person->offered;
        for (unsigned c = 0; c < WORK_CLASSES; c++)
            waits = waits || model_first(model, t, c) != NULL;
        if (waits && !person->waits)
            person->stamp = ++model->stamps;
        person->waits = waits;
    }
}

static void model_pass(struct model *model, uint64_t time)
{
    for (unsigned t = 0; t < TENANTS; t++)
        model->persons[t].balance -= (int64_t)(time * model->persons[t].running);
    model->now += time;
}

static unsigned model_busy(const struct model *model)
{
    return model->running[0] + model->running[1] + model->running[2];
}

/* One more of the class leaves the others what their floors lack. */
static bool model_allows(const struct model *model, unsigned class)
{
    int left = (int)(model->workers - model_busy(model)) - 1;
    for (unsigned c = 0; c < WORK_CLASSES; c++) {
        if (c != class && model->running[c] < model->floors[c])
            left -= (int)(model->floors[c] - model->running[c]);
    }
    return left >= 0;
}

/* The class that the tenant would have next; -1: none. */
static int model_class(struct model *model, unsigned t, bool may_claim)
{
    struct job *brief = model_allows(model, WORK_SHORT) ? model_first(model, t, WORK_SHORT) : NULL;
    struct job *lengthy = model_allows(model, WORK_LONG) ? model_first(model, t, WORK_LONG) : NULL;
    bool plan = model_allows(model, WORK_PLAN) &&
                (model_first(model, t, WORK_PLAN) != NULL || (may_claim && model->persons[t].offered));
    bool errand = brief != NULL || lengthy != NULL;
    if (plan && (!errand || model->persons[t].passed >= SPD_ERRANDS_PER_PLAN))
        return WORK_PLAN;
    if (!errand)
        return -1;
    return lengthy == NULL || (brief != NULL && brief->number < lengthy->number) ? WORK_SHORT : WORK_LONG;
}

/* Whose turn it is; -1: nobody's. */
static int model_pick(struct model *model, bool may_claim)
{
    bool any = false;
    int next = -1;
    for (unsigned t = 0; t < TENANTS; t++)
        any = any || model->persons[t].waits;
    for (unsigned t = 0; t < TENANTS && !any && model_busy(model) < model->workers; t++)
        model->persons[t].balance = model->persons[t].balance < full(t) ? full(t) : model->persons[t].balance;
    for (unsigned t = 0; t < TENANTS; t++) {
        const struct person *person = &model->persons[t], *best = next >= 0 ? &model->persons[next] : NULL;
        if (model_class(model, t, may_claim) < 0)
            continue;
        double own = (double)person->balance / weights[t],
               top = best != NULL ? (double)best->balance / weights[next] : 0;
        if (best == NULL || own > top || (own == top && person->stamp < best->stamp))
            next = (int)t;
    }
    if (next < 0)
        return -1;
    while (model->persons[next].balance <= 0) {
        for (unsigned t = 0; t < TENANTS; t++) {
            int64_t *balance = &model->persons[t].balance;
            if (*balance < full(t))
                *balance = *balance + full(t) > full(t) ? full(t) : *balance + full(t);
        }
    }
    return next;
}

static void model_start(struct model *model, unsigned t, unsigned class)
{
    struct person *person = &model->persons[t];
    bool plan = person->offered || model_first(model, t, WORK_PLAN) != NULL;
    person->passed = class == WORK_PLAN ? 0 : person->passed + plan;
    person->balance -= SPD_QUANTUM_US;
    person->running++;
    person->stamp = ++model->stamps;
    model->running[class]++;
}

static void model_end(struct model *model, unsigned t, unsigned class)
{
    struct person *person = &model->persons[t];
    person->balance += SPD_QUANTUM_US;
    person->running--;
    model->running[class]--;
}

/* ---- both with the same history ---- */

struct both {
    struct model model;
    struct schedule *schedule;
    struct turn turns[WORKERS];
    unsigned numbers;
};

static void check_floors(const struct model *model)
{
    for (unsigned c = 0; c < WORK_CLASSES; c++)
        cr_assert_leq(model_busy(model) - model->running[c], model->workers - model->floors[c]);
}

static bool pick(struct both *both, bool may_claim)
{
    struct model *model = &both->model;
    struct turn turn = {0};
    const int tenant = model_pick(model, may_claim);
    const int class = tenant >= 0 ? model_class(model, (unsigned)tenant, may_claim) : -1;
    const bool picked = schedule_pick(both->schedule, may_claim, model->now, &turn);
    cr_assert_eq(picked, tenant >= 0);
    if (!picked) {
        /* Idle only where floors say so. */
        for (unsigned i = 0; i < JOBS; i++)
            cr_assert(model->jobs[i].number == 0 || !model_allows(model, model->jobs[i].class));
        return false;
    }
    cr_assert_eq(tenant_of(turn_tenant(&turn)), (unsigned)tenant);
    cr_assert_eq((int)turn.class, class);
    struct job *job = model_first(model, (unsigned)tenant, (unsigned)class);
    cr_assert_eq(turn.work, job != NULL ? &job->work : NULL);
    if (job != NULL)
        job->number = 0;
    model_start(model, (unsigned)tenant, (unsigned)class);
    for (unsigned i = 0; i < WORKERS; i++) {
        if (both->turns[i].account == NULL) {
            both->turns[i] = turn;
            break;
        }
    }
    model_look(model);
    check_floors(model);
    return true;
}

static void add(struct both *both)
{
    struct model *model = &both->model;
    struct job *job = &model->jobs[below(JOBS)];
    if (job->number != 0)
        return;
    *job = (struct job){.tenant = below(TENANTS), .class = below(WORK_CLASSES), .number = ++both->numbers};
    job->work = (struct work){.class = (enum work_class)job->class, .owner = job};
    cr_assert_eq(schedule_add(both->schedule, name_of(job->tenant), &job->work, false, model->now), SCHEDULE_ADDED);
    model_look(model);
}

static void take_away(struct both *both)
{
    struct job *job = &both->model.jobs[below(JOBS)];
    schedule_remove(both->schedule, &job->work);
    job->number = 0;
    model_look(&both->model);
}

static void offer(struct both *both)
{
    char names[TENANTS][SPD_MAX_PRINCIPAL + 1];
    size_t count = 0;
    for (unsigned t = 0; t < TENANTS; t++) {
        both->model.persons[t].offered = below(3) == 0;
        if (both->model.persons[t].offered)
            (void)snprintf(names[count++], sizeof names[0], "%.*s", SPD_MAX_PRINCIPAL, name_of(t));
    }
    schedule_offer(both->schedule, (const char(*)[SPD_MAX_PRINCIPAL + 1]) names, count, both->model.now);
    model_look(&both->model);
}

static void end(struct both *both)
{
    struct turn *turn = &both->turns[below(WORKERS)];
    if (turn->account == NULL)
        return;
    const unsigned tenant = tenant_of(turn_tenant(turn)), class = turn->class;
    schedule_end(both->schedule, turn, both->model.now);
    cr_assert_null(turn->account);
    model_end(&both->model, tenant, class);
    model_look(&both->model);
}

static void check_waiting(struct both *both)
{
    for (unsigned c = 0; c < WORK_CLASSES; c++) {
        unsigned count = 0;
        for (unsigned i = 0; i < JOBS; i++)
            count += both->model.jobs[i].number != 0 && both->model.jobs[i].class == c;
        cr_assert_eq(schedule_waiting(both->schedule, (enum work_class)c, both->model.now).count, count);
    }
}

static void live_through(unsigned steps)
{
    struct both *both = calloc(1, sizeof *both);
    cr_assert_not_null(both);
    struct schedule_options options = {.workers = 1 + below(WORKERS), .max_waiting = JOBS, .weight = weight_of};
    for (unsigned left = options.workers, c = 0; c < WORK_CLASSES; c++) {
        options.floors[c] = below(left + 1 < 3 ? left + 1 : 3);
        left -= options.floors[c];
    }
    for (unsigned t = 0; t < TENANTS; t++) {
        weights[t] = below(3) == 0 ? 1 + below(7) : 1;
        both->model.persons[t].balance = full(t);
    }
    both->model.workers = options.workers;
    memcpy(both->model.floors, options.floors, sizeof options.floors);
    both->schedule = schedule_create(&options);
    cr_assert_not_null(both->schedule);
    /* In some histories much comes and little ends, in others it is the other way round. */
    const unsigned adds = 1 + below(6), ends = 1 + below(6);
    for (unsigned i = 0; i < steps; i++) {
        const unsigned what = below(adds + ends + 4);
        if (what < adds)
            add(both);
        else if (what < adds + ends)
            end(both);
        else if (what == adds + ends)
            take_away(both);
        else if (what == adds + ends + 1)
            offer(both);
        else
            model_pass(&both->model, below(4) == 0 ? below(3000000) : below(50000));
        while (below(5) != 0 && pick(both, below(3) != 0)) {
        }
    }
    check_waiting(both);
    struct work *work;
    unsigned errands = 0;
    while ((work = schedule_take_errand(both->schedule)) != NULL)
        errands += ((struct job *)work->owner)->class != WORK_PLAN;
    cr_assert_eq(schedule_waiting(both->schedule, WORK_SHORT, 0).count, 0);
    cr_assert_eq(schedule_waiting(both->schedule, WORK_LONG, 0).count, 0);
    for (unsigned i = 0; i < JOBS; i++)
        errands -= both->model.jobs[i].number != 0 && both->model.jobs[i].class != WORK_PLAN;
    cr_assert_eq(errands, 0);
    schedule_destroy(both->schedule);
    free(both);
}

Test(schedule, random_histories)
{
    for (unsigned i = 0; i < 3000; i++)
        live_through(200);
}

/* ---- promises, in time that passes ---- */

/* A tenant that always keeps so many jobs waiting or running, of `least` to `most` microseconds. */
struct source {
    unsigned depth, least, most, class;
    unsigned sent, waiting; /* there now */
    uint64_t used, started, longest_wait;
};

struct sent {
    struct work work;
    uint64_t since;
};

struct world {
    struct schedule *schedules[4]; /* of as many daemons */
    unsigned daemons, workers, tenants;
    struct source sources[16];
    struct turn turns[4][WORKERS];
    uint64_t begins[4][WORKERS], ends[4][WORKERS], now;
    bool of_store; /* the plans are in the store: every daemon may have them */
};

static struct world *new_world(unsigned daemons, unsigned workers, unsigned tenants)
{
    struct world *world = calloc(1, sizeof *world);
    cr_assert_not_null(world);
    *world = (struct world){.daemons = daemons, .workers = workers, .tenants = tenants};
    for (unsigned i = 0; i < daemons; i++) {
        world->schedules[i] = schedule_create(&(struct schedule_options){
            .workers = workers, .max_waiting = SPD_MAX_WAITING_ERRANDS, .weight = weight_of});
        cr_assert_not_null(world->schedules[i]);
    }
    for (unsigned t = 0; t < 16; t++)
        weights[t] = 1;
    return world;
}

static void end_world(struct world *world)
{
    struct work *work;
    for (unsigned i = 0; i < world->daemons; i++) {
        while ((work = schedule_take_errand(world->schedules[i])) != NULL)
            free(work->owner);
        schedule_destroy(world->schedules[i]);
    }
    free(world);
}

static void send(struct world *world, unsigned tenant)
{
    struct source *source = &world->sources[tenant];
    source->sent++;
    source->waiting++;
    if (world->of_store)
        return;
    struct sent *sent = calloc(1, sizeof *sent);
    cr_assert_not_null(sent);
    sent->since = world->now;
    sent->work = (struct work){.class = (enum work_class)source->class, .owner = sent};
    cr_assert_eq(schedule_add(world->schedules[0], name_of(tenant), &sent->work, false, world->now), SCHEDULE_ADDED);
}

static void offer_all(struct world *world, unsigned daemon)
{
    char names[16][SPD_MAX_PRINCIPAL + 1];
    size_t count = 0;
    for (unsigned t = 0; t < world->tenants; t++) {
        if (world->sources[t].waiting > 0)
            (void)snprintf(names[count++], sizeof names[0], "%.*s", SPD_MAX_PRINCIPAL, name_of(t));
    }
    schedule_offer(world->schedules[daemon], (const char(*)[SPD_MAX_PRINCIPAL + 1]) names, count, world->now);
}

static void give(struct world *world, unsigned daemon, unsigned worker, const struct turn *turn)
{
    struct source *source = &world->sources[tenant_of(turn_tenant(turn))];
    cr_assert_gt(source->waiting, 0);
    source->waiting--;
    source->started++;
    world->turns[daemon][worker] = *turn;
    world->begins[daemon][worker] = world->now;
    world->ends[daemon][worker] = world->now + source->least + below(source->most - source->least + 1);
    if (turn->work == NULL)
        return;
    struct sent *sent = turn->work->owner;
    if (world->now - sent->since > source->longest_wait)
        source->longest_wait = world->now - sent->since;
    free(sent);
}

static void use_workers(struct world *world)
{
    for (unsigned d = 0; d < world->daemons; d++) {
        for (unsigned w = 0; w < world->workers; w++) {
            struct turn turn;
            if (world->turns[d][w].account != NULL)
                continue;
            if (world->of_store)
                offer_all(world, d);
            if (!schedule_pick(world->schedules[d], true, world->now, &turn))
                break;
            give(world, d, w, &turn);
        }
    }
}

/* To the next end of a job, or only to `until`. */
static void pass(struct world *world, uint64_t until)
{
    uint64_t next = until;
    for (unsigned d = 0; d < world->daemons; d++) {
        for (unsigned w = 0; w < world->workers; w++) {
            if (world->turns[d][w].account != NULL && world->ends[d][w] < next)
                next = world->ends[d][w];
        }
    }
    for (unsigned d = 0; d < world->daemons; d++) {
        for (unsigned w = 0; w < world->workers; w++) {
            struct turn *turn = &world->turns[d][w];
            if (turn->account == NULL)
                continue;
            struct source *source = &world->sources[tenant_of(turn_tenant(turn))];
            source->used += next - world->now;
            if (world->ends[d][w] > next)
                continue;
            source->sent--;
            schedule_end(world->schedules[d], turn, next);
        }
    }
    world->now = next;
}

static void run(struct world *world, uint64_t until)
{
    while (world->now < until) {
        for (unsigned t = 0; t < world->tenants; t++) {
            while (world->sources[t].sent < world->sources[t].depth)
                send(world, t);
        }
        use_workers(world);
        pass(world, until);
    }
}

/* Two that always wait are never further apart than the jobs that are under way, by weight, however long their jobs. */
static void check_shares(unsigned daemons, bool of_store)
{
    for (unsigned i = 0; i < 50; i++) {
        struct world *world = new_world(daemons, 1 + below(4), 2 + below(6));
        unsigned most = 0;
        world->of_store = of_store;
        for (unsigned t = 0; t < world->tenants; t++) {
            const unsigned length = 1000u << below(12);
            weights[t] = 1 + below(4);
            world->sources[t] =
                (struct source){.depth = 40, .least = length, .most = length + below(length), .class = WORK_PLAN};
            most = world->sources[t].most > most ? world->sources[t].most : most;
        }
        for (unsigned step = 1; step <= 20; step++) {
            run(world, step * (uint64_t)5000000);
            for (unsigned a = 0; a < world->tenants; a++) {
                for (unsigned b = 0; b < world->tenants; b++)
                    cr_assert_leq((double)world->sources[a].used / weights[a] -
                                      (double)world->sources[b].used / weights[b],
                                  (double)daemons * world->workers * (most + SPD_QUANTUM_US));
            }
        }
        end_world(world);
    }
}

Test(schedule, shares_of_time)
{
    check_shares(1, true);
}

Test(schedule, shares_of_time_over_several_daemons)
{
    check_shares(3, true);
}

/* One tenant keeps 60 jobs waiting; nine have one at a time. */
Test(schedule, a_flood_leaves_others_their_share)
{
    for (unsigned i = 0; i < 40; i++) {
        struct world *world = new_world(1, 1 + below(5), 10);
        const unsigned length = 1000u << below(11);
        uint64_t total = 0, until = 200 * (uint64_t)length * 10 + 100000000;
        for (unsigned t = 0; t < 10; t++)
            world->sources[t] = (struct source){
                .depth = t == 0 ? 60 : 1, .least = length, .most = 2 * length, .class = t == 0 ? WORK_SHORT : below(2)};
        run(world, until);
        for (unsigned t = 0; t < 10; t++)
            total += world->sources[t].used;
        cr_assert_geq(total * 1.0 + world->workers, (double)until * world->workers, "a worker was idle");
        for (unsigned t = 1; t < 10; t++)
            cr_assert_geq((double)world->sources[t].used, 0.8 * (double)total / 10, "tenant %u", t);
        end_world(world);
    }
}

/* Who comes once in a while gets the next worker that is free: waits for one job of the flood at most. */
Test(schedule, a_flood_delays_others_by_one_job)
{
    for (unsigned i = 0; i < 100; i++) {
        struct world *world = new_world(1, 1 + below(5), 2);
        const unsigned length = 1000u << below(12);
        world->sources[0] = (struct source){.depth = 64, .least = length / 2, .most = length, .class = WORK_SHORT};
        world->sources[1] = (struct source){.least = 1, .most = length / 4, .class = below(2)};
        run(world, 1 + below(3000000));
        for (unsigned j = 0; j < 50; j++) {
            if (world->sources[1].sent == 0)
                send(world, 1);
            run(world, world->now + 1 + below(3 * length));
        }
        run(world, world->now + 3 * length);
        cr_assert_gt(world->sources[1].started, 10);
        cr_assert_leq(world->sources[1].longest_wait, length + 100000 * world->workers);
        end_world(world);
    }
}

/* ---- the rest ---- */

Test(schedule, a_tenant_has_so_many_errands)
{
    struct schedule *schedule = schedule_create(&(struct schedule_options){.workers = 1, .max_waiting = 2});
    struct work work[6] = {{.class = WORK_SHORT}, {.class = WORK_LONG},  {.class = WORK_SHORT},
                           {.class = WORK_PLAN},  {.class = WORK_SHORT}, {.class = WORK_SHORT}};
    struct turn turn;
    cr_expect_eq(schedule_add(schedule, "a", &work[0], false, 1), SCHEDULE_ADDED);
    cr_expect_eq(schedule_add(schedule, "a", &work[1], false, 2), SCHEDULE_ADDED);
    cr_expect_eq(schedule_add(schedule, "a", &work[2], false, 3), SCHEDULE_FULL);
    cr_expect_null(work[2].account);
    cr_expect_eq(schedule_add(schedule, "a", &work[3], false, 3), SCHEDULE_ADDED, "a plan is no errand");
    cr_expect_eq(schedule_add(schedule, "b", &work[4], false, 4), SCHEDULE_ADDED, "others may");
    cr_expect_eq(schedule_add(schedule, "a", &work[2], true, 5), SCHEDULE_ADDED, "what was picked before may again");
    cr_expect(schedule_waiting(schedule, WORK_SHORT, 11).longest_us == 10);
    cr_expect(schedule_pick(schedule, true, 12, &turn) && turn.work == &work[0]);
    cr_expect_eq(schedule_add(schedule, "a", &work[5], false, 13), SCHEDULE_FULL);
    schedule_remove(schedule, &work[1]);
    cr_expect_eq(schedule_add(schedule, "a", &work[5], false, 14), SCHEDULE_ADDED);
    schedule_destroy(schedule);
}

/* More tenants than are remembered come one after the other, beside one that always waits and owes more each time. */
Test(schedule, many_tenants)
{
    struct schedule *schedule = schedule_create(&(struct schedule_options){.workers = 1, .max_waiting = 2});
    struct work always = {.class = WORK_SHORT};
    unsigned turns = 0;
    uint64_t now = 0;
    cr_assert_eq(schedule_add(schedule, "always", &always, false, now), SCHEDULE_ADDED);
    for (unsigned i = 0; i < 3 * SPD_MAX_ACCOUNTS; i++) {
        char name[16];
        struct turn turn;
        struct work work = {.class = WORK_SHORT};
        (void)snprintf(name, sizeof name, "tenant-%u", i);
        cr_assert_eq(schedule_add(schedule, name, &work, false, now), SCHEDULE_ADDED);
        cr_assert(schedule_pick(schedule, true, now, &turn));
        now += 900000;
        schedule_end(schedule, &turn, now);
        if (work.account == NULL)
            continue;
        turns++;
        cr_assert_eq(schedule_add(schedule, "always", &always, true, now), SCHEDULE_ADDED);
        cr_assert(schedule_pick(schedule, true, now, &turn));
        cr_assert_eq(turn.work, &work, "who used most waits");
        schedule_end(schedule, &turn, now + 1);
    }
    cr_expect_gt(turns, 0);
    schedule_destroy(schedule);
}
