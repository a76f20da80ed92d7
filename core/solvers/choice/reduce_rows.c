/* Rows of usage that another row implies: whatever is chosen, as much is used there and no more is allowed. */
#include "base/rows.h"
#include "base/sorted.h"
#include "solvers/choice/reducer.h"

/* Comparisons over more changes than this are left out; few rows are implied across so much. */
#define MAX_CHANGES 4096

struct rows {
    struct sp_reducer *reducer;
    struct sp_rows changes; /* per moment: variables whose profile changes there */
    uint32_t *kept;         /* stack */
    uint32_t kept_count;
};

static const int64_t *usage_at(const struct sp_reducer_node *node, uint32_t state, uint32_t moment)
{
    uint32_t at;
    SP_LOWER_BOUND(at, node->range_count, node->ranges[at].to <= moment);
    if (at == node->range_count || node->ranges[at].from > moment)
        return NULL;
    return &node->usage[(size_t)state * node->range_count + at];
}

/* Whether row a implies row b: all changed variables use as much at a, and a's room is no larger. */
static bool implies(const struct rows *rows, uint32_t a, uint32_t b)
{
    if (rows->reducer->room[a] > rows->reducer->room[b])
        return false;
    uint32_t from = a < b ? a : b, to = a < b ? b : a;
    const uint32_t first = rows->changes.start[from + 1], end = rows->changes.start[to + 1];
    if (end - first > MAX_CHANGES)
        return false;
    for (uint32_t i = first; i < end; i++) {
        const struct sp_reducer_node *node = &rows->reducer->nodes[rows->changes.items[i]];
        for (uint32_t j = 0; j < node->alive_count; j++) {
            const int64_t *at_a = usage_at(node, node->alive[j], a), *at_b = usage_at(node, node->alive[j], b);
            if (at_b != NULL && *at_b > (at_a == NULL ? 0 : *at_a))
                return false;
        }
    }
    return true;
}

static void walk_changes(struct rows *rows, bool is_counting)
{
    struct sp_reducer *reducer = rows->reducer;
    for (uint32_t v = 0; v < reducer->problem->node_count; v++) {
        const struct sp_reducer_node *node = &reducer->nodes[v];
        if (!sp_reducer_is_variable(reducer, v))
            continue;
        for (uint32_t r = 0; r < 2 * node->range_count; r++) {
            uint32_t at = r % 2 == 0 ? node->ranges[r / 2].from : node->ranges[r / 2].to;
            if (r % 2 == 0 && r > 0 && node->ranges[r / 2 - 1].to == at)
                continue;
            if (is_counting)
                sp_rows_count(&rows->changes, at);
            else
                sp_rows_put(&rows->changes, at, v);
        }
    }
}

static bool find_changes(struct rows *rows)
{
    struct sp_reducer *reducer = rows->reducer;
    uint32_t count = reducer->moment_count;
    rows->kept = SP_NEW_ARRAY(reducer->scratch, (size_t)count + 1, uint32_t);
    if (rows->kept == NULL || !sp_rows_begin(reducer->scratch, count + 1, &rows->changes))
        return false;
    walk_changes(rows, true);
    if (!sp_rows_end_count(reducer->scratch, count + 1, &rows->changes))
        return false;
    walk_changes(rows, false);
    return true;
}

/* Returns whether any row went; `kept` are those that stay, ascending. */
static bool find_kept(struct rows *rows)
{
    uint32_t count = rows->reducer->moment_count;
    for (uint32_t m = 0; m < count && !sp_reducer_is_stopped(rows->reducer); m++) {
        bool is_implied = false;
        while (rows->kept_count > 0 && !is_implied) {
            uint32_t last = rows->kept[rows->kept_count - 1];
            is_implied = implies(rows, last, m);
            if (is_implied || !implies(rows, m, last))
                break;
            rows->kept_count--;
        }
        if (!is_implied)
            rows->kept[rows->kept_count++] = m;
    }
    return rows->kept_count < count && !sp_reducer_is_stopped(rows->reducer);
}

bool sp_reducer_drop_implied(struct sp_reducer *reducer)
{
    struct rows rows = {.reducer = reducer};
    uint32_t count = reducer->moment_count;
    uint32_t *number = SP_NEW_ARRAY(reducer->scratch, (size_t)count + 1, uint32_t);
    if (number == NULL || !find_changes(&rows)) {
        reducer->is_out_of_memory = true;
        return false;
    }
    if (!find_kept(&rows))
        return false;
    uint32_t kept = 0;
    for (uint32_t m = 0; m <= count; m++) {
        number[m] = kept;
        kept += kept < rows.kept_count && rows.kept[kept] == m;
    }
    sp_reducer_renumber(reducer, number, kept);
    return true;
}
