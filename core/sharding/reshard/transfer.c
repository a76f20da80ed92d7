/*
 * Pieces from device to device. In both kinds of steps a device takes what it lacks from the nearest device that has
 * it, of several the least loaded one, of these the one with the lowest number.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"
#include "sharding/reshard/internal.h"

double sp_reshard_element_bytes(enum sp_dtype dtype)
{
    int bits = sp_dtype_bits(dtype);

    return bits > 0 ? bits / 8.0 : (double)sp_dtype_bytes(dtype, 1);
}

/* ---- transfers that are written down ---- */

struct transfers {
    struct sp_arena *arena;
    uint64_t count;
    uint32_t capacity;
    struct sp_transfer *items; /* NULL once there are too many */
    double total_bytes;        /* of those that move */
    bool is_counted;           /* and none is kept */
};

static enum sp_status add_transfer(struct transfers *transfers, const struct sp_transfer *transfer,
                                   struct sp_error *err)
{
    if (transfer->source != transfer->target)
        transfers->total_bytes += transfer->bytes;
    if (transfers->is_counted || transfers->count >= SP_RESHARD_MAX_TRANSFERS) {
        transfers->items = NULL;
    } else if (!SP_MAKE_ROOM(transfers->arena, transfers->items, transfers->count, transfers->capacity, 1))
        return sp_fail_memory(err);
    if (!transfers->is_counted && transfers->count < SP_RESHARD_MAX_TRANSFERS)
        transfers->items[transfers->count] = *transfer;
    transfers->count++;
    return SP_OK;
}

static double box_bytes(uint32_t rank, const struct sp_range *box, double element_bytes)
{
    for (uint32_t a = 0; a < rank; a++)
        element_bytes *= (double)(box[a].limit - box[a].start);
    return element_bytes;
}

/* ---- collective-permute ---- */

/* A device of the step: where it stands before and after, and which tile it has and needs. */
struct place {
    int64_t device, has, needs;
    double load;
};

SP_ASCENDING(by_device, struct place, device)

static int by_tile(const void *a, const void *b)
{
    const struct place *left = *(struct place *const *)a, *right = *(struct place *const *)b;

    if (left->has != right->has)
        return left->has < right->has ? -1 : 1;
    return by_device(left, right);
}

static int64_t tile_number(const struct sp_problem *problem, const struct sp_lists *lists, int64_t position)
{
    const struct sp_grid *grid = problem->grids[lists->grid];
    uint32_t summed = lists->partial | lists->partial_to;
    int64_t tile = 0;

    for (uint32_t a = 0; a < problem->rank; a++)
        for (uint32_t i = 0; i < lists->count[a]; i++) {
            const struct sp_digit *digit = &grid->digits[lists->list[a][i]];

            tile = tile * digit->size + position / digit->weight % digit->size;
        }
    for (uint32_t d = 0; d < grid->count; d++)
        if (summed >> d & 1)
            tile = tile * grid->digits[d].size + position / grid->digits[d].weight % grid->digits[d].size;
    return tile;
}

static enum sp_status list_places(struct sp_arena *arena, const struct sp_problem *problem,
                                  const struct sp_path_step *step, struct place **ret_places, struct sp_error *err)
{
    const struct sp_grid *first = problem->grids[step->before.grid], *second = problem->grids[step->after.grid];
    size_t count = (size_t)first->device_count;
    struct place *places = SP_NEW_ARRAY(arena, count, struct place), *others = SP_NEW_ARRAY(arena, count, struct place);
    struct sp_lists before, after;

    if (places == NULL || others == NULL)
        return sp_fail_memory(err);
    sp_lists_of(problem, &step->before, &before);
    sp_lists_of(problem, &step->after, &after);
    for (size_t p = 0; p < count; p++) {
        int64_t position = (int64_t)p;

        places[p].device = sp_device_order_at(&first->mesh->order, position);
        places[p].has = tile_number(problem, &before, position);
        others[p].device = sp_device_order_at(&second->mesh->order, position);
        others[p].needs = tile_number(problem, &after, position);
    }
    qsort(places, count, sizeof *places, by_device);
    qsort(others, count, sizeof *others, by_device);
    for (size_t p = 0; p < count; p++)
        places[p].needs = others[p].needs;
    *ret_places = places;
    return SP_OK;
}

/* The holder that a device takes its tile from; holders[0 .. count - 1] have it, ascending. */
static struct place *nearest(const struct sp_links *links, struct place *const *holders, size_t count, int64_t device)
{
    struct place *best = NULL;
    uint32_t best_level = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t level = sp_links_between(links, holders[i]->device, device);

        if (best == NULL || level > best_level || (level == best_level && holders[i]->load < best->load)) {
            best = holders[i];
            best_level = level;
        }
    }
    return best;
}

/* The first holder of a tile among all, which are sorted by tile, and how many there are. */
static size_t find_holders(struct place *const *sorted, size_t count, int64_t tile, size_t *ret_first)
{
    size_t at, size = 0;
    SP_LOWER_BOUND(at, count, sorted[at]->has < tile);
    while (at + size < count && sorted[at + size]->has == tile)
        size++;
    *ret_first = at;
    return size;
}

static enum sp_status send_tile(struct transfers *transfers, const struct sp_reshard_request *request,
                                const struct sp_sharding *after, struct place *source, int64_t target,
                                struct sp_error *err)
{
    struct sp_range *box = SP_NEW_ARRAY(transfers->arena, request->rank, struct sp_range);
    struct sp_tile tile;
    bool found;

    if (box == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_sharding_tile(after, request->rank, request->shape, target, &found, &tile, err);
    if (status != SP_OK || !found)
        return status;
    memcpy(box, tile.ranges, request->rank * sizeof *box);
    struct sp_transfer transfer = {.source = source->device, .target = target, .box = box};
    transfer.bytes = box_bytes(request->rank, box, sp_reshard_element_bytes(request->dtype));
    if (source->device != target)
        source->load += transfer.bytes;
    return add_transfer(transfers, &transfer, err);
}

/* Every device's new tile, from itself or from the nearest holder; `sorted` has room for as many. */
static enum sp_status send_tiles(struct transfers *transfers, const struct sp_reshard_request *request,
                                 const struct sp_sharding *after, size_t count, struct place *places,
                                 struct place **sorted, struct sp_error *err)
{
    enum sp_status status = SP_OK;

    for (size_t i = 0; i < count; i++)
        sorted[i] = &places[i];
    qsort(sorted, count, sizeof *sorted, by_tile);
    for (size_t i = 0; i < count && status == SP_OK; i++) {
        size_t first, holders = find_holders(sorted, count, places[i].needs, &first);
        struct place *source = &places[i];

        if (source->has != source->needs)
            source = nearest(request->links, sorted + first, holders, places[i].device);
        status = send_tile(transfers, request, after, source, places[i].device, err);
    }
    return status;
}

enum sp_status sp_reshard_permute_transfers(struct sp_arena *arena, const struct sp_reshard_request *request,
                                            const struct sp_problem *problem, const struct sp_path_step *path_step,
                                            struct sp_reshard_step *step, struct sp_error *err)
{
    size_t count = (size_t)problem->grids[path_step->before.grid]->device_count;
    struct transfers transfers = {.arena = arena, .is_counted = request->counts_transfers};
    struct place *places = NULL;

    step->total_bytes = path_step->bytes * (double)count;
    step->transfer_count = count;
    if (count > SP_RESHARD_MAX_TRANSFERS)
        return SP_OK;
    struct place **sorted = SP_NEW_ARRAY(arena, count, struct place *);
    enum sp_status status = sorted != NULL ? list_places(arena, problem, path_step, &places, err) : sp_fail_memory(err);
    if (status != SP_OK)
        return status;
    assert(places);
    status = send_tiles(&transfers, request, step->after, count, places, sorted, err);
    step->transfer_count = transfers.count;
    step->transfers = transfers.items;
    step->total_bytes = transfers.total_bytes;
    step->bytes = 0;
    for (size_t i = 0; i < count; i++)
        step->bytes = fmax(step->bytes, places[i].load);
    return status;
}

/* ---- send-receive ---- */

/* A box of the tensor that one device holds. */
struct piece {
    uint32_t rank;
    const struct sp_range *box;
    uint32_t holder; /* index among all devices of the step */
};

/* What goes out of and into one device over one level. */
struct load {
    double bytes[2];
    double messages[2];
};

struct exchange {
    struct sp_arena *arena;
    const struct sp_reshard_request *request;
    double element_bytes;
    uint32_t device_count;
    int64_t *devices; /* of both shardings, ascending */
    double *held;     /* bytes that a device holds before and after together */
    double *sent;
    uint32_t *stamp;    /* 1 + the last target that a device sent to */
    struct load *loads; /* by device, level */
    uint32_t piece_count, capacity;
    struct piece *pieces; /* that devices hold before, sorted by box, then holder */
    int64_t pairs;        /* compared so far */
    int64_t most_pairs;
    struct transfers transfers;
};

static int by_box(const void *a, const void *b)
{
    const struct piece *left = a, *right = b;

    for (uint32_t i = 0; i < left->rank; i++) {
        if (left->box[i].start != right->box[i].start)
            return left->box[i].start < right->box[i].start ? -1 : 1;
        if (left->box[i].limit != right->box[i].limit)
            return left->box[i].limit < right->box[i].limit ? -1 : 1;
    }
    return 0;
}

static int by_box_and_holder(const void *a, const void *b)
{
    const struct piece *left = a, *right = b;
    int order = by_box(a, b);

    if (order != 0)
        return order;
    return left->holder < right->holder ? -1 : left->holder > right->holder;
}

static uint32_t rank_of_device(const struct exchange *exchange, int64_t device)
{
    uint32_t at;
    SP_LOWER_BOUND(at, exchange->device_count, exchange->devices[at] < device);
    return at;
}

/* The boxes of one shard, one after the other: one range of each axis. */
struct box_cursor {
    uint32_t rank;
    const struct sp_axis_ranges *axes;
    uint32_t at[SP_MAX_RANK];
};

static bool begin_boxes(struct box_cursor *cursor, uint32_t rank, const struct sp_axis_ranges *axes)
{
    cursor->rank = rank;
    cursor->axes = axes;
    for (uint32_t a = 0; a < rank; a++) {
        cursor->at[a] = 0;
        if (axes[a].count == 0)
            return false;
    }
    return true;
}

static bool next_box(struct box_cursor *cursor)
{
    uint32_t a = cursor->rank;

    while (a-- > 0) {
        if (++cursor->at[a] < cursor->axes[a].count)
            return true;
        cursor->at[a] = 0;
    }
    return false;
}

static void read_box(const struct box_cursor *cursor, struct sp_range *ret_box)
{
    for (uint32_t a = 0; a < cursor->rank; a++)
        ret_box[a] = cursor->axes[a].ranges[cursor->at[a]];
}

static enum sp_status add_piece(struct exchange *exchange, const struct box_cursor *cursor, uint32_t holder,
                                struct sp_error *err)
{
    struct sp_range *box = SP_NEW_ARRAY(exchange->arena, cursor->rank, struct sp_range);

    if (box == NULL)
        return sp_fail_memory(err);
    if (exchange->piece_count == SP_MAX_HELD_RANGES)
        return sp_fail_limit(err, "TOO_MANY_PIECES", "SP_MAX_HELD_RANGES", SP_MAX_HELD_RANGES,
                             (int64_t)exchange->piece_count + 1,
                             "The devices hold more than %d pieces of the tensor together.", SP_MAX_HELD_RANGES);
    if (!SP_MAKE_ROOM(exchange->arena, exchange->pieces, exchange->piece_count, exchange->capacity, 1))
        return sp_fail_memory(err);
    read_box(cursor, box);
    exchange->held[holder] += box_bytes(cursor->rank, box, exchange->element_bytes);
    exchange->pieces[exchange->piece_count++] = (struct piece){cursor->rank, box, holder};
    return SP_OK;
}

static enum sp_status list_pieces(struct exchange *exchange, const struct sp_sharding *from, int64_t count,
                                  const int64_t *devices, struct sp_error *err)
{
    const struct sp_reshard_request *request = exchange->request;

    for (int64_t i = 0; i < count; i++) {
        struct sp_held held;
        enum sp_status status =
            sp_sharding_held(exchange->arena, from, request->rank, request->shape, devices[i], &held, err);

        for (uint32_t s = 0; status == SP_OK && s < held.shard_count; s++) {
            struct box_cursor cursor;
            bool more = begin_boxes(&cursor, request->rank, held.shards + (size_t)s * request->rank);

            for (; more && status == SP_OK; more = next_box(&cursor))
                status = add_piece(exchange, &cursor, rank_of_device(exchange, devices[i]), err);
        }
        if (status != SP_OK)
            return status;
    }
    if (exchange->piece_count > 1)
        qsort(exchange->pieces, exchange->piece_count, sizeof *exchange->pieces, by_box_and_holder);
    return SP_OK;
}

/* The holder among equal pieces [first, end) that a target takes a piece from. */
static uint32_t choose_holder(struct exchange *exchange, uint32_t first, uint32_t end, uint32_t target)
{
    const struct sp_links *links = exchange->request->links;
    uint32_t best = UINT32_MAX, best_level = 0;

    for (uint32_t i = first; i < end; i++) {
        uint32_t holder = exchange->pieces[i].holder;
        uint32_t level = sp_links_between(links, exchange->devices[holder], exchange->devices[target]);

        if (best == UINT32_MAX || level > best_level ||
            (level == best_level && exchange->sent[holder] < exchange->sent[best])) {
            best = holder;
            best_level = level;
        }
    }
    exchange->pairs += end - first;
    return best;
}

static void count_load(struct exchange *exchange, uint32_t source, uint32_t target, double bytes)
{
    const struct sp_links *links = exchange->request->links;
    uint32_t level = sp_links_between(links, exchange->devices[source], exchange->devices[target]);
    struct load *out = &exchange->loads[(size_t)source * links->level_count + level];
    struct load *in = &exchange->loads[(size_t)target * links->level_count + level];
    double message = exchange->stamp[source] == target + 1 ? 0 : 1;

    exchange->stamp[source] = target + 1;
    exchange->sent[source] += bytes;
    out->bytes[0] += bytes;
    out->messages[0] += message;
    in->bytes[1] += bytes;
    in->messages[1] += message;
}

/* Brings one box of the target: from every piece that it meets, what they have in common. */
static enum sp_status bring_box(struct exchange *exchange, uint32_t target, const struct sp_range *box,
                                struct sp_error *err)
{
    uint32_t rank = exchange->request->rank;

    for (uint32_t first = 0, end; first < exchange->piece_count; first = end) {
        struct sp_range common[SP_MAX_RANK];
        const struct sp_range *piece = exchange->pieces[first].box;
        bool meets = true;

        for (end = first + 1; end < exchange->piece_count; end++)
            if (by_box(&exchange->pieces[first], &exchange->pieces[end]) != 0)
                break;
        exchange->pairs += end - first;
        for (uint32_t a = 0; a < rank && meets; a++) {
            common[a].start = piece[a].start > box[a].start ? piece[a].start : box[a].start;
            common[a].limit = piece[a].limit < box[a].limit ? piece[a].limit : box[a].limit;
            meets = common[a].start < common[a].limit;
        }
        if (exchange->pairs > exchange->most_pairs)
            return sp_fail_limit(err, "TOO_MANY_PIECES", "SP_RESHARD_MAX_PAIRS", exchange->most_pairs, exchange->pairs,
                                 "More than %lld pairs of pieces and devices would have to be compared.",
                                 (long long)exchange->most_pairs);
        if (!meets)
            continue;
        uint32_t source = choose_holder(exchange, first, end, target);
        struct sp_transfer transfer = {.source = exchange->devices[source],
                                       .target = exchange->devices[target],
                                       .box = common,
                                       .bytes = box_bytes(rank, common, exchange->element_bytes)};
        if (!exchange->transfers.is_counted &&
            exchange->transfers.count < SP_RESHARD_MAX_TRANSFERS) { /* more are counted, but not kept */
            struct sp_range *copy = SP_NEW_ARRAY(exchange->arena, rank, struct sp_range);
            if (copy == NULL)
                return sp_fail_memory(err);
            memcpy(copy, common, rank * sizeof *copy);
            transfer.box = copy;
        }
        if (source != target)
            count_load(exchange, source, target, transfer.bytes);
        enum sp_status status = add_transfer(&exchange->transfers, &transfer, err);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status bring_all(struct exchange *exchange, const struct sp_sharding *to, int64_t count,
                                const int64_t *devices, struct sp_error *err)
{
    const struct sp_reshard_request *request = exchange->request;

    for (int64_t i = 0; i < count; i++) {
        uint32_t target = rank_of_device(exchange, devices[i]);
        struct sp_held held;
        enum sp_status status =
            sp_sharding_held(exchange->arena, to, request->rank, request->shape, devices[i], &held, err);

        for (uint32_t s = 0; status == SP_OK && s < held.shard_count; s++) {
            struct box_cursor cursor;
            bool more = begin_boxes(&cursor, request->rank, held.shards + (size_t)s * request->rank);

            for (; more && status == SP_OK; more = next_box(&cursor)) {
                struct sp_range box[SP_MAX_RANK] = {{0, 0}};

                read_box(&cursor, box);
                exchange->held[target] += box_bytes(request->rank, box, exchange->element_bytes);
                status = bring_box(exchange, target, box, err);
            }
        }
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* The devices of both shardings together, and the tables over them. */
static enum sp_status list_devices(struct exchange *exchange, int64_t from_count, const int64_t *from, int64_t to_count,
                                   const int64_t *to, struct sp_error *err)
{
    size_t most = (size_t)from_count + (size_t)to_count, levels = exchange->request->links->level_count;
    int64_t i = 0, j = 0;

    exchange->devices = SP_NEW_ARRAY(exchange->arena, most, int64_t);
    exchange->held = SP_NEW_ARRAY(exchange->arena, most, double);
    exchange->sent = SP_NEW_ARRAY(exchange->arena, most, double);
    exchange->stamp = SP_NEW_ARRAY(exchange->arena, most, uint32_t);
    exchange->loads = SP_NEW_ARRAY(exchange->arena, most * levels, struct load);
    if (exchange->devices == NULL || exchange->held == NULL || exchange->sent == NULL || exchange->stamp == NULL ||
        exchange->loads == NULL)
        return sp_fail_memory(err);
    while (i < from_count || j < to_count) {
        int64_t device = j == to_count || (i < from_count && from[i] < to[j]) ? from[i] : to[j];

        i += i < from_count && from[i] == device;
        j += j < to_count && to[j] == device;
        exchange->devices[exchange->device_count++] = device;
    }
    return SP_OK;
}

/* Seconds that what the parts of a level send takes where their devices share it: of what the level brings to each when
   all send, a part has as much as it has devices. Devices ascend, so those of a part are neighbours. */
static double shared_seconds(const struct exchange *exchange, uint32_t level)
{
    const struct sp_links *links = exchange->request->links;
    double bytes[2] = {0, 0}, most = 0;
    int64_t inside = 1, part = -1;

    for (uint32_t l = level + 1; l < links->level_count; l++)
        inside *= links->levels[l].size;
    for (uint32_t d = 0; d < exchange->device_count; d++) {
        const struct load *load = &exchange->loads[(size_t)d * links->level_count + level];
        const int64_t of = sp_links_place(links, exchange->devices[d]) / inside;

        for (int way = 0; way < 2; way++) {
            bytes[way] = of == part ? bytes[way] + load->bytes[way] : load->bytes[way];
            most = fmax(most, bytes[way]);
        }
        part = of;
    }
    return most > 0 ? links->levels[level].latency + most / (links->levels[level].bandwidth * (double)inside) : 0;
}

static void sum_up(const struct exchange *exchange, struct sp_reshard_step *step)
{
    const struct sp_links *links = exchange->request->links;

    for (uint32_t d = 0; d < exchange->device_count; d++) {
        step->peak_bytes = fmax(step->peak_bytes, exchange->held[d]);
        step->bytes = fmax(step->bytes, exchange->sent[d]);
        for (uint32_t l = 0; l < links->level_count; l++) {
            const struct load *load = &exchange->loads[(size_t)d * links->level_count + l];

            for (int way = 0; way < 2; way++)
                step->seconds = fmax(
                    step->seconds, sp_level_messages_seconds(&links->levels[l], load->messages[way], load->bytes[way]));
        }
    }
    for (uint32_t l = 0; l < links->level_count; l++) {
        if (links->levels[l].send_bandwidth > 0)
            step->seconds = fmax(step->seconds, shared_seconds(exchange, l));
    }
    step->total_bytes = exchange->transfers.total_bytes;
    step->transfer_count = exchange->transfers.count;
    step->transfers = exchange->transfers.items;
}

/* What the requests that share their steps leave. */
static int64_t most_pairs(const struct sp_reshard_request *request)
{
    const uint64_t *left = request->steps_left;
    return left != NULL && *left < SP_RESHARD_MAX_PAIRS / SP_RESHARD_STEP_PAIRS ? (int64_t)*left * SP_RESHARD_STEP_PAIRS
                                                                                : SP_RESHARD_MAX_PAIRS;
}

static uint64_t used_steps(const struct exchange *exchange)
{
    const uint64_t steps = (uint64_t)(exchange->pairs / SP_RESHARD_STEP_PAIRS), left = *exchange->request->steps_left;
    return steps < left ? steps : left;
}

enum sp_status sp_reshard_send_receive(struct sp_arena *arena, const struct sp_reshard_request *request,
                                       const struct sp_sharding *from, const struct sp_sharding *to,
                                       int64_t device_count, struct sp_reshard_step *ret_step, struct sp_error *err)
{
    struct exchange exchange = {
        .arena = arena, .request = request, .transfers = {.arena = arena, .is_counted = request->counts_transfers}};
    struct sp_reshard_step step = {.kind = SP_SEND_RECEIVE, .before = from, .after = to, .group_size = 1};
    const int64_t *sources, *targets;
    int64_t from_count, to_count;

    exchange.element_bytes = sp_reshard_element_bytes(request->dtype);
    exchange.most_pairs = most_pairs(request);
    enum sp_status status = sp_sharding_devices(arena, from, device_count, &from_count, &sources, err);
    if (status == SP_OK)
        status = sp_sharding_devices(arena, to, device_count, &to_count, &targets, err);
    if (status == SP_OK)
        status = list_devices(&exchange, from_count, sources, to_count, targets, err);
    if (status == SP_OK)
        status = list_pieces(&exchange, from, from_count, sources, err);
    if (status == SP_OK)
        status = bring_all(&exchange, to, to_count, targets, err);
    if (request->steps_left != NULL)
        *request->steps_left -= used_steps(&exchange);
    if (status != SP_OK)
        return status;
    sum_up(&exchange, &step);
    *ret_step = step;
    return SP_OK;
}
