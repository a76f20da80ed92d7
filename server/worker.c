#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "plan/job.h"
#include "server.h"
#include "server_limits.h"
#include "text.h"

/* What a job line says. Strings belong to `line`. */
struct work {
    json_t *line;
    const char *job, *kind, *model, *sha256, *name, *out;
    uint64_t memory, seconds;
    uint64_t started_ms, deadline_ms, reported_ms;
    struct sp_watch watch;
    const void *bytes; /* the mapped model */
    uint64_t size;
    size_t body_size; /* bytes behind the line */
    bool timed_out;
};

/* ---- the pipe ---- */

static bool send_line(json_t *message)
{
    char *text = message != NULL ? json_dumps(message, JSON_COMPACT) : NULL;
    bool ok = text != NULL;
    size_t size = ok ? strlen(text) : 0;
    if (ok)
        text[size++] = '\n'; /* takes the place of the NUL */
    for (size_t sent = 0; ok && sent < size;) {
        ssize_t written = write(STDOUT_FILENO, text + sent, size - sent);
        if (written < 0 && errno != EINTR)
            ok = false;
        else if (written > 0)
            sent += (size_t)written;
    }
    free(text);
    json_decref(message);
    return ok;
}

static uint64_t resident_bytes(void)
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *second = got > 0 ? strchr(text, ' ') : NULL;
    return second != NULL ? strtoull(second + 1, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static bool send_outcome(const struct work *work, struct problem *problem)
{
    json_t *message = json_pack("{s:s, s:s, s:I}", "job", work->job, "event", problem->status == 0 ? "done" : "error",
                                "resident_bytes", (json_int_t)resident_bytes());
    if (message != NULL && problem->status != 0) {
        text_clean(problem->detail); /* cutting a message at its size may have split a character */
        text_clean(problem->where);
        char *text = problem_to_text(problem);
        json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;
        free(text);
        if (json != NULL)
            (void)json_object_set_new(message, "problem", json);
    }
    return send_line(message);
}

/* The library's heartbeat: reports progress and stops the job when its time is over. */
static bool tick(void *context, const char *phase, double fraction, double best_seconds, double lower_bound_seconds)
{
    struct work *work = context;
    uint64_t now = server_now_ms();
    if (now > work->deadline_ms) {
        work->timed_out = true;
        return false;
    }
    if (now - work->reported_ms < SPD_PROGRESS_INTERVAL_MS)
        return true;
    work->reported_ms = now;
    return send_line(json_pack("{s:s, s:s, s:s, s:f, s:f, s:f}", "job", work->job, "event", "progress", "phase", phase,
                               "fraction", fraction, "best_seconds", best_seconds, "lower_bound_seconds",
                               lower_bound_seconds));
}

/* ---- limits of the process ---- */

static void set_limit(int resource, uint64_t value)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max != RLIM_INFINITY && value > limit.rlim_max ? limit.rlim_max : value;
    (void)setrlimit((__rlimit_resource_t)resource, &limit);
}

/* A second wall behind the library's own budget and clock: the kernel's. */
static void limit_job(const struct work *work)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        set_limit(RLIMIT_CPU, (uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec + work->seconds +
                                  SPD_JOB_GRACE_SECONDS);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their shadow memory alone is terabytes */
    set_limit(RLIMIT_AS, work->memory + work->memory / 4 + work->size + SPD_ADDRESS_SPACE_SLACK);
#endif
}

static void limit_process(void)
{
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_FSIZE, SPD_MAX_RESULT_BYTES);
    (void)signal(SIGXFSZ, SIG_IGN); /* write() says EFBIG instead */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN); /* a terminal's ^C reaches the whole group; the daemon decides */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* ---- the model ---- */

static bool map_model(struct work *work, bool sync, struct problem *problem)
{
    int fd = files_open_read(work->model, &work->size);
    if (fd < 0)
        return problem_from_errno(problem, errno, "Opening the model");
    bool ok = !sync || fsync(fd) == 0;
    if (!ok)
        (void)problem_from_errno(problem, errno, "Storing the model");
    if (ok && work->size > 0) {
        limit_job(work);
        void *bytes = mmap(NULL, work->size, PROT_READ, MAP_PRIVATE, fd, 0);
        ok = bytes != MAP_FAILED;
        if (ok) {
            work->bytes = bytes;
            /* Weights are skipped: reading ahead would only fill memory with them. */
            (void)madvise(bytes, work->size, MADV_RANDOM);
        } else {
            (void)problem_from_errno(problem, errno, "Mapping the model");
        }
    }
    (void)close(fd);
    return ok;
}

static void unmap_model(struct work *work)
{
    if (work->size > 0 && work->bytes != NULL)
        (void)munmap((void *)(uintptr_t)work->bytes, work->size);
    work->bytes = NULL;
}

static void fill_options(struct work *work, struct sp_job_options *options)
{
    *options = (struct sp_job_options){
        .memory_budget = work->memory,
        .hash_seed = server_now_ms() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid(),
        .name = work->name[0] != '\0' ? work->name : NULL,
        .sha256 = work->sha256,
        .watch = &work->watch,
    };
}

static void take_error(const struct work *work, const struct sp_error *err, struct problem *problem)
{
    if (work->timed_out && err->status == SP_ERR_CANCELLED)
        (void)problem_set_limit(problem, 422, "TIME_LIMIT", "--job-seconds", (int64_t)work->seconds,
                                (int64_t)work->seconds,
                                "The job took longer than its %llu seconds and was stopped; give it a smaller model or "
                                "a longer time limit.",
                                (unsigned long long)work->seconds);
    else
        problem_from_error(problem, err);
}

/* ---- inspect ---- */

/* Drops the opening brace of the library's object, so that the daemon's own members can stand before it. */
struct merged {
    struct output *output;
    bool started;
};

static bool write_merged(void *context, const char *bytes, size_t size)
{
    struct merged *merged = context;
    if (!merged->started && size > 0) {
        merged->started = true;
        bytes++;
        size--;
    }
    return output_write(merged->output, bytes, size);
}

static enum sp_status write_inspection(const struct work *work, struct sp_job *job, struct output *output,
                                       struct sp_error *err)
{
    bool values = json_is_true(json_object_get(work->line, "values"));
    if (json_is_true(json_object_get(work->line, "text"))) {
        struct sp_buf buf;
        sp_buf_init(&buf, SPD_MAX_TEXT_BYTES);
        enum sp_status status = sp_job_inspect_text(job, values, &buf, err);
        if (status == SP_OK && sp_buf_failed(&buf))
            status = sp_fail_memory(err);
        if (status == SP_OK)
            (void)output_write(output, buf.data != NULL ? buf.data : "", buf.size);
        sp_buf_release(&buf);
        return status;
    }
    char head[160];
    struct merged merged = {.output = output};
    struct sp_json json;
    int length =
        snprintf(head, sizeof head, "{\"id\":\"%s\",\"bytes\":%llu,", work->sha256, (unsigned long long)work->size);
    (void)output_write(output, head, (size_t)length);
    sp_json_init(&json, false, write_merged, &merged);
    enum sp_status status = sp_job_inspect_json(job, values, &json, err);
    if (status == SP_OK)
        status = sp_json_finish(&json, err);
    return status;
}

/* Opens the model with the dims of the request, if any. */
static enum sp_status open_bound(const struct work *work, const struct sp_job_options *options, struct sp_job **ret_job,
                                 struct sp_error *err)
{
    struct sp_plan_options bound;
    struct sp_arena *arena = sp_arena_create(NULL);
    json_t *wrapped = json_pack("{s:O*}", "dims", json_object_get(work->line, "dims"));
    enum sp_status status = arena != NULL && wrapped != NULL ? sp_plan_options_parse(arena, NULL, wrapped, &bound, err)
                                                             : sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_job_open(work->bytes, work->size, options, bound.dim_count, bound.dim_names, bound.dim_values,
                             ret_job, err);
    json_decref(wrapped);
    sp_arena_destroy(arena);
    return status;
}

static void inspect(struct work *work, struct problem *problem)
{
    struct sp_error err = {0};
    struct sp_job_options options;
    struct sp_job *job = NULL;
    struct output *output = malloc(sizeof *output);
    if (output == NULL) {
        (void)problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
        return;
    }
    fill_options(work, &options);
    enum sp_status status = open_bound(work, &options, &job, &err);
    if (status == SP_OK) {
        output_open(output, work->out);
        status = write_inspection(work, job, output, &err);
        struct problem failed = {0};
        if (!output_close(output, status == SP_OK, &failed)) {
            *problem = failed;
            status = SP_OK;
        }
    }
    if (status != SP_OK)
        take_error(work, &err, problem);
    sp_job_destroy(job);
    free(output);
}

/* ---- plan ---- */

static bool sink_write(void *context, const void *bytes, size_t size)
{
    return output_write(context, bytes, size);
}

static enum sp_status write_splice(const struct sp_plan *plan, struct output *output, struct sp_error *err)
{
    struct sp_splice *splice = NULL;
    struct sp_sink sink = {.write = sink_write, .context = output};
    enum sp_status status = sp_plan_annotate(plan, &splice, err);
    if (status == SP_OK)
        status = sp_splice_save(splice, &sink, err);
    sp_splice_destroy(splice);
    return status;
}

static enum sp_status write_text(const struct sp_plan *plan, struct output *output, struct sp_error *err)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SPD_MAX_TEXT_BYTES);
    sp_plan_write_text(plan, &buf);
    bool ok = !sp_buf_failed(&buf);
    if (ok)
        (void)output_write(output, buf.data != NULL ? buf.data : "", buf.size);
    sp_buf_release(&buf);
    return ok ? SP_OK : sp_fail_memory(err);
}

static enum sp_status write_json(const struct sp_plan *plan, double seconds, struct output *output,
                                 struct sp_error *err)
{
    struct sp_json json;
    sp_json_init(&json, false, output_write, output);
    sp_plan_write_json(plan, seconds, &json);
    return sp_json_finish(&json, err);
}

/* Writes the three results; plan.json last. */
static bool write_results(struct work *work, const struct sp_plan *plan, double seconds, struct output *output,
                          struct problem *problem)
{
    static const char *const names[] = {"annotated.splice", "plan.txt", "plan.json"};
    if (mkdir(work->out, 0700) != 0 && errno != EEXIST)
        return problem_from_errno(problem, errno, "Creating the plan's folder");
    for (int i = 0; i < 3; i++) {
        struct sp_error err = {0};
        struct problem failed = {0};
        char *path = NULL;
        if (asprintf(&path, "%s/%s", work->out, names[i]) < 0)
            return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
        output_open(output, path);
        free(path);
        enum sp_status status = i == 0   ? write_splice(plan, output, &err)
                                : i == 1 ? write_text(plan, output, &err)
                                         : write_json(plan, seconds, output, &err);
        bool closed = output_close(output, status == SP_OK, &failed);
        if (!closed) {
            *problem = failed;
            return false;
        }
        if (status != SP_OK) {
            take_error(work, &err, problem);
            return false;
        }
    }
    char *above = NULL;
    bool ok = asprintf(&above, "%s/..", work->out) >= 0 && files_sync_folder(work->out) && files_sync_folder(above);
    free(above);
    return ok || problem_from_errno(problem, errno, "Storing the plan");
}

static void plan(struct work *work, struct problem *problem)
{
    const json_t *request = json_object_get(work->line, "request");
    struct sp_error err = {0};
    struct sp_job_options job_options;
    struct sp_plan_options options;
    struct sp_cluster *cluster = NULL;
    struct sp_job *job = NULL;
    struct sp_plan *result = NULL;
    struct output *output = malloc(sizeof *output);
    struct sp_arena *arena = sp_arena_create(NULL);
    if (arena == NULL || output == NULL) {
        (void)problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
        goto cleanup;
    }
    fill_options(work, &job_options);
    if (sp_cluster_parse(arena, json_object_get(request, "cluster"), "/cluster", &cluster, &err) != SP_OK ||
        sp_plan_options_parse(arena, json_object_get(request, "objective"), json_object_get(request, "options"),
                              &options, &err) != SP_OK) {
        take_error(work, &err, problem);
        goto cleanup;
    }
    if (options.time_limit_seconds > 0 && options.time_limit_seconds < (double)work->seconds) {
        work->seconds = (uint64_t)(options.time_limit_seconds + 0.999);
        work->deadline_ms = work->started_ms + (uint64_t)(options.time_limit_seconds * 1000);
    }
    if (sp_job_plan(work->bytes, work->size, &job_options, cluster, &options, &job, &result, &err) != SP_OK) {
        take_error(work, &err, problem);
        goto cleanup;
    }
    double seconds = (double)(server_now_ms() - work->started_ms) / 1000;
    (void)write_results(work, result, seconds, output, problem);
cleanup:
    sp_job_destroy(job);
    sp_arena_destroy(arena);
    free(output);
}

/* ---- convert, reshard ---- */

static void shard(struct work *work, const char *body, struct problem *problem)
{
    struct sp_error err = {0};
    struct problem failed = {0};
    struct output *output = malloc(sizeof *output);
    if (output == NULL) {
        (void)problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
        return;
    }
    limit_job(work);
    output_open(output, work->out);
    output->is_scratch = true;
    enum sp_status status =
        worker_sharding(strcmp(work->kind, "reshard") == 0, json_is_true(json_object_get(work->line, "text")), body,
                        work->body_size, work->memory, output, &err);
    bool closed = output_close(output, status == SP_OK, &failed);
    if (status != SP_OK)
        take_error(work, &err, problem);
    else if (!closed)
        *problem = failed;
    free(output);
}

/* ---- jobs ---- */

static bool read_work(const char *text, size_t size, struct work *work)
{
    json_int_t memory = 0, seconds = 0, body = 0;
    memset(work, 0, sizeof *work);
    work->bytes = "";
    work->line = json_loadb(text, size, 0, NULL);
    if (work->line == NULL ||
        json_unpack(work->line, "{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s?I}", "job", &work->job, "kind", &work->kind,
                    "model", &work->model, "sha256", &work->sha256, "name", &work->name, "out", &work->out, "memory",
                    &memory, "seconds", &seconds, "body", &body) != 0 ||
        memory <= 0 || seconds <= 0 || body < 0 || body > SPD_MAX_SHARDING_BODY) {
        json_decref(work->line);
        work->line = NULL;
        return false;
    }
    work->memory = (uint64_t)memory;
    work->seconds = (uint64_t)seconds;
    work->body_size = (size_t)body;
    work->started_ms = server_now_ms();
    work->deadline_ms = work->started_ms + work->seconds * 1000;
    work->watch = (struct sp_watch){.tick = tick, .context = work};
    return true;
}

static bool is_sharding(const struct work *work)
{
    return strcmp(work->kind, "convert") == 0 || strcmp(work->kind, "reshard") == 0;
}

/* Does the job and tells how it went. False when nobody can be told. */
static bool run_work(struct work *work, const char *body)
{
    struct problem problem = {0};
    (void)send_line(json_pack("{s:s, s:s}", "job", work->job, "event", "started"));
    if (is_sharding(work)) {
        shard(work, body, &problem);
    } else if (map_model(work, json_is_true(json_object_get(work->line, "sync")), &problem)) {
        if (strcmp(work->kind, "plan") == 0)
            plan(work, &problem);
        else
            inspect(work, &problem);
    }
    unmap_model(work);
    (void)malloc_trim(0);
    return send_outcome(work, &problem);
}

/* What has come of the next job: a line, and with some kinds a body behind it. */
struct inbox {
    struct sp_buf bytes;
    size_t line; /* size of the line with its end, 0: not complete */
    struct work work;
};

static void init_inbox(struct inbox *inbox)
{
    json_decref(inbox->work.line);
    sp_buf_release(&inbox->bytes);
    *inbox = (struct inbox){0};
    sp_buf_init(&inbox->bytes, SPD_MAX_LINE_BYTES + SPD_MAX_SHARDING_BODY);
}

/* Takes more bytes; runs the job when it is complete. False when the input makes no sense or nobody listens. */
static bool take_bytes(struct inbox *inbox, const char *bytes, size_t size)
{
    const char *end = inbox->line == 0 ? memchr(bytes, '\n', size) : NULL;
    if (end != NULL)
        inbox->line = inbox->bytes.size + (size_t)(end + 1 - bytes);
    sp_buf_append(&inbox->bytes, bytes, size);
    if (sp_buf_failed(&inbox->bytes) || (inbox->line == 0 && inbox->bytes.size > SPD_MAX_LINE_BYTES))
        return false;
    if (end != NULL && !read_work(inbox->bytes.data, inbox->line - 1, &inbox->work))
        return false;
    /* One job at a time: nothing follows it before its answer. */
    if (inbox->line == 0 || inbox->bytes.size < inbox->line + inbox->work.body_size)
        return true;
    bool sent = run_work(&inbox->work, inbox->bytes.data + inbox->line);
    init_inbox(inbox); /* a large buffer is not kept for the next job */
    return sent;
}

int worker_main(long parent)
{
    limit_process();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != (pid_t)parent)
        return 0; /* the daemon died before the line above */
    (void)close_range(3, ~0u, 0);
    struct inbox inbox = {0};
    init_inbox(&inbox);
    static char buffer[64 * 1024];
    for (;;) {
        ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || !take_bytes(&inbox, buffer, (size_t)got))
            break;
    }
    init_inbox(&inbox);
    return 0;
}
