#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "search/grouping/internal.h"

/*
 * Whole subgraphs move between groups. A subgraph may go to any group from the last one among its producers' to the
 * first one among its consumers': that keeps groups monotone along edges, and covers the next group, the previous one
 * and every parallel one without ancestor sets.
 */

struct moves {
    struct sp_grouping_search *search;
    const struct sp_subgraphs *subgraphs;
    uint32_t *group_of; /* subgraph -> group, as in devices[] */
    uint32_t groups;
    uint32_t *first_in, *in;   /* subgraph -> its producers (repeats allowed) */
    uint32_t *first_out, *out; /* subgraph -> its consumers */
    uint32_t *stage;           /* group -> stage of the last scored placement, SP_NO_POSITION for an empty one */
    uint32_t *size;            /* group -> subgraphs in it */
    struct sp_stage_figures *figures;
    struct sp_candidate trial;
};

struct move {
    double key; /* what the fuller of giver and taker would hold: smaller is tried first */
    uint32_t subgraph, group;
};

SP_ASCENDING(by_key, struct move, key, subgraph, group)

/* Calls for each edge between different subgraphs; with `fill` it writes the lists, else it counts. */
static void walk_edges(struct moves *moves, bool fill)
{
    const struct sp_grouping_search *search = moves->search;
    const struct sp_workload *workload = search->workload;
    for (uint32_t i = 0; i < search->live_count; i++) {
        uint32_t id = search->live[i], to = moves->subgraphs->of[id];
        const struct sp_work_node *node = &workload->nodes[id];
        for (uint32_t j = 0; j < node->input_count; j++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[j]];
            if (tensor->kind != SP_WORK_ACTIVATION)
                continue;
            uint32_t from = moves->subgraphs->of[tensor->producer];
            if (from == to)
                continue;
            uint32_t in = moves->first_in[to + 1]++, out = moves->first_out[from + 1]++;
            if (fill) {
                moves->in[in] = from;
                moves->out[out] = to;
            }
        }
    }
}

/* The count of i is in entry i + 1. Summed and shifted, entry i + 1 is where filling i's list begins; when it is
   filled, first[i] is where i's list begins. */
static void sum_counts(uint32_t *first, uint32_t count)
{
    for (uint32_t i = 1; i <= count; i++)
        first[i] += first[i - 1];
    memmove(first + 1, first, ((size_t)count + 1) * sizeof *first);
    first[0] = 0;
}

static enum sp_status init(struct moves *moves)
{
    struct sp_grouping_search *search = moves->search;
    struct sp_arena *arena = search->arena;
    uint32_t count = moves->subgraphs->count;
    moves->groups = search->stage_limit < count ? search->stage_limit : count;
    moves->first_in = SP_NEW_ARRAY(arena, (size_t)count + 2, uint32_t);
    moves->first_out = SP_NEW_ARRAY(arena, (size_t)count + 2, uint32_t);
    moves->stage = SP_NEW_ARRAY(arena, moves->groups, uint32_t);
    moves->size = SP_NEW_ARRAY(arena, moves->groups, uint32_t);
    moves->figures = SP_NEW_ARRAY(arena, search->stage_room, struct sp_stage_figures);
    if (moves->first_in == NULL || moves->first_out == NULL || moves->stage == NULL || moves->size == NULL ||
        moves->figures == NULL)
        return sp_fail_memory(search->err);
    walk_edges(moves, false);
    sum_counts(moves->first_in, count);
    sum_counts(moves->first_out, count);
    moves->in = SP_NEW_ARRAY(arena, moves->first_in[count + 1], uint32_t);
    moves->out = SP_NEW_ARRAY(arena, moves->first_out[count + 1], uint32_t);
    if (moves->in == NULL || moves->out == NULL)
        return sp_fail_memory(search->err);
    walk_edges(moves, true);
    return sp_candidate_init(search, &moves->trial);
}

/* Scores the groups as they are. */
static enum sp_status score(struct moves *moves, struct sp_candidate *candidate)
{
    struct sp_grouping_search *search = moves->search;
    memset(moves->size, 0, moves->groups * sizeof *moves->size);
    for (uint32_t i = 0; i < moves->subgraphs->count; i++)
        moves->size[moves->group_of[i]]++;
    uint32_t used = 0;
    for (uint32_t group = 0; group < moves->groups; group++) {
        moves->stage[group] = moves->size[group] > 0 ? used : SP_NO_POSITION;
        if (moves->size[group] > 0)
            candidate->stage_device[used++] = search->devices[group];
    }
    candidate->stage_count = used;
    for (uint32_t i = 0; i < search->live_count; i++) {
        uint32_t id = search->live[i];
        candidate->stage_of[id] = moves->stage[moves->group_of[moves->subgraphs->of[id]]];
    }
    return sp_candidate_score(search, candidate, moves->figures);
}

static double group_load(const struct moves *moves, uint32_t group, bool memory)
{
    if (moves->stage[group] == SP_NO_POSITION)
        return memory ? -sp_search_capacity(moves->search, moves->search->devices[group]) : 0;
    const struct sp_stage_figures *figures = &moves->figures[moves->stage[group]];
    return memory ? figures->excess_bytes : figures->compute_seconds;
}

/* The moves out of `giver` that may help, best first; loads are bytes over the capacity, or seconds. */
static uint32_t list_moves(struct moves *moves, uint32_t giver, bool memory, struct move *list, uint32_t room)
{
    const struct sp_subgraphs *subgraphs = moves->subgraphs;
    uint32_t count = 0;
    double load = group_load(moves, giver, memory);
    for (uint32_t i = 0; i < subgraphs->count; i++) {
        if (moves->group_of[i] != giver)
            continue;
        uint32_t low = 0, high = moves->groups - 1;
        for (uint32_t j = moves->first_in[i]; j < moves->first_in[i + 1]; j++)
            if (moves->group_of[moves->in[j]] > low)
                low = moves->group_of[moves->in[j]];
        for (uint32_t j = moves->first_out[i]; j < moves->first_out[i + 1]; j++)
            if (moves->group_of[moves->out[j]] < high)
                high = moves->group_of[moves->out[j]];
        double weight = memory ? subgraphs->bytes[i] : subgraphs->seconds[i];
        for (uint32_t group = low; group <= high && count < room; group++) {
            double target = group_load(moves, group, memory) + weight;
            if (group == giver || target >= load)
                continue;
            double left = load - weight;
            list[count++] = (struct move){target > left ? target : left, i, group};
        }
    }
    qsort(list, count, sizeof *list, by_key);
    return count;
}

static uint32_t group_at(const struct moves *moves, uint32_t stage)
{
    uint32_t group = 0;
    while (moves->stage[group] != stage)
        group++;
    return group;
}

/* Takes the first listed move that makes the placement better; *ret_moved says whether there was one. */
static enum sp_status move_once(struct moves *moves, struct sp_candidate *best, struct move *list, uint32_t room,
                                bool *ret_moved)
{
    struct sp_grouping_search *search = moves->search;
    bool memory = best->score.excess_bytes > 0;
    uint32_t giver = group_at(moves, memory ? best->score.worst_stage : best->score.bottleneck);
    uint32_t count = list_moves(moves, giver, memory, list, room);
    *ret_moved = false;
    for (uint32_t i = 0; i < count && search->evaluations_left > 0; i++) {
        search->evaluations_left--;
        moves->group_of[list[i].subgraph] = list[i].group;
        enum sp_status status = score(moves, &moves->trial);
        if (status != SP_OK)
            return status;
        if (sp_score_better(search, &moves->trial.score, &best->score)) {
            sp_candidate_copy(search, best, &moves->trial);
            search->accepted++;
            *ret_moved = true;
            return SP_OK;
        }
        moves->group_of[list[i].subgraph] = giver;
    }
    return SP_OK;
}

#define MOST_LISTED 4096 /* moves of one giver that are looked at */

enum sp_status sp_move_subgraphs(struct sp_grouping_search *search, const struct sp_subgraphs *subgraphs,
                                 uint32_t *group_of, struct sp_candidate *candidate)
{
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct moves moves = {.search = search, .subgraphs = subgraphs};
    moves.group_of = group_of;
    enum sp_status status = init(&moves);
    if (status != SP_OK)
        return status;
    struct move *list = SP_NEW_ARRAY(search->arena, MOST_LISTED, struct move);
    if (list == NULL)
        return sp_fail_memory(search->err);
    status = score(&moves, candidate);
    bool moved = true;
    while (status == SP_OK && moved) {
        if (candidate->score.excess_bytes <= 0 && !search->optimal)
            break;
        status = move_once(&moves, candidate, list, MOST_LISTED, &moved);
        /* A rejected trial leaves the figures of the trial behind; a move that was taken leaves its own. */
    }
    sp_arena_rewind(search->arena, mark);
    return status;
}
