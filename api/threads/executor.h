#pragma once
/*
 * executor - threads for the library's work (base/executor.h): a pool that lives as long as the program wants.
 *
 * The calling thread works too, so a pool of n threads has n - 1 of its own. Where a thread cannot be made there are
 * fewer; results do not depend on how many there are.
 */
#include "base/executor.h"

struct sp_threads;

/* A pool of `count` threads, 0: as many as this process may run on at a time. NULL without memory. */
struct sp_threads *sp_threads_create(uint32_t count);
void sp_threads_destroy(struct sp_threads *threads); /* NULL is allowed */

/* What the library takes; good as long as the pool. NULL gives NULL. */
const struct sp_executor *sp_threads_executor(const struct sp_threads *threads);
