/* Branch and bound: the stack of nodes and their order. */
#include "solvers/choice/exact.h"

#include <math.h>

#include "solvers/choice/exact_node.h"

#define MAX_OPEN   4096              /* nodes on the stack, */
#define LEAST_OPEN 256               /* fewer where they are large: */
#define OPEN_BYTES ((size_t)1 << 29) /* of all of them */

struct exact_task {
    struct sp_exact_worker *worker;
    struct sp_exact_node *node, *children[2];
    const volatile bool *stop;
};

struct sp_exact {
    struct sp_arena *arena;
    const struct sp_reduced *reduced;
    struct sp_exact_node **open, **spare;
    uint32_t open_count, spare_count, most_open;
    struct exact_task tasks[SP_EXACT_TASKS];
    uint32_t *best;
    bool has_best, is_out_of_memory;
    int64_t cost;
    uint64_t work;
};

static struct sp_exact_node *take_node(struct sp_exact *exact)
{
    if (exact->spare_count > 0)
        return exact->spare[--exact->spare_count];
    struct sp_exact_node *node = sp_exact_node_create(exact->arena, exact->tasks[0].worker);
    exact->is_out_of_memory |= node == NULL;
    return node;
}

static void give_node(struct sp_exact *exact, struct sp_exact_node *node)
{
    if (node != NULL)
        exact->spare[exact->spare_count++] = node;
}

struct sp_exact *sp_exact_create(struct sp_arena *arena, const struct sp_bound_state *bound, int64_t cost)
{
    struct sp_exact *exact = SP_NEW(arena, struct sp_exact);
    if (exact == NULL)
        return NULL;
    exact->arena = arena;
    exact->reduced = sp_bound_reduced(bound);
    exact->cost = cost;
    size_t bytes = sp_exact_node_bytes(bound), room = OPEN_BYTES / (bytes + 1);
    exact->most_open = room > MAX_OPEN ? MAX_OPEN : room < LEAST_OPEN ? LEAST_OPEN : (uint32_t)room;
    exact->open = SP_NEW_ARRAY(arena, MAX_OPEN, struct sp_exact_node *);
    exact->spare = SP_NEW_ARRAY(arena, MAX_OPEN + 4 * SP_EXACT_TASKS, struct sp_exact_node *);
    exact->best = SP_NEW_ARRAY(arena, exact->reduced->variable_count, uint32_t);
    bool is_good = exact->open != NULL && exact->spare != NULL && exact->best != NULL;
    for (uint32_t i = 0; i < SP_EXACT_TASKS && is_good; i++) {
        exact->tasks[i].worker = sp_exact_worker_create(arena, bound);
        is_good = exact->tasks[i].worker != NULL;
    }
    if (!is_good)
        return NULL;
    struct sp_exact_node *root = take_node(exact);
    if (root == NULL)
        return NULL;
    sp_exact_node_root(root, bound);
    exact->open[exact->open_count++] = root;
    return exact;
}

static void run_task(void *argument, uint32_t index)
{
    struct exact_task *task = &((struct exact_task *)argument)[index];
    sp_exact_work_on(task->worker, task->node, task->children, task->stop);
}

/* Puts a task's outcome back: the children on the stack, the likelier on top; or the node itself where the task was
   stopped. */
static void take_outcome(struct sp_exact *exact, struct exact_task *task)
{
    struct sp_exact_worker *worker = task->worker;
    exact->work += worker->work;
    if (worker->has_found && worker->found_cost < exact->cost) {
        exact->cost = worker->found_cost;
        exact->has_best = true;
        memcpy(exact->best, worker->found, exact->reduced->variable_count * sizeof(uint32_t));
    }
    if (worker->outcome == SP_EXACT_STOPPED) {
        exact->open[exact->open_count++] = task->node;
        give_node(exact, task->children[0]);
        give_node(exact, task->children[1]);
        return;
    }
    give_node(exact, task->node);
    for (uint32_t i = 0; i < 2; i++)
        if (worker->outcome == SP_EXACT_BRANCHED)
            exact->open[exact->open_count++] = task->children[i];
        else
            give_node(exact, task->children[i]);
}

/* Takes the node on top, or the one with the least bound. */
static struct sp_exact_node *take_open(struct sp_exact *exact, bool is_top)
{
    uint32_t at = exact->open_count - 1;
    for (uint32_t i = 0; i + 1 < exact->open_count && !is_top; i++)
        at = exact->open[i]->bound < exact->open[at]->bound ? i : at;
    struct sp_exact_node *node = exact->open[at];
    exact->open_count--;
    for (uint32_t i = at; i < exact->open_count; i++)
        exact->open[i] = exact->open[i + 1];
    return node;
}

/* Half of the tasks go down, which finds choices, half where the bound is least, which raises it; when many nodes are
   open all go down. */
static uint32_t hand_out(struct sp_exact *exact, const volatile bool *stop)
{
    uint32_t count = 0;
    while (count < SP_EXACT_TASKS && exact->open_count > 0 && !exact->is_out_of_memory) {
        bool is_top = count % 2 == 0 || exact->open_count > exact->most_open / 2;
        struct sp_exact_node *node = take_open(exact, is_top);
        if (node->bound >= exact->cost) {
            give_node(exact, node);
            continue;
        }
        struct exact_task *task = &exact->tasks[count];
        task->node = node;
        task->stop = stop;
        task->children[0] = take_node(exact);
        task->children[1] = take_node(exact);
        task->worker->cost = exact->cost;
        if (exact->is_out_of_memory)
            exact->open[exact->open_count++] = node;
        else
            count++;
    }
    return count;
}

void sp_exact_run(struct sp_exact *exact, uint64_t work, const struct sp_executor *executor, const volatile bool *stop)
{
    uint64_t start = exact->work;
    while (exact->open_count > 0 && exact->work - start < work && !exact->is_out_of_memory &&
           (stop == NULL || !*stop) && exact->open_count + 2 * SP_EXACT_TASKS < exact->most_open) {
        uint32_t count = hand_out(exact, stop);
        sp_executor_run(executor, count, run_task, exact->tasks);
        for (uint32_t i = count; i-- > 0;) /* the first was on top */
            take_outcome(exact, &exact->tasks[i]);
    }
}

void sp_exact_offer(struct sp_exact *exact, int64_t cost)
{
    if (cost >= exact->cost)
        return;
    exact->cost = cost;
    exact->has_best = false;
}

bool sp_exact_is_done(const struct sp_exact *exact)
{
    return exact->open_count == 0;
}

int64_t sp_exact_bound(const struct sp_exact *exact)
{
    int64_t bound = exact->cost;
    for (uint32_t i = 0; i < exact->open_count; i++)
        bound = exact->open[i]->bound < bound ? exact->open[i]->bound : bound;
    return bound;
}

const uint32_t *sp_exact_best(const struct sp_exact *exact, int64_t *ret_cost)
{
    *ret_cost = exact->cost;
    return exact->has_best ? exact->best : NULL;
}

uint64_t sp_exact_work(const struct sp_exact *exact)
{
    return exact->work;
}
