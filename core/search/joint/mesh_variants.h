#pragma once
/*
 * mesh_variants - which blocks are worth more than one mesh, and which of these meshes are.
 *
 * Other meshes matter where one stage is all there is: the parts into which a model's batch, heads and weights can be
 * cut have to multiply to the block's size, and memory says how many of each there must be. Stages of a pipeline are
 * small, or of such sizes as suit the mesh they have: there further meshes gained nothing on the models of
 * tests/bench/plans.
 */
#include "search/joint/candidate.h"

#define SP_MESH_VARIANTS_BLOCKS 4 /* of one class of devices */
#define SP_MESH_VARIANTS_MOST   16

/* The options whose profiles promise the quickest stages, the best first in each class. Those of one device, those that
   no other mesh suits, and those that are far slower than the best are left out. */
uint32_t sp_mesh_variants_blocks(const struct sp_joint *joint, uint32_t profile_count,
                                 const struct sp_model_choice *const *profiles,
                                 const struct sp_space_option *ret_options[SP_MESH_VARIANTS_MOST]);

/* Whether the profiles of a further mesh say that it is quicker than the block's own one, or needs less memory. The
   further mesh's are profiles[first] .. profiles[next - 1]; true for options that are no further mesh. */
bool sp_mesh_variants_gains(uint32_t first, uint32_t next, const struct sp_model_choice *const *profiles);
