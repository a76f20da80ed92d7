#pragma once
/*
 * beside - the files beside a stored model, in which weights of it lie: what a tenant has of them, and removing a model
 * with them.
 *
 * They are blobs as models are (store/blobs.h), so that equal ones are kept once, and rows of the store say which model
 * of which tenant has which, under the location by which the model names it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

struct server;
struct upload;

struct beside {
    size_t count;
    struct beside_file {
        char *location, blob[STORE_BLOB_SIZE];
        int64_t bytes;
    } * files;
    bool failed; /* no memory */
};

/* Of a tenant's model (NULL: all tenants'). False with a problem; to be released in any case. */
bool beside_load(struct server *server, const char *tenant, const char *model, struct beside *ret_beside,
                 struct problem *problem);
void beside_release(struct beside *beside);

/* The file of a location, or NULL. */
const struct beside_file *beside_find(const struct beside *beside, const char *location);

/* Deletes a tenant's model (NULL: all tenants'), and of its files and those beside it what nobody else has. */
enum store_found beside_delete_model(struct server *server, const char *tenant, const char *id,
                                     struct problem *problem);

/* As ONNX has it: below the model's folder, so not absolute, and without a step upwards. */
bool beside_is_location(const char *location);

/* Moves a complete upload to its place, and adds the row that names it: row->blob begins with its SHA-256, row->upload is
   gone afterwards. STORE_ADDED, or as store_add_file() says. Where blobs are remote it waits for the network. */
enum store_added beside_place(struct server *server, struct upload *upload, struct file_row *row,
                              struct problem *problem);
