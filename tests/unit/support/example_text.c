#include "example_text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "data_files.h"

static char *text_of(const char *name)
{
    char path[512];
    size_t size;
    (void)snprintf(path, sizeof path, "%s/%s", SOURCE_ROOT, name);
    char *text = (char *)data_read(path, &size);
    cr_assert_not_null(text, "%s", path);
    return text;
}

void example_check(const char *header, const char *file)
{
    char *comment = text_of(header), *example = text_of(file);
    const char *line = strstr(comment, "\n *     #include <stdio.h>\n"), *expected = example;
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
    free(comment);
}
