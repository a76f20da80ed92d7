#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "files.h"
#include "jobs.h"
#include "respond.h"
#include "routes.h"

/*
 * POST /v1/convert and /v1/reshard. The body goes to a worker as it came: what is in it, and whether it is JSON at all,
 * is found out there, where neither its size in memory nor a defect can harm the daemon.
 */

struct sharding {
    struct errand errand;
    char *output;
};

static void free_sharding(void *state)
{
    struct sharding *sharding = state;
    if (sharding->output != NULL)
        (void)unlink(sharding->output);
    free(sharding->output);
    free(sharding);
}

static void sharding_done(struct errand *errand)
{
    request_resume(errand->context);
}

static enum verdict sharding_settled(struct request *request)
{
    const struct sharding *sharding = request->state;
    uint64_t size;
    if (sharding->errand.problem.status != 0)
        return respond_problem(request, &sharding->errand.problem);
    int fd = files_open_read(sharding->output, &size);
    if (fd < 0)
        return respond_error(request, 500, "IO_ERROR", "The result could not be read.");
    return respond_file(request, 200, sharding->errand.text ? "text/plain; charset=utf-8" : "application/json", fd,
                        size, NULL);
}

/* "application/json", with parameters or not. */
static bool is_json_type(const char *type)
{
    static const char json[] = "application/json";
    size_t size = sizeof json - 1;
    return type != NULL && strncasecmp(type, json, size) == 0 &&
           (type[size] == '\0' || type[size] == ';' || type[size] == ' ');
}

enum verdict sharding_begin(struct request *request)
{
    if (request_accepts(request, "application/json") == 0 && request_accepts(request, "text/plain") == 0)
        return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers application/json or text/plain.");
    if (!is_json_type(request_header(request, "Content-Type")))
        return respond_error(request, 415, "UNSUPPORTED_MEDIA_TYPE", "The request must be application/json.");
    if (request_header(request, "Content-Encoding") != NULL)
        return respond_error(request, 415, "UNSUPPORTED_ENCODING", "The request must not have a Content-Encoding.");
    if (atomic_load(&request->server->draining))
        return respond_error(request, 503, "STOPPING", "The service is stopping; send the request again.");
    return VERDICT_GO_ON;
}

static enum verdict ask(struct request *request, const char *kind)
{
    struct problem problem = {0};
    struct sharding *sharding = calloc(1, sizeof *sharding);
    if (sharding == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    request->state = sharding;
    request->free_state = free_sharding;
    sharding->output = files_temporary(request->server->config->data);
    if (sharding->output == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    sharding->errand = (struct errand){
        .kind = kind,
        .output = sharding->output,
        .text = request_accepts(request, "text/plain") > request_accepts(request, "application/json"),
        .body = request->body.data != NULL ? request->body.data : "",
        .body_size = request->body.size,
        .done = sharding_done,
        .context = request,
    };
    enum verdict verdict = request_suspend(request, sharding_settled);
    if (!jobs_send(request->server->jobs, &sharding->errand, &problem)) {
        sharding->errand.problem = problem;
        request_resume(request);
    }
    return verdict;
}

enum verdict convert_finish(struct request *request)
{
    return ask(request, "convert");
}

enum verdict reshard_finish(struct request *request)
{
    return ask(request, "reshard");
}
