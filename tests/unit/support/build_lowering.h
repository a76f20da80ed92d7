#pragma once
/*
 * build_lowering - what one device's part of a node is, as text: for tests of lowerings (ops/lowering/lowering.h).
 *
 *     build_init(&build, 13);
 *     build_input(&build, "a", SP_DTYPE_FLOAT, "4,6");
 *     build_input(&build, "b", SP_DTYPE_FLOAT, "6,5");
 *     struct sp_node *node = build_node(&build, "MatMul", "a b", "y");
 *     cr_assert_eq(build_infer(&build), SP_OK);
 *     cr_expect_str_eq(build_lowering(&build, node, "k=1/2"),
 *                      "%0 = part 0 [0:4,3:6] float32[4,3]\n"
 *                      "%1 = part 1 [3:6,0:5] float32[3,5]\n"
 *                      "%2 = MatMul(%0, %1) float32[4,5]\n"
 *                      "output 0 = %2, sum over k\n");
 *
 * Cuts are "NAME=SHARD/SHARDS NAME=..": the factors of the rule by name (build_rule() prints them), those that are not
 * named are whole; "NAME=SHARD/SHARDS:MINOR" cuts the minor part of the factor seen as [.., MINOR], which gives several
 * ranges. Pieces are numbered as they are made; extents that are not known are '?', and pieces whose rank is
 * not known have no brackets. Inputs are "part", "whole" or "box". The node's own operator, from sp_lower_same(), is
 * "MatMul", one from sp_lower_op() is ".MatMul", or "com.microsoft.Gelu" in another domain.
 *
 * Each function is called again with too little memory for each of its steps in turn: it must end with that error.
 *
 * Errors are "CODE: message", a refused split is "again NAME: message".
 */
#include "build_model.h"
#include "ops/lowering/lowering.h"

/* Expectations about pieces hold where there was memory for them. */
#define END_AFTER_ERROR(lower)                                                                                         \
    do {                                                                                                               \
        if (sp_lower_status(lower) != SP_OK)                                                                           \
            return sp_lower_status(lower);                                                                             \
    } while (0)

#define EXPECT_LOWERING(text, want)                                                                                    \
    do {                                                                                                               \
        const char *text_ = (text);                                                                                    \
        cr_expect_str_eq(text_, want, "%s", text_);                                                                    \
    } while (0)

/* In a test with a `build`. */
#define EXPECT_CUT(node, cuts, want) EXPECT_LOWERING(build_lowering(&build, node, cuts), want)

typedef enum sp_status (*build_lowering_function)(struct sp_lowering *lower);

/* By the operator's own function, or the default where it has none. */
const char *build_lowering(struct build *build, struct sp_node *node, const char *cuts);
/* By another function: to call single helpers. */
const char *build_lowering_with(struct build *build, struct sp_node *node, const char *cuts,
                                build_lowering_function function);

/* The same in steps: the node as a device has it, for one call; its memory is the model's. */
struct sp_lowering *build_lowering_make(struct build *build, struct sp_node *node, const struct sp_rule *rule,
                                        const char *cuts);
/* Whatever allocation fails, the function ends with that error or as usual: it is called with more and more memory. */
void build_lowering_without_memory(const struct sp_lowering *like, build_lowering_function function,
                                   enum sp_status usual);
