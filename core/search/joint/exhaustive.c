#include "search/joint/exhaustive.h"

#include <math.h>
#include <string.h>

#include "search/grouping/internal.h"
#include "search/joint/exhaustive_strategies.h"
#include "search/joint/pareto_front.h"
#include "search/joint/rechoose.h"
#include "search/joint/run/copies.h"
#include "search/joint/run/divisions.h"
#include "search/joint/run/near_best.h"
#include "search/joint/unequal/unequal.h"
#include "search/joint/violations.h"
#include "search/states.h"

#define MAX_FORMS 128 /* options times replicas of a stage */

/* What a stage is: blocks of an option, so many of them. */
struct form {
    const struct sp_space_option *option;
    uint32_t option_index, replicas;
};

struct exhaust {
    struct sp_joint *joint;
    uint32_t live[SP_EXHAUST_LIVE], live_count; /* those of each phase in the same order */
    uint32_t front_count;                       /* of these, those of the first phase */
    uint32_t before[SP_EXHAUST_LIVE];           /* per live node of it: which must not be in a later stage */
    bool is_left_out[SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES], leaves_out; /* options; anything */
    uint32_t form_count, usable_count;
    struct form forms[MAX_FORMS];
    uint32_t usable[MAX_FORMS]; /* forms that leave a device for each other stage */
    struct sp_ways *ways;       /* per option and set of nodes */
    struct sp_joint_candidate *best[SP_EXHAUST_BEST], *trial;
    bool is_heard; /* somebody listens, and is told every plan */
    struct sp_error *err;
    /* The stages at hand. */
    uint32_t stage_count;
    uint32_t stage_of[SP_EXHAUST_LIVE];                          /* per live node of the first phase */
    uint32_t mask[SP_EXHAUST_DEVICES], form[SP_EXHAUST_DEVICES]; /* per stage; of usable forms */
    uint32_t device[SP_EXHAUST_DEVICES], way[SP_EXHAUST_DEVICES];
};

/* ---- what there is ---------------------------------------------------------------------------------------------- */

static void list_forms(struct exhaust *e)
{
    const struct sp_joint *joint = e->joint;
    const uint32_t most = joint->options->max_replicas;
    for (uint32_t i = 0; i < joint->space->option_count; i++) {
        const struct sp_space_option *option = &joint->space->options[i];
        const uint32_t room = e->is_left_out[i] ? 0 : joint->space->classes[option->class_index].count / option->size;
        for (uint32_t r = 1; r <= room && (most == 0 || r <= most) && e->form_count < MAX_FORMS; r++)
            e->forms[e->form_count++] = (struct form){option, i, r};
    }
}

static const struct form *form_of(const struct exhaust *e, uint32_t stage)
{
    return &e->forms[e->usable[e->form[stage]]];
}

static uint32_t devices_of(const struct form *form)
{
    return form->option == NULL ? 0 : form->replicas * form->option->size;
}

static void list_usable(struct exhaust *e)
{
    const uint32_t most = e->joint->cluster->device_count + 1 - e->stage_count;
    e->usable_count = 0;
    for (uint32_t f = 0; f < e->form_count; f++)
        if (devices_of(&e->forms[f]) <= most)
            e->usable[e->usable_count++] = f;
}

static void list_nodes(struct exhaust *e)
{
    const struct sp_workload *workload = e->joint->workload;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        if (node->folded)
            continue;
        for (uint32_t i = 0; i < node->input_count && node->phase == 0; i++) {
            for (uint32_t j = 0; j < e->live_count; j++) {
                if (workload->tensors[node->inputs[i]].producer == e->live[j])
                    e->before[e->live_count] |= 1u << j;
            }
        }
        e->live[e->live_count++] = n;
        e->front_count += node->phase == 0;
    }
}

/* The further meshes of the options' blocks as options behind them. */
static void add_meshes(struct sp_space *space)
{
    const uint32_t given = space->option_count;
    for (uint32_t i = 0; i < given; i++) {
        uint32_t cuts[SP_SPACE_CUTS];
        const uint32_t count = sp_space_cuts(&space->options[i], cuts);
        for (uint32_t c = 0; c < count; c++)
            (void)sp_space_add_mesh(space, &space->options[i], cuts[c]);
    }
}

/* Whether two shares or more are not all multiples of some number: else fewer blocks are the same. */
static bool are_reduced(const uint32_t *shares, uint32_t count)
{
    for (uint32_t divisor = 2; divisor <= SP_EXHAUST_BLOCKS_OF_TWO; divisor++) {
        uint32_t d = 0;
        while (d < count && shares[d] % divisor == 0)
            d++;
        if (d == count)
            return false;
    }
    return true;
}

/* A row of devices in all shares that some operator can be cut in, as options that stand beside the others. */
static void add_row(struct exhaust *e, uint32_t first, uint32_t size, const double *undivided)
{
    const struct sp_joint *joint = e->joint;
    const uint32_t most = joint->cluster->device_count == 2 ? SP_EXHAUST_BLOCKS_OF_TWO : SP_EXHAUST_BLOCKS;
    uint32_t shares[SP_EXHAUST_DEVICES] = {1, 1, 1, 1}, d = 0;
    while (d < size) {
        uint32_t blocks = 0;
        for (d = 0; d < size; d++)
            blocks += shares[d];
        if (blocks <= most && undivided[blocks] < 1 && are_reduced(shares, size)) {
            const uint32_t at = joint->space->option_count;
            if (sp_space_add_shares(joint->space, joint->workload, first, size, shares) != NULL)
                joint->space->options[at].is_further = true;
        }
        for (d = 0; d < size && ++shares[d] > most; d++)
            shares[d] = 1;
    }
}

/* Rows of unequal devices, in every share. */
static enum sp_status add_shares(struct exhaust *e)
{
    const struct sp_joint *joint = e->joint;
    const uint32_t devices = joint->cluster->device_count;
    double undivided[SP_SHARES_BLOCKS + 1] = {0};
    enum sp_status status = sp_undivided_find(joint, undivided, e->err);
    for (uint32_t size = 2; status == SP_OK && size <= devices; size++)
        for (uint32_t first = 0; first + size <= devices; first++)
            if (sp_space_is_unequal(joint->space, joint->workload, first, size))
                add_row(e, first, size, undivided);
    sp_space_lay(joint->space, UINT32_MAX, false);
    return status;
}

/* Whether every phase has the nodes of the first one. */
static bool are_alike(const struct sp_workload *workload)
{
    uint32_t n = 0;
    while (n < workload->node_count &&
           workload->nodes[n].folded == workload->nodes[sp_work_first_node(workload, n)].folded)
        n++;
    return n == workload->node_count;
}

/* The most ways that the nodes of a phase have under a table. */
static uint64_t count_ways(const struct exhaust *e, const struct sp_strategy_table *table)
{
    uint64_t most = 1, ways = 1;
    for (uint32_t i = 0; table != NULL && i < e->live_count; i++) {
        ways = (i % e->front_count == 0 ? 1 : ways) * sp_strategy_of(table, e->live[i])->count;
        most = ways > most ? ways : most;
    }
    return most;
}

/* Whether nodes and devices are few enough; makes the tables, and leaves options out that have too many strategies. */
static enum sp_status is_tiny(struct exhaust *e, bool shares, bool *ret_tiny)
{
    const struct sp_joint *joint = e->joint;
    const uint32_t most = joint->options->strategy == SP_STRATEGY_GROUPING ? SP_EXHAUST_NODES : SP_EXHAUST_OTHERS;
    uint32_t live_count = 0, all = 0;
    double places = 1;
    *ret_tiny = false;
    for (uint32_t n = 0; n < joint->workload->node_count; n++) {
        const struct sp_work_node *node = &joint->workload->nodes[n];
        const bool is_front = !node->folded && node->phase == 0;
        all += !node->folded;
        live_count += is_front;
        places *= is_front ? joint->cluster->device_count : 1;
    }
    if (live_count == 0 || all > SP_EXHAUST_LIVE || !are_alike(joint->workload) || live_count > most ||
        joint->cluster->device_count > SP_EXHAUST_DEVICES || places > SP_EXHAUST_PLACES)
        return SP_OK;
    list_nodes(e);
    add_meshes(joint->space);
    enum sp_status status = shares && places <= SP_EXHAUST_SHARED_PLACES ? add_shares(e) : SP_OK;
    if (status != SP_OK)
        return status;
    e->is_heard = joint->options->listener != NULL;
    for (uint32_t i = 0; i < joint->space->option_count; i++) {
        struct sp_strategy_table *table = NULL;
        status = sp_joint_table(e->joint, &joint->space->options[i], &table, e->err);
        if (status != SP_OK)
            return status;
        const uint64_t ways = count_ways(e, table);
        e->is_left_out[i] = ways > SP_EXHAUST_WAYS;
        e->leaves_out = e->leaves_out || e->is_left_out[i];
        e->is_heard = e->is_heard && ways <= SP_EXHAUST_HEARD;
    }
    *ret_tiny = true;
    return SP_OK;
}

static enum sp_status ways_of(struct exhaust *e, uint32_t stage, struct sp_ways **ret_ways)
{
    const struct form *form = form_of(e, stage);
    struct sp_ways *ways = &e->ways[((size_t)form->option_index << e->front_count) + e->mask[stage]];
    enum sp_status status = SP_OK;
    if (!ways->made)
        status = sp_ways_create(e->joint, form->option, &(struct sp_live_nodes){e->live, e->live_count, e->front_count},
                                e->mask[stage], ways, e->err);
    *ret_ways = ways;
    return status;
}

/* ---- one plan --------------------------------------------------------------------------------------------------- */

static void fill_trial(struct exhaust *e, struct sp_ways *const *ways)
{
    struct sp_joint_candidate *trial = e->trial;
    trial->placement.stage_count = e->stage_count;
    trial->strategy = e->joint->options->strategy;
    for (uint32_t i = 0; i < e->live_count; i++)
        trial->placement.stage_of[e->live[i]] = e->stage_of[i % e->front_count];
    sp_place_folded(e->joint->workload, trial->placement.stage_of);
    for (uint32_t s = 0; s < e->stage_count; s++) {
        const struct form *form = form_of(e, s);
        const struct sp_way *way = &ways[s]->items[e->way[s]];
        trial->placement.stage_device[s] = e->device[s];
        trial->placement.stage_size[s] = form->option->size;
        trial->placement.stage_replicas[s] = form->replicas;
        trial->options[s] = form->option;
        trial->sharded[s] = (struct sp_sharded_stage){.table = e->joint->tables[form->option_index],
                                                      .node_count = ways[s]->node_count,
                                                      .nodes = ways[s]->nodes,
                                                      .strategy_of = way->strategy_of,
                                                      .intra = way->intra};
    }
}

/* The trial's lists become the candidate's own: those of the trial change with the next plan. */
static bool note_beyond(struct exhaust *e)
{
    const struct sp_joint_candidate *known = e->joint->beyond;
    if (!sp_front_note_short_of_memory(e->joint, e->trial))
        return false;
    if (e->joint->beyond == known)
        return true;
    e->trial = sp_joint_candidate_create(e->joint, SP_EXHAUST_DEVICES);
    return e->trial != NULL;
}

/* Tells a plan that was evaluated to whoever listens, and remembers it where it may be the answer. */
static enum sp_status consider(struct exhaust *e, struct sp_joint_candidate *plan, bool *kept)
{
    struct sp_joint *joint = e->joint;
    bool is_heard;
    enum sp_status status = sp_joint_tell(joint, plan, &is_heard, e->err);
    if (status != SP_OK)
        return status;
    const enum sp_objective objectives[SP_EXHAUST_BEST] = {joint->options->objective, SP_OBJECTIVE_LATENCY,
                                                           SP_OBJECTIVE_THROUGHPUT};
    bool is_best = false;
    for (uint32_t i = 0; i < SP_EXHAUST_BEST && plan->fits; i++) {
        if (e->best[i] != NULL && !sp_front_better(objectives[i], plan, e->best[i]))
            continue;
        e->best[i] = plan;
        is_best = true;
    }
    const bool is_ranked = plan->fits && sp_front_rank(joint, plan);
    const bool is_near = plan->fits && sp_near_add(joint, plan);
    *kept = *kept || is_best || is_ranked || is_near || is_heard;
    return SP_OK;
}

/* Evaluates the stages at hand; a better plan stays, with everything in it. */
static enum sp_status try_plan(struct exhaust *e, struct sp_ways *const *ways)
{
    struct sp_joint *joint = e->joint;
    struct sp_arena_mark mark = sp_arena_mark(joint->arena);
    fill_trial(e, ways);
    if (!sp_states_are_kept(joint->workload, &e->trial->placement, e->trial->sharded) ||
        (joint->options->constraints != NULL &&
         sp_constraints_violation(joint->arena, joint->options->constraints, joint->workload, joint->cluster,
                                  &e->trial->placement, e->trial->sharded, NULL) != SP_OK)) {
        sp_arena_rewind(joint->arena, mark);
        return SP_OK;
    }
    enum sp_status status = sp_joint_judge(joint, e->trial, e->err);
    if (status != SP_OK)
        return status;
    if (e->trial->fits &&
        sp_constraints_latency(joint->options->constraints, e->trial->evaluation->latency_seconds, NULL) != SP_OK) {
        sp_arena_rewind(joint->arena, mark);
        return SP_OK;
    }
    const struct sp_joint_candidate *beyond = joint->beyond;
    struct sp_joint_candidate *copied = NULL;
    bool is_kept = false;
    if (!e->trial->fits && !note_beyond(e))
        return sp_fail_memory(e->err);
    status = consider(e, e->trial, &is_kept);
    if (status == SP_OK && e->trial->fits)
        status = sp_joint_copy(joint, e->trial, &copied, e->err);
    if (status == SP_OK && copied != NULL)
        status = consider(e, copied, &is_kept);
    if (status != SP_OK)
        return status;
    if (!is_kept) {
        if (joint->beyond == beyond)
            sp_arena_rewind(joint->arena, mark);
        return SP_OK;
    }
    e->trial = sp_joint_candidate_create(joint, SP_EXHAUST_DEVICES);
    return e->trial == NULL ? sp_fail_memory(e->err) : SP_OK;
}

/* Whether these ways' computing alone is longer than what the runner-up takes in all, and what is near the best. Who
   listens may prefer a plan that is longer. */
static bool is_hopeless(const struct exhaust *e, struct sp_ways *const *ways, bool of_fastest)
{
    double interval = 0, latency = 0;
    uint32_t used = 0;
    const struct sp_joint_candidate *second = e->joint->ranked[1];
    if (second == NULL || e->joint->options->objective == SP_OBJECTIVE_DEVICES || e->is_heard)
        return false;
    for (uint32_t s = 0; s < e->stage_count; s++) {
        const double seconds = ways[s]->items[of_fastest ? 0 : e->way[s]].seconds;
        interval = fmax(interval, seconds / form_of(e, s)->replicas);
        latency = fmax(latency, seconds);
        used += devices_of(&e->forms[e->form[s]]);
    }
    if (e->joint->options->max_copies != 1)
        interval /= floor(e->joint->cluster->device_count / fmax(used, 1)); /* copies, at most */
    const bool is_latency = e->joint->options->objective == SP_OBJECTIVE_LATENCY;
    const double seconds = is_latency ? latency : interval;
    const double others = is_latency ? second->evaluation->latency_seconds : second->evaluation->interval_seconds;
    return seconds > others * (1 + 1e-9) && !sp_near_is_within(e->joint, seconds, e->joint->ranked[0]);
}

/* ---- counting through everything -------------------------------------------------------------------------------- */

static enum sp_status try_ways(struct exhaust *e)
{
    struct sp_ways *ways[SP_EXHAUST_DEVICES];
    for (uint32_t s = 0; s < e->stage_count; s++) {
        enum sp_status status = ways_of(e, s, &ways[s]);
        if (status != SP_OK)
            return status;
        e->way[s] = 0;
    }
    if (is_hopeless(e, ways, true))
        return SP_OK;
    for (uint32_t s = 0; s < e->stage_count;) {
        enum sp_status status = is_hopeless(e, ways, false) ? SP_OK : try_plan(e, ways);
        if (status != SP_OK)
            return status;
        for (s = 0; s < e->stage_count; s++) {
            if (++e->way[s] < ways[s]->count)
                break;
            e->way[s] = 0;
        }
    }
    return SP_OK;
}

/* Devices of the stages' blocks: all that may begin there, none twice. */
static bool are_free(const struct exhaust *e)
{
    uint32_t used = 0;
    for (uint32_t s = 0; s < e->stage_count; s++) {
        const struct form *form = form_of(e, s);
        if (sp_space_place(e->joint->space, form->option, form->replicas, e->device[s]) != e->device[s])
            return false;
        for (uint32_t d = 0; d < devices_of(form); d++) {
            const uint32_t bit = 1u << (e->device[s] + d);
            if ((used & bit) != 0)
                return false;
            used |= bit;
        }
    }
    return true;
}

/* The next number of `count` digits below `base`; false after the last one. */
static bool count_up(uint32_t *digits, uint32_t count, uint32_t base)
{
    for (uint32_t i = 0; i < count; i++) {
        if (++digits[i] < base)
            return true;
        digits[i] = 0;
    }
    return false;
}

/* Puts the stages one after the other; false where there is no room for that. */
static bool stand_in_order(struct exhaust *e)
{
    uint32_t next = 0;
    for (uint32_t s = 0; s < e->stage_count; s++) {
        const struct form *form = form_of(e, s);
        e->device[s] = sp_space_place(e->joint->space, form->option, form->replicas, next);
        if (e->device[s] == UINT32_MAX)
            return false;
        next = e->device[s] + devices_of(form);
    }
    return true;
}

static enum sp_status try_forms(struct exhaust *e)
{
    const uint32_t devices = e->joint->cluster->device_count;
    const bool is_uniform = e->joint->space->class_count == 1 && e->joint->cluster->level_count == 1 &&
                            e->joint->options->strategy == SP_STRATEGY_GROUPING && !e->is_heard;
    memset(e->form, 0, sizeof e->form);
    do {
        uint32_t used = 0;
        for (uint32_t s = 0; s < e->stage_count; s++)
            used += devices_of(form_of(e, s));
        if (used > devices)
            continue;
        if (is_uniform && stand_in_order(e)) { /* all places are the same */
            enum sp_status status = try_ways(e);
            if (status != SP_OK)
                return status;
            continue;
        }
        memset(e->device, 0, sizeof e->device);
        do {
            enum sp_status status = are_free(e) ? try_ways(e) : SP_OK;
            if (status != SP_OK)
                return status;
        } while (count_up(e->device, e->stage_count, devices));
    } while (count_up(e->form, e->stage_count, e->usable_count));
    return SP_OK;
}

/* Whether every stage has a node and no node comes before what it needs. */
static bool is_placement(struct exhaust *e)
{
    memset(e->mask, 0, sizeof e->mask);
    for (uint32_t i = 0; i < e->front_count; i++) {
        e->mask[e->stage_of[i]] |= 1u << i;
        for (uint32_t j = 0; j < i; j++) {
            if ((e->before[i] >> j & 1) != 0 && e->stage_of[j] > e->stage_of[i])
                return false;
        }
    }
    for (uint32_t s = 0; s < e->stage_count; s++) {
        if (e->mask[s] == 0)
            return false;
    }
    return true;
}

static enum sp_status try_placements(struct exhaust *e)
{
    const uint32_t devices = e->joint->cluster->device_count;
    uint32_t most = e->front_count < devices ? e->front_count : devices;
    if (e->joint->options->strategy == SP_STRATEGY_TENSOR)
        most = 1;
    for (e->stage_count = 1; e->stage_count <= most; e->stage_count++) {
        memset(e->stage_of, 0, sizeof e->stage_of);
        list_usable(e);
        do {
            if (!sp_watch_tick(e->joint->options->watch, "search", 0, 0, 0)) {
                e->leaves_out = true;
                return SP_OK;
            }
            enum sp_status status = is_placement(e) ? try_forms(e) : SP_OK;
            if (status != SP_OK)
                return status;
        } while (count_up(e->stage_of, e->front_count, e->stage_count));
    }
    return SP_OK;
}

/* With what there is. */
static enum sp_status try_all(struct exhaust *e, bool *ret_tried)
{
    struct sp_joint *joint = e->joint;
    list_forms(e);
    e->ways = SP_NEW_ARRAY(joint->arena, (size_t)joint->space->option_count << e->front_count, struct sp_ways);
    e->trial = sp_joint_candidate_create(joint, SP_EXHAUST_DEVICES);
    if (e->ways == NULL || e->trial == NULL)
        return sp_fail_memory(e->err);
    const enum sp_status status = try_placements(e);
    *ret_tried = !e->leaves_out;
    return status;
}

enum sp_status sp_joint_exhaust(struct sp_joint *joint, bool shares,
                                struct sp_joint_candidate *ret_best[SP_EXHAUST_BEST], bool *ret_tried,
                                struct sp_error *err)
{
    struct exhaust e = {.joint = joint, .err = err};
    memset(ret_best, 0, SP_EXHAUST_BEST * sizeof *ret_best);
    enum sp_status status = is_tiny(&e, shares, ret_tried);
    if (status == SP_OK && *ret_tried)
        status = try_all(&e, ret_tried);
    sp_space_lay(joint->space, 0, true);
    if (status == SP_OK)
        memcpy(ret_best, e.best, sizeof e.best);
    return status;
}
