#include <stdio.h>

#include "verify/verify.h"

struct model_bytes {
    const void *bytes;
    uint64_t size;
};

static bool prove(struct model_bytes original, const struct model_bytes ranks[2], FILE *out)
{
    const struct sp_verify_program programs[] = {
        {.name = "rank 0", .bytes = ranks[0].bytes, .size = ranks[0].size, .device = 0, .rank = 0},
        {.name = "rank 1", .bytes = ranks[1].bytes, .size = ranks[1].size, .device = 1, .rank = 1}};
    const struct sp_verify_request request = {
        .bytes = original.bytes, .size = original.size, .program_count = 2, .programs = programs};
    struct sp_verification *verification = NULL;
    struct sp_error err = {0};
    struct sp_buf text;
    bool is_proved = false;

    if (sp_verify(&request, &verification, &err) == SP_OK) {
        is_proved = sp_verification_verdict(verification) == SP_PROVED;
        sp_buf_init(&text, 1 << 20);
        sp_verification_text(verification, &text);
        (void)fwrite(text.data, 1, text.size, out);
        sp_buf_release(&text);
    } else {
        (void)fprintf(out, "%s: %s\n", err.code, err.message);
    }
    sp_verification_destroy(verification);
    return is_proved;
}
