/* Stages of different blocks that keep the pins: see pinned.h. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "search/constraints.h"
#include "search/grouping/internal.h"
#include "search/joint/pinned/cuts.h"
#include "search/joint/rechoose.h"

#define MOST_FORMS  160 /* profiles times replicas */
#define MOST_PLACES 64  /* at which blocks of one form may begin */
#define MOST_STAGES 64
#define MOST_STATES 512 /* kept for one cut and number of stages */
#define ALL_PLACES  8   /* devices of clusters on which blocks are tried everywhere */
#define ROUNDS      12  /* searches, each without the stages that did not fit before */
#define MODES       4   /* ways to estimate what stages take */
#define TIE         1e-9

/* What a stage may be: blocks of a profile's option, and where they may stand. */
struct form {
    const struct sp_space_option *option;
    uint32_t profile, replicas, span; /* devices of all replicas */
    uint32_t place_count;
    uint32_t places[MOST_PLACES];
    uint64_t cells[MOST_PLACES]; /* per place */
    double sent_share, capacity; /* sent_share: of a tensor's bytes, what one device has */
};

/* Stages up to a cut. */
struct state {
    uint64_t taken;       /* cells, a bit each */
    double value, second; /* the objective's figure, and what decides where it is equal */
    uint32_t device;      /* the last stage's first */
    uint32_t cut, parent; /* where the last stage begins, and the state there */
    uint16_t form, place;
};

struct mixed {
    struct sp_joint *joint;
    const struct sp_proposal *proposal;
    struct sp_pinned_cuts *cuts;
    uint32_t form_count;
    struct form *forms;
    uint32_t cell;   /* devices of a cell */
    uint64_t pinned; /* cells with devices that nodes are pinned to */
    uint32_t most_stages, width;
    struct state *states; /* [stages][cut][width] */
    uint32_t *counts;     /* [stages][cut] */
    bool *banned;         /* [option of the form][piece]: did not fit */
    bool is_wary;         /* layouts do not fit: what a block sends is brought together first */
    bool is_hopeful;      /* stages may turn out to need less than the profiles say */
    /* The last stages found. */
    uint32_t stage_count;
    struct state chosen[MOST_STAGES];
    uint32_t ends[MOST_STAGES];
};

/* ---- forms ------------------------------------------------------------------------------------------------------- */

static uint64_t cells_of(const struct mixed *m, uint32_t device, uint32_t span)
{
    const uint32_t first = device / m->cell, last = (device + span - 1) / m->cell;
    const uint64_t up_to_last = last >= 63 ? UINT64_MAX : ((uint64_t)1 << (last + 1)) - 1;
    return up_to_last & ~(((uint64_t)1 << first) - 1);
}

static bool has_pin(const struct sp_constraints *constraints, uint32_t nodes, uint32_t device, uint32_t span)
{
    for (uint32_t n = 0; constraints->device_of != NULL && n < nodes; n++) {
        if (constraints->device_of[n] != SP_UNPINNED && constraints->device_of[n] >= device &&
            constraints->device_of[n] - device < span)
            return true;
    }
    return false;
}

/* Of the places that begin in one cell the first, and those with devices that are pinned. */
static void list_places(const struct mixed *m, struct form *form)
{
    const struct sp_space *space = m->joint->space;
    uint32_t last_cell = UINT32_MAX;
    for (uint32_t from = 0; form->place_count < MOST_PLACES;) {
        const uint32_t place = sp_space_place(space, form->option, form->replicas, from);
        if (place == UINT32_MAX)
            return;
        from = place + 1;
        if (place / m->cell == last_cell &&
            !has_pin(m->joint->options->constraints, m->joint->workload->node_count, place, form->span))
            continue;
        last_cell = place / m->cell;
        form->cells[form->place_count] = cells_of(m, place, form->span);
        form->places[form->place_count++] = place;
    }
}

static void add_form(struct mixed *m, uint32_t p, uint32_t replicas)
{
    const struct sp_model_choice *profile = m->proposal->profiles[p];
    const struct sp_space_class *class = &m->joint->space->classes[profile->option->class_index];
    struct form *form = &m->forms[m->form_count];
    const uint64_t span = (uint64_t)profile->option->size * replicas;
    if (span > class->count || m->form_count == MOST_FORMS)
        return;
    *form = (struct form){.option = profile->option,
                          .profile = p,
                          .replicas = replicas,
                          .span = (uint32_t)span,
                          .sent_share = profile->sent_share,
                          .capacity = sp_space_capacity(m->joint->space, profile->option)};
    list_places(m, form);
    m->form_count += form->place_count > 0;
}

static void list_forms(struct mixed *m)
{
    const uint32_t devices = m->joint->cluster->device_count, most = m->proposal->max_replicas;
    for (uint32_t r = 1; r <= devices && (most == 0 || r <= most) && m->form_count<MOST_FORMS; r = m->cell> 1 || r >= 16
                             ? 2 * r
                             : r + 1) {
        for (uint32_t p = 0; p < m->proposal->profile_count; p++)
            add_form(m, p, r);
    }
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static bool is_better(const struct state *a, const struct state *b)
{
    if (a->value != b->value)
        return a->value < b->value;
    if (a->second != b->second)
        return a->second < b->second;
    return a->taken < b->taken;
}

static struct state *states_at(const struct mixed *m, uint32_t stages, uint32_t cut)
{
    return &m->states[((size_t)stages * m->cuts->count + cut) * m->width];
}

static uint32_t *count_at(const struct mixed *m, uint32_t stages, uint32_t cut)
{
    return &m->counts[(size_t)stages * m->cuts->count + cut];
}

/* Keeps it among the states of the cut: one for each set of devices and place of the last stage, the best ones. */
static void keep(const struct mixed *m, uint32_t stages, uint32_t cut, const struct state *state)
{
    struct state *states = states_at(m, stages, cut);
    uint32_t *count = count_at(m, stages, cut), worst = 0;
    for (uint32_t i = 0; i < *count; i++) {
        if (states[i].taken == state->taken && states[i].device == state->device) {
            if (is_better(state, &states[i]))
                states[i] = *state;
            return;
        }
        if (is_better(&states[worst], &states[i]))
            worst = i;
    }
    if (*count < m->width)
        states[(*count)++] = *state;
    else if (is_better(state, &states[worst]))
        states[worst] = *state;
}

/* ---- one stage --------------------------------------------------------------------------------------------------- */

static bool may_be(const struct mixed *m, const struct form *form, uint32_t from, uint32_t to, uint32_t stage)
{
    const struct sp_pinned_piece *piece = sp_pinned_piece(m->cuts, from, to);
    const size_t option = (size_t)(form->option - m->joint->space->options);
    /* Strategies that are chosen again may cut all that is there. */
    const double bytes =
        m->is_hopeful ? piece->weights[form->profile] / form->option->size : piece->bytes[form->profile];
    return piece->is_possible && (piece->stage == SP_UNPINNED || piece->stage == stage) &&
           isfinite(piece->seconds[form->profile]) && bytes <= form->capacity * (1 + TIE) &&
           !m->banned[(option * m->cuts->count + from) * m->cuts->count + to];
}

struct step {
    uint32_t stages, from, parent, to; /* behind a state of so many stages, up to a cut */
};

/* Seconds that what goes into the piece takes, from the stages in which it is made. */
static double receive_seconds(const struct mixed *m, const struct step *step, const struct form *form, uint32_t device)
{
    const struct sp_pinned_piece *piece = sp_pinned_piece(m->cuts, step->from, step->to);
    double seconds = 0;
    for (uint32_t i = 0; i < piece->received_count && step->stages > 0; i++) {
        uint32_t stages = step->stages, end = step->from;
        const struct state *maker = &states_at(m, stages, end)[step->parent];
        while (stages > 1 && !sp_pinned_has(m->cuts, maker->cut, end, piece->received[i].place)) {
            end = maker->cut;
            maker = &states_at(m, --stages, end)[maker->parent];
        }
        const struct sp_mesh_level *link = sp_cluster_link(m->joint->cluster, maker->device, device);
        const double share = m->is_wary ? 1 : fmax(form->sent_share, m->forms[maker->form].sent_share);
        seconds += link->latency + piece->received[i].bytes * share / sp_level_send_bandwidth(link);
    }
    return seconds;
}

/* The stages with one more at a place. */
static struct state extend(const struct mixed *m, const struct step *step, uint32_t form_index, uint32_t place)
{
    const struct sp_pinned_piece *piece = sp_pinned_piece(m->cuts, step->from, step->to);
    const struct state *before = &states_at(m, step->stages, step->from)[step->parent];
    const struct form *form = &m->forms[form_index];
    const uint32_t device = form->places[place];
    const double receive = receive_seconds(m, step, form, device);
    const double compute = piece->seconds[form->profile], path = receive + compute;
    /* The sender is as busy with it as the receiver. */
    double load = fmax(compute, receive) / form->replicas;
    if (step->stages > 0)
        load = fmax(load, receive / m->forms[before->form].replicas);
    struct state after = {.taken = before->taken | form->cells[place],
                          .device = device,
                          .form = (uint16_t)form_index,
                          .place = (uint16_t)place};
    switch (m->proposal->objective) {
    case SP_OBJECTIVE_LATENCY:
        after.value = before->value + path;
        after.second = fmax(before->second, load);
        break;
    case SP_OBJECTIVE_DEVICES:
        after.value = before->value + form->span;
        after.second = fmax(before->second, load);
        break;
    default:
        after.value = fmax(before->value, load);
        after.second = before->second + path;
        break;
    }
    return after;
}

static void add_stage(const struct mixed *m, const struct step *step, uint32_t form, uint32_t place)
{
    struct state after = extend(m, step, form, place);
    after.cut = step->from;
    after.parent = step->parent;
    keep(m, step->stages + 1, step->to, &after);
}

/* Puts the stage where it may stand: at the devices that are pinned, else beside all that are; in large clusters only
   at the first and the last place that is free. */
static void place_stage(const struct mixed *m, const struct step *step, uint32_t form_index)
{
    const struct form *form = &m->forms[form_index];
    const struct sp_pinned_piece *piece = sp_pinned_piece(m->cuts, step->from, step->to);
    const bool is_pinned = piece->low <= piece->high;
    const uint64_t closed = states_at(m, step->stages, step->from)[step->parent].taken | (is_pinned ? 0 : m->pinned);
    const bool everywhere = is_pinned || m->joint->cluster->device_count <= ALL_PLACES;
    uint32_t last = 0, tried = 0;
    for (uint32_t k = 0; k < form->place_count; k++) {
        if ((form->cells[k] & closed) != 0 ||
            (is_pinned && (piece->low < form->places[k] || piece->high - form->places[k] >= form->span)))
            continue;
        last = k;
        if (tried++ == 0 || everywhere)
            add_stage(m, step, form_index, k);
    }
    if (tried > 1 && !everywhere)
        add_stage(m, step, form_index, last);
}

static void add_stages(const struct mixed *m, uint32_t stages, uint32_t from)
{
    const uint32_t count = *count_at(m, stages, from);
    for (uint32_t to = from + 1; count > 0 && to < m->cuts->count; to++) {
        const struct sp_pinned_piece *piece = sp_pinned_piece(m->cuts, from, to);
        if (!piece->is_possible)
            continue;
        for (uint32_t f = 0; f < m->form_count; f++) {
            if (!may_be(m, &m->forms[f], from, to, stages))
                continue;
            for (uint32_t i = 0; i < count; i++)
                place_stage(m, &(struct step){stages, from, i, to}, f);
        }
    }
}

/* Fewer stages where more are not worth it; false: there are no stages that keep everything. */
static bool find_stages(struct mixed *m)
{
    const uint32_t all = m->cuts->count - 1;
    const struct state *best = NULL;
    uint32_t stages = 0;
    memset(m->counts, 0, ((size_t)m->most_stages + 1) * m->cuts->count * sizeof *m->counts);
    *count_at(m, 0, 0) = 1;
    states_at(m, 0, 0)[0] = (struct state){.cut = 0};
    for (uint32_t s = 0; s < m->most_stages; s++) {
        for (uint32_t from = 0; from < all; from++)
            add_stages(m, s, from);
        for (uint32_t i = 0; i < *count_at(m, s + 1, all); i++) {
            const struct state *state = &states_at(m, s + 1, all)[i];
            if (best != NULL && !(state->value < best->value * (1 - SP_SEARCH_TOLERANCE) ||
                                  (stages == s + 1 && is_better(state, best))))
                continue;
            best = state;
            stages = s + 1;
        }
    }
    m->stage_count = stages;
    for (uint32_t s = stages, end = all; s-- > 0;) {
        m->chosen[s] = *best;
        m->ends[s] = end;
        end = best->cut;
        best = &states_at(m, s, best->cut)[best->parent];
    }
    return stages > 0;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static enum sp_status make_plan(struct mixed *m, struct sp_joint_candidate **ret_candidate, struct sp_error *err)
{
    struct sp_joint_candidate *candidate = sp_joint_candidate_create(m->joint, m->stage_count);
    uint32_t *profile_of = SP_NEW_ARRAY(m->joint->arena, m->stage_count, uint32_t);
    if (candidate == NULL || profile_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t s = 0; s < m->stage_count; s++) {
        const struct form *form = &m->forms[m->chosen[s].form];
        profile_of[s] = form->profile;
        candidate->options[s] = form->option;
        candidate->placement.stage_size[s] = form->option->size;
        candidate->placement.stage_replicas[s] = form->replicas;
        candidate->placement.stage_device[s] = form->places[m->chosen[s].place];
        for (uint32_t i = 0; i < m->cuts->live_count; i++) {
            if (sp_pinned_has(m->cuts, m->chosen[s].cut, m->ends[s], i))
                candidate->placement.stage_of[m->cuts->live[i]] = s;
        }
    }
    sp_place_folded(m->joint->workload, candidate->placement.stage_of);
    *ret_candidate = candidate;
    return sp_joint_rechoose(m->joint, candidate, m->proposal->profiles, profile_of, err);
}

/* Stages that do not fit are no stages any more; false where all do. */
static bool ban(struct mixed *m, const struct sp_joint_candidate *candidate)
{
    bool any = false;
    for (uint32_t s = 0; s < m->stage_count; s++) {
        const struct sp_stage_cost *cost = &candidate->evaluation->stages[s];
        const size_t option = (size_t)(candidate->options[s] - m->joint->space->options);
        if (cost->total_bytes <= cost->capacity_bytes)
            continue;
        m->banned[(option * m->cuts->count + m->chosen[s].cut) * m->cuts->count + m->ends[s]] = any = true;
    }
    return any;
}

struct tried {
    uint32_t stage_count;
    struct state *stages;
};

struct found {
    struct sp_joint_candidate **fitting;
    uint32_t count;
    struct sp_joint_candidate *closest; /* that does not fit, but lacks least */
    uint32_t tried_count;
    struct tried tried[MODES * ROUNDS];
};

static void note_plan(struct found *found, struct sp_joint_candidate *candidate)
{
    if (candidate->fits)
        found->fitting[found->count++] = candidate;
    else if (found->closest == NULL ||
             candidate->evaluation->worst_excess_bytes < found->closest->evaluation->worst_excess_bytes)
        found->closest = candidate;
}

/* Whether these stages were made a plan of before; else notes them. */
static bool is_known(const struct mixed *m, struct found *found)
{
    for (uint32_t i = 0; i < found->tried_count; i++) {
        const struct tried *tried = &found->tried[i];
        uint32_t s = 0;
        while (tried->stage_count == m->stage_count && s < m->stage_count && tried->stages[s].cut == m->chosen[s].cut &&
               tried->stages[s].form == m->chosen[s].form && tried->stages[s].place == m->chosen[s].place)
            s++;
        if (tried->stage_count == m->stage_count && s == m->stage_count)
            return true;
    }
    struct tried *tried = &found->tried[found->tried_count];
    *tried = (struct tried){m->stage_count, SP_NEW_ARRAY(m->joint->arena, m->stage_count, struct state)};
    if (tried->stages != NULL) { /* or it is made again */
        memcpy(tried->stages, m->chosen, m->stage_count * sizeof *tried->stages);
        found->tried_count++;
    }
    return false;
}

/* Searches until something fits. */
static enum sp_status search_mode(struct mixed *m, struct found *found, struct sp_error *err)
{
    for (uint32_t round = 0; round < ROUNDS && found->count < SP_PINNED_CANDIDATES; round++) {
        struct sp_joint_candidate *candidate = NULL;
        if (!find_stages(m) || is_known(m, found))
            return SP_OK;
        enum sp_status status = make_plan(m, &candidate, err);
        if (status != SP_OK)
            return status;
        assert(candidate != NULL);
        note_plan(found, candidate);
        if (candidate->fits || !ban(m, candidate))
            return SP_OK;
    }
    return SP_OK;
}

/* With the profiles' memory, and with what a stage needs at least, since its strategies are chosen again; with what
   devices send of a tensor, and with all of it. */
static enum sp_status search_plans(struct mixed *m, struct found *found, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t mode = 0; mode < MODES && status == SP_OK; mode++) {
        m->is_wary = mode % 2 != 0;
        m->is_hopeful = mode >= 2;
        status = search_mode(m, found, err);
    }
    return status;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

struct ranked {
    uint32_t node, first, second;
};

SP_ASCENDING(by_rank, struct ranked, first, second, node)

/* The nodes that run, by the earliest stage that pins leave them and then by the latest, or the other way round. */
static const uint32_t *make_line(const struct sp_joint *joint, bool by_latest, uint32_t *ret_count)
{
    uint32_t *earliest, *latest, count = 0;
    struct ranked *ranked = SP_NEW_ARRAY(joint->arena, joint->workload->node_count, struct ranked);
    uint32_t *line = SP_NEW_ARRAY(joint->arena, joint->workload->node_count, uint32_t);
    if (ranked == NULL || line == NULL || !sp_joint_pin_bounds(joint, &earliest, &latest))
        return NULL;
    for (uint32_t n = 0; n < joint->workload->node_count; n++) {
        if (!joint->workload->nodes[n].folded)
            ranked[count++] =
                (struct ranked){n, by_latest ? latest[n] : earliest[n], by_latest ? earliest[n] : latest[n]};
    }
    if (count > 1)
        qsort(ranked, count, sizeof *ranked, by_rank);
    for (uint32_t i = 0; i < count; i++)
        line[i] = ranked[i].node;
    *ret_count = count;
    return line;
}

static bool prepare(struct mixed *m)
{
    const struct sp_constraints *constraints = m->joint->options->constraints;
    const uint32_t devices = m->joint->cluster->device_count, cuts = m->cuts->count;
    uint32_t places = 1;
    m->cell = 1 + (devices - 1) / 64;
    m->forms = SP_NEW_ARRAY(m->joint->arena, MOST_FORMS, struct form);
    if (m->forms == NULL)
        return false;
    list_forms(m);
    for (uint32_t n = 0; constraints->device_of != NULL && n < m->joint->workload->node_count; n++) {
        if (constraints->device_of[n] != SP_UNPINNED)
            m->pinned |= cells_of(m, constraints->device_of[n], 1);
    }
    for (uint32_t f = 0; f < m->form_count; f++)
        places = m->forms[f].place_count > places ? m->forms[f].place_count : places;
    places = devices <= ALL_PLACES ? places : 2;
    m->most_stages = cuts - 1 < devices ? cuts - 1 : devices;
    m->most_stages = m->most_stages < MOST_STAGES ? m->most_stages : MOST_STAGES;
    if (m->proposal->max_stages != 0 && m->proposal->max_stages < m->most_stages)
        m->most_stages = m->proposal->max_stages;
    const double each = 0.5 * cuts * cuts * m->most_stages * (m->form_count + 1.0) * places;
    m->width = (uint32_t)fmax(2, fmin(MOST_STATES, SP_PINNED_WORK / each));
    m->states = SP_NEW_ARRAY(m->joint->arena, ((size_t)m->most_stages + 1) * cuts * m->width, struct state);
    m->counts = SP_NEW_ARRAY(m->joint->arena, ((size_t)m->most_stages + 1) * cuts, uint32_t);
    m->banned = SP_NEW_ARRAY(m->joint->arena, (size_t)m->joint->space->option_count * cuts * cuts, bool);
    return m->states != NULL && m->counts != NULL && m->banned != NULL;
}

enum sp_status sp_joint_propose_mixed(struct sp_joint *joint, const struct sp_proposal *proposal,
                                      struct sp_joint_candidate **ret_candidates, uint32_t *ret_count,
                                      struct sp_error *err)
{
    struct found found = {.fitting = ret_candidates};
    enum sp_status status = SP_OK;
    bool is_done = false;
    for (uint32_t i = 0; i < 2 && !is_done && status == SP_OK; i++) {
        struct mixed m = {.joint = joint, .proposal = proposal};
        uint32_t count = 0;
        const uint32_t *line = make_line(joint, i > 0, &count);
        if (line == NULL)
            return sp_fail_memory(err);
        status = count == 0 ? SP_OK : sp_pinned_cuts_create(joint, proposal, line, count, &m.cuts, err);
        if (status != SP_OK || count == 0)
            break;
        status = prepare(&m) ? search_plans(&m, &found, err) : sp_fail_memory(err);
        is_done = m.cuts->sets != NULL; /* all cuts: whatever the line */
        found.tried_count = 0;
    }
    if (found.count == 0 && found.closest != NULL)
        ret_candidates[found.count++] = found.closest;
    *ret_count = found.count;
    return status;
}
