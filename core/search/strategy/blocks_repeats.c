/*
 * All maximal repetitions of a sequence, by the runs theorem.
 *
 * A suffix is smaller than another when at the first difference its symbol is. The longest Lyndon word that begins at i
 * ends where the next smaller suffix begins. Every maximal repetition has a Lyndon word of its period as a root, for
 * the order of symbols or for the opposite one, so it is enough to take each of the 2n longest Lyndon words as a root
 * and see how far its period goes to both sides.
 *
 * "How far are these equal" is asked of hashes of prefixes, polynomials modulo the prime 2^61 - 1: steps of doubling
 * length, then halving. A wrong answer has a probability of about n / 2^61; what is built on it looks at the nodes.
 */
#include <stdlib.h>

#include "base/sorted.h"
#include "search/strategy/blocks_internal.h"

#define PRIME   (((uint64_t)1 << 61) - 1)
#define AT_ONCE 4 /* symbols that are compared before hashes are: most pairs differ soon */

struct repeats {
    const uint32_t *symbols;
    uint32_t count;
    uint64_t *hash, *power; /* of the first i symbols; of the base */
    uint32_t *next;         /* the next smaller suffix */
    uint64_t steps;
};

/* ---- hashes ----------------------------------------------------------------------------------------------------- */

static uint64_t times(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    uint64_t sum = (uint64_t)(product & PRIME) + (uint64_t)(product >> 61);
    return sum >= PRIME ? sum - PRIME : sum;
}

static void fill_hashes(struct repeats *r, uint64_t seed)
{
    uint64_t base = seed % (PRIME - (UINT64_C(1) << 33)) + (UINT64_C(1) << 33); /* larger than any symbol */
    r->power[0] = 1;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t sum = times(r->hash[i], base) + r->symbols[i] + 1;
        r->hash[i + 1] = sum >= PRIME ? sum - PRIME : sum;
        r->power[i + 1] = times(r->power[i], base);
    }
    r->steps += r->count;
}

static uint64_t hash_of(const struct repeats *r, uint32_t begin, uint32_t length)
{
    uint64_t front = times(r->hash[begin], r->power[length]), all = r->hash[begin + length];
    return all >= front ? all - front : all + PRIME - front;
}

static bool is_equal(struct repeats *r, uint32_t a, uint32_t b, uint32_t length)
{
    r->steps++;
    return hash_of(r, a, length) == hash_of(r, b, length);
}

/* How many symbols are equal from a and b on, a < b. */
static uint32_t common_front(struct repeats *r, uint32_t a, uint32_t b)
{
    const uint32_t most = r->count - b;
    uint32_t known = 0, step = AT_ONCE;
    while (known < AT_ONCE && known < most) {
        if (r->symbols[a + known] != r->symbols[b + known])
            return known;
        known++;
    }
    while (known < most && step <= most - known && is_equal(r, a + known, b + known, step)) {
        known += step;
        step *= 2;
    }
    for (; step > 0; step /= 2) {
        if (step <= most - known && is_equal(r, a + known, b + known, step))
            known += step;
    }
    return known;
}

/* How many symbols are equal before a and b, a < b. */
static uint32_t common_back(struct repeats *r, uint32_t a, uint32_t b)
{
    uint32_t known = 0, step = AT_ONCE;
    while (known < AT_ONCE && known < a) {
        if (r->symbols[a - 1 - known] != r->symbols[b - 1 - known])
            return known;
        known++;
    }
    while (known < a && step <= a - known && is_equal(r, a - known - step, b - known - step, step)) {
        known += step;
        step *= 2;
    }
    for (; step > 0; step /= 2) {
        if (step <= a - known && is_equal(r, a - known - step, b - known - step, step))
            known += step;
    }
    return known;
}

/* ---- Lyndon roots ----------------------------------------------------------------------------------------------- */

/* Whether the suffix at a is smaller than that at b > a; of two that begin alike the shorter one is. */
static bool is_smaller(struct repeats *r, uint32_t a, uint32_t b, bool is_opposite)
{
    uint32_t common = common_front(r, a, b);
    if (b + common == r->count)
        return false;
    bool is_less = r->symbols[a + common] < r->symbols[b + common];
    return is_less != is_opposite;
}

static void fill_next(struct repeats *r, bool is_opposite)
{
    for (uint32_t i = r->count; i-- > 0;) {
        uint32_t j = i + 1;
        while (j < r->count && is_smaller(r, i, j, is_opposite))
            j = r->next[j];
        r->next[i] = j;
    }
}

/* The repetition of the root [i, next[i]), unless the same one has a root further left. */
static bool grow(struct repeats *r, uint32_t i, struct sp_blocks_repeat *ret_repeat)
{
    uint32_t j = r->next[i], period = j - i;
    uint32_t before = common_back(r, i, j), behind = j < r->count ? common_front(r, i, j) : 0;
    if (before >= period || before + behind < period)
        return false;
    *ret_repeat = (struct sp_blocks_repeat){i - before, j + behind, period};
    return true;
}

SP_ASCENDING(by_place, struct sp_blocks_repeat, begin, period)

/* Sorts, and leaves one of those that both orders have found. */
static uint32_t remove_duplicates(struct sp_blocks_repeat *repeats, uint32_t count)
{
    uint32_t left = 0;
    if (count > 1)
        qsort(repeats, count, sizeof *repeats, by_place);
    for (uint32_t i = 0; i < count; i++) {
        if (left == 0 || by_place(&repeats[left - 1], &repeats[i]) != 0)
            repeats[left++] = repeats[i];
    }
    return left;
}

enum sp_status sp_blocks_repeats(struct sp_arena *arena, const uint32_t *symbols, uint32_t count, uint64_t seed,
                                 struct sp_blocks_repeat_list *ret_repeats, uint64_t *steps, struct sp_error *err)
{
    struct repeats r = {.symbols = symbols,
                        .count = count,
                        .hash = SP_NEW_ARRAY(arena, (size_t)count + 1, uint64_t),
                        .power = SP_NEW_ARRAY(arena, (size_t)count + 1, uint64_t),
                        .next = SP_NEW_ARRAY(arena, count, uint32_t)};
    struct sp_blocks_repeat *found = SP_NEW_ARRAY(arena, 2 * (size_t)count, struct sp_blocks_repeat);
    uint32_t found_count = 0;
    if (r.hash == NULL || r.power == NULL || r.next == NULL || found == NULL)
        return sp_fail_memory(err);
    fill_hashes(&r, seed);
    for (int pass = 0; pass < 2; pass++) {
        fill_next(&r, pass == 1);
        for (uint32_t i = 0; i < count; i++) {
            if (grow(&r, i, &found[found_count]))
                found_count++;
        }
    }
    *ret_repeats = (struct sp_blocks_repeat_list){remove_duplicates(found, found_count), found};
    *steps += r.steps;
    return SP_OK;
}
