/* THROUGHPUT with any sets of units as stages: rounds of annealing on finer and coarser views of the units. */
#include <math.h>
#include <string.h>

#include "solvers/stages/assign.h"

#define TASKS          4
#define ROUNDS         6
#define MAX_LEVELS     5
#define COARSEST       24 /* units for each slot in the coarsest view, about */
#define STEP_WORK      24 /* elementary steps of one move */
#define STEPS_PER_UNIT ((uint64_t)150000)
#define MIN_STEPS      ((uint64_t)2000000)
#define MAX_STEPS      ((uint64_t)64000000)
#define MAX_TABLE      ((uint64_t)1 << 24) /* links and shared weights times slots */
#define EXACT_UNITS    14
#define EXACT_LIMIT    ((uint64_t)3000000)
#define ENDS_AT(value) ((value) * (1 - 1e-9))

/* One view of the units, the finest first. */
struct level {
    struct sp_assign_model *model;
    struct sp_assign_anneal anneal;
};

struct task {
    struct sp_arena *arena;
    uint32_t level_count;
    struct level levels[MAX_LEVELS];
    uint32_t *slot_of; /* scratch: per unit of the finest level */
    struct sp_stages_choice *choices;
};

struct search {
    struct sp_stages_run *run;
    const struct sp_assign_model *model;
    struct sp_assign_best *best;
    double bound;
    bool chooses_options;
    uint64_t steps; /* of all rounds and tasks */
};

/* What is known from the coarser view goes to the finer one, or the best of the finer one back to its beginning. */
static void hand_down(struct task *task, uint32_t level)
{
    const struct sp_assign_anneal *coarse = &task->levels[level + 1].anneal;
    struct sp_assign_anneal *fine = &task->levels[level].anneal;
    const uint32_t *unit_of = task->levels[level + 1].model->unit_of;
    const uint32_t *slot_of = coarse->is_better ? coarse->slot_of : coarse->state->slot_of;
    uint32_t slots = fine->state->slot_count;
    for (uint32_t u = 0; u < task->levels[level].model->unit_count; u++)
        task->slot_of[u] = slot_of[unit_of[u]];
    for (uint32_t s = 0; s < slots; s++)
        task->choices[s] = coarse->is_better ? coarse->choices[s] : coarse->state->slots[s].choice;
    sp_assign_state_load(fine->state, task->choices, task->slot_of);
}

static void run_task(void *argument, uint32_t index)
{
    struct task *task = &((struct task *)argument)[index];
    for (uint32_t level = task->level_count; level-- > 0;) {
        if (level + 1 < task->level_count)
            hand_down(task, level);
        sp_assign_anneal_run(&task->levels[level].anneal);
    }
}

/* Room for annealing on a level; `value` is what is to be beaten there. */
static enum sp_status prepare_level(const struct search *search, struct task *task, uint32_t index, double value,
                                    uint64_t seed)
{
    struct level *level = &task->levels[index];
    struct sp_assign_anneal *anneal = &level->anneal;
    uint32_t slots = search->best->slot_count;
    struct sp_error *err = search->run->err;
    enum sp_status status = sp_assign_state_create(task->arena, level->model, slots, &anneal->state, err);
    if (status != SP_OK)
        return status;
    anneal->slot_of = SP_NEW_ARRAY(task->arena, level->model->unit_count, uint32_t);
    anneal->choices = SP_NEW_ARRAY(task->arena, slots, struct sp_stages_choice);
    if (anneal->slot_of == NULL || anneal->choices == NULL)
        return sp_fail_memory(err);
    anneal->seed = seed;
    anneal->stop = search->run->options->stop;
    anneal->chooses_options = search->chooses_options;
    anneal->value = value;
    return SP_OK;
}

/* Views of fewer and fewer units, `depth` of them beside the finest. */
static enum sp_status coarsen(const struct search *search, struct task *task, uint32_t depth, uint64_t *seed)
{
    struct sp_error *err = search->run->err;
    double seconds = 0;
    for (uint32_t u = 0; u < search->model->unit_count; u++) {
        double least = INFINITY;
        for (uint32_t o = 0; o < search->model->problem->option_count; o++)
            least = fmin(least, search->model->seconds[o][u]);
        seconds += least;
    }
    task->levels[0].model = (struct sp_assign_model *)search->model;
    task->level_count = 1;
    while (task->level_count <= depth && task->level_count < MAX_LEVELS) {
        const struct sp_assign_model *fine = task->levels[task->level_count - 1].model;
        const uint32_t wanted = fine->unit_count / 2;
        if (fine->unit_count < 2 * COARSEST || fine->unit_count < 4 * search->best->slot_count)
            break;
        uint32_t *map = SP_NEW_ARRAY(task->arena, fine->unit_count, uint32_t);
        if (map == NULL)
            return sp_fail_memory(err);
        double most = seconds / search->best->slot_count / 2;
        const uint32_t count = sp_assign_join_coarse(task->arena, fine, wanted, most, sp_random(seed), map);
        if (count == 0)
            return sp_fail_memory(err);
        if (count > fine->unit_count * 9 / 10)
            break;
        enum sp_status status =
            sp_assign_model_contract(task->arena, fine, map, count, &task->levels[task->level_count].model, err);
        if (status != SP_OK)
            return status;
        task->level_count++;
    }
    return SP_OK;
}

/* Where units are at the start of the coarsest level: with most of the level's units' parts in the best solution, or
   at random. */
static void begin(const struct search *search, struct task *task)
{
    uint32_t top = task->level_count - 1;
    const struct sp_assign_best *best = search->best;
    memcpy(task->slot_of, best->slot_of, search->model->unit_count * sizeof *task->slot_of);
    uint32_t *slot_of = task->levels[top].anneal.slot_of; /* free until the level has run */
    for (uint32_t u = 0; u < task->levels[top].model->unit_count; u++)
        slot_of[u] = UINT32_MAX;
    for (uint32_t u = 0; u < search->model->unit_count; u++) {
        uint32_t at = u;
        for (uint32_t level = 1; level <= top; level++)
            at = task->levels[level].model->unit_of[at];
        uint32_t option = best->choices[best->slot_of[u]].option;
        if (slot_of[at] == UINT32_MAX || task->levels[top].model->seconds[option][at] < INFINITY)
            slot_of[at] = best->slot_of[u];
    }
    sp_assign_state_load(task->levels[top].anneal.state, best->choices, slot_of);
}

static enum sp_status prepare_task(const struct search *search, struct task *task, uint32_t round, uint32_t index)
{
    const struct sp_assign_best *best = search->best;
    uint64_t seed = search->run->options->seed * UINT64_C(0xD1342543DE82EF95) + (round * TASKS + index) * 7919 + 1;
    uint32_t kind = (index + round) % TASKS;
    bool is_gentle = kind == 0; /* stays near the best that is known */
    task->slot_of = SP_NEW_ARRAY(task->arena, search->model->unit_count, uint32_t);
    task->choices = SP_NEW_ARRAY(task->arena, best->slot_count, struct sp_stages_choice);
    if (task->slot_of == NULL || task->choices == NULL)
        return sp_fail_memory(search->run->err);
    enum sp_status status = coarsen(search, task, is_gentle ? 0 : kind - 1, &seed);
    for (uint32_t level = 0; status == SP_OK && level < task->level_count; level++)
        status = prepare_level(search, task, level, INFINITY, sp_random(&seed));
    if (status != SP_OK)
        return status;
    begin(search, task);
    double target = best->value < INFINITY ? best->value : sp_assign_state_value(task->levels[0].anneal.state);
    uint64_t share = search->steps / ROUNDS / TASKS / (task->level_count + 1);
    for (uint32_t level = 0; level < task->level_count; level++) {
        struct sp_assign_anneal *anneal = &task->levels[level].anneal;
        bool is_top = level + 1 == task->level_count;
        anneal->steps = level == 0 ? 2 * share : share;
        anneal->hot = is_gentle ? 0.05 : is_top ? 1 : 0.1;
        anneal->cold = level == 0 ? 0.001 : 0.01;
        anneal->state->scale = target > 0 ? 1 / target : 1;
        anneal->state->power_log = 3;
    }
    sp_assign_state_weigh(task->levels[task->level_count - 1].anneal.state);
    if (task->level_count == 1)
        task->levels[0].anneal.value = best->value;
    return SP_OK;
}

/* The finest level of a task may have something better. */
static void take(struct search *search, const struct task *task)
{
    const struct sp_assign_anneal *anneal = &task->levels[0].anneal;
    struct sp_assign_best *best = search->best;
    if (!anneal->is_better || anneal->value >= best->value)
        return;
    best->value = anneal->value;
    memcpy(best->slot_of, anneal->slot_of, search->model->unit_count * sizeof *best->slot_of);
    memcpy(best->choices, anneal->choices, best->slot_count * sizeof *best->choices);
}

static enum sp_status run_round(struct search *search, uint32_t round, bool *ret_goes_on)
{
    struct task tasks[TASKS] = {0};
    enum sp_status status = SP_OK;
    uint64_t work = 0;
    for (uint32_t t = 0; status == SP_OK && t < TASKS; t++) {
        tasks[t].arena = sp_arena_create(sp_arena_budget(search->run->scratch));
        status = tasks[t].arena != NULL ? prepare_task(search, &tasks[t], round, t) : sp_fail_memory(search->run->err);
    }
    if (status == SP_OK) {
        sp_executor_run(search->run->options->executor, TASKS, run_task, tasks);
        for (uint32_t t = 0; t < TASKS; t++) {
            take(search, &tasks[t]);
            for (uint32_t level = 0; level < tasks[t].level_count; level++)
                work += tasks[t].levels[level].anneal.work * STEP_WORK;
        }
        search->run->best = search->best->value;
        *ret_goes_on = sp_stages_spend(search->run, work);
    }
    for (uint32_t t = 0; t < TASKS; t++)
        sp_arena_destroy(tasks[t].arena);
    return status;
}

/* Slots for the stages of `start`, and more for the devices that are left, each under the option of the fewest
   devices. */
static enum sp_status make_slots(struct sp_stages_run *run, const struct sp_assign_model *model,
                                 const struct sp_stages_solution *start, struct sp_assign_best *best)
{
    const struct sp_stages_problem *problem = model->problem;
    uint64_t most = 0;
    uint32_t *left = SP_NEW_ARRAY(run->scratch, problem->class_count, uint32_t);
    for (uint32_t c = 0; left != NULL && c < problem->class_count; c++)
        most += left[c] = problem->class_size[c];
    most = problem->max_stages != 0 && problem->max_stages < most ? problem->max_stages : most;
    most = most > SP_ASSIGN_MAX_SLOTS ? SP_ASSIGN_MAX_SLOTS : most;
    if (start->is_feasible && start->stage_count > most)
        most = start->stage_count;
    best->choices = SP_NEW_ARRAY(run->scratch, (size_t)most + 1, struct sp_stages_choice);
    best->slot_of = SP_NEW_ARRAY(run->scratch, model->unit_count, uint32_t);
    if (left == NULL || best->choices == NULL || best->slot_of == NULL)
        return sp_fail_memory(run->err);
    for (uint32_t s = 0; start->is_feasible && s < start->stage_count; s++) {
        best->choices[best->slot_count++] = start->choices[s];
        const struct sp_stages_option *option = &problem->options[start->choices[s].option];
        left[option->device_class] -= option->devices * start->choices[s].replicas;
    }
    for (bool is_added = true; is_added && best->slot_count < most;) {
        is_added = false;
        for (uint32_t c = 0; c < problem->class_count && best->slot_count < most; c++) {
            uint32_t fewest = UINT32_MAX;
            for (uint32_t o = 0; o < problem->option_count; o++)
                if (problem->options[o].device_class == c && problem->options[o].devices <= left[c] &&
                    (fewest == UINT32_MAX || problem->options[o].devices < problem->options[fewest].devices))
                    fewest = o;
            if (fewest == UINT32_MAX)
                continue;
            left[c] -= problem->options[fewest].devices;
            best->choices[best->slot_count++] = (struct sp_stages_choice){.option = fewest, .replicas = 1};
            is_added = true;
        }
    }
    return SP_OK;
}

/* Each unit where the slot's seconds stay least, the ones with the fewest places first not being looked for: annealing
   begins from it, fitting or not. */
static void spread(const struct sp_assign_model *model, struct sp_assign_best *best, double *seconds)
{
    for (uint32_t u = 0; u < model->unit_count; u++) {
        double least = INFINITY;
        for (uint32_t s = 0; s < best->slot_count; s++) {
            double after = seconds[s] + model->seconds[best->choices[s].option][u] / best->choices[s].replicas;
            if (after < least) {
                least = after;
                best->slot_of[u] = s;
            }
        }
        seconds[best->slot_of[u]] = least;
    }
}

/* Whether slots can be anything but what they are. */
static bool has_options(const struct sp_stages_problem *problem)
{
    for (uint32_t o = 0; o < problem->option_count; o++) {
        if (sp_assign_most_replicas(problem, &problem->options[o]) > 1)
            return true;
        for (uint32_t other = 0; other < o; other++)
            if (problem->options[other].device_class == problem->options[o].device_class)
                return true;
    }
    return problem->max_stages != 0;
}

/* Some slot can take each unit at all. */
static bool has_place_for_all(const struct sp_assign_model *model, const struct sp_assign_best *best)
{
    for (uint32_t u = 0; u < model->unit_count; u++) {
        bool has_place = false;
        for (uint32_t s = 0; s < best->slot_count && !has_place; s++)
            has_place = model->seconds[best->choices[s].option][u] < INFINITY;
        if (!has_place)
            return false;
    }
    return true;
}

static enum sp_status anneal_in_rounds(struct search *search)
{
    struct sp_stages_run *run = search->run;
    uint64_t table = (uint64_t)(search->model->link_count + search->model->shared_count) * search->best->slot_count;
    if (search->best->slot_count < 2 || search->best->slot_count > SP_ASSIGN_MAX_SLOTS || table > MAX_TABLE ||
        !has_place_for_all(search->model, search->best))
        return SP_OK;
    uint64_t steps = search->model->unit_count * STEPS_PER_UNIT;
    steps = steps < MIN_STEPS ? MIN_STEPS : steps > MAX_STEPS ? MAX_STEPS : steps;
    search->steps = steps < run->work_left / STEP_WORK ? steps : run->work_left / STEP_WORK;
    bool goes_on = true;
    enum sp_status status = SP_OK;
    for (uint32_t round = 0; status == SP_OK && goes_on && round < ROUNDS; round++) {
        if (ENDS_AT(search->best->value) <= search->bound)
            break;
        status = run_round(search, round, &goes_on);
    }
    return status;
}

/* The best as a solution over the units of `prepared`: slots in use, in the order of stages. */
static enum sp_status deliver(struct search *search, const struct sp_stages_prepared *prepared,
                              struct sp_stages_solution *ret_solution)
{
    struct sp_stages_run *run = search->run;
    const struct sp_assign_best *best = search->best;
    struct sp_assign_state *state;
    enum sp_status status = sp_assign_state_create(run->scratch, search->model, best->slot_count, &state, run->err);
    uint32_t *place = SP_NEW_ARRAY(run->scratch, best->slot_count, uint32_t);
    struct sp_stages_solution solution = {.choices =
                                              SP_NEW_ARRAY(run->scratch, best->slot_count, struct sp_stages_choice),
                                          .stage_of = SP_NEW_ARRAY(run->scratch, prepared->unit_count, uint32_t)};
    if (status != SP_OK)
        return status;
    if (place == NULL || solution.choices == NULL || solution.stage_of == NULL)
        return sp_fail_memory(run->err);
    sp_assign_state_load(state, best->choices, best->slot_of);
    for (uint32_t s = 0; s < best->slot_count; s++) {
        if (state->slots[s].size == 0)
            continue;
        place[s] = solution.stage_count;
        solution.choices[solution.stage_count++] = best->choices[s];
    }
    for (uint32_t u = 0; u < prepared->unit_count; u++)
        solution.stage_of[u] = place[best->slot_of[search->model->unit_of[u]]];
    const char *fault;
    status = sp_stages_measure(run, prepared, &solution, &fault);
    if (status != SP_OK || fault != NULL)
        return status;
    solution.bound = ret_solution->bound;
    if (!ret_solution->is_feasible || solution.value < ret_solution->value)
        *ret_solution = solution;
    return SP_OK;
}

/* The starting point over the joined units, each where its first part is. */
static enum sp_status begin_search(struct search *search, const struct sp_stages_prepared *prepared,
                                   const struct sp_stages_solution *start)
{
    struct sp_stages_run *run = search->run;
    struct sp_assign_best *best = search->best;
    const struct sp_assign_model *model = search->model;
    enum sp_status status = make_slots(run, model, start, best);
    double *seconds = SP_NEW_ARRAY(run->scratch, (size_t)best->slot_count + 1, double);
    if (status != SP_OK)
        return status;
    if (seconds == NULL)
        return sp_fail_memory(run->err);
    spread(model, best, seconds);
    for (uint32_t u = prepared->unit_count; start->is_feasible && u-- > 0;)
        best->slot_of[model->unit_of[u]] = start->stage_of[u];
    best->value = INFINITY;
    search->chooses_options = has_options(model->problem);
    return SP_OK;
}

/* What the beginning is worth after joining: joining may have moved parts of it, to no loss by itself. */
static enum sp_status value_beginning(struct search *search)
{
    struct sp_assign_best *best = search->best;
    struct sp_assign_state *state;
    if (best->slot_count == 0 || best->slot_count > SP_ASSIGN_MAX_SLOTS || !has_place_for_all(search->model, best))
        return SP_OK;
    uint64_t table = (uint64_t)(search->model->link_count + search->model->shared_count) * best->slot_count;
    if (table > MAX_TABLE)
        return SP_OK;
    enum sp_status status =
        sp_assign_state_create(search->run->scratch, search->model, best->slot_count, &state, search->run->err);
    if (status != SP_OK)
        return status;
    sp_assign_state_load(state, best->choices, best->slot_of);
    double value = sp_assign_state_value(state);
    if (value < INFINITY && sp_assign_state_fits(state))
        best->value = value;
    return SP_OK;
}

/* The units with those joined that can be. */
static enum sp_status join(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                           struct sp_assign_model **ret_model)
{
    struct sp_assign_model *model = NULL;
    enum sp_status status = sp_assign_model_create(run->scratch, prepared, &model, run->err);
    uint32_t *total = SP_NEW_ARRAY(run->scratch, prepared->unit_count, uint32_t), count = prepared->unit_count;
    if (status != SP_OK || model == NULL)
        return status;
    if (total == NULL)
        return sp_fail_memory(run->err);
    for (uint32_t u = 0; u < prepared->unit_count; u++)
        total[u] = u;
    for (bool goes_on = true; status == SP_OK && goes_on;) {
        uint32_t before = model->unit_count, *map = SP_NEW_ARRAY(run->scratch, before, uint32_t);
        if (map == NULL)
            return sp_fail_memory(run->err);
        status = sp_assign_join_sure(run->scratch, model, map, &count, run->err);
        if (status == SP_OK)
            status = sp_assign_model_contract(run->scratch, model, map, count, &model, run->err);
        for (uint32_t u = 0; status == SP_OK && u < prepared->unit_count; u++)
            total[u] = map[total[u]];
        goes_on = count < before;
    }
    model->unit_of = total;
    *ret_model = model;
    return status;
}

/* All assignments where they are few, else annealing. */
static enum sp_status search_all(struct search *search)
{
    struct sp_stages_run *run = search->run;
    struct sp_assign_best *best = search->best;
    double bound = 0;
    enum sp_status status = sp_assign_bound(run, search->model, best->value, &search->bound);
    if (status == SP_OK && search->model->unit_count <= EXACT_UNITS && ENDS_AT(best->value) > search->bound)
        status = sp_assign_exact(run, search->model, NULL, best, EXACT_LIMIT, &bound);
    search->bound = fmax(search->bound, bound);
    return status == SP_OK && search->bound < INFINITY ? anneal_in_rounds(search) : status;
}

enum sp_status sp_stages_assign(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                const struct sp_stages_solution *start, struct sp_stages_solution *ret_solution)
{
    struct sp_assign_model *model = NULL;
    struct sp_assign_best best = {.value = INFINITY};
    uint64_t work = run->work_left;
    enum sp_status status = join(run, prepared, &model);
    if (status != SP_OK || model == NULL)
        return status;
    struct search search = {.run = run, .model = model, .best = &best};
    *ret_solution = *start;
    status = begin_search(&search, prepared, start);
    if (status == SP_OK)
        status = value_beginning(&search);
    if (status == SP_OK)
        status = search_all(&search);
    if (status == SP_OK && best.value < INFINITY)
        status = sp_assign_bound(run, model, best.value, &search.bound);
    if (status != SP_OK)
        return status;
    ret_solution->bound = search.bound;
    ret_solution->work = work - run->work_left;
    ret_solution->is_stopped = run->is_stopped;
    return best.value < INFINITY ? deliver(&search, prepared, ret_solution) : SP_OK;
}
