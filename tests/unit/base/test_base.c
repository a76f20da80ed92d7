/* arena, buf, intern, error and json_writer: the small things that everything stands on. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/intern.h"
#include "base/json_writer.h"
#include "base/limits.h"

Test(arena, memory_is_zeroed_aligned_and_budgeted)
{
    struct sp_budget budget = {.limit = 1 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    for (size_t size = 0; size < 300; size++) {
        unsigned char *memory = sp_arena_alloc(arena, size);
        cr_assert_not_null(memory);
        cr_assert_eq((uintptr_t)memory % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            cr_assert_eq(memory[i], 0);
        memset(memory, 0xff, size);
    }
    cr_assert_null(sp_arena_alloc(arena, 2 << 20), "over the budget");
    cr_assert_null(sp_arena_array(arena, SIZE_MAX / 2, 3), "overflow");
    cr_assert_not_null(sp_arena_alloc(arena, 100), "still usable after a refusal");
    cr_assert_leq(budget.peak, budget.limit);
    cr_assert_eq(budget.used, sp_arena_bytes(arena));
    sp_arena_destroy(arena);
    cr_assert_eq(budget.used, 0);
}

/* What a file may take grows with it and with the devices that are asked for, up to what the operator gives. */
Test(arena, budgets_of_files_are_named_limits)
{
    struct sp_budget budget = {0};
    struct sp_error err;
    sp_budget_for_file(&budget, 1000, 2, 0);
    cr_expect_eq(budget.limit, SP_FREE_JOB_BYTES + 1000 * SP_JOB_FILE_FACTOR + 2 * SP_JOB_DEVICE_BYTES);
    cr_assert_not_null(budget.limit_name);
    struct sp_arena *arena = sp_arena_create(&budget);
    sp_error_clear(&err);
    cr_expect_eq(sp_budget_explain(&budget, &err), SP_OK);
    (void)sp_fail_memory(&err);
    cr_expect_eq(sp_budget_explain(&budget, &err), SP_ERR_MEMORY, "the system's memory, not the budget");
    cr_expect_null(sp_arena_alloc(arena, budget.limit));
    cr_expect_eq(sp_budget_explain(&budget, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.code, "MODEL_TOO_DEMANDING");
    cr_expect_str_eq(err.limit, "SP_JOB_FILE_FACTOR");
    sp_arena_destroy(arena);

    static const struct {
        uint64_t size, devices;
        size_t most;
    } capped[] = {{UINT64_MAX, 0, 0}, {1000, 0, 1 << 20}, {SP_DEFAULT_JOB_BYTES, UINT64_MAX, 0}};
    for (size_t i = 0; i < sizeof capped / sizeof capped[0]; i++) {
        sp_budget_for_file(&budget, capped[i].size, capped[i].devices, capped[i].most);
        cr_expect_eq(budget.limit, capped[i].most != 0 ? capped[i].most : SP_DEFAULT_JOB_BYTES);
        (void)sp_fail_memory(&err);
        cr_expect_null(budget.limit_name, "what the operator gives is no limit of the model");
    }
}

Test(arena, rewinding_gives_scratch_back)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    char *kept = sp_arena_printf(arena, "%s-%d", "kept", 7);
    struct sp_arena_mark mark = sp_arena_mark(arena);
    size_t held = 0;
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 100; i++) {
            unsigned char *memory = sp_arena_alloc(arena, 500);
            cr_assert_eq(memory[499], 0);
            memset(memory, 1, 500);
        }
        sp_arena_rewind(arena, mark);
        if (round == 10)
            held = sp_arena_bytes(arena);
    }
    cr_assert_leq(sp_arena_bytes(arena), held, "scratch use does not grow");
    cr_assert_str_eq(kept, "kept-7");
    struct sp_arena *empty = sp_arena_create(NULL);
    mark = sp_arena_mark(empty);
    sp_arena_rewind(empty, mark);
    cr_assert_not_null(sp_arena_alloc(empty, 10));
    sp_arena_rewind(empty, mark);
    sp_arena_destroy(empty);
    sp_arena_destroy(arena);
}

Test(arena, a_child_keeps_what_its_parent_gives_back)
{
    struct sp_budget budget = {0};
    struct sp_arena *arena = sp_arena_create(&budget), *child = sp_arena_child(arena);
    struct sp_arena_mark mark = sp_arena_mark(arena);
    char *lost = sp_arena_printf(arena, "scratch"), *kept = sp_arena_printf(child, "kept");
    sp_arena_rewind(arena, mark);
    char *again = sp_arena_printf(arena, "another");
    cr_expect_eq(lost, again, "the place of what was given back");
    cr_expect_str_eq(kept, "kept");
    sp_arena_destroy(arena);
    cr_expect_eq(budget.used, 0, "the child went with its parent");
}

Test(buf, ceiling_is_kept_and_failure_sticks)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 10);
    sp_buf_text(&buf, "12345");
    sp_buf_printf(&buf, "%05d", 42);
    cr_assert_str_eq(buf.data, "1234500042");
    cr_assert_not(sp_buf_failed(&buf));
    sp_buf_text(&buf, "x");
    cr_assert(sp_buf_failed(&buf));
    sp_buf_clear(&buf);
    sp_buf_text(&buf, "again");
    cr_assert_str_eq(buf.data, "again");
    sp_buf_release(&buf);
}

Test(intern, names_have_dense_ids_whatever_the_seed)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_intern *names = sp_intern_create(arena, seed);
        char name[32];
        for (uint32_t i = 0; i < 5000; i++) {
            int size = snprintf(name, sizeof name, "value_%u", i);
            cr_assert_eq(sp_intern_add(names, name, (size_t)size), i);
        }
        for (uint32_t i = 0; i < 5000; i++) {
            int size = snprintf(name, sizeof name, "value_%u", i);
            cr_assert_eq(sp_intern_add(names, name, (size_t)size), i);
            cr_assert_eq(sp_intern_find(names, name, (size_t)size), i);
            cr_assert_str_eq(sp_intern_name(names, i), name);
        }
        cr_assert_eq(sp_intern_find(names, "none", 4), SP_NO_NAME);
        cr_assert_eq(sp_intern_add(names, "", 0), 5000);
        cr_assert_eq(sp_intern_find(names, "", 0), 5000);
        sp_arena_destroy(arena);
    }
}

Test(error, controls_are_shown_as_far_as_there_is_room)
{
    /* Code points of the Unicode standard's Bidi_Control property, and what of General_Category Zl, Zp and Cc there is. */
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"a\xe2\x80\xaetxt.exe", "a\\u202etxt.exe"},
        {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u061c\\u200e\\u200f"},
        {"\xe2\x81\xa6\xe2\x81\xa9", "\\u2066\\u2069"},
        {"\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029"},
        {"\x1b[2J\r\n\x7f\xc2\x9b", "?[2J????"},
        {"\xff\xe2\x80", "???"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xe2\x80\x8d", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xe2\x80\x8d"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s", cases[i].text);
        sp_make_printable(text, sizeof text);
        cr_expect_str_eq(text, cases[i].shown);
    }
    char tight[6] = "\xe2\x80\xae\xe2\x80";
    sp_make_printable(tight, sizeof tight);
    cr_expect_str_eq(tight, "???");
}

Test(error, first_error_wins_and_is_printable)
{
    struct sp_error err = {0};
    cr_assert_eq(sp_fail(&err, SP_ERR_MODEL, "FIRST", "The name is '%s'.", "a\nb\x1b[31m"), SP_ERR_MODEL);
    cr_assert_eq(sp_fail_limit(&err, "SECOND", "SP_MAX_RANK", 64, 65, "Too deep."), SP_ERR_LIMIT);
    cr_assert_str_eq(err.code, "FIRST");
    cr_assert_null(err.limit);
    cr_assert_str_eq(err.message, "The name is 'a?b?[31m'.");
    cr_assert_eq(sp_error_at(&err, "byte %d", 12), SP_ERR_MODEL);
    (void)sp_error_at(&err, "byte %d", 13);
    cr_assert_str_eq(err.where, "byte 12");
    sp_error_clear(&err);
    cr_assert_eq(sp_fail_limit(&err, "RANK", "SP_MAX_RANK", 64, 65, "Too deep."), SP_ERR_LIMIT);
    cr_assert_str_eq(err.limit, "SP_MAX_RANK");
    cr_assert_eq(err.actual, 65);
    char name[2 * SP_ERROR_MESSAGE_SIZE];
    memset(name, 0, sizeof name);
    for (size_t i = 0; i + 3 < sizeof name; i += 2)
        memcpy(name + i, "\xc3\xa9", 2);
    sp_error_clear(&err);
    (void)sp_fail(&err, SP_ERR_MODEL, "LONG", "x%s", name);
    cr_assert_eq(strlen(err.message), SP_ERROR_MESSAGE_SIZE - 1);
    json_t *text = json_string(err.message);
    cr_assert_not_null(text, "a cut message is still UTF-8");
    json_decref(text);
    cr_assert_eq(sp_fail(NULL, SP_ERR_IO, "X", "x"), SP_ERR_IO, "a NULL error object is allowed");
}

/* The oracle is jansson's parser. */
Test(json_writer, text_reads_back)
{
    for (int pretty = 0; pretty < 2; pretty++) {
        struct sp_buf buf;
        struct sp_json json;
        struct sp_error err = {0};
        sp_buf_init(&buf, 1 << 20);
        sp_json_init_buf(&json, pretty, &buf);
        sp_json_begin_object(&json);
        sp_json_member_string(&json, "text", "quote \" slash \\ line \n </script> \x7f \xc3\xa9");
        sp_json_member_int(&json, "min", INT64_MIN);
        sp_json_member_double(&json, "third", 1.0 / 3.0);
        sp_json_member_double(&json, "tenth", 0.1);
        sp_json_member_double(&json, "nan", (double)NAN);
        sp_json_key(&json, "list");
        sp_json_begin_array(&json);
        for (int i = 0; i < 3000; i++)
            sp_json_int(&json, i);
        sp_json_begin_object(&json);
        sp_json_end_object(&json);
        sp_json_end_array(&json);
        sp_json_member_bool(&json, "yes", true);
        sp_json_key(&json, "raw");
        sp_json_raw(&json, "[1]", 3);
        sp_json_end_object(&json);
        cr_assert_eq(sp_json_finish(&json, &err), SP_OK);

        json_error_t error;
        json_t *root = json_loads(buf.data, JSON_REJECT_DUPLICATES, &error);
        cr_assert_not_null(root, "%s", error.text);
        cr_assert_str_eq(json_string_value(json_object_get(root, "text")),
                         "quote \" slash \\ line \n </script> \x7f \xc3\xa9");
        cr_assert_null(strstr(buf.data, "</script>"), "text is safe inside a page");
        cr_assert_eq(json_integer_value(json_object_get(root, "min")), INT64_MIN);
        cr_assert_eq(json_real_value(json_object_get(root, "third")), 1.0 / 3.0);
        cr_assert_not_null(strstr(buf.data, pretty ? "\"tenth\": 0.1," : "\"tenth\":0.1,"), "shortest form");
        cr_assert(json_is_null(json_object_get(root, "nan")));
        cr_assert_eq(json_array_size(json_object_get(root, "list")), 3001);
        json_decref(root);
        sp_buf_release(&buf);
    }
}

static bool refuse(void *context, const char *bytes, size_t size)
{
    (void)context;
    (void)bytes;
    (void)size;
    return false;
}

Test(json_writer, a_failing_sink_is_reported)
{
    struct sp_json json;
    struct sp_error err = {0};
    sp_json_init(&json, false, refuse, NULL);
    sp_json_begin_array(&json);
    for (int i = 0; i < 10000; i++)
        sp_json_int(&json, i);
    sp_json_end_array(&json);
    cr_assert_eq(sp_json_finish(&json, &err), SP_ERR_IO);
    cr_assert_neq(err.message[0], '\0');
}
