#include "ops/table/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SWAPS 32 /* of one order */
#define NEGLIGIBLE 1e-12

/* ---- chances ---------------------------------------------------------------------------------------------------- */

void sp_load_chances(uint32_t count, const double *shares, double each, double *ret_chances)
{
    uint32_t certain = 0, before;
    for (uint32_t e = 0; e < count; e++)
        ret_chances[e] = 0;
    do {
        double sum = 0;
        before = certain;
        for (uint32_t e = 0; e < count; e++)
            sum += ret_chances[e] < 1 ? shares[e] : 0;
        const double rest = each - certain;
        for (uint32_t e = 0; e < count; e++) {
            if (ret_chances[e] >= 1)
                continue;
            const double chance = sum > 0 ? rest * shares[e] / sum : rest / (count - before);
            ret_chances[e] = fmin(1, chance);
            certain += chance >= 1;
        }
    } while (certain > before && certain < each);
}

/* ---- shards ----------------------------------------------------------------------------------------------------- */

static uint32_t block_of(uint32_t count, uint32_t shards)
{
    return (count + shards - 1) / shards;
}

/* How many experts a shard has; the last ones may have fewer, or none. */
static uint32_t room_of(uint32_t count, uint32_t shards, uint32_t shard)
{
    const uint32_t block = block_of(count, shards);
    const uint64_t first = (uint64_t)block * shard;
    return first >= count ? 0 : count - first < block ? (uint32_t)(count - first) : block;
}

static double read_chance(double chance, double tokens)
{
    return chance >= 1 ? 1 : -expm1(tokens * log1p(-chance));
}

/* The largest sum over a shard: of chances, or with tokens > 0 of the chances that some token is sent there. */
static double largest_sum(const struct sp_load *load, uint32_t shards, const uint32_t *order, double tokens)
{
    const uint32_t block = block_of(load->count, shards);
    double largest = 0, sum = 0;
    for (uint32_t i = 0; i < load->count; i++) {
        const double chance = load->chances[order != NULL ? order[i] : i];
        sum = i % block == 0 ? 0 : sum;
        sum += tokens > 0 ? read_chance(chance, tokens) : chance;
        largest = fmax(largest, sum);
    }
    return largest;
}

static const uint32_t *order_of(const struct sp_load *load, uint32_t shards)
{
    for (uint32_t i = 0; i < load->order_count; i++) {
        if (load->orders[i].shards == shards)
            return load->orders[i].order;
    }
    return NULL;
}

double sp_load_most_in(const struct sp_load *load, uint32_t shards, const uint32_t *order)
{
    return largest_sum(load, shards, order, 0) * shards / load->each;
}

double sp_load_most(const struct sp_load *load, uint32_t shards)
{
    return shards > 1 ? sp_load_most_in(load, shards, order_of(load, shards)) : 1;
}

double sp_load_read(const struct sp_load *load, uint32_t shards, double tokens)
{
    if (tokens <= 0)
        return 0;
    return largest_sum(load, shards, order_of(load, shards), tokens) * shards / load->count;
}

/* ---- balance ---------------------------------------------------------------------------------------------------- */

struct expert {
    double chance;
    uint32_t index, shard;
};

struct balancing {
    uint32_t count, shards;
    struct expert *experts;
    double *sums; /* per shard */
};

static int by_chance(const void *a, const void *b)
{
    const struct expert *x = a, *y = b;
    if (x->chance != y->chance)
        return x->chance > y->chance ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static int by_shard(const void *a, const void *b)
{
    const struct expert *x = a, *y = b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void deal(struct balancing *b, uint32_t *room)
{
    qsort(b->experts, b->count, sizeof *b->experts, by_chance);
    for (uint32_t s = 0; s < b->shards; s++) {
        room[s] = room_of(b->count, b->shards, s);
        b->sums[s] = 0;
    }
    for (uint32_t e = 0; e < b->count; e++) {
        uint32_t least = 0;
        while (room[least] == 0)
            least++;
        for (uint32_t s = least + 1; s < b->shards; s++)
            least = room[s] > 0 && b->sums[s] < b->sums[least] ? s : least;
        b->experts[e].shard = least;
        b->sums[least] += b->experts[e].chance;
        room[least]--;
    }
}

/* Swaps the two experts, one of them of the shard with the largest sum, that lower that most; false where none do. */
static bool swap(struct balancing *b)
{
    uint32_t full = 0;
    struct expert *given = NULL, *taken = NULL;
    for (uint32_t s = 1; s < b->shards; s++)
        full = b->sums[s] > b->sums[full] ? s : full;
    double best = b->sums[full] * (1 - NEGLIGIBLE);
    for (uint32_t i = 0; i < b->count; i++) {
        for (uint32_t j = 0; b->experts[i].shard == full && j < b->count; j++) {
            const double moved = b->experts[i].chance - b->experts[j].chance;
            if (b->experts[j].shard == full || moved <= 0)
                continue;
            const double largest = fmax(b->sums[full] - moved, b->sums[b->experts[j].shard] + moved);
            if (largest < best) {
                best = largest;
                given = &b->experts[i];
                taken = &b->experts[j];
            }
        }
    }
    if (given == NULL)
        return false;
    b->sums[full] -= given->chance - taken->chance;
    b->sums[taken->shard] += given->chance - taken->chance;
    given->shard = taken->shard;
    taken->shard = full;
    return true;
}

bool sp_load_balance(struct sp_arena *arena, uint32_t count, const double *chances, uint32_t shards,
                     uint32_t *ret_order)
{
    const struct sp_load load = {.count = count, .each = 1, .chances = chances};
    const struct sp_arena_mark mark = sp_arena_mark(arena);
    uint32_t *room = SP_NEW_ARRAY(arena, shards, uint32_t);
    struct balancing b = {count, shards, SP_NEW_ARRAY(arena, count, struct expert),
                          SP_NEW_ARRAY(arena, shards, double)};
    const bool has_memory = room != NULL && b.experts != NULL && b.sums != NULL;
    if (has_memory) {
        for (uint32_t e = 0; e < count; e++)
            b.experts[e] = (struct expert){chances[e], e, 0};
        deal(&b, room);
        for (uint32_t i = 0; i < MOST_SWAPS && swap(&b); i++)
            continue;
        qsort(b.experts, count, sizeof *b.experts, by_shard);
        for (uint32_t e = 0; e < count; e++)
            ret_order[e] = b.experts[e].index;
        if (largest_sum(&load, shards, NULL, 0) <= largest_sum(&load, shards, ret_order, 0) * (1 + NEGLIGIBLE))
            for (uint32_t e = 0; e < count; e++)
                ret_order[e] = e;
    }
    sp_arena_rewind(arena, mark);
    return has_memory;
}
