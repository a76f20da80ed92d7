#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "http/coding.h"
#include "server_limits.h"

/* One coding that is taken off. */
struct stage {
    enum coding coding;
    ZSTD_DStream *zstd;
    z_stream gzip;
    bool gzip_ready;

    const unsigned char *in; /* what is still to be decoded */
    size_t left;
    bool full;    /* the last output filled the block: there may be more without input */
    bool at_end;  /* of a frame or member: the body may end here */
    bool started; /* there was a frame at all */
    unsigned char *block;
    uint64_t made; /* bytes that came out */
};

struct decoder {
    unsigned count;
    struct stage stages[SPD_MAX_CODINGS];
    uint64_t received, max_bytes;
    const char *limit;
};

/* ---- which codings ---- */

static bool same_word(const char *text, size_t size, const char *word)
{
    return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

static enum coding coding_of(const char *text, size_t size)
{
    return same_word(text, size, "zstd")                                      ? CODING_ZSTD
           : same_word(text, size, "gzip") || same_word(text, size, "x-gzip") ? CODING_GZIP
                                                                              : CODING_NONE;
}

static bool not_known(const char *header, struct problem *problem)
{
    return problem_set(
        problem, 415, "UNSUPPORTED_CONTENT_ENCODING",
        "Content-Encoding '%.64s' is not accepted; send the body as it is, or as zstd or gzip, at most %d "
        "of them.",
        header, SPD_MAX_CODINGS);
}

/* The codings in the order in which they were applied. */
static bool read_codings(const char *header, struct decoder *decoder, struct problem *problem)
{
    for (const char *at = header; *at != '\0';) {
        at += strspn(at, " \t,");
        size_t size = strcspn(at, " \t,");
        if (size > 0 && !same_word(at, size, "identity")) {
            enum coding coding = coding_of(at, size);
            if (coding == CODING_NONE || decoder->count == SPD_MAX_CODINGS)
                return not_known(header, problem);
            decoder->stages[decoder->count++].coding = coding;
        }
        at += size;
    }
    return true;
}

/* ---- making ---- */

static bool open_stage(struct stage *stage)
{
    stage->block = malloc(SPD_CODING_BLOCK);
    if (stage->block == NULL)
        return false;
    if (stage->coding == CODING_GZIP) {
        stage->gzip_ready = inflateInit2(&stage->gzip, 16 + MAX_WBITS) == Z_OK; /* 16: gzip's header and checksum */
        return stage->gzip_ready;
    }
    stage->zstd = ZSTD_createDStream();
    return stage->zstd != NULL &&
           !ZSTD_isError(ZSTD_DCtx_setParameter(stage->zstd, ZSTD_d_windowLogMax, SPD_WINDOW_LOG));
}

bool decoder_create(const char *content_encoding, uint64_t max_bytes, const char *limit, struct decoder **ret_decoder,
                    struct problem *problem)
{
    struct decoder read = {.max_bytes = max_bytes, .limit = limit};
    *ret_decoder = NULL;
    if (content_encoding == NULL || !read_codings(content_encoding, &read, problem) || read.count == 0)
        return problem->status == 0;
    struct decoder *decoder = malloc(sizeof *decoder);
    if (decoder == NULL)
        return problem_no_memory(problem);
    *decoder = read;
    bool ok = true;
    for (unsigned i = 0; ok && i < decoder->count; i++)
        ok = open_stage(&decoder->stages[i]);
    if (ok) {
        *ret_decoder = decoder;
        return true;
    }
    decoder_destroy(decoder);
    return problem_no_memory(problem);
}

void decoder_destroy(struct decoder *decoder)
{
    if (decoder == NULL)
        return;
    for (unsigned i = 0; i < decoder->count; i++) {
        struct stage *stage = &decoder->stages[i];
        (void)ZSTD_freeDStream(stage->zstd);
        if (stage->gzip_ready)
            (void)inflateEnd(&stage->gzip);
        free(stage->block);
    }
    free(decoder);
}

/* ---- decoding ---- */

static bool broken(const struct stage *stage, const char *why, struct problem *problem)
{
    return problem_set(problem, 400, "MALFORMED_CONTENT_ENCODING", "The body is not valid %s: %s.",
                       coding_name(stage->coding), why);
}

static bool step_zstd(struct stage *stage, size_t *ret_made, struct problem *problem)
{
    ZSTD_inBuffer in = {stage->in, stage->left, 0};
    ZSTD_outBuffer out = {stage->block, SPD_CODING_BLOCK, 0};
    size_t result = ZSTD_decompressStream(stage->zstd, &out, &in);
    if (ZSTD_isError(result) && ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge)
        return problem_set_limit(problem, 413, "WINDOW_TOO_LARGE", "SPD_WINDOW_LOG", SPD_WINDOW_LOG, SPD_WINDOW_LOG + 1,
                                 "The zstd frame needs a window of more than %d MiB, which RFC 9659 rules out for "
                                 "HTTP; compress without --long and --ultra.",
                                 1 << (SPD_WINDOW_LOG - 20));
    if (ZSTD_isError(result) && ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
        return problem_no_memory(problem); /* the window comes with the first frame */
    if (ZSTD_isError(result))
        return broken(stage, ZSTD_getErrorName(result), problem);
    stage->started = stage->started || in.pos > 0;
    stage->at_end = result == 0;
    stage->in += in.pos;
    stage->left -= in.pos;
    stage->full = result != 0 && out.pos == out.size;
    *ret_made = out.pos;
    return true;
}

/* A file of gzip has members one behind the other. */
static bool step_gzip(struct stage *stage, size_t *ret_made, struct problem *problem)
{
    z_stream *gzip = &stage->gzip;
    if (stage->at_end && stage->left > 0 && inflateReset(gzip) != Z_OK)
        return problem_set(problem, 500, "INTERNAL", "The body could not be decoded.");
    unsigned piece = stage->left < UINT32_MAX ? (unsigned)stage->left : UINT32_MAX;
    gzip->next_in = stage->in;
    gzip->avail_in = piece;
    gzip->next_out = stage->block;
    gzip->avail_out = SPD_CODING_BLOCK;
    int result = inflate(gzip, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR)
        return problem_no_memory(problem);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        return broken(stage, gzip->msg != NULL ? gzip->msg : "it is damaged", problem);
    stage->started = stage->started || gzip->avail_in < piece;
    stage->in += piece - gzip->avail_in;
    stage->left -= piece - gzip->avail_in;
    stage->at_end = result == Z_STREAM_END;
    stage->full = !stage->at_end && gzip->avail_out == 0;
    *ret_made = SPD_CODING_BLOCK - gzip->avail_out;
    return true;
}

/* What comes out between two codings is work, too, though nobody keeps it: every stage is held to the ratio. */
static bool count(struct decoder *decoder, struct stage *stage, size_t made, struct problem *problem)
{
    bool is_body = stage == decoder->stages;
    stage->made += made;
    if (is_body && stage->made > decoder->max_bytes)
        return problem_set_limit(
            problem, 413, "DECOMPRESSED_TOO_LARGE", decoder->limit, (int64_t)decoder->max_bytes, (int64_t)stage->made,
            "The decompressed body is larger than the %" PRIu64 " bytes that are accepted here.", decoder->max_bytes);
    if (stage->made > SPD_RATIO_FREE_BYTES && stage->made > decoder->received * SPD_MAX_RATIO)
        return problem_set_limit(problem, 413, "DECOMPRESSED_TOO_LARGE", "SPD_MAX_RATIO", SPD_MAX_RATIO,
                                 (int64_t)(stage->made / (decoder->received + 1)),
                                 "The body grows to more than %d times its size when it is decompressed; send it "
                                 "uncompressed.",
                                 SPD_MAX_RATIO);
    return true;
}

/* The stage that has to go on: the one nearest to the end of the chain, so that none gets more before it has taken
   what it has. */
static struct stage *next_stage(struct decoder *decoder)
{
    for (unsigned i = 0; i < decoder->count; i++) {
        if (decoder->stages[i].left > 0 || decoder->stages[i].full)
            return &decoder->stages[i];
    }
    return NULL;
}

bool decoder_push(struct decoder *decoder, const void *bytes, size_t size,
                  bool (*take)(void *context, const void *bytes, size_t size, struct problem *problem), void *context,
                  struct problem *problem)
{
    /* What was applied last is taken off first, so the chain goes from the last stage to the first. */
    struct stage *stage = &decoder->stages[decoder->count - 1];
    stage->in = bytes;
    stage->left = size;
    decoder->received += size;
    while ((stage = next_stage(decoder)) != NULL) {
        size_t made = 0;
        if (!(stage->coding == CODING_ZSTD ? step_zstd : step_gzip)(stage, &made, problem))
            return false;
        if (made == 0)
            continue;
        if (!count(decoder, stage, made, problem))
            return false;
        if (stage != decoder->stages) {
            stage[-1].in = stage->block;
            stage[-1].left = made;
        } else if (!take(context, stage->block, made, problem)) {
            return false;
        }
    }
    return true;
}

bool decoder_finish(const struct decoder *decoder, struct problem *problem)
{
    for (unsigned i = decoder->count; i-- > 0;) {
        const struct stage *stage = &decoder->stages[i];
        if (!stage->started || !stage->at_end)
            return broken(stage, "it ends too early", problem);
    }
    return true;
}
