#include "routes/sheets.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/log.h"
#include "server_limits.h"
#include "store/files.h"
#include "store/store.h"

struct kept {
    struct sp_index sheet; /* first: what callers have is this */
    void *bytes;
    uint64_t size;
    char plan[STORE_ID_SIZE];
    int64_t attempt;
    unsigned users;             /* callers that have it, and the list */
    struct kept *newer, *older; /* in the list */
};

struct sheets {
    pthread_mutex_t mutex;
    struct kept *newest, *oldest;
    unsigned count; /* in the list */
    uint64_t bytes; /* of all that are in memory, those that are being read included */
};

struct sheets *sheets_create(void)
{
    struct sheets *sheets = calloc(1, sizeof *sheets);
    if (sheets != NULL)
        (void)pthread_mutex_init(&sheets->mutex, NULL);
    return sheets;
}

/* ---- the list; its mutex is held ---- */

static void give_up(struct sheets *sheets, struct kept *kept)
{
    if (--kept->users > 0)
        return;
    sheets->bytes -= kept->size;
    free(kept->bytes);
    free(kept);
}

static void unlink_age(struct sheets *sheets, struct kept *kept)
{
    *(kept->newer != NULL ? &kept->newer->older : &sheets->newest) = kept->older;
    *(kept->older != NULL ? &kept->older->newer : &sheets->oldest) = kept->newer;
}

static void link_newest(struct sheets *sheets, struct kept *kept)
{
    kept->newer = NULL;
    kept->older = sheets->newest;
    *(sheets->newest != NULL ? &sheets->newest->newer : &sheets->oldest) = kept;
    sheets->newest = kept;
}

static void drop(struct sheets *sheets, struct kept *kept)
{
    unlink_age(sheets, kept);
    sheets->count--;
    give_up(sheets, kept);
}

/* Drops the oldest that nobody uses until so many bytes and one more sheet have room, or there are no more. */
static void make_room(struct sheets *sheets, uint64_t size)
{
    for (struct kept *kept = sheets->oldest, *newer; kept != NULL; kept = newer) {
        newer = kept->newer;
        if (sheets->bytes + size <= SPD_SHEETS_BYTES && sheets->count < SPD_MAX_SHEETS)
            return;
        if (kept->users == 1)
            drop(sheets, kept);
    }
}

static struct kept *find(struct sheets *sheets, const struct sheet_of *of)
{
    struct kept *kept = sheets->newest;
    while (kept != NULL && (kept->attempt != of->attempt || kept->sheet.plan_size != of->plan_size ||
                            strcmp(kept->plan, of->plan) != 0))
        kept = kept->older;
    if (kept != NULL) {
        kept->users++;
        unlink_age(sheets, kept);
        link_newest(sheets, kept);
    }
    return kept;
}

/* ---- reading ---- */

/* Counts the bytes of a sheet that is to be read. */
static bool reserve(struct sheets *sheets, uint64_t size, struct problem *problem)
{
    (void)pthread_mutex_lock(&sheets->mutex);
    make_room(sheets, size);
    const uint64_t held = sheets->bytes + size;
    const bool fits = held <= SPD_SHEETS_BYTES || sheets->bytes == 0;
    sheets->bytes += fits ? size : 0;
    (void)pthread_mutex_unlock(&sheets->mutex);
    return fits || problem_set_limit(problem, 503, "BUSY", "SPD_SHEETS_BYTES", SPD_SHEETS_BYTES, (int64_t)held,
                                     "Too many large plans are looked at in this moment; try again later.");
}

static void release(struct sheets *sheets, struct kept *kept)
{
    (void)pthread_mutex_lock(&sheets->mutex);
    give_up(sheets, kept);
    if (sheets->bytes > SPD_SHEETS_BYTES) /* one that is larger than all may be */
        make_room(sheets, 0);
    (void)pthread_mutex_unlock(&sheets->mutex);
}

/* Puts it into the list, unless another thread was faster; then that thread's. */
static struct kept *keep(struct sheets *sheets, struct kept *kept, const struct sheet_of *of)
{
    (void)pthread_mutex_lock(&sheets->mutex);
    struct kept *there = find(sheets, of);
    if (there != NULL) {
        give_up(sheets, kept);
        kept = there;
    } else {
        kept->users++;
        sheets->count++;
        link_newest(sheets, kept);
    }
    (void)pthread_mutex_unlock(&sheets->mutex);
    return kept;
}

/* Reads and checks the file; the sheet's size is counted already, and its only user is the caller. */
static enum sheet_found load(struct kept *kept, int fd, const struct sheet_of *of, struct problem *problem)
{
    struct sp_error err = {0};
    kept->bytes = malloc(kept->size > 0 ? (size_t)kept->size : 1);
    if (kept->bytes == NULL) {
        (void)problem_no_memory(problem);
        return SHEET_REFUSED;
    }
    if (!files_read_at(fd, 0, kept->bytes, (size_t)kept->size)) {
        (void)problem_from_errno(problem, errno, "Reading the plan");
        return SHEET_REFUSED;
    }
    if (sp_index_open(kept->bytes, kept->size, &kept->sheet, &err) == SP_OK && kept->sheet.plan_size == of->plan_size)
        return SHEET_OPEN;
    LOG(LOG_WARNING, "stored sheet damaged or of another version", log_s("plan", of->plan),
        log_s("detail", err.message));
    return SHEET_MISSING;
}

static enum sheet_found read_file(struct sheets *sheets, const struct sheet_of *of, int fd, uint64_t size,
                                  const struct sp_index **ret_sheet, struct problem *problem)
{
    struct kept *kept = calloc(1, sizeof *kept);
    if (kept == NULL) {
        (void)problem_no_memory(problem);
        return SHEET_REFUSED;
    }
    if (!reserve(sheets, size, problem)) {
        free(kept);
        return SHEET_REFUSED;
    }
    kept->size = size;
    kept->attempt = of->attempt;
    kept->users = 1;
    (void)snprintf(kept->plan, sizeof kept->plan, "%s", of->plan);
    const enum sheet_found found = load(kept, fd, of, problem);
    if (found == SHEET_OPEN)
        *ret_sheet = &keep(sheets, kept, of)->sheet;
    else
        release(sheets, kept);
    return found;
}

enum sheet_found sheets_open(struct sheets *sheets, const struct sheet_of *of, const char *path,
                             const struct sp_index **ret_sheet, struct problem *problem)
{
    uint64_t size = 0;
    (void)pthread_mutex_lock(&sheets->mutex);
    struct kept *kept = find(sheets, of);
    (void)pthread_mutex_unlock(&sheets->mutex);
    if (kept != NULL) {
        *ret_sheet = &kept->sheet;
        return SHEET_OPEN;
    }
    const int fd = files_open_read(path, &size);
    if (fd < 0 && errno == ENOENT)
        return SHEET_MISSING;
    if (fd < 0) {
        (void)problem_of_stored(problem, errno, "PLAN_DAMAGED", "the stored plan");
        return SHEET_REFUSED;
    }
    const enum sheet_found found = read_file(sheets, of, fd, size, ret_sheet, problem);
    (void)close(fd);
    return found;
}

void sheets_release(struct sheets *sheets, const struct sp_index *sheet)
{
    if (sheet != NULL)
        release(sheets, (struct kept *)(uintptr_t)sheet);
}

void sheets_forget(struct sheets *sheets, const char *plan)
{
    if (plan == NULL)
        return;
    (void)pthread_mutex_lock(&sheets->mutex);
    for (struct kept *kept = sheets->newest, *older; kept != NULL; kept = older) {
        older = kept->older;
        if (strcmp(kept->plan, plan) == 0)
            drop(sheets, kept);
    }
    (void)pthread_mutex_unlock(&sheets->mutex);
}

void sheets_destroy(struct sheets *sheets)
{
    if (sheets == NULL)
        return;
    for (struct kept *kept = sheets->newest, *older; kept != NULL; kept = older) {
        older = kept->older;
        give_up(sheets, kept);
    }
    (void)pthread_mutex_destroy(&sheets->mutex);
    free(sheets);
}
