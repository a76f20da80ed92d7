/* The counter of live bytes against the sum over all intervals, position by position. */
#include <criterion/criterion.h>
#include <math.h>

#include "cost/live_bytes.h"
#include "random_workload.h"

#define POSITIONS 30
#define INTERVALS 40

struct interval {
    uint32_t first, last;
    double bytes;
};

/* Whole bytes, so that sums are exact in any order. */
static double sum_at(const struct interval *intervals, uint32_t count, uint32_t position)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bool has_begun = intervals[i].first == SP_LIVE_OUTSIDE || intervals[i].first <= position;
        sum += has_begun && intervals[i].last >= position ? intervals[i].bytes : 0;
    }
    return sum;
}

Test(live_bytes, each_position_has_what_is_alive_there)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    uint64_t seed = 3;
    for (uint32_t round = 0; round < 500; round++) {
        struct interval intervals[INTERVALS];
        const uint32_t count = pick(&seed, INTERVALS + 1);
        double peak = 0, start = 0;
        struct sp_live live;
        cr_assert(sp_live_init(&live, arena, POSITIONS));
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t first = pick(&seed, POSITIONS), last = first + pick(&seed, POSITIONS - first);
            intervals[i] = (struct interval){pick(&seed, 5) == 0 ? SP_LIVE_OUTSIDE : first,
                                             pick(&seed, 5) == 0 ? SP_LIVE_OUTSIDE : last, 1 + pick(&seed, 1000)};
            start += intervals[i].first == SP_LIVE_OUTSIDE ? intervals[i].bytes : 0;
            sp_live_add(&live, intervals[i].first, intervals[i].last, intervals[i].bytes);
        }
        peak = start;
        cr_assert_eq(live.peak, start);
        for (uint32_t p = 0; p < POSITIONS; p++) {
            const double workspace = pick(&seed, 3) == 0 ? pick(&seed, 500) : 0;
            const struct sp_live_bytes at = sp_live_step(&live, p, workspace);
            double after = sum_at(intervals, count, p);
            cr_assert_eq(at.during, after + workspace);
            for (uint32_t i = 0; i < count; i++)
                after -= intervals[i].last == p ? intervals[i].bytes : 0;
            cr_assert_eq(at.after, after);
            peak = fmax(peak, at.during);
            cr_assert_eq(live.peak, peak);
        }
    }
    sp_arena_destroy(arena);
}
