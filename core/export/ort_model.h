#pragma once
/*
 * ort_model - what the writers of a rank's model share.
 *
 * Weights are cut out of the file when the result is read. A part of an external weight that is not one run of bytes is
 * cut out by a Slice at load.
 */
#include "export/ort_plan.h"
#include "realize/encode.h"
#include "realize/protobuf_fields.h"
#include "realize/weights.h"

/* A piece of a weight that is in the model. */
struct sp_ort_piece {
    struct sp_ort_piece *next;          /* of the same value */
    const struct sp_sharding *sharding; /* NULL: whole */
    const char *name;
};

struct sp_ort_model {
    struct sp_export *out;
    struct sp_ort_plan plan;
    struct sp_arena *arena;
    struct sp_recipe *nodes, *initializers, *interface, *message;
    struct sp_weights weights;
    struct sp_encoder encoder;
    struct sp_ort_piece **pieces; /* per value of the main graph */
    uint64_t next_name;
};

/* The indices of each axis that the rank has; NULL in *ret_axes: all. In scratch memory. They say nothing of axes whose
   extent is not known. */
enum sp_status sp_ort_box(struct sp_ort_model *all, const struct sp_sharding *sharding, const struct sp_type *type,
                          const struct sp_axis_ranges **ret_axes, struct sp_error *err);
int64_t sp_ort_axis_extent(const struct sp_axis_ranges *axis);

/* The name of the rank's piece of a weight under this sharding, which is put into the model when it is asked for first;
   of the whole weight. The first one has the weight's own name. */
enum sp_status sp_ort_weight(struct sp_ort_model *all, const struct sp_value *value, const struct sp_sharding *sharding,
                             const char **ret_name, struct sp_error *err);
enum sp_status sp_ort_whole_weight(struct sp_ort_model *all, const struct sp_value *value, const char **ret_name,
                                   struct sp_error *err);
