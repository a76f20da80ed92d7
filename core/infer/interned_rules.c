#include "infer/interned_rules.h"

#include <string.h>

#include "base/hash_map.h"

struct sp_rules {
    struct sp_arena *arena;
    struct sp_hash_map same;
    uint64_t seed, units, most;
};

static const struct sp_operand_rule *operand_of(const struct sp_rule *rule, uint32_t index)
{
    return index < rule->input_count ? &rule->inputs[index] : &rule->outputs[index - rule->input_count];
}

static uint32_t operand_count(const struct sp_rule *rule)
{
    return rule->input_count + rule->output_count;
}

/* ---- equality --------------------------------------------------------------------------------------------------- */

static bool is_same_dim(struct sp_dim a, struct sp_dim b)
{
    if (a.kind != b.kind)
        return false;
    return a.kind == SP_DIM_KNOWN ? a.value == b.value : a.kind == SP_DIM_UNKNOWN || a.expr == b.expr;
}

static bool is_same_factor(const struct sp_factor *a, const struct sp_factor *b)
{
    return a->kind == b->kind && a->combiner == b->combiner && a->block == b->block && a->halo_low == b->halo_low &&
           a->halo_high == b->halo_high && a->is_blocked == b->is_blocked && a->is_resized == b->is_resized &&
           is_same_dim(a->extent, b->extent) && strncmp(a->name, b->name, SP_FACTOR_NAME_SIZE) == 0;
}

static bool is_same_list(const uint8_t *a, uint8_t a_count, const uint8_t *b, uint8_t b_count)
{
    return a_count == b_count && (a_count == 0 || memcmp(a, b, a_count) == 0);
}

static bool is_same_operand(const struct sp_operand_rule *a, const struct sp_operand_rule *b)
{
    if (a->rank != b->rank || a->are_tuples != b->are_tuples || a->is_unread != b->is_unread ||
        !is_same_list(a->positions, a->position_count, b->positions, b->position_count))
        return false;
    for (uint32_t axis = 0; a->axes != b->axes && axis < a->rank; axis++) {
        if (!is_same_list(a->axes[axis].factors, a->axes[axis].count, b->axes[axis].factors, b->axes[axis].count))
            return false;
    }
    return true;
}

static bool is_same_rule(const void *item, const void *key)
{
    const struct sp_rule *a = item, *b = key;
    if (a->factor_count != b->factor_count || a->input_count != b->input_count || a->output_count != b->output_count)
        return false;
    for (uint32_t f = 0; f < a->factor_count; f++) {
        if (!is_same_factor(&a->factors[f], &b->factors[f]))
            return false;
    }
    for (uint32_t i = 0; i < operand_count(a); i++) {
        if (!is_same_operand(operand_of(a, i), operand_of(b, i)))
            return false;
    }
    return true;
}

/* ---- digests ---------------------------------------------------------------------------------------------------- */

/* Without its name and halo, which hardly ever make the difference: equality looks at everything. */
static void digest_factor(struct sp_digest *digest, const struct sp_factor *factor)
{
    const uint64_t numbers[] = {(uint64_t)factor->kind | (uint64_t)factor->combiner << 8 |
                                    (uint64_t)factor->is_blocked << 16 | (uint64_t)factor->is_resized << 17 |
                                    (uint64_t)factor->extent.kind << 24,
                                (uint64_t)factor->block,
                                factor->extent.kind == SP_DIM_KNOWN      ? (uint64_t)factor->extent.value
                                : factor->extent.kind == SP_DIM_SYMBOLIC ? (uint64_t)(uintptr_t)factor->extent.expr
                                                                         : 0};
    sp_digest_add(digest, numbers, sizeof numbers);
}

static uint64_t digest_rule(const struct sp_rules *rules, const struct sp_rule *rule)
{
    struct sp_digest digest;
    sp_digest_begin(&digest, rules->seed);
    sp_digest_number(&digest, rule->factor_count);
    sp_digest_number(&digest, (uint64_t)rule->input_count << 32 | rule->output_count);
    for (uint32_t f = 0; f < rule->factor_count; f++)
        digest_factor(&digest, &rule->factors[f]);
    for (uint32_t i = 0; i < operand_count(rule); i++) {
        const struct sp_operand_rule *operand = operand_of(rule, i);
        sp_digest_number(&digest, operand->rank | (uint64_t)operand->position_count << 32 |
                                      (uint64_t)operand->are_tuples << 40 | (uint64_t)operand->is_unread << 41);
        sp_digest_add(&digest, operand->positions, operand->position_count);
        for (uint32_t axis = 0; axis < operand->rank; axis++) {
            sp_digest_add(&digest, &operand->axes[axis].count, 1);
            sp_digest_add(&digest, operand->axes[axis].factors, operand->axes[axis].count);
        }
    }
    return sp_digest_end(&digest);
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

struct sizes {
    uint64_t units;
    size_t axes, bytes; /* of all operands whose axes are their own */
};

static bool is_repeated(const struct sp_rule *rule, uint32_t index)
{
    return index > 0 && is_same_operand(operand_of(rule, index), operand_of(rule, index - 1));
}

static struct sizes measure(const struct sp_rule *rule)
{
    struct sizes sizes = {.units = (uint64_t)rule->factor_count + operand_count(rule)};
    for (uint32_t i = 0; i < operand_count(rule); i++) {
        const struct sp_operand_rule *operand = operand_of(rule, i);
        if (is_repeated(rule, i))
            continue;
        sizes.units += operand->rank;
        sizes.axes += operand->rank;
        sizes.bytes += operand->position_count;
        for (uint32_t axis = 0; axis < operand->rank; axis++)
            sizes.bytes += operand->axes[axis].count;
    }
    return sizes;
}

static uint8_t *copy_list(uint8_t **bytes, const uint8_t *list, uint8_t count)
{
    uint8_t *copy = *bytes;
    if (count == 0)
        return NULL;
    memcpy(copy, list, count);
    *bytes += count;
    return copy;
}

static void copy_operand(const struct sp_operand_rule *from, struct sp_operand_rule *to, struct sp_axis_factors **axes,
                         uint8_t **bytes)
{
    *to = *from;
    to->use = NULL; /* costs are counted on the rule of a node itself */
    to->axes = *axes;
    *axes += from->rank;
    to->positions = copy_list(bytes, from->positions, from->position_count);
    for (uint32_t axis = 0; axis < from->rank; axis++)
        to->axes[axis] = (struct sp_axis_factors){from->axes[axis].count,
                                                  copy_list(bytes, from->axes[axis].factors, from->axes[axis].count)};
}

static struct sp_rule *copy_rule(struct sp_arena *arena, const struct sp_rule *rule, const struct sizes *sizes)
{
    struct sp_rule *copy = SP_NEW(arena, struct sp_rule);
    struct sp_factor *factors = SP_NEW_ARRAY(arena, rule->factor_count, struct sp_factor);
    struct sp_operand_rule *operands = SP_NEW_ARRAY(arena, operand_count(rule), struct sp_operand_rule);
    struct sp_axis_factors *axes = SP_NEW_ARRAY(arena, sizes->axes, struct sp_axis_factors);
    uint8_t *bytes = SP_NEW_ARRAY(arena, sizes->bytes, uint8_t);
    if (copy == NULL || factors == NULL || operands == NULL || axes == NULL || bytes == NULL)
        return NULL;
    if (rule->factor_count > 0)
        memcpy(factors, rule->factors, rule->factor_count * sizeof *factors);
    for (uint32_t i = 0; i < operand_count(rule); i++) {
        if (is_repeated(rule, i))
            operands[i] = operands[i - 1];
        else
            copy_operand(operand_of(rule, i), &operands[i], &axes, &bytes);
    }
    *copy = (struct sp_rule){.arena = arena,
                             .factor_count = rule->factor_count,
                             .input_count = rule->input_count,
                             .output_count = rule->output_count,
                             .factors = factors,
                             .inputs = operands,
                             .outputs = operands + rule->input_count,
                             .bytes = rule->bytes};
    return copy;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

struct sp_rules *sp_rules_create(struct sp_arena *arena, uint64_t seed, uint64_t most)
{
    struct sp_rules *rules = SP_NEW(arena, struct sp_rules);
    if (rules != NULL)
        *rules = (struct sp_rules){.arena = arena, .same = {.arena = arena}, .seed = seed, .most = most};
    return rules;
}

enum sp_status sp_rules_keep(struct sp_rules *rules, const struct sp_rule *rule, struct sp_rule **ret_kept,
                             struct sp_error *err)
{
    uint64_t hash = digest_rule(rules, rule);
    *ret_kept = sp_hash_set_find(&rules->same, hash, is_same_rule, rule);
    if (*ret_kept != NULL)
        return SP_OK;
    struct sizes sizes = measure(rule);
    if (sizes.units > rules->most - rules->units)
        return SP_OK;
    struct sp_rule *copy = copy_rule(rules->arena, rule, &sizes);
    if (copy == NULL || !sp_hash_set_add(&rules->same, hash, copy))
        return sp_fail_memory(err);
    rules->units += sizes.units;
    *ret_kept = copy;
    return SP_OK;
}

uint64_t sp_rules_units(const struct sp_rules *rules)
{
    return rules->units;
}

uint32_t sp_rules_count(const struct sp_rules *rules)
{
    return rules->same.count;
}
