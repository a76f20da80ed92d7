/*
 * What POST /v1/plans asks for: whatever is accepted has a form that is accepted again and is the same then; whatever
 * is refused has a reason.
 *
 * An input that begins with '?' is a query, any other one a body.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "http/guard.h"
#include "routes/submission.h"
#include "util/text.h"

static void begin(struct request *request, const void *body, size_t size)
{
    memset(request, 0, sizeof *request);
    sp_buf_init(&request->body, SPD_MAX_JSON_BYTES);
    sp_buf_append(&request->body, body, size);
}

static bool read_body(const struct request *request, struct submission *submission, struct problem *problem)
{
    *submission = (struct submission){0};
    *problem = (struct problem){0};
    bool ok = submission_from_body(request, submission, problem);
    if (ok != (problem->status == 0) || (!ok && (problem->code[0] == '\0' || problem->detail[0] == '\0')))
        abort();
    return ok;
}

/* The canonical form, which a plan is stored with, as the body of another request. */
static void check_again(const struct submission *submission)
{
    static const char some_model[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const char *model = submission->model[0] != '\0' ? submission->model : some_model;
    struct request request;
    struct submission again;
    struct problem problem;
    json_t *body = json_deep_copy(submission->request);
    if (!text_is_hex(model, 64) || json_object_set_new(body, "model", json_string(model)) != 0)
        abort();
    char *text = json_dumps(body, JSON_COMPACT);
    if (text == NULL)
        abort();
    begin(&request, text, strlen(text));
    if (!sp_buf_failed(&request.body)) { /* it may have become longer than a body may be */
        if (!read_body(&request, &again, &problem) || !json_equal(again.request, submission->request)) {
            (void)fprintf(stderr, "%s\n%s\n", text, problem.detail);
            abort();
        }
        json_decref(again.request);
    }
    sp_buf_release(&request.body);
    free(text);
    json_decref(body);
}

static void try_query(const uint8_t *bytes, size_t size)
{
    struct request request;
    struct submission submission = {0};
    struct problem problem = {0};
    begin(&request, "", 0);
    request.uri = malloc(size + 2);
    request.uri[0] = '/';
    memcpy(request.uri + 1, bytes, size);
    request.uri[size + 1] = '\0';
    if (guard_target(&request, &problem)) {
        if (submission_from_query(&request, &submission, &problem))
            check_again(&submission);
        else if (problem.code[0] == '\0' || problem.detail[0] == '\0')
            abort();
    }
    json_decref(submission.request);
    free(request.uri);
    sp_buf_release(&request.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct request request;
    struct submission submission;
    struct problem problem;
    if (size > 0 && bytes[0] == '?') {
        try_query(bytes, size);
        return 0;
    }
    begin(&request, bytes, size);
    if (!sp_buf_failed(&request.body) && read_body(&request, &submission, &problem))
        check_again(&submission);
    if (!sp_buf_failed(&request.body))
        json_decref(submission.request);
    sp_buf_release(&request.body);
    return 0;
}
