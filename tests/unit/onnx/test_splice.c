#include <criterion/criterion.h>

#include "onnx_files.h"

static const char original[] = "0123456789abcdefghij";
#define ORIGINAL_SIZE (sizeof original - 1)

static struct sp_splice *make(void)
{
    struct sp_splice *splice = sp_splice_create(ORIGINAL_SIZE);
    cr_assert(sp_splice_keep(splice, 0, 3) && sp_splice_add(splice, "AB", 2) && sp_splice_add(splice, "C", 1) &&
              sp_splice_keep(splice, 5, 5) && sp_splice_keep(splice, 10, 4) && sp_splice_add(splice, "", 0) &&
              sp_splice_keep(splice, 20, 0) && sp_splice_keep(splice, 1, 2));
    return splice;
}
static const char result[] = "012ABC56789abcd12";

static bool read_original(void *context, uint64_t offset, void *bytes, size_t size)
{
    (void)context;
    cr_assert(offset <= ORIGINAL_SIZE && size <= ORIGINAL_SIZE - offset);
    memcpy(bytes, original + offset, size);
    return true;
}
static const struct sp_source source = {.read = read_original};

static bool fail(void *context, uint64_t offset, void *bytes, size_t size)
{
    (void)context;
    (void)offset;
    (void)bytes;
    (void)size;
    return false;
}

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static bool copy(void *context, uint64_t offset, uint64_t size)
{
    sp_buf_printf(context, "[%lu+%lu]", (unsigned long)offset, (unsigned long)size);
    return !sp_buf_failed(context);
}

Test(splice, streams_kept_and_added_bytes)
{
    struct sp_splice *splice = make();
    cr_expect(sp_splice_size(splice) == sizeof result - 1 && sp_splice_original_size(splice) == ORIGINAL_SIZE);
    struct sp_buf buf;
    sp_buf_init(&buf, 1000);
    struct sp_sink sink = {.write = append, .context = &buf};
    struct sp_error err = {0};
    cr_expect_eq(sp_splice_stream(splice, &source, &sink, &err), SP_OK);
    cr_expect_str_eq(buf.data, result);
    /* A sink that copies by itself is told ranges; touching ones are one. */
    sp_buf_clear(&buf);
    sink.copy = copy;
    cr_expect_eq(sp_splice_stream(splice, NULL, &sink, &err), SP_OK);
    cr_expect_str_eq(buf.data, "[0+3]ABC[5+9][1+2]");
    sp_buf_release(&buf);
    sp_splice_destroy(splice);
    sp_splice_destroy(NULL);
}

Test(splice, reports_failing_ends)
{
    struct sp_splice *splice = make();
    struct sp_buf buf;
    sp_buf_init(&buf, 5); /* too small */
    const struct sp_sink sink = {.write = append, .context = &buf};
    const struct sp_source broken = {.read = fail};
    struct sp_error err = {0};
    cr_expect_eq(sp_splice_stream(splice, &source, &sink, &err), SP_ERR_IO);
    cr_expect_str_eq(err.code, "WRITE_FAILED");
    sp_error_clear(&err);
    cr_expect_eq(sp_splice_stream(splice, &broken, &sink, &err), SP_ERR_IO);
    cr_expect_str_eq(err.code, "READ_FAILED");
    sp_buf_release(&buf);
    sp_splice_destroy(splice);
}

Test(splice, reads_at_any_offset)
{
    struct sp_splice *splice = make();
    for (size_t offset = 0; offset <= sizeof result; offset++) {
        for (size_t size = 0; size <= sizeof result; size++) {
            char bytes[sizeof result + 1];
            size_t got = 99, expected = offset >= sizeof result - 1 ? 0 : sizeof result - 1 - offset;
            if (expected > size)
                expected = size;
            cr_assert_eq(sp_splice_read(splice, &source, offset, bytes, size, &got, NULL), SP_OK);
            cr_expect_eq(got, expected);
            cr_expect_eq(memcmp(bytes, result + offset * (expected > 0), expected), 0);
        }
    }
    sp_splice_destroy(splice);
}

Test(splice, stays_inside_the_original)
{
    struct sp_splice *splice = sp_splice_create(10);
    cr_expect_not(sp_splice_keep(splice, 11, 0));
    cr_expect_not(sp_splice_keep(splice, 5, 6));
    cr_expect_not(sp_splice_keep(splice, 5, UINT64_MAX));
    cr_expect(sp_splice_keep(splice, 10, 0) && sp_splice_size(splice) == 0);
    sp_splice_destroy(splice);
}

static struct sp_buf save(const struct sp_splice *splice)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 10000);
    const struct sp_sink sink = {.write = append, .context = &buf};
    cr_assert_eq(sp_splice_save(splice, &sink, NULL), SP_OK);
    return buf;
}

Test(splice, is_kept_and_loaded)
{
    struct sp_splice *splice = make(), *loaded, *empty = sp_splice_create(7);
    struct sp_buf saved = save(splice), again, text;
    struct sp_error err = {0};
    cr_assert_eq(sp_splice_load(saved.data, saved.size, &loaded, &err), SP_OK, "%s", err.message);
    again = save(loaded);
    cr_expect(again.size == saved.size && memcmp(again.data, saved.data, saved.size) == 0);
    text = onnx_result(loaded, original);
    cr_expect_str_eq(text.data, result);
    sp_buf_release(&text);
    sp_buf_release(&again);
    again = save(empty);
    cr_assert_eq(sp_splice_load(again.data, again.size, &loaded, &err), SP_OK);
    cr_expect(sp_splice_size(loaded) == 0 && sp_splice_original_size(loaded) == 7);
    sp_splice_destroy(loaded);
    sp_splice_destroy(empty);
    sp_splice_destroy(splice);
    sp_buf_release(&again);
    sp_buf_release(&saved);
}

/* Whatever bit is flipped and wherever the file ends, it is noticed. */
Test(splice, notices_any_damage)
{
    struct sp_splice *splice = make(), *loaded;
    struct sp_buf saved = save(splice);
    for (size_t bit = 0; bit < 8 * saved.size; bit++) {
        struct sp_error err = {0};
        saved.data[bit / 8] ^= (char)(1 << bit % 8);
        cr_expect_eq(sp_splice_load(saved.data, saved.size, &loaded, &err), SP_ERR_MALFORMED, "bit %zu", bit);
        cr_expect_str_eq(err.code, "BAD_SPLICE");
        saved.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t size = 0; size < saved.size; size++) {
        char *cut = malloc(size == 0 ? 1 : size);
        cr_assert_not_null(cut);
        memcpy(cut, saved.data, size);
        cr_expect_eq(sp_splice_load(cut, size, &loaded, NULL), SP_ERR_MALFORMED, "size %zu", size);
        free(cut);
    }
    sp_buf_release(&saved);
    sp_splice_destroy(splice);
}
