#include "fibers.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <ucontext.h>

#define STACK_BYTES (256u << 10)

struct fiber {
    ucontext_t own, back;
    void (*run)(void *context);
    void *context;
    char *stack;
    bool has_ended;
};

static struct fiber *current;

static void begin(void)
{
    struct fiber *fiber = current;
    fiber->run(fiber->context);
    fiber->has_ended = true;
    (void)swapcontext(&fiber->own, &fiber->back);
}

struct fiber *fiber_create(void (*run)(void *context), void *context)
{
    struct fiber *fiber = calloc(1, sizeof *fiber);
    cr_assert_not_null(fiber);
    fiber->stack = malloc(STACK_BYTES);
    cr_assert(fiber->stack != NULL && getcontext(&fiber->own) == 0);
    fiber->run = run;
    fiber->context = context;
    fiber->own.uc_stack.ss_sp = fiber->stack;
    fiber->own.uc_stack.ss_size = STACK_BYTES;
    makecontext(&fiber->own, begin, 0);
    return fiber;
}

void fiber_destroy(struct fiber *fiber)
{
    free(fiber->stack);
    free(fiber);
}

void fiber_resume(struct fiber *fiber)
{
    current = fiber;
    cr_assert_eq(swapcontext(&fiber->back, &fiber->own), 0);
    current = NULL;
}

bool fiber_has_ended(const struct fiber *fiber)
{
    return fiber->has_ended;
}

void fibers_yield(void)
{
    if (current != NULL)
        (void)swapcontext(&current->own, &current->back);
}

bool fibers_inside(void)
{
    return current != NULL;
}
