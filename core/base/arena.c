#include "base/arena.h"

#include <assert.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arith.h"
#include "base/limits.h"
#include "base/shortage.h"

#define ALIGNMENT   _Alignof(max_align_t)
#define FIRST_CHUNK ((size_t)4 << 10)
#define GROWTH      8 /* each chunk is so many times the one before; later, an eighth of what there is */
#define HUGE_CHUNK  ((size_t)2 << 20) /* one huge page; larger chunks are several of them */
#define LARGE       (HUGE_CHUNK / 2)  /* an object of so much begins a huge chunk: more will follow it */

/* Chunks form a list, newest first; objects are cut from the newest until it is full:
 *
 *   arena -> [chunk: used####....free] -> [chunk: full########] -> NULL
 */
struct chunk {
    struct chunk *previous;
    size_t size; /* bytes of `data` */
    size_t used;
    size_t dirty; /* what lies behind so many bytes was never given out and is zero */
    _Alignas(max_align_t) unsigned char data[];
};

struct sp_arena {
    struct sp_budget *budget;
    struct chunk *chunk;
    size_t held; /* bytes taken from the system, headers included */
    size_t next_size;
    struct sp_arena *children, *sibling;
};

static bool budget_take(struct sp_budget *budget, size_t bytes)
{
    if (budget == NULL)
        return true;
    size_t used;
    if (!sp_add_size(budget->used, bytes, &used) || (budget->limit != 0 && used > budget->limit)) {
        budget->is_refused = true;
        return false;
    }
    budget->used = used;
    if (used > budget->peak)
        budget->peak = used;
    return true;
}

static void budget_give(struct sp_budget *budget, size_t bytes)
{
    if (budget == NULL)
        return;
    assert(budget->used >= bytes);
    budget->used -= bytes;
}

void sp_budget_for_file(struct sp_budget *budget, uint64_t size, uint64_t devices, size_t most)
{
    const size_t for_devices = (size_t)(devices < SP_MAX_DEVICES ? devices : SP_MAX_DEVICES) * SP_JOB_DEVICE_BYTES;
    budget->limit = most != 0 ? most : SP_DEFAULT_JOB_BYTES;
    budget->limit_name = NULL;
    if (size > (budget->limit - 1) / SP_JOB_FILE_FACTOR)
        return;
    const size_t bytes = SP_FREE_JOB_BYTES + for_devices + (size_t)size * SP_JOB_FILE_FACTOR;
    if (bytes < budget->limit) {
        budget->limit = bytes;
        budget->limit_name = "SP_JOB_FILE_FACTOR";
    }
}

enum sp_status sp_budget_explain(const struct sp_budget *budget, struct sp_error *err)
{
    if (err->status != SP_ERR_MEMORY || !budget->is_refused || budget->limit_name == NULL)
        return err->status;
    sp_error_clear(err);
    return sp_fail_limit(err, "MODEL_TOO_DEMANDING", budget->limit_name, (int64_t)budget->limit,
                         (int64_t)budget->limit + 1,
                         "What the model describes takes more than the %zu MB of memory that are given to a file of "
                         "its size (limit %s).",
                         budget->limit >> 20, budget->limit_name);
}

void sp_arena_set_up_process(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, HUGE_CHUNK / 2); /* set, it no longer grows with what is freed */
}

struct sp_arena *sp_arena_create(struct sp_budget *budget)
{
    if (!budget_take(budget, sizeof(struct sp_arena)))
        return NULL;
    struct sp_arena *arena = calloc(1, sizeof *arena);
    if (arena == NULL) {
        sp_shortage_note();
        budget_give(budget, sizeof *arena);
        return NULL;
    }
    arena->budget = budget;
    arena->held = sizeof *arena;
    arena->next_size = FIRST_CHUNK;
    return arena;
}

static void drop_chunk(struct sp_arena *arena)
{
    struct chunk *chunk = arena->chunk;
    size_t bytes = sizeof *chunk + chunk->size;
    arena->chunk = chunk->previous;
    arena->held -= bytes;
    budget_give(arena->budget, bytes);
    free(chunk);
}

static void destroy_one(struct sp_arena *arena)
{
    while (arena->chunk != NULL)
        drop_chunk(arena);
    budget_give(arena->budget, sizeof *arena);
    free(arena);
}

struct sp_arena *sp_arena_child(struct sp_arena *parent)
{
    struct sp_arena *child = sp_arena_create(parent->budget);
    if (child == NULL)
        return NULL;
    child->sibling = parent->children;
    parent->children = child;
    return child;
}

void sp_arena_destroy(struct sp_arena *arena)
{
    if (arena == NULL)
        return;
    while (arena->children != NULL) {
        struct sp_arena *child = arena->children;
        arena->children = child->sibling;
        destroy_one(child);
    }
    destroy_one(arena);
}

/* Much of what a large model costs is the system handing out its memory page by page: a huge page comes instead of 512
   small ones where the system has them for the asking. Where not, nothing is lost. */
static struct chunk *new_huge_chunk(size_t bytes)
{
    struct chunk *chunk = aligned_alloc(HUGE_CHUNK, bytes);
    if (chunk == NULL)
        return NULL;
    (void)madvise(chunk, bytes, MADV_HUGEPAGE);
    /* Whole pages that are the chunk's alone: they come back as zeros, which need not be written again. */
    if (madvise(chunk, bytes, MADV_DONTNEED) != 0)
        memset(chunk, 0, bytes);
    return chunk;
}

static bool add_chunk(struct sp_arena *arena, size_t at_least)
{
    size_t bytes;
    if (!sp_add_size(at_least, sizeof(struct chunk), &bytes))
        return false;
    if (bytes >= LARGE && bytes < HUGE_CHUNK)
        bytes = HUGE_CHUNK;
    if (bytes < arena->next_size)
        bytes = arena->next_size;
    const bool is_huge = bytes >= HUGE_CHUNK;
    if (is_huge && !sp_add_size(bytes, (HUGE_CHUNK - bytes % HUGE_CHUNK) % HUGE_CHUNK, &bytes))
        return false;
    if (!budget_take(arena->budget, bytes))
        return false;
    struct chunk *chunk = is_huge ? new_huge_chunk(bytes) : calloc(1, bytes);
    if (chunk == NULL) {
        sp_shortage_note();
        budget_give(arena->budget, bytes);
        return false;
    }
    chunk->previous = arena->chunk;
    chunk->size = bytes - sizeof *chunk;
    arena->chunk = chunk;
    arena->held += bytes;
    if (arena->next_size < HUGE_CHUNK)
        arena->next_size *= GROWTH;
    else if (arena->held / GROWTH > HUGE_CHUNK)
        arena->next_size = arena->held / GROWTH;
    return true;
}

void *sp_arena_alloc(struct sp_arena *arena, size_t size)
{
    size_t rounded;
    if (!sp_add_size(size == 0 ? 1 : size, ALIGNMENT - 1, &rounded))
        return NULL;
    rounded -= rounded % ALIGNMENT;
    struct chunk *chunk = arena->chunk;
    if (chunk == NULL || chunk->size - chunk->used < rounded) {
        if (!add_chunk(arena, rounded))
            return NULL;
        chunk = arena->chunk;
    }
    unsigned char *memory = chunk->data + chunk->used;
    if (chunk->used < chunk->dirty)
        memset(memory, 0, rounded);
    chunk->used += rounded;
    return memory;
}

void *sp_arena_array(struct sp_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    return sp_mul_size(count, size, &bytes) ? sp_arena_alloc(arena, bytes) : NULL;
}

char *sp_arena_string(struct sp_arena *arena, const char *bytes, size_t size)
{
    size_t with_nul;
    char *copy = sp_add_size(size, 1, &with_nul) ? sp_arena_alloc(arena, with_nul) : NULL;
    if (copy != NULL && size > 0)
        memcpy(copy, bytes, size);
    return copy;
}

char *sp_arena_printf(struct sp_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : sp_arena_alloc(arena, (size_t)length + 1);
    if (text != NULL)
        (void)vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

struct sp_arena_mark sp_arena_mark(struct sp_arena *arena)
{
    struct sp_arena_mark mark = {arena->chunk, arena->chunk == NULL ? 0 : arena->chunk->used};
    return mark;
}

void sp_arena_rewind(struct sp_arena *arena, struct sp_arena_mark mark)
{
    /* The newest chunk survives even when it is younger than the mark: scratch arenas rewind often, and giving the
       memory back to the system each time would cost more than the work between. */
    while (arena->chunk != mark.chunk && arena->chunk->previous != mark.chunk)
        drop_chunk(arena);
    struct chunk *chunk = arena->chunk;
    if (chunk == NULL)
        return;
    if (chunk->dirty < chunk->used)
        chunk->dirty = chunk->used;
    chunk->used = chunk == mark.chunk ? mark.used : 0;
}

struct sp_budget *sp_arena_budget(const struct sp_arena *arena)
{
    return arena->budget;
}

size_t sp_arena_bytes(const struct sp_arena *arena)
{
    return arena->held;
}
