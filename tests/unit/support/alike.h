#pragma once
/*
 * alike - how often a plan's stages may stand on a few devices: every place is tried, and every set of places.
 */
#include "search/joint/joint.h"
#include "search/joint/stage_options.h"

#define ALIKE_MOST 4 /* devices, and stages */

struct alike_stages {
    const struct sp_workload *workload;
    const struct sp_space *space;
    uint32_t count;
    const uint32_t *option, *replicas, *device; /* per stage; options of the space */
};

/* Of all stages together. */
uint32_t alike_devices(const struct alike_stages *stages);

/* Whether blocks of these options may begin at the stages' devices, and no device is in two stages. */
bool alike_stand_apart(const struct alike_stages *stages);

/* How many sets of devices there are at most, the stages' own one of them, that have no device in common, and on which
   the stages stand as on their own: on equal devices, over equal links. 1 where a block has unequal devices. */
uint32_t alike_copies(const struct alike_stages *stages);
