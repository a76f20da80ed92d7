#include "onnx_files.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data_files.h"
#include "onnx/wire.h"

#define MAX_FILE  ((size_t)1 << 28)
#define MAX_PATH  1024
#define MAX_FILES 4096

extern char **environ;

/* ---- notation -------------------------------------------------------------------------------------------------- */

static void put_varint(struct sp_buf *buf, uint64_t value)
{
    unsigned char bytes[10];
    uint32_t width = sp_wire_varint_size(value);
    sp_wire_put_varint(bytes, value, width);
    sp_buf_append(buf, bytes, width);
}

static void put_field(struct sp_buf *buf, uint64_t number, const void *bytes, size_t size)
{
    put_varint(buf, number << 3 | 2);
    put_varint(buf, size);
    sp_buf_append(buf, bytes, size);
}

static struct sp_buf begin(void)
{
    struct sp_buf buf;
    sp_buf_init(&buf, MAX_FILE);
    return buf;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void encode_fields(const char **at, struct sp_buf *buf);

static void encode_value(const char **at, uint64_t number, struct sp_buf *buf)
{
    struct sp_buf inner = begin();
    char *end;
    switch (*(*at)++) {
    case ':':
        put_varint(buf, number << 3);
        put_varint(buf, (uint64_t)strtoll(*at, &end, 10));
        *at = end;
        break;
    case '~': {
        float value = strtof(*at, &end);
        put_varint(buf, number << 3 | 5);
        sp_buf_append(buf, &value, sizeof value); /* tests run on little-endian machines */
        *at = end;
        break;
    }
    case '\'': {
        size_t size = strcspn(*at, "'");
        put_field(buf, number, *at, size);
        *at += size + 1;
        break;
    }
    case 'h':
        for (; hex_digit((*at)[0]) >= 0; *at += 2) {
            unsigned char byte = (unsigned char)(hex_digit((*at)[0]) << 4 | hex_digit((*at)[1]));
            sp_buf_append(&inner, &byte, 1);
        }
        put_field(buf, number, inner.data, inner.size);
        break;
    case '{':
        encode_fields(at, &inner);
        cr_assert_eq(*(*at)++, '}', "unclosed message before '%.20s'", *at);
        put_field(buf, number, inner.data, inner.size);
        break;
    default:
        cr_assert_fail("wrong notation before '%.20s'", *at);
    }
    sp_buf_release(&inner);
}

static void encode_fields(const char **at, struct sp_buf *buf)
{
    for (;;) {
        *at += strspn(*at, " \n");
        if (**at == '\0' || **at == '}')
            return;
        char *end;
        const size_t start = buf->size;
        uint64_t number = strtoull(*at, &end, 10);
        cr_assert(end != *at, "no field number at '%.20s'", *at);
        *at = end;
        encode_value(at, number, buf);
        if (**at == '*') {
            struct sp_buf once = begin();
            unsigned long count = strtoul(*at + 1, &end, 10);
            sp_buf_append(&once, buf->data + start, buf->size - start);
            for (unsigned long i = 1; i < count; i++)
                sp_buf_append(buf, once.data, once.size);
            sp_buf_release(&once);
            *at = end;
        }
    }
}

struct sp_buf onnx_encode(const char *notation)
{
    struct sp_buf buf = begin();
    encode_fields(&notation, &buf);
    cr_assert_eq(*notation, '\0', "superfluous '%.20s'", notation);
    cr_assert_not(sp_buf_failed(&buf));
    return buf;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

enum sp_status onnx_read(struct onnx_model *model, const void *bytes, size_t size)
{
    memset(model, 0, sizeof *model);
    model->arena = sp_arena_create(NULL);
    cr_assert_not_null(model->arena);
    enum sp_status status = sp_onnx_read(model->arena, bytes, size, NULL, &model->model, &model->err);
    cr_assert_eq(status, model->err.status);
    return status;
}

void onnx_release(struct onnx_model *model)
{
    sp_arena_destroy(model->arena);
    memset(model, 0, sizeof *model);
}

void onnx_expect_bytes(const void *bytes, size_t size, enum sp_status status, const char *code, const char *limit)
{
    struct onnx_model model;
    /* A copy of exactly this size: reading past the end is caught. */
    void *copy = malloc(size == 0 ? 1 : size);
    cr_assert_not_null(copy);
    if (size > 0)
        memcpy(copy, bytes, size);
    enum sp_status got = onnx_read(&model, copy, size);
    cr_expect_eq(got, status, "status %s, not %s: %s", sp_status_name(got), sp_status_name(status), model.err.message);
    cr_expect_str_eq(model.err.code, code, "code %s, not %s: %s", model.err.code, code, model.err.message);
    if (limit != NULL)
        cr_expect(model.err.limit != NULL && strcmp(model.err.limit, limit) == 0, "limit %s, not %s",
                  model.err.limit == NULL ? "none" : model.err.limit, limit);
    onnx_release(&model);
    free(copy);
}

void onnx_expect(const char *notation, enum sp_status status, const char *code, const char *limit)
{
    struct sp_buf file = onnx_encode(notation);
    onnx_expect_bytes(file.data, file.size, status, code, limit);
    sp_buf_release(&file);
}

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static bool read_original(void *context, uint64_t offset, void *bytes, size_t size)
{
    memcpy(bytes, (const unsigned char *)context + offset, size);
    return true;
}

struct sp_buf onnx_result(struct sp_splice *splice, const void *original)
{
    struct sp_buf buf = begin();
    struct sp_error err = {0};
    const struct sp_source source = {.read = read_original, .context = (void *)(uintptr_t)original};
    const struct sp_sink sink = {.write = append, .context = &buf};
    cr_assert_eq(sp_splice_stream(splice, &source, &sink, &err), SP_OK, "%s", err.message);
    cr_assert_eq(buf.size, sp_splice_size(splice));
    sp_splice_destroy(splice);
    return buf;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static char *found[MAX_FILES];
static size_t found_count;

static int collect(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info;
    (void)ftw;
    size_t length = strlen(path);
    if (kind == FTW_F && length > 5 && strcmp(path + length - 5, ".onnx") == 0 && found_count < MAX_FILES)
        found[found_count++] = strdup(path);
    return 0;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void visit_file(const char *path, void (*visit)(const char *, const void *, size_t, void *), void *context)
{
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(file >= 0 && fstat(file, &info) == 0 && info.st_size > 0, "%s", path);
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    cr_assert_neq(bytes, MAP_FAILED);
    visit(path, bytes, (size_t)info.st_size, context);
    (void)munmap(bytes, (size_t)info.st_size);
    (void)close(file);
}

bool onnx_each_file(const char *folder, void (*visit)(const char *path, const void *bytes, size_t size, void *context),
                    void *context)
{
    found_count = 0;
    if (folder == NULL || nftw(folder, collect, 16, FTW_PHYS) != 0)
        return false;
    qsort(found, found_count, sizeof *found, by_name);
    for (size_t i = 0; i < found_count; i++) {
        visit_file(found[i], visit, context);
        free(found[i]);
    }
    return found_count > 0;
}

const char *onnx_data(const char *name)
{
    static char path[MAX_PATH];
    (void)snprintf(path, sizeof path, "%s/%s", data_folder(), name);
    return path;
}

const char *onnx_unpack_backend_tests(void)
{
    static char folder[] = "/tmp/shardplan-test-XXXXXX";
    const char *archive = onnx_data("onnx-backend-tests.tar.gz");
    int status;
    pid_t child;
    if (access(archive, R_OK) != 0 || mkdtemp(folder) == NULL)
        return NULL;
    const char *arguments[] = {"tar", "-xzf", archive, "-C", folder, "--wildcards", "*/model.onnx", NULL};
    cr_assert_eq(posix_spawnp(&child, "tar", NULL, NULL, (char *const *)(uintptr_t)arguments, environ), 0);
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return folder;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void onnx_remove_folder(const char *folder)
{
    (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
