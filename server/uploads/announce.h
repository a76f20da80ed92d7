#pragma once
/* announce - the row of an upload by parts, before its first byte: what it counts, and where there is no place for it. */
#include "store/store.h"
#include "util/problem.h"

struct server;

/* row->tenant, row->bytes (above 0) and, where it is known, row->digest are the caller's; the id is random, and the upload
   expires after keep_ms. Takes its place in --max-store for as long as its row is not there. False with a problem: 413
   over --max-upload, 507, 429 over a quota, 503. */
bool announce_upload(struct server *server, struct upload_row *row, int64_t keep_ms, struct problem *problem);
