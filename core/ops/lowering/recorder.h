#pragma once
/*
 * recorder - what one lowering wrote, in order; private to core/ops/lowering and core/partition.
 *
 * The partition calls the function once for each device and compares: inputs, collectives and outputs must be the same
 * kinds of the same operands, types and factors in the same order. Constants and operators in between may differ in
 * number: a device at a border pads where others have nothing to do. It then tells them to its sink, device by device
 * up to the next collective, and does the collectives.
 */
#include "ops/lowering/lowering.h"

enum sp_lower_event_kind {
    SP_LOWER_INPUT,
    SP_LOWER_CONSTANT,
    SP_LOWER_OP,
    SP_LOWER_ALL_REDUCE,
    SP_LOWER_ALL_GATHER,
    SP_LOWER_OUTPUT
};

enum sp_lower_output_kind { SP_LOWER_PART, SP_LOWER_WHOLE, SP_LOWER_PARTIAL };

struct sp_lower_event {
    enum sp_lower_event_kind kind;
    /* INPUT: what is to be brought here. CONSTANT: it. ALL_REDUCE, ALL_GATHER: the result. OUTPUT: the piece. */
    struct sp_piece *piece;
    union {
        struct {
            uint32_t index;
            bool is_part;  /* asked for as the part that the factors give */
            bool is_box;   /* asked for as a box */
            bool is_whole; /* all there is, however it was asked for; a part too where nothing cuts it */
            const struct sp_axis_ranges *axes; /* one for each axis of the operand; of the part too */
        } input;
        struct {
            enum sp_dtype dtype;
            uint32_t rank;
            const int64_t *dims;
            bool is_filled; /* `bytes` is one element */
            const void *bytes;
            size_t size;
        } constant;
        struct {
            bool is_same;
            const char *domain, *op_type;
            uint32_t input_count, output_count, attribute_count;
            struct sp_piece *const *inputs; /* NULL entries: omitted */
            struct sp_piece *const *outputs;
            const struct sp_lower_attribute *attributes;
        } op;
        struct {
            struct sp_piece *from;
            enum sp_combiner combiner; /* ALL_REDUCE */
            uint32_t axis;             /* ALL_GATHER */
            uint32_t factor_count;
            const uint8_t *factors; /* split ones only, ascending, at least one */
        } collective;
        struct {
            uint32_t index;
            enum sp_lower_output_kind kind;
            enum sp_combiner combiner; /* PARTIAL */
            uint32_t factor_count;
            const uint8_t *factors; /* split ones only, ascending; none: it is a PART */
        } output;
    };
};

struct sp_lower_recorder {
    struct sp_arena *kept; /* for pieces and their names; events lie in the memory of the node */
    const char *marker;    /* between a name and the device in the names of pieces: "@" */
    uint64_t *next;        /* number of the next piece: names are HINT@DEVICE.NUMBER */
    enum sp_status status; /* the first error */
    bool is_again;         /* sp_lower_whole() was called; then status is SP_ERR_UNSUPPORTED */
    uint8_t again_factor;
    char *again_message;
    uint32_t count, capacity;
    struct sp_lower_event *events;
};

/* A piece of this device, named after `hint`; dims not known (rank 0, dims NULL). Sticky: NULL after an error. */
struct sp_piece *sp_lower_piece(struct sp_lowering *lower, const char *hint, enum sp_dtype dtype);

/* The next event, zeroed, or NULL without memory (which is recorded). */
struct sp_lower_event *sp_lower_event(struct sp_lowering *lower, enum sp_lower_event_kind kind);
