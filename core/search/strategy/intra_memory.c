/*
 * When the nodes of the problem use memory, and how much. These are the numbers that the solver adds up itself; what a
 * choice of it takes is counted in intra_result.c.
 *
 * Moments are the entries of the stage: the memory while that operator runs. Of a run of repeated blocks only the
 * moments of one block count, the one in which the most is alive where nothing is split, and those of blocks that the
 * stage has in part: what is alive in the others is much the same, and their operators have the same strategies.
 *
 * An activation is charged to its hub; without one to its producer until the user runs, and then to the user, in the
 * layout in which that takes it; what a view names to the producer until the last use of any name.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"
#include "search/strategy/intra_internal.h"

enum source { FROM_OUTPUT, FROM_INPUT, FROM_HUB, FROM_WORKSPACE, FROM_WEIGHTS };

/* A use of memory over entries of the stage, both included. */
struct piece {
    uint32_t node; /* of the problem */
    enum source source;
    uint32_t operand, tensor;
    uint32_t from, to; /* moments, half open */
    uint32_t times;
};

/* What is known of a tensor's memory: of roots (cost/workload.h). */
struct life {
    uint32_t carrier;     /* the first tensor of this root that the stage sees */
    uint32_t first, last; /* entries at which it is alive */
    bool is_known, has_view;
};

struct memory {
    struct sp_intra_maker *maker;
    struct sp_intra *intra;
    struct life *lives; /* per tensor */
    uint32_t *roots;    /* those that are known, in order */
    uint32_t root_count;
    uint32_t *moments_before; /* per entry, and one more: selected ones before it */
    uint32_t moment_count;
    uint32_t piece_count, piece_capacity;
    struct piece *pieces;
    uint32_t stretch_count;
    struct sp_intra_stretch *stretches;
};

/* ---- lives ------------------------------------------------------------------------------------------------------ */

static struct life *touch(struct memory *memory, uint32_t tensor, uint32_t entry)
{
    uint32_t root = sp_work_root(memory->intra->table->workload, tensor);
    struct life *life = &memory->lives[root];
    if (!life->is_known) {
        *life = (struct life){tensor, entry, entry, true, false};
        memory->roots[memory->root_count++] = root;
    }
    if (life->last != SP_LIVE_OUTSIDE)
        life->last = entry;
    return life;
}

static void find_lives(struct memory *memory)
{
    const struct sp_intra *intra = memory->intra;
    const struct sp_workload *workload = intra->table->workload;
    for (uint32_t i = 0; i < intra->entry_count; i++) {
        const struct sp_work_node *work = &workload->nodes[intra->nodes[i]];
        for (uint32_t j = 0; j < work->input_count; j++) {
            struct life *life = touch(memory, work->inputs[j], i);
            const struct sp_work_tensor *tensor = &workload->tensors[work->inputs[j]];
            if (tensor->kind == SP_WORK_INPUT)
                life->first = 0;
            if (sp_work_is_held(tensor, false))
                life->last = SP_LIVE_OUTSIDE;
        }
        for (uint32_t j = 0; j < work->output_count; j++) {
            const struct sp_work_tensor *tensor = &workload->tensors[work->outputs[j]];
            struct life *life = touch(memory, work->outputs[j], i);
            bool stays = sp_work_is_held(tensor, true);
            for (uint32_t k = 0; k < tensor->consumer_count && !stays; k++)
                stays = intra->position_of[tensor->consumers[k]] == SP_INTRA_NONE;
            life->last = stays ? SP_LIVE_OUTSIDE : life->last;
            life->has_view = life->has_view || tensor->alias_of != SP_NO_WORK;
        }
    }
}

/* ---- moments ---------------------------------------------------------------------------------------------------- */

/* Bytes alive while each entry runs where nothing is split. */
static enum sp_status find_live_bytes(struct memory *memory, double **ret_live)
{
    const struct sp_intra *intra = memory->intra;
    const struct sp_workload *workload = intra->table->workload;
    double *during = SP_NEW_ARRAY(memory->maker->scratch, intra->entry_count, double);
    struct sp_live live;
    if (during == NULL || !sp_live_init(&live, memory->maker->scratch, intra->entry_count))
        return sp_intra_no_memory(memory->maker->err);
    for (uint32_t i = 0; i < memory->root_count; i++) {
        const struct life *life = &memory->lives[memory->roots[i]];
        const struct sp_work_tensor *tensor = &workload->tensors[memory->roots[i]];
        uint32_t first = life->first, last = life->last;
        if (tensor->kind != SP_WORK_WEIGHT &&
            sp_work_phase_life(workload, intra->entry_count, intra->nodes, memory->roots[i], &first, &last))
            sp_live_add(&live, first, last, tensor->bytes);
    }
    for (uint32_t i = 0; i < intra->entry_count; i++)
        during[i] = sp_live_step(&live, i, workload->nodes[intra->nodes[i]].workspace_bytes).during;
    *ret_live = during;
    return SP_OK;
}

/* The place of an entry's node in the order of all that are not folded. */
static uint32_t find_place(const struct sp_blocks *blocks, uint32_t node)
{
    uint32_t at;
    SP_LOWER_BOUND(at, blocks->order_count, blocks->order[at] < node);
    return at;
}

/* Drops the moments of all blocks of a run but one. Entries first .. last - 1 are those in the run. */
static enum sp_status select_block(struct memory *memory, const struct sp_block_run *run, const uint32_t *place,
                                   uint32_t first, uint32_t last, const double *live, bool *is_moment)
{
    uint32_t *count = SP_NEW_ARRAY(memory->maker->scratch, run->count, uint32_t), most = 0, best = UINT32_MAX;
    double *peak = SP_NEW_ARRAY(memory->maker->scratch, run->count, double);
    if (count == NULL || peak == NULL)
        return sp_intra_no_memory(memory->maker->err);
    for (uint32_t i = first; i < last; i++) {
        uint32_t block = (place[i] - run->first_node) / run->length;
        count[block]++;
        peak[block] = fmax(peak[block], live[i]);
        most = count[block] > most ? count[block] : most;
    }
    for (uint32_t b = 0; b < run->count; b++)
        if (count[b] == most && (best == UINT32_MAX || peak[b] > peak[best]))
            best = b;
    for (uint32_t i = first; i < last; i++) {
        uint32_t block = (place[i] - run->first_node) / run->length;
        is_moment[i] = block == best || count[block] < most;
    }
    return SP_OK;
}

static enum sp_status select_moments(struct memory *memory)
{
    const struct sp_intra *intra = memory->intra;
    const struct sp_blocks *blocks = memory->maker->options->blocks;
    struct sp_arena *scratch = memory->maker->scratch;
    bool *is_moment = SP_NEW_ARRAY(scratch, intra->entry_count, bool);
    uint32_t *place = SP_NEW_ARRAY(scratch, intra->entry_count, uint32_t), at = 0;
    double *live = NULL;
    enum sp_status status = find_live_bytes(memory, &live);
    memory->moments_before = SP_NEW_ARRAY(scratch, (size_t)intra->entry_count + 1, uint32_t);
    if (is_moment == NULL || place == NULL || memory->moments_before == NULL)
        return sp_intra_no_memory(memory->maker->err);
    memset(is_moment, true, intra->entry_count);
    for (uint32_t i = 0; blocks != NULL && i < intra->entry_count; i++)
        place[i] = find_place(blocks, intra->nodes[i]);
    for (uint32_t r = 0; blocks != NULL && r < blocks->run_count && status == SP_OK; r++) {
        const struct sp_block_run *run = &blocks->runs[r];
        uint32_t first, limit = run->first_node + run->length * run->count;
        while (at < intra->entry_count && place[at] < run->first_node)
            at++;
        first = at;
        while (at < intra->entry_count && place[at] < limit)
            at++;
        if (at > first)
            status = select_block(memory, run, place, first, at, live, is_moment);
    }
    for (uint32_t i = 0; i < intra->entry_count; i++)
        memory->moments_before[i + 1] = memory->moments_before[i] + is_moment[i];
    memory->moment_count = memory->moments_before[intra->entry_count];
    return status;
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

/* Over the entries from `first` to `last`, both included; nothing where none of them is a moment. */
static enum sp_status add_piece(struct memory *memory, struct piece piece, uint32_t first, uint32_t last)
{
    piece.from = memory->moments_before[first];
    piece.to = memory->moments_before[last + 1];
    if (piece.from >= piece.to)
        return SP_OK;
    if (!SP_MAKE_ROOM(memory->maker->scratch, memory->pieces, memory->piece_count, memory->piece_capacity, 1))
        return sp_intra_no_memory(memory->maker->err);
    memory->pieces[memory->piece_count++] = piece;
    return SP_OK;
}

/* The use that a group without a hub has for one of its tensors, or NULL. */
static const struct sp_intra_operand_use *use_of(const struct memory *memory, const struct sp_intra_group *group,
                                                 uint32_t user)
{
    for (uint32_t i = 0; i < group->use_count; i++)
        if (memory->intra->uses[group->first_use + i].member == memory->intra->member_of[user])
            return &memory->intra->uses[group->first_use + i];
    return NULL;
}

static enum sp_status add_activation(struct memory *memory, uint32_t root)
{
    const struct sp_intra *intra = memory->intra;
    const struct life *life = &memory->lives[root];
    const struct sp_intra_group *group = &intra->groups[intra->group_of[life->carrier]];
    uint32_t first = life->first, end = life->last == SP_LIVE_OUTSIDE ? intra->entry_count - 1 : life->last;
    if (!sp_work_phase_life(intra->table->workload, intra->entry_count, intra->nodes, root, &first, &end))
        return SP_OK;
    struct piece piece = {.tensor = life->carrier, .times = 1};
    enum sp_status status = SP_OK;
    if (group->hub != SP_INTRA_NONE) {
        piece.node = intra->member_count + group->hub;
        piece.source = FROM_HUB;
        return add_piece(memory, piece, first, end);
    }
    bool is_made = group->producer != SP_INTRA_NONE;
    const struct sp_intra_operand_use *use =
        life->has_view || life->last == SP_LIVE_OUTSIDE || (is_made && life->last == life->first)
            ? NULL
            : use_of(memory, group, life->last);
    if (is_made) {
        piece.node = group->producer;
        piece.source = FROM_OUTPUT;
        piece.operand = group->output;
        status = add_piece(memory, piece, first, use != NULL ? life->last - 1 : end);
    } else if (use == NULL && group->use_count > 0) {
        use = &intra->uses[group->first_use];
    }
    if (status != SP_OK || use == NULL)
        return status;
    piece.node = use->member;
    piece.source = FROM_INPUT;
    piece.operand = use->operand;
    return add_piece(memory, piece, is_made ? life->last : first, end);
}

/* A weight that several nodes of the model use, under whatever names: charged once, to its hub or to its user here. */
static enum sp_status add_shared_weight(struct memory *memory, uint32_t root)
{
    const struct sp_intra *intra = memory->intra;
    uint32_t carrier = memory->lives[root].carrier, slot = intra->group_of[carrier];
    if (slot == SP_INTRA_NONE || intra->groups[slot].use_count == 0)
        return SP_OK; /* one node has it alone */
    const struct sp_intra_group *group = &intra->groups[slot];
    const struct sp_intra_operand_use *use = &intra->uses[group->first_use];
    struct piece piece = {use->member, FROM_INPUT, use->operand, group->tensor, 0, 0, 1};
    if (group->hub != SP_INTRA_NONE) {
        piece.node = intra->member_count + group->hub;
        piece.source = FROM_HUB;
    }
    return add_piece(memory, piece, 0, intra->entry_count - 1);
}

static enum sp_status add_pieces(struct memory *memory)
{
    const struct sp_intra *intra = memory->intra;
    const struct sp_workload *workload = intra->table->workload;
    enum sp_status status = SP_OK;
    for (uint32_t m = 0; m < intra->member_count && status == SP_OK; m++)
        status = add_piece(memory, (struct piece){m, FROM_WEIGHTS, 0, 0, 0, 0, intra->members[m].times}, 0,
                           intra->entry_count - 1);
    for (uint32_t i = 0; i < memory->root_count && status == SP_OK; i++) {
        uint32_t root = memory->roots[i];
        if (workload->tensors[root].kind == SP_WORK_WEIGHT)
            status = add_shared_weight(memory, root);
        else if (intra->group_of[memory->lives[root].carrier] != SP_INTRA_NONE)
            status = add_activation(memory, root);
    }
    for (uint32_t i = 0; i < intra->entry_count && status == SP_OK; i++)
        if (workload->nodes[intra->nodes[i]].workspace_bytes > 0 || intra->table->has_gathered)
            status = add_piece(memory, (struct piece){intra->member_of[i], FROM_WORKSPACE, 0, 0, 0, 0, 1}, i, i);
    return status;
}

/* ---- stretches -------------------------------------------------------------------------------------------------- */

SP_ASCENDING(compare_pieces, struct piece, node, source, operand, from)

static int compare_times(const void *a, const void *b)
{
    const struct piece *left = a, *right = b;
    if (left->node != right->node)
        return left->node < right->node ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    if (left->to != right->to)
        return left->to < right->to ? -1 : 1;
    return compare_pieces(a, b);
}

struct event {
    uint32_t moment;
    int64_t change;
};

SP_ASCENDING(compare_events, struct event, moment, change)

/* Pieces of the same source, those of different blocks, as steps: how many there are at a time. */
static enum sp_status split_steps(struct memory *memory, uint32_t count, const struct piece *pieces,
                                  struct memory *steps)
{
    struct event *events = SP_NEW_ARRAY(memory->maker->scratch, 2 * (size_t)count, struct event);
    int64_t now = 0;
    if (events == NULL)
        return sp_intra_no_memory(memory->maker->err);
    for (uint32_t i = 0; i < count; i++) {
        events[2 * i] = (struct event){pieces[i].from, pieces[i].times};
        events[2 * i + 1] = (struct event){pieces[i].to, -(int64_t)pieces[i].times};
    }
    qsort(events, 2 * (size_t)count, sizeof *events, compare_events);
    for (uint32_t i = 0; i < 2 * count;) {
        uint32_t from = events[i].moment;
        int64_t before = now;
        for (; i < 2 * count && events[i].moment == from; i++)
            now += events[i].change;
        if (now == before && steps->piece_count > 0 && now > 0)
            continue; /* one ends where another begins */
        if (before > 0)
            steps->pieces[steps->piece_count - 1].to = from;
        if (now > 0) {
            steps->pieces[steps->piece_count] = pieces[0];
            steps->pieces[steps->piece_count].from = from;
            steps->pieces[steps->piece_count++].times = (uint32_t)now;
        }
    }
    return SP_OK;
}

static double bytes_of(const struct memory *memory, const struct piece *piece, uint32_t strategy)
{
    const struct sp_intra *intra = memory->intra;
    struct sp_strategy_table *table = intra->table;
    if (piece->source == FROM_HUB)
        return sp_strategy_local_bytes(table, piece->tensor,
                                       intra->hubs[piece->node - intra->member_count].layouts[strategy]);
    const struct sp_intra_member *member = &intra->members[piece->node];
    if (piece->source == FROM_WEIGHTS)
        return sp_strategy_weight_bytes(table, member->node, strategy) +
               sp_strategy_resident_bytes(table, member->node, strategy);
    if (piece->source == FROM_WORKSPACE)
        return member->strategies->items[strategy].workspace_bytes;
    uint32_t inputs = table->workload->nodes[member->node].node->input_count;
    uint32_t operand = piece->source == FROM_OUTPUT ? inputs + piece->operand : piece->operand;
    return sp_strategy_local_bytes(table, piece->tensor, sp_intra_layout(member->strategies, strategy, operand));
}

/* Pieces of one node at the same time are one stretch. */
static enum sp_status add_stretch(struct memory *memory, uint32_t count, const struct piece *pieces)
{
    uint32_t width = sp_intra_strategy_count(memory->intra, pieces[0].node);
    int64_t *usage = SP_NEW_ARRAY(memory->maker->scratch, width, int64_t);
    bool is_any = false;
    if (usage == NULL)
        return sp_intra_no_memory(memory->maker->err);
    for (uint32_t s = 0; s < width; s++) {
        for (uint32_t i = 0; i < count; i++) {
            double bytes = ceil(bytes_of(memory, &pieces[i], s)) * pieces[i].times;
            usage[s] += bytes < 1e17 ? (int64_t)bytes : (int64_t)1e17;
        }
        is_any = is_any || usage[s] > 0;
    }
    if (is_any)
        memory->stretches[memory->stretch_count++] =
            (struct sp_intra_stretch){pieces[0].node, pieces[0].from, pieces[0].to, usage};
    return SP_OK;
}

static enum sp_status make_stretches(struct memory *memory)
{
    struct memory steps = {.maker = memory->maker, .intra = memory->intra};
    enum sp_status status = SP_OK;
    steps.pieces = SP_NEW_ARRAY(memory->maker->scratch, 2 * (size_t)memory->piece_count, struct piece);
    memory->stretches = SP_NEW_ARRAY(memory->maker->scratch, 2 * (size_t)memory->piece_count, struct sp_intra_stretch);
    if (steps.pieces == NULL || memory->stretches == NULL)
        return sp_intra_no_memory(memory->maker->err);
    qsort(memory->pieces, memory->piece_count, sizeof *memory->pieces, compare_pieces);
    for (uint32_t i = 0, last; i < memory->piece_count && status == SP_OK; i = last) {
        const struct piece *first = &memory->pieces[i];
        for (last = i; last < memory->piece_count && memory->pieces[last].node == first->node &&
                       memory->pieces[last].source == first->source && memory->pieces[last].operand == first->operand;)
            last++;
        status = split_steps(memory, last - i, first, &steps);
    }
    qsort(steps.pieces, steps.piece_count, sizeof *steps.pieces, compare_times);
    for (uint32_t i = 0, last; i < steps.piece_count && status == SP_OK; i = last) {
        const struct piece *first = &steps.pieces[i];
        for (last = i; last < steps.piece_count && steps.pieces[last].node == first->node &&
                       steps.pieces[last].from == first->from && steps.pieces[last].to == first->to;)
            last++;
        status = add_stretch(memory, last - i, first);
    }
    return status;
}

enum sp_status sp_intra_memory(struct sp_intra_maker *maker, uint32_t *ret_count,
                               struct sp_intra_stretch **ret_stretches)
{
    const struct sp_workload *workload = maker->intra->table->workload;
    struct memory memory = {.maker = maker, .intra = maker->intra};
    enum sp_status status = SP_OK;
    memory.lives = SP_NEW_ARRAY(maker->scratch, workload->tensor_count, struct life);
    memory.roots = SP_NEW_ARRAY(maker->scratch, workload->tensor_count, uint32_t);
    if (memory.lives == NULL || memory.roots == NULL)
        return sp_intra_no_memory(maker->err);
    if (maker->intra->entry_count == 0) {
        *ret_count = 0;
        *ret_stretches = NULL;
        return SP_OK;
    }
    find_lives(&memory);
    status = select_moments(&memory);
    if (status == SP_OK)
        status = add_pieces(&memory);
    if (status == SP_OK && memory.piece_count > 0)
        status = make_stretches(&memory);
    if (status == SP_OK) {
        *ret_count = memory.stretch_count;
        *ret_stretches = memory.stretches;
    }
    return status;
}
