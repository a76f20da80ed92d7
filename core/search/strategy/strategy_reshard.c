/*
 * The times of getting a tensor from one layout to another: questions that are equal are asked once.
 */
#include <math.h>
#include <string.h>

#include "search/strategy/strategy_internal.h"

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static bool is_same_shape(const void *item, const void *key)
{
    const struct sp_strategy_shape *a = item, *b = key;
    return a->rank == b->rank && a->element_bytes == b->element_bytes && (a->extents == NULL) == (b->extents == NULL) &&
           (a->extents == NULL || a->rank == 0 || memcmp(a->extents, b->extents, a->rank * sizeof *a->extents) == 0);
}

enum sp_status sp_strategy_shape_of(struct sp_strategy_table *table, uint32_t tensor,
                                    const struct sp_strategy_shape **ret_shape, struct sp_error *err)
{
    const struct sp_work_tensor *work = &table->workload->tensors[tensor];
    const struct sp_shape *shape = work->value != NULL ? &work->value->type.shape : NULL;
    int64_t extents[SP_MAX_RANK], elements = shape != NULL ? sp_shape_elements(shape) : -1;
    struct sp_strategy_shape key = {0}, *known;
    struct sp_digest digest;
    *ret_shape = table->shape_of[tensor];
    if (*ret_shape != NULL)
        return SP_OK;
    if (elements > 0 && shape->rank <= SP_MAX_RANK) {
        for (uint32_t a = 0; a < shape->rank; a++)
            extents[a] = shape->dims[a].value;
        key = (struct sp_strategy_shape){0, shape->rank, extents, work->bytes / (double)elements};
    }
    sp_digest_begin(&digest, table->dataflow->model->hash_seed);
    sp_digest_number(&digest, key.rank);
    sp_digest_add(&digest, &key.element_bytes, sizeof key.element_bytes);
    sp_digest_add(&digest, extents, key.extents != NULL ? key.rank * sizeof *extents : 0);
    uint64_t hash = sp_digest_end(&digest);
    known = sp_hash_set_find(&table->shape_set, hash, is_same_shape, &key);
    if (known == NULL) {
        int64_t *kept = SP_NEW_ARRAY(table->arena, key.rank, int64_t);
        known = SP_NEW(table->arena, struct sp_strategy_shape);
        if (kept == NULL || known == NULL || !sp_hash_set_add(&table->shape_set, hash, known))
            return sp_fail_memory(err);
        if (key.rank > 0)
            memcpy(kept, extents, key.rank * sizeof *kept);
        *known = key;
        known->extents = key.extents != NULL ? kept : NULL;
        known->number = ++table->shape_count;
    }
    *ret_shape = table->shape_of[tensor] = known;
    return SP_OK;
}

/* ---- reshards --------------------------------------------------------------------------------------------------- */

/* A reshard up to the names of tensor axes: where all cuts are even, its cost follows from the tensor's bytes. */
struct question {
    double tensor_bytes;
    struct sp_layout from, to;
};

struct answer {
    struct question question;
    double seconds, bytes;
};

static bool is_same_question(const void *item, const void *key)
{
    const struct question *a = &((const struct answer *)item)->question, *b = key;
    return a->tensor_bytes == b->tensor_bytes && memcmp(&a->from, &b->from, sizeof a->from) == 0 &&
           memcmp(&a->to, &b->to, sizeof a->to) == 0;
}

/* Renames tensor axes by their first place among the digits; `names` are of axes, 0: none yet. */
static void rename_axes(uint32_t digits, struct sp_layout *layout, uint8_t names[SP_MAX_RANK], uint8_t *count)
{
    for (uint32_t d = 0; d < digits; d++) {
        uint8_t axis = layout->axis[d];
        if (axis >= SP_MAX_RANK)
            continue;
        if (names[axis] == 0)
            names[axis] = ++*count;
        layout->axis[d] = names[axis] - 1;
    }
}

static bool is_even(const struct sp_strategy_layout *layout, const struct sp_strategy_shape *shape)
{
    for (uint32_t i = 0; i < layout->cut_count; i++)
        if (layout->axes[i] >= shape->rank || shape->extents[layout->axes[i]] % layout->shards[i] != 0)
            return false;
    return true;
}

/* Asks for a tensor of the same bytes in which every cut is even, so that equal questions have equal answers. */
static bool ask(struct sp_strategy_table *table, const struct sp_strategy_shape *shape,
                const struct sp_strategy_layout *from, const struct sp_strategy_layout *to, double *ret_seconds,
                double *ret_bytes)
{
    uint8_t names[SP_MAX_RANK] = {0}, count = 0;
    int64_t extents[SP_MAX_RANK];
    struct question question;
    struct sp_digest digest;
    memset(&question, 0, sizeof question);
    question = (struct question){shape->element_bytes, from->layout, to->layout};
    for (uint32_t a = 0; a < shape->rank; a++)
        question.tensor_bytes *= (double)shape->extents[a];
    rename_axes(table->first_digit[SP_STRATEGY_AXES], &question.from, names, &count);
    rename_axes(table->first_digit[SP_STRATEGY_AXES], &question.to, names, &count);
    sp_digest_begin(&digest, table->dataflow->model->hash_seed);
    sp_digest_add(&digest, &question, sizeof question);
    uint64_t hash = sp_digest_end(&digest);
    struct answer *known = sp_hash_set_find(&table->answer_set, hash, is_same_question, &question);
    if (known == NULL) {
        double element_bytes = question.tensor_bytes;
        known = SP_NEW(table->arena, struct answer);
        if (known == NULL || !sp_hash_set_add(&table->answer_set, hash, known))
            return false;
        for (uint32_t a = 0; a < count; a++) {
            extents[a] = table->device_count;
            element_bytes /= table->device_count;
        }
        known->question = question;
        known->seconds =
            sp_reshard_cost(table->costs, count, extents, element_bytes, &question.from, &question.to, &known->bytes);
    }
    *ret_seconds = known->seconds;
    *ret_bytes = known->bytes;
    return true;
}

/* What requests for reshards to a layout share; NULL without memory. */
static struct sp_reshard_arrival *arrivals_of(struct sp_strategy_table *table, const struct sp_strategy_shape *shape,
                                              enum sp_dtype dtype, uint32_t to)
{
    const uint64_t key = (uint64_t)shape->number << 40 | (uint64_t)to << 20 | (uint64_t)dtype;
    struct sp_hash_slot *slot = sp_hash_map_put(&table->arrivals, key);
    if (slot != NULL && slot->item == NULL)
        slot->item = SP_NEW_ARRAY(table->arena, SP_RESHARD_MAX_ARRIVALS, struct sp_reshard_arrival);
    return slot != NULL ? slot->item : NULL;
}

/* No layout says to the costs what is cut behind major parts: the planner is asked. Nothing is sent where only more is
   cut. */
static double ask_planner(struct sp_strategy_table *table, const struct sp_strategy_shape *shape, enum sp_dtype dtype,
                          const struct sp_strategy_layout *from, const struct sp_strategy_layout *to, double *ret_bytes)
{
    struct sp_arena_mark mark = sp_arena_mark(table->scratch);
    struct sp_reshard_request request = {.links = &table->mesh.links,
                                         .rank = shape->rank,
                                         .shape = shape->extents,
                                         .dtype = dtype,
                                         .collectives_only = true,
                                         .counts_transfers = true};
    const struct sp_sharding *before, *after;
    struct sp_reshard *reshard;
    enum sp_status status = sp_strategy_sharding(table, table->scratch, shape->rank, from->number, 0, &before, NULL);
    if (status == SP_OK)
        status = sp_strategy_sharding(table, table->scratch, shape->rank, to->number, 0, &after, NULL);
    if (status == SP_OK) {
        request.from = before;
        request.to = after;
        if (!sp_strategy_has_inner(to))
            request.arrivals = arrivals_of(table, shape, dtype, to->number);
        status = sp_reshard_plan(table->scratch, &request, &reshard, NULL);
    }
    const double seconds = status == SP_OK ? reshard->seconds : INFINITY;
    *ret_bytes = status == SP_OK ? reshard->bytes : 0;
    sp_arena_rewind(table->scratch, mark);
    return seconds;
}

/* Among unequal devices, which have one axis: all is gathered, or exchanged. */
static double reshard_shares(const struct sp_strategy_table *table, uint32_t tensor, uint32_t from, uint32_t to,
                             double *ret_bytes)
{
    const double bytes = table->workload->tensors[tensor].bytes;
    if (from == 0)
        return 0; /* slices */
    return sp_strategy_collective(table, to == 0 ? SP_ALL_GATHER : SP_ALL_TO_ALL, 1, bytes, ret_bytes);
}

double sp_strategy_reshard(struct sp_strategy_table *table, uint32_t tensor, uint32_t from, uint32_t to,
                           double *ret_bytes)
{
    const struct sp_strategy_layout *before = table->layouts[from], *after = table->layouts[to];
    const struct sp_strategy_shape *shape;
    *ret_bytes = 0;
    if (from == to)
        return 0;
    if (sp_strategy_shape_of(table, tensor, &shape, NULL) != SP_OK || shape->extents == NULL)
        return INFINITY;
    if (table->mesh.member_count > 0)
        return reshard_shares(table, tensor, from, to, ret_bytes);
    uint64_t key = (uint64_t)shape->number << 40 | (uint64_t)from << 20 | to;
    const struct sp_hash_slot *slot = sp_hash_map_get(&table->reshards, key);
    struct sp_strategy_reshard *reshard = slot != NULL ? slot->item : SP_NEW(table->arena, struct sp_strategy_reshard);
    if (reshard == NULL)
        return INFINITY;
    if (slot == NULL) {
        if (sp_strategy_has_inner(before) || sp_strategy_has_inner(after))
            reshard->seconds = ask_planner(table, shape, table->workload->tensors[tensor].value->type.dtype, before,
                                           after, &reshard->bytes);
        else if (!is_even(before, shape) || !is_even(after, shape))
            reshard->seconds = sp_reshard_cost(table->costs, shape->rank, shape->extents, shape->element_bytes,
                                               &before->layout, &after->layout, &reshard->bytes);
        else if (!ask(table, shape, before, after, &reshard->seconds, &reshard->bytes))
            return INFINITY;
        if (!sp_hash_set_add(&table->reshards, key, reshard))
            return INFINITY;
    }
    *ret_bytes = reshard->bytes;
    return reshard->seconds;
}

double sp_strategy_cut_seconds(struct sp_strategy_table *table, uint32_t tensor, uint32_t layout, enum sp_cut_side side)
{
    const struct sp_strategy_mesh *mesh = &table->mesh;
    const enum sp_kernel_class class = sp_work_cut_class(table->workload, mesh->kind, tensor);
    const double bytes = sp_strategy_local_bytes(table, tensor, layout);
    double seconds = 0;
    if (side == SP_CUT_BOTH && sp_device_runtime(mesh->device)->joins_collectives)
        return 0;
    if (side & SP_CUT_BEFORE)
        seconds += sp_roofline_cut_seconds(mesh->device, mesh->cluster, class, bytes, false);
    if (side & SP_CUT_BEHIND)
        seconds += sp_roofline_cut_seconds(mesh->device, mesh->cluster, class, bytes, true);
    return seconds;
}

double sp_strategy_reshard_seconds(struct sp_strategy_table *table, uint32_t tensor, uint32_t from, uint32_t to)
{
    double bytes;
    return sp_strategy_reshard(table, tensor, from, to, &bytes);
}

/* ---- from block to block ---------------------------------------------------------------------------------------- */

struct noted_transfer {
    struct sp_strategy_transfer transfer;
    struct sp_strategy_ends ends;
    uint32_t shape;
};

static bool is_same_transfer(const void *item, const void *key)
{
    const struct noted_transfer *a = item, *b = key;
    return a->shape == b->shape && memcmp(&a->ends, &b->ends, sizeof a->ends) == 0;
}

struct sp_strategy_transfer *sp_strategy_transfer_of(struct sp_strategy_table *table, uint32_t tensor,
                                                     const struct sp_strategy_ends *ends)
{
    const struct sp_strategy_shape *shape;
    struct noted_transfer key = {.ends = *ends}, *known;
    struct sp_digest digest;
    if (sp_strategy_shape_of(table, tensor, &shape, NULL) != SP_OK || shape->extents == NULL)
        return NULL;
    key.shape = shape->number;
    sp_digest_begin(&digest, table->dataflow->model->hash_seed);
    sp_digest_number(&digest, key.shape);
    sp_digest_add(&digest, ends, sizeof *ends);
    uint64_t hash = sp_digest_end(&digest);
    known = sp_hash_set_find(&table->transfers, hash, is_same_transfer, &key);
    if (known != NULL)
        return &known->transfer;
    known = SP_NEW(table->arena, struct noted_transfer);
    if (known == NULL || !sp_hash_set_add(&table->transfers, hash, known))
        return NULL;
    *known = key;
    return &known->transfer;
}
