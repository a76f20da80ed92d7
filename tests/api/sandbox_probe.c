/*
 * sandbox_probe DATA TRY: locks itself up as a worker does (server/worker/sandbox.h) and then tries something in the
 * folder. What a job is handed comes over a socket on standard input, as it does to a worker: "in/file" for reading and
 * "out/file" for writing. Exit status 0: it could; 1: it was refused, and the error's name is printed; or
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

/* The descriptors that came over the socket with the last message. */
static int handed[8];
static unsigned handed_count;

static bool receive(void)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof handed)];
    } control;
    char byte;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(STDIN_FILENO, &message, MSG_CMSG_CLOEXEC) != 1)
        return false;
    const struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    handed_count = part != NULL ? (unsigned)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;
    if (part != NULL)
        memcpy(handed, CMSG_DATA(part), handed_count * sizeof(int));
    return true;
}

/* A message brings those that have room: after the two of the first one there is none. */
static bool try_descriptors(void)
{
    errno = EPROTO;
    if (!receive() || handed_count != 2)
        return false;
    errno = EMFILE;
    return receive() && handed_count > 0;
}

/* The model is for reading, whatever is tried. */
static bool try_change_model(void)
{
    return receive() && write(handed[0], "x", 1) == 1;
}

static bool try_read_result(void)
{
    char byte;
    return receive() && read(handed[1], &byte, 1) == 1;
}

/* What is handed cannot be opened once more for something else. */
static bool try_open_again(void)
{
    char path[64];
    (void)(receive() && snprintf(path, sizeof path, "/proc/self/fd/%d", handed[0]));
    return opens(path, O_RDWR);
}

static bool try_look_at_names(void)
{
    struct stat info;
    return stat("in/file", &info) == 0;
}

static bool try_receive_elsewhere(void)
{
    struct msghdr message = {0};
    return recvmsg(STDOUT_FILENO, &message, 0) >= 0;
}

static bool try_inherited(void)
{
    return write(9, "x", 1) == 1; /* the test left one open there */
}

static bool try_large_file(void)
{
    static char block[64 * 1024];
    bool ok = receive() && handed_count == 2;
    for (int i = 0; ok && i < 32; i++)
        ok = write(handed[1], block, sizeof block) >= 0;
    return ok;
}

/* What workers do must go on. */
static bool try_work(void)
{
    char *large = malloc(64u << 20), line[16] = "";
    bool ok = large != NULL && receive() && handed_count == 2;
    const off_t size = ok ? lseek(handed[0], 0, SEEK_END) : 0;
    const char *bytes = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, handed[0], 0) : MAP_FAILED;
    ok = ok && bytes != MAP_FAILED && memcmp(bytes, "content\n", 8) == 0 && lseek(handed[0], 0, SEEK_SET) == 0 &&
         read(handed[0], line, sizeof line) == 8 && write(handed[1], "result\n", 7) == 7 && fsync(handed[1]) == 0 &&
         close(handed[1]) == 0;
    if (large != NULL)
        memset(large, 1, 64u << 20);
    free(large);
    return ok;
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
    {"change_model", try_change_model},
    {"read_result", try_read_result},
    {"open_again", try_open_again},
    {"look_at_names", try_look_at_names},
    {"receive_elsewhere", try_receive_elsewhere},
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
    const struct sandbox sandbox = {.file_bytes = 1u << 20, .memory_bytes = MEMORY_BYTES, .descriptors = 5};
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
