#include <math.h>
#include <string.h>

#include "search/grouping/internal.h"

/* Cuts of a line: stage i is [ends[i - 1], ends[i]) on device devices[i]. */
struct cuts {
    uint32_t count;
    uint32_t *ends, *devices;
    double interval;
};

static bool cuts_init(struct sp_grouping_search *search, struct cuts *cuts)
{
    *cuts = (struct cuts){0};
    cuts->ends = SP_NEW_ARRAY(search->arena, search->stage_room, uint32_t);
    cuts->devices = SP_NEW_ARRAY(search->arena, search->stage_room, uint32_t);
    return cuts->ends != NULL && cuts->devices != NULL;
}

static void write_cuts(const uint32_t *line, const struct cuts *cuts, struct sp_candidate *candidate)
{
    uint32_t begin = 0;
    candidate->stage_count = cuts->count;
    candidate->score.valid = false;
    for (uint32_t stage = 0; stage < cuts->count; stage++) {
        candidate->stage_device[stage] = cuts->devices[stage];
        for (; begin < cuts->ends[stage]; begin++)
            candidate->stage_of[line[begin]] = stage;
    }
}

/* The longest window from `begin` within memory and interval; returns its end, `begin` when there is none. */
static uint32_t longest_window(struct sp_grouping_search *search, uint32_t begin, uint32_t index, double interval,
                               double *ret_interval)
{
    struct sp_node_window window;
    sp_window_start(search, &window, begin, index);
    double capacity = sp_search_capacity(search, window.device);
    double limit = interval * (1 + 1e-12);
    uint32_t end = begin;
    for (uint32_t x = begin; x < search->line.length; x++) {
        sp_window_extend(search, &window, x);
        /* A cancelled search shows in the next step that looks at the status. */
        (void)sp_search_step(search, 4);
        if (sp_window_least_memory(&window) > capacity || window.compute > limit || window.receive > limit ||
            search->cancelled)
            break;
        if (sp_window_memory(&window) <= capacity && sp_window_interval(&window) <= limit) {
            end = x + 1;
            *ret_interval = sp_window_interval(&window);
        }
    }
    return end;
}

/* Packs the loaded line; true when all of it found a place. Otherwise *ret_stuck is where it stopped. */
static enum sp_status pack_loaded(struct sp_grouping_search *search, double interval, struct cuts *cuts,
                                  bool *ret_packed, uint32_t *ret_stuck)
{
    uint32_t begin = 0;
    cuts->count = 0;
    cuts->interval = 0;
    *ret_packed = false;
    for (uint32_t index = 0; index < search->cluster->device_count; index++) {
        if (begin == search->line.length || cuts->count == search->stage_limit)
            break;
        double reached = 0;
        uint32_t end = longest_window(search, begin, index, interval, &reached);
        enum sp_status status = sp_search_step(search, 16);
        if (status != SP_OK)
            return status;
        if (end == begin && search->same_devices)
            break;
        if (end == begin)
            continue; /* a weak device; a later one may do */
        cuts->devices[cuts->count] = search->devices[index];
        cuts->ends[cuts->count++] = end;
        if (reached > cuts->interval)
            cuts->interval = reached;
        begin = end;
    }
    search->explored++;
    *ret_packed = begin == search->line.length;
    *ret_stuck = begin;
    return SP_OK;
}

enum sp_status sp_pack(struct sp_grouping_search *search, const uint32_t *line, double interval,
                       struct sp_candidate *candidate, bool *ret_packed, double *ret_interval, uint32_t *ret_stuck)
{
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct cuts cuts;
    if (!cuts_init(search, &cuts))
        return sp_fail_memory(search->err);
    sp_line_load(search, line, search->live_count, NULL, 0, 0);
    enum sp_status status = pack_loaded(search, interval, &cuts, ret_packed, ret_stuck);
    sp_line_unload(search);
    if (status == SP_OK && *ret_packed) {
        *ret_interval = cuts.interval;
        write_cuts(line, &cuts, candidate);
    }
    sp_arena_rewind(search->arena, mark);
    return status;
}

/* Bisection between a bound and a packing; each success brings the upper end down to what it reached. Sweeps refine
   what is left, so a width far below the tolerance of plans is enough. */
#define BISECTION_STEPS 40
#define BISECTION_WIDTH 1e-6

static enum sp_status bisect(struct sp_grouping_search *search, struct cuts *best, struct cuts *trial)
{
    double low = search->interval_bound * (1 - 1e-9);
    for (int step = 0; step < BISECTION_STEPS && best->interval - low > BISECTION_WIDTH * best->interval; step++) {
        bool packed;
        uint32_t stuck;
        double middle = low + (best->interval - low) / 2;
        enum sp_status status = pack_loaded(search, middle, trial, &packed, &stuck);
        if (status != SP_OK)
            return status;
        if (!packed) {
            low = middle;
            continue;
        }
        struct cuts swap = *best;
        *best = *trial;
        *trial = swap;
    }
    return SP_OK;
}

enum sp_status sp_pack_best(struct sp_grouping_search *search, const uint32_t *line, struct sp_candidate *candidate,
                            bool *ret_packed)
{
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct cuts best, trial;
    uint32_t stuck;
    if (!cuts_init(search, &best) || !cuts_init(search, &trial))
        return sp_fail_memory(search->err);
    sp_line_load(search, line, search->live_count, NULL, 0, 0);
    enum sp_status status = pack_loaded(search, HUGE_VAL, &best, ret_packed, &stuck);
    if (status == SP_OK && *ret_packed)
        status = bisect(search, &best, &trial);
    sp_line_unload(search);
    if (status == SP_OK && *ret_packed)
        write_cuts(line, &best, candidate);
    sp_arena_rewind(search->arena, mark);
    return status;
}

/*
 * Dynamic programming over cut positions. best[j][b] is the best way to run the first b nodes of the line as j stages:
 *
 *   best[0][0] = 0        best[j + 1][b] = min over a < b of  best[j][a] combined with cost(window [a, b))
 *
 * combined by max for intervals and by sum for latency. Windows are costed once for all j, growing from each a, and end
 * where memory or the interval of a packing already known is passed; so there are about n * n / stages of them.
 */
#define EXACT_CELLS ((uint64_t)1 << 20) /* entries of the table */
#define EXACT_WORK  ((uint64_t)3 << 19) /* windows and table updates for one line */

struct cell {
    double value, communication;
    uint32_t from;
};

struct table {
    struct sp_grouping_search *search;
    uint32_t length, stages; /* of the line; most stages */
    struct cell *cells;      /* [stages + 1][length + 1] */
    double ceiling;          /* windows of a longer interval are of no use */
    uint64_t work;
};

static struct cell *cell_at(const struct table *table, uint32_t stages, uint32_t position)
{
    return &table->cells[(size_t)stages * (table->length + 1) + position];
}

static void offer(const struct table *table, const struct sp_node_window *window, uint32_t end, uint32_t first,
                  uint32_t last)
{
    double interval = sp_window_interval(window);
    bool sums = table->search->objective == SP_OBJECTIVE_LATENCY;
    for (uint32_t stages = first; stages <= last; stages++) {
        const struct cell *from = cell_at(table, stages, window->begin);
        struct cell *to = cell_at(table, stages + 1, end);
        double value =
            sums ? from->value + window->compute + window->receive : (from->value > interval ? from->value : interval);
        double communication = from->communication + window->in;
        if (value < to->value || (value == to->value && communication < to->communication))
            *to = (struct cell){value, communication, window->begin};
    }
}

/* All windows from one begin; false when the work is used up. */
static bool extend(struct table *table, uint32_t begin)
{
    struct sp_grouping_search *search = table->search;
    uint32_t first = 0, last = table->stages;
    while (first < table->stages && cell_at(table, first, begin)->value == HUGE_VAL)
        first++;
    while (last > first && (last >= table->stages || cell_at(table, last, begin)->value == HUGE_VAL))
        last--;
    if (first == table->stages || cell_at(table, first, begin)->value == HUGE_VAL)
        return true;
    struct sp_node_window window;
    sp_window_start(search, &window, begin, 0);
    window.before = window.after = sp_search_link(search->cluster, 0, search->cluster->device_count > 1 ? 1 : 0);
    double capacity = sp_search_capacity(search, window.device);
    for (uint32_t x = begin; x < table->length; x++) {
        uint64_t work = 1 + (last - first) / 4;
        if (table->work < work)
            return false;
        table->work -= work;
        sp_window_extend(search, &window, x);
        if (sp_window_least_memory(&window) > capacity || window.compute > table->ceiling ||
            window.receive > table->ceiling)
            break;
        if (sp_window_memory(&window) <= capacity && sp_window_interval(&window) <= table->ceiling)
            offer(table, &window, x + 1, first, last);
    }
    return true;
}

static bool read_back(const struct table *table, struct cuts *cuts)
{
    uint32_t best = 0;
    for (uint32_t stages = 1; stages <= table->stages; stages++) {
        double value = cell_at(table, stages, table->length)->value;
        if (value == HUGE_VAL)
            continue;
        if (best == 0 || (table->search->objective != SP_OBJECTIVE_DEVICES &&
                          value < cell_at(table, best, table->length)->value * (1 - 1e-12)))
            best = stages;
    }
    uint32_t end = table->length;
    cuts->count = best;
    for (uint32_t stages = best; stages > 0; stages--) {
        cuts->ends[stages - 1] = end;
        cuts->devices[stages - 1] = table->search->devices[stages - 1];
        end = cell_at(table, stages, end)->from;
    }
    return best > 0;
}

enum sp_status sp_pack_exact(struct sp_grouping_search *search, const uint32_t *line, double ceiling,
                             struct sp_candidate *candidate, bool *ret_packed)
{
    struct table table = {search, search->live_count, search->stage_limit, NULL, ceiling, EXACT_WORK};
    uint64_t cells = ((uint64_t)table.length + 1) * ((uint64_t)table.stages + 1);
    *ret_packed = false;
    if (!search->uniform || cells > EXACT_CELLS)
        return SP_OK;
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct cuts cuts;
    table.cells = SP_NEW_ARRAY(search->arena, cells, struct cell);
    if (table.cells == NULL || !cuts_init(search, &cuts))
        return sp_fail_memory(search->err);
    for (uint64_t i = 0; i < cells; i++)
        table.cells[i].value = HUGE_VAL;
    table.cells[0] = (struct cell){0};

    sp_line_load(search, line, table.length, NULL, 0, 0);
    enum sp_status status = SP_OK;
    bool affordable = true;
    for (uint32_t begin = 0; begin < table.length && affordable && status == SP_OK; begin++) {
        uint64_t before = table.work;
        affordable = extend(&table, begin);
        status = sp_search_step(search, 4 * (before - table.work) + 1);
    }
    sp_line_unload(search);
    search->explored++;
    if (status == SP_OK && affordable && read_back(&table, &cuts)) {
        write_cuts(line, &cuts, candidate);
        *ret_packed = true;
    }
    sp_arena_rewind(search->arena, mark);
    return status;
}
