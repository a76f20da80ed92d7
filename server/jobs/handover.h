#pragma once
/*
 * handover - the files of one job, as descriptors: what its worker reads, and what it writes.
 *
 * A worker opens nothing (worker/sandbox.h). The daemon opens each file that the job reads, for reading, and makes a file
 * in its folder of tmp for each result; the descriptors go with the job (worker/worker.h), and the worker never has a
 * name or a folder. A result is the job's because the worker of that job got its descriptor, and of one attempt because
 * every attempt gets new files.
 *
 *   make -> handover_given() -> [the worker writes] -> handover_seal() -> read, checked, stored (plan_files.h) -> destroy
 *
 * Until handover_seal() has said yes a worker may still change what it wrote; afterwards nobody can but the daemon.
 *
 * Calls that open or make files wait for a disk, so they are made in threads that may. None is for two threads at once.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/problem.h"

#define HANDOVER_RESULTS   4
#define HANDOVER_NAME_SIZE 65

struct input {
    /* What the job calls it: "model", "plan", the id of a model beside it, or worker_name_beside(). */
    char name[HANDOVER_NAME_SIZE];
    char *path; /* owned; what is kept of a crash is linked to it */
    int file;
};

struct result {
    const char *name; /* static: "plan.json", .. or "result" */
    char *path;       /* owned; where it is, until plan_files_store() has given it another name */
    int file;         /* for reading */
    int given;        /* for writing, until the worker has it; -1 */
    uint64_t size;    /* from handover_seal() on */
    bool is_stored;   /* it is elsewhere now */
};

struct handover {
    struct input *inputs;
    unsigned input_count, room;
    struct result results[HANDOVER_RESULTS];
    unsigned result_count;
    bool is_of_errand; /* the file of the result belongs to who waits for it, and stays */
};

struct handover *handover_create(void); /* NULL without memory */
/* Closes all files, and removes results that were not stored and that nobody waits for. NULL is allowed. */
void handover_destroy(struct handover *handover);

/* Opens a file for the job; false with errno. Path as from files.h: NULL is ENOMEM; the path is taken. */
bool handover_add_input(struct handover *handover, const char *name, char *path);

/* Makes a file for a result. False with a problem. The path is taken; `name` is static. */
bool handover_add_result(struct handover *handover, const char *name, char *path, struct problem *problem);

/* The results anew, for another attempt: of what an earlier worker wrote nothing stays. False with a problem. */
bool handover_renew(struct handover *handover, struct problem *problem);

/* The names in the order of the descriptors, NULL without memory; the descriptors, as many as handover_count() says. */
json_t *handover_names(const struct handover *handover);
unsigned handover_count(const struct handover *handover);
void handover_descriptors(const struct handover *handover, int *ret_files);

/* The descriptors are on their way: the daemon itself does not write. */
void handover_given(struct handover *handover);

/* Whether nobody can write the results any more, whose sizes are known then. False also where the file system cannot
   tell: when the worker has ended nobody can. Main thread, at once. */
bool handover_seal(struct handover *handover);
