/*
 * without_call CALL PROGRAM [ARGUMENT]...: runs a program as on a kernel that lacks a system call (ENOSYS), which is named
 * as in syscalls(2). 99: that could not be done.
 */
#include <errno.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    const int call = argc > 2 ? seccomp_syscall_resolve_name(argv[1]) : __NR_SCMP_ERROR;
    if (filter == NULL || call == __NR_SCMP_ERROR || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), call, 0) != 0 || seccomp_load(filter) != 0)
        return 99;
    seccomp_release(filter);
    (void)execv(argv[2], argv + 2);
    return 99;
}
