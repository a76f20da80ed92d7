/*
 * sandbox_probe DATA TRY: locks itself up as a worker does (server/worker/sandbox.h; DATA/in may be read, DATA/out
 * changed) and then tries something. Exit status 0: it could; 1: it was refused, and the error's name is printed; or
 * what the sandbox does not forgive ends it with SIGSYS. 99: the sandbox could not be entered or lacks a wall.
 *
 * Compiled without the sanitizers, as the product is.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/last_words.h"
#include "worker/sandbox.h"

#define MEMORY_BYTES (128u << 20)

static bool try_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) >= 0;
}

static bool try_unix_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM, 0) >= 0;
}

static bool try_execve(void)
{
    char name[] = "/bin/true", *arguments[] = {name, NULL}, *environment[] = {NULL};
    return execve(name, arguments, environment) == 0;
}

static bool try_fork(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child > 0;
}

static void *nothing(void *argument)
{
    return argument;
}

static bool try_thread(void)
{
    pthread_t thread;
    errno = pthread_create(&thread, NULL, nothing, NULL);
    return errno == 0;
}

static bool try_ptrace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

static bool try_mount(void)
{
    return mount("none", "/mnt", "tmpfs", 0, NULL) == 0;
}

static bool try_kill_other(void)
{
    return kill(1, 0) == 0;
}

static bool try_kill_all(void)
{
    return syscall(SYS_kill, -1, 0) == 0;
}

static bool try_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static bool try_make_code(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0;
}

static bool try_limits(void)
{
    return setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0;
}

/* A limit of memory that can be raised is none: whoever took the process over raises it first. */
static bool try_memory(void)
{
    (void)setrlimit(RLIMIT_DATA, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    (void)setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    return mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static bool try_made_writable(void)
{
    void *pages = mmap(NULL, MEMORY_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages != MAP_FAILED && mprotect(pages, MEMORY_BYTES, PROT_READ | PROT_WRITE) == 0;
}

static bool try_shared_memory(void)
{
    return mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static bool try_memory_file(void)
{
    return memfd_create("x", 0) >= 0;
}

static bool try_bpf(void)
{
    return syscall(SYS_bpf, 0, NULL, 0) >= 0;
}

static bool opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    return fd >= 0 && close(fd) == 0;
}

static bool try_passwd(void)
{
    return opens("/etc/passwd", O_RDONLY);
}

static bool try_environment(void)
{
    return opens("/proc/self/environ", O_RDONLY);
}

static bool try_root(void)
{
    return opens("/", O_RDONLY | O_DIRECTORY);
}

static bool try_above(void)
{
    return opens("in/../secret", O_RDONLY);
}

static bool try_link(void)
{
    return opens("in/link", O_RDONLY); /* the test made one to the secret */
}

static bool try_write_outside(void)
{
    return opens("made", O_WRONLY | O_CREAT);
}

static bool try_write_input(void)
{
    return opens("in/made", O_WRONLY | O_CREAT);
}

static bool try_change_input(void)
{
    return opens("in/file", O_WRONLY);
}

static bool try_remove_input(void)
{
    return unlink("in/file") == 0;
}

static bool try_move_out(void)
{
    return opens("out/made", O_WRONLY | O_CREAT) && rename("out/made", "in/made") == 0;
}

static bool try_descriptors(void)
{
    for (int i = 0; i < 20; i++) {
        if (open("in/file", O_RDONLY | O_CLOEXEC) < 0) /* kept open on purpose */
            return false;
    }
    return true;
}

static bool try_inherited(void)
{
    return write(9, "x", 1) == 1; /* the test left one open there */
}

static bool try_large_file(void)
{
    static char block[64 * 1024];
    int fd = open("out/large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (int i = 0; fd >= 0 && i < 32; i++) {
        if (write(fd, block, sizeof block) < 0)
            return false;
    }
    return fd >= 0;
}

/* What workers do must go on. */
static bool try_work(void)
{
    char *large = malloc(64u << 20), line[16] = "";
    FILE *file = fopen("in/file", "re");
    bool ok = large != NULL && file != NULL && fgets(line, sizeof line, file) != NULL && strcmp(line, "content\n") == 0;
    ok = ok && mkdir("out/folder", 0700) == 0 && opens("out/folder/a", O_WRONLY | O_CREAT | O_TRUNC) &&
         rename("out/folder/a", "out/folder/b") == 0 && unlink("out/folder/b") == 0;
    int folder = open("out/folder", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok = ok && folder >= 0 && fsync(folder) == 0 && close(folder) == 0;
    if (large != NULL)
        memset(large, 1, 64u << 20);
    free(large);
    return ok && fclose(file) == 0;
}

/* Libraries ask so and go on without an answer. */
static bool try_harmless(void)
{
    char text[64];
    return isatty(STDOUT_FILENO) != 0 || readlink("/proc/self/exe", text, sizeof text) >= 0 || getcwd(text, 64) != NULL;
}

static bool try_abort(void)
{
    abort();
}

static bool try_fault(void)
{
    static char *volatile nowhere;
    return *nowhere == 'x';
}

static const struct {
    const char *name;
    bool (*run)(void);
} tries[] = {
    {"socket", try_socket},
    {"unix_socket", try_unix_socket},
    {"execve", try_execve},
    {"fork", try_fork},
    {"thread", try_thread},
    {"ptrace", try_ptrace},
    {"mount", try_mount},
    {"kill_other", try_kill_other},
    {"kill_all", try_kill_all},
    {"code", try_code},
    {"make_code", try_make_code},
    {"limits", try_limits},
    {"memory", try_memory},
    {"made_writable", try_made_writable},
    {"shared_memory", try_shared_memory},
    {"memory_file", try_memory_file},
    {"bpf", try_bpf},
    {"passwd", try_passwd},
    {"environment", try_environment},
    {"root", try_root},
    {"above", try_above},
    {"link", try_link},
    {"write_outside", try_write_outside},
    {"write_input", try_write_input},
    {"change_input", try_change_input},
    {"remove_input", try_remove_input},
    {"move_out", try_move_out},
    {"descriptors", try_descriptors},
    {"inherited", try_inherited},
    {"large_file", try_large_file},
    {"harmless", try_harmless},
    {"work", try_work},
    {"abort", try_abort},
    {"fault", try_fault},
};

static int report(bool could)
{
    if (!could)
        (void)printf("%s\n", strerrorname_np(errno));
    (void)fflush(stdout);
    return could ? 0 : 1;
}

int main(int argc, char **argv)
{
    char walls[SANDBOX_TEXT_SIZE];
    struct sandbox sandbox = {.reads = {"in"}, .writes = {"out"}, .file_bytes = 1u << 20, .memory_bytes = MEMORY_BYTES};
    struct sandbox_walls up;
    if (argc != 3 || chdir(argv[1]) != 0)
        return 99;
    (void)signal(SIGXFSZ, SIG_IGN);
    last_words_set_up();
    if (!sandbox_enter(&sandbox, &up))
        return 99;
    sandbox_describe(&up, true, walls);
    if (strcmp(argv[2], "walls") == 0)
        return puts(walls) < 0;
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        if (strcmp(tries[i].name, argv[2]) == 0)
            return report(tries[i].run());
    }
    return 99;
}
