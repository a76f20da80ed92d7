/*
 * Costs of reshards on a fixed mesh, for a search that asks for millions of them.
 *
 * Three ways, from fast to slow: closed forms where one step is provably the best (nothing to do, a slice, one
 * collective whose time equals the bound that no sequence beats); a table of answers; the search itself.
 */
#include <math.h>
#include <string.h>

#include "base/hash_map.h"
#include "sharding/reshard/internal.h"

#define CACHED_RANK 8 /* tensors of more axes are not kept */
#define CACHE_WAYS  4 /* entries that a question may be in; the one that was used longest ago gives way */

/* What an answer depends on, as bytes: shape, bytes of an element, layouts. */
struct key {
    uint32_t size;
    unsigned char bytes[CACHED_RANK * sizeof(int64_t) + sizeof(double) + 4 * SP_RESHARD_MAX_DIGITS];
};

struct entry {
    uint64_t used; /* the time of the last use; 0: empty */
    uint64_t hash;
    double seconds, bytes;
    struct key key;
};

struct sp_reshard_costs {
    struct sp_arena *arena, *scratch;
    struct sp_arena_mark start; /* of the scratch arena */
    struct sp_grid *grid;
    struct sp_reshard_search *search;
    struct sp_solution *solution;
    struct sp_mesh_level levels[SP_MAX_MESH_AXES];
    struct sp_links links;
    struct sp_reshard_counts counts;
    uint64_t time;
    size_t entry_count; /* a power of two times CACHE_WAYS, or 0 */
    struct entry *entries;
};

static enum sp_status make_cache(struct sp_reshard_costs *costs, size_t cache_bytes, struct sp_error *err)
{
    size_t count = CACHE_WAYS;

    if (cache_bytes / sizeof(struct entry) < count)
        return SP_OK;
    while (count <= cache_bytes / sizeof(struct entry) / 2)
        count *= 2;
    costs->entries = SP_NEW_ARRAY(costs->arena, count, struct entry);
    if (costs->entries == NULL)
        return sp_fail_memory(err);
    costs->entry_count = count;
    return SP_OK;
}

static enum sp_status create(struct sp_budget *budget, const struct sp_links *links, const struct sp_mesh *mesh,
                             bool primes, size_t cache_bytes, struct sp_reshard_costs **ret_costs, struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_create(budget);
    struct sp_reshard_costs *costs = arena != NULL ? SP_NEW(arena, struct sp_reshard_costs) : NULL;
    enum sp_status status = SP_OK;

    if (costs == NULL) {
        sp_arena_destroy(arena);
        return sp_fail_memory(err);
    }
    costs->arena = arena;
    costs->scratch = sp_arena_create(budget);
    costs->search = sp_search_create(arena);
    costs->solution = SP_NEW(arena, struct sp_solution);
    if (costs->scratch == NULL || costs->search == NULL || costs->solution == NULL)
        status = sp_fail_memory(err);
    else if (links->level_count == 0 || links->level_count > SP_MAX_MESH_AXES)
        status = sp_fail(err, SP_ERR_REQUEST, "LINKS_MISSING",
                         "Reshards are timed on a cluster with 1 to %d levels of links.", SP_MAX_MESH_AXES);
    if (status == SP_OK) {
        memcpy(costs->levels, links->levels, links->level_count * sizeof *links->levels);
        costs->links = (struct sp_links){links->level_count, costs->levels};
        costs->start = sp_arena_mark(costs->scratch);
        status = sp_grid_of_mesh(arena, &costs->links, mesh, primes, &costs->grid, err);
    }
    if (status == SP_OK)
        status = make_cache(costs, cache_bytes, err);
    if (status != SP_OK)
        sp_reshard_costs_destroy(costs);
    else
        *ret_costs = costs;
    return status;
}

enum sp_status sp_reshard_costs_create(struct sp_budget *budget, const struct sp_links *links,
                                       const struct sp_mesh *mesh, size_t cache_bytes,
                                       struct sp_reshard_costs **ret_costs, struct sp_error *err)
{
    return create(budget, links, mesh, true, cache_bytes, ret_costs, err);
}

enum sp_status sp_reshard_costs_create_axes(struct sp_budget *budget, const struct sp_links *links,
                                            const struct sp_mesh *mesh, size_t cache_bytes,
                                            struct sp_reshard_costs **ret_costs, struct sp_error *err)
{
    return create(budget, links, mesh, false, cache_bytes, ret_costs, err);
}

void sp_reshard_costs_destroy(struct sp_reshard_costs *costs)
{
    if (costs == NULL)
        return;
    sp_arena_destroy(costs->scratch);
    sp_arena_destroy(costs->arena);
}

uint32_t sp_reshard_costs_digits(const struct sp_reshard_costs *costs)
{
    return costs->grid->count;
}

enum sp_status sp_layout_of(const struct sp_reshard_costs *costs, const struct sp_sharding *sharding,
                            struct sp_layout *ret_layout, struct sp_error *err)
{
    struct sp_layout layout;

    if (!sp_grid_layout(costs->grid, sharding, &layout))
        return sp_fail(
            err, SP_ERR_REQUEST, "NO_LAYOUT",
            "The sharding is not one on the mesh whose reshards are timed, or cuts an axis inside one of its "
            "prime parts.");
    *ret_layout = layout;
    return SP_OK;
}

/* ---- closed forms ---- */

/* Per tensor axis the lists of two layouts, as far as the closed forms need them. */
struct sides {
    int64_t from, to; /* shards */
    uint32_t from_count, to_count, common;
};

static void compare(const struct sp_grid *grid, const struct sp_layout *from, const struct sp_layout *to, uint32_t rank,
                    struct sides *sides)
{
    memset(sides, 0, rank * sizeof *sides);
    for (uint32_t a = 0; a < rank; a++)
        sides[a].from = sides[a].to = 1;
    for (uint32_t d = 0; d < grid->count; d++) {
        if (from->axis[d] < rank) {
            sides[from->axis[d]].from *= grid->digits[d].size;
            sides[from->axis[d]].from_count++;
        }
        if (to->axis[d] < rank) {
            sides[to->axis[d]].to *= grid->digits[d].size;
            sides[to->axis[d]].to_count++;
        }
        if (from->axis[d] == to->axis[d] && from->axis[d] < rank && from->place[d] == to->place[d])
            sides[from->axis[d]].common |= 1u << from->place[d];
    }
    /* The set of common places, to the length of the common prefix. */
    for (uint32_t a = 0; a < rank; a++) {
        uint32_t set = sides[a].common, length = 0;

        while (set >> length & 1)
            length++;
        sides[a].common = length;
    }
}

struct question {
    uint32_t rank;
    const int64_t *shape;
    double element_bytes;
    const struct sp_layout *from, *to;
};

static bool has_partial(const struct sp_layout *layout, uint32_t count)
{
    return memchr(layout->axis, SP_LAYOUT_PARTIAL, count) != NULL;
}

/* Whether a pure gather over `set` is the best there is: its time is the bound of sp_problem_bound(), or it is in one
   level of which more is known, among no more devices than that was measured for: steps in a row start more often. */
static bool gather(const struct sp_reshard_costs *costs, const struct question *question, const struct sides *sides,
                   uint32_t set, double *ret_seconds, double *ret_bytes)
{
    const struct sp_group *group = sp_grid_group(costs->grid, set);
    double tile = question->element_bytes, ideal = tile, rounds = 0, latency = INFINITY, per_byte = INFINITY;

    if (group == NULL)
        return false;
    for (uint32_t a = 0; a < question->rank; a++) {
        tile *= (double)sp_block_size(question->shape[a], sides[a].to);
        ideal *= (double)question->shape[a] / (double)sides[a].to;
    }
    for (uint32_t l = 0; l < costs->links.level_count; l++) {
        latency = fmin(latency, costs->links.levels[l].latency);
        per_byte = fmin(per_byte, 1 / costs->links.levels[l].bandwidth);
    }
    for (double reached = 1; reached < group->size; reached *= 2)
        rounds++;
    double bound = rounds * latency + (group->size - 1) / group->size * ideal * per_byte;
    *ret_seconds = sp_group_seconds(costs->grid, group, SP_ALL_GATHER, tile);
    *ret_bytes = sp_collective_bytes(SP_ALL_GATHER, group->size, tile);
    return (costs->links.level_count == 1 && costs->links.levels[0].forms != NULL &&
            group->size <= SP_LINK_GROUP_MOST) ||
           *ret_seconds <= bound * (1 + 1e-12);
}

/* The answer without a search, or false. */
static bool closed_form(const struct sp_reshard_costs *costs, const struct question *question, double *ret_seconds,
                        double *ret_bytes)
{
    const struct sp_grid *grid = costs->grid;
    struct sides sides[SP_MAX_RANK];
    uint32_t dropped = 0;
    bool is_slice = true, is_gather = true;

    *ret_seconds = *ret_bytes = 0;
    if (memcmp(question->from, question->to, sizeof *question->from) == 0)
        return true;
    if (grid->groups == NULL || has_partial(question->from, grid->count) || has_partial(question->to, grid->count))
        return false;
    compare(grid, question->from, question->to, question->rank, sides);
    for (uint32_t a = 0; a < question->rank; a++) {
        is_slice = is_slice && sides[a].common == sides[a].from_count &&
                   sp_blocks_nest(question->shape[a], sides[a].from, sides[a].to);
        is_gather = is_gather && sides[a].common == sides[a].to_count && sides[a].from % sides[a].to == 0 &&
                    sp_blocks_nest(question->shape[a], sides[a].to, sides[a].from);
    }
    if (is_slice)
        return true;
    for (uint32_t d = 0; d < grid->count; d++)
        if (question->from->axis[d] != question->to->axis[d])
            dropped |= 1u << d;
    return is_gather && gather(costs, question, sides, dropped, ret_seconds, ret_bytes);
}

/* ---- the table ---- */

static void add(struct key *key, const void *bytes, size_t size)
{
    memcpy(key->bytes + key->size, bytes, size);
    key->size += (uint32_t)size;
}

/* The entry of a question, or the one to be replaced by it, which has its key then; NULL without a table. */
static struct entry *find(struct sp_reshard_costs *costs, const struct question *question, bool *ret_found)
{
    const uint32_t digits = costs->grid->count;
    struct entry *oldest = NULL;
    struct key key;

    *ret_found = false;
    if (costs->entry_count == 0 || question->rank > CACHED_RANK)
        return NULL;
    key.size = 0;
    add(&key, question->shape, question->rank * sizeof *question->shape);
    add(&key, &question->element_bytes, sizeof question->element_bytes);
    add(&key, question->from->axis, digits);
    add(&key, question->from->place, digits);
    add(&key, question->to->axis, digits);
    add(&key, question->to->place, digits);
    const uint64_t hash = sp_digest(key.bytes, key.size, 0);
    struct entry *set = costs->entries + (hash & (costs->entry_count / CACHE_WAYS - 1)) * CACHE_WAYS;
    for (uint32_t i = 0; i < CACHE_WAYS; i++) {
        if (set[i].used != 0 && set[i].hash == hash && set[i].key.size == key.size &&
            memcmp(set[i].key.bytes, key.bytes, key.size) == 0) {
            *ret_found = true;
            return &set[i];
        }
        if (oldest == NULL || set[i].used < oldest->used)
            oldest = &set[i];
    }
    oldest->hash = hash;
    oldest->key.size = key.size;
    memcpy(oldest->key.bytes, key.bytes, key.size);
    return oldest;
}

/* ---- the search ---- */

/* INFINITY without memory, too: nothing can be said then. */
static double search(struct sp_reshard_costs *costs, const struct question *question, double *ret_bytes)
{
    struct sp_reshard_task task = {.links = &costs->links,
                                   .rank = question->rank,
                                   .shape = question->shape,
                                   .element_bytes = question->element_bytes,
                                   .pair = {costs->grid, *question->from, *question->to}};
    enum sp_status status =
        sp_reshard_solve(costs->scratch, costs->search, &task, SP_GOAL_SECONDS, costs->solution, NULL);
    bool found = status == SP_OK && costs->solution->is_found;

    sp_arena_rewind(costs->scratch, costs->start);
    *ret_bytes = found ? costs->solution->path.bytes : 0;
    return found ? costs->solution->path.seconds : INFINITY;
}

double sp_reshard_cost(struct sp_reshard_costs *costs, uint32_t rank, const int64_t *shape, double element_bytes,
                       const struct sp_layout *from, const struct sp_layout *to, double *ret_bytes)
{
    struct question question = {rank, shape, element_bytes, from, to};
    double seconds, bytes = 0;
    bool found;

    if (closed_form(costs, &question, &seconds, &bytes)) {
        costs->counts.fast++;
    } else {
        struct entry *entry = find(costs, &question, &found);

        if (found) {
            seconds = entry->seconds;
            bytes = entry->bytes;
            costs->counts.cached++;
        } else {
            seconds = search(costs, &question, &bytes);
            costs->counts.searched++;
        }
        if (entry != NULL) {
            entry->used = ++costs->time;
            entry->seconds = seconds;
            entry->bytes = bytes;
        }
    }
    if (ret_bytes != NULL)
        *ret_bytes = bytes;
    return seconds;
}

struct sp_reshard_counts sp_reshard_costs_counts(const struct sp_reshard_costs *costs)
{
    return costs->counts;
}
