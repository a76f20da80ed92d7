/*
 * The whole way of an export: read, complete the shardings of each configuration, and write every format.
 *
 * The bytes are a model. What is exported is each of its configurations, and a completion that fuzz_request() asks for.
 * Plans are exported by fuzz_plan.c.
 *
 * Properties: an error has a code and a message and is none of ours; notes are sentences; what was written in JSON is
 * JSON; a model with more in it is read again.
 */
#include "fuzz.h"
#include "fuzz_models.h"
#include "plan/infer/infer.h"

#define BUDGET     ((size_t)100 << 20) /* of one job of up to 1 MB */
#define MAX_EXPORT ((size_t)256 << 10) /* larger models are exported elsewhere: here are many formats */

/* ---- models ----------------------------------------------------------------------------------------------------- */

static struct sp_subject *subject_of(const uint8_t *bytes, size_t size, const char *configuration)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET};
    struct sp_error err = {0};
    struct sp_subject *subject = NULL;
    enum sp_status status = sp_subject_from_model(&options, configuration, &subject, &err);
    if (status == SP_OK)
        return subject;
    fuzz_check_error(status, &err);
    return NULL;
}

static void check_model(const uint8_t *bytes, size_t size)
{
    struct sp_subject *subject = subject_of(bytes, size, NULL);
    if (subject != NULL)
        fuzz_check_formats(subject, true);
    sp_subject_destroy(subject);
}

static void check_completed(const uint8_t *bytes, size_t size, uint64_t hash)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET};
    struct sp_error err = {0};
    struct sp_completion *completion = NULL;
    struct sp_splice *splice = NULL;
    json_t *request = fuzz_request(bytes, size, "propagate", hash);
    if (request != NULL && sp_completion_create(&options, request, &completion, &err) == SP_OK &&
        sp_completion_annotate(completion, &splice, &err) == SP_OK) {
        struct sp_buf written = fuzz_realise(splice, bytes);
        check_model((const uint8_t *)written.data, written.size);
        sp_buf_release(&written);
    }
    sp_completion_destroy(completion);
    json_decref(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint64_t hash = fuzz_hash(bytes, size);
    if (size > MAX_EXPORT)
        return 0;
    check_model(bytes, size);
    check_completed(bytes, size, hash >> 8);
    return 0;
}
