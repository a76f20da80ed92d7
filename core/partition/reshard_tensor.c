/*
 * Bringing a tensor to where it is needed.
 *
 * What comes from outside (model inputs, weights) and what is known is cut to measure on each device, unless it is said
 * how it is stored. Of that, and of what a node made, a device takes what it has already, or cuts it from what it has;
 * else the tensor is resharded from how it was made, in the cheapest way (sharding/reshard/reshard.h), or sent in
 * pieces where no sharding says what is needed.
 */
#include <string.h>

#include "base/limits.h"
#include "base/sorted.h"
#include "partition/partition_internal.h"

/* ---- what is there already -------------------------------------------------------------------------------------- */

static const struct sp_piece *piece_on(const struct sp_part_held *held, int64_t device, const struct sp_box *box)
{
    uint32_t at;
    SP_LOWER_BOUND(at, held->count, held->devices[at] < device);
    if (at == held->count || held->devices[at] != device || !sp_box_equal(&held->boxes[at], box))
        return NULL;
    return held->pieces[at];
}

/* The pieces that are there under any of the ways in which the tensor is; false where some device lacks its piece. */
static bool find_pieces(const struct sp_part_tensor *tensor, const struct sp_part_target *target,
                        const struct sp_piece **ret_pieces)
{
    bool has_all = true;
    for (uint32_t i = 0; i < target->count; i++) {
        ret_pieces[i] = NULL;
        for (const struct sp_part_held *held = tensor->first; held != NULL && ret_pieces[i] == NULL; held = held->next)
            ret_pieces[i] = piece_on(held, target->devices[i], &target->boxes[i]);
        has_all = has_all && (ret_pieces[i] != NULL || sp_box_is_nothing(&target->boxes[i]));
    }
    return has_all;
}

/* ---- from other devices ----------------------------------------------------------------------------------------- */

/* What an exchange of a value's pieces is of. */
static enum sp_status start_exchange(struct sp_partitioner *part, const struct sp_value *value, enum sp_collective kind,
                                     const struct sp_part_target *target, struct sp_exchange *ret_exchange)
{
    uint32_t rank = sp_part_rank(value);
    int64_t *shape = SP_NEW_ARRAY(part->scratch, rank, int64_t);
    if (shape == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t a = 0; a < rank; a++)
        shape[a] = sp_part_extent(value, a);
    *ret_exchange = (struct sp_exchange){.kind = kind,
                                         .dtype = value->type.dtype,
                                         .rank = rank,
                                         .shape = shape,
                                         .value = value,
                                         .node = target->node,
                                         .purpose = target->purpose,
                                         .from = sp_part_tensor(part, value)->first->sharding,
                                         .goal = target->goal};
    return SP_OK;
}

SP_ASCENDING(compare_members, struct sp_exchange_member, group, device)

/* Which group of a step a device is in: devices that differ along the step's axes only are together. */
static uint32_t group_of(const struct sp_reshard_step *step, int64_t device)
{
    const struct sp_mesh *mesh = step->before->kind == SP_SHARDING_AXES ? step->before->mesh : NULL;
    if (mesh == NULL || step->axes.count == 0 || mesh->axis_count == 0)
        return 0;
    int64_t position = sp_device_order_find(&mesh->order, device);
    if (position < 0)
        return 0;
    for (uint32_t i = 0; i < step->axes.count; i++) {
        struct sp_axis_ref ref = step->axes.refs[i];
        int64_t stride = mesh->axes[ref.axis].size / (ref.pre * ref.size);
        for (uint32_t a = ref.axis + 1; a < mesh->axis_count; a++)
            stride *= mesh->axes[a].size;
        position -= sp_axis_coordinate(mesh, ref, position) * stride;
    }
    return (uint32_t)position;
}

static int compare_boxes(const struct sp_box *a, const struct sp_box *b)
{
    for (uint32_t i = 0; i < a->rank && i < b->rank; i++) {
        int64_t left = a->axes[i].count > 0 ? a->axes[i].ranges[0].start : -1;
        int64_t right = b->axes[i].count > 0 ? b->axes[i].ranges[0].start : -1;
        if (left != right)
            return left < right ? -1 : 1;
    }
    return 0;
}

/* In order of groups, within a group by where pieces lie, and by device where they are alike. */
static int compare_gathered(const void *a, const void *b)
{
    const struct sp_exchange_member *left = a, *right = b;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    if (left->before != NULL && right->before != NULL) {
        int order = compare_boxes(&left->held, &right->held);
        if (order != 0)
            return order;
    }
    return compare_members(a, b);
}

static const struct sp_piece *piece_of(const struct sp_part_held *held, int64_t device, struct sp_box *ret_box)
{
    for (uint32_t i = 0; i < held->count; i++)
        if (held->devices[i] == device) {
            *ret_box = held->boxes[i];
            return held->pieces[i];
        }
    return NULL;
}

static uint32_t number_groups(struct sp_exchange_member *members, uint32_t count)
{
    uint32_t groups = 0;
    for (uint32_t i = 0, previous = 0; i < count; i++) {
        uint32_t own = members[i].group;
        groups += i == 0 || own != previous;
        previous = own;
        members[i].group = groups - 1;
    }
    return groups;
}

/* One exchange from how a tensor is held to the target; what comes out is held too. `step` may be NULL. */
static enum sp_status exchange_to(struct sp_partitioner *part, const struct sp_value *value,
                                  const struct sp_part_held *from, const struct sp_part_target *target,
                                  const struct sp_reshard_step *step, enum sp_collective kind,
                                  const struct sp_piece **ret_pieces)
{
    struct sp_exchange exchange;
    uint32_t count = 0;
    enum sp_status status = start_exchange(part, value, kind, target, &exchange);
    struct sp_exchange_member *members =
        SP_NEW_ARRAY(part->scratch, (size_t)from->count + target->count, struct sp_exchange_member);
    if (status != SP_OK || members == NULL)
        return status != SP_OK ? status : sp_fail_memory(part->err);
    for (uint32_t i = 0; i < target->count; i++) {
        struct sp_exchange_member *member = &members[count];
        member->device = target->devices[i];
        member->group = step != NULL ? group_of(step, member->device) : 0;
        member->before = piece_of(from, member->device, &member->held);
        member->needed = target->boxes[i];
        if (!sp_box_is_empty(&target->boxes[i])) {
            struct sp_piece *after =
                sp_part_piece(part, value->name, member->device, value->type.dtype, &target->boxes[i]);
            if (after == NULL)
                return sp_fail_memory(part->err);
            member->after = after;
        }
        ret_pieces[i] = member->after;
        count += member->before != NULL || member->after != NULL;
    }
    for (uint32_t i = 0; i < from->count; i++) { /* devices that only give */
        bool is_there = false;
        for (uint32_t j = 0; j < target->count && !is_there; j++)
            is_there = target->devices[j] == from->devices[i];
        if (is_there || from->pieces[i] == NULL)
            continue;
        members[count++] = (struct sp_exchange_member){.device = from->devices[i],
                                                       .group = step != NULL ? group_of(step, from->devices[i]) : 0,
                                                       .before = from->pieces[i],
                                                       .held = from->boxes[i]};
    }
    qsort(members, count, sizeof *members,
          kind == SP_ALL_GATHER || kind == SP_ALL_TO_ALL ? compare_gathered : compare_members);
    exchange.members = members;
    exchange.member_count = count;
    exchange.group_count = number_groups(members, count);
    return sp_part_exchange(part, &exchange);
}

static enum sp_status keep(struct sp_partitioner *part, const struct sp_value *value,
                           const struct sp_part_target *target, const struct sp_piece *const *pieces)
{
    const struct sp_piece **kept = SP_NEW_ARRAY(part->arena, target->count, const struct sp_piece *);
    struct sp_box *boxes = SP_NEW_ARRAY(part->arena, target->count, struct sp_box);
    int64_t *devices = SP_NEW_ARRAY(part->arena, target->count, int64_t);
    if (kept == NULL || boxes == NULL || devices == NULL)
        return sp_fail_memory(part->err);
    memcpy(kept, pieces, target->count * sizeof(const struct sp_piece *));
    memcpy(boxes, target->boxes, target->count * sizeof *boxes);
    memcpy(devices, target->devices, target->count * sizeof *devices);
    return sp_part_hold(part, value, target->sharding, target->count, devices, kept, boxes);
}

/* Whether each device can cut its piece out of the one that it has there. */
static bool holds_all(const struct sp_part_held *held, const struct sp_part_target *target)
{
    for (uint32_t i = 0; i < target->count; i++) {
        struct sp_box box;
        const struct sp_piece *piece = piece_of(held, target->devices[i], &box);
        if (sp_box_is_empty(&target->boxes[i]))
            continue;
        if (piece == NULL)
            return false;
        for (uint32_t a = 0; a < box.rank; a++)
            for (uint32_t r = 0; r < target->boxes[i].axes[a].count; r++) {
                struct sp_range range = target->boxes[i].axes[a].ranges[r];
                bool is_inside = false;
                for (uint32_t j = 0; j < box.axes[a].count && !is_inside; j++)
                    is_inside = range.start >= box.axes[a].ranges[j].start &&
                                ((range.limit >= 0 && range.limit <= box.axes[a].ranges[j].limit) ||
                                 range.limit == box.axes[a].ranges[j].limit);
                if (!is_inside)
                    return false;
            }
    }
    return true;
}

/* Whether a step on the way cuts an axis whose extent is not known: its pieces could not be told. */
static bool cuts_unknown(const struct sp_value *value, const struct sp_reshard *way)
{
    for (uint32_t s = 0; s < way->step_count; s++)
        for (uint32_t a = 0; a < sp_part_rank(value); a++)
            if (sp_part_extent(value, a) < 0 && sp_sharding_shards(way->steps[s].after, a) > 1)
                return true;
    return false;
}

static enum sp_status search_way(struct sp_partitioner *part, const struct sp_value *value, const int64_t *shape,
                                 const struct sp_sharding *from, const struct sp_sharding *to,
                                 struct sp_reshard **ret_reshard)
{
    struct sp_view_cache *cache = part->assignment.cache;
    struct sp_error ignored = {0};
    struct sp_reshard_request request = {.links = &part->links,
                                         .rank = sp_part_rank(value),
                                         .shape = shape,
                                         .dtype = value->type.dtype,
                                         .from = from,
                                         .to = to,
                                         .device_count = part->assignment.device_count,
                                         .counts_transfers = true,
                                         .steps_left = sp_view_cache_ways_left(cache)};
    enum sp_status status = sp_reshard_plan(sp_view_cache_arena(cache), &request, ret_reshard, &ignored);
    if (status == SP_OK || status == SP_ERR_LIMIT || status == SP_ERR_REQUEST || status == SP_ERR_UNSUPPORTED) {
        if (status != SP_OK || cuts_unknown(value, *ret_reshard))
            *ret_reshard = NULL;
        return SP_OK;
    }
    if (part->err != NULL)
        *part->err = ignored;
    return status;
}

/* The way of a reshard, which every partition of the assignment goes: what may be searched for is less with each search,
   and the models of all devices must exchange the same pieces. */
struct known_way {
    struct sp_reshard *way; /* NULL: none */
};

static enum sp_status plan_way(struct sp_partitioner *part, const struct sp_value *value,
                               const struct sp_sharding *from, const struct sp_sharding *to,
                               struct sp_reshard **ret_reshard)
{
    int64_t shape[SP_MAX_RANK];
    uint32_t rank = sp_part_rank(value);
    struct sp_view_cache *cache = part->assignment.cache;
    struct sp_view_cache_key key = sp_view_cache_key(part->scratch, SP_CACHE_RESHARD);
    uint64_t unknown = 0; /* axes that no step may cut */
    *ret_reshard = NULL;
    for (uint32_t a = 0; a < rank; a++) {
        shape[a] = sp_part_extent(value, a);
        unknown |= shape[a] < 0 ? UINT64_C(1) << a : 0;
        if (shape[a] < 0 && (sp_sharding_shards(from, a) > 1 || sp_sharding_shards(to, a) > 1))
            return SP_OK;
        shape[a] = shape[a] < 0 ? 1 : shape[a];
    }
    const int64_t dtype = value->type.dtype;
    sp_view_cache_key_add(&key, &from, sizeof from);
    sp_view_cache_key_add(&key, &to, sizeof to);
    sp_view_cache_key_add(&key, &dtype, sizeof dtype);
    sp_view_cache_key_add(&key, shape, rank * sizeof *shape);
    sp_view_cache_key_add(&key, &unknown, sizeof unknown);
    for (uint32_t l = 0; l < part->links.level_count; l++) {
        const struct sp_mesh_level *level = &part->links.levels[l];
        const double numbers[] = {level->size, level->bandwidth, level->latency};
        sp_view_cache_key_add(&key, numbers, sizeof numbers);
    }
    if (key.is_broken)
        return sp_fail_memory(part->err);
    struct known_way *known = sp_view_cache_get(cache, &key);
    if (known != NULL) {
        *ret_reshard = known->way;
        return SP_OK;
    }
    enum sp_status status = search_way(part, value, shape, from, to, ret_reshard);
    known = status == SP_OK ? sp_view_cache_put(cache, &key, sizeof *known) : NULL;
    if (known == NULL)
        return status == SP_OK ? sp_fail_memory(part->err) : status;
    known->way = *ret_reshard;
    return SP_OK;
}

/* Goes the way step by step; false in *ret_done where a step cannot be told in boxes. */
static enum sp_status walk_way(struct sp_partitioner *part, const struct sp_value *value,
                               const struct sp_part_held *from, const struct sp_reshard *way,
                               const struct sp_part_target *target, const struct sp_piece **ret_pieces)
{
    struct sp_part_held held = *from;
    enum sp_status status = SP_OK;
    for (uint32_t s = 0; s < way->step_count && status == SP_OK; s++) {
        const struct sp_reshard_step *step = &way->steps[s];
        struct sp_part_target next = {
            .sharding = step->after, .goal = target->goal, .node = target->node, .purpose = target->purpose};
        bool is_last = s + 1 == way->step_count;
        if (is_last) {
            next = *target;
        } else {
            int64_t count;
            status = sp_sharding_devices(part->arena, step->after, part->assignment.device_count, &count, &next.devices,
                                         part->err);
            if (status != SP_OK)
                return status;
            struct sp_box *boxes = SP_NEW_ARRAY(part->arena, (size_t)count, struct sp_box);
            if (boxes == NULL)
                return sp_fail_memory(part->err);
            next.count = (uint32_t)count;
            next.boxes = boxes;
            status = sp_part_boxes(part, value, step->after, next.count, next.devices, boxes);
        }
        const struct sp_piece **pieces =
            is_last ? ret_pieces : SP_NEW_ARRAY(part->arena, next.count, const struct sp_piece *);
        if (status == SP_OK && pieces == NULL)
            status = sp_fail_memory(part->err);
        if (status == SP_OK)
            status = exchange_to(part, value, &held, &next, step, step->kind, pieces);
        held = (struct sp_part_held){NULL, step->after, next.count, next.devices, pieces, next.boxes};
    }
    return status;
}

static enum sp_status bring_from_devices(struct sp_partitioner *part, const struct sp_value *value,
                                         const struct sp_part_target *target, const struct sp_piece **ret_pieces)
{
    const struct sp_part_tensor *tensor = sp_part_tensor(part, value);
    struct sp_reshard *way = NULL;
    enum sp_status status = SP_OK;
    for (const struct sp_part_held *held = tensor->first; held != NULL; held = held->next)
        if (holds_all(held, target))
            return exchange_to(part, value, held, target, NULL, SP_ALL_SLICE, ret_pieces);
    if (tensor->first == NULL)
        return sp_fail(part->err, SP_ERR_INTERNAL, "TENSOR_NOT_THERE", "Tensor '%.200s' is needed before it is made.",
                       value->name);
    if (target->sharding != NULL && tensor->first->sharding != NULL)
        status = plan_way(part, value, tensor->first->sharding, target->sharding, &way);
    if (status != SP_OK)
        return status;
    if (way != NULL && way->step_count > 0)
        return walk_way(part, value, tensor->first, way, target, ret_pieces);
    return exchange_to(part, value, tensor->first, target, NULL, SP_SEND_RECEIVE, ret_pieces);
}

/* What has no elements comes from nobody: it is made where it is needed. */
static enum sp_status make_empty(struct sp_partitioner *part, const struct sp_value *value,
                                 const struct sp_part_target *target, const struct sp_piece **pieces, bool *ret_made)
{
    for (uint32_t i = 0; i < target->count; i++) {
        if (pieces[i] != NULL || !sp_box_is_empty(&target->boxes[i]))
            continue;
        struct sp_piece *piece =
            sp_part_piece(part, value->name, target->devices[i], value->type.dtype, &target->boxes[i]);
        if (piece == NULL)
            return sp_fail_memory(part->err);
        bool is_known = true;
        for (uint32_t a = 0; a < piece->rank; a++)
            is_known = is_known && piece->dims[a] >= 0;
        if (!is_known)
            continue;
        const struct sp_part_constant nothing = {.device = piece->device,
                                                 .piece = piece,
                                                 .dtype = piece->dtype,
                                                 .rank = piece->rank,
                                                 .dims = piece->dims,
                                                 .is_filled = true,
                                                 .bytes = ""};
        enum sp_status status =
            part->sink->constant != NULL ? part->sink->constant(part->sink->context, &nothing, part->err) : SP_OK;
        if (status != SP_OK)
            return status;
        pieces[i] = piece;
        *ret_made = true;
    }
    return SP_OK;
}

/* How devices hold an input or a weight before the first node; NULL: each has of it what it needs. */
static const struct sp_sharding *stored_as(const struct sp_partitioner *part, const struct sp_value *value)
{
    bool may_be = part->stated->stored != NULL && value->graph == part->model->graph && value->producer == NULL;
    return may_be && sp_part_rank(value) > 0 ? part->stated->stored[value->id] : NULL;
}

/* The pieces as they are stored, which others are made of. */
static enum sp_status hold_stored(struct sp_partitioner *part, const struct sp_value *value,
                                  const struct sp_sharding *stored)
{
    struct sp_part_target target = {.sharding = stored};
    int64_t count = 0;
    if (sp_part_tensor(part, value)->first != NULL)
        return SP_OK;
    enum sp_status status =
        sp_sharding_devices(part->arena, stored, part->assignment.device_count, &count, &target.devices, part->err);
    struct sp_box *boxes = status != SP_OK ? NULL : SP_NEW_ARRAY(part->arena, (size_t)count, struct sp_box);
    const struct sp_piece **pieces =
        status != SP_OK ? NULL : SP_NEW_ARRAY(part->scratch, (size_t)count, const struct sp_piece *);
    if (boxes == NULL || pieces == NULL)
        return status != SP_OK ? status : sp_fail_memory(part->err);
    target.count = (uint32_t)count;
    target.boxes = boxes;
    status = sp_part_boxes(part, value, stored, target.count, target.devices, boxes);
    if (status == SP_OK)
        status = sp_part_cut_outside(part, value, &target, pieces);
    return status == SP_OK ? keep(part, value, &target, pieces) : status;
}

enum sp_status sp_part_bring(struct sp_partitioner *part, const struct sp_value *value,
                             const struct sp_part_target *target, const struct sp_piece **ret_pieces)
{
    const struct sp_value *root = part->dataflow->tensors[sp_part_root(part, value)];
    struct sp_part_target wanted = *target;
    wanted.goal = target->sharding;
    const struct sp_sharding *stored = sp_part_is_outside(part, root) ? stored_as(part, root) : NULL;
    enum sp_status status = stored != NULL ? hold_stored(part, root, stored) : SP_OK;
    if (status != SP_OK)
        return status;
    bool is_new = !find_pieces(sp_part_tensor(part, value), target, ret_pieces);
    if (is_new)
        status = stored == NULL && sp_part_is_outside(part, root) ? sp_part_cut_outside(part, root, target, ret_pieces)
                                                                  : bring_from_devices(part, root, &wanted, ret_pieces);
    if (status == SP_OK)
        status = make_empty(part, root, target, ret_pieces, &is_new);
    return status == SP_OK && is_new ? keep(part, root, target, ret_pieces) : status;
}

enum sp_status sp_part_tell(struct sp_partitioner *part, const char *code, const struct sp_node *node,
                            const char *tensor, const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    if (part->sink->note == NULL)
        return SP_OK;
    SP_FORMAT(message, format);
    struct sp_part_note note = {code, node, tensor, message};
    return part->sink->note(part->sink->context, &note, part->err);
}
