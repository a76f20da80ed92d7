/* The operator table as a whole: lookup by version, and what every entry must have. */
#include <criterion/criterion.h>
#include <string.h>

#include "ops/op.h"

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
        cr_expect(op->domain != NULL && op->name != NULL && op->infer != NULL && op->rule != NULL, "entry %u", i);
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
