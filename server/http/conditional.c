#include "http/conditional.h"

#include <string.h>
#include <time.h>

/* Dates have seconds; -1 for what is none. */
static int64_t read_date(const char *header)
{
    struct tm tm = {0};
    const char *end = header != NULL ? strptime(header, "%a, %d %b %Y %H:%M:%S GMT", &tm) : NULL;
    return end != NULL && *end == '\0' ? (int64_t)timegm(&tm) : -1;
}

void conditional_date(int64_t milliseconds, char *ret)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)(milliseconds / 1000);
    struct tm tm;
    if (gmtime_r(&seconds, &tm) == NULL)
        memset(&tm, 0, sizeof tm);
    (void)snprintf(ret, CONDITIONAL_DATE_SIZE, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
                   months[tm.tm_mon], (tm.tm_year + 1900) % 10000, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* How a list of ETags is compared. */
enum comparison {
    COMPARE_WEAK,   /* W/ makes no difference */
    COMPARE_STRONG, /* what begins with W/ is no match */
    COMPARE_ANY,    /* as strong, and further forms of the thing match, too */
};

/* Whether `quoted`, from behind its quote on, is the etag. */
static bool is_etag(const char *text, size_t size, const char *etag, enum comparison comparison)
{
    size_t length = strlen(etag);
    if (length == 0 || size < length || memcmp(text, etag, length) != 0)
        return false;
    return size == length || (comparison == COMPARE_ANY && text[length] == '-');
}

static bool lists(const char *header, const char *etag, enum comparison comparison)
{
    for (const char *at = header; *at != '\0';) {
        at += strspn(at, " \t,");
        if (*at == '*')
            return true;
        bool weak = strncmp(at, "W/", 2) == 0;
        const char *quote = at + (weak ? 2 : 0), *end = *quote == '"' ? strchr(quote + 1, '"') : NULL;
        if (end == NULL)
            return false;
        if ((comparison == COMPARE_WEAK || !weak) && is_etag(quote + 1, (size_t)(end - quote) - 1, etag, comparison))
            return true;
        at = end + 1;
    }
    return false;
}

/* If-Match, or without it If-Unmodified-Since. */
static bool may_go_on(const struct request *request, const char *etag, int64_t modified, enum comparison comparison)
{
    const char *match = request_header(request, "If-Match");
    int64_t date = read_date(request_header(request, "If-Unmodified-Since"));
    if (match != NULL)
        return lists(match, etag, comparison);
    return date < 0 || modified <= 0 || modified / 1000 <= date;
}

enum precondition conditional_read(const struct request *request, const char *etag, int64_t modified)
{
    const char *none = request_header(request, "If-None-Match");
    if (!may_go_on(request, etag, modified, COMPARE_STRONG))
        return PRECONDITION_FAILS;
    int64_t date = none == NULL ? read_date(request_header(request, "If-Modified-Since")) : -1;
    bool unchanged =
        none != NULL ? lists(none, etag, COMPARE_WEAK) : date >= 0 && modified > 0 && modified / 1000 <= date;
    if (!unchanged)
        return PRECONDITION_HOLDS;
    bool get = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    return get ? PRECONDITION_UNCHANGED : none != NULL ? PRECONDITION_FAILS : PRECONDITION_HOLDS;
}

enum precondition conditional_change(const struct request *request, const char *etag, int64_t modified)
{
    return may_go_on(request, etag, modified, COMPARE_ANY) ? PRECONDITION_HOLDS : PRECONDITION_FAILS;
}

bool conditional_range(const struct request *request, const char *etag, int64_t modified)
{
    const char *header = request_header(request, "If-Range");
    if (header == NULL)
        return true;
    if (*header == '"' || strncmp(header, "W/", 2) == 0)
        return lists(header, etag, COMPARE_STRONG);
    return modified > 0 && read_date(header) == modified / 1000;
}
