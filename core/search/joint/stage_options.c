#include "search/joint/unequal/unequal.h"

#include <assert.h>
#include <string.h>

/* ---- classes ---------------------------------------------------------------------------------------------------- */

static bool same_class(const struct sp_workload *workload, const struct sp_cluster *cluster, uint32_t a, uint32_t b)
{
    return workload->kind_of[a] == workload->kind_of[b] && sp_cluster_room(cluster, a) == sp_cluster_room(cluster, b);
}

static enum sp_status find_classes(struct sp_arena *arena, const struct sp_workload *workload, struct sp_space *space,
                                   struct sp_error *err)
{
    const struct sp_cluster *cluster = space->cluster;
    uint32_t count = 1;
    for (uint32_t d = 1; d < cluster->device_count; d++)
        count += !same_class(workload, cluster, d - 1, d);
    space->classes = SP_NEW_ARRAY(arena, (size_t)count + SP_SPACE_MAX_UNEQUAL, struct sp_space_class);
    if (space->classes == NULL)
        return sp_fail_memory(err);
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        if (d == 0 || !same_class(workload, cluster, d - 1, d))
            space->classes[space->class_count++] = (struct sp_space_class){
                .first = d, .kind = workload->kind_of[d], .capacity = sp_cluster_room(cluster, d)};
        space->classes[space->class_count - 1].count++;
    }
    for (uint32_t c = 0; c < count; c++) {
        space->classes[c].whole_first = space->classes[c].first;
        space->classes[c].whole_count = space->classes[c].count;
    }
    space->equal_count = count;
    return SP_OK;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* In how many parts of `inner` places each so many devices are; 0: not as many in each. Places ascend. */
static uint32_t count_parts(const uint32_t *place, uint32_t count, uint64_t inner)
{
    uint32_t parts = 1;
    for (uint32_t d = 1; d < count; d++)
        parts += place[d] / inner != place[d - 1] / inner;
    for (uint32_t d = 0; d < count; d++) {
        if (count % parts != 0 || place[d] / inner != place[d - d % (count / parts)] / inner)
            return 0;
    }
    return parts;
}

/* The same where not every place is taken: as many devices in each part of a level, and the parts within the outermost
   one whole. */
static uint32_t placed_levels(const struct sp_cluster *cluster, uint32_t first, uint32_t count,
                              struct sp_mesh_level *ret_levels)
{
    const uint32_t *place = cluster->place + first, last = first + count - 1;
    uint64_t inner = 1;
    uint32_t used = 0, parts = count;
    struct sp_mesh_level levels[SP_SPACE_LEVELS]; /* innermost first */
    for (uint32_t l = cluster->level_count; l-- > 0 && parts > 1;) {
        const uint64_t outer = inner * cluster->levels[l].size;
        const uint32_t fewer = count_parts(place, count, outer);
        if (fewer == 0 || parts % fewer != 0)
            return UINT32_MAX;
        if (fewer == 1 && ((first > 0 && place[-1] / inner == place[0] / inner) ||
                           (last + 1 < cluster->device_count && place[count] / inner == place[count - 1] / inner)))
            return UINT32_MAX;
        levels[used] = cluster->levels[l];
        sp_level_resize(&levels[used], parts / fewer);
        used += parts > fewer;
        parts = fewer;
        inner = outer;
    }
    for (uint32_t l = 0; l < used; l++)
        ret_levels[l] = levels[used - 1 - l];
    return used;
}

/* The links inside of devices first .. first + count - 1; how many levels, or UINT32_MAX where the block is not a whole
   part, or equal whole parts, of one level. */
static uint32_t block_levels(const struct sp_cluster *cluster, uint32_t first, uint32_t count,
                             struct sp_mesh_level *ret_levels)
{
    const uint32_t level_count = cluster->level_count;
    uint64_t inner[SP_SPACE_LEVELS + 1];
    uint32_t outermost;
    if (count == 1)
        return 0;
    if (level_count > SP_SPACE_LEVELS)
        return UINT32_MAX;
    if (cluster->place != NULL)
        return placed_levels(cluster, first, count, ret_levels);
    inner[level_count] = 1;
    for (uint32_t l = level_count; l-- > 0;)
        inner[l] = inner[l + 1] * cluster->levels[l].size;
    outermost = sp_links_between(&(struct sp_links){level_count, cluster->levels}, first, (int64_t)first + count - 1);
    if (outermost >= level_count || first % inner[outermost + 1] != 0 || count % inner[outermost + 1] != 0)
        return UINT32_MAX;
    uint32_t used = 0;
    for (uint32_t l = outermost; l < level_count; l++) {
        ret_levels[used] = cluster->levels[l];
        if (l == outermost)
            sp_level_resize(&ret_levels[used], (uint32_t)(count / inner[l + 1]));
        used += ret_levels[used].size > 1;
    }
    return used;
}

static bool same_levels(const struct sp_mesh_level *a, uint32_t a_count, const struct sp_mesh_level *b,
                        uint32_t b_count)
{
    if (a_count != b_count)
        return false;
    for (uint32_t l = 0; l < a_count; l++) {
        if (a[l].size != b[l].size || a[l].bandwidth != b[l].bandwidth || a[l].latency != b[l].latency ||
            a[l].forms != b[l].forms)
            return false;
    }
    return true;
}

bool sp_space_is_block(const struct sp_space *space, const struct sp_space_option *option, uint32_t first)
{
    struct sp_mesh_level levels[SP_SPACE_LEVELS];
    const uint32_t count = block_levels(space->cluster, first, option->size, levels);
    return count <= SP_SPACE_LEVELS && same_levels(levels, count, option->levels, option->mesh.links.level_count);
}

/* Whether the option's blocks may stand there: the same links inside, and begun at a multiple of their own size within
   the part of the level, so that blocks of several sizes tile a class. */
static bool may_begin(const struct sp_space *space, const struct sp_space_option *option, uint32_t first)
{
    const struct sp_space_class *class = &space->classes[option->class_index];
    if (option->mesh.member_count > 0)
        return (first - class->first) % option->size == 0;
    if ((first - class->first) % option->size != 0 && option->size > 1 && class->count % option->size == 0)
        return false;
    return sp_space_is_block(space, option, first);
}

uint32_t sp_space_place(const struct sp_space *space, const struct sp_space_option *option, uint32_t blocks,
                        uint32_t from)
{
    const struct sp_space_class *class = &space->classes[option->class_index];
    const uint64_t end = (uint64_t) class->first + class->count, whole = (uint64_t)blocks * option->size;
    if (from < class->first)
        from = class->first;
    for (uint64_t first = from; first + whole <= end; first++) {
        uint32_t fitting = 0;
        while (fitting < blocks && may_begin(space, option, (uint32_t)(first + (uint64_t)fitting * option->size)))
            fitting++;
        if (fitting == blocks)
            return (uint32_t)first;
    }
    return UINT32_MAX;
}

/* ---- meshes ----------------------------------------------------------------------------------------------------- */

#define CUT_LEVEL 8 /* an innermost level of this size or more is two axes, the minor one of MINOR devices or the */
#define MINOR     4 /* largest divisor below */

static uint32_t minor_part(uint32_t size)
{
    for (uint32_t part = MINOR; part > 1; part--) {
        if (size % part == 0)
            return part;
    }
    return 1;
}

/* One axis per level; levels beyond the axes there are become one with the next. */
static void make_mesh(struct sp_space_option *option)
{
    struct sp_strategy_mesh *mesh = &option->mesh;
    const uint32_t levels = mesh->links.level_count;
    const uint32_t innermost = levels == 0 ? 0 : option->levels[levels - 1].size;
    const uint32_t minor = innermost >= CUT_LEVEL ? minor_part(innermost) : 1;
    const uint32_t room = SP_STRATEGY_AXES - 1 - (minor > 1);
    uint32_t merged = 1;
    mesh->axis_count = 0;
    for (uint32_t l = 0; l < levels; l++) {
        merged *= option->levels[l].size / (l + 1 == levels ? minor : 1);
        if (l + 1 < levels && levels - l > room)
            continue;
        if (merged > 1)
            mesh->size[mesh->axis_count++] = merged;
        merged = 1;
    }
    if (minor > 1)
        mesh->size[mesh->axis_count++] = minor;
}

/* Whether one of the mesh's axes ends `cut` devices from the innermost. */
static bool ends_axis(const struct sp_strategy_mesh *mesh, uint32_t cut)
{
    uint32_t inner = 1;
    for (uint32_t a = mesh->axis_count; a-- > 0 && inner < cut;)
        inner *= mesh->size[a];
    return inner == cut;
}

/* Whether the links divide a part of so many devices evenly, and it them. */
static bool follows_levels(const struct sp_space_option *option, uint32_t cut)
{
    uint32_t inner = 1;
    for (uint32_t l = option->mesh.links.level_count; l-- > 0;) {
        inner *= option->levels[l].size;
        if (inner % cut != 0 && cut % inner != 0)
            return false;
    }
    return option->size % cut == 0;
}

uint32_t sp_space_cuts(const struct sp_space_option *option, uint32_t ret_cuts[SP_SPACE_CUTS])
{
    uint32_t count = 0;
    for (uint32_t cut = 2; option->mesh.member_count == 0 && cut <= option->size / 2 && count < SP_SPACE_CUTS; cut++) {
        if (follows_levels(option, cut) && !ends_axis(&option->mesh, cut))
            ret_cuts[count++] = cut;
    }
    return count;
}

#define ROOMY 2 /* devices with room for so many times the model keep weights as nodes read them */

/* ---- options ---------------------------------------------------------------------------------------------------- */

static void add_option(struct sp_space *space, uint32_t class_index, uint32_t size)
{
    const struct sp_space_class *class = &space->classes[class_index];
    struct sp_space_option *option = &space->options[space->option_count];
    if (space->option_count == SP_SPACE_MAX_OPTIONS || size > class->count)
        return;
    for (uint32_t first = class->first; first + size <= class->first + class->count; first++) {
        memset(option, 0, sizeof *option);
        const uint32_t levels = block_levels(space->cluster, first, size, option->levels);
        if (levels == UINT32_MAX)
            continue;
        option->class_index = class_index;
        option->size = size;
        option->mesh.links = (struct sp_links){levels, option->levels};
        option->mesh.cluster = space->cluster;
        option->mesh.device = sp_cluster_device(space->cluster, class->first);
        option->mesh.kind = class->kind;
        make_mesh(option);
        space->option_count++;
        return;
    }
}

static bool is_power_of_two(uint32_t value)
{
    return (value & (value - 1)) == 0;
}

/* Sizes that are parts of a level: divisors and powers of two of it, times everything inside. */
static void add_options(struct sp_space *space, uint32_t class_index, uint32_t largest)
{
    const struct sp_cluster *cluster = space->cluster;
    const uint32_t count = space->classes[class_index].count;
    uint64_t inner = 1;
    add_option(space, class_index, 1);
    for (uint32_t l = cluster->level_count; l-- > 0;) {
        const uint32_t size = cluster->levels[l].size;
        assert(size > 0);
        const uint32_t most = count / inner < size ? (uint32_t)(count / inner) : size;
        for (uint32_t part = 2; part <= most && inner * part <= largest; part++) {
            if (most % part == 0 || size % part == 0 || is_power_of_two(part))
                add_option(space, class_index, (uint32_t)(inner * part));
        }
        inner *= size;
        if (inner > count)
            break;
    }
}

const struct sp_space_option *sp_space_add_mesh(struct sp_space *space, const struct sp_space_option *option,
                                                uint32_t cut)
{
    struct sp_space_option *further = &space->options[space->option_count];
    if (space->option_count == SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES)
        return NULL;
    *further = *option;
    further->is_further = true;
    further->mesh.links.levels = further->levels;
    further->mesh.axis_count = 2;
    further->mesh.size[0] = option->size / cut;
    further->mesh.size[1] = cut;
    space->option_count++;
    return further;
}

enum sp_status sp_space_create(struct sp_arena *arena, const struct sp_workload *workload,
                               const struct sp_cluster *cluster, uint32_t largest, struct sp_space **ret_space,
                               struct sp_error *err)
{
    struct sp_space *space = SP_NEW(arena, struct sp_space);
    if (space == NULL)
        return sp_fail_memory(err);
    space->cluster = cluster;
    space->options = SP_NEW_ARRAY(arena, SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES, struct sp_space_option);
    if (space->options == NULL)
        return sp_fail_memory(err);
    enum sp_status status = find_classes(arena, workload, space, err);
    for (uint32_t i = 0; status == SP_OK && i < space->class_count; i++)
        add_options(space, i, largest);
    for (uint32_t i = 0; i < space->option_count; i++) {
        struct sp_space_option *option = &space->options[i];
        option->mesh.gathers = ROOMY * workload->weight_bytes > space->classes[option->class_index].capacity;
    }
    if (status == SP_OK)
        *ret_space = space;
    return status;
}

double sp_space_capacity(const struct sp_space *space, const struct sp_space_option *option)
{
    const struct sp_strategy_mesh *mesh = &option->mesh;
    return mesh->member_count > 0 ? mesh->members[mesh->counted].capacity
                                  : space->classes[option->class_index].capacity;
}

static bool is_named(const struct sp_space *space, const char *level)
{
    for (uint32_t f = 0; f < space->forbidden_count; f++)
        if (strcmp(level, space->forbidden[f]) == 0)
            return true;
    return false;
}

bool sp_space_is_forbidden(const struct sp_space *space, const struct sp_mesh_level *link)
{
    const struct sp_cluster *cluster = space->cluster;
    for (; link < cluster->levels + cluster->level_count; link++)
        if (link->size > 1 && is_named(space, link->name))
            return true;
    return false;
}

void sp_space_forbid(struct sp_space *space, uint32_t count, const char *const *names)
{
    uint32_t kept = 0;
    space->forbidden_count = count;
    space->forbidden = names;
    for (uint32_t i = 0; i < space->option_count; i++) {
        const struct sp_space_option *option = &space->options[i];
        bool spans = false;
        for (uint32_t l = 0; l < option->mesh.links.level_count && !spans; l++)
            spans = is_named(space, option->levels[l].name);
        if (spans)
            continue;
        if (kept < i) {
            space->options[kept] = *option;
            space->options[kept].mesh.links.levels = space->options[kept].levels;
        }
        kept++;
    }
    space->option_count = kept;
}
