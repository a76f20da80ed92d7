#include "util/json_memory.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server_limits.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(max_align_t) unsigned char reserve[SPD_JSON_RESERVE];
static size_t used, blocks; /* what is given back is used again when nothing is out any more */
static _Thread_local bool was_short;
static _Atomic uint64_t handed_out; /* bytes since memory was given back */
static uint64_t looked_ms;

static void *take_reserve(size_t size)
{
    void *block = NULL;
    size_t whole = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    (void)pthread_mutex_lock(&mutex);
    if (whole >= size && whole <= sizeof reserve - used) {
        block = reserve + used;
        used += whole;
        blocks++;
    }
    (void)pthread_mutex_unlock(&mutex);
    return block;
}

static void *allocate(size_t size)
{
    void *block = malloc(size);
    atomic_fetch_add_explicit(&handed_out, size, memory_order_relaxed);
    if (block != NULL)
        return block;
    was_short = true;
    return take_reserve(size);
}

static void release(void *block)
{
    if ((uintptr_t)block < (uintptr_t)reserve || (uintptr_t)block >= (uintptr_t)(reserve + sizeof reserve)) {
        free(block);
        return;
    }
    (void)pthread_mutex_lock(&mutex);
    if (--blocks == 0)
        used = 0;
    (void)pthread_mutex_unlock(&mutex);
}

void json_memory_set_up(void)
{
    json_set_alloc_funcs(allocate, release);
}

char *json_memory_text(const json_t *json, size_t flags)
{
    bool before = was_short;
    was_short = false;
    char *made = json_dumps(json, flags), *text = made != NULL && !was_short ? strdup(made) : NULL;
    if (made != NULL)
        release(made);
    was_short = was_short || before;
    return text;
}

void json_memory_tick(uint64_t now_ms)
{
    if (now_ms - looked_ms < SPD_TRIM_MS)
        return;
    looked_ms = now_ms;
    if (atomic_load(&handed_out) < SPD_TRIM_BYTES)
        return;
    atomic_store(&handed_out, 0);
    (void)malloc_trim(0);
}

bool json_memory_was_short(void)
{
    bool result = was_short;
    was_short = false;
    return result;
}
