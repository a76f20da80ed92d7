#include <math.h>
#include <string.h>

#include "search/grouping/internal.h"
#include "search/grouping/suffix.h"

/* Rounds over all borders: enough for load to travel along short pipelines, few enough for large models. */
#define SWEEP_WORK    ((uint64_t)1 << 22)
#define FEWEST_ROUNDS 3
#define MOST_ROUNDS   24
#define PATIENCE      2 /* rounds in a row that may bring nothing: load may still be on its way to the bottleneck */

/* Nodes that one round may look at, in sizes of the model. A round that changes little looks at each node twice; where
   stages swallow their neighbours one after the other, the pairs grow. */
#define ROUND_SIZE 8

/* The live nodes by stage, and in each stage by their rank in one of the lines. */
struct members {
    uint32_t *rank;  /* work node -> position in the line */
    uint32_t *nodes; /* stage by stage */
};

struct sweep {
    struct sp_grouping_search *search;
    struct sp_candidate *candidate;
    bool polish;
    double ceiling; /* interval that polishing may use */
    struct members members[3];
    uint32_t orders;  /* how many orders of two stages are cut */
    uint32_t *begin;  /* stage -> its first index in every members[].nodes; stage_count + 1 entries */
    uint32_t *merged; /* nodes of two stages in one order */
    struct sp_side *left, *right;
};

/* How good a cut is: compared from the first member on, smaller is better. */
struct key {
    double excess, first, second, third;
};

struct cut {
    struct key key;
    uint32_t length; /* of the left side */
    uint32_t order;  /* which order it is a cut of */
};

static int compare(double a, double b)
{
    double slack = 1e-11 * (fabs(a) > fabs(b) ? fabs(a) : fabs(b));
    return a < b - slack ? -1 : a > b + slack;
}

static bool key_less(const struct key *a, const struct key *b)
{
    int order = compare(a->excess, b->excess);
    if (order == 0)
        order = compare(a->first, b->first);
    if (order == 0)
        order = compare(a->second, b->second);
    if (order == 0)
        order = compare(a->third, b->third);
    return order < 0;
}

static struct key key_of(const struct sweep *sweep, uint32_t stage, const struct sp_side *left,
                         const struct sp_side *right, uint32_t sides)
{
    const struct sp_grouping_search *search = sweep->search;
    const uint32_t *device = sweep->candidate->stage_device;
    double a = sp_side_interval(left), b = sp_side_interval(right), larger = a > b ? a : b;
    double communication = left->in + left->out + right->in_outside + right->out;
    double over_left = sp_side_memory(left) - sp_search_capacity(search, device[stage]);
    double over_right = sp_side_memory(right) - sp_search_capacity(search, device[stage + 1]);
    struct key key = {.excess = (over_left > 0 ? over_left : 0) + (over_right > 0 ? over_right : 0)};
    if (sweep->polish) {
        key.first = larger > sweep->ceiling ? larger - sweep->ceiling : 0;
        key.second = communication;
        key.third = larger;
    } else if (search->objective == SP_OBJECTIVE_LATENCY) {
        key.first = left->compute + right->compute + left->receive + right->receive + right->send;
        key.second = sides;
        key.third = communication;
    } else if (search->objective == SP_OBJECTIVE_DEVICES) {
        key.first = sides;
        key.second = larger;
        key.third = a * a + b * b;
    } else {
        key.first = larger;
        key.second = a * a + b * b;
        key.third = communication;
    }
    return key;
}

static void scan_left(struct sweep *sweep, uint32_t left, uint32_t right)
{
    struct sp_grouping_search *search = sweep->search;
    struct sp_node_window window;
    sp_window_start_left(search, &window, sweep->candidate, left, right);
    sweep->left[0] = (struct sp_side){0};
    for (uint32_t x = 0; x < search->line.length; x++) {
        sp_window_extend(search, &window, x);
        (void)sp_search_step(search, 4);
        sweep->left[x + 1] = (struct sp_side){.compute = window.compute,
                                              .receive = window.receive,
                                              .send = window.send,
                                              .resident = window.weights,
                                              .peak = window.peak,
                                              .in = window.in,
                                              .out = window.out,
                                              .in_outside = window.in};
    }
}

/* Costs every cut of one order of the nodes of stages `stage` and `stage` + 1; the best so far is kept in `best`. */
static enum sp_status try_order(struct sweep *sweep, uint32_t stage, const uint32_t *nodes, uint32_t count,
                                uint32_t order, uint32_t current, struct cut *best)
{
    struct sp_grouping_search *search = sweep->search;
    const struct sp_candidate *candidate = sweep->candidate;
    uint32_t left = candidate->stage_device[stage], right = candidate->stage_device[stage + 1];
    enum sp_status status = sp_search_step(search, 1);
    if (status != SP_OK)
        return status;
    sp_line_load(search, nodes, count, candidate, left, right);
    scan_left(sweep, left, right);
    status = sp_suffix_scan(search, candidate, left, right, sweep->right);
    sp_line_unload(search);
    if (status != SP_OK)
        return status;
    if (order == 0) /* the present cut is the one to beat */
        *best = (struct cut){
            key_of(sweep, stage, &sweep->left[current], &sweep->right[current], (current > 0) + (current < count)),
            current, 0};
    for (uint32_t cut = 0; cut <= count; cut++) {
        struct key key = key_of(sweep, stage, &sweep->left[cut], &sweep->right[cut], (cut > 0) + (cut < count));
        if (key_less(&key, &best->key))
            *best = (struct cut){key, cut, order};
    }
    search->explored += count + 1;
    return SP_OK;
}

/* Two runs of nodes, each ascending in rank, as one. */
static void merge_runs(const uint32_t *rank, const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count,
                       uint32_t *to)
{
    uint32_t i = 0, j = 0;
    while (i < a_count || j < b_count) {
        bool take_a = j == b_count || (i < a_count && rank[a[i]] < rank[b[j]]);
        *to++ = take_a ? a[i++] : b[j++];
    }
}

/* Orders 2r and 2r + 1: left then right by rank r; both merged by rank r. */
static const uint32_t *order_nodes(struct sweep *sweep, uint32_t stage, uint32_t order)
{
    const uint32_t *begin = sweep->begin + stage;
    const struct members *members = &sweep->members[order / 2];
    const uint32_t *nodes = members->nodes + begin[0];
    if (order % 2 == 0)
        return nodes;
    merge_runs(members->rank, nodes, begin[1] - begin[0], nodes + begin[1] - begin[0], begin[2] - begin[1],
               sweep->merged);
    return sweep->merged;
}

/* Writes the cut into the candidate and the member lists. */
static void apply_cut(struct sweep *sweep, uint32_t stage, const struct cut *cut)
{
    uint32_t *begin = sweep->begin + stage, count = begin[2] - begin[0];
    const uint32_t *nodes = order_nodes(sweep, stage, cut->order);
    for (uint32_t i = 0; i < count; i++)
        sweep->candidate->stage_of[nodes[i]] = i < cut->length ? stage : stage + 1;
    for (uint32_t r = 0; r < sweep->search->line_count; r++) {
        uint32_t *to = sweep->members[r].nodes + begin[0];
        merge_runs(sweep->members[r].rank, to, begin[1] - begin[0], to + begin[1] - begin[0], begin[2] - begin[1],
                   sweep->merged);
        uint32_t left = 0, right = cut->length;
        for (uint32_t i = 0; i < count; i++) {
            bool is_left = sweep->candidate->stage_of[sweep->merged[i]] == stage;
            to[is_left ? left++ : right++] = sweep->merged[i];
        }
    }
    begin[1] = begin[0] + cut->length;
}

static enum sp_status sweep_border(struct sweep *sweep, uint32_t stage, uint32_t *changes)
{
    const uint32_t *begin = sweep->begin + stage;
    uint32_t count = begin[2] - begin[0], current = begin[1] - begin[0];
    struct cut best = {.length = current};
    if (count == 0)
        return SP_OK;
    for (uint32_t order = 0; order < sweep->orders; order++) {
        const uint32_t *nodes = order_nodes(sweep, stage, order);
        enum sp_status status = try_order(sweep, stage, nodes, count, order, current, &best);
        if (status != SP_OK)
            return status;
    }
    if (best.order == 0 && best.length == current)
        return SP_OK;
    apply_cut(sweep, stage, &best);
    ++*changes;
    return SP_OK;
}

static void sort_members(struct sweep *sweep)
{
    struct sp_grouping_search *search = sweep->search;
    const struct sp_candidate *candidate = sweep->candidate;
    memset(sweep->begin, 0, (candidate->stage_count + 2) * sizeof *sweep->begin);
    for (uint32_t i = 0; i < search->live_count; i++)
        sweep->begin[candidate->stage_of[search->live[i]] + 1]++;
    for (uint32_t stage = 0; stage < candidate->stage_count; stage++)
        sweep->begin[stage + 1] += sweep->begin[stage];
    for (uint32_t r = 0; r < search->line_count; r++) {
        uint32_t *next = sweep->merged; /* free now, and at least as long as there are stages */
        memcpy(next, sweep->begin, candidate->stage_count * sizeof *next);
        for (uint32_t i = 0; i < search->live_count; i++) {
            uint32_t node = search->lines[r][i];
            sweep->members[r].nodes[next[candidate->stage_of[node]]++] = node;
        }
    }
}

/* One pass over all borders, forwards or backwards; then the candidate is scored. */
static enum sp_status sweep_round(struct sweep *sweep, bool backwards, uint32_t *changes)
{
    *changes = 0;
    sort_members(sweep);
    uint32_t borders = sweep->candidate->stage_count - 1;
    uint64_t looked_at = 0;
    for (uint32_t i = 0; i < borders && looked_at < ROUND_SIZE * (uint64_t)sweep->search->live_count; i++) {
        uint32_t stage = backwards ? borders - 1 - i : i;
        looked_at += sweep->begin[stage + 2] - sweep->begin[stage];
        enum sp_status status = sweep_border(sweep, stage, changes);
        if (status != SP_OK)
            return status;
    }
    return *changes == 0 ? SP_OK : sp_candidate_score(sweep->search, sweep->candidate, NULL);
}

static enum sp_status sweep_init(struct sweep *sweep, struct sp_grouping_search *search, struct sp_candidate *candidate)
{
    struct sp_arena *arena = search->arena;
    uint32_t live = search->live_count;
    *sweep = (struct sweep){.search = search, .candidate = candidate};
    sweep->orders = live > SP_LARGE_MODEL ? 2 : 2 * search->line_count;
    sweep->begin = SP_NEW_ARRAY(arena, (size_t)search->stage_room + 2, uint32_t);
    sweep->merged = SP_NEW_ARRAY(arena, live, uint32_t);
    sweep->left = SP_NEW_ARRAY(arena, (size_t)live + 1, struct sp_side);
    sweep->right = SP_NEW_ARRAY(arena, (size_t)live + 1, struct sp_side);
    bool done = sweep->begin != NULL && sweep->merged != NULL && sweep->left != NULL && sweep->right != NULL;
    for (uint32_t r = 0; r < search->line_count && done; r++) {
        struct members *members = &sweep->members[r];
        members->rank = SP_NEW_ARRAY(arena, search->workload->node_count, uint32_t);
        members->nodes = SP_NEW_ARRAY(arena, live, uint32_t);
        done = members->rank != NULL && members->nodes != NULL;
        for (uint32_t i = 0; i < live && done; i++)
            members->rank[search->lines[r][i]] = i;
    }
    return done ? SP_OK : sp_fail_memory(search->err);
}

static bool improves(const struct sweep *sweep, const struct sp_score *score, const struct sp_score *best)
{
    if (!sweep->polish)
        return sp_score_better(sweep->search, score, best);
    return score->excess_bytes <= 0 && score->interval <= sweep->ceiling && score->stage_count <= best->stage_count &&
           score->communication < best->communication;
}

static enum sp_status run(struct sp_grouping_search *search, struct sp_candidate *best, bool polish, uint32_t rounds)
{
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct sp_candidate trial;
    struct sweep sweep;
    enum sp_status status = sp_candidate_init(search, &trial);
    if (status == SP_OK)
        status = sweep_init(&sweep, search, &trial);
    if (status != SP_OK)
        return status;
    sweep.polish = polish;
    sweep.ceiling = best->score.interval * (1 + SP_SEARCH_TOLERANCE);
    sp_candidate_copy(search, &trial, best);
    uint32_t idle = 0;
    uint64_t pending = 0; /* changes since the last round that brought something */
    for (uint32_t round = 0; round < rounds && idle < PATIENCE; round++) {
        uint32_t changes;
        status = sweep_round(&sweep, round % 2 == 1, &changes);
        if (status != SP_OK || changes == 0)
            break;
        pending += changes;
        idle++;
        if (improves(&sweep, &trial.score, &best->score)) {
            sp_candidate_copy(search, best, &trial);
            search->accepted += pending;
            pending = idle = 0;
        }
    }
    sp_arena_rewind(search->arena, mark);
    return status;
}

enum sp_status sp_sweep(struct sp_grouping_search *search, struct sp_candidate *candidate)
{
    uint64_t rounds = SWEEP_WORK / (search->live_count + 1);
    rounds = rounds < FEWEST_ROUNDS ? FEWEST_ROUNDS : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    return run(search, candidate, false, (uint32_t)rounds);
}

enum sp_status sp_sweep_polish(struct sp_grouping_search *search, struct sp_candidate *candidate)
{
    if (search->objective == SP_OBJECTIVE_LATENCY || candidate->score.excess_bytes > 0)
        return SP_OK;
    return run(search, candidate, true, 2);
}
