#include "reshard_oracle.h"

#include <math.h>
#include <string.h>

#include "step_costs.h"

#define MAX_STATES 4096 /* of 4 parts on 4 axes there are 2424 */

struct digit {
    uint32_t axis;
    int64_t pre, size, stride; /* stride: in positions of the mesh */
};

/* Sets of digits are bit masks. */
struct state {
    uint8_t count[ORACLE_MAX_RANK];
    uint8_t list[ORACLE_MAX_RANK][ORACLE_MAX_DIGITS];
    uint8_t split, replicated, partial;
};

struct search {
    const struct sp_links *links;
    const struct sp_mesh *mesh;
    uint32_t rank;
    const int64_t *shape;
    double element_bytes;
    uint32_t devices;
    uint32_t digit_count;
    struct digit digits[ORACLE_MAX_DIGITS];

    uint32_t state_count;
    struct state states[MAX_STATES];
    double tile_bytes[MAX_STATES];
    uint64_t shape_key[MAX_STATES]; /* equal: same number of shards on every axis and the same partial parts */
    uint8_t tile[MAX_STATES][ORACLE_MAX_DEVICES]; /* which tile, of which addends, each device holds */
    double seconds[MAX_STATES];
    bool is_settled[MAX_STATES];

    uint32_t span_count[1 << ORACLE_MAX_DIGITS];
    uint32_t spans[1 << ORACLE_MAX_DIGITS][STEP_COSTS_MAX_SPANS][SP_MAX_MESH_AXES];
};

/* One search at a time; a few hundred kilobytes. */
static struct search the_search;

/* ---- states ---- */

static uint64_t code_of(const struct search *search, const struct state *state)
{
    uint64_t code = state->partial;
    for (uint32_t a = 0; a < search->rank; a++)
        for (uint32_t i = 0; i < ORACLE_MAX_DIGITS; i++)
            code = code * (ORACLE_MAX_DIGITS + 1) + (i < state->count[a] ? state->list[a][i] + 1u : 0);
    return code;
}

static int64_t shards_of(const struct search *search, const struct state *state, uint32_t axis, uint32_t count)
{
    int64_t shards = 1;
    for (uint32_t i = 0; i < count; i++)
        shards *= search->digits[state->list[axis][i]].size;
    return shards;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static uint32_t digit_at(const struct search *search, uint32_t position, uint32_t digit)
{
    const struct digit *d = &search->digits[digit];
    return (uint32_t)(position / d->stride % d->size);
}

static void add_state(struct search *search, const struct state *state)
{
    uint32_t s = search->state_count++;
    double elements = 1;
    uint64_t key = 0;
    search->states[s] = *state;
    for (uint32_t a = 0; a < search->rank; a++) {
        int64_t shards = shards_of(search, state, a, state->count[a]);
        elements *= (double)ceil_div(search->shape[a], shards);
        key = key * 32 + (uint64_t)shards;
    }
    search->shape_key[s] = key * 16 + state->partial;
    search->tile_bytes[s] = elements * search->element_bytes;
    for (uint32_t p = 0; p < search->devices; p++) {
        uint32_t tile = 0;
        for (uint32_t a = 0; a < search->rank; a++)
            for (uint32_t i = 0; i < state->count[a]; i++)
                tile = tile * (uint32_t)search->digits[state->list[a][i]].size + digit_at(search, p, state->list[a][i]);
        for (uint32_t d = 0; d < search->digit_count; d++)
            if (state->partial >> d & 1)
                tile = tile * (uint32_t)search->digits[d].size + digit_at(search, p, d);
        search->tile[s][sp_device_order_at(&search->mesh->order, p)] = (uint8_t)tile;
    }
}

/* All states: every order in which the digits can be dealt out, to every list or set. */
static void add_states(struct search *search, bool partial)
{
    uint32_t places = search->rank + 1 + (partial ? 1 : 0), orders = 1, deals = 1, k = search->digit_count;
    for (uint32_t i = 0; i < k; i++) {
        orders *= k;
        deals *= places;
    }
    search->state_count = 0;
    for (uint32_t order = 0; order < orders; order++) {
        uint32_t digits[ORACLE_MAX_DIGITS], seen = 0;
        for (uint32_t i = 0, rest = order; i < k; i++, rest /= k)
            seen |= 1u << (digits[i] = rest % k);
        if (seen != (1u << k) - 1)
            continue;
        for (uint32_t deal = 0; deal < deals; deal++) {
            struct state state = {0};
            uint32_t last_place = 0, last_digit = 0;
            bool is_first_of_its_kind = true; /* the place never falls, and digits of a set rise */
            for (uint32_t i = 0, rest = deal; i < k; i++, rest /= places) {
                uint32_t place = rest % places, digit = digits[i];
                if (i > 0 &&
                    (place < last_place || (place == last_place && place >= search->rank && digit < last_digit)))
                    is_first_of_its_kind = false;
                last_place = place;
                last_digit = digit;
                if (place == search->rank)
                    state.replicated |= (uint8_t)(1u << digit);
                else if (place > search->rank)
                    state.partial |= (uint8_t)(1u << digit);
                else {
                    state.list[place][state.count[place]++] = (uint8_t)digit;
                    state.split |= (uint8_t)(1u << digit);
                }
            }
            if (is_first_of_its_kind)
                add_state(search, &state);
        }
    }
}

/* ---- times ---- */

/* What the groups that a set of digits makes look like on the links. */
static void measure_spans(struct search *search, uint32_t set)
{
    struct sp_axis_ref refs[ORACLE_MAX_DIGITS];
    struct sp_axis_list axes = {.refs = refs};
    for (uint32_t d = 0; d < search->digit_count; d++)
        if (set >> d & 1)
            refs[axes.count++] =
                (struct sp_axis_ref){search->digits[d].axis, search->digits[d].pre, search->digits[d].size};
    search->span_count[set] = step_spans(search->links, search->mesh, &axes, search->spans[set]);
}

static double collective(const struct search *search, enum sp_collective kind, uint32_t set, double bytes)
{
    double worst = 0;
    for (uint32_t i = 0; i < search->span_count[set]; i++)
        worst = fmax(worst, sp_collective_seconds(search->links, kind, search->spans[set][i], bytes));
    return worst;
}

static double permute(const struct search *search, uint32_t from, uint32_t to)
{
    double worst = 0;
    for (uint32_t target = 0; target < search->devices; target++) {
        uint32_t nearest = 0; /* level; the devices of an inner level are nearer */
        if (search->tile[from][target] == search->tile[to][target])
            continue;
        for (uint32_t source = 0; source < search->devices; source++)
            if (search->tile[from][source] == search->tile[to][target]) {
                uint32_t level = sp_links_between(search->links, source, target);
                nearest = level > nearest ? level : nearest;
            }
        const struct sp_mesh_level *level = &search->links->levels[nearest];
        worst = fmax(worst, level->latency + search->tile_bytes[to] / level->bandwidth);
    }
    return worst;
}

/* ---- steps ---- */

/* Whether the pieces of an axis's list cut at `kept` digits are made of whole pieces of the full list. */
static bool nests(const struct search *search, const struct state *state, uint32_t axis, uint32_t kept)
{
    int64_t extent = search->shape[axis], coarse = shards_of(search, state, axis, kept);
    int64_t fine = shards_of(search, state, axis, state->count[axis]);
    return coarse == 1 || ceil_div(extent, fine) * (fine / coarse) == ceil_div(extent, coarse);
}

/* Whether whole suffixes go from lists to other lists in pairs, no list being in two of them. */
static bool moves_in_pairs(const struct search *search, const struct state *from, const struct state *to,
                           const uint32_t *kept)
{
    for (uint32_t a = 0; a < search->rank; a++) {
        uint32_t dropped = from->count[a] - kept[a], added = to->count[a] - kept[a], target = 0;
        if (dropped > 0 && added > 0)
            return false;
        if (dropped == 0)
            continue;
        while (target < search->rank &&
               (target == a || to->count[target] - kept[target] != dropped ||
                memcmp(&to->list[target][kept[target]], &from->list[a][kept[a]], dropped) != 0))
            target++;
        if (target == search->rank)
            return false;
    }
    return true;
}

/* Seconds of the one step from one state to another, INFINITY when there is none. */
static double seconds_of_step(const struct search *search, uint32_t s, uint32_t t)
{
    const struct state *from = &search->states[s], *to = &search->states[t];
    double best = INFINITY;
    bool is_prefix = true, is_extension = true, meets = true;
    if (search->shape_key[s] == search->shape_key[t])
        best = permute(search, s, t);

    uint32_t moved = 0, kepts[ORACLE_MAX_RANK] = {0};
    for (uint32_t a = 0; a < search->rank; a++) {
        uint32_t kept = 0;
        while (kept < from->count[a] && kept < to->count[a] && from->list[a][kept] == to->list[a][kept])
            kept++;
        uint32_t dropped = 0, added = 0;
        kepts[a] = kept;
        for (uint32_t i = kept; i < from->count[a]; i++)
            dropped |= 1u << from->list[a][i];
        for (uint32_t i = kept; i < to->count[a]; i++)
            added |= 1u << to->list[a][i];
        moved |= dropped | added;
        is_prefix = is_prefix && !added;
        is_extension = is_extension && !dropped;
        meets = meets && nests(search, from, a, kept) && nests(search, to, a, kept);
    }
    if (!meets)
        return best;
    uint32_t reduced = from->partial & ~to->partial;
    if (from->partial == to->partial) {
        if (is_extension)
            best = fmin(best, 0); /* all-slice */
        if (is_prefix)
            best = fmin(best, collective(search, SP_ALL_GATHER, moved, search->tile_bytes[t]));
        if (from->split == to->split && moves_in_pairs(search, from, to, kepts)) {
            double size = 1;
            for (uint32_t d = 0; d < search->digit_count; d++)
                size *= moved >> d & 1 ? (double)search->digits[d].size : 1;
            best = fmin(best, collective(search, SP_ALL_TO_ALL, moved,
                                         size * fmax(search->tile_bytes[s], search->tile_bytes[t])));
        }
    } else if (from->split == to->split && moved == 0 && (to->partial & ~from->partial) == to->partial - from->partial)
        best = fmin(best, 0); /* to-partial */
    else if (from->split == to->split && moved == 0 && (to->partial & ~from->partial) == 0)
        best = fmin(best, collective(search, SP_ALL_REDUCE, reduced, search->tile_bytes[s]));
    else if (is_extension && moved == reduced && (to->partial & ~from->partial) == 0)
        best = fmin(best, collective(search, SP_REDUCE_SCATTER, reduced, search->tile_bytes[s]));
    return best;
}

/* A quick look, so that most pairs cost nothing: can there be a step at all? */
static bool may_step(const struct search *search, uint32_t s, uint32_t t)
{
    const struct state *from = &search->states[s], *to = &search->states[t];
    if (search->shape_key[s] == search->shape_key[t])
        return true;
    if (from->partial == to->partial)
        return (from->split & to->split) == from->split || (from->split & to->split) == to->split;
    return (from->split & to->split) == from->split;
}

static double dijkstra(struct search *search, uint32_t from, uint32_t to)
{
    for (uint32_t s = 0; s < search->state_count; s++) {
        search->seconds[s] = s == from ? 0 : INFINITY;
        search->is_settled[s] = false;
    }
    for (;;) {
        uint32_t s = search->state_count;
        for (uint32_t i = 0; i < search->state_count; i++)
            if (!search->is_settled[i] && isfinite(search->seconds[i]) &&
                (s == search->state_count || search->seconds[i] < search->seconds[s]))
                s = i;
        if (s == search->state_count || s == to)
            return search->seconds[to];
        search->is_settled[s] = true;
        for (uint32_t t = 0; t < search->state_count; t++) {
            if (search->is_settled[t] || !may_step(search, s, t))
                continue;
            double seconds = search->seconds[s] + seconds_of_step(search, s, t);
            if (seconds < search->seconds[t])
                search->seconds[t] = seconds;
        }
    }
}

/* ---- shardings to states ---- */

/* The digits of a list of refs, in order; false when a ref's ends fall inside a digit. */
static bool digits_of(const struct search *search, const struct sp_axis_list *list, uint8_t *ret_count, uint8_t *digits)
{
    uint8_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        struct sp_axis_ref ref = list->refs[i];
        int64_t at = ref.pre;
        for (uint32_t d = 0; d < search->digit_count; d++)
            if (search->digits[d].axis == ref.axis && search->digits[d].pre == at && at < ref.pre * ref.size) {
                digits[count++] = (uint8_t)d;
                at *= search->digits[d].size;
            }
        if (at != ref.pre * ref.size)
            return false;
    }
    *ret_count = count;
    return true;
}

static bool find_state(const struct search *search, const struct sp_sharding *sharding, uint32_t *ret_state)
{
    struct state state = {0};
    uint8_t digits[ORACLE_MAX_DIGITS], count;
    for (uint32_t a = 0; a < search->rank; a++)
        if (!digits_of(search, &sharding->dims[a].axes, &state.count[a], state.list[a]))
            return false;
    if (!digits_of(search, &sharding->partial, &count, digits))
        return false;
    for (uint32_t i = 0; i < count; i++)
        state.partial |= (uint8_t)(1u << digits[i]);
    uint64_t code = code_of(search, &state);
    for (uint32_t s = 0; s < search->state_count; s++)
        if (code_of(search, &search->states[s]) == code) {
            *ret_state = s;
            return true;
        }
    return false;
}

/* ---- cuts ---- */

/* The prime factors of a number in the `choice`th order; false when there are fewer orders. */
static bool factors_in_order(int64_t size, uint32_t choice, uint32_t *ret_count, int64_t *ret_factors)
{
    int64_t factors[8];
    uint32_t count = 0;
    for (int64_t prime = 2; size > 1;)
        if (size % prime == 0 && count < 8) {
            factors[count++] = prime;
            size /= prime;
        } else
            prime++;
    /* The next permutation of a multiset, `choice` times. */
    for (; choice > 0; choice--) {
        uint32_t i = count;
        while (i > 1 && factors[i - 2] >= factors[i - 1])
            i--;
        if (i <= 1)
            return false;
        uint32_t j = count - 1;
        while (factors[j] <= factors[i - 2])
            j--;
        int64_t factor = factors[j];
        factors[j] = factors[i - 2];
        factors[i - 2] = factor;
        for (uint32_t low = i - 1, high = count - 1; low < high; low++, high--) {
            factor = factors[low];
            factors[low] = factors[high];
            factors[high] = factor;
        }
    }
    *ret_count = count;
    memcpy(ret_factors, factors, count * sizeof(*factors));
    return true;
}

/* The `cut`th way to cut all axes of the mesh in prime parts: 1 done, 0 there is no such way, -1 too many parts. */
static int cut_mesh(struct search *search, const uint32_t *choices)
{
    int64_t stride = 1;
    search->digit_count = 0;
    for (uint32_t i = 0; i < search->mesh->axis_count; i++) {
        int64_t factors[8], pre = 1;
        uint32_t count;
        if (!factors_in_order(search->mesh->axes[i].size, choices[i], &count, factors))
            return 0;
        if (search->digit_count + count > ORACLE_MAX_DIGITS)
            return -1;
        for (uint32_t f = 0; f < count; f++) {
            search->digits[search->digit_count++] = (struct digit){.axis = i, .pre = pre, .size = factors[f]};
            pre *= factors[f];
        }
    }
    for (uint32_t d = search->digit_count; d-- > 0;) {
        search->digits[d].stride = stride;
        stride *= search->digits[d].size;
    }
    return 1;
}

static bool next_choice(struct search *search, uint32_t *choices)
{
    for (uint32_t i = 0; i < search->mesh->axis_count; i++) {
        choices[i]++;
        if (cut_mesh(search, choices) == 1)
            return true;
        choices[i] = 0;
    }
    return false;
}

struct oracle_answer oracle_seconds(const struct sp_links *links, uint32_t rank, const int64_t *shape,
                                    double element_bytes, const struct sp_sharding *from, const struct sp_sharding *to)
{
    struct search *search = &the_search;
    struct oracle_answer answer = {.seconds = INFINITY};
    uint32_t choices[SP_MAX_SHARDING_AXES] = {0};
    bool partial = from->partial.count > 0 || to->partial.count > 0;
    *search = (struct search){.links = links,
                              .mesh = from->mesh,
                              .rank = rank,
                              .shape = shape,
                              .element_bytes = element_bytes,
                              .devices = (uint32_t)from->mesh->order.count};
    if (from->mesh->order.count > ORACLE_MAX_DEVICES || rank > ORACLE_MAX_RANK || cut_mesh(search, choices) != 1 ||
        (from->partial.count > 0 && to->partial.count > 0 && from->combiner != to->combiner))
        return answer;
    answer.is_known = true;
    do {
        uint32_t source, target;
        add_states(search, partial);
        for (uint32_t set = 1; set < 1u << search->digit_count; set++)
            measure_spans(search, set);
        if (!find_state(search, from, &source) || !find_state(search, to, &target))
            continue;
        answer.states += search->state_count;
        answer.seconds = fmin(answer.seconds, dijkstra(search, source, target));
    } while (next_choice(search, choices));
    return answer;
}
