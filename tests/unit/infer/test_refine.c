/* refine: where the axes of tensors are cut, and rules over the pieces. Expected cuts follow from the definition: the
   boundaries of the loops that a rule sees an axis in, carried along equal loops. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "build_rule.h"
#include "infer/propagate/refine.h"

#define MAX_TENSORS 8

static struct sp_arena *arena;
static struct sp_refinement *refinement;
static struct sp_interned kept;
static uint32_t tensor_count, flow_count;
static uint32_t ranks[MAX_TENSORS];
static int64_t extents[MAX_TENSORS][6];
static const int64_t *shapes[MAX_TENSORS];
static struct sp_flow flows[MAX_TENSORS];
static struct sp_error error;

static void begin(void)
{
    arena = sp_arena_create(NULL);
    refinement = NULL;
    tensor_count = flow_count = 0;
    error = (struct sp_error){0};
}

static void end(void)
{
    sp_arena_destroy(arena);
}

TestSuite(refine, .init = begin, .fini = end);

/* "8,192": a tensor; "?" is an extent that is not known. */
static uint32_t tensor(const char *text)
{
    uint32_t rank = 0;
    for (const char *at = text; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        extents[tensor_count][rank++] = *at == '?' ? -1 : strtoll(at, NULL, 10);
    }
    ranks[tensor_count] = rank;
    shapes[tensor_count] = extents[tensor_count];
    return tensor_count++;
}

/* An operation on the tensors of these numbers ("0 1 2"), inputs first. */
static struct sp_rule *flow(const char *tensors, const char *rule)
{
    uint32_t *list = sp_arena_alloc(arena, MAX_TENSORS * sizeof(*list)), count = 0;
    for (const char *at = tensors; *at != '\0'; at++) {
        if (*at != ' ')
            list[count++] = (uint32_t)(*at - '0');
    }
    struct sp_rule *built = build_rule_text(arena, rule);
    cr_assert_not_null(built, "%s", rule);
    cr_assert_eq(count, built->input_count + built->output_count, "%s", rule);
    flows[flow_count++] =
        (struct sp_flow){.rule = built, .tensors = list, .input_count = built->input_count, .operand_count = count};
    return built;
}

static void create(void)
{
    kept = sp_interned_in(arena, 1);
    const struct sp_propagation graph = {
        .tensor_count = tensor_count, .flow_count = flow_count, .ranks = ranks, .shapes = shapes, .flows = flows};
    cr_assert_eq(sp_refine_create(arena, &kept, &graph, &refinement, &error), SP_OK);
}

static void run(void)
{
    cr_assert_eq(sp_refine_run(refinement, &error), SP_OK);
}

static void refine(void)
{
    create();
    run();
}

/* "8|3*4*16": the pieces of each axis. */
static const char *pieces_text(uint32_t id)
{
    const struct sp_refined *refined = NULL;
    const char *text = "";
    uint32_t at = 0;
    cr_assert_eq(sp_refine_tensor(refinement, id, &refined, &error), SP_OK);
    if (refined == NULL)
        return "whole";
    for (uint32_t axis = 0; axis < ranks[id]; axis++) {
        for (uint32_t i = 0; i < refined->counts[axis]; i++, at++)
            text = sp_arena_printf(arena, "%s%s%ld", text, i > 0 ? "*" : &"|"[at == 0], (long)refined -> shape[at]);
    }
    cr_expect_eq(at, refined->rank);
    return text;
}

#define EXPECT_PIECES(id, text) cr_expect_str_eq(pieces_text(id), text, "%s", pieces_text(id))

static const char *rule_text(uint32_t id)
{
    const struct sp_rule *rule = NULL;
    struct sp_buf buf;
    cr_assert_eq(sp_refine_rule(refinement, arena, id, &rule, &error), SP_OK);
    sp_buf_init(&buf, 4096);
    sp_rule_print(rule, &buf);
    const char *text = sp_arena_printf(arena, "%s", buf.data);
    sp_buf_release(&buf);
    return text;
}

#define EXPECT_REFINED_RULE(id, text) cr_expect_str_eq(rule_text(id), text, "%s", rule_text(id))

/* ---- cuts ------------------------------------------------------------------------------------------------------- */

/* GPT-2: x w -> product; split in three; each to heads; attention's product; back. */
Test(refine, cuts_travel_through_an_attention)
{
    tensor("8,64");   /* 0 x */
    tensor("64,192"); /* 1 fused weight */
    tensor("8,192");  /* 2 */
    tensor("8,64");   /* 3 q */
    tensor("8,64");   /* 4 k */
    tensor("8,64");   /* 5 v */
    tensor("8,4,16"); /* 6 q by heads */
    tensor("4,16,8"); /* 7 turned */
    flow("0 1 2", "([m, k], [k, n])->([m, n]) {m=8, k=64, n=192} reduction={k}");
    flow("2 3 4 5", "([m, pi])->([m, i], [m, i], [m, i]) {m=8, p=3, i=64} need_replication={p}");
    flow("3 6", "([m, hi])->([m, h, i]) {m=8, h=4, i=16}");
    flow("6 7", "([m, h, i])->([h, i, m]) {m=8, h=4, i=16}");
    refine();
    EXPECT_PIECES(0, "whole");
    EXPECT_PIECES(1, "64|3*4*16");
    EXPECT_PIECES(2, "8|3*4*16");
    EXPECT_PIECES(3, "8|4*16");
    EXPECT_PIECES(4, "8|4*16");
    EXPECT_PIECES(6, "whole");
    EXPECT_PIECES(7, "whole");
    EXPECT_REFINED_RULE(0, "[m,k] [k,n,n,n] -> [m,n,n,n]  k: sum reduction");
    EXPECT_REFINED_RULE(1, "[m,p,i,i] -> [m,i,i] [m,i,i] [m,i,i]  p: replicate");
    EXPECT_REFINED_RULE(2, "[m,h,i] -> [m,h,i]");
    EXPECT_REFINED_RULE(3, "[m,h,i] -> [h,i,m]");
}

/* Batch and heads in one axis (vit): the cut goes through Transpose and MatMul, on both sides. */
Test(refine, merged_axes_are_cut)
{
    tensor("197,2,12,64"); /* 0 */
    tensor("197,24,64");   /* 1 */
    tensor("24,197,64");   /* 2 */
    tensor("24,64,197");   /* 3 */
    tensor("24,197,197");  /* 4 */
    tensor("24,197,197");  /* 5 */
    flow("0 1", "([s, b, h, i])->([s, bh, i]) {s=197, b=2, h=12, i=64}");
    flow("1 2", "([s, b, i])->([b, s, i]) {s=197, b=24, i=64}");
    flow("2 3 4", "([b, m, k], [b, k, n])->([b, m, n]) {b=24, m=197, k=64, n=197} reduction={k}");
    flow("4 5", "([b, m, n])->([b, m, n]) {b=24, m=197, n=197}");
    refine();
    EXPECT_PIECES(0, "whole");
    EXPECT_PIECES(1, "197|2*12|64");
    EXPECT_PIECES(3, "2*12|64|197");
    EXPECT_PIECES(5, "2*12|197|197");
    EXPECT_REFINED_RULE(2, "[b,b,m,k] [b,b,k,n] -> [b,b,m,n]  k: sum reduction");
}

/* Cuts of an axis divide each other: 4*6 and 6*4 agree in 2*12, and what is behind that is not to be split. */
Test(refine, cuts_that_do_not_fit_are_made_coarser)
{
    tensor("24");
    tensor("4,6");
    tensor("24");
    tensor("6,4");
    tensor("25");
    tensor("5,5");
    flow("0 1", "([ab])->([a, b]) {a=4, b=6}");
    flow("0 2", "([a])->([a]) {a=24}");
    flow("2 3", "([ab])->([a, b]) {a=6, b=4}");
    flow("4 5", "([ab])->([a, b]) {a=5, b=5}");
    refine();
    EXPECT_PIECES(0, "2*2*6");
    EXPECT_PIECES(1, "2*2|6");
    EXPECT_PIECES(2, "2*3*4");
    EXPECT_PIECES(3, "2*3|4");
    EXPECT_PIECES(4, "5*5");
    EXPECT_REFINED_RULE(0, "[a,a,b] -> [a,a,b]");
    EXPECT_REFINED_RULE(1, "[a,a,a] -> [a,_,_]  a: replicate; a: replicate");
    EXPECT_REFINED_RULE(2, "[a,a,b] -> [a,a,b]");
}

/* What divides goes on: 2*12 and 4*6 are 2*2*6. */
Test(refine, cuts_that_fit_are_joined)
{
    tensor("24");
    tensor("2,12");
    tensor("4,6");
    flow("0 1", "([ab])->([a, b]) {a=2, b=12}");
    flow("0 2", "([ab])->([a, b]) {a=4, b=6}");
    refine();
    EXPECT_PIECES(0, "2*2*6");
    EXPECT_PIECES(1, "2|2*6");
    EXPECT_PIECES(2, "2*2|6");
    EXPECT_REFINED_RULE(0, "[a,b,b] -> [a,b,b]");
    EXPECT_REFINED_RULE(1, "[a,a,b] -> [a,a,b]");
}

/* ---- what is stated --------------------------------------------------------------------------------------------- */

/* A contiguous split in 8 is no split of 12 heads, but its major part in 4 is one. */
Test(refine, reserved_splits_are_not_torn)
{
    tensor("768");
    tensor("768");
    tensor("12,64");
    flow("0 1", "([a])->([a]) {a=768}");
    flow("1 2", "([ab])->([a, b]) {a=12, b=64}");
    create();
    cr_assert_eq(sp_refine_reserve(refinement, 0, 0, 96, &error), SP_OK);
    run();
    EXPECT_PIECES(0, "4*192");
    EXPECT_PIECES(1, "4*192");
    EXPECT_PIECES(2, "4*3|64");
    EXPECT_REFINED_RULE(1, "[a,a*b] -> [a,a,b]");
}

/* In 4 it is, and in 24 it goes into the heads. */
Test(refine, reserved_splits_allow_what_fits)
{
    for (int64_t shards = 4; shards <= 24; shards += 20) {
        tensor_count = flow_count = 0;
        tensor("768");
        tensor("12,64");
        flow("0 1", "([ab])->([a, b]) {a=12, b=64}");
        create();
        cr_assert_eq(sp_refine_reserve(refinement, 0, 0, 768 / shards, &error), SP_OK);
        run();
        EXPECT_PIECES(0, "12*64");
    }
}

/* Stated parts stay, and rules' cuts are kept out of what is split unevenly. */
Test(refine, stated_cuts_come_first)
{
    tensor("24");
    tensor("4,6");
    flow("0 1", "([ab])->([a, b]) {a=4, b=6}");
    create();
    cr_assert_eq(sp_refine_cut(refinement, 0, 0, 8, &error), SP_OK); /* 3*8 */
    run();
    EXPECT_PIECES(0, "3*8");
    EXPECT_PIECES(1, "whole");
    EXPECT_REFINED_RULE(0, "[_,_] -> [a,b]  a: replicate; b: replicate");
}

Test(refine, uneven_parts_are_not_cut)
{
    tensor("3,24");
    tensor("3,4,6");
    flow("0 1", "([c, ab])->([c, a, b]) {a=4, b=6, c=3}");
    create();
    cr_assert_eq(sp_refine_fix(refinement, 0, 1, 1, &error), SP_OK);
    run();
    EXPECT_PIECES(0, "whole");
    EXPECT_REFINED_RULE(0, "[c,a*b] -> [c,a,b]");

    create();
    cr_assert_eq(sp_refine_cut(refinement, 0, 1, 12, &error), SP_OK);
    cr_assert_eq(sp_refine_fix(refinement, 0, 1, 1, &error), SP_OK); /* [2][12, whole] */
    run();
    EXPECT_PIECES(0, "3|2*12");
}

/* ---- what is not refined ---------------------------------------------------------------------------------------- */

/* Beyond a factor of neighbours or positions the cut is a compound axis, as it is without refinement. */
Test(refine, neighbours_stop_cuts)
{
    tensor("56");
    tensor("56");
    tensor("56");
    tensor("8,7");
    struct sp_rule *shift = flow("0 1", "([h])->([h]) {h=56}");
    flow("1 2", "([h])->([h]) {h=56}");
    flow("2 3", "([ab])->([a, b]) {a=8, b=7}");
    shift->factors[0].kind = SP_FACTOR_HALO;
    refine();
    EXPECT_PIECES(0, "whole");
    EXPECT_PIECES(1, "whole");
    EXPECT_PIECES(2, "8*7");
    EXPECT_REFINED_RULE(1, "[h*h] -> [h,h]");
}

Test(refine, blocks_stop_cuts)
{
    tensor("56");
    tensor("56");
    tensor("8,7");
    struct sp_rule *blocks = flow("0 1", "([h])->([h]) {h=56}");
    flow("1 2", "([ab])->([a, b]) {a=8, b=7}");
    blocks->factors[0].block = 4;
    refine();
    EXPECT_PIECES(1, "whole");
}

Test(refine, unknown_extents_stay)
{
    tensor("?,192");
    tensor("?,3,64");
    tensor("?");
    tensor("?");
    struct sp_rule *view = flow("0 1", "([m, pi])->([m, p, i]) {m=5, p=3, i=64}");
    struct sp_rule *merge = flow("2 3", "([mi])->([mi]) {m=5, i=64}");
    view->factors[0].extent = merge->factors[0].extent = sp_dim_unknown();
    refine();
    EXPECT_PIECES(0, "-1|3*64");
    EXPECT_PIECES(2, "whole");
    EXPECT_REFINED_RULE(0, "[m,p,i] -> [m,p,i]");
    EXPECT_REFINED_RULE(1, "[m*i] -> [m*i]");
}

/* A tensor has at most SP_MAX_RANK pieces, a rule at most SP_RULE_MAX_FACTORS factors: beyond that nothing is cut. */
Test(refine, limits_hold)
{
    tensor("1152921504606846976"); /* 2^60 */
    create();
    for (int64_t stride = 2; stride < ((int64_t)1 << 60); stride *= 2)
        cr_assert_eq(sp_refine_cut(refinement, 0, 0, stride, &error), SP_OK);
    const struct sp_refined *refined = NULL;
    cr_assert_eq(sp_refine_tensor(refinement, 0, &refined, &error), SP_OK);
    cr_expect_eq(refined->rank, 60);

    tensor_count = 0;
    tensor("1099511627776,1099511627776"); /* 2^40 */
    flow("0 0", "([a, b])->([a, b]) {a=1099511627776, b=1099511627776}");
    create();
    for (uint32_t axis = 0; axis < 2; axis++) {
        for (int64_t stride = 2; stride < ((int64_t)1 << 40); stride *= 2)
            cr_assert_eq(sp_refine_cut(refinement, 0, axis, stride, &error), SP_OK);
    }
    run();
    cr_assert_eq(sp_refine_tensor(refinement, 0, &refined, &error), SP_OK);
    cr_expect_eq(refined->rank, 64);
    cr_expect_str_neq(rule_text(0), "");
}
