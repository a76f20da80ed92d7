#include "references/references.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "references/fetching.h"
#include "server.h"
#include "uploads/beside.h"
#include "uploads/uploads.h"

struct references {
    struct sources *sources;
    atomic_bool stop;
    pthread_mutex_t mutex; /* guards the members up to the next blank line */
    pthread_cond_t changed;
    struct reference *first; /* of those that wait, in the order of arrival */
    struct reference *running[SPD_FETCH_THREADS];
    struct open {
        char tenant[SPD_MAX_PRINCIPAL + 1];
        unsigned count;
        struct open *next;
    } * opens;             /* how many each tenant has */
    unsigned thread_count; /* that have begun */
    bool ended;

    unsigned started;
    pthread_t threads[SPD_FETCH_THREADS];
};

/* ---- what is fetched ---- */

static bool fetch(struct reference *reference, const char *url, struct upload_row *ret_row)
{
    struct source source;
    if (atomic_load(&reference->references->stop))
        return problem_set(&reference->problem, 503, "STOPPING", "The service is stopping; send the request again.");
    return sources_find(reference->references->sources, reference->tenant, url, &source, &reference->problem) &&
           fetch_object(reference->server, reference->tenant, &source, url, ret_row, &reference->problem);
}

/* Where a file beside the model is: in the folder of the model's address. Steps that lead nowhere ("./") are left out. */
static bool join(const struct reference *reference, const char *location, char ret[SPD_MAX_SOURCE_URL + 1],
                 struct problem *problem)
{
    size_t used = (size_t)(strrchr(reference->url, '/') + 1 - reference->url);
    memcpy(ret, reference->url, used);
    bool fits = beside_is_location(location);
    for (const char *at = location; fits && *at != '\0';) {
        const size_t step = strcspn(at, "/"), more = strspn(at + step, "/");
        const bool leads = step > 0 && !(step == 1 && at[0] == '.');
        fits = !leads || used + step + 1 < SPD_MAX_SOURCE_URL;
        if (fits && leads) {
            memcpy(ret + used, at, step);
            used += step;
            if (more > 0)
                ret[used++] = '/';
        }
        at += step + more;
    }
    ret[used] = '\0';
    return fits || problem_set(problem, 422, "BAD_LOCATION",
                               "The model has weights in '%.256s', which is not in the folder of its address or is too "
                               "long.",
                               location);
}

static bool fetch_file(struct reference *reference, const char *location)
{
    char url[SPD_MAX_SOURCE_URL + 1];
    if (!join(reference, location, url, &reference->problem))
        return false;
    struct reference_file *files = reallocarray(reference->files, reference->file_count + 1, sizeof *files);
    if (files == NULL)
        return problem_no_memory(&reference->problem);
    reference->files = files;
    struct reference_file *file = &files[reference->file_count];
    *file = (struct reference_file){.location = strdup(location)};
    if (file->location == NULL)
        return problem_no_memory(&reference->problem);
    reference->file_count++;
    return fetch(reference, url, &file->upload);
}

static bool fetch_listed(struct reference *reference, const json_t *locations, const struct beside *beside)
{
    size_t i;
    const json_t *location;
    if (json_array_size(locations) > SPD_MAX_MODEL_FILES)
        return problem_set(&reference->problem, 422, "TOO_MANY_FILES",
                           "The weights of the model lie in %zu files; at most %u are kept beside a model.",
                           json_array_size(locations), SPD_MAX_MODEL_FILES);
    json_array_foreach(locations, i, location)
    {
        const char *text = json_string_value(location);
        if (text != NULL && beside_find(beside, text) == NULL && !fetch_file(reference, text))
            return false;
    }
    return true;
}

static void fetch_files(struct reference *reference)
{
    struct beside beside = {0};
    json_error_t why;
    json_t *inspection = json_load_file(reference->inspection, 0, &why);
    if (inspection == NULL && json_error_code(&why) == json_error_cannot_open_file)
        (void)problem_from_errno(&reference->problem, errno, "Opening the inspection of the model");
    else if (inspection == NULL)
        (void)problem_no_memory(&reference->problem);
    else if (beside_load(reference->server, reference->tenant, reference->model, &beside, &reference->problem))
        (void)fetch_listed(reference, json_object_get(json_object_get(inspection, "external_data"), "locations"),
                           &beside);
    beside_release(&beside);
    json_decref(inspection);
}

/* ---- threads ---- */

static unsigned running_of(const struct references *references, const char *tenant)
{
    unsigned count = 0;
    for (unsigned i = 0; i < references->thread_count; i++)
        count += references->running[i] != NULL && strcmp(references->running[i]->tenant, tenant) == 0;
    return count;
}

/* With the lock: the one that is next, which waits no more; NULL when nobody may run. */
static struct reference *take_next(struct references *references)
{
    struct reference **best = NULL;
    unsigned fewest = SPD_FETCHES_AT_ONCE;
    for (struct reference **at = &references->first; *at != NULL; at = &(*at)->next) {
        const unsigned count = running_of(references, (*at)->tenant);
        if (count < fewest) {
            fewest = count;
            best = at;
        }
    }
    struct reference *reference = best != NULL ? *best : NULL;
    if (reference != NULL)
        *best = reference->next;
    return reference;
}

/* `done` frees the reference perhaps, so the thread is known to be free only by its place. */
static void run(struct reference *reference)
{
    void (*done)(void *context) = reference->done;
    void *context = reference->context;
    if (reference->inspection != NULL)
        fetch_files(reference);
    else
        (void)fetch(reference, reference->url, &reference->upload);
    done(context);
}

static void *work(void *context)
{
    struct references *references = context;
    (void)pthread_mutex_lock(&references->mutex);
    const unsigned place = references->thread_count++;
    for (;;) {
        struct reference *reference = take_next(references);
        if (reference == NULL && references->ended)
            break;
        if (reference == NULL) {
            (void)pthread_cond_wait(&references->changed, &references->mutex);
            continue;
        }
        struct reference now = {0}; /* its tenant, for whoever counts; the reference may be gone before this ends */
        memcpy(now.tenant, reference->tenant, sizeof now.tenant);
        references->running[place] = &now;
        (void)pthread_mutex_unlock(&references->mutex);
        run(reference);
        (void)pthread_mutex_lock(&references->mutex);
        references->running[place] = NULL;
        (void)pthread_cond_broadcast(&references->changed);
    }
    (void)pthread_mutex_unlock(&references->mutex);
    return NULL;
}

static void hand_on(struct reference *reference)
{
    struct references *references = reference->references;
    reference->next = NULL;
    (void)pthread_mutex_lock(&references->mutex);
    struct reference **end = &references->first;
    while (*end != NULL)
        end = &(*end)->next;
    *end = reference;
    (void)pthread_cond_broadcast(&references->changed);
    (void)pthread_mutex_unlock(&references->mutex);
}

/* ---- one reference ---- */

/* With the lock: counts one more or, `less`, one less. False when there are enough, or no memory (with a problem). */
static bool count(struct references *references, const char *tenant, bool less, struct problem *problem)
{
    struct open **at = &references->opens;
    while (*at != NULL && strcmp((*at)->tenant, tenant) != 0)
        at = &(*at)->next;
    struct open *open = *at;
    if (less) {
        if (open != NULL && --open->count == 0) {
            *at = open->next;
            free(open);
        }
        return true;
    }
    if (open == NULL) {
        *at = open = calloc(1, sizeof *open);
        if (open == NULL)
            return problem_no_memory(problem);
        (void)snprintf(open->tenant, sizeof open->tenant, "%s", tenant);
    }
    if (open->count >= SPD_MAX_FETCHES)
        return problem_set_limit(problem, 429, "QUOTA_FETCHES", "models by reference", SPD_MAX_FETCHES,
                                 (int64_t)open->count + 1,
                                 "You have %u models by reference under way; wait until one is stored.", open->count);
    open->count++;
    return true;
}

struct reference *reference_open(struct server *server, const char *tenant, const char *url, struct problem *problem)
{
    struct source source;
    struct references *references = server->references;
    if (!sources_find(references != NULL ? references->sources : NULL, tenant, url, &source, problem) ||
        references == NULL) /* without sources nothing is found */
        return NULL;
    struct reference *reference = calloc(1, sizeof *reference);
    if (reference == NULL) {
        (void)problem_no_memory(problem);
        return NULL;
    }
    (void)pthread_mutex_lock(&references->mutex);
    const bool fits = count(references, tenant, false, problem);
    (void)pthread_mutex_unlock(&references->mutex);
    if (!fits) {
        free(reference);
        return NULL;
    }
    reference->references = references;
    reference->server = server;
    (void)snprintf(reference->tenant, sizeof reference->tenant, "%s", tenant);
    (void)snprintf(reference->url, sizeof reference->url, "%s", url);
    return reference;
}

void reference_fetch_model(struct reference *reference, void (*done)(void *context), void *context)
{
    reference->done = done;
    reference->context = context;
    hand_on(reference);
}

void reference_fetch_files(struct reference *reference, const char *inspection, const char *model,
                           void (*done)(void *context), void *context)
{
    reference->inspection = inspection;
    reference->model = model;
    reference_fetch_model(reference, done, context);
}

static void drop(struct reference *reference, struct upload_row *upload)
{
    if (upload->id[0] != '\0')
        (void)uploads_remove(reference->server->uploads, upload->id);
    upload->id[0] = '\0';
}

void reference_drop(struct reference *reference)
{
    if (reference == NULL)
        return;
    drop(reference, &reference->upload);
    for (size_t i = 0; i < reference->file_count; i++)
        drop(reference, &reference->files[i].upload);
}

void reference_close(struct reference *reference)
{
    if (reference == NULL)
        return;
    struct references *references = reference->references;
    reference_drop(reference);
    for (size_t i = 0; i < reference->file_count; i++)
        free(reference->files[i].location);
    free(reference->files);
    (void)pthread_mutex_lock(&references->mutex);
    (void)count(references, reference->tenant, true, NULL);
    (void)pthread_mutex_unlock(&references->mutex);
    free(reference);
}

/* ---- life ---- */

bool references_create(struct server *server, struct references **ret_references, struct problem *problem)
{
    *ret_references = NULL;
    if (server->config->model_sources[0] == '\0')
        return true;
    struct references *references = calloc(1, sizeof *references);
    if (references == NULL)
        return problem_no_memory(problem);
    (void)pthread_mutex_init(&references->mutex, NULL);
    (void)pthread_cond_init(&references->changed, NULL);
    bool ok = sources_open(server->config, &references->stop, &references->sources, problem);
    unsigned started = 0;
    while (ok && started < SPD_FETCH_THREADS &&
           pthread_create(&references->threads[started], NULL, work, references) == 0)
        started++;
    references->started = started;
    if (ok && started == SPD_FETCH_THREADS) {
        *ret_references = references;
        return true;
    }
    references_destroy(references);
    return ok ? problem_no_memory(problem) : false;
}

void references_stop(struct references *references)
{
    if (references != NULL)
        atomic_store(&references->stop, true);
}

bool references_quiet(struct references *references)
{
    if (references == NULL)
        return true;
    (void)pthread_mutex_lock(&references->mutex);
    bool quiet = references->first == NULL;
    for (unsigned i = 0; i < SPD_FETCH_THREADS; i++)
        quiet = quiet && references->running[i] == NULL;
    (void)pthread_mutex_unlock(&references->mutex);
    return quiet;
}

void references_destroy(struct references *references)
{
    if (references == NULL)
        return;
    (void)pthread_mutex_lock(&references->mutex);
    references->ended = true;
    (void)pthread_cond_broadcast(&references->changed);
    (void)pthread_mutex_unlock(&references->mutex);
    for (unsigned i = 0; i < references->started; i++)
        (void)pthread_join(references->threads[i], NULL);
    sources_close(references->sources);
    (void)pthread_cond_destroy(&references->changed);
    (void)pthread_mutex_destroy(&references->mutex);
    free(references);
}
