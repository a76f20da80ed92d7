#include "search/joint/shared/stage_memory.h"

#include <stdatomic.h>

#define EXACT 2251799813685248.0 /* 2^51: whole numbers below it add up exactly, also twice */

struct sp_known_bytes {
    const struct sp_units *units;
    struct sp_known_bytes *next;
    _Atomic double *bytes; /* of units first .. last - 1 at last * (last - 1) / 2 + first; 0: not known */
};

struct memory {
    const struct sp_stage_parts *parts;
    uint32_t unit_count, profile_count;
    const struct sp_known_bytes **known; /* per profile; NULL: none are kept */
};

/* The units that are in, and the last set that was counted. */
struct set {
    const struct memory *memory;
    struct sp_stage_set *counted;
    bool *is_in, *is_counted, *is_changed; /* per unit */
    uint32_t changed_count, *changed;      /* units that may be in only one of both */
    uint32_t count;                        /* units that are in, the sum of their numbers and of the squares of these */
    uint64_t sum, squares;
};

static void *create_set(const void *context, struct sp_arena *arena)
{
    const struct memory *memory = context;
    struct set *set = SP_NEW(arena, struct set);
    if (set == NULL)
        return NULL;
    set->memory = memory;
    set->counted = sp_stage_set_create(arena, memory->parts);
    set->is_in = SP_NEW_ARRAY(arena, memory->unit_count, bool);
    set->is_counted = SP_NEW_ARRAY(arena, memory->unit_count, bool);
    set->is_changed = SP_NEW_ARRAY(arena, memory->unit_count, bool);
    set->changed = SP_NEW_ARRAY(arena, memory->unit_count, uint32_t);
    return set->counted == NULL || set->is_in == NULL || set->is_counted == NULL || set->is_changed == NULL ||
                   set->changed == NULL
               ? NULL
               : set;
}

static void note_change(struct set *set, uint32_t unit)
{
    if (set->is_changed[unit])
        return;
    set->is_changed[unit] = true;
    set->changed[set->changed_count++] = unit;
}

static void put_unit(void *pointer, uint32_t unit)
{
    struct set *set = pointer;
    set->is_in[unit] = true;
    set->count++;
    set->sum += unit;
    set->squares += (uint64_t)unit * unit;
    note_change(set, unit);
}

static void take_unit(void *pointer, uint32_t unit)
{
    struct set *set = pointer;
    set->is_in[unit] = false;
    set->count--;
    set->sum -= unit;
    set->squares -= (uint64_t)unit * unit;
    note_change(set, unit);
}

/* Whether the units that are in follow one another: of all sets of so many numbers with that sum, neighbours alone have
   the least squares. */
static bool are_neighbours(const struct set *set, uint32_t *ret_first)
{
    const uint64_t count = set->count, steps = count * (count - 1) / 2;
    if (count == 0 || set->sum < steps || (set->sum - steps) % count != 0)
        return false;
    const uint64_t first = (set->sum - steps) / count;
    *ret_first = (uint32_t)first;
    return set->squares == count * first * first + 2 * first * steps + steps * (2 * count - 1) / 3;
}

static void count_changes(struct set *set)
{
    for (uint32_t i = 0; i < set->changed_count; i++) {
        const uint32_t unit = set->changed[i];
        set->is_changed[unit] = false;
        if (set->is_in[unit] && !set->is_counted[unit])
            sp_stage_set_put(set->counted, unit);
        else if (!set->is_in[unit] && set->is_counted[unit])
            sp_stage_set_take(set->counted, unit);
        set->is_counted[unit] = set->is_in[unit];
    }
    set->changed_count = 0;
}

static double bytes_of_set(void *pointer, uint32_t profile)
{
    struct set *set = pointer;
    const struct memory *memory = set->memory;
    uint32_t first;
    if (!are_neighbours(set, &first)) {
        count_changes(set);
        return sp_stage_set_bytes(set->counted, profile);
    }
    const size_t last = (size_t)first + set->count, place = last * (last - 1) / 2 + first;
    if (memory->known[profile] != NULL) {
        const double known = atomic_load_explicit(&memory->known[profile]->bytes[place], memory_order_relaxed);
        if (known > 0)
            return known;
    }
    count_changes(set);
    for (uint32_t i = 0; i < memory->profile_count; i++)
        if (memory->known[i] != NULL)
            atomic_store_explicit(&memory->known[i]->bytes[place], sp_stage_set_bytes(set->counted, i),
                                  memory_order_relaxed);
    return sp_stage_set_bytes(set->counted, profile);
}

static double copied_of_set(void *pointer, uint32_t profile, double lacking)
{
    struct set *set = pointer;
    count_changes(set);
    return sp_stage_set_streamed(set->counted, profile, lacking);
}

/* Where the profile's bytes of these units are kept, in *ret_known; NULL where they are not, or no more fit. */
static bool find_known(struct sp_joint *joint, const struct sp_model_choice *profile,
                       const struct sp_stage_parts *parts, uint32_t index, const struct sp_known_bytes **ret_known)
{
    const struct sp_units *units = joint->units;
    const size_t places = (size_t)units->count * (units->count + 1) / 2, bytes = places * sizeof(double);
    if (profile->known == NULL || (profile->known->is_shared && !units->is_shared) ||
        sp_stage_parts_maximum(parts, index) > EXACT)
        return true;
    struct sp_known_bytes *known = profile->known->first;
    while (known != NULL && known->units != units)
        known = known->next;
    if (known == NULL && bytes <= SP_KNOWN_BYTES - joint->known_bytes) {
        struct sp_arena *arena = profile->known->arena;
        known = SP_NEW(arena, struct sp_known_bytes);
        if (known == NULL || (known->bytes = SP_NEW_ARRAY(arena, places, _Atomic double)) == NULL)
            return false;
        known->units = units;
        known->next = profile->known->first;
        profile->known->first = known;
        joint->known_bytes += bytes;
    }
    *ret_known = known;
    return true;
}

const struct sp_stages_memory *sp_joint_stage_memory(struct sp_joint *joint, const struct sp_proposal *proposal,
                                                     const struct sp_stage_parts *parts)
{
    struct sp_stages_memory *stages = SP_NEW(joint->arena, struct sp_stages_memory);
    struct memory *memory = SP_NEW(joint->arena, struct memory);
    if (stages == NULL || memory == NULL)
        return NULL;
    *memory = (struct memory){
        .parts = parts,
        .unit_count = joint->units->count,
        .profile_count = proposal->profile_count,
        .known = SP_NEW_ARRAY(joint->arena, proposal->profile_count, const struct sp_known_bytes *),
    };
    if (memory->known == NULL)
        return NULL;
    for (uint32_t i = 0; i < proposal->profile_count; i++)
        if (!find_known(joint, proposal->profiles[i], parts, i, &memory->known[i]))
            return NULL;
    *stages = (struct sp_stages_memory){memory, create_set, put_unit, take_unit, bytes_of_set, copied_of_set};
    return stages;
}
