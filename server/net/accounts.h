#pragma once
/*
 * accounts - what each tenant holds of the things that all of them share.
 *
 * Connections, decoders, bodies and answers in memory, streams and open files are few, and a client holds one for as long
 * as it likes to take. So whatever a request takes of them is charged to its tenant before it takes it, and a tenant that
 * holds its share is refused (429). Who could not be identified has an account, too, that of the tenant "".
 *
 * A share is a fixed part of the whole: one for each tenant of the file of tokens, and one for those who are not
 * identified where they can take of it; at most SPD_MAX_SHARES parts. It does not depend on what others hold, so that a
 * refusal tells nothing of them. Only where there are more tenants than parts may the whole be used up (503). Where nobody
 * is asked for credentials, the only tenant has all.
 *
 * Any thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "util/problem.h"

enum account_kind {
    ACCOUNT_CONNECTIONS,  /* open ones whose last request was the tenant's */
    ACCOUNT_STREAMS,      /* of events */
    ACCOUNT_DECODERS,     /* bodies that come compressed */
    ACCOUNT_ENCODERS,     /* answers that are compressed on their way */
    ACCOUNT_BODY_BYTES,   /* of bodies that are kept in memory */
    ACCOUNT_ANSWER_BYTES, /* of answers that are; a single one may be larger than the share */
    ACCOUNT_FILES,        /* open ones: uploads and downloads */
    ACCOUNT_LINGERING,    /* connections that are read on after an early refusal */
    ACCOUNT_KINDS
};

struct account; /* of one tenant; there while somebody has it open */
struct accounts;
struct auth;

/* `auth` says how many tenants there are, now and after each reload, and must outlive it. NULL without memory. */
struct accounts *accounts_create(const struct auth *auth);
void accounts_destroy(struct accounts *accounts); /* when no account is open any more; NULL is allowed */

/* How much there is altogether; before the first account is opened. Zero until it is told. */
void accounts_set_whole(struct accounts *accounts, enum account_kind kind, uint64_t whole);

/* The tenant's account, to be closed. NULL without memory. */
struct account *accounts_open(struct accounts *accounts, const char *tenant);

/* The same once more, to be closed for itself. */
struct account *account_open_again(struct account *account);

/* Gives back what was charged, one number for each kind (NULL: nothing), and closes. NULL is allowed. */
void account_close(struct account *account, const uint64_t charged[ACCOUNT_KINDS]);

/* Charges. False with a problem: 429 over the tenant's share, 503 over the whole; then nothing is charged. Without an
   account (NULL: the admin listener's requests) nothing is counted. */
bool account_charge(struct account *account, enum account_kind kind, uint64_t amount, struct problem *problem);

void account_give_back(struct account *account, enum account_kind kind, uint64_t amount); /* NULL is allowed */
