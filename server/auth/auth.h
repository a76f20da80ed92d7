#pragma once
/*
 * auth - from credentials to a principal.
 *
 * The file of tokens is JSON; it holds no secret, only hashes of secrets that were made by a machine:
 *
 *   {"principals": [
 *     {"name": "ci", "tenant": "vision", "scopes": ["read", "plan"], "expires_at": "2027-01-31T00:00:00Z",
 *      "token_sha256": "64 hexadecimal digits"},
 *     {"name": "trainer-7", "tenant": "vision", "scopes": ["read"], "certificate": "CN of a client certificate"}]}
 *
 * `shardpland token NAME --tenant T --scopes read,plan --days 90` prints a new token in its first line and the entry
 * for the file in its second one. "tenant" defaults to the name, "expires_at" to never. Unknown members, weak or
 * repeated entries are errors that name the entry: the daemon does not start, and a reload keeps what it had.
 *
 * With a client authority (mTLS) and no file of tokens each certificate of that authority is a principal named and
 * tenanted by its common name, with the scopes read and plan.
 *
 * Tokens are compared by their hashes in constant time, over all entries, so timing tells nothing. Any thread may ask;
 * a reload swaps the table under a lock. Neither tokens nor their hashes are ever logged.
 */
#include <stdbool.h>
#include <stdint.h>

#include "auth/principal.h"
#include "config/config.h"
#include "util/problem.h"

struct auth;

/* What an attempt found. */
enum auth_result {
    AUTH_OK,
    AUTH_MISSING, /* no credentials: 401 with WWW-Authenticate: Bearer */
    AUTH_WRONG,   /* unknown, malformed or expired: 401, the same answer for all of them */
};

/* Reads the file of tokens, when there is one. False with a problem when the configuration would let strangers in:
   listening beyond loopback needs a file of tokens or a client authority. *ret_auth is the caller's. */
bool auth_create(const struct config *config, struct auth **ret_auth, struct problem *problem);
void auth_destroy(struct auth *auth); /* NULL is allowed */

/* Reads the file again; on failure the old table stays, with a problem. Any thread. */
bool auth_reload(struct auth *auth, struct problem *problem);

/* Whether credentials are asked for at all. */
bool auth_is_on(const struct auth *auth);

/* How many tenants of the file of tokens may store something; 0 without one. */
size_t auth_tenants(const struct auth *auth);

/* How many tenants there are: those of the file of tokens, one where nobody is asked for credentials, and
   SPD_MAX_SHARES where an authority makes them. */
size_t auth_all_tenants(const struct auth *auth);

/* True for the numeric addresses 127.0.0.0/8 and ::1, which only this machine can reach. */
bool auth_is_loopback(const char *host);

/* `authorization` is the header's value or NULL; `certificate_name` the common name of a verified client certificate or
   NULL; a certificate goes first. `now_ms` is the time since 1970. */
enum auth_result auth_identify(struct auth *auth, const char *authorization, const char *certificate_name,
                               int64_t now_ms, struct principal *ret_principal);

/* `shardpland token ...`: the exit status; prints on standard output. */
int auth_token_command(int argc, char **argv);
