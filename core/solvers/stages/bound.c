#include <math.h>
#include <string.h>

#include "solvers/stages/chain.h"

/*
 * Bounds that need no search: units are taken as divisible. Then the smallest largest load is that of a linear program,
 * and any prices of the classes' time are a solution of its dual: sum over units of the least priced time. So each
 * choice of prices is a bound, and the search for good ones may end anywhere.
 */

/* What a unit needs of each class, in the units of what is bounded; INFINITY: it cannot be there. */
struct needs {
    const struct sp_stages_problem *problem;
    uint32_t units;
    double *need;                       /* [unit][class] */
    double share[SP_MAX_STAGE_CLASSES]; /* of all devices' prices that a class's devices have; 1 in all */
};

static double unit_need(const struct needs *needs, uint32_t unit, const double *share)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < needs->problem->class_count; i++) {
        double need = needs->need[(size_t)unit * needs->problem->class_count + i];
        if (need == 0)
            return 0; /* what takes nothing of a class needs no device of it either */
        if (needs->problem->class_size[i] == 0 || need == INFINITY)
            continue;
        double priced = need * share[i] / needs->problem->class_size[i];
        least = priced < least ? priced : least;
    }
    return least;
}

static double sum_of(const struct needs *needs, const double *share)
{
    double sum = 0;
    for (uint32_t unit = 0; unit < needs->units; unit++)
        sum += unit_need(needs, unit, share);
    return sum;
}

/* How much of each class the units take that are cheapest there, by device: where that is most, time is too cheap. */
static void loads_of(const struct needs *needs, const double *share, double *load)
{
    uint32_t classes = needs->problem->class_count;
    memset(load, 0, classes * sizeof *load);
    for (uint32_t unit = 0; unit < needs->units; unit++) {
        uint32_t cheapest = 0;
        double least = INFINITY;
        for (uint32_t i = 0; i < classes; i++) {
            double need = needs->need[(size_t)unit * classes + i];
            if (needs->problem->class_size[i] > 0 && need * share[i] / needs->problem->class_size[i] < least) {
                least = need * share[i] / needs->problem->class_size[i];
                cheapest = i;
            }
        }
        if (least < INFINITY)
            load[cheapest] += needs->need[(size_t)unit * classes + cheapest] / needs->problem->class_size[cheapest];
    }
}

/* Two classes: the sum is concave in the share of one of them. */
static void share_two(struct needs *needs, uint32_t a, uint32_t b)
{
    const double ratio = 0.6180339887498949;
    double low = 0, high = 1, share[SP_MAX_STAGE_CLASSES] = {0};
    double left = high - ratio, right = ratio, at_left, at_right;
    share[a] = left, share[b] = 1 - left, at_left = sum_of(needs, share);
    share[a] = right, share[b] = 1 - right, at_right = sum_of(needs, share);
    for (uint32_t round = 0; round < 60; round++) {
        bool goes_left = at_left > at_right;
        if (goes_left) {
            high = right, right = left, at_right = at_left;
            left = high - ratio * (high - low);
        } else {
            low = left, left = right, at_left = at_right;
            right = low + ratio * (high - low);
        }
        share[a] = goes_left ? left : right;
        share[b] = 1 - share[a];
        *(goes_left ? &at_left : &at_right) = sum_of(needs, share);
    }
    needs->share[a] = (low + high) / 2;
    needs->share[b] = 1 - needs->share[a];
}

/* Several: shares grow where the load is large (multiplicative weights); the best seen is kept. */
static void share_several(struct needs *needs)
{
    uint32_t classes = needs->problem->class_count;
    double share[SP_MAX_STAGE_CLASSES], load[SP_MAX_STAGE_CLASSES] = {0}, best = sum_of(needs, needs->share);
    memcpy(share, needs->share, sizeof share);
    for (uint32_t round = 0; round < 300; round++) {
        double largest = 0, total = 0, rate = 4 / (4 + (double)round);
        loads_of(needs, share, load);
        for (uint32_t i = 0; i < classes; i++)
            largest = fmax(largest, load[i]);
        if (largest == 0)
            return;
        for (uint32_t i = 0; i < classes; i++)
            total += share[i] *= exp(rate * load[i] / largest);
        for (uint32_t i = 0; i < classes; i++)
            share[i] /= total;
        double sum = sum_of(needs, share);
        if (sum > best) {
            best = sum;
            memcpy(needs->share, share, sizeof share);
        }
    }
}

static void find_shares(struct needs *needs)
{
    uint32_t used[SP_MAX_STAGE_CLASSES], count = 0;
    double devices = 0;
    for (uint32_t i = 0; i < needs->problem->class_count; i++) {
        devices += needs->problem->class_size[i];
        if (needs->problem->class_size[i] > 0)
            used[count++] = i;
    }
    for (uint32_t i = 0; i < needs->problem->class_count; i++)
        needs->share[i] = devices > 0 ? needs->problem->class_size[i] / devices : 0;
    if (count == 2)
        share_two(needs, used[0], used[1]);
    else if (count > 2)
        share_several(needs);
}

/* Prices of one device's time, and each unit's least priced need; returns the sum. */
static double price_units(struct needs *needs, double *price, double *least)
{
    double sum = 0;
    find_shares(needs);
    for (uint32_t i = 0; i < needs->problem->class_count; i++)
        price[i] = needs->problem->class_size[i] > 0 ? needs->share[i] / needs->problem->class_size[i] : 0;
    for (uint32_t unit = 0; unit < needs->units; unit++)
        sum += least[unit] = unit_need(needs, unit, needs->share);
    return sum;
}

static uint64_t replicas_of(const struct sp_stages_problem *problem, const struct sp_stages_option *option)
{
    return sp_stages_room(option, problem->class_size[option->device_class]);
}

/* Whether a unit may run under an option at all: there are devices, it is allowed, and its own bytes fit. */
static bool may_run(const struct sp_stages_prepared *prepared, uint32_t unit, uint32_t option)
{
    const struct sp_stages_option *by = &prepared->problem->options[option];
    double bytes = prepared->weight_bytes[option][unit] + prepared->held_bytes[option][unit];
    return replicas_of(prepared->problem, by) > 0 && prepared->seconds[option][unit] < INFINITY &&
           bytes <= by->memory_bytes * (1 + SP_STAGES_SLACK);
}

/* Seconds and shares of memory that a unit takes of a class's devices; the least load it gives its stage. */
static void fill_needs(const struct sp_stages_prepared *prepared, struct needs *time, struct needs *memory,
                       double *largest)
{
    const struct sp_stages_problem *problem = prepared->problem;
    uint32_t classes = problem->class_count;
    *largest = 0;
    for (size_t i = 0; i < (size_t)classes * prepared->unit_count; i++)
        time->need[i] = memory->need[i] = INFINITY;
    for (uint32_t unit = 0; unit < prepared->unit_count; unit++) {
        double load = INFINITY;
        for (uint32_t i = 0; i < problem->option_count; i++) {
            const struct sp_stages_option *option = &problem->options[i];
            if (!may_run(prepared, unit, i))
                continue;
            size_t at = (size_t)unit * classes + option->device_class;
            double seconds = prepared->seconds[i][unit];
            double bytes = prepared->weight_bytes[i][unit];
            double part = bytes == 0 ? 0 : bytes / option->memory_bytes;
            time->need[at] = fmin(time->need[at], seconds * option->devices);
            memory->need[at] = fmin(memory->need[at], part * option->devices);
            load = fmin(load, seconds / (double)replicas_of(problem, option));
        }
        *largest = fmax(*largest, load);
    }
}

/* Seconds of each unit, at least; where devices are counted, how many of them its memory needs. */
static void fill_least(const struct sp_stages_prepared *prepared, struct sp_stages_rates *rates)
{
    const struct sp_stages_problem *problem = prepared->problem;
    for (uint32_t unit = 0; unit < prepared->unit_count; unit++) {
        double least = INFINITY;
        for (uint32_t i = 0; i < problem->option_count; i++) {
            const struct sp_stages_option *option = &problem->options[i];
            double bytes = prepared->weight_bytes[i][unit];
            double part = bytes == 0 ? 0 : bytes / (option->memory_bytes * (1 + SP_STAGES_SLACK));
            if (may_run(prepared, unit, i))
                least = fmin(least, problem->objective == SP_STAGES_LATENCY ? prepared->seconds[i][unit]
                                                                            : part * option->devices);
        }
        rates->least[unit] = least;
        rates->least_sum += least;
    }
}

/* All devices of a class hold their own memory, and in the time of a load as much more as is copied meanwhile: a stage of r
   replicas has r times its load to copy, and r times the devices. What units need in the end has to find room there. */
static double copies_bound(const struct sp_stages_prepared *prepared)
{
    const struct sp_stages_problem *problem = prepared->problem;
    double own[SP_MAX_STAGE_CLASSES] = {0}, rate[SP_MAX_STAGE_CLASSES] = {0}, lacking = 0, all = 0;
    for (uint32_t i = 0; i < problem->option_count; i++) {
        const struct sp_stages_option *option = &problem->options[i];
        const bool copies = option->copy_per_byte > 0;
        const uint32_t class = option->device_class;
        own[class] = fmax(own[class], copies ? option->own_bytes : option->memory_bytes);
        rate[class] = copies ? fmax(rate[class], 1 / option->copy_per_byte) : rate[class];
    }
    for (uint32_t c = 0; c < problem->class_count; c++) {
        lacking -= problem->class_size[c] > 0 ? problem->class_size[c] * own[c] : 0;
        all += problem->class_size[c] * rate[c];
    }
    for (uint32_t unit = 0; all > 0 && unit < prepared->unit_count; unit++) {
        double least = INFINITY;
        for (uint32_t i = 0; i < problem->option_count; i++)
            if (may_run(prepared, unit, i))
                least = fmin(least, prepared->weight_bytes[i][unit] * problem->options[i].devices);
        lacking += least;
    }
    return all > 0 && lacking > 0 && lacking < INFINITY ? lacking / all * (1 - 1e-12) : 0;
}

enum sp_status sp_stages_rates_make(struct sp_arena *arena, const struct sp_stages_prepared *prepared,
                                    struct sp_stages_rates *rates, struct sp_error *err)
{
    const struct sp_stages_problem *problem = prepared->problem;
    struct needs time = {.problem = problem, .units = prepared->unit_count}, memory = time;
    size_t cells = (size_t)prepared->unit_count * problem->class_count;
    *rates = (struct sp_stages_rates){0};
    time.need = SP_NEW_ARRAY(arena, cells, double);
    memory.need = SP_NEW_ARRAY(arena, cells, double);
    rates->time = SP_NEW_ARRAY(arena, prepared->unit_count, double);
    rates->memory = SP_NEW_ARRAY(arena, prepared->unit_count, double);
    rates->least = SP_NEW_ARRAY(arena, prepared->unit_count, double);
    if (time.need == NULL || memory.need == NULL || rates->time == NULL || rates->memory == NULL ||
        rates->least == NULL)
        return sp_fail_memory(err);
    fill_needs(prepared, &time, &memory, &rates->largest);
    rates->copies = copies_bound(prepared);
    rates->time_sum = price_units(&time, rates->time_price, rates->time);
    rates->memory_sum = price_units(&memory, rates->memory_price, rates->memory);
    if (problem->objective != SP_STAGES_THROUGHPUT)
        fill_least(prepared, rates);
    return SP_OK;
}

double sp_stages_rates_bound(const struct sp_stages_problem *problem, const struct sp_stages_rates *rates)
{
    double load = fmax(fmax(rates->time_sum * (1 - 1e-12), rates->largest), rates->copies);
    if (load == INFINITY || rates->memory_sum * (1 - 1e-12) > 1 + SP_STAGES_SLACK)
        return INFINITY;
    switch (problem->objective) {
    case SP_STAGES_THROUGHPUT:
        return load;
    case SP_STAGES_LATENCY:
        return 0;
    case SP_STAGES_DEVICES:
        break;
    }
    return fmax(1, ceil(rates->least_sum - 1e-6));
}

double sp_stages_bound(struct sp_stages_run *run, const struct sp_stages_prepared *prepared)
{
    struct sp_stages_rates rates;
    if (prepared->unit_count == 0)
        return 0;
    if (sp_stages_rates_make(run->scratch, prepared, &rates, NULL) != SP_OK)
        return 0; /* without memory for a bound there is a weak one */
    return sp_stages_rates_bound(prepared->problem, &rates);
}
