/*
 * Collectives as the targets have them.
 *
 *   ONNX Runtime   AllReduce (sums), AllGather, AllToAll, over all ranks; floating point, and int64 and bool where
 *                  nothing is summed. A reduce-scatter is an AllReduce of which each rank keeps its part.
 *   TensorRT       DistCollective, over all ranks or a group of them, along the first axis: other axes are brought to
 *                  the front and back.
 *
 * Anything else: every rank puts its piece, filled up to the largest, on a new first axis, and gathers along it; rows
 * are cut to what they were. Ranks that have nothing give zeros. Where that needs a size that is not known, or a type
 * that no collective carries, there is no collective: see device_exchange.c.
 */
#include <assert.h>
#include <string.h>

#include "realize/device.h"

#define ORT_DOMAIN "com.microsoft"

/* ---- operators ----------------------------------------------------------------------------------------------------
 */

static enum sp_status reshape(struct sp_program *program, const char *x, uint32_t rank, const int64_t *dims,
                              const char **ret_name, struct sp_error *err)
{
    const struct sp_lower_attribute attribute = SP_INTS_ATTR("shape", rank, dims);
    const char *inputs[2] = {x};
    if (program->opset < 5)
        return sp_program_emit(program,
                               &(struct sp_program_op){.op_type = "Reshape",
                                                       .input_count = 1,
                                                       .inputs = inputs,
                                                       .attribute_count = 1,
                                                       .attributes = &attribute},
                               ret_name, err);
    enum sp_status status = sp_program_ints(program, rank, dims, &inputs[1], err);
    const struct sp_program_op op = {.op_type = "Reshape", .input_count = 2, .inputs = inputs};
    return status == SP_OK ? sp_program_emit(program, &op, ret_name, err) : status;
}

/* Exchanges an axis with the first one; doing it again takes it back. */
static enum sp_status swap_first(struct sp_program *program, const char *x, uint32_t rank, uint32_t axis,
                                 const char **ret_name, struct sp_error *err)
{
    int64_t perm[SP_MAX_RANK];
    *ret_name = x;
    if (axis == 0)
        return SP_OK;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i == 0 ? axis : i == axis ? 0 : i;
    const struct sp_lower_attribute attribute = SP_INTS_ATTR("perm", rank, perm);
    const struct sp_program_op op = {
        .op_type = "Transpose", .input_count = 1, .inputs = &x, .attribute_count = 1, .attributes = &attribute};
    return sp_program_emit(program, &op, ret_name, err);
}

static enum sp_status to_type(struct sp_program *program, const char *x, enum sp_dtype from, enum sp_dtype to,
                              const char **ret_name, struct sp_error *err)
{
    *ret_name = x;
    return from == to ? SP_OK : sp_program_cast(program, x, to, NULL, ret_name, err);
}

/* A tensor of zeros. */
static enum sp_status put_zeros(struct sp_program *program, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                                const char **ret_name, struct sp_error *err)
{
    static const unsigned char zeros[16];
    struct sp_piece *piece = SP_NEW(program->arena, struct sp_piece);
    if (piece == NULL || (piece->name = sp_program_fresh(program, "zeros")) == NULL)
        return sp_fail_memory(err);
    const struct sp_part_constant constant = {.piece = piece,
                                              .dtype = dtype,
                                              .rank = rank,
                                              .dims = dims,
                                              .is_filled = true,
                                              .bytes = zeros,
                                              .size = (size_t)sp_dtype_bits(dtype) / 8};
    enum sp_status status = sp_program_constant(program, &constant, err);
    *ret_name = sp_program_name(program, piece);
    return status;
}

enum collective { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL };

static const char *reduce_name(bool is_upper, enum collective collective, enum sp_combiner combiner)
{
    if (collective != ALL_REDUCE && collective != REDUCE_SCATTER)
        return is_upper ? "NONE" : "sum";
    return combiner == SP_COMBINE_MAX    ? is_upper ? "MAX" : "max"
           : combiner == SP_COMBINE_MIN  ? is_upper ? "MIN" : "min"
           : combiner == SP_COMBINE_PROD ? is_upper ? "PROD" : "prod"
           : is_upper                    ? "SUM"
                                         : "sum";
}

/* Ranks of those that take part: `count` of them. */
struct ranks {
    uint32_t count;
    const int64_t *items; /* NULL: all of the world, unlisted */
};

/* All six attributes always: readers differ in which they ask for. */
static enum sp_status emit_tensorrt(struct sp_program *program, enum collective collective, enum sp_combiner combiner,
                                    const struct ranks *ranks, const char *x, const char **ret_name,
                                    struct sp_error *err)
{
    static const char *const names[][2] = {{"all_reduce", "ALL_REDUCE"},
                                           {"reduce_scatter", "REDUCE_SCATTER"},
                                           {"all_gather", "ALL_GATHER"},
                                           {"all_to_all", "ALL_TO_ALL"}};
    const bool is_upper = program->request->forms.is_upper, lists = ranks->items != NULL;
    const struct sp_lower_attribute attributes[] = {
        {.name = "collective_operation", .type = SP_ATTR_STRING, .s = names[collective][is_upper]},
        {.name = "reduce_op", .type = SP_ATTR_STRING, .s = reduce_name(is_upper, collective, combiner)},
        SP_INT_ATTR("root", -1),
        SP_INT_ATTR("nb_rank", ranks->count),
        SP_INT_ATTR("group_size", lists ? ranks->count : 0),
        SP_INTS_ATTR("groups", lists ? ranks->count : 0, ranks->items)};
    const struct sp_program_op op = {
        .op_type = "DistCollective", .input_count = 1, .inputs = &x, .attribute_count = 6, .attributes = attributes};
    return sp_program_emit(program, &op, ret_name, err);
}

static enum sp_status emit_ort(struct sp_program *program, enum collective collective, const struct ranks *ranks,
                               uint32_t axis, const char *x, const char **ret_name, struct sp_error *err)
{
    const struct sp_lower_attribute attributes[] = {SP_INT_ATTR("group_size", ranks->count), SP_INT_ATTR("axis", axis)};
    void **entry = sp_program_entry(program->opsets, ORT_DOMAIN, strlen(ORT_DOMAIN));
    int64_t *version = SP_NEW(program->arena, int64_t);
    if (entry == NULL || version == NULL)
        return sp_fail_memory(err);
    *version = 1;
    if (*entry == NULL)
        *entry = version;
    const struct sp_program_op op = {.op_type = collective == ALL_REDUCE   ? "AllReduce"
                                                : collective == ALL_GATHER ? "AllGather"
                                                                           : "AllToAll",
                                     .domain = ORT_DOMAIN,
                                     .input_count = 1,
                                     .inputs = &x,
                                     .attribute_count = collective == ALL_REDUCE   ? 0
                                                        : collective == ALL_GATHER ? 2
                                                                                   : 1,
                                     .attributes = attributes};
    return sp_program_emit(program, &op, ret_name, err);
}

/* ---- direct forms -------------------------------------------------------------------------------------------------
 */

struct direct {
    struct sp_program *program;
    const struct sp_device_plan *plan;
    const struct sp_exchange *exchange;
    const struct sp_exchange_member *member;
    struct ranks ranks;
    uint32_t place; /* of the member in its group */
    const char *name;
};

static enum sp_status find_ranks(struct sp_device_walk *walk, uint32_t member, struct direct *direct,
                                 struct sp_error *err)
{
    const struct sp_exchange *exchange = direct->exchange;
    uint32_t first = member, last = member + 1;
    while (first > 0 && exchange->members[first - 1].group == direct->member->group)
        first--;
    while (last < exchange->member_count && exchange->members[last].group == direct->member->group)
        last++;
    int64_t *ranks = SP_NEW_ARRAY(walk->scratch, last - first, int64_t);
    if (ranks == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = first; i < last; i++)
        ranks[i - first] = walk->plan->devices[exchange->members[i].device].rank;
    const uint32_t size = walk->plan->worlds[walk->plan->devices[direct->member->device].world].size;
    direct->place = member - first;
    direct->ranks = (struct ranks){last - first, ranks};
    if (size == last - first && !walk->plan->forms.lists_world)
        direct->ranks.items = NULL;
    return SP_OK;
}

static enum sp_status emit(struct direct *direct, enum collective collective, uint32_t axis, struct sp_error *err)
{
    return direct->plan->target == SP_TARGET_ORT
               ? emit_ort(direct->program, collective, &direct->ranks, axis, direct->name, &direct->name, err)
               : emit_tensorrt(direct->program, collective, direct->exchange->combiner, &direct->ranks, direct->name,
                               &direct->name, err);
}

static enum sp_status reduce_scatter(struct direct *direct, struct sp_error *err)
{
    const struct sp_exchange *exchange = direct->exchange;
    struct sp_range ranges[SP_MAX_RANK];
    enum sp_status status;
    if (direct->plan->target == SP_TARGET_TENSORRT) {
        status = swap_first(direct->program, direct->name, exchange->rank, exchange->axis, &direct->name, err);
        if (status == SP_OK)
            status = emit(direct, REDUCE_SCATTER, 0, err);
        return status == SP_OK
                   ? swap_first(direct->program, direct->name, exchange->rank, exchange->axis, &direct->name, err)
                   : status;
    }
    const int64_t size = direct->member->after->dims[exchange->axis];
    for (uint32_t i = 0; i < exchange->rank; i++)
        ranges[i] = (struct sp_range){0, -1};
    ranges[exchange->axis] = (struct sp_range){direct->place * size, (direct->place + 1) * size};
    status = emit(direct, ALL_REDUCE, 0, err);
    const struct sp_program_tensor reduced = {.name = direct->name, .rank = exchange->rank};
    return status == SP_OK ? sp_program_slice(direct->program, &reduced, ranges, NULL, &direct->name, err) : status;
}

static enum sp_status all_gather(struct direct *direct, struct sp_error *err)
{
    const struct sp_exchange *exchange = direct->exchange;
    if (direct->plan->target == SP_TARGET_ORT)
        return emit(direct, ALL_GATHER, exchange->axis, err);
    enum sp_status status =
        swap_first(direct->program, direct->name, exchange->rank, exchange->axis, &direct->name, err);
    if (status == SP_OK)
        status = emit(direct, ALL_GATHER, 0, err);
    return status == SP_OK
               ? swap_first(direct->program, direct->name, exchange->rank, exchange->axis, &direct->name, err)
               : status;
}

/* The piece along `axis` in as many equal parts as there are ranks. */
static enum sp_status cut_equal(struct direct *direct, const char *name, uint32_t axis, int64_t size,
                                const char **names, struct sp_error *err)
{
    const struct sp_program_tensor x = {.name = name, .rank = direct->exchange->rank};
    struct sp_range ranges[SP_MAX_RANK];
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < direct->exchange->rank; i++)
        ranges[i] = (struct sp_range){0, -1};
    for (uint32_t i = 0; status == SP_OK && i < direct->ranks.count; i++) {
        ranges[axis] = (struct sp_range){i * size, (i + 1) * size};
        status = sp_program_slice(direct->program, &x, ranges, NULL, &names[i], err);
    }
    return status;
}

/* The blocks for all ranks lie along the first axis, and those of all ranks come back along it. */
static enum sp_status all_to_all(struct direct *direct, struct sp_device_walk *walk, struct sp_error *err)
{
    const struct sp_exchange *exchange = direct->exchange;
    const uint32_t count = direct->ranks.count;
    const int64_t *before = direct->member->before->dims;
    const char **names = SP_NEW_ARRAY(walk->scratch, count, const char *);
    if (names == NULL)
        return sp_fail_memory(err);
    assert(count > 0);
    const int64_t first = exchange->axis == 0 ? before[0] / count : before[0]; /* of a block along the first axis */
    enum sp_status status = cut_equal(direct, direct->name, exchange->axis, before[exchange->axis] / count, names, err);
    if (status == SP_OK)
        status = sp_program_concat(direct->program, 0, count, names, NULL, &direct->name, err);
    if (status == SP_OK)
        status = emit(direct, ALL_TO_ALL, 0, err);
    if (status == SP_OK)
        status = cut_equal(direct, direct->name, 0, first, names, err);
    return status == SP_OK
               ? sp_program_concat(direct->program, exchange->other_axis, count, names, NULL, &direct->name, err)
               : status;
}

enum sp_status sp_device_put_collective(struct sp_device_walk *walk, const struct sp_exchange *exchange,
                                        enum sp_device_form form, uint32_t member, struct sp_error *err)
{
    struct direct direct = {walk->program, walk->plan, exchange, &exchange->members[member]};
    const enum sp_dtype wire = sp_device_carried_type(walk->plan, exchange->dtype);
    if (direct.member->device != walk->device) /* a rank that no group has */
        return SP_OK;
    direct.program->hint = direct.member->after->name;
    direct.name = sp_program_name(direct.program, direct.member->before);
    enum sp_status status = find_ranks(walk, member, &direct, err);
    if (status == SP_OK)
        status = to_type(direct.program, direct.name, exchange->dtype, wire, &direct.name, err);
    if (status == SP_OK && form == SP_FORM_ALL_REDUCE)
        status = emit(&direct, ALL_REDUCE, 0, err);
    else if (status == SP_OK && form == SP_FORM_REDUCE_SCATTER)
        status = reduce_scatter(&direct, err);
    else if (status == SP_OK && form == SP_FORM_ALL_GATHER)
        status = all_gather(&direct, err);
    else if (status == SP_OK)
        status = all_to_all(&direct, walk, err);
    if (status == SP_OK)
        status = to_type(direct.program, direct.name, wire, exchange->dtype, &direct.name, err);
    return status == SP_OK ? sp_program_alias(direct.program, direct.member->after, direct.name, err) : status;
}

/* ---- all pieces to everybody --------------------------------------------------------------------------------------
 */

struct gathering {
    struct sp_device_walk *walk;
    struct sp_program *program;
    const struct sp_exchange *exchange;
    const struct sp_world *world;
    enum sp_dtype wire;
    int64_t dims[SP_MAX_RANK + 1]; /* 1, and then the largest extents */
};

static bool is_of_world(const struct gathering *gathering, uint32_t member)
{
    const struct sp_exchange_member *of = &gathering->exchange->members[member];
    return of->before != NULL &&
           &gathering->walk->plan->worlds[gathering->walk->plan->devices[of->device].world] == gathering->world;
}

/* The device's piece, filled up; zeros where it has none. */
static enum sp_status fill_up(struct gathering *gathering, const char **ret_name, struct sp_error *err)
{
    const struct sp_exchange *exchange = gathering->exchange;
    struct sp_program *program = gathering->program;
    const struct sp_piece *own = NULL;
    int64_t dims[SP_MAX_RANK];
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < exchange->member_count; i++) {
        if (exchange->members[i].device != gathering->walk->device || exchange->members[i].before == NULL)
            continue;
        own = exchange->members[i].before;
        (void)sp_device_held_dims(exchange, i, dims);
    }
    if (own == NULL)
        return put_zeros(program, gathering->wire, exchange->rank, gathering->dims + 1, ret_name, err);
    status = to_type(program, sp_program_name(program, own), exchange->dtype, gathering->wire, ret_name, err);
    for (uint32_t i = 0; status == SP_OK && i < exchange->rank; i++) {
        const char *parts[2] = {*ret_name};
        const int64_t missing = gathering->dims[i + 1] - dims[i];
        if (missing == 0)
            continue;
        dims[i] = missing;
        status = put_zeros(program, gathering->wire, exchange->rank, dims, &parts[1], err);
        if (status == SP_OK)
            status = sp_program_concat(program, i, 2, parts, NULL, ret_name, err);
        dims[i] = gathering->dims[i + 1];
    }
    return status;
}

/* A rank's row as the piece that it was. */
static enum sp_status take_row(struct gathering *gathering, const char *all, uint32_t member, const char **ret_name,
                               struct sp_error *err)
{
    const struct sp_exchange *exchange = gathering->exchange;
    const struct sp_piece *before = exchange->members[member].before;
    const int64_t rank = gathering->walk->plan->devices[before->device].rank;
    struct sp_range ranges[SP_MAX_RANK + 1] = {{rank, rank + 1}};
    int64_t dims[SP_MAX_RANK];
    (void)sp_device_held_dims(exchange, member, dims);
    for (uint32_t i = 0; i < exchange->rank; i++)
        ranges[i + 1] = (struct sp_range){0, dims[i]};
    const struct sp_program_tensor rows = {.name = all, .rank = exchange->rank + 1};
    enum sp_status status = sp_program_slice(gathering->program, &rows, ranges, NULL, ret_name, err);
    if (status == SP_OK)
        status = reshape(gathering->program, *ret_name, exchange->rank, dims, ret_name, err);
    return status == SP_OK ? to_type(gathering->program, *ret_name, gathering->wire, exchange->dtype, ret_name, err)
                           : status;
}

/* One element, under a name of its own. */
static enum sp_status keep_some(struct gathering *gathering, const char *all, const char *kept, struct sp_error *err)
{
    struct sp_range ranges[SP_MAX_RANK + 1];
    const int64_t one = 1;
    const char *name;
    for (uint32_t i = 0; i <= gathering->exchange->rank; i++)
        ranges[i] = (struct sp_range){0, 1};
    const struct sp_program_tensor rows = {.name = all, .rank = gathering->exchange->rank + 1};
    enum sp_status status = sp_program_slice(gathering->program, &rows, ranges, NULL, &name, err);
    if (status == SP_OK)
        status = reshape(gathering->program, name, 1, &one, &name, err);
    if (status == SP_OK)
        status = to_type(gathering->program, name, gathering->wire, gathering->exchange->dtype, &name, err);
    const struct sp_program_op op = {.op_type = "Identity", .input_count = 1, .inputs = &name, .want = kept};
    return status == SP_OK ? sp_program_emit(gathering->program, &op, &name, err) : status;
}

static bool list_world(struct ranks *ranks, struct sp_arena *arena)
{
    int64_t *items = SP_NEW_ARRAY(arena, ranks->count, int64_t);
    for (uint32_t i = 0; items != NULL && i < ranks->count; i++)
        items[i] = i;
    ranks->items = items;
    return items != NULL;
}

enum sp_status sp_device_put_gather(struct sp_device_walk *walk, const struct sp_exchange *exchange, const bool *wanted,
                                    const char *kept, const char **ret_names, struct sp_error *err)
{
    const struct sp_device_state *state = &walk->plan->devices[walk->device];
    struct gathering gathering = {walk,
                                  walk->program,
                                  exchange,
                                  &walk->plan->worlds[state->world],
                                  sp_device_carried_type(walk->plan, exchange->dtype),
                                  {1}};
    struct direct direct = {.program = gathering.program, .plan = walk->plan, .exchange = exchange};
    direct.ranks = (struct ranks){gathering.world->size, NULL};
    if (walk->plan->forms.lists_world && !list_world(&direct.ranks, walk->scratch))
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < exchange->member_count; i++) {
        int64_t dims[SP_MAX_RANK];
        if (!is_of_world(&gathering, i) || !sp_device_held_dims(exchange, i, dims))
            continue;
        for (uint32_t k = 0; k < exchange->rank; k++)
            gathering.dims[k + 1] = dims[k] > gathering.dims[k + 1] ? dims[k] : gathering.dims[k + 1];
    }
    enum sp_status status = fill_up(&gathering, &direct.name, err);
    if (status == SP_OK)
        status = reshape(direct.program, direct.name, exchange->rank + 1, gathering.dims, &direct.name, err);
    if (status == SP_OK)
        status = emit(&direct, ALL_GATHER, 0, err);
    for (uint32_t i = 0; status == SP_OK && i < exchange->member_count; i++) {
        if (wanted[i] && is_of_world(&gathering, i) && exchange->members[i].device != walk->device)
            status = take_row(&gathering, direct.name, i, &ret_names[i], err);
    }
    if (status == SP_OK && kept != NULL)
        status = keep_some(&gathering, direct.name, kept, err);
    return status;
}
