#include <string.h>

#include "base/sorted.h"
#include "sharding/mesh.h"

#define MAX_DIMS 62 /* of 2 or more each: their product is a number of devices */

struct dim {
    int64_t size, stride;
};

/* The steps that a list takes, from its end: runs of runs of equal steps. How many there are; 0: it has none. */
static uint32_t find_steps(const struct sp_device_order *order, struct dim *steps)
{
    const int64_t *ids = order->ids;
    uint32_t count = 0;
    for (int64_t inner = 1, size; inner < order->count; inner *= size) {
        const int64_t stride = ids[inner];
        for (size = 2; size * inner < order->count && ids[size * inner] == size * stride; size++)
            continue;
        if (stride <= 0 || order->count % (size * inner) != 0 || count == MAX_DIMS)
            return 0;
        steps[count++] = (struct dim){size, stride};
    }
    return count;
}

SP_ASCENDING(by_stride, struct dim, stride)

enum sp_status sp_device_order_computed(struct sp_arena *arena, const struct sp_device_order *order,
                                        struct sp_device_order *ret_order, struct sp_error *err)
{
    struct dim steps[MAX_DIMS], sorted[MAX_DIMS];
    int64_t dims[MAX_DIMS], perm[MAX_DIMS], inner = 1;
    struct sp_device_order iota;
    *ret_order = *order;
    if (order->ids == NULL || order->count < 2 || order->ids[0] != 0)
        return SP_OK;
    const uint32_t count = find_steps(order, steps);
    memcpy(sorted, steps, count * sizeof *steps);
    qsort(sorted, count, sizeof *sorted, by_stride);
    for (uint32_t i = 0; i < count; i++) {
        if (sorted[i].stride != inner)
            return SP_OK;
        dims[count - 1 - i] = sorted[i].size;
        inner *= sorted[i].size;
        for (uint32_t j = 0; j < count; j++)
            if (steps[j].stride == sorted[i].stride)
                perm[count - 1 - j] = count - 1 - i;
    }
    if (count == 0 || inner != order->count)
        return SP_OK;
    enum sp_status status = sp_device_order_iota(arena, count, dims, perm, &iota, err);
    if (status == SP_OK && sp_device_order_equal(&iota, order))
        *ret_order = iota;
    return status;
}
