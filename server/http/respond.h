#pragma once
/*
 * respond - how answers are made. Each function queues exactly one response and returns the verdict to hand on.
 */
#include "http/request.h"

/* A body that is read piece by piece, at any offset. */
struct stream {
    uint64_t size;
    bool (*read)(void *context, uint64_t offset, void *bytes, size_t size); /* exactly `size` bytes, or false */
    void (*release)(void *context);
    void *context;
    const char *bytes; /* all of it, where it is in memory until the release; else NULL */
};

/* Text in `buf`, which is released (even on failure). A buffer that failed is answered with 503. Compressed as
   respond_stream() does. */
enum verdict respond_buf(struct request *request, int status, const char *type, struct sp_buf *buf);

/* A short constant text. */
enum verdict respond_text(struct request *request, int status, const char *type, const char *text);

/* An answer without a body (204, 304). */
enum verdict respond_empty(struct request *request, int status);

/*
 * The stream, which is released in any case. With an etag (a strong one, without quotes) preconditions and a single
 * Range are honoured, and the answer may be 304, 412, 206 or 416; request->modified, when it is set, is told and may be
 * asked for, too. Where it pays the answer is compressed as Accept-Encoding wants; its ETag then ends in the coding.
 */
enum verdict respond_stream(struct request *request, int status, const char *type, const struct stream *stream,
                            const char *etag);

/* An open file, which is closed in any case. */
enum verdict respond_file(struct request *request, int status, const char *type, int fd, uint64_t size,
                          const char *etag);

/* Text in memory, as respond_buf(), with an etag, or NULL, as respond_stream(). */
enum verdict respond_tagged(struct request *request, int status, const char *type, struct sp_buf *buf,
                            const char *etag);

/* Text in memory that is the same until the program is another one: its ETag is made of its bytes. */
enum verdict respond_fixed(struct request *request, const char *type, struct sp_buf *buf);
/* A table of the library, or the entry of it that is called `name` (NULL: all), as text where the client wants that, else
   as JSON. */
enum verdict respond_table(struct request *request, const char *name,
                           enum sp_status (*write_text)(const char *name, struct sp_buf *buf, struct sp_error *err),
                           enum sp_status (*write_json)(const char *name, struct sp_json *json, struct sp_error *err));

/* 304 where the client says that it has the answer with this ETag, before that is made; else VERDICT_GO_ON. */
enum verdict respond_if_known(struct request *request, const char *type, const char *etag);

/* Bytes of the program itself, as they are and compressed. */
struct fixed {
    const void *bytes, *gzip;
    size_t size, gzip_size; /* gzip_size 0: it does not pay */
    const char *etag;       /* without quotes */
};

/* One of them with preconditions as respond_stream(), but no ranges. Vary is up to the caller. */
enum verdict respond_program(struct request *request, const char *type, const struct fixed *fixed);

/* application/problem+json. 503 and 429 get Retry-After. */
enum verdict respond_problem(struct request *request, const struct problem *problem);

/* The same from its parts. */
__attribute__((format(printf, 4, 5))) enum verdict respond_error(struct request *request, int status, const char *code,
                                                                 const char *format, ...);

/*
 * Refuses a request in the middle of its body, where the HTTP library can no longer queue an answer: writes a complete
 * small response to the socket itself and has the connection closed.
 */
enum verdict respond_raw(struct request *request, const struct problem *problem);

/* What all of them end with: the headers of the request and those that every answer has. Takes the response. */
enum verdict respond_with(struct request *request, int status, const char *type, struct MHD_Response *response);
