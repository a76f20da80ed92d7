/* Which numbers of files count; see store.h. */
#include "store/sqlite.h"

bool sqlite_reserve(struct store *base, const char *id, int64_t *ret_number, struct problem *problem)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(store, "INSERT INTO reservations (model, owner) VALUES (?1, ?2)");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, base->owner);
    const bool ok = sqlite_run(store, statement, "giving a number", problem) >= 0;
    if (ok)
        *ret_number = sqlite3_last_insert_rowid(store->db);
    sqlite_unlock(store);
    return ok;
}

static int end_reservation(struct sqlite_store *store, int64_t number, const char *owner, struct problem *problem)
{
    sqlite3_stmt *statement =
        sqlite_begin(store, "DELETE FROM reservations WHERE number = ?1 AND (?2 IS NULL OR owner = ?2)");
    sqlite_int(statement, 1, number);
    sqlite_text(statement, 2, owner);
    return sqlite_run(store, statement, "ending a reservation", problem);
}

int sqlite_end_reservation(struct sqlite_store *store, int64_t number, struct problem *problem)
{
    return end_reservation(store, number, store->base.owner, problem);
}

bool sqlite_unreserve(struct store *base, int64_t number)
{
    struct sqlite_store *store = sqlite_lock(base);
    const bool ok = end_reservation(store, number, NULL, NULL) >= 0;
    sqlite_unlock(store);
    return ok;
}

/* -1 when the store does not say. */
static int64_t count_names(struct sqlite_store *store, const char *sql, const char *id, int64_t number)
{
    sqlite3_stmt *statement = sqlite_begin(store, sql);
    sqlite_text(statement, 1, id);
    sqlite_int(statement, 2, number);
    const int64_t count = sqlite_row(store, statement, "looking for a file's row") == STORE_DONE
                              ? sqlite3_column_int64(statement, 0)
                              : -1;
    sqlite_end(statement);
    return count;
}

enum store_found sqlite_names(struct store *base, const char *id, int64_t number, enum store_file file)
{
    char blob[STORE_BLOB_SIZE];
    struct sqlite_store *store = sqlite_lock(base);
    const int64_t reserved =
        count_names(store, "SELECT count(*) FROM reservations WHERE model = ?1 AND number = ?2", id, number);
    const int64_t rows =
        file == FILE_BLOB
            ? count_names(store, "SELECT count(*) FROM models WHERE id = ?1 AND blob = ?2", id, number)
            : count_names(store, "SELECT count(*) FROM models WHERE id = ?1 AND inspection = ?2", id, number);
    store_blob_name(id, number, blob);
    const int64_t beside =
        file == FILE_BLOB ? sqlite_number(store, "SELECT count(*) FROM files WHERE blob = ?1", blob, NULL) : 0;
    sqlite_unlock(store);
    return reserved < 0 || rows < 0 || beside < 0 ? STORE_ERROR
           : reserved + rows + beside > 0         ? STORE_DONE
                                                  : STORE_NOT_FOUND;
}

/* One daemon at a time has the store. */
bool sqlite_end_reservations(struct store *base)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(store, "DELETE FROM reservations WHERE owner <> ?1");
    sqlite_text(statement, 1, base->owner);
    const bool ok = sqlite_run(store, statement, "ending reservations", NULL) >= 0;
    sqlite_unlock(store);
    return ok;
}

enum store_added sqlite_take_number(struct sqlite_store *store, const struct model_row *row, bool replaces,
                                    int64_t *ret_blob, struct problem *problem)
{
    const int ended = end_reservation(store, row->number, store->base.owner, problem);
    if (ended <= 0)
        return ended < 0 ? STORE_FAILED : store_overtaken(problem);
    const int64_t known =
        sqlite_number(store, "SELECT coalesce(max(blob), -1) FROM models WHERE id = ?1", row->id, NULL);
    *ret_blob = replaces || known < 0 ? row->number : known;
    if (!replaces || known < 0)
        return STORE_ADDED;
    sqlite3_stmt *statement = sqlite_begin(store, "UPDATE models SET blob = ?2 WHERE id = ?1");
    sqlite_text(statement, 1, row->id);
    sqlite_int(statement, 2, row->number);
    return sqlite_run(store, statement, "replacing a blob", problem) >= 0 ? STORE_ADDED : STORE_FAILED;
}
