/*
 * propagate: projection, steps and levels by hand, from the rules of Shardy's documentation (docs/propagation.md), and
 * assignments of small models. The published cases are in tests/conformance/shardy_propagation.c.
 */
#include "build_rule.h"
#include "expect_view.h"
#include "infer/propagate/factor_step.h"
#include "infer/propagate/internal.h"

#define MAX_TENSORS 8

/* ---- plain shardings ---- */

static struct sp_arena *arena;
static struct sp_mesh *mesh;

static void open_arena(void)
{
    struct sp_mesh_axis axes[] = {{"x", 4}, {"y", 2}, {"z", 3}};
    arena = sp_arena_create(NULL);
    cr_assert_eq(sp_mesh_create(arena, 3, axes, NULL, &mesh, NULL), SP_OK);
}

static void close_arena(void)
{
    sp_arena_destroy(arena);
}

struct problem {
    struct sp_propagation in;
    uint32_t ranks[MAX_TENSORS], tensors_of[2 * MAX_TENSORS], flow_tensors;
    int64_t shapes[MAX_TENSORS][4];
    const int64_t *shape_pointers[MAX_TENSORS];
    const struct sp_sharding *tensors[MAX_TENSORS];
    struct sp_flow flows[MAX_TENSORS];
    char stops[512];
};

static void note_stop(void *context, uint32_t flow, uint8_t factor, uint32_t tensor, uint32_t opponent,
                      const char *code)
{
    struct problem *problem = context;
    size_t size = strlen(problem->stops);
    (void)snprintf(problem->stops + size, sizeof(problem->stops) - size, "%s%s %s t%u t%u", size > 0 ? "; " : "", code,
                   problem->flows[flow].rule->factors[factor].name, tensor, opponent);
}

static void begin(struct problem *problem, enum sp_propagation_level level)
{
    *problem = (struct problem){.in = {.level = level, .on_stop = note_stop}};
    problem->in.ranks = problem->ranks;
    problem->in.shapes = problem->shape_pointers;
    problem->in.tensors = problem->tensors;
    problem->in.flows = problem->flows;
    problem->in.context = problem;
}

/* "x | y?": per dim its axes, '?' where it is open; NULL: nothing known. */
static uint32_t tensor(struct problem *problem, const char *extents, const char *dims)
{
    uint32_t id = problem->in.tensor_count++, rank = 0;
    for (const char *at = extents; *at != '\0';) {
        char *end;
        problem->shapes[id][rank++] = strtoll(at, &end, 10);
        at = end + strspn(end, ", ");
    }
    problem->ranks[id] = rank;
    problem->shape_pointers[id] = problem->shapes[id];
    if (dims == NULL)
        return id;
    char plain[64] = "";
    bool is_open[4] = {false};
    uint32_t dim = 0, size = 0;
    for (const char *at = dims; *at != '\0'; at++) {
        dim += *at == '|';
        if (*at == '?')
            is_open[dim] = true;
        else
            plain[size++] = *at;
    }
    struct sp_sharding *sharding = build_axes(arena, mesh, plain);
    for (uint32_t axis = 0; axis < rank; axis++)
        sharding->dims[axis].is_open = is_open[axis];
    problem->tensors[id] = sharding;
    return id;
}

/* A flow of these tensors, one digit each, inputs first: "01 2" */
static struct sp_flow *flow(struct problem *problem, const char *rule, const char *tensors)
{
    struct sp_flow *added = &problem->flows[problem->in.flow_count++];
    *added = (struct sp_flow){.rule = build_rule_text(arena, rule)};
    cr_assert_not_null(added->rule);
    added->tensors = &problem->tensors_of[problem->flow_tensors];
    for (const char *at = tensors; *at != '\0'; at++) {
        if (*at == ' ') {
            added->input_count = added->operand_count;
            continue;
        }
        problem->tensors_of[problem->flow_tensors++] = (uint32_t)(*at - '0');
        added->operand_count++;
    }
    sp_flow_classify(added);
    return added;
}

static void solve(struct problem *problem)
{
    struct sp_error err = {0};
    cr_assert_eq(sp_propagate(arena, &problem->in, &err), SP_OK, "%s", err.message);
}

/* "x | y" */
static const char *result(const struct problem *problem, uint32_t id)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 12);
    for (uint32_t axis = 0; axis < problem->ranks[id]; axis++) {
        const struct sp_axis_list none = {0};
        const struct sp_axis_list *list = problem->tensors[id] == NULL ? &none : &problem->tensors[id]->dims[axis].axes;
        sp_buf_printf(&buf, "%s%s", axis > 0 ? " | " : "", refs_text(arena, mesh, list));
    }
    const char *text = sp_arena_string(arena, buf.size > 0 ? buf.data : "", buf.size);
    sp_buf_release(&buf);
    return text;
}

#define EXPECT_TENSOR(id, text)                                                                                        \
    cr_expect_str_eq(result(&problem, id), text, "tensor %u is %s, not %s", id, result(&problem, id), text)

#define ADD "([i, j], [i, j])->([i, j]) {i=8, j=8}"
#define DOT "([i, k], [k, j])->([i, j]) {i=8, j=8, k=8} reduction={k}"

TestSuite(propagate, .init = open_arena, .fini = close_arena);

Test(propagate, carries_through_a_product)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_BASIC);
    uint32_t a = tensor(&problem, "8,8", "x | y"), b = tensor(&problem, "8,8", NULL), c = tensor(&problem, "8,8", NULL);
    (void)flow(&problem, DOT, "01 2");
    solve(&problem);
    EXPECT_TENSOR(a, "x | y");
    EXPECT_TENSOR(b, "y | ");
    EXPECT_TENSOR(c, "x | ");
    cr_expect_str_eq(problem.stops, "");
}

/* Basic: an axis wanted by two factors goes to neither. Aggressive: to the one of the larger tensor. */
Test(propagate, decides_conflicts_between_factors)
{
    for (int aggressive = 0; aggressive < 2; aggressive++) {
        struct problem problem;
        begin(&problem, aggressive ? SP_PROPAGATE_AGGRESSIVE : SP_PROPAGATE_BASIC);
        (void)tensor(&problem, "8,8", "x | ");
        (void)tensor(&problem, "8,64", " | x");
        uint32_t c = tensor(&problem, "8,64", NULL);
        (void)flow(&problem, "([i, k], [k, j])->([i, j]) {i=8, j=64, k=8} reduction={k}", "01 2");
        solve(&problem);
        EXPECT_TENSOR(c, aggressive ? " | x" : " | ");
        cr_expect_str_eq(problem.stops,
                         aggressive ? "SPLIT_CONFLICT i t2 t0" : "SPLIT_CONFLICT i t2 t1; SPLIT_CONFLICT j t2 t0", "%s",
                         problem.stops);
    }
}

/* Two inputs that want different axes of one factor share their common part. */
Test(propagate, keeps_the_common_part)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_AGGRESSIVE);
    (void)tensor(&problem, "24,8", "y x | ");
    (void)tensor(&problem, "24,8", "y z | ");
    uint32_t c = tensor(&problem, "24,8", NULL);
    (void)flow(&problem, "([i, j], [i, j])->([i, j]) {i=24, j=8}", "01 2");
    solve(&problem);
    EXPECT_TENSOR(c, "y | ");
    cr_expect_str_eq(problem.stops, "SPLIT_CONFLICT i t1 t0");
}

Test(propagate, respects_closed_dims)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_AGGRESSIVE);
    (void)tensor(&problem, "8,8", "x | ");
    uint32_t b = tensor(&problem, "8,8", " | ?"), c = tensor(&problem, "8,8", NULL);
    (void)flow(&problem, "([i, j])->([i, j]) {i=8, j=8}", "0 1");
    (void)flow(&problem, "([i, j])->([i, j]) {i=8, j=8}", "1 2");
    solve(&problem);
    EXPECT_TENSOR(b, " | ");
    EXPECT_TENSOR(c, " | ");
    cr_expect_str_eq(problem.stops, "CLOSED i t1 t0");
}

/* 8 = 2 * 4: the axis of 4 covers the first factor and half of the second, and back. */
Test(propagate, splits_axes_over_compound_dims)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_AGGRESSIVE);
    (void)tensor(&problem, "8", "x");
    uint32_t b = tensor(&problem, "2,4", NULL), c = tensor(&problem, "8", NULL);
    (void)flow(&problem, "([ij])->([i, j]) {i=2, j=4}", "0 1");
    (void)flow(&problem, "([i, j])->([ij]) {i=2, j=4}", "1 2");
    solve(&problem);
    EXPECT_TENSOR(b, "x:(1)2 | x:(2)2");
    EXPECT_TENSOR(c, "x");
}

/* Behind a factor that is not cut to single elements, a minor one cannot be cut. */
Test(propagate, does_not_merge_behind_a_partial_cut)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_AGGRESSIVE);
    (void)tensor(&problem, "4,4", "y | x");
    uint32_t b = tensor(&problem, "16", NULL);
    (void)flow(&problem, "([i, j])->([ij]) {i=4, j=4}", "0 1");
    solve(&problem);
    EXPECT_TENSOR(b, "y");
}

Test(propagate, carries_what_divides)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_AGGRESSIVE);
    (void)tensor(&problem, "6,8", "x | ");
    uint32_t b = tensor(&problem, "6,8", NULL);
    (void)flow(&problem, "([i, j])->([i, j]) {i=6, j=8}", "0 1");
    problem.in.must_divide = true;
    solve(&problem);
    EXPECT_TENSOR(b, "x:(1)2 | ");
    cr_expect_str_eq(problem.stops, "NOT_DIVISIBLE i t1 t0");
    begin(&problem, SP_PROPAGATE_AGGRESSIVE);
    (void)tensor(&problem, "6,8", "x | ");
    (void)tensor(&problem, "6,8", NULL);
    (void)flow(&problem, "([i, j])->([i, j]) {i=6, j=8}", "0 1");
    solve(&problem);
    EXPECT_TENSOR(b, "x | ");
}

/* A block of 4 in 8 elements: at most two parts. */
Test(propagate, does_not_cut_blocks)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_AGGRESSIVE);
    (void)tensor(&problem, "8,8", "x | ");
    uint32_t b = tensor(&problem, "8,8", NULL);
    struct sp_flow *added = flow(&problem, "([i, j])->([i, j]) {i=8, j=8}", "0 1");
    added->rule->factors[0].block = 4;
    solve(&problem);
    EXPECT_TENSOR(b, "x:(1)2 | ");
    cr_expect_str_eq(problem.stops, "BLOCK i t1 t0");
}

Test(propagate, leaves_whole_what_must_be)
{
    for (int carries = 0; carries < 2; carries++) {
        struct problem problem;
        begin(&problem, SP_PROPAGATE_AGGRESSIVE);
        (void)tensor(&problem, "8,8", "x | y");
        uint32_t b = tensor(&problem, "8,8", NULL);
        (void)flow(&problem, "([i, j])->([i, j]) {i=8, j=8} need_replication={i}", "0 1");
        problem.in.carries_whole = carries == 1;
        solve(&problem);
        EXPECT_TENSOR(b, carries ? "x | y" : " | y");
        cr_expect_str_eq(problem.stops, carries ? "" : "NEEDS_WHOLE_AXIS i t0 t0");
    }
}

Test(propagate, does_not_carry_blocked_factors)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_AGGRESSIVE);
    (void)tensor(&problem, "8,8", "x | y");
    uint32_t b = tensor(&problem, "8,8", NULL);
    (void)flow(&problem, "([i, j])->([i, j]) {i=8, j=8} permutation={i} blocked_propagation={i}", "0 1");
    solve(&problem);
    EXPECT_TENSOR(b, " | y");
    cr_expect_str_eq(problem.stops, "NOT_CARRIED i t0 t0");
}

/* Parallel factors come before reductions: y for j, though the sum over k is met first. */
Test(propagate, prefers_parallel_factors_by_level)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_OP_PRIORITY);
    uint32_t a = tensor(&problem, "8,8", NULL);
    (void)tensor(&problem, "8,8", "x ? | ?");
    (void)tensor(&problem, "8,8", "x ? | ?");
    (void)flow(&problem, DOT, "01 2");
    solve(&problem);
    EXPECT_TENSOR(a, "x | ");
}

Test(propagate, takes_user_priorities_in_order)
{
    struct problem problem;
    begin(&problem, SP_PROPAGATE_USER_PRIORITY);
    (void)tensor(&problem, "8,8", "x | ");
    (void)tensor(&problem, "8,8", " | x");
    uint32_t c = tensor(&problem, "8,8", NULL);
    (void)flow(&problem, DOT, "01 2");
    struct sp_sharding *first = (struct sp_sharding *)problem.tensors[0];
    first->dims[0].has_priority = true;
    first->dims[0].priority = 1;
    solve(&problem);
    EXPECT_TENSOR(c, " | x"); /* the first operand would have won otherwise */
    cr_expect_not(problem.tensors[0]->dims[0].has_priority);
}

Test(propagate, says_where_splits_came_from)
{
    struct problem problem;
    struct sp_flow_origin *origins[MAX_TENSORS] = {NULL};
    begin(&problem, SP_PROPAGATE_AGGRESSIVE);
    problem.in.origins = origins;
    (void)tensor(&problem, "8,8", NULL);
    uint32_t w = tensor(&problem, "8,8", " | x"), c = tensor(&problem, "8,8", NULL), d = tensor(&problem, "8,8", NULL);
    (void)flow(&problem, DOT, "01 2");
    (void)flow(&problem, "([i, j])->([i, j]) {i=8, j=8}", "2 3");
    solve(&problem);
    EXPECT_TENSOR(d, " | x");
    const struct sp_flow_origin *of_c = sp_origin_of(origins[c], 1), *of_d = sp_origin_of(origins[d], 1);
    cr_expect_null(origins[w]);
    cr_expect_null(sp_origin_of(origins[c], 0));
    cr_assert(of_c != NULL && of_d != NULL);
    cr_expect_eq(of_c->flow, 0);
    cr_expect_eq(of_c->source_tensor, w);
    cr_expect_str_eq(problem.flows[0].rule->factors[of_c->factor].name, "j");
    cr_expect_eq(of_d->flow, 1);
    cr_expect_eq(of_d->source_tensor, c);
}

/* A chain is walked once, not once for each step. */
Test(propagate, walks_long_chains)
{
    enum { LENGTH = 100000 };
    uint32_t *ranks = SP_NEW_ARRAY(arena, LENGTH + 1, uint32_t), (*pairs)[2] = calloc(LENGTH, sizeof(*pairs));
    const int64_t **shapes = SP_NEW_ARRAY(arena, LENGTH + 1, const int64_t *), shape[1] = {8};
    const struct sp_sharding **tensors = SP_NEW_ARRAY(arena, LENGTH + 1, const struct sp_sharding *);
    struct sp_flow *flows = SP_NEW_ARRAY(arena, LENGTH, struct sp_flow);
    struct sp_rule *rule = build_rule_text(arena, "([i])->([i]) {i=8}");
    struct sp_error err = {0};
    for (uint32_t i = 0; i <= LENGTH; i++) {
        ranks[i] = 1;
        shapes[i] = shape;
        if (i == LENGTH)
            break;
        pairs[i][0] = LENGTH - i; /* against the order of the flows */
        pairs[i][1] = LENGTH - i - 1;
        flows[i] = (struct sp_flow){.rule = rule, .tensors = pairs[i], .input_count = 1, .operand_count = 2};
        sp_flow_classify(&flows[i]);
    }
    tensors[0] = build_axes(arena, mesh, "x");
    struct sp_propagation in = {.tensor_count = LENGTH + 1,
                                .flow_count = LENGTH,
                                .ranks = ranks,
                                .shapes = shapes,
                                .tensors = tensors,
                                .flows = flows,
                                .level = SP_PROPAGATE_USER_PRIORITY};
    cr_assert_eq(sp_propagate(arena, &in, &err), SP_OK);
    cr_assert_not_null(tensors[LENGTH]);
    cr_expect_str_eq(refs_text(arena, mesh, &tensors[LENGTH]->dims[0].axes), "x");
    free(pairs);
}

/* An operation of very many operands that does not carry what comes to them: it is looked at a few times, not once for
   each of them. */
Test(propagate, looks_at_wide_operations_last, .timeout = 15)
{
    enum { COUNT = 40000 };
    uint32_t *ranks = SP_NEW_ARRAY(arena, 2 * COUNT, uint32_t), (*pairs)[2] = calloc(COUNT, sizeof(*pairs));
    uint32_t *operands = SP_NEW_ARRAY(arena, COUNT, uint32_t);
    const int64_t **shapes = SP_NEW_ARRAY(arena, 2 * COUNT, const int64_t *), shape[1] = {8};
    const struct sp_sharding **tensors = SP_NEW_ARRAY(arena, 2 * COUNT, const struct sp_sharding *);
    struct sp_flow *flows = SP_NEW_ARRAY(arena, COUNT + 1, struct sp_flow);
    struct sp_rule *rule = build_rule_text(arena, "([i])->([i]) {i=8}"), wide = {.input_count = COUNT};
    struct sp_rule *alone = build_rule_text(arena, "([i])->() {i=8} need_replication={i}");
    struct sp_sharding *split = build_axes(arena, mesh, "x");
    struct sp_error err = {0};
    cr_assert_not_null(alone);
    wide.factor_count = 1;
    wide.factors = alone->factors;
    wide.inputs = SP_NEW_ARRAY(arena, COUNT, struct sp_operand_rule);
    for (uint32_t i = 0; i < COUNT; i++) {
        ranks[i] = ranks[COUNT + i] = 1;
        shapes[i] = shapes[COUNT + i] = shape;
        tensors[i] = split;
        pairs[i][0] = i;
        pairs[i][1] = operands[i] = COUNT + i;
        wide.inputs[i] = alone->inputs[0];
        flows[i + 1] = (struct sp_flow){.rule = rule, .tensors = pairs[i], .input_count = 1, .operand_count = 2};
        sp_flow_classify(&flows[i + 1]);
    }
    flows[0] = (struct sp_flow){.rule = &wide, .tensors = operands, .input_count = COUNT, .operand_count = COUNT};
    sp_flow_classify(&flows[0]);
    struct sp_propagation in = {.tensor_count = 2 * COUNT,
                                .flow_count = COUNT + 1,
                                .ranks = ranks,
                                .shapes = shapes,
                                .tensors = tensors,
                                .flows = flows,
                                .level = SP_PROPAGATE_USER_PRIORITY};
    cr_assert_eq(sp_propagate(arena, &in, &err), SP_OK);
    for (uint32_t i = COUNT; i < 2 * COUNT; i++)
        cr_assert(tensors[i] != NULL && tensors[i]->dims[0].axes.count == 1);
    cr_expect_eq(tensors[COUNT], tensors[2 * COUNT - 1], "equal shardings are one");
    free(pairs);
}
