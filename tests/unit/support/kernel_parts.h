#pragma once
/* kernel_parts - what the kernel of a node of `build` does, whole and on a device that has a part of one factor. */
#include "cost/kernel_work.h"
#include "ops/table/traffic.h"
#include "strategy_models.h"

#define CONTRIB "com.microsoft"

static inline void half_input(const char *name, const char *dims)
{
    build_input(&build, name, SP_DTYPE_FLOAT16, dims);
}

static inline struct sp_rule *rule_of(struct sp_node *node)
{
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_op_rule(build.model, node, build.arena, &rule, &build.err), SP_OK, "%s", build.err.message);
    return rule;
}

static inline double share_of(const struct sp_rule *rule, const struct sp_operand_rule *operand, const int64_t *shards)
{
    double share = 1;
    (void)rule;
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        for (uint8_t i = 0; i < operand->axes[axis].count; i++)
            share /= (double)shards[operand->axes[axis].factors[i]];
    return share;
}

/* The work of one device, where the factor of a name is cut in `parts` (NULL: the whole node). */
static inline struct sp_kernel_work work_of(struct sp_node *node, enum sp_cache_binding caches, const char *name,
                                            int64_t parts)
{
    const struct sp_rule *rule = rule_of(node);
    int64_t shards[SP_RULE_MAX_FACTORS];
    double shares[64];
    bool is_found = name == NULL;
    for (uint32_t f = 0; f < rule->factor_count; f++) {
        const bool is_it = name != NULL && strcmp(rule->factors[f].name, name) == 0;
        shards[f] = is_it ? parts : 1;
        is_found = is_found || is_it;
    }
    cr_assert(is_found, "there is no factor %s", name);
    for (uint32_t i = 0; i < rule->input_count; i++)
        shares[i] = share_of(rule, &rule->inputs[i], shards);
    for (uint32_t o = 0; o < rule->output_count; o++)
        shares[rule->input_count + o] = share_of(rule, &rule->outputs[o], shards);
    return sp_kernel_work_of(
        &(struct sp_kernel_part){.node = node, .rule = rule, .shards = shards, .shares = shares, .caches = caches});
}

static inline double bytes_of(struct sp_node *node, enum sp_cache_binding caches)
{
    const double bytes =
        sp_kernel_work_of(&(struct sp_kernel_part){.node = node, .rule = rule_of(node), .caches = caches}).bytes;
    EXPECT_NEAR(work_of(node, caches, NULL, 1).bytes, bytes); /* a whole is its only part */
    return bytes;
}
