#pragma once
/*
 * reshard_simulator - real numbers on virtual devices: a reshard carried out and compared element by element.
 *
 * Each device has its own memory: the pieces of a tensor that the sharding gives it (sp_sharding_held()), as 64-bit
 * integers, pieces of one shard row-major. A step may only use what its kind allows: an all-slice the device's own
 * memory, a collective the memories of the devices of the group (those that differ from it in the step's axes only), a
 * permute one source device, a send-receive exactly its transfers. So a wrong plan cannot look right by peeking at the
 * global value. Partial axes: the devices along them hold addends (or values whose maximum or minimum is the value),
 * chosen at random from `seed`.
 */
#include "sharding/reshard/reshard.h"

struct sp_simulation;

/* The tensor `values` (row-major, product of shape) laid out by `sharding` on its devices. */
enum sp_status sp_simulation_create(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                    const int64_t *shape, int64_t device_count, const int64_t *values, uint64_t seed,
                                    struct sp_simulation **ret_simulation, struct sp_error *err);

/* Carries out one step. SP_ERR_INTERNAL "SIMULATION_..." when the step uses what it may not or leaves something
 * undefined. */
enum sp_status sp_simulation_step(struct sp_simulation *simulation, const struct sp_reshard_step *step,
                                  struct sp_error *err);

/* SP_ERR_INTERNAL "SIMULATION_DIFFERS", with device, index and both numbers, unless every device holds what `sharding`
   says it holds of `values`; partial axes are combined first. */
enum sp_status sp_simulation_compare(const struct sp_simulation *simulation, const struct sp_sharding *sharding,
                                     const int64_t *values, struct sp_error *err);

/* What one device holds now, concatenated in order of its shards; valid until the next step. */
enum sp_status sp_simulation_local(const struct sp_simulation *simulation, int64_t device, uint64_t *ret_count,
                                   const int64_t **ret_values, struct sp_error *err);
