#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "data_files.h"
#include "job_example.c"
#include "onnx_bytes.h"

/* The example at the head of core/plan/job.h: job_example.c is the same text, and runs. */

static char *text_of(const char *path)
{
    size_t size;
    char *text = (char *)data_read(path, &size);
    cr_assert_not_null(text, "%s", path);
    return text;
}

Test(job_example, is_the_text_of_the_header)
{
    char *header = text_of(SOURCE_ROOT "/core/plan/job.h"),
         *example = text_of(SOURCE_ROOT "/tests/unit/plan/job_example.c");
    const char *line = strstr(header, "\n *     #include <stdio.h>\n"), *expected = example;
    cr_assert_not_null(line);
    for (line++; strncmp(line, " *     ", 7) == 0 || strncmp(line, " *\n", 3) == 0; line = strchr(line, '\n') + 1) {
        const char *text = line[2] == '\n' ? line + 2 : line + 7;
        const size_t size = (size_t)(strchr(text, '\n') + 1 - text);
        if (*expected == '\0')
            break;
        cr_assert_eq(strncmp(text, expected, size), 0, "%.*s", (int)size, text);
        expected += size;
    }
    cr_assert_str_empty(expected);
    free(example);
    free(header);
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
