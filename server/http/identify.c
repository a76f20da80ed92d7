#include "http/identify.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "auth/auth.h"
#include "auth/table.h"
#include "http/cors.h"
#include "net/tls.h"
#include "util/times.h"

/* ---- with credentials ---- */

static bool refuse_stranger(struct request *request, enum auth_result result, struct problem *problem)
{
    if (result == AUTH_MISSING) {
        request_add_header(request, "WWW-Authenticate", "Bearer realm=\"shardplan\"");
        return problem_set(problem, 401, "UNAUTHENTICATED",
                           "This request needs credentials: Authorization: Bearer TOKEN.");
    }
    request_add_header(request, "WWW-Authenticate", "Bearer realm=\"shardplan\", error=\"invalid_token\"");
    return problem_set(problem, 401, "UNAUTHENTICATED", "The credentials are not valid here, or not any more.");
}

static bool identify_by_credentials(struct request *request, struct problem *problem)
{
    char name[SPD_MAX_PRINCIPAL + 1];
    bool has_certificate = tls_client_name(request->connection, name);
    unsigned scope = request->route->scope;
    struct principal principal = {0};
    enum auth_result result = auth_identify(request->server->auth, request_header(request, "Authorization"),
                                            has_certificate ? name : NULL, times_now(), &principal);
    if (result == AUTH_OK)
        request->principal = principal;
    if (scope == 0)
        return true;
    if (result != AUTH_OK)
        return refuse_stranger(request, result, problem);
    if ((principal.scopes & scope) == scope)
        return true;
    request_add_header(request, "WWW-Authenticate",
                       "Bearer realm=\"shardplan\", error=\"insufficient_scope\", scope=\"%s\"",
                       auth_scope_name(scope));
    return problem_set(problem, 403, "INSUFFICIENT_SCOPE",
                       "This request needs the scope '%s', which '%s' does not have.", auth_scope_name(scope),
                       principal.name);
}

/* ---- without ---- */

/* "NAME:PORT" without the port, into `ret`; false when it does not fit. */
static bool take_host(const char *value, char *ret, size_t size)
{
    size_t length = value[0] == '[' ? strcspn(value, "]") + 1 : strcspn(value, ": \t");
    if (length >= size || length > strlen(value))
        return false;
    memcpy(ret, value, length);
    ret[length] = '\0';
    return true;
}

/* None, an address, or a name that always means this machine. Any other one, with a dot or without, whoever answers names on
   the client's network can have given the meaning of this address. */
static bool is_near(const char *host)
{
    struct in_addr address;
    size_t length = strlen(host);
    return host[0] == '\0' || host[0] == '[' || inet_pton(AF_INET, host, &address) == 1 ||
           strcasecmp(host, "localhost") == 0 || (length > 10 && strcasecmp(host + length - 10, ".localhost") == 0);
}

/* The origin of a page that this daemon has served itself. */
static bool is_own_origin(const char *origin, const char *host)
{
    const char *rest = strncmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                             : NULL;
    return rest != NULL && host != NULL && strcasecmp(rest, host) == 0;
}

static bool refuse_pages(const struct request *request, struct problem *problem)
{
    char name[256];
    const char *host = request_header(request, "Host"), *origin = request_header(request, "Origin");
    const char *origins = request->server->config->cors_origins;
    if (origin != NULL && !is_own_origin(origin, host) && !cors_allows(origins, origin))
        return problem_set(problem, 403, "ORIGIN_REFUSED",
                           "A page of another site may not ask here; the operator can allow it by --cors-origins.");
    if (host != NULL && (!take_host(host, name, sizeof name) || (!is_near(name) && !cors_allows_host(origins, host))))
        return problem_set(problem, 421, "HOST_REFUSED",
                           "Without credentials this service answers to addresses and to localhost only; use one of "
                           "these, name the origin in --cors-origins, or set up --tokens.");
    return true;
}

bool identify_check(struct request *request, struct problem *problem)
{
    if (request->admin)
        return true; /* who may reach that listener is up to the operator */
    if (auth_is_on(request->server->auth))
        return identify_by_credentials(request, problem);
    return refuse_pages(request, problem);
}
