#include "search/joint/unequal/unequal.h"

#include <string.h>

#include "base/limits.h"

/* ---- classes ---------------------------------------------------------------------------------------------------- */

static bool is_like(const struct sp_space *space, const struct sp_workload *workload, uint32_t a, uint32_t b)
{
    return workload->kind_of[a] == workload->kind_of[b] &&
           sp_cluster_memory(space->cluster, a) == sp_cluster_memory(space->cluster, b);
}

bool sp_space_is_unequal(const struct sp_space *space, const struct sp_workload *workload, uint32_t first,
                         uint32_t size)
{
    for (uint32_t d = first + 1; d < first + size; d++)
        if (!is_like(space, workload, d, first))
            return true;
    return false;
}

/* Whether the block behind `first` has the same devices over the same links. */
static bool is_repeated(const struct sp_space *space, const struct sp_workload *workload, uint32_t first, uint32_t size)
{
    const struct sp_cluster *cluster = space->cluster;
    const uint32_t next = first + size;
    if (next + size > cluster->device_count ||
        sp_cluster_link(cluster, first, next - 1) != sp_cluster_link(cluster, next, next + size - 1))
        return false;
    for (uint32_t d = 0; d < size; d++)
        if (!is_like(space, workload, first + d, next + d))
            return false;
    return true;
}

static bool has_block(const struct sp_space_class *class, uint32_t first, uint32_t size)
{
    return class->block_size == size && first >= class->whole_first && (first - class->whole_first) % size == 0 &&
           first + size <= class->whole_first + class->whole_count;
}

/* The class with this block; a new one where there is none. UINT32_MAX: there are too many. */
static uint32_t class_with(struct sp_space *space, const struct sp_workload *workload, uint32_t first, uint32_t size)
{
    for (uint32_t c = space->equal_count; c < space->class_count; c++)
        if (has_block(&space->classes[c], first, size))
            return c;
    if (space->class_count == space->equal_count + SP_SPACE_MAX_UNEQUAL || space->class_count == SP_MAX_STAGE_CLASSES)
        return UINT32_MAX;
    uint32_t count = size;
    while (is_repeated(space, workload, first + count - size, size))
        count += size;
    space->classes[space->class_count] = (struct sp_space_class){.first = first,
                                                                 .kind = workload->kind_of[first],
                                                                 .capacity = sp_cluster_memory(space->cluster, first),
                                                                 .whole_first = first,
                                                                 .whole_count = count,
                                                                 .block_size = size};
    return space->class_count++;
}

/* ---- laying ----------------------------------------------------------------------------------------------------- */

/* Takes the devices from `first` up to before `end` out of a class. */
static void give_up(struct sp_space_class *class, uint32_t first, uint32_t end)
{
    const uint32_t last = class->first + class->count;
    const uint32_t from = first > class->first ? first : class->first, to = end < last ? end : last;
    if (from >= to)
        return;
    if (from - class->first >= last - to) {
        class->count = from - class->first;
    } else {
        class->first = to;
        class->count = last - to;
    }
}

void sp_space_lay(struct sp_space *space, uint32_t classes, bool is_apart)
{
    for (uint32_t c = 0; c < space->class_count; c++) {
        struct sp_space_class *class = &space->classes[c];
        const bool is_there = c < space->equal_count || (classes >> (c - space->equal_count) & 1) != 0;
        class->first = class->whole_first;
        class->count = is_there ? class->whole_count : 0;
    }
    for (uint32_t c = space->equal_count; is_apart && c < space->class_count; c++) {
        const struct sp_space_class *laid = &space->classes[c];
        for (uint32_t e = 0; e < space->equal_count; e++)
            give_up(&space->classes[e], laid->first, laid->first + laid->count);
    }
}

bool sp_space_divide(struct sp_space *space, uint32_t parts)
{
    for (uint32_t c = 0; c < space->equal_count; c++)
        if (space->classes[c].whole_count % parts != 0)
            return false;
    sp_space_lay(space, 0, true);
    for (uint32_t c = 0; c < space->equal_count; c++)
        space->classes[c].count = space->classes[c].whole_count / parts;
    return true;
}

uint32_t sp_space_unequal_bit(const struct sp_space *space, const struct sp_space_option *option)
{
    return option->mesh.member_count == 0 ? 0 : (uint32_t)1 << (option->class_index - space->equal_count);
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

/* Memory that a device has for each block of what is cut. */
static double room_of(const struct sp_strategy_member *member)
{
    return member->capacity / member->share;
}

const struct sp_space_option *sp_space_add_shares(struct sp_space *space, const struct sp_workload *workload,
                                                  uint32_t first, uint32_t size, const uint32_t *shares)
{
    const struct sp_cluster *cluster = space->cluster;
    const struct sp_mesh_level *link = sp_cluster_link(cluster, first, first + size - 1);
    struct sp_space_option *option = &space->options[space->option_count];
    if (space->option_count == SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES || sp_space_is_forbidden(space, link))
        return NULL;
    const uint32_t class_index = class_with(space, workload, first, size);
    if (class_index == UINT32_MAX)
        return NULL;
    memset(option, 0, sizeof *option);
    option->class_index = class_index;
    option->size = size;
    option->levels[0] = *link;
    struct sp_strategy_mesh *mesh = &option->mesh;
    *mesh = (struct sp_strategy_mesh){.axis_count = 1,
                                      .links = {.level_count = 1, .levels = option->levels},
                                      .cluster = cluster,
                                      .device = sp_cluster_device(cluster, first),
                                      .kind = workload->kind_of[first],
                                      .member_count = size};
    for (uint32_t d = 0; d < size; d++) {
        mesh->members[d] =
            (struct sp_strategy_member){shares[d], workload->kind_of[first + d], sp_cluster_device(cluster, first + d),
                                        sp_cluster_memory(cluster, first + d)};
        mesh->size[0] += shares[d];
        if (room_of(&mesh->members[d]) < room_of(&mesh->members[mesh->counted]))
            mesh->counted = d;
    }
    sp_level_resize(&option->levels[0], mesh->size[0]);
    space->option_count++;
    return option;
}
