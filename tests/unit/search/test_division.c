#include <criterion/criterion.h>

#include "search/grouping/grouping.h"

static void expect_division(uint32_t count, const double *bytes, uint32_t groups, const uint32_t *expected)
{
    uint32_t got[16];
    cr_assert(count <= 16);
    sp_initial_division(count, bytes, groups, got);
    for (uint32_t i = 0; i < count; i++)
        cr_expect_eq(got[i], expected[i], "item %u is in group %u, not %u", i, got[i], expected[i]);
}

/* The three worked examples of PopRT's division, the last with its defect (an empty group, one group too few)
   corrected. */
Test(division, eight_equal_subgraphs_on_four_devices)
{
    expect_division(8, (double[]){4, 4, 4, 4, 4, 4, 4, 4}, 4, (uint32_t[]){0, 0, 1, 1, 2, 2, 3, 3});
}

Test(division, one_heavy_subgraph_first)
{
    expect_division(5, (double[]){10, 1, 1, 1, 1}, 2, (uint32_t[]){0, 1, 1, 1, 1});
}

Test(division, one_heavy_subgraph_last)
{
    expect_division(4, (double[]){1, 1, 1, 9}, 3, (uint32_t[]){0, 0, 1, 2});
}

Test(division, no_cut_to_make)
{
    expect_division(3, (double[]){1, 2, 3}, 1, (uint32_t[]){0, 0, 0});
    expect_division(1, (double[]){5}, 4, (uint32_t[]){0});
}

Test(division, fewer_items_than_groups_get_one_each)
{
    expect_division(3, (double[]){0, 100, 1}, 8, (uint32_t[]){0, 1, 2});
}

Test(division, weightless_items_count_alike)
{
    expect_division(6, (double[]){0, 0, 0, 0, 0, 0}, 3, (uint32_t[]){0, 0, 1, 1, 2, 2});
}

Test(division, every_group_gets_an_item)
{
    /* All vectors of five weights out of {0, 1, 7}, for every number of groups. */
    for (uint32_t code = 0; code < 243; code++) {
        double bytes[5];
        for (uint32_t i = 0, rest = code; i < 5; i++, rest /= 3)
            bytes[i] = (double[]){0, 1, 7}[rest % 3];
        for (uint32_t groups = 1; groups <= 5; groups++) {
            uint32_t got[5];
            sp_initial_division(5, bytes, groups, got);
            cr_assert_eq(got[0], 0);
            for (uint32_t i = 1; i < 5; i++)
                cr_assert(got[i] == got[i - 1] || got[i] == got[i - 1] + 1, "code %u groups %u", code, groups);
            cr_assert_eq(got[4], groups - 1, "code %u: %u groups wanted, %u made", code, groups, got[4] + 1);
        }
    }
}
