#include "worker/pool.h"

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

struct worker {
    struct pool *pool;
    uv_process_t process;
    uv_pipe_t input, output, errors; /* of the child */
    uv_timer_t respawn;
    bool alive, retired;
    unsigned open_handles;
    void *job;
    const char *kill_reason;
    struct sp_buf line;  /* of its output, not complete yet */
    struct sp_buf words; /* what it wrote to standard error since it took the job */
    size_t logged;       /* how much of that is in the log */
};

struct pool {
    uv_loop_t *loop;
    const char *program;
    uint64_t job_memory;
    struct pool_callbacks callbacks;
    bool stopping;
    unsigned size;
    char read_buffer[64 * 1024];
    struct worker workers[];
};

struct sent_line {
    uv_write_t request;
    size_t size;
    char bytes[];
};

static void spawn(struct worker *worker);

static void kill_worker(struct worker *worker, const char *reason)
{
    if (!worker->alive)
        return;
    if (worker->kill_reason == NULL)
        worker->kill_reason = reason;
    (void)uv_process_kill(&worker->process, SIGKILL);
}

/* ---- the end of a process ---- */

static void respawn_due(uv_timer_t *timer)
{
    struct worker *worker = timer->data;
    if (!worker->pool->stopping)
        spawn(worker);
}

/* The process and both pipes are closed: the slot may be used again. */
static void handle_closed(uv_handle_t *handle)
{
    struct worker *worker = handle->data;
    if (--worker->open_handles > 0 || worker->pool->stopping)
        return;
    bool quickly = worker->retired || (worker->kill_reason != NULL);
    (void)uv_timer_start(&worker->respawn, respawn_due, quickly ? 0 : SPD_WORKER_RESPAWN_MS, 0);
}

static void close_handles(struct worker *worker)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&worker->process, (uv_handle_t *)&worker->input,
                              (uv_handle_t *)&worker->output, (uv_handle_t *)&worker->errors};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        if (!uv_is_closing(handles[i]))
            uv_close(handles[i], handle_closed);
    }
}

/* ---- standard error ---- */

/* Complete lines go to the log; at the end of the process the rest too. */
static void log_words(struct worker *worker, bool is_end)
{
    const char *end;
    char text[1024];
    while (worker->logged < worker->words.size) {
        const char *from = worker->words.data + worker->logged;
        size_t left = worker->words.size - worker->logged;
        end = memchr(from, '\n', left);
        if (end == NULL && !is_end)
            return;
        size_t length = end != NULL ? (size_t)(end - from) : left;
        worker->logged += end != NULL ? length + 1 : length;
        (void)snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), from);
        text_clean(text);
        LOG(LOG_WARNING, "worker wrote", log_i("pid", worker->process.pid), log_s("text", text));
    }
}

static void take_words(struct worker *worker, const char *bytes, size_t size)
{
    size_t room = SPD_MAX_WORKER_WORDS - worker->words.size;
    sp_buf_append(&worker->words, bytes, size < room ? size : room);
    if (!sp_buf_failed(&worker->words))
        log_words(worker, false);
}

static void errors_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    if (count < 0)
        (void)uv_read_stop(stream);
    else
        take_words(stream->data, buf->base, (size_t)count);
}

/* What a process wrote before it ended is still in the pipe. */
static void take_last_words(struct worker *worker)
{
    char bytes[4096];
    uv_os_fd_t fd;
    ssize_t got = 0;
    if (uv_fileno((uv_handle_t *)&worker->errors, &fd) != 0)
        return;
    for (size_t taken = 0; taken < SPD_MAX_WORKER_WORDS && (got = read(fd, bytes, sizeof bytes)) > 0;
         taken += (size_t)got)
        take_words(worker, bytes, (size_t)got);
    log_words(worker, true);
}

static void forget_words(struct worker *worker)
{
    sp_buf_clear(&worker->words);
    worker->logged = 0;
}

/* ---- the end of a process ---- */

static void process_ended(uv_process_t *process, int64_t status, int signal_number)
{
    struct worker *worker = process->data;
    struct pool *pool = worker->pool;
    void *job = worker->job;
    const char *reason = worker->kill_reason != NULL ? worker->kill_reason : worker->retired ? "recycled" : "crashed";
    worker->alive = false;
    worker->job = NULL;
    take_last_words(worker);
    close_handles(worker);
    if (!pool->stopping || job != NULL)
        LOG(worker->kill_reason != NULL || worker->retired ? LOG_INFO : LOG_WARNING, "worker ended",
            log_s("reason", reason), log_i("pid", process->pid), log_i("signal", signal_number),
            log_i("status", status));
    pool->callbacks.ended(pool->callbacks.context, reason);
    if (job != NULL)
        pool->callbacks.gone(pool->callbacks.context, job, reason, signal_number,
                             worker->words.data != NULL ? worker->words.data : "");
}

/* ---- what it says ---- */

/* The first line of every worker. */
static bool is_ready(const json_t *message)
{
    const char *event = json_string_value(json_object_get(message, "event"));
    return event != NULL && strcmp(event, "ready") == 0;
}

static void take_line(struct worker *worker)
{
    json_t *message = worker->line.size > 0 ? json_loadb(worker->line.data, worker->line.size, 0, NULL) : NULL;
    sp_buf_clear(&worker->line);
    if (is_ready(message)) {
        json_decref(message);
        return;
    }
    if (message == NULL || worker->job == NULL) {
        json_decref(message);
        LOG(LOG_ERROR, "worker spoke out of turn", log_i("pid", worker->process.pid));
        kill_worker(worker, "crashed");
        return;
    }
    worker->pool->callbacks.message(worker->pool->callbacks.context, worker->job, message);
    json_decref(message);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct worker *worker = handle->data;
    *buf = uv_buf_init(worker->pool->read_buffer, sizeof worker->pool->read_buffer);
}

static void output_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct worker *worker = stream->data;
    if (count < 0) {
        (void)uv_read_stop(stream);
        return; /* the end of the process is reported by process_ended() */
    }
    const char *at = buf->base, *end = buf->base + count;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        sp_buf_append(&worker->line, at, (size_t)(stop - at));
        if (sp_buf_failed(&worker->line)) {
            kill_worker(worker, "crashed");
            return;
        }
        if (newline != NULL)
            take_line(worker);
        at = stop + 1;
    }
}

/* ---- the start of a process ---- */

static void spawn(struct worker *worker)
{
    struct pool *pool = worker->pool;
    char parent[32], memory[32], name[] = "shardpland", option[] = "--worker";
    (void)snprintf(parent, sizeof parent, "%ld", (long)getpid());
    (void)snprintf(memory, sizeof memory, "%llu", (unsigned long long)pool->job_memory);
    char *arguments[] = {name, option, parent, memory, NULL};
    uv_stdio_container_t stdio[3] = {
        {.flags = (uv_stdio_flags)(UV_CREATE_PIPE | UV_READABLE_PIPE), .data.stream = (uv_stream_t *)&worker->input},
        {.flags = (uv_stdio_flags)(UV_CREATE_PIPE | UV_WRITABLE_PIPE), .data.stream = (uv_stream_t *)&worker->output},
        {.flags = (uv_stdio_flags)(UV_CREATE_PIPE | UV_WRITABLE_PIPE), .data.stream = (uv_stream_t *)&worker->errors},
    };
    uv_process_options_t options = {
        .file = pool->program, .args = arguments, .stdio = stdio, .stdio_count = 3, .exit_cb = process_ended};
    worker->kill_reason = NULL;
    worker->retired = false;
    worker->open_handles = 4;
    sp_buf_clear(&worker->line);
    forget_words(worker);
    (void)uv_pipe_init(pool->loop, &worker->input, 0);
    (void)uv_pipe_init(pool->loop, &worker->output, 0);
    (void)uv_pipe_init(pool->loop, &worker->errors, 0);
    worker->input.data = worker->output.data = worker->errors.data = worker->process.data = worker;
    int error = uv_spawn(pool->loop, &worker->process, &options);
    if (error != 0) {
        LOG(LOG_ERROR, "worker not started", log_s("error", uv_strerror(error)));
        close_handles(worker);
        return;
    }
    worker->alive = true;
    if (uv_read_start((uv_stream_t *)&worker->output, give_buffer, output_read) != 0 ||
        uv_read_start((uv_stream_t *)&worker->errors, give_buffer, errors_read) != 0)
        kill_worker(worker, "crashed");
    else
        pool->callbacks.idle(pool->callbacks.context);
}

struct pool *pool_create(uv_loop_t *loop, const char *program, uint64_t job_memory, unsigned size,
                         const struct pool_callbacks *callbacks)
{
    struct pool *pool = calloc(1, sizeof *pool + size * sizeof pool->workers[0]);
    if (pool == NULL)
        return NULL;
    pool->loop = loop;
    pool->program = program;
    pool->job_memory = job_memory;
    pool->callbacks = *callbacks;
    pool->size = size;
    for (unsigned i = 0; i < size; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].respawn.data = &pool->workers[i];
        sp_buf_init(&pool->workers[i].line, SPD_MAX_LINE_BYTES);
        sp_buf_init(&pool->workers[i].words, SPD_MAX_WORKER_WORDS + 1);
        (void)uv_timer_init(loop, &pool->workers[i].respawn);
    }
    for (unsigned i = 0; i < size; i++)
        (void)uv_timer_start(&pool->workers[i].respawn, respawn_due, 0, 0);
    return pool;
}

void pool_stop(struct pool *pool)
{
    pool->stopping = true;
    for (unsigned i = 0; i < pool->size; i++) {
        kill_worker(&pool->workers[i], "stopped");
        if (!uv_is_closing((uv_handle_t *)&pool->workers[i].respawn))
            uv_close((uv_handle_t *)&pool->workers[i].respawn, NULL);
    }
}

void pool_destroy(struct pool *pool)
{
    if (pool == NULL)
        return;
    for (unsigned i = 0; i < pool->size; i++) {
        sp_buf_release(&pool->workers[i].line);
        sp_buf_release(&pool->workers[i].words);
    }
    free(pool);
}

/* ---- jobs ---- */

static struct worker *worker_of(struct pool *pool, const void *job)
{
    for (unsigned i = 0; i < pool->size; i++) {
        if (pool->workers[i].alive && pool->workers[i].job == job)
            return &pool->workers[i];
    }
    return NULL;
}

static bool is_idle(const struct worker *worker)
{
    return worker->alive && worker->job == NULL && !worker->retired && worker->kill_reason == NULL;
}

struct worker *pool_idle(struct pool *pool)
{
    for (unsigned i = 0; i < pool->size && !pool->stopping; i++) {
        if (is_idle(&pool->workers[i]))
            return &pool->workers[i];
    }
    return NULL;
}

unsigned pool_idle_count(const struct pool *pool)
{
    unsigned count = 0;
    for (unsigned i = 0; i < pool->size && !pool->stopping; i++)
        count += is_idle(&pool->workers[i]);
    return count;
}

static void line_sent(uv_write_t *request, int status)
{
    struct sent_line *sent = request->data;
    /* A worker that died before it took the line is noticed by process_ended(). */
    (void)status;
    free(sent);
}

/* The descriptors, each message with a byte of zero (worker.h). What an earlier job did not read is in the way: only a
   worker that was taken over leaves something. */
static bool send_files(struct worker *worker, const struct job_parcel *parcel)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(MESSAGE_FILES * sizeof(int))];
    } control;
    char zero = '\0';
    struct iovec vector = {&zero, 1};
    uv_os_fd_t fd;
    if (uv_stream_get_write_queue_size((uv_stream_t *)&worker->input) > 0 ||
        uv_fileno((uv_handle_t *)&worker->input, &fd) != 0)
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

bool pool_assign(struct worker *worker, void *job, const struct job_parcel *parcel)
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
    worker->job = job;
    forget_words(worker);
    if (!send_files(worker, parcel) ||
        uv_write(&sent->request, (uv_stream_t *)&worker->input, &buf, 1, line_sent) != 0) {
        free(sent);
        kill_worker(worker, "crashed");
    }
    return true;
}

/* The worker itself may open no file that tells. 0 when nothing does. */
static uint64_t resident_bytes(const struct worker *worker)
{
    char path[64], text[128] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/statm", worker->process.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *second = got > 0 ? strchr(text, ' ') : NULL;
    return second != NULL ? strtoull(second + 1, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void retire(struct worker *worker)
{
    worker->retired = true;
    (void)uv_process_kill(&worker->process, SIGKILL);
}

void pool_release(struct pool *pool, void *job)
{
    struct worker *worker = worker_of(pool, job);
    if (worker == NULL)
        return;
    worker->job = NULL;
    if (resident_bytes(worker) > SPD_WORKER_RECYCLE_BYTES)
        retire(worker);
}

void pool_kill(struct pool *pool, void *job, const char *reason)
{
    struct worker *worker = worker_of(pool, job);
    if (worker != NULL)
        kill_worker(worker, reason);
}

void pool_ask_to_stop(struct pool *pool, void *job)
{
    struct worker *worker = worker_of(pool, job);
    if (worker != NULL)
        (void)uv_process_kill(&worker->process, WORKER_STOP_SIGNAL);
}

unsigned pool_busy(const struct pool *pool)
{
    unsigned count = 0;
    for (unsigned i = 0; i < pool->size; i++)
        count += pool->workers[i].alive && pool->workers[i].job != NULL;
    return count;
}

unsigned pool_alive(const struct pool *pool)
{
    unsigned count = 0;
    for (unsigned i = 0; i < pool->size; i++)
        count += pool->workers[i].alive;
    return count;
}
