#include "verify/window_steps.h"

#include <string.h>

#include "base/limits.h"

#define MISFIT "a window does not fit its input"

static bool is_moderate(int64_t value)
{
    return value >= -SP_MAX_EVALUATED_NUMBERS && value <= SP_MAX_EVALUATED_NUMBERS;
}

const char *sp_window_steps(const struct sp_node *node, uint32_t places, const int64_t *extents, const int64_t *kernel,
                            struct sp_window_steps *ret_steps)
{
    uint32_t counts[3];
    const int64_t *strides = sp_node_ints(node, "strides", &counts[0]),
                  *dilations = sp_node_ints(node, "dilations", &counts[1]),
                  *pads = sp_node_ints(node, "pads", &counts[2]);
    const char *automatic = sp_node_string(node, "auto_pad", "NOTSET");
    if ((strides != NULL && counts[0] != places) || (dilations != NULL && counts[1] != places) ||
        (pads != NULL && counts[2] != 2 * places))
        return "its attributes are for other axes";
    for (uint32_t i = 0; i < places; i++) {
        struct sp_window_steps along = {kernel[i], strides != NULL ? strides[i] : 1,
                                        dilations != NULL ? dilations[i] : 1, pads != NULL ? pads[i] : 0,
                                        pads != NULL ? pads[places + i] : 0};
        if (along.kernel < 1 || along.stride < 1 || along.dilation < 1 || !is_moderate(along.kernel) ||
            !is_moderate(along.dilation) || !is_moderate(along.stride) || !is_moderate(extents[i]))
            return MISFIT;
        if (strncmp(automatic, "SAME", 4) == 0) {
            const int64_t out = (extents[i] + along.stride - 1) / along.stride;
            const int64_t all = (out - 1) * along.stride + (along.kernel - 1) * along.dilation + 1 - extents[i];
            const int64_t pad = all > 0 ? all : 0;
            along.low = strcmp(automatic, "SAME_UPPER") == 0 ? pad / 2 : pad - pad / 2;
            along.high = pad - along.low;
        } else if (strcmp(automatic, "VALID") == 0) {
            along.low = along.high = 0;
        }
        if (!is_moderate(along.low) || !is_moderate(along.high))
            return MISFIT;
        ret_steps[i] = along;
    }
    return NULL;
}

int64_t sp_window_places(struct sp_window_steps along, int64_t extent, bool rounds_up)
{
    const int64_t reach = (along.kernel - 1) * along.dilation + 1, room = extent + along.low + along.high - reach;
    if (rounds_up ? room <= -along.stride : room < 0)
        return -1;
    const int64_t count = (rounds_up ? (room + along.stride - 1) / along.stride : room / along.stride) + 1;
    return rounds_up && (count - 1) * along.stride >= extent + along.low ? count - 1 : count;
}

int64_t sp_window_anchor(struct sp_window_steps along, int64_t extent, int64_t place)
{
    const int64_t middle = (along.kernel - 1) / 2;
    for (int64_t distance = 0; distance <= along.kernel / 2; distance++) {
        for (int sign = 1; sign >= -1; sign -= 2) {
            const int64_t tap = middle + sign * distance;
            const int64_t index = tap >= 0 && tap < along.kernel ? sp_window_index(along, place, tap) : -1;
            if (index >= 0 && index < extent)
                return tap;
        }
    }
    return -1;
}
