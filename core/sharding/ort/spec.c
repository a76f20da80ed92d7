/*
 * ONNX Runtime's spec and mesh strings. Its parser reads more than it should: `S[]` as `S[0]`, one
 * mesh axis twice, mesh strings up to the first character that is no number. All that is refused here.
 */
#include <inttypes.h>
#include <string.h>

#include "sharding/dialect.h"
#include "sharding/internal.h"

__attribute__((format(printf, 4, 5))) static enum sp_status refuse(struct sp_error *err, size_t at, const char *code,
                                                                   const char *format, ...)
{
    char message[512];
    SP_FORMAT(message, format);
    (void)sp_fail(err, SP_ERR_MALFORMED, code, "%s", message);
    return sp_error_at(err, "offset %zu", at);
}

static enum sp_status check_size(size_t size, struct sp_error *err)
{
    if (size <= SP_MAX_SHARDING_BYTES)
        return SP_OK;
    return sp_fail_limit(err, "SHARDING_TOO_LONG", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES, (int64_t)size,
                         "A sharding or mesh may have at most %d bytes of text.", (int)SP_MAX_SHARDING_BYTES);
}

/* Digits from *at on; false when there is none or they overflow. */
static bool read_digits(const char *text, size_t size, size_t *at, int64_t *ret_value)
{
    int64_t value = 0;
    size_t start = *at, end = start;
    for (; end < size && text[end] >= '0' && text[end] <= '9'; end++) {
        if (!sp_mul_i64(value, 10, &value) || !sp_add_i64(value, text[end] - '0', &value))
            return false;
    }
    *at = end;
    *ret_value = value;
    return end > start;
}

/* S[k], of which the cursor stands behind the S. */
static enum sp_status read_split(const char *text, size_t size, size_t *at, int64_t *ret_mesh_axis,
                                 struct sp_error *err)
{
    if (*at >= size || text[*at] != '[')
        return refuse(err, *at, "ORT_SPEC", "'S' must be followed by '[' and the number of a mesh axis, as in S[0].");
    size_t digits = ++*at;
    if (!read_digits(text, size, at, ret_mesh_axis))
        return refuse(err, digits, "ORT_SPEC",
                      "The brackets behind 'S' must hold the number of a mesh axis, a 64-bit integer without sign.");
    if (*at >= size || text[*at] != ']')
        return refuse(err, *at, "ORT_SPEC", "The number of a mesh axis must be followed by ']'.");
    ++*at;
    return SP_OK;
}

enum sp_status sp_ort_read_spec(struct sp_arena *arena, const char *text, size_t size, struct sp_ort_spec *ret_spec,
                                struct sp_error *err)
{
    int64_t axes[SP_MAX_RANK];
    struct sp_ort_spec spec = {0};
    enum sp_status status = check_size(size, err);
    for (size_t at = 0; status == SP_OK && at < size;) {
        size_t start = at;
        char c = text[at++];
        if (spec.rank == SP_MAX_RANK)
            return sp_fail_limit(err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, SP_MAX_RANK + 1,
                                 "A spec may have at most %d axes.", SP_MAX_RANK);
        axes[spec.rank] = -1;
        if (c == 'S')
            status = read_split(text, size, &at, &axes[spec.rank], err);
        else if (c != 'R')
            status = refuse(err, start, "ORT_SPEC",
                            "Expected 'R' or 'S[number]' for each axis of the tensor, without blanks between them.");
        for (uint32_t i = 0; status == SP_OK && c == 'S' && i < spec.rank; i++) {
            if (axes[i] == axes[spec.rank])
                status = refuse(err, start, "ORT_MESH_AXIS_TWICE",
                                "Mesh axis %" PRId64 " splits two axes of the tensor; it can split one.", axes[i]);
        }
        spec.rank++;
    }
    if (status != SP_OK)
        return status;
    spec.mesh_axes = SP_NEW_ARRAY(arena, spec.rank, int64_t);
    if (spec.mesh_axes == NULL)
        return sp_fail_memory(err);
    memcpy(spec.mesh_axes, axes, spec.rank * sizeof *axes);
    *ret_spec = spec;
    return SP_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* '[' int ((',' or blank) int)* ']'. A comma before the bracket is harmless, and read as ONNX Runtime reads it. */
enum sp_status sp_ort_read_ints(struct sp_arena *arena, const char *text, size_t size, int64_t *ret_count,
                                int64_t **ret_items, struct sp_error *err)
{
    enum sp_status status = check_size(size, err);
    if (status != SP_OK)
        return status;
    if (size < 2 || text[0] != '[' || text[size - 1] != ']')
        return refuse(err, 0, "ORT_MESH", "A list of a mesh must begin with '[' and end with ']', as in [0,1].");
    int64_t count = 0, *items = SP_NEW_ARRAY(arena, size / 2 + 1, int64_t);
    size_t at = 1, end = size - 1;
    if (items == NULL)
        return sp_fail_memory(err);
    for (;;) {
        while (at < end && is_blank(text[at]))
            at++;
        if (at == end)
            break;
        if (text[at] == '-')
            return refuse(err, at, "ORT_MESH", "The numbers of a mesh cannot be negative.");
        size_t digits = at;
        if (!read_digits(text, end, &at, &items[count]))
            return refuse(err, digits, "ORT_MESH",
                          "Expected a 64-bit integer here; the numbers of a mesh are separated by one comma or by "
                          "blanks, as in [0,1] or [0 1].");
        count++;
        if (at < end && text[at] != ',' && !is_blank(text[at]))
            return refuse(err, at, "ORT_MESH",
                          "Expected a comma, a blank or the closing ']' after a number of a mesh.");
        at += at < end;
    }
    *ret_count = count;
    *ret_items = items;
    return SP_OK;
}
