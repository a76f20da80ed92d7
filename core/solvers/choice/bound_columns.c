/*
 * Soft minima of the columns of a table.
 *
 * LANES neighbouring columns are done side by side, each in the order of its rows. Where a processor has AVX2 they share
 * registers; the operations on each number are the same ones, and so are the results, on every machine. What lies behind
 * the last column is read and written, too.
 */
#include <float.h>

#include "solvers/choice/bounder.h"

#define LANES SP_BOUND_LANES
#define EACH  static inline __attribute__((always_inline))

/* e^x for x <= 0, to some six digits; below -80 it is next to 0. */
EACH float exponential(float x)
{
    const float shift = 12582912.0f, scaled = (x < -80.0f ? -80.0f : x) * 1.44269504f; /* 1.5 * 2^23: whole numbers */
    const float whole = scaled + shift, part = scaled - (whole - shift);
    float value = part * 0.00133335581f + 0.00961812911f;
    int32_t power, bits;
    value = part * value + 0.0555041087f;
    value = part * value + 0.240226507f;
    value = part * value + 0.693147181f;
    value = part * value + 1.0f;
    memcpy(&power, &whole, sizeof power);
    memcpy(&bits, &value, sizeof bits);
    bits = (int32_t)((uint32_t)bits + ((uint32_t)power << 23));
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ln x for x >= 1, to some six digits. */
EACH float logarithm(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t exponent = (bits >> 23) - 127;
    bits -= exponent * (1 << 23);
    memcpy(&x, &bits, sizeof x); /* in [1, 2) */
    const float t = (x - 1.0f) / (x + 1.0f), square = t * t;
    float value = square * 0.222222222f + 0.285714286f;
    value = square * value + 0.4f;
    value = square * value + 0.666666667f;
    value = square * value + 2.0f;
    return t * value + (float)exponent * 0.693147181f;
}

/* Of LANES columns. */
EACH void soft_leasts_at(const struct sp_bound_columns *of, const double *table, double temperature, double *ret_leasts)
{
    const double rate = 1 / temperature;
    double largest[LANES];
    float sum[LANES];
    for (uint32_t i = 0; i < LANES; i++) {
        largest[i] = -DBL_MAX;
        sum[i] = 0;
    }
    for (uint32_t x = 0; x < of->rows; x++) {
        const double *row = &table[(size_t)x * of->columns], message = of->message[x];
        for (uint32_t i = 0; i < LANES; i++) {
            const double value = message - row[i];
            largest[i] = value > largest[i] ? value : largest[i];
        }
    }
    for (uint32_t x = 0; x < of->rows; x++) {
        const double *row = &table[(size_t)x * of->columns], message = of->message[x];
        for (uint32_t i = 0; i < LANES; i++)
            sum[i] += exponential((float)((message - row[i] - largest[i]) * rate));
    }
    for (uint32_t i = 0; i < LANES; i++)
        ret_leasts[i] = -largest[i] - temperature * (double)logarithm(sum[i]);
}

#ifdef __x86_64__
typedef double doubles __attribute__((vector_size(32)));
typedef float floats __attribute__((vector_size(32)));
typedef float halves __attribute__((vector_size(16)));
typedef int64_t wholes __attribute__((vector_size(32)));
typedef int32_t bits __attribute__((vector_size(32)));
#define WIDE __attribute__((target("avx2")))
#define HALF (LANES / 2)

/* exponential() of LANES numbers. */
WIDE EACH void exponentials(floats *x)
{
    const floats zero = {0}, least = zero - 80.0f;
    const bits is_tiny = *x < least;
    floats value = (floats)(((bits)*x & ~is_tiny) | ((bits)least & is_tiny));
    const floats scaled = value * 1.44269504f, whole = scaled + 12582912.0f, part = scaled - (whole - 12582912.0f);
    value = part * 0.00133335581f + 0.00961812911f;
    value = part * value + 0.0555041087f;
    value = part * value + 0.240226507f;
    value = part * value + 0.693147181f;
    value = part * value + 1.0f;
    *x = (floats)((bits)value + ((bits)whole << 23));
}

/* message - table, of the columns of one half. */
WIDE EACH void subtract(const struct sp_bound_columns *of, const double *table, uint32_t row, uint32_t half,
                        doubles *ret_rest)
{
    doubles costs;
    memcpy(&costs, &table[(size_t)row * of->columns + half * HALF], sizeof costs);
    *ret_rest = of->message[row] - costs;
}

/* soft_leasts_at() */
WIDE static void soft_leasts_wide(const struct sp_bound_columns *of, const double *table, double temperature,
                                  double *ret_leasts)
{
    const double rate = 1 / temperature;
    const doubles zero = {0};
    doubles rest[2], largest[2] = {zero - DBL_MAX, zero - DBL_MAX};
    floats sum = {0};
    for (uint32_t x = 0; x < of->rows; x++)
        for (uint32_t half = 0; half < 2; half++) {
            subtract(of, table, x, half, &rest[half]);
            const wholes is_larger = rest[half] > largest[half];
            largest[half] = (doubles)(((wholes)rest[half] & is_larger) | ((wholes)largest[half] & ~is_larger));
        }
    for (uint32_t x = 0; x < of->rows; x++) {
        for (uint32_t half = 0; half < 2; half++) {
            subtract(of, table, x, half, &rest[half]);
            rest[half] = (rest[half] - largest[half]) * rate;
        }
        floats power = __builtin_shufflevector(__builtin_convertvector(rest[0], halves),
                                               __builtin_convertvector(rest[1], halves), 0, 1, 2, 3, 4, 5, 6, 7);
        exponentials(&power);
        sum += power;
    }
    for (uint32_t i = 0; i < LANES; i++)
        ret_leasts[i] = -largest[i / HALF][i % HALF] - temperature * (double)logarithm(sum[i]);
}
#endif

void sp_bound_soft_leasts_plain(const struct sp_bound_columns *of, double temperature, double *ret_leasts)
{
    for (uint32_t s = 0; s < of->columns; s += LANES)
        soft_leasts_at(of, &of->table[s], temperature, &ret_leasts[s]);
}

bool sp_bound_soft_leasts_wide(const struct sp_bound_columns *of, double temperature, double *ret_leasts)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        for (uint32_t s = 0; s < of->columns; s += LANES)
            soft_leasts_wide(of, &of->table[s], temperature, &ret_leasts[s]);
        return true;
    }
#endif
    return false;
}

void sp_bound_soft_leasts(const struct sp_bound_columns *of, double temperature, double *ret_leasts)
{
    if (!sp_bound_soft_leasts_wide(of, temperature, ret_leasts))
        sp_bound_soft_leasts_plain(of, temperature, ret_leasts);
}

void sp_bound_exponentials(float *x)
{
    for (uint32_t i = 0; i < LANES; i++)
        x[i] = exponential(x[i]);
}
