#include "auth/auth.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth/table.h"
#include "server_limits.h"

struct auth {
    const char *path;  /* of the file of tokens, "" without one */
    bool by_authority; /* certificates of the client authority need no entry */
    bool on;
    _Atomic size_t tenants;     /* of the table, that may store something */
    _Atomic size_t all_tenants; /* of the table */
    pthread_rwlock_t lock;      /* guards the table */
    struct auth_table table;
};

bool auth_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &v6) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

/* Whether an entry before this one with one of these scopes is of the same tenant. */
static bool is_known(const struct auth_table *table, size_t entry, unsigned scope)
{
    for (size_t i = 0; i < entry; i++) {
        if ((table->entries[i].principal.scopes & scope) != 0 &&
            strcmp(table->entries[i].principal.tenant, table->entries[entry].principal.tenant) == 0)
            return true;
    }
    return false;
}

/* Tenants with principals that have one of these scopes. */
static size_t count_tenants(const struct auth_table *table, unsigned scope)
{
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++)
        count += (table->entries[i].principal.scopes & scope) != 0 && !is_known(table, i, scope);
    return count;
}

static void count_all(struct auth *auth)
{
    atomic_store(&auth->tenants, count_tenants(&auth->table, SCOPE_PLAN));
    atomic_store(&auth->all_tenants, !auth->on            ? 1
                                     : auth->by_authority ? SPD_MAX_SHARES
                                                          : count_tenants(&auth->table, ~0u));
}

bool auth_create(const struct config *config, struct auth **ret_auth, struct problem *problem)
{
    bool has_tokens = config->tokens[0] != '\0', has_authority = config->tls_client_ca[0] != '\0';
    if (!has_tokens && !has_authority && !auth_is_loopback(config->listen.host))
        return problem_set(problem, 500, "OPEN_TO_ALL",
                           "--listen %s is open to other machines, and nothing says who may ask. Give --tokens FILE "
                           "('shardpland token NAME' makes a token) or --tls-client-ca FILE, or listen on 127.0.0.1.",
                           config->listen.text);
    struct auth *auth = calloc(1, sizeof *auth);
    if (auth == NULL || pthread_rwlock_init(&auth->lock, NULL) != 0) {
        free(auth);
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    }
    auth->path = config->tokens;
    auth->on = has_tokens || has_authority;
    auth->by_authority = has_authority && !has_tokens;
    if (has_tokens && !auth_table_read(auth->path, &auth->table, problem)) {
        auth_destroy(auth);
        return false;
    }
    count_all(auth);
    *ret_auth = auth;
    return true;
}

size_t auth_tenants(const struct auth *auth)
{
    return atomic_load(&auth->tenants);
}

size_t auth_all_tenants(const struct auth *auth)
{
    return atomic_load(&auth->all_tenants);
}

void auth_destroy(struct auth *auth)
{
    if (auth == NULL)
        return;
    auth_table_release(&auth->table);
    (void)pthread_rwlock_destroy(&auth->lock);
    free(auth);
}

bool auth_reload(struct auth *auth, struct problem *problem)
{
    struct auth_table fresh, old;
    if (auth->path[0] == '\0')
        return true;
    if (!auth_table_read(auth->path, &fresh, problem))
        return false;
    (void)pthread_rwlock_wrlock(&auth->lock);
    old = auth->table;
    auth->table = fresh;
    count_all(auth);
    (void)pthread_rwlock_unlock(&auth->lock);
    auth_table_release(&old);
    return true;
}

bool auth_is_on(const struct auth *auth)
{
    return auth->on;
}

/* ---- one request ---- */

/* The token of "Bearer TOKEN", or NULL when the value is something else. */
static const char *bearer(const char *authorization)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
    if (strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    const char *token = authorization + 7;
    token += strspn(token, " ");
    size_t size = strspn(token, allowed);
    return token[size] == '\0' && size >= SPD_MIN_TOKEN_BYTES && size <= SPD_MAX_TOKEN_BYTES ? token : NULL;
}

/* Looks at every entry, whatever it finds, so that the time says nothing about the entries. */
static const struct auth_entry *find_token(const struct auth_table *table, const char *token)
{
    unsigned char hash[AUTH_HASH_SIZE];
    const struct auth_entry *found = NULL;
    if (!auth_hash(token, strlen(token), hash))
        return NULL;
    for (size_t i = 0; i < table->count; i++) {
        const struct auth_entry *entry = &table->entries[i];
        bool same = gnutls_memcmp(entry->hash, hash, sizeof hash) == 0;
        if (same && !entry->by_certificate)
            found = entry;
    }
    return found;
}

static const struct auth_entry *find_certificate(const struct auth_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (table->entries[i].by_certificate && strcmp(table->entries[i].certificate, name) == 0)
            return &table->entries[i];
    }
    return NULL;
}

enum auth_result auth_identify(struct auth *auth, const char *authorization, const char *certificate_name,
                               int64_t now_ms, struct principal *ret_principal)
{
    if (certificate_name != NULL && auth->by_authority) {
        if (!auth_is_name(certificate_name))
            return AUTH_WRONG;
        *ret_principal = (struct principal){.scopes = SCOPE_READ | SCOPE_PLAN};
        (void)snprintf(ret_principal->name, sizeof ret_principal->name, "%s", certificate_name);
        (void)snprintf(ret_principal->tenant, sizeof ret_principal->tenant, "%s", certificate_name);
        return AUTH_OK;
    }
    if (certificate_name == NULL && authorization == NULL)
        return AUTH_MISSING;
    const char *token = authorization != NULL ? bearer(authorization) : NULL;
    enum auth_result result = AUTH_WRONG;
    (void)pthread_rwlock_rdlock(&auth->lock);
    const struct auth_entry *entry = certificate_name != NULL ? find_certificate(&auth->table, certificate_name) : NULL;
    if (entry == NULL && token != NULL)
        entry = find_token(&auth->table, token);
    if (entry != NULL && entry->expires_ms > now_ms) {
        *ret_principal = entry->principal;
        result = AUTH_OK;
    }
    (void)pthread_rwlock_unlock(&auth->lock);
    return result;
}
