/*
 * Layouts by number, what a device has under them, and the times of getting from one to another.
 */
#include <math.h>
#include <string.h>

#include "base/array.h"
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
    return sp_strategy_layout_number(table, &whole, &(struct sp_strategy_inner){0}, &number, err);
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
    return memcmp(&a->layout, &b->layout, sizeof a->layout) == 0 && a->inner.before == b->inner.before &&
           a->inner.axis == b->inner.axis;
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
                                         const struct sp_strategy_inner *inner, uint32_t *ret_number,
                                         struct sp_error *err)
{
    const struct sp_strategy_layout key = {.layout = *layout, .inner = *inner};
    struct sp_digest digest;
    sp_digest_begin(&digest, table->dataflow->model->hash_seed);
    sp_digest_add(&digest, layout, sizeof *layout);
    sp_digest_add(&digest, inner, sizeof *inner);
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
    known->inner = *inner;
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
    for (uint32_t i = 0; i < cut->cut_count; i++) {
        int64_t shards = cut->shards[i], extent = 0;
        if (value != NULL && value->type.shape.has_rank && cut->axes[i] < value->type.shape.rank &&
            sp_dim_is_known(value->type.shape.dims[cut->axes[i]]))
            extent = value->type.shape.dims[cut->axes[i]].value;
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

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static bool is_same_shape(const void *item, const void *key)
{
    const struct sp_strategy_shape *a = item, *b = key;
    return a->rank == b->rank && a->element_bytes == b->element_bytes && (a->extents == NULL) == (b->extents == NULL) &&
           (a->extents == NULL || a->rank == 0 || memcmp(a->extents, b->extents, a->rank * sizeof *a->extents) == 0);
}

enum sp_status sp_strategy_shape_of(struct sp_strategy_table *table, uint32_t tensor,
                                    const struct sp_strategy_shape **ret_shape, struct sp_error *err)
{
    const struct sp_work_tensor *work = &table->workload->tensors[tensor];
    const struct sp_shape *shape = work->value != NULL ? &work->value->type.shape : NULL;
    int64_t extents[SP_MAX_RANK], elements = shape != NULL ? sp_shape_elements(shape) : -1;
    struct sp_strategy_shape key = {0}, *known;
    struct sp_digest digest;
    *ret_shape = table->shape_of[tensor];
    if (*ret_shape != NULL)
        return SP_OK;
    if (elements > 0 && shape->rank <= SP_MAX_RANK) {
        for (uint32_t a = 0; a < shape->rank; a++)
            extents[a] = shape->dims[a].value;
        key = (struct sp_strategy_shape){0, shape->rank, extents, work->bytes / (double)elements};
    }
    sp_digest_begin(&digest, table->dataflow->model->hash_seed);
    sp_digest_number(&digest, key.rank);
    sp_digest_add(&digest, &key.element_bytes, sizeof key.element_bytes);
    sp_digest_add(&digest, extents, key.extents != NULL ? key.rank * sizeof *extents : 0);
    uint64_t hash = sp_digest_end(&digest);
    known = sp_hash_set_find(&table->shape_set, hash, is_same_shape, &key);
    if (known == NULL) {
        int64_t *kept = SP_NEW_ARRAY(table->arena, key.rank, int64_t);
        known = SP_NEW(table->arena, struct sp_strategy_shape);
        if (kept == NULL || known == NULL || !sp_hash_set_add(&table->shape_set, hash, known))
            return sp_fail_memory(err);
        if (key.rank > 0)
            memcpy(kept, extents, key.rank * sizeof *kept);
        *known = key;
        known->extents = key.extents != NULL ? kept : NULL;
        known->number = ++table->shape_count;
    }
    *ret_shape = table->shape_of[tensor] = known;
    return SP_OK;
}

/* ---- reshards --------------------------------------------------------------------------------------------------- */

/* A reshard up to the names of tensor axes: where all cuts are even, its cost follows from the tensor's bytes. */
struct question {
    double tensor_bytes;
    struct sp_layout from, to;
};

struct answer {
    struct question question;
    double seconds, bytes;
};

static bool is_same_question(const void *item, const void *key)
{
    const struct question *a = &((const struct answer *)item)->question, *b = key;
    return a->tensor_bytes == b->tensor_bytes && memcmp(&a->from, &b->from, sizeof a->from) == 0 &&
           memcmp(&a->to, &b->to, sizeof a->to) == 0;
}

/* Renames tensor axes by their first place among the digits; `names` are of axes, 0: none yet. */
static void rename_axes(uint32_t digits, struct sp_layout *layout, uint8_t names[SP_MAX_RANK], uint8_t *count)
{
    for (uint32_t d = 0; d < digits; d++) {
        uint8_t axis = layout->axis[d];
        if (axis >= SP_MAX_RANK)
            continue;
        if (names[axis] == 0)
            names[axis] = ++*count;
        layout->axis[d] = names[axis] - 1;
    }
}

static bool is_even(const struct sp_strategy_layout *layout, const struct sp_strategy_shape *shape)
{
    for (uint32_t i = 0; i < layout->cut_count; i++)
        if (layout->axes[i] >= shape->rank || shape->extents[layout->axes[i]] % layout->shards[i] != 0)
            return false;
    return true;
}

/* Asks for a tensor of the same bytes in which every cut is even, so that equal questions have equal answers. */
static bool ask(struct sp_strategy_table *table, const struct sp_strategy_shape *shape,
                const struct sp_strategy_layout *from, const struct sp_strategy_layout *to, double *ret_seconds,
                double *ret_bytes)
{
    uint8_t names[SP_MAX_RANK] = {0}, count = 0;
    int64_t extents[SP_MAX_RANK];
    struct question question;
    struct sp_digest digest;
    memset(&question, 0, sizeof question);
    question = (struct question){shape->element_bytes, from->layout, to->layout};
    for (uint32_t a = 0; a < shape->rank; a++)
        question.tensor_bytes *= (double)shape->extents[a];
    rename_axes(table->first_digit[SP_STRATEGY_AXES], &question.from, names, &count);
    rename_axes(table->first_digit[SP_STRATEGY_AXES], &question.to, names, &count);
    sp_digest_begin(&digest, table->dataflow->model->hash_seed);
    sp_digest_add(&digest, &question, sizeof question);
    uint64_t hash = sp_digest_end(&digest);
    struct answer *known = sp_hash_set_find(&table->answer_set, hash, is_same_question, &question);
    if (known == NULL) {
        double element_bytes = question.tensor_bytes;
        known = SP_NEW(table->arena, struct answer);
        if (known == NULL || !sp_hash_set_add(&table->answer_set, hash, known))
            return false;
        for (uint32_t a = 0; a < count; a++) {
            extents[a] = table->device_count;
            element_bytes /= table->device_count;
        }
        known->question = question;
        known->seconds =
            sp_reshard_cost(table->costs, count, extents, element_bytes, &question.from, &question.to, &known->bytes);
    }
    *ret_seconds = known->seconds;
    *ret_bytes = known->bytes;
    return true;
}

double sp_strategy_reshard(struct sp_strategy_table *table, uint32_t tensor, uint32_t from, uint32_t to,
                           double *ret_bytes)
{
    const struct sp_strategy_layout *before = table->layouts[from], *after = table->layouts[to];
    const struct sp_strategy_shape *shape;
    *ret_bytes = 0;
    if (from == to)
        return 0;
    if (sp_strategy_shape_of(table, tensor, &shape, NULL) != SP_OK || shape->extents == NULL)
        return INFINITY;
    uint64_t key = (uint64_t)shape->number << 40 | (uint64_t)from << 20 | to;
    const struct sp_hash_slot *slot = sp_hash_map_get(&table->reshards, key);
    struct sp_strategy_reshard *reshard = slot != NULL ? slot->item : SP_NEW(table->arena, struct sp_strategy_reshard);
    if (reshard == NULL)
        return INFINITY;
    if (slot == NULL) {
        if (!is_even(before, shape) || !is_even(after, shape))
            reshard->seconds = sp_reshard_cost(table->costs, shape->rank, shape->extents, shape->element_bytes,
                                               &before->layout, &after->layout, &reshard->bytes);
        else if (!ask(table, shape, before, after, &reshard->seconds, &reshard->bytes))
            return INFINITY;
        if (!sp_hash_set_add(&table->reshards, key, reshard))
            return INFINITY;
    }
    *ret_bytes = reshard->bytes;
    return reshard->seconds;
}

double sp_strategy_reshard_seconds(struct sp_strategy_table *table, uint32_t tensor, uint32_t from, uint32_t to)
{
    double bytes;
    return sp_strategy_reshard(table, tensor, from, to, &bytes);
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
            if (digits->axis[table->first_digit[m]] != a)
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

enum sp_status sp_strategy_refine(const struct sp_strategy_table *table, struct sp_arena *arena, uint32_t layout,
                                  const struct sp_sharding **sharding, struct sp_error *err)
{
    const struct sp_strategy_inner *inner = &table->layouts[layout]->inner;
    const struct sp_mesh *mesh = (*sharding)->mesh;
    struct sp_sharding *blocks = NULL;
    int64_t devices = 0;
    if (inner->before == 0)
        return SP_OK;
    for (int64_t i = 0; i < mesh->order.count; i++)
        if (sp_device_order_at(&mesh->order, i) >= devices)
            devices = sp_device_order_at(&mesh->order, i) + 1;
    enum sp_status status = sp_sharding_to_blocks(arena, *sharding, (*sharding)->rank, devices, &blocks, NULL, err);
    struct sp_block_part *parts = SP_NEW_ARRAY(arena, 2, struct sp_block_part);
    if (status != SP_OK || parts == NULL)
        return status != SP_OK ? status : sp_fail_memory(err);
    parts[0] = (struct sp_block_part){inner->before, NULL, 1};
    parts[1] = (struct sp_block_part){0, NULL, sp_sharding_shards(blocks, (uint32_t)inner->axis)};
    blocks->blocks[inner->axis] = (struct sp_block_dim){2, parts};
    *sharding = blocks;
    return SP_OK;
}

enum sp_status sp_strategy_sharding(struct sp_strategy_table *table, struct sp_arena *arena, uint32_t rank,
                                    uint32_t layout, int64_t first_device, const struct sp_sharding **ret_sharding,
                                    struct sp_error *err)
{
    enum sp_status status = sp_strategy_axes(table, arena, rank, layout, first_device, ret_sharding, err);
    return status == SP_OK ? sp_strategy_refine(table, arena, layout, ret_sharding, err) : status;
}
