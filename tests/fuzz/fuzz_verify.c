/*
 * A model as its own rank, and beside a copy of which a byte is changed.
 *
 * Properties: nothing breaks; an error says what; a model is never refuted by itself; what is told is JSON. No input
 * takes more than the memory budget.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "verify/verify.h"

#define BUDGET   ((size_t)256 << 20)
#define MAX_SIZE ((size_t)16 << 10) /* models of many layers take too long here, and tell nothing more */

static void expect(bool is_true, const char *what)
{
    if (is_true)
        return;
    (void)fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void look_at(const struct sp_verification *verification)
{
    struct sp_buf text;
    struct sp_json json;
    sp_buf_init(&text, (size_t)1 << 26);
    sp_verification_text(verification, &text);
    expect(text.size > 0, "a text");
    sp_buf_clear(&text);
    sp_json_init_buf(&json, false, &text);
    sp_verification_json(verification, &json);
    expect(sp_json_finish(&json, NULL) == SP_OK, "an answer");
    json_t *read = json_loadb(text.data, text.size, 0, NULL);
    expect(read != NULL && json_is_string(json_object_get(read, "verdict")), "JSON");
    json_decref(read);
    sp_buf_release(&text);
}

static void verify(const uint8_t *bytes, size_t size, const uint8_t *rank, bool is_same)
{
    struct sp_error err = {0};
    struct sp_verification *verification = NULL;
    const struct sp_verify_program program = {.name = "rank", .bytes = rank, .size = size};
    const struct sp_verify_request request = {.bytes = bytes,
                                              .size = size,
                                              .program_count = 1,
                                              .programs = &program,
                                              .memory_budget = BUDGET,
                                              .explains = is_same};
    if (sp_verify(&request, &verification, &err) != SP_OK) {
        expect(err.code[0] != '\0' && err.message[0] != '\0' && err.status != SP_ERR_INTERNAL,
               "an error that says what");
        return;
    }
    expect(!is_same || sp_verification_verdict(verification) != SP_REFUTED, "a model is not refuted by itself");
    look_at(verification);
    sp_verification_destroy(verification);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *changed = size <= MAX_SIZE ? malloc(size + 1) : NULL;
    if (changed == NULL || size == 0) {
        free(changed);
        return 0;
    }
    verify(bytes, size, bytes, true);
    memcpy(changed, bytes, size);
    changed[(size_t)bytes[size / 2] * size / 256] ^= (uint8_t)(1 + bytes[0] % 255);
    verify(bytes, size, changed, false);
    free(changed);
    return 0;
}
