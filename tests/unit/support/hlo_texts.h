#pragma once
/* hlo_texts - HloShardings for tests, to and from text. */
#include <criterion/criterion.h>
#include <string.h>

#include "sharding/hlo/hlo.h"

#define HLO_TEXT_BYTES ((size_t)1 << 20)

static inline struct sp_hlo *hlo_of(struct sp_arena *arena, const char *text)
{
    struct sp_hlo *hlo = NULL;
    struct sp_error err = {0};
    cr_assert_eq(sp_hlo_read_text(arena, text, strlen(text), &hlo, &err), SP_OK, "%s: %s", text, err.message);
    return hlo;
}

/* In memory of the arena. */
static inline const char *text_of(struct sp_arena *arena, const struct sp_hlo *hlo)
{
    struct sp_buf buf;
    sp_buf_init(&buf, HLO_TEXT_BYTES);
    sp_hlo_write_text(hlo, true, &buf);
    cr_assert_not(sp_buf_failed(&buf));
    const char *text = sp_arena_string(arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

/* The text is read and printed as `expected`, which is read and printed as itself. */
static inline void expect_prints(const char *text, const char *expected)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const char *printed = text_of(arena, hlo_of(arena, text));
    cr_expect_str_eq(printed, expected, "%s is printed as %s, not %s", text, printed, expected);
    printed = text_of(arena, hlo_of(arena, expected));
    cr_expect_str_eq(printed, expected, "%s is printed as %s", expected, printed);
    sp_arena_destroy(arena);
}

/* The text is refused at this place, with these words in the sentence. */
static inline void expect_refused(const char *text, const char *where, const char *words)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_hlo *hlo = NULL;
    struct sp_error err = {0};
    enum sp_status status = sp_hlo_read_text(arena, text, strlen(text), &hlo, &err);
    cr_expect_neq(status, SP_OK, "%s is read", text);
    cr_expect_str_eq(err.where, where, "%s is refused at %s, not %s", text, err.where, where);
    cr_expect(strstr(err.message, words) != NULL, "%s: \"%s\" does not say \"%s\"", text, err.message, words);
    sp_arena_destroy(arena);
}
