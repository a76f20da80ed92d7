/* One thing of the cluster changed at a time, and what that would bring. */
#include <string.h>

#include "base/buf.h"
#include "cost/cluster/change.h"
#include "plan/service/service.h"
#include "plan/variants/internal.h"

#define TWICE 2.0
#define HALF  0.5

/* What a change does to a plan for the given cluster. */
enum change_kind {
    CHANGE_BETTER,      /* it runs there, and takes no longer */
    CHANGE_LESS_MEMORY, /* it takes as long, if it still fits */
    CHANGE_FEWER        /* it runs there if it does not use the device that is gone */
};

struct change {
    enum change_kind kind;
    const char *text;
    const struct sp_cluster *cluster;
    uint32_t gone;     /* of CHANGE_FEWER */
    bool helps_to_fit; /* worth a look where nothing fits */
};

#define MAX_CHANGES (2 * SP_MAX_WHAT_IF_KINDS + SP_MAX_MESH_AXES + 4)

/* The changes of one cluster; in an arena of their own. */
struct changes {
    struct sp_arena *arena;
    const struct sp_cluster *given;
    uint32_t count;
    struct change items[MAX_CHANGES];
};

/* ---- the list --------------------------------------------------------------------------------------------------- */

static bool add(struct changes *changes, enum change_kind kind, const char *text, const struct sp_cluster *cluster)
{
    if (text == NULL || cluster == NULL)
        return false;
    changes->items[changes->count++] = (struct change){.kind = kind, .text = text, .cluster = cluster};
    return true;
}

static bool is_same_device(const struct sp_device *a, const struct sp_device *b)
{
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        if (a->flops[dtype] != b->flops[dtype])
            return false;
    }
    return strcmp(a->name, b->name) == 0 && a->memory_bytes == b->memory_bytes &&
           a->memory_bandwidth == b->memory_bandwidth && a->permuted_bandwidth == b->permuted_bandwidth &&
           a->functions_per_second == b->functions_per_second && a->unhidden == b->unhidden;
}

/* The last groups of each kind of device: one more or one fewer of any is the same. Returns how many. */
static uint32_t find_kinds(const struct sp_cluster *cluster, uint32_t *ret_groups)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < cluster->group_count; g++) {
        uint32_t k = 0;
        while (k < count && !is_same_device(&cluster->groups[ret_groups[k]].device, &cluster->groups[g].device))
            k++;
        if (k < count)
            ret_groups[k] = g;
        else if (count < SP_MAX_WHAT_IF_KINDS)
            ret_groups[count++] = g;
    }
    return count;
}

/* "l4-24gb", with the group's name where other devices are called so, too. */
static const char *kind_name(struct changes *changes, const uint32_t *groups, uint32_t count, uint32_t kind)
{
    const struct sp_device_group_spec *group = &changes->given->groups[groups[kind]];
    for (uint32_t k = 0; k < count; k++) {
        if (k != kind && strcmp(changes->given->groups[groups[k]].device.name, group->device.name) == 0)
            return sp_arena_printf(changes->arena, "%s of '%s'", group->device.name, group->name);
    }
    return group->device.name;
}

static bool add_one_more(struct changes *changes, uint32_t group, const char *name)
{
    const uint32_t level = sp_cluster_growing_level(changes->given);
    if (!sp_cluster_can_grow(changes->given, group))
        return true;
    const struct sp_cluster *more = sp_cluster_one_more(changes->arena, changes->given, group);
    /* Of several levels people have to know which one it is in. */
    const bool named = more != NULL && changes->given->level_count > 1 && level < changes->given->level_count;
    const char *text = named ? sp_arena_printf(changes->arena, "one more %s ('%s' grows to %u)", name,
                                               changes->given->levels[level].name, more->levels[level].size)
                             : sp_arena_printf(changes->arena, "one more %s", name);
    if (!add(changes, CHANGE_BETTER, text, more))
        return false;
    changes->items[changes->count - 1].helps_to_fit = true;
    return true;
}

static bool add_one_fewer(struct changes *changes, uint32_t group, const char *name)
{
    if (!sp_cluster_can_shrink(changes->given, group))
        return true;
    const char *text = sp_arena_printf(changes->arena, "one %s fewer", name);
    if (!add(changes, CHANGE_FEWER, text, sp_cluster_one_fewer(changes->arena, changes->given, group)))
        return false;
    changes->items[changes->count - 1].gone = sp_cluster_last_device(changes->given, group);
    return true;
}

static bool add_links(struct changes *changes)
{
    const struct sp_cluster *given = changes->given;
    bool ok = true;
    for (uint32_t l = 0; ok && l < given->level_count; l++) {
        if (given->levels[l].size < 2)
            continue;
        const char *text = given->level_count == 1
                               ? "links twice as fast"
                               : sp_arena_printf(changes->arena, "links of '%s' twice as fast", given->levels[l].name);
        ok = add(changes, CHANGE_BETTER, text, sp_cluster_scale_link(changes->arena, given, l, TWICE));
    }
    return ok;
}

/* Times that were measured or given say nothing of other devices: faster ones are looked at where they are estimated.
 */
static bool add_figures(struct changes *changes, bool estimates)
{
    static const struct sp_cluster_scale less = {HALF, 1, 1}, more = {TWICE, 1, 1}, faster = {1, TWICE, 1},
                                         wider = {1, 1, TWICE};
    struct sp_arena *arena = changes->arena;
    const struct sp_cluster *given = changes->given;
    if (!add(changes, CHANGE_LESS_MEMORY, "half the memory on every device", sp_cluster_scale(arena, given, &less)) ||
        !add(changes, CHANGE_BETTER, "twice the memory on every device", sp_cluster_scale(arena, given, &more)))
        return false;
    changes->items[changes->count - 1].helps_to_fit = true;
    return !estimates || (add(changes, CHANGE_BETTER, "twice the compute speed of every device",
                              sp_cluster_scale(arena, given, &faster)) &&
                          add(changes, CHANGE_BETTER, "twice the memory bandwidth of every device",
                              sp_cluster_scale(arena, given, &wider)));
}

static enum sp_status list_changes(struct changes *changes, bool estimates, struct sp_error *err)
{
    uint32_t groups[SP_MAX_WHAT_IF_KINDS];
    const uint32_t count = find_kinds(changes->given, groups);
    bool ok = true;
    for (uint32_t k = 0; ok && k < count; k++) {
        const char *name = kind_name(changes, groups, count, k);
        ok = name != NULL && add_one_more(changes, groups[k], name);
    }
    for (uint32_t k = 0; ok && k < count; k++) {
        const char *name = kind_name(changes, groups, count, k);
        ok = name != NULL && add_one_fewer(changes, groups[k], name);
    }
    ok = ok && add_links(changes) && add_figures(changes, estimates);
    return ok ? SP_OK : sp_fail_memory(err);
}

/* ---- the given plan on a changed cluster ------------------------------------------------------------------------ */

static bool uses_device(const struct sp_plan *plan, uint32_t device)
{
    if (plan->service != NULL && plan->service->pools != NULL)
        return true;
    if (plan->service != NULL) /* its copies are the first blocks of devices */
        return device < plan->service->copies * plan->cluster->device_count;
    const struct sp_placement *placement = &plan->result->placement;
    for (uint32_t i = 0; i < placement->stage_count * sp_placement_copies(placement); i++) {
        const uint32_t s = i % placement->stage_count;
        const uint32_t first = sp_placement_device(placement, s, i / placement->stage_count);
        if (device >= first && device < first + sp_plan_stage_devices(plan, s))
            return true;
    }
    return sp_routed_holder(plan->result->routes, device) != NULL;
}

static bool still_fits(const struct sp_plan *plan, const struct sp_cluster *changed)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    struct sp_cluster reserved = *changed;
    reserved.reserved_bytes = plan->cluster->reserved_bytes;
    for (uint32_t s = 0; plan->service != NULL && s < evaluation->stage_count; s++) {
        if (plan->service->memory_bytes > sp_cluster_memory(&reserved, evaluation->stages[s].device))
            return false;
    }
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        if (evaluation->stages[s].total_bytes > sp_cluster_memory(&reserved, evaluation->stages[s].device))
            return false;
    }
    for (uint32_t h = 0; plan->result->routes != NULL && h < plan->result->routes->holder_count; h++) {
        const struct sp_route_holder *holder = &plan->result->routes->holders[h];
        if (holder->cost->total_bytes > sp_cluster_memory(&reserved, holder->device))
            return false;
    }
    return true;
}

/* The rule of variants.h. */
static bool can_be_kept(const struct sp_plan *plan, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_FEWER:
        return !uses_device(plan, change->gone);
    case CHANGE_LESS_MEMORY:
        return still_fits(plan, change->cluster);
    default:
        return true;
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static double gain(const struct sp_plan_options *options, const struct sp_variant *before,
                   const struct sp_variant *after)
{
    if (options->by_price)
        return before->price_per_hour > 0 ? 1 - after->price_per_hour / before->price_per_hour : 0;
    switch (sp_variants_objective(options)) {
    case SP_OBJECTIVE_LATENCY:
        return before->latency_seconds > 0 ? 1 - after->latency_seconds / before->latency_seconds : 0;
    case SP_OBJECTIVE_DEVICES:
        return 1 - (double)after->devices_used / before->devices_used;
    default: /* of requests per second */
        return after->interval_seconds > 0 ? before->interval_seconds / after->interval_seconds - 1 : 0;
    }
}

static void keep(const struct sp_variant *given, struct sp_variant *row)
{
    const uint32_t available = row->devices_available;
    const char *change = row->change;
    *row = *given;
    row->change = change;
    row->devices_available = available;
    row->is_kept = true;
}

static enum sp_status add_row(struct sp_variants_run *run, const struct sp_plan *plan, const struct sp_variant *given,
                              const struct change *change, struct sp_variant *row, struct sp_error *err)
{
    const enum sp_objective objective = run->options->objective;
    struct sp_error why = {0};
    row->change = sp_arena_string(run->arena, change->text, strlen(change->text));
    if (row->change == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_variants_look(run, change->cluster, row, NULL, NULL, &why);
    if (status != SP_OK)
        return sp_fail_memory(err); /* nothing else ends more than the row */
    if (row->state == SP_VARIANT_OPEN)
        return SP_OK;
    const int order = row->state == SP_VARIANT_FITS ? sp_variants_compare(run->options, given, row) : -1;
    if (order < 0 && can_be_kept(plan, change))
        keep(given, row);
    if (row->state != SP_VARIANT_FITS)
        return SP_OK;
    row->gain = row->is_kept ? 0 : gain(run->options, given, row);
    const double tolerance = objective == SP_OBJECTIVE_DEVICES ? 0 : run->options->tolerance;
    if (order > 0 && change->kind != CHANGE_BETTER && (tolerance <= 0 || row->gain > tolerance))
        row->message = "This plan can run on the given devices, too, and is better than theirs: the search found it "
                       "only here.";
    return SP_OK;
}

enum sp_status sp_variants_what_if(struct sp_variants_run *run, const struct sp_cluster *cluster, struct sp_plan *plan,
                                   struct sp_error *err)
{
    struct sp_variant given = {0};
    struct sp_variants *rows = SP_NEW(run->arena, struct sp_variants);
    struct changes *changes = SP_NEW(run->arena, struct changes);
    struct sp_arena *scratch = sp_arena_create(NULL);
    enum sp_status status = rows == NULL || changes == NULL || scratch == NULL ? sp_fail_memory(err) : SP_OK;
    if (status == SP_OK) {
        *changes = (struct changes){.arena = scratch, .given = cluster};
        status = list_changes(changes, plan->model != NULL && run->options->profile == NULL, err);
    }
    if (status == SP_OK)
        status = sp_variants_take_figures(run->arena, plan, &given, err);
    if (status == SP_OK && (rows->rows = SP_NEW_ARRAY(run->arena, changes->count, struct sp_variant)) == NULL)
        status = sp_fail_memory(err);
    if (status != SP_OK)
        goto out;
    rows->count = changes->count;
    run->phase = "what-if";
    run->done = 0;
    run->total = changes->count;
    run->best_seconds = sp_plan_gap(plan).best_seconds;
    for (uint32_t i = 0; status == SP_OK && i < changes->count; i++)
        status = add_row(run, plan, &given, &changes->items[i], &rows->rows[i], err);
    if (status == SP_OK)
        plan->what_if = rows;
out:
    sp_arena_destroy(scratch);
    return status;
}

/* ---- nothing fits ----------------------------------------------------------------------------------------------- */

/* Puts a sentence behind the error's message; the message gives way where both are too long. */
static void append_sentence(struct sp_error *err, const char *sentence)
{
    const size_t length = strlen(sentence), used = strlen(err->message), room = sizeof err->message - 1;
    const size_t at = used + length <= room ? used : room - length;
    if (length >= room)
        return;
    memcpy(err->message + at, sentence, length + 1);
    sp_make_printable(err->message, sizeof err->message);
}

void sp_variants_explain_nofit(struct sp_variants_run *run, const struct sp_cluster *cluster, struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_create(NULL);
    struct changes *changes = scratch != NULL ? SP_NEW(scratch, struct changes) : NULL;
    struct sp_error ignored = {0};
    struct sp_buf fits, not_enough;
    sp_buf_init(&fits, SP_ERROR_MESSAGE_SIZE / 2);
    sp_buf_init(&not_enough, SP_ERROR_MESSAGE_SIZE / 2);
    if (changes == NULL || err == NULL)
        goto out;
    *changes = (struct changes){.arena = scratch, .given = cluster};
    if (list_changes(changes, false, &ignored) != SP_OK)
        goto out;
    run->phase = "what-if";
    for (uint32_t i = 0; i < changes->count; i++)
        run->total += changes->items[i].helps_to_fit;
    for (uint32_t i = 0; i < changes->count; i++) {
        struct sp_variant row = {0};
        struct sp_error why = {0};
        if (!changes->items[i].helps_to_fit)
            continue;
        if (sp_variants_look(run, changes->items[i].cluster, &row, NULL, NULL, &why) != SP_OK ||
            row.state == SP_VARIANT_OPEN)
            break;
        struct sp_buf *into = row.state == SP_VARIANT_FITS ? &fits : &not_enough;
        sp_buf_printf(into, "%s%.120s", into->size > 0 ? " or with " : " ", changes->items[i].text);
    }
    if (fits.size > 0 && !sp_buf_failed(&fits)) {
        sp_buf_text(&fits, ".");
        char sentence[SP_ERROR_MESSAGE_SIZE];
        (void)snprintf(sentence, sizeof sentence, " It fits with%s", fits.data);
        append_sentence(err, sentence);
    } else if (not_enough.size > 0 && !sp_buf_failed(&not_enough)) {
        char sentence[SP_ERROR_MESSAGE_SIZE];
        (void)snprintf(sentence, sizeof sentence, " It does not fit with%s either.", not_enough.data);
        append_sentence(err, sentence);
    }
out:
    sp_buf_release(&fits);
    sp_buf_release(&not_enough);
    sp_arena_destroy(scratch);
}
