#pragma once
/*
 * sandbox - what a worker gives up before it looks at the first byte of anybody's model.
 *
 * Walls, each where the kernel has it, and one behind the other:
 *
 *   no_new_privs  no program that is executed could give more rights
 *   limits        few descriptors, no processes or threads, no core files, files of at most `file_bytes`, memory of at
 *                 most `memory_bytes`; none of them can be raised again
 *   landlock      nothing is opened, made, renamed or removed anywhere
 *   seccomp       system calls that planning, reading and writing need; any other ends the process with SIGSYS, but for
 *                 those that libraries try and can do without: they fail with EPERM. To open or look at a file by its
 *                 name is one of these; what a process works on it gets as descriptors on its standard input
 *
 * Memory is what a process can write to: pages of a model that is mapped for reading do not count, and memory that is
 * shared is none that it gets. What one job may have is limited further (limits.c), and who started the process kills it
 * when its time is over. Under the sanitizers, whose run-time needs more files, memory and system calls, landlock and
 * the limits of processes and memory are left out and seccomp lets more pass.
 */
#include <stdbool.h>
#include <stdint.h>

struct sandbox {
    uint64_t file_bytes; /* of one written file */
    uint64_t memory_bytes;
    unsigned descriptors; /* that are open at a time */
    unsigned kept;        /* descriptors after 2 that stay open */
};

enum sandbox_wall { SANDBOX_NO_NEW_PRIVS, SANDBOX_LIMITS, SANDBOX_LANDLOCK, SANDBOX_SECCOMP, SANDBOX_WALLS };

struct sandbox_walls {
    bool up[SANDBOX_WALLS];
};

/* Closes all descriptors but 0, 1, 2 and those that are kept, and raises the walls; there is no way back. What the kernel lacks is missing
 *in ret_walls. False with errno when a wall that the kernel has could not be raised: the process must end then. */
bool sandbox_enter(const struct sandbox *sandbox, struct sandbox_walls *ret_walls);

/* Which walls a process could raise here: tried by a child that ends at once. Before there are threads. False when that
   cannot be found out, or a wall that the kernel has could not be raised. */
bool sandbox_try(struct sandbox_walls *ret_walls);

const char *sandbox_wall_name(enum sandbox_wall wall);
bool sandbox_is_whole(const struct sandbox_walls *walls);

/* The walls that are up, or those that are not, with blanks between them. */
#define SANDBOX_TEXT_SIZE 64
void sandbox_describe(const struct sandbox_walls *walls, bool up, char ret[SANDBOX_TEXT_SIZE]);
