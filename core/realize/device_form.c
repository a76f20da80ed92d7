/* How a target says what an exchange is: see device_collective.c. */
#include <stdio.h>

#include "realize/device.h"

enum sp_dtype sp_device_wire_type(enum sp_realize_target target, enum sp_dtype dtype)
{
    switch (dtype) {
    case SP_DTYPE_FLOAT:
    case SP_DTYPE_FLOAT16:
    case SP_DTYPE_BFLOAT16:
    case SP_DTYPE_DOUBLE:
    case SP_DTYPE_INT64:
        return dtype;
    case SP_DTYPE_BOOL:
        return target == SP_TARGET_ORT ? dtype : SP_DTYPE_INT32;
    case SP_DTYPE_INT32:
        return target == SP_TARGET_ORT ? SP_DTYPE_INT64 : dtype;
    case SP_DTYPE_UNDEFINED:
    case SP_DTYPE_STRING:
    case SP_DTYPE_COMPLEX64:
    case SP_DTYPE_COMPLEX128:
        return SP_DTYPE_UNDEFINED;
    default: /* small and unsigned integers, and floats of a byte or less */
        return sp_dtype_is_integer(dtype) ? SP_DTYPE_INT64 : SP_DTYPE_FLOAT;
    }
}

static bool is_short_float(enum sp_dtype dtype)
{
    return dtype == SP_DTYPE_FLOAT16 || dtype == SP_DTYPE_BFLOAT16;
}

enum sp_dtype sp_device_carried_type(const struct sp_device_plan *plan, enum sp_dtype dtype)
{
    const enum sp_dtype wire = sp_device_wire_type(plan->target, dtype);
    const bool is_widened = plan->target == SP_TARGET_ORT ? plan->forms.has_no_bfloat16 && wire == SP_DTYPE_BFLOAT16
                                                          : plan->forms.has_casts && is_short_float(wire);
    return is_widened ? SP_DTYPE_FLOAT : wire;
}

static bool sums(enum sp_realize_target target, enum sp_combiner combiner, enum sp_dtype dtype)
{
    if (sp_device_wire_type(target, dtype) != dtype)
        return false;
    if (target == SP_TARGET_ORT)
        return combiner == SP_COMBINE_SUM && sp_dtype_is_float(dtype);
    return combiner == SP_COMBINE_SUM || combiner == SP_COMBINE_MAX || combiner == SP_COMBINE_MIN ||
           combiner == SP_COMBINE_PROD;
}

/* Whether each group in the world is one that the target can name, its members in the order of ranks, all of them with
   a piece before and after. */
static bool has_groups(const struct sp_device_plan *plan, const struct sp_exchange *exchange, uint32_t world)
{
    uint32_t found = 0;
    for (uint32_t first = 0, last; first < exchange->member_count; first = last) {
        uint32_t inside = 0;
        bool is_fine = true;
        for (last = first;
             last < exchange->member_count && exchange->members[last].group == exchange->members[first].group; last++) {
            const struct sp_exchange_member *member = &exchange->members[last];
            inside += plan->devices[member->device].world == world;
            is_fine = is_fine && member->before != NULL && member->after != NULL &&
                      (last == first || exchange->members[last - 1].device < member->device);
        }
        if (inside == 0)
            continue;
        found++;
        if (!is_fine || inside != last - first ||
            (plan->target == SP_TARGET_ORT && (found > 1 || inside != plan->worlds[world].size)))
            return false;
    }
    return true;
}

bool sp_device_held_dims(const struct sp_exchange *exchange, uint32_t member, int64_t *dims)
{
    const struct sp_exchange_member *of = &exchange->members[member];
    if (exchange->value != NULL && !exchange->value->type.shape.has_rank)
        return false; /* not even how many axes there are */
    for (uint32_t i = 0; i < exchange->rank; i++) {
        const struct sp_axis_ranges *axis = i < of->held.rank ? &of->held.axes[i] : NULL;
        dims[i] = 0;
        for (uint32_t k = 0; axis != NULL && k < axis->count; k++) {
            if (axis->ranges[k].limit < 0)
                axis = NULL;
            else
                dims[i] += axis->ranges[k].limit - axis->ranges[k].start;
        }
        if (axis == NULL && (of->before->dims == NULL || of->before->rank != exchange->rank))
            return false;
        if (axis == NULL)
            dims[i] = of->before->dims[i];
        if (dims[i] < 0)
            return false;
    }
    return true;
}

/* The kind's own form, where its groups can be named; GATHER_ALL: it has none. */
static enum sp_device_form direct_form(const struct sp_device_plan *plan, const struct sp_exchange *exchange)
{
    const enum sp_realize_target target = plan->target;
    const bool has_alltoall = target != SP_TARGET_TENSORRT || !plan->forms.has_no_alltoall;
    const bool moves = sp_device_wire_type(target, exchange->dtype) != SP_DTYPE_UNDEFINED;
    const bool combines = sums(target, exchange->combiner, exchange->dtype);
    if (exchange->kind == SP_ALL_REDUCE && combines)
        return SP_FORM_ALL_REDUCE;
    if (exchange->kind == SP_REDUCE_SCATTER && combines && exchange->is_regular)
        return SP_FORM_REDUCE_SCATTER;
    if (exchange->kind == SP_ALL_GATHER && moves && exchange->is_regular)
        return SP_FORM_ALL_GATHER;
    if (exchange->kind == SP_ALL_TO_ALL && moves && exchange->is_regular && has_alltoall)
        return SP_FORM_ALL_TO_ALL;
    return SP_FORM_GATHER_ALL;
}

/* Why the exchange is no GATHER_ALL, as the end of a sentence; NULL: it can be one. */
static const char *not_gathered(enum sp_realize_target target, const struct sp_exchange *exchange)
{
    if (sp_device_wire_type(target, exchange->dtype) == SP_DTYPE_UNDEFINED)
        return "the target's collectives do not carry its type";
    if (exchange->rank >= SP_MAX_RANK)
        return "it has too many axes";
    for (uint32_t i = 0; i < exchange->member_count; i++) {
        int64_t dims[SP_MAX_RANK];
        if (exchange->members[i].before != NULL && !sp_device_held_dims(exchange, i, dims))
            return "its size is not known";
    }
    return NULL;
}

enum sp_device_form sp_device_form_of(const struct sp_device_plan *plan, const struct sp_exchange *exchange,
                                      uint32_t world)
{
    const enum sp_device_form direct = direct_form(plan, exchange);
    if (direct != SP_FORM_GATHER_ALL && has_groups(plan, exchange, world))
        return direct;
    return not_gathered(plan->target, exchange) == NULL ? SP_FORM_GATHER_ALL : SP_FORM_PORTS;
}

bool sp_device_is_collective(enum sp_realize_target target, const struct sp_exchange *exchange)
{
    return target != SP_TARGET_SESSIONS && exchange->kind != SP_SEND_RECEIVE && exchange->kind != SP_ALL_SLICE &&
           exchange->kind != SP_TO_PARTIAL;
}

bool sp_device_makes_world(const struct sp_device_plan *plan, const struct sp_exchange *exchange)
{
    return sp_device_is_collective(plan->target, exchange) &&
           (direct_form(plan, exchange) != SP_FORM_GATHER_ALL || not_gathered(plan->target, exchange) == NULL);
}

void sp_device_look_at_form(struct sp_device_plan *plan, const struct sp_exchange *exchange, enum sp_device_form form)
{
    const enum sp_dtype carried = sp_device_carried_type(plan, exchange->dtype);
    plan->has_collectives = true;
    plan->has_alltoall |= form == SP_FORM_ALL_TO_ALL;
    plan->has_bfloat16 |= carried == SP_DTYPE_BFLOAT16;
    plan->has_wide |= carried == exchange->dtype;
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

enum sp_status sp_device_tell_needs(struct sp_device_walk *walk, struct sp_error *err)
{
    static const struct sp_part_note
        ort = {.code = "NEEDS_COLLECTIVES",
               .message = "Devices exchange by collectives of com.microsoft, which ONNX Runtime has only where it is "
                          "built with --enable_nccl; 'shardplan export' with the format sessions writes models that "
                          "any build loads."},
        bfloat16 = {.code = "NEEDS_BFLOAT16",
                    .message =
                        "Collectives of bfloat16 need ONNX Runtime 1.30 (its sources since 2026-08-03); 'shardplan "
                        "export' with --form no-bfloat16 writes a Cast to float32 around them, for older ones."},
        tensorrt = {.code = "NEEDS_TENSORRT",
                    .message =
                        "DistCollective needs TensorRT 10.16, there with trtexec's --preview=+multiDeviceRuntime, "
                        "and devices of compute capability 8.0; no later version has that preview."},
        alltoall = {.code = "NEEDS_TENSORRT_11",
                    .message = "ALL_TO_ALL needs TensorRT 11.0; 'shardplan export' with --form no-all-to-all writes "
                               "all-gathers in its place, for 10.16."},
        wide = {.code = "COLLECTIVE_NOT_CAST",
                .message =
                    "Collectives of other types than float16 and bfloat16 have no Cast around them: TensorRT has "
                    "no wider type that another one could be carried in."};
    const struct sp_device_plan *plan = walk->plan;
    const bool is_ort = plan->target == SP_TARGET_ORT;
    const struct {
        bool is_told;
        const struct sp_part_note *note;
    } notes[] = {{is_ort, &ort},
                 {is_ort && plan->has_bfloat16, &bfloat16},
                 {!is_ort, &tensorrt},
                 {!is_ort && plan->has_alltoall, &alltoall},
                 {!is_ort && plan->forms.has_casts && plan->has_wide, &wide}};
    enum sp_status status = SP_OK;
    for (size_t i = 0; status == SP_OK && plan->has_collectives && i < sizeof notes / sizeof *notes; i++)
        status = notes[i].is_told ? sp_device_tell(walk, notes[i].note, err) : SP_OK;
    return status;
}

enum sp_status sp_device_tell_form(struct sp_device_walk *walk, const struct sp_exchange *exchange,
                                   enum sp_device_form form, struct sp_error *err)
{
    char text[SP_ERROR_MESSAGE_SIZE], subject[SP_ERROR_WHERE_SIZE + 32], label[SP_ERROR_WHERE_SIZE];
    if (exchange->value != NULL)
        (void)snprintf(subject, sizeof subject, "'%.200s'", exchange->value->name);
    else
        (void)snprintf(subject, sizeof subject, "a statistic of %s",
                       sp_node_label(exchange->node, label, sizeof label));
    if (form == SP_FORM_GATHER_ALL)
        (void)snprintf(text, sizeof text,
                       "The %s of %s has no form in the target: all devices of its world exchange all pieces, and each "
                       "does the rest alone.",
                       sp_exchange_name(exchange), subject);
    else
        (void)snprintf(text, sizeof text,
                       "The devices exchange %s as outputs and inputs of their models instead of by a collective, "
                       "because %s.",
                       subject, not_gathered(walk->plan->target, exchange));
    const struct sp_part_note note = {.code = form == SP_FORM_GATHER_ALL ? "COLLECTIVE_LOWERED" : "COLLECTIVE_CUT",
                                      .node = exchange->node,
                                      .tensor = exchange->value == NULL ? NULL : exchange->value->name,
                                      .message = text};
    return sp_device_tell(walk, &note, err);
}
