/* The steps that a search may take from a layout. Each function makes the layouts of one kind of step and offers them.
 */
#include <math.h>
#include <string.h>

#include "sharding/reshard/internal.h"

/* The layout at hand, with what all kinds of steps ask about it. */
struct scene {
    struct sp_reshard_search *search;
    const struct sp_problem *problem;
    struct sp_grid *grid;
    const struct sp_lists *lists;
    struct sp_lists work; /* a copy that is changed and changed back */
    int64_t shards[SP_SEARCH_AXES];
    double tile;
};

static void push_digit(struct sp_lists *lists, uint32_t axis, uint32_t digit)
{
    lists->list[axis][lists->count[axis]++] = (uint8_t)digit;
}

static const struct sp_group *group_of(const struct scene *scene, uint32_t set)
{
    const struct sp_group *group = sp_grid_group(scene->grid, set);

    if (group == NULL)
        scene->search->out_of_memory = true;
    return group;
}

/* The extent of a block of an axis. */
static double blocks(const struct scene *scene, uint32_t axis, int64_t shards)
{
    return (double)sp_block_size(scene->problem->extents[axis], shards);
}

/* ---- local steps ---- */

/* A search that is over needs no more offers: there are as many as ways to order the digits. */
static bool is_over(const struct scene *scene)
{
    return scene->search->is_cut || scene->search->out_of_memory;
}

/* What is looked at and not offered takes its time too. */
static void count_refusal(struct scene *scene)
{
    if (++scene->search->work > scene->search->most_work)
        scene->search->is_cut = true;
}

/* Several digits at once on a whole axis: of uneven blocks only the last cut need nest in the whole. */
static void slice_whole(struct scene *scene, uint32_t axis)
{
    uint32_t next[SP_SEARCH_DIGITS + 1] = {0}, depth = 0;
    struct sp_lists *work = &scene->work;

    while (!is_over(scene)) {
        uint32_t d = next[depth];

        while (d < scene->grid->count && !(work->replicated >> d & 1))
            d++;
        if (d == scene->grid->count) {
            if (depth-- == 0)
                return;
            work->replicated |= 1u << work->list[axis][--work->count[axis]];
            continue;
        }
        next[depth] = d + 1;
        work->replicated &= ~(1u << d);
        push_digit(work, axis, d);
        next[++depth] = 0;
        if (depth > 1)
            sp_search_offer(scene->search, SP_ALL_SLICE, work, 0, 0, scene->tile);
    }
    *work = *scene->lists;
}

/* Digit by digit: what a slice of many digits does is a row of slices of one, all of no time. */
static void slices(struct scene *scene)
{
    struct sp_lists *work = &scene->work;
    int64_t all = 1;

    for (uint32_t d = 0; d < scene->grid->count; d++)
        if (scene->lists->replicated >> d & 1)
            all *= scene->grid->digits[d].size;
    for (uint32_t a = 0; a < scene->problem->rank; a++) {
        int64_t extent = scene->problem->extents[a];

        for (uint32_t d = 0; d < scene->grid->count; d++) {
            if (!(scene->lists->replicated >> d & 1) ||
                !sp_blocks_nest(extent, scene->shards[a], scene->shards[a] * scene->grid->digits[d].size))
                continue;
            push_digit(work, a, d);
            work->replicated &= ~(1u << d);
            sp_search_offer(scene->search, SP_ALL_SLICE, work, 0, 0, scene->tile);
            work->replicated |= 1u << d;
            work->count[a]--;
        }
        if (scene->shards[a] == 1 && extent % all != 0)
            slice_whole(scene, a);
    }
}

static void to_partial(struct scene *scene)
{
    struct sp_lists *work = &scene->work;

    if (!scene->problem->has_partial || (scene->problem->two_combiners && work->partial != 0))
        return;
    for (uint32_t d = 0; d < scene->grid->count; d++) {
        uint32_t bit = 1u << d, *set = scene->problem->two_combiners ? &work->partial_to : &work->partial;

        if (!(work->replicated & bit))
            continue;
        work->replicated &= ~bit;
        *set |= bit;
        sp_search_offer(scene->search, SP_TO_PARTIAL, work, 0, 0, scene->tile);
        *set &= ~bit;
        work->replicated |= bit;
    }
}

/* ---- all-gather ---- */

static void offer_gather(struct scene *scene, const uint8_t *drop)
{
    struct sp_lists *work = &scene->work;
    double tile = scene->problem->element_bytes;
    uint32_t set = 0;

    for (uint32_t a = 0; a < scene->problem->rank; a++) {
        uint32_t kept = scene->lists->count[a] - (uint32_t)drop[a];
        int64_t shards = drop[a] > 0 ? sp_lists_shards(scene->problem, scene->lists, a, kept) : scene->shards[a];

        if (!sp_blocks_nest(scene->problem->extents[a], shards, scene->shards[a]))
            return;
        tile *= blocks(scene, a, shards);
        for (uint32_t i = kept; i < scene->lists->count[a]; i++)
            set |= 1u << scene->lists->list[a][i];
    }
    const struct sp_group *group = group_of(scene, set);
    if (group == NULL)
        return;
    for (uint32_t a = 0; a < scene->problem->rank; a++)
        work->count[a] = (uint8_t)(scene->lists->count[a] - drop[a]);
    work->replicated |= set;
    sp_search_offer(scene->search, SP_ALL_GATHER, work, sp_group_seconds(scene->grid, group, SP_ALL_GATHER, tile),
                    sp_collective_bytes(SP_ALL_GATHER, group->size, tile), scene->tile + tile);
    work->replicated &= ~set;
    memcpy(work->count, scene->lists->count, sizeof work->count);
}

static void gathers(struct scene *scene)
{
    uint8_t drop[SP_SEARCH_AXES] = {0};

    for (;;) {
        uint32_t a = 0;

        while (a < scene->problem->rank && drop[a] == scene->lists->count[a])
            drop[a++] = 0;
        if (a == scene->problem->rank)
            return;
        drop[a]++;
        offer_gather(scene, drop);
    }
}

/* ---- all-to-all ---- */

/* Per tensor axis: 0, or 1 + (length - 1) * rank + target. */
struct exchange {
    uint32_t option[SP_SEARCH_AXES], taken[SP_SEARCH_AXES + 1];
};

/* Moves the suffixes in `work`; false when blocks would shift. */
static bool move_suffixes(struct scene *scene, const struct exchange *exchange, uint32_t *ret_set)
{
    struct sp_lists *work = &scene->work;
    uint32_t rank = scene->problem->rank;

    *ret_set = 0;
    for (uint32_t a = 0; a < rank; a++) {
        if (exchange->option[a] == 0)
            continue;
        uint32_t length = (exchange->option[a] - 1) / rank + 1, target = (exchange->option[a] - 1) % rank;
        uint32_t kept = scene->lists->count[a] - length;
        int64_t shards = sp_lists_shards(scene->problem, scene->lists, a, kept), moved = scene->shards[a] / shards;

        if (!sp_blocks_nest(scene->problem->extents[a], shards, scene->shards[a]) ||
            !sp_blocks_nest(scene->problem->extents[target], scene->shards[target], scene->shards[target] * moved))
            return false;
        for (uint32_t i = kept; i < scene->lists->count[a]; i++) {
            push_digit(work, target, scene->lists->list[a][i]);
            *ret_set |= 1u << scene->lists->list[a][i];
        }
        work->count[a] = (uint8_t)kept;
    }
    return true;
}

static void offer_exchange(struct scene *scene, const struct exchange *exchange)
{
    uint32_t set;

    if (move_suffixes(scene, exchange, &set) && set != 0) {
        const struct sp_group *group = group_of(scene, set);
        double tile = sp_lists_tile(scene->problem, &scene->work);
        double bytes = group != NULL ? group->size * fmax(tile, scene->tile) : 0;

        if (group != NULL)
            sp_search_offer(scene->search, SP_ALL_TO_ALL, &scene->work,
                            sp_group_seconds(scene->grid, group, SP_ALL_TO_ALL, bytes),
                            sp_collective_bytes(SP_ALL_TO_ALL, group->size, bytes), scene->tile + tile);
    }
    memcpy(scene->work.count, scene->lists->count, sizeof scene->work.count);
}

static void exchanges(struct scene *scene)
{
    struct exchange exchange = {{0}, {0}};
    uint32_t rank = scene->problem->rank, a = 0;
    uint32_t next[SP_SEARCH_AXES + 1] = {0}; /* the option to try for this axis */

    if (rank < 2)
        return;
    for (;;) {
        if (a == rank) {
            offer_exchange(scene, &exchange);
            a--;
            continue;
        }
        uint32_t option = next[a]++, target = (option - 1) % rank;
        bool is_source = scene->lists->count[a] > 0 && !(exchange.taken[a] >> a & 1);

        if (option > (is_source ? scene->lists->count[a] * rank : 0)) {
            next[a] = 0;
            if (a-- == 0)
                return;
            continue;
        }
        /* An axis that an earlier source moves to, or that is a source itself, is no target. */
        if (option > 0 && (target == a || exchange.taken[a] >> target & 1))
            continue;
        exchange.option[a] = option;
        exchange.taken[a + 1] = exchange.taken[a] | (option > 0 ? 1u << a | 1u << target : 0);
        a++;
    }
}

/* ---- reductions ---- */

static void all_reduces(struct scene *scene)
{
    struct sp_lists *work = &scene->work;
    uint32_t all = scene->lists->partial;

    for (uint32_t set = all; set != 0; set = (set - 1) & all) {
        const struct sp_group *group = group_of(scene, set);

        if (group == NULL)
            return;
        work->partial &= ~set;
        work->replicated |= set;
        sp_search_offer(scene->search, SP_ALL_REDUCE, work,
                        sp_group_seconds(scene->grid, group, SP_ALL_REDUCE, scene->tile),
                        sp_collective_bytes(SP_ALL_REDUCE, group->size, scene->tile), 2 * scene->tile);
        work->replicated &= ~set;
        work->partial |= set;
    }
}

static void offer_scatter(struct scene *scene, uint32_t set)
{
    const struct sp_group *group = group_of(scene, set);

    for (uint32_t a = 0; a < scene->problem->rank; a++)
        if (!sp_blocks_nest(scene->problem->extents[a], scene->shards[a],
                            sp_lists_shards(scene->problem, &scene->work, a, scene->work.count[a]))) {
            count_refusal(scene);
            return;
        }
    if (group != NULL)
        sp_search_offer(scene->search, SP_REDUCE_SCATTER, &scene->work,
                        sp_group_seconds(scene->grid, group, SP_REDUCE_SCATTER, scene->tile),
                        sp_collective_bytes(SP_REDUCE_SCATTER, group->size, scene->tile),
                        scene->tile + sp_lists_tile(scene->problem, &scene->work));
}

/* Every way to deal partial digits out to the ends of lists: axes never fall, so that each way comes once. */
static void reduce_scatters(struct scene *scene)
{
    struct sp_lists *work = &scene->work;
    uint32_t next[SP_SEARCH_DIGITS + 1] = {0}, axis[SP_SEARCH_DIGITS + 1] = {0}, depth = 0, set = 0;
    uint32_t count = scene->grid->count, all = scene->lists->partial;

    if (all == 0)
        return;
    while (!is_over(scene)) {
        uint32_t option = next[depth]++, a = option / count, d = option % count;

        if (a >= scene->problem->rank) {
            if (depth-- == 0)
                return;
            uint32_t last = work->list[axis[depth]][--work->count[axis[depth]]];
            work->partial |= 1u << last;
            set &= ~(1u << last);
            continue;
        }
        if (!(all & ~set) >> d || !((all & ~set) >> d & 1))
            continue;
        axis[depth] = a;
        push_digit(work, a, d);
        work->partial &= ~(1u << d);
        set |= 1u << d;
        offer_scatter(scene, set);
        next[++depth] = a * count;
    }
    *work = *scene->lists;
}

/* ---- collective-permute ---- */

static void mix(uint64_t *hash, uint64_t value)
{
    hash[0] = (hash[0] ^ value) * 0x9e3779b97f4a7c15u;
    hash[0] ^= hash[0] >> 32;
    hash[1] = (hash[1] + value) * 0xc2b2ae3d27d4eb4fu;
    hash[1] ^= hash[1] >> 31;
}

static struct sp_mark *find_mark(struct sp_reshard_search *search, const uint64_t *hash)
{
    uint32_t at = (uint32_t)hash[0] & (search->mark_size - 1);

    while (search->marks[at].generation == search->generation &&
           (search->marks[at].hash[0] != hash[0] || search->marks[at].hash[1] != hash[1]))
        at = (at + 1) & (search->mark_size - 1);
    return &search->marks[at];
}

static bool make_marks(struct sp_reshard_search *search)
{
    uint32_t size = search->mark_size;

    if (2 * search->mark_count < size)
        return true;
    struct sp_mark *old = search->marks;
    struct sp_mark *marks = SP_NEW_ARRAY(search->arena, size > 0 ? 2 * (size_t)size : 256, struct sp_mark);
    if (marks == NULL) {
        search->out_of_memory = true;
        return false;
    }
    search->marks = marks;
    search->mark_size = size > 0 ? 2 * size : 256;
    for (uint32_t i = 0; i < size; i++)
        if (old[i].generation == search->generation)
            *find_mark(search, old[i].hash) = old[i];
    return true;
}

/*
 * What a permute costs depends only on the outermost level at which a digit loses its place. So layouts that agree in
 * the numbers of shards, the partial digits and the places of all digits outside a level have the same permutes that
 * reach to that level, at the same cost: from one of them that was reached no sooner they need not be tried again.
 * Marks all levels; returns the outermost one that is new, level_count when none is.
 */
static uint32_t mark_levels(const struct scene *scene)
{
    struct sp_reshard_search *search = scene->search;
    const struct sp_lists *lists = scene->lists;
    double value = search->nodes[search->at].value;
    uint32_t outermost = search->problem->links->level_count;

    for (uint32_t level = 0; level < search->problem->links->level_count; level++) {
        uint64_t hash[2] = {level + 1, lists->partial | (uint64_t)lists->partial_to << 32};
        bool has_digit = false;

        for (uint32_t a = 0; a < scene->problem->rank; a++) {
            mix(hash, (uint64_t)scene->shards[a]);
            for (uint32_t i = 0; i < lists->count[a]; i++) {
                uint32_t d = lists->list[a][i];

                has_digit = has_digit || scene->grid->digits[d].level == level;
                if (scene->grid->digits[d].level < level)
                    mix(hash, (uint64_t)a << 48 | (uint64_t)i << 32 | d);
            }
        }
        if (!has_digit)
            continue;
        if (!make_marks(search))
            return search->problem->links->level_count;
        struct sp_mark *mark = find_mark(search, hash);
        bool is_known = mark->generation == search->generation;
        if (is_known && mark->value <= value)
            continue;
        search->mark_count += !is_known;
        *mark = (struct sp_mark){{hash[0], hash[1]}, value, search->generation};
        outermost = level < outermost ? level : outermost;
    }
    return outermost;
}

static void offer_permute(struct scene *scene, const struct sp_lists *to)
{
    uint32_t level;
    double tile = scene->tile;
    double seconds = sp_permute_seconds(scene->problem, &scene->search->near, scene->lists, to, tile, &level);
    bool is_idle = level == scene->problem->links->level_count;

    if (scene->search->near.is_measured)
        scene->search->work += (uint64_t)scene->grid->device_count / 16; /* as long as so many other steps take */

    sp_search_offer(scene->search, SP_COLLECTIVE_PERMUTE, to, seconds, is_idle ? 0 : tile, is_idle ? tile : 2 * tile);
}

/* Where digits must stay in a permute: by digit, the axis and the shards that are major to it. */
struct pins {
    uint32_t set;
    uint32_t axis[SP_SEARCH_DIGITS];
    int64_t before[SP_SEARCH_DIGITS];
};

/* Pins the digits of all levels outside one. */
static void pin(const struct scene *scene, uint32_t level, struct pins *pins)
{
    pins->set = 0;
    for (uint32_t a = 0; a < scene->problem->rank; a++) {
        int64_t before = 1;

        for (uint32_t i = 0; i < scene->lists->count[a]; i++) {
            uint32_t d = scene->lists->list[a][i];

            if (scene->grid->digits[d].level < level) {
                pins->set |= 1u << d;
                pins->axis[d] = a;
                pins->before[d] = before;
            }
            before *= scene->grid->digits[d].size;
        }
    }
}

/* Whether a digit may follow on so many shards of an axis. */
static bool may_follow(const struct pins *pins, const struct sp_grid *grid, uint32_t digit, uint32_t axis,
                       int64_t before)
{
    if (pins->set >> digit & 1)
        return pins->axis[digit] == axis && pins->before[digit] == before;
    for (uint32_t d = 0; pins->set >> d != 0; d++)
        if (pins->set >> d & 1 && pins->axis[d] == axis && pins->before[d] >= before &&
            pins->before[d] < before * grid->digits[digit].size)
            return false;
    return true;
}

/* The first axis from `axis` on that is split; the rank when there is none. */
static uint32_t next_axis(const struct scene *scene, uint32_t axis)
{
    while (axis < scene->problem->rank && scene->shards[axis] == 1)
        axis++;
    return axis;
}

/* Whether a permute to a layout that is not on the way of the target is of use: a whole tile has to come then. */
static bool may_stray(const struct scene *scene, uint32_t grid_index)
{
    const struct sp_reshard_search *search = scene->search;
    const struct sp_fastest *fastest = &search->fastest;
    double bytes = scene->problem->element_bytes;

    if (search->goal != SP_GOAL_SECONDS || grid_index != search->target.grid || grid_index != scene->lists->grid)
        return true;
    for (uint32_t a = 0; a < scene->problem->rank; a++) {
        bytes *= (double)scene->problem->extents[a];
        bytes /= (double)sp_lists_shards(scene->problem, &search->target, a, search->target.count[a]);
    }
    return search->nodes[search->at].value + 2 * fastest->latency + (scene->tile + bytes) * fastest->per_byte <=
           search->best * (1 + 1e-9);
}

/* Every way to fill the lists of all axes, so that each has the shards that it has now, from a set of digits. */
static void fill(struct scene *scene, uint32_t grid_index, uint32_t digits, const struct pins *pins)
{
    const struct sp_grid *grid = scene->problem->grids[grid_index];
    uint32_t next[SP_SEARCH_DIGITS + 1] = {0}, axis[SP_SEARCH_DIGITS + 1], depth = 0;
    int64_t left[SP_SEARCH_DIGITS + 1];
    struct sp_lists to = *scene->lists;
    const struct sp_lists *target = &scene->search->target;
    bool strays = may_stray(scene, grid_index);

    memset(to.count, 0, sizeof to.count);
    to.grid = grid_index;
    to.replicated = digits;
    axis[0] = next_axis(scene, 0);
    if (axis[0] == scene->problem->rank) {
        if (grid_index != scene->lists->grid)
            offer_permute(scene, &to);
        return;
    }
    left[0] = scene->shards[axis[0]];
    while (!scene->search->is_cut && !scene->search->out_of_memory) {
        uint32_t a = axis[depth], d = next[depth]++;

        if (d == grid->count) {
            if (depth-- == 0)
                return;
            to.replicated |= 1u << to.list[axis[depth]][--to.count[axis[depth]]];
            continue;
        }
        if (!(to.replicated >> d & 1) || left[depth] % grid->digits[d].size != 0 ||
            (!strays && to.count[a] < target->count[a] && target->list[a][to.count[a]] != d) ||
            (pins->set != 0 && !may_follow(pins, grid, d, a, scene->shards[a] / left[depth])))
            continue;
        push_digit(&to, a, d);
        to.replicated &= ~(1u << d);
        int64_t rest = left[depth] / grid->digits[d].size;
        if (rest == 1)
            a = next_axis(scene, a + 1);
        if (a == scene->problem->rank) {
            offer_permute(scene, &to);
            to.replicated |= 1u << d;
            to.count[axis[depth]]--;
            continue;
        }
        depth++;
        axis[depth] = a;
        left[depth] = rest == 1 ? scene->shards[a] : rest;
        next[depth] = 0;
    }
}

/* Whether a permute over a level takes longer than the best way known. */
static bool is_too_far(const struct scene *scene, uint32_t level)
{
    const struct sp_reshard_search *search = scene->search;
    const struct sp_mesh_level *link = &search->problem->links->levels[level];

    return search->goal == SP_GOAL_SECONDS &&
           search->nodes[search->at].value + link->latency + scene->tile / link->bandwidth > search->best;
}

static void permutes(struct scene *scene)
{
    struct sp_reshard_search *search = scene->search;
    const struct sp_problem *problem = scene->problem;
    const struct sp_lists *lists = scene->lists;
    double least = search->fastest.latency + scene->tile * search->fastest.per_byte;
    bool crosses = problem->grid_count > 1 && lists->grid == 0;
    struct pins pins = {0};
    bool is_hopeless = search->goal == SP_GOAL_SECONDS && search->nodes[search->at].value + least > search->best;

    if (is_hopeless && !crosses)
        return;
    sp_near_of(problem, lists, &search->near);
    if (crosses && (lists->partial | lists->partial_to) == 0)
        fill(scene, 1, (1u << problem->grids[1]->count) - 1, &pins);
    if (is_hopeless)
        return;
    if (!search->near.is_measured && scene->grid->is_nested) {
        uint32_t level = mark_levels(scene);

        while (level < problem->links->level_count && is_too_far(scene, level))
            level++;
        if (level == problem->links->level_count)
            return;
        pin(scene, level, &pins);
    }
    uint32_t digits = lists->replicated;
    for (uint32_t a = 0; a < problem->rank; a++)
        for (uint32_t i = 0; i < lists->count[a]; i++)
            digits |= 1u << lists->list[a][i];
    fill(scene, lists->grid, digits, &pins);
}

void sp_search_expand(struct sp_reshard_search *search, const struct sp_lists *lists)
{
    struct scene scene = {.search = search,
                          .problem = search->problem,
                          .grid = search->problem->grids[lists->grid],
                          .lists = lists,
                          .work = *lists};

    for (uint32_t a = 0; a < scene.problem->rank; a++)
        scene.shards[a] = sp_lists_shards(scene.problem, lists, a, lists->count[a]);
    scene.tile = sp_lists_tile(scene.problem, lists);
    slices(&scene);
    gathers(&scene);
    exchanges(&scene);
    all_reduces(&scene);
    reduce_scatters(&scene);
    to_partial(&scene);
    permutes(&scene);
}
