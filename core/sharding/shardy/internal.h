#pragma once
/*
 * internal - what the readers of Shardy's meshes and shardings share: a cursor over the text; private to
 * core/sharding.
 */
#include "base/buf.h"
#include "sharding/dialect.h"

struct sp_shardy_cursor {
    struct sp_arena *arena;
    const char *text;
    size_t size, at;
    struct sp_error *err;
};

/* A cursor at the beginning; SP_ERR_LIMIT for texts above SP_MAX_SHARDING_BYTES. */
enum sp_status sp_shardy_begin(struct sp_arena *arena, const char *text, size_t size,
                               struct sp_shardy_cursor *ret_cursor, struct sp_error *err);

/* Records SP_ERR_MALFORMED "SHARDY_SYNTAX" with `where` set to this offset. */
__attribute__((format(printf, 3, 4))) void sp_shardy_report(struct sp_shardy_cursor *cursor, size_t at,
                                                            const char *format, ...);
/* As above, and is that status, so that callers (and what reads the code) see that it never succeeds. */
#define sp_shardy_fail(...) (sp_shardy_report(__VA_ARGS__), SP_ERR_MALFORMED)

/* Passes over blanks and comments. */
void sp_shardy_skip(struct sp_shardy_cursor *cursor);

/* Passes over `token` when it stands here (blanks first). A token that ends in a letter must not be followed by another
   character of a word. */
bool sp_shardy_accept(struct sp_shardy_cursor *cursor, const char *token);

/* As above, and an error that says what stands there instead. `what` ends the sentence: "after the mesh". */
enum sp_status sp_shardy_expect(struct sp_shardy_cursor *cursor, const char *token, const char *what);

/* Whether only blanks are left; the error says that something follows. */
enum sp_status sp_shardy_end(struct sp_shardy_cursor *cursor);

/* A string literal of MLIR: printable characters, \" \\ \n \t and \XX; UTF-8 without NUL, at least one byte. */
enum sp_status sp_shardy_read_string(struct sp_shardy_cursor *cursor, const char *what, const char **ret_text);

/* The name behind an '@' that has been passed: letters, digits, '_', '$', '.', '-', or a string literal. */
enum sp_status sp_shardy_read_symbol(struct sp_shardy_cursor *cursor, const char **ret_name);

/* A decimal number; `what` begins the message: "An axis size". */
enum sp_status sp_shardy_read_int(struct sp_shardy_cursor *cursor, const char *what, int64_t *ret_value);

/* `<[..]>` with its axes and device ids; the cursor stands before '<'. */
enum sp_status sp_shardy_read_mesh_body(struct sp_shardy_cursor *cursor, struct sp_mesh **ret_mesh);

/* `"x"` with MLIR's escapes; `@name`, quoted where it must be. Appended. */
void sp_shardy_write_string(const char *text, struct sp_buf *buf);
void sp_shardy_write_symbol(const char *name, struct sp_buf *buf);

/* Everything behind "#sdy.sharding"; the line that defines the mesh to which it refers, for what can be written. */
enum sp_status sp_shardy_write_body(const struct sp_sharding *sharding, bool inline_mesh, struct sp_buf *buf,
                                    struct sp_error *err);
void sp_shardy_write_definition(const struct sp_sharding *sharding, struct sp_buf *buf);

/* ---- a sharding, while it is read ---- */

/* A mesh that the text defines before the sharding. */
struct sp_shardy_definition {
    struct sp_mesh *mesh;
    struct sp_shardy_definition *next;
};

struct sp_shardy_reader {
    struct sp_shardy_cursor cursor;
    const struct sp_dialect_context *context;
    struct sp_shardy_definition *meshes;
    uint32_t mesh_count;
    const struct sp_mesh *mesh; /* of the sharding at hand */

    /* All refs of the sharding at hand, and where each stands in the text; lists are runs of them. */
    uint32_t ref_count, ref_capacity, at_capacity;
    struct sp_axis_ref *refs;
    size_t *ref_at;
};

/* The dims behind '[' and up to ']' into `dims`, which has room for SP_MAX_RANK; the axes of dim i follow those of dim
   i - 1 in reader->refs, dims[i].axes.count of them. */
enum sp_status sp_shardy_read_dims(struct sp_shardy_reader *reader, uint32_t *ret_rank, struct sp_dim_sharding *dims);

/* '{' axis,+ '}' behind replicated= and unreduced= (`what`): not empty, in the order of the mesh. */
enum sp_status sp_shardy_read_unordered(struct sp_shardy_reader *reader, const char *what, uint32_t *ret_count);

/* No two of all refs may overlap, and one grid must cut each axis for all. */
enum sp_status sp_shardy_check_overlaps(struct sp_shardy_reader *reader);
