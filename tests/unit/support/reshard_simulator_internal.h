#pragma once
/*
 * reshard_simulator_internal - the memories of the virtual devices, shared by the files of the simulator.
 *
 * Glossary
 *  memory   what one device holds: the shards that a sharding gives it and one number per element, shard by shard,
 *           row-major within a shard
 *  cursor   walks over a memory in that order and knows the global index of each element
 *  group    the devices of a mesh that differ in some axes only; member k has the coordinates that k spells in mixed
 *           radix over those axes
 */
#include "reshard_simulator.h"

struct sp_sim_memory {
    int64_t device;
    struct sp_held held;
    uint64_t *first; /* shard_count + 1 entries: where each shard begins in `values` */
    int64_t *values;
};

struct sp_simulation {
    struct sp_arena *arena;
    uint32_t rank;
    const int64_t *shape;
    int64_t device_count; /* as the caller gave it */
    int64_t count;
    struct sp_sim_memory *memories; /* ascending by device */
};

/* Room for what `sharding` gives to a device; all numbers 0. */
enum sp_status sp_sim_memory_create(const struct sp_simulation *simulation, const struct sp_sharding *sharding,
                                    int64_t device, struct sp_sim_memory *ret_memory, struct sp_error *err);

/* The number at a global index, or NULL. */
int64_t *sp_sim_memory_find(const struct sp_sim_memory *memory, const int64_t *index);

/* How many numbers it has. */
static inline uint64_t sp_sim_memory_count(const struct sp_sim_memory *memory)
{
    return memory->first[memory->held.shard_count];
}

/* The memory of a device, or NULL. */
struct sp_sim_memory *sp_sim_find(const struct sp_simulation *simulation, int64_t device);

/* The devices that a sharding names or, where it names none, those of the simulation. */
enum sp_status sp_sim_devices(const struct sp_simulation *simulation, const struct sp_sharding *sharding,
                              int64_t *ret_count, const int64_t **ret_devices, struct sp_error *err);

struct sp_sim_cursor {
    const struct sp_sim_memory *memory;
    uint32_t shard;
    uint64_t at; /* index into values */
    int64_t index[SP_MAX_RANK];
    uint32_t range[SP_MAX_RANK];
};
/* Both return false when there is no (further) element. */
bool sp_sim_cursor_begin(struct sp_sim_cursor *cursor, const struct sp_sim_memory *memory);
bool sp_sim_cursor_next(struct sp_sim_cursor *cursor);

struct sp_sim_groups {
    const struct sp_mesh *mesh; /* NULL: all devices of the simulation are one group */
    const struct sp_axis_list *axes;
    int64_t size;     /* devices of a group */
    int64_t *offsets; /* of member k, from the position of member 0 */
};
enum sp_status sp_sim_groups_create(struct sp_arena *arena, const struct sp_mesh *mesh, const struct sp_axis_list *axes,
                                    struct sp_sim_groups *ret_groups, struct sp_error *err);
/* The groups along which a sharding is partial; of size 1 when it is not. */
enum sp_status sp_sim_groups_of_partial(const struct sp_simulation *simulation, const struct sp_sharding *sharding,
                                        struct sp_sim_groups *ret_groups, struct sp_error *err);
/* Which member of its group a device is, and the group's `size` memories (NULL: a device without memory) into
   `ret_memories`. False when the mesh does not have the device. */
bool sp_sim_groups_find(const struct sp_simulation *simulation, const struct sp_sim_groups *groups, int64_t device,
                        int64_t *ret_member, const struct sp_sim_memory **ret_memories);

/* Sum, maximum or minimum of two; the neutral element. */
int64_t sp_sim_combine(enum sp_combiner combiner, int64_t a, int64_t b);
int64_t sp_sim_neutral(enum sp_combiner combiner);
bool sp_sim_combiner_is_known(enum sp_combiner combiner);

/* "[1, 0, 3]" into `text`, shortened when it is too long. */
void sp_sim_write_index(uint32_t rank, const int64_t *index, size_t size, char *text);
#define SP_SIM_INDEX_TEXT 96
