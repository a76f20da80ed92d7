#include "ops/table/private.h"

#include <math.h>
#include <string.h>

#include "base/json_reader.h"
#include "ops/table/rule_text.h"
#include "ops/table/signature.h"

struct reading {
    struct sp_members_reader members;
    struct sp_op *op;
};

static enum sp_status refuse_item(struct reading *r, const char *pointer, const char *member, const char *what)
{
    return sp_members_refuse(&r->members, sp_members_child(&r->members, pointer, member), "INVALID_OPERATOR", "%s",
                             what);
}

static enum sp_status read_name(struct reading *r, const json_t *json, const char *pointer)
{
    enum sp_status status = sp_members_text(&r->members, json, pointer, "domain", SP_MAX_NAME_BYTES, &r->op->domain);
    if (status == SP_OK)
        status = sp_members_text(&r->members, json, pointer, "name", SP_MAX_NAME_BYTES, &r->op->name);
    if (status != SP_OK)
        return status;
    if (r->op->domain == NULL || r->op->name == NULL)
        return refuse_item(r, pointer, r->op->domain == NULL ? "domain" : "name",
                           "An operator has a 'domain', a 'name' and a 'rule'.");
    if (sp_signature_domain(r->op->domain))
        return refuse_item(r, pointer, "domain", "ONNX defines the operators of this domain; name one of your own.");
    return SP_OK;
}

static bool is_version(const json_t *json)
{
    return json_is_integer(json) && json_integer_value(json) >= 1;
}

/* [first, last], [first], or the first. */
static enum sp_status read_versions(struct reading *r, const json_t *json, const char *pointer)
{
    const json_t *versions = json_object_get(json, "versions");
    size_t count = json_array_size(versions);
    const json_t *first = json_is_array(versions) ? json_array_get(versions, 0) : versions;
    const json_t *last = count > 1 ? json_array_get(versions, 1) : NULL;
    r->op->since = 1;
    if (versions == NULL)
        return SP_OK;
    if (!is_version(first) || count > 2 ||
        (last != NULL && (!is_version(last) || json_integer_value(last) < json_integer_value(first))))
        return refuse_item(r, pointer, "versions",
                           "The versions are the first and the last one, like [1, 3], or the first.");
    r->op->since = json_integer_value(first);
    r->op->last = json_integer_value(last);
    return SP_OK;
}

static enum sp_status read_rule(struct reading *r, const json_t *json, const char *pointer)
{
    struct sp_op *op = r->op;
    const char *at = NULL;
    enum sp_status status = sp_members_text(&r->members, json, pointer, "rule", SP_MAX_RULE_BYTES, &op->text);
    if (status != SP_OK)
        return status;
    if (op->text == NULL)
        return refuse_item(r, pointer, "rule", "An operator has a 'domain', a 'name' and a 'rule'.");
    op->read = SP_NEW(r->members.arena, struct sp_rule_text);
    if (op->read == NULL)
        return sp_fail_memory(r->members.err);
    if (!sp_rule_text_parse_strict(op->text, op->read, &at) || op->read->output_count == 0)
        return sp_members_refuse(
            &r->members, sp_members_child(&r->members, pointer, "rule"), "INVALID_RULE",
            "The rule cannot be read from column %zu on, '%.40s'; it is like \"[b.., m, k] [b.., k, "
            "n] -> [b.., m, n]; k sum\".",
            (size_t)(at - op->text) + 1, at);
    return SP_OK;
}

/* One type as sp_op.types has it; NULL for what is none. */
static const char *type_word(struct reading *r, const json_t *json)
{
    const char *name = json_string_value(json);
    const char *attribute = json_string_value(json_object_get(json, "attribute"));
    if (json_is_integer(json) && json_integer_value(json) >= 0 && json_integer_value(json) < UINT16_MAX)
        return sp_arena_printf(r->members.arena, "%lld", (long long)json_integer_value(json));
    if (name != NULL && sp_dtype_parse(name) != SP_DTYPE_UNDEFINED)
        return sp_arena_string(r->members.arena, name, strlen(name));
    if (attribute != NULL && json_object_size(json) == 1 && attribute[0] != '\0' &&
        strlen(attribute) < SP_MAX_TYPE_WORD && strchr(attribute, ' ') == NULL)
        return sp_arena_printf(r->members.arena, "=%s", attribute);
    return NULL;
}

static enum sp_status read_types(struct reading *r, const json_t *json, const char *pointer)
{
    const json_t *types = json_object_get(json, "types");
    const char *text = NULL;
    if (types == NULL)
        return SP_OK;
    for (size_t i = 0; i < json_array_size(types) && i < SP_TEXT_MAX_OPERANDS; i++) {
        const char *word = type_word(r, json_array_get(types, i));
        if (word == NULL)
            return refuse_item(r, pointer, "types",
                               "A type is the number of an input, a name like \"float16\", or {\"attribute\": NAME}.");
        text = text == NULL ? word : sp_arena_printf(r->members.arena, "%s %s", text, word);
        if (text == NULL)
            return sp_fail_memory(r->members.err);
    }
    if (text == NULL || json_array_size(types) > SP_TEXT_MAX_OPERANDS)
        return refuse_item(r, pointer, "types", "The types are a list, one for each output, like [0, \"int64\"].");
    r->op->types = text;
    return SP_OK;
}

static enum sp_status read_flops(struct reading *r, const json_t *json, const char *pointer)
{
    const json_t *flops = json_object_get(json, "flops");
    if (flops == NULL)
        return SP_OK;
    if (json_is_string(flops)) {
        enum sp_status status = sp_members_text(&r->members, json, pointer, "flops", SP_MAX_RULE_BYTES, &r->op->work);
        if (status == SP_OK && !sp_work_is_valid(r->op->work))
            return refuse_item(r, pointer, "flops",
                               "FLOPs are a number for each point, or terms of factors like \"2*m*n*k + 5*m\".");
        return status;
    }
    r->op->flops = json_number_value(flops);
    if (!json_is_number(flops) || !isfinite(r->op->flops) || r->op->flops < 0 || r->op->flops > 1e12)
        return refuse_item(r, pointer, "flops",
                           "FLOPs are a number for each point, or terms of factors like \"2*m*n*k + 5*m\".");
    return SP_OK;
}

static enum sp_status read_operator(struct reading *r, json_t *json, const char *pointer)
{
    static const char *const members[] = {"domain", "name", "versions", "rule", "types", "flops"};
    enum sp_status status = pointer == NULL ? sp_fail_memory(r->members.err)
                                            : sp_members_check(&r->members, json, pointer, "An operator", members,
                                                               sizeof members / sizeof members[0]);
    *r->op = (struct sp_op){.max_inputs = UINT32_MAX,
                            .min_outputs = 1,
                            .max_outputs = UINT32_MAX,
                            .shapes = sp_shapes_from_text,
                            .source = "the caller"};
    if (status == SP_OK)
        status = read_name(r, json, pointer);
    if (status == SP_OK)
        status = read_versions(r, json, pointer);
    if (status == SP_OK)
        status = read_rule(r, json, pointer);
    if (status == SP_OK)
        status = read_types(r, json, pointer);
    return status == SP_OK ? read_flops(r, json, pointer) : status;
}

enum sp_status sp_private_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                struct sp_private_operators *ret_operators, struct sp_error *err)
{
    struct reading r = {.members = {arena, err}};
    size_t count = json_array_size(json);
    if (!json_is_array(json))
        return sp_members_refuse(&r.members, pointer, "INVALID_OPERATOR",
                                 "The operators are a list of objects with a domain, a name and a rule.");
    if (count > SP_MAX_PRIVATE_OPERATORS)
        return sp_fail_limit(err, "TOO_MANY_OPERATORS", "SP_MAX_PRIVATE_OPERATORS", SP_MAX_PRIVATE_OPERATORS,
                             (int64_t)count, "One request may describe at most %d operators.",
                             SP_MAX_PRIVATE_OPERATORS);
    struct sp_private_operators operators = {.ops = SP_NEW_ARRAY(arena, count, struct sp_op)};
    if (operators.ops == NULL)
        return sp_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        r.op = &operators.ops[operators.count++];
        enum sp_status status = read_operator(&r, json_array_get(json, i), sp_members_item(&r.members, pointer, i));
        if (status != SP_OK)
            return status;
    }
    *ret_operators = operators;
    return SP_OK;
}

static enum sp_status parse_metadata(const struct sp_model *model, const char *text,
                                     struct sp_private_operators *ret_operators, struct sp_error *err)
{
    static const char pointer[] = "/metadata/" SP_PRIVATE_METADATA_KEY;
    const size_t size = strlen(text);
    if (size > SP_MAX_PRIVATE_BYTES)
        return sp_fail_limit(err, "TOO_MANY_OPERATORS", "SP_MAX_PRIVATE_BYTES", (int64_t)SP_MAX_PRIVATE_BYTES,
                             (int64_t)size, "The operators in a model's metadata may have at most %zu bytes.",
                             SP_MAX_PRIVATE_BYTES);
    struct sp_error what = {0};
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    enum sp_status status = sp_private_parse(model->arena, json, pointer, ret_operators, &what);
    json_decref(json);
    if (status == SP_OK)
        return SP_OK;
    (void)sp_fail(err, status == SP_ERR_REQUEST ? SP_ERR_MODEL : status, what.code, "%s", what.message);
    return sp_error_at(err, "%s", what.where);
}

enum sp_status sp_private_adopt(struct sp_model *model, struct sp_error *err)
{
    const struct sp_private_operators *given = model->operators;
    const char *text = NULL;
    struct sp_private_operators own = {0};
    for (uint32_t i = 0; i < model->metadata_count; i++) {
        if (strcmp(model->metadata[i].key, SP_PRIVATE_METADATA_KEY) == 0)
            text = model->metadata[i].value;
    }
    if (text == NULL || (given != NULL && given->has_own_of_model))
        return SP_OK;
    enum sp_status status = parse_metadata(model, text, &own, err);
    if (status != SP_OK)
        return status;
    const uint32_t before = given != NULL ? given->count : 0;
    struct sp_private_operators *all = SP_NEW(model->arena, struct sp_private_operators);
    struct sp_op *ops = SP_NEW_ARRAY(model->arena, (size_t)before + own.count, struct sp_op);
    if (all == NULL || ops == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < before + own.count; i++)
        ops[i] = i < before ? given->ops[i] : own.ops[i - before];
    *all = (struct sp_private_operators){.count = before + own.count, .ops = ops, .has_own_of_model = true};
    model->operators = all;
    return SP_OK;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void write_types(const char *types, struct sp_json *json)
{
    char word[SP_MAX_TYPE_WORD + 1];
    sp_json_key(json, "types");
    sp_json_begin_array(json);
    while (*types != '\0') {
        size_t length = strcspn(types, " ");
        (void)snprintf(word, sizeof word, "%.*s", (int)length, types);
        if (word[0] >= '0' && word[0] <= '9') {
            sp_json_int(json, strtoll(word, NULL, 10));
        } else if (word[0] == '=') {
            sp_json_begin_object(json);
            sp_json_member_string(json, "attribute", word + 1);
            sp_json_end_object(json);
        } else {
            sp_json_string(json, word);
        }
        types += length + strspn(types + length, " ");
    }
    sp_json_end_array(json);
}

void sp_private_write(const struct sp_private_operators *operators, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < operators->count; i++) {
        const struct sp_op *op = &operators->ops[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "domain", op->domain);
        sp_json_member_string(json, "name", op->name);
        sp_json_key(json, "versions");
        sp_json_begin_array(json);
        sp_json_int(json, op->since);
        if (op->last != 0)
            sp_json_int(json, op->last);
        sp_json_end_array(json);
        sp_json_member_string(json, "rule", op->text);
        if (op->types != NULL)
            write_types(op->types, json);
        if (op->work != NULL)
            sp_json_member_string(json, "flops", op->work);
        else if (op->flops > 0)
            sp_json_member_double(json, "flops", op->flops);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

const struct sp_op *sp_private_find(const struct sp_private_operators *operators, const char *domain, const char *name,
                                    int64_t version)
{
    for (uint32_t i = 0; operators != NULL && i < operators->count; i++) {
        const struct sp_op *op = &operators->ops[i];
        if (strcmp(op->name, name) == 0 && strcmp(op->domain, domain) == 0 && sp_op_has_version(op, version))
            return op;
    }
    return NULL;
}
