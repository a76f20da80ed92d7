#include "jobs/schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server_limits.h"

#define BUCKETS    1024u
#define LEAST_KEPT 64u /* accounts, before those that nobody needs are looked for */

struct work_list {
    struct work *first, *last;
};

struct account {
    struct account *next;           /* in its bucket */
    struct account *before, *after; /* in the list of those that wait or run something */
    bool listed;
    char tenant[SPD_MAX_PRINCIPAL + 1];
    unsigned weight;

    int64_t balance_us;
    uint64_t charged_us;    /* what runs is charged up to then */
    uint64_t epoch, rounds; /* whose amounts the balance has */
    uint64_t stamp;         /* of its last turn or, later, of when it began to wait */
    unsigned running;

    struct work_list lists[WORK_CLASSES];
    unsigned errands;
    uint64_t offer; /* the last one that had it */
    bool waits;
    unsigned passed; /* errands that went before a plan since its last one */
};

struct schedule {
    struct schedule_options options;
    struct account *buckets[BUCKETS];
    struct account *listed;
    unsigned accounts, look_at; /* how many; with how many to look for some to forget */
    unsigned waiting;           /* accounts that wait */
    unsigned running[WORK_CLASSES];
    uint64_t epoch, rounds; /* so far; an epoch ends when debts are forgotten */
    uint64_t stamps, numbers, offers;
};

/* ---- balances ---- */

/* What one round gives, and up to what it does so. */
static int64_t share(const struct account *account)
{
    return (int64_t)SPD_QUANTUM_US * account->weight;
}

static void charge(struct account *account, uint64_t now_us)
{
    if (now_us <= account->charged_us)
        return;
    account->balance_us -= (int64_t)((now_us - account->charged_us) * account->running);
    account->charged_us = now_us;
}

/* How many rounds it takes until the balance is at least `aim`, which it is not yet. */
static uint64_t rounds_until(const struct account *account, int64_t aim)
{
    return (uint64_t)((aim - account->balance_us + share(account) - 1) / share(account));
}

/* Gives what the rounds since the last time bring. */
static void pay(const struct schedule *schedule, struct account *account)
{
    const uint64_t rounds = schedule->rounds - account->rounds;
    const int64_t full = share(account);
    if (account->balance_us < full) {
        const bool all = account->epoch != schedule->epoch || rounds >= rounds_until(account, full);
        account->balance_us = all ? full : account->balance_us + (int64_t)rounds * share(account);
    }
    account->epoch = schedule->epoch;
    account->rounds = schedule->rounds;
}

static void settle(const struct schedule *schedule, struct account *account, uint64_t now_us)
{
    charge(account, now_us);
    pay(schedule, account);
}

/* ---- accounts ---- */

static uint32_t bucket_of(const char *tenant)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = tenant; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return hash % BUCKETS;
}

/* Forgets those that have nothing to do and owe nothing or, when `all`, whatever they owe. */
static void forget(struct schedule *schedule, bool all)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct account **at = &schedule->buckets[i]; *at != NULL;) {
            struct account *account = *at;
            if (!account->listed)
                pay(schedule, account);
            if (account->listed || (!all && account->balance_us < share(account))) {
                at = &account->next;
                continue;
            }
            *at = account->next;
            free(account);
            schedule->accounts--;
        }
    }
}

static void make_room(struct schedule *schedule)
{
    if (schedule->accounts < schedule->look_at)
        return;
    forget(schedule, false);
    if (schedule->accounts >= SPD_MAX_ACCOUNTS)
        forget(schedule, true);
    schedule->look_at = 2 * schedule->accounts < LEAST_KEPT         ? LEAST_KEPT
                        : 2 * schedule->accounts < SPD_MAX_ACCOUNTS ? 2 * schedule->accounts
                                                                    : SPD_MAX_ACCOUNTS;
}

static struct account *add_account(struct schedule *schedule, const char *tenant, uint32_t bucket)
{
    make_room(schedule);
    struct account *account = schedule->accounts < SPD_MAX_ACCOUNTS ? calloc(1, sizeof *account) : NULL;
    if (account == NULL)
        return NULL;
    const struct schedule_options *options = &schedule->options;
    memcpy(account->tenant, tenant, strnlen(tenant, SPD_MAX_PRINCIPAL));
    account->weight = options->weight != NULL ? options->weight(options->context, tenant) : 1;
    assert(account->weight > 0);
    account->balance_us = share(account);
    account->epoch = schedule->epoch;
    account->rounds = schedule->rounds;
    account->next = schedule->buckets[bucket];
    schedule->buckets[bucket] = account;
    schedule->accounts++;
    return account;
}

/* NULL without memory, or when there are too many. */
static struct account *account_of(struct schedule *schedule, const char *tenant)
{
    const uint32_t bucket = bucket_of(tenant);
    for (struct account *account = schedule->buckets[bucket]; account != NULL; account = account->next) {
        if (strcmp(account->tenant, tenant) == 0)
            return account;
    }
    return add_account(schedule, tenant, bucket);
}

static bool has_plan(const struct schedule *schedule, const struct account *account, bool may_claim)
{
    return account->lists[WORK_PLAN].first != NULL || (may_claim && account->offer == schedule->offers);
}

/* What it waits for or runs has changed. */
static void update(struct schedule *schedule, struct account *account, uint64_t now_us)
{
    const bool waits = account->errands > 0 || has_plan(schedule, account, true);
    if (waits && !account->waits)
        account->stamp = ++schedule->stamps;
    schedule->waiting += (unsigned)waits - (unsigned)account->waits;
    account->waits = waits;
    const bool listed = waits || account->running > 0;
    if (listed == account->listed)
        return;
    account->listed = listed;
    if (listed) {
        account->charged_us = now_us; /* nothing ran */
        pay(schedule, account);
        account->before = NULL;
        account->after = schedule->listed;
        if (account->after != NULL)
            account->after->before = account;
        schedule->listed = account;
        return;
    }
    if (account->after != NULL)
        account->after->before = account->before;
    if (account->before != NULL)
        account->before->after = account->after;
    else
        schedule->listed = account->after;
}

/* ---- what waits ---- */

enum schedule_added schedule_add(struct schedule *schedule, const char *tenant, struct work *work, bool again,
                                 uint64_t now_us)
{
    struct account *account = account_of(schedule, tenant);
    if (account == NULL)
        return SCHEDULE_NO_MEMORY;
    if (work->class != WORK_PLAN && !again && account->errands >= schedule->options.max_waiting)
        return SCHEDULE_FULL;
    struct work_list *list = &account->lists[work->class];
    work->account = account;
    work->number = ++schedule->numbers;
    work->since_us = now_us;
    work->after = NULL;
    work->before = list->last;
    if (list->last != NULL)
        list->last->after = work;
    else
        list->first = work;
    list->last = work;
    account->errands += work->class != WORK_PLAN;
    update(schedule, account, now_us);
    return SCHEDULE_ADDED;
}

/* Out of the list of its account, which is not told. */
static void unlink_work(struct work *work)
{
    struct work_list *list = &work->account->lists[work->class];
    if (work->after != NULL)
        work->after->before = work->before;
    else
        list->last = work->before;
    if (work->before != NULL)
        work->before->after = work->after;
    else
        list->first = work->after;
    work->account->errands -= work->class != WORK_PLAN;
    work->account = NULL;
}

void schedule_remove(struct schedule *schedule, struct work *work)
{
    struct account *account = work->account;
    if (account == NULL)
        return;
    unlink_work(work);
    update(schedule, account, account->charged_us);
}

void schedule_offer_one(struct schedule *schedule, const char *tenant, uint64_t now_us)
{
    struct account *account = account_of(schedule, tenant);
    if (account == NULL)
        return;
    account->offer = schedule->offers;
    update(schedule, account, now_us);
}

void schedule_offer(struct schedule *schedule, const char (*tenants)[SPD_MAX_PRINCIPAL + 1], size_t count,
                    uint64_t now_us)
{
    schedule->offers++;
    for (size_t i = 0; i < count; i++)
        schedule_offer_one(schedule, tenants[i], now_us);
    for (struct account *account = schedule->listed, *after; account != NULL; account = after) {
        after = account->after;
        update(schedule, account, now_us);
    }
}

/* ---- turns ---- */

/* Which classes may take a worker: when the floors of the others are kept afterwards, too. */
static void find_allowed(const struct schedule *schedule, bool ret_allowed[WORK_CLASSES])
{
    unsigned busy = 0, kept = 0, missing[WORK_CLASSES];
    for (unsigned i = 0; i < WORK_CLASSES; i++) {
        const unsigned floor = schedule->options.floors[i], running = schedule->running[i];
        missing[i] = floor > running ? floor - running : 0;
        busy += running;
        kept += missing[i];
    }
    for (unsigned i = 0; i < WORK_CLASSES; i++)
        ret_allowed[i] = busy + 1 + kept - missing[i] <= schedule->options.workers;
}

/* The errand of the account that came first and may run; NULL: none. */
static struct work *first_errand(const struct account *account, const bool allowed[WORK_CLASSES])
{
    struct work *brief = allowed[WORK_SHORT] ? account->lists[WORK_SHORT].first : NULL,
                *lengthy = allowed[WORK_LONG] ? account->lists[WORK_LONG].first : NULL;
    if (brief == NULL || (lengthy != NULL && lengthy->number < brief->number))
        return lengthy;
    return brief;
}

/* What the account would do with a worker; WORK_CLASSES: nothing. */
static enum work_class next_class(const struct schedule *schedule, const struct account *account,
                                  const bool allowed[WORK_CLASSES], bool may_claim)
{
    const struct work *errand = first_errand(account, allowed);
    const bool plan = allowed[WORK_PLAN] && has_plan(schedule, account, may_claim);
    if (errand != NULL && (!plan || account->passed < SPD_ERRANDS_PER_PLAN))
        return errand->class;
    return plan ? WORK_PLAN : WORK_CLASSES;
}

/* Whether the first one's turn comes before the other's. */
static bool goes_before(const struct account *account, const struct account *other)
{
    const int64_t own = account->balance_us * other->weight, others = other->balance_us * account->weight;
    return own != others ? own > others : account->stamp < other->stamp;
}

/* Whose turn it is, with all balances as they are now; NULL: nobody's. */
static struct account *find_next(const struct schedule *schedule, const bool allowed[WORK_CLASSES], bool may_claim,
                                 uint64_t now_us)
{
    struct account *next = NULL;
    for (struct account *account = schedule->listed; account != NULL; account = account->after) {
        settle(schedule, account, now_us);
        if (account->waits && next_class(schedule, account, allowed, may_claim) != WORK_CLASSES &&
            (next == NULL || goes_before(account, next)))
            next = account;
    }
    return next;
}

/* As many rounds as it takes until this account has something to spend. */
static void begin_rounds(struct schedule *schedule, const struct account *account)
{
    if (account->balance_us > 0)
        return;
    schedule->rounds += rounds_until(account, 1);
    for (struct account *each = schedule->listed; each != NULL; each = each->after)
        pay(schedule, each);
}

static void take_turn(struct schedule *schedule, struct account *account, enum work_class class, uint64_t now_us)
{
    account->passed = class == WORK_PLAN ? 0 : account->passed + has_plan(schedule, account, true);
    account->balance_us -= SPD_QUANTUM_US;
    account->running++;
    account->stamp = ++schedule->stamps;
    schedule->running[class]++;
    update(schedule, account, now_us);
}

bool schedule_pick(struct schedule *schedule, bool may_claim, uint64_t now_us, struct turn *ret_turn)
{
    bool allowed[WORK_CLASSES];
    unsigned busy = 0;
    for (unsigned i = 0; i < WORK_CLASSES; i++)
        busy += schedule->running[i];
    if (schedule->waiting == 0 && busy < schedule->options.workers)
        schedule->epoch++;
    find_allowed(schedule, allowed);
    struct account *account = find_next(schedule, allowed, may_claim, now_us);
    if (account == NULL)
        return false;
    begin_rounds(schedule, account);
    const enum work_class class = next_class(schedule, account, allowed, may_claim);
    struct work *work = class == WORK_PLAN ? account->lists[WORK_PLAN].first : first_errand(account, allowed);
    if (work != NULL)
        unlink_work(work);
    take_turn(schedule, account, class, now_us);
    *ret_turn = (struct turn){account, class, work};
    return true;
}

void schedule_end(struct schedule *schedule, struct turn *turn, uint64_t now_us)
{
    struct account *account = turn->account;
    if (account == NULL)
        return;
    settle(schedule, account, now_us);
    account->balance_us += SPD_QUANTUM_US;
    account->running--;
    schedule->running[turn->class]--;
    *turn = (struct turn){0};
    update(schedule, account, now_us);
}

const char *turn_tenant(const struct turn *turn)
{
    return turn->account->tenant;
}

/* ---- all of it ---- */

struct work *schedule_take_errand(struct schedule *schedule)
{
    for (struct account *account = schedule->listed; account != NULL; account = account->after) {
        for (unsigned class = 0; class < WORK_PLAN; class ++) {
            struct work *work = account->lists[class].first;
            if (work == NULL)
                continue;
            schedule_remove(schedule, work);
            return work;
        }
    }
    return NULL;
}

struct schedule_waiting schedule_waiting(const struct schedule *schedule, enum work_class class, uint64_t now_us)
{
    struct schedule_waiting waiting = {0};
    for (const struct account *account = schedule->listed; account != NULL; account = account->after) {
        for (const struct work *work = account->lists[class].first; work != NULL; work = work->after) {
            const uint64_t waited = now_us > work->since_us ? now_us - work->since_us : 0;
            waiting.count++;
            if (waited > waiting.longest_us)
                waiting.longest_us = waited;
        }
    }
    return waiting;
}

struct schedule *schedule_create(const struct schedule_options *options)
{
    struct schedule *schedule = calloc(1, sizeof *schedule);
    if (schedule == NULL)
        return NULL;
    schedule->options = *options;
    schedule->offers = 1; /* accounts begin with 0: not offered */
    schedule->look_at = LEAST_KEPT;
    unsigned floors = 0;
    for (unsigned i = 0; i < WORK_CLASSES; i++)
        floors += options->floors[i];
    assert(floors <= options->workers);
    return schedule;
}

void schedule_destroy(struct schedule *schedule)
{
    if (schedule == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (schedule->buckets[i] != NULL) {
            struct account *account = schedule->buckets[i];
            schedule->buckets[i] = account->next;
            free(account);
        }
    }
    free(schedule);
}
