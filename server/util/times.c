#include "util/times.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "server.h"

uint64_t server_now_us(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t server_now_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int64_t times_now(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const char *times_format(int64_t milliseconds, char *ret)
{
    struct tm utc;
    time_t seconds = (time_t)(milliseconds / 1000);
    if (milliseconds <= 0 || gmtime_r(&seconds, &utc) == NULL)
        return NULL;
    size_t used = strftime(ret, TIMES_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(ret + used, TIMES_SIZE - used, ".%03dZ", (int)(milliseconds % 1000));
    return ret;
}
