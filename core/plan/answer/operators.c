#include "plan/answer/operators.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ops/table/op.h"
#include "ops/table/signature.h"

#define MAX_ROWS 1024

/* The entries of the table by domain and name. */
struct table {
    uint32_t count;
    const struct sp_op *rows[MAX_ROWS];
};

static const char *domain_name(const char *domain)
{
    return domain[0] == '\0' ? "ai.onnx" : domain;
}

/* ONNX's own domain first, then the others by name. */
static int by_name(const void *a, const void *b)
{
    const struct sp_op *x = *(const struct sp_op *const *)a, *y = *(const struct sp_op *const *)b;
    int order = strcmp(x->domain, y->domain);
    if (order == 0)
        order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->since > y->since) - (x->since < y->since);
}

static bool same_operator(const struct sp_op *a, const struct sp_op *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->domain, b->domain) == 0;
}

/* "MatMul", "ai.onnx.MatMul", "com.microsoft.Attention". */
static bool is_called(const struct sp_op *op, const char *name)
{
    const char *domain = domain_name(op->domain);
    size_t size = strlen(domain);
    return strcmp(op->name, name) == 0 ||
           (strncmp(name, domain, size) == 0 && name[size] == '.' && strcmp(name + size + 1, op->name) == 0);
}

static const char *alike(const char *name)
{
    uint32_t count;
    const struct sp_op *const *all = sp_op_all(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (strcasecmp(all[i]->name, name) == 0)
            return all[i]->name;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (strlen(name) >= 3 && strcasestr(all[i]->name, name) != NULL)
            return all[i]->name;
    }
    return NULL;
}

static enum sp_status collect(const char *name, struct table *table, struct sp_error *err)
{
    uint32_t count;
    const struct sp_op *const *all = sp_op_all(&count);
    for (uint32_t i = 0; i < count && table->count < MAX_ROWS; i++) {
        if (name == NULL || is_called(all[i], name))
            table->rows[table->count++] = all[i];
    }
    if (table->count == 0 && name != NULL) {
        const char *other = alike(name);
        return sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_OPERATOR", "There is no operator '%.100s' in the table%s%s%s.",
                       name, other != NULL ? "; there is '" : "", other != NULL ? other : "", other != NULL ? "'" : "");
    }
    qsort(table->rows, table->count, sizeof table->rows[0], by_name);
    return SP_OK;
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static void write_flags(uint32_t flags, struct sp_json *json)
{
    static const char *const names[] = {"view", "metadata", "constant", "random", "control"};
    sp_json_begin_array(json);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((flags >> i & 1) != 0)
            sp_json_string(json, names[i]);
    }
    sp_json_end_array(json);
}

static void write_rule(const struct sp_op *op, struct sp_json *json)
{
    sp_json_begin_object(json);
    sp_json_member_int(json, "since", op->since);
    sp_json_key(json, "last");
    if (op->last != 0)
        sp_json_int(json, op->last);
    else
        sp_json_null(json);
    sp_json_member_string(json, "rule", op->text);
    sp_json_member_string(json, "source", op->source);
    sp_json_key(json, "flags");
    write_flags(op->flags, json);
    sp_json_end_object(json);
}

static void write_versions(const struct sp_op *op, struct sp_json *json)
{
    uint32_t count;
    const struct sp_signature *all = sp_signature_all(&count);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(all[i].name, op->name) == 0 && strcmp(all[i].domain, op->domain) == 0)
            sp_json_int(json, all[i].since);
    }
    sp_json_end_array(json);
}

enum sp_status sp_operators_json(const char *name, struct sp_json *json, struct sp_error *err)
{
    struct table table = {0};
    enum sp_status status = collect(name, &table, err);
    if (status != SP_OK)
        return status;
    sp_json_begin_object(json);
    sp_json_key(json, "operators");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < table.count;) {
        const struct sp_op *op = table.rows[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", op->name);
        sp_json_member_string(json, "domain", domain_name(op->domain));
        sp_json_key(json, "rules");
        sp_json_begin_array(json);
        for (; i < table.count && same_operator(table.rows[i], op); i++)
            write_rule(table.rows[i], json);
        sp_json_end_array(json);
        sp_json_key(json, "versions");
        write_versions(op, json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
    return SP_OK;
}

/* ---- text ----------------------------------------------------------------------------------------------------- */

static void versions_text(const struct sp_op *op, struct sp_buf *buf)
{
    if (op->last == 0)
        sp_buf_printf(buf, "from version %lld", (long long)op->since);
    else if (op->last == op->since)
        sp_buf_printf(buf, "version %lld", (long long)op->since);
    else
        sp_buf_printf(buf, "versions %lld to %lld", (long long)op->since, (long long)op->last);
}

enum sp_status sp_operators_text(const char *name, struct sp_buf *buf, struct sp_error *err)
{
    struct table table = {0};
    enum sp_status status = collect(name, &table, err);
    for (uint32_t i = 0; status == SP_OK && i < table.count; i++) {
        const struct sp_op *op = table.rows[i];
        if (op->domain[0] != '\0')
            sp_buf_printf(buf, "%s.", op->domain);
        sp_buf_printf(buf, "%s, ", op->name);
        versions_text(op, buf);
        sp_buf_printf(buf, "\n  %s\n", op->text);
        if (name != NULL)
            sp_buf_printf(buf, "  source: %s\n", op->source);
    }
    return status;
}

/* A cell of a Markdown table: '|' would end it. */
static void cell(const char *text, struct sp_buf *buf)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            sp_buf_text(buf, "\\");
        sp_buf_append(buf, text, 1);
    }
}

void sp_operators_write_page(struct sp_buf *buf)
{
    struct table table = {0};
    const char *domain = NULL;
    if (collect(NULL, &table, NULL) != SP_OK)
        return;
    sp_buf_text(
        buf,
        "# Operators\n\n"
        "Every operator that Shardplan knows, and its sharding rule. This page is generated from the operator table;\n"
        "`shardplan operators NAME` and `GET /v1/operators` print the same.\n\n"
        "A rule names the factors of the computation (its loop indices) and says which axis of which operand they "
        "are:\n"
        "`[b.., m, k] [b.., k, n] -> [b.., m, n]; k sum` is a product of matrices. `b..` stands for any number of "
        "axes,\n"
        "`g*c` is an axis made of two factors, the first one major, `_` an axis of no factor. A factor that nothing "
        "is\n"
        "said of is parallel: it may be split and nothing is communicated. The others:\n\n"
        "- sum, max, min, product, softmax, moments, select: a reduction; split, its partial results are combined so\n"
        "- whole: every device needs the whole extent\n"
        "- halo: neighbours exchange elements at the borders\n"
        "- moves: elements move to other positions, which a split makes a permutation between devices\n"
        "- sequential: a recurrence, one step after the other\n");
    for (uint32_t i = 0; i < table.count; i++) {
        const struct sp_op *op = table.rows[i];
        if (domain == NULL || strcmp(domain, op->domain) != 0)
            sp_buf_printf(buf, "\n## %s\n\n| operator | versions | rule | source |\n|---|---|---|---|\n",
                          domain_name(op->domain));
        domain = op->domain;
        sp_buf_printf(buf, "| %s | ", op->name);
        if (op->last == 0)
            sp_buf_printf(buf, "%lld..", (long long)op->since);
        else if (op->last == op->since)
            sp_buf_printf(buf, "%lld", (long long)op->since);
        else
            sp_buf_printf(buf, "%lld-%lld", (long long)op->since, (long long)op->last);
        sp_buf_text(buf, " | `");
        cell(op->text, buf);
        sp_buf_text(buf, "` | ");
        cell(op->source, buf);
        sp_buf_text(buf, " |\n");
    }
}
