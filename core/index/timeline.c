#include "index/timeline.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/sorted.h"
#include "index/label.h"

/* Of a span, the finest that is shown apart: two slices that are not joined take more than that, so a row stays below
   SP_INDEX_MOST_SLICES. */
#define FINEST_SHARE 2000
/* So often a resolution is doubled before everything is joined: it is several times the span then. */
#define MOST_DOUBLINGS 16

static const char *const row_names[SP_INDEX_WHATS] = {
    [SP_INDEX_COMPUTE] = "compute",
    [SP_INDEX_COLLECTIVE] = "collective",
    [SP_INDEX_SEND] = "send",
    [SP_INDEX_RECEIVE] = "receive",
};

struct timeline {
    const struct sp_index *index;
    struct sp_json *json; /* NULL: slices are only counted */
    double from, to, resolution;
};

/* Neighbours of one request that are shown as one: what stands for them is the longest. */
struct group {
    double begin, end;
    double busy, longest; /* seconds: of all, which may overlap; of the longest */
    uint32_t item, count; /* count 0: there is none */
};

/* One row of a lane while it is written. */
struct row {
    const struct timeline *timeline;
    enum sp_index_what what;
    uint32_t request, written;
    struct group group;
};

/* ---- slices ----------------------------------------------------------------------------------------------------- */

static const char *slice_name(const struct sp_index *index, enum sp_index_what what, uint32_t item)
{
    if (what == SP_INDEX_COMPUTE)
        return sp_index_text(index, index->nodes[item].name);
    if (what == SP_INDEX_COLLECTIVE)
        return sp_index_text(index, index->collectives[item].kind);
    const uint32_t tensor = index->collectives[item].tensor;
    return tensor != SP_INDEX_NONE ? sp_index_text(index, index->tensors[tensor].name) : NULL;
}

static void write_slice(const struct row *row)
{
    struct sp_json *json = row->timeline->json;
    const struct group *group = &row->group;
    const char *name = slice_name(row->timeline->index, row->what, group->item);
    char label[SP_INDEX_LABEL_SIZE(SP_INDEX_MOST_LABEL)];
    sp_json_begin_array(json);
    sp_json_double(json, group->begin);
    sp_json_double(json, group->end);
    sp_json_int(json, row->request);
    sp_json_int(json, group->item);
    sp_json_int(json, group->count);
    sp_json_double(json, group->busy);
    sp_json_string(json, name != NULL ? sp_index_label(name, strlen(name), SP_INDEX_MOST_LABEL, label) : NULL);
    sp_json_end_array(json);
}

static void end_group(struct row *row)
{
    if (row->group.count == 0)
        return;
    if (row->timeline->json != NULL)
        write_slice(row);
    row->group.count = 0;
    row->written++;
}

/* A slice joins what is shorter than the resolution together with it. The last of a row takes all that is left. */
static bool joins(const struct row *row, double end)
{
    const struct group *group = &row->group;
    if (group->count == 0)
        return false;
    return end - group->begin < row->timeline->resolution || row->written + 1 >= SP_INDEX_MOST_SLICES;
}

static void add_slice(struct row *row, const struct sp_index_slice *slice, double later)
{
    const double begin = slice->begin + later, end = slice->end + later, seconds = slice->end - slice->begin;
    struct group *group = &row->group;
    if (!joins(row, end)) {
        end_group(row);
        *group = (struct group){.begin = begin, .end = end, .item = slice->item};
    }
    if (seconds > group->longest) {
        group->longest = seconds;
        group->item = slice->item;
    }
    group->end = fmax(group->end, end);
    group->busy += seconds;
    group->count++;
}

/* The first of some slices, in the order of their beginnings, that begins at this time or later. */
static uint32_t first_from(const struct sp_index_slice *slices, uint32_t count, double time)
{
    uint32_t at;
    SP_LOWER_BOUND(at, count, slices[at].begin < time);
    return at;
}

/* A stage's slices of one kind. */
static const struct sp_index_slice *slices_of(const struct sp_index *index, const struct sp_index_stage *stage,
                                              enum sp_index_what what, uint32_t *ret_count)
{
    const struct sp_index_slice *slices = index->slices + stage->slices.first;
    uint32_t bounds[2]; /* where what is of this kind begins, and where it ends */
    for (uint32_t b = 0; b < 2; b++) {
        uint32_t at;
        SP_LOWER_BOUND(at, stage->slices.count, slices[at].what < what + b);
        bounds[b] = at;
    }
    *ret_count = bounds[1] - bounds[0];
    return slices + bounds[0];
}

/* ---- lanes ------------------------------------------------------------------------------------------------------ */

/* Writes, or only counts, what a replica of a stage does of one kind; returns how many slices it shows. */
static uint32_t take_slices(const struct timeline *timeline, const struct sp_index_stage *stage, uint32_t replica,
                            enum sp_index_what what)
{
    const struct sp_index *index = timeline->index;
    struct row row = {.timeline = timeline, .what = what};
    uint32_t count;
    const struct sp_index_slice *slices = slices_of(index, stage, what, &count);
    for (uint32_t r = replica; r < index->requests; r += stage->replicas) {
        const double later = r * index->interval_seconds;
        row.request = r;
        /* Those of nodes and collectives do not overlap: only the one before the span may reach into it. */
        uint32_t s = what <= SP_INDEX_COLLECTIVE ? first_from(slices, count, timeline->from - later) : 0;
        for (s -= s > 0; s < count && slices[s].begin + later < timeline->to; s++) {
            if (slices[s].end + later > timeline->from)
                add_slice(&row, &slices[s], later);
        }
        end_group(&row);
    }
    return row.written;
}

static void write_row(const struct timeline *timeline, const struct sp_index_stage *stage, uint32_t replica,
                      enum sp_index_what what)
{
    struct sp_json *json = timeline->json;
    uint32_t count;
    (void)slices_of(timeline->index, stage, what, &count);
    if (count == 0)
        return;
    sp_json_begin_object(json);
    sp_json_member_string(json, "row", row_names[what]);
    sp_json_key(json, "slices");
    sp_json_begin_array(json);
    (void)take_slices(timeline, stage, replica, what);
    sp_json_end_array(json);
    sp_json_end_object(json);
}

static void write_lane(const struct timeline *timeline, uint32_t lane, uint32_t stage_index, uint32_t replica)
{
    const struct sp_index *index = timeline->index;
    const struct sp_index_stage *stage = &index->stages[stage_index];
    struct sp_json *json = timeline->json;
    sp_json_begin_object(json);
    sp_json_member_int(json, "lane", lane);
    sp_json_member_int(json, "stage", stage_index);
    sp_json_member_int(json, "replica", replica);
    const uint32_t first = stage->first_device + replica * stage->device_count;
    sp_json_member_int(json, "first_device", index->numbers == NULL ? first : index->numbers[first]);
    sp_json_member_int(json, "devices", stage->device_count);
    sp_index_list_devices(index, first, stage->device_count, json);
    sp_json_member_string(json, "device", sp_index_text(index, stage->device_name));
    /* The path is that of the first request, which the first replica computes. */
    sp_json_member_bool(json, "critical", stage->is_critical != 0 && replica == 0);
    sp_json_member_bool(json, "bottleneck", stage->is_bottleneck != 0);
    sp_json_key(json, "rows");
    sp_json_begin_array(json);
    for (int what = 0; what < SP_INDEX_WHATS; what++)
        write_row(timeline, stage, replica, (enum sp_index_what)what);
    sp_json_end_array(json);
    sp_json_end_object(json);
}

/* Writes the lanes, or returns how many slices they show. */
static uint64_t take_lanes(const struct timeline *timeline, uint32_t first, uint32_t count)
{
    const struct sp_index *index = timeline->index;
    uint32_t lane = 0; /* of the stage's first replica */
    uint64_t shown = 0;
    for (uint32_t s = 0; s < index->count.stages; lane += index->stages[s++].replicas) {
        for (uint32_t r = 0; r < index->stages[s].replicas; r++) {
            if (lane + r < first || lane + r - first >= count)
                continue;
            if (timeline->json != NULL)
                write_lane(timeline, lane + r, s, r);
            for (int what = 0; timeline->json == NULL && what < SP_INDEX_WHATS; what++)
                shown += take_slices(timeline, &index->stages[s], r, (enum sp_index_what)what);
        }
    }
    return shown;
}

/* A resolution at which the answer is not too large. What overlaps, as sends may, is joined by none that is a part of
   the span; but by one longer than the whole timeline, of which each request is one slice of a row. */
static double resolve(const struct timeline *timeline, double end, uint32_t first, uint32_t count)
{
    struct timeline counting = *timeline;
    counting.json = NULL;
    for (int i = 0; i <= MOST_DOUBLINGS && take_lanes(&counting, first, count) > SP_INDEX_MOST_SHOWN; i++)
        counting.resolution = i < MOST_DOUBLINGS ? 2 * counting.resolution : fmin(2 * end, DBL_MAX);
    return counting.resolution;
}

static uint32_t count_lanes(const struct sp_index *index)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < index->count.stages; s++)
        count += index->stages[s].replicas;
    return count;
}

/* When the last request has left: some slice's end. */
static double find_end(const struct sp_index *index)
{
    double end = 0;
    for (uint32_t i = 0; i < index->count.slices; i++)
        end = fmax(end, index->slices[i].end);
    return end > 0 ? end + (index->requests - 1) * index->interval_seconds : 0;
}

enum sp_status sp_index_timeline(const struct sp_index *index, const struct sp_index_timeline_query *query,
                                 struct sp_json *json, struct sp_error *err)
{
    const double end = find_end(index);
    const uint32_t lanes = count_lanes(index);
    struct timeline timeline = {
        .index = index, .json = json, .from = query->from, .to = query->to == 0 ? end : query->to};
    const double span = timeline.to - timeline.from;
    const bool is_nothing = end == 0 && timeline.from == 0 && timeline.to == 0;
    if (!isfinite(timeline.from) || !isfinite(timeline.to) || timeline.from < 0 || (span <= 0 && !is_nothing))
        return sp_fail(err, SP_ERR_REQUEST, "BAD_SPAN",
                       "The span from %g to %g seconds is empty: the timeline begins at 0 and ends at %.9g seconds.",
                       timeline.from, timeline.to, end);
    if (query->first_lane >= lanes)
        return sp_fail(err, SP_ERR_REQUEST, "NO_SUCH_LANE", "There is no lane %u: the timeline has %u, from 0 on.",
                       query->first_lane, lanes);
    timeline.resolution = fmax(query->resolution > 0 ? query->resolution : span / 1000, span / FINEST_SHARE);
    timeline.resolution = resolve(&timeline, end, query->first_lane, query->lanes);
    sp_json_begin_object(json);
    sp_json_member_double(json, "from", timeline.from);
    sp_json_member_double(json, "to", timeline.to);
    sp_json_member_double(json, "end", end);
    sp_json_member_double(json, "resolution", timeline.resolution);
    sp_json_member_int(json, "requests", index->requests);
    sp_json_member_double(json, "interval_seconds", index->interval_seconds);
    sp_json_member_double(json, "latency_seconds", index->latency_seconds);
    sp_json_member_int(json, "lane_count", lanes);
    sp_json_key(json, "lanes");
    sp_json_begin_array(json);
    (void)take_lanes(&timeline, query->first_lane, query->lanes);
    sp_json_end_array(json);
    sp_json_end_object(json);
    return SP_OK;
}
