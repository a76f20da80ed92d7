#include <stdlib.h>
#include <string.h>
#include <strings.h>
#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#include "http/coding.h"
#include "server_limits.h"

struct encoder {
    enum coding coding;
    ZSTD_CStream *zstd;
    z_stream gzip;
    bool gzip_ready;
};

const char *coding_name(enum coding coding)
{
    return coding == CODING_ZSTD ? "zstd" : coding == CODING_GZIP ? "gzip" : "identity";
}

/* ---- which one ---- */

/* The q value behind a name, in thousandths; 1000 without one, 0 for one that cannot be read. */
static int quality(const char *text, size_t size)
{
    const char *end = text + size, *at = memchr(text, '=', size);
    int value = 0, scale = 1000;
    if (at == NULL)
        return 1000;
    for (at++; at < end && (*at == ' ' || *at == '\t'); at++)
        ;
    if (at == end || (*at != '0' && *at != '1'))
        return 0;
    value = (*at++ - '0') * 1000;
    for (at += at < end && *at == '.'; at < end && *at >= '0' && *at <= '9' && scale > 1; at++) {
        scale /= 10;
        value += (*at - '0') * scale;
    }
    return value > 1000 ? 1000 : value;
}

/* How much an Accept-Encoding wants what, in thousandths. */
struct wishes {
    int zstd, gzip, identity;
};

static struct wishes read_wishes(const char *accept_encoding)
{
    struct wishes wishes = {.zstd = -1, .gzip = -1};
    int any = 0;
    for (const char *at = accept_encoding; at != NULL && *at != '\0';) {
        at += strspn(at, " \t,");
        size_t size = strcspn(at, ","), name = strcspn(at, " \t,;");
        int value = quality(at + name, size - name);
        if (name == 4 && strncasecmp(at, "zstd", 4) == 0)
            wishes.zstd = value;
        else if ((name == 4 && strncasecmp(at, "gzip", 4) == 0) || (name == 6 && strncasecmp(at, "x-gzip", 6) == 0))
            wishes.gzip = value;
        else if (name == 8 && strncasecmp(at, "identity", 8) == 0)
            wishes.identity = value;
        else if (name == 1 && *at == '*')
            any = value;
        at += size;
    }
    wishes.zstd = wishes.zstd < 0 ? any : wishes.zstd;
    wishes.gzip = wishes.gzip < 0 ? any : wishes.gzip;
    return wishes;
}

enum coding coding_wanted(const char *accept_encoding)
{
    struct wishes wishes = read_wishes(accept_encoding);
    int best = wishes.zstd >= wishes.gzip ? wishes.zstd : wishes.gzip;
    if (best == 0 || best < wishes.identity)
        return CODING_NONE;
    return best == wishes.zstd ? CODING_ZSTD : CODING_GZIP;
}

bool coding_takes_gzip(const char *accept_encoding)
{
    struct wishes wishes = read_wishes(accept_encoding);
    return wishes.gzip > 0 && wishes.gzip >= wishes.identity;
}

bool coding_pays(const char *type)
{
    static const char *const types[] = {"application/json",       "application/jsonl", "application/yaml",
                                        "application/x-protobuf", "text/plain",        "text/csv"};
    size_t length = strcspn(type, "; ");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strlen(types[i]) == length && strncmp(type, types[i], length) == 0)
            return true;
    }
    return false;
}

/* ---- coding ---- */

struct encoder *encoder_create(enum coding coding)
{
    struct encoder *encoder = calloc(1, sizeof *encoder);
    if (encoder == NULL)
        return NULL;
    encoder->coding = coding;
    bool ok;
    if (coding == CODING_GZIP) {
        ok = encoder->gzip_ready =
            deflateInit2(&encoder->gzip, SPD_GZIP_LEVEL, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK;
    } else {
        encoder->zstd = ZSTD_createCStream();
        ok = encoder->zstd != NULL &&
             !ZSTD_isError(ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, SPD_ZSTD_LEVEL)) &&
             !ZSTD_isError(ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_checksumFlag, 1));
    }
    if (ok)
        return encoder;
    encoder_destroy(encoder);
    return NULL;
}

static bool step_gzip(z_stream *gzip, struct coding_step *step)
{
    unsigned given = step->in_size < UINT32_MAX ? (unsigned)step->in_size : UINT32_MAX;
    unsigned room = step->out_size < UINT32_MAX ? (unsigned)step->out_size : UINT32_MAX;
    gzip->next_in = step->in;
    gzip->avail_in = given;
    gzip->next_out = step->out;
    gzip->avail_out = room;
    int result = deflate(gzip, step->last && given == step->in_size ? Z_FINISH : Z_NO_FLUSH);
    step->taken = given - gzip->avail_in;
    step->written = room - gzip->avail_out;
    step->ended = result == Z_STREAM_END;
    return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
}

bool encoder_step(struct encoder *encoder, struct coding_step *step)
{
    if (encoder->coding == CODING_GZIP)
        return step_gzip(&encoder->gzip, step);
    ZSTD_inBuffer from = {step->in, step->in_size, 0};
    ZSTD_outBuffer to = {step->out, step->out_size, 0};
    size_t left = ZSTD_compressStream2(encoder->zstd, &to, &from, step->last ? ZSTD_e_end : ZSTD_e_continue);
    step->taken = from.pos;
    step->written = to.pos;
    step->ended = step->last && left == 0;
    return !ZSTD_isError(left);
}

void encoder_destroy(struct encoder *encoder)
{
    if (encoder == NULL)
        return;
    (void)ZSTD_freeCStream(encoder->zstd);
    if (encoder->gzip_ready)
        (void)deflateEnd(&encoder->gzip);
    free(encoder);
}
