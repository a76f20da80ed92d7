#pragma once
/*
 * timeline - what devices do within a span of time, no finer than can be seen; what they hold meanwhile.
 *
 * It shows the same requests as the trace of export/perfetto.c: the first ones of a pipeline, which enter a stage
 * one interval after the other; replicas of a stage take turns. The devices of a block do the same at the same time,
 * so a block is one *lane*.
 */
#include "base/json_writer.h"
#include "index/index.h"

#define SP_INDEX_MOST_LANES  128
#define SP_INDEX_MOST_SLICES 4096  /* of a row of a lane */
#define SP_INDEX_MOST_SHOWN  65536 /* slices of one answer */
#define SP_INDEX_MOST_POINTS 4096
#define SP_INDEX_MOST_ALIVE  1000

struct sp_index_timeline_query {
    double from, to;   /* seconds since the first request arrived; to 0: the end */
    double resolution; /* seconds; what is shorter is shown together with its neighbours. 0: a thousandth of the span.
                          What is finer than a 2000th of the span is taken for that, and doubled until all lanes
                          together have no more than SP_INDEX_MOST_SHOWN slices; the answer says what it became */
    uint32_t first_lane, lanes; /* lanes 1 .. SP_INDEX_MOST_LANES */
};

/*
 * Writes the slice as one JSON object. Each slice of a row is an array: begin and end in seconds, the request, the node
 * (or the collective, of rows that are no computation), how many slices it stands for, their seconds together, a name,
 * which is cut (label.h): the number says what it is. One that stands for several has number and name of the longest.
 * SP_ERR_REQUEST "BAD_SPAN", "NO_SUCH_LANE".
 */
enum sp_status sp_index_timeline(const struct sp_index *index, const struct sp_index_timeline_query *query,
                                 struct sp_json *json, struct sp_error *err);

/* What one device of a stage holds in the course of a request, in at most `points` points (16 ..
   SP_INDEX_MOST_POINTS) of which each is the most within its part of the time, and what is alive at the peak, largest
   first, up to SP_INDEX_MOST_ALIVE. SP_ERR_REQUEST "NO_SUCH_STAGE". */
enum sp_status sp_index_memory(const struct sp_index *index, uint32_t stage, uint32_t points, struct sp_json *json,
                               struct sp_error *err);
