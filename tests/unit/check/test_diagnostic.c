/* Findings and the table of codes that explains them. */
#include <criterion/criterion.h>
#include <glob.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "data_files.h"
#include "onnx_files.h"

static struct sp_arena *arena;
static struct sp_diagnostics list;
static struct sp_error err;

static void start(void)
{
    arena = sp_arena_create(NULL);
    list = (struct sp_diagnostics){.arena = arena};
    sp_error_clear(&err);
}

static void stop(void)
{
    sp_arena_destroy(arena);
}

TestSuite(diagnostic, .init = start, .fini = stop);

static bool ends_sentence(const char *text)
{
    const size_t length = strlen(text);
    return length > 1 && text[length - 1] == '.';
}

Test(diagnostic, every_code_is_explained_once)
{
    uint32_t count;
    const struct sp_diagnostic_code *const *all = sp_diagnostic_all(&count);
    cr_assert_gt(count, 100);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_diagnostic_code *code = all[i];
        cr_expect_eq(strspn(code->code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"), strlen(code->code), "%s", code->code);
        cr_expect(ends_sentence(code->meaning), "%s: %s", code->code, code->meaning);
        cr_expect(ends_sentence(code->remedy), "%s: %s", code->code, code->remedy);
        cr_expect(code->source != NULL && code->source[0] != '\0', "%s", code->code);
        cr_expect_eq(sp_diagnostic_find(code->code), code, "%s is there twice", code->code);
    }
    cr_expect_null(sp_diagnostic_find("NO_SUCH_CODE"));
}

/* Codes of calls that fail in a source: fail...(.., "CODE". */
static void expect_codes_of(const char *path, const regex_t *call)
{
    /* Faults of requests, of this program, and of files that it wrote are no findings about a model. */
    static const char *const others[] = {"BAD_DIMENSION_BINDING", "BROKEN_RULE",        "NO_RULE",
                                         "TOO_MANY_FACTORS",      "TOO_MANY_OPERATORS", "NO_CONTROL_FLOW"};
    static const char *const synonyms[] = {"ATTRIBUTE_MISSING"}; /* sp_check_add_error() */
    size_t size;
    char *text = (char *)data_read(path, &size);
    cr_assert_not_null(text, "%s", path);
    regmatch_t match[2];
    for (const char *at = text; regexec(call, at, 2, match, 0) == 0; at += match[0].rm_eo) {
        char code[64];
        (void)snprintf(code, sizeof code, "%.*s", (int)(match[1].rm_eo - match[1].rm_so), at + match[1].rm_so);
        bool is_known = sp_diagnostic_find(code) != NULL || strcmp(code, synonyms[0]) == 0;
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
            is_known = is_known || strcmp(code, others[i]) == 0;
        cr_expect(is_known, "%s of %s is not in core/check/graph_codes.c", code, path);
    }
    free(text);
}

/* Whatever the reader and shape inference refuse a model for is explained. */
Test(diagnostic, codes_of_reader_and_operators_are_in_the_table)
{
    static const char *const patterns[] = {
        SOURCE_ROOT "/core/onnx/read*.c",          SOURCE_ROOT "/core/onnx/wire.c",
        SOURCE_ROOT "/core/onnx/leaf.c",           SOURCE_ROOT "/core/onnx/expand.c",
        SOURCE_ROOT "/core/onnx/function_calls.c", SOURCE_ROOT "/core/ops/table/*.c",
        SOURCE_ROOT "/core/ops/shapes/*.c",        SOURCE_ROOT "/core/ops/bodies/*.c",
        SOURCE_ROOT "/core/ops/families/*/*.c"};
    regex_t call;
    size_t files = 0;
    cr_assert_eq(regcomp(&call, "fail[a-z_]*\\([^;\"]*\"([A-Z][A-Z0-9]*_[A-Z0-9_]+)\"", REG_EXTENDED), 0);
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        glob_t found;
        cr_assert_eq(glob(patterns[i], 0, NULL, &found), 0, "%s", patterns[i]);
        for (size_t k = 0; k < found.gl_pathc; k++)
            expect_codes_of(found.gl_pathv[k], &call);
        files += found.gl_pathc;
        globfree(&found);
    }
    regfree(&call);
    cr_expect_gt(files, 40);
}

Test(diagnostic, the_page_holds_the_table)
{
    uint32_t count;
    const struct sp_diagnostic_code *const *all = sp_diagnostic_all(&count);
    struct sp_buf page;
    sp_buf_init(&page, (size_t)1 << 20);
    sp_diagnostics_write_page(&page);
    cr_assert_not(sp_buf_failed(&page));
    for (uint32_t i = 0; i < count; i++) {
        char heading[128];
        (void)snprintf(heading, sizeof heading, "\n### %s\n", all[i]->code);
        const char *at = strstr(page.data, heading);
        cr_assert_not_null(at, "%s", all[i]->code);
        cr_expect_not_null(strstr(at, all[i]->meaning));
        cr_expect_not_null(strstr(at, all[i]->remedy));
        cr_expect_null(strstr(at + 1, heading), "%s", all[i]->code);
    }
    sp_buf_release(&page);
}

Test(diagnostic, a_finding_keeps_its_own_texts)
{
    char name[] = "w", hint[] = "Do this.";
    struct sp_finding finding = {.code = "NO_TENSOR_DATA", .tensor = name, .configuration = name, .hint = hint};
    cr_assert_eq(sp_diagnose(&list, &finding, &err, "The tensor '%s' says \"%s\".", name, "\x1b[2J\n"), SP_OK);
    name[0] = hint[0] = '?';
    cr_assert_eq(list.count, 1);
    const struct sp_diagnostic *item = &list.items[0];
    cr_expect_str_eq(item->message, "The tensor 'w' says \"?[2J?\"."); /* nothing that moves a terminal */
    cr_expect_str_eq(item->tensor, "w");
    cr_expect_str_eq(item->configuration, "w");
    cr_expect_str_eq(item->hint, "Do this.");
    cr_expect(item->place == NULL && item->node == NULL && item->bytes < 0);
    cr_expect_eq(item->severity, SP_SEVERITY_ERROR);
    finding = (struct sp_finding){.code = "OPSET_TOO_NEW", .place = "here", .bytes = 12};
    cr_assert_eq(sp_diagnose(&list, &finding, &err, "Too new."), SP_OK);
    cr_expect_str_eq(list.items[1].hint, sp_diagnostic_find("OPSET_TOO_NEW")->remedy);
    cr_expect_str_eq(list.items[1].place, "here");
    cr_expect_eq(list.items[1].bytes, 12);
    cr_expect(list.errors == 1 && list.warnings == 1 && list.notes == 0);
}

Test(diagnostic, an_unknown_code_is_our_fault)
{
    struct sp_finding finding = {.code = "NO_SUCH_CODE"};
    cr_expect_eq(sp_diagnose(&list, &finding, &err, "What?"), SP_ERR_INTERNAL);
    cr_expect_eq(list.count, 0);
}

Test(diagnostic, beyond_the_limit_findings_are_counted)
{
    struct sp_finding finding = {.code = "UNKNOWN_OPERATOR"};
    for (uint32_t i = 0; i < SP_MAX_DIAGNOSTICS + 5; i++)
        cr_assert_eq(sp_diagnose(&list, &finding, &err, "Number %u.", i), SP_OK);
    cr_expect_eq(list.count, SP_MAX_DIAGNOSTICS);
    cr_expect_eq(list.errors, SP_MAX_DIAGNOSTICS + 5);
}

Test(diagnostic, errors_become_findings)
{
    struct sp_error what = {0};
    sp_fail(&what, SP_ERR_MODEL, "UNDEFINED_INPUT", "Input 0 is 'z', which nothing defines.");
    sp_error_at(&what, "node 3 (Add)");
    cr_assert_eq(sp_check_add_error(&list, NULL, &what, &err), SP_OK);
    cr_expect_str_eq(list.items[0].code->code, "UNDEFINED_INPUT");
    cr_expect_str_eq(list.items[0].place, "node 3 (Add)");
    cr_expect_str_eq(list.items[0].message, "Input 0 is 'z', which nothing defines.");
    sp_error_clear(&what);
    sp_fail(&what, SP_ERR_MODEL, "SOMETHING_ELSE", "It is wrong.");
    cr_assert_eq(sp_check_add_error(&list, NULL, &what, &err), SP_OK);
    cr_expect_str_eq(list.items[1].code->code, "MODEL_UNREADABLE");
    sp_error_clear(&what);
    sp_fail(&what, SP_ERR_MODEL, "ATTRIBUTE_MISSING", "Attribute 'equation' is required.");
    cr_assert_eq(sp_check_add_error(&list, NULL, &what, &err), SP_OK);
    cr_expect_str_eq(list.items[2].code->code, "MISSING_ATTRIBUTE"); /* one rule, one code */
    sp_error_clear(&what);
    sp_fail(&what, SP_ERR_MODEL, "AXIS_TWICE", "Axis 1 is given twice.");
    cr_assert_eq(sp_check_add_error(&list, NULL, &what, &err), SP_OK);
    cr_expect_str_eq(list.items[3].code->code, "OPERATOR_AXIS_TWICE"); /* not an annotation's */
    sp_error_clear(&what);
    cr_assert_eq(sp_check_add_error(&list, NULL, &what, &err), SP_OK); /* no error, no finding */
    cr_expect_eq(list.count, 4);
}

Test(diagnostic, places_are_paths_over_graphs)
{
    struct sp_buf file = onnx_encode(
        "1:8 8{2:17} 8{1'org' 2:1} 25{1'F' 10'org' 4'a' 5'b' 9{2:17} 7{1'a' 2'b' 4'Relu'}}"
        "7{2'g' 11{1'x' 2{1{1:1 2{}}}} 12{1'y' 2{1{1:1 2{}}}} 1{1'x' 2'h' 4'Neg' 3'first'} 1{1'h' 2'y' 4'F' 7'org'}}");
    struct onnx_model model;
    struct sp_graph *body;
    cr_assert_eq(onnx_read(&model, file.data, file.size), SP_OK, "%s", model.err.message);
    struct sp_graph *graph = model.model->graph;
    struct sp_node *call = &graph->nodes[1];
    cr_expect_str_eq(sp_diagnostic_place(arena, graph, NULL), "main");
    cr_expect_str_eq(sp_diagnostic_place(arena, NULL, &graph->nodes[0]), "main/Neg 'first'");
    cr_expect_str_eq(sp_diagnostic_place(arena, NULL, call), "main/F_1");
    cr_assert_eq(sp_onnx_expand(model.model, call, &model.model->functions[0], &body, &err), SP_OK);
    cr_expect_str_eq(sp_diagnostic_place(arena, NULL, &body->nodes[0]), "main/F_1()/Relu_0");
    cr_assert_eq(sp_onnx_body(model.model, arena, &model.model->functions[0], &body, &err), SP_OK);
    cr_expect_str_eq(sp_diagnostic_place(arena, NULL, &body->nodes[0]), "function F/Relu_0");
    onnx_release(&model);
    sp_buf_release(&file);
}
