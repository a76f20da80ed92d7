#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>

#include "example_text.h"
#include "job_example.c"
#include "onnx_bytes.h"

/* The example at the head of core/plan/job.h: job_example.c is the same text, and runs. */

Test(job_example, is_the_text_of_the_header)
{
    example_check("core/plan/job.h", "tests/unit/plan/job_example.c");
}

static json_t *written(const void *bytes, size_t size, bool *ret_done)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    *ret_done = write_plan(bytes, size, out);
    (void)fclose(out);
    json_t *json = json_loadb(text, length, 0, NULL);
    free(text);
    return json;
}

Test(job_example, writes_a_plan)
{
    struct sp_buf file;
    bool done;
    onnx_mlp(&file, &(struct onnx_mlp){.layers = 2, .width = 64, .batch = "8"});
    json_t *plan = written(file.data, file.size, &done);
    cr_assert(done);
    cr_assert_str_eq(json_string_value(json_object_get(json_object_get(plan, "model"), "name")), "model.onnx");
    cr_assert_eq(json_array_size(json_object_get(plan, "devices")), 4);
    json_decref(plan);
    sp_buf_release(&file);
}

Test(job_example, says_what_is_wrong)
{
    bool done;
    cr_assert_null(written("no model", 8, &done));
    cr_assert_not(done);
}
