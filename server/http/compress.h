#pragma once
/*
 * compress - which answers are compressed on their way out, and texts in memory at once; streams are in stream.c.
 */
#include "http/coding.h"
#include "http/request.h"

/* How an answer of this type and size goes out. Adds Vary where that depends on the request. */
enum coding compress_coding(struct request *request, const char *type, uint64_t size);

/* Compresses a text in memory and adds Content-Encoding; leaves it as it is where that fails or does not pay. */
void compress_buf(struct request *request, enum coding coding, struct sp_buf *buf);
