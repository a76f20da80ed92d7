/* The pages of api/ that are generated: as committed, they are what the tables say. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/diagnostic.h"
#include "data_files.h"
#include "plan/answer/operators.h"

/* The first line in which the page differs, as a message; NULL when it does not. */
static const char *difference(const char *committed, const char *made)
{
    static char message[512];
    for (unsigned line = 1;; line++) {
        size_t a = strcspn(committed, "\n"), b = strcspn(made, "\n");
        if (a != b || memcmp(committed, made, a) != 0 || committed[a] != made[b]) {
            (void)snprintf(message, sizeof(message), "line %u is\n  %.*s\nand should be\n  %.*s\n", line,
                           (int)(a < 200 ? a : 200), committed, (int)(b < 200 ? b : 200), made);
            return message;
        }
        if (committed[a] == '\0')
            return NULL;
        committed += a + 1;
        made += b + 1;
    }
}

static void compare_page(const char *path, void (*print)(struct sp_buf *buf))
{
    size_t size = 0;
    char *committed = (char *)data_read(path, &size);
    cr_assert_not_null(committed, "%s is missing; `ninja -C BUILD pages` writes it", path);
    struct sp_buf page;
    sp_buf_init(&page, (size_t)4 << 20);
    print(&page);
    cr_assert_not(sp_buf_failed(&page));
    const char *found = difference(committed, page.data);
    cr_expect_null(found, "%s is not what the table says, `ninja -C BUILD pages` writes it anew: %s", path, found);
    sp_buf_release(&page);
    free(committed);
}

Test(pages, operators)
{
    compare_page(SOURCE_ROOT "/api/operators.md", sp_operators_write_page);
}

Test(pages, diagnostics)
{
    compare_page(SOURCE_ROOT "/api/diagnostics.md", sp_diagnostics_write_page);
}
