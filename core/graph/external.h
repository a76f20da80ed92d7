#pragma once
/*
 * external - whether the files that a model's weights lie in are there, and long enough.
 */
#include "base/error.h"
#include "graph/model.h"

/* Which sizes files have, by their location; -1 where there is none. */
struct sp_external_files {
    int64_t (*size_of)(void *context, const char *location);
    void *context;
};

/* Of the initializers: *ret_has whether any lies in another file, *ret_missing the location of the first file that is
   not there, or NULL. SP_ERR_MODEL "EXTERNAL_DATA_SHORT" for a file that ends before a weight does. */
enum sp_status sp_external_look(const struct sp_model *model, const struct sp_external_files *files, bool *ret_has,
                                const char **ret_missing, struct sp_error *err);
