#include "alike.h"

#include <string.h>

static uint32_t span_of(const struct alike_stages *stages, uint32_t s)
{
    return stages->space->options[stages->option[s]].size * stages->replicas[s];
}

static uint32_t mask_of(const struct alike_stages *stages)
{
    uint32_t mask = 0;
    for (uint32_t s = 0; s < stages->count; s++)
        mask |= ((1u << span_of(stages, s)) - 1) << stages->device[s];
    return mask;
}

uint32_t alike_devices(const struct alike_stages *stages)
{
    uint32_t devices = 0;
    for (uint32_t s = 0; s < stages->count; s++)
        devices += span_of(stages, s);
    return devices;
}

bool alike_stand_apart(const struct alike_stages *stages)
{
    uint32_t used = 0;
    for (uint32_t s = 0; s < stages->count; s++) {
        const struct sp_space_option *option = &stages->space->options[stages->option[s]];
        const uint32_t mask = ((1u << span_of(stages, s)) - 1) << stages->device[s];
        if (sp_space_place(stages->space, option, stages->replicas[s], stages->device[s]) != stages->device[s] ||
            (used & mask) != 0)
            return false;
        used |= mask;
    }
    return true;
}

static bool are_alike(const struct alike_stages *a, const struct alike_stages *b)
{
    const struct sp_cluster *cluster = a->space->cluster;
    for (uint32_t s = 0; s < a->count; s++) {
        for (uint32_t d = 0; d < span_of(a, s); d++) {
            const uint32_t one = a->device[s] + d, other = b->device[s] + d;
            if (a->workload->kind_of[one] != a->workload->kind_of[other] ||
                sp_cluster_memory(cluster, one) != sp_cluster_memory(cluster, other))
                return false;
        }
        for (uint32_t t = 0; t < s; t++) {
            if (sp_cluster_link(cluster, a->device[s], a->device[t]) !=
                sp_cluster_link(cluster, b->device[s], b->device[t]))
                return false;
        }
    }
    return true;
}

static bool count_up(uint32_t *digits, uint32_t count, uint32_t base)
{
    for (uint32_t i = 0; i < count; i++) {
        if (++digits[i] < base)
            return true;
        digits[i] = 0;
    }
    return false;
}

uint32_t alike_copies(const struct alike_stages *stages)
{
    const uint32_t devices = stages->space->cluster->device_count, all = 1u << devices;
    uint32_t at[ALIKE_MOST] = {0}, most[1u << ALIKE_MOST] = {0};
    bool is_set[1u << ALIKE_MOST] = {false};
    struct alike_stages other = *stages;
    other.device = at;
    for (uint32_t s = 0; s < stages->count; s++)
        if (stages->space->options[stages->option[s]].mesh.member_count > 0)
            return 1;
    if (alike_devices(stages) > devices / 2)
        return 1; /* none are left for another one */
    do {
        if (alike_stand_apart(&other) && are_alike(stages, &other))
            is_set[mask_of(&other)] = true;
    } while (count_up(at, stages->count, devices));
    for (uint32_t used = 1; used < all; used++) {
        for (uint32_t set = 1; set <= used; set++) {
            if (is_set[set] && (set & used) == set && most[used & ~set] + 1 > most[used])
                most[used] = most[used & ~set] + 1;
        }
    }
    return 1 + most[(all - 1) & ~mask_of(stages)];
}
