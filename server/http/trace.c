#include "http/trace.h"

#include <gnutls/crypto.h>
#include <string.h>
#include <strings.h>

#include "http/request.h"
#include "util/text.h"

#define TRACE_DIGITS 32
#define SPAN_DIGITS  16
#define TRACE_AT     3
#define SPAN_AT      (TRACE_AT + TRACE_DIGITS + 1)
#define FLAGS_AT     (SPAN_AT + SPAN_DIGITS + 1)
#define WHOLE_SIZE   (FLAGS_AT + 2) /* of version 00; later ones may be longer */

static bool are_digits(const char *text, size_t count)
{
    return strspn(text, "0123456789abcdef") >= count;
}

static bool are_zeros(const char *text, size_t count)
{
    return strspn(text, "0") >= count;
}

bool trace_parse(const char *traceparent, char ret_trace[33])
{
    size_t size = strlen(traceparent);
    if (size < WHOLE_SIZE || !are_digits(traceparent, 2) || strncmp(traceparent, "ff", 2) == 0 ||
        traceparent[TRACE_AT - 1] != '-' || traceparent[SPAN_AT - 1] != '-' || traceparent[FLAGS_AT - 1] != '-')
        return false;
    bool first_version = strncmp(traceparent, "00", 2) == 0;
    if (size > WHOLE_SIZE && (first_version || traceparent[WHOLE_SIZE] != '-'))
        return false;
    if (!are_digits(traceparent + TRACE_AT, TRACE_DIGITS) || are_zeros(traceparent + TRACE_AT, TRACE_DIGITS) ||
        !are_digits(traceparent + SPAN_AT, SPAN_DIGITS) || are_zeros(traceparent + SPAN_AT, SPAN_DIGITS) ||
        !are_digits(traceparent + FLAGS_AT, 2))
        return false;
    memcpy(ret_trace, traceparent + TRACE_AT, TRACE_DIGITS);
    ret_trace[TRACE_DIGITS] = '\0';
    return true;
}

struct found {
    const char *value;
    unsigned count;
};

static enum MHD_Result look_at_header(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct found *found = context;
    (void)kind;
    if (strcasecmp(name, "traceparent") == 0) {
        found->value = value;
        found->count++;
    }
    return MHD_YES;
}

void trace_take(struct request *request)
{
    struct found found = {0};
    unsigned char random[24];
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, look_at_header, &found);
    if (gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0)
        return;     /* the request goes on without */
    random[0] |= 1; /* never nothing but zeros */
    random[16] |= 1;
    text_to_hex(random + 16, SPAN_DIGITS / 2, request->span_id);
    if (found.count != 1 || found.value == NULL || !trace_parse(found.value, request->trace_id))
        text_to_hex(random, TRACE_DIGITS / 2, request->trace_id);
}
