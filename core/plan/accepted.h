#pragma once
/*
 * accepted - what the standard forbids and a plan or a completion takes all the same, as runtimes do; one note for each
 * kind of it, which says what was taken for what. `check` reports each place as the error that it is.
 */
#include "ops/shapes/shapes.h"

struct sp_accepted_note {
    const char *code, *message; /* the message says how many more there are */
    uint32_t count;
};

#define SP_ACCEPTED_KINDS 16

struct sp_accepted {
    bool refuses; /* a declared shape that contradicts ends the walk after all, with its error */
    uint32_t count;
    struct sp_accepted_note notes[SP_ACCEPTED_KINDS];
};

/* sp_infer_shapes() that gathers, in the model's arena, what it accepted. `accepted` has `refuses` set and is else empty. */
enum sp_status sp_infer_shapes_accepting(struct sp_model *model, const struct sp_watch *watch,
                                         struct sp_accepted *accepted, struct sp_shape_summary *ret_summary,
                                         struct sp_error *err);
