#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plan/proof/verified.h"
#include "server_limits.h"
#include "store/files.h"
#include "worker/internal.h"

#define FIRST_PROGRAMS 16u

struct file {
    const char *id;
    void *bytes;
    uint64_t size;
};

/* A file beside a model, as it was asked for. */
struct lying {
    const char *id; /* of the model; NULL: of none */
    char location[SPD_MAX_LOCATION + 1];
    int file; /* -1: it is not there */
};

/* The models of the ranks, mapped when they are first asked for, each once; and what lies beside them. */
struct files {
    struct work *work;
    uint32_t count;
    struct file items[SP_MAX_VERIFY_MODELS];
    uint32_t program_count, program_room;
    const char **programs; /* the id of each program, in their order */
    struct lying last;     /* most reads follow one in the same file */
};

static enum sp_status cannot_open(struct sp_error *err, const char *id)
{
    if (errno == ENOMEM)
        return sp_fail_memory(err);
    return sp_fail(err, SP_ERR_IO, "OPEN_FAILED", "The stored model %.64s cannot be opened: %s.", id,
                   strerrordesc_np(errno));
}

static enum sp_status map_file(struct files *files, const char *id, struct sp_error *err)
{
    struct file *file = &files->items[files->count];
    const int fd = work_file(files->work, id);
    file->id = id;
    if (fd < 0)
        errno = ENOENT;
    if (fd < 0 || !work_map(files->work, fd, &file->bytes, &file->size))
        return cannot_open(err, id);
    files->count++;
    return SP_OK;
}

/* Programs are asked for in their order, and one model may be several of them. */
static bool add_program(struct files *files, const char *id)
{
    if (files->program_count == files->program_room) {
        const uint32_t room = files->program_room == 0 ? FIRST_PROGRAMS : 2 * files->program_room;
        const char **programs = reallocarray(files->programs, room, sizeof *programs);
        if (programs == NULL)
            return false;
        files->programs = programs;
        files->program_room = room;
    }
    files->programs[files->program_count++] = id;
    return true;
}

static enum sp_status find_model(void *context, const char *id, const void **ret_bytes, uint64_t *ret_size,
                                 struct sp_error *err)
{
    struct files *files = context;
    uint32_t i = 0;
    while (i < files->count && strcmp(files->items[i].id, id) != 0)
        i++;
    assert(i < SP_MAX_VERIFY_MODELS); /* the question has no more */
    enum sp_status status = i == files->count ? map_file(files, id, err) : SP_OK;
    if (status == SP_OK && !add_program(files, files->items[i].id)) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY; /* said so that an analyser sees it */
    }
    if (status == SP_OK) {
        *ret_bytes = files->items[i].bytes != NULL ? files->items[i].bytes : "";
        *ret_size = files->items[i].size;
    }
    return status;
}

static bool read_weight(void *context, uint32_t program, const char *location, uint64_t offset, void *bytes,
                        size_t size)
{
    struct files *files = context;
    const char *id = program == SP_VERIFY_ORIGINAL ? files->work->sha256 : files->programs[program];
    struct lying *last = &files->last;
    char name[65];
    if (last->id != id || strcmp(last->location, location) != 0) {
        if (strlen(location) > SPD_MAX_LOCATION)
            return false;
        last->id = id;
        (void)snprintf(last->location, sizeof last->location, "%s", location);
        last->file = worker_name_beside(id, location, name) ? work_file(files->work, name) : -1;
    }
    return last->file >= 0 && files_read_at(last->file, offset, bytes, size);
}

static enum sp_status write_verification(const struct work *work, const struct sp_verification *found,
                                         struct output *output, struct sp_error *err)
{
    struct sp_buf buf;
    struct sp_json json;
    if (work->form == WORK_TEXT) {
        sp_buf_init(&buf, SPD_MAX_TEXT_BYTES);
        sp_verification_text(found, &buf);
        return work_write_text(output, &buf, SP_OK, err);
    }
    sp_json_init(&json, false, output_write, output);
    sp_verification_json(found, &json);
    return sp_json_finish(&json, err);
}

/* Memory that is short in this process is found out by who asks for it (worker.c); the rest is the job's budget. */
static enum sp_status explain(const struct work *work, enum sp_status status, struct sp_error *err)
{
    if (status != SP_ERR_MEMORY)
        return status;
    sp_error_clear(err);
    return sp_fail_limit(err, "MODEL_TOO_DEMANDING", "--job-memory", (int64_t)work->memory, (int64_t)work->memory + 1,
                         "To verify these models takes more than the %llu MB of memory that a job is given (limit "
                         "--job-memory).",
                         (unsigned long long)(work->memory >> 20));
}

enum sp_status work_verify(struct work *work, const json_t *request, struct output *output, struct sp_error *err)
{
    struct sp_verify_question question;
    struct sp_job_options options;
    struct sp_verified *verified = NULL;
    struct files *files = calloc(1, sizeof *files);
    struct sp_arena *arena = sp_arena_create(NULL);
    const struct sp_verify_access access = {.find = find_model, .read = read_weight, .context = files};
    enum sp_status status = SP_OK;
    work_options(work, &options);
    if (files == NULL || arena == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK && files != NULL) { /* the second said so that an analyser sees it */
        files->work = work;
        status = sp_verify_question_parse(arena, request, &question, err);
    }
    if (status == SP_OK)
        status = sp_verified_create(&options, &question, &access, work->form != WORK_TEXT, &verified, err);
    if (status == SP_OK)
        status = write_verification(work, sp_verified_verification(verified), output, err);
    sp_verified_destroy(verified);
    for (uint32_t i = 0; files != NULL && i < files->count; i++) {
        if (files->items[i].bytes != NULL)
            (void)munmap(files->items[i].bytes, files->items[i].size);
    }
    sp_arena_destroy(arena);
    if (files != NULL)
        free(files->programs);
    free(files);
    return explain(work, status, err);
}
