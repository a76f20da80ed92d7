#include <string.h>

#include "base/array.h"
#include "base/hash_map.h"
#include "solvers/stages/chain.h"

/*
 * All ideals, by number of units: each one is extended by each unit whose predecessors it has. Bit i of an ideal is
 * the unit at place i of the order.
 */

struct ideal {
    uint64_t digest;               /* of its units' keys */
    uint32_t parent, via;          /* the ideal that it was first made from, and the unit's place */
    uint32_t first_step, end_step; /* its steps up */
};

struct step {
    uint32_t place, target;
};

struct build {
    struct sp_stages_run *run;
    const struct sp_stages_prepared *prepared;
    struct sp_arena *arena, *temporary;
    uint32_t words;
    uint64_t limit;
    SP_ARRAY(struct ideal) ideals;
    SP_ARRAY(struct step) steps;
    SP_ARRAY(uint64_t) bits;   /* `words` of each ideal */
    struct sp_hash_map number; /* by digest: ideal + 1 */
    uint64_t *key;             /* per place */
};

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static bool has(const uint64_t *bits, uint32_t place)
{
    return (bits[place / 64] >> (place % 64)) & 1;
}

static bool is_extended(const uint64_t *bits, const uint64_t *from, uint32_t words, uint32_t place)
{
    for (uint32_t i = 0; i < words; i++)
        if (bits[i] != (from[i] | (i == place / 64 ? UINT64_C(1) << (place % 64) : 0)))
            return false;
    return true;
}

static const uint64_t *bits_of(const struct build *build, uint32_t ideal)
{
    return build->bits.items + (size_t)ideal * build->words;
}

/* An ideal without units yet. False without memory. */
static bool add_ideal(struct build *build, const struct ideal *ideal)
{
    if (!SP_MAKE_ROOM(build->temporary, build->bits.items, build->bits.count, build->bits.capacity, build->words) ||
        !SP_PUSH(build->temporary, &build->ideals, *ideal))
        return false;
    build->bits.count += build->words;
    return sp_hash_set_add(&build->number, ideal->digest, (void *)(uintptr_t)build->ideals.count);
}

/* The ideal `from` with one unit more; made where it is new. UINT32_MAX without memory. */
static uint32_t extend(struct build *build, uint32_t from, uint32_t place)
{
    const struct ideal new = {
        .digest = build->ideals.items[from].digest ^ build->key[place], .parent = from, .via = place};
    const struct sp_hash_slot *slot;
    for (uint32_t at = sp_hash_home(&build->number, new.digest);
         (slot = sp_hash_next(&build->number, new.digest, &at)) != NULL;) {
        if (is_extended(bits_of(build, (uint32_t)slot->number - 1), bits_of(build, from), build->words, place))
            return (uint32_t)slot->number - 1;
    }
    const uint32_t ideal = build->ideals.count;
    if (!add_ideal(build, &new))
        return UINT32_MAX;
    uint64_t *bits = build->bits.items + (size_t)ideal * build->words;
    memcpy(bits, bits_of(build, from), build->words * sizeof *bits);
    bits[place / 64] |= UINT64_C(1) << (place % 64);
    return ideal;
}

static bool add_step(struct build *build, uint32_t ideal, uint32_t place)
{
    const uint32_t target = extend(build, ideal, place);
    return target != UINT32_MAX && SP_PUSH(build->temporary, &build->steps, (struct step){place, target});
}

/* Whether the unit at `place` may be added: all predecessors are there. */
static bool is_ready(const struct build *build, const uint64_t *bits, uint32_t unit)
{
    const struct sp_stages_prepared *prepared = build->prepared;
    for (uint32_t i = prepared->before.start[unit]; i < prepared->before.start[unit + 1]; i++)
        if (!has(bits, prepared->place[prepared->before.items[i]]))
            return false;
    return true;
}

/* The steps up from an ideal: those of the one it was made from, but the unit that it has more, and what that frees. */
static bool steps_up(struct build *build, uint32_t ideal)
{
    const struct sp_stages_prepared *prepared = build->prepared;
    build->ideals.items[ideal].first_step = build->steps.count;
    if (ideal == 0) {
        for (uint32_t place = 0; place < prepared->unit_count; place++) {
            uint32_t unit = prepared->order[place];
            if (prepared->before.start[unit] == prepared->before.start[unit + 1] && !add_step(build, 0, place))
                return false;
        }
        return true;
    }
    const uint32_t via = build->ideals.items[ideal].via, parent = build->ideals.items[ideal].parent;
    const uint32_t first = build->ideals.items[parent].first_step, end = build->ideals.items[parent].end_step;
    for (uint32_t i = first; i < end; i++) {
        const uint32_t place = build->steps.items[i].place;
        if (place != via && !add_step(build, ideal, place))
            return false;
    }
    uint32_t unit = prepared->order[via];
    for (uint32_t i = prepared->after.start[unit]; i < prepared->after.start[unit + 1]; i++) {
        uint32_t next = prepared->after.items[i];
        if (is_ready(build, bits_of(build, ideal), next) && !add_step(build, ideal, prepared->place[next]))
            return false;
    }
    return true;
}

/* The steps of one ideal are few. */
static void sort_steps(struct sp_stages_lattice *lattice, uint32_t first, uint32_t end)
{
    for (uint32_t i = first + 1; i < end; i++) {
        uint32_t block = lattice->block[i], target = lattice->target[i], at = i;
        for (; at > first && lattice->block[at - 1] < block; at--) {
            lattice->block[at] = lattice->block[at - 1];
            lattice->target[at] = lattice->target[at - 1];
        }
        lattice->block[at] = block;
        lattice->target[at] = target;
    }
}

/* Turns steps up into steps down, each ideal's by place, the last first. */
static bool turn_steps(struct build *build, struct sp_stages_lattice *lattice)
{
    const uint32_t count = build->ideals.count;
    lattice->start = SP_NEW_ARRAY(build->arena, (size_t)count + 2, uint32_t);
    lattice->block = SP_NEW_ARRAY(build->arena, build->steps.count, uint32_t);
    lattice->target = SP_NEW_ARRAY(build->arena, build->steps.count, uint32_t);
    if (lattice->start == NULL || lattice->block == NULL || lattice->target == NULL)
        return false;
    for (uint32_t i = 0; i < build->steps.count; i++)
        lattice->start[build->steps.items[i].target + 2]++;
    for (size_t i = 2; i < (size_t)count + 2; i++)
        lattice->start[i] += lattice->start[i - 1];
    for (uint32_t from = 0; from < count; from++)
        for (uint32_t i = build->ideals.items[from].first_step; i < build->ideals.items[from].end_step; i++) {
            const struct step *step = &build->steps.items[i];
            const uint32_t at = lattice->start[step->target + 1]++;
            lattice->block[at] = step->place;
            lattice->target[at] = from;
        }
    for (uint32_t ideal = 0; ideal < count; ideal++)
        sort_steps(lattice, lattice->start[ideal], lattice->start[ideal + 1]);
    return true;
}

static bool finish(struct build *build, struct sp_stages_lattice **ret_lattice)
{
    const struct sp_stages_prepared *prepared = build->prepared;
    struct sp_stages_lattice *lattice = SP_NEW(build->arena, struct sp_stages_lattice);
    uint32_t *start = SP_NEW_ARRAY(build->arena, (size_t)prepared->unit_count + 1, uint32_t);
    if (lattice == NULL || start == NULL || !turn_steps(build, lattice))
        return false;
    for (uint32_t i = 0; i <= prepared->unit_count; i++)
        start[i] = i;
    lattice->count = build->ideals.count;
    lattice->block_count = prepared->unit_count;
    lattice->first = start;
    lattice->units = prepared->order;
    lattice->words = build->words;
    lattice->bits = SP_NEW_ARRAY(build->arena, build->bits.count, uint64_t);
    if (lattice->bits == NULL)
        return false;
    memcpy(lattice->bits, build->bits.items, build->bits.count * sizeof *build->bits.items);
    *ret_lattice = lattice;
    return true;
}

/* One ideal's bytes while all are made: its bits twice where an array grows, and its steps. */
static bool is_too_large(const struct build *build)
{
    size_t bytes = (size_t)build->words * 16 + 64;
    return build->ideals.count > build->limit || build->ideals.count > SP_STAGES_IDEAL_BYTES / bytes ||
           build->steps.count > SP_STAGES_IDEAL_BYTES / 32;
}

enum sp_status sp_stages_ideals(struct sp_stages_run *run, struct sp_arena *arena,
                                const struct sp_stages_prepared *prepared, uint64_t limit,
                                struct sp_stages_lattice **ret_lattice)
{
    struct build build = {.run = run, .prepared = prepared, .arena = arena, .limit = limit};
    enum sp_status status = SP_OK;
    uint32_t units = prepared->unit_count;
    build.words = units / 64 + 1;
    *ret_lattice = NULL;
    if (units >= limit || units >= SP_STAGES_IDEAL_BYTES / ((size_t)build.words * 16 + 64))
        return SP_OK; /* there is an ideal of each size */
    build.temporary = sp_arena_create(sp_arena_budget(arena));
    if (build.temporary == NULL)
        return sp_fail_memory(run->err);
    build.number.arena = build.temporary;
    build.key = SP_NEW_ARRAY(build.temporary, units, uint64_t);
    bool is_made = build.key != NULL && add_ideal(&build, &(struct ideal){0});
    for (uint32_t i = 0; is_made && i < units; i++)
        build.key[i] = mix((i + 1) * UINT64_C(0x9E3779B97F4A7C15));
    bool is_whole = is_made;
    for (uint32_t i = 0; is_made && is_whole && i < build.ideals.count; i++) {
        is_made = steps_up(&build, i);
        struct ideal *ideal = &build.ideals.items[i];
        ideal->end_step = build.steps.count;
        is_whole = !is_too_large(&build) && sp_stages_spend(run, build.words + ideal->end_step - ideal->first_step);
    }
    if (is_made && is_whole)
        is_made = finish(&build, ret_lattice);
    if (!is_made)
        status = sp_fail_memory(run->err);
    sp_arena_destroy(build.temporary);
    return status;
}
