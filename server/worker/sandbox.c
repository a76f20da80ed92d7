#include "worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/sanitized.h"

#define STACK_BYTES (8u << 20)

/* ---- limits ---- */

/* Both limits: nobody raises them again. */
static bool limit(__rlimit_resource_t resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now) != 0)
        return false;
    if (value > now.rlim_max)
        value = now.rlim_max;
    return setrlimit(resource, &(struct rlimit){value, value}) == 0;
}

static bool set_limits(const struct sandbox *sandbox)
{
    return limit(RLIMIT_CORE, 0) && limit(RLIMIT_FSIZE, sandbox->file_bytes) &&
           (SPD_SANITIZED || (limit(RLIMIT_NOFILE, sandbox->descriptors) && limit(RLIMIT_NPROC, 0) &&
                              limit(RLIMIT_DATA, sandbox->memory_bytes) && limit(RLIMIT_STACK, STACK_BYTES)));
}

/* ---- landlock: the system calls have no functions in the C library ---- */

/* Rights that later kernels know too; names by version, so that old headers compile. */
#define RIGHT_REFER    (1ull << 13)
#define RIGHT_TRUNCATE (1ull << 14)
#define RIGHT_IOCTL    (1ull << 15)

/* Connecting and binding of TCP (version 4), abstract sockets and signals to others (version 6). */
struct ruleset {
    uint64_t files, network, scoped;
};

#define ALL_OF_NETWORK 3ull
#define ALL_OF_SCOPED  3ull

static struct ruleset ruleset_of(long version)
{
    struct ruleset rules = {.files = (1ull << 13) - 1};
    if (version >= 2)
        rules.files |= RIGHT_REFER;
    if (version >= 3)
        rules.files |= RIGHT_TRUNCATE;
    if (version >= 4)
        rules.network = ALL_OF_NETWORK;
    if (version >= 5)
        rules.files |= RIGHT_IOCTL;
    if (version >= 6)
        rules.scoped = ALL_OF_SCOPED;
    return rules;
}

static size_t ruleset_size(long version)
{
    return version >= 6   ? sizeof(struct ruleset)
           : version >= 4 ? offsetof(struct ruleset, scoped)
                          : offsetof(struct ruleset, network);
}

/* What is missing, switched off, or kept from the programs of a container. */
static bool is_missing(int error)
{
    return error == ENOSYS || error == EOPNOTSUPP || error == EINVAL || error == EPERM || error == EACCES;
}

/* *ret_raised stays false where the kernel has no landlock. There are no rules: nothing is let through. */
static bool raise_landlock(bool *ret_raised)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return is_missing(errno);
    struct ruleset handled = ruleset_of(version);
    int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, ruleset_size(version), 0u);
    if (rules < 0)
        return false;
    bool ok = syscall(SYS_landlock_restrict_self, rules, 0u) == 0;
    int error = errno;
    (void)close(rules);
    errno = error;
    *ret_raised = ok;
    return ok;
}

/* ---- seccomp ---- */

/* Names that an architecture lacks are skipped. */
static const int allowed[] = {
    /* reading and writing what is open */
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(pwrite64),
    SCMP_SYS(lseek),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(close),
    SCMP_SYS(fstat),
    /* memory, without mmap() and mprotect() */
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(sysinfo), /* qsort() asks how large the machine is and takes no error for an answer */
    /* time, chance, and what ends a process; kill() and its like go to this process only, see below */
    SCMP_SYS(clock_gettime),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(setitimer),
    SCMP_SYS(getrusage),
    SCMP_SYS(getrandom),
    SCMP_SYS(futex),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

/* What libraries ask and can do without. */
static const int refused[] = {
    SCMP_SYS(ioctl),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(uname),
    SCMP_SYS(getppid),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(prctl),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(sched_yield),
    SCMP_SYS(getdents64),
    SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(openat2),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(statx),
    SCMP_SYS(newfstatat),
};

/* The sanitizers' run-time maps, looks at itself, and at the end at its leaks from a thread. */
static const int sanitized[] = {
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(mmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(prctl),
    SCMP_SYS(ioctl),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(clone),
    SCMP_SYS(clone3),
    SCMP_SYS(ptrace),
    SCMP_SYS(wait4),
    SCMP_SYS(prlimit64),
    SCMP_SYS(sched_yield),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(getppid),
    SCMP_SYS(getdents),
    SCMP_SYS(getdents64),
    SCMP_SYS(getuid),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(uname),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getcwd),
    SCMP_SYS(tgkill),
    SCMP_SYS(kill),
    SCMP_SYS(fcntl),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(execve),
    SCMP_SYS(pipe),
    SCMP_SYS(pipe2),
    SCMP_SYS(dup2),
    SCMP_SYS(dup),
    SCMP_SYS(setrlimit),
    SCMP_SYS(getrlimit),
    SCMP_SYS(geteuid),
    SCMP_SYS(getegid),
    SCMP_SYS(getgid),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(recvmsg),
};

static bool add_all(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t count)
{
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++)
        ok = calls[i] < 0 || seccomp_rule_add(filter, action, calls[i], 0) == 0; /* negative: not of this machine */
    return ok;
}

#define ADD_ALL(filter, action, calls) add_all(filter, action, calls, sizeof calls / sizeof calls[0])

static bool add_when(scmp_filter_ctx filter, int call, struct scmp_arg_cmp condition)
{
    return call < 0 || seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &condition) == 0;
}

/* No code is made, and no memory that counts in no limit since it is shared. */
static bool add_mmap(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp conditions[] = {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                                              SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_TYPE, MAP_PRIVATE)};
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2, conditions) == 0;
}

/* Calls that only do no harm with some arguments. */
static bool add_conditions(scmp_filter_ctx filter)
{
    const unsigned plain[] = {F_GETFD, F_SETFD, F_GETFL, F_SETFL};
    const int self = getpid();
    bool ok = add_mmap(filter) && add_when(filter, SCMP_SYS(recvmsg), SCMP_A0_32(SCMP_CMP_EQ, STDIN_FILENO)) &&
              add_when(filter, SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) &&
              add_when(filter, SCMP_SYS(prlimit64), SCMP_A0_32(SCMP_CMP_EQ, 0)) &&
              add_when(filter, SCMP_SYS(kill), SCMP_A0_32(SCMP_CMP_EQ, (unsigned)self)) &&
              add_when(filter, SCMP_SYS(tgkill), SCMP_A0_32(SCMP_CMP_EQ, (unsigned)self));
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        ok = ok && add_when(filter, SCMP_SYS(fcntl), SCMP_A1_32(SCMP_CMP_EQ, plain[i]));
    return ok;
}

static bool raise_seccomp(bool *ret_raised)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int error = ENOMEM;
    bool ok = filter != NULL &&
              (SPD_SANITIZED ? ADD_ALL(filter, SCMP_ACT_ALLOW, sanitized)
                             : add_conditions(filter) && ADD_ALL(filter, SCMP_ACT_ERRNO(EPERM), refused)) &&
              ADD_ALL(filter, SCMP_ACT_ALLOW, allowed);
    if (ok) {
        error = -seccomp_load(filter);
        ok = error == 0;
    }
    seccomp_release(filter);
    errno = error;
    *ret_raised = ok;
    return ok || is_missing(error);
}

bool sandbox_enter(const struct sandbox *sandbox, struct sandbox_walls *ret_walls)
{
    *ret_walls = (struct sandbox_walls){0};
    (void)close_range(STDERR_FILENO + 1 + sandbox->kept, ~0u, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return false;
    ret_walls->up[SANDBOX_NO_NEW_PRIVS] = true;
    if (!SPD_SANITIZED && !raise_landlock(&ret_walls->up[SANDBOX_LANDLOCK]))
        return false;
    ret_walls->up[SANDBOX_LIMITS] = set_limits(sandbox);
    return ret_walls->up[SANDBOX_LIMITS] && raise_seccomp(&ret_walls->up[SANDBOX_SECCOMP]);
}

/* ---- which there are ---- */

#define TRIED (1 << SANDBOX_WALLS) /* in the exit status, beside a bit for each wall that is up */

static _Noreturn void enter_and_tell(void)
{
    const struct sandbox nothing = {.memory_bytes = RLIM_INFINITY, .descriptors = 16};
    struct sandbox_walls walls;
    int status = sandbox_enter(&nothing, &walls) ? TRIED : 0;
    for (int i = 0; i < SANDBOX_WALLS; i++)
        status |= walls.up[i] ? 1 << i : 0;
    _exit(status);
}

bool sandbox_try(struct sandbox_walls *ret_walls)
{
    int status = 0;
    *ret_walls = (struct sandbox_walls){0};
    const pid_t child = fork();
    if (child == 0)
        enter_and_tell();
    if (child < 0 || TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) != child || !WIFEXITED(status))
        return false;
    for (int i = 0; i < SANDBOX_WALLS; i++)
        ret_walls->up[i] = (WEXITSTATUS(status) >> i & 1) != 0;
    return (WEXITSTATUS(status) & TRIED) != 0;
}

const char *sandbox_wall_name(enum sandbox_wall wall)
{
    static const char *const names[SANDBOX_WALLS] = {"no_new_privs", "limits", "landlock", "seccomp"};
    return names[wall];
}

bool sandbox_is_whole(const struct sandbox_walls *walls)
{
    bool is_whole = true;
    for (int i = 0; i < SANDBOX_WALLS; i++)
        is_whole = is_whole && walls->up[i];
    return is_whole;
}

void sandbox_describe(const struct sandbox_walls *walls, bool up, char ret[SANDBOX_TEXT_SIZE])
{
    size_t used = 0;
    *ret = '\0';
    for (int i = 0; i < SANDBOX_WALLS && used < SANDBOX_TEXT_SIZE; i++) {
        if (walls->up[i] == up)
            used += (size_t)snprintf(ret + used, SANDBOX_TEXT_SIZE - used, "%s%s", used > 0 ? " " : "",
                                     sandbox_wall_name((enum sandbox_wall)i));
    }
}
