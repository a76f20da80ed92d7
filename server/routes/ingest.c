#include "routes/ingest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "http/respond.h"
#include "http/upload.h"
#include "observe/metrics.h"
#include "references/references.h"
#include "routes/held.h"
#include "routes/room.h"
#include "routes/routes.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/folder.h"
#include "store/integrity/stored.h"
#include "store/placing.h"
#include "store/store.h"
#include "uploads/beside.h"
#include "uploads/uploads.h"
#include "util/text.h"

struct ingest {
    struct errand inspection;
    char id[65];
    char *output;
    bool known;           /* stored before this request, with its file */
    bool existed;         /* it had its row */
    struct model_row row; /* where it has one already */
    struct room *room;

    /* Where models are in an object store, a thread that may wait for it publishes the model before the request goes on. */
    struct transfer transfer;
    bool publishes, was_published;
};

static void remove_output(const char *output)
{
    char *sums = files_sums(output);
    (void)unlink(output);
    if (sums != NULL)
        (void)unlink(sums);
    free(sums);
}

void ingest_destroy(struct ingest *ingest)
{
    if (ingest == NULL)
        return;
    if (ingest->output != NULL)
        remove_output(ingest->output); /* gone already when the model was published */
    free(ingest->output);
    room_release(ingest->room);
    store_release_model(&ingest->row);
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
    const char *type = request_header(request, "Content-Type");
    const char *name = request_parameter(request, "name");
    uint64_t most = request->server->config->max_upload;
    if (!ingest_is_model_type(type))
        return problem_set(
            problem, 415, "UNSUPPORTED_MEDIA_TYPE",
            "A model is sent as application/octet-stream, application/x-protobuf or, described in JSON, as "
            "application/json, not as '%.64s' "
            "(with curl: -H 'Content-Type: application/octet-stream' --data-binary @FILE, or -T FILE).",
            type);
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
    if (request->server->config->max_store > 0 && request->content_length > request->server->config->max_store)
        return problem_set_limit(problem, 507, "STORE_FULL", "--max-store", (int64_t)request->server->config->max_store,
                                 (int64_t)request->content_length,
                                 "The model is larger than all models together may be here.");
    if (request->content_length > files_free_bytes(request->server->config->data))
        return problem_set(problem, 507, "DISK_FULL", "The disk of the data folder has no room for %" PRIu64 " bytes.",
                           request->content_length);
    return true;
}

enum verdict ingest_begin(struct request *request, bool publishes)
{
    struct problem problem = {0};
    if (atomic_load(&request->server->draining))
        return respond_error(request, 503, "STOPPING", "The service is stopping; send the request again.");
    if (!check_headers(request, &problem) || !folder_look(request->server->folder, &problem))
        return respond_problem(request, &problem);
    request->body_kind = BODY_MODEL;
    request->upload =
        request_charge(request, ACCOUNT_FILES, 1, &problem)
            ? upload_create(request->server->config, request->server->owner, request->principal.tenant, &problem)
            : NULL;
    if (request->upload == NULL)
        return respond_problem(request, &problem);
    if (publishes)
        upload_send_early(request->upload, request->server->blobs);
    return VERDICT_GO_ON;
}

/* The files beside a model that was fetched. */
static bool place_files(struct request *request, const struct ingest *ingest, struct problem *problem)
{
    struct reference *reference = request->reference;
    for (size_t i = 0; reference != NULL && i < reference->file_count; i++) {
        struct upload_row *from = &reference->files[i].upload;
        struct file_row row = {.location = reference->files[i].location, .bytes = from->bytes, .upload = from->id};
        struct upload *upload =
            upload_adopt(request->server->config, request->server->owner, from->id, from->digest, problem);
        if (upload == NULL)
            return false;
        memcpy(row.tenant, request->principal.tenant, sizeof row.tenant);
        memcpy(row.model, ingest->id, sizeof row.model);
        (void)snprintf(row.blob, sizeof row.blob, "%s", from->digest);
        const enum store_added added = beside_place(request->server, upload, &row, problem);
        upload_destroy(upload);
        if (added == STORE_NO_MODEL)
            return problem_set(problem, 404, "MODEL_NOT_FOUND", "The model was deleted while its files were fetched.");
        if (added == STORE_DIFFERS)
            return problem_set(problem, 409, "FILE_EXISTS",
                               "The model has another file of this location; delete the model to begin anew.");
        if (added != STORE_ADDED && added != STORE_EXISTS)
            return false;
        from->id[0] = '\0';
    }
    return true;
}

static bool publish_model(struct request *request, struct ingest *ingest, struct problem *problem)
{
    struct server *server = request->server;
    struct model_row row = {.name = (char *)(uintptr_t)ingest->inspection.name,
                            .bytes = (int64_t)upload_size(request->upload),
                            .upload = upload_source(request->upload)};
    memcpy(row.tenant, request->principal.tenant, sizeof row.tenant);
    memcpy(row.id, ingest->id, sizeof row.id);
    struct model_row place = row;
    place.bytes = row.upload == NULL ? row.bytes : 0; /* an upload by parts has its place */
    if (!room_take(server, &place, &ingest->room, problem))
        return false;
    const struct store_quota quota = {.tenant_models = server->config->tenant_models,
                                      .tenant_bytes = (int64_t)server->config->tenant_bytes};
    struct placing placing = {.store = server->store,
                              .blobs = server->blobs,
                              .stored = server->stored,
                              .upload = upload_path(request->upload),
                              .stage = upload_stage(request->upload),
                              .inspection = ingest->output};
    const bool ok = placing_add(&placing, &row, &quota, problem);
    ingest->existed = placing.existed;
    if (placing.left > 0)
        jobs_unreserve(server->jobs, row.id, placing.left);
    if (placing.was_moved)
        upload_keep(request->upload);
    if (ok && row.upload != NULL)
        uploads_remove_file(server->uploads, row.upload);
    room_stop_counting(ingest->room);
    return ok;
}

static bool publish(struct request *request, struct ingest *ingest, struct problem *problem)
{
    if (!ingest->known && !publish_model(request, ingest, problem))
        return false;
    if (!ingest->known && request->reference != NULL)
        request->reference->upload.id[0] = '\0'; /* it is the model */
    return place_files(request, ingest, problem);
}

static void run_publish(struct transfer *transfer)
{
    struct request *request = transfer->context;
    struct ingest *ingest = request->ingest;
    ingest->was_published = publish(request, ingest, &ingest->inspection.problem);
    request_resume(request);
}

/* The files beside the model are there; this thread may wait. */
static void files_fetched(void *context)
{
    struct request *request = context;
    struct ingest *ingest = request->ingest;
    if (request->reference->problem.status != 0)
        ingest->inspection.problem = request->reference->problem;
    else
        ingest->was_published = publish(request, ingest, &ingest->inspection.problem);
    request_resume(request);
}

static void inspected(struct errand *inspection)
{
    struct request *request = inspection->context;
    struct ingest *ingest = request->ingest;
    if (inspection->problem.status == 0 && ingest->publishes && request->reference != NULL) {
        reference_fetch_files(request->reference, ingest->output, ingest->id, files_fetched, request);
        return;
    }
    if (inspection->problem.status != 0 || !ingest->publishes) {
        request_resume(request);
        return;
    }
    ingest->transfer = (struct transfer){.run = run_publish, .context = request};
    blobs_send(request->server->blobs, &ingest->transfer);
}

enum verdict ingest_finish(struct request *request, enum verdict (*step)(struct request *request), bool publishes)
{
    struct problem problem = {0};
    struct ingest *ingest = calloc(1, sizeof *ingest);
    if (ingest == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    request->ingest = ingest;
    ingest->publishes = publishes && (request->reference != NULL || blobs_are_remote(request->server->blobs));
    if (!upload_finish(request->upload, ingest->id, &problem))
        return respond_problem(request, &problem);
    request_give_back(request, ACCOUNT_FILES);
    metrics_upload(request->server->metrics, upload_size(request->upload));
    enum store_found found =
        store_get_model(request->server->store, request->principal.tenant, ingest->id, &ingest->row);
    if (found == STORE_ERROR)
        return store_is_away(request);
    /* Whether another tenant has the same bytes must not show: what is new to this one takes the whole way. So does what
       the tenant has, unless all that is stored of it is known to be right: else it is put back. A copy says nothing of
       its object. */
    ingest->known = found == STORE_DONE && !blobs_are_remote(request->server->blobs) &&
                    stored_is_whole(request->server->stored, &ingest->row);
    if (ingest->known && request->reference == NULL) {
        store_touch_model(request->server->store, request->principal.tenant, ingest->id);
        if (upload_source(request->upload) != NULL)
            (void)uploads_remove(request->server->uploads, upload_source(request->upload));
        return step(request);
    }
    ingest->output = files_temporary(request->server->config->data, request->server->owner);
    if (ingest->output == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    /* What is put back is called what it was called. */
    const char *name = found == STORE_DONE ? ingest->row.name : request_parameter(request, "name");
    ingest->inspection = (struct errand){
        .kind = "inspect",
        .tenant = request->principal.tenant,
        .model = upload_path(request->upload),
        .id = ingest->id,
        .name = name != NULL ? name : "",
        .output = ingest->output,
        .is_upload = true,
        .request = request->request_id,
        .sync = true,
        .done = inspected,
        .context = request,
    };
    enum verdict verdict = request_suspend(request, step);
    held_send(request, &ingest->inspection);
    return verdict;
}

bool ingest_inspected(const struct request *request, const char **ret_id, struct problem *problem)
{
    const struct ingest *ingest = request->ingest;
    reference_drop(request->reference);
    *ret_id = ingest->id;
    if (ingest->inspection.problem.status == 0)
        return true;
    *problem = ingest->inspection.problem;
    if (strcmp(problem->kind, sp_status_name(SP_ERR_MODEL)) == 0)
        problem->hint = "POST /v1/check says what is wrong with a model that cannot be stored.";
    return false;
}

bool ingest_publish(struct request *request, const char **ret_id, bool *ret_new, struct problem *problem)
{
    struct ingest *ingest = request->ingest;
    const bool ok = ingest_inspected(request, ret_id, problem) &&
                    (ingest->known || ingest->was_published || publish(request, ingest, problem));
    *ret_new = !ingest->known && !ingest->existed;
    return ok;
}
