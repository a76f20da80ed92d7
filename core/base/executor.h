#pragma once
/*
 * executor - threads that a caller lends to long work.
 *
 * The library makes no threads. Work that can use several cores is cut into a fixed number of tasks that share nothing
 * but what they only read; the caller's executor runs them on as many threads as it likes. What comes out must not
 * depend on how many there are: tasks write into places of their own, and whoever asked puts them together in the
 * order of their indices.
 *
 * A NULL executor runs the tasks one after the other in the calling thread.
 */
#include <stddef.h>
#include <stdint.h>

struct sp_executor {
    /* Runs task(argument, i) for each i below count, in any order and on any threads, and returns when all have ended.
       Not called by tasks. */
    void (*run)(void *context, uint32_t count, void (*task)(void *argument, uint32_t index), void *argument);
    void *context;
    uint32_t threads; /* how many tasks it runs at a time, 1 or more: for deciding how finely to cut, where the result
                         does not depend on that */
};

static inline void sp_executor_run(const struct sp_executor *executor, uint32_t count,
                                   void (*task)(void *argument, uint32_t index), void *argument)
{
    if (executor != NULL && executor->run != NULL && count > 1) {
        executor->run(executor->context, count, task, argument);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        task(argument, i);
}
