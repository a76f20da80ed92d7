#pragma once
/*
 * model_choice - the whole model on blocks of one option: every operator's strategy, and what it takes and holds then.
 *
 * Strategies are chosen for all nodes together, under the memory that so many blocks have together: what a stage's
 * operators will be like is known before it is known where stages end.
 */
#include "cost/stage_set.h"
#include "search/constraints.h"
#include "search/strategy/intra.h"

/* What stages need under a choice, as far as somebody has counted it (stage_memory.h). */
struct sp_known_bytes;
struct sp_known_list {
    struct sp_arena *arena; /* of the choice */
    bool is_shared;         /* the choice is a store's (store.h) */
    struct sp_known_bytes *first;
};

struct sp_model_choice {
    const struct sp_space_option *option;
    struct sp_strategy_table *table; /* NULL: one device, no operator is split */
    uint32_t *strategy_of;           /* per work node */
    double *seconds;                 /* per work node: on one device, with the collectives before and in it */
    struct sp_stage_block bytes;     /* of tensors as their producers make them, or their first users have them; whole
                                        numbers where operators are split */
    struct sp_known_list *known;     /* NULL: bytes are no whole numbers, and nothing is kept */
    bool is_free;                    /* strategies were chosen under no limit of memory */
    bool *unable;                    /* per work node: the constraints leave it no strategy here; NULL: none such */
    double total_seconds, total_weight_bytes, peak_bytes;
    double sent_share; /* of the bytes of activations, how much one device has on average: what a border costs */
};

struct sp_profile_request {
    const struct sp_workload *workload;
    const struct sp_space_option *option;
    struct sp_strategy_table *table;          /* of the option's mesh; NULL for blocks of one device */
    const struct sp_blocks *blocks;           /* or NULL */
    bool is_plain;                            /* sp_intra_solve() */
    double memory_limit;                      /* for all nodes together, of one device; INFINITY: none */
    uint64_t seed, choice_work;               /* of choosing: choice.h */
    const struct sp_constraints *constraints; /* or NULL */
    const struct sp_executor *executor;
    const struct sp_watch *watch;
    bool gathers;  /* ways that gather a weight are looked at, too */
    bool gives_up; /* there is a plan already: once the watch says no, this is not worth its time */
};

/* In `arena`. *ret_profile is NULL where no choice is within the limit, or it gave up. */
enum sp_status sp_profile_create(struct sp_arena *arena, const struct sp_profile_request *request,
                                 struct sp_model_choice **ret_profile, struct sp_error *err);
