#include "store/integrity/overdue.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_limits.h"
#include "store/files.h"
#include "store/objects/results.h"

#define PAGE 64 /* rows of plans */

struct search {
    const char *data;
    int64_t until;
    const struct overdue *after;
    struct overdue *files; /* room for two batches */
    size_t count;
    bool has_more;
    int64_t before; /* of the page of plans that comes next, */
    int rows;       /* and what this one had */
};

char *overdue_sums(const char *data, const char *key)
{
    const char *attempt = strncmp(key, "plans/", 6) == 0 ? strchr(key + 6, '/') : NULL;
    const bool is_result = attempt != NULL && strchr(attempt + 1, '/') == NULL;
    char *path = NULL;
    return asprintf(&path, "%s/%s%s", data, key, is_result ? "/sums" : ".sums") >= 0 ? path : NULL;
}

int64_t overdue_read_at(const char *data, const char *key)
{
    struct stat sums;
    char *path = overdue_sums(data, key);
    const bool is_known = path != NULL && lstat(path, &sums) == 0 && sums.st_mtim.tv_sec > 0;
    free(path);
    return is_known ? (int64_t)sums.st_mtim.tv_sec * 1000000000 + sums.st_mtim.tv_nsec : 0;
}

static int oldest_first(const void *a, const void *b)
{
    const struct overdue *first = a, *second = b;
    if (first->read_at != second->read_at)
        return first->read_at < second->read_at ? -1 : 1;
    return strcmp(first->key, second->key);
}

/* Keeps the oldest ones. */
static void cut(struct search *search)
{
    if (search->count > 0)
        qsort(search->files, search->count, sizeof *search->files, oldest_first);
    if (search->count > SPD_SCRUB_BATCH) {
        search->count = SPD_SCRUB_BATCH;
        search->has_more = true;
    }
}

static void add(struct search *search, const char *key)
{
    struct overdue *file = &search->files[search->count];
    (void)snprintf(file->key, sizeof file->key, "%.*s", OVERDUE_KEY_SIZE - 1, key);
    file->read_at = overdue_read_at(search->data, file->key);
    if (file->read_at > search->until || (search->after != NULL && oldest_first(file, search->after) <= 0))
        return;
    if (++search->count == 2 * (size_t)SPD_SCRUB_BATCH)
        cut(search);
}

/* ---- models ---- */

static bool add_blobs(struct search *search, const char *prefix)
{
    char inner[16], key[OVERDUE_KEY_SIZE];
    struct files_name of;
    const struct dirent *entry;
    (void)snprintf(inner, sizeof inner, "blobs/%s", prefix);
    char *path = files_at(search->data, inner);
    DIR *folder = path != NULL ? opendir(path) : NULL;
    const bool ok = folder != NULL || (path != NULL && errno == ENOENT);
    free(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (!files_read_blob_name(prefix, entry->d_name, &of) || of.file != FILE_BLOB || of.is_sums)
            continue;
        (void)snprintf(key, sizeof key, "%s/%.110s", inner, entry->d_name);
        add(search, key);
    }
    if (folder != NULL)
        (void)closedir(folder);
    return ok;
}

static bool add_models(struct search *search)
{
    char prefix[3];
    bool ok = true;
    for (unsigned i = 0; ok && i < 256; i++) {
        (void)snprintf(prefix, sizeof prefix, "%02x", i);
        ok = add_blobs(search, prefix);
    }
    return ok;
}

/* ---- results ---- */

static void add_copy(struct search *search, const struct blob_file *file)
{
    char *path = files_at(search->data, file->key);
    if (path != NULL && access(path, F_OK) == 0)
        add(search, file->key);
    free(path);
}

static void add_plan(void *context, const struct plan_row *row)
{
    static const char *const names[] = {"annotated.splice", "plan.json", "plan.sheet", "plan.txt"};
    struct search *search = context;
    struct blob_file file;
    search->before = row->seq;
    search->rows++;
    if (!row->has_result)
        return;
    if (!results_file(row, "plan.json", &file, NULL)) {
        (void)snprintf(file.key, sizeof file.key, "plans/%s/%lld", row->id, (long long)row->attempts);
        add(search, file.key);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (results_file(row, names[i], &file, NULL))
            add_copy(search, &file);
    }
}

static bool add_results(struct search *search, struct store *store)
{
    search->before = INT64_MAX;
    do {
        search->rows = 0;
        if (!store_list_plans(store, NULL, search->before, PAGE, add_plan, search))
            return false;
    } while (search->rows == PAGE);
    return true;
}

bool overdue_find(const char *data, struct store *store, int64_t until, const struct overdue *after,
                  struct overdue_list *ret)
{
    struct search search = {.data = data, .until = until, .after = after};
    *ret = (struct overdue_list){0};
    search.files = calloc(2 * (size_t)SPD_SCRUB_BATCH, sizeof *search.files);
    if (search.files == NULL || !add_models(&search) || !add_results(&search, store)) {
        free(search.files);
        return false;
    }
    cut(&search);
    *ret = (struct overdue_list){search.files, search.count, search.has_more};
    return true;
}
