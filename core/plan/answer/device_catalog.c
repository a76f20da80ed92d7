#include "plan/answer/device_catalog.h"

#include <string.h>

#include "cost/cluster/cluster.h"
#include "plan/answer/device_text.h"

/* Calls `visit` with each device that is meant; how many there were. */
static uint32_t for_each(const char *name, void (*visit)(const struct sp_device *device, void *state), void *state)
{
    const struct sp_device *exact = name != NULL ? sp_device_find(name) : NULL;
    uint32_t counts[2], visited = 0;
    const struct sp_device *lists[2] = {sp_device_catalog(&counts[0]), sp_device_slices(&counts[1])};
    const uint32_t list_count = name != NULL && strchr(name, '/') != NULL ? 2 : 1;

    if (exact != NULL) {
        visit(exact, state);
        return 1;
    }
    for (uint32_t list = 0; list < list_count; list++) {
        for (uint32_t i = 0; i < counts[list]; i++) {
            if (name != NULL && strcasestr(lists[list][i].name, name) == NULL)
                continue;
            visit(&lists[list][i], state);
            visited++;
        }
    }
    return visited;
}

static void visit_nothing(const struct sp_device *device, void *state)
{
    (void)device;
    (void)state;
}

static void visit_json(const struct sp_device *device, void *state)
{
    sp_device_write(device, true, state);
}

enum sp_status sp_devices_json(const char *name, struct sp_json *json, struct sp_error *err)
{
    if (for_each(name, visit_nothing, NULL) == 0)
        return sp_cluster_unknown_device(name, err);
    sp_json_begin_object(json);
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    (void)for_each(name, visit_json, json);
    sp_json_end_array(json);
    sp_json_end_object(json);
    return SP_OK;
}

static void visit_row(const struct sp_device *device, void *state)
{
    sp_device_text_row(device, state);
}

enum sp_status sp_devices_text(const char *name, struct sp_buf *buf, struct sp_error *err)
{
    const struct sp_device *exact = name != NULL ? sp_device_find(name) : NULL;

    if (exact != NULL) {
        sp_device_text(exact, buf);
        return SP_OK;
    }
    if (for_each(name, visit_nothing, NULL) == 0)
        return sp_cluster_unknown_device(name, err);
    sp_device_text_head(buf);
    (void)for_each(name, visit_row, buf);
    sp_buf_text(buf,
                "\nPeaks are dense, in FLOP/s; 16 bits: float16 or bfloat16; 8 bits: float8 or int8. Links are per "
                "device and direction.\nPrices are of public lists, an hour. Measured: products, attention, other "
                "kernels, collectives; the rest are defaults of the kind.\n'shardplan devices NAME' says all of "
                "one device.\n");
    return SP_OK;
}
