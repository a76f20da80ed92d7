#pragma once
/*
 * stage_options - what stages may be made of: the sizes of blocks of a cluster, and the meshes that operators are split
 * along.
 *
 * Devices of one *class* are neighbours of the same kind with the same memory. A *block* of d of them is aligned: it
 * is a whole part of one level of the links, or several equal whole parts of one. All blocks of one option have the
 * same links inside.
 *
 *     2 nodes of 8:  blocks of 1, 2, 4, 8 (inside a node) and 16 (both)
 *
 * A block's mesh has one axis for each level it spans, and the innermost level is cut once more where it is large, so
 * that data and tensor parallelism may share it. Any factor may take several axes, so finer meshes have the coarser
 * ones' strategies too.
 *
 * An axis may as well end inside a level, or span one and part of the next: tensor parallelism over two nodes of eight
 * devices, data parallelism over four such pairs. A block may have further meshes, of two axes each, as options of
 * their own (sp_space_add_mesh()).
 *
 *     8 nodes of 8:  mesh 8 x 2 x 4; further ones 2 x 32, 4 x 16, 32 x 2
 *
 * Blocks of unequal devices are added to a space: unequal/unequal.h.
 */
#include "search/strategy/strategy.h"

#define SP_SPACE_MAX_OPTIONS 64 /* sizes of blocks, of all classes */
#define SP_SPACE_MAX_MESHES  64 /* further ones */
#define SP_SPACE_CUTS        16 /* further meshes of one block */
#define SP_SPACE_LEVELS      16 /* link levels that a block may span; clusters with more have blocks of one device */

struct sp_space_class {
    uint32_t first, count;             /* devices */
    uint32_t kind;                     /* of the workload; of unequal devices the first one's */
    double capacity;                   /* bytes of one device: sp_space_capacity() */
    uint32_t whole_first, whole_count; /* devices, whatever blocks of unequal ones are laid (unequal/unequal.h) */
    uint32_t block_size;               /* of such blocks; 0: a class of equal devices */
};

struct sp_space_option {
    uint32_t class_index, size; /* devices of one block */
    bool is_further;            /* another mesh of the blocks of an option before it */
    struct sp_strategy_mesh mesh;
    struct sp_mesh_level levels[SP_SPACE_LEVELS]; /* mesh.links.levels */
};

struct sp_space {
    const struct sp_cluster *cluster;
    uint32_t class_count, equal_count, option_count; /* equal_count: classes of equal devices, which come first */
    struct sp_space_class *classes;
    uint32_t forbidden_count; /* names of levels that nothing is split over */
    const char *const *forbidden;
    struct sp_space_option *options; /* by class, then by size; behind them those of further meshes */
};

/* With `largest` 1 there are blocks of one device only. */
enum sp_status sp_space_create(struct sp_arena *arena, const struct sp_workload *workload,
                               const struct sp_cluster *cluster, uint32_t largest, struct sp_space **ret_space,
                               struct sp_error *err);

/* Takes the blocks out that span a level of links with one of these names, which live as long as the space: nothing may
   be split over it. */
void sp_space_forbid(struct sp_space *space, uint32_t count, const char *const *names);

/* Whether that keeps devices apart that the link is the slowest one between. */
bool sp_space_is_forbidden(const struct sp_space *space, const struct sp_mesh_level *link);

/* Bytes of one device of a block; of unequal ones, of the device whose bytes count (strategy.h). */
double sp_space_capacity(const struct sp_space *space, const struct sp_space_option *option);

/* Where a mesh of two axes may end the inner one, ascending: in how many devices, so that links change only where an
   axis ends or along the whole of it, and the option's own mesh does not end an axis there. */
uint32_t sp_space_cuts(const struct sp_space_option *option, uint32_t ret_cuts[SP_SPACE_CUTS]);

/* Adds an option for the same blocks with such a mesh; NULL where there are too many. Others stay where they are. */
const struct sp_space_option *sp_space_add_mesh(struct sp_space *space, const struct sp_space_option *option,
                                                uint32_t cut);

/* Whether the devices from `first` on have the links inside that the option's blocks have. */
bool sp_space_is_block(const struct sp_space *space, const struct sp_space_option *option, uint32_t first);

/* The first device from `from` on (in the option's class) at which a block of this option may begin, so that `blocks`
   of them follow one another; UINT32_MAX: there is none. */
uint32_t sp_space_place(const struct sp_space *space, const struct sp_space_option *option, uint32_t blocks,
                        uint32_t from);
