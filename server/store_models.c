#include <stdlib.h>
#include <string.h>

#include "store_sqlite.h"

bool store_add_model(struct store *store, const char *id, const char *name, int64_t bytes, struct problem *problem)
{
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement = store_prepare(
        store, "INSERT INTO models (id, name, bytes, created_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO NOTHING");
    if (statement != NULL) {
        store_bind(statement, 1, id);
        store_bind(statement, 2, name);
        (void)sqlite3_bind_int64(statement, 3, bytes);
        (void)sqlite3_bind_int64(statement, 4, store_now());
    }
    bool ok = store_run(store, statement, "adding a model", problem);
    (void)pthread_mutex_unlock(&store->mutex);
    return ok;
}

bool store_has_model(struct store *store, const char *id)
{
    return store_exists(store, "SELECT 1 FROM models WHERE id = ?1", id);
}

static bool read_row(sqlite3_stmt *statement, struct model_row *row)
{
    memset(row, 0, sizeof *row);
    const char *id = (const char *)sqlite3_column_text(statement, 1);
    const char *name = (const char *)sqlite3_column_text(statement, 2);
    row->seq = sqlite3_column_int64(statement, 0);
    (void)snprintf(row->id, sizeof row->id, "%s", id != NULL ? id : "");
    row->name = strdup(name != NULL ? name : "");
    row->bytes = sqlite3_column_int64(statement, 3);
    row->created_at = sqlite3_column_int64(statement, 4);
    return row->name != NULL;
}

bool store_get_model(struct store *store, const char *id, struct model_row *ret_row)
{
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement = store_prepare(store, "SELECT seq, id, name, bytes, created_at FROM models WHERE id = ?1");
    if (statement != NULL)
        store_bind(statement, 1, id);
    bool found = statement != NULL && sqlite3_step(statement) == SQLITE_ROW && read_row(statement, ret_row);
    (void)sqlite3_finalize(statement);
    (void)pthread_mutex_unlock(&store->mutex);
    return found;
}

void store_release_model(struct model_row *row)
{
    free(row->name);
    row->name = NULL;
}

bool store_list_models(struct store *store, int64_t before, int limit,
                       void (*each)(void *context, const struct model_row *row), void *context)
{
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement = store_prepare(
        store, "SELECT seq, id, name, bytes, created_at FROM models WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2");
    int step = SQLITE_ERROR;
    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, before);
        (void)sqlite3_bind_int(statement, 2, limit);
        while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
            struct model_row row;
            if (read_row(statement, &row))
                each(context, &row);
            store_release_model(&row);
        }
    }
    (void)sqlite3_finalize(statement);
    (void)pthread_mutex_unlock(&store->mutex);
    return step == SQLITE_DONE;
}

enum store_found store_delete_model(struct store *store, const char *id)
{
    enum store_found found = STORE_ERROR;
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement = store_prepare(store, "DELETE FROM models WHERE id = ?1");
    if (statement != NULL) {
        store_bind(statement, 1, id);
        int step = sqlite3_step(statement);
        if (step == SQLITE_DONE)
            found = sqlite3_changes(store->db) > 0 ? STORE_DONE : STORE_NOT_FOUND;
        else if ((step & 0xff) == SQLITE_CONSTRAINT)
            found = STORE_IN_USE;
        else
            (void)store_fail(store, "deleting a model", NULL);
    }
    (void)sqlite3_finalize(statement);
    (void)pthread_mutex_unlock(&store->mutex);
    return found;
}
