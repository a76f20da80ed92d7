#pragma once
/*
 * expect_op - what the tests of operator families share: one model at a time, and expectations about it.
 *
 * A test starts a model with start(), adds inputs and nodes through `build`, and calls infer() or refused(). The
 * suite's .fini is stop.
 */
#include <criterion/criterion.h>

#include "build_model.h"

static struct build build;

static inline void start(int64_t opset)
{
    build_init(&build, opset);
}

static inline void stop(void)
{
    build_release(&build);
}

static inline void infer(void)
{
    cr_assert_eq(build_infer(&build), SP_OK, "%s", build.err.message);
}

/* Inference fails as a fault of the model with this code; the model is gone afterwards. */
static inline void refused(const char *code)
{
    cr_assert_eq(build_infer(&build), SP_ERR_MODEL, "it was accepted");
    cr_assert_str_eq(build.err.code, code, "%s: %s", build.err.code, build.err.message);
    stop();
}

/* A float input. */
static inline void input(const char *name, const char *dims)
{
    build_input(&build, name, SP_DTYPE_FLOAT, dims);
}

#define EXPECT_TYPE(name, text)  cr_expect_str_eq(build_type(&build, name), text, "%s", build_type(&build, name))
#define EXPECT_DATA(name, text)  cr_expect_str_eq(build_data(&build, name), text, "%s", build_data(&build, name))
#define EXPECT_RULE(node, text)  cr_expect_str_eq(build_rule(&build, node), text, "%s", build_rule(&build, node))
#define EXPECT_FLOPS(node, want) cr_expect_eq(build_flops(&build, node), want, "%.17g", build_flops(&build, node))
