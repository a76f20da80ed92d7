#pragma once
/*
 * mesh - devices arranged in a grid with named axes, and lists of devices that need not be written out.
 *
 *   mesh <["x"=2, "y"=4]>         devices 0..7; the first axis is major: device 6 is x = 1, y = 2
 *   .. device_ids=[3,2,1,0]       the same grid, filled in another order
 *   .. device_ids=([4,2]T(1,0))   an order that is computed: 0 2 4 6 1 3 5 7
 *
 * Glossary
 *  position  row-major place in the grid, 0 .. count - 1
 *  device    the number of the device that stands there
 *  iota      the numbers 0..N-1 laid out row-major in `dims`, with the axes permuted (result axis i is source
 *            axis perm[i]), read row-major again; the form of XLA's tile assignments. 10^12 devices are legal
 *            and cost nothing.
 *
 * Invariants
 *  - count is the product of the iota's dims, or the length of the list; a list has at most SP_MAX_LISTED_DEVICES.
 *  - Iotas are canonical: no dim of size 1, no run k, k+1 in perm (XLA's canonical form): 0..N-1 is dims [N], perm [0]
 *    and one device is dims [1], perm [0]. So two iotas are the same order if and only if they look the same.
 *  - Device numbers are not negative and unique. (Repeated devices exist in the device-list form only, sharding.h.)
 *  - A mesh's count is the product of its axis sizes. Two meshes have no axes: the empty one, which names no device
 *    (order.count 0), and the single-device one (XLA and Shardy: "maximal"), whose list is that device.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/limits.h"

struct sp_device_order {
    int64_t count;
    const int64_t *ids;        /* list form; NULL in the iota form */
    const uint32_t *by_device; /* list form: the positions in ascending order of their devices; NULL: not prepared */
    uint32_t rank;             /* iota form: of dims and perm */
    const int64_t *dims;
    const uint32_t *perm;
};

struct sp_mesh_axis {
    const char *name;
    int64_t size; /* 1 or more */
};

struct sp_mesh {
    const char *name; /* of a Shardy mesh, without '@'; or NULL */
    uint32_t axis_count;
    struct sp_mesh_axis *axes; /* major to minor */
    struct sp_device_order order;
};

/* 0..count-1. */
enum sp_status sp_device_order_range(struct sp_arena *arena, int64_t count, struct sp_device_order *ret_order,
                                     struct sp_error *err);

/* An iota, made canonical. SP_ERR_MALFORMED when a dim is not positive, the product overflows, or perm is no
   permutation of 0..rank-1. The arrays are copied. */
enum sp_status sp_device_order_iota(struct sp_arena *arena, uint32_t rank, const int64_t *dims, const int64_t *perm,
                                    struct sp_device_order *ret_order, struct sp_error *err);

/* A list, copied. SP_ERR_MALFORMED for a negative or repeated device, SP_ERR_LIMIT above SP_MAX_LISTED_DEVICES. */
enum sp_status sp_device_order_list(struct sp_arena *arena, int64_t count, const int64_t *ids,
                                    struct sp_device_order *ret_order, struct sp_error *err);

/* The same order as an iota where a list is one, else as it is. Linear in the list. */
enum sp_status sp_device_order_computed(struct sp_arena *arena, const struct sp_device_order *order,
                                        struct sp_device_order *ret_order, struct sp_error *err);

/* The device at a position below count. */
int64_t sp_device_order_at(const struct sp_device_order *order, int64_t position);

/* Where a device stands, or -1. Arithmetic for iotas, a binary search for lists (a scan without `by_device`). */
int64_t sp_device_order_find(const struct sp_device_order *order, int64_t device);

/* Whether it is 0..N-1 in that order. */
bool sp_device_order_is_range(const struct sp_device_order *order);

/* Whether the devices are 0..N-1 in any order. */
bool sp_device_order_is_permutation(const struct sp_device_order *order);

/*
 * `inner` numbers positions of `outer`: the order whose device at i is outer's at inner's at i. Stays an iota where
 * both are and one grid can cut both; a list otherwise (SP_ERR_LIMIT above SP_MAX_LISTED_DEVICES). Counts must be
 * equal.
 */
enum sp_status sp_device_order_compose(struct sp_arena *arena, const struct sp_device_order *outer,
                                       const struct sp_device_order *inner, struct sp_device_order *ret_order,
                                       struct sp_error *err);

/* Whether both hold the same devices in the same positions, in whichever form. */
bool sp_device_order_equal(const struct sp_device_order *a, const struct sp_device_order *b);

/* Whether both hold the same set of devices. */
bool sp_device_order_same_devices(const struct sp_device_order *a, const struct sp_device_order *b);

/*
 * A mesh from its parts; names are copied, `order` is taken as it is, NULL means 0..N-1. SP_ERR_MALFORMED: an axis size
 * below 1, two axes of one name, an empty name, a product that overflows or differs from order's count.
 */
enum sp_status sp_mesh_create(struct sp_arena *arena, uint32_t axis_count, const struct sp_mesh_axis *axes,
                              const struct sp_device_order *order, struct sp_mesh **ret_mesh, struct sp_error *err);

/* The mesh of one device, and the mesh without any. */
enum sp_status sp_mesh_single(struct sp_arena *arena, int64_t device, struct sp_mesh **ret_mesh, struct sp_error *err);
enum sp_status sp_mesh_empty(struct sp_arena *arena, struct sp_mesh **ret_mesh, struct sp_error *err);

static inline bool sp_mesh_is_empty(const struct sp_mesh *mesh)
{
    return mesh->axis_count == 0 && mesh->order.count == 0;
}
static inline bool sp_mesh_is_single(const struct sp_mesh *mesh)
{
    return mesh->axis_count == 0 && mesh->order.count == 1;
}

/* The axis of this name, or -1. */
int64_t sp_mesh_find_axis(const struct sp_mesh *mesh, const char *name);

/* Same axis sizes and the same devices in the same places; `names` says whether names count too. */
bool sp_mesh_equal(const struct sp_mesh *a, const struct sp_mesh *b, bool names);
