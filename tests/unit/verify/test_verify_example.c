#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "example_text.h"
#include "onnx_bytes.h"
#include "verify_example.c"

/* The example at the head of core/verify/verify.h: verify_example.c is the same text, and runs. */

Test(verify_example, is_the_text_of_the_header)
{
    example_check("core/verify/verify.h", "tests/unit/verify/verify_example.c");
}

static struct sp_buf mlp(uint32_t layers, const char *batch)
{
    struct sp_buf file;
    onnx_mlp(&file, &(struct onnx_mlp){.layers = layers, .width = 16, .batch = batch});
    return file;
}

/* What the example says of a model with a batch of 8 and two ranks. */
static bool said(struct sp_buf first, struct sp_buf second, const char *sentence)
{
    struct sp_buf original = mlp(2, "8");
    const struct model_bytes ranks[2] = {{first.data, first.size}, {second.data, second.size}};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const bool is_proved = prove((struct model_bytes){original.data, original.size}, ranks, out);
    (void)fclose(out);
    cr_assert_not_null(strstr(text, sentence), "%s", text);
    free(text);
    sp_buf_release(&original);
    sp_buf_release(&first);
    sp_buf_release(&second);
    return is_proved;
}

Test(verify_example, proves_halves_of_a_batch)
{
    cr_assert(said(mlp(2, "4"), mlp(2, "4"), "Proved: "));
}

Test(verify_example, refutes)
{
    cr_assert_not(said(mlp(2, "4"), mlp(1, "4"), "refuted, rank 1 (rank 1)"));
    cr_assert_not(said(mlp(2, "4"), mlp(2, "3"), "Refuted: "));
}

Test(verify_example, says_what_is_no_model)
{
    struct sp_buf none;
    sp_buf_init(&none, 64);
    sp_buf_text(&none, "no model");
    cr_assert_not(said(mlp(2, "4"), none, "NOT_ONNX: "));
}
