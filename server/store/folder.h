#pragma once
/*
 * folder - whether the data folder is there, is the one that this daemon has locked, and can be written.
 *
 * It may go while the daemon runs: a volume is unmounted, a share is away, a disk turns read-only after an error,
 * somebody renames it. Then nothing is made in its place, what needs it is refused with a problem that says why, and
 * what was accepted waits. Who is about to put something in looks first, and whoever could not read or write something
 * looks whether that is why. When it is back, work goes on.
 *
 * Another folder in its place (a volume that was mounted anew, a copy) is taken over when it has a lock file that
 * nobody holds.
 */
#include <stdbool.h>

#include "util/problem.h"

struct folder;

/* Of the folder that files_open() has opened; `lock` is what that returned, and belongs to the folder from now on, also
   when there is no memory (NULL). `data` and `owner` must outlive it. */
struct folder *folder_create(const char *data, const char *owner, bool is_shared, int lock);
void folder_destroy(struct folder *folder); /* gives up the lock; NULL is allowed */

/* Whether files can be put into it now, and makes this daemon's folder in tmp when that is gone. Any thread that may
   wait for a disk. */
bool folder_look(struct folder *folder, struct problem *problem);

/* Any thread, at once: what the last look has found. */
bool folder_usable(const struct folder *folder);
