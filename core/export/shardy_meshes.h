#pragma once
/*
 * shardy_meshes - the meshes of a Shardy export.
 *
 * Shardings of tensors are found on meshes of their own. Those over the same devices are put on one mesh, which has an
 * axis from each place where one of them cuts the devices to the next (infer/propagate/internal.h does the same for
 * stated specs). Where no mesh explains all of them, those that do not fit keep a mesh of their own.
 *
 * A mesh of Shardy holds the devices 0 .. N-1. A mesh of other devices is written with numbers of its own.
 */
#include "export/internal.h"

struct sp_export_mesh {
    struct sp_mesh *mesh; /* named, as it is written */
    int64_t count;
    const int64_t *devices; /* ascending: number i of the mesh is devices[i] */
    bool is_part;           /* these are not 0 .. N-1 */
    bool is_used;
    int64_t single;               /* the device of a maximal mesh, else -1 */
    struct sp_cuts *cuts;         /* of a mesh for several shardings; NULL: of one of its own */
    const struct sp_mesh *source; /* of that one, with its devices */
};

struct sp_export_meshes {
    struct sp_arena *arena;
    uint32_t count;
    struct sp_export_mesh *items;
    const struct sp_sharding *last; /* that was looked at: many values in a row share one */
};

enum sp_status sp_meshes_begin(struct sp_export_meshes *meshes, struct sp_arena *arena, struct sp_error *err);

/* Looks at the cuts of one sharding (AXES on named devices); all must have been before sp_meshes_make() makes the
   meshes. `scratch` may be rewound afterwards. */
enum sp_status sp_meshes_look(struct sp_export_meshes *meshes, const struct sp_sharding *axes, struct sp_arena *scratch,
                              struct sp_error *err);
enum sp_status sp_meshes_make(struct sp_export_meshes *meshes, struct sp_error *err);

/* The sharding on the mesh that is written for it; in `scratch`. */
enum sp_status sp_meshes_place(struct sp_export_meshes *meshes, const struct sp_sharding *axes,
                               struct sp_arena *scratch, const struct sp_sharding **ret_placed, struct sp_error *err);
