#pragma once
/* lists - lists of numbers made of pairs, for graphs. */
#include "solvers/stages/internal.h"

/* Pairs in the order in which they come. */
struct sp_stages_pairs {
    uint32_t *key, *value;
    size_t count, room;
};

bool sp_stages_pairs_init(struct sp_arena *arena, struct sp_stages_pairs *pairs, size_t room);

static inline void sp_stages_pairs_add(struct sp_stages_pairs *pairs, uint32_t key, uint32_t value)
{
    pairs->key[pairs->count] = key;
    pairs->value[pairs->count++] = value;
}

/* For each key below `keys` its values (below `values`), ascending and distinct. False without memory. */
bool sp_stages_lists_make(struct sp_arena *arena, const struct sp_stages_pairs *pairs, uint32_t keys, uint32_t values,
                          struct sp_rows *ret_lists);

/* The lists the other way round: for each value the keys that have it, ascending. */
bool sp_stages_lists_turn(struct sp_arena *arena, const struct sp_rows *lists, uint32_t keys, uint32_t values,
                          struct sp_rows *ret_lists);

/* Joins units that take nothing and touch one other unit only to that one (join.c): unit_of, per node, is numbered
   anew, with gaps. False without memory. */
bool sp_stages_join_idle(struct sp_arena *scratch, const struct sp_stages_problem *problem, uint32_t units,
                         uint32_t *unit_of);
