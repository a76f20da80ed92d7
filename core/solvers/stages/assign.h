#pragma once
/*
 * assign - what the parts of the search over any sets of units share.
 *
 *   assign_model.c    units and links as flat arrays; the same with units joined (contraction)
 *   assign_state.c    an assignment of units to slots: loads, memory and energy, kept up to date under moves
 *   assign_join.c     which units can be joined without loss, and which are joined for a coarser view
 *   assign_anneal.c   annealing over moves, swaps, moves of connected chunks and changes of a slot's option
 *   assign_exact.c    all assignments of a small problem, or until the work is used up
 *   assign_bound.c    lower bounds for any sets
 *   assign.c          sp_stages_assign(): rounds of tasks
 *
 * A *slot* is a stage that may be empty. Slots together never need more devices of a class than there are. A slot of no
 * replicas is closed: it is empty and has no devices.
 */
#include "base/random.h"
#include "solvers/stages/internal.h"

#define SP_ASSIGN_MAX_SLOTS 1024 /* stages that a search over any sets looks at; contiguous ones may be more */

/* A unit's place in a link's list or a link's in a unit's, as lists of internal.h; all arrays are in one arena. */
struct sp_assign_model {
    const struct sp_stages_problem *problem;
    uint32_t unit_count, link_count, shared_count;
    struct sp_rows makes, takes; /* links of a unit */
    struct sp_rows users;        /* units of a link, without its producer */
    uint32_t *producer;          /* of a link */
    double *tensors, *bytes;     /* of a link, which may stand for several tensors with the same users */
    double **seconds;            /* [option][unit] */
    double **transfer;           /* [option][link] */
    double **weight, **held;     /* [option][unit], scaled */
    struct sp_rows shared;       /* of a unit: weights that others use, too */
    double *shared_bytes;        /* before the option's scale */
    uint32_t *unit_of;           /* of the finer model's unit: its unit here; NULL for the first */
    const struct sp_rows *nodes; /* of a unit, where the problem counts memory itself; else NULL */
};

/* The units of `prepared`, which are of kind FREE. */
enum sp_status sp_assign_model_create(struct sp_arena *arena, const struct sp_stages_prepared *prepared,
                                      struct sp_assign_model **ret_model, struct sp_error *err);

/* The same with the units of one number in `map` joined; links within are dropped, links of a producer with the same
   users become one. */
enum sp_status sp_assign_model_contract(struct sp_arena *arena, const struct sp_assign_model *fine, const uint32_t *map,
                                        uint32_t unit_count, struct sp_assign_model **ret_model, struct sp_error *err);

/* LATENCY: processors that cost nothing, as many as there are nodes. */
static inline bool sp_assign_is_free(const struct sp_stages_problem *problem, uint32_t option)
{
    return problem->objective == SP_STAGES_LATENCY && problem->options[option].is_free;
}

/* What a slot holds: sums of seconds and bytes under its option. */
struct sp_assign_slot {
    struct sp_stages_choice choice;
    uint32_t size, first; /* units, and the first of their list */
    double compute, receive, send;
    double weight, held;
    double load, energy;
};

struct sp_assign_state {
    const struct sp_assign_model *model;
    uint32_t slot_count;
    struct sp_assign_slot *slots;
    uint32_t *slot_of;         /* per unit */
    uint32_t *next, *previous; /* per unit: the list of its slot */
    uint32_t *users_in;        /* [link][slot] */
    uint32_t *receivers;       /* per link: slots with users */
    uint32_t *shared_in;       /* [shared weight][slot] */
    uint32_t *link_seen;       /* scratch: stamps */
    uint32_t stamp;
    uint32_t *class_used;
    double *memory_limit; /* per option */
    void *set;            /* the problem's own count of memory, or NULL; empty between looks */
    double scale;         /* loads are energy in units of 1 / scale */
    uint32_t power_log;   /* energy of a slot: (load * scale) ^ (2 ^ power_log) */
    double memory_weight;
    double energy;
    /* Where tensors go to each receiver: third slots, which the move that was looked at last makes send more or less. */
    uint32_t other_count, *others;
    bool *is_other;     /* per slot */
    double *other_send; /* per slot: by how much */
};

/* What a move changes, computed before it is made: the slots as they will be. */
struct sp_assign_move {
    uint32_t unit, from, to;
    struct sp_assign_slot source, target;
    double change; /* of the energy */
};

enum sp_status sp_assign_state_create(struct sp_arena *arena, const struct sp_assign_model *model, uint32_t slot_count,
                                      struct sp_assign_state **ret_state, struct sp_error *err);

/* Puts units into slots and computes everything anew: `choices` of the slots, `slot_of` of the units. */
void sp_assign_state_load(struct sp_assign_state *state, const struct sp_stages_choice *choices,
                          const uint32_t *slot_of);

/* Seconds of a slot between receiving and sending: of its units, or of its copies where these take longer. Not
   `is_exact`: of the least bytes that it may need, which takes no time. For LATENCY: loads and energies know none. */
double sp_assign_compute(const struct sp_assign_state *state, uint32_t slot, bool is_exact);

/* Loads and energies anew after `scale`, `power_log` or `memory_weight` changed. */
void sp_assign_state_weigh(struct sp_assign_state *state);

/* Whether a slot sends a tensor to each slot that uses it, one after the other; else once to all. */
static inline bool sp_assign_sends_to_each(const struct sp_stages_problem *problem)
{
    return problem->sends_to_each && problem->objective != SP_STAGES_LATENCY;
}

/* False where the unit cannot be there (or is). Only the move that was looked at last can be made. */
bool sp_assign_move_look(struct sp_assign_state *state, uint32_t unit, uint32_t to, struct sp_assign_move *move);
void sp_assign_move_make(struct sp_assign_state *state, const struct sp_assign_move *move);

/* Another option or number of replicas for a slot: false where devices or units do not allow it. */
bool sp_assign_change_look(struct sp_assign_state *state, uint32_t slot, struct sp_stages_choice choice,
                           struct sp_assign_slot *ret_slot);
void sp_assign_change_make(struct sp_assign_state *state, uint32_t slot, const struct sp_assign_slot *changed);

/* The largest load. */
double sp_assign_state_value(const struct sp_assign_state *state);

/* Whether every slot is within its memory. */
bool sp_assign_state_fits(struct sp_assign_state *state);

/* One run of annealing, which allocates nothing, so that several may run side by side. */
struct sp_assign_anneal {
    struct sp_assign_state *state; /* loaded; ends with whatever it held last */
    uint64_t seed;
    uint64_t steps;   /* moves that are looked at */
    double hot, cold; /* temperatures, of energies in which a slot at 1 / scale counts 1 */
    const volatile bool *stop;
    bool chooses_options; /* slots may change their option and replicas */
    /* The best that fits: `value` is read as what is to be beaten, and lists are written where that happens. */
    double value;
    bool is_better;
    uint32_t *slot_of;                /* per unit */
    struct sp_stages_choice *choices; /* per slot */
    uint64_t work;                    /* added to */
};

void sp_assign_anneal_run(struct sp_assign_anneal *anneal);

/* Unit numbers after joining those that can be together in some best solution: what takes no time where its only
   neighbour is, and saves a transfer. `*ret_count` units; nothing is joined where memory may matter. */
enum sp_status sp_assign_join_sure(struct sp_arena *arena, const struct sp_assign_model *model, uint32_t *map,
                                   uint32_t *ret_count, struct sp_error *err);

/* Unit numbers after joining pairs with large transfers between them, until about `wanted` are left or none can be
   joined without a unit of more than `most_seconds`. Returns how many there are, 0 without memory. */
uint32_t sp_assign_join_coarse(struct sp_arena *arena, const struct sp_assign_model *model, uint32_t wanted,
                               double most_seconds, uint64_t seed, uint32_t *map);

/* Slots and what is in them, over the units of one model: what the search hands from round to round. */
struct sp_assign_best {
    double value; /* INFINITY: nothing that fits is known */
    uint32_t slot_count;
    struct sp_stages_choice *choices;
    uint32_t *slot_of;
};

/* What else than the largest load an exhaustive search may look at. */
struct sp_assign_judge {
    /* The value of units that are placed (`part_of` is not UINT32_MAX), which others can only raise; INFINITY where
       they contradict each other. `seconds` of each part: what its units and the transfers that are certain take. */
    double (*value)(void *context, const uint32_t *part_of, const double *seconds);
    void *context;
    const uint32_t *order; /* in which units are placed */
    bool **allowed;        /* [option][unit] */
    uint32_t free_count;   /* parts that are there from the beginning and take any units */
    const struct sp_stages_choice *free_choices;
};

/* Goes over all assignments of a small problem; `best` is improved. `*ret_bound` is best->value where all were seen,
   else 0. Looks at no more than `limit` places of units. `judge` may be NULL. */
enum sp_status sp_assign_exact(struct sp_stages_run *run, const struct sp_assign_model *model,
                               const struct sp_assign_judge *judge, struct sp_assign_best *best, uint64_t limit,
                               double *ret_bound);

/* Raises `*ret_bound`, a bound for any sets, given that a solution of `best_value` is known (INFINITY: none), which it
   does not go above. */
enum sp_status sp_assign_bound(struct sp_stages_run *run, const struct sp_assign_model *model, double best_value,
                               double *ret_bound);

/* The most replicas that a stage can have under an option; 0 where there are not enough devices for one. */
static inline uint32_t sp_assign_most_replicas(const struct sp_stages_problem *problem,
                                               const struct sp_stages_option *option)
{
    uint32_t there = problem->class_size[option->device_class] / option->devices;
    return option->max_replicas != 0 && option->max_replicas < there ? option->max_replicas : there;
}

/* A unit that shares a link with this one, or the unit itself where there is none. */
uint32_t sp_assign_neighbour(const struct sp_assign_model *model, uint64_t *seed, uint32_t unit);
