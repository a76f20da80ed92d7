#include "every_block.h"

#include <criterion/criterion.h>

#include "search/joint/unequal/unequal.h"

static void add_meshes(struct sp_space *space)
{
    const uint32_t blocks = space->option_count;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t cuts[SP_SPACE_CUTS];
        const uint32_t count = sp_space_cuts(&space->options[i], cuts);
        for (uint32_t c = 0; c < count; c++)
            cr_assert_not_null(sp_space_add_mesh(space, &space->options[i], cuts[c]));
    }
}

static uint32_t divisor_of(uint32_t a, uint32_t b)
{
    while (b != 0) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A row of devices in every share of so many blocks; multiples of shares are the same shares. */
static void add_row(struct sp_space *space, const struct sp_workload *workload, uint32_t first, uint32_t size,
                    uint32_t most)
{
    uint32_t shares[EVERY_BLOCK_DEVICES] = {1, 1, 1, 1}, d = 0;
    while (d < size) {
        uint32_t blocks = 0, divisor = 0;
        for (d = 0; d < size; d++) {
            blocks += shares[d];
            divisor = divisor_of(shares[d], divisor);
        }
        if (blocks <= most && divisor == 1)
            cr_assert_not_null(sp_space_add_shares(space, workload, first, size, shares));
        for (d = 0; d < size && ++shares[d] > most; d++)
            shares[d] = 1;
    }
}

static bool differ(const struct sp_space *space, const struct sp_workload *workload, uint32_t a, uint32_t b)
{
    return workload->kind_of[a] != workload->kind_of[b] ||
           sp_cluster_memory(space->cluster, a) != sp_cluster_memory(space->cluster, b);
}

void add_every_block(struct sp_space *space, const struct sp_workload *workload, bool shares)
{
    const uint32_t devices = space->cluster->device_count;
    cr_assert_leq(devices, EVERY_BLOCK_DEVICES);
    add_meshes(space);
    for (uint32_t first = 0; shares && first < devices; first++) {
        bool is_unequal = false;
        for (uint32_t d = first + 1; d < devices; d++) {
            is_unequal = is_unequal || differ(space, workload, d, first);
            if (is_unequal)
                add_row(space, workload, first, d - first + 1, devices == 2 ? 8 : 4);
        }
    }
    sp_space_lay(space, UINT32_MAX, false);
}
