#pragma once
/*
 * every_block - blocks of a space with everything that they may have: each mesh, and for rows of unequal devices each
 * share of a few blocks.
 */
#include "search/joint/stage_options.h"

#define EVERY_BLOCK_DEVICES 4

/* Adds options for them to a new space of at most so many devices, and lays all classes. With `shares` rows of unequal
   devices are in up to 8 blocks where there are two devices, and in up to 4 where there are more. */
void add_every_block(struct sp_space *space, const struct sp_workload *workload, bool shares);
