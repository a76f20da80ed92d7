/*
 * Contractions: sums of products of tensors whose axes have labels.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/rearrange.h"
#include "verify/sums.h"

struct contraction {
    struct sp_arena *arena;
    uint32_t count, label_count;
    struct sp_index_axis axes[SP_LABELS]; /* of each label; extent -1: none yet */
    struct sp_strides walk;               /* over the result's labels, then those that are summed over */
    uint8_t order[SP_LABELS];
    struct sp_error *err;
};

static enum sp_status find_axes(struct contraction *work, const struct sp_labelled *operands)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < SP_LABELS; i++)
        work->axes[i].extent = -1;
    for (uint32_t k = 0; k < work->count; k++) {
        for (uint32_t i = 0; status == SP_OK && i < operands[k].x->rank; i++) {
            struct sp_index_axis *axis = &work->axes[operands[k].labels[i]];
            const struct sp_index_axis *own = &operands[k].x->axes[i];
            if (axis->extent == -1 || axis->extent == 1)
                *axis = *own;
            else if (own->extent != 1 && own->extent != axis->extent)
                status = sp_fail(work->err, SP_ERR_MODEL, "SHAPES_DIFFER",
                                 "Its operands have %lld and %lld elements on one axis.", (long long)axis->extent,
                                 (long long)own->extent);
            else if (own->extent != 1)
                status = sp_index_common(work->arena, axis, own, axis, work->err);
        }
    }
    return status;
}

/* The operand with the labels' indices on each axis. */
static enum sp_status fit(struct contraction *work, const struct sp_labelled *operand, const struct sp_numbers **ret)
{
    const struct sp_numbers *x = operand->x;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < x->rank; i++) {
        const struct sp_index_axis *axis = &work->axes[operand->labels[i]];
        struct sp_numbers *next;
        if (x->axes[i].extent == 1 || sp_index_equal(axis, &x->axes[i]))
            continue;
        uint32_t *from = SP_NEW_ARRAY(work->arena, axis->count, uint32_t);
        if (from == NULL)
            return sp_fail_memory(work->err);
        for (uint32_t j = 0; j < axis->count; j++)
            from[j] = (uint32_t)sp_index_find(&x->axes[i], sp_index_at(axis, j));
        status = sp_numbers_take(work->arena, x, i, axis, from, &next, work->err);
        x = next;
    }
    *ret = x;
    return status;
}

/* Of any number of operands. */
static enum sp_status sum_products(struct contraction *work, const struct sp_numbers *const *x, uint64_t sums,
                                   struct sp_numbers *out)
{
    const bool is_float = sp_dtype_is_float(out->dtype);
    for (uint64_t i = 0; i < out->count; i++) {
        struct sp_number sum = {0, 0};
        for (uint64_t j = 0; j < sums; j++, sp_strides_step(&work->walk)) {
            struct sp_number product = x[0]->items[work->walk.index[0]];
            for (uint32_t k = 1; k < work->count; k++)
                product = is_float ? sp_number_multiply(product, x[k]->items[work->walk.index[k]])
                                   : sp_integer_multiply(product, x[k]->items[work->walk.index[k]]);
            sum = is_float ? sp_number_add(sum, product) : sp_integer_add(sum, product);
        }
        out->items[i] = sum;
    }
    return SP_OK;
}

/* Of two: along the last label that is summed over, if there is one, without the walk. */
static enum sp_status sum_pairs(struct contraction *work, const struct sp_numbers *const *x, uint64_t sums,
                                bool has_summed, struct sp_numbers *out)
{
    struct sp_strides *walk = &work->walk;
    const struct sp_factors factors = sp_factors_of(x[0], x[1], out->dtype);
    const uint32_t last = has_summed ? --walk->rank : 0;
    const uint64_t count = has_summed ? walk->counts[last] : 1, blocks = count > 0 ? sums / count : 0;
    size_t *offsets = SP_NEW_ARRAY(work->arena, 2 * count, size_t);
    if (offsets == NULL)
        return sp_fail_memory(work->err);
    for (uint64_t i = 0; has_summed && i < count; i++) {
        offsets[i] = i * (uint64_t)walk->steps[0][last];
        offsets[count + i] = i * (uint64_t)walk->steps[1][last];
    }
    for (uint64_t i = 0; i < out->count; i++) {
        struct sp_number sum = {0, 0};
        for (uint64_t j = 0; j < blocks; j++, sp_strides_step(walk))
            sp_sum_products(&factors, (size_t)walk->index[0], (size_t)walk->index[1], count, offsets, &offsets[count],
                            &sum);
        out->items[i] = sum;
    }
    return SP_OK;
}

enum sp_status sp_numbers_contract(struct sp_arena *arena, uint32_t count, const struct sp_labelled *operands,
                                   uint32_t rank, const uint8_t *labels, struct sp_numbers **ret, struct sp_error *err)
{
    struct contraction work = {.arena = arena, .count = count, .err = err};
    struct sp_index_axis axes[SP_LABELS];
    const struct sp_numbers *x[SP_STRIDES_MAX];
    struct sp_numbers *out;
    uint64_t sums = 1;
    bool is_known = true;
    enum sp_status status = count <= SP_STRIDES_MAX && rank < SP_LABELS
                                ? find_axes(&work, operands)
                                : sp_fail(err, SP_ERR_UNSUPPORTED, "TOO_MANY_OPERANDS", "it has too many operands");
    for (uint32_t k = 0; status == SP_OK && k < count; k++) {
        status = fit(&work, &operands[k], &x[k]);
        is_known = is_known && operands[k].x->is_known;
    }
    for (uint32_t i = 0; status == SP_OK && i < rank; i++) {
        axes[i] = work.axes[labels[i]];
        if (axes[i].extent < 0)
            axes[i] = sp_index_all(1);
        work.order[work.walk.rank++] = labels[i];
    }
    for (uint32_t label = 0; label < SP_LABELS; label++) {
        if (work.axes[label].extent < 0 || memchr(labels, (int)label, rank) != NULL)
            continue;
        sums = sums > SP_MAX_EVALUATED_PRODUCTS ? sums : sums * work.axes[label].count; /* no overflow */
        work.order[work.walk.rank++] = (uint8_t)label;
    }
    if (status == SP_OK)
        status = sp_numbers_create(arena, operands[0].x->dtype, rank, axes, &out, err);
    if (status == SP_OK && out->count > 0 && sums > SP_MAX_EVALUATED_PRODUCTS / out->count)
        status = sp_fail(err, SP_ERR_UNSUPPORTED, "TOO_MANY_PRODUCTS", "it has too many products to be evaluated");
    if (status != SP_OK)
        return status;
    work.walk.tensors = count;
    for (uint32_t i = 0; i < work.walk.rank; i++)
        work.walk.counts[i] = work.axes[work.order[i]].extent < 0 ? 1 : work.axes[work.order[i]].count;
    for (uint32_t k = 0; k < count; k++) {
        int64_t strides[SP_MAX_RANK];
        sp_numbers_strides(x[k], strides);
        for (uint32_t i = 0; i < x[k]->rank; i++) {
            for (uint32_t j = 0; j < work.walk.rank; j++) /* a label that stands twice is a diagonal */
                work.walk.steps[k][j] +=
                    work.order[j] == operands[k].labels[i] && x[k]->axes[i].extent != 1 ? strides[i] : 0;
        }
    }
    status = count == 2 ? sum_pairs(&work, x, sums, work.walk.rank > rank, out) : sum_products(&work, x, sums, out);
    if (status != SP_OK)
        return status;
    out->is_known = is_known;
    *ret = out;
    return SP_OK;
}
