#include "export/forms.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word;
    size_t offset; /* of its flag */
} flags[] = {
    {"upper", offsetof(struct sp_realize_forms, is_upper)},
    {"listed", offsetof(struct sp_realize_forms, lists_world)},
    {"casts", offsetof(struct sp_realize_forms, has_casts)},
    {"no-all-to-all", offsetof(struct sp_realize_forms, has_no_alltoall)},
    {"no-bfloat16", offsetof(struct sp_realize_forms, has_no_bfloat16)},
};

static bool is_word(const char *text, size_t size, const char *word)
{
    return strlen(word) == size && strncmp(text, word, size) == 0;
}

static bool read_cores(const char *text, size_t size, int64_t *ret_cores)
{
    static const char head[] = "cores=";
    const size_t skipped = sizeof head - 1;
    if (size <= skipped || size > skipped + 4 || strncmp(text, head, skipped) != 0 ||
        strspn(text + skipped, "0123456789") < size - skipped)
        return false;
    *ret_cores = strtol(text + skipped, NULL, 10);
    return *ret_cores > 0 && *ret_cores <= SP_MAX_CORES;
}

enum sp_status sp_file_forms_parse(const char *text, struct sp_file_forms *ret_forms, struct sp_error *err)
{
    struct sp_file_forms forms = {0};
    for (const char *at = text; *at != '\0';) {
        const size_t size = strcspn(at, ",");
        bool is_known = false;
        for (size_t i = 0; !is_known && i < sizeof flags / sizeof *flags; i++) {
            is_known = is_word(at, size, flags[i].word);
            if (is_known)
                *(bool *)((char *)&forms.realize + flags[i].offset) = true;
        }
        if (!is_known && !read_cores(at, size, &forms.cores))
            return sp_fail(
                err, SP_ERR_REQUEST, "UNKNOWN_FORM",
                "There is no form '%.*s'; the forms are upper, listed, casts, no-all-to-all, no-bfloat16, and "
                "cores=N with N from 1 to %d.",
                (int)(size < 64 ? size : 64), at, SP_MAX_CORES);
        at += size;
        at += *at == ',';
    }
    *ret_forms = forms;
    return SP_OK;
}
