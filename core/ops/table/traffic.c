#include "ops/table/traffic.h"

#include <math.h>

#include "ops/table/load.h"
#include "ops/table/rule.h"

/* ---- extents ---------------------------------------------------------------------------------------------------- */

/* What a device has of a factor; what is not known counts as 1. */
static double part_of(const struct sp_rule *rule, uint8_t factor, const int64_t *shards)
{
    if (factor >= rule->factor_count)
        return 1;
    const int64_t extent = sp_dim_estimate(rule->factors[factor].extent);
    if (extent < 0)
        return 1;
    const int64_t part = shards == NULL ? extent : extent / shards[factor];
    return (double)part;
}

static double amount_of(const struct sp_rule *rule, const struct sp_amount *amount, const int64_t *shards)
{
    double product = amount->times;
    for (uint8_t i = 0; i < amount->count; i++)
        product *= part_of(rule, amount->factors[i], shards);
    return product;
}

/* The load of a rule whose experts are not drawn alike, or NULL. */
static const struct sp_load *load_of(const struct sp_rule *rule)
{
    return rule->drawn != NULL ? rule->drawn->load : NULL;
}

static uint32_t drawn_shards(const struct sp_rule *rule, const int64_t *shards)
{
    return shards == NULL ? 1 : (uint32_t)shards[rule->drawn->factor];
}

/* How many times as much as with equal chances the shard with most has to do, where that goes with these factors. */
static double most_of(const struct sp_rule *rule, uint32_t count, const uint8_t *factors, const int64_t *shards)
{
    if (load_of(rule) == NULL || memchr(factors, rule->drawn->factor, count) == NULL)
        return 1;
    return sp_load_most(load_of(rule), drawn_shards(rule, shards));
}

double sp_dim_share(struct sp_dim part, struct sp_dim whole)
{
    const int64_t some = sp_dim_estimate(part), all = sp_dim_estimate(whole);
    return some >= 0 && all > 0 ? fmin(1, (double)some / (double)all) : 1;
}

struct sp_amount sp_amount_of(uint32_t count, const uint8_t *factors)
{
    struct sp_amount amount = {.times = 1};
    for (uint32_t i = 0; i < count && amount.count < sizeof amount.factors; i++)
        if (factors[i] != SP_RULE_NO_FACTOR)
            amount.factors[amount.count++] = factors[i];
    return amount;
}

/* ---- operands --------------------------------------------------------------------------------------------------- */

static void set_use(struct sp_rule *rule, struct sp_operand_rule *operand, double chance, bool is_random,
                    const struct sp_factor_list *draws)
{
    struct sp_operand_use *use = SP_NEW(rule->arena, struct sp_operand_use);
    const uint32_t count = draws != NULL ? draws->count : 0;
    uint8_t *items = SP_NEW_ARRAY(rule->arena, count, uint8_t);
    if (use == NULL || items == NULL) {
        rule->faults |= SP_RULE_FAULT_MEMORY;
        return;
    }
    if (count > 0)
        memcpy(items, draws->items, count);
    *use =
        (struct sp_operand_use){.chance = chance, .is_random = is_random, .draw_count = (uint8_t)count, .draws = items};
    operand->use = use;
}

void sp_rule_use_input(struct sp_rule *rule, uint32_t input, double chance, const struct sp_factor_list *draws)
{
    if (input < rule->input_count)
        set_use(rule, &rule->inputs[input], chance, false, draws);
}

void sp_rule_draw_input(struct sp_rule *rule, uint32_t input, double chance, const struct sp_factor_list *draws)
{
    if (input < rule->input_count)
        set_use(rule, &rule->inputs[input], chance, true, draws);
}

void sp_rule_use_output(struct sp_rule *rule, uint32_t output, double chance, const struct sp_factor_list *draws)
{
    if (output < rule->output_count)
        set_use(rule, &rule->outputs[output], chance, false, draws);
}

void sp_rule_past(const struct sp_op_context *context, struct sp_rule *rule, uint32_t input, uint32_t output)
{
    const struct sp_node *node = context->node;
    if (input < node->input_count && node->inputs[input] != NULL && output < node->output_count &&
        node->outputs[output] != NULL)
        rule->outputs[output].past_of = input + 1;
}

double sp_operand_share(const struct sp_rule *rule, const struct sp_operand_rule *operand, const int64_t *shards)
{
    const struct sp_operand_use *use = operand->use;
    double draws = 1;
    if (use == NULL)
        return 1;
    for (uint8_t i = 0; i < use->draw_count; i++)
        draws *= part_of(rule, use->draws[i], shards);
    if (use->is_random && load_of(rule) != NULL)
        return sp_load_read(load_of(rule), drawn_shards(rule, shards), draws);
    if (use->is_random)
        return use->chance >= 1 ? 1 : -expm1(draws * log1p(-use->chance));
    return use->draw_count == 0 ? use->chance : fmin(1, use->chance * draws);
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

/* The sum of min(max(u, 0), keys) over all u < end. */
static double clamped_below(double end, double keys)
{
    if (end <= 0)
        return 0;
    const double rising = fmin(end, keys + 1);
    return rising * (rising - 1) / 2 + (end - rising) * keys;
}

/* The sum of min(max(u, 0), keys) over `count` numbers from `start` on. */
static double clamped_sum(double start, double count, double keys)
{
    return clamped_below(start + count, keys) - clamped_below(start, keys);
}

static double clamp(double value, double most)
{
    return fmax(0, fmin(value, most));
}

struct sp_attention_part sp_attention_part(const struct sp_rule *rule, const int64_t *shards)
{
    const struct sp_rule_attention *a = rule->attention;
    struct sp_attention_part part = {.pairs = 1, .seen = 1};
    if (a == NULL)
        return part;
    part.batch = amount_of(rule, &a->batch, shards);
    part.heads = amount_of(rule, &a->heads, shards);
    part.kv_heads = amount_of(rule, &a->kv_heads, shards);
    part.queries = amount_of(rule, &a->queries, shards);
    part.keys = amount_of(rule, &a->keys, shards);
    part.size = amount_of(rule, &a->size, shards);
    const double queries = amount_of(rule, &a->queries, NULL), keys = amount_of(rule, &a->keys, NULL);
    const double origin = a->is_first ? 0 : fmax(0, keys - queries), first = origin + queries - part.queries;
    /* Parts of the keys of a window are seen alike; the first part of a causal attention's by the most queries. */
    const double own = a->left < 0 ? part.keys : keys;
    double pairs = part.queries * own, seen = own;
    if (a->right >= 0) {
        pairs = clamped_sum(first + a->right + 1, part.queries, own);
        seen = clamp(first + part.queries + a->right, own);
    }
    if (a->left >= 0) {
        pairs -= clamped_sum(first - a->left, part.queries, own);
        seen -= clamp(first - a->left, own);
    }
    part.pairs = a->kept * (part.queries * own > 0 ? pairs / (part.queries * own) : 1);
    part.seen = own > 0 ? seen / own : 1;
    return part;
}

/* Whether the term has these factors, each as often as it is in them. */
static bool counts_pairs(const struct sp_term *term, const struct sp_rule_attention *attention)
{
    uint8_t wanted[8];
    uint32_t count = 0;
    uint64_t taken = 0;
    for (uint8_t i = 0; i < attention->queries.count; i++)
        wanted[count++] = attention->queries.factors[i];
    for (uint8_t i = 0; i < attention->keys.count; i++)
        wanted[count++] = attention->keys.factors[i];
    for (uint32_t w = 0; w < count; w++) {
        uint8_t i = 0;
        while (i < term->count && i < 64 && (term->factors[i] != wanted[w] || (taken >> i & 1) != 0))
            i++;
        if (i == term->count || i == 64)
            return false;
        taken |= UINT64_C(1) << i;
    }
    return count > 0;
}

void sp_rule_attend(struct sp_rule *rule, const struct sp_rule_attention *attention)
{
    struct sp_rule_attention *kept = SP_NEW(rule->arena, struct sp_rule_attention);
    if (kept == NULL) {
        rule->faults |= SP_RULE_FAULT_MEMORY;
        return;
    }
    *kept = *attention;
    rule->attention = kept;
    for (uint32_t t = 0; t < rule->term_count; t++)
        rule->terms[t].is_seen = counts_pairs(&rule->terms[t], attention);
}

void sp_rule_run_as(struct sp_rule *rule, const struct sp_rule_kernels *kernels)
{
    struct sp_rule_kernels *kept = SP_NEW(rule->arena, struct sp_rule_kernels);
    if (kept == NULL) {
        rule->faults |= SP_RULE_FAULT_MEMORY;
        return;
    }
    *kept = *kernels;
    rule->kernels = kept;
}

void sp_rule_draw_each(const struct sp_op_context *context, struct sp_rule *rule, uint8_t factor, double each)
{
    struct sp_rule_drawn *drawn = SP_NEW(rule->arena, struct sp_rule_drawn);
    if (drawn == NULL) {
        rule->faults |= SP_RULE_FAULT_MEMORY;
        return;
    }
    *drawn = (struct sp_rule_drawn){factor, each, context->node->load};
    rule->drawn = drawn;
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

double sp_rule_passed(const struct sp_rule *rule, const int64_t *shards)
{
    double sum = 0;
    for (uint32_t t = 0; rule->kernels != NULL && t < 2; t++) {
        const struct sp_factor_list *factors = &rule->kernels->factors[t];
        double points = rule->kernels->passed[t] * most_of(rule, factors->count, factors->items, shards);
        for (uint32_t i = 0; i < factors->count; i++)
            points *= part_of(rule, factors->items[i], shards);
        sum += points;
    }
    return sum;
}

double sp_rule_flops(const struct sp_rule *rule, const int64_t *shards)
{
    const double pairs = rule->attention != NULL ? sp_attention_part(rule, shards).pairs : 1;
    double flops = 0;
    for (uint32_t t = 0; t < rule->term_count; t++) {
        const struct sp_term *term = &rule->terms[t];
        double points = term->coefficient * (term->is_seen ? pairs : 1);
        points *= most_of(rule, term->count, term->factors, shards);
        for (uint8_t i = 0; i < term->count; i++)
            points *= part_of(rule, term->factors[i], shards);
        flops += points;
    }
    return flops;
}

static bool has_factor(const struct sp_operand_rule *operand, uint8_t factor)
{
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        for (uint8_t i = 0; i < operand->axes[axis].count; i++)
            if (operand->axes[axis].factors[i] == factor)
                return true;
    return false;
}

bool sp_rule_is_product(const struct sp_rule *rule)
{
    for (uint32_t t = 0; t < rule->term_count; t++) {
        const struct sp_term *term = &rule->terms[t];
        for (uint8_t f = 0; f < term->count && rule->output_count > 0; f++) {
            uint32_t holders = 0;
            if (has_factor(&rule->outputs[0], term->factors[f]))
                continue;
            for (uint32_t i = 0; i < rule->input_count; i++)
                holders += has_factor(&rule->inputs[i], term->factors[f]);
            if (holders >= 2)
                return true;
        }
    }
    return false;
}

/* What input 0 is multiplied by: the input that has a factor in common with it that is summed up; or NULL. */
static const struct sp_operand_rule *weights_of(const struct sp_rule *rule)
{
    for (uint32_t i = 1; rule->output_count > 0 && i < rule->input_count; i++)
        for (uint32_t f = 0; f < rule->factor_count; f++)
            if (has_factor(&rule->inputs[0], (uint8_t)f) && has_factor(&rule->inputs[i], (uint8_t)f) &&
                !has_factor(&rule->outputs[0], (uint8_t)f))
                return &rule->inputs[i];
    return NULL;
}

/* Taps that windows of several elements add up along: beside the place of a window where windows lie side by side, of
   the weights alone where these overlap. */
static bool is_tap(const struct sp_rule *rule, const struct sp_operand_rule *weights, uint8_t factor)
{
    if (has_factor(&rule->outputs[0], factor) || !has_factor(weights, factor))
        return false;
    for (uint32_t axis = 0; axis < rule->inputs[0].rank; axis++) {
        const struct sp_axis_factors *of = &rule->inputs[0].axes[axis];
        if (of->count > 1 && of->factors[1] == factor && !has_factor(weights, of->factors[0]))
            return true;
    }
    return rule->factors[factor].kind == SP_FACTOR_REPLICATE && !has_factor(&rule->inputs[0], factor);
}

enum sp_rule_windows sp_rule_windows(const struct sp_rule *rule)
{
    const struct sp_operand_rule *weights = weights_of(rule);
    bool has_taps = false, has_groups = false;
    for (uint32_t f = 0; weights != NULL && f < rule->factor_count; f++) {
        has_taps = has_taps || is_tap(rule, weights, (uint8_t)f);
        has_groups = has_groups || (has_factor(&rule->inputs[0], (uint8_t)f) && has_factor(weights, (uint8_t)f) &&
                                    has_factor(&rule->outputs[0], (uint8_t)f));
    }
    return !has_taps ? SP_RULE_NO_WINDOWS : has_groups ? SP_RULE_GROUPED_WINDOWS : SP_RULE_DENSE_WINDOWS;
}
