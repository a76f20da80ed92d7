#pragma once
/*
 * problem - what went wrong, from the worker's pipe or the store to the client's `application/problem+json`.
 *
 * A problem is a value without owned memory. It is the daemon's side of the library's sp_error: the HTTP status is
 * added and the limit's name is copied, because problems cross process borders and restarts.
 *
 * Its JSON (kept with a failed plan, sent by a worker, part of an answer) is
 *   {"code","status","detail","kind"?,"where"?,"limit"?,"limit_value"?,"actual"?,
 *    "least_memory_bytes"?,"too_little_memory_bytes"?}
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json_writer.h"

struct problem {
    int status;    /* HTTP; 0: no problem */
    char kind[16]; /* the library's status as a word (sp_status_name()), "" when the daemon itself refused */
    char code[SP_ERROR_CODE_SIZE];
    char where[SP_ERROR_WHERE_SIZE];
    char detail[SP_ERROR_MESSAGE_SIZE];
    char limit[64]; /* "" when no named limit was hit */
    int64_t limit_value, actual;
    int64_t least_memory_bytes, too_little_memory_bytes; /* of base/error.h; 0: not known */
    const char *hint; /* what else the service offers, static; NULL: nothing. Only of this process's answers */
};

/* Records a problem; the first one wins. Returns false, so that `return problem_set(...)` reads well. */
__attribute__((format(printf, 4, 5))) bool problem_set(struct problem *problem, int status, const char *code,
                                                       const char *format, ...);

/* As problem_set(), with the limit's name and the two numbers. */
__attribute__((format(printf, 7, 8))) bool problem_set_limit(struct problem *problem, int status, const char *code,
                                                             const char *limit, int64_t limit_value, int64_t actual,
                                                             const char *format, ...);

/* From a failed call of the library. */
void problem_from_error(struct problem *problem, const struct sp_error *err);

/* From a failed system call: 507 for a full disk or too large a file, 503 for a disk that cannot be written, too many
   open files or without memory, 500 for anything else. `what` says what was being done. */
bool problem_from_errno(struct problem *problem, int error, const char *what);

/* 503: an allocation failed. */
bool problem_no_memory(struct problem *problem);

/* From a stored file that could not be opened: 500 with the code `damaged` when it is not there or no file, and as
   problem_from_errno otherwise: what a process lacks at the moment is no damage. `what` names the file, as
   "the stored plan". */
bool problem_of_stored(struct problem *problem, int error, const char *damaged, const char *what);

/* Whether a file could not be read or written, for another reason than its size or too little room. */
bool problem_is_of_files(const struct problem *problem);

/* The HTTP status of a library status. */
int problem_http_status(enum sp_status status);

/* The reason phrase of an HTTP status, as used in `title`. */
const char *problem_title(int status);

/* Writes the members of the JSON above into an object that is open; `detail` included. */
void problem_write_members(const struct problem *problem, struct sp_json *json);

/* The JSON above as a string of the caller's to free(); NULL without memory. */
char *problem_to_text(const struct problem *problem);

/* Reads the JSON above; whatever is missing or out of range becomes an internal error. */
void problem_from_json(struct problem *problem, const json_t *json);
