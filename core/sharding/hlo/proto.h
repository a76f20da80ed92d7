#pragma once
/*
 * proto - reading OpSharding's messages with the bounded wire cursor; private to core/sharding.
 *
 * Each message is scanned once against the table of its fields, which finds unknown fields, wrong wire types and
 * numbers too many; what repeats is then walked again by whoever wants it. Nothing is unpacked that is not used, no
 * message is entered deeper than the schema says, and every item is counted before memory is taken for it.
 */
#include "onnx/wire.h"
#include "sharding/hlo/internal.h"

struct sp_hlo_reader {
    struct sp_arena *arena;
    const unsigned char *bytes;
    int64_t element; /* of the tuple that is being read, or -1 */
};

enum sp_hlo_shape_of_field {
    SP_HLO_SCALAR,   /* the last one counts */
    SP_HLO_NUMBERS,  /* repeated, packed or not */
    SP_HLO_MESSAGE,  /* at most one */
    SP_HLO_MESSAGES, /* repeated */
    SP_HLO_TEXT,     /* the last one counts */
};
struct sp_hlo_field {
    uint32_t number;
    enum sp_hlo_shape_of_field shape;
    int64_t max; /* items of NUMBERS and MESSAGES */
    const char *limit, *name;
};
#define SP_HLO_MAX_FIELD 14
struct sp_hlo_schema {
    const char *name;
    uint32_t count;
    const struct sp_hlo_field *fields;
};

/* What was found of each field, by its number. */
struct sp_hlo_found {
    uint64_t count, value;
    struct sp_span span; /* of TEXT and MESSAGE */
};

/* A message's fields. Unknown ones, a second MESSAGE and too many items are errors. */
enum sp_status sp_hlo_scan(const struct sp_hlo_reader *reader, struct sp_span message,
                           const struct sp_hlo_schema *schema, struct sp_hlo_found found[static SP_HLO_MAX_FIELD + 1],
                           struct sp_error *err);

/* The items of a field that was scanned: in memory of the arena. */
enum sp_status sp_hlo_collect(const struct sp_hlo_reader *reader, struct sp_span message, uint32_t number,
                              const struct sp_hlo_found *found, int64_t **ret_items, struct sp_error *err);

/* The next message of this field number in a message that was scanned; *ret_found is false at the end. */
enum sp_status sp_hlo_next_message(struct sp_wire *wire, uint32_t number, struct sp_span *ret_span, bool *ret_found,
                                   struct sp_error *err);

/* Text of a field: well-formed UTF-8 without NUL. NULL when it is empty. */
enum sp_status sp_hlo_read_name(const struct sp_hlo_reader *reader, struct sp_span span, const char **ret_name,
                                struct sp_error *err);

/* All metadata under this field number. */
enum sp_status sp_hlo_read_metadata(const struct sp_hlo_reader *reader, struct sp_span message, uint32_t number,
                                    uint64_t count, struct sp_hlo_metadata **ret_items, struct sp_error *err);

/* NamedShardingProto. */
enum sp_status sp_hlo_read_named_proto(const struct sp_hlo_reader *reader, struct sp_span span, struct sp_hlo *hlo,
                                       struct sp_error *err);

/* SP_ERR_MALFORMED with the path of a field as `where`. */
__attribute__((format(printf, 5, 6))) enum sp_status sp_hlo_fail_field(const struct sp_hlo_reader *reader,
                                                                       const char *field, struct sp_error *err,
                                                                       const char *code, const char *format, ...);

/* Sets that path on an error that has no place, unless memory is what failed; returns `status`. */
enum sp_status sp_hlo_error_at(const struct sp_hlo_reader *reader, const char *field, enum sp_status status,
                               struct sp_error *err);
