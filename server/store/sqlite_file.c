/*
 * The file of the database, which may go while it is open: somebody renames it, removes it or puts another one in its
 * place, or its disk is unmounted and mounted again. SQLite would go on writing into the file that it has, which nobody
 * finds again. So each call first sees whether the paths still name what is open.
 *
 * While nothing is there, calls fail. When something is, it is opened: the same file after it was mounted anew, a
 * backup that was put back. Before that, what the log of the old connection has is written into the old database and
 * the log emptied: it may be the very file that the new database would take for its own. That also mends a log that was
 * removed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "observe/log.h"
#include "server.h"
#include "server_limits.h"
#include "store/folder.h"
#include "store/sqlite.h"
#include "util/times.h"

bool sqlite_name_files(struct sqlite_store *store, const char *path)
{
    store->file.path = strdup(path);
    if (asprintf(&store->log.path, "%s-wal", path) < 0)
        store->log.path = NULL;
    return store->file.path != NULL && store->log.path != NULL;
}

void sqlite_forget_files(struct sqlite_store *store)
{
    free(store->file.path);
    free(store->log.path);
}

static bool is_there(const struct sqlite_file *file)
{
    struct stat info;
    return stat(file->path, &info) == 0 && info.st_dev == file->device && info.st_ino == file->number;
}

/* Closes the old connection, leaving its files where they are. False when the log keeps what would not be the next
   database's. */
static bool let_go(struct sqlite_store *store)
{
    int keep = 1;
    if (store->db == NULL)
        return true;
    bool emptied = sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK;
    if (!emptied && is_there(&store->log))
        return false;
    (void)sqlite3_file_control(store->db, NULL, SQLITE_FCNTL_PERSIST_WAL, &keep);
    sqlite_disconnect(store);
    return true;
}

/* Another file is there, or no connection is open any more. */
static bool open_again(struct sqlite_store *store, struct problem *problem)
{
    if (store->folder != NULL && !folder_look(store->folder, problem))
        return false;
    if (!let_go(store))
        return problem_set(problem, 503, "STORE_REPLACED",
                           "Another database lies beside the log of the one before; restore that, or stop the service "
                           "and remove the log.");
    store->away = false; /* for what opens it */
    bool ok = sqlite_connect(store, false, problem);
    int64_t reclaimed = ok ? sqlite_reclaim_all(store) : 0;
    if (ok && reclaimed < 0) {
        ok = problem_set(problem, 503, "STORE_ERROR", "The plans of the store could not be looked through.");
        sqlite_disconnect(store);
    }
    store->away = !ok;
    if (ok)
        LOG(LOG_WARNING, "database opened again", log_i("requeued", reclaimed));
    return ok;
}

static void attend(struct sqlite_store *store)
{
    bool same = store->db != NULL && is_there(&store->file) && is_there(&store->log);
    struct stat info;
    if (same && store->away)
        LOG(LOG_INFO, "database is back");
    if (same) {
        store->away = false;
        store->retry_ms = 0;
        return;
    }
    struct problem problem = {0};
    bool exists = stat(store->file.path, &info) == 0, opened = false;
    if (!exists)
        (void)problem_set(&problem, 503, "STORE_AWAY",
                          "The database of the data folder is not there at the moment: %s.", strerrordesc_np(errno));
    else if (server_now_ms() < store->retry_ms)
        return;
    else
        opened = open_again(store, &problem);
    if (exists)
        store->retry_ms = opened ? 0 : server_now_ms() + SPD_STORE_RETRY_MS;
    if (problem.status == 500)
        problem.status = 503; /* while the daemon runs it may be mended */
    if (!opened && strcmp(store->why.code, problem.code) != 0)
        LOG(LOG_ERROR, "database not usable", log_s("code", problem.code), log_s("detail", problem.detail));
    store->away = !opened;
    store->why = problem;
    if (opened)
        store_tell_of(&store->base, NULL);
}

struct sqlite_store *sqlite_lock(struct store *store)
{
    struct sqlite_store *sqlite = (struct sqlite_store *)store;
    (void)pthread_mutex_lock(&sqlite->mutex);
    attend(sqlite);
    return sqlite;
}

void sqlite_unlock(struct sqlite_store *store)
{
    (void)pthread_mutex_unlock(&store->mutex);
}

int64_t sqlite_reclaim_all(struct sqlite_store *store)
{
    int64_t total = 0;
    bool ok = sqlite_begin_transaction(store, "recovering", NULL);
    if (ok) {
        sqlite3_stmt *statement = sqlite_begin(
            store, "UPDATE plans SET state = 'cancelled', finished_at = ?1, owner = '' WHERE state = 'running' AND "
                   "cancel_requested = 1");
        sqlite_int(statement, 1, times_now());
        int cancelled = sqlite_run(store, statement, "recovering", NULL);
        statement = sqlite_begin(store, "UPDATE plans SET state = 'failed', finished_at = ?1, error = ?3, owner = '' "
                                        "WHERE state = 'running' AND attempts >= ?2");
        sqlite_int(statement, 1, times_now());
        sqlite_int(statement, 2, SPD_MAX_ATTEMPTS);
        sqlite_text(statement, 3, STORE_INTERRUPTED);
        int failed = sqlite_run(store, statement, "recovering", NULL);
        int queued = sqlite_run(
            store, sqlite_begin(store, "UPDATE plans SET state = 'queued', owner = '' WHERE state = 'running'"),
            "recovering", NULL);
        ok = sqlite_commit(store, cancelled >= 0 && failed >= 0 && queued >= 0, "recovering", NULL);
        total = (int64_t)cancelled + failed + queued;
    }
    return ok ? total : -1;
}
