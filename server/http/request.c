#include "http/request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth/auth.h"
#include "http/respond.h"
#include "server.h"
#include "util/text.h"

const char *request_view(const struct request *request)
{
    return principal_view(&request->principal);
}

bool request_sees_all(const struct request *request)
{
    return request_view(request) == NULL && auth_is_on(request->server->auth);
}

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const char *request_parameter(const struct request *request, const char *name)
{
    for (unsigned i = 0; i < request->parameter_count; i++) {
        if (strcmp(request->parameters[i].name, name) == 0)
            return request->parameters[i].value;
    }
    return NULL;
}

void request_add_header(struct request *request, const char *name, const char *format, ...)
{
    if (request->header_count == REQUEST_MAX_HEADERS)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(request->headers[request->header_count].value, sizeof request->headers[0].value, format, args);
    va_end(args);
    request->headers[request->header_count++].name = name;
}

/* The q value of one range of Accept, in thousandths; 1000 without or with a broken one. */
static int quality(const char *range, size_t size)
{
    const char *q = memmem(range, size, "q=", 2);
    if (q == NULL)
        return 1000;
    int value = 0, scale = 1000;
    bool fraction = false;
    for (const char *c = q + 2; c < range + size; c++) {
        if (*c == '.' && !fraction) {
            fraction = true;
        } else if (*c >= '0' && *c <= '9') {
            if (fraction)
                scale /= 10;
            value += (*c - '0') * scale;
        } else {
            break;
        }
    }
    return value > 1000 ? 1000 : value;
}

int request_accepts(const struct request *request, const char *type)
{
    const char *accept = request_header(request, "Accept");
    if (accept == NULL || *accept == '\0')
        return 1000;
    size_t family = (size_t)(strchr(type, '/') - type) + 1, length = strcspn(type, ";");
    int best = 0, precision = -1;
    for (const char *range = accept; *range != '\0';) {
        range += strspn(range, " \t,");
        size_t size = strcspn(range, ","), name = strcspn(range, ",; \t");
        int match = name == length && strncasecmp(range, type, name) == 0                                 ? 2
                    : name == family + 1 && strncasecmp(range, type, family) == 0 && range[family] == '*' ? 1
                    : name == 3 && strncmp(range, "*/*", 3) == 0                                          ? 0
                                                                                                          : -1;
        if (match > precision || (match == precision && match >= 0 && quality(range, size) > best)) {
            precision = match;
            best = quality(range, size);
        }
        range += size;
    }
    return best;
}

bool request_charge(struct request *request, enum account_kind kind, uint64_t amount, struct problem *problem)
{
    if (request->account == NULL)
        return true;
    if (!account_charge(request->account, kind, amount, problem))
        return false;
    request->charged[kind] += amount;
    return true;
}

void request_give_back(struct request *request, enum account_kind kind)
{
    account_give_back(request->account, kind, request->charged[kind]);
    request->charged[kind] = 0;
}

enum verdict request_suspend(struct request *request, enum verdict (*step)(struct request *request))
{
    request->step = step;
    MHD_suspend_connection(request->connection);
    return VERDICT_SUSPENDED;
}

void request_resume(struct request *request)
{
    MHD_resume_connection(request->connection);
}

unsigned request_wait_seconds(const struct request *request)
{
    const char *prefer = request_header(request, "Prefer");
    unsigned seconds = 0;
    for (const char *at = prefer; at != NULL && *at != '\0';) {
        at += strspn(at, " \t,;");
        if (strncasecmp(at, "wait=", 5) == 0) {
            for (at += 5; *at >= '0' && *at <= '9'; at++)
                seconds = seconds > SPD_MAX_WAIT_SECONDS ? seconds : seconds * 10 + (unsigned)(*at - '0');
            return seconds > SPD_MAX_WAIT_SECONDS ? SPD_MAX_WAIT_SECONDS : seconds;
        }
        at += strcspn(at, ",;");
    }
    return 0;
}

bool request_prefers_async(const struct request *request)
{
    static const char name[] = "respond-async";
    const char *prefer = request_header(request, "Prefer");
    for (const char *at = prefer; at != NULL && *at != '\0'; at += strcspn(at, ",")) {
        at += strspn(at, " \t,");
        if (strcspn(at, " \t,;=") == sizeof name - 1 && strncasecmp(at, name, sizeof name - 1) == 0)
            return true;
    }
    return false;
}
