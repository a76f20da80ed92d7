/*
 * All bytes of the ranks' weights against the parts of the original's that they are taken for.
 *
 * Both sides are streams: of the original runs of a box, of the rank's tensor one byte behind the other.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/programs.h"

#define LEAST_RUN       512        /* bytes; shorter runs of a box are read with what lies between them */
#define TICK_BYTES      (1u << 20) /* between looks whether to go on */
#define TICK_RUNS       4096u
#define MAX_BOX_LETTERS 256

/* What came of a comparison. */
enum outcome { SAME, DIFFERENT, NO_ORIGINAL, NO_OWN };

struct streams {
    struct sp_verification *all;
    struct sp_tensor_data whole, own;
    unsigned char *buffer; /* for runs of `whole` */
    unsigned width;
    uint64_t at;     /* bytes of `own` that were compared */
    uint64_t ticked; /* bytes since the last look */
    uint32_t runs;
    enum outcome outcome;
    uint64_t first; /* byte of `own` that differs */
};

static enum sp_status look_up(struct streams *streams, uint64_t bytes, struct sp_error *err)
{
    const struct sp_watch *watch = streams->all->request->watch;
    streams->ticked += bytes;
    if (watch == NULL || (streams->ticked < TICK_BYTES && ++streams->runs < TICK_RUNS))
        return SP_OK;
    streams->ticked = streams->runs = 0;
    return sp_watch_tick(watch, "verify", 0, 0, 0)
               ? SP_OK
               : sp_fail(err, SP_ERR_CANCELLED, "CANCELLED", "The verification was cancelled.");
}

/* Compares a run of the original, in bytes, with what comes next of the rank's. */
static enum sp_status compare_run(struct streams *streams, uint64_t from, uint64_t size, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    while (status == SP_OK && size > 0 && streams->outcome == SAME) {
        const size_t part = size < SP_VERIFY_BUFFER_BYTES ? (size_t)size : SP_VERIFY_BUFFER_BYTES;
        const unsigned char *theirs = part < LEAST_RUN
                                          ? sp_tensor_data_near(&streams->whole, from, part)
                                          : sp_tensor_data_view(&streams->whole, from, part, streams->buffer);
        const unsigned char *ours = theirs != NULL ? sp_tensor_data_near(&streams->own, streams->at, part) : NULL;
        if (ours == NULL) {
            streams->outcome = theirs == NULL ? NO_ORIGINAL : NO_OWN;
        } else if (memcmp(theirs, ours, part) != 0) {
            size_t i = 0;
            while (theirs[i] == ours[i])
                i++;
            streams->outcome = DIFFERENT;
            streams->first = streams->at + i;
        }
        from += part;
        size -= part;
        streams->at += part;
        status = look_up(streams, part, err);
    }
    return status;
}

static int64_t length_of(const struct sp_axis_ranges *axis)
{
    int64_t length = 0;
    for (uint32_t i = 0; i < axis->count; i++)
        length += axis->ranges[i].limit - axis->ranges[i].start;
    return length;
}

/* The index at a position within the ranges. */
static int64_t index_at(const struct sp_axis_ranges *axis, int64_t position)
{
    uint32_t i = 0;
    for (; i + 1 < axis->count && position >= axis->ranges[i].limit - axis->ranges[i].start; i++)
        position -= axis->ranges[i].limit - axis->ranges[i].start;
    return axis->ranges[i].start + position;
}

/* Whether the box lies in the original's tensor and has the extents of the rank's. */
static bool fits(const struct sp_verify_part *part)
{
    const struct sp_tensor *whole = part->original->tensor, *own = part->value->tensor;
    bool fits = whole->rank == own->rank && whole->dtype == own->dtype;
    for (uint32_t i = 0; fits && i < own->rank; i++) {
        fits = part->box == NULL ? own->dims[i] == whole->dims[i] : own->dims[i] == length_of(&part->box[i]);
        for (uint32_t k = 0; fits && part->box != NULL && k < part->box[i].count; k++)
            fits = part->box[i].ranges[k].start >= 0 && part->box[i].ranges[k].limit <= whole->dims[i];
    }
    return fits;
}

/* Compares a box row by row: as many axes as it has all of are one run. */
static enum sp_status compare_box(struct streams *streams, const struct sp_axis_ranges *box, struct sp_error *err)
{
    const struct sp_tensor *whole = streams->whole.tensor, *own = streams->own.tensor;
    int64_t positions[SP_MAX_RANK] = {0};
    uint32_t axis = whole->rank - 1;
    uint64_t inner = streams->width; /* bytes of an index of `axis` */
    enum sp_status status = SP_OK;
    for (; axis > 0 && own->dims[axis] == whole->dims[axis]; axis--)
        inner *= (uint64_t)whole->dims[axis];
    for (bool goes_on = true; status == SP_OK && goes_on && streams->outcome == SAME;) {
        uint64_t from = 0;
        for (uint32_t i = 0; i < axis; i++)
            from = (from + (uint64_t)index_at(&box[i], positions[i])) * (uint64_t)whole->dims[i + 1];
        for (uint32_t k = 0; status == SP_OK && k < box[axis].count && streams->outcome == SAME; k++) {
            const struct sp_range range = box[axis].ranges[k];
            status = compare_run(streams, (from + (uint64_t)range.start) * inner,
                                 (uint64_t)(range.limit - range.start) * inner, err);
        }
        goes_on = false;
        for (uint32_t i = axis; i-- > 0 && !goes_on;) {
            goes_on = ++positions[i] < own->dims[i];
            if (!goes_on)
                positions[i] = 0;
        }
    }
    return status;
}

static enum sp_status compare(struct streams *streams, const struct sp_verify_part *part, struct sp_error *err)
{
    struct sp_verification *all = streams->all;
    unsigned char *const window = streams->own.window;
    streams->whole = sp_run_data(all, &all->original, part->original->tensor);
    streams->own = sp_run_data(all, part->run, part->value->tensor);
    streams->own.window = window;
    streams->own.window_bytes = SP_VERIFY_BUFFER_BYTES;
    streams->width = sp_tensor_data_width(part->value->tensor);
    streams->at = 0;
    streams->outcome = !sp_tensor_data_is_there(&streams->whole) ? NO_ORIGINAL
                       : !sp_tensor_data_is_there(&streams->own) ? NO_OWN
                                                                 : SAME;
    if (streams->outcome != SAME)
        return SP_OK;
    return part->box == NULL ? compare_run(streams, 0, (uint64_t)part->value->tensor->bytes, err)
                             : compare_box(streams, part->box, err);
}

/* ---- what is said of it ----------------------------------------------------------------------------------------- */

/* "'up'[0:4, 3:6]" */
static const char *box_text(struct sp_arena *arena, const struct sp_verify_part *part)
{
    char text[MAX_BOX_LETTERS] = "";
    size_t used = 0;
    for (uint32_t i = 0; part->box != NULL && i < part->value->tensor->rank; i++) {
        for (uint32_t k = 0; k < part->box[i].count && used < sizeof text; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld:%lld",
                                     k > 0   ? "+"
                                     : i > 0 ? ", "
                                             : "",
                                     (long long)part->box[i].ranges[k].start, (long long)part->box[i].ranges[k].limit);
    }
    return sp_arena_printf(arena, text[0] != '\0' ? "'%s'[%s%s]" : "'%s'%s%s", part->original->name, text,
                           used >= sizeof text ? ".." : "");
}

/* "2, 0": the element that a byte of the rank's tensor is of. */
static const char *element_text(struct sp_arena *arena, const struct streams *streams)
{
    const struct sp_tensor *tensor = streams->own.tensor;
    char text[SP_MAX_RANK * 24] = "";
    int64_t index[SP_MAX_RANK];
    uint64_t place = streams->first / streams->width;
    for (uint32_t i = tensor->rank; i-- > 0; place /= (uint64_t)tensor->dims[i])
        index[i] = (int64_t)(place % (uint64_t)tensor->dims[i]);
    for (uint32_t i = 0, used = 0; i < tensor->rank; i++)
        used += (uint32_t)snprintf(text + used, sizeof text - used, "%s%lld", i > 0 ? ", " : "", (long long)index[i]);
    return sp_arena_printf(arena, "%s", text);
}

static enum sp_status tell(struct sp_verification *all, const struct sp_verify_part *part, enum sp_verdict verdict,
                           const char *message, const char *expected, struct sp_error *err)
{
    if (message == NULL)
        return sp_fail_memory(err);
    return sp_verify_fail(
        all, (struct sp_verify_failure){.verdict = verdict, .run = part->run, .message = message, .expected = expected},
        err);
}

static enum sp_status tell_different(const struct streams *streams, const struct sp_verify_part *part,
                                     struct sp_error *err)
{
    struct sp_arena *arena = streams->all->arena;
    const char *slice = box_text(arena, part), *element = element_text(arena, streams);
    if (slice == NULL || element == NULL)
        return sp_fail_memory(err);
    return tell(streams->all, part, SP_REFUTED,
                sp_arena_printf(arena,
                                "The weight '%s' differs from its part of the original's from byte %llu on (element "
                                "[%s]).",
                                part->value->name, (unsigned long long)streams->first, element),
                slice, err);
}

static enum sp_status tell_absent(const struct streams *streams, const struct sp_verify_part *part,
                                  struct sp_error *err)
{
    const bool is_whole = streams->outcome == NO_ORIGINAL;
    const struct sp_tensor *tensor = is_whole ? streams->whole.tensor : streams->own.tensor;
    const bool is_outer = tensor->storage == SP_STORAGE_EXTERNAL;
    return tell(streams->all, part, SP_UNDECIDED,
                sp_arena_printf(streams->all->arena,
                                "The weight '%s' is not compared: %s data are not there as bytes (%s%.200s%s).",
                                part->value->name, is_whole ? "the original's" : "its",
                                is_outer ? "they should be in the file '" : "they are not in the model's file",
                                is_outer ? tensor->external.location : "", is_outer ? "'" : ""),
                NULL, err);
}

static enum sp_status compare_part(struct streams *streams, const struct sp_verify_part *part, bool is_refuted,
                                   struct sp_error *err)
{
    struct sp_verification *all = streams->all;
    enum sp_status status = SP_OK;
    streams->outcome = SAME;
    const bool is_known = part->original != NULL && fits(part);
    if (is_known)
        status = compare(streams, part, err);
    const bool is_absent = streams->outcome == NO_ORIGINAL || streams->outcome == NO_OWN;
    if (status != SP_OK)
        return status;
    if (is_absent)
        return tell_absent(streams, part, err);
    if (is_known && (part->is_slice || is_refuted))
        return streams->outcome == DIFFERENT ? tell_different(streams, part, err) : SP_OK;
    /* What is no slice is evaluated: of a small model all of it, of a large one some elements. */
    return is_refuted || !all->sets.is_used
               ? SP_OK
               : tell(all, part, SP_UNDECIDED,
                      sp_arena_printf(all->arena,
                                      "The weight '%s' is no slice of one of the original's that has its name: it is "
                                      "compared at the indices alone at which the models are evaluated.",
                                      part->value->name),
                      NULL, err);
}

enum sp_status sp_weights_compare(struct sp_verification *all, struct sp_error *err)
{
    struct streams streams = {.all = all, .buffer = SP_NEW_ARRAY(all->arena, SP_VERIFY_BUFFER_BYTES, unsigned char)};
    enum sp_status status = SP_OK;
    bool is_refuted = false;
    streams.own.window = SP_NEW_ARRAY(all->arena, SP_VERIFY_BUFFER_BYTES, unsigned char);
    if (streams.buffer == NULL || streams.own.window == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < all->failures.count; i++)
        is_refuted = is_refuted || all->failures.items[i].verdict == SP_REFUTED;
    for (uint32_t i = 0; status == SP_OK && i < all->parts.count; i++)
        status = compare_part(&streams, &all->parts.items[i], is_refuted, err);
    return status;
}
