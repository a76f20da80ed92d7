#pragma once
/* communication_internal - what the files communication*.c share. */
#include "infer/view/view.h"
#include "sharding/reshard/reshard.h"

/* A reshard of a tensor, worked out. */
struct sp_known_way {
    bool is_found; /* of a partial result: there is one on a mesh */
    bool is_equal; /* of a partial result: after the reduction, it is what is stated */
    const char *steps;
    int64_t group_size;
    double bytes, total_bytes; /* with the extents that were assumed, where some are not known */
};

struct sp_communicator {
    const struct sp_assignment *assignment;
    const struct sp_relation *relation;
    const struct sp_view *view;
    struct sp_communications *list;
    struct sp_arena *scratch; /* of one relation */
    struct sp_error *err;
};

/* Appends one; `because` is formatted into the assignment's arena. */
__attribute__((format(printf, 3, 4))) enum sp_status
sp_communicate(struct sp_communicator *all, const struct sp_communication *what, const char *format, ...);

/* The extents of a value with a rank; what is not known is a multiple of the shards of both. False when some are not
   known: bytes are not either. */
bool sp_communicated_shape(const struct sp_value *value, const struct sp_sharding *a, const struct sp_sharding *b,
                           int64_t *ret_shape);

/* The bytes of the largest piece of an operand, -1 when an extent is not known; `ret_tile` its extents. */
double sp_communicated_tile(const struct sp_communicator *all, const struct sp_value *value,
                            const struct sp_sharding *sharding, int64_t *ret_tile);

/* A key of two shardings of the assignment, and a tensor's type. */
struct sp_view_cache_key sp_way_key(const struct sp_communicator *all, enum sp_view_cache_about about,
                                    const struct sp_sharding *from, const struct sp_sharding *to,
                                    const struct sp_value *value, const int64_t *shape);

/* Plans a reshard; *ret_reshard is NULL where it takes too much, or there is none. */
enum sp_status sp_plan_way(struct sp_communicator *all, const struct sp_value *value, const int64_t *shape,
                           const struct sp_sharding *from, const struct sp_sharding *to,
                           struct sp_reshard **ret_reshard);

/* The steps of a reshard, "" when nothing is sent, in the assignment's arena; the one group that talks, or 0. */
enum sp_status sp_name_steps(struct sp_communicator *all, const struct sp_reshard *reshard, const char **ret_steps);
int64_t sp_group_of(const struct sp_reshard *reshard);

/* An operand's value when it is a tensor of known rank, else NULL. */
const struct sp_value *sp_communicated_value(const struct sp_communicator *all, uint32_t operand);

int64_t sp_view_shards(const struct sp_view *view, uint8_t factor);

/* The partial results of a node: all-reduce, reduce-scatter; `*ret_done` per output: its stated spec is reached. */
enum sp_status sp_communicate_reductions(struct sp_communicator *all, bool *ret_done);
