#include "net/accounts.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth.h"
#include "auth/principal.h"
#include "server_limits.h"

#define BUCKETS 256

struct account {
    struct accounts *accounts;
    struct account *next;
    char tenant[SPD_MAX_PRINCIPAL + 1];
    unsigned opened;
    uint64_t held[ACCOUNT_KINDS];
};

struct accounts {
    const struct auth *auth;
    uint64_t whole[ACCOUNT_KINDS]; /* does not change once requests are served */
    pthread_mutex_t mutex;         /* guards the rest, the accounts included */
    uint64_t held[ACCOUNT_KINDS];
    struct account *buckets[BUCKETS];
};

/* Whether those who are not identified can take of it. Their connections are counted elsewhere. */
static bool is_open_to_all(enum account_kind kind)
{
    return kind == ACCOUNT_ENCODERS || kind == ACCOUNT_ANSWER_BYTES || kind == ACCOUNT_FILES;
}

static uint64_t share_of(const struct accounts *accounts, enum account_kind kind)
{
    uint64_t parts = auth_all_tenants(accounts->auth);
    if (is_open_to_all(kind) && auth_is_on(accounts->auth))
        parts++;
    if (parts > SPD_MAX_SHARES)
        parts = SPD_MAX_SHARES;
    const uint64_t share = accounts->whole[kind] / (parts > 0 ? parts : 1);
    return share > 0 ? share : 1;
}

struct accounts *accounts_create(const struct auth *auth)
{
    struct accounts *accounts = calloc(1, sizeof *accounts);
    if (accounts == NULL)
        return NULL;
    accounts->auth = auth;
    (void)pthread_mutex_init(&accounts->mutex, NULL);
    return accounts;
}

void accounts_destroy(struct accounts *accounts)
{
    if (accounts == NULL)
        return;
    (void)pthread_mutex_destroy(&accounts->mutex);
    free(accounts);
}

void accounts_set_whole(struct accounts *accounts, enum account_kind kind, uint64_t whole)
{
    accounts->whole[kind] = whole;
}

/* ---- opening and closing ---- */

static struct account **bucket_of(struct accounts *accounts, const char *tenant)
{
    uint32_t hash = 2166136261; /* FNV-1a; the operator names the tenants */
    for (const char *c = tenant; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619;
    return &accounts->buckets[hash % BUCKETS];
}

struct account *accounts_open(struct accounts *accounts, const char *tenant)
{
    struct account **bucket = bucket_of(accounts, tenant);
    (void)pthread_mutex_lock(&accounts->mutex);
    struct account *account = *bucket;
    while (account != NULL && strcmp(account->tenant, tenant) != 0)
        account = account->next;
    if (account == NULL) {
        account = calloc(1, sizeof *account);
        if (account != NULL) {
            account->accounts = accounts;
            (void)snprintf(account->tenant, sizeof account->tenant, "%s", tenant);
            account->next = *bucket;
            *bucket = account;
        }
    }
    if (account != NULL)
        account->opened++;
    (void)pthread_mutex_unlock(&accounts->mutex);
    return account;
}

struct account *account_open_again(struct account *account)
{
    (void)pthread_mutex_lock(&account->accounts->mutex);
    account->opened++;
    (void)pthread_mutex_unlock(&account->accounts->mutex);
    return account;
}

/* The mutex is held. */
static void give_back(struct account *account, enum account_kind kind, uint64_t amount)
{
    assert(account->held[kind] >= amount);
    account->held[kind] -= amount;
    account->accounts->held[kind] -= amount;
}

void account_close(struct account *account, const uint64_t charged[ACCOUNT_KINDS])
{
    if (account == NULL)
        return;
    struct accounts *accounts = account->accounts;
    (void)pthread_mutex_lock(&accounts->mutex);
    for (int kind = 0; kind < ACCOUNT_KINDS && charged != NULL; kind++)
        give_back(account, (enum account_kind)kind, charged[kind]);
    const bool is_last = --account->opened == 0;
    if (is_last) {
        struct account **at = bucket_of(accounts, account->tenant);
        while (*at != account)
            at = &(*at)->next;
        *at = account->next;
    }
    (void)pthread_mutex_unlock(&accounts->mutex);
    if (is_last)
        free(account);
}

/* ---- charging ---- */

static bool over_share(enum account_kind kind, uint64_t share, uint64_t would_be, struct problem *problem)
{
    const int64_t most = (int64_t)share, wanted = (int64_t)would_be;
    switch (kind) {
    case ACCOUNT_CONNECTIONS:
        return problem_set_limit(problem, 429, "QUOTA_CONNECTIONS", "--max-connections", most, wanted,
                                 "This tenant may have %" PRId64 " connections open; close idle ones.", most);
    case ACCOUNT_STREAMS:
        return problem_set_limit(problem, 429, "QUOTA_STREAMS", "--max-connections", most, wanted,
                                 "This tenant may follow %" PRId64 " plans at a time; close a stream of events.", most);
    case ACCOUNT_DECODERS:
        return problem_set_limit(problem, 429, "QUOTA_DECODERS", "SPD_MAX_DECODERS", most, wanted,
                                 "This tenant may send %" PRId64
                                 " compressed bodies at a time; wait for one to end, or "
                                 "send this one uncompressed.",
                                 most);
    case ACCOUNT_ENCODERS:
        return problem_set_limit(problem, 429, "QUOTA_ENCODERS", "SPD_MAX_ENCODERS", most, wanted,
                                 "This tenant may have %" PRId64 " answers compressed at a time.", most);
    case ACCOUNT_BODY_BYTES:
        return problem_set_limit(problem, 429, "QUOTA_BODIES", "SPD_BODIES_BYTES", most, wanted,
                                 "The JSON bodies that this tenant sends at a time may have %" PRId64
                                 " bytes; wait for "
                                 "one to be answered.",
                                 most);
    case ACCOUNT_ANSWER_BYTES:
        return problem_set_limit(problem, 429, "QUOTA_ANSWERS", "SPD_SENT_BYTES", most, wanted,
                                 "The answers on their way to this tenant may take %" PRId64 " bytes of memory; read "
                                 "one to its end first.",
                                 most);
    case ACCOUNT_FILES:
        return problem_set_limit(
            problem, 429, "QUOTA_FILES", "SPD_SPARE_DESCRIPTORS", most, wanted,
            "This tenant may have %" PRId64 " uploads and downloads under way; wait for one to end.", most);
    case ACCOUNT_LINGERING:
    case ACCOUNT_KINDS:
        break;
    }
    return problem_set(problem, 429, "QUOTA_CONNECTIONS",
                       "This tenant has too many connections that are being closed.");
}

bool account_charge(struct account *account, enum account_kind kind, uint64_t amount, struct problem *problem)
{
    if (account == NULL)
        return true;
    struct accounts *accounts = account->accounts;
    const uint64_t share = share_of(accounts, kind), whole = accounts->whole[kind];
    (void)pthread_mutex_lock(&accounts->mutex);
    const uint64_t held = account->held[kind], all = accounts->held[kind];
    const bool is_alone = kind == ACCOUNT_ANSWER_BYTES && held == 0; /* however large */
    const bool is_within_share = is_alone || (held <= share && amount <= share - held);
    const bool fits = is_within_share && (is_alone || (all <= whole && amount <= whole - all));
    if (fits) {
        account->held[kind] += amount;
        accounts->held[kind] += amount;
    }
    (void)pthread_mutex_unlock(&accounts->mutex);
    if (fits)
        return true;
    if (!is_within_share)
        return over_share(kind, share, held + amount, problem);
    return problem_set(problem, 503, "BUSY", "More tenants than this service has shares for are at work; try later.");
}

void account_give_back(struct account *account, enum account_kind kind, uint64_t amount)
{
    if (account == NULL)
        return;
    (void)pthread_mutex_lock(&account->accounts->mutex);
    give_back(account, kind, amount);
    (void)pthread_mutex_unlock(&account->accounts->mutex);
}
