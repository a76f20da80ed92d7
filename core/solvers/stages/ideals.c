#include <string.h>

#include "solvers/stages/chain.h"

/*
 * All ideals, by number of units: each one is extended by each unit whose predecessors it has. Bit i of an ideal is
 * the unit at place i of the order.
 */

struct build {
    struct sp_stages_run *run;
    const struct sp_stages_prepared *prepared;
    struct sp_arena *arena, *temporary;
    uint32_t words, count, room, step_room;
    size_t step_count;
    uint64_t limit;
    uint64_t *bits;           /* room x words */
    uint64_t *hash;           /* per ideal: of its units' keys */
    uint32_t *parent, *via;   /* the ideal that it was first made from, and the unit's place */
    uint32_t *up;             /* per ideal: where its steps up begin */
    uint32_t *place, *target; /* of a step up */
    uint32_t *table;          /* ideal + 1 by hash; its size is a power of 2 */
    uint32_t table_size;
    uint64_t *key; /* per place */
};

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A larger copy of an array of `count` items, or NULL. */
static void *grown(struct sp_arena *arena, const void *array, size_t count, size_t room, size_t size)
{
    void *larger = sp_arena_array(arena, room, size);
    if (larger != NULL && count > 0)
        memcpy(larger, array, count * size);
    return larger;
}

#define GROW(build, array, count, room, size)                                                                          \
    (((array) = grown((build)->temporary, (array), (count), (room), (size))) != NULL)

static bool has(const uint64_t *bits, uint32_t place)
{
    return (bits[place / 64] >> (place % 64)) & 1;
}

static bool more_ideals(struct build *build)
{
    uint32_t room = build->room == 0 ? 1024 : 2 * build->room, size = 4 * room;
    if (!GROW(build, build->bits, (size_t)build->count * build->words, (size_t)room * build->words, sizeof(uint64_t)) ||
        !GROW(build, build->hash, build->count, room, sizeof(uint64_t)) ||
        !GROW(build, build->parent, build->count, room, sizeof(uint32_t)) ||
        !GROW(build, build->via, build->count, room, sizeof(uint32_t)) ||
        !GROW(build, build->up, build->room == 0 ? 0 : build->room + 1, (size_t)room + 1, sizeof(uint32_t)) ||
        !GROW(build, build->table, 0, size, sizeof(uint32_t)))
        return false;
    build->room = room;
    build->table_size = size;
    for (uint32_t i = 0; i < build->count; i++) {
        uint32_t slot = (uint32_t)mix(build->hash[i]) & (size - 1);
        while (build->table[slot] != 0)
            slot = (slot + 1) & (size - 1);
        build->table[slot] = i + 1;
    }
    return true;
}

static bool is_extended(const uint64_t *bits, const uint64_t *from, uint32_t words, uint32_t place)
{
    for (uint32_t i = 0; i < words; i++)
        if (bits[i] != (from[i] | (i == place / 64 ? UINT64_C(1) << (place % 64) : 0)))
            return false;
    return true;
}

/* The ideal `from` with one unit more; made where it is new. UINT32_MAX without memory. */
static uint32_t extend(struct build *build, uint32_t from, uint32_t place)
{
    uint64_t hash = build->hash[from] ^ build->key[place];
    uint32_t slot = (uint32_t)mix(hash) & (build->table_size - 1);
    for (; build->table[slot] != 0; slot = (slot + 1) & (build->table_size - 1)) {
        uint32_t other = build->table[slot] - 1;
        if (build->hash[other] == hash && is_extended(build->bits + (size_t)other * build->words,
                                                      build->bits + (size_t)from * build->words, build->words, place))
            return other;
    }
    uint32_t ideal = build->count;
    if (ideal == build->room) {
        if (!more_ideals(build))
            return UINT32_MAX;
        slot = (uint32_t)mix(hash) & (build->table_size - 1);
        while (build->table[slot] != 0)
            slot = (slot + 1) & (build->table_size - 1);
    }
    uint64_t *bits = build->bits + (size_t)ideal * build->words;
    memcpy(bits, build->bits + (size_t)from * build->words, build->words * sizeof *bits);
    bits[place / 64] |= UINT64_C(1) << (place % 64);
    build->hash[ideal] = hash;
    build->parent[ideal] = from;
    build->via[ideal] = place;
    build->table[slot] = ideal + 1;
    build->count++;
    return ideal;
}

static bool step(struct build *build, uint32_t ideal, uint32_t place)
{
    if (build->step_count == build->step_room) {
        uint32_t room = build->step_room == 0 ? 4096 : 2 * build->step_room;
        if (room < build->step_room || !GROW(build, build->place, build->step_count, room, sizeof(uint32_t)) ||
            !GROW(build, build->target, build->step_count, room, sizeof(uint32_t)))
            return false;
        build->step_room = room;
    }
    uint32_t target = extend(build, ideal, place);
    build->place[build->step_count] = place;
    build->target[build->step_count++] = target;
    return target != UINT32_MAX;
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
    build->up[ideal] = (uint32_t)build->step_count;
    if (ideal == 0) {
        for (uint32_t place = 0; place < prepared->unit_count; place++) {
            uint32_t unit = prepared->order[place];
            if (prepared->before.start[unit] == prepared->before.start[unit + 1] && !step(build, 0, place))
                return false;
        }
        return true;
    }
    uint32_t parent = build->parent[ideal], via = build->via[ideal];
    for (uint32_t i = build->up[parent]; i < build->up[parent + 1]; i++)
        if (build->place[i] != via && !step(build, ideal, build->place[i]))
            return false;
    uint32_t unit = prepared->order[via];
    for (uint32_t i = prepared->after.start[unit]; i < prepared->after.start[unit + 1]; i++) {
        uint32_t next = prepared->after.items[i];
        if (is_ready(build, build->bits + (size_t)ideal * build->words, next) &&
            !step(build, ideal, prepared->place[next]))
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
    uint32_t count = build->count;
    lattice->start = SP_NEW_ARRAY(build->arena, (size_t)count + 2, uint32_t);
    lattice->block = SP_NEW_ARRAY(build->arena, build->step_count, uint32_t);
    lattice->target = SP_NEW_ARRAY(build->arena, build->step_count, uint32_t);
    if (lattice->start == NULL || lattice->block == NULL || lattice->target == NULL)
        return false;
    for (size_t i = 0; i < build->step_count; i++)
        lattice->start[build->target[i] + 2]++;
    for (size_t i = 2; i < (size_t)count + 2; i++)
        lattice->start[i] += lattice->start[i - 1];
    for (uint32_t from = 0; from < count; from++)
        for (uint32_t i = build->up[from]; i < build->up[from + 1]; i++) {
            uint32_t at = lattice->start[build->target[i] + 1]++;
            lattice->block[at] = build->place[i];
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
    lattice->count = build->count;
    lattice->block_count = prepared->unit_count;
    lattice->first = start;
    lattice->units = prepared->order;
    lattice->words = build->words;
    lattice->bits = SP_NEW_ARRAY(build->arena, (size_t)build->count * build->words, uint64_t);
    if (lattice->bits == NULL)
        return false;
    memcpy(lattice->bits, build->bits, (size_t)build->count * build->words * sizeof *build->bits);
    *ret_lattice = lattice;
    return true;
}

/* One ideal's bytes while all are made: its bits twice where an array grows, and its steps. */
static bool is_too_large(const struct build *build)
{
    size_t bytes = (size_t)build->words * 16 + 64;
    return build->count > build->limit || build->count > SP_STAGES_IDEAL_BYTES / bytes ||
           build->step_count > SP_STAGES_IDEAL_BYTES / 32;
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
    build.key = SP_NEW_ARRAY(build.temporary, units, uint64_t);
    bool is_made = build.key != NULL && more_ideals(&build);
    for (uint32_t i = 0; is_made && i < units; i++)
        build.key[i] = mix((i + 1) * UINT64_C(0x9E3779B97F4A7C15));
    if (is_made) {
        build.table[(uint32_t)mix(0) & (build.table_size - 1)] = 1;
        build.count = 1;
    }
    bool is_whole = is_made;
    for (uint32_t i = 0; is_made && is_whole && i < build.count; i++) {
        is_made = steps_up(&build, i);
        build.up[i + 1] = (uint32_t)build.step_count;
        is_whole = !is_too_large(&build) && sp_stages_spend(run, build.words + build.step_count - build.up[i]);
    }
    if (is_made && is_whole)
        is_made = finish(&build, ret_lattice);
    if (!is_made)
        status = sp_fail_memory(run->err);
    sp_arena_destroy(build.temporary);
    return status;
}
