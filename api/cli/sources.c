/*
 * Where the bytes of a recipe come from: the model, and the files beside it that hold its weights.
 *
 * A location is a path below the model's folder, as ONNX says; one that leaves it is not opened, by symbolic links neither:
 * who gave the model may have packed some beside it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "graph/external.h"

struct sources sources_open(const struct input *input)
{
    struct sources sources = {.input = input, .folder = -1};
    if (input->folder != NULL) /* a model from a pipe has none */
        sources.folder = open(input->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sources;
}

void sources_close(struct sources *sources)
{
    for (uint32_t i = 0; i < sources->count; i++) {
        if (sources->files[i] >= 0)
            (void)close(sources->files[i]);
    }
    free(sources->files);
    if (sources->folder >= 0)
        (void)close(sources->folder);
    *sources = (struct sources){.folder = -1};
}

/* Not absolute, and no step upwards. */
static bool stays_below(const char *location)
{
    if (location[0] == '/' || location[0] == '\0')
        return false;
    for (const char *at = location; *at != '\0';) {
        size_t length = strcspn(at, "/");
        if (length == 2 && at[0] == '.' && at[1] == '.')
            return false;
        at += length + strspn(at + length, "/");
    }
    return true;
}

/* Each part of the path for itself; a symbolic link anywhere is an error. */
static int open_without_links(int folder, const char *location, int flags)
{
    int fd = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    for (const char *at = location; fd >= 0 && *at != '\0';) {
        char part[256];
        const size_t length = strcspn(at, "/"), next = length + strspn(at + length, "/");
        const bool is_last = at[next] == '\0';
        int found = -1;
        errno = ENAMETOOLONG;
        if (length < sizeof part) {
            memcpy(part, at, length);
            part[length] = '\0';
            found = openat(fd, part, is_last ? flags | O_NOFOLLOW : O_PATH | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY);
        }
        const int error = errno;
        (void)close(fd);
        errno = error;
        fd = found;
        at += next;
    }
    return fd;
}

static int open_location(const struct sources *sources, const char *location)
{
    if (sources->folder < 0 || !stays_below(location))
        return -1;
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK; /* a pipe must not hold us */
    const struct open_how how = {.flags = (unsigned)flags, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    const long fd = syscall(SYS_openat2, sources->folder, location, &how, sizeof how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return (int)fd;
    return open_without_links(sources->folder, location, flags); /* an old kernel, or a sandbox that does not know it */
}

/* Why a location cannot be opened, as the end of a sentence about it. */
static const char *why_missing(const struct sources *sources, const char *location)
{
    const int fd = open_location(sources, location), error = errno;
    if (fd >= 0)
        (void)close(fd);
    return fd < 0 && (error == EXDEV || error == ELOOP)
               ? "leads out of the model's folder by a symbolic link, which is not followed (put a copy there)"
               : "is not beside it";
}

int open_data_of(const struct input *input, const char *location)
{
    const struct sources sources = sources_open(input);
    const int fd = open_location(&sources, location);
    if (sources.folder >= 0)
        (void)close(sources.folder);
    return fd;
}

/* The size of the file there; -1 where there is none. */
static int64_t size_of(void *context, const char *location)
{
    const struct sources *sources = context;
    struct stat info;
    int fd = open_location(sources, location);
    const int64_t size = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
    if (fd >= 0)
        (void)close(fd);
    return size;
}

enum sp_status sources_have(const struct sources *sources, const struct sp_model *model, const char **ret_missing,
                            struct sp_error *err)
{
    const struct sp_external_files files = {.size_of = size_of, .context = (void *)(uintptr_t)sources};
    bool has_external = false;
    return sp_external_look(model, &files, &has_external, ret_missing, err);
}

enum sp_status sources_look(const struct input *input, const struct sp_model *model, struct sp_error *err)
{
    struct sources sources = sources_open(input);
    const char *missing = NULL;
    enum sp_status status = model != NULL ? sources_have(&sources, model, &missing, err) : SP_OK;
    if (status == SP_OK && missing != NULL && input->folder != NULL)
        print_note("'%.200s', where weights of the model lie, %s: not needed here, but to run it", missing,
                   why_missing(&sources, missing));
    sources_close(&sources);
    return status;
}

/* The open file of a source of the recipe at work; -1 where it cannot be opened. */
static int file_of(struct sources *sources, uint32_t source)
{
    if (source == 0)
        return sources->input->fd;
    if (source >= sources->count) {
        uint32_t count = sp_recipe_source_count(sources->recipe);
        int *files = source < count ? realloc(sources->files, count * sizeof *files) : NULL;
        if (files == NULL)
            return -1;
        for (uint32_t i = sources->count; i < count; i++)
            files[i] = -1;
        sources->files = files;
        sources->count = count;
    }
    if (sources->files[source] < 0)
        sources->files[source] = open_location(sources, sp_recipe_location(sources->recipe, source));
    return sources->files[source];
}

bool read_at(int fd, uint64_t offset, void *bytes, size_t size)
{
    char *to = bytes;
    while (fd >= 0 && size > 0) {
        ssize_t got = pread(fd, to, size, (off_t)offset);
        if (got < 0 && errno == EINTR && !interrupted)
            continue;
        if (got <= 0)
            return false;
        to += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return fd >= 0;
}

/* Offsets are those of the model that was made of a description, not of the description. */
static bool read_converted(const struct sources *sources, uint64_t offset, void *bytes, size_t size)
{
    if (offset > sources->converted_size || size > sources->converted_size - offset)
        return false;
    memcpy(bytes, sources->converted + offset, size);
    return true;
}

static bool read_source(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    struct sources *sources = context;
    if (source == 0 && sources->converted != NULL)
        return read_converted(sources, offset, bytes, size);
    return read_at(file_of(sources, source), offset, bytes, size);
}

enum sp_status output_recipe(struct output *output, const struct sp_recipe *recipe, struct sources *sources,
                             struct sp_error *err)
{
    const struct sp_recipe_reader reader = {.read = read_source, .context = sources};
    const struct sp_sink sink = {.write = output_write, .context = output};
    /* The numbers of external files are those of this recipe. */
    for (uint32_t i = 0; i < sources->count; i++) {
        if (sources->files[i] >= 0)
            (void)close(sources->files[i]);
        sources->files[i] = -1;
    }
    sources->recipe = recipe;
    return sp_recipe_stream(recipe, &reader, &sink, err);
}
