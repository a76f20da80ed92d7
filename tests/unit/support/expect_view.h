#pragma once
/*
 * expect_view - what the tests of views, forward inference and communication share: a model as in expect_op.h, then
 * plan(), specs on operands of nodes, and what follows from them.
 *
 *     start(18);
 *     input("A", "4,1"); input("B", "1,4");
 *     struct sp_node *add = build_node(&build, "Add", "A B", "Y");
 *     plan(4);
 *     given(add, "A", "2 |", "0 1; 2 3");
 *     given(add, "B", "| 2", "0 2; 1 3");
 *     EXPECT_RESULT(add, 0, "axis 0 in 2, axis 1 in 2 on devices 0..3");
 */
#include "build_sharding.h"
#include "expect_op.h"
#include "infer/view/view.h"

static struct sp_dataflow *dataflow;
static struct sp_assignment *assignment;

/* Shapes, the dataflow, and an assignment without any spec. */
static inline void plan(int64_t devices)
{
    infer();
    cr_assert_eq(sp_dataflow_create(build.arena, build.model, &dataflow, &build.err), SP_OK, "%s", build.err.message);
    cr_assert_eq(sp_assignment_create(build.arena, dataflow, "c", devices, NULL, &assignment, &build.err), SP_OK, "%s",
                 build.err.message);
}

/* Puts a spec on all operands of the node that have this name. */
static inline void specify(const struct sp_node *node, const char *name, const struct sp_sharding *sharding,
                           enum sp_spec_origin origin)
{
    uint32_t id = sp_dataflow_node(dataflow, node), found = 0;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        const struct sp_value *value = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        if (!value || strcmp(value->name, name) != 0)
            continue;
        *sp_spec_of(assignment, id, i) = (struct sp_spec_entry){sharding, origin, NULL};
        found++;
    }
    cr_assert_gt(found, 0, "no operand %s", name);
}

static inline void given(const struct sp_node *node, const char *name, const char *dims, const char *placement)
{
    specify(node, name, build_blocks(build.arena, dims, placement), SP_SPEC_GIVEN);
}

static inline const struct sp_relation *relation_of(const struct sp_node *node)
{
    for (uint32_t i = 0; i < dataflow->relation_count; i++)
        if (dataflow->relations[i].kind == SP_RELATION_NODE && dataflow->relations[i].node == node)
            return &dataflow->relations[i];
    cr_assert_fail("the node has no relation");
    return NULL;
}

static inline struct sp_view *view_of(const struct sp_node *node)
{
    struct sp_view *view = NULL;
    cr_assert_eq(sp_view_create(build.arena, assignment, relation_of(node), &view, &build.err), SP_OK, "%s",
                 build.err.message);
    return view;
}

static inline const char *spec_text(const struct sp_sharding *sharding)
{
    return sp_spec_text(sharding, sp_arena_alloc(build.arena, SP_SPEC_TEXT_SIZE), SP_SPEC_TEXT_SIZE);
}

static inline const char *result_text(const struct sp_node *node, uint32_t output)
{
    return spec_text(view_of(node)->results[output]);
}

/* "SPLIT WHOLE": the kinds of conflicts in order. */
static inline const char *conflicts_text(const struct sp_node *node)
{
    static const char *const names[] = {"SPLIT",       "WHOLE", "DEVICES", "COVERAGE",
                                        "NEEDS_WHOLE", "BLOCK", "FACTORS", "SEVERAL"};
    const struct sp_view *view = view_of(node);
    const char *text = "";
    for (uint32_t i = 0; i < view->conflict_count; i++)
        text = sp_arena_printf(build.arena, "%s%s%s", text, i > 0 ? " " : "", names[view->conflicts[i].kind]);
    return text;
}

#define EXPECT_RESULT(node, output, text)                                                                              \
    cr_expect_str_eq(result_text(node, output), text, "%s", result_text(node, output))
#define EXPECT_CONFLICTS(node, text) cr_expect_str_eq(conflicts_text(node), text, "%s", conflicts_text(node))
