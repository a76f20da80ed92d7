#pragma once
/* hlo_checks - the properties of HloShardings that both of their fuzz targets hold whatever was read to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "sharding/hlo/hlo.h"

#define HLO_MAX_TEXT ((size_t)64 << 20)

static inline void hlo_check(bool condition, const char *what, const struct sp_error *err)
{
    if (condition)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, err != NULL ? err->message : "");
    abort();
}

static inline void hlo_check_error(enum sp_status status, const struct sp_error *err)
{
    hlo_check(status == err->status && err->code[0] != '\0' && err->message[0] != '\0', "an error says nothing", err);
    hlo_check((status == SP_ERR_LIMIT) == (err->limit != NULL), "a limit has no name", err);
    hlo_check(status != SP_ERR_INTERNAL, "an error is our own", err);
}

/* XLA prints some shardings in a form that it does not read: {unreduced=max}; and V3 without its mesh, which reads as
   V1 where metadata follows. */
static inline bool hlo_is_readable(const struct sp_hlo *hlo)
{
    uint32_t count = !hlo->is_named && hlo->type == SP_HLO_TUPLE ? hlo->element_count : 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_hlo *leaf = count == 1 && hlo->type != SP_HLO_TUPLE ? hlo : &hlo->elements[i];
        bool is_named = leaf->is_named && leaf->named->kind == SP_SHARDING_UNREDUCED;
        enum sp_combiner combiner = is_named ? leaf->named->combiner : leaf->combiner;
        bool is_unreduced = is_named || (!leaf->is_named && leaf->type == SP_HLO_UNREDUCED);
        if (is_unreduced && (combiner == SP_COMBINE_MAX || combiner == SP_COMBINE_MIN || is_named))
            return false;
    }
    return true;
}

static inline struct sp_buf hlo_text(const struct sp_hlo *hlo)
{
    struct sp_buf buf;
    sp_buf_init(&buf, HLO_MAX_TEXT);
    sp_hlo_write_text(hlo, true, &buf);
    hlo_check(!sp_buf_failed(&buf), "the text is too long", NULL);
    return buf;
}

static inline struct sp_buf hlo_bytes(struct sp_arena *arena, const struct sp_hlo *hlo)
{
    struct sp_buf buf;
    struct sp_error err = {0};
    sp_buf_init(&buf, HLO_MAX_TEXT);
    hlo_check(sp_hlo_write_proto(arena, hlo, &buf, &err) == SP_OK, "no bytes", &err);
    return buf;
}

static inline bool hlo_same(const struct sp_buf *a, const struct sp_buf *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

/* Its text is read again and printed the same. Running into a limit or out of memory on the way is allowed. */
static inline void hlo_check_text(struct sp_arena *arena, const struct sp_hlo *hlo)
{
    struct sp_buf text = hlo_text(hlo);
    struct sp_hlo *again;
    struct sp_error err = {0};
    enum sp_status status = sp_hlo_read_text(arena, text.data, text.size, &again, &err);
    if (status == SP_OK && hlo_is_readable(hlo)) {
        struct sp_buf second = hlo_text(again);
        hlo_check(hlo_same(&text, &second), text.data, NULL);
        sp_buf_release(&second);
    } else if (status != SP_OK) {
        hlo_check_error(status, &err);
        hlo_check(!hlo_is_readable(hlo) || status == SP_ERR_LIMIT || status == SP_ERR_MEMORY, text.data, &err);
    }
    sp_buf_release(&text);
}

/* Its bytes, and the attribute with them, are read again and written the same. */
static inline void hlo_check_bytes(struct sp_arena *arena, const struct sp_hlo *hlo)
{
    struct sp_buf bytes = hlo_bytes(arena, hlo), attribute;
    struct sp_hlo *again;
    struct sp_error err = {0};
    sp_buf_init(&attribute, HLO_MAX_TEXT);
    sp_hlo_write_attribute((const unsigned char *)bytes.data, bytes.size, &attribute);
    enum sp_status status = sp_hlo_read_attribute(arena, attribute.data, attribute.size, &again, &err);
    if (status == SP_OK) {
        /* One device is replication in bytes, which takes a second round to be seen. */
        struct sp_buf second = hlo_bytes(arena, again), third;
        enum sp_status once_more =
            sp_hlo_read_proto(arena, (const unsigned char *)second.data, second.size, &again, &err);
        hlo_check(once_more == SP_OK || once_more == SP_ERR_MEMORY, "its bytes are refused", &err);
        if (once_more == SP_OK) {
            third = hlo_bytes(arena, again);
            hlo_check(hlo_same(&second, &third), "its bytes change", NULL);
            sp_buf_release(&third);
        }
        sp_buf_release(&second);
    } else {
        hlo_check_error(status, &err);
        hlo_check(status == SP_ERR_LIMIT || status == SP_ERR_MEMORY, "its attribute is refused", &err);
    }
    sp_buf_release(&attribute);
    sp_buf_release(&bytes);
}

/* Listing devices takes time in their number, which a few bytes can make large: version 1 only up to so many. */
#define HLO_MAX_LISTED 16384

/* Every version of what it means can be written, and is read. */
static inline void hlo_check_conversions(struct sp_arena *arena, const struct sp_hlo *hlo)
{
    static const enum sp_hlo_version versions[] = {SP_HLO_AUTO, SP_HLO_V1, SP_HLO_V2, SP_HLO_V3};
    struct sp_sharding *sharding;
    struct sp_hlo *written;
    struct sp_losses losses = {0};
    struct sp_error err = {0};
    enum sp_status status = sp_hlo_to_sharding(arena, hlo, &sharding, &losses, &err);
    if (status != SP_OK) {
        hlo_check_error(status, &err);
        return;
    }
    if (sharding->kind == SP_SHARDING_AXES)
        hlo_check(sp_sharding_check(sharding, sharding->rank, NULL, 0, &err) == SP_OK, "the sharding is wrong", &err);
    uint32_t rank = sharding->kind == SP_SHARDING_AXES ? sharding->rank : 0;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        struct sp_error why = {0};
        if (versions[i] == SP_HLO_V1 && sharding->mesh != NULL && sharding->mesh->order.count > HLO_MAX_LISTED)
            continue;
        status = sp_hlo_from_sharding(arena, sharding,
                                      &(struct sp_dialect_context){.rank = rank, .hlo_version = versions[i]}, &written,
                                      &losses, &why);
        if (status != SP_OK) {
            hlo_check_error(status, &why);
            continue;
        }
        hlo_check_text(arena, written);
        hlo_check_bytes(arena, written);
    }
}
