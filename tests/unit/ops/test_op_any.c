/*
 * Every entry of the operator table on operands and attributes that nobody thought of.
 *
 * Ranks, extents (zero, symbolic and open ones too), element types, known elements, omitted operands and attributes are
 * drawn at random. Whatever they are, inference gives types or says what is wrong with the model; a rule is made or
 * refused for the same reasons, is never broken, and has a work that is a number.
 */
#include <math.h>
#include <stdio.h>

#include "expect_op.h"
#include "ops/table/signature.h"

/* For each entry of the table. */
#define CASES 200

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- chance --------------------------------------------------------------------------------------------------- */

static uint64_t state;

/* splitmix64 */
static uint32_t below(uint32_t limit)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32) % limit;
}

#define PICK(array) ((array)[below(COUNT(array))])

/* ---- operands ------------------------------------------------------------------------------------------------- */

static const char *const extents[] = {"0", "1", "1", "2", "2", "3", "4", "6", "8", "16", "n", "n", "m", "?"};
static const enum sp_dtype dtypes[] = {SP_DTYPE_FLOAT, SP_DTYPE_FLOAT, SP_DTYPE_FLOAT16, SP_DTYPE_INT64,
                                       SP_DTYPE_INT32, SP_DTYPE_UINT8, SP_DTYPE_BOOL,    SP_DTYPE_STRING};

/* What the operands of one case are drawn from: few extents, so that they often agree. */
static struct {
    const char *extents[3];
    enum sp_dtype dtype;
    uint32_t rank;
} palette;

static void random_palette(void)
{
    for (size_t i = 0; i < COUNT(palette.extents); i++)
        palette.extents[i] = PICK(extents);
    if (below(2) == 0)
        palette.extents[1] = palette.extents[2] = palette.extents[0];
    palette.dtype = PICK(dtypes);
    palette.rank = below(6);
}

static void random_dims(char *dims, size_t size)
{
    static const int32_t around[] = {0, 0, 0, 0, -1, 1};
    int32_t rank = (int32_t)palette.rank + PICK(around);
    if (below(4) == 0)
        rank = (int32_t)below(2);
    dims[0] = '\0';
    for (int32_t axis = 0; axis < rank; axis++) {
        size_t used = strlen(dims);
        (void)snprintf(dims + used, size - used, "%s%s", axis > 0 ? "," : "", PICK(palette.extents));
    }
}

/* Makes the type of an input that of a sequence, optional or map of it. */
static void wrap(struct sp_value *value)
{
    static const enum sp_type_kind kinds[] = {SP_TYPE_SEQUENCE, SP_TYPE_SEQUENCE, SP_TYPE_OPTIONAL, SP_TYPE_MAP};
    struct sp_type *elem = SP_NEW(build.arena, struct sp_type);
    cr_assert_not_null(elem);
    *elem = value->type;
    enum sp_type_kind kind = PICK(kinds);
    value->type = value->declared = (struct sp_type){
        .kind = kind, .dtype = kind == SP_TYPE_MAP ? SP_DTYPE_STRING : SP_DTYPE_UNDEFINED, .elem = elem};
}

static void random_input(const char *name)
{
    char dims[64];
    int64_t ints[6] = {0};
    uint32_t count = below(COUNT(ints) + 1), kind = below(16);
    enum sp_dtype dtype = below(3) == 0 ? PICK(dtypes) : palette.dtype;
    random_dims(dims, sizeof(dims));
    if (kind == 0) {
        build_input(&build, name, dtype, NULL);
    } else if (kind <= 2) {
        for (uint32_t i = 0; i < count; i++)
            ints[i] = (int64_t)below(9) - 2;
        build_ints(&build, name, count == 0 ? -1 : (int)count, ints);
    } else {
        struct sp_value *value = build_input(&build, name, dtype, dims);
        if (kind == 3)
            wrap(value);
    }
}

/* The names of a list of operands, from `least` to a few more than that. */
static void random_names(char letter, uint32_t least, uint32_t most, bool may_omit, char *text, size_t size)
{
    uint32_t room = most - least < 3 ? most - least : 3, count = least + below(room + 1);
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(text);
        if (may_omit && i >= least && i + 1 < count && below(3) == 0)
            (void)snprintf(text + used, size - used, "- ");
        else
            (void)snprintf(text + used, size - used, "%c%u ", letter, i);
    }
}

/* ---- attributes ----------------------------------------------------------------------------------------------- */

/* Values of attributes that are words of some operator, and one that is of none. */
static const char *const choices[] = {
    "none",          "sum",     "mean",     "max",           "SAME_UPPER", "SAME_LOWER",  "VALID", "NOTSET",
    "constant",      "reflect", "linear",   "nearest",       "cubic",      "DCR",         "CRD",   "reverse",
    "bidirectional", "L1",      "MAX",      "SOFTMAX",       "TO_INT64",   "SPARSE",      "DENSE", "ij,jk->ik",
    "...i,...i",     "TF",      "nesterov", "align_corners", "gated",      "linear_attn", "silu",  "nonsense"};

static void random_ints(struct sp_node *node, const char *name)
{
    int64_t ints[6];
    uint32_t items = below(COUNT(ints) + 1);
    bool are_small = below(2) == 0;
    if (below(2) == 0)
        items = palette.rank < COUNT(ints) ? palette.rank : 1;
    for (uint32_t i = 0; i < items; i++)
        ints[i] = are_small ? (int64_t)below(3) : (int64_t)below(8) - 2;
    build_attr_ints(&build, node, name, items, ints);
}

static void random_attribute(struct sp_node *node, const char *name, enum sp_attr_type type)
{
    switch (type) {
    case SP_ATTR_INT:
        build_attr_int(&build, node, name, below(2) == 0 ? 1 + (int64_t)below(2) : (int64_t)below(9) - 2);
        break;
    case SP_ATTR_INTS:
        random_ints(node, name);
        break;
    case SP_ATTR_FLOAT:
        build_attr_float(&build, node, name, (double)below(5) - 1);
        break;
    case SP_ATTR_FLOATS:
        build_attr_floats(&build, node, name, below(4), (double[]){0.5, 1, 2, 3});
        break;
    case SP_ATTR_STRING:
        build_attr_string(&build, node, name, PICK(choices));
        break;
    case SP_ATTR_STRINGS:
        build_attr_strings(&build, node, name, below(3) == 0 ? "" : "a b c");
        break;
    default: /* tensors, graphs, types: nothing that is drawn at random */
        break;
    }
}

/* Some of the attributes that the published version has, those that it requires nearly always. */
static void random_attributes(struct sp_node *node, int64_t version)
{
    const struct sp_signature *signature = sp_signature_find(node->domain, node->op_type, version);
    for (uint32_t i = 0; signature != NULL && i < signature->attribute_count && i < 12; i++) {
        const struct sp_signature_attribute *attribute = &signature->attributes[i];
        if (attribute->is_required ? below(16) != 0 : below(3) == 0)
            random_attribute(node, attribute->name, attribute->type);
    }
}

/* ---- the property --------------------------------------------------------------------------------------------- */

static bool is_fault_of_the_model(enum sp_status status)
{
    return status == SP_ERR_MODEL || status == SP_ERR_LIMIT || status == SP_ERR_UNSUPPORTED;
}

/* One node with one operator; whether it had a rule with factors. */
static bool random_node(const struct sp_op *op, uint64_t seed)
{
    char inputs[128], outputs[128];
    state = seed;
    random_palette();
    int64_t newest = op->last != 0 ? op->last : op->since + 12;
    int64_t version = op->since + below((uint32_t)(newest - op->since + 1));
    start(op->domain[0] == '\0' ? version : 20);
    if (op->domain[0] != '\0')
        build_opset(&build, op->domain, version);
    random_names('x', op->min_inputs, op->max_inputs, true, inputs, sizeof(inputs));
    random_names('y', op->min_outputs, op->max_outputs, op->max_outputs != UINT32_MAX, outputs, sizeof(outputs));
    for (const char *at = strchr(inputs, 'x'); at != NULL; at = strchr(at + 1, 'x')) {
        char name[8];
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, " "), at);
        random_input(name);
    }
    struct sp_node *node = build_node_in(&build, op->domain, op->name, inputs, outputs);
    random_attributes(node, version);
    enum sp_status status = build_infer(&build);
    bool has_factors = false;
    if (status != SP_OK) {
        cr_expect(is_fault_of_the_model(status), "%s-%ld, seed %lu: %s: %s", op->name, (long)version,
                  (unsigned long)seed, build.err.code, build.err.message);
    } else {
        struct sp_rule *rule = NULL;
        status = sp_op_rule(build.model, node, build.arena, &rule, &build.err);
        cr_expect(status == SP_OK || is_fault_of_the_model(status), "%s-%ld, seed %lu: %s: %s", op->name, (long)version,
                  (unsigned long)seed, build.err.code, build.err.message);
        has_factors = status == SP_OK && rule->factor_count > 0;
        double flops = status == SP_OK ? sp_rule_flops(rule, NULL) : 0;
        cr_expect(isfinite(flops) && flops >= 0, "%s-%ld, seed %lu: %g FLOPs", op->name, (long)version,
                  (unsigned long)seed, flops);
    }
    stop();
    return has_factors;
}

Test(op_any, no_operands_break_a_rule)
{
    uint32_t count = 0, cases = 0, made = 0;
    const struct sp_op *const *all = sp_op_all(&count);
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t k = 0; k < CASES && !(all[i]->flags & SP_OP_CONTROL); k++) {
            made += random_node(all[i], (uint64_t)i * 1000003 + k);
            cases++;
        }
    }
    printf("%u cases, %u with factors\n", cases, made);
    cr_expect_gt(made, cases / 8); /* not all was refused */
}
