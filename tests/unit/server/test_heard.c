/* What is heard of queued plans, against a list that a test keeps; and a fleet that hears of the same plan. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/heard.h"
#include "server_limits.h"

#define PLANS   40
#define MOST_MS (SPD_HEARD_MS + SPD_HEARD_SPREAD_MS)

static void name_plan(int number, char ret_plan[STORE_ID_SIZE])
{
    (void)snprintf(ret_plan, STORE_ID_SIZE, "%032x", (unsigned)number * 2654435761u);
}

static struct heard *create(int daemon)
{
    char owner[STORE_OWNER_SIZE];
    (void)snprintf(owner, sizeof owner, "daemon%d", daemon);
    struct heard *heard = heard_create(owner);
    cr_assert_not_null(heard);
    return heard;
}

/* Own plans are due at once; those of others never before SPD_HEARD_MS, and always after the spread. */
Test(heard, random_histories_equal_a_list)
{
    struct {
        bool is_there, is_own;
        uint64_t since, number;
    } list[PLANS];
    for (int round = 1; round <= 300; round++) {
        unsigned seed = (unsigned)round;
        struct heard *heard = create(round);
        uint64_t now = 1000, number = 0;
        memset(list, 0, sizeof list);
        for (int step = 0; step < 400; step++) {
            char plan[STORE_ID_SIZE], tenant[SPD_MAX_PRINCIPAL + 1];
            const int which = rand_r(&seed) % PLANS, what = rand_r(&seed) % 20;
            name_plan(which, plan);
            if (what < 10) {
                (void)snprintf(tenant, sizeof tenant, "t%d", which); /* to know it again */
                list[which].is_own = rand_r(&seed) % 2 == 0;
                cr_assert(heard_add(heard, plan, tenant, list[which].is_own, now));
                list[which].is_there = true;
                list[which].since = now;
                list[which].number = ++number;
                cr_assert_eq(heard_mark(heard), number);
            } else if (what < 14) {
                heard_remove(heard, plan);
                list[which].is_there = false;
            } else if (what == 14) {
                const uint64_t mark = number > 5 ? number - (unsigned)rand_r(&seed) % 5 : 0;
                heard_forget(heard, mark);
                for (int i = 0; i < PLANS; i++)
                    list[i].is_there = list[i].is_there && list[i].number > mark;
            } else {
                now += (unsigned)rand_r(&seed) % 60;
            }
            const uint64_t due = heard_due(heard);
            while (heard_take(heard, now, tenant)) {
                const int taken = (int)strtol(tenant + 1, NULL, 10);
                cr_assert(list[taken].is_there);
                cr_assert(list[taken].is_own || now >= list[taken].since + SPD_HEARD_MS);
                cr_assert_leq(due, now);
                list[taken].is_there = false;
            }
            cr_assert_gt(heard_due(heard), now);
            bool any = false;
            for (int i = 0; i < PLANS; i++) {
                cr_assert(!list[i].is_there || (!list[i].is_own && now < list[i].since + MOST_MS));
                any = any || list[i].is_there;
            }
            cr_assert_eq(any, heard_due(heard) != UINT64_MAX);
        }
        heard_destroy(heard);
    }
}

/* Fifty daemons hear of each plan at the same moment; an answer to a claim comes everywhere after 5 ms. How many of them
   ask the store, and that it is not always the same one. */
Test(heard, few_of_a_fleet_ask_and_each_in_turn)
{
    enum { DAEMONS = 50, HEARD = 1000, ANSWER_MS = 5 };
    int asked = 0, first_of[DAEMONS] = {0};
    struct heard *fleet[DAEMONS];
    for (int i = 0; i < DAEMONS; i++)
        fleet[i] = create(i);
    for (int number = 0; number < HEARD; number++) {
        char plan[STORE_ID_SIZE], tenant[SPD_MAX_PRINCIPAL + 1];
        uint64_t due[DAEMONS], least = UINT64_MAX;
        int first = 0;
        name_plan(number, plan);
        for (int i = 0; i < DAEMONS; i++) {
            cr_assert(heard_add(fleet[i], plan, "tenant", false, 0));
            due[i] = heard_due(fleet[i]);
            cr_assert(!heard_take(fleet[i], due[i] - 1, tenant) && heard_take(fleet[i], due[i], tenant));
            first = due[i] < least ? i : first;
            least = due[i] < least ? due[i] : least;
        }
        first_of[first]++;
        for (int i = 0; i < DAEMONS; i++)
            asked += due[i] <= least + ANSWER_MS;
    }
    /* 50 delays over 100 ms: 3 or 4 fall into the first 6 of them, not 50. */
    cr_expect_lt(asked, 5 * HEARD);
    for (int i = 0; i < DAEMONS; i++) {
        cr_expect(first_of[i] > 0 && first_of[i] < HEARD / 10, "daemon %d was first %d times", i, first_of[i]);
        heard_destroy(fleet[i]);
    }
}

Test(heard, a_full_list_says_so)
{
    char plan[STORE_ID_SIZE];
    struct heard *heard = create(0);
    for (int i = 0; i < (int)SPD_MAX_HEARD; i++) {
        name_plan(i, plan);
        cr_assert(heard_add(heard, plan, "tenant", false, 0));
    }
    cr_expect(heard_add(heard, plan, "tenant", false, 0), "it is there already");
    name_plan(SPD_MAX_HEARD, plan);
    cr_expect_not(heard_add(heard, plan, "tenant", false, 0));
    heard_forget(heard, heard_mark(heard));
    cr_expect_eq(heard_due(heard), UINT64_MAX);
    heard_destroy(heard);
}
