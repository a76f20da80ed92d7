#pragma once
/*
 * frame - a stage that grows and shrinks, with its load and memory kept up to date.
 *
 * Units are put in and taken out in the order of a stack. What a unit changes is added where it is put in; taking it
 * out restores the figures from before, so that nothing drifts and infinite times come out as they went in.
 */
#include "solvers/stages/internal.h"

struct sp_stages_frame {
    const struct sp_stages_prepared *prepared;
    bool *inside;          /* per unit */
    uint32_t *users;       /* per link: users inside */
    uint32_t *holders;     /* per shared weight: units inside that use it */
    double received, sent; /* tensors */
    double received_bytes, sent_bytes, shared_bytes;
    double *seconds, *weight_bytes, *held_bytes; /* per option; one array after the other */
    double *kept;                                /* figures from before, level by level */
    uint32_t levels, room;
    void *set;         /* the problem's own count of memory, or NULL */
    uint32_t *sending; /* links that are made inside and used outside */
    uint32_t sending_count;
};

/* An empty frame in which at most `levels` groups of units are put at a time. False without memory. */
bool sp_stages_frame_init(struct sp_arena *arena, const struct sp_stages_prepared *prepared, uint32_t levels,
                          struct sp_stages_frame *frame);

/* Remembers the figures; units that are put in from here on come out with the next sp_stages_frame_pop(). */
void sp_stages_frame_push(struct sp_stages_frame *frame);
void sp_stages_frame_put(struct sp_stages_frame *frame, uint32_t unit);

/* `units` are those put in since the last push. */
void sp_stages_frame_pop(struct sp_stages_frame *frame, const uint32_t *units, uint32_t count);

/* Of the stage under an option, before replicas, with what is received and sent, and what copies take. */
static inline double sp_stages_frame_load(const struct sp_stages_frame *frame, uint32_t option, double copies,
                                          double receive, double send)
{
    const double compute = frame->seconds[option] > copies ? frame->seconds[option] : copies;
    if (frame->prepared->problem->combine == SP_STAGES_SUM)
        return compute + receive + send;
    double transfer = receive > send ? receive : send;
    return compute > transfer ? compute : transfer;
}

/* At least, where the problem counts memory itself. */
static inline double sp_stages_frame_memory(const struct sp_stages_frame *frame, uint32_t option)
{
    double scale = frame->prepared->problem->options[option].memory_scale;
    return frame->weight_bytes[option] + frame->held_bytes[option] + frame->shared_bytes * scale;
}

/* Exactly. */
static inline double sp_stages_frame_bytes(const struct sp_stages_frame *frame, uint32_t option)
{
    if (frame->set != NULL)
        return frame->prepared->problem->memory->bytes(frame->set, option);
    return sp_stages_frame_memory(frame, option);
}
