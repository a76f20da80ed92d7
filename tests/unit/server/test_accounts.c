/* What tenants hold of what they share: shares add up to the whole, and nobody's refusal depends on others. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/auth.h"
#include "net/accounts.h"
#include "server_limits.h"

#define WHOLE 48u

/* A file of tokens with so many tenants, each of two principals. */
static struct auth *make_auth(unsigned tenants)
{
    char path[] = "/tmp/test-accounts-XXXXXX";
    const int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    cr_assert_not_null(file);
    (void)fputs("{\"principals\": [", file);
    for (unsigned i = 0; i < 2 * tenants; i++)
        (void)fprintf(file,
                      "%s{\"name\": \"p%u\", \"tenant\": \"t%u\", \"scopes\": [\"%s\"], \"token_sha256\": \"%064x\"}",
                      i > 0 ? ", " : "", i, i / 2, i % 2 == 0 ? "read" : "plan", i + 1);
    (void)fputs("]}", file);
    (void)fclose(file);
    struct config config = {.tokens = tenants > 0 ? path : "", .tls_client_ca = "", .listen = {.host = "127.0.0.1"}};
    struct problem problem = {0};
    struct auth *auth = NULL;
    cr_assert(auth_create(&config, &auth, &problem), "%s", problem.detail);
    (void)unlink(path);
    return auth;
}

static unsigned take_all(struct account *account, enum account_kind kind, struct problem *problem)
{
    unsigned taken = 0;
    while (account_charge(account, kind, 1, problem))
        taken++;
    return taken;
}

static struct account *open_tenant(struct accounts *accounts, unsigned tenant)
{
    char name[16];
    (void)snprintf(name, sizeof name, "t%u", tenant);
    struct account *account = accounts_open(accounts, name);
    cr_assert_not_null(account);
    return account;
}

/* Each tenant takes all that it gets, one after the other; what each got. */
static void take_in_turn(unsigned tenants, enum account_kind kind, unsigned *ret_taken, struct problem *ret_problems)
{
    struct auth *auth = make_auth(tenants);
    struct accounts *accounts = accounts_create(auth);
    accounts_set_whole(accounts, kind, WHOLE);
    struct account *opened[64];
    for (unsigned i = 0; i < tenants; i++) {
        opened[i] = open_tenant(accounts, i);
        ret_problems[i] = (struct problem){0};
        ret_taken[i] = take_all(opened[i], kind, &ret_problems[i]);
    }
    for (unsigned i = 0; i < tenants; i++) {
        uint64_t charged[ACCOUNT_KINDS] = {0};
        charged[kind] = ret_taken[i];
        account_close(opened[i], charged);
    }
    accounts_destroy(accounts);
    auth_destroy(auth);
}

Test(accounts, whoever_comes_last_gets_as_much_and_hears_the_same)
{
    for (unsigned tenants = 1; tenants <= SPD_MAX_SHARES; tenants++) {
        unsigned taken[64];
        struct problem problems[64];
        take_in_turn(tenants, ACCOUNT_DECODERS, taken, problems);
        for (unsigned i = 0; i < tenants; i++) {
            cr_expect_eq(taken[i], WHOLE / tenants, "%u of %u tenants has %u", i, tenants, taken[i]);
            cr_expect_eq(problems[i].status, 429);
            cr_expect_str_eq(problems[i].code, "QUOTA_DECODERS");
            cr_expect_eq(memcmp(&problems[i], &problems[0], sizeof problems[0]), 0);
        }
    }
}

Test(accounts, a_share_is_kept_for_those_who_are_not_identified)
{
    unsigned taken[64];
    struct problem problems[64];
    take_in_turn(3, ACCOUNT_FILES, taken, problems);
    cr_expect_eq(taken[0], WHOLE / 4);
    cr_expect_eq(taken[2], WHOLE / 4);
}

Test(accounts, more_tenants_than_shares_share_the_whole)
{
    unsigned taken[64], sum = 0;
    struct problem problems[64];
    take_in_turn(SPD_MAX_SHARES + 1, ACCOUNT_DECODERS, taken, problems);
    for (unsigned i = 0; i <= SPD_MAX_SHARES; i++)
        sum += taken[i];
    cr_expect_eq(sum, WHOLE);
    cr_expect_eq(problems[SPD_MAX_SHARES].status, 503);
    cr_expect_str_eq(problems[SPD_MAX_SHARES].code, "BUSY");
}

Test(accounts, without_credentials_one_tenant_has_all)
{
    struct auth *auth = make_auth(0);
    struct accounts *accounts = accounts_create(auth);
    accounts_set_whole(accounts, ACCOUNT_FILES, WHOLE);
    struct account *account = accounts_open(accounts, "");
    struct problem problem = {0};
    cr_expect_eq(take_all(account, ACCOUNT_FILES, &problem), WHOLE);
    account_close(account, (uint64_t[ACCOUNT_KINDS]){[ACCOUNT_FILES] = WHOLE});
    accounts_destroy(accounts);
    auth_destroy(auth);
}

Test(accounts, what_is_given_back_can_be_taken_again)
{
    struct auth *auth = make_auth(2);
    struct accounts *accounts = accounts_create(auth);
    accounts_set_whole(accounts, ACCOUNT_BODY_BYTES, 1000);
    struct account *one = open_tenant(accounts, 0), *again = account_open_again(one);
    struct problem problem = {0};
    cr_expect(account_charge(one, ACCOUNT_BODY_BYTES, 500, &problem));
    cr_expect_not(account_charge(again, ACCOUNT_BODY_BYTES, 1, &problem));
    cr_expect_not(account_charge(one, ACCOUNT_BODY_BYTES, UINT64_MAX, &problem));
    account_give_back(one, ACCOUNT_BODY_BYTES, 100);
    cr_expect(account_charge(again, ACCOUNT_BODY_BYTES, 100, &problem));
    account_close(one, (uint64_t[ACCOUNT_KINDS]){[ACCOUNT_BODY_BYTES] = 500});
    cr_expect(account_charge(again, ACCOUNT_BODY_BYTES, 500, &problem));
    account_close(again, (uint64_t[ACCOUNT_KINDS]){[ACCOUNT_BODY_BYTES] = 500});
    account_close(NULL, NULL);
    cr_expect(account_charge(NULL, ACCOUNT_BODY_BYTES, UINT64_MAX, &problem));
    accounts_destroy(accounts);
    auth_destroy(auth);
}

Test(accounts, one_answer_may_be_as_large_as_it_is)
{
    struct auth *auth = make_auth(2);
    struct accounts *accounts = accounts_create(auth);
    accounts_set_whole(accounts, ACCOUNT_ANSWER_BYTES, 1000);
    struct account *one = open_tenant(accounts, 0), *other = open_tenant(accounts, 1);
    struct problem problem = {0};
    cr_expect(account_charge(one, ACCOUNT_ANSWER_BYTES, 5000, &problem));
    cr_expect(account_charge(other, ACCOUNT_ANSWER_BYTES, 5000, &problem), "whatever others hold");
    cr_expect_not(account_charge(one, ACCOUNT_ANSWER_BYTES, 1, &problem));
    cr_expect_str_eq(problem.code, "QUOTA_ANSWERS");
    account_close(one, (uint64_t[ACCOUNT_KINDS]){[ACCOUNT_ANSWER_BYTES] = 5000});
    account_close(other, (uint64_t[ACCOUNT_KINDS]){[ACCOUNT_ANSWER_BYTES] = 5000});
    accounts_destroy(accounts);
    auth_destroy(auth);
}
