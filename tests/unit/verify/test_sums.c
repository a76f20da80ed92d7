/* Sums of products are those of one step after the other, to the last bit of each part. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/arena.h"
#include "base/random.h"
#include "verify/sums.h"

TestSuite(sums, .timeout = 60);

#define ITEMS  300
#define ROUNDS 200

static struct sp_number draw(uint64_t *random, bool is_float, bool may_be_infinite)
{
    const uint64_t bits = sp_random(random);
    const double real = (double)(int64_t)bits / 0x1p40;
    if (!is_float)
        return (struct sp_number){bits, real};
    if (may_be_infinite && bits % 97 == 0)
        return (struct sp_number){bits % 2 == 0 ? SP_FIELD_LEAST : SP_FIELD_GREATEST,
                                  bits % 2 == 0 ? -HUGE_VAL : HUGE_VAL};
    return (struct sp_number){bits % 5 == 0 ? SP_FIELD_PRIME - 1 : sp_field_reduce(bits), real};
}

static struct sp_numbers *draw_all(struct sp_arena *arena, uint64_t *random, bool is_float, bool may_be_infinite)
{
    struct sp_numbers *x = NULL;
    struct sp_error err = {0};
    cr_assert_eq(
        sp_numbers_create_full(arena, is_float ? SP_DTYPE_FLOAT : SP_DTYPE_INT64, 1, (int64_t[]){ITEMS}, &x, &err),
        SP_OK);
    for (uint32_t i = 0; i < ITEMS; i++)
        x->items[i] = draw(random, is_float, may_be_infinite);
    return x;
}

static void check(bool is_float, bool may_be_infinite)
{
    uint64_t random = 7;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        const struct sp_numbers *a = draw_all(arena, &random, is_float, may_be_infinite),
                                *b = draw_all(arena, &random, is_float, may_be_infinite);
        const struct sp_factors factors = sp_factors_of(a, b, a->dtype);
        const size_t count = sp_random(&random) % (ITEMS / 2), a_at = sp_random(&random) % (ITEMS / 2),
                     b_at = sp_random(&random) % (ITEMS / 2);
        size_t offsets[2][ITEMS];
        struct sp_number expected = {0, 0}, found = {0, 0};
        for (size_t i = 0; i < count; i++) {
            offsets[0][i] = sp_random(&random) % (ITEMS / 2);
            offsets[1][i] = sp_random(&random) % (ITEMS / 2);
            const struct sp_number x = a->items[a_at + offsets[0][i]], y = b->items[b_at + offsets[1][i]];
            expected = is_float ? sp_number_add(expected, sp_number_multiply(x, y))
                                : sp_integer_add(expected, sp_integer_multiply(x, y));
        }
        /* in two steps: a sum goes on from what it was */
        sp_sum_products(&factors, a_at, b_at, count / 3, offsets[0], offsets[1], &found);
        sp_sum_products(&factors, a_at, b_at, count - count / 3, &offsets[0][count / 3], &offsets[1][count / 3],
                        &found);
        cr_assert_eq(found.field, expected.field);
        cr_assert_eq(memcmp(&found.real, &expected.real, sizeof found.real), 0);
        sp_arena_destroy(arena);
    }
}

Test(sums, finite)
{
    check(true, false);
}

Test(sums, with_infinity)
{
    check(true, true);
}

Test(sums, integers)
{
    check(false, false);
}
