#include "own_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/build_model.h"

#define MAX_TEXT     512
#define MAX_ELEMENTS 32

/* ---- reading a case ------------------------------------------------------------------------------------------- */

/* The next word, which ends at a blank; false at the end. */
static bool next_word(const char **text, char *word, size_t size)
{
    *text += strspn(*text, " ");
    size_t length = strcspn(*text, " ");
    if (length == 0 || length >= size)
        return false;
    memcpy(word, *text, length);
    word[length] = '\0';
    *text += length;
    return true;
}

static void elements_of(const char *text, int *count, int64_t *ints, float *floats)
{
    for (*count = 0; *text != '\0' && *count < MAX_ELEMENTS; ++*count) {
        char *end;
        floats[*count] = strtof(text, &end);
        ints[*count] = strtoll(text, NULL, 10);
        text = end + (*end == ',');
    }
}

static struct sp_type *new_type(struct build *build, enum sp_type_kind kind)
{
    struct sp_type *type = SP_NEW(build->arena, struct sp_type);
    *type = (struct sp_type){.kind = kind};
    return type;
}

/* "seq(map(int64,float32[2]))": the containers from outside to inside; the word goes on with the tensor. */
static struct sp_type *containers_of(struct build *build, const char **word, struct sp_type **ret_inner)
{
    static const struct {
        const char *word;
        enum sp_type_kind kind;
    } kinds[] = {{"seq(", SP_TYPE_SEQUENCE}, {"optional(", SP_TYPE_OPTIONAL}, {"map(", SP_TYPE_MAP}};
    struct sp_type *outer = NULL;
    *ret_inner = NULL;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strncmp(*word, kinds[i].word, strlen(kinds[i].word)) != 0)
            continue;
        struct sp_type *type = new_type(build, kinds[i].kind);
        *word += strlen(kinds[i].word);
        if (kinds[i].kind == SP_TYPE_MAP) {
            type->dtype = strncmp(*word, "string", 6) == 0 ? SP_DTYPE_STRING : SP_DTYPE_INT64;
            *word += strcspn(*word, ",") + 1;
        }
        if (*ret_inner != NULL)
            (*ret_inner)->elem = type;
        outer = outer == NULL ? type : outer;
        *ret_inner = type;
        i = (size_t)-1;
    }
    return outer;
}

static enum sp_dtype dtype_of(const char *word)
{
    char name[32] = "";
    size_t size = strcspn(word, "[=:");
    memcpy(name, word, size < sizeof(name) ? size : 0);
    enum sp_dtype dtype = sp_dtype_parse(name);
    if (dtype == SP_DTYPE_UNDEFINED) {
        (void)fprintf(stderr, "there is no element type '%s'\n", name);
        abort();
    }
    return dtype;
}

static void add_input(struct build *build, const char *name, const char *word)
{
    struct sp_type *inner, *outer = containers_of(build, &word, &inner);
    int64_t ints[MAX_ELEMENTS];
    float floats[MAX_ELEMENTS];
    int count;
    enum sp_dtype dtype = dtype_of(word);
    const char *equals = strchr(word, '=');
    if (equals != NULL) {
        elements_of(equals + 1, &count, ints, floats);
        count = equals[-1] == ':' ? -1 : count;
        if (dtype == SP_DTYPE_INT64)
            (void)build_ints(build, name, count, ints);
        else
            (void)build_floats(build, name, count, floats);
        return;
    }
    char dims[MAX_TEXT];
    word += strcspn(word, "[");
    (void)snprintf(dims, sizeof(dims), "%s", word + (*word == '['));
    dims[strcspn(dims, "]")] = '\0';
    struct sp_value *value = build_input(build, name, dtype, dims[0] == '*' ? NULL : dims);
    if (outer == NULL)
        return;
    struct sp_type *tensor = new_type(build, SP_TYPE_TENSOR);
    *tensor = value->type;
    inner->elem = tensor;
    value->type = value->declared = *outer;
}

static void add_list(struct build *build, struct sp_node *node, const char *name, const char *list)
{
    char text[MAX_TEXT];
    int64_t ints[MAX_ELEMENTS];
    double reals[MAX_ELEMENTS];
    float floats[MAX_ELEMENTS];
    int count;
    (void)snprintf(text, sizeof(text), "%s", list);
    if (text[0] == '\'') {
        bool is_inside = false; /* of quotes: what is outside separates */
        for (char *at = text; *at != '\0'; at++) {
            is_inside = *at == '\'' ? !is_inside : is_inside;
            *at = is_inside && *at != '\'' ? *at : ' ';
        }
        build_attr_strings(build, node, name, text);
        return;
    }
    text[strcspn(text, "]")] = '\0';
    elements_of(text, &count, ints, floats);
    for (int i = 0; i < count; i++)
        reals[i] = (double)floats[i];
    if (strchr(text, '.') != NULL)
        build_attr_floats(build, node, name, (uint32_t)count, reals);
    else
        build_attr_ints(build, node, name, (uint32_t)count, ints);
}

/* A tensor without elements: nothing that is tested here reads them. */
static void add_tensor(struct build *build, struct sp_node *node, const char *name, const char *type)
{
    struct sp_tensor *tensor = SP_NEW(build->arena, struct sp_tensor);
    struct sp_attribute *attribute = &node->attributes[node->attribute_count++];
    *attribute = (struct sp_attribute){.name = name, .type = SP_ATTR_TENSOR, .count = 1};
    attribute->tensors = SP_NEW_ARRAY(build->arena, 1, struct sp_tensor *);
    attribute->tensors[0] = tensor;
    *tensor = (struct sp_tensor){.name = "", .dtype = dtype_of(type), .rank = 1, .storage = SP_STORAGE_NONE};
    tensor->dims = SP_NEW_ARRAY(build->arena, 1, int64_t);
    tensor->dims[0] = tensor->elements = strtoll(strchr(type, '[') + 1, NULL, 10);
    tensor->bytes = sp_dtype_bytes(tensor->dtype, tensor->elements);
}

static void add_attribute(struct build *build, struct sp_node *node, char *word)
{
    char *value = strchr(word, '=');
    *value++ = '\0';
    const char *name = sp_arena_string(build->arena, word, strlen(word));
    if (*value == '\'')
        build_attr_string(build, node, name, sp_arena_string(build->arena, value + 1, strcspn(value + 1, "'")));
    else if (*value == '[')
        add_list(build, node, name, value + 1);
    else if (strchr(value, '[') != NULL)
        add_tensor(build, node, name, value);
    else if (strchr(value, '.') != NULL)
        build_attr_float(build, node, name, strtod(value, NULL));
    else
        build_attr_int(build, node, name, strtoll(value, NULL, 10));
}

/* The model: inputs i0, i1, .., outputs o0, o1, .. */
static struct sp_node *build_case(struct build *build, const struct own_case *own)
{
    char word[MAX_TEXT], name[16], inputs[MAX_TEXT] = "", outputs[MAX_TEXT] = "", given[MAX_TEXT] = "";
    const char *dot = strrchr(own->op, '.'), *text = own->inputs;
    build_init(build, dot == NULL ? own->version : 21);
    const char *domain = dot == NULL ? "" : sp_arena_string(build->arena, own->op, (size_t)(dot - own->op));
    if (dot != NULL)
        build_opset(build, domain, own->version);
    for (unsigned i = 0; next_word(&text, word, sizeof(word)); i++) {
        (void)snprintf(name, sizeof(name), "i%u", i);
        if (strcmp(word, "-") != 0)
            add_input(build, name, word);
        size_t used = strlen(inputs);
        (void)snprintf(inputs + used, sizeof(inputs) - used, " %s", strcmp(word, "-") == 0 ? "-" : name);
    }
    text = own->outputs;
    for (unsigned i = 0; next_word(&text, word, sizeof(word)); i++) {
        bool is_omitted = strcmp(word, "-") == 0;
        (void)snprintf(name, sizeof(name), "o%u", i);
        size_t used = strlen(outputs), used_given = strlen(given);
        (void)snprintf(outputs + used, sizeof(outputs) - used, " %s", is_omitted ? "-" : name);
        (void)snprintf(given + used_given, sizeof(given) - used_given, "%s%s", is_omitted ? "" : " ",
                       is_omitted ? "" : name);
    }
    struct sp_node *node = build_node_in(build, domain, dot == NULL ? own->op : dot + 1, inputs, outputs);
    text = own->attributes;
    while (next_word(&text, word, sizeof(word)))
        add_attribute(build, node, word);
    build_outputs(build, given);
    return node;
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

static void print_tensor(const struct sp_type *type, struct sp_buf *buf)
{
    sp_buf_printf(buf, "%s[", sp_dtype_name(type->dtype));
    if (!type->shape.has_rank)
        sp_buf_text(buf, "*");
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        sp_buf_text(buf, i > 0 ? "," : "");
        sp_dim_print(type->shape.dims[i], buf);
    }
    sp_buf_text(buf, "]");
}

static void print_type(const struct sp_type *type, struct sp_buf *buf)
{
    uint32_t open = 0;
    for (; type != NULL && type->kind != SP_TYPE_TENSOR && type->kind != SP_TYPE_NONE; type = type->elem, open++) {
        if (type->kind == SP_TYPE_MAP)
            sp_buf_printf(buf, "map(%s,", sp_dtype_name(type->dtype));
        else
            sp_buf_text(buf, type->kind == SP_TYPE_SEQUENCE ? "seq(" : "optional(");
    }
    if (type == NULL || type->kind == SP_TYPE_NONE)
        sp_buf_text(buf, "none");
    else
        print_tensor(type, buf);
    for (; open > 0; open--)
        sp_buf_text(buf, ")");
}

/* The types of the outputs as the case writes them. */
static void print_outputs(const struct sp_node *node, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        sp_buf_text(buf, i > 0 ? " " : "");
        if (node->outputs[i] == NULL)
            sp_buf_text(buf, "-");
        else
            print_type(&node->outputs[i]->type, buf);
    }
}

static bool is_same(const struct own_case *own, const char *what, const struct sp_buf *buf, const char *expected)
{
    const char *text = buf->data == NULL ? "" : buf->data;
    if (strcmp(text, expected) == 0)
        return true;
    printf("# %s-%lld (%s) {%s}: %s\n#   are       %s\n#   should be %s\n", own->op, (long long)own->version,
           own->inputs, own->attributes, what, text, expected);
    return false;
}

static bool compare_rule(const struct own_case *own, struct sp_model *model, struct sp_node *node)
{
    struct sp_rule *rule;
    struct sp_error err = {0};
    struct sp_buf buf;
    if (sp_op_rule(model, node, model->arena, &rule, &err) != SP_OK) {
        printf("# %s-%lld: %s: %s\n", own->op, (long long)own->version, err.code, err.message);
        return false;
    }
    sp_buf_init(&buf, 65536);
    sp_rule_print(rule, &buf);
    bool is_good = own->rule == NULL || is_same(own, "the factors", &buf, own->rule);
    for (uint32_t i = 0; own->rule == NULL && i < rule->factor_count; i++)
        is_good = is_good && rule->factors[i].kind == SP_FACTOR_PARALLEL;
    if (!is_good && own->rule == NULL)
        (void)is_same(own, "the factors", &buf, "parallel");
    sp_buf_release(&buf);
    return is_good;
}

bool own_case_check(const struct own_case *own, struct sp_model *model, struct sp_node *node, struct coverage *coverage)
{
    struct sp_shape_summary summary;
    struct sp_error err = {0};
    bool is_good = sp_infer_shapes(model, NULL, &summary, &err) == SP_OK;
    if (!is_good)
        printf("# %s-%lld (%s) {%s}: %s: %s\n", own->op, (long long)own->version, own->inputs, own->attributes,
               err.code, err.message);
    if (is_good) {
        struct sp_buf buf;
        sp_buf_init(&buf, 65536);
        print_outputs(node, &buf);
        is_good = is_same(own, "the outputs", &buf, own->outputs);
        is_good = compare_rule(own, model, node) && is_good;
        sp_buf_release(&buf);
        is_good = coverage_add(coverage, "(own model)", model) && is_good;
    }
    return is_good;
}

static bool run_own(const struct own_case *own, struct coverage *coverage)
{
    struct build build;
    struct sp_node *node = build_case(&build, own);
    bool is_good = own_case_check(own, build.model, node, coverage);
    build_release(&build);
    return is_good;
}

unsigned own_cases_run(struct coverage *coverage, unsigned *ret_count)
{
    static const struct own_case *const groups[] = {own_cases_tensors,  own_cases_versions, own_cases_ml,
                                                    own_cases_contrib,  own_cases_language, own_cases_quantised,
                                                    own_cases_decoding, own_cases_text};
    unsigned wrong = 0, count = 0;
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        for (const struct own_case *own = groups[i]; own->op != NULL; own++, count++)
            wrong += !run_own(own, coverage);
    }
    wrong += own_bodies_run(coverage, &count);
    *ret_count = count;
    return wrong;
}
