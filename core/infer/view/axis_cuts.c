/* Cuts of axes and of factors. */
#include <string.h>

#include "base/arith.h"
#include "infer/view/internal.h"

int64_t sp_cut_shards(const struct sp_block_dim *cut)
{
    int64_t shards = 1;
    for (uint32_t i = 0; i < cut->part_count; i++)
        shards *= cut->parts[i].shards;
    return shards;
}

int64_t sp_part_blocks(const struct sp_block_part *part)
{
    return part->bounds == NULL ? part->shards : part->bounds[part->shards];
}

/* Whether two parts in as many shards give each the same share. */
static bool same_shares(const struct sp_block_part *a, const struct sp_block_part *b)
{
    if (a->bounds == NULL || b->bounds == NULL)
        return a->bounds == b->bounds;
    return memcmp(a->bounds, b->bounds, ((size_t)a->shards + 1) * sizeof *a->bounds) == 0;
}

bool sp_part_has_empty(const struct sp_block_part *part, int64_t extent)
{
    int64_t blocks = sp_part_blocks(part), size = extent / blocks + (extent % blocks != 0);
    int64_t last = part->bounds == NULL ? part->shards - 1 : part->bounds[part->shards - 1];
    return size == 0 || last * size >= extent;
}

int64_t sp_part_run(const struct sp_block_part *part, int64_t extent)
{
    int64_t blocks = sp_part_blocks(part), size = extent / blocks + (extent % blocks != 0), run = 0;
    if (part->bounds == NULL)
        return size;
    for (int64_t i = 1; i < part->shards; i++)
        for (int64_t rest = part->bounds[i]; rest != 0;) {
            int64_t next = run % rest;
            run = rest;
            rest = next;
        }
    return sp_mul_i64(run, size, &run) ? run : -1;
}

bool sp_cut_equal(const struct sp_block_dim *a, const struct sp_block_dim *b)
{
    if (a->part_count != b->part_count)
        return false;
    for (uint32_t i = 0; i < a->part_count; i++) {
        int64_t x = a->parts[i].extent, y = b->parts[i].extent;
        if (a->parts[i].shards != b->parts[i].shards || (x != y && x > 0 && y > 0) ||
            !same_shares(&a->parts[i], &b->parts[i]))
            return false;
    }
    return true;
}

/* ---- the simplest form ---- */

/* Whether blocks of a part stay even: its shards divide it, or it is not known and taken to be so. */
static bool is_even(const struct sp_block_part *part)
{
    return part->extent == 0 || part->extent % sp_part_blocks(part) == 0;
}

/* Joins two neighbours that are one cut; false when they are not. */
static bool join_parts(struct sp_block_part *major, const struct sp_block_part *minor)
{
    bool is_whole = major->shards == 1 && minor->shards == 1;
    bool is_block = minor->shards == 1 && is_even(major);
    bool is_full = major->extent > 0 && major->shards == major->extent && minor->bounds == NULL && is_even(minor);
    int64_t extent = 0;
    if (!is_whole && !is_block && !is_full)
        return false;
    if (major->extent > 0 && minor->extent > 0 && !sp_mul_i64(major->extent, minor->extent, &extent))
        extent = 0;
    major->extent = extent;
    major->shards *= minor->shards;
    return true;
}

void sp_cut_simplify(struct sp_block_dim *cut)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cut->part_count; i++) {
        struct sp_block_part part = cut->parts[i];
        part.param = NULL;
        if (part.extent == 1 && part.shards == 1)
            continue;
        if (count == 0 || !join_parts(&cut->parts[count - 1], &part))
            cut->parts[count++] = part;
    }
    if (count == 1 && cut->parts[0].shards == 1)
        count = 0;
    if (count == 1)
        cut->parts[0].extent = 0;
    cut->part_count = count;
}

/* ---- an axis to its factors ---- */

struct dealer {
    struct sp_block_dim *cuts; /* with room for every part of the axis in each */
    uint32_t count, at;        /* factors; the one that is being filled */
    int64_t left;              /* of its extent, -1: not known */
    const int64_t *extents;
};

static void give(struct dealer *dealer, int64_t extent, int64_t shards, const int64_t *bounds)
{
    struct sp_block_dim *cut = &dealer->cuts[dealer->at];
    cut->parts[cut->part_count++] = (struct sp_block_part){extent < 0 ? 0 : extent, NULL, shards, bounds};
}

static void next_factor(struct dealer *dealer)
{
    if (++dealer->at < dealer->count)
        dealer->left = dealer->extents[dealer->at];
}

/* Whether the shares are the same in each of so many equal runs of a part. */
static bool repeats_shares(const struct sp_block_part *part, int64_t runs)
{
    int64_t each = part->shards / runs, blocks = sp_part_blocks(part) / runs;
    for (int64_t i = 0; part->bounds != NULL && i < part->shards; i++)
        if (part->bounds[i] != i / each * blocks + part->bounds[i % each])
            return false;
    return part->bounds == NULL || part->bounds[each] == blocks;
}

/* A part that reaches over the end of the factor: what the factor takes of it. */
static bool give_end(struct dealer *dealer, struct sp_block_part *part)
{
    int64_t left = dealer->left, blocks = sp_part_blocks(part);
    bool has_all = left % blocks == 0, has_some = blocks % left == 0 && part->shards % left == 0;
    if (!is_even(part) || (!has_all && (!has_some || !repeats_shares(part, left))))
        return false;
    if (has_all) {
        give(dealer, left, part->shards, part->bounds);
        part->shards = 1;
        part->bounds = NULL;
    } else {
        give(dealer, left, left, NULL);
        part->shards /= left;
    }
    if (part->extent > 0)
        part->extent /= left;
    next_factor(dealer);
    return true;
}

static bool deal_part(struct dealer *dealer, struct sp_block_part part)
{
    while (part.extent != 1 || part.shards != 1) {
        if (dealer->at == dealer->count)
            return part.extent == 0 && part.shards == 1;
        if (dealer->left == 1 && dealer->at + 1 < dealer->count) {
            next_factor(dealer);
        } else if (dealer->left < 0 || (part.extent == 0 && dealer->at + 1 == dealer->count)) {
            give(dealer, part.extent, part.shards, part.bounds); /* nothing says that the factor ends inside it */
            return true;
        } else if (part.extent > 0 && part.extent <= dealer->left) {
            if (dealer->left % part.extent != 0)
                return false;
            give(dealer, part.extent, part.shards, part.bounds);
            dealer->left /= part.extent;
            if (dealer->left == 1)
                next_factor(dealer);
            return true;
        } else if ((part.extent > 0 && part.extent % dealer->left != 0) || !give_end(dealer, &part)) {
            return false;
        }
    }
    return true;
}

/* The parts' extents, where they or the axis are known. */
static void fill_extents(const struct sp_block_dim *dim, int64_t extent, struct sp_block_part *parts)
{
    int64_t known = 1;
    uint32_t open = UINT32_MAX;
    for (uint32_t i = 0; i < dim->part_count; i++) {
        parts[i] = dim->parts[i];
        if (parts[i].extent <= 0)
            open = i;
        else if (!sp_mul_i64(known, parts[i].extent, &known))
            return;
    }
    if (open != UINT32_MAX && extent > 0 && extent % known == 0)
        parts[open].extent = extent / known;
}

static int64_t product(uint32_t count, const int64_t *extents)
{
    int64_t all = 1;
    for (uint32_t i = 0; i < count; i++)
        if (extents[i] == 0)
            return 0;
    for (uint32_t i = 0; i < count; i++)
        if (extents[i] < 0 || !sp_mul_i64(all, extents[i], &all))
            return -1;
    return all;
}

enum sp_status sp_cut_deal(struct sp_arena *arena, const struct sp_block_dim *dim, uint32_t count,
                           const int64_t *extents, struct sp_block_dim *ret_cuts, bool *ret_ok, struct sp_error *err)
{
    int64_t extent = product(count, extents);
    struct sp_block_part *parts = SP_NEW_ARRAY(arena, dim->part_count, struct sp_block_part);
    if (parts == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        struct sp_block_part *room = SP_NEW_ARRAY(arena, (size_t)dim->part_count + 1, struct sp_block_part);
        if (room == NULL)
            return sp_fail_memory(err);
        ret_cuts[i] = (struct sp_block_dim){0, room};
    }
    *ret_ok = true;
    fill_extents(dim, extent, parts);
    if (count == 1 || extent == 0) { /* one factor is cut as the axis is; of no elements any device has all */
        for (uint32_t i = 0; i < dim->part_count; i++)
            ret_cuts[0].parts[i] = parts[i];
        ret_cuts[0].part_count = dim->part_count;
    } else {
        struct dealer dealer = {.cuts = ret_cuts, .count = count, .left = extents[0], .extents = extents};
        for (uint32_t i = 0; i < dim->part_count && *ret_ok; i++)
            *ret_ok = deal_part(&dealer, parts[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        sp_cut_simplify(&ret_cuts[i]);
    return SP_OK;
}

/* ---- factors to an axis ---- */

enum sp_status sp_cut_join(struct sp_arena *arena, uint32_t count, const struct sp_block_dim *cuts,
                           const int64_t *extents, struct sp_block_dim *ret_dim, bool *ret_ok, struct sp_error *err)
{
    uint32_t total = 0, open = 0;
    for (uint32_t i = 0; i < count; i++)
        total += cuts[i].part_count + 1;
    struct sp_block_part *parts = SP_NEW_ARRAY(arena, total, struct sp_block_part);
    struct sp_block_dim joined = {0, parts};
    if (parts == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        int64_t extent = extents[i] < 0 ? 0 : extents[i];
        if (cuts[i].part_count == 0)
            parts[joined.part_count++] = (struct sp_block_part){extent, NULL, 1};
        for (uint32_t k = 0; k < cuts[i].part_count; k++) {
            parts[joined.part_count] = cuts[i].parts[k];
            if (cuts[i].part_count == 1)
                parts[joined.part_count].extent = extent;
            joined.part_count++;
        }
    }
    sp_cut_simplify(&joined);
    for (uint32_t i = 0; i < joined.part_count; i++)
        open += parts[i].extent <= 0;
    *ret_ok = open <= 1;
    *ret_dim = joined;
    return SP_OK;
}
