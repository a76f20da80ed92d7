#pragma once
/*
 * internal - what the files of the planner of reshards share.
 *
 * Glossary
 *  grid      a mesh seen as digits: a position is the mixed-radix number of its digits' values
 *  weight    how many positions one value of a digit is worth; the digit covers the weights [weight, weight * size)
 *  code      the place of a digit in a layout: SP_LAYOUT_REPLICATED, SP_LAYOUT_PARTIAL, SP_CODE_PARTIAL_TO, or
 *            axis * SP_SEARCH_DIGITS + place
 *  tile      what one device holds of the tensor, on the fullest device
 */
#include <assert.h>

#include "sharding/internal.h"
#include "sharding/reshard/reshard.h"

#define SP_SEARCH_DIGITS    15  /* digits of one search; more are joined */
#define SP_SEARCH_AXES      16  /* tensor axes of one search; 16 * 15 places fit a byte beside the three marks */
#define SP_RESHARD_MEASURED 256 /* devices of a mesh whose links are measured device by device */

/* Partial with the combiner of the target, where the source has another. */
#define SP_CODE_PARTIAL_TO 0xfd

/* ---- digits ---- */

struct sp_digit {
    struct sp_axis_ref ref; /* on the grid's mesh */
    int64_t size, weight;
    uint32_t level;                  /* the outermost that it spans */
    uint32_t span[SP_MAX_MESH_AXES]; /* its size, divided among the levels */
};

/* How long the collectives of a set of digits take. Groups may look different from each other on the links: the
   slowest counts. */
struct sp_group_shape {
    bool is_lines;                   /* they count, else what is known of the span */
    uint32_t span[SP_MAX_MESH_AXES]; /* devices on each level */
    uint32_t gather_lines;
    struct sp_collective_line gather[SP_COLLECTIVE_LINES], exchange;
};
struct sp_group {
    double size;
    uint32_t shape_count;
    struct sp_group_shape shapes[];
};

struct sp_grid {
    struct sp_arena *arena;     /* that it lives on, for its groups */
    const struct sp_mesh *mesh; /* the steps are written on it */
    const struct sp_links *links;
    int64_t device_count;
    uint32_t count;
    struct sp_digit digits[SP_RESHARD_MAX_DIGITS]; /* major to minor in the cut that they come from */
    bool is_nested;      /* each digit keeps to its levels, whatever the others are, and inner levels are not slower */
    bool is_measured;    /* not nested, and few devices: the tables below are there */
    int64_t *devices;    /* ascending */
    uint32_t *positions; /* by rank of the device among the devices, ascending */
    uint8_t *between;    /* level between devices, by rank * device_count + rank */
    uint32_t *values;    /* of digits, by digit * device_count + position */
    struct sp_group **groups; /* by set of digits, filled in when asked for; NULL above SP_SEARCH_DIGITS */
};

/* A list of intervals of weights, major to minor: what an axis list is in positions. */
struct sp_interval {
    int64_t low, high;
};

/* A grid with two layouts on it. */
struct sp_grid_pair {
    struct sp_grid *grid; /* NULL: there is none */
    struct sp_layout from, to;
};

/*
 * The digits that two AXES shardings of one rank need together, cut in primes or not, and their layouts. The pair has
 * no grid when they have no common digits, or more than SP_RESHARD_MAX_DIGITS.
 */
enum sp_status sp_grid_common(struct sp_arena *arena, const struct sp_links *links, const struct sp_sharding *from,
                              const struct sp_sharding *to, bool primes, struct sp_grid_pair *ret_pair,
                              struct sp_error *err);

/* The digits of a mesh, cut in primes, or else only where axes and levels of links begin; SP_ERR_LIMIT above
   SP_RESHARD_MAX_DIGITS. */
enum sp_status sp_grid_of_mesh(struct sp_arena *arena, const struct sp_links *links, const struct sp_mesh *mesh,
                               bool primes, struct sp_grid **ret_grid, struct sp_error *err);

/* The layout of a sharding on the grid's mesh; false when a cut falls into a digit or the rank is too large. */
bool sp_grid_layout(const struct sp_grid *grid, const struct sp_sharding *sharding, struct sp_layout *ret_layout);

/*
 * The same grid with the runs of digits that stay together in both layouts joined to one (`order` < 0), or with the
 * prime factors of each run in another order, the `order`th; the pair has no grid when there are not so many.
 */
enum sp_status sp_grid_rearrange(struct sp_arena *arena, const struct sp_grid_pair *pair, int order,
                                 struct sp_grid_pair *ret_pair, struct sp_error *err);

/* Finds the levels of the digits of a grid and makes the tables of its links. */
enum sp_status sp_grid_measure(struct sp_grid *grid, struct sp_error *err);

/* An interval of positions as intervals of the device numbers of an iota, major to minor, at most SP_MAX_PIECES; -1
   when it cuts a dim of the iota wrongly. */
#define SP_MAX_PIECES 64
int sp_interval_to_devices(const struct sp_device_order *order, struct sp_interval interval,
                           struct sp_interval *ret_pieces);

/* The part of an interval that lies in the dim [low, high) of a mixed-radix number, [1, 1) when there is none; false
   when that part is no part of the dim's digits. */
bool sp_interval_clip(struct sp_interval interval, int64_t low, int64_t high, struct sp_interval *ret_part);

/* The group that a set of digits makes; NULL without memory. */
const struct sp_group *sp_grid_group(struct sp_grid *grid, uint32_t set);

/* Seconds of an all-gather, all-to-all, all-reduce or reduce-scatter of n bytes (collective_cost.h) in the group. */
double sp_group_seconds(const struct sp_grid *grid, const struct sp_group *group, enum sp_collective kind,
                        double bytes);

/* ---- layouts of one problem ---- */

struct sp_code {
    uint8_t at[SP_SEARCH_DIGITS]; /* by digit; zero beyond the grid's count */
    uint8_t grid;
};

struct sp_problem {
    const struct sp_links *links;
    uint32_t rank; /* axes that take part */
    uint32_t axes[SP_SEARCH_AXES];
    int64_t extents[SP_SEARCH_AXES];
    double element_bytes; /* times the extents of the axes that do not take part */
    uint32_t grid_count;
    struct sp_grid *grids[2];
    struct sp_code from, to;
    bool has_partial;    /* of either */
    bool two_combiners;  /* they differ: the target's partial digits have the code SP_CODE_PARTIAL_TO */
    double memory_limit; /* 0: none */
};

/* A layout taken apart. */
struct sp_lists {
    uint32_t grid;
    uint8_t count[SP_SEARCH_AXES];
    uint8_t list[SP_SEARCH_AXES][SP_SEARCH_DIGITS];
    uint32_t replicated, partial, partial_to; /* sets of digits */
};

void sp_lists_of(const struct sp_problem *problem, const struct sp_code *code, struct sp_lists *ret_lists);
struct sp_code sp_code_of(const struct sp_problem *problem, const struct sp_lists *lists);
int64_t sp_lists_shards(const struct sp_problem *problem, const struct sp_lists *lists, uint32_t axis, uint32_t count);
double sp_lists_tile(const struct sp_problem *problem, const struct sp_lists *lists);

/* Whether blocks of an extent in `kept` shards are whole blocks of `all` shards (a multiple of `kept`). */
static inline bool sp_blocks_nest(int64_t extent, int64_t kept, int64_t all)
{
    assert(kept > 0 && all > 0);
    int64_t fine = sp_block_size(extent, all), together;
    return kept == 1 || (sp_mul_i64(fine, all / kept, &together) && together == sp_block_size(extent, kept));
}

/* What the links that the target's grid uses have at best: latency, seconds per byte; and which levels these are,
   outermost first, with what each has at best, if each digit is on one level. */
struct sp_fastest {
    double latency, per_byte, host; /* host: added to each collective */
    uint32_t level_count, levels[SP_MAX_MESH_AXES];
    struct sp_collective_line least[SP_MAX_MESH_AXES]; /* by level */
};
void sp_problem_fastest(const struct sp_problem *problem, struct sp_fastest *ret_fastest);

/* Seconds that no sequence from a layout to the target beats, for pruning; 0 when they are on different grids. */
double sp_problem_bound(const struct sp_problem *problem, const struct sp_lists *lists, const struct sp_lists *target,
                        const struct sp_fastest *fastest);

/* ---- permutes ---- */

/* Levels that devices are apart from the nearest holder of the tile that they need next. */
struct sp_near {
    uint32_t grid;
    bool is_measured;
    uint8_t level[SP_RESHARD_MEASURED][SP_RESHARD_MEASURED]; /* by tile, device; level_count: holds it */
};

void sp_near_of(const struct sp_problem *problem, const struct sp_lists *from, struct sp_near *ret_near);
/* Seconds of the permute; the level at which it is slowest, level_count when nobody sends. */
double sp_permute_seconds(const struct sp_problem *problem, const struct sp_near *near, const struct sp_lists *from,
                          const struct sp_lists *to, double tile, uint32_t *ret_level);

/* ---- the search ---- */

struct sp_path_step {
    enum sp_collective kind;
    struct sp_code before, after;
    uint32_t set; /* digits along which devices talk */
    double group_size, seconds, bytes, peak;
};
struct sp_path {
    uint32_t count;
    struct sp_path_step steps[SP_RESHARD_MAX_STEPS];
    double seconds, bytes, peak;
};

/* What one step from one layout to another is; it must be one that exists. SP_ERR_MEMORY is the only error. */
enum sp_status sp_step_measure(const struct sp_problem *problem, struct sp_near *near, enum sp_collective kind,
                               const struct sp_code *before, const struct sp_code *after, struct sp_path_step *ret_step,
                               struct sp_error *err);

enum sp_goal { SP_GOAL_SECONDS, SP_GOAL_PEAK };

struct sp_search_node {
    struct sp_code code;
    double value, bound; /* least so far from the start; what is left at least */
    double bytes;
    uint32_t parent, steps, slot; /* slot: its place in the hash table */
    enum sp_collective kind;      /* of the step from the parent */
};

struct sp_heap_entry {
    double key, value, bytes;
    uint32_t node, steps;
};

/* A set of permutes that was looked at from a layout reached at this value (see moves.c). */
struct sp_mark {
    uint64_t hash[2];
    double value;
    uint32_t generation; /* of the search that it belongs to */
};

/* A search's memory, to be used again and again. */
struct sp_reshard_search {
    struct sp_arena *arena;
    const struct sp_problem *problem;
    enum sp_goal goal;
    struct sp_lists target;
    struct sp_code target_code;
    double best; /* value of the best way known */
    struct sp_fastest fastest;
    uint64_t work, most_work;
    uint64_t *left; /* steps for all searches together; NULL: no such limit */
    bool is_cut, out_of_memory;
    uint32_t at;         /* the node that is being expanded */
    uint32_t generation; /* counts searches */

    uint32_t node_count, node_capacity, table_size, heap_count, heap_capacity, mark_count, mark_size;
    struct sp_search_node *nodes;
    uint32_t *table; /* index + 1 of a node, by hash of its code */
    struct sp_heap_entry *heap;
    struct sp_mark *marks;
    struct sp_near near;
};

struct sp_reshard_search *sp_search_create(struct sp_arena *arena);

/*
 * The best path. `limit`: ways that are worse than this are of no interest (INFINITY: all are). *ret_found is false
 * when there is none; search->is_cut when the limits of work were hit before it was known to be the best.
 */
enum sp_status sp_search_run(struct sp_reshard_search *search, const struct sp_problem *problem, enum sp_goal goal,
                             double limit, bool *ret_found, struct sp_path *ret_path, struct sp_error *err);

/* Starts a search from the problem's source, the node 0. False without memory. */
bool sp_search_begin(struct sp_reshard_search *search, const struct sp_problem *problem, enum sp_goal goal,
                     double limit);

/* Makes the next node to be expanded the one at hand; false when there is none left that could improve anything. */
bool sp_search_next(struct sp_reshard_search *search, struct sp_lists *ret_lists);

/* The node of the target; SP_SEARCH_NONE when it was not reached. */
#define SP_SEARCH_NONE UINT32_MAX
uint32_t sp_search_target(struct sp_reshard_search *search);

/* Whether the target was reached in one step that takes no longer than the bound on all ways: nothing can be better,
   and what is as good need not be looked at. Many digits have very many such ways. */
bool sp_search_is_proved(struct sp_reshard_search *search);

/* A step from the node at hand to a layout. */
void sp_search_offer(struct sp_reshard_search *search, enum sp_collective kind, const struct sp_lists *lists,
                     double seconds, double bytes, double peak);

/* All steps from the node at hand. */
void sp_search_expand(struct sp_reshard_search *search, const struct sp_lists *lists);

/* ---- whole problems ---- */

/* What is to be solved on one grid, or from one grid to another: from a layout on the pair's grid to one on the other. */
struct sp_reshard_task {
    const struct sp_links *links;
    uint32_t rank;
    const int64_t *shape;
    double element_bytes, memory_limit;
    bool two_combiners;
    bool is_joined; /* the digits are not prime: too many */
    struct sp_grid_pair pair;
    struct sp_grid *other; /* NULL: both layouts are on the pair's grid */
};

struct sp_solution {
    struct sp_problem problem; /* the codes of the path are of this one */
    struct sp_path path;
    bool is_found, is_optimal;
};

/* The best sequence, over all orders of prime factors; on joined digits where there are too many. The problem's grids
   live on `arena`. `search` may be used by many tasks. */
enum sp_status sp_reshard_solve(struct sp_arena *arena, struct sp_reshard_search *search,
                                const struct sp_reshard_task *task, enum sp_goal goal, struct sp_solution *ret_solution,
                                struct sp_error *err);

/* ---- pieces from device to device ---- */

/* Who sends what in a permute from one layout to another; fills in the transfers and their bytes. */
enum sp_status sp_reshard_permute_transfers(struct sp_arena *arena, const struct sp_reshard_request *request,
                                            const struct sp_problem *problem, const struct sp_path_step *path_step,
                                            struct sp_reshard_step *step, struct sp_error *err);

/* A send-receive from one sharding to another, of any kinds with known holdings and without partial axes.
   `device_count` are the devices of kinds that name none. */
enum sp_status sp_reshard_send_receive(struct sp_arena *arena, const struct sp_reshard_request *request,
                                       const struct sp_sharding *from, const struct sp_sharding *to,
                                       int64_t device_count, struct sp_reshard_step *ret_step, struct sp_error *err);

/* Bytes of an element, a fraction for types smaller than a byte. */
double sp_reshard_element_bytes(enum sp_dtype dtype);

/* Appends a step, and adds its figures to the sums. */
enum sp_status sp_reshard_add(struct sp_arena *arena, struct sp_reshard *reshard, const struct sp_reshard_step *step,
                              struct sp_error *err);

/* Appends the steps of a solution, on `arena`; `from` and `to` give the combiners. */
enum sp_status sp_reshard_steps(struct sp_arena *arena, const struct sp_reshard_request *request,
                                const struct sp_solution *solution, const struct sp_sharding *from,
                                const struct sp_sharding *to, struct sp_reshard *reshard, struct sp_error *err);
