/*
 * clock_shim - to be loaded before a program (LD_PRELOAD): shifts CLOCK_REALTIME by the seconds that the file
 * CLOCK_SHIFT holds as eight bytes, whenever they change. Clocks that never jump stay as they are.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

__attribute__((constructor)) static void load(void)
{
    const char *path = getenv("CLOCK_SHIFT");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = fd >= 0 ? mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (page != MAP_FAILED)
        shift = page;
    if (fd >= 0)
        (void)close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME && shift != NULL)
        time->tv_sec += *shift;
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret != NULL)
        *ret = now.tv_sec;
    return now.tv_sec;
}
