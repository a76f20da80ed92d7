#pragma once
/*
 * simulate_strategies - how the complete models of the test data are split: what is said of some tensors, from which
 * propagation finds the rest; or the plan of the library itself.
 *
 * Meshes are written as Shardy does: <["x"=2, "y"=2], device_ids=[3,1,0,2]>. A second mesh is another stage of a
 * pipeline, on the devices behind those of the first.
 */
#include <stdbool.h>
#include <stdint.h>

#define SIMULATE_MAX_SPLITS 12

/* The weights (of two axes or more) that the nodes of this name use, or with '@' the model's input of that name: an
   axis is split over a mesh axis; with axis -1 it is whole on the mesh. Of several parts of the axis each is split. */
struct simulate_split {
    const char *what;
    int64_t axis;
    const char *mesh_axis;
    int64_t parts;
    unsigned mesh;
};

struct simulate_strategy {
    const char *file, *what;
    int64_t devices;
    const char
        *limit;    /* the library's own plan, with this "memory_limit_bytes" of a device: one does not hold it all */
    uint64_t seed; /* every node split in a way of its own (simulate_random.h) */
    /* A plan of such stages, each on blocks of such a mesh, in which every node has any of its strategies
       (../unit/support/build_sharded.h); by the seed, too. */
    uint32_t stages, replicas, block[2];
    const char *search; /* the plan that the joint search finds with this strategy and `limit`, or NULL */
    const char *meshes[2];
    const int64_t *shares; /* per position of the mesh the device that stands on it, one of them on several; NULL: one
                              each */
    const char *dims;      /* "batch=4,seq=8" or NULL */
    bool is_forward;       /* completed as ONNX proposal 0007 says, which carries uneven splits too */
    const char *exchanges; /* "4 all-reduce": all there are, or NULL: not said; "" none */
    struct simulate_split splits[SIMULATE_MAX_SPLITS];
};

/* Each ends with one whose `file` is NULL. Large models have no weights: they are split, and do not run. */
extern const struct simulate_strategy simulate_strategies[];
extern const struct simulate_strategy simulate_large[];
