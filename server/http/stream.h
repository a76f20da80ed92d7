#pragma once
/*
 * stream - answers that are compressed on their way out; see respond_stream() in respond.h for the rest.
 */
#include "http/coding.h"
#include "http/request.h"

/* How an answer of this type and size goes out. Adds Vary where that depends on the request. */
enum coding stream_coding(struct request *request, const char *type, uint64_t size);

/* Compresses a text in memory and adds Content-Encoding; leaves it as it is where that fails or does not pay. */
void stream_code_buf(struct request *request, enum coding coding, struct sp_buf *buf);
