/*
 * Operators whose results depend on places: Gather and Scatter, TopK and ArgMax, Trilu, CumSum.
 *
 * An index may be known or follow from data; then the field and the reals may have different ones, and each part is
 * taken from where its own index says.
 */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "verify/operators/evaluate.h"

/* The two places that an index of an axis stands for; false where one of them is not looked at. */
static bool places_at(const struct sp_index_axis *axis, struct sp_number index, int64_t ret[2])
{
    const int64_t values[2] = {(int64_t)index.field, fabs(index.real) < 0x1p60 ? (int64_t)index.real : -1};
    for (int k = 0; k < 2; k++) {
        ret[k] = sp_index_find(axis, values[k] < 0 ? values[k] + axis->extent : values[k]);
        if (ret[k] < 0)
            return false;
    }
    return true;
}

static enum sp_status refuse_place(struct sp_call *call)
{
    return sp_call_refuse(call, "an index is not among those that are looked at");
}

static enum sp_status evaluate_gather(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *indices = sp_call_in(call, 1);
    struct sp_index_axis axes[SP_MAX_RANK];
    uint32_t axis, rank = 0;
    if (x == NULL || indices == NULL || x->rank + indices->rank > SP_MAX_RANK)
        return sp_call_refuse(call, "an operand is missing");
    enum sp_status status = sp_call_axis(call, sp_node_int(call->node, "axis", 0), x->rank, &axis);
    if (status != SP_OK)
        return status;
    uint64_t outer = 1, inner = 1;
    for (uint32_t i = 0; i < x->rank; i++) {
        outer *= i < axis ? x->axes[i].count : 1;
        inner *= i > axis ? x->axes[i].count : 1;
        if (i != axis)
            axes[rank++] = x->axes[i];
        for (uint32_t j = 0; i == axis && j < indices->rank; j++)
            axes[rank++] = indices->axes[j];
    }
    status = sp_numbers_create(call->arena, x->dtype, rank, axes, &call->out[0], call->err);
    if (status != SP_OK)
        return status;
    for (uint64_t j = 0; j < indices->count; j++) {
        int64_t places[2];
        if (!places_at(&x->axes[axis], indices->items[j], places))
            return refuse_place(call);
        for (uint64_t i = 0; i < outer; i++) {
            struct sp_number *to = &call->out[0]->items[(i * indices->count + j) * inner];
            const struct sp_number *base = &x->items[i * x->axes[axis].count * inner];
            for (uint64_t k = 0; k < inner; k++)
                to[k] = (struct sp_number){base[(uint64_t)places[0] * inner + k].field,
                                           base[(uint64_t)places[1] * inner + k].real};
        }
    }
    call->out[0]->is_known = x->is_known && indices->is_known;
    return SP_OK;
}

/* How ScatterElements and ScatterND join what is there with what comes; NULL: they replace it. */
static sp_number2 reduction_of(const struct sp_call *call, const struct sp_numbers *x)
{
    const char *name = sp_node_string(call->node, "reduction", "none");
    const bool is_float = sp_dtype_is_float(x->dtype);
    return strcmp(name, "add") == 0   ? is_float ? sp_number_add : sp_integer_add
           : strcmp(name, "mul") == 0 ? is_float ? sp_number_multiply : sp_integer_multiply
           : strcmp(name, "max") == 0 ? is_float ? sp_number_max : sp_integer_max
           : strcmp(name, "min") == 0 ? is_float ? sp_number_min : sp_integer_min
                                      : NULL;
}

static void put(struct sp_number *to, struct sp_number value, bool is_field, sp_number2 reduce)
{
    const struct sp_number joined = reduce != NULL ? reduce(*to, value) : value;
    if (is_field)
        to->field = joined.field;
    else
        to->real = joined.real;
}

/* GatherElements and ScatterElements. */
static enum sp_status evaluate_elements(struct sp_call *call)
{
    const bool gathers = call->node->op_type[0] == 'G';
    const struct sp_numbers *x = sp_call_in(call, 0), *indices = sp_call_in(call, 1), *updates = sp_call_in(call, 2);
    int64_t strides[SP_MAX_RANK];
    uint32_t axis;
    if (x == NULL || indices == NULL || (!gathers && updates == NULL) || indices->rank != x->rank || x->rank == 0 ||
        (!gathers && updates->count != indices->count))
        return sp_call_refuse(call, "an operand is missing");
    enum sp_status status = sp_call_axis(call, sp_node_int(call->node, "axis", 0), x->rank, &axis);
    if (status == SP_OK && gathers)
        status = sp_numbers_create(call->arena, x->dtype, x->rank, indices->axes, &call->out[0], call->err);
    else if (status == SP_OK)
        status = sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
    if (status != SP_OK)
        return status;
    const sp_number2 reduce = reduction_of(call, x);
    struct sp_numbers *out = call->out[0];
    if (!gathers && x->count > 0)
        memcpy(out->items, x->items, x->count * sizeof *x->items);
    sp_numbers_strides(x, strides);
    struct sp_strides walk = {.rank = x->rank, .tensors = 0};
    for (uint32_t i = 0; i < x->rank; i++)
        walk.counts[i] = indices->axes[i].count;
    for (uint64_t i = 0; i < indices->count; i++, sp_strides_step(&walk)) {
        int64_t places[2], base = 0;
        if (!places_at(&x->axes[axis], indices->items[i], places))
            return refuse_place(call);
        for (uint32_t k = 0; k < x->rank; k++) {
            const int64_t at =
                k == axis ? 0 : sp_index_find(&x->axes[k], sp_index_at(&indices->axes[k], (uint32_t)walk.positions[k]));
            if (at < 0)
                return refuse_place(call);
            base += at * strides[k];
        }
        for (int k = 0; k < 2; k++) {
            const int64_t place = base + places[k] * strides[axis];
            if (gathers)
                put(&out->items[i], x->items[place], k == 0, NULL);
            else
                put(&out->items[place], updates->items[i], k == 0, reduce);
        }
    }
    out->is_known = x->is_known && indices->is_known && (gathers || updates->is_known);
    return SP_OK;
}

/* The tuples with their places along the batch axes in front. */
static enum sp_status add_batch(struct sp_call *call, const struct sp_numbers *x, const struct sp_numbers *indices,
                                int64_t batch, struct sp_numbers **ret)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    const uint32_t last = indices->rank - 1, depth = indices->axes[last].count;
    if (batch < 0 || batch > last || batch >= x->rank || !sp_numbers_is_complete(indices))
        return sp_call_refuse(call, "its batch axes do not fit its indices");
    for (uint32_t i = 0; i < last; i++)
        axes[i] = indices->axes[i];
    axes[last] = sp_index_all(indices->axes[last].extent + batch);
    enum sp_status status = sp_numbers_create(call->arena, indices->dtype, indices->rank, axes, ret, call->err);
    struct sp_strides walk = {.rank = last};
    for (uint32_t i = 0; i < last; i++)
        walk.counts[i] = axes[i].count;
    for (uint64_t n = 0; status == SP_OK && depth > 0 && n < indices->count / depth; n++, sp_strides_step(&walk)) {
        struct sp_number *to = &(*ret)->items[n * (depth + (uint64_t)batch)];
        for (uint32_t i = 0; i < batch; i++)
            to[i] = sp_number_of_int((int64_t)walk.positions[i]);
        memcpy(to + batch, &indices->items[n * depth], depth * sizeof *to);
    }
    if (status == SP_OK)
        (*ret)->is_known = indices->is_known;
    return status;
}

/* GatherND and ScatterND: tuples of indices along the last axis. Batch axes are tuples of their own. */
static enum sp_status evaluate_tuples(struct sp_call *call)
{
    const bool gathers = call->node->op_type[0] == 'G';
    const struct sp_numbers *x = sp_call_in(call, 0), *indices = sp_call_in(call, 1), *updates = sp_call_in(call, 2);
    struct sp_index_axis axes[SP_MAX_RANK];
    int64_t strides[SP_MAX_RANK];
    uint32_t rank = 0;
    const int64_t batch = sp_node_int(call->node, "batch_dims", 0);
    if (x == NULL || indices == NULL || (!gathers && updates == NULL) || indices->rank == 0)
        return sp_call_refuse(call, "an operand is missing");
    if (batch != 0) {
        struct sp_numbers *with_batch;
        enum sp_status added = add_batch(call, x, indices, batch, &with_batch);
        if (added != SP_OK)
            return added;
        indices = with_batch;
    }
    const uint32_t depth = indices->axes[indices->rank - 1].count;
    if (depth > x->rank || indices->axes[indices->rank - 1].extent != depth || x->rank + indices->rank > SP_MAX_RANK)
        return sp_call_refuse(call, "its indices do not fit its input");
    for (uint32_t i = 0; i + 1 < indices->rank; i++)
        axes[rank++] = indices->axes[i];
    for (uint32_t i = depth; i < x->rank; i++)
        axes[rank++] = x->axes[i];
    const sp_number2 reduce = reduction_of(call, x);
    enum sp_status status = gathers
                                ? sp_numbers_create(call->arena, x->dtype, rank, axes, &call->out[0], call->err)
                                : sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
    if (status != SP_OK)
        return status;
    struct sp_numbers *out = call->out[0];
    if (!gathers && x->count > 0)
        memcpy(out->items, x->items, x->count * sizeof *x->items);
    sp_numbers_strides(x, strides);
    const uint64_t tuples = depth > 0 ? indices->count / depth : 1;
    uint64_t inner = 1;
    for (uint32_t i = depth; i < x->rank; i++)
        inner *= x->axes[i].count;
    if (!gathers && updates->count != tuples * inner)
        return sp_call_refuse(call, "its updates do not fit its indices");
    for (uint64_t i = 0; i < tuples; i++) {
        int64_t base[2] = {0, 0};
        for (uint32_t k = 0; k < depth; k++) {
            int64_t places[2];
            if (!places_at(&x->axes[k], indices->items[i * depth + k], places))
                return refuse_place(call);
            base[0] += places[0] * strides[k];
            base[1] += places[1] * strides[k];
        }
        for (uint64_t j = 0; j < 2 * inner; j++) {
            const int64_t place = base[j % 2] + (int64_t)(j / 2);
            if (gathers)
                put(&out->items[i * inner + j / 2], x->items[place], j % 2 == 0, NULL);
            else
                put(&out->items[place], updates->items[i * inner + j / 2], j % 2 == 0, reduce);
        }
    }
    out->is_known = x->is_known && indices->is_known && (gathers || updates->is_known);
    return SP_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

struct ranked {
    struct sp_number number;
    uint32_t index;
};
enum order { BY_FIELD, BY_INTEGER, BY_REAL };

static int compare(const struct ranked *a, const struct ranked *b, enum order order)
{
    const bool is_less = order == BY_FIELD     ? sp_field_is_less(a->number.field, b->number.field)
                         : order == BY_INTEGER ? (int64_t)a->number.field < (int64_t)b->number.field
                                               : a->number.real < b->number.real;
    const bool is_more = order == BY_FIELD     ? sp_field_is_less(b->number.field, a->number.field)
                         : order == BY_INTEGER ? (int64_t)a->number.field > (int64_t)b->number.field
                                               : a->number.real > b->number.real;
    return is_less ? -1 : is_more ? 1 : 0;
}

/* Sorts so that the largest (or smallest) comes first, and of equal ones the first (or last). */
static void sort(struct ranked *items, uint32_t count, enum order order, bool largest, bool last)
{
    for (uint32_t i = 1; i < count; i++) {
        const struct ranked item = items[i];
        uint32_t low = 0, high = i;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            const int sign = compare(&items[middle], &item, order);
            const bool is_before = sign == 0 ? !last : (sign > 0) == largest;
            if (is_before)
                low = middle + 1;
            else
                high = middle;
        }
        memmove(&items[low + 1], &items[low], (i - low) * sizeof *items);
        items[low] = item;
    }
}

/* The first `k` of the order along an axis. */
struct wanted {
    uint32_t axis, k;
    bool largest, last; /* of equal ones the last comes first */
};

/* Their values and indices, for each part of the numbers. */
static enum sp_status pick(struct sp_call *call, const struct sp_numbers *x, struct wanted wanted,
                           struct sp_numbers *values, struct sp_numbers *indices)
{
    const uint32_t axis = wanted.axis, k = wanted.k;
    const uint32_t count = x->axes[axis].count;
    struct ranked *items = SP_NEW_ARRAY(call->arena, count, struct ranked);
    uint64_t inner = 1, outer = 1;
    if (items == NULL)
        return sp_fail_memory(call->err);
    for (uint32_t i = 0; i < x->rank; i++) {
        outer *= i < axis ? x->axes[i].count : 1;
        inner *= i > axis ? x->axes[i].count : 1;
    }
    for (uint64_t n = 0; n < 2 * outer * inner; n++) {
        const uint64_t row = n / 2, base = row / inner * count * inner + row % inner;
        const enum order order = n % 2 == 1 || x->is_known     ? BY_REAL
                                 : sp_dtype_is_float(x->dtype) ? BY_FIELD
                                                               : BY_INTEGER;
        for (uint32_t i = 0; i < count; i++)
            items[i] = (struct ranked){x->items[base + i * inner], i};
        sort(items, count, order, wanted.largest, wanted.last);
        for (uint32_t i = 0; i < k; i++) {
            const uint64_t place = row / inner * k * inner + i * inner + row % inner;
            if (values != NULL)
                put(&values->items[place], items[i].number, n % 2 == 0, NULL);
            put(&indices->items[place], sp_number_of_int(items[i].index), n % 2 == 0, NULL);
        }
    }
    indices->is_known = x->is_known;
    if (values != NULL)
        values->is_known = x->is_known;
    return SP_OK;
}

static enum sp_status evaluate_top_k(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_index_axis axes[SP_MAX_RANK];
    const int64_t *list;
    uint32_t axis, count;
    if (x == NULL || call->out_count < 2 || sp_node_int(call->node, "sorted", 1) != 1)
        return sp_call_refuse(call, "it gives its results in no order");
    enum sp_status status = sp_call_axis(call, sp_node_int(call->node, "axis", -1), x->rank, &axis);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "k", 1, &count, &list);
    if (status != SP_OK)
        return status;
    const int64_t k = list != NULL && count == 1 ? list[0] : -1;
    if (k < 0 || k > x->axes[axis].extent || x->axes[axis].count != x->axes[axis].extent)
        return sp_call_refuse(call, "it orders an axis of which not all is looked at");
    for (uint32_t i = 0; i < x->rank; i++)
        axes[i] = i == axis ? sp_index_all(k) : x->axes[i];
    status = sp_numbers_create(call->arena, x->dtype, x->rank, axes, &call->out[0], call->err);
    if (status == SP_OK)
        status = sp_numbers_create(call->arena, SP_DTYPE_INT64, x->rank, axes, &call->out[1], call->err);
    return status == SP_OK
               ? pick(call, x, (struct wanted){axis, (uint32_t)k, sp_node_int(call->node, "largest", 1) != 0, false},
                      call->out[0], call->out[1])
               : status;
}

static enum sp_status evaluate_arg(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_index_axis axes[SP_MAX_RANK];
    struct sp_numbers *indices;
    uint32_t axis, rank = 0;
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    enum sp_status status = sp_call_axis(call, sp_node_int(call->node, "axis", 0), x->rank, &axis);
    if (status != SP_OK || x->axes[axis].count != x->axes[axis].extent || x->axes[axis].count == 0)
        return status != SP_OK ? status : sp_call_refuse(call, "it orders an axis of which not all is looked at");
    for (uint32_t i = 0; i < x->rank; i++)
        axes[i] = i == axis ? sp_index_all(1) : x->axes[i];
    status = sp_numbers_create(call->arena, SP_DTYPE_INT64, x->rank, axes, &indices, call->err);
    if (status == SP_OK)
        status = pick(call, x,
                      (struct wanted){axis, 1, strcmp(call->node->op_type, "ArgMax") == 0,
                                      sp_node_int(call->node, "select_last_index", 0) != 0},
                      NULL, indices);
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i != axis || sp_node_int(call->node, "keepdims", 1) != 0)
            axes[rank++] = i == axis ? sp_index_all(1) : x->axes[i];
    }
    return status == SP_OK ? sp_numbers_view(call->arena, indices, rank, axes, &call->out[0], call->err) : status;
}

/* ---- by position ------------------------------------------------------------------------------------------------ */

static enum sp_status evaluate_trilu(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const int64_t *k = NULL;
    uint32_t count = 0;
    if (x == NULL || x->rank < 2)
        return sp_call_refuse(call, "its input has no two axes");
    enum sp_status status = SP_OK;
    if (sp_call_in(call, 1) != NULL)
        status = sp_call_ints(call, 1, &count, &k);
    if (status == SP_OK)
        status = sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
    const bool upper = sp_node_int(call->node, "upper", 1) != 0;
    const struct sp_index_axis *rows = &x->axes[x->rank - 2], *columns = &x->axes[x->rank - 1];
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++) {
        const int64_t row = sp_index_at(rows, (uint32_t)(i / columns->count % rows->count)),
                      column = sp_index_at(columns, (uint32_t)(i % columns->count));
        const int64_t distance = column - row - (count == 1 ? k[0] : 0);
        if (upper ? distance >= 0 : distance <= 0)
            call->out[0]->items[i] = x->items[i];
    }
    if (status == SP_OK)
        call->out[0]->is_known = x->is_known;
    return status;
}

static enum sp_status evaluate_cumulative(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const int64_t *list;
    uint32_t axis, count;
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    enum sp_status status = sp_call_ints(call, 1, &count, &list);
    if (status == SP_OK)
        status = count == 1 ? sp_call_axis(call, list[0], x->rank, &axis) : sp_call_refuse(call, "it has no axis");
    if (status == SP_OK)
        status = sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
    if (status != SP_OK)
        return status;
    const bool exclusive = sp_node_int(call->node, "exclusive", 0) != 0,
               backwards = sp_node_int(call->node, "reverse", 0) != 0;
    const sp_number2 add = sp_dtype_is_float(x->dtype) ? sp_number_add : sp_integer_add;
    const uint32_t length = x->axes[axis].count;
    uint64_t inner = 1;
    for (uint32_t i = axis + 1; i < x->rank; i++)
        inner *= x->axes[i].count;
    for (uint64_t row = 0; length > 0 && row < x->count / length; row++) {
        struct sp_number sum = {0, 0};
        for (uint32_t i = 0; i < length; i++) {
            const uint64_t at = row / inner * length * inner + row % inner + (backwards ? length - 1 - i : i) * inner;
            const struct sp_number next = add(sum, x->items[at]);
            call->out[0]->items[at] = exclusive ? sum : next;
            sum = next;
        }
    }
    call->out[0]->is_known = x->is_known;
    return SP_OK;
}

const struct sp_evaluator_entry sp_evaluators_places[] = {
    {"Gather", evaluate_gather},
    {"TorchEmbedding", evaluate_gather},
    {"GatherElements", evaluate_elements},
    {"ScatterElements", evaluate_elements},
    {"Scatter", evaluate_elements},
    {"GatherND", evaluate_tuples},
    {"ScatterND", evaluate_tuples},
    {"TopK", evaluate_top_k},
    {"ArgMax", evaluate_arg},
    {"ArgMin", evaluate_arg},
    {"Trilu", evaluate_trilu},
    {"CumSum", evaluate_cumulative},
    {NULL, NULL},
};
