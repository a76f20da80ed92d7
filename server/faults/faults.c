#include "faults/faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#define SITE_DEPTH 8 /* callers that make a site */
#define SITE_SKIP  3 /* the functions of this file */

static struct faults *shared;
static bool in_worker;

static uint64_t number(const uint64_t *member)
{
    return __atomic_load_n(member, __ATOMIC_SEQ_CST);
}

/* FNV-1a over the return addresses, as they are in their files: each process has these elsewhere. */
static uint64_t site_now(void)
{
    void *frames[SITE_SKIP + SITE_DEPTH];
    int count = backtrace(frames, SITE_SKIP + SITE_DEPTH);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = SITE_SKIP; i < count; i++) {
        struct dl_find_object file = {0}; /* unlike dladdr() it looks through no symbols */
        (void)_dl_find_object(frames[i], &file);
        hash = (hash ^ ((uint64_t)(uintptr_t)frames[i] - (uint64_t)(uintptr_t)file.dlfo_map_start)) * 0x100000001b3u;
    }
    return hash | 1; /* 0 is an empty slot */
}

/* Remembers it, too. */
static bool is_new_site(void)
{
    uint64_t site = site_now();
    for (size_t turn = 0; turn < FAULT_SITES; turn++) {
        uint64_t found = 0, *slot = &shared->sites[(site + turn) & (FAULT_SITES - 1)];
        if (__atomic_compare_exchange_n(slot, &found, site, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return true;
        if (found == site)
            return false;
    }
    return false;
}

/* Of the calls that find a new site only the first one fails. */
static bool first_new_site(void)
{
    return number(&shared->fired) == 0 && is_new_site();
}

bool faults_hit(enum fault_kind kind)
{
    if (kind == FAULT_MEMORY && in_worker)
        kind = FAULT_WORKER;
    if (shared == NULL || number(&shared->kind) != (uint64_t)kind)
        return false;
    uint64_t seen = __atomic_add_fetch(&shared->seen, 1, __ATOMIC_SEQ_CST), at = number(&shared->at);
    enum fault_mode mode = (enum fault_mode)number(&shared->mode);
    bool fails = mode == FAULT_NEW_SITE ? first_new_site() : mode == FAULT_FROM ? seen >= at : seen == at;
    if (fails)
        (void)__atomic_add_fetch(&shared->fired, 1, __ATOMIC_SEQ_CST);
    return fails;
}

void faults_job_over(void)
{
#ifdef __SANITIZE_ADDRESS__
    if (shared != NULL && number(&shared->kind) == FAULT_WORKER && number(&shared->fired) > 0)
        (void)__lsan_do_recoverable_leak_check();
#endif
}

/* ---- allocations: the linker puts these in the place of the C library's (--wrap) ---- */

#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *old, size_t size);
void *REAL(aligned_alloc)(size_t alignment, size_t size);
char *REAL(strdup)(const char *text);
char *REAL(strndup)(const char *text, size_t size);
int REAL(vasprintf)(char **ret, const char *format, va_list args);
void *WRAP(malloc)(size_t size);
void *WRAP(calloc)(size_t count, size_t size);
void *WRAP(realloc)(void *old, size_t size);
void *WRAP(aligned_alloc)(size_t alignment, size_t size);
char *WRAP(strdup)(const char *text);
char *WRAP(strndup)(const char *text, size_t size);
int WRAP(vasprintf)(char **ret, const char *format, va_list args);
int WRAP(asprintf)(char **ret, const char *format, ...);

static bool no_memory(void)
{
    if (!faults_hit(FAULT_MEMORY))
        return false;
    errno = ENOMEM;
    return true;
}

void *WRAP(malloc)(size_t size)
{
    return no_memory() ? NULL : REAL(malloc)(size);
}

void *WRAP(calloc)(size_t count, size_t size)
{
    return no_memory() ? NULL : REAL(calloc)(count, size);
}

void *WRAP(realloc)(void *old, size_t size)
{
    return no_memory() ? NULL : REAL(realloc)(old, size);
}

void *WRAP(aligned_alloc)(size_t alignment, size_t size)
{
    return no_memory() ? NULL : REAL(aligned_alloc)(alignment, size);
}

char *WRAP(strdup)(const char *text)
{
    return no_memory() ? NULL : REAL(strdup)(text);
}

char *WRAP(strndup)(const char *text, size_t size)
{
    return no_memory() ? NULL : REAL(strndup)(text, size);
}

int WRAP(vasprintf)(char **ret, const char *format, va_list args)
{
    return no_memory() ? -1 : REAL(vasprintf)(ret, format, args);
}

int WRAP(asprintf)(char **ret, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = WRAP(vasprintf)(ret, format, args);
    va_end(args);
    return length;
}

/* ---- libraries ---- */

static void *sqlite_malloc(int size)
{
    return WRAP(malloc)((size_t)size);
}

static void *sqlite_realloc(void *old, int size)
{
    return WRAP(realloc)(old, (size_t)size);
}

static int sqlite_size(void *block)
{
    return block != NULL ? (int)malloc_usable_size(block) : 0;
}

static int sqlite_round_up(int size)
{
    return (size + 7) & ~7;
}

static int sqlite_begin(void *context)
{
    (void)context;
    return SQLITE_OK;
}

static void sqlite_end(void *context)
{
    (void)context;
}

/* ---- setting up ---- */

void faults_set_up(bool is_worker)
{
    static const sqlite3_mem_methods methods = {sqlite_malloc,   free,         sqlite_realloc, sqlite_size,
                                                sqlite_round_up, sqlite_begin, sqlite_end,     NULL};
    const char *path = getenv("SHARDPLAN_FAULTS");
    void *frames[1];
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (page == MAP_FAILED)
        return;
    (void)backtrace(frames, 1); /* loads what it needs */
    in_worker = is_worker;
    (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
    shared = page;
}
