/* The search for the best sequence of collectives: A* over layouts (Dijkstra's algorithm with a bound on what is left). */
#include <math.h>

#include "sharding/reshard/internal.h"

/* The nodes from the start to the target; 0 when there are too many. */
static uint32_t list_nodes(const struct sp_reshard_search *search, uint32_t target, uint32_t *ret_nodes)
{
    uint32_t count = 0;

    for (uint32_t n = target; n != SP_SEARCH_NONE; n = search->nodes[n].parent)
        if (++count > SP_RESHARD_MAX_STEPS)
            return 0;
    uint32_t at = count;
    for (uint32_t n = target; n != SP_SEARCH_NONE; n = search->nodes[n].parent)
        ret_nodes[--at] = n;
    return count;
}

static enum sp_status make_path(struct sp_reshard_search *search, uint32_t target, struct sp_path *path,
                                struct sp_error *err)
{
    uint32_t nodes[SP_RESHARD_MAX_STEPS], count = list_nodes(search, target, nodes);

    path->count = 0;
    path->seconds = path->bytes = 0;
    path->peak = sp_lists_tile(search->problem, &search->target);
    for (uint32_t i = 1, next; i < count; i = next) {
        enum sp_collective kind = search->nodes[nodes[i]].kind;
        struct sp_path_step *step = &path->steps[path->count];

        next = i + 1;
        if (kind == SP_ALL_SLICE || kind == SP_TO_PARTIAL)
            while (next < count && search->nodes[nodes[next]].kind == kind)
                next++;
        enum sp_status status = sp_step_measure(search->problem, &search->near, kind, &search->nodes[nodes[i - 1]].code,
                                                &search->nodes[nodes[next - 1]].code, step, err);
        if (status != SP_OK)
            return status;
        if (kind == SP_COLLECTIVE_PERMUTE && step->bytes == 0 && step->seconds == 0 &&
            step->before.grid != step->after.grid)
            continue; /* the same devices hold the same; only the names of the places change */
        path->seconds += step->seconds;
        path->bytes += step->bytes;
        path->peak = fmax(path->peak, step->peak);
        path->count++;
    }
    return SP_OK;
}

enum sp_status sp_search_run(struct sp_reshard_search *search, const struct sp_problem *problem, enum sp_goal goal,
                             double limit, bool *ret_found, struct sp_path *ret_path, struct sp_error *err)
{
    struct sp_lists lists;
    bool is_going = sp_search_begin(search, problem, goal, limit);

    while (is_going && sp_search_next(search, &lists)) {
        sp_search_expand(search, &lists);
        is_going = search->at != 0 || !sp_search_is_proved(search);
    }
    if (search->left != NULL)
        *search->left -= search->work < *search->left ? search->work : *search->left;
    if (search->out_of_memory)
        return sp_fail_memory(err);
    uint32_t target = sp_search_target(search);
    *ret_found = target != SP_SEARCH_NONE;
    return *ret_found ? make_path(search, target, ret_path, err) : SP_OK;
}
