/*
 * evil_worker: preloaded into a daemon, it makes workers behave as if a model had taken them over. They are locked up as
 * ever, get jobs as ever, and then do what EVIL says:
 *
 *   look    try to open the files of EVIL_PATHS (with ':' between them), and to write to what is for reading
 *   huge    make every result as large as HUGE_BYTES before the work is done
 *   keep    never close a result, and write to it when the job is done
 *
 * What came of it is told on standard error.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HUGE_BYTES (3ll << 29)

static ssize_t (*real_recvmsg)(int, struct msghdr *, int);
static int (*real_close)(int);
static bool is_worker, keeps, is_locked_up;
static char evil[16], paths[4096];
static int files[64];
static unsigned file_count;

__attribute__((constructor)) static void begin(void)
{
    char words[4096] = "";
    *(void **)&real_recvmsg = dlsym(RTLD_NEXT, "recvmsg");
    *(void **)&real_close = dlsym(RTLD_NEXT, "close");
    const int fd = open("/proc/self/cmdline", O_RDONLY);
    const ssize_t got = fd >= 0 ? read(fd, words, sizeof words - 1) : 0;
    if (fd >= 0)
        (void)real_close(fd);
    is_worker = got > 0 && strcmp(words + strlen(words) + 1, "--worker") == 0;
    (void)snprintf(evil, sizeof evil, "%s", getenv("EVIL") != NULL ? getenv("EVIL") : "");
    (void)snprintf(paths, sizeof paths, "%s", getenv("EVIL_PATHS") != NULL ? getenv("EVIL_PATHS") : "");
    keeps = is_worker && strcmp(evil, "keep") == 0;
}

static bool is_result(int fd)
{
    return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY;
}

static void look(void)
{
    char copy[sizeof paths];
    memcpy(copy, paths, sizeof copy);
    for (char *rest = copy, *path; (path = strsep(&rest, ":")) != NULL;) {
        (void)dprintf(STDERR_FILENO, "read %s\n", open(path, O_RDONLY) >= 0 ? "yes" : strerrorname_np(errno));
        (void)dprintf(STDERR_FILENO, "write %s\n", open(path, O_WRONLY) >= 0 ? "yes" : strerrorname_np(errno));
    }
    for (unsigned i = 0; i < file_count; i++) {
        if (!is_result(files[i]))
            (void)dprintf(STDERR_FILENO, "change %s\n",
                          pwrite(files[i], "EVIL", 4, 16) == 4 ? "yes" : strerrorname_np(errno));
    }
}

static void enlarge(void)
{
    for (unsigned i = 0; i < file_count; i++) {
        if (is_result(files[i]))
            (void)dprintf(STDERR_FILENO, "huge %s\n",
                          pwrite(files[i], "x", 1, HUGE_BYTES - 1) == 1 ? "yes" : strerrorname_np(errno));
    }
}

/* After a job, on the way to the next one. */
static void write_late(void)
{
    for (unsigned i = 0; i < file_count; i++) {
        if (is_result(files[i]))
            (void)!pwrite(files[i], "{\"late\":true}", 13, 0);
    }
}

static void take(const struct cmsghdr *part)
{
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    file_count = count < sizeof files / sizeof files[0] ? (unsigned)count : 0;
    memcpy(files, CMSG_DATA(part), file_count * sizeof(int));
    if (strcmp(evil, "look") == 0)
        look();
    else if (strcmp(evil, "huge") == 0)
        enlarge();
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    is_locked_up = is_worker;
    if (keeps)
        write_late();
    const ssize_t got = real_recvmsg(fd, message, flags);
    const struct cmsghdr *part = is_worker && got > 0 ? CMSG_FIRSTHDR(message) : NULL;
    if (part != NULL)
        take(part);
    return got;
}

int close(int fd)
{
    return keeps && is_locked_up && is_result(fd) ? 0 : real_close(fd);
}
