/* The descriptors that came with a job: in the order of the names in its line. */
#include <gnutls/crypto.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/text.h"
#include "worker/internal.h"

#define MESSAGE_FILES 253 /* SCM_MAX_FD: what one message can carry */

/* ---- receiving ---- */

static void take_files(struct job_files *files, const struct cmsghdr *part)
{
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
        if (files->count < SPD_MAX_JOB_FILES)
            files->fds[files->count++] = fd;
        else
            (void)close(fd);
    }
}

ssize_t work_receive(struct job_files *files, void *bytes, size_t size)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(MESSAGE_FILES * sizeof(int))];
    } control;
    struct iovec vector = {bytes, size};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(STDIN_FILENO, &message, MSG_CMSG_CLOEXEC);
    if (got < 0)
        return got;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part != NULL; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
            take_files(files, part);
    }
    return got;
}

/* ---- using ---- */

int work_file(const struct work *work, const char *name)
{
    for (unsigned i = 0; i < work->files.count; i++) {
        const char *known = json_string_value(json_array_get(work->names, i));
        if (known != NULL && strcmp(known, name) == 0)
            return work->files.fds[i];
    }
    return -1;
}

bool worker_name_beside(const char *model, const char *location, char ret_name[65])
{
    unsigned char digest[32];
    gnutls_hash_hd_t hash;
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0)
        return false;
    /* An id has no NUL, so no two pairs are the same bytes. */
    const bool ok =
        gnutls_hash(hash, model, strlen(model) + 1) == 0 && gnutls_hash(hash, location, strlen(location)) == 0;
    gnutls_hash_deinit(hash, digest);
    text_to_hex(digest, sizeof digest, ret_name);
    return ok;
}

int work_take_file(struct work *work, const char *name)
{
    const int fd = work_file(work, name);
    for (unsigned i = 0; fd >= 0 && i < work->files.count; i++) {
        if (work->files.fds[i] == fd)
            work->files.fds[i] = -1;
    }
    return fd;
}

void work_close_files(struct job_files *files)
{
    for (unsigned i = 0; i < files->count; i++) {
        if (files->fds[i] >= 0)
            (void)close(files->fds[i]);
    }
    files->count = 0;
}

bool work_map(struct work *work, int fd, void **ret_bytes, uint64_t *ret_size)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    *ret_bytes = NULL;
    *ret_size = 0;
    if (size <= 0)
        return size == 0;
    work->mapped += (uint64_t)size;
    work_limit(work);
    void *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return false;
    /* Weights are skipped: reading ahead would only fill memory with them. */
    (void)madvise(bytes, (size_t)size, MADV_RANDOM);
    *ret_bytes = bytes;
    *ret_size = (uint64_t)size;
    return true;
}

/* json_loadfd() would ask the kernel for every single byte. */
static size_t read_some(void *buffer, size_t size, void *data)
{
    const int *fd = data;
    const ssize_t got = read(*fd, buffer, size);
    return got < 0 ? (size_t)-1 : (size_t)got;
}

json_t *work_load(const struct work *work, const char *name)
{
    int fd = work_file(work, name);
    if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0)
        return NULL;
    return json_load_callback(read_some, &fd, JSON_REJECT_DUPLICATES, NULL);
}
