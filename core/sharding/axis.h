#pragma once
/*
 * axis - mesh axes and parts of them, the letters in which shardings are written.
 *
 * An axis of size n may be used in parts. Written "x":(p)s, a sub-axis views the axis as the grid [p, s, n/(p*s)] and
 * means the middle: p is the pre-size, s the size. The whole axis is p = 1, s = n.
 *
 *   "x" of size 8        "x":(1)2 its major bit, "x":(2)2 the middle one, "x":(4)2 the minor one, "x":(2)4 the last two
 *
 * Rules (Shardy, AxisRefAttr and AxisRefListAttr): p >= 1, s > 1 (or the axis itself has size 1), p * s divides n.
 * Two refs overlap when their intervals [p, p*s) of one axis intersect. They can coexist in one sharding when one grid
 * can cut the axis for both: of two that overlap the cuts divide each other; of two that do not, the gap is integral.
 * Refs that follow each other in one list and could be written as one are an error in text, and merged by the functions
 * here.
 */
#include "sharding/mesh.h"

struct sp_axis_ref {
    uint32_t axis;
    int64_t pre, size;
};

struct sp_axis_list {
    uint32_t count;
    struct sp_axis_ref *refs; /* major to minor */
};

/* The whole axis. */
struct sp_axis_ref sp_axis_full(const struct sp_mesh *mesh, uint32_t axis);
bool sp_axis_is_full(const struct sp_mesh *mesh, struct sp_axis_ref ref);

/* Breaks of the rules above as a full sentence with `where` unset; the axis index is checked too. */
enum sp_status sp_axis_check(const struct sp_mesh *mesh, struct sp_axis_ref ref, struct sp_error *err);

bool sp_axis_equal(struct sp_axis_ref a, struct sp_axis_ref b);
bool sp_axis_overlaps(struct sp_axis_ref a, struct sp_axis_ref b);
bool sp_axis_can_coexist(struct sp_axis_ref a, struct sp_axis_ref b);
bool sp_axis_can_coexist_without_overlap(struct sp_axis_ref a, struct sp_axis_ref b);

/* By axis, then pre-size, then size. */
bool sp_axis_less(struct sp_axis_ref a, struct sp_axis_ref b);

/* Whether a directly before b is one ref: b.pre == a.pre * a.size on one axis. */
bool sp_axis_can_merge(struct sp_axis_ref a, struct sp_axis_ref b);
struct sp_axis_ref sp_axis_merge(struct sp_axis_ref a, struct sp_axis_ref b);

/* The part of `a` before `b` begins, all of it when they do not overlap; false when nothing is left. */
bool sp_axis_prefix_without_overlap(struct sp_axis_ref a, struct sp_axis_ref b, struct sp_axis_ref *ret_ref);

/* The product of the sizes; -1 when it overflows. */
int64_t sp_axes_size(const struct sp_axis_list *list);

/* Merges neighbours that can be, in place. */
void sp_axes_merge(struct sp_axis_list *list);

/* Sorts, then merges. */
void sp_axes_sort_and_merge(struct sp_axis_list *list);

/* Cuts the list at the first ref that overlaps any of `other`, keeping the part of it that does not. */
void sp_axes_truncate_by_overlap(struct sp_axis_list *list, const struct sp_axis_list *other);

/* A copy; a's refs followed by b's, merged; SP_ERR_MEMORY is the only error. */
enum sp_status sp_axes_copy(struct sp_arena *arena, const struct sp_axis_list *list, struct sp_axis_list *ret_list,
                            struct sp_error *err);
enum sp_status sp_axes_append(struct sp_arena *arena, const struct sp_axis_list *a, const struct sp_axis_list *b,
                              struct sp_axis_list *ret_list, struct sp_error *err);

/*
 * Cuts a list into a major part of exactly `size` shards and the rest, splitting one ref if need be. *ret_ok is false,
 * and nothing is written, when no cut gives that size ([4 2 3 ..] at 6: 6 is not 4 * k).
 */
enum sp_status sp_axes_slice(struct sp_arena *arena, const struct sp_axis_list *list, int64_t size, bool *ret_ok,
                             struct sp_axis_list *ret_major, struct sp_axis_list *ret_rest, struct sp_error *err);

/* Whether `a` is the major part of `b` (or all of it), sub-axes counted as parts of their axis. */
bool sp_axes_is_prefix(const struct sp_axis_list *a, const struct sp_axis_list *b);

/* The coordinate of a mesh position along a ref. */
int64_t sp_axis_coordinate(const struct sp_mesh *mesh, struct sp_axis_ref ref, int64_t position);
