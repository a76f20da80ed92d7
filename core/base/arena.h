#pragma once
/*
 * arena - memory of one job.
 *
 * A job (reading a model, searching a plan) allocates from one arena and frees nothing by itself; destroying the arena
 * frees everything. Chunks grow geometrically, so many small objects cost a pointer bump each. An arena may be bound to
 * a budget, which other arenas may share; going over it looks like running out of memory, and never crashes.
 *
 * Glossary
 *  budget  how many bytes all arenas of a job may take from the system together
 *  mark    a position to which a scratch arena can be rolled back; everything allocated after it is gone
 *
 * Invariants
 *  - Returned memory is zeroed and aligned for any type. It is never moved.
 *  - A NULL return means: nothing was allocated, report SP_ERR_MEMORY (sp_fail_memory()).
 *  - Not thread-safe: one thread per arena and budget.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct sp_budget {
    size_t limit;           /* bytes; 0 means no limit */
    size_t used;            /* bytes taken now */
    size_t peak;            /* largest `used` so far */
    bool is_refused;        /* something was refused for going over the limit */
    const char *limit_name; /* of base/limits.h, where one set the limit */
};

/* Sets the limit to what checking a file of `size` bytes may take, or completing its shardings for `devices` devices:
   what a small file describes never costs much (SP_FREE_JOB_BYTES, SP_JOB_FILE_FACTOR, SP_JOB_DEVICE_BYTES). At most
   `most`, or SP_DEFAULT_JOB_BYTES when that is 0. */
void sp_budget_for_file(struct sp_budget *budget, uint64_t size, uint64_t devices, size_t most);

/* Says what a failure was: SP_ERR_LIMIT where `err` is want of memory and the budget's named limit refused it. Any
   other error stays. Returns the status that `err` has then. */
enum sp_status sp_budget_explain(const struct sp_budget *budget, struct sp_error *err);

/* For a program, once, when it starts: what large chunks took goes back to the system when they are freed, so that a
   process is not larger than its budget says. glibc else keeps the freed ones after the first few. */
void sp_arena_set_up_process(void);

struct sp_arena;

struct sp_arena_mark {
    void *chunk;
    size_t used;
};

/* A new arena, or NULL without memory. `budget` may be NULL and must outlive the arena. */
struct sp_arena *sp_arena_create(struct sp_budget *budget);

/* An arena that counts against the same budget and is destroyed with `parent`, but keeps what it has when that is rolled
   back: for tables that grow whenever they are asked. It has no children of its own. NULL without memory. */
struct sp_arena *sp_arena_child(struct sp_arena *parent);

/* Frees all of it, children included. NULL is allowed; a child is not destroyed by itself. */
void sp_arena_destroy(struct sp_arena *arena);

/* `size` zeroed bytes (a unique non-NULL pointer for 0), or NULL. */
void *sp_arena_alloc(struct sp_arena *arena, size_t size);

/* `count` zeroed objects of `size` bytes; NULL also when the product overflows. */
void *sp_arena_array(struct sp_arena *arena, size_t count, size_t size);

/* A NUL-terminated copy of `size` bytes, or NULL. */
char *sp_arena_string(struct sp_arena *arena, const char *bytes, size_t size);

/* printf into the arena; NULL without memory. */
__attribute__((format(printf, 2, 3))) char *sp_arena_printf(struct sp_arena *arena, const char *format, ...);

/* Scratch use: everything allocated between mark and rewind is given back (the memory stays with the arena). */
struct sp_arena_mark sp_arena_mark(struct sp_arena *arena);
void sp_arena_rewind(struct sp_arena *arena, struct sp_arena_mark mark);

/* The budget it was created with, or NULL: for a helper's own scratch arena, that it counts against the same job. */
struct sp_budget *sp_arena_budget(const struct sp_arena *arena);

/* Bytes this arena holds from the system. */
size_t sp_arena_bytes(const struct sp_arena *arena);

/* Typed shorthands: SP_NEW(arena, struct foo), SP_NEW_ARRAY(arena, 10, int64_t). */
#define SP_NEW(arena, type)              ((type *)sp_arena_alloc((arena), sizeof(type)))
#define SP_NEW_ARRAY(arena, count, type) ((type *)sp_arena_array((arena), (count), sizeof(type)))
