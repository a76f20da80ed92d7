#include "plan/service/choices.h"

#include <math.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"

#define ABOVE 1e-9 /* of a weight at which two choices are equal: there the one of less seconds is taken */

bool sp_phase_choices_add(struct sp_arena *arena, struct sp_phase_choices *choices,
                          const struct sp_phase_choice *choice)
{
    if (!SP_MAKE_ROOM(arena, choices->items, choices->count, choices->capacity, 1))
        return false;
    uint32_t at = choices->count++;
    for (; at > 0; at--) {
        const struct sp_phase_choice *before = &choices->items[at - 1];
        if (before->batch < choice->batch ||
            (before->batch == choice->batch && before->micro_batches <= choice->micro_batches))
            break;
        choices->items[at] = *before;
    }
    choices->items[at] = *choice;
    return true;
}

static double busy_seconds(const struct sp_phase_choice *choice)
{
    return choice->runs * choice->figures->interval_seconds.value;
}

static double request_seconds(const struct sp_phase_choice *choice)
{
    return choice->fill_seconds + choice->figures->latency_seconds.value;
}

/* Whether `a` is above `b` in none of what counts. */
static bool is_as_good(const struct sp_phase_choice *a, const struct sp_phase_choice *b)
{
    const double of_a = busy_seconds(a), of_b = busy_seconds(b);
    return of_a <= of_b && request_seconds(a) <= request_seconds(b) &&
           of_a * a->figures->interval_seconds.value <= of_b * b->figures->interval_seconds.value;
}

static bool is_useless(const struct sp_phase_choices *choices, uint32_t index)
{
    const struct sp_phase_choice *one = &choices->items[index];
    for (uint32_t i = 0; i < choices->count; i++) {
        const struct sp_phase_choice *other = &choices->items[i];
        if (i != index && other->figures->excess_bytes <= 0 && is_as_good(other, one) &&
            (i < index || !is_as_good(one, other)))
            return true;
    }
    return false;
}

enum sp_status sp_phase_choices_useful(struct sp_arena *arena, const struct sp_phase_choices *choices,
                                       struct sp_phase_choices *ret_useful, struct sp_error *err)
{
    struct sp_phase_choices useful = {.waits = choices->waits, .capacity = choices->count};
    uint32_t least = 0;
    useful.items = SP_NEW_ARRAY(arena, choices->count, struct sp_phase_choice);
    if (useful.items == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < choices->count; i++) {
        if (choices->items[i].figures->excess_bytes < choices->items[least].figures->excess_bytes)
            least = i;
        if (choices->items[i].figures->excess_bytes <= 0 && !is_useless(choices, i))
            useful.items[useful.count++] = choices->items[i];
    }
    if (useful.count == 0)
        useful.items[useful.count++] = choices->items[least];
    *ret_useful = useful;
    return SP_OK;
}

void sp_phase_choices_pick(uint32_t count, const struct sp_phase_choices *phases, double weight,
                           const struct sp_phase_choice **picks)
{
    for (uint32_t i = 0; i < count; i++) {
        double least = INFINITY;
        for (uint32_t k = 0; k < phases[i].count; k++) {
            const struct sp_phase_choice *one = &phases[i].items[k];
            const double value = busy_seconds(one) + weight * phases[i].waits * request_seconds(one);
            if (k > 0 && value >= least)
                continue;
            least = value;
            picks[i] = one;
        }
    }
}

SP_ASCENDING_NUMBERS(by_weight, double)

enum sp_status sp_phase_choices_weights(struct sp_arena *arena, uint32_t count, const struct sp_phase_choices *phases,
                                        uint32_t *ret_count, const double **ret_weights, struct sp_error *err)
{
    size_t pairs = 0;
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        pairs += (size_t)phases[i].count * phases[i].count;
    double *weights = SP_NEW_ARRAY(arena, pairs, double);
    if (weights == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t pair = 0; pair < phases[i].count * phases[i].count; pair++) {
            const struct sp_phase_choice *a = &phases[i].items[pair / phases[i].count],
                                         *b = &phases[i].items[pair % phases[i].count];
            const double longer = phases[i].waits * (request_seconds(a) - request_seconds(b)),
                         busier = busy_seconds(b) - busy_seconds(a);
            if (longer > 0 && busier >= 0)
                weights[found++] = fmax(busier / longer, ABOVE) * (1 + ABOVE);
        }
    }
    qsort(weights, found, sizeof *weights, by_weight);
    *ret_count = found;
    *ret_weights = weights;
    return SP_OK;
}
