#include "workers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 2

struct table {
    uint64_t failed, done;
    struct counts counts;
};

/* The slot of a name, or a free one. */
static struct count *find(const struct counts *counts, const char *name)
{
    uint32_t slot = 2166136261u;
    for (const char *c = name; *c; c++)
        slot = (slot ^ (unsigned char)*c) * 16777619u;
    for (uint32_t i = 0; i < COUNTS_MAX; i++) {
        const struct count *item = &counts->items[(slot + i) % COUNTS_MAX];
        if (item->name[0] == '\0' || strcmp(item->name, name) == 0)
            return (struct count *)item;
    }
    puts("not ok workers: too many names");
    exit(1);
}

void counts_add(struct counts *counts, uint64_t number, const char *format, ...)
{
    char name[sizeof(counts->items[0].name)];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    struct count *item = find(counts, name);
    memcpy(item->name, name, sizeof(name));
    item->number += number;
}

uint64_t counts_get(const struct counts *counts, const char *name)
{
    return find(counts, name)->number;
}

static void work(uint64_t first, uint64_t count, uint64_t worker, worker_case run, struct table *table)
{
    for (uint64_t i = worker; i < count; i += WORKERS) {
        table->failed += run(first + i, &table->counts) ? 0 : 1;
        table->done++;
    }
}

void workers_run(uint64_t first, uint64_t count, worker_case run, struct counts *ret_counts, uint64_t *ret_failed)
{
    pid_t children[WORKERS];
    struct table *tables =
        mmap(NULL, WORKERS * sizeof(*tables), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tables == MAP_FAILED) {
        puts("not ok workers: no memory");
        exit(1);
    }
    fflush(stdout);
    for (uint64_t w = 0; w < WORKERS; w++) {
        children[w] = fork();
        if (children[w] < 0) {
            puts("not ok workers: no process");
            exit(1);
        }
        if (children[w] == 0) {
            work(first, count, w, run, &tables[w]);
            exit(fflush(stdout) != 0); /* not _exit(): the leak check runs here */
        }
    }
    memset(ret_counts, 0, sizeof(*ret_counts));
    *ret_failed = 0;
    for (uint64_t w = 0; w < WORKERS; w++) {
        int status = -1;
        uint64_t wanted = count / WORKERS + (w < count % WORKERS ? 1 : 0);
        if (waitpid(children[w], &status, 0) != children[w] || status != 0) {
            printf("not ok workers: process %" PRIu64 " ended with status %d, perhaps in case %" PRIu64 "\n", w, status,
                   first + w + WORKERS * tables[w].done);
            *ret_failed += wanted > tables[w].done ? wanted - tables[w].done : 1;
        }
        *ret_failed += tables[w].failed;
        for (uint32_t i = 0; i < COUNTS_MAX; i++)
            if (tables[w].counts.items[i].name[0] != '\0')
                counts_add(ret_counts, tables[w].counts.items[i].number, "%s", tables[w].counts.items[i].name);
    }
    munmap(tables, WORKERS * sizeof(*tables));
}

uint64_t workers_argument(int argc, char **argv, int index, uint64_t otherwise)
{
    char *end;
    if (index >= argc)
        return otherwise;
    unsigned long long number = strtoull(argv[index], &end, 10);
    if (*argv[index] == '\0' || *end != '\0') {
        fprintf(stderr, "'%s' is no number of cases\n", argv[index]);
        exit(2);
    }
    return number;
}
