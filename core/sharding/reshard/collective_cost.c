#include "sharding/reshard/collective_cost.h"

#include <math.h>

const char *sp_collective_name(enum sp_collective kind)
{
    static const char *const names[SP_COLLECTIVE_COUNT] = {
        [SP_ALL_SLICE] = "all-slice",       [SP_ALL_GATHER] = "all-gather",
        [SP_ALL_TO_ALL] = "all-to-all",     [SP_COLLECTIVE_PERMUTE] = "collective-permute",
        [SP_ALL_REDUCE] = "all-reduce",     [SP_REDUCE_SCATTER] = "reduce-scatter",
        [SP_SEND_RECEIVE] = "send-receive", [SP_TO_PARTIAL] = "to-partial",
    };

    return (unsigned)kind < SP_COLLECTIVE_COUNT ? names[kind] : "unknown";
}

/* ceil(log2 devices) without rounding errors. */
static double rounds(double devices)
{
    double count = 0;

    for (double reached = 1; reached < devices; reached *= 2)
        count++;
    return count;
}

/*
 * An all-gather level by level, outermost first: at level l each device gathers p_l parts, and what it has then is the
 * whole value divided by what the levels inside are still to gather. A reduce-scatter is the same backwards.
 */
static struct sp_collective_line by_levels(const struct sp_links *links, const uint32_t *span)
{
    struct sp_collective_line line = {0, 0};
    double inside = 1;

    for (uint32_t l = links->level_count; l-- > 0;) {
        const struct sp_mesh_level *level = &links->levels[l];
        double p = span[l];

        if (p < 2)
            continue;
        line.fixed += rounds(p) * level->latency;
        line.slope += (p - 1) / p / inside / level->bandwidth;
        inside *= p;
    }
    return line;
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

/* The bandwidth of groups of p devices: of the next larger size that is known, else of the largest. */
static double form_bandwidth(const struct sp_link_form *form, double p)
{
    double bandwidth = 0;

    for (uint32_t i = 0; i < SP_LINK_GROUP_SIZES; i++) {
        if (form->bandwidth[i] > 0)
            bandwidth = form->bandwidth[i];
        if (bandwidth > 0 && p <= (double)(UINT32_C(2) << i))
            break;
    }
    return bandwidth;
}

/* What messages of a level of p devices reach: no less than where more devices talk at once. */
static double message_bandwidth(const struct sp_link_form *form, double p)
{
    double most = form_bandwidth(form, p);

    for (double more = p * 2; more <= SP_LINK_GROUP_MOST; more *= 2)
        most = fmax(most, form_bandwidth(form, more));
    return most;
}

/* The one level that a group spans; links->level_count where it spans several, or none. */
static uint32_t only_level(const struct sp_links *links, const uint32_t *span)
{
    uint32_t only = links->level_count;

    for (uint32_t l = 0; l < links->level_count; l++) {
        if (span[l] > 1 && only < links->level_count)
            return links->level_count;
        if (span[l] > 1)
            only = l;
    }
    return only;
}

/* What the host adds to a collective of a group: where it goes over several levels, once. */
static double host_seconds(const struct sp_links *links, const uint32_t *span)
{
    double host = 0;

    for (uint32_t l = 0; l < links->level_count; l++)
        host = span[l] > 1 ? fmax(host, links->levels[l].host_seconds) : host;
    return host;
}

/* An all-to-all within a level whose forms have it, and never faster than an all-gather's bound has it. */
static void take_exchange(const struct sp_mesh_level *level, double p, struct sp_collective_line *line)
{
    for (uint32_t i = 0; level->forms != NULL && i < level->forms->count; i++) {
        const struct sp_link_form *form = &level->forms->items[i];
        const double bandwidth = form_bandwidth(form, p);
        if (form->kind != SP_ALL_TO_ALL || bandwidth <= 0)
            continue;
        line->fixed = fmax(form->start_seconds + form->rank_seconds * (p - 1), rounds(p) * level->latency);
        line->slope = (p - 1) / p / p / fmin(bandwidth, level->bandwidth);
        return;
    }
}

/* The algorithms, without what the host adds. */
static uint32_t lines_of(const struct sp_links *links, enum sp_collective kind, const uint32_t *span,
                         struct sp_collective_line ret_lines[SP_COLLECTIVE_LINES])
{
    double p = 1, latency = 0, bandwidth = INFINITY;
    double twice = kind == SP_ALL_REDUCE ? 2 : 1;
    uint32_t count = 0;

    for (uint32_t l = 0; l < links->level_count; l++) {
        if (span[l] < 2)
            continue;
        p *= span[l];
        latency = fmax(latency, links->levels[l].latency);
        bandwidth = fmin(bandwidth, links->levels[l].bandwidth);
    }
    if (p < 2)
        return 0;
    switch (kind) {
    case SP_ALL_TO_ALL:
        ret_lines[count++] = (struct sp_collective_line){(p - 1) * latency, (p - 1) / p / p / bandwidth};
        if (only_level(links, span) < links->level_count)
            take_exchange(&links->levels[only_level(links, span)], p, &ret_lines[0]);
        break;
    case SP_ALL_GATHER:
    case SP_REDUCE_SCATTER:
    case SP_ALL_REDUCE:
        ret_lines[0] = (struct sp_collective_line){(p - 1) * latency, (p - 1) / p / bandwidth};
        ret_lines[1] = (struct sp_collective_line){rounds(p) * latency, (p - 1) / p / bandwidth};
        ret_lines[2] = by_levels(links, span);
        count = 3;
        for (uint32_t i = 0; i < count; i++) {
            ret_lines[i].fixed *= twice;
            ret_lines[i].slope *= twice;
        }
        break;
    case SP_ALL_SLICE:
    case SP_COLLECTIVE_PERMUTE:
    case SP_SEND_RECEIVE:
    case SP_TO_PARTIAL:
    case SP_COLLECTIVE_COUNT:
        break;
    }
    return count;
}

uint32_t sp_collective_lines(const struct sp_links *links, enum sp_collective kind, const uint32_t *span,
                             struct sp_collective_line ret_lines[SP_COLLECTIVE_LINES])
{
    const uint32_t count = lines_of(links, kind, span, ret_lines);

    for (uint32_t i = 0; i < count; i++)
        ret_lines[i].fixed += host_seconds(links, span);
    return count;
}

/* The fastest of the forms of a collective, and its seconds; NULL and INFINITY where there are none. All groups of a
   level talk at once: together they get no more out of it than the whole level does (over PCIe eight devices get a tenth
   of what two get). */
static const struct sp_link_form *fastest_form(const struct sp_mesh_level *level, enum sp_collective kind, double p,
                                               double bytes, double *ret_seconds)
{
    const double n = kind == SP_ALL_TO_ALL ? bytes / p : bytes;
    const struct sp_link_form *fastest = NULL;

    *ret_seconds = INFINITY;
    for (uint32_t i = 0; level->forms != NULL && i < level->forms->count; i++) {
        const struct sp_link_form *form = &level->forms->items[i];
        const double bandwidth = fmin(form_bandwidth(form, p), form_bandwidth(form, level->size));
        if (form->kind != kind || bandwidth <= 0)
            continue;
        const double crossed = (kind == SP_ALL_REDUCE ? 2 : 1) * (p - 1) / p * (n + sqrt(n * form->half_bytes));
        const double seconds = form->start_seconds + form->rank_seconds * (p - 1) + crossed / bandwidth;
        if (seconds < *ret_seconds) {
            *ret_seconds = seconds;
            fastest = form;
        }
    }
    return fastest;
}

static double by_forms(const struct sp_mesh_level *level, enum sp_collective kind, double p, double bytes)
{
    double seconds;
    (void)fastest_form(level, kind, p, bytes, &seconds);
    return seconds;
}

double sp_level_messages_seconds(const struct sp_mesh_level *level, double messages, double bytes)
{
    const double p = fmin(messages + 1, level->size);

    if (messages <= 0)
        return 0;
    const double seconds = p > 1 ? by_forms(level, SP_ALL_TO_ALL, p, bytes * p * p / (p - 1)) : INFINITY;
    return level->host_seconds +
           (isfinite(seconds) ? seconds : messages * level->latency + bytes / sp_level_send_bandwidth(level));
}

const struct sp_link_form *sp_collective_form(const struct sp_links *links, enum sp_collective kind,
                                              const uint32_t *span, double bytes)
{
    const uint32_t only = only_level(links, span);
    double seconds;
    return only < links->level_count ? fastest_form(&links->levels[only], kind, span[only], bytes, &seconds) : NULL;
}

void sp_level_take_forms(struct sp_mesh_level *level, const struct sp_link_forms *forms)
{
    const double p = level->size;

    level->forms = forms;
    level->stated_bandwidth = level->bandwidth;
    level->stated_latency = level->latency;
    for (uint32_t i = 0; i < forms->count; i++) {
        const struct sp_link_form *form = &forms->items[i];
        const double bandwidth = message_bandwidth(form, p);
        if (form->kind != SP_ALL_GATHER || bandwidth <= 0 || p < 2)
            continue;
        level->bandwidth = bandwidth;
        level->latency = (form->start_seconds + form->rank_seconds * (p - 1)) / rounds(p);
        return;
    }
}

void sp_level_resize(struct sp_mesh_level *level, uint32_t size)
{
    level->size = size;
    if (level->bandwidth_of_size != NULL && size > 1)
        level->bandwidth = level->bandwidth_of_size[size];
    if (level->forms == NULL)
        return;
    level->bandwidth = level->stated_bandwidth;
    level->latency = level->stated_latency;
    sp_level_take_forms(level, level->forms);
}

struct sp_collective_line sp_level_least(const struct sp_mesh_level *level, bool reduces)
{
    struct sp_collective_line least = {level->latency, 1 / fmax(level->bandwidth, level->send_bandwidth)};

    for (uint32_t i = 0; level->forms != NULL && i < level->forms->count; i++) {
        const struct sp_link_form *form = &level->forms->items[i];
        if (!reduces && (form->kind == SP_ALL_REDUCE || form->kind == SP_REDUCE_SCATTER))
            continue;
        for (double p = 2, round = 1; p / 2 < level->size; p *= 2, round++) {
            const double bandwidth = form_bandwidth(form, p);
            if (bandwidth <= 0)
                continue;
            least.fixed = fmin(least.fixed, (form->start_seconds + form->rank_seconds * (p / 2)) / round);
            least.slope = fmin(least.slope, 1 / bandwidth);
        }
    }
    return least;
}

bool sp_collective_is_lines(const struct sp_links *links)
{
    for (uint32_t l = 0; l < links->level_count; l++)
        if (links->levels[l].forms != NULL || links->levels[l].host_seconds > 0)
            return false;
    return true;
}

/* By the forms of the one level that a group spans, else by the algorithms. Like what follows without the host. */
static double direct_seconds(const struct sp_links *links, enum sp_collective kind, const uint32_t *span, double bytes)
{
    struct sp_collective_line lines[SP_COLLECTIVE_LINES];
    const uint32_t only = only_level(links, span);
    double least = only < links->level_count ? by_forms(&links->levels[only], kind, span[only], bytes) : INFINITY;

    if (isfinite(least))
        return least;
    const uint32_t count = lines_of(links, kind, span, lines);
    least = count > 0 ? INFINITY : 0;
    for (uint32_t i = 0; i < count; i++)
        least = fmin(least, lines[i].fixed + lines[i].slope * bytes);
    return least;
}

/* Within the innermost level that a group spans by that one's forms, and what is left with a device of each part of the
   others; INFINITY where there are no forms or no others. */
static double inside_out_seconds(const struct sp_links *links, enum sp_collective kind, const uint32_t *span,
                                 double bytes)
{
    struct sp_links outer = *links;

    while (outer.level_count > 0 && span[outer.level_count - 1] < 2)
        outer.level_count--;
    if (outer.level_count < 2 || kind == SP_ALL_TO_ALL)
        return INFINITY;
    outer.level_count--;
    const double p = span[outer.level_count];
    return by_forms(&links->levels[outer.level_count], kind, p, bytes) + direct_seconds(&outer, kind, span, bytes / p);
}

/* What as many devices take within the innermost level, where groups of so many were measured there; else 0. */
static double innermost_seconds(const struct sp_links *links, enum sp_collective kind, const uint32_t *span,
                                double bytes)
{
    struct sp_mesh_level level = links->levels[links->level_count - 1];
    double p = 1;

    for (uint32_t l = 0; l < links->level_count; l++)
        p *= span[l];
    if (level.forms == NULL || p < 2 || p > SP_LINK_GROUP_MOST)
        return 0;
    level.size = (uint32_t)fmax(level.size, p);
    const double seconds = by_forms(&level, kind, p, bytes);
    return isfinite(seconds) ? seconds : 0;
}

double sp_collective_seconds(const struct sp_links *links, enum sp_collective kind, const uint32_t *span, double bytes)
{
    const uint32_t only = only_level(links, span);
    double seconds = direct_seconds(links, kind, span, bytes);

    if (seconds <= 0)
        return seconds;
    if (only == links->level_count)
        seconds = fmin(seconds, inside_out_seconds(links, kind, span, bytes));
    if (only + 1 != links->level_count)
        seconds = fmax(seconds, innermost_seconds(links, kind, span, bytes));
    return host_seconds(links, span) + seconds;
}

double sp_collective_bytes(enum sp_collective kind, double devices, double bytes)
{
    if (devices < 2)
        return 0;
    switch (kind) {
    case SP_ALL_GATHER:
    case SP_REDUCE_SCATTER:
        return (devices - 1) / devices * bytes;
    case SP_ALL_REDUCE:
        return 2 * (devices - 1) / devices * bytes;
    case SP_ALL_TO_ALL:
        return (devices - 1) / devices / devices * bytes;
    case SP_COLLECTIVE_PERMUTE:
    case SP_SEND_RECEIVE:
        return bytes;
    case SP_ALL_SLICE:
    case SP_TO_PARTIAL:
    case SP_COLLECTIVE_COUNT:
        break;
    }
    return 0;
}

uint32_t sp_links_between(const struct sp_links *links, int64_t a, int64_t b)
{
    int64_t inside = 1;

    if (a == b)
        return links->level_count;
    a = sp_links_place(links, a);
    b = sp_links_place(links, b);
    for (uint32_t l = 0; l < links->level_count; l++) {
        if (__builtin_mul_overflow(inside, (int64_t)links->levels[l].size, &inside))
            inside = INT64_MAX;
    }
    if (a >= inside || b >= inside)
        return 0;
    for (uint32_t l = 0; l < links->level_count; l++) {
        inside /= links->levels[l].size;
        if (a / inside != b / inside)
            return l;
        a %= inside;
        b %= inside;
    }
    return links->level_count;
}
