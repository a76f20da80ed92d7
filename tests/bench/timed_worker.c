/*
 * timed_worker - to be loaded before a daemon (LD_PRELOAD): its workers take TIMED_MS milliseconds for each plan, in which they
 * sleep, and give the results that lie in the folder TIMED_RESULTS. What is left to see is what the daemon and its store do.
 *
 * A worker never reaches its own main(): it serves its pipe from here (server/worker/worker.h says how).
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RESULTS    4
#define MOST_BYTES (4 << 20)

static const char *const names[RESULTS] = {"annotated.splice", "plan.txt", "plan.sheet", "plan.json"};
static char *bytes[RESULTS];
static ssize_t sizes[RESULTS];
static int files[64];
static unsigned file_count;

static bool is_worker(void)
{
    char words[4096] = "";
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, words, sizeof words - 1) : 0;
    if (fd >= 0)
        (void)close(fd);
    return got > 0 && strcmp(words + strlen(words) + 1, "--worker") == 0;
}

static void load_results(const char *folder)
{
    for (int i = 0; i < RESULTS; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        bytes[i] = malloc(MOST_BYTES);
        sizes[i] = fd >= 0 && bytes[i] != NULL ? read(fd, bytes[i], MOST_BYTES) : 0;
        if (fd >= 0)
            (void)close(fd);
    }
}

static void take_files(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        const unsigned count = (unsigned)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (file_count + count <= sizeof files / sizeof files[0]) {
            memcpy(files + file_count, CMSG_DATA(part), count * sizeof(int));
            file_count += count;
        }
    }
}

/* The next line, without the zeros that came with descriptors; false at the end. */
static bool read_line(char *line, size_t room)
{
    size_t size = 0;
    for (;;) {
        char byte = '\0';
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof files)];
        } control;
        struct iovec vector = {&byte, 1};
        struct msghdr message = {
            .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        if (recvmsg(STDIN_FILENO, &message, 0) != 1)
            return false;
        take_files(&message);
        if (byte == '\n')
            break;
        if (byte != '\0' && size + 1 < room)
            line[size++] = byte;
    }
    line[size] = '\0';
    return true;
}

/* Those for writing are the results, in their order. */
static void write_results(void)
{
    int at = 0;
    for (unsigned i = 0; i < file_count; i++) {
        if ((fcntl(files[i], F_GETFL) & O_ACCMODE) == O_WRONLY && at < RESULTS) {
            (void)!write(files[i], bytes[at], (size_t)sizes[at]);
            at++;
        }
        (void)close(files[i]);
    }
    file_count = 0;
}

static _Noreturn void serve(long milliseconds)
{
    static char line[1 << 20];
    (void)dprintf(STDOUT_FILENO, "{\"event\":\"ready\"}\n");
    while (read_line(line, sizeof line)) {
        const char *job = strstr(line, "\"job\":");
        const char *id = job != NULL ? strchr(job + 6, '"') : NULL;
        const int length = id != NULL ? (int)strcspn(id + 1, "\"") : 0;
        if (length == 0)
            _exit(1);
        (void)dprintf(STDOUT_FILENO, "{\"job\":\"%.*s\",\"event\":\"started\"}\n", length, id + 1);
        (void)nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
        write_results();
        (void)dprintf(STDOUT_FILENO, "{\"job\":\"%.*s\",\"event\":\"done\",\"stopped\":false}\n", length, id + 1);
    }
    _exit(0);
}

__attribute__((constructor)) static void begin(void)
{
    const char *milliseconds = getenv("TIMED_MS"), *folder = getenv("TIMED_RESULTS");
    if (milliseconds == NULL || folder == NULL || !is_worker())
        return;
    load_results(folder);
    serve(strtol(milliseconds, NULL, 10));
}
