#include "sharding/reshard/internal.h"

bool sp_interval_clip(struct sp_interval interval, int64_t low, int64_t high, struct sp_interval *ret_part)
{
    int64_t start = interval.low > low ? interval.low : low, end = interval.high < high ? interval.high : high;

    if (start >= end) {
        *ret_part = (struct sp_interval){1, 1};
        return true;
    }
    *ret_part = (struct sp_interval){start, end};
    return start % low == 0 && end % start == 0 && high % end == 0;
}

int sp_interval_to_devices(const struct sp_device_order *order, struct sp_interval interval, struct sp_interval *pieces)
{
    int64_t outer = order->count;
    int count = 0;

    for (uint32_t i = 0; i < order->rank; i++) {
        int64_t size = order->dims[order->perm[i]], inner = outer / size, device = 1;
        struct sp_interval part;

        if (!sp_interval_clip(interval, inner, outer, &part))
            return -1;
        for (uint32_t j = order->perm[i] + 1; j < order->rank; j++)
            device *= order->dims[j];
        outer = inner;
        if (part.low == part.high)
            continue;
        if (count == SP_MAX_PIECES)
            return -1;
        pieces[count++] = (struct sp_interval){part.low / inner * device, part.high / inner * device};
    }
    return count;
}
