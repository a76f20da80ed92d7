#pragma once
/*
 * stage_parts - what parts of a workload say of each other, for the sets of stage_set.h.
 */
#include "base/rows.h"
#include "cost/stage_set.h"

#define SP_NO_TOUCH UINT32_MAX

/* Memory that other parts know of: a root that several parts touch, a model input or a result. */
struct sp_part_memory {
    uint32_t root;                    /* the tensor */
    uint32_t first_touch, last_touch; /* touches[first] .. touches[last - 1], in the order of nodes */
    uint32_t from, to;                /* segments of its phase, half open, or of all phases; none: it takes no memory */
    bool is_always;                   /* there from the first of these on */
};

/* A part's operands that have this memory. */
struct sp_part_touch {
    uint32_t memory, part;
    uint32_t from, to;   /* segments, half open: from the first of these operands to the last */
    uint32_t held;       /* operands among these that stay to the end of the stage: sp_work_is_held() */
    uint32_t next;       /* touch of the same part */
    bool is_model_input; /* it is there from the start of the stage */
};

/* A tensor that crosses parts. */
struct sp_part_link {
    uint32_t tensor, memory, producer; /* part */
    uint32_t user_count;               /* parts that use it */
};

struct sp_part_links {
    uint32_t count;
    struct sp_part_link *items;
    struct sp_rows made, taken; /* by part: links that it makes, and uses */
};

struct sp_part_weights {
    uint32_t count, *tensors; /* of several parts */
    struct sp_rows shares;    /* by part: entries of `tensors` that it uses */
    double **own;             /* [block][part]: weights of this part alone, and what its nodes keep */
    double **minimum;         /* [block][part]: the same, and shared ones at their first part */
};

/* Weights that may be streamed, under one block. */
struct sp_part_streams {
    uint32_t size_count;
    double *sizes;        /* ascending, distinct */
    struct sp_rows sized; /* by part: of each such weight the entry in `sizes` */
};

struct sp_stage_parts {
    const struct sp_workload *workload;
    const uint32_t *part_of;
    uint32_t part_count, block_count, segment_count, memory_count, touch_count;
    const struct sp_stage_block *blocks;
    struct sp_part_memory *memories;
    struct sp_part_touch *touches;
    uint32_t *touch_of;      /* per part: the first of its touches */
    struct sp_rows segments; /* by part */
    struct sp_part_links links;
    struct sp_part_weights weights;
    struct sp_part_streams *streams; /* per block; without sizes where nothing is streamed */
    double **inside;                 /* [block][segment]: what the part needs for itself, its workspace included */
    double **minimum_held;           /* [block][part]: the operands and the workspace of its hungriest node */
};
