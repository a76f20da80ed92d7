#pragma once
/*
 * index - a finished plan as tables that slices are answered from.
 *
 * Who looks at a plan wants a part of it: the modules below one, what devices do within a millisecond, the largest
 * messages. An index holds what such questions need, in arrays: nodes, tensors, collectives, findings, stages, and of
 * each stage what it does and holds in the course of a request. It is written with the plan's JSON, and its rows say
 * where in that file their entry stands: an answer quotes the plan's own bytes.
 *
 *   write.h      plan -> the file              (a worker)
 *   index.h      the file -> struct sp_index    (the daemon: nothing in it is trusted)
 *   graph.h, timeline.h, rows.h                struct sp_index -> JSON of one slice
 *
 * An index is immutable, needs neither model nor plan, and may be read by any number of threads.
 *
 * Texts are offsets into `texts`, where each ends with a zero byte; SP_INDEX_NONE is no text, no node, no tensor. An
 * open index is sound: every text is UTF-8, every index is in range or SP_INDEX_NONE where that is allowed, every
 * number is finite and not negative, what is said to be ordered is. Ranges of operands, consumers, slices, points and
 * alive follow each other without gaps, those of the first node, tensor or stage from 0 on: so whoever visits all of
 * them visits each entry once.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SP_INDEX_NONE          UINT32_MAX
#define SP_INDEX_MOST_REQUESTS 16

/* An entry of the plan's JSON: `size` bytes from `offset`; size 0: there is none. */
struct sp_index_row {
    uint64_t offset, size;
};

struct sp_index_node {            /* in the order of the model */
    uint32_t name, operator_type; /* operator_type SP_INDEX_NONE in a graph of costs */
    uint32_t stage;
    uint32_t folded;                                   /* 0 or 1 */
    uint32_t first_operand, input_count, output_count; /* of `operands`: tensors, inputs first */
    uint32_t padding;
    double seconds;                     /* of one device, as what follows; all 0 for a folded one */
    double collective_seconds;          /* of what is exchanged for it, before and after it */
    double flops, bytes, weights_bytes; /* weights: of those among its inputs, and inside it */
};

enum sp_index_kind { SP_INDEX_ACTIVATION, SP_INDEX_INPUT, SP_INDEX_WEIGHT };

struct sp_index_tensor { /* of those in the plan's JSON and all that nodes name, in the order of the model */
    uint32_t name;
    uint32_t spec;                           /* as text, of the first place; SP_INDEX_NONE without a row */
    uint32_t kind;                           /* enum sp_index_kind */
    uint32_t is_split;                       /* in any place */
    uint32_t producer;                       /* node or SP_INDEX_NONE */
    uint32_t first_consumer, consumer_count; /* of `consumers`: nodes that run, ascending */
    uint32_t padding;
    double bytes, bytes_per_device; /* of the whole tensor, and in the first place */
    struct sp_index_row row;
};

struct sp_index_collective { /* as in the plan's JSON: transfers first, then stage by stage */
    uint32_t kind;           /* text; "send" of transfers */
    uint32_t tensor, after_node, before_node;
    uint32_t stage, to_stage; /* to_stage SP_INDEX_NONE within one */
    double bytes, seconds;    /* of all of its devices; as in the JSON */
    struct sp_index_row row;
};

struct sp_index_finding {
    uint32_t severity, code, message; /* texts */
    uint32_t node, tensor;            /* SP_INDEX_NONE also for names that no node or tensor has */
    uint32_t padding;
    struct sp_index_row row;
};

enum sp_index_what { SP_INDEX_COMPUTE, SP_INDEX_COLLECTIVE, SP_INDEX_SEND, SP_INDEX_RECEIVE, SP_INDEX_WHATS };

/* What one device of a stage does for one request, counted from the request's arrival at the model. Of each stage by
   what, then by begin. Those of nodes do not overlap, and those of collectives neither; a plan's sends to one stage
   do not, nor its receives from one, but that is not looked at when an index is opened. What takes no time has none. */
struct sp_index_slice {
    double begin, end; /* begin <= end */
    uint32_t what;     /* enum sp_index_what */
    uint32_t item;     /* node of this stage; collective of this stage; transfer from, or to this stage */
};

/* Live activations of one device while a node runs, from `at` (counted from when the request enters the stage): of
   each node that runs, in order. */
struct sp_index_point {
    double at, bytes;
    uint32_t node, padding;
};

enum sp_index_holds {
    SP_INDEX_HELD_INPUT,
    SP_INDEX_HELD_ACTIVATION,
    SP_INDEX_HELD_RECEIVED,
    SP_INDEX_HELD_COPY,
    SP_INDEX_HELD_WORKSPACE,
    SP_INDEX_HELD_WAITING /* what other requests and stages of the device hold: cost/evaluate.h */
};

/* What one device holds at the stage's peak; together activations_peak_bytes. Largest first. A tensor may be there in
   several layouts; a view is not listed, but what it is a view of. */
struct sp_index_alive {
    double bytes;
    uint32_t tensor; /* SP_INDEX_NONE of a workspace, and of what waits */
    uint32_t node;   /* the node that runs, of a workspace; else SP_INDEX_NONE */
    uint32_t holds;  /* enum sp_index_holds */
    uint32_t padding;
};

/* Entries of a table. */
struct sp_index_range {
    uint32_t first, count;
};

/* Replica r has the devices first_device + r * device_count and so on; all numbers of devices are below
   SP_MAX_DEVICES. No two stages share one, unless the plan shares devices: then each stage has one. */
struct sp_index_stage {
    uint32_t first_device, device_count; /* of one block; at least one */
    uint32_t replicas;                   /* at least one */
    uint32_t device_name;                /* text: the catalog's name of its kind */
    uint32_t node_count;
    struct sp_index_range slices, points, alive;
    uint32_t peak_point;  /* counted from the first of `points`, or SP_INDEX_NONE */
    uint32_t is_critical; /* on the longest path of a request */
    uint32_t is_bottleneck;
    double start_seconds, compute_seconds, interval_seconds;
    double weights_bytes, cache_bytes, communication_bytes, activations_peak_bytes, total_bytes, capacity_bytes;
};

/* JSON as it stands in the file. */
struct sp_index_json {
    const char *bytes;
    uint64_t size;
};

/* Entries of the tables. */
struct sp_index_counts {
    uint32_t nodes, tensors, operands, consumers, numbers, collectives, findings, stages, slices, points, alive;
    uint64_t texts; /* bytes */
};

struct sp_index {
    double latency_seconds, interval_seconds;
    bool shares_devices; /* cost/evaluate.h */
    uint32_t requests;   /* that a timeline shows, as the trace does: 1 .. SP_INDEX_MOST_REQUESTS */
    uint64_t plan_size;  /* of the plan's JSON, which all rows lie in */
    struct sp_index_counts count;
    const struct sp_index_node *nodes;
    const struct sp_index_tensor *tensors;
    const uint32_t *operands, *consumers;
    const uint32_t *numbers; /* what people call each device; NULL: the same */
    const struct sp_index_collective *collectives;
    const struct sp_index_finding *findings;
    const struct sp_index_stage *stages;
    const struct sp_index_slice *slices;
    const struct sp_index_point *points;
    const struct sp_index_alive *alive;
    const char *texts;
    struct sp_index_json summary; /* as GET /v1/plans/{id}/summary answers */
    struct sp_index_json line;    /* members, without braces, that a list of plans shows of this one */
};

static inline const char *sp_index_text(const struct sp_index *index, uint32_t text)
{
    return text == SP_INDEX_NONE ? NULL : index->texts + text;
}

/*
 * The tables of a file, which must begin at an address that is a multiple of 8 and stay as long as the index: nothing
 * is copied. SP_ERR_MODEL "SHEET_DAMAGED" where anything is not sound, or another version of the program wrote it.
 */
enum sp_status sp_index_open(const void *bytes, uint64_t size, struct sp_index *ret_index, struct sp_error *err);

/*
 * Where the line stands in a file of `size` bytes that begins with these SP_INDEX_HEAD_BYTES: for lists, which read
 * nothing else of it. Errors as those of sp_index_open(); what stands there is not looked at.
 */
#define SP_INDEX_HEAD_BYTES 216
enum sp_status sp_index_find_line(const void *head, uint64_t size, struct sp_index_row *ret_place,
                                  struct sp_error *err);

/* In the same way, how many bytes the JSON has that the index was written beside. */
enum sp_status sp_index_find_plan(const void *head, uint64_t size, uint64_t *ret_plan_size, struct sp_error *err);
