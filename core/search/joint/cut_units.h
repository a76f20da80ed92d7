#pragma once
/*
 * cut_units - what stages are cut from: single nodes, or in large models stretches of the workload's order that end
 * where little crosses.
 *
 * Units of stretches are chained (unit i goes before unit i + 1), so that a search over them is one over a line, exact
 * and quick. Borders are moved by single nodes afterwards.
 */
#include "cost/workload.h"

#define SP_UNITS_NODES 320 /* models of so many nodes that run, or fewer, have a unit for each */
#define SP_UNITS_FEWER 192 /* the same where operators may be split, which takes longer */
#define SP_UNITS_MOST  512 /* stretches, at most */

struct sp_units {
    uint32_t count;
    bool is_chain, is_shared; /* is_shared: a store's (store.h) */
    uint32_t *of;             /* work node -> unit; SP_NO_WORK for folded ones */
    uint32_t *first;          /* chain: unit u has live nodes order[first[u]] .. order[first[u + 1] - 1] */
    uint32_t live_count;
    uint32_t front_count; /* of these, those of the first phase, which units are made of: a node of another phase is in
                             the unit in which it is in the first one */
    uint32_t *order;      /* live nodes, ascending */
};

/* Whether a border between the maker of a tensor and a node that uses it would cut a kernel, on devices of some kind. */
bool sp_units_join(const struct sp_workload *workload, uint32_t tensor, uint32_t user);

/* `seconds` per work node says what is long: stretches are about equally long. `most_nodes` is one of the above. */
enum sp_status sp_units_create(struct sp_arena *arena, const struct sp_workload *workload, const double *seconds,
                               uint32_t most_nodes, struct sp_units **ret_units, struct sp_error *err);
