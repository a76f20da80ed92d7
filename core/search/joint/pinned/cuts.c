#include "search/joint/pinned/cuts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/constraints.h"

#define MOST_STEPS 6e6 /* nodes of all pieces together: long models have fewer cuts */

struct maker {
    struct sp_joint *joint;
    const struct sp_proposal *proposal;
    struct sp_pinned_cuts *cuts;
    const double **seconds;   /* per profile */
    uint32_t *group_size;     /* per group of nodes that are together */
    uint32_t *group_here;     /* the same, in the piece at hand */
    uint32_t *place_of;       /* per node: its place in `live` */
    uint32_t *stamp;          /* per node: the piece it was last in */
    uint32_t *seen;           /* per tensor: the piece it was last received in */
    uint32_t piece;           /* number of the piece at hand */
    struct sp_stage_set *set; /* the piece at hand; its parts are the places in `live` */
};

bool sp_pinned_has(const struct sp_pinned_cuts *cuts, uint32_t from, uint32_t to, uint32_t place)
{
    if (cuts->sets != NULL)
        return ((cuts->sets[to] & ~cuts->sets[from]) >> place & 1) != 0;
    return place >= cuts->ends[from] && place < cuts->ends[to];
}

/* ---- where to cut ------------------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    const int left = __builtin_popcountll(x), right = __builtin_popcountll(y);
    return left != right ? left - right : (x > y) - (x < y);
}

/* All sets that hold with each node what that needs; none where they are too many. */
static bool list_sets(struct maker *maker)
{
    const struct sp_workload *workload = maker->joint->workload;
    struct sp_pinned_cuts *cuts = maker->cuts;
    uint64_t needs[SP_PINNED_IDEALS] = {0}, *sets = SP_NEW_ARRAY(maker->joint->arena, SP_PINNED_CUTS, uint64_t);
    uint32_t count = 1;
    if (sets == NULL)
        return false;
    if (cuts->live_count > SP_PINNED_IDEALS)
        return true;
    for (uint32_t i = 0; i < cuts->live_count; i++) {
        const struct sp_work_node *node = &workload->nodes[cuts->live[i]];
        for (uint32_t k = 0; k < node->input_count; k++) {
            for (uint32_t j = 0; j < cuts->live_count; j++) {
                if (workload->tensors[node->inputs[k]].producer == cuts->live[j])
                    needs[i] |= (uint64_t)1 << j;
            }
        }
    }
    for (uint32_t done = 0; done < count; done++) {
        for (uint32_t i = 0; i < cuts->live_count; i++) {
            const uint64_t bit = (uint64_t)1 << i, next = sets[done] | bit;
            uint32_t known = 0;
            if ((sets[done] & bit) != 0 || (needs[i] & ~sets[done]) != 0)
                continue;
            while (known < count && sets[known] != next)
                known++;
            if (known < count)
                continue;
            if (count == SP_PINNED_CUTS)
                return true;
            sets[count++] = next;
        }
    }
    qsort(sets, count, sizeof *sets, by_size);
    cuts->sets = sets;
    cuts->count = count;
    return true;
}

static bool is_pinned(const struct sp_constraints *constraints, uint32_t node)
{
    return (constraints->stage_of != NULL && constraints->stage_of[node] != SP_UNPINNED) ||
           (constraints->device_of != NULL && constraints->device_of[node] != SP_UNPINNED);
}

/* Places on the line: beside pinned nodes first, then where equally many seconds lie between. */
static bool list_places(struct maker *maker)
{
    const struct sp_constraints *constraints = maker->joint->options->constraints;
    struct sp_pinned_cuts *cuts = maker->cuts;
    const uint32_t length = cuts->live_count;
    uint32_t most = (uint32_t)sqrt(2 * MOST_STEPS / (length + 1.0)), taken = 0;
    bool *is_cut = SP_NEW_ARRAY(maker->joint->arena, (size_t)length + 1, bool);
    double total = 0, until = 0;
    cuts->ends = SP_NEW_ARRAY(maker->joint->arena, SP_PINNED_CUTS, uint32_t);
    if (is_cut == NULL || cuts->ends == NULL)
        return false;
    most = most > SP_PINNED_CUTS ? SP_PINNED_CUTS : most < 16 ? 16 : most;
    for (uint32_t p = 0; p < length; p++)
        total += maker->proposal->profiles[0]->seconds[cuts->live[p]] + 1e-12;
    for (uint32_t p = 1; p < length && taken + 2 < most; p++) {
        is_cut[p] = is_pinned(constraints, cuts->live[p]) || is_pinned(constraints, cuts->live[p - 1]);
        taken += is_cut[p];
    }
    const uint32_t rest = most - 2 - taken;
    for (uint32_t p = 1, next = 1; p < length && rest > 0; p++) {
        until += maker->proposal->profiles[0]->seconds[cuts->live[p - 1]] + 1e-12;
        if (is_cut[p] || (length > most && until < total * next / (rest + 1)))
            continue;
        while (length > most && until >= total * next / (rest + 1))
            next++;
        is_cut[p] = true;
    }
    is_cut[0] = is_cut[length] = true;
    for (uint32_t p = 0; p <= length && cuts->count < SP_PINNED_CUTS; p++) {
        if (is_cut[p])
            cuts->ends[cuts->count++] = p;
    }
    cuts->ends[cuts->count - 1] = length;
    return true;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void add_received(struct maker *maker, struct sp_pinned_piece *piece, uint32_t n,
                         struct sp_pinned_received *list)
{
    const struct sp_workload *workload = maker->joint->workload;
    const struct sp_work_node *node = &workload->nodes[n];
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
        if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK ||
            maker->stamp[tensor->producer] == maker->piece || maker->seen[node->inputs[i]] == maker->piece)
            continue;
        maker->seen[node->inputs[i]] = maker->piece;
        if (piece->received_count < SP_PINNED_RECEIVED)
            list[piece->received_count++] =
                (struct sp_pinned_received){maker->place_of[tensor->producer], tensor->bytes};
        else
            list[SP_PINNED_RECEIVED - 1].bytes += tensor->bytes;
    }
}

/* False where the node's pins do not go with those of the others in the piece. */
static bool add_pins(struct maker *maker, struct sp_pinned_piece *piece, uint32_t n)
{
    const struct sp_constraints *c = maker->joint->options->constraints;
    if (c->stage_of != NULL && c->stage_of[n] != SP_UNPINNED) {
        if (piece->stage != SP_UNPINNED && piece->stage != c->stage_of[n])
            return false;
        piece->stage = c->stage_of[n];
    }
    if (c->device_of != NULL && c->device_of[n] != SP_UNPINNED) {
        piece->low = c->device_of[n] < piece->low ? c->device_of[n] : piece->low;
        piece->high = c->device_of[n] > piece->high ? c->device_of[n] : piece->high;
    }
    if (c->together_of != NULL && c->together_of[n] != SP_UNPINNED)
        maker->group_here[c->together_of[n]]++;
    return true;
}

static bool are_groups_whole(const struct maker *maker)
{
    const struct sp_constraints *c = maker->joint->options->constraints;
    for (uint32_t g = 0; c->together_of != NULL && g < c->together_count; g++) {
        if (maker->group_here[g] != 0 && maker->group_here[g] != maker->group_size[g])
            return false;
    }
    return true;
}

static void add_figures(const struct maker *maker, struct sp_pinned_piece *piece, uint32_t n)
{
    for (uint32_t p = 0; p < maker->proposal->profile_count; p++) {
        const double unable = maker->joint->workload->unable_seconds, seconds = maker->seconds[p][n];
        piece->seconds[p] += unable > 0 && seconds >= unable ? INFINITY : seconds;
    }
}

/* Puts the nodes of a piece in the set, or takes them out. */
static void change_set(const struct maker *maker, uint32_t from, uint32_t to,
                       void (*change)(struct sp_stage_set *set, uint32_t part))
{
    const struct sp_pinned_cuts *cuts = maker->cuts;
    const uint32_t first = cuts->sets != NULL ? 0 : cuts->ends[from];
    const uint32_t end = cuts->sets != NULL ? cuts->live_count : cuts->ends[to];
    for (uint32_t i = first; i < end; i++) {
        if (sp_pinned_has(cuts, from, to, i))
            change(maker->set, i);
    }
}

static enum sp_status fill_piece(struct maker *maker, uint32_t from, uint32_t to, struct sp_error *err)
{
    const struct sp_pinned_cuts *cuts = maker->cuts;
    const uint32_t profiles = maker->proposal->profile_count;
    struct sp_pinned_piece *piece = &maker->cuts->pieces[(size_t)from * cuts->count + to];
    const uint32_t first = cuts->sets != NULL ? 0 : cuts->ends[from];
    const uint32_t end = cuts->sets != NULL ? cuts->live_count : cuts->ends[to];
    struct sp_pinned_received list[SP_PINNED_RECEIVED] = {0};
    *piece = (struct sp_pinned_piece){.stage = SP_UNPINNED, .low = UINT32_MAX};
    if (cuts->sets != NULL && (cuts->sets[from] & ~cuts->sets[to]) != 0)
        return SP_OK;
    double *figures = SP_NEW_ARRAY(maker->joint->arena, 3 * (size_t)profiles, double);
    if (figures == NULL)
        return sp_fail_memory(err);
    piece->seconds = figures;
    piece->weights = figures + profiles;
    piece->bytes = figures + 2 * (size_t)profiles;
    for (uint32_t p = 0; p < profiles; p++) {
        piece->weights[p] = sp_stage_set_weights(maker->set, p);
        piece->bytes[p] = sp_stage_set_bytes(maker->set, p);
    }
    piece->is_possible = true;
    maker->piece++;
    if (maker->joint->options->constraints->together_of != NULL)
        memset(maker->group_here, 0, maker->joint->options->constraints->together_count * sizeof *maker->group_here);
    for (uint32_t i = first; i < end; i++) {
        if (sp_pinned_has(cuts, from, to, i))
            maker->stamp[cuts->live[i]] = maker->piece;
    }
    for (uint32_t i = first; i < end && piece->is_possible; i++) {
        if (!sp_pinned_has(cuts, from, to, i))
            continue;
        piece->is_possible = add_pins(maker, piece, cuts->live[i]);
        add_figures(maker, piece, cuts->live[i]);
        add_received(maker, piece, cuts->live[i], list);
    }
    piece->is_possible = piece->is_possible && are_groups_whole(maker);
    if (!piece->is_possible || piece->received_count == 0)
        return SP_OK;
    piece->received = SP_NEW_ARRAY(maker->joint->arena, piece->received_count, struct sp_pinned_received);
    if (piece->received == NULL)
        return sp_fail_memory(err);
    memcpy(piece->received, list, piece->received_count * sizeof *list);
    return SP_OK;
}

static bool prepare(struct maker *maker)
{
    const struct sp_constraints *c = maker->joint->options->constraints;
    struct sp_arena *arena = maker->joint->arena;
    maker->seconds = SP_NEW_ARRAY(arena, maker->proposal->profile_count, const double *);
    maker->group_size = SP_NEW_ARRAY(arena, (size_t)c->together_count + 1, uint32_t);
    maker->group_here = SP_NEW_ARRAY(arena, (size_t)c->together_count + 1, uint32_t);
    maker->place_of = SP_NEW_ARRAY(arena, maker->joint->workload->node_count, uint32_t);
    maker->stamp = SP_NEW_ARRAY(arena, maker->joint->workload->node_count, uint32_t);
    maker->seen = SP_NEW_ARRAY(arena, maker->joint->workload->tensor_count, uint32_t);
    if (maker->seconds == NULL || maker->group_size == NULL || maker->group_here == NULL || maker->place_of == NULL ||
        maker->stamp == NULL || maker->seen == NULL)
        return false;
    memset(maker->place_of, 0xFF, maker->joint->workload->node_count * sizeof *maker->place_of);
    for (uint32_t i = 0; i < maker->cuts->live_count; i++)
        maker->place_of[maker->cuts->live[i]] = i;
    for (uint32_t i = 0; c->together_of != NULL && i < maker->cuts->live_count; i++) {
        if (c->together_of[maker->cuts->live[i]] != SP_UNPINNED)
            maker->group_size[c->together_of[maker->cuts->live[i]]]++;
    }
    if (!list_sets(maker) || (maker->cuts->sets == NULL && !list_places(maker)))
        return false;
    maker->cuts->pieces = SP_NEW_ARRAY(arena, (size_t)maker->cuts->count * maker->cuts->count, struct sp_pinned_piece);
    return maker->cuts->pieces != NULL;
}

enum sp_status sp_pinned_cuts_create(struct sp_joint *joint, const struct sp_proposal *proposal, const uint32_t *line,
                                     uint32_t count, struct sp_pinned_cuts **ret_cuts, struct sp_error *err)
{
    struct maker maker = {.joint = joint, .proposal = proposal, .cuts = SP_NEW(joint->arena, struct sp_pinned_cuts)};
    if (maker.cuts == NULL)
        return sp_fail_memory(err);
    maker.cuts->live_count = count;
    maker.cuts->live = line;
    if (!prepare(&maker))
        return sp_fail_memory(err);
    for (uint32_t p = 0; p < proposal->profile_count; p++) {
        enum sp_status status = sp_joint_able_seconds(joint, proposal->profiles[p], &maker.seconds[p], err);
        if (status != SP_OK)
            return status;
    }
    struct sp_stage_parts *parts = sp_joint_parts(joint, proposal, count, maker.place_of);
    maker.set = parts == NULL ? NULL : sp_stage_set_create(joint->arena, parts);
    if (maker.set == NULL)
        return sp_fail_memory(err);
    const bool is_line = maker.cuts->sets == NULL; /* pieces from one cut grow */
    for (uint32_t from = 0; from + 1 < maker.cuts->count; from++) {
        for (uint32_t to = from + 1; to < maker.cuts->count; to++) {
            change_set(&maker, is_line ? to - 1 : from, to, sp_stage_set_put);
            enum sp_status status = fill_piece(&maker, from, to, err);
            if (status != SP_OK)
                return status;
            if (!is_line)
                change_set(&maker, from, to, sp_stage_set_take);
        }
        if (is_line)
            change_set(&maker, from, maker.cuts->count - 1, sp_stage_set_take);
    }
    *ret_cuts = maker.cuts;
    return SP_OK;
}
