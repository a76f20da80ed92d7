#include "support/cluster_text.h"

#include <criterion/criterion.h>

const char *cluster_written(struct sp_arena *arena, const struct sp_cluster *cluster)
{
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, 1 << 20);
    sp_json_init_buf(&json, false, &buf);
    sp_cluster_write(cluster, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    const char *text = sp_arena_string(arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

void cluster_expect_numbers(const struct sp_cluster *cluster, uint32_t count, const uint32_t *numbers)
{
    cr_assert_eq(cluster->device_count, count);
    for (uint32_t d = 0; d < count; d++) {
        cr_expect_eq(sp_cluster_number(cluster, d), numbers[d], "device %u is %u", d, sp_cluster_number(cluster, d));
        cr_expect_eq(sp_cluster_numbered(cluster, numbers[d]), d);
    }
}
