#include "jobs/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/files.h"

#define FIRST_ROOM 4u

struct handover *handover_create(void)
{
    return calloc(1, sizeof(struct handover));
}

static void close_file(int *file)
{
    if (*file >= 0)
        (void)close(*file);
    *file = -1;
}

static void close_result(const struct handover *handover, struct result *result)
{
    close_file(&result->file);
    close_file(&result->given);
    if (!handover->is_of_errand && !result->is_stored)
        (void)unlink(result->path);
}

void handover_destroy(struct handover *handover)
{
    if (handover == NULL)
        return;
    for (unsigned i = 0; i < handover->input_count; i++) {
        close_file(&handover->inputs[i].file);
        free(handover->inputs[i].path);
    }
    for (unsigned i = 0; i < handover->result_count; i++) {
        close_result(handover, &handover->results[i]);
        free(handover->results[i].path);
    }
    free(handover->inputs);
    free(handover);
}

/* ---- making ---- */

static bool make_room(struct handover *handover)
{
    if (handover->input_count < handover->room)
        return true;
    const unsigned room = handover->room == 0 ? FIRST_ROOM : 2 * handover->room;
    struct input *inputs = reallocarray(handover->inputs, room, sizeof *inputs);
    if (inputs == NULL)
        return false;
    handover->inputs = inputs;
    handover->room = room;
    return true;
}

bool handover_add_input(struct handover *handover, const char *name, char *path)
{
    uint64_t size;
    const int file = files_open_read(path, &size);
    int error = errno;
    if (file >= 0 && make_room(handover)) {
        struct input *input = &handover->inputs[handover->input_count++];
        *input = (struct input){.path = path, .file = file};
        (void)snprintf(input->name, sizeof input->name, "%s", name);
        return true;
    }
    if (file >= 0) {
        (void)close(file);
        error = ENOMEM;
    }
    free(path);
    errno = error;
    return false;
}

/* A new file under the result's path. False with errno. */
static bool make_file(struct result *result)
{
    result->given = open(result->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (result->given < 0)
        return false;
    result->file = open(result->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return result->file >= 0;
}

bool handover_add_result(struct handover *handover, const char *name, char *path, struct problem *problem)
{
    if (path == NULL)
        return problem_no_memory(problem);
    struct result *result = &handover->results[handover->result_count++];
    *result = (struct result){.name = name, .file = -1, .given = -1};
    result->path = path;
    return make_file(result) || problem_from_errno(problem, errno, "Making the file of a result");
}

bool handover_renew(struct handover *handover, struct problem *problem)
{
    for (unsigned i = 0; i < handover->result_count; i++) {
        struct result *result = &handover->results[i];
        close_file(&result->file);
        close_file(&result->given);
        result->size = 0;
        (void)unlink(result->path);
        if (!make_file(result))
            return problem_from_errno(problem, errno, "Making the file of a result");
    }
    return true;
}

/* ---- giving ---- */

json_t *handover_names(const struct handover *handover)
{
    json_t *names = json_array();
    bool ok = names != NULL;
    for (unsigned i = 0; ok && i < handover->input_count; i++)
        ok = json_array_append_new(names, json_string(handover->inputs[i].name)) == 0;
    for (unsigned i = 0; ok && i < handover->result_count; i++)
        ok = json_array_append_new(names, json_string(handover->results[i].name)) == 0;
    if (ok)
        return names;
    json_decref(names);
    return NULL;
}

unsigned handover_count(const struct handover *handover)
{
    return handover->input_count + handover->result_count;
}

void handover_descriptors(const struct handover *handover, int *ret_files)
{
    for (unsigned i = 0; i < handover->input_count; i++)
        ret_files[i] = handover->inputs[i].file;
    for (unsigned i = 0; i < handover->result_count; i++)
        ret_files[handover->input_count + i] = handover->results[i].given;
}

void handover_given(struct handover *handover)
{
    for (unsigned i = 0; i < handover->result_count; i++)
        close_file(&handover->results[i].given);
}

/* ---- taking back ---- */

/* A lease for reading is given when nobody has the file open for writing, in a descriptor, a mapping or a message. Nobody
   who has not can open it: the folder is the daemon's. */
static bool is_read_only(int file)
{
    return fcntl(file, F_SETLEASE, F_RDLCK) == 0 && fcntl(file, F_SETLEASE, F_UNLCK) == 0;
}

bool handover_seal(struct handover *handover)
{
    bool is_sealed = true;
    for (unsigned i = 0; i < handover->result_count; i++) {
        struct result *result = &handover->results[i];
        struct stat info = {0};
        is_sealed = is_read_only(result->file) && is_sealed;
        if (fstat(result->file, &info) == 0)
            result->size = (uint64_t)info.st_size;
    }
    return is_sealed;
}
