#pragma once
/*
 * fibers - functions that run in turns in one thread: fibers_yield() hands on, and the test decides who goes on.
 */
#include <stdbool.h>

struct fiber;

struct fiber *fiber_create(void (*run)(void *context), void *context); /* fails the test without memory */
void fiber_destroy(struct fiber *fiber);                               /* one that has ended */

void fiber_resume(struct fiber *fiber); /* runs it to its next yield, or to its end */
bool fiber_has_ended(const struct fiber *fiber);

/* In a fiber: back to who resumed it. Nothing outside of one. */
void fibers_yield(void);
bool fibers_inside(void);
