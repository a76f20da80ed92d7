/*
 * stop_shim - to be loaded before a program (LD_PRELOAD): stops its process right before one of its calls, as a machine does
 * that is frozen there. STOP_AT names the call, unlink or rename, and the file STOP_COUNT holds as eight bytes how many such
 * calls on files below blobs/ come before it; negative: never.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t *left;
static const char *call_to_stop_at = "";

__attribute__((constructor)) static void load(void)
{
    const char *path = getenv("STOP_COUNT"), *call = getenv("STOP_AT");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *page = fd >= 0 ? mmap(NULL, sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (page != MAP_FAILED)
        left = page;
    if (call != NULL)
        call_to_stop_at = call;
    if (fd >= 0)
        (void)close(fd);
}

static void stop_before(const char *call, const char *path)
{
    if (left == NULL || strcmp(call, call_to_stop_at) != 0 || strstr(path, "/blobs/") == NULL || atomic_load(left) < 0)
        return;
    if (atomic_fetch_sub(left, 1) == 0)
        (void)kill(getpid(), SIGSTOP);
}

int unlink(const char *path)
{
    int (*real)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
    stop_before("unlink", path);
    return real(path);
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    stop_before("rename", to);
    return real(from, to);
}
