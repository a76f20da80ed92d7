/* Files of measured times: whatever is read and fitted is a device that a file may describe, and its text is read again
   as the same one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/internal.h"
#include "fuzz.h"

#define MAX_TEXT    ((size_t)1 << 20)
#define MAX_KERNELS 24 /* of a fit: more take long */

static void write_device(const struct sp_device *device, struct sp_buf *text)
{
    struct sp_json json;
    sp_buf_init(text, MAX_TEXT);
    sp_json_init_buf(&json, false, text);
    sp_device_write(device, true, &json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        abort();
}

static void check_round_trip(struct sp_arena *arena, const struct sp_device *device)
{
    struct sp_buf first, second;
    struct sp_cluster *cluster = NULL;
    struct sp_error err = {0};
    write_device(device, &first);
    json_t *target =
        json_pack("{s:o, s:i}", "device", json_loadb(first.data, first.size, JSON_REJECT_DUPLICATES, NULL), "count", 1);
    if (target == NULL || sp_cluster_parse(arena, target, "", &cluster, &err) != SP_OK) {
        (void)fprintf(stderr, "refused its own text: %s at %s\n%s\n", err.message, err.where, first.data);
        abort();
    }
    write_device(sp_cluster_device(cluster, 0), &second);
    if (first.size != second.size || memcmp(first.data, second.data, first.size) != 0) {
        (void)fprintf(stderr, "%s\n%s\n", first.data, second.data);
        abort();
    }
    json_decref(target);
    sp_buf_release(&first);
    sp_buf_release(&second);
}

static void check_error(enum sp_status status, const struct sp_error *err)
{
    if (status != SP_OK && (err->message[0] == '\0' || err->code[0] == '\0'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)256 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_calibrate_samples *samples = arena != NULL ? sp_calibrate_samples_create(arena) : NULL;
    struct sp_error err = {0};
    struct sp_device device;
    struct sp_buf report;
    sp_buf_init(&report, MAX_TEXT);
    if (samples != NULL) {
        const struct sp_calibrate_options options = {.name = "fuzz", .memory_bytes = 1e9};
        enum sp_status status = sp_calibrate_read(samples, "all_reduce.txt", (const char *)bytes, size, &err);
        check_error(status, &err);
        if (status == SP_OK && samples->kernels.count <= MAX_KERNELS) {
            status = sp_calibrate_fit(arena, samples, &options, &device, &report, &err);
            check_error(status, &err);
            if (status == SP_OK)
                check_round_trip(arena, &device);
        }
    }
    sp_buf_release(&report);
    sp_arena_destroy(arena);
    return 0;
}
