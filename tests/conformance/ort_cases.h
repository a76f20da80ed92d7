#pragma once
/* ort_cases - what the files of this program share: results as TAP, counted per kind. */
#include <jansson.h>
#include <stdbool.h>

#include "../unit/support/members.h"
#include "sharding/dialect.h"

struct tap_count {
    const char *kind;
    int passed, total;
};

/* One case at hand. */
struct tap_case {
    struct sp_arena *arena;
    struct sp_error err;
    char reason[1024]; /* "" while nothing is wrong */
};

/* A case with an arena of its own; what is wrong, of which the first counts; its line. */
void case_begin(struct tap_case *test);
__attribute__((format(printf, 2, 3))) void case_differs(struct tap_case *test, const char *format, ...);
void case_end(struct tap_case *test, struct tap_count *count, const char *id);

/* Members of a case that nobody read are wrong. */
void case_read_all(struct tap_case *test, const json_t *json);

/* "# KIND: n of m"; whether all passed. */
bool count_end(const struct tap_count *count);

/* Reads a sharding in a dialect; NULL, and wrong, when it cannot. */
struct sp_sharding *case_read(struct tap_case *test, enum sp_dialect dialect, const char *text,
                              const struct sp_dialect_context *context);

/* The golden bytes of ONNX, the composition of proposal 0007. */
bool run_golden(void);
