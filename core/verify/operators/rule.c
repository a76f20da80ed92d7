/*
 * Operators without code of their own, by the factors of their rule.
 *
 * Along a parallel factor each element of a result depends on the operands' elements with the same index. All that an
 * element depends on is hashed, in the order in which it lies, together with the operator, its attributes and the
 * element's own place along factors that are not parallel. So a device that computes such an operator on a part of a
 * parallel factor gets the same numbers, and one that has a part of any other factor gets other ones.
 */
#include <string.h>

#include "base/hash_map.h"
#include "base/limits.h"
#include "ops/table/op.h"
#include "verify/operators/evaluate.h"

struct by_rule {
    struct sp_call *call;
    struct sp_rule *rule;
    struct sp_index_axis *factors; /* as evaluated; extent -1: not known */
};

static bool is_parallel(const struct sp_factor *factor)
{
    return factor->kind == SP_FACTOR_PARALLEL && factor->block == 1 && !factor->is_blocked;
}

/* What a device's part changes by itself. */
static bool is_of_shard(const struct sp_attribute *attribute)
{
    static const char *const names[] = {"num_heads", "kv_num_heads", "q_num_heads", "hidden_size", "N", NULL};
    for (const char *const *name = names; *name != NULL; name++) {
        if (strcmp(attribute->name, *name) == 0)
            return true;
    }
    return false;
}

static uint64_t tag_of(const struct sp_node *node, const struct sp_model *model)
{
    uint64_t tag = sp_tag(node->op_type) ^ sp_scramble(sp_tag(node->domain));
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const struct sp_attribute *a = &node->attributes[i];
        uint64_t hash = sp_tag(a->name);
        if (is_of_shard(a))
            continue;
        hash ^= sp_scramble((uint64_t)a->i) ^ sp_scramble(sp_field_of_real(a->f) + 1) ^
                sp_digest(a->s.bytes != NULL ? a->s.bytes : "", a->s.size, 1);
        for (uint32_t k = 0; k < a->count; k++) {
            hash = sp_scramble(hash);
            hash ^= a->ints != NULL ? (uint64_t)a->ints[k] : 0;
            hash ^= a->floats != NULL ? sp_field_of_real(a->floats[k]) : 0;
            hash ^= a->strings != NULL ? sp_digest(a->strings[k].bytes, a->strings[k].size, 2) : 0;
            hash ^= a->tensors != NULL ? sp_digest(model->bytes + a->tensors[k]->raw.offset, a->tensors[k]->raw.size, 3)
                                       : 0;
        }
        tag += sp_scramble(hash);
    }
    return tag;
}

/* What each factor is evaluated at: the axes that have it alone say. */
static enum sp_status find_factors(struct by_rule *work)
{
    struct sp_rule *rule = work->rule;
    enum sp_status status = SP_OK;
    for (uint32_t f = 0; f < rule->factor_count; f++)
        work->factors[f] = (struct sp_index_axis){-1, 0, NULL};
    for (uint32_t k = 0; k < rule->input_count && k < work->call->in_count; k++) {
        const struct sp_numbers *x = work->call->in[k];
        for (uint32_t i = 0; status == SP_OK && x != NULL && i < x->rank && i < rule->inputs[k].rank; i++) {
            const struct sp_axis_factors *axis = &rule->inputs[k].axes[i];
            if (axis->count != 1 || rule->factors[axis->factors[0]].is_resized)
                continue;
            struct sp_index_axis *factor = &work->factors[axis->factors[0]];
            if (factor->extent < 0)
                *factor = x->axes[i];
            else if (factor->extent == x->axes[i].extent)
                status = sp_index_common(work->call->arena, factor, &x->axes[i], factor, work->call->err);
        }
    }
    for (uint32_t f = 0; f < rule->factor_count; f++) {
        if (work->factors[f].extent < 0 && sp_dim_is_known(rule->factors[f].extent))
            work->factors[f] = sp_index_all(rule->factors[f].extent.value);
    }
    return status;
}

/* The axes of an operand as its parallel factors, each with a stride of the key, and the rest. Items that are not of the
   common indices are passed over. */
struct reader {
    const struct by_rule *work;
    const struct sp_operand_rule *operand;
    uint64_t key_strides[SP_RULE_MAX_FACTORS]; /* 0: the operand does not have the factor, or it is not parallel */
    uint64_t keys;
};

static bool factor_is_free(const struct by_rule *work, uint8_t f)
{
    return is_parallel(&work->rule->factors[f]) && work->factors[f].extent >= 0;
}

static void begin_reader(const struct by_rule *work, const struct sp_operand_rule *operand, struct reader *reader)
{
    memset(reader, 0, sizeof *reader);
    reader->work = work;
    reader->operand = operand;
    reader->keys = 1;
    for (uint32_t i = 0; i < operand->rank; i++) {
        for (uint32_t k = 0; k < operand->axes[i].count; k++) {
            const uint8_t f = operand->axes[i].factors[k];
            if (!factor_is_free(work, f) || reader->key_strides[f] != 0)
                continue;
            reader->key_strides[f] = reader->keys;
            reader->keys *= work->factors[f].count;
        }
    }
}

/* Takes an item's place apart: its key over parallel factors, its place along all else; false where it is left out. */
static bool read_place(const struct reader *reader, const struct sp_index_axis *axes, const uint64_t *positions,
                       uint64_t *ret_digits, uint64_t *ret_rest)
{
    const struct by_rule *work = reader->work;
    *ret_rest = 0;
    for (uint32_t i = 0; i < reader->operand->rank; i++) {
        const struct sp_axis_factors *axis = &reader->operand->axes[i];
        int64_t index = sp_index_at(&axes[i], (uint32_t)positions[i]);
        if (axis->count == 0)
            *ret_rest = *ret_rest * 1000003 + (uint64_t)index;
        for (uint32_t k = axis->count; k-- > 0;) {
            const uint8_t f = axis->factors[k];
            const int64_t extent = work->factors[f].extent,
                          digit = axis->count == 1 || extent <= 0 ? index : index % extent;
            index = axis->count == 1 || extent <= 0 ? 0 : index / extent;
            if (!factor_is_free(work, f)) {
                *ret_rest = *ret_rest * 1000003 + (uint64_t)digit;
                continue;
            }
            const int64_t at = axes[i].extent == 1 && extent != 1 ? 0 : sp_index_find(&work->factors[f], digit);
            if (at < 0)
                return false;
            ret_digits[f] = (uint64_t)at;
        }
    }
    return true;
}

static uint64_t key_of(const struct reader *reader, const uint64_t *digits)
{
    uint64_t key = 0;
    for (uint32_t f = 0; f < reader->work->rule->factor_count; f++)
        key += reader->key_strides[f] * digits[f];
    return key;
}

/* The hash of all items of an operand with the same key. */
static enum sp_status digest_operand(const struct by_rule *work, const struct sp_numbers *x, struct reader *reader,
                                     uint64_t **ret)
{
    struct sp_strides walk = {.rank = x->rank};
    uint64_t *sums = SP_NEW_ARRAY(work->call->arena, reader->keys, uint64_t);
    if (sums == NULL)
        return sp_fail_memory(work->call->err);
    for (uint32_t i = 0; i < x->rank; i++)
        walk.counts[i] = x->axes[i].count;
    for (uint64_t i = 0; i < x->count; i++, sp_strides_step(&walk)) {
        uint64_t digits[SP_RULE_MAX_FACTORS] = {0}, rest;
        if (!read_place(reader, x->axes, walk.positions, digits, &rest))
            continue;
        uint64_t *sum = &sums[key_of(reader, digits)];
        *sum = sp_scramble(*sum ^ x->items[i].field);
    }
    *ret = sums;
    return SP_OK;
}

/* What shapes leave open may depend on data: an estimate would be no result. */
static int64_t known_extent(struct sp_dim dim)
{
    return sp_dim_is_known(dim) ? dim.value : -1;
}

/* The axis of an operand that is made of the same factors, as heads and their size are of queries and of results; NULL:
   none. */
static const struct sp_index_axis *packed_alike(const struct by_rule *work, const struct sp_axis_factors *axis,
                                                int64_t extent)
{
    for (uint32_t k = 0; k < work->rule->input_count && k < work->call->in_count; k++) {
        const struct sp_numbers *x = work->call->in[k];
        const struct sp_operand_rule *operand = &work->rule->inputs[k];
        for (uint32_t i = 0; x != NULL && i < x->rank && i < operand->rank; i++) {
            if (x->axes[i].extent == extent && operand->axes[i].count == axis->count &&
                memcmp(operand->axes[i].factors, axis->factors, axis->count * sizeof *axis->factors) == 0)
                return &x->axes[i];
        }
    }
    return NULL;
}

/* Whether the free factors of an axis are evaluated at what an index is along each. */
static bool is_evaluated(const struct by_rule *work, const struct sp_axis_factors *axis, int64_t index)
{
    for (uint32_t k = axis->count; k-- > 0;) {
        const uint8_t f = axis->factors[k];
        const int64_t extent = work->factors[f].extent, digit = extent > 0 ? index % extent : index;
        index = extent > 0 ? index / extent : 0;
        if (factor_is_free(work, f) && sp_index_find(&work->factors[f], digit) < 0)
            return false;
    }
    return true;
}

/* The indices of an axis of a result: those of its factor, or of several factors what an operand and each of them has. */
static enum sp_status axis_of_output(const struct by_rule *work, const struct sp_axis_factors *axis, int64_t extent,
                                     struct sp_index_axis *ret)
{
    enum sp_status status = SP_OK;
    const struct sp_index_axis *alike = axis->count > 0 ? packed_alike(work, axis, extent) : NULL;
    *ret = sp_index_all(extent);
    if (axis->count == 1 && factor_is_free(work, axis->factors[0]))
        *ret = work->factors[axis->factors[0]];
    else if (alike != NULL)
        *ret = *alike;
    else if (extent >= 0 && work->call->sets != NULL)
        status = sp_index_sets_axis(work->call->sets, extent, ret, work->call->err);
    if (status != SP_OK || axis->count < 2 || extent < 0)
        return status;
    const struct sp_index_axis all = *ret;
    int64_t *at = SP_NEW_ARRAY(work->call->arena, all.count, int64_t);
    if (at == NULL)
        return sp_fail_memory(work->call->err);
    uint32_t count = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        if (is_evaluated(work, axis, sp_index_at(&all, i)))
            at[count++] = sp_index_at(&all, i);
    }
    *ret = (struct sp_index_axis){extent, count, count == extent ? NULL : at};
    return SP_OK;
}

static enum sp_status give_output(const struct by_rule *work, uint32_t k, uint64_t tag, const struct reader *readers,
                                  uint64_t *const *sums)
{
    struct sp_call *call = work->call;
    const struct sp_operand_rule *operand = &work->rule->outputs[k];
    const struct sp_value *value = call->node->outputs[k];
    struct sp_index_axis axes[SP_MAX_RANK];
    struct reader reader;
    struct sp_strides walk = {.rank = operand->rank};
    if (value == NULL)
        return SP_OK;
    if (value->type.kind != SP_TYPE_TENSOR || value->type.dtype == SP_DTYPE_STRING || operand->rank > SP_MAX_RANK ||
        value->type.shape.rank != operand->rank)
        return sp_call_refuse(call, "the type of its result is not known");
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < operand->rank; i++) {
        status = axis_of_output(work, &operand->axes[i], known_extent(value->type.shape.dims[i]), &axes[i]);
        if (status == SP_OK && axes[i].extent < 0)
            return sp_call_refuse(call, "the shape of its result is not known");
    }
    if (status == SP_OK)
        status = sp_numbers_create(call->arena, value->type.dtype, operand->rank, axes, &call->out[k], call->err);
    begin_reader(work, operand, &reader);
    for (uint32_t i = 0; i < operand->rank; i++)
        walk.counts[i] = axes[i].count;
    for (uint64_t i = 0; status == SP_OK && i < call->out[k]->count; i++, sp_strides_step(&walk)) {
        uint64_t digits[SP_RULE_MAX_FACTORS] = {0}, rest, hash = tag + k;
        if (!read_place(&reader, axes, walk.positions, digits, &rest))
            return sp_call_refuse(call, "the shape of its result is not known");
        for (uint32_t j = 0; j < call->in_count; j++)
            hash = sp_scramble(hash ^ (sums[j] != NULL ? sums[j][key_of(&readers[j], digits)] : 1));
        hash = sp_scramble(hash ^ rest);
        call->out[k]->items[i] = (struct sp_number){sp_dtype_is_float(value->type.dtype) ? sp_field_reduce(hash)
                                                    : value->type.dtype == SP_DTYPE_BOOL ? hash & 1
                                                                                         : hash & 0xff,
                                                    NAN};
    }
    return status;
}

enum sp_status sp_evaluate_by_rule(struct sp_call *call)
{
    struct by_rule work = {.call = call};
    struct sp_error err = {0};
    if (call->node->op == NULL || (call->node->op->flags & (SP_OP_RANDOM | SP_OP_CONTROL)) != 0 ||
        sp_op_rule(call->model, call->node, call->arena, &work.rule, &err) != SP_OK)
        return sp_call_refuse(call, "the operator has no rule that could be evaluated");
    work.factors = SP_NEW_ARRAY(call->arena, work.rule->factor_count, struct sp_index_axis);
    struct reader *readers = SP_NEW_ARRAY(call->arena, call->in_count, struct reader);
    uint64_t **sums = SP_NEW_ARRAY(call->arena, call->in_count, uint64_t *);
    if (work.factors == NULL || readers == NULL || sums == NULL)
        return sp_fail_memory(call->err);
    enum sp_status status = find_factors(&work);
    for (uint32_t k = 0; status == SP_OK && k < call->in_count; k++) {
        if (call->in[k] == NULL)
            continue;
        if (work.rule->inputs[k].rank != call->in[k]->rank)
            return sp_call_refuse(call, "the rank of an operand is not known");
        begin_reader(&work, &work.rule->inputs[k], &readers[k]);
        status = digest_operand(&work, call->in[k], &readers[k], &sums[k]);
    }
    for (uint32_t k = 0; status == SP_OK && k < call->out_count; k++)
        status = give_output(&work, k, tag_of(call->node, call->model), readers, sums);
    return status;
}
