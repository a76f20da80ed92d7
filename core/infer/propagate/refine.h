#pragma once
/*
 * refine - tensors by the pieces that operations see their axes in.
 *
 * A rule may see one axis of an operand as several loops: Split [piece*i] -> [i] [i].., Reshape [b,h*d] -> [b,h,d]. A
 * split of an inner loop gives each device every so many elements of the axis, which no list of mesh axes for this axis
 * can say. It can for the *pieces*: the axis is seen as a row-major grid of them, and each piece becomes an axis of its
 * own, a factor that reaches over several pieces becomes as many factors of the same kind. What works on tensors and
 * rules then works on the finer ones as it is.
 *
 *     gpt2's qkv  [b,s,192] = [b,s,3,4,16]     three of 4 heads of 16
 *
 * Cuts travel: where an axis is cut, every axis with the same factor is cut in the same place, to a fixpoint. A cut is
 * named by its stride, the number of elements behind it in the grid. Those of one axis divide each other; of one that
 * does not fit those that are there, the coarse part is kept that does (4*6 and 6*4 agree in 2*12). So it is with what
 * is *reserved*: a contiguous split of an axis, which cuts must not tear apart. What is stated comes first, then what
 * each rule sees, then what travels.
 *
 * Where one operand of a flow is cut in a factor and another is not, the other has the pieces as a compound axis. Where
 * both are cut, and the cuts do not line up, the factors between are needed whole.
 *
 * Not refined: axes whose extent is not known, and those with a factor in which neighbours, blocks or positions matter
 * (HALO, PERMUTATION, a block above 1, positions of an operand).
 */
#include "base/rows.h"
#include "infer/interned_shardings.h"
#include "infer/propagate/propagate.h"

struct sp_refinement;

struct sp_refined {
    uint32_t rank;         /* all pieces of all axes */
    const uint8_t *counts; /* per axis: its pieces, 1 where it is not cut */
    const int64_t *shape;  /* per piece, major to minor */
};

/* The flows of each tensor, ascending. False without memory. */
bool sp_flows_by_tensor(struct sp_arena *arena, const struct sp_flow *flows, uint32_t flow_count, uint32_t tensor_count,
                        struct sp_rows *ret_rows);

/* Of `graph` tensors' ranks and shapes and the flows count. Its arrays must stay, and rules must not change, until the
   last sp_refine_rule(). Everything is in `arena` but for what sp_refine_tensor() gives, which is in that of `pieces`. */
enum sp_status sp_refine_create(struct sp_arena *arena, struct sp_interned *pieces, const struct sp_propagation *graph,
                                struct sp_refinement **ret_refinement, struct sp_error *err);

/* Before sp_refine_run(): the axis is cut there; a contiguous split ends there; nothing comes between `stride` (1: the
   end of the axis) and what is noted above it. Those that do not fit the ones before are made coarser. */
enum sp_status sp_refine_cut(struct sp_refinement *all, uint32_t tensor, uint32_t axis, int64_t stride,
                             struct sp_error *err);
enum sp_status sp_refine_reserve(struct sp_refinement *all, uint32_t tensor, uint32_t axis, int64_t stride,
                                 struct sp_error *err);
enum sp_status sp_refine_fix(struct sp_refinement *all, uint32_t tensor, uint32_t axis, int64_t stride,
                             struct sp_error *err);

/* To the fixpoint. Time: each flow once, and again for each cut of one of its tensors. */
enum sp_status sp_refine_run(struct sp_refinement *all, struct sp_error *err);

/* After it. *ret_refined is NULL where no axis of the tensor is cut. Equal ones are the same pointer. */
enum sp_status sp_refine_tensor(struct sp_refinement *all, uint32_t tensor, const struct sp_refined **ret_refined,
                                struct sp_error *err);

/* The flow's rule over the refined axes of its tensors, without terms; the rule itself where none is cut. */
enum sp_status sp_refine_rule(struct sp_refinement *all, struct sp_arena *arena, uint32_t flow,
                              const struct sp_rule **ret_rule, struct sp_error *err);
