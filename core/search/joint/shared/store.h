#pragma once
/*
 * store - what several searches of one workload have in common, found once.
 *
 * Searches of one workload are many: on fleets of 1, 2, 4, .. devices of one type, on a cluster with one thing changed,
 * with ever more memory until something fits. A block of four devices is the same in all of them as long as its links
 * are: so are the strategies of operators on its mesh, and those that are the best for the whole model without a limit
 * of memory, with all that follows from these alone.
 *
 *     blocks     of the workload
 *     tables     of strategies, by mesh (strategy.h)
 *     profiles   without limits, by mesh (model_choice.h), with what neighbouring units need under them (stage_memory.h)
 *     units      that stages are cut from, by the profile that says what is long
 *
 * Invariants
 *  - What a search takes from a store is bit for bit what it would find itself. So searches give the same plans with
 *    any store, or with none but their own.
 *  - Searches under constraints, and blocks of unequal devices, have profiles of their own.
 *  - What a watch cut short is not kept.
 *  - One search at a time uses a store. It lives at least as long as their results, and the devices of their clusters.
 */
#include "search/joint/cut_units.h"
#include "search/joint/model_choice.h"

struct sp_search_store;

/* An empty one, of searches of this workload and dataflow (NULL: a graph of costs). What it keeps counts against
   `budget` (may be NULL), which has to live as long. NULL without memory. */
struct sp_search_store *sp_search_store_create(struct sp_budget *budget, const struct sp_workload *workload,
                                               const struct sp_dataflow *dataflow);
void sp_search_store_destroy(struct sp_search_store *store); /* NULL is allowed */

/* Whether it is of searches of this workload. */
bool sp_search_store_is_of(const struct sp_search_store *store, const struct sp_workload *workload,
                           const struct sp_dataflow *dataflow);

enum sp_status sp_search_store_blocks(struct sp_search_store *store, const struct sp_blocks **ret_blocks,
                                      struct sp_error *err);

/* The table of a mesh of equal devices. */
enum sp_status sp_search_store_table(struct sp_search_store *store, const struct sp_strategy_mesh *mesh,
                                     const struct sp_watch *watch, struct sp_strategy_table **ret_table,
                                     struct sp_error *err);

/* sp_profile_create() for a request without constraints or a limit of memory, whose table is of this store. In `arena`
   is what depends on the option alone. */
enum sp_status sp_search_store_profile(struct sp_search_store *store, struct sp_arena *arena,
                                       const struct sp_profile_request *request, struct sp_model_choice **ret_profile,
                                       struct sp_error *err);

/* sp_units_create() by the seconds of a profile, with at most SP_UNITS_NODES nodes and SP_UNITS_FEWER; *ret_units is
   NULL where the profile is none of this store's. */
enum sp_status sp_search_store_units(struct sp_search_store *store, const struct sp_model_choice *choice,
                                     struct sp_units *const **ret_units, struct sp_error *err);
