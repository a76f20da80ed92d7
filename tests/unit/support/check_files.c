#include "check_files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ops/shapes/shapes.h"

static void run_meaning(struct check_result *result, double memory_bytes)
{
    struct sp_model *model = result->model.model;
    if (result->list.errors > 0)
        return;
    for (uint32_t i = 0; i < model->configuration_count; i++) {
        enum sp_status status =
            sp_check_meaning(model, model->configurations[i].name, memory_bytes, &result->list, &result->model.err);
        cr_assert_eq(status, SP_OK, "%s: %s", result->model.err.code, result->model.err.message);
    }
}

void check_run_bytes(struct check_result *result, const void *bytes, size_t size, unsigned parts, double memory_bytes)
{
    struct sp_shape_summary summary;
    size_t used = 0;
    memset(&result->list, 0, sizeof result->list);
    result->codes[0] = '\0';
    cr_assert_eq(onnx_read(&result->model, bytes, size), SP_OK, "%s", result->model.err.message);
    struct sp_model *model = result->model.model;
    struct sp_error *err = &result->model.err;
    result->list.arena = result->model.arena;
    cr_assert_eq(sp_infer_shapes(model, NULL, &summary, err), SP_OK, "%s", err->message);
    if (parts & CHECK_ANNOTATIONS)
        cr_assert_eq(sp_check_annotations(model, NULL, &result->list, err), SP_OK, "%s", err->message);
    if (parts & CHECK_MEANING)
        run_meaning(result, memory_bytes);
    if (parts & CHECK_FOREIGN)
        cr_assert_eq(sp_check_foreign(model, &result->list, err), SP_OK, "%s", err->message);
    for (uint32_t i = 0; i < result->list.count; i++) {
        const struct sp_diagnostic *one = &result->list.items[i];
        cr_assert_eq(one->severity, one->code->severity, "%s", one->code->code);
        cr_assert(strlen(one->message) > 10 && one->message[strlen(one->message) - 1] == '.', "no sentence: '%s'",
                  one->message);
        cr_assert_not_null(one->hint, "%s", one->code->code);
        used += (size_t)snprintf(result->codes + used, sizeof result->codes - used, "%s%s", used == 0 ? "" : " ",
                                 one->code->code);
        cr_assert(used < sizeof result->codes);
    }
}

void check_run(struct check_result *result, const char *notation, unsigned parts, double memory_bytes)
{
    result->file = onnx_encode(notation);
    check_run_bytes(result, result->file.data, result->file.size, parts, memory_bytes);
}

void check_release(struct check_result *result)
{
    onnx_release(&result->model);
    sp_buf_release(&result->file);
}

const struct sp_diagnostic *check_find(const struct check_result *result, const char *code)
{
    for (uint32_t i = 0; i < result->list.count; i++) {
        if (strcmp(result->list.items[i].code->code, code) == 0)
            return &result->list.items[i];
    }
    return NULL;
}

const char *check_verdict(const struct check_result *result)
{
    if (result->list.errors > 0)
        return "invalid";
    if (check_find(result, "PLACEMENT_OPEN") != NULL)
        return "incomplete";
    for (uint32_t i = 0; i < result->list.count; i++) {
        const struct sp_diagnostic *one = &result->list.items[i];
        if (one->severity == SP_SEVERITY_WARNING && strcmp(one->code->code, "SHARDS_UNEVEN") != 0 &&
            strcmp(one->code->code, "SHARDS_EMPTY") != 0)
            return "warn";
    }
    return "valid";
}

void check_case(const struct check_case *one, unsigned parts)
{
    struct check_result result;
    check_run(&result, one->notation, parts, 0);
    cr_expect_str_eq(result.codes, one->codes, "%s: '%s' instead of '%s'; first: %s", one->name, result.codes,
                     one->codes, result.list.count > 0 ? result.list.items[0].message : "");
    if (one->phrase != NULL && result.list.count > 0)
        cr_expect(strstr(result.list.items[0].message, one->phrase) != NULL ||
                      strstr(result.list.items[0].hint, one->phrase) != NULL,
                  "%s: no '%s' in '%s' (hint '%s')", one->name, one->phrase, result.list.items[0].message,
                  result.list.items[0].hint);
    check_release(&result);
}

static bool is_expected(const char *code, const struct check_case *one)
{
    const size_t size = strlen(code);
    for (const char *at = one->codes; (at = strstr(at, code)) != NULL; at += size) {
        if ((at == one->codes || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0'))
            return true;
    }
    return false;
}

void check_coverage(const struct sp_diagnostic_code *table, size_t count, const struct check_cases *cases)
{
    uint32_t entries = 0;
    for (; table->code != NULL; table++, entries++) {
        bool found = false;
        for (size_t i = 0; !found && i < count; i++) {
            for (size_t k = 0; !found && k < cases[i].count; k++)
                found = is_expected(table->code, &cases[i].items[k]);
        }
        cr_expect(found, "no case raises %s", table->code);
        cr_expect_eq(sp_diagnostic_find(table->code), table, "%s is in the table twice", table->code);
    }
    cr_assert(entries > 0);
}
