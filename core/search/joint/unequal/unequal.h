#pragma once
/*
 * unequal - blocks of unequal neighbouring devices, in which each device has a share of what is cut.
 *
 * Such a block has a class of its own in the space: the devices from its first one on, as long as the same devices
 * follow in the same order over the same links. It overlaps the classes of equal devices, so it is there only while it
 * is *laid*, and those have then what devices it leaves them.
 *
 *     A A A B B            classes of equal devices: 0 to 2, and 3 to 4
 *     A A [A B] B          the block 2 to 3 is laid: 0 to 1, 4, and its own class
 *     [A B] [A B] A        a class of two blocks; 4
 */
#include "search/joint/stage_options.h"

#define SP_SPACE_MAX_UNEQUAL 12 /* classes of such blocks */

/* Adds an option for blocks of `size` devices that are like those from `first` on, with a share of what is cut for each,
   in blocks of equal size; they are taken to be apart by the slowest links between them. Its class is not laid. NULL
   where nothing may be split over these links, or there are too many options or classes. */
const struct sp_space_option *sp_space_add_shares(struct sp_space *space, const struct sp_workload *workload,
                                                  uint32_t first, uint32_t size, const uint32_t *shares);

/* Whether some of the devices are of another kind or have other memory than the first one. */
bool sp_space_is_unequal(const struct sp_space *space, const struct sp_workload *workload, uint32_t first,
                         uint32_t size);

/* Lays the classes of unequal blocks that have a bit, by their number behind those of equal devices, and takes the
   others up. With `is_apart` the classes of equal devices give their devices up, and keep the longest row that is left;
   else devices are in both, for those who see to it that no device is used twice. */
void sp_space_lay(struct sp_space *space, uint32_t classes, bool is_apart);

/* Leaves each class of equal devices the first 1 / parts of its devices; 1: all of them. No other is laid. False where some
   class is not divided evenly. */
bool sp_space_divide(struct sp_space *space, uint32_t parts);

/* The bit of the option's class; 0 for blocks of equal devices. */
uint32_t sp_space_unequal_bit(const struct sp_space *space, const struct sp_space_option *option);
