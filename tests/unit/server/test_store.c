#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"
#include "open_store.h"

/* What every store does. The tenant of what names none is "". */

BOTH_STORES(models_are_kept_once_for_each_tenant)
{
    struct model_row row;
    ADD_MODEL("", model_a);
    cr_expect_eq(add_model_of(store, "", model_a, 43, (struct store_quota){0}), STORE_EXISTS);
    open_store_again();
    cr_assert_eq(store_get_model(store, "", model_a, &row), STORE_DONE);
    cr_expect_str_eq(row.name, "a model");
    cr_expect_eq(row.bytes, 42);
    cr_expect_gt(row.created_at, 1600000000000, "milliseconds since 1970");
    store_release_model(&row);
    cr_expect_eq(store_get_model(store, "", model_b, &row), STORE_NOT_FOUND);
    cr_expect_eq(store_find_model(store, "team", model_a), STORE_NOT_FOUND);
    ADD_MODEL("team", model_a);
    cr_expect_eq(store_find_model(store, "team", model_a), STORE_DONE);
    cr_assert_eq(store_get_model(store, NULL, model_a, &row), STORE_DONE);
    cr_expect_str_eq(row.tenant, "", "the oldest row");
    store_release_model(&row);
    cr_expect_eq(store_delete_model(store, "", model_b), STORE_NOT_FOUND);
    cr_expect_eq(store_delete_model(store, "", model_a), STORE_DONE);
    cr_expect_eq(store_find_model(store, NULL, model_a), STORE_DONE, "the other tenant has it");
    cr_expect_eq(store_delete_model(store, "team", model_a), STORE_DONE);
    cr_expect_eq(store_find_model(store, NULL, model_a), STORE_NOT_FOUND);
}

BOTH_STORES(hashes_of_inspections_are_kept)
{
    char name[] = "a model";
    struct problem problem = {0};
    struct model_row row = {.name = name, .bytes = 42}, found;
    (void)snprintf(row.id, sizeof row.id, "%s", model_a);
    static const char *const hashes[] = {model_b, model_a,
                                         ""}; /* the first adds the row, the others name another one */
    for (size_t i = 0; i < sizeof hashes / sizeof hashes[0]; i++) {
        cr_assert(store_reserve(store, model_a, &row.number, &problem), "%s", problem.detail);
        (void)snprintf(row.inspection_sha256, sizeof row.inspection_sha256, "%s", hashes[i]);
        cr_expect_eq(store_add_model(store, &row, false, &(struct store_quota){0}, &problem),
                     i == 0 ? STORE_ADDED : STORE_EXISTS);
        cr_assert_eq(store_get_model(store, "", model_a, &found), STORE_DONE);
        cr_expect_str_eq(found.inspection_sha256, hashes[i]);
        store_release_model(&found);
    }
}

BOTH_STORES(settings_are_read_without_being_made)
{
    char value[STORE_SETTING_SIZE] = "x";
    struct problem problem = {0};
    cr_assert(store_setting(store, "a setting", NULL, value, &problem));
    cr_expect_str_eq(value, "");
    cr_assert(store_setting(store, "a setting", "first", value, &problem));
    cr_expect_str_eq(value, "first");
    cr_assert(store_setting(store, "a setting", "second", value, &problem));
    cr_expect_str_eq(value, "first");
    cr_assert(store_setting(store, "a setting", NULL, value, &problem));
    cr_expect_str_eq(value, "first");
}

/* Adds a model with files of this number. */
static enum store_added add_numbered(const char *tenant, int64_t number, bool replaces, char ret_blob[STORE_BLOB_SIZE])
{
    char name[] = "a model";
    struct problem problem = {0};
    struct model_row row = {.name = name, .bytes = 42, .number = number};
    (void)snprintf(row.tenant, sizeof row.tenant, "%s", tenant);
    (void)snprintf(row.id, sizeof row.id, "%s", model_a);
    const enum store_added added = store_add_model(store, &row, replaces, &(struct store_quota){0}, &problem);
    memcpy(ret_blob, row.blob, sizeof row.blob);
    return added;
}

static enum store_found names(int64_t number, enum store_file file)
{
    return store_names(store, model_a, number, file);
}

BOTH_STORES(a_number_of_files_is_given_once)
{
    int64_t numbers[5];
    char blob[STORE_BLOB_SIZE], name[STORE_BLOB_SIZE];
    struct problem problem = {0};
    for (int i = 0; i < 5; i++) {
        cr_assert(store_reserve(store, model_a, &numbers[i], &problem), "%s", problem.detail);
        cr_expect_gt(numbers[i], i > 0 ? numbers[i - 1] : 0);
        cr_expect_eq(names(numbers[i], FILE_BLOB), STORE_DONE);
    }
    cr_expect_eq(add_numbered("", numbers[0], false, blob), STORE_ADDED);
    store_blob_name(model_a, numbers[0], name);
    cr_expect_str_eq(blob, name);
    cr_expect_eq(add_numbered("team", numbers[1], false, blob), STORE_ADDED);
    cr_expect_str_eq(blob, name, "there is one blob,");
    cr_expect_eq(names(numbers[1], FILE_BLOB), STORE_NOT_FOUND, "and the other is of no use,");
    cr_expect_eq(names(numbers[1], FILE_INSPECTION), STORE_DONE, "but each has an inspection");
    cr_expect_eq(add_numbered("team", numbers[2], true, blob), STORE_EXISTS);
    cr_expect_eq(names(numbers[0], FILE_BLOB), STORE_NOT_FOUND, "it was replaced for all");
    cr_expect_eq(names(numbers[2], FILE_BLOB), STORE_DONE);
    cr_expect_eq(names(numbers[1], FILE_INSPECTION), STORE_NOT_FOUND);
    cr_expect_eq(names(numbers[0], FILE_INSPECTION), STORE_DONE);
    cr_expect_eq(store_find_blob(store, "", model_a, name), STORE_DONE);
    cr_expect_str_eq(blob, name);
    cr_expect_eq(add_numbered("other", numbers[2], false, blob), STORE_FAILED, "a number serves once");
    store_unreserve(store, numbers[3]);
    cr_expect_eq(names(numbers[3], FILE_BLOB), STORE_NOT_FOUND);
    cr_expect_eq(add_numbered("other", numbers[3], false, blob), STORE_FAILED);
    cr_expect(store_end_reservations(store));
    cr_expect_eq(names(numbers[4], FILE_BLOB), STORE_DONE, "its daemon lives");
    cr_expect_eq(store_delete_model(store, NULL, model_a), STORE_DONE);
    for (int i = 0; i < 4; i++)
        cr_expect(names(numbers[i], FILE_BLOB) == STORE_NOT_FOUND &&
                  names(numbers[i], FILE_INSPECTION) == STORE_NOT_FOUND);
    cr_expect_eq(store_find_blob(store, NULL, model_a, name), STORE_NOT_FOUND);
}

BOTH_STORES(a_model_with_plans_stays)
{
    char id[STORE_ID_SIZE];
    ADD_MODEL("", model_a);
    ADD_MODEL("team", model_a);
    MUST_ADD_PLAN(id, .number = 1);
    cr_expect_eq(store_delete_model(store, "", model_a), STORE_IN_USE);
    cr_expect_eq(store_find_model(store, NULL, model_a), STORE_DONE);
    cr_expect_eq(store_delete_model(store, NULL, model_a), STORE_IN_USE);
    cr_expect_eq(store_find_model(store, "team", model_a), STORE_DONE, "all or nothing");
    cr_expect_eq(store_delete_plan(store, "team", id), STORE_NOT_FOUND, "it is not that tenant's");
    cr_expect_eq(store_delete_plan(store, "", id), STORE_DONE);
    cr_expect_eq(store_delete_plan(store, "", id), STORE_NOT_FOUND);
    cr_expect_eq(store_delete_model(store, NULL, model_a), STORE_DONE);
    cr_expect_eq(store_find_model(store, NULL, model_a), STORE_NOT_FOUND);
}

BOTH_STORES(tenants_have_quotas)
{
    char id[STORE_ID_SIZE];
    cr_expect_eq(add_model_of(store, "a", model_a, 100, (struct store_quota){.tenant_bytes = 99}), STORE_QUOTA);
    cr_expect_eq(add_model_of(store, "a", model_a, 99, (struct store_quota){.tenant_bytes = 99}), STORE_ADDED);
    cr_expect_eq(add_model_of(store, "a", model_b, 1, (struct store_quota){.tenant_bytes = 99}), STORE_QUOTA);
    cr_expect_eq(add_model_of(store, "a", model_b, 1, (struct store_quota){.tenant_models = 1}), STORE_QUOTA);
    cr_expect_eq(add_model_of(store, "b", model_b, 1, (struct store_quota){.tenant_models = 1}), STORE_ADDED);
    struct store_quota two = {.tenant_plans = 2};
    cr_expect_eq(ADD_PLAN(id, .number = 1, .tenant = "a", .quota = two), STORE_ADDED);
    cr_expect_eq(ADD_PLAN(id, .number = 2, .tenant = "a", .quota = two), STORE_ADDED);
    cr_expect_eq(claim_number(store, "a"), 1);
    cr_expect_eq(ADD_PLAN(id, .number = 3, .tenant = "a", .quota = two), STORE_QUOTA, "a running plan counts");
    cr_expect_eq(ADD_PLAN(id, .number = 4, .tenant = "b", .model = model_b, .quota = two), STORE_ADDED);
    cr_expect_eq(store_finish(store, "00000000000000000000000000000001", 1, PLAN_SUCCEEDED, true, NULL, NULL),
                 STORE_CHANGED);
    cr_expect_eq(ADD_PLAN(id, .number = 3, .tenant = "a", .quota = two), STORE_ADDED);
}

BOTH_STORES(plans_need_their_model_and_room)
{
    char id[STORE_ID_SIZE];
    struct store_quota three = {.queued_plans = 3};
    ADD_MODEL("team", model_a);
    cr_expect_eq(ADD_PLAN(id, .number = 1), STORE_NO_MODEL, "only the other tenant has it");
    ADD_MODEL("", model_a);
    for (int i = 1; i <= 3; i++)
        cr_expect_eq(ADD_PLAN(id, .number = i, .quota = three), STORE_ADDED);
    cr_expect_eq(ADD_PLAN(id, .number = 4, .tenant = "team", .quota = three), STORE_FULL);
    must_claim(store, "00000000000000000000000000000001", 1);
    cr_expect_eq(ADD_PLAN(id, .number = 4, .quota = three), STORE_ADDED, "a running plan does not count as queued");
}

/* Whether the rule of the queue has room for one more of `own`, counted anew: what each tenant has beyond its share has to
   fit into what is left when all shares are taken off. */
static bool fits(const unsigned *queued, unsigned tenants, unsigned own, unsigned most)
{
    const unsigned share = most / 2 / tenants;
    unsigned taken = 0;
    for (unsigned i = 0; i < tenants; i++) {
        const unsigned have = queued[i] + (i == own);
        taken += have > share ? have - share : 0;
    }
    return queued[own] < share || taken <= most - share * tenants;
}

BOTH_STORES(tenants_have_shares_of_the_queue)
{
    static const char *const tenants[] = {"a", "b", "c"};
    const struct store_quota quota = {.queued_plans = 13, .tenants = 3};
    unsigned queued[3] = {0}, full = 0, number = 0;
    char id[STORE_ID_SIZE];
    for (unsigned i = 0; i < 3; i++)
        ADD_MODEL(tenants[i], model_a);
    uint64_t random = 5;
    for (unsigned i = 0; i < 200; i++) {
        struct plan_row row;
        const char *claimed = tenants[sp_random_below(&random, 3)];
        if (sp_random_below(&random, 4) == 0 && store_claim(store, claimed, &row) == STORE_DONE) {
            queued[row.tenant[0] - 'a']--;
            store_release_plan(&row);
        }
        const unsigned own = (unsigned)sp_random_below(&random, 4) % 3; /* the first asks more often */
        const enum store_added added = ADD_PLAN(id, .number = (int)++number, .tenant = tenants[own], .quota = quota);
        cr_assert_eq(added, fits(queued, 3, own, 13) ? STORE_ADDED : STORE_FULL, "step %u, tenant %s, %u %u %u", i,
                     tenants[own], queued[0], queued[1], queued[2]);
        queued[own] += added == STORE_ADDED;
        full += added == STORE_FULL;
    }
    cr_expect_gt(full, 20U);
}

BOTH_STORES(an_idempotency_key_names_one_request)
{
    char first[STORE_ID_SIZE], second[STORE_ID_SIZE];
    ADD_MODEL("", model_a);
    ADD_MODEL("team", model_a);
    MUST_ADD_PLAN(first, .number = 1, .key = "key", .question = "q");
    open_store_again();
    cr_expect_eq(ADD_PLAN(second, .number = 2, .key = "key"), STORE_EXISTS);
    cr_expect_str_eq(second, first);
    cr_expect_eq(ADD_PLAN(second, .number = 3, .key = "key", .print = "other"), STORE_KEY_REUSED);
    cr_expect_eq(ADD_PLAN(second, .number = 4, .key = "key 2"), STORE_ADDED);
    cr_expect_eq(ADD_PLAN(second, .number = 5, .key = "key", .tenant = "team"), STORE_ADDED, "a key is a tenant's");
    cr_expect_eq(ADD_PLAN(second, .number = 6, .key = "key 3", .question = "q", .reuse = true), STORE_REUSED);
    cr_expect_eq(ADD_PLAN(second, .number = 7, .key = "key 3", .question = "x"), STORE_EXISTS);
    cr_expect_str_eq(second, first, "the plan that answered keeps the key");
    cr_assert_eq(store_delete_plan(store, "", first), STORE_DONE);
    cr_expect_eq(ADD_PLAN(second, .number = 8, .key = "key"), STORE_ADDED, "keys go with their plans");
}

BOTH_STORES(equal_questions_have_one_plan)
{
    char first[STORE_ID_SIZE], id[STORE_ID_SIZE];
    ADD_MODEL("", model_a);
    ADD_MODEL("team", model_a);
    MUST_ADD_PLAN(first, .number = 1, .question = "q", .reuse = true);
    cr_expect_eq(ADD_PLAN(id, .number = 2, .question = "q", .reuse = true), STORE_REUSED);
    cr_expect_str_eq(id, first);
    cr_expect_eq(ADD_PLAN(id, .number = 3, .question = "q", .reuse = true, .tenant = "team"), STORE_ADDED);
    cr_expect_eq(ADD_PLAN(id, .number = 4, .question = "q"), STORE_ADDED, "who wants no reuse gets none");
    cr_assert_eq(store_cancel(store, "", id), STORE_DONE);
    must_claim(store, first, 1);
    cr_expect_eq(ADD_PLAN(id, .number = 5, .question = "q", .reuse = true), STORE_REUSED, "it runs");
    cr_assert_eq(store_cancel(store, "", first), STORE_DONE);
    cr_expect_eq(ADD_PLAN(id, .number = 6, .question = "q", .reuse = true), STORE_ADDED, "nobody wants the other one");
    cr_expect_eq(claim_number(store, "team"), 3);
    must_claim(store, id, 1);
    cr_assert_eq(store_finish(store, id, 1, PLAN_FAILED, false, "{}", NULL), STORE_CHANGED);
    cr_expect_eq(ADD_PLAN(id, .number = 7, .question = "q", .reuse = true), STORE_ADDED, "a failure answers nothing");
}

static void add_name(void *context, const char *tenant)
{
    char *names = context;
    (void)snprintf(names + strlen(names), 64 - strlen(names), "[%s]", tenant);
}

/* The tenants that have queued plans, at most `limit`. */
static const char *waiting_from(const char *from, int limit)
{
    static char names[64];
    names[0] = '\0';
    cr_assert(store_list_waiting(store, from, limit, add_name, names));
    return names;
}

BOTH_STORES(each_tenant_has_a_queue)
{
    char id[STORE_ID_SIZE];
    cr_expect_str_eq(waiting_from("", 9), "");
    for (int i = 0; i < 3; i++)
        ADD_MODEL(((const char *[]){"", "a", "b"})[i], model_a);
    for (int i = 1; i <= 3; i++)
        MUST_ADD_PLAN(id, .number = i, .tenant = "a");
    MUST_ADD_PLAN(id, .number = 4, .tenant = "a", .priority = PRIORITY_HIGH);
    MUST_ADD_PLAN(id, .number = 5, .tenant = "b", .priority = PRIORITY_LOW);
    MUST_ADD_PLAN(id, .number = 6, .tenant = "b");
    MUST_ADD_PLAN(id, .number = 7);
    cr_expect_str_eq(waiting_from("", 9), "[][a][b]");
    cr_expect_str_eq(waiting_from("", 2), "[][a]");
    cr_expect_str_eq(waiting_from("a", 9), "[a][b]");
    cr_expect_str_eq(waiting_from("b", 1), "[b]");
    /* The highest priority first; of these the oldest. */
    static const int of_a[] = {4, 1, 2, 3, 0};
    for (size_t i = 0; i < sizeof of_a / sizeof of_a[0]; i++)
        cr_expect_eq(claim_number(store, "a"), of_a[i], "claim %zu", i);
    cr_expect_str_eq(waiting_from("", 9), "[][b]");
    cr_expect_eq(claim_number(store, "b"), 6);
    cr_expect_eq(claim_number(store, "b"), 5);
    cr_expect_eq(claim_number(store, ""), 7);
    cr_expect_eq(claim_number(store, "nobody"), 0);
    cr_expect_str_eq(waiting_from("", 9), "");
}

BOTH_STORES(plans_finish_once)
{
    char one[STORE_ID_SIZE], two[STORE_ID_SIZE];
    struct plan_row row;
    ADD_MODEL("", model_a);
    MUST_ADD_PLAN(one, .number = 9);
    MUST_ADD_PLAN(two, .number = 2);
    cr_expect_eq(store_finish(store, one, 0, PLAN_SUCCEEDED, true, NULL, NULL), STORE_LOST, "it does not run");
    must_claim(store, one, 1);
    must_claim(store, two, 1);
    cr_expect_eq(claim_number(store, ""), 0);
    cr_expect_str_eq(plan_of(one).owner, "first");
    cr_expect_eq(store_finish(store, one, 2, PLAN_SUCCEEDED, true, NULL, NULL), STORE_LOST, "another attempt");
    cr_expect_eq(store_finish(store, one, 1, PLAN_SUCCEEDED, true, NULL, "a list\n"), STORE_CHANGED);
    cr_expect_eq(store_finish(store, two, 1, PLAN_FAILED, false, "{\"code\":\"X\"}", NULL), STORE_CHANGED);
    cr_expect_eq(store_finish(store, one, 1, PLAN_FAILED, false, "{}", NULL), STORE_LOST,
                 "a finished plan does not change");
    cr_assert_eq(store_get_plan(store, "", two, &row), STORE_DONE);
    cr_expect_eq(row.state, PLAN_FAILED);
    cr_expect_not(row.has_result);
    cr_expect_str_eq(row.error, "{\"code\":\"X\"}");
    cr_expect_null(row.files);
    cr_expect_geq(row.finished_at, row.started_at);
    store_release_plan(&row);
    cr_assert_eq(store_get_plan(store, "", one, &row), STORE_DONE);
    cr_expect_str_eq(row.files, "a list\n");
    store_release_plan(&row);
    cr_expect_eq(plan_of(one).state, PLAN_SUCCEEDED);
    cr_expect(plan_of(one).has_result);
    cr_expect_str_eq(plan_of(one).owner, "");
    cr_expect_eq(store_get_plan(store, "team", one, &row), STORE_NOT_FOUND);
    cr_expect_eq(store_find_plan(store, "team", one), STORE_NOT_FOUND);
    cr_expect_eq(store_find_plan(store, NULL, one), STORE_DONE);
}

BOTH_STORES(crashes_are_counted_and_interruptions_are_not)
{
    char id[STORE_ID_SIZE];
    ADD_MODEL("", model_a);
    MUST_ADD_PLAN(id, .number = 1);
    must_claim(store, id, 1);
    cr_expect_eq(store_requeue(store, id, 1, true), STORE_CHANGED);
    must_claim(store, id, 2);
    cr_expect_eq(store_requeue(store, id, 1, true), STORE_LOST, "the first attempt has ended");
    cr_expect_eq(store_requeue(store, id, 2, false), STORE_CHANGED);
    cr_expect_eq(store_requeue(store, id, 2, false), STORE_LOST, "it is queued already");
    cr_expect_eq(plan_of(id).crashes, 1);
    cr_expect_eq(plan_of(id).attempts, 2);
}

BOTH_STORES(cancelling_ends_what_waits_and_asks_what_runs)
{
    char queued[STORE_ID_SIZE], runs[STORE_ID_SIZE], late[STORE_ID_SIZE];
    ADD_MODEL("", model_a);
    MUST_ADD_PLAN(runs, .number = 1);
    MUST_ADD_PLAN(late, .number = 2);
    MUST_ADD_PLAN(queued, .number = 3);
    must_claim(store, runs, 1);
    must_claim(store, late, 1);
    cr_expect_eq(store_cancel(store, "team", queued), STORE_NOT_FOUND);
    cr_expect_eq(store_cancel(store, "", queued), STORE_DONE);
    cr_expect_eq(plan_of(queued).state, PLAN_CANCELLED);
    cr_expect_gt(plan_of(queued).finished_at, 0);
    cr_expect_eq(claim_number(store, ""), 0);
    cr_expect_eq(store_cancel(store, "", runs), STORE_DONE);
    cr_expect_eq(plan_of(runs).state, PLAN_RUNNING);
    cr_expect(plan_of(runs).cancel_requested);
    cr_expect_eq(store_requeue(store, runs, 1, false), STORE_CHANGED);
    cr_expect_eq(plan_of(runs).state, PLAN_CANCELLED);
    cr_expect_eq(store_cancel(store, NULL, late), STORE_DONE);
    cr_expect_eq(store_finish(store, late, 1, PLAN_CANCELLED, true, NULL, NULL), STORE_CHANGED, "with its best so far");
    cr_expect(plan_of(late).has_result);
    cr_expect_eq(store_cancel(store, "", late), STORE_DONE, "cancelling twice is fine");
    cr_expect_eq(store_cancel(store, "", "0"), STORE_NOT_FOUND);
}

BOTH_STORES(recovery_queues_what_was_running)
{
    char id[STORE_ID_SIZE], second[STORE_ID_SIZE], unwanted[STORE_ID_SIZE];
    struct store_counts counts;
    ADD_MODEL("", model_a);
    MUST_ADD_PLAN(unwanted, .number = 3);
    MUST_ADD_PLAN(id, .number = 1);
    MUST_ADD_PLAN(second, .number = 2);
    must_claim(store, unwanted, 1);
    must_claim(store, id, 1);
    cr_assert_eq(store_cancel(store, "", unwanted), STORE_DONE);
    open_store_again();
    cr_expect_eq(store_reclaim(store, true), 2);
    cr_expect_eq(plan_of(id).state, PLAN_QUEUED);
    cr_expect_eq(plan_of(unwanted).state, PLAN_CANCELLED);
    cr_assert(store_count(store, &counts));
    cr_expect_eq(counts.plans[PLAN_QUEUED], 2);
    cr_expect_eq(counts.plans[PLAN_RUNNING], 0);
    cr_expect_eq(counts.plans[PLAN_CANCELLED], 1);
    cr_expect_geq(counts.oldest_seconds, 0);
    cr_expect_lt(counts.oldest_seconds, 60);
    /* A plan that is interrupted again and again is given up. */
    for (int attempt = 2; attempt <= SPD_MAX_ATTEMPTS; attempt++) {
        must_claim(store, id, attempt);
        cr_expect_eq(store_reclaim(store, true), 1);
    }
    struct plan_row row;
    cr_assert_eq(store_get_plan(store, NULL, id, &row), STORE_DONE);
    cr_expect_eq(row.state, PLAN_FAILED);
    cr_expect_not_null(strstr(row.error, "INTERRUPTED_TOO_OFTEN"));
    store_release_plan(&row);
}

static void collect(void *context, const struct plan_row *row)
{
    int64_t *last = context;
    cr_expect_lt(row->seq, *last);
    *last = row->seq;
}

static void name_model(void *context, const struct model_row *row)
{
    char *ids = context;
    (void)snprintf(ids + strlen(ids), 8, "%c", row->id[0]);
}

BOTH_STORES(lists_are_newest_first)
{
    char id[STORE_ID_SIZE], ids[16] = "";
    int64_t last = INT64_MAX;
    ADD_MODEL("", model_a);
    ADD_MODEL("", model_b);
    ADD_MODEL("team", model_b);
    for (int i = 1; i <= 3; i++)
        MUST_ADD_PLAN(id, .number = i);
    MUST_ADD_PLAN(id, .number = 4, .tenant = "team", .model = model_b);
    cr_expect(store_list_plans(store, "", INT64_MAX, 2, collect, &last));
    int64_t second = last;
    cr_expect(store_list_plans(store, "", last, 2, collect, &last));
    cr_expect_lt(last, second, "one was left");
    second = last;
    cr_expect(store_list_plans(store, "", last, 2, collect, &last));
    cr_expect_eq(last, second, "and none behind it");
    cr_expect(store_list_models(store, "", INT64_MAX, 5, name_model, ids));
    cr_expect_str_eq(ids, "ba");
    cr_expect(store_list_models(store, NULL, INT64_MAX, 1, name_model, ids));
    cr_expect_str_eq(ids, "bab");
}

BOTH_STORES(unused_models_are_those_of_no_plan)
{
    char id[STORE_ID_SIZE], ids[16] = "";
    ADD_MODEL("", model_a);
    ADD_MODEL("", model_b);
    MUST_ADD_PLAN(id, .number = 1, .model = model_a);
    cr_expect(store_unused_models(store, NULL, 5, name_model, ids));
    cr_expect_str_eq(ids, "b");
    cr_assert_eq(store_delete_plan(store, "", id), STORE_DONE);
    (void)usleep(2000);
    MUST_ADD_PLAN(id, .number = 2, .model = model_a);
    cr_assert_eq(store_delete_plan(store, "", id), STORE_DONE);
    ids[0] = '\0';
    cr_expect(store_unused_models(store, NULL, 5, name_model, ids));
    cr_expect_str_eq(ids, "ba", "a was used later");
    (void)usleep(2000);
    store_touch_model(store, "", model_b);
    store_touch_model(store, "team", model_a); /* which that tenant does not have */
    ids[0] = '\0';
    cr_expect(store_unused_models(store, NULL, 5, name_model, ids));
    cr_expect_str_eq(ids, "ab", "now b was");
}

static void count_id(void *context, const char *id)
{
    int *count = context;
    *count += strlen(id) == 32;
}

BOTH_STORES(old_plans_expire)
{
    char done[STORE_ID_SIZE], failed[STORE_ID_SIZE], runs[STORE_ID_SIZE];
    int count = 0;
    ADD_MODEL("", model_a);
    MUST_ADD_PLAN(done, .number = 1);
    MUST_ADD_PLAN(failed, .number = 2);
    MUST_ADD_PLAN(runs, .number = 3);
    must_claim(store, done, 1);
    must_claim(store, failed, 1);
    must_claim(store, runs, 1);
    cr_assert_eq(store_finish(store, done, 1, PLAN_SUCCEEDED, true, NULL, NULL), STORE_CHANGED);
    cr_assert_eq(store_finish(store, failed, 1, PLAN_FAILED, false, "{}", NULL), STORE_CHANGED);
    cr_expect(store_expire(store, plan_of(done).finished_at, 10, count_id, &count));
    cr_expect_eq(count, 0, "not yet");
    int64_t later = store_time(store) + 1000;
    cr_expect(store_expire(store, later, 1, count_id, &count));
    cr_expect_eq(count, 1);
    cr_expect_eq(store_find_plan(store, NULL, done), STORE_NOT_FOUND, "the oldest goes first");
    cr_expect(store_expire(store, later, 10, count_id, &count));
    cr_expect_eq(count, 2);
    cr_expect_eq(plan_of(runs).state, PLAN_RUNNING);
}

BOTH_STORES(changes_are_told)
{
    char id[STORE_ID_SIZE];
    ADD_MODEL("", model_a);
    MUST_ADD_PLAN(id, .number = 1);
    cr_expect_eq(told(id), 1);
    must_claim(store, id, 1);
    cr_expect_eq(told(id), 2);
    cr_assert_eq(store_cancel(store, "", id), STORE_DONE);
    cr_expect_eq(told(id), 3);
    cr_assert_eq(store_requeue(store, id, 1, false), STORE_CHANGED);
    cr_expect_eq(told(id), 4);
    cr_assert_eq(store_delete_plan(store, "", id), STORE_DONE);
    cr_expect_eq(told(id), 5);
}

BOTH_STORES(rows_and_files_are_counted)
{
    struct store_counts counts;
    struct problem problem = {0};
    ADD_MODEL("", model_a);
    ADD_MODEL("team", model_a);
    ADD_MODEL("team", model_b);
    cr_assert(store_count(store, &counts));
    cr_expect_eq(counts.models, 3);
    cr_expect_eq(counts.blobs, 2);
    cr_expect_eq(counts.blob_bytes, 84);
    cr_expect(store_ping(store, &problem), "%s", problem.detail);
    cr_expect(store_owner_lives(store, "first"));
    cr_expect_not(store_owner_lives(store, "nobody"));
    cr_expect(store_beat(store, NULL, 0));
}

Test(sqlite, a_newer_schema_is_refused, .init = open_sqlite_store, .fini = close_stores)
{
    struct problem problem = {0};
    struct store *newer = NULL;
    char log[160];
    store_close(store);
    store = NULL;
    /* user_version is the 32-bit big-endian number at byte 60 of a database without a log (SQLite's file format). */
    FILE *file = fopen(store_place(), "r+be");
    cr_assert_not_null(file);
    cr_assert_eq(fseek(file, 60, SEEK_SET), 0);
    cr_assert_eq(fwrite("\0\0\3\347", 1, 4, file), 4u);
    (void)fclose(file);
    (void)snprintf(log, sizeof log, "%s-wal", store_place());
    (void)unlink(log);
    struct store_options options = store_options_of("first");
    cr_expect_not(store_open(&options, &newer, &problem));
    cr_expect_str_eq(problem.code, "STORE_TOO_NEW");
}
