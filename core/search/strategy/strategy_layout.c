/*
 * The mesh, layouts by number, what a device has under them, and the shardings that they are.
 */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"
#include "search/strategy/strategy_internal.h"

#define RESHARD_CACHE_BYTES ((size_t)1 << 20) /* of the planner's own; the table keeps every answer */

/* ---- the mesh --------------------------------------------------------------------------------------------------- */

/* How many of the devices along one mesh axis differ at each level of links. Where the axis does not fall together with
   levels they are taken as all behind the outermost one that they use. */
static void find_span(struct sp_strategy_table *table, uint32_t axis)
{
    const struct sp_links *links = &table->mesh.links;
    uint32_t size = table->mesh.size[axis], outermost = links->level_count;
    uint64_t below = 1, product = 1, stride = 1;
    for (uint32_t a = axis + 1; a < table->mesh.axis_count; a++)
        stride *= table->mesh.size[a];
    for (uint32_t l = links->level_count; l-- > 0;) {
        uint32_t seen = 1;
        uint64_t modulus = l == 0 ? UINT64_MAX : links->levels[l].size;
        for (uint32_t c = 1; c < size; c++) { /* coordinates begin at 0 and come round: count until the first repeats */
            uint64_t now = c * stride / below % modulus, before = (c - 1) * stride / below % modulus;
            if (now == 0 && before != 0)
                break;
            seen += now != before;
        }
        table->span[axis][l] = seen;
        product *= seen;
        outermost = seen > 1 ? l : outermost;
        below *= links->levels[l].size;
    }
    if (product == size)
        return;
    outermost = outermost < links->level_count ? outermost : 0;
    for (uint32_t l = 0; l < links->level_count; l++)
        table->span[axis][l] = l == outermost ? size : 1;
}

static enum sp_status create_axes(struct sp_strategy_table *table, const struct sp_device_order *order,
                                  struct sp_mesh **ret_mesh, struct sp_error *err)
{
    static const char *const names[SP_STRATEGY_AXES] = {"x", "y", "z", "w"};
    struct sp_mesh_axis axes[SP_STRATEGY_AXES];
    for (uint32_t a = 0; a < table->mesh.axis_count; a++)
        axes[a] = (struct sp_mesh_axis){names[a], table->mesh.size[a]};
    return sp_mesh_create(table->arena, table->mesh.axis_count, axes, order, ret_mesh, err);
}

/* Which digits of the planner of reshards each mesh axis is: those that a tensor axis has which it cuts. */
static enum sp_status find_digits(struct sp_strategy_table *table, struct sp_error *err)
{
    uint32_t next = 0, digits = sp_reshard_costs_digits(table->costs);
    for (uint32_t a = 0; a < table->mesh.axis_count; a++) {
        struct sp_axis_ref ref = sp_axis_full(table->axes, a);
        struct sp_sharding *sharding;
        struct sp_layout layout;
        enum sp_status status = sp_sharding_create_axes(table->scratch, table->axes, 1, &sharding, err);
        if (status == SP_OK) {
            sharding->dims[0].axes = (struct sp_axis_list){1, &ref};
            status = sp_layout_of(table->costs, sharding, &layout, err);
        }
        if (status != SP_OK)
            return status;
        table->first_digit[a] = next;
        while (next < digits && layout.axis[next] == 0)
            next++;
    }
    for (uint32_t a = table->mesh.axis_count; a <= SP_STRATEGY_AXES; a++)
        table->first_digit[a] = next;
    return next == digits
               ? SP_OK
               : sp_fail(err, SP_ERR_INTERNAL, "MESH_DIGITS", "The mesh of a stage has other digits than its axes.");
}

enum sp_status sp_strategy_mesh_prepare(struct sp_strategy_table *table, struct sp_error *err)
{
    struct sp_layout whole;
    uint32_t number;
    enum sp_status status = SP_OK;
    for (uint32_t a = 0; a < table->mesh.axis_count; a++)
        find_span(table, a);
    if (table->mesh.axis_count > 0)
        status = create_axes(table, NULL, &table->axes, err);
    if (status == SP_OK && table->axes != NULL)
        status = sp_reshard_costs_create_axes(sp_arena_budget(table->arena), &table->mesh.links, table->axes,
                                              RESHARD_CACHE_BYTES, &table->costs, err);
    if (status == SP_OK && table->costs != NULL)
        status = find_digits(table, err);
    if (status != SP_OK)
        return status;
    sp_strategy_cut_layout(table, &(struct sp_strategy_cut){0}, 0, &whole);
    return sp_strategy_layout_number(table, &whole, &number, err);
}

/* What the busiest member sends or receives beyond what it would of equal parts: of a gather the one with the least,
   of an exchange the one that has most to give away. */
static double unevenness(const struct sp_strategy_mesh *mesh, enum sp_collective kind)
{
    const double count = mesh->member_count, blocks = mesh->size[0];
    double most = 0;
    for (uint32_t i = 0; i < mesh->member_count; i++) {
        const double share = mesh->members[i].share / blocks;
        most = fmax(most, kind == SP_ALL_TO_ALL ? share * (1 - share) : 1 - share);
    }
    if (kind == SP_ALL_TO_ALL)
        return most / ((count - 1) / (count * count));
    return kind == SP_ALL_GATHER || kind == SP_REDUCE_SCATTER ? most / ((count - 1) / count) : 1;
}

/* Among all members. */
static double shares_collective(const struct sp_strategy_table *table, enum sp_collective kind, double bytes,
                                double *ret_bytes)
{
    const uint32_t span[SP_MAX_MESH_AXES] = {table->mesh.member_count};
    const double moved = bytes * unevenness(&table->mesh, kind);
    *ret_bytes += sp_collective_bytes(kind, table->mesh.member_count, moved);
    return sp_collective_seconds(&table->mesh.links, kind, span, moved);
}

double sp_strategy_collective(const struct sp_strategy_table *table, enum sp_collective kind, uint32_t mesh_axes,
                              double bytes, double *ret_bytes)
{
    uint32_t span[SP_MAX_MESH_AXES];
    double devices = 1;
    for (uint32_t l = 0; l < table->mesh.links.level_count; l++) {
        span[l] = 1;
        for (uint32_t a = 0; a < table->mesh.axis_count; a++)
            span[l] *= (mesh_axes >> a & 1) ? table->span[a][l] : 1;
        devices *= span[l];
    }
    if (table->mesh.member_count > 0)
        return shares_collective(table, kind, bytes, ret_bytes);
    *ret_bytes += sp_collective_bytes(kind, devices, bytes);
    return sp_collective_seconds(&table->mesh.links, kind, span, bytes);
}

/* ---- layouts ---------------------------------------------------------------------------------------------------- */

void sp_strategy_cut_layout(const struct sp_strategy_table *table, const struct sp_strategy_cut *cut, uint32_t partial,
                            struct sp_layout *ret_layout)
{
    uint32_t digits = table->first_digit[SP_STRATEGY_AXES];
    memset(ret_layout, 0, sizeof *ret_layout);
    memset(ret_layout->axis, SP_LAYOUT_REPLICATED, digits);
    for (uint32_t a = 0; a < table->mesh.axis_count; a++)
        if (partial >> a & 1)
            memset(ret_layout->axis + table->first_digit[a], SP_LAYOUT_PARTIAL,
                   table->first_digit[a + 1] - table->first_digit[a]);
    for (uint32_t i = 0; i < cut->count; i++) {
        uint8_t place = 0, mesh_axis = cut->mesh_axis[i];
        for (uint32_t d = 0; d < digits; d++)
            place += ret_layout->axis[d] == cut->tensor_axis[i];
        for (uint32_t d = table->first_digit[mesh_axis]; d < table->first_digit[mesh_axis + 1]; d++) {
            ret_layout->axis[d] = cut->tensor_axis[i];
            ret_layout->place[d] = place++;
        }
    }
}

static bool is_same_layout(const void *item, const void *key)
{
    const struct sp_strategy_layout *a = item, *b = key;
    return memcmp(&a->layout, &b->layout, sizeof a->layout) == 0;
}

bool sp_strategy_inner_axis(struct sp_strategy_table *table, uint32_t axis, int64_t before, uint8_t *ret_number)
{
    uint32_t at = 0;
    if (before == 1) {
        *ret_number = (uint8_t)axis;
        return true;
    }
    while (at < table->inner_count && (table->inner[at].axis != axis || table->inner[at].before != before))
        at++;
    if (at == SP_STRATEGY_MOST_INNER)
        return false;
    if (at == table->inner_count)
        table->inner[table->inner_count++] = (struct sp_strategy_inner){before, axis};
    *ret_number = (uint8_t)(SP_STRATEGY_INNER + at);
    return true;
}

bool sp_strategy_has_inner(const struct sp_strategy_layout *layout)
{
    return layout->cut_count > 0 && layout->axes[layout->cut_count - 1] >= SP_STRATEGY_INNER;
}

struct sp_strategy_inner sp_strategy_tensor_axis(const struct sp_strategy_table *table, uint8_t number)
{
    return number < SP_STRATEGY_INNER ? (struct sp_strategy_inner){1, number}
                                      : table->inner[number - SP_STRATEGY_INNER];
}

/* Which tensor axes are cut, and in how many shards. */
static void find_shards(const struct sp_strategy_table *table, struct sp_strategy_layout *layout)
{
    for (uint32_t a = 0; a < table->mesh.axis_count; a++) {
        uint8_t axis = layout->layout.axis[table->first_digit[a]];
        uint32_t at = 0;
        if (axis == SP_LAYOUT_REPLICATED)
            continue;
        while (at < layout->cut_count && layout->axes[at] < axis)
            at++;
        if (at == layout->cut_count || layout->axes[at] != axis) {
            for (uint32_t i = layout->cut_count; i > at; i--) {
                layout->axes[i] = layout->axes[i - 1];
                layout->shards[i] = layout->shards[i - 1];
            }
            layout->axes[at] = axis;
            layout->shards[at] = 1;
            layout->cut_count++;
        }
        layout->shards[at] *= table->mesh.size[a];
    }
}

enum sp_status sp_strategy_layout_number(struct sp_strategy_table *table, const struct sp_layout *layout,
                                         uint32_t *ret_number, struct sp_error *err)
{
    const struct sp_strategy_layout key = {.layout = *layout};
    struct sp_digest digest;
    sp_digest_begin(&digest, table->dataflow->model->hash_seed);
    sp_digest_add(&digest, layout, sizeof *layout);
    uint64_t hash = sp_digest_end(&digest);
    struct sp_strategy_layout *known = sp_hash_set_find(&table->layout_set, hash, is_same_layout, &key);
    if (known != NULL) {
        *ret_number = known->number;
        return SP_OK;
    }
    if (table->layout_count == SP_STRATEGY_LAYOUTS)
        return sp_fail_limit(err, "TOO_MANY_LAYOUTS", "SP_STRATEGY_LAYOUTS", SP_STRATEGY_LAYOUTS,
                             SP_STRATEGY_LAYOUTS + 1,
                             "The operators of the model can be laid out in more than %d ways.", SP_STRATEGY_LAYOUTS);
    if (!SP_MAKE_ROOM(table->arena, table->layouts, table->layout_count, table->layout_capacity, 1))
        return sp_fail_memory(err);
    known = SP_NEW(table->arena, struct sp_strategy_layout);
    if (known == NULL || !sp_hash_set_add(&table->layout_set, hash, known))
        return sp_fail_memory(err);
    known->layout = *layout;
    known->number = table->layout_count;
    find_shards(table, known);
    table->layouts[table->layout_count++] = known;
    *ret_number = known->number;
    return SP_OK;
}

const struct sp_layout *sp_strategy_layout(const struct sp_strategy_table *table, uint32_t layout)
{
    return &table->layouts[layout]->layout;
}

double sp_strategy_layout_share(const struct sp_strategy_table *table, const struct sp_value *value, uint32_t layout)
{
    const struct sp_strategy_layout *cut = table->layouts[layout];
    double share = 1;
    if (table->mesh.member_count > 0) /* what is cut is cut evenly in blocks */
        return cut->cut_count == 0 ? 1 : (double)table->mesh.members[table->mesh.counted].share / table->mesh.size[0];
    for (uint32_t i = 0; i < cut->cut_count; i++) {
        const struct sp_strategy_inner at = sp_strategy_tensor_axis(table, cut->axes[i]);
        int64_t shards = cut->shards[i], extent = 0;
        if (value != NULL && value->type.shape.has_rank && at.axis < value->type.shape.rank &&
            sp_dim_is_known(value->type.shape.dims[at.axis]))
            extent = value->type.shape.dims[at.axis].value;
        int64_t largest = extent / shards + 1;
        if (extent <= 0 || extent % shards == 0)
            share /= (double)shards;
        else
            share *= (double)largest / (double)extent;
    }
    return share;
}

double sp_strategy_local_bytes(const struct sp_strategy_table *table, uint32_t tensor, uint32_t layout)
{
    const struct sp_work_tensor *work = &table->workload->tensors[tensor];
    return layout == 0 ? work->bytes : work->bytes * sp_strategy_layout_share(table, work->value, layout);
}

/* ---- shardings -------------------------------------------------------------------------------------------------- */

static enum sp_status place_mesh(struct sp_strategy_table *table, int64_t first_device, struct sp_error *err)
{
    struct sp_device_order order;
    if (table->placed != NULL && table->placed_first == first_device)
        return SP_OK;
    if (table->axes == NULL)
        return sp_mesh_single(table->arena, first_device, &table->placed, err);
    if (first_device == 0) {
        table->placed = table->axes;
        return SP_OK;
    }
    int64_t *devices = SP_NEW_ARRAY(table->arena, table->device_count, int64_t);
    if (devices == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < table->device_count; i++)
        devices[i] = first_device + i;
    enum sp_status status = sp_device_order_list(table->arena, table->device_count, devices, &order, err);
    return status == SP_OK ? create_axes(table, &order, &table->placed, err) : status;
}

enum sp_status sp_strategy_axes(struct sp_strategy_table *table, struct sp_arena *arena, uint32_t rank, uint32_t layout,
                                int64_t first_device, const struct sp_sharding **ret_sharding, struct sp_error *err)
{
    const struct sp_layout *digits = &table->layouts[layout]->layout;
    struct sp_sharding *sharding;
    enum sp_status status = place_mesh(table, first_device, err);
    if (status == SP_OK) {
        table->placed_first = first_device;
        status = sp_sharding_create_axes(arena, table->placed, rank, &sharding, err);
    }
    for (uint32_t a = 0; a < rank && status == SP_OK; a++) {
        struct sp_axis_list *list = &sharding->dims[a].axes;
        uint32_t places[SP_STRATEGY_AXES];
        list->refs = SP_NEW_ARRAY(arena, SP_STRATEGY_AXES, struct sp_axis_ref);
        if (list->refs == NULL)
            return sp_fail_memory(err);
        for (uint32_t m = 0; m < table->mesh.axis_count; m++) {
            uint32_t at = list->count, place = digits->place[table->first_digit[m]];
            uint8_t axis = digits->axis[table->first_digit[m]];
            if (axis >= SP_LAYOUT_PARTIAL || sp_strategy_tensor_axis(table, axis).axis != a)
                continue;
            for (; at > 0 && places[at - 1] > place; at--) {
                places[at] = places[at - 1];
                list->refs[at] = list->refs[at - 1];
            }
            places[at] = place;
            list->refs[at] = sp_axis_full(table->placed, m);
            list->count++;
        }
    }
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}

SP_ASCENDING_NUMBERS(by_number, int64_t)

/* The members that stand on the mesh's positions, from the device of its first one on; again behind them for each
   replica. */
static enum sp_status place_members(const struct sp_strategy_table *table, struct sp_arena *arena,
                                    const struct sp_mesh *mesh, struct sp_sharding *blocks, struct sp_error *err)
{
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)blocks->shard_count + 1, uint32_t), used = 0;
    int64_t *devices = SP_NEW_ARRAY(arena, blocks->first[blocks->shard_count], int64_t);
    if (first == NULL || devices == NULL)
        return sp_fail_memory(err);
    for (int64_t shard = 0; shard < blocks->shard_count; shard++) {
        for (uint32_t i = blocks->first[shard]; i < blocks->first[shard + 1]; i++) {
            const int64_t position = sp_device_order_find(&mesh->order, blocks->devices[i]);
            const int64_t replica = position / table->mesh.size[0], block = position % table->mesh.size[0];
            uint32_t member = 0;
            for (int64_t limit = table->mesh.members[0].share; block >= limit; member++)
                limit += table->mesh.members[member + 1].share;
            devices[used++] = sp_device_order_at(&mesh->order, 0) + replica * table->mesh.member_count + member;
        }
        uint32_t kept = first[shard];
        sp_sort(devices + kept, used - kept, sizeof *devices, by_number);
        for (uint32_t i = kept; i < used; i++)
            if (kept == first[shard] || devices[kept - 1] != devices[i])
                devices[kept++] = devices[i];
        first[shard + 1] = used = kept;
    }
    blocks->first = first;
    blocks->devices = devices;
    blocks->run = SP_RUN_UNKNOWN;
    return SP_OK;
}

enum sp_status sp_strategy_refine(const struct sp_strategy_table *table, struct sp_arena *arena, uint32_t layout,
                                  const struct sp_sharding **sharding, struct sp_error *err)
{
    const struct sp_strategy_layout *cut = table->layouts[layout];
    const struct sp_mesh *mesh = (*sharding)->mesh;
    struct sp_sharding *blocks = NULL;
    int64_t devices = 0;
    if (!sp_strategy_has_inner(cut) && table->mesh.member_count == 0)
        return SP_OK;
    for (int64_t i = 0; i < mesh->order.count; i++)
        if (sp_device_order_at(&mesh->order, i) >= devices)
            devices = sp_device_order_at(&mesh->order, i) + 1;
    enum sp_status status = sp_sharding_to_blocks(arena, *sharding, (*sharding)->rank, devices, &blocks, NULL, err);
    for (uint32_t i = 0; i < cut->cut_count && status == SP_OK; i++) {
        const struct sp_strategy_inner inner = sp_strategy_tensor_axis(table, cut->axes[i]);
        struct sp_block_part *parts = SP_NEW_ARRAY(arena, 2, struct sp_block_part);
        if (inner.before == 1)
            continue;
        if (parts == NULL)
            return sp_fail_memory(err);
        parts[0] = (struct sp_block_part){inner.before, NULL, 1};
        parts[1] = (struct sp_block_part){0, NULL, sp_sharding_shards(blocks, inner.axis)};
        blocks->blocks[inner.axis] = (struct sp_block_dim){2, parts};
    }
    if (status == SP_OK && table->mesh.member_count > 0)
        status = place_members(table, arena, mesh, blocks, err);
    if (status == SP_OK)
        *sharding = blocks;
    return status;
}

enum sp_status sp_strategy_sharding(struct sp_strategy_table *table, struct sp_arena *arena, uint32_t rank,
                                    uint32_t layout, int64_t first_device, const struct sp_sharding **ret_sharding,
                                    struct sp_error *err)
{
    enum sp_status status = sp_strategy_axes(table, arena, rank, layout, first_device, ret_sharding, err);
    return status == SP_OK ? sp_strategy_refine(table, arena, layout, ret_sharding, err) : status;
}

bool sp_strategy_cuts(const struct sp_strategy_table *table, uint32_t layout, uint32_t axis)
{
    const struct sp_layout *of = sp_strategy_layout(table, layout);
    for (uint32_t a = 0; a < table->mesh.axis_count; a++) {
        const uint8_t cut = of->axis[table->first_digit[a]];
        if (cut < SP_LAYOUT_PARTIAL && sp_strategy_tensor_axis(table, cut).axis == axis)
            return true;
    }
    return false;
}
