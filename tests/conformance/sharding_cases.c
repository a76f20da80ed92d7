/*
 * sharding_cases [FILE]: every case of hlo_sharding_cases.json, and the graphs of xla_auto_sharding_cases.json, as
 * lines of TAP, and how many of each kind passed. The files are looked for in $SHARDPLAN_TEST_DATA, then in
 * ../shared/data beside the source tree.
 */
#include "sharding_cases.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void differs(struct test *test, const char *format, ...)
{
    if (test->reason[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(test->reason, sizeof(test->reason), format, args);
    va_end(args);
}

/* ---- members ---- */

const char *get_text(struct test *test, const char *key)
{
    const char *text = json_string_value(json_object_get(test->in, key));
    if (!text)
        differs(test, "the case has no text \"%s\"", key);
    return text ? text : "";
}

int64_t get_number(struct test *test, const char *key)
{
    const json_t *number = json_object_get(test->in, key);
    if (!json_is_integer(number))
        differs(test, "the case has no number \"%s\"", key);
    return json_integer_value(number);
}

const json_t *get_list(struct test *test, const char *key)
{
    const json_t *list = json_object_get(test->in, key);
    if (!json_is_array(list))
        differs(test, "the case has no list \"%s\"", key);
    return list;
}

int64_t *get_numbers(struct test *test, const char *key, uint32_t *ret_count)
{
    const json_t *list = get_list(test, key);
    size_t count = json_array_size(list);
    int64_t *numbers = SP_NEW_ARRAY(test->arena, count + 1, int64_t);
    for (size_t i = 0; i < count; i++)
        numbers[i] = json_integer_value(json_array_get(list, i));
    *ret_count = (uint32_t)count;
    return numbers;
}

uint32_t *get_indices(struct test *test, const char *key, uint32_t *ret_count)
{
    int64_t *numbers = get_numbers(test, key, ret_count);
    uint32_t *indices = SP_NEW_ARRAY(test->arena, (size_t)*ret_count + 1, uint32_t);
    for (uint32_t i = 0; i < *ret_count; i++)
        indices[i] = (uint32_t)numbers[i];
    return indices;
}

/* ---- shardings ---- */

struct sp_hlo *read_hlo(struct test *test, const char *text)
{
    struct sp_hlo *hlo = NULL;
    if (!text)
        differs(test, "a sharding is not a text");
    else if (sp_hlo_read_text(test->arena, text, strlen(text), &hlo, &test->err) != SP_OK)
        differs(test, "%s is not read: %s", text, test->err.message);
    return hlo;
}

const char *write_hlo(struct test *test, const struct sp_hlo *hlo, bool metadata)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SP_MAX_SHARDING_BYTES);
    sp_hlo_write_text(hlo, metadata, &buf);
    const char *text = sp_buf_failed(&buf) ? "" : sp_arena_string(test->arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

struct sp_sharding *read_common(struct test *test, const char *text)
{
    struct sp_sharding *sharding = NULL;
    struct sp_losses losses = {0};
    const struct sp_hlo *hlo = read_hlo(test, text);
    if (hlo && sp_hlo_to_sharding(test->arena, hlo, &sharding, &losses, &test->err) != SP_OK)
        differs(test, "%s has no common form: %s", text, test->err.message);
    return sharding;
}

const char *write_common(struct test *test, const struct sp_sharding *sharding, enum sp_hlo_version version)
{
    struct sp_hlo *hlo;
    struct sp_losses losses = {0};
    enum sp_status status = sp_hlo_from_sharding(
        test->arena, sharding, &(struct sp_dialect_context){.rank = sharding->rank, .hlo_version = version}, &hlo,
        &losses, &test->err);
    if (status != SP_OK) {
        differs(test, "the sharding is not written: %s", test->err.message);
        return "";
    }
    return write_hlo(test, hlo, false);
}

/* ---- expectations ---- */

void expect_text(struct test *test, const char *found)
{
    const char *expected = get_text(test, "expect");
    if (strcmp(expected, found) != 0)
        differs(test, "expected %s, found %s", expected, found);
}

void expect_bool(struct test *test, bool found)
{
    const json_t *expected = json_object_get(test->in, "expect");
    if (!json_is_boolean(expected) || json_is_true(expected) != found)
        differs(test, "found %s", found ? "true" : "false");
}

void expect_numbers(struct test *test, uint32_t count, const int64_t *found)
{
    uint32_t expected_count;
    const int64_t *expected = get_numbers(test, "expect", &expected_count);
    if (expected_count != count)
        differs(test, "expected %" PRIu32 " numbers, found %" PRIu32, expected_count, count);
    for (uint32_t i = 0; i < count && i < expected_count; i++)
        if (expected[i] != found[i])
            differs(test, "entry %" PRIu32 ": expected %" PRId64 ", found %" PRId64, i, expected[i], found[i]);
}

/* ---- running ---- */

static const struct check *find_check(const char *kind)
{
    const struct check *const tables[] = {text_checks, axis_checks, tile_checks, holding_checks, rule_checks};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        for (const struct check *check = tables[i]; check->kind; check++)
            if (strcmp(check->kind, kind) == 0)
                return check;
    return NULL;
}

/* Helpers of XLA's partitioner, which moves the tiles of a sorted dim to another one: no operator says that, and what is
   sorted is made whole here. */
static bool is_of_partitioner(const char *kind)
{
    return strcmp(kind, "move_tiles") == 0 || strcmp(kind, "first_dim_to_move_tiles_to") == 0;
}

/* Adds to a kind's counters in `counts`: {"KIND": [passed, all]}. */
static void count(json_t *counts, const char *kind, bool passed)
{
    json_t *pair = json_object_get(counts, kind);
    if (!pair) {
        pair = json_pack("[i, i]", 0, 0);
        json_object_set_new(counts, kind, pair);
    }
    json_integer_set(json_array_get(pair, 0), json_integer_value(json_array_get(pair, 0)) + passed);
    json_integer_set(json_array_get(pair, 1), json_integer_value(json_array_get(pair, 1)) + 1);
}

static bool run_case(const json_t *in, json_t *counts)
{
    const char *kind = json_string_value(json_object_get(in, "kind"));
    const char *id = json_string_value(json_object_get(in, "id"));
    id = id ? id : json_string_value(json_object_get(in, "name"));
    struct test test = {.in = in, .arena = sp_arena_create(NULL)};
    kind = kind ? kind : "?";
    if (is_of_partitioner(kind)) {
        sp_arena_destroy(test.arena);
        printf("ok hlo/%s %s # SKIP a helper of XLA's partitioner\n", kind, id ? id : "?");
        return true;
    }
    const struct check *check = find_check(kind);
    if (check && test.arena)
        check->run(&test);
    else
        differs(&test, "no check for this kind of case");
    members_skip(in, "basis src reason xla_aborts_process");
    const char *unread = members_unread(in);
    if (unread)
        differs(&test, "%s is not read", unread);
    for (char *c = test.reason; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    bool passed = test.reason[0] == '\0';
    printf("%sok hlo/%s %s%s%s\n", passed ? "" : "not ", kind, id ? id : "?", passed ? "" : ": ", test.reason);
    count(counts, kind, passed);
    sp_arena_destroy(test.arena);
    return passed;
}

static bool run_cases(const json_t *cases, const char *only)
{
    json_t *counts = json_object(), *pair;
    bool passed = true;
    const char *kind;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *in = json_array_get(cases, i);
        if (!only || strcmp(json_string_value(json_object_get(in, "kind")), only) == 0)
            passed = run_case(in, counts) && passed;
    }
    passed = passed && json_object_size(counts) > 0;
    json_object_foreach(counts, kind, pair)
    {
        printf("# %s: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT "\n", kind,
               json_integer_value(json_array_get(pair, 0)), json_integer_value(json_array_get(pair, 1)));
    }
    json_decref(counts);
    return passed;
}

/* The cases of a file; `kind`: only those of this kind, NULL: all. False where one fails, or there is none. */
static bool run_file(const char *file, const char *kind)
{
    json_error_t problem;
    json_t *root = json_load_file(file, 0, &problem);
    if (!root) {
        printf("not ok hlo-cases: %s\n", problem.text);
        return false;
    }
    bool passed = run_cases(json_object_get(root, "cases"), kind);
    json_decref(root);
    return passed;
}

int main(int argc, char **argv)
{
    /* The other kinds of the second file are problems of numbers alone (tests/unit/solvers/test_choice_xla.c). */
    static const char *const files[][2] = {{"hlo_sharding_cases.json", NULL},
                                           {"xla_auto_sharding_cases.json", "end_to_end"}};
    const char *folder = getenv("SHARDPLAN_TEST_DATA");
    bool passed = true;
    if (argc > 1)
        return run_file(argv[1], NULL) ? 0 : 1;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[4096];
        (void)snprintf(path, sizeof(path), "%s/%s", folder ? folder : SOURCE_ROOT "/../shared/data", files[i][0]);
        if (access(path, F_OK) == 0)
            passed = run_file(path, files[i][1]) && passed;
        else
            printf("ok hlo-cases # SKIP there is no %s\n", path);
    }
    return passed ? 0 : 1;
}
