#include <sys/resource.h>

#include "server_limits.h"
#include "util/sanitized.h"
#include "worker/internal.h"

static void set_limit(int resource, uint64_t value)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max != RLIM_INFINITY && value > limit.rlim_max ? limit.rlim_max : value;
    (void)setrlimit((__rlimit_resource_t)resource, &limit);
}

uint64_t work_most_memory(uint64_t budget)
{
    return budget + budget / 4 + SPD_ADDRESS_SPACE_SLACK;
}

/* A second wall behind the library's own budget and clock: the kernel's. */
void work_limit(const struct work *work)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        set_limit(RLIMIT_CPU, (uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec + work->seconds +
                                  SPD_JOB_GRACE_SECONDS);
#if !SPD_SANITIZED /* their shadow memory alone is terabytes */
    set_limit(RLIMIT_AS, work_most_memory(work->memory) + work->mapped);
#endif
}
