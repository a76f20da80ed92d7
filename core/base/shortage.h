#pragma once
/*
 * shortage - whether the system had no memory for this process.
 *
 * Many a short text, and what is worked out only to be said or to be kept for later, is put together without a look at
 * each piece, and lacks something then. So buffers and arenas note here that the system gave them nothing, and who runs
 * a job asks when it is over, and gives out nothing that it made. Budgets are no shortage: what they refuse is an error
 * of the job. One flag for the process, from any thread.
 */
#include <stdbool.h>

void sp_shortage_note(void);

/* Whether anything was noted since the last call. */
bool sp_shortage_noted(void);
