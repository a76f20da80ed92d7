#pragma once
/*
 * sandbox - what a worker gives up before it looks at the first byte of anybody's model.
 *
 * Walls, each where the kernel has it, and one behind the other:
 *
 *   no_new_privs  no program that is executed could give more rights
 *   limits        16 descriptors, no processes or threads, no core files, files of at most `file_bytes`
 *   landlock      files are opened below the given folders only
 *   seccomp       system calls that planning, reading and writing need; any other ends the process with SIGSYS, but for
 *                 those that libraries try and can do without: they fail with EPERM
 *
 * Time and memory are limited job by job, by the worker (worker.c). Under the sanitizers, whose run-time needs more
 * files, memory and system calls, landlock and the limit of processes are left out and seccomp lets more pass.
 */
#include <stdbool.h>
#include <stdint.h>

#define SANDBOX_FOLDERS 4 /* of each kind, at most */

struct sandbox {
    const char *reads[SANDBOX_FOLDERS];  /* folders that may be read with all that is below them; NULL: no more */
    const char *writes[SANDBOX_FOLDERS]; /* read and changed: files and folders made, renamed, removed */
    uint64_t file_bytes;                 /* of one written file */
};

struct sandbox_walls {
    bool no_new_privs, limits, landlock, seccomp;
};

/* Closes all descriptors but 0, 1 and 2, and raises the walls; there is no way back. What the kernel lacks is missing
 *in ret_walls. False with errno when a wall that the kernel has could not be raised: the process must end then. */
bool sandbox_enter(const struct sandbox *sandbox, struct sandbox_walls *ret_walls);

/* The walls that are up, with blanks between them, for a log. */
void sandbox_describe(const struct sandbox_walls *walls, char *ret, int size);
