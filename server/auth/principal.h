#pragma once
/*
 * principal - who asks, and what they may do.
 *
 * Every request has a principal before its route begins. Where the daemon asks for no credentials (loopback without a
 * file of tokens) it is the local one: the tenant "", with every scope. Otherwise it comes from a bearer token or a
 * client certificate (auth.h).
 *
 * A tenant owns models and plans; principals of one tenant share them. Nobody sees, lists, cancels or downloads what
 * belongs to another tenant: it does not exist for them (404), and how long an answer takes does not tell either. Only
 * SCOPE_ADMIN reaches across tenants.
 */
#define SPD_MAX_PRINCIPAL 64 /* bytes of a principal's or a tenant's name */

enum scope {
    SCOPE_READ = 1,  /* GET, and questions about stored things that change nothing */
    SCOPE_PLAN = 2,  /* upload, plan, cancel, delete */
    SCOPE_ADMIN = 4, /* all tenants' objects; metrics on the main listener */
};

struct principal {
    char name[SPD_MAX_PRINCIPAL + 1];
    char tenant[SPD_MAX_PRINCIPAL + 1];
    unsigned scopes; /* of enum scope */
};

/* The tenant whose objects the principal sees, for store.h: NULL sees all of them. */
static inline const char *principal_view(const struct principal *principal)
{
    return (principal->scopes & SCOPE_ADMIN) != 0 ? 0 : principal->tenant;
}
