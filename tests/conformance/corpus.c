/*
 * corpus [FOLDER]: every file of the multi-device corpus against its manifest, as lines of TAP: the verdict, and that
 * what an error or warning says names what the manifest names (numbers, fields, operands). The folder is looked for in
 * $SHARDPLAN_TEST_DATA, then in ../shared/data beside the source tree; without it nothing runs.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/check_files.h"
#include "../unit/support/data_files.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"

#define MAX_SAID 65536

/* Runs all checks; what cannot be read or checked is left in `err`. */
static enum sp_status run_checks(struct sp_arena *arena, const unsigned char *bytes, size_t size,
                                 struct check_result *result, struct sp_error *err)
{
    struct sp_shape_summary summary;
    struct sp_model *model = NULL;
    enum sp_status status = sp_onnx_read(arena, bytes, size, NULL, &model, err);
    if (status == SP_OK)
        status = sp_infer_shapes(model, NULL, &summary, err);
    if (status == SP_OK)
        status = sp_check_graph(model, &result->list, err);
    if (status == SP_OK)
        status = sp_check_annotations(model, NULL, &result->list, err);
    for (uint32_t i = 0; status == SP_OK && result->list.errors == 0 && i < model->configuration_count; i++)
        status = sp_check_meaning(model, model->configurations[i].name, 0, &result->list, err);
    return status == SP_OK ? sp_check_foreign(model, &result->list, err) : status;
}

/* What errors and warnings say, one after the other. */
static void collect(const struct sp_diagnostics *list, char *said)
{
    size_t used = 0;
    said[0] = '\0';
    for (uint32_t i = 0; i < list->count && used + 4096 < MAX_SAID; i++) {
        if (list->items[i].severity > SP_SEVERITY_NOTE)
            used += (size_t)snprintf(said + used, MAX_SAID - used, "%s: %s ", list->items[i].code->code,
                                     list->items[i].message);
    }
}

/* A number, a name with an underscore, or the capital letter of an operand: what a message has to repeat. */
static bool is_named(const char *word)
{
    const size_t size = strlen(word);
    const char *digits = word + (word[0] == '-');
    if (strchr(word, '_') != NULL)
        return true;
    if (size == 1 && word[0] >= 'A' && word[0] <= 'J')
        return true;
    return digits[0] != '\0' && strspn(digits, "0123456789") == strlen(digits);
}

/* The first such word of `why` that is not said; "" when all are. What stands in parentheses is a remark. */
static const char *not_said(const char *why, const char *said, char *word, size_t size)
{
    while (*why != '\0' && *why != '(') {
        size_t length = strcspn(why, " ,:/(");
        if (length > 0 && length < size) {
            memcpy(word, why, length);
            word[length] = '\0';
            if (is_named(word) && strstr(said, word) == NULL)
                return word;
        }
        why += length + (why[length] != '\0' && why[length] != '(');
    }
    return "";
}

static bool run_file(const char *folder, const json_t *entry)
{
    static char said[MAX_SAID];
    const char *file = json_string_value(json_object_get(entry, "file")),
               *verdict = json_string_value(json_object_get(entry, "verdict")),
               *why = json_string_value(json_object_get(entry, "why"));
    struct sp_arena *arena = sp_arena_create(NULL);
    struct check_result result = {.list = {.arena = arena}};
    struct sp_error err;
    char path[2048], word[64];
    size_t size = 0;
    sp_error_clear(&err);
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL || run_checks(arena, bytes, size, &result, &err) != SP_OK) {
        printf("not ok corpus %s: %s\n", file, bytes == NULL ? "no such file" : err.message);
        free(bytes);
        sp_arena_destroy(arena);
        return false;
    }
    collect(&result.list, said);
    const char *found = check_verdict(&result);
    /* "valid (interpretation)" is valid. */
    const size_t length = strcspn(verdict, " ");
    bool passed = strlen(found) == length && strncmp(found, verdict, length) == 0;
    const char *missing =
        strcmp(found, "invalid") == 0 || strcmp(found, "warn") == 0 ? not_said(why, said, word, sizeof word) : "";
    if (!passed)
        printf("not ok corpus %s: %s instead of %s: %s\n", file, found, verdict, said);
    else if (missing[0] != '\0')
        printf("not ok corpus %s: '%s' of \"%s\" is not in: %s\n", file, missing, why, said);
    else
        printf("ok corpus %s\n", file);
    passed = passed && missing[0] == '\0';
    free(bytes);
    sp_arena_destroy(arena);
    return passed;
}

int main(int argc, char **argv)
{
    char folder[1024], path[1200];
    size_t size = 0, passed = 0;
    if (argc > 1)
        (void)snprintf(folder, sizeof folder, "%s", argv[1]);
    else
        (void)snprintf(folder, sizeof folder, "%s/multi-device-corpus", data_folder());
    (void)snprintf(path, sizeof path, "%s/manifest.json", folder);
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL) {
        printf("ok corpus # SKIP no %s\n", path);
        return 0;
    }
    json_t *manifest = json_loadb((const char *)bytes, size, 0, NULL);
    const size_t count = json_array_size(manifest);
    for (size_t i = 0; i < count; i++)
        passed += run_file(folder, json_array_get(manifest, i));
    printf("# corpus: %zu of %zu\n", passed, count);
    json_decref(manifest);
    free(bytes);
    return count > 0 && passed == count ? 0 : 1;
}
