/*
 * A model, the models of its ranks, and a manifest of them.
 *
 * The input is pieces, each behind its length in four bytes: the manifest (or nothing: the ranks are one world), the
 * original, and one piece for each rank. Files beside them have the same few bytes over and over. What a manifest names is the rank of that number, "0", "1", ..
 *
 * Properties: nothing breaks; an error says what; the same ranks twice get the same answer. No input takes more than the
 * memory budget.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "fuzz.h"
#include "verify/verify.h"

#define BUDGET    ((size_t)256 << 20)
#define MAX_SIZE  ((size_t)32 << 10)
#define MAX_RANKS 8

struct piece {
    const uint8_t *bytes;
    size_t size;
};

struct pieces {
    uint32_t count;
    struct piece items[MAX_RANKS + 2]; /* manifest, original, ranks */
};

static void expect(bool is_true, const char *what)
{
    if (is_true)
        return;
    (void)fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void take_apart(const uint8_t *bytes, size_t size, struct pieces *ret)
{
    ret->count = 0;
    while (size >= 4 && ret->count < MAX_RANKS + 2) {
        uint32_t length;
        memcpy(&length, bytes, 4);
        bytes += 4;
        size -= 4;
        length = length < size ? length : (uint32_t)size;
        ret->items[ret->count++] = (struct piece){bytes, length};
        bytes += length;
        size -= length;
    }
}

static enum sp_status find(void *context, const char *name, const void **ret_bytes, uint64_t *ret_size,
                           struct sp_error *err)
{
    const struct pieces *pieces = context;
    char *end;
    const unsigned long number = strtoul(name, &end, 10);
    if (end == name || number + 2 >= pieces->count)
        return sp_fail(err, SP_ERR_REQUEST, "FILE_NOT_READABLE", "There is no model '%.40s'.", name);
    *ret_bytes = pieces->items[number + 2].bytes;
    *ret_size = pieces->items[number + 2].size;
    return SP_OK;
}

/* Files beside the models: any location but an empty one is there. */
static bool read_beside(void *context, uint32_t program, const char *location, uint64_t offset, void *bytes,
                        size_t size)
{
    unsigned char *to = bytes;
    (void)context;
    expect(program == SP_VERIFY_ORIGINAL || program < SP_MAX_DEVICES, "a program");
    for (size_t i = 0; i < size; i++)
        to[i] = (unsigned char)((offset + i) % 7);
    return location != NULL && location[0] != '\0';
}

/* The answer as JSON, or the error; released by the caller. */
static void verify(struct pieces *pieces, struct sp_arena *arena, const json_t *manifest, struct sp_buf *answer)
{
    struct sp_error err = {0};
    struct sp_verify_program *programs = NULL;
    struct sp_verification *verification = NULL;
    struct sp_json json;
    uint32_t count = pieces->count - 2;
    enum sp_status status = SP_OK;
    if (manifest != NULL) {
        status = sp_verify_read_manifest(arena, manifest, find, pieces, &count, &programs, &err);
    } else {
        programs = SP_NEW_ARRAY(arena, count, struct sp_verify_program);
        expect(programs != NULL, "memory");
        for (uint32_t i = 0; i < count; i++)
            programs[i] = (struct sp_verify_program){.name = "rank",
                                                     .bytes = pieces->items[i + 2].bytes,
                                                     .size = pieces->items[i + 2].size,
                                                     .device = i,
                                                     .rank = i};
    }
    const struct sp_verify_weights weights = {read_beside, NULL};
    const struct sp_verify_request request = {.bytes = pieces->items[1].bytes,
                                              .size = pieces->items[1].size,
                                              .program_count = count,
                                              .programs = programs,
                                              .memory_budget = BUDGET,
                                              .weights = &weights,
                                              .explains = true};
    if (status == SP_OK)
        status = sp_verify(&request, &verification, &err);
    sp_buf_init(answer, (size_t)1 << 26);
    if (status != SP_OK) {
        expect(err.code[0] != '\0' && err.message[0] != '\0' && err.status != SP_ERR_INTERNAL,
               "an error that says what");
        sp_buf_printf(answer, "%s", err.message);
        return;
    }
    sp_verification_text(verification, answer);
    expect(answer->size > 0, "a text");
    sp_buf_clear(answer);
    sp_json_init_buf(&json, false, answer);
    sp_verification_json(verification, &json);
    expect(sp_json_finish(&json, NULL) == SP_OK, "an answer");
    sp_verification_destroy(verification);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct pieces pieces;
    struct sp_buf answers[2];
    if (size > MAX_SIZE)
        return 0;
    take_apart(bytes, size, &pieces);
    if (pieces.count < 3)
        return 0;
    json_t *manifest = json_loadb((const char *)pieces.items[0].bytes, pieces.items[0].size, 0, NULL);
    for (int i = 0; i < 2; i++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        expect(arena != NULL, "memory");
        verify(&pieces, arena, manifest, &answers[i]);
        sp_arena_destroy(arena);
    }
    expect(answers[0].size == answers[1].size && memcmp(answers[0].data, answers[1].data, answers[0].size) == 0,
           "the same answer twice");
    sp_buf_release(&answers[0]);
    sp_buf_release(&answers[1]);
    json_decref(manifest);
    return 0;
}
