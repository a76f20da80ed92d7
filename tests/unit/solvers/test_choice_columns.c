/*
 * Soft minima of columns: with AVX2 as in plain C, bit for bit, and both next to what the C library computes of the
 * definition.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_choice.h"
#include "solvers/choice/bounder.h"

#define PROBLEMS 3000
#define MOST     40 /* rows and columns */

struct problem {
    struct sp_bound_columns of;
    double *table, *message, *plain, *wide;
    double temperature;
};

/* Costs as bounds have them: of any size, equal ones, none at all, and some forbidden. */
static double random_cost(uint64_t *seed, uint32_t scale)
{
    switch (choice_pick(seed, 8)) {
    case 0:
        return SP_BOUND_FORBIDDEN;
    case 1:
        return 0;
    case 2:
        return choice_pick(seed, 3);
    default:
        return ldexp((double)choice_pick(seed, 1u << 20) - (1u << 18), (int)scale - 20);
    }
}

/* Arrays of exactly the sizes that are promised, each in an allocation of its own, whose ends the sanitizer watches. */
static struct problem random_problem(uint64_t *seed)
{
    const uint32_t rows = 1 + choice_pick(seed, MOST), columns = 1 + choice_pick(seed, MOST),
                   scale = choice_pick(seed, 40);
    const size_t count = (size_t)rows * columns + SP_BOUND_LANES - 1, results = columns + SP_BOUND_LANES - 1;
    struct problem p = {.table = calloc(count, sizeof(double)),
                        .message = calloc(rows, sizeof(double)),
                        .plain = calloc(results, sizeof(double)),
                        .wide = calloc(results, sizeof(double)),
                        .temperature = ldexp(1 + choice_pick(seed, 1000) / 1000.0, (int)choice_pick(seed, 50) - 10)};
    for (size_t i = 0; i < count; i++)
        p.table[i] = random_cost(seed, scale);
    for (uint32_t x = 0; x < rows; x++)
        p.message[x] = ldexp((double)choice_pick(seed, 1u << 20) - (1u << 19), (int)scale - 20);
    p.of = (struct sp_bound_columns){p.table, p.message, rows, columns};
    return p;
}

static void problem_release(struct problem *p)
{
    free(p->table);
    free(p->message);
    free(p->plain);
    free(p->wide);
}

/* -temperature * ln of the sum of e^(-cost / temperature) over a column's rows, less the largest term. */
static double soft_least(const struct problem *p, uint32_t column)
{
    double least = INFINITY, sum = 0;
    for (uint32_t x = 0; x < p->of.rows; x++)
        least = fmin(least, p->table[(size_t)x * p->of.columns + column] - p->message[x]);
    for (uint32_t x = 0; x < p->of.rows; x++)
        sum += exp((least - p->table[(size_t)x * p->of.columns + column] + p->message[x]) / p->temperature);
    return least - p->temperature * log(sum);
}

Test(choice_columns, are_what_the_definition_says)
{
    uint64_t seed = 1;
    for (uint32_t i = 0; i < PROBLEMS; i++) {
        struct problem p = random_problem(&seed);
        sp_bound_soft_leasts_plain(&p.of, p.temperature, p.plain);
        for (uint32_t c = 0; c < p.of.columns; c++) {
            const double due = soft_least(&p, c), slack = 1e-5 * p.temperature + 1e-12 * fabs(due);
            cr_assert_float_eq(p.plain[c], due, slack, "problem %u, column %u: %.17g instead of %.17g", i, c,
                               p.plain[c], due);
        }
        problem_release(&p);
    }
}

Test(choice_columns, have_the_same_bits_in_wide_registers)
{
    uint64_t seed = 2;
    for (uint32_t i = 0; i < PROBLEMS; i++) {
        struct problem p = random_problem(&seed);
        sp_bound_soft_leasts_plain(&p.of, p.temperature, p.plain);
        const bool is_wide = sp_bound_soft_leasts_wide(&p.of, p.temperature, p.wide);
        const int differ = is_wide ? memcmp(p.plain, p.wide, p.of.columns * sizeof(double)) : 0;
        const uint32_t rows = p.of.rows, columns = p.of.columns;
        problem_release(&p);
        if (!is_wide)
            cr_skip_test("this processor has no AVX2");
        cr_assert_eq(differ, 0, "problem %u of %u rows and %u columns", i, rows, columns);
    }
}
