/*
 * The whole way of a check and of a completion: read, check everything, infer shapes, complete the shardings of each
 * configuration forward and by propagation, write the completed model, read and strip that.
 *
 * The bytes are a model. What is random about a request is taken from a hash of them, so that a found input tells it
 * all: which tensors get which split, over how many devices.
 *
 * Under libFuzzer the bytes are also changed by structure (LLVMFuzzerCustomMutator): whole messages of the wire format
 * are removed, repeated, swapped with others of the file or with those of a second model, and lengths stay right.
 *
 * Properties: an error has a code and a message and is none of ours; findings come from the table; what is completed
 * from one split is well-formed; what is written is read again and strips to the bytes it came from. No input takes
 * more than the memory budget.
 */
#include "check/check.h"
#include "fuzz.h"
#include "fuzz_models.h"
#include "onnx/reader.h"
#include "plan/check.h"
#include "plan/infer/infer.h"

#define BUDGET ((size_t)100 << 20) /* of one check or completion of up to 1 MB */

static uint64_t hash_of(const uint8_t *bytes, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* ---- check ---------------------------------------------------------------------------------------------------- */

static bool drop(void *context, const char *bytes, size_t size)
{
    *(size_t *)context += size;
    (void)bytes;
    return true;
}

static bool check_model(const uint8_t *bytes, size_t size)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET};
    struct sp_check_answer *answer = NULL;
    struct sp_error err = {0};
    enum sp_status status = sp_check_answer_create(&options, NULL, &answer, &err);
    if (status != SP_OK) {
        fuzz_check_error(status, &err);
        return false;
    }
    struct sp_json json;
    struct sp_buf text;
    size_t written = 0;
    sp_json_init(&json, false, drop, &written);
    sp_check_answer_json(answer, &json);
    fuzz_require(sp_json_finish(&json, &err) == SP_OK && written > 0);
    sp_buf_init(&text, (size_t)64 << 20);
    sp_check_answer_text(answer, &text);
    fuzz_require(!sp_buf_failed(&text));
    sp_buf_release(&text);
    bool is_valid = sp_check_answer_is_valid(answer);
    sp_check_answer_destroy(answer);
    return is_valid;
}

/* ---- complete ------------------------------------------------------------------------------------------------- */

/* What was written is well-formed, if what was there and what was asked for is: `is_consistent`. */
static void check_completed(const struct sp_completion *completion, const uint8_t *bytes, size_t size,
                            bool is_consistent)
{
    struct sp_splice *splice = NULL;
    struct sp_error err = {0};
    enum sp_status status = sp_completion_annotate(completion, &splice, &err);
    if (status != SP_OK) {
        fuzz_check_error(status, &err);
        return;
    }
    struct sp_buf written = fuzz_realise(splice, bytes);
    if (is_consistent)
        fuzz_check_annotations(&written);
    fuzz_check_strip(&written, bytes, size);
    sp_buf_release(&written);
}

static void complete_model(const uint8_t *bytes, size_t size, const char *mode, uint64_t seed, bool was_valid)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET};
    struct sp_completion *completion = NULL;
    struct sp_error err = {0};
    json_t *request = fuzz_request(bytes, size, mode, seed);
    enum sp_status status = sp_completion_create(&options, request, &completion, &err);
    if (status == SP_OK) {
        struct sp_json json;
        size_t written = 0;
        sp_json_init(&json, false, drop, &written);
        status = sp_completion_json(completion, &json, &err);
        if (status == SP_OK)
            fuzz_require(sp_json_finish(&json, &err) == SP_OK && written > 0);
        bool is_consistent = was_valid && json_object_get(request, "configuration") == NULL &&
                             json_object_size(json_object_get(request, "set")) <= 1;
        check_completed(completion, bytes, size, is_consistent);
        sp_completion_destroy(completion);
    }
    if (status != SP_OK)
        fuzz_check_error(status, &err);
    json_decref(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint64_t seed = hash_of(bytes, size);
    bool was_valid = check_model(bytes, size);
    complete_model(bytes, size, "forward", seed, was_valid);
    complete_model(bytes, size, "propagate", seed >> 7, was_valid);
    return 0;
}
