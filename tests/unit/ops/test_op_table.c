/* The operator table as a whole: lookup by version, and what every entry must have. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/table/op.h"
#include "ops/table/rule_text.h"
#include "ops/table/signature.h"

Test(op_table, finds_the_version_in_force)
{
    const struct sp_op *old = sp_op_find("", "Squeeze", 12), *newer = sp_op_find("", "Squeeze", 13);
    cr_assert(old != NULL && newer != NULL);
    cr_expect_eq(old->since, 1);
    cr_expect_eq(old->max_inputs, 1); /* axes are an attribute */
    cr_expect_eq(newer->since, 13);
    cr_expect_eq(newer->max_inputs, 2);
    cr_expect_eq(sp_op_find("", "Squeeze", 1000), newer);
    cr_expect_eq(sp_op_find("ai.onnx", "Squeeze", 13), newer);
}

Test(op_table, does_not_find_what_is_not_there)
{
    cr_expect_null(sp_op_find("", "Squeez", 13));
    cr_expect_null(sp_op_find("", "Squeezes", 13));
    cr_expect_null(sp_op_find("", "", 13));
    cr_expect_null(sp_op_find("com.example", "Squeeze", 13));
    cr_expect_null(sp_op_find("", "ConstantOfShape", 8)); /* before its first version */
    cr_expect_null(sp_op_find("", "Scatter", 11));        /* after its last */
    cr_expect_null(sp_op_find("", "Squeeze", 0));
}

Test(op_table, every_entry_is_complete_and_found)
{
    uint32_t count = 0;
    const struct sp_op *const *all = sp_op_all(&count);
    cr_assert_gt(count, 30);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_op *op = all[i];
        cr_expect(op->domain != NULL && op->name != NULL && op->shapes != NULL, "entry %u", i);
        cr_expect(op->rule != NULL || op->read->is_read, "%s-%ld has no rule", op->name, (long)op->since);
        cr_expect(op->since >= 1 && (op->last == 0 || op->last >= op->since), "%s-%ld", op->name, (long)op->since);
        cr_expect(op->min_inputs <= op->max_inputs && op->min_outputs <= op->max_outputs, "%s", op->name);
        cr_expect(op->text != NULL && op->text[0] != '\0' && op->source != NULL && op->source[0] != '\0', "%s",
                  op->name);
        cr_expect_eq(sp_op_find(op->domain, op->name, op->since), op, "%s-%ld", op->name, (long)op->since);
        int64_t newest = op->last == 0 ? 1000000 : op->last;
        cr_expect_eq(sp_op_find(op->domain, op->name, newest), op, "%s-%ld", op->name, (long)newest);
        if (op->flags & (SP_OP_VIEW | SP_OP_METADATA))
            cr_expect_geq(op->min_inputs, 1, "%s", op->name);
        if (op->flags & SP_OP_CONSTANT)
            cr_expect_eq(op->max_inputs, 0, "%s", op->name);
    }
}

Test(op_table, versions_of_one_operator_do_not_overlap)
{
    uint32_t count = 0;
    const struct sp_op *const *all = sp_op_all(&count);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = i + 1; k < count; k++) {
            const struct sp_op *a = all[i], *b = all[k];
            if (strcmp(a->name, b->name) != 0 || strcmp(a->domain, b->domain) != 0)
                continue;
            bool is_apart = (a->last != 0 && a->last < b->since) || (b->last != 0 && b->last < a->since);
            cr_expect(is_apart, "%s-%ld and -%ld", a->name, (long)a->since, (long)b->since);
        }
    }
}

/* ---- completeness --------------------------------------------------------------------------------------------- */

#define PUBLISHED "/tests/unit/ops/published_operators.txt" /* says where it comes from */

/* Signatures of these domains that the list does not have. */
static unsigned unlisted(unsigned listed)
{
    uint32_t count = 0, published = 0;
    const struct sp_signature *all = sp_signature_all(&count);
    for (uint32_t i = 0; i < count; i++)
        published += strncmp(all[i].domain, "ai.onnx", strlen("ai.onnx")) == 0 || all[i].domain[0] == '\0';
    return published - listed;
}

static void expect_version(const char *domain, const char *name, int64_t version, bool is_deprecated)
{
    uint32_t count = 0, found = 0;
    const struct sp_signature *all = sp_signature_all(&count);
    for (uint32_t i = 0; i < count; i++)
        found += strcmp(all[i].domain, domain) == 0 && strcmp(all[i].name, name) == 0 && all[i].since == version &&
                 all[i].is_deprecated == is_deprecated;
    cr_expect_eq(found, 1, "%s.%s-%ld has %u signatures", domain, name, (long)version, found);
    cr_expect(is_deprecated || sp_op_find(domain, name, version) != NULL, "there is no entry for %s.%s-%ld", domain,
              name, (long)version);
}

/* The versions of one operator, "1 6 13" or "1 9 11!"; how many there are. */
static unsigned expect_versions(const char *domain, const char *name, const char *versions)
{
    char *end;
    unsigned count = 0;
    for (const char *text = versions; *text != '\0' && *text != '\n'; text = end + strspn(end, "! "), count++) {
        int64_t version = strtoll(text, &end, 10);
        cr_assert(end != text && version > 0, "%s %s", name, versions);
        expect_version(domain, name, version, *end == '!');
    }
    return count;
}

Test(op_table, has_every_published_version_and_no_other)
{
    FILE *file = fopen(SOURCE_ROOT PUBLISHED, "r");
    char line[256], domain[64] = "", name[64];
    unsigned count = 0;
    int length;
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        cr_assert_eq(sscanf(line, "%63s %n", name, &length), 1);
        if (strcmp(name, "domain") == 0)
            (void)snprintf(domain, sizeof domain, "%.*s", (int)strcspn(line + length, "\n"),
                           strcmp(line + length, "ai.onnx\n") == 0 ? "" : line + length);
        else
            count += expect_versions(domain, name, line + length);
    }
    (void)fclose(file);
    cr_expect_gt(count, 650);
    cr_expect_eq(unlisted(count), 0);
}

/* From its first version on, and with all the operands that any version has. */
Test(op_table, has_every_version_of_every_published_operator)
{
    uint32_t count = 0;
    const struct sp_signature *all = sp_signature_all(&count);
    cr_assert_gt(count, 500);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_signature *signature = &all[i];
        const struct sp_op *op = sp_op_find(signature->domain, signature->name, signature->since);
        if (signature->is_deprecated)
            continue;
        if (op == NULL)
            continue;
        cr_expect(op->min_inputs <= signature->min_inputs && op->max_inputs >= signature->max_inputs,
                  "%s-%ld: %u to %u inputs, published %u to %u", op->name, (long)signature->since, op->min_inputs,
                  op->max_inputs, signature->min_inputs, signature->max_inputs);
        cr_expect(op->min_outputs <= signature->min_outputs && op->max_outputs >= signature->max_outputs,
                  "%s-%ld: %u to %u outputs, published %u to %u", op->name, (long)signature->since, op->min_outputs,
                  op->max_outputs, signature->min_outputs, signature->max_outputs);
    }
}
