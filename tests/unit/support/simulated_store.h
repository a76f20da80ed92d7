#pragma once
/*
 * simulated_store - a store in memory, written for simulations beside the real ones: what several daemons see of one
 * database, by store.h. Each call is one step of the simulation, and may fail: before it does anything, or after.
 *
 * All daemons see one simulated_world. Times are the simulation's.
 */
#include "store/internal.h"

#define SIM_ROWS    2 /* tenants, each with a row of the one model, or none */
#define SIM_PLANS   4
#define SIM_NUMBERS 64
#define SIM_DAEMONS 3 /* the last one comes when the others are gone */

struct simulated_plan {
    bool is_there;
    enum plan_state state;
    bool has_result, given; /* given: to a claimant that knows */
    int owner;
    int64_t attempts, crashes, lease_until, finished_at;
    int ends; /* how often it ended, by what the store answered or did itself */
};

struct simulated_world {
    int64_t now_ms;
    int64_t number; /* the last one that was given */
    struct {
        int64_t number;
        int owner;
    } reservations[SIM_NUMBERS];
    struct {
        bool is_there, told;
        int64_t blob, inspection;
    } rows[SIM_ROWS];
    struct simulated_plan plans[SIM_PLANS];
    int64_t beat_at[SIM_DAEMONS];

    /* What becomes of a call of this daemon: before it (the daemon may sleep in there), and after it was done. */
    bool (*before)(void *context, int daemon); /* false: the store is away */
    bool (*after)(void *context, int daemon);  /* false: the answer is lost */
    void *context;
};

extern const char sim_model[65]; /* of a model whose bytes are "x" */

/* The store as this daemon has it; store_close() frees it. NULL without memory. */
struct store *simulated_store(struct simulated_world *world, int daemon);
void simulated_plan_id(int plan, char ret_id[STORE_ID_SIZE]);
