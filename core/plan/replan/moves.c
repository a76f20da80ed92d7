/* Who keeps what, and who sits where. */
#include "plan/replan/moves.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "plan/replan/senders.h"

/* ---- what is held ----------------------------------------------------------------------------------------------- */

const double *sp_held_bytes(struct sp_arena *arena, const struct sp_workload *workload,
                            const struct sp_weight_parts *parts, uint32_t count)
{
    static const struct sp_weight_parts none;
    struct sp_weight_atoms atoms = {.holder_count = count, .device_count = count};
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    double *held = SP_NEW_ARRAY(arena, count, double);
    struct sp_error ignored = {0};
    /* A device may have boxes of a weight that overlap: atoms count each byte once. */
    const bool ok = held != NULL && scratch != NULL &&
                    sp_weight_atoms_make(scratch, workload, &none, parts, &atoms, &ignored) == SP_OK;
    for (uint32_t i = 0; ok && i < atoms.count; i++) {
        for (uint32_t d = 0; d < count; d++)
            held[d] += sp_weight_atom_bit(atoms.items[i].needs, d) ? atoms.items[i].bytes : 0;
    }
    sp_arena_destroy(scratch);
    return ok ? held : NULL;
}

/* ---- one way to sit --------------------------------------------------------------------------------------------- */

struct finding {
    struct sp_arena *scratch;
    const struct sp_moving *moving;
    struct sp_weight_atoms atoms;
    struct sp_error *err;
};

static uint32_t seat_count(const struct finding *f)
{
    return f->moving->fleet.now->device_count;
}

static uint32_t holder_count(const struct finding *f)
{
    return f->moving->fleet.before->device_count;
}

static bool is_kept(const struct sp_weight_atom *atom, const uint32_t *holder_of, uint32_t seat)
{
    return holder_of[seat] != SP_NO_HOLDER && sp_weight_atom_bit(atom->has, holder_of[seat]);
}

/* Whether some device that is still there has it. */
static bool is_there(const struct finding *f, const struct sp_weight_atom *atom, const uint32_t *holder_of)
{
    for (uint32_t s = 0; s < seat_count(f); s++) {
        if (is_kept(atom, holder_of, s))
            return true;
    }
    return false;
}

/* What is kept, and the messages for the rest. */
static enum sp_status sit(struct finding *f, const uint32_t *holder_of, struct sp_moves *moves,
                          struct sp_senders *senders)
{
    SP_ARRAY(struct sp_message) messages = {0};
    *moves = (struct sp_moves){.seats = SP_NEW_ARRAY(f->scratch, seat_count(f), struct sp_seat)};
    if (moves->seats == NULL)
        return sp_fail_memory(f->err);
    for (uint32_t i = 0; i < f->atoms.count; i++) {
        const struct sp_weight_atom *atom = &f->atoms.items[i];
        if (!is_there(f, atom, holder_of))
            moves->bytes_bound += atom->bytes;
        for (uint32_t s = 0; s < seat_count(f); s++) {
            if (!sp_weight_atom_bit(atom->needs, s))
                continue;
            if (is_kept(atom, holder_of, s)) {
                moves->seats[s].kept_bytes += atom->bytes;
                moves->kept_bytes += atom->bytes;
                continue;
            }
            moves->seats[s].received_bytes += atom->bytes;
            moves->bytes += atom->bytes;
            if (!SP_PUSH(f->scratch, &messages, (struct sp_message){i, SP_FROM_STORE, s, atom->bytes}))
                return sp_fail_memory(f->err);
        }
    }
    *senders = (struct sp_senders){.cluster = f->moving->fleet.now,
                                   .atoms = &f->atoms,
                                   .holder_of = holder_of,
                                   .count = messages.count,
                                   .messages = messages.items};
    enum sp_status status = sp_senders_choose(f->scratch, senders, f->err);
    for (uint32_t m = 0; status == SP_OK && m < senders->count; m++) {
        const struct sp_message *message = &senders->messages[m];
        if (message->from == SP_FROM_STORE)
            moves->store_bytes += message->bytes;
        else
            moves->seats[message->from].sent_bytes += message->bytes;
    }
    moves->seconds = senders->seconds;
    moves->seconds_bound = senders->seconds_bound;
    for (uint32_t s = 0; s < seat_count(f); s++) {
        moves->seats[s].holder = holder_of[s];
        if (holder_of[s] != SP_NO_HOLDER)
            moves->seats[s].freed_bytes = f->moving->held_bytes[holder_of[s]] - moves->seats[s].kept_bytes;
    }
    return status;
}

/* ---- all ways to sit -------------------------------------------------------------------------------------------- */

/* The next way: digits below holders + 1, the last one being nobody. */
static bool next_way(uint32_t *digits, uint32_t seats, uint32_t holders)
{
    for (uint32_t s = 0; s < seats; s++) {
        if (++digits[s] <= holders)
            return true;
        digits[s] = 0;
    }
    return false;
}

static bool is_better(const struct sp_moves *a, const struct sp_moves *b)
{
    const double slack = 1e-12 * b->seconds;
    if (a->seconds < b->seconds - slack || a->seconds > b->seconds + slack)
        return a->seconds < b->seconds;
    return a->bytes < b->bytes - 0.5;
}

/* Few devices: the seats with the least time, in place of those that keep most. */
static enum sp_status try_seats(struct finding *f, uint32_t *holder_of, struct sp_moves *moves)
{
    const uint32_t seats = seat_count(f), holders = holder_count(f);
    uint32_t digits[SP_MOVES_TRIED] = {0}, way[SP_MOVES_TRIED];
    enum sp_status status = SP_OK;
    do {
        struct sp_arena_mark mark = sp_arena_mark(f->scratch);
        struct sp_moves other;
        struct sp_senders senders;
        for (uint32_t s = 0; s < seats; s++)
            way[s] = digits[s] == holders ? SP_NO_HOLDER : digits[s];
        if (!sp_fleet_allows(&f->moving->fleet, way))
            continue;
        status = sit(f, way, &other, &senders);
        if (status == SP_OK && is_better(&other, moves)) {
            *moves = other;
            memcpy(holder_of, way, seats * sizeof *way);
        }
        sp_arena_rewind(f->scratch, mark);
    } while (status == SP_OK && moves->seconds > 0 && next_way(digits, seats, holders));
    return status;
}

/* As numbered: the devices themselves, or those of each type in their order. */
static void sit_in_order(const struct finding *f, uint32_t *holder_of)
{
    uint32_t next = 0;
    for (uint32_t s = 0; s < seat_count(f); s++) {
        holder_of[s] = SP_NO_HOLDER;
        if (f->moving->fleet.is_known) {
            holder_of[s] = s;
        } else if (next < holder_count(f) && sp_fleet_pair(&f->moving->fleet, s, next)) {
            holder_of[s] = next++;
        }
    }
}

static enum sp_status find_seats(struct finding *f, uint32_t *holder_of)
{
    const uint32_t holders = holder_count(f);
    const size_t pairs = (size_t)seat_count(f) * holders;
    if (pairs > SP_MOVES_PAIRS) {
        sit_in_order(f, holder_of);
        return SP_OK;
    }
    double *keep = SP_NEW_ARRAY(f->scratch, pairs, double);
    if (keep == NULL)
        return sp_fail_memory(f->err);
    for (uint32_t i = 0; i < f->atoms.count; i++) {
        const struct sp_weight_atom *atom = &f->atoms.items[i];
        for (uint32_t s = 0; s < seat_count(f); s++) {
            for (uint32_t h = 0; sp_weight_atom_bit(atom->needs, s) && h < holders; h++)
                keep[(size_t)s * holders + h] += sp_weight_atom_bit(atom->has, h) ? atom->bytes : 0;
        }
    }
    return sp_fleet_match(f->scratch, &f->moving->fleet, keep, holder_of, f->err);
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const struct sp_message *x = a, *y = b;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->atom < y->atom ? -1 : x->atom > y->atom;
}

/* Joins an atom to a move where both together are one box. */
static bool join(struct sp_move *move, const struct sp_range *other, uint32_t rank)
{
    struct sp_range *box = move->box;
    uint32_t differs = rank;
    if (box == NULL || other == NULL)
        return false;
    for (uint32_t a = 0; a < rank; a++) {
        if (box[a].start == other[a].start && box[a].limit == other[a].limit)
            continue;
        if (differs != rank || box[a].limit != other[a].start)
            return false;
        differs = a;
    }
    if (differs == rank)
        return false;
    box[differs].limit = other[differs].limit;
    return true;
}

static uint32_t rank_of(const struct finding *f, const struct sp_weight_atom *atom)
{
    const struct sp_workload *workload = f->moving->workload;
    return atom->box == NULL ? 0 : workload->tensors[atom->weight].value->type.shape.rank;
}

/* Moves to each device by weight; what one device sends of a weight in boxes that touch is one move. */
static enum sp_status list_moves(struct finding *f, struct sp_arena *arena, struct sp_senders *senders,
                                 struct sp_moves *moves)
{
    moves->items = SP_NEW_ARRAY(arena, senders->count, struct sp_move);
    if (moves->items == NULL)
        return sp_fail_memory(f->err);
    if (senders->count > 1)
        qsort(senders->messages, senders->count, sizeof *senders->messages, by_place);
    uint32_t first = 0; /* move of the weight and device at hand */
    for (uint32_t m = 0; m < senders->count; m++) {
        const struct sp_message *message = &senders->messages[m];
        const struct sp_weight_atom *atom = &f->atoms.items[message->atom];
        const uint32_t rank = rank_of(f, atom);
        bool is_joined = false;
        if (moves->count == 0 || moves->items[moves->count - 1].to != message->to ||
            moves->items[moves->count - 1].weight != atom->weight)
            first = moves->count;
        for (uint32_t i = first; i < moves->count && !is_joined; i++) {
            struct sp_move *move = &moves->items[i];
            is_joined = move->from == message->from && join(move, atom->box, rank);
            move->bytes += is_joined ? message->bytes : 0;
        }
        if (is_joined)
            continue;
        struct sp_range *box = rank > 0 ? SP_NEW_ARRAY(arena, rank, struct sp_range) : NULL;
        if (rank > 0 && box == NULL)
            return sp_fail_memory(f->err);
        if (rank > 0)
            memcpy(box, atom->box, rank * sizeof *box);
        moves->items[moves->count++] = (struct sp_move){atom->weight, message->from, message->to, box, message->bytes};
    }
    return SP_OK;
}

/* All of it; what stays is in `arena`. */
static enum sp_status find(struct finding *f, struct sp_arena *arena, uint32_t *holder_of, bool lists,
                           struct sp_moves *ret_moves)
{
    const uint32_t seats = seat_count(f);
    struct sp_seat *own = SP_NEW_ARRAY(arena, seats, struct sp_seat);
    struct sp_senders senders = {0};
    if (own == NULL)
        return sp_fail_memory(f->err);
    enum sp_status status = find_seats(f, holder_of);
    if (status == SP_OK)
        status = sit(f, holder_of, ret_moves, &senders);
    if (status == SP_OK && seats <= SP_MOVES_TRIED && holder_count(f) <= SP_MOVES_TRIED && ret_moves->seconds > 0) {
        status = try_seats(f, holder_of, ret_moves);
        if (status == SP_OK)
            status = sit(f, holder_of, ret_moves, &senders);
    }
    if (status == SP_OK && lists)
        status = list_moves(f, arena, &senders, ret_moves);
    if (status != SP_OK)
        return status;
    memcpy(own, ret_moves->seats, seats * sizeof *own);
    ret_moves->seats = own;
    return SP_OK;
}

enum sp_status sp_moves_find(struct sp_arena *arena, const struct sp_moving *moving, const struct sp_weight_parts *now,
                             bool lists, struct sp_moves *ret_moves, struct sp_error *err)
{
    struct finding f = {
        .scratch = sp_arena_create(sp_arena_budget(arena)),
        .moving = moving,
        .atoms = {.holder_count = moving->fleet.before->device_count, .device_count = moving->fleet.now->device_count},
        .err = err};
    struct sp_moves moves = {0};
    if (f.scratch == NULL)
        return sp_fail_memory(err);
    uint32_t *holder_of = SP_NEW_ARRAY(f.scratch, seat_count(&f), uint32_t);
    enum sp_status status = sp_weight_atoms_make(f.scratch, moving->workload, moving->before, now, &f.atoms, err);
    if (holder_of == NULL)
        status = sp_fail_memory(err);
    else if (status == SP_OK)
        status = find(&f, arena, holder_of, lists, &moves);
    if (status == SP_OK)
        *ret_moves = moves;
    sp_arena_destroy(f.scratch);
    return status;
}
