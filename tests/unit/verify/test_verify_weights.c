#include <criterion/criterion.h>
#include <string.h>

#include "onnx_bytes.h"
#include "verify/verify.h"

/* Weights that a caller reads: which bytes of which program's files are asked for, and what comes of them. */

#define WIDTH  16
#define LAYERS 2
#define BYTES  (WIDTH * WIDTH * 4) /* of a weight */

/* Files whose bytes follow from their place, but for one of one program. */
struct files {
    uint32_t program;  /* with a byte that differs, */
    uint64_t at;       /* at this place; UINT64_MAX: none */
    uint32_t missing;  /* program without files; 0: none, since program 0 has them */
    uint32_t asked[3]; /* bytes of the original, and of the two ranks */
};

static bool read_bytes(void *context, uint32_t program, const char *location, uint64_t offset, void *bytes, size_t size)
{
    struct files *files = context;
    unsigned char *to = bytes;
    cr_assert(program == SP_VERIFY_ORIGINAL || program < 2);
    cr_assert_not_null(location);
    if (program == files->missing && files->missing != 0)
        return false;
    files->asked[program == SP_VERIFY_ORIGINAL ? 0 : program + 1] += (uint32_t)size;
    for (size_t i = 0; i < size; i++) {
        const uint64_t place = offset + i;
        to[i] = (unsigned char)((place * 2654435761u >> 11) ^ (program == files->program && place == files->at));
    }
    return true;
}

static enum sp_verdict verdict(struct files *files, const char *batch, const char *sentence)
{
    const struct sp_verify_weights weights = {read_bytes, files};
    struct sp_buf original, half;
    onnx_mlp(&original, &(struct onnx_mlp){.layers = LAYERS, .width = WIDTH, .batch = batch});
    onnx_mlp(&half, &(struct onnx_mlp){.layers = LAYERS, .width = WIDTH, .batch = "4"});
    const struct sp_verify_program programs[] = {
        {.name = "rank 0", .bytes = half.data, .size = half.size, .device = 0, .rank = 0},
        {.name = "rank 1", .bytes = half.data, .size = half.size, .device = 1, .rank = 1}};
    const struct sp_verify_request request = {
        .bytes = original.data, .size = original.size, .program_count = 2, .programs = programs, .weights = &weights};
    struct sp_verification *verification = NULL;
    struct sp_error err = {0};
    struct sp_buf text;
    sp_buf_init(&text, 1 << 16);
    cr_assert_eq(sp_verify(&request, &verification, &err), SP_OK, "%s", err.message);
    sp_verification_text(verification, &text);
    sp_buf_append(&text, "", 1);
    cr_assert_not_null(strstr(text.data, sentence), "%s", text.data);
    const enum sp_verdict found = sp_verification_verdict(verification);
    sp_verification_destroy(verification);
    sp_buf_release(&text);
    sp_buf_release(&original);
    sp_buf_release(&half);
    return found;
}

Test(verify_weights, all_bytes_are_read)
{
    struct files files = {.at = UINT64_MAX};
    cr_assert_eq(verdict(&files, "8", "Proved"), SP_PROVED);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_geq(files.asked[i], LAYERS * BYTES);
}

/* All weights of these models are at the beginning of one file. */
Test(verify_weights, any_byte_may_differ)
{
    for (uint64_t at = 3; at < BYTES; at += 173) {
        struct files files = {.program = 1, .at = at};
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            char sentence[128];
            (void)snprintf(
                sentence, sizeof sentence,
                "The weight 'w%u' differs from its part of the original's from byte %u on (element [%u, %u])", layer,
                (unsigned)at, (unsigned)at / 4 / WIDTH, (unsigned)at / 4 % WIDTH);
            cr_assert_eq(verdict(&files, "8", sentence), SP_REFUTED);
        }
    }
}

Test(verify_weights, what_is_not_there_is_undecided)
{
    struct files files = {.at = UINT64_MAX, .missing = SP_VERIFY_ORIGINAL};
    cr_assert_eq(verdict(&files, "8", "the original's data are not there"), SP_UNDECIDED);
    files.missing = 1;
    cr_assert_eq(verdict(&files, "8", "rank 1 (rank 1)\n  The weight 'w0' is not compared: its data are not there"),
                 SP_UNDECIDED);
}
