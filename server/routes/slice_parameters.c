/* The parameters of slices, and the hash of all that decides what an answer is. */
#include <gnutls/crypto.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "routes/slices.h"
#include "util/text.h"
#include "version.h"

bool slice_number(const struct slice_asked *asked, const char *name, uint32_t least, uint32_t most, uint32_t *ret,
                  struct problem *problem)
{
    const char *text = request_parameter(asked->request, name);
    int64_t number = 0;
    if (text == NULL)
        return true;
    if (!text_to_int(text, least, most, &number))
        return problem_set(problem, 400, "BAD_PARAMETER", "The parameter %s is a whole number from %u to %u.", name,
                           least, most);
    *ret = (uint32_t)number;
    return true;
}

/* Digits, a point, an exponent: what JSON writes of a number that is not negative. */
bool slice_seconds(const struct slice_asked *asked, const char *name, double *ret, struct problem *problem)
{
    const char *text = request_parameter(asked->request, name);
    char *end = NULL;
    if (text == NULL)
        return true;
    const bool begins = text[0] >= '0' && text[0] <= '9';
    const double seconds = begins && strspn(text, "0123456789.eE+-") == strlen(text) ? strtod(text, &end) : NAN;
    if (end == NULL || *end != '\0' || !isfinite(seconds))
        return problem_set(problem, 400, "BAD_PARAMETER",
                           "The parameter %s is a number of seconds, 0 or more, as 0.25 or 1e-6.", name);
    *ret = seconds;
    return true;
}

bool slice_word(const struct slice_asked *asked, const char *name, const char *words, int *ret, struct problem *problem)
{
    const char *text = request_parameter(asked->request, name);
    if (text == NULL)
        return true;
    int index = 0;
    for (const char *at = words; *at != '\0'; index++) {
        const size_t size = strcspn(at, " ");
        if (strlen(text) == size && memcmp(at, text, size) == 0) {
            *ret = index;
            return true;
        }
        at += size + strspn(at + size, " ");
    }
    return problem_set(problem, 400, "BAD_PARAMETER", "The parameter %s is one of: %s.", name, words);
}

uint64_t slice_seed(void)
{
    uint64_t seed = 0;
    (void)gnutls_rnd(GNUTLS_RND_NONCE, &seed, sizeof seed); /* an answer does not depend on it, only its time does */
    return seed;
}

static bool is_of_page(const char *name)
{
    return strcmp(name, "page_size") == 0 || strcmp(name, "page_token") == 0;
}

/* Parameters have no control characters, so a line's end is an end. */
bool slice_hash(const struct slice_asked *asked, bool of_list, char ret[SLICE_HASH_SIZE])
{
    const struct request *request = asked->request;
    const struct sliced *const plans[] = {&asked->plan, &asked->other};
    unsigned char digest[32];
    struct sp_buf text;
    sp_buf_init(&text, (size_t)SPD_MAX_URI_BYTES + 4096);
    sp_buf_printf(&text, "%s\n%s\n%d\n", SPD_VERSION, request->route->pattern, request_view(request) != NULL);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        if (plans[i]->has_row)
            sp_buf_printf(&text, "%s %lld\n", plans[i]->row.id, (long long)plans[i]->row.attempts);
    }
    for (unsigned i = 0; i < request->parameter_count; i++) {
        if (!of_list || !is_of_page(request->parameters[i].name))
            sp_buf_printf(&text, "%s=%s\n", request->parameters[i].name, request->parameters[i].value);
    }
    const bool ok = !sp_buf_failed(&text) && gnutls_hash_fast(GNUTLS_DIG_SHA256, text.data, text.size, digest) == 0;
    sp_buf_release(&text);
    if (ok)
        text_to_hex(digest, (SLICE_HASH_SIZE - 1) / 2, ret);
    return ok;
}
