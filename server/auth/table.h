#pragma once
/*
 * table - the file of tokens in memory. The form of the file is in auth.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/principal.h"
#include "util/problem.h"

#define AUTH_HASH_SIZE 32 /* SHA-256 */

struct auth_entry {
    struct principal principal;
    int64_t expires_ms; /* since 1970; INT64_MAX: never */
    bool by_certificate;
    unsigned char hash[AUTH_HASH_SIZE];      /* of the token, or */
    char certificate[SPD_MAX_PRINCIPAL + 1]; /* the common name of a certificate */
};

struct auth_table {
    struct auth_entry *entries;
    size_t count;
};

/* Reads and checks a whole file. False with a problem that names the entry; the table is then empty. */
bool auth_table_read(const char *path, struct auth_table *ret_table, struct problem *problem);

/* The same from text, for tests. */
bool auth_table_parse(const char *text, size_t size, struct auth_table *ret_table, struct problem *problem);

void auth_table_release(struct auth_table *table);

/* The hash under which a token is kept. */
bool auth_hash(const char *token, size_t size, unsigned char ret_hash[AUTH_HASH_SIZE]);

/* Letters, digits and "._@-", 1 to SPD_MAX_PRINCIPAL of them: what names of principals and tenants are made of. */
bool auth_is_name(const char *text);

/* "read,plan" with any of the three scopes, each once; 0 when it is something else. */
unsigned auth_parse_scopes(const char *text);

/* The name of one scope. */
const char *auth_scope_name(unsigned scope);

/* RFC 3339 in UTC without fractions, "2027-01-31T00:00:00Z"; false for anything else. */
bool auth_parse_time(const char *text, int64_t *ret_ms);
