#pragma once
/* send - stored files as answers, checked as they are sent (store/integrity/stored.h). */
#include "http/respond.h"
#include "store/integrity/stored.h"

struct stream send_stream(struct stored_file *file); /* whose release closes it */

/* A file that is not stored yet. False with errno. */
bool send_open(const char *path, struct stream *ret_stream);

/* As respond_stream(): the file is closed in any case. Where it proves to be wrong on the way, the answer breaks off. */
enum verdict send_stored(struct request *request, int status, const char *type, struct stored_file *file,
                         const char *etag);
