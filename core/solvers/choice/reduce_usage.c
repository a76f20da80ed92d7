/* Rows of usage: moments, what variables use at them, and which rows can never be exceeded. */
#include "base/sorted.h"
#include "solvers/choice/reducer.h"

struct event {
    int64_t time;
    bool is_end;
};

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (int)y->is_end - (int)x->is_end; /* ends first: intervals are half-open */
}

static bool uses_anything(const struct sp_choice_problem *problem, uint32_t v)
{
    if (problem->begin[v] >= problem->end[v])
        return false;
    for (uint32_t s = problem->first[v]; s < problem->first[v + 1]; s++)
        if (problem->usage[s] > 0)
            return true;
    return false;
}

/* The first moment at or behind a time. */
static uint32_t moment_at(const struct sp_reducer *reducer, int64_t time)
{
    uint32_t at;
    SP_LOWER_BOUND(at, reducer->moment_count, reducer->moment_of[at] < time);
    return at;
}

static bool make_moments(struct sp_reducer *reducer, size_t uses, size_t moments)
{
    reducer->uses = SP_NEW_ARRAY(reducer->scratch, uses, struct sp_reducer_use);
    reducer->limit = SP_NEW_ARRAY(reducer->scratch, moments, int64_t);
    reducer->moment_of = SP_NEW_ARRAY(reducer->arena, moments, int64_t);
    reducer->room = SP_NEW_ARRAY(reducer->arena, moments, int64_t);
    reducer->is_out_of_memory |=
        reducer->uses == NULL || reducer->limit == NULL || reducer->moment_of == NULL || reducer->room == NULL;
    return !reducer->is_out_of_memory;
}

/* The largest sets of live nodes are where something has just begun and the next event is an end: there a moment is. */
void sp_reducer_find_moments(struct sp_reducer *reducer)
{
    const struct sp_choice_problem *problem = reducer->problem;
    uint32_t count = problem->node_count, used = 0;
    struct event *events = SP_NEW_ARRAY(reducer->scratch, 2 * (size_t)count, struct event);
    if (events == NULL || !make_moments(reducer, count, count)) {
        reducer->is_out_of_memory = true;
        return;
    }
    for (uint32_t v = 0; v < count; v++)
        if (uses_anything(problem, v)) {
            events[used++] = (struct event){problem->begin[v], false};
            events[used++] = (struct event){problem->end[v], true};
        }
    qsort(events, used, sizeof *events, by_time);
    for (uint32_t i = 0; i + 1 < used; i++)
        if (!events[i].is_end && events[i + 1].is_end)
            reducer->moment_of[reducer->moment_count++] = events[i].time;
    for (uint32_t m = 0; m < reducer->moment_count; m++)
        reducer->limit[m] = problem->limit;
    for (uint32_t v = 0; v < count; v++)
        if (uses_anything(problem, v))
            reducer->uses[reducer->use_count++] =
                (struct sp_reducer_use){v,
                                        {moment_at(reducer, problem->begin[v]), moment_at(reducer, problem->end[v])},
                                        &problem->usage[problem->first[v]],
                                        1};
}

void sp_reducer_take_moments(struct sp_reducer *reducer, const struct sp_reduced *reduced)
{
    uint32_t variables = reduced->variable_count, uses = variables > 0 ? reduced->first_range[variables] : 0;
    if (!make_moments(reducer, uses, reduced->moment_count))
        return;
    reducer->moment_count = reduced->moment_count;
    for (uint32_t m = 0; m < reduced->moment_count; m++) {
        reducer->limit[m] = reduced->limit[m];
        reducer->moment_of[m] = reduced->moment_of[m];
    }
    for (uint32_t v = 0; v < variables; v++)
        for (uint32_t r = reduced->first_range[v]; r < reduced->first_range[v + 1]; r++)
            reducer->uses[reducer->use_count++] = (struct sp_reducer_use){
                v, reduced->ranges[r], &reduced->usage[reduced->first_usage[v] + (r - reduced->first_range[v])],
                reduced->first_range[v + 1] - reduced->first_range[v]};
}

/* Only `kept` moments stay; number[m] of them are before m. */
void sp_reducer_renumber(struct sp_reducer *reducer, const uint32_t *number, uint32_t kept)
{
    for (uint32_t m = 0; m < reducer->moment_count; m++) {
        if (number[m] == number[m + 1])
            continue;
        reducer->limit[number[m]] = reducer->limit[m];
        reducer->room[number[m]] = reducer->room[m];
        reducer->moment_of[number[m]] = reducer->moment_of[m];
    }
    for (uint32_t i = 0; i < reducer->use_count; i++) {
        struct sp_reduced_range *live = &reducer->uses[i].live;
        *live = (struct sp_reduced_range){number[live->from], number[live->to]};
    }
    reducer->moment_count = kept;
}

/* Where node v was merged to, with the map from that one's states to v's; paths are shortened on the way. NULL map: it
   is that one itself. */
static uint32_t resolve(struct sp_reducer *reducer, uint32_t v, uint32_t *path)
{
    uint32_t depth = 0;
    struct sp_reducer_node *nodes = reducer->nodes;
    for (uint32_t u = v; nodes[u].parent != SP_NO_NODE; u = nodes[u].parent)
        path[depth++] = u;
    if (depth == 0)
        return v;
    uint32_t root = nodes[path[depth - 1]].parent;
    for (uint32_t i = depth - 1; i-- > 0;) {
        struct sp_reducer_node *node = &nodes[path[i]], *above = &nodes[path[i + 1]];
        uint32_t *map = SP_NEW_ARRAY(reducer->scratch, nodes[root].states, uint32_t);
        if (map == NULL) {
            reducer->is_out_of_memory = true;
            return root;
        }
        for (uint32_t j = 0; j < nodes[root].alive_count; j++) {
            uint32_t s = nodes[root].alive[j];
            map[s] = node->map[above->map[s]];
        }
        node->map = map;
        node->parent = root;
    }
    return root;
}

struct profiler {
    struct sp_reducer *reducer;
    uint32_t *first_use, *next_use; /* per node that others were merged into; SP_NO_NODE ends */
    int64_t *base, *most;           /* per moment and one: differences, then sums */
    uint32_t *points;
};

static int64_t usage_of(const struct sp_reducer *reducer, uint32_t use, uint32_t root, uint32_t state)
{
    const struct sp_reducer_use *of = &reducer->uses[use];
    return of->usage[(of->node == root ? state : reducer->nodes[of->node].map[state]) * of->stride];
}

SP_ASCENDING_NUMBERS(by_point, uint32_t)

static uint32_t gather_points(struct profiler *profiler, uint32_t root)
{
    uint32_t count = 0, kept = 0, *points = profiler->points;
    for (uint32_t i = profiler->first_use[root]; i != SP_NO_NODE; i = profiler->next_use[i]) {
        points[count++] = profiler->reducer->uses[i].live.from;
        points[count++] = profiler->reducer->uses[i].live.to;
    }
    qsort(points, count, sizeof *points, by_point);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || points[kept - 1] != points[i])
            points[kept++] = points[i];
    return kept;
}

static uint32_t index_of(const uint32_t *points, uint32_t count, uint32_t point)
{
    uint32_t at;
    SP_LOWER_BOUND(at, count, points[at] < point);
    return at;
}

/* What is the same in all states becomes base load; ranges that then are empty are dropped, equal ones joined. */
static void simplify_profile(struct profiler *profiler, struct sp_reducer_node *node, const uint32_t *points,
                             uint32_t count, int64_t *sums)
{
    uint32_t kept = 0;
    for (uint32_t r = 0; r + 1 < count; r++) {
        int64_t least = INT64_MAX, most = 0;
        for (uint32_t i = 0; i < node->alive_count; i++) {
            int64_t use = sums[(size_t)node->alive[i] * count + r];
            least = use < least ? use : least;
            most = use > most ? use : most;
        }
        profiler->base[points[r]] += least;
        profiler->base[points[r + 1]] -= least;
        profiler->most[points[r]] += most;
        profiler->most[points[r + 1]] -= most;
        if (most == least)
            continue;
        bool is_same = kept > 0 && node->ranges[kept - 1].to == points[r];
        for (uint32_t i = 0; i < node->alive_count; i++) {
            int64_t *row = &sums[(size_t)node->alive[i] * count];
            row[kept] = row[r] - least; /* in place: kept <= r */
            is_same = is_same && row[kept - 1] == row[kept];
        }
        if (is_same)
            node->ranges[kept - 1].to = points[r + 1];
        else
            node->ranges[kept++] = (struct sp_reduced_range){points[r], points[r + 1]};
    }
    node->range_count = kept;
    for (uint32_t s = 0; s < node->states; s++)
        memmove(&sums[(size_t)s * kept], &sums[(size_t)s * count], kept * sizeof *sums);
    node->usage = sums;
}

static void profile_variable(struct profiler *profiler, uint32_t root)
{
    struct sp_reducer *reducer = profiler->reducer;
    struct sp_reducer_node *node = &reducer->nodes[root];
    node->range_count = 0;
    uint32_t count = gather_points(profiler, root);
    if (count == 0)
        return;
    int64_t *sums = SP_NEW_ARRAY(reducer->scratch, (size_t)node->states * count, int64_t);
    node->ranges = SP_NEW_ARRAY(reducer->scratch, count, struct sp_reduced_range);
    if (sums == NULL || node->ranges == NULL) {
        reducer->is_out_of_memory = true;
        return;
    }
    for (uint32_t u = profiler->first_use[root]; u != SP_NO_NODE; u = profiler->next_use[u]) {
        uint32_t from = index_of(profiler->points, count, reducer->uses[u].live.from);
        uint32_t to = index_of(profiler->points, count, reducer->uses[u].live.to);
        for (uint32_t i = 0; i < node->alive_count; i++) {
            uint32_t s = node->alive[i];
            int64_t use = usage_of(reducer, u, root, s);
            sums[(size_t)s * count + from] += use;
            sums[(size_t)s * count + to] -= use;
        }
    }
    for (uint32_t i = 0; i < node->alive_count; i++) {
        int64_t *row = &sums[(size_t)node->alive[i] * count];
        for (uint32_t r = 1; r < count; r++)
            row[r] += row[r - 1];
    }
    simplify_profile(profiler, node, profiler->points, count, sums);
}

static bool sort_uses(struct profiler *profiler)
{
    struct sp_reducer *reducer = profiler->reducer;
    memset(profiler->first_use, 0xff, reducer->problem->node_count * sizeof(uint32_t));
    for (uint32_t i = reducer->use_count; i-- > 0;) {
        const struct sp_reducer_use *use = &reducer->uses[i];
        if (use->live.from >= use->live.to)
            continue;
        uint32_t root = resolve(reducer, use->node, profiler->points);
        profiler->next_use[i] = profiler->first_use[root];
        profiler->first_use[root] = i;
    }
    return !reducer->is_out_of_memory;
}

/* Rows that cannot be exceeded go; what is left is numbered anew. */
static bool drop_rows(struct sp_reducer *reducer, const int64_t *most)
{
    uint32_t kept = 0, count = reducer->moment_count;
    uint32_t *number = SP_NEW_ARRAY(reducer->scratch, (size_t)count + 1, uint32_t);
    if (number == NULL) {
        reducer->is_out_of_memory = true;
        return false;
    }
    for (uint32_t m = 0; m < count; m++) {
        number[m] = kept;
        kept += most[m] > reducer->limit[m];
    }
    number[count] = kept;
    sp_reducer_renumber(reducer, number, kept);
    return kept < count;
}

/* Returns whether rows were dropped; profiles are then out of date. */
static bool profile_all(struct sp_reducer *reducer, struct profiler *profiler)
{
    uint32_t count = reducer->moment_count;
    memset(profiler->base, 0, ((size_t)count + 1) * sizeof(int64_t));
    memset(profiler->most, 0, ((size_t)count + 1) * sizeof(int64_t));
    if (!sort_uses(profiler))
        return false;
    for (uint32_t v = 0; v < reducer->problem->node_count && !reducer->is_out_of_memory; v++)
        if (reducer->nodes[v].parent == SP_NO_NODE)
            profile_variable(profiler, v);
    for (uint32_t m = 0; m < count; m++) {
        if (m > 0) {
            profiler->base[m] += profiler->base[m - 1];
            profiler->most[m] += profiler->most[m - 1];
        }
        if (profiler->base[m] > reducer->minimum_limit && !reducer->is_again)
            reducer->minimum_limit = profiler->base[m];
        reducer->room[m] = reducer->limit[m] - profiler->base[m];
        reducer->is_infeasible |= reducer->room[m] < 0;
    }
    return !sp_reducer_is_done(reducer) && drop_rows(reducer, profiler->most);
}

void sp_reducer_profile(struct sp_reducer *reducer)
{
    size_t nodes = reducer->problem->node_count, uses = reducer->use_count, moments = (size_t)reducer->moment_count + 1;
    struct profiler profiler = {
        .reducer = reducer,
        .first_use = SP_NEW_ARRAY(reducer->scratch, nodes, uint32_t),
        .next_use = SP_NEW_ARRAY(reducer->scratch, uses, uint32_t),
        .base = SP_NEW_ARRAY(reducer->scratch, moments, int64_t),
        .most = SP_NEW_ARRAY(reducer->scratch, moments, int64_t),
        .points = SP_NEW_ARRAY(reducer->scratch, 2 * uses + nodes, uint32_t),
    };
    if (profiler.first_use == NULL || profiler.next_use == NULL || profiler.base == NULL || profiler.most == NULL ||
        profiler.points == NULL) {
        reducer->is_out_of_memory = true;
        return;
    }
    if (profile_all(reducer, &profiler))
        (void)profile_all(reducer, &profiler);
}
