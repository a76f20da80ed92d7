#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/shortage.h"
#include "faults/faults.h"
#include "server.h"
#include "server_limits.h"
#include "util/json_memory.h"
#include "worker/internal.h"
#include "worker/last_words.h"
#include "worker/sandbox.h"

/* Phases that are over in a moment are reported too, because their times are measured. The search changes between two
   of its own all the time. */
static bool is_new_phase(const struct work *work, const char *phase)
{
    bool searches = strcmp(phase, "search") == 0 || strcmp(phase, "stages") == 0;
    return work->phase == NULL || (strcmp(phase, work->phase) != 0 && !searches) ||
           (searches && strcmp(work->phase, "search") != 0 && strcmp(work->phase, "stages") != 0);
}

static volatile sig_atomic_t stop_asked; /* WORKER_STOP_SIGNAL came */
static volatile bool is_time_to_stop;    /* that, or the alarm */

static void ask_to_stop(int signal_number)
{
    stop_asked = stop_asked || signal_number == WORKER_STOP_SIGNAL;
    is_time_to_stop = true;
}

/* For what looks at no clock. Without the alarm the job ends all the same, a little later. One of an earlier job may have
   rung. */
static void set_alarm(struct work *work, uint64_t now)
{
    const uint64_t ms = work->deadline_ms > now ? work->deadline_ms - now : 1;
    const struct itimerval timer = {.it_value = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)}};
    (void)setitimer(ITIMER_REAL, &timer, NULL);
    is_time_to_stop = stop_asked != 0;
    work->alarm_ms = work->deadline_ms;
}

/* The library's heartbeat: reports progress and stops the job when its time is over, or when that is asked for. */
static bool tick(void *context, const char *phase, double fraction, double best_seconds, double lower_bound_seconds)
{
    struct work *work = context;
    uint64_t now = server_now_ms();
    if (stop_asked || now > work->deadline_ms) {
        work->timed_out = work->timed_out || !stop_asked;
        work->stopped = true;
        return false;
    }
    if (work->alarm_ms != work->deadline_ms)
        set_alarm(work, now);
    work->best_seconds = best_seconds;
    work->lower_bound_seconds = lower_bound_seconds;
    if (now - work->reported_ms < SPD_PROGRESS_INTERVAL_MS && !is_new_phase(work, phase))
        return true;
    return work_send_progress(work, phase, fraction);
}

static bool lock_up(uint64_t memory, unsigned kept)
{
    const struct sandbox sandbox = {.file_bytes = SPD_MAX_RESULT_BYTES,
                                    .memory_bytes = work_most_memory(memory),
                                    .descriptors = STDERR_FILENO + 1 + SPD_MAX_JOB_FILES,
                                    .kept = kept};
    struct sandbox_walls up;
    const struct sigaction stop = {.sa_handler = ask_to_stop, .sa_flags = SA_RESTART};
    (void)signal(SIGXFSZ, SIG_IGN); /* write() says EFBIG instead */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigaction(WORKER_STOP_SIGNAL, &stop, NULL);
    (void)sigaction(SIGALRM, &stop, NULL);
    last_words_set_up();
    return sandbox_enter(&sandbox, &up);
}

/* ---- the model ---- */

static bool map_model(struct work *work, bool sync, struct problem *problem)
{
    const int fd = work_file(work, "model");
    void *bytes;
    if (sync && fsync(fd) != 0)
        return problem_from_errno(problem, errno, "Storing the model");
    if (!work_map(work, fd, &bytes, &work->size))
        return problem_from_errno(problem, errno, "Mapping the model");
    work->bytes = bytes != NULL ? bytes : "";
    return true;
}

static void unmap_model(struct work *work)
{
    if (work->size > 0)
        (void)munmap((void *)(uintptr_t)work->bytes, work->size);
    work->bytes = NULL;
}

/* ---- errands ---- */

static const struct {
    const char *kind;
    enum sp_status (*answer)(struct work *work, const json_t *request, struct output *output, struct sp_error *err);
} errands[] = {
    {"inspect", work_inspect}, {"check", work_check},     {"infer", work_infer}, {"export", work_export},
    {"convert", work_convert}, {"reshard", work_reshard}, {"sheet", work_index}, {"verify", work_verify},
};

/* A request about a model may be empty; one without a model says everything in its body. */
static enum sp_status load_request(const struct work *work, const char *body, json_t **ret_request,
                                   struct sp_error *err)
{
    json_error_t error;
    if (work->body_size == 0 && work->has_model)
        return SP_OK;
    *ret_request = json_loadb(body, work->body_size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (*ret_request != NULL)
        return SP_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return sp_fail_memory(err);
    return sp_fail(err, SP_ERR_MALFORMED, "MALFORMED_JSON", "The body is not JSON (line %d, column %d): %s.",
                   error.line, error.column, error.text);
}

static enum sp_status answer(struct work *work, const char *body, struct output *output, struct sp_error *err)
{
    json_t *request = NULL;
    size_t i = 0;
    while (i < sizeof errands / sizeof errands[0] && strcmp(errands[i].kind, work->kind) != 0)
        i++;
    if (i == sizeof errands / sizeof errands[0])
        return sp_fail(err, SP_ERR_INTERNAL, "UNKNOWN_ERRAND", "A worker does not know the errand '%.32s'.",
                       work->kind);
    enum sp_status status = load_request(work, body, &request, err);
    if (status == SP_OK)
        status = errands[i].answer(work, request, output, err);
    json_decref(request);
    return status;
}

static void run_errand(struct work *work, const char *body, struct problem *problem)
{
    struct sp_error err = {0};
    struct problem failed = {0};
    struct output *output = malloc(sizeof *output);
    if (output == NULL) {
        (void)problem_no_memory(problem);
        return;
    }
    output_open(output, work_take_file(work, "result"));
    output->is_scratch = !json_is_true(json_object_get(work->line, "sync"));
    enum sp_status status = answer(work, body, output, &err);
    bool closed = output_close(output, status == SP_OK, &failed);
    if (!closed) /* the library may have noticed, and does not know why */
        *problem = failed;
    else if (status != SP_OK)
        work_take_error(work, &err, problem);
    free(output);
}

/* ---- jobs ---- */

static enum work_form form_of(const json_t *line)
{
    const char *form = json_string_value(json_object_get(line, "form"));
    return form == NULL || strcmp(form, "json") == 0 ? WORK_JSON : strcmp(form, "text") == 0 ? WORK_TEXT : WORK_MODEL;
}

/* The files are those that came before the line; they are the work's from now on. */
static bool read_work(const char *text, size_t size, struct job_files *files, struct work *work)
{
    json_int_t memory = 0, seconds = 0, body = 0;
    memset(work, 0, sizeof *work);
    work->files = *files;
    files->count = 0;
    work->bytes = "";
    (void)json_memory_was_short(); /* in an earlier job */
    (void)sp_shortage_noted();
    work->line = json_loadb(text, size, 0, NULL);
    if (work->line == NULL ||
        json_unpack(work->line, "{s:s, s:s, s:s, s:s, s:o, s:I, s:I, s?I}", "job", &work->job, "kind", &work->kind,
                    "sha256", &work->sha256, "name", &work->name, "files", &work->names, "memory", &memory, "seconds",
                    &seconds, "body", &body) != 0 ||
        memory <= 0 || seconds <= 0 || body < 0 || body > SPD_MAX_SHARDING_BODY ||
        json_array_size(work->names) != work->files.count) {
        json_decref(work->line);
        work->line = NULL;
        work_close_files(&work->files);
        return false;
    }
    work->has_model = work_file(work, "model") >= 0;
    work->form = form_of(work->line);
    work->memory = (uint64_t)memory;
    work->seconds = (uint64_t)seconds;
    work->body_size = (size_t)body;
    work->started_ms = server_now_ms();
    work->deadline_ms = work->started_ms + work->seconds * 1000;
    work->limit = "--job-seconds";
    work->watch = (struct sp_watch){.tick = tick, .context = work, .stop = &is_time_to_stop};
    return true;
}

/* Does the job and tells how it went. False when nobody can be told. */
static bool run_work(struct work *work, const char *body, bool *ret_done)
{
    struct problem problem = {0};
    stop_asked = 0; /* before the daemon knows that this job is taken: it asks afterwards */
    is_time_to_stop = false;
    work_send_started(work);
    if (!work->has_model)
        work_limit(work);
    if (!work->has_model || map_model(work, json_is_true(json_object_get(work->line, "sync")), &problem)) {
        if (strcmp(work->kind, "plan") == 0)
            work_plan(work, &problem);
        else
            run_errand(work, body, &problem);
    }
    unmap_model(work);
    work_close_files(&work->files);
    if (json_memory_was_short() || sp_shortage_noted()) { /* what was read or written may lack something */
        problem = (struct problem){0};
        (void)problem_no_memory(&problem);
    }
    (void)malloc_trim(0);
    faults_job_over();
    *ret_done = problem.status == 0;
    return work_send_outcome(work, &problem);
}

/* What has come of the next job: its files, a line, and with some kinds a body behind it. */
struct inbox {
    struct sp_buf bytes;
    struct job_files files;
    size_t line; /* size of the line with its end, 0: not complete */
    struct work work;
};

static void init_inbox(struct inbox *inbox)
{
    json_decref(inbox->work.line);
    work_close_files(&inbox->files);
    sp_buf_release(&inbox->bytes);
    memset(inbox, 0, sizeof *inbox);
    sp_buf_init(&inbox->bytes, SPD_MAX_LINE_BYTES + SPD_MAX_SHARDING_BODY);
}

/* Takes more bytes; runs the job when it is complete. False when the input makes no sense or nobody listens. */
static bool take_bytes(struct inbox *inbox, const char *bytes, size_t size)
{
    while (size > 0 && inbox->bytes.size == 0 && *bytes == '\0') { /* what descriptors came with */
        bytes++;
        size--;
    }
    const char *end = inbox->line == 0 ? memchr(bytes, '\n', size) : NULL;
    if (end != NULL)
        inbox->line = inbox->bytes.size + (size_t)(end + 1 - bytes);
    sp_buf_append(&inbox->bytes, bytes, size);
    if (sp_buf_failed(&inbox->bytes) || (inbox->line == 0 && inbox->bytes.size > SPD_MAX_LINE_BYTES))
        return false;
    if (end != NULL && !read_work(inbox->bytes.data, inbox->line - 1, &inbox->files, &inbox->work))
        return false;
    /* One job at a time: nothing follows it before its answer. */
    if (inbox->line == 0 || inbox->bytes.size < inbox->line + inbox->work.body_size)
        return true;
    bool done, sent = run_work(&inbox->work, inbox->bytes.data + inbox->line, &done);
    init_inbox(inbox); /* a large buffer is not kept for the next job */
    return sent;
}

int worker_main(long parent, uint64_t memory)
{
    (void)signal(SIGINT, SIG_IGN); /* a terminal's ^C reaches the whole group; the daemon decides */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != (pid_t)parent)
        return 0; /* the daemon died before the line above */
    if (!lock_up(memory, 0)) {
        (void)fprintf(stderr, "the worker could not give up its rights: %s\n", strerrordesc_np(errno));
        return 4;
    }
    work_send_ready();
    static struct inbox inbox;
    init_inbox(&inbox);
    static char buffer[64 * 1024];
    for (;;) {
        ssize_t got = work_receive(&inbox.files, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || !take_bytes(&inbox, buffer, (size_t)got))
            break;
    }
    init_inbox(&inbox);
    return 0;
}

int work_again(const char *line, const char *body, size_t body_size, const struct job_files *files)
{
    static struct work work;
    struct job_files given = *files;
    bool done = false;
    if (!read_work(line, strlen(line), &given, &work) || work.body_size != body_size) {
        (void)fprintf(stderr, "shardpland: the kept job makes no sense\n");
        return 2;
    }
    if (!lock_up(work.memory, files->count)) {
        (void)fprintf(stderr, "shardpland: the process could not give up its rights: %s\n", strerrordesc_np(errno));
        return 2;
    }
    bool told = run_work(&work, body, &done);
    json_decref(work.line);
    return told && done ? 0 : 1;
}
