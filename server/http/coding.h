#pragma once
/*
 * coding - Content-Encoding of requests, Accept-Encoding of answers: zstd and gzip.
 *
 * Requests. A decoder sits between the socket and whatever takes the body, so that what is kept never is larger than it
 * may be: its output has an absolute limit, and beyond SPD_RATIO_FREE_BYTES at most SPD_MAX_RATIO times its input, so
 * that a small body cannot fill a disk, nor, by what comes out between two codings, keep a thread busy. Its memory is a
 * block of output and the window of each coding, which zstd frames may not choose larger than SPD_WINDOW_LOG (RFC
 * 9659). Several codings may be applied one after the other.
 *
 * Answers. An encoder sits between a stream and the socket.
 *
 * Each holds megabytes, so requests are charged for them (net/accounts.h): SPD_MAX_DECODERS are shared, and who has no
 * share left is refused; of SPD_MAX_ENCODERS, whose answers then go out as they are.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/problem.h"

/* What a request or an answer may be coded as. */
enum coding { CODING_NONE, CODING_ZSTD, CODING_GZIP };

#define CODING_ACCEPTED "zstd, gzip" /* for Accept-Encoding of a 415 */

/* ---- requests ---- */

struct decoder;

/*
 * A decoder for this Content-Encoding, NULL in *ret_decoder when there is nothing to decode. At most `max_bytes` come
 * out, which the setting or limit `limit` (static) says. False with a problem: 415 for codings that are not known, 503.
 */
bool decoder_create(const char *content_encoding, uint64_t max_bytes, const char *limit, struct decoder **ret_decoder,
                    struct problem *problem);

/* Decodes a piece and hands on what comes out of it, in blocks. False with a problem, perhaps that of `take`. */
bool decoder_push(struct decoder *decoder, const void *bytes, size_t size,
                  bool (*take)(void *context, const void *bytes, size_t size, struct problem *problem), void *context,
                  struct problem *problem);

/* The body has ended; false when it was broken off. */
bool decoder_finish(const struct decoder *decoder, struct problem *problem);

void decoder_destroy(struct decoder *decoder); /* NULL is allowed */

/* ---- answers ---- */

/* Which coding an Accept-Encoding (NULL: none given) wants most; zstd of two that it wants alike. */
enum coding coding_wanted(const char *accept_encoding);

/* Whether it takes gzip, and would not rather have the answer as it is: for what is there in no other coding. */
bool coding_takes_gzip(const char *accept_encoding);

/* Whether it pays for this media type: not for models, most of which are weights. */
bool coding_pays(const char *type);

const char *coding_name(enum coding coding); /* "zstd", "gzip" */

struct encoder;

/* NULL without memory: then the answer is sent as it is. */
struct encoder *encoder_create(enum coding coding);

/* One step of coding: takes from `in` and writes to `out`, and says how much of both. */
struct coding_step {
    const void *in;
    void *out;
    size_t in_size, out_size;
    bool last;             /* there is nothing after this input */
    bool ended;            /* with `last`: everything was written */
    size_t taken, written; /* bytes */
};

/* Codes more; false when the library fails. */
bool encoder_step(struct encoder *encoder, struct coding_step *step);

void encoder_destroy(struct encoder *encoder);
