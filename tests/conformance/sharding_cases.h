#pragma once
/*
 * sharding_cases - the published cases of HloSharding through the library, one check per kind of case.
 *
 * A check reads its case from `test->in`, and says what is wrong with differs(); a case that cannot be read is wrong,
 * too. Memory is the test's arena.
 */
#include <jansson.h>
#include <stdbool.h>

#include "../unit/support/members.h"
#include "sharding/hlo/hlo.h"

struct test {
    const json_t *in;
    struct sp_arena *arena;
    struct sp_error err;
    char reason[2048]; /* "" while nothing is wrong */
};

struct check {
    const char *kind;
    void (*run)(struct test *test);
};

/* Each ends with an entry of kind NULL. */
extern const struct check text_checks[], axis_checks[], tile_checks[], holding_checks[], rule_checks[];

/* Records what is wrong; the first one counts. */
__attribute__((format(printf, 2, 3))) void differs(struct test *test, const char *format, ...);

/* Members of the case; "", 0 and an empty list when they are missing, which is wrong. */
const char *get_text(struct test *test, const char *key);
int64_t get_number(struct test *test, const char *key);
const json_t *get_list(struct test *test, const char *key);

/* A list of numbers in the arena. */
int64_t *get_numbers(struct test *test, const char *key, uint32_t *ret_count);
uint32_t *get_indices(struct test *test, const char *key, uint32_t *ret_count);

/* The sharding of a text; NULL, and wrong, when it cannot be read. */
struct sp_hlo *read_hlo(struct test *test, const char *text);
const char *write_hlo(struct test *test, const struct sp_hlo *hlo, bool metadata);

/* The same in the common form. */
struct sp_sharding *read_common(struct test *test, const char *text);
/* The text of one in a version of XLA's notation; "" and wrong when there is none. */
const char *write_common(struct test *test, const struct sp_sharding *sharding, enum sp_hlo_version version);

/* Compares with the member "expect". */
void expect_text(struct test *test, const char *found);
void expect_bool(struct test *test, bool found);
void expect_numbers(struct test *test, uint32_t count, const int64_t *found);
