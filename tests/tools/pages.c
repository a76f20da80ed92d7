/* pages FOLDER: writes operators.md and diagnostics.md from the tables of the library. */
#include <stdio.h>

#include "check/diagnostic.h"
#include "plan/answer/operators.h"

#define MAX_PAGE ((size_t)4 << 20)

static int write_page(const char *folder, const char *name, void (*print)(struct sp_buf *buf))
{
    char path[1024];
    struct sp_buf page;
    sp_buf_init(&page, MAX_PAGE);
    print(&page);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = sp_buf_failed(&page) ? NULL : fopen(path, "w");
    int failed = file == NULL || fwrite(page.data, 1, page.size, file) != page.size;
    if (file != NULL && fclose(file) != 0)
        failed = 1;
    if (failed)
        (void)fprintf(stderr, "cannot write %s\n", path);
    sp_buf_release(&page);
    return failed;
}

int main(int count, char **arguments)
{
    if (count != 2) {
        (void)fprintf(stderr, "usage: pages FOLDER\n");
        return 2;
    }
    return write_page(arguments[1], "operators.md", sp_operators_write_page) |
           write_page(arguments[1], "diagnostics.md", sp_diagnostics_write_page);
}
