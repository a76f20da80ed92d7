#include <string.h>

#include "solvers/stages/frame.h"

#define SINGLE_FIGURES 6

static size_t figures(const struct sp_stages_frame *frame)
{
    return SINGLE_FIGURES + 3 * (size_t)frame->prepared->problem->option_count;
}

bool sp_stages_frame_init(struct sp_arena *arena, const struct sp_stages_prepared *prepared, uint32_t levels,
                          struct sp_stages_frame *frame)
{
    uint32_t options = prepared->problem->option_count;
    *frame = (struct sp_stages_frame){.prepared = prepared, .room = levels};
    frame->inside = SP_NEW_ARRAY(arena, prepared->unit_count, bool);
    frame->users = SP_NEW_ARRAY(arena, prepared->link_count, uint32_t);
    frame->sending = SP_NEW_ARRAY(arena, prepared->link_count, uint32_t);
    frame->holders = SP_NEW_ARRAY(arena, prepared->problem->weight_count, uint32_t);
    frame->seconds = SP_NEW_ARRAY(arena, 3 * (size_t)options, double);
    frame->kept = SP_NEW_ARRAY(arena, (size_t)levels * figures(frame), double);
    if (frame->sending == NULL || frame->inside == NULL || frame->users == NULL || frame->holders == NULL ||
        frame->seconds == NULL || frame->kept == NULL)
        return false;
    if (prepared->problem->memory != NULL) {
        frame->set = prepared->problem->memory->create(prepared->problem->memory->context, arena);
        if (frame->set == NULL)
            return false;
    }
    frame->weight_bytes = frame->seconds + options;
    frame->held_bytes = frame->weight_bytes + options;
    return true;
}

void sp_stages_frame_push(struct sp_stages_frame *frame)
{
    double *kept = frame->kept + frame->levels++ * figures(frame);
    kept[0] = frame->received;
    kept[1] = frame->sent;
    kept[2] = frame->received_bytes;
    kept[3] = frame->sent_bytes;
    kept[4] = frame->shared_bytes;
    kept[5] = frame->sending_count;
    memcpy(kept + SINGLE_FIGURES, frame->seconds, (figures(frame) - SINGLE_FIGURES) * sizeof *kept);
}

void sp_stages_frame_put(struct sp_stages_frame *frame, uint32_t unit)
{
    const struct sp_stages_prepared *prepared = frame->prepared;
    const struct sp_stages_link *links = prepared->links;
    const uint32_t *first = prepared->users.start;
    frame->inside[unit] = true;
    for (uint32_t i = prepared->makes.start[unit]; i < prepared->makes.start[unit + 1]; i++) {
        uint32_t link = prepared->makes.items[i];
        if (frame->users[link] > 0) { /* was received */
            frame->received -= 1;
            frame->received_bytes -= links[link].bytes;
        }
        if (frame->users[link] < first[link + 1] - first[link]) {
            frame->sent += 1;
            frame->sent_bytes += links[link].bytes;
            frame->sending[frame->sending_count++] = link;
        }
    }
    for (uint32_t i = prepared->takes.start[unit]; i < prepared->takes.start[unit + 1]; i++) {
        uint32_t link = prepared->takes.items[i], users = ++frame->users[link];
        if (!frame->inside[links[link].producer]) {
            frame->received += users == 1;
            frame->received_bytes += users == 1 ? links[link].bytes : 0;
        } else if (users == first[link + 1] - first[link]) {
            frame->sent -= 1;
            frame->sent_bytes -= links[link].bytes;
        }
    }
    for (uint32_t i = prepared->shared.start[unit]; i < prepared->shared.start[unit + 1]; i++)
        if (frame->holders[prepared->shared.items[i]]++ == 0)
            frame->shared_bytes += prepared->problem->weights[prepared->shared.items[i]].bytes;
    for (uint32_t i = prepared->nodes.start[unit]; frame->set != NULL && i < prepared->nodes.start[unit + 1]; i++)
        prepared->problem->memory->put(frame->set, prepared->nodes.items[i]);
    for (uint32_t i = 0; i < prepared->problem->option_count; i++) {
        frame->seconds[i] += prepared->seconds[i][unit];
        frame->weight_bytes[i] += prepared->weight_bytes[i][unit];
        if (prepared->held_bytes[i][unit] > frame->held_bytes[i])
            frame->held_bytes[i] = prepared->held_bytes[i][unit];
    }
}

void sp_stages_frame_pop(struct sp_stages_frame *frame, const uint32_t *units, uint32_t count)
{
    const struct sp_stages_prepared *prepared = frame->prepared;
    for (uint32_t j = 0; j < count; j++) {
        uint32_t unit = units[j];
        frame->inside[unit] = false;
        for (uint32_t i = prepared->takes.start[unit]; i < prepared->takes.start[unit + 1]; i++)
            frame->users[prepared->takes.items[i]]--;
        for (uint32_t i = prepared->shared.start[unit]; i < prepared->shared.start[unit + 1]; i++)
            frame->holders[prepared->shared.items[i]]--;
        for (uint32_t i = prepared->nodes.start[unit]; frame->set != NULL && i < prepared->nodes.start[unit + 1]; i++)
            prepared->problem->memory->take(frame->set, prepared->nodes.items[i]);
    }
    const double *kept = frame->kept + --frame->levels * figures(frame);
    frame->received = kept[0];
    frame->sent = kept[1];
    frame->received_bytes = kept[2];
    frame->sent_bytes = kept[3];
    frame->shared_bytes = kept[4];
    frame->sending_count = (uint32_t)kept[5];
    memcpy(frame->seconds, kept + SINGLE_FIGURES, (figures(frame) - SINGLE_FIGURES) * sizeof *kept);
}
