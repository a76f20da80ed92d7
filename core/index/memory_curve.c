/* What a device holds in the course of a request, and at the peak. */
#include "index/label.h"
#include "index/timeline.h"

static const char *const hold_names[] = {
    [SP_INDEX_HELD_INPUT] = "input", [SP_INDEX_HELD_ACTIVATION] = "activation", [SP_INDEX_HELD_RECEIVED] = "received",
    [SP_INDEX_HELD_COPY] = "copy",   [SP_INDEX_HELD_WORKSPACE] = "workspace",   [SP_INDEX_HELD_WAITING] = "waiting",
};

static void write_point(struct sp_json *json, const struct sp_index_point *point)
{
    sp_json_begin_array(json);
    sp_json_double(json, point->at);
    sp_json_double(json, point->bytes);
    sp_json_end_array(json);
}

/* Points of the curve in a row make a part, each part as many of them or one more; what is written is its fullest. */
static void write_curve(const struct sp_index *index, const struct sp_index_stage *stage, uint32_t points,
                        struct sp_json *json)
{
    const struct sp_index_point *curve = index->points + stage->points.first;
    const uint64_t count = stage->points.count;
    points = count < points ? (uint32_t)count : points;
    sp_json_key(json, "course");
    sp_json_begin_array(json);
    for (uint64_t p = 0; p < points; p++) {
        uint64_t fullest = p * count / points;
        for (uint64_t m = fullest + 1; m < (p + 1) * count / points; m++)
            fullest = curve[m].bytes > curve[fullest].bytes ? m : fullest;
        write_point(json, &curve[fullest]);
    }
    sp_json_end_array(json);
}

static void write_peak(const struct sp_index *index, const struct sp_index_stage *stage, struct sp_json *json)
{
    sp_json_key(json, "peak");
    if (stage->peak_point == SP_INDEX_NONE) {
        sp_json_null(json);
        return;
    }
    const struct sp_index_point *peak = &index->points[stage->points.first + stage->peak_point];
    sp_json_begin_object(json);
    sp_json_member_double(json, "at_seconds", peak->at);
    sp_json_member_string(json, "node", sp_index_text(index, index->nodes[peak->node].name));
    sp_json_member_int(json, "index", peak->node);
    sp_json_end_object(json);
}

static void write_alive(const struct sp_index *index, const struct sp_index_stage *stage, struct sp_json *json)
{
    const struct sp_index_alive *alive = index->alive + stage->alive.first;
    double bytes = 0;
    uint32_t i = 0;
    sp_json_key(json, "alive");
    sp_json_begin_array(json);
    for (; i < stage->alive.count && i < SP_INDEX_MOST_ALIVE; i++) {
        sp_json_begin_object(json);
        sp_json_member_string(
            json, "tensor",
            alive[i].tensor != SP_INDEX_NONE ? sp_index_text(index, index->tensors[alive[i].tensor].name) : NULL);
        sp_json_member_string(json, "what", hold_names[alive[i].holds]);
        if (alive[i].node != SP_INDEX_NONE)
            sp_json_member_string(json, "node", sp_index_text(index, index->nodes[alive[i].node].name));
        sp_json_member_double(json, "bytes", alive[i].bytes);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    if (i == stage->alive.count)
        return;
    sp_json_key(json, "alive_more");
    sp_json_begin_object(json);
    sp_json_member_int(json, "count", stage->alive.count - i);
    for (; i < stage->alive.count; i++)
        bytes += alive[i].bytes;
    sp_json_member_double(json, "bytes", bytes);
    sp_json_end_object(json);
}

enum sp_status sp_index_memory(const struct sp_index *index, uint32_t stage_index, uint32_t points,
                               struct sp_json *json, struct sp_error *err)
{
    if (stage_index >= index->count.stages)
        return sp_fail(err, SP_ERR_REQUEST, "NO_SUCH_STAGE", "There is no stage %u: the plan has %u, from 0 on.",
                       stage_index, index->count.stages);
    const struct sp_index_stage *stage = &index->stages[stage_index];
    sp_json_begin_object(json);
    sp_json_member_int(json, "stage", stage_index);
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    sp_json_int(json, index->numbers == NULL ? stage->first_device : index->numbers[stage->first_device]);
    sp_json_int(json, (int64_t)stage->device_count * stage->replicas);
    sp_json_end_array(json);
    sp_index_list_devices(index, stage->first_device, stage->device_count * stage->replicas, json);
    sp_json_member_double(json, "capacity_bytes", stage->capacity_bytes);
    sp_json_member_double(json, "weights_bytes", stage->weights_bytes);
    sp_json_member_double(json, "cache_bytes", stage->cache_bytes);
    sp_json_member_double(json, "communication_bytes", stage->communication_bytes);
    sp_json_member_double(json, "activations_peak_bytes", stage->activations_peak_bytes);
    sp_json_member_double(json, "total_bytes", stage->total_bytes);
    sp_json_member_double(json, "seconds", stage->compute_seconds);
    write_curve(index, stage, points, json);
    write_peak(index, stage, json);
    write_alive(index, stage, json);
    sp_json_end_object(json);
    return SP_OK;
}
