#pragma once
/*
 * fetching - one object of a source becomes a complete upload by parts (uploads/uploads.h).
 *
 * Its size is known and charged before the first byte, as that of an upload is; its hash is made while it comes. It has
 * SPD_FETCH_MS, and the time that its bytes take at SPD_FETCH_RATE. Calls wait for the network and the disk.
 */
#include "references/sources.h"
#include "store/store.h"
#include "util/problem.h"

struct server;

/* `url` names it in problems. ret_row->id is the upload's. False with a problem; then nothing is left of it. */
bool fetch_object(struct server *server, const char *tenant, const struct source *source, const char *url,
                  struct upload_row *ret_row, struct problem *problem);
