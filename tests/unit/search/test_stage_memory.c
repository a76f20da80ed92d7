/* What the search for stages is told of memory, against sets that are counted anew. */
#include <criterion/criterion.h>
#include <string.h>

#include "build_workload.h"
#include "random_workload.h"
#include "search/joint/shared/stage_memory.h"

#define NODES    40
#define PROFILES 2

static uint64_t state = 11;

struct subject {
    struct sp_joint joint;
    struct sp_units units;
    struct sp_model_choice choices[PROFILES];
    const struct sp_model_choice *profiles[PROFILES];
    struct sp_known_list known[PROFILES];
    struct sp_proposal proposal;
    struct sp_stage_parts *parts;
    const struct sp_stages_memory *memory;
};

/* The workload's bytes, divided by `divisor` and, where they are `whole`, rounded. */
static struct sp_stage_block block_of(const struct subject *s, double divisor, bool whole)
{
    const struct sp_workload *workload = s->joint.workload;
    double *kept = SP_NEW_ARRAY(s->joint.arena, workload->node_count, double);
    double *workspace = SP_NEW_ARRAY(s->joint.arena, workload->node_count, double);
    double *bytes = SP_NEW_ARRAY(s->joint.arena, workload->tensor_count, double);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        kept[n] = (workload->nodes[n].inner_weight_bytes + workload->nodes[n].resident_bytes) / divisor;
        workspace[n] = workload->nodes[n].workspace_bytes / divisor;
        if (whole) {
            kept[n] = (double)(uint64_t)kept[n];
            workspace[n] = (double)(uint64_t)workspace[n];
        }
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        bytes[t] =
            whole ? (double)(uint64_t)(workload->tensors[t].bytes / divisor) : workload->tensors[t].bytes / divisor;
    return (struct sp_stage_block){kept, workspace, bytes};
}

static void open_subject(struct subject *s)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const struct sp_cluster *cluster = build_cluster(arena, 2, 1e9, 3, 0.25);
    const struct sp_workload *workload = workload_random(arena, cluster, NODES, &state);
    memset(s, 0, sizeof *s);
    s->joint = (struct sp_joint){.arena = arena, .workload = workload, .cluster = cluster, .units = &s->units};
    s->units.of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    for (uint32_t n = 0; n < workload->node_count; n++)
        s->units.of[n] = workload->nodes[n].folded ? SP_NO_WORK : s->units.count++;
    for (uint32_t i = 0; i < PROFILES; i++) {
        s->choices[i].bytes = block_of(s, i + 1, true);
        s->known[i].arena = arena;
        s->choices[i].known = &s->known[i];
        s->profiles[i] = &s->choices[i];
    }
    s->proposal = (struct sp_proposal){.profile_count = PROFILES, .profiles = s->profiles};
}

static void state_problem(struct subject *s)
{
    s->parts = sp_joint_parts(&s->joint, &s->proposal, s->units.count, s->units.of);
    s->memory = sp_joint_stage_memory(&s->joint, &s->proposal, s->parts);
    cr_assert(s->parts != NULL && s->memory != NULL);
}

/* What the units that are in need, counted anew. */
static double count_anew(const struct subject *s, const bool *is_in, uint32_t profile)
{
    struct sp_stage_set *set = sp_stage_set_create(s->joint.arena, s->parts);
    for (uint32_t u = 0; u < s->units.count; u++)
        if (is_in[u])
            sp_stage_set_put(set, u);
    return sp_stage_set_bytes(set, profile);
}

static void ask(const struct subject *s, void *set, const bool *is_in)
{
    const uint32_t profile = pick(&state, PROFILES);
    cr_assert_eq(s->memory->bytes(set, profile), count_anew(s, is_in, profile));
}

/* Stages that grow and shrink as those of a chain do, and now and then any units. */
static void walk(const struct subject *s, uint32_t rounds)
{
    void *set = s->memory->create(s->memory->context, s->joint.arena);
    bool *is_in = SP_NEW_ARRAY(s->joint.arena, s->units.count, bool);
    for (uint32_t round = 0; round < rounds && s->units.count > 0; round++) {
        const uint32_t last = 1 + pick(&state, s->units.count), first = pick(&state, last);
        const bool any = pick(&state, 4) == 0;
        for (uint32_t u = last; u-- > first;) {
            if (any && pick(&state, 3) == 0)
                continue;
            s->memory->put(set, u);
            is_in[u] = true;
            if (pick(&state, 2) == 0)
                ask(s, set, is_in);
        }
        ask(s, set, is_in);
        for (uint32_t u = first; u < last; u++) {
            if (!is_in[u])
                continue;
            s->memory->take(set, u);
            is_in[u] = false;
            if (pick(&state, 8) == 0)
                ask(s, set, is_in);
        }
    }
}

Test(stage_memory, says_what_sets_say_that_are_counted_anew)
{
    for (uint32_t round = 0; round < 20; round++) {
        struct subject s;
        open_subject(&s);
        state_problem(&s);
        walk(&s, 40);
        state_problem(&s); /* another search for stages of the same units: much is known */
        walk(&s, 40);
        cr_expect(s.known[0].first != NULL && s.known[1].first != NULL);
        sp_arena_destroy(s.joint.arena);
    }
}

Test(stage_memory, keeps_nothing_of_bytes_whose_sums_depend_on_their_order)
{
    struct subject s;
    open_subject(&s);
    s.choices[1].bytes = block_of(&s, 3, false);
    s.choices[1].known = NULL;
    state_problem(&s);
    void *set = s.memory->create(s.memory->context, s.joint.arena);
    for (uint32_t u = s.units.count; u-- > 0;) {
        s.memory->put(set, u);
        (void)s.memory->bytes(set, 1);
    }
    cr_expect(s.known[1].first == NULL);
    sp_arena_destroy(s.joint.arena);
}

Test(stage_memory, keeps_no_more_than_its_limit)
{
    struct subject s;
    open_subject(&s);
    s.joint.known_bytes = SP_KNOWN_BYTES;
    state_problem(&s);
    walk(&s, 20);
    cr_expect(s.known[0].first == NULL && s.known[1].first == NULL);
    sp_arena_destroy(s.joint.arena);
}

/* A store's profiles live longer than a search's units, whose addresses others may get. */
Test(stage_memory, shared_profiles_keep_nothing_of_units_that_are_not)
{
    struct subject s;
    open_subject(&s);
    s.known[0].is_shared = true;
    state_problem(&s);
    walk(&s, 20);
    cr_expect(s.known[0].first == NULL && s.known[1].first != NULL);
    sp_arena_destroy(s.joint.arena);
}
