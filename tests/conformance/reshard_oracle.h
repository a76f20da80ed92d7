#pragma once
/*
 * reshard_oracle - the least time of a reshard, found the plain way.
 *
 * Every layout of the mesh's prime parts is a state: ordered lists per tensor axis, a replicated set, a partial set.
 * From a state every other state is tried as the result of one step, of any kind, any number of parts at once; the
 * states are settled in order of time. Slow and short on purpose: nothing of the planner is used, only the times of
 * single collectives (sp_collective_seconds()).
 */
#include "sharding/reshard/reshard.h"

#define ORACLE_MAX_DIGITS  4
#define ORACLE_MAX_RANK    4
#define ORACLE_MAX_DEVICES 16

struct oracle_answer {
    bool is_known;   /* false: too many parts, devices or axes for this search */
    double seconds;  /* INFINITY: no sequence of collectives */
    uint32_t states; /* looked at */
};

/*
 * Both shardings are AXES on one mesh (the same object). Axes whose size has several prime factors are cut in every
 * order; the least of all is the answer.
 */
struct oracle_answer oracle_seconds(const struct sp_links *links, uint32_t rank, const int64_t *shape,
                                    double element_bytes, const struct sp_sharding *from, const struct sp_sharding *to);
