#include "search/joint/minimum_memory.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "search/joint/blocking_constraint.h"
#include "search/joint/bounds.h"

#define GALLOP   4  /* how many times further each step goes down while plans are found */
#define PATIENCE 10 /* with so few searches all go to halving */

struct bisection {
    struct sp_arena *arena;
    const struct sp_workload *workload;
    const struct sp_dataflow *dataflow;
    const struct sp_cluster *cluster;
    struct sp_joint_options options;
    uint32_t searches, most_searches;
    bool stopped;
    double needed;           /* of each device, by the plan that was found last */
    double found, failed;    /* 0: with none, yet */
    struct sp_error closest; /* describes the plan that was found last; or has status SP_OK */
    struct sp_error *err;
};

/* ---- the watch ---------------------------------------------------------------------------------------------------*/

struct watcher {
    const struct sp_watch *outer;
};

/* All these searches are the end of one: its fraction does not begin anew. */
static bool tick(void *context, const char *phase, double fraction, double best_seconds, double bound_seconds)
{
    const struct watcher *watcher = context;
    (void)fraction;
    (void)best_seconds;
    (void)bound_seconds;
    return sp_watch_tick(watcher->outer, phase, 1, 0, 0);
}

/* ---- one search ------------------------------------------------------------------------------------------------- */

static double own_memory(const struct sp_cluster *cluster, const struct sp_device_group_spec *group)
{
    const double limit = cluster->memory_limit_bytes, usable = sp_device_usable_bytes(&group->device);
    return fmax((limit > 0 && limit < usable ? limit : usable) - group->reserved_bytes, 0);
}

/* The cluster whose devices have at least `bytes`; NULL without memory. */
static struct sp_cluster *raise(struct sp_arena *arena, const struct sp_cluster *cluster, double bytes)
{
    struct sp_cluster *raised = SP_NEW(arena, struct sp_cluster);
    struct sp_device_group_spec *groups = SP_NEW_ARRAY(arena, cluster->group_count, struct sp_device_group_spec);
    if (raised == NULL || groups == NULL)
        return NULL;
    for (uint32_t g = 0; g < cluster->group_count; g++) {
        groups[g] = cluster->groups[g];
        groups[g].reserved_bytes = 0; /* counted in what is its own */
        struct sp_device *device = &groups[g].device;
        device->memory_bytes = fmax(own_memory(cluster, &cluster->groups[g]), bytes);
        device->memory_reported_bytes = device->memory_bytes + sp_device_context_bytes(device);
    }
    *raised = *cluster;
    raised->groups = groups;
    raised->memory_limit_bytes = 0;
    return raised;
}

static double needed_memory(const struct bisection *b, const struct sp_search_result *result)
{
    double bytes = 0;
    for (uint32_t s = 0; s < result->evaluation->stage_count; s++)
        bytes = fmax(bytes, result->evaluation->stages[s].total_bytes);
    return ceil(bytes + b->cluster->reserved_bytes);
}

/* Searches with so many bytes, and takes what comes of it. */
static void try_bytes(struct bisection *b, double bytes)
{
    struct sp_arena_mark mark = sp_arena_mark(b->arena);
    struct sp_search_result *result = NULL;
    struct sp_error why = {0};
    const struct sp_cluster *raised = raise(b->arena, b->cluster, bytes);
    enum sp_status status = SP_ERR_MEMORY;
    if (raised != NULL)
        status = sp_joint_search_once(b->arena, b->workload, b->dataflow, raised, &b->options, &result, &why);
    b->searches++;
    if (status == SP_OK && !result->stopped) {
        b->found = bytes;
        b->needed = needed_memory(b, result);
        const struct sp_evaluated_plan plan = {&result->placement, result->sharded, result->evaluation};
        sp_error_clear(&b->closest);
        if (sp_joint_describe_lack(b->arena, b->workload, b->cluster, &plan, &b->closest) != SP_OK)
            sp_error_clear(&b->closest); /* what was known before is said then */
    } else if (status == SP_ERR_NOFIT || status == SP_ERR_REQUEST) {
        b->failed = bytes; /* the latter: constraints leave nothing */
    } else {
        b->stopped = true; /* by the watch, or for want of memory: that nothing fits is known anyway */
    }
    sp_search_result_release(result);
    sp_arena_rewind(b->arena, mark);
}

/* ---- bisection -------------------------------------------------------------------------------------------------- */

static bool goes_on(const struct bisection *b)
{
    return !b->stopped && b->searches < b->most_searches;
}

static double step_of(double bytes)
{
    return fmax(1, floor(SP_LEAST_SHARE * bytes));
}

/* All of the model on one device, with its buffers: more can never be needed. */
static double everything(const struct bisection *b)
{
    double bytes = b->workload->weight_bytes + b->cluster->reserved_bytes;
    for (uint32_t t = 0; t < b->workload->tensor_count; t++)
        bytes += 4 * b->workload->tensors[t].bytes;
    for (uint32_t n = 0; n < b->workload->node_count; n++)
        bytes += b->workload->nodes[n].workspace_bytes;
    return ceil(2 * bytes + 1);
}

static double least_owned(const struct sp_cluster *cluster)
{
    double least = INFINITY;
    for (uint32_t g = 0; g < cluster->group_count; g++)
        least = fmin(least, own_memory(cluster, &cluster->groups[g]));
    return floor(least);
}

/* The first number with which there is a plan: the guess, else so much that nothing lacks. */
static void find_enough(struct bisection *b, double guess)
{
    b->failed = least_owned(b->cluster);
    if (guess > b->failed)
        try_bytes(b, guess);
    if (b->found == 0 && goes_on(b))
        try_bytes(b, fmax(everything(b), 2 * fmax(b->failed, guess)));
}

/* The middle of a wide gap is that of magnitudes. */
static double middle(double failed, double found)
{
    return found > 2 * failed && failed > 0 ? floor(sqrt(failed * found)) : floor((failed + found) / 2);
}

/*
 * A plan that was found often needs less than it was given, and seldom much more than what is needed at all. So what
 * is tried first is just below what the last plan needs, then ever further below it. Once that fails, the middle; and
 * what the plan needs itself, which nobody has tried yet.
 */
static void close_in(struct bisection *b)
{
    bool gallops = b->most_searches > PATIENCE;
    double reach = step_of(b->found);
    while (goes_on(b) && b->found - b->failed > step_of(b->found)) {
        const double found = b->found;
        const double top = b->needed < found && b->needed > b->failed ? b->needed : found;
        double bytes = middle(b->failed, top);
        if (gallops && top - reach > b->failed)
            bytes = top - reach;
        else if (top < found && top - b->failed <= step_of(top))
            bytes = top;
        try_bytes(b, bytes);
        gallops = gallops && b->found < found;
        reach *= GALLOP;
    }
}

/* ---- the sentence ----------------------------------------------------------------------------------------------- */

static void describe(const struct bisection *b, struct sp_buf *buf)
{
    if (b->found == 0) {
        sp_buf_text(buf, b->stopped ? " How much memory would do was not found in time."
                                    : " No memory would do: with enough for the whole model on each device nothing was "
                                      "found either.");
        return;
    }
    sp_buf_text(buf, " With ");
    sp_text_bytes(buf, b->found);
    sp_buf_printf(buf, " (%.0f bytes) on each device it would fit; with ", b->found);
    sp_text_bytes(buf, b->failed);
    sp_buf_printf(buf, " (%.0f bytes) it does not", b->failed);
    sp_buf_text(buf, b->found - b->failed > step_of(b->found) ? ", and what lies between was not tried." : ".");
}

/* Adds the sentence to the message, whole or not at all. */
static void add_sentence(const struct bisection *b)
{
    char *message = b->err->message;
    const size_t used = strlen(message);
    struct sp_buf buf;
    sp_buf_init(&buf, SP_ERROR_MESSAGE_SIZE);
    describe(b, &buf);
    if (!sp_buf_failed(&buf) && used + buf.size < sizeof b->err->message)
        memcpy(message + used, buf.data, buf.size + 1);
    sp_buf_release(&buf);
}

/* Descriptions of devices may have more than any integer. */
static int64_t whole_bytes(double bytes)
{
    return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

static uint32_t searches_for(const struct sp_workload *workload, const struct sp_cluster *cluster)
{
    uint32_t sizes = 1;
    while (1u << sizes <= cluster->device_count)
        sizes++;
    const uint64_t searches = SP_LEAST_WORK / ((uint64_t)sizes * (workload->node_count + 1));
    return searches < SP_LEAST_FEWEST     ? SP_LEAST_FEWEST
           : searches > SP_LEAST_SEARCHES ? SP_LEAST_SEARCHES
                                          : (uint32_t)searches;
}

void sp_joint_minimum_memory(struct sp_arena *arena, const struct sp_workload *workload,
                             const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                             const struct sp_joint_options *options, struct sp_error *err)
{
    struct watcher watcher = {options->watch};
    const struct sp_watch watch = {.tick = tick, .context = &watcher, .stop = sp_watch_stop(options->watch)};
    struct bisection b = {.arena = arena,
                          .workload = workload,
                          .dataflow = dataflow,
                          .cluster = cluster,
                          .options = *options,
                          .most_searches = searches_for(workload, cluster),
                          .err = err};
    const double guess = ceil((double)err->least_memory_bytes + cluster->reserved_bytes);
    b.options.any_plan = true;
    /* Whether whole operators fit does not depend on the objective, and the search for a latency takes longest. */
    if (options->objective == SP_OBJECTIVE_LATENCY &&
        (options->strategy == SP_STRATEGY_GROUPING || options->strategy == SP_STRATEGY_PIPELINE))
        b.options.objective = SP_OBJECTIVE_THROUGHPUT;
    b.options.watch = &watch;
    find_enough(&b, err->least_memory_bytes > 0 ? guess : 0);
    if (b.found > 0)
        close_in(&b);
    err->least_memory_bytes = b.found > 0 ? whole_bytes(b.found) : 0;
    err->too_little_memory_bytes = b.found > 0 ? whole_bytes(b.failed) : 0;
    /* What the search of whole operators says of devices is kept where it is all that was asked for. */
    if (b.closest.status == SP_ERR_NOFIT && dataflow != NULL && options->strategy != SP_STRATEGY_GROUPING &&
        strcmp(err->code, b.closest.code) == 0)
        memcpy(err->message, b.closest.message, sizeof err->message);
    add_sentence(&b);
}
