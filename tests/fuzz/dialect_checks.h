#pragma once
/* dialect_checks - the properties of shardings in any notation, which the fuzz targets of the notations share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "sharding/dialect.h"

#define DIALECT_MAX_TEXT ((size_t)64 << 20)

static inline void dialect_check(bool condition, const char *what, const struct sp_error *err)
{
    if (condition)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, err != NULL ? err->message : "");
    abort();
}

/* An error has a code and a sentence, a limit its name, and none is our own fault. */
static inline void dialect_check_error(enum sp_status status, const struct sp_error *err)
{
    dialect_check(status == err->status && err->code[0] != '\0' && err->message[0] != '\0', "an error says nothing",
                  err);
    dialect_check((status == SP_ERR_LIMIT) == (err->limit != NULL), "a limit has no name", err);
    dialect_check(status != SP_ERR_INTERNAL, "an error is our own", err);
}

/* Running into a limit or out of memory on the way is allowed. */
static inline bool dialect_gave_up(enum sp_status status)
{
    return status == SP_ERR_LIMIT || status == SP_ERR_MEMORY;
}

/* Comparing what each device holds takes time in their number, which a few bytes can make large. */
#define DIALECT_MAX_COMPARED 8192

static inline bool dialect_is_large(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_BLOCKS && sharding->shard_count > DIALECT_MAX_COMPARED;
}

/* Whether both hold the same, as far as holdings are known. */
static inline void dialect_check_equal(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                       const struct sp_dialect_context *context, const char *text)
{
    struct sp_error err = {0};
    uint32_t rank = context->rank >= 0 ? (uint32_t)context->rank : a->rank > b->rank ? a->rank : b->rank;
    const int64_t *shape = context->rank >= 0 ? context->shape : NULL;
    bool equal = false;
    if (dialect_is_large(a) || dialect_is_large(b))
        return;
    enum sp_status status = sp_sharding_equal(arena, a, b, rank, shape, &equal, &err);
    dialect_check(status != SP_OK || equal, text, NULL);
    if (status != SP_OK)
        dialect_check_error(status, &err);
}

/*
 * Writes a sharding in a dialect; what is written is read again as the same sharding and written as the same text. With
 * `must`, it must be possible to write it at all: it was read in this dialect.
 */
static inline void dialect_check_written(struct sp_arena *arena, enum sp_dialect dialect,
                                         const struct sp_sharding *sharding, const struct sp_dialect_context *context,
                                         bool must)
{
    struct sp_losses losses = {0};
    struct sp_error err = {0};
    struct sp_sharding *again;
    struct sp_buf first, second;
    sp_buf_init(&first, DIALECT_MAX_TEXT);
    sp_buf_init(&second, DIALECT_MAX_TEXT);
    enum sp_status status = sp_dialect_write(arena, dialect, sharding, context, &first, &losses, &err);
    if (status != SP_OK) {
        dialect_check_error(status, &err);
        dialect_check(!must || dialect_gave_up(status), "it cannot be written", &err);
        goto done;
    }
    status = sp_dialect_read(arena, &(struct sp_dialect_text){dialect, first.data, first.size}, context, &again,
                             &losses, &err);
    if (status != SP_OK) {
        dialect_check_error(status, &err);
        dialect_check(dialect_gave_up(status), first.data, &err);
        goto done;
    }
    dialect_check_equal(arena, sharding, again, context, first.data);
    status = sp_dialect_write(arena, dialect, again, context, &second, &losses, &err);
    dialect_check(status == SP_OK || dialect_gave_up(status), first.data, &err);
    dialect_check(status != SP_OK || (first.size == second.size && memcmp(first.data, second.data, first.size) == 0),
                  first.data, NULL);
done:
    sp_buf_release(&first);
    sp_buf_release(&second);
}

/* Whatever was read can be checked, and written in each notation that has words for it. */
static inline void dialect_check_sharding(struct sp_arena *arena, const struct sp_sharding *sharding,
                                          const struct sp_dialect_context *context)
{
    static const enum sp_dialect targets[] = {SP_DIALECT_ONNX, SP_DIALECT_ORT, SP_DIALECT_SHARDY};
    struct sp_error err = {0};
    enum sp_status status = sp_sharding_check(sharding, context->rank, context->shape, context->device_count, &err);
    dialect_check(status == SP_OK, "what was read breaks the invariants", &err);
    for (size_t i = 0; i < sizeof targets / sizeof *targets && !dialect_is_large(sharding); i++)
        dialect_check_written(arena, targets[i], sharding, context, false);
}

/* Three tensors: one of which nothing is known, one of 8 x 6 elements, one on a number of devices. */
#define DIALECT_CONTEXTS 3

static inline struct sp_dialect_context dialect_context(int index)
{
    static const int64_t shape[] = {8, 6};
    struct sp_dialect_context context = {.rank = -1};
    if (index == 1) {
        context.rank = 2;
        context.shape = shape;
    } else if (index == 2) {
        context.device_count = 8;
    }
    return context;
}
