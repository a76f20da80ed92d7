#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "routes/answers.h"
#include "server_limits.h"

static struct answers *answers;

static void set_up(void)
{
    answers = answers_create();
    cr_assert_not_null(answers);
}

static void tear_down(void)
{
    answers_destroy(answers);
}

TestSuite(answers, .init = set_up, .fini = tear_down);

/* Keeps an answer of `size` bytes about a plan with this number; whether it was kept. */
static bool keep(int number, const char *tenant, size_t size, uint64_t generation)
{
    struct plan_row row = {0};
    struct sp_buf body;
    (void)snprintf(row.id, sizeof row.id, "%032d", number);
    (void)snprintf(row.tenant, sizeof row.tenant, "%s", tenant);
    sp_buf_init(&body, SIZE_MAX);
    char *bytes = malloc(size);
    cr_assert_not_null(bytes);
    memset(bytes, 'a' + number % 26, size);
    sp_buf_append(&body, bytes, size);
    free(bytes);
    const struct cached_answer *answer = answers_keep(answers, &row, "etag", &body, generation);
    cr_expect_eq(body.size, answer != NULL ? 0 : size);
    sp_buf_release(&body);
    if (answer != NULL)
        answers_release(answers, answer);
    return answer != NULL;
}

static const struct cached_answer *get(int number, const char *tenant)
{
    char id[33];
    (void)snprintf(id, sizeof id, "%032d", number);
    return answers_get(answers, tenant, id);
}

/* Whether there is one; it is given back. */
static bool has(int number, const char *tenant)
{
    const struct cached_answer *answer = get(number, tenant);
    if (answer != NULL)
        answers_release(answers, answer);
    return answer != NULL;
}

Test(answers, are_those_of_their_tenant)
{
    cr_expect(keep(1, "a", 10, answers_generation(answers)));
    cr_expect(has(1, "a"));
    cr_expect(has(1, NULL));
    cr_expect_not(has(1, "b"));
    cr_expect_not(has(1, ""));
    cr_expect_not(has(2, "a"));
}

Test(answers, outlive_what_is_forgotten)
{
    cr_assert(keep(3, "", 100, answers_generation(answers)));
    const struct cached_answer *answer = get(3, "");
    cr_assert_not_null(answer);
    answers_forget(answers, "00000000000000000000000000000003");
    cr_expect_not(has(3, ""));
    cr_expect_eq(answer->size, 100);
    cr_expect_str_eq(answer->etag, "etag");
    cr_expect_eq(answer->bytes[99], 'd');
    answers_release(answers, answer);
}

Test(answers, made_while_something_changed_are_not_kept)
{
    uint64_t generation = answers_generation(answers);
    answers_forget(answers, "00000000000000000000000000000009");
    cr_expect_not(keep(1, "", 10, generation));
    cr_expect(keep(1, "", 10, answers_generation(answers)));
    cr_expect_not(keep(1, "", 10, answers_generation(answers)), "it is there already");
    answers_forget(answers, NULL);
    cr_expect_not(has(1, ""));
}

Test(answers, are_bounded)
{
    const size_t each = SPD_MAX_ANSWER_BYTES;
    const int room = (int)(SPD_ANSWERS_BYTES / each);
    cr_expect_not(keep(0, "", each + 1, answers_generation(answers)));
    for (int i = 0; i < room + 3; i++) {
        cr_assert(keep(i, "", each, answers_generation(answers)));
        cr_expect(has(0, ""), "the first one is asked for again and again, and so stays");
    }
    cr_expect_not(has(1, ""));
    cr_expect_not(has(2, ""));
    cr_expect_not(has(3, ""));
    cr_expect(has(room + 2, ""));
}
