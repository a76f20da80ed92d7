#include "routes/derived.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "http/send.h"
#include "observe/log.h"
#include "realize/recipe.h"
#include "store/files.h"
#include "store/integrity/stored.h"
#include "uploads/beside.h"
#include "util/text.h"

struct derived {
    struct request *request;     /* and */
    const struct derived_of *of; /* while it is opened */
    struct sp_splice *splice;    /* or */
    struct sp_recipe *recipe;
    struct stored_file *blob;
    struct stored_file **files; /* of the recipe's other sources, in their order */
    uint32_t file_count;
};

static bool read_blob(void *context, uint64_t offset, void *bytes, size_t size)
{
    const struct derived *derived = context;
    return stored_read(derived->blob, offset, bytes, size);
}

/* Source 0 is the model's file, the others are beside it. */
static bool read_source(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    const struct derived *derived = context;
    if (source == 0)
        return read_blob(context, offset, bytes, size);
    return source <= derived->file_count && stored_read(derived->files[source - 1], offset, bytes, size);
}

/* False, also without memory, where one of them is not there; with a problem where they are too many. */
static bool open_files(struct derived *derived, struct problem *problem)
{
    const struct beside *beside = derived->of->beside;
    const uint32_t count = sp_recipe_source_count(derived->recipe) - 1;
    if (count > 0 && !request_charge(derived->request, ACCOUNT_FILES, count, problem))
        return false;
    derived->files = count > 0 ? calloc(count, sizeof *derived->files) : NULL;
    for (uint32_t i = 0; derived->files != NULL && i < count; i++) {
        const char *location = sp_recipe_location(derived->recipe, i + 1);
        const struct beside_file *file = beside != NULL ? beside_find(beside, location) : NULL;
        struct stored_file *opened =
            file != NULL ? stored_open_model(derived->request->server->stored, file->blob, problem) : NULL;
        if (opened == NULL)
            return false;
        derived->files[derived->file_count++] = opened;
        if (stored_size(opened) != (uint64_t)file->bytes)
            return false;
    }
    return count == derived->file_count;
}

static enum sp_status read_some(struct derived *derived, uint64_t offset, void *bytes, size_t size, size_t *ret_size,
                                struct sp_error *err)
{
    struct sp_source source = {.read = read_blob, .context = derived};
    struct sp_recipe_reader reader = {.read = read_source, .context = derived};
    if (derived->splice != NULL)
        return sp_splice_read(derived->splice, &source, offset, bytes, size, ret_size, err);
    return sp_recipe_read(derived->recipe, &reader, offset, bytes, size, ret_size, err);
}

static bool read_derived(void *context, uint64_t offset, void *bytes, size_t size)
{
    char *to = bytes;
    while (size > 0) {
        size_t got = 0;
        struct sp_error err = {0};
        if (read_some(context, offset, to, size, &got, &err) != SP_OK || got == 0)
            return false;
        to += got;
        offset += got;
        size -= got;
    }
    return true;
}

static void free_derived(void *context)
{
    struct derived *derived = context;
    stored_close(derived->blob);
    for (uint32_t i = 0; i < derived->file_count; i++)
        stored_close(derived->files[i]);
    free(derived->files);
    sp_splice_destroy(derived->splice);
    sp_recipe_destroy(derived->recipe);
    free(derived);
}

/* The same model, the same files beside it and the same file over them are the same bytes. */
static bool digest(const struct derived_of *of, const void *bytes, size_t size, char *ret_digest)
{
    unsigned char result[32];
    gnutls_hash_hd_t hash;
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0)
        return false;
    bool ok = gnutls_hash(hash, of->model, strlen(of->model)) == 0 && gnutls_hash(hash, bytes, size) == 0;
    for (size_t i = 0; ok && of->beside != NULL && i < of->beside->count; i++)
        ok = gnutls_hash(hash, of->beside->files[i].blob, 64) == 0; /* the SHA-256 in it */
    gnutls_hash_deinit(hash, result);
    text_to_hex(result, sizeof result, ret_digest);
    return ok;
}

/* A worker that was taken over may have saved anything: what is larger than it can be is not read. */
static bool is_plausible(const struct stream *saved, uint64_t blob_size)
{
    char magic[8];
    uint64_t most = SPD_SENT_BYTES;
    if (blob_size < (most - SPD_MADE_BYTES) / SPD_MADE_PER_BYTE)
        most = SPD_MADE_BYTES + blob_size * SPD_MADE_PER_BYTE;
    return saved->size >= sizeof magic && saved->size <= most && saved->read(saved->context, 0, magic, sizeof magic) &&
           (memcmp(magic, "SPRECIP1", sizeof magic) == 0 || memcmp(magic, "SPSPLIC1", sizeof magic) == 0);
}

/* What a worker saved, by its first bytes. False without a problem when it is damaged. */
static bool load(struct derived *derived, const void *bytes, size_t size, struct problem *problem)
{
    struct sp_error err = {0};
    const bool is_recipe = size >= 8 && memcmp(bytes, "SPRECIP1", 8) == 0;
    const enum sp_status status = is_recipe ? sp_recipe_load(bytes, size, &derived->recipe, &err)
                                            : sp_splice_load(bytes, size, &derived->splice, &err);
    if (status == SP_ERR_MEMORY)
        problem_from_error(problem, &err);
    if (status != SP_OK)
        return false;
    return is_recipe ? open_files(derived, problem)
                     : sp_splice_original_size(derived->splice) == stored_size(derived->blob);
}

/* Whether the file is one that is read, and there is memory for it. */
static bool admit(const struct derived *derived, const struct stream *saved, struct problem *problem)
{
    if (is_plausible(saved, stored_size(derived->blob)))
        return request_charge(derived->request, ACCOUNT_ANSWER_BYTES, saved->size, problem);
    LOG(LOG_ERROR, "stored result damaged", log_s("model", derived->of->model), log_i("bytes", (int64_t)saved->size));
    return false;
}

/* Reads what was saved. */
static bool read_saved(struct derived *derived, const struct stream *saved, char *ret_digest, struct problem *problem)
{
    const uint64_t size = saved->size;
    const char *model = derived->of->model;
    void *bytes = malloc((size_t)size > 0 ? (size_t)size : 1);
    if (bytes == NULL)
        return problem_no_memory(problem);
    bool ok = saved->read(saved->context, 0, bytes, (size_t)size);
    if (!ok && errno != EBADMSG)
        (void)problem_from_errno(problem, errno, "Reading the result");
    if (ok && !load(derived, bytes, (size_t)size, problem)) {
        if (problem->status == 0)
            LOG(LOG_ERROR, "stored result damaged", log_s("model", model));
        ok = false;
    }
    if (ok && ret_digest != NULL && !digest(derived->of, bytes, (size_t)size, ret_digest))
        ok = problem_no_memory(problem);
    free(bytes);
    return ok;
}

static bool open_blob(struct derived *derived, struct problem *problem)
{
    char name[STORE_BLOB_SIZE] = "";
    const struct server *server = derived->request->server;
    if (store_find_blob(server->store, NULL, derived->of->model, name) == STORE_ERROR)
        return problem_set(problem, 503, "STORE_UNAVAILABLE",
                           "The store does not answer at the moment; try again later.");
    derived->blob = stored_open_model(server->stored, name, problem);
    return derived->blob != NULL;
}

bool derived_open(struct request *request, const struct derived_of *of, const struct stream *saved,
                  struct stream *ret_stream, char *ret_digest, struct problem *problem)
{
    struct derived *derived = request_charge(request, ACCOUNT_FILES, 1, problem) ? calloc(1, sizeof *derived) : NULL;
    bool ok = false;
    if (derived == NULL) {
        (void)problem_no_memory(problem);
    } else {
        derived->request = request;
        derived->of = of;
        ok = open_blob(derived, problem) && admit(derived, saved, problem) &&
             read_saved(derived, saved, ret_digest, problem);
    }
    saved->release(saved->context);
    if (!ok) {
        if (derived != NULL)
            free_derived(derived);
        return problem_set(problem, 500, of->damaged, "The stored result or its model cannot be read.");
    }
    derived->request = NULL;
    derived->of = NULL;
    *ret_stream = (struct stream){.size = derived->splice != NULL ? sp_splice_size(derived->splice)
                                                                  : sp_recipe_size(derived->recipe),
                                  .read = read_derived,
                                  .release = free_derived,
                                  .context = derived};
    return true;
}

bool derived_open_file(struct request *request, const struct derived_of *of, const char *path,
                       struct stream *ret_stream, char *ret_digest, struct problem *problem)
{
    struct stream saved;
    if (!send_open(path, &saved))
        return problem_of_stored(problem, errno, of->damaged, "the result");
    return derived_open(request, of, &saved, ret_stream, ret_digest, problem);
}
