#include "worker/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "observe/log.h"
#include "server_limits.h"
#include "util/text.h"
#include "worker/worker.h"

#define MESSAGE_FILES 253u /* SCM_MAX_FD: what one message can carry */

struct process {
    struct process_options *options;
    void *owner;
    uv_process_t handle;
    uv_pipe_t input, output, errors; /* of the child */
    unsigned open_handles;
    const char *reason;  /* why it is ending; NULL: it is not */
    struct sp_buf line;  /* of its output, not complete yet */
    struct sp_buf words; /* what it wrote to standard error since it took the job */
    size_t logged;       /* how much of that is in the log */
};

struct sent_line {
    uv_write_t request;
    size_t size;
    char bytes[];
};

void process_kill(struct process *process, const char *reason)
{
    if (process->reason != NULL)
        return;
    process->reason = reason;
    (void)uv_process_kill(&process->handle, SIGKILL);
}

bool process_is_ending(const struct process *process)
{
    return process->reason != NULL;
}

int process_pid(const struct process *process)
{
    return process->handle.pid;
}

const char *process_words(const struct process *process)
{
    return process->words.data != NULL ? process->words.data : "";
}

/* ---- standard error ---- */

/* Complete lines go to the log; at the end of the process the rest too. */
static void log_words(struct process *process, bool is_end)
{
    const char *end;
    char text[1024];
    while (process->logged < process->words.size) {
        const char *from = process->words.data + process->logged;
        size_t left = process->words.size - process->logged;
        end = memchr(from, '\n', left);
        if (end == NULL && !is_end)
            return;
        size_t length = end != NULL ? (size_t)(end - from) : left;
        process->logged += end != NULL ? length + 1 : length;
        (void)snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), from);
        text_clean(text);
        LOG(LOG_WARNING, "worker wrote", log_i("pid", process->handle.pid), log_s("text", text));
    }
}

static void take_words(struct process *process, const char *bytes, size_t size)
{
    size_t room = SPD_MAX_WORKER_WORDS - process->words.size;
    sp_buf_append(&process->words, bytes, size < room ? size : room);
    if (!sp_buf_failed(&process->words))
        log_words(process, false);
}

static void errors_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    if (count < 0)
        (void)uv_read_stop(stream);
    else
        take_words(stream->data, buf->base, (size_t)count);
}

/* What a process wrote before it ended is still in the pipe. */
static void take_last_words(struct process *process)
{
    char bytes[4096];
    uv_os_fd_t fd;
    ssize_t got = 0;
    if (uv_fileno((uv_handle_t *)&process->errors, &fd) != 0)
        return;
    for (size_t taken = 0; taken < SPD_MAX_WORKER_WORDS && (got = read(fd, bytes, sizeof bytes)) > 0;
         taken += (size_t)got)
        take_words(process, bytes, (size_t)got);
    log_words(process, true);
}

static void forget_words(struct process *process)
{
    sp_buf_clear(&process->words);
    process->logged = 0;
}

/* ---- the end of a process ---- */

static void handle_closed(uv_handle_t *handle)
{
    struct process *process = handle->data;
    if (--process->open_handles > 0)
        return;
    sp_buf_release(&process->line);
    sp_buf_release(&process->words);
    free(process);
}

static void close_handles(struct process *process)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&process->handle, (uv_handle_t *)&process->input,
                              (uv_handle_t *)&process->output, (uv_handle_t *)&process->errors};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        uv_close(handles[i], handle_closed);
}

static void process_ended(uv_process_t *handle, int64_t status, int signal_number)
{
    struct process *process = handle->data;
    take_last_words(process);
    close_handles(process);
    process->options->callbacks.ended(process->owner, process, process->reason, status, signal_number);
}

/* ---- what it says ---- */

/* The first line of every worker. */
static bool is_ready(const json_t *message)
{
    const char *event = json_string_value(json_object_get(message, "event"));
    return event != NULL && strcmp(event, "ready") == 0;
}

static void take_line(struct process *process)
{
    json_t *message = process->line.size > 0 ? json_loadb(process->line.data, process->line.size, 0, NULL) : NULL;
    sp_buf_clear(&process->line);
    if (message == NULL) {
        LOG(LOG_ERROR, "worker wrote no JSON", log_i("pid", process->handle.pid));
        process_kill(process, "crashed");
    } else if (!is_ready(message)) {
        process->options->callbacks.message(process->owner, process, message);
    }
    json_decref(message);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct process *process = handle->data;
    *buf = uv_buf_init(process->options->read_buffer, sizeof process->options->read_buffer);
}

static void output_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct process *process = stream->data;
    if (count < 0) {
        (void)uv_read_stop(stream);
        return; /* the end of the process is reported by process_ended() */
    }
    const char *at = buf->base, *end = buf->base + count;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        sp_buf_append(&process->line, at, (size_t)(stop - at));
        if (sp_buf_failed(&process->line)) {
            process_kill(process, "crashed");
            return;
        }
        if (newline != NULL)
            take_line(process);
        at = stop + 1;
    }
}

/* ---- the start of a process ---- */

static int spawn(struct process *process)
{
    const struct process_options *options = process->options;
    char parent[32], memory[32], name[] = "shardpland", option[] = "--worker";
    (void)snprintf(parent, sizeof parent, "%ld", (long)getpid());
    (void)snprintf(memory, sizeof memory, "%llu", (unsigned long long)options->job_memory);
    char *arguments[] = {name, option, parent, memory, NULL};
    uv_stdio_container_t stdio[3] = {
        {.flags = (uv_stdio_flags)(UV_CREATE_PIPE | UV_READABLE_PIPE), .data.stream = (uv_stream_t *)&process->input},
        {.flags = (uv_stdio_flags)(UV_CREATE_PIPE | UV_WRITABLE_PIPE), .data.stream = (uv_stream_t *)&process->output},
        {.flags = (uv_stdio_flags)(UV_CREATE_PIPE | UV_WRITABLE_PIPE), .data.stream = (uv_stream_t *)&process->errors},
    };
    return uv_spawn(
        options->loop, &process->handle,
        &(uv_process_options_t){
            .file = options->program, .args = arguments, .stdio = stdio, .stdio_count = 3, .exit_cb = process_ended});
}

struct process *process_start(struct process_options *options, void *owner)
{
    struct process *process = calloc(1, sizeof *process);
    if (process == NULL) {
        LOG(LOG_ERROR, "worker not started", log_s("error", uv_strerror(UV_ENOMEM)));
        return NULL;
    }
    process->options = options;
    process->owner = owner;
    process->open_handles = 4;
    sp_buf_init(&process->line, SPD_MAX_LINE_BYTES);
    sp_buf_init(&process->words, SPD_MAX_WORKER_WORDS + 1);
    (void)uv_pipe_init(options->loop, &process->input, 0);
    (void)uv_pipe_init(options->loop, &process->output, 0);
    (void)uv_pipe_init(options->loop, &process->errors, 0);
    process->input.data = process->output.data = process->errors.data = process->handle.data = process;
    const int error = spawn(process);
    if (error != 0) {
        LOG(LOG_ERROR, "worker not started", log_s("error", uv_strerror(error)));
        close_handles(process);
        return NULL;
    }
    if (uv_read_start((uv_stream_t *)&process->output, give_buffer, output_read) != 0 ||
        uv_read_start((uv_stream_t *)&process->errors, give_buffer, errors_read) != 0)
        process_kill(process, "crashed");
    return process;
}

/* ---- jobs ---- */

static void line_sent(uv_write_t *request, int status)
{
    struct sent_line *sent = request->data;
    /* A worker that died before it took the line is noticed by process_ended(). */
    (void)status;
    free(sent);
}

/* The descriptors, each message with a byte of zero (worker.h). What an earlier job did not read is in the way: only a
   worker that was taken over leaves something. */
static bool send_files(struct process *process, const struct job_parcel *parcel)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(MESSAGE_FILES * sizeof(int))];
    } control;
    char zero = '\0';
    struct iovec vector = {&zero, 1};
    uv_os_fd_t fd;
    if (uv_stream_get_write_queue_size((uv_stream_t *)&process->input) > 0 ||
        uv_fileno((uv_handle_t *)&process->input, &fd) != 0)
        return false;
    for (unsigned sent = 0, count; sent < parcel->file_count; sent += count) {
        count = parcel->file_count - sent < MESSAGE_FILES ? parcel->file_count - sent : MESSAGE_FILES;
        memset(&control, 0, sizeof control);
        struct msghdr message = {.msg_iov = &vector,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = CMSG_SPACE(count * sizeof(int))};
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(part), parcel->files + sent, count * sizeof(int));
        if (TEMP_FAILURE_RETRY(sendmsg(fd, &message, MSG_NOSIGNAL)) != 1)
            return false;
    }
    return true;
}

bool process_send(struct process *process, const struct job_parcel *parcel)
{
    size_t size = strlen(parcel->line);
    struct sent_line *sent = malloc(sizeof *sent + size + 1 + parcel->body_size);
    if (sent == NULL)
        return false;
    memcpy(sent->bytes, parcel->line, size);
    sent->bytes[size++] = '\n';
    if (parcel->body_size > 0)
        memcpy(sent->bytes + size, parcel->body, parcel->body_size);
    sent->request.data = sent;
    uv_buf_t buf = uv_buf_init(sent->bytes, (unsigned)(size + parcel->body_size));
    forget_words(process);
    if (!send_files(process, parcel) ||
        uv_write(&sent->request, (uv_stream_t *)&process->input, &buf, 1, line_sent) != 0) {
        free(sent);
        process_kill(process, "crashed");
    }
    return true;
}

void process_ask_to_stop(struct process *process)
{
    (void)uv_process_kill(&process->handle, WORKER_STOP_SIGNAL);
}

/* The worker itself may open no file that tells. 0 when nothing does. */
uint64_t process_resident_bytes(const struct process *process)
{
    char path[64], text[128] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/statm", process->handle.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *second = got > 0 ? strchr(text, ' ') : NULL;
    return second != NULL ? strtoull(second + 1, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}
