#include "ingest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "files.h"
#include "jobs.h"
#include "metrics.h"
#include "respond.h"
#include "store.h"
#include "text.h"
#include "upload.h"

struct ingest {
    struct errand inspection;
    char id[65];
    char *output;
    bool known; /* stored before this request */
};

void ingest_destroy(struct ingest *ingest)
{
    if (ingest == NULL)
        return;
    if (ingest->output != NULL)
        (void)unlink(ingest->output); /* gone already when the model was published */
    free(ingest->output);
    free(ingest);
}

/* The type without parameters and blanks equals `name`. */
static bool type_is(const char *type, const char *name)
{
    size_t length = strcspn(type, "; \t");
    return length == strlen(name) && strncasecmp(type, name, length) == 0;
}

bool ingest_is_model_type(const char *type)
{
    return type == NULL || type_is(type, "application/octet-stream") || type_is(type, "application/x-protobuf") ||
           type_is(type, "application/protobuf") || type_is(type, "application/x-onnx") ||
           type_is(type, "application/json"); /* a description; the worker sees by itself what it gets */
}

static bool check_headers(struct request *request, struct problem *problem)
{
    const char *type = request_header(request, "Content-Type"), *coding = request_header(request, "Content-Encoding");
    const char *name = request_parameter(request, "name");
    uint64_t most = request->server->config->max_upload;
    if (!ingest_is_model_type(type))
        return problem_set(
            problem, 415, "UNSUPPORTED_MEDIA_TYPE",
            "A model is sent as application/octet-stream, application/x-protobuf or, described in JSON, as "
            "application/json, not as '%.64s' "
            "(with curl: -H 'Content-Type: application/octet-stream' --data-binary @FILE, or -T FILE).",
            type);
    if (coding != NULL && strcasecmp(coding, "identity") != 0) {
        request_add_header(request, "Accept-Encoding", "identity");
        return problem_set(problem, 415, "UNSUPPORTED_CONTENT_ENCODING",
                           "Content-Encoding '%.64s' is not accepted; send the model uncompressed.", coding);
    }
    if (name != NULL && (strlen(name) > SPD_MAX_MODEL_NAME || !text_is_printable(name)))
        return problem_set(problem, 422, "BAD_NAME", "name must be printable text of at most %d bytes.",
                           SPD_MAX_MODEL_NAME);
    if (!request->has_body && !request->has_length)
        return problem_set(problem, 411, "LENGTH_REQUIRED",
                           "Send the model as the body, with Content-Length or chunked.");
    if (request->content_length > most)
        return problem_set_limit(problem, 413, "MODEL_TOO_LARGE", "--max-upload", (int64_t)most,
                                 (int64_t)request->content_length,
                                 "The model is larger than the %" PRIu64 " bytes that this service accepts.", most);
    if (request->content_length > files_free_bytes(request->server->config->data))
        return problem_set(problem, 507, "DISK_FULL", "The disk of the data folder has no room for %" PRIu64 " bytes.",
                           request->content_length);
    return true;
}

enum verdict ingest_begin(struct request *request)
{
    struct problem problem = {0};
    if (atomic_load(&request->server->draining))
        return respond_error(request, 503, "STOPPING", "The service is stopping; send the request again.");
    if (!check_headers(request, &problem))
        return respond_problem(request, &problem);
    request->body_kind = BODY_MODEL;
    request->upload = upload_create(request->server->config->data, request->server->config->max_upload, &problem);
    return request->upload != NULL ? VERDICT_GO_ON : respond_problem(request, &problem);
}

static void inspected(struct errand *inspection)
{
    request_resume(inspection->context);
}

enum verdict ingest_finish(struct request *request, enum verdict (*step)(struct request *request))
{
    struct problem problem = {0};
    struct ingest *ingest = calloc(1, sizeof *ingest);
    if (ingest == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    request->ingest = ingest;
    if (!upload_finish(request->upload, ingest->id, &problem))
        return respond_problem(request, &problem);
    metrics_upload(request->server->metrics, upload_size(request->upload));
    ingest->known = store_has_model(request->server->store, ingest->id);
    if (ingest->known)
        return step(request);
    ingest->output = files_temporary(request->server->config->data);
    if (ingest->output == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    const char *name = request_parameter(request, "name");
    ingest->inspection = (struct errand){
        .kind = "inspect",
        .model = upload_path(request->upload),
        .id = ingest->id,
        .name = name != NULL ? name : "",
        .output = ingest->output,
        .sync = true,
        .done = inspected,
        .context = request,
    };
    enum verdict verdict = request_suspend(request, step);
    if (!jobs_send(request->server->jobs, &ingest->inspection, &problem)) {
        ingest->inspection.problem = problem;
        request_resume(request);
    }
    return verdict;
}

/* Moves the files to their places and adds the row, as one step for everybody else. */
static bool publish(struct request *request, struct ingest *ingest, struct problem *problem)
{
    struct server *server = request->server;
    (void)pthread_mutex_lock(&server->models_mutex);
    bool ok = files_publish(server->config->data, ingest->id, upload_path(request->upload), ingest->output, problem);
    if (ok) {
        upload_keep(request->upload);
        ok = store_add_model(server->store, ingest->id, ingest->inspection.name, (int64_t)upload_size(request->upload),
                             problem);
        if (!ok && !store_has_model(server->store, ingest->id))
            files_remove_blob(server->config->data, ingest->id);
    }
    (void)pthread_mutex_unlock(&server->models_mutex);
    return ok;
}

bool ingest_settle(struct request *request, const char **ret_id, bool *ret_new, struct problem *problem)
{
    struct ingest *ingest = request->ingest;
    if (!ingest->known) {
        if (ingest->inspection.problem.status != 0) {
            *problem = ingest->inspection.problem;
            if (strcmp(problem->kind, sp_status_name(SP_ERR_MODEL)) == 0)
                problem->hint = "POST /v1/check says what is wrong with a model that cannot be stored.";
            return false;
        }
        if (!publish(request, ingest, problem))
            return false;
    }
    *ret_id = ingest->id;
    *ret_new = !ingest->known;
    return true;
}
