/* Which operators had their rule made, and whether the text of the rule speaks of the kinds of factors it has. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cases.h"
#include "lowering_check.h"

struct row {
    const struct sp_op *op; /* an entry of the table */
    unsigned nodes, split;  /* nodes, and those with a factor that may be split */
    unsigned kinds;         /* bits of enum sp_factor_kind */
    unsigned combiners;     /* bits of enum sp_combiner */
    char example[96];
};

struct coverage {
    struct lowering_check *lowerings;
    uint32_t count;
    struct row *rows;
};

static int by_name(const void *a, const void *b)
{
    const struct sp_op *x = ((const struct row *)a)->op, *y = ((const struct row *)b)->op;
    int order = strcmp(x->domain, y->domain);
    order = order != 0 ? order : strcmp(x->name, y->name);
    return order != 0 ? order : (x->since > y->since) - (x->since < y->since);
}

struct coverage *coverage_create(void)
{
    uint32_t count;
    const struct sp_op *const *all = sp_op_all(&count);
    struct coverage *coverage = calloc(1, sizeof(*coverage));
    coverage->rows = calloc(count, sizeof(struct row));
    coverage->count = count;
    coverage->lowerings = lowering_check_create();
    for (uint32_t i = 0; i < count; i++)
        coverage->rows[i].op = all[i];
    qsort(coverage->rows, coverage->count, sizeof(struct row), by_name);
    return coverage;
}

void coverage_destroy(struct coverage *coverage)
{
    lowering_check_destroy(coverage->lowerings);
    free(coverage->rows);
    free(coverage);
}

static struct row *row_of(struct coverage *coverage, const struct sp_op *op)
{
    for (uint32_t i = 0; i < coverage->count; i++) {
        if (coverage->rows[i].op == op)
            return &coverage->rows[i];
    }
    return NULL;
}

static bool add_node(struct coverage *coverage, const char *name, struct sp_model *model, struct sp_node *node)
{
    struct sp_rule *rule;
    struct sp_error err = {0};
    if (node->op == NULL)
        return true;
    if (sp_op_rule(model, node, model->arena, &rule, &err) != SP_OK) {
        printf("# %s: no rule for %s: %s: %s\n", name, node->op_type, err.code, err.message);
        return false;
    }
    struct row *row = row_of(coverage, node->op);
    if (row == NULL) {
        printf("# %s: the entry of %s is not in the table\n", name, node->op_type);
        return false;
    }
    bool may_split = false;
    for (uint32_t i = 0; i < rule->factor_count; i++) {
        row->kinds |= 1u << rule->factors[i].kind;
        row->combiners |= 1u << rule->factors[i].combiner;
        may_split = may_split ||
                    (rule->factors[i].kind != SP_FACTOR_REPLICATE && rule->factors[i].kind != SP_FACTOR_SEQUENTIAL);
    }
    row->nodes++;
    row->split += may_split;
    if (row->example[0] == '\0')
        (void)snprintf(row->example, sizeof(row->example), "%s", name);
    return lowering_check_node(coverage->lowerings, name, model, node, rule);
}

#define MAX_GRAPHS 4096

bool coverage_add(struct coverage *coverage, const char *name, struct sp_model *model)
{
    static struct sp_graph *graphs[MAX_GRAPHS];
    uint32_t count = 0;
    bool is_ok = true;
    graphs[count++] = model->graph;
    while (count > 0) {
        struct sp_graph *graph = graphs[--count];
        for (uint32_t n = 0; n < graph->node_count; n++) {
            struct sp_node *node = &graph->nodes[n];
            is_ok = add_node(coverage, name, model, node) && is_ok;
            if (node->body != NULL && count < MAX_GRAPHS)
                graphs[count++] = node->body;
            for (uint32_t a = 0; a < node->attribute_count; a++) {
                const struct sp_attribute *attribute = &node->attributes[a];
                bool holds = attribute->type == SP_ATTR_GRAPH || attribute->type == SP_ATTR_GRAPHS;
                for (uint32_t g = 0; holds && g < attribute->count && count < MAX_GRAPHS; g++)
                    graphs[count++] = attribute->graphs[g];
            }
        }
    }
    return is_ok;
}

unsigned coverage_print(const struct coverage *coverage)
{
    unsigned missing = 0;
    lowering_check_print(coverage->lowerings);
    printf("# operator coverage: operator, versions, nodes, nodes with a factor that may be split, first case\n");
    for (uint32_t i = 0; i < coverage->count; i++) {
        const struct row *row = &coverage->rows[i];
        printf("# %s%s%s\t%lld-%.0lld\t%u\t%u\t%s\n", row->op->domain, row->op->domain[0] == '\0' ? "" : ".",
               row->op->name, (long long)row->op->since, (long long)row->op->last, row->nodes, row->split,
               row->nodes == 0 ? "NONE" : row->example);
        missing += row->nodes == 0;
    }
    return missing;
}

/* Not a part of another word: "max" is not in "softmax". */
static bool has_word(const char *text, const char *word)
{
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        unsigned char before = at == text ? ' ' : (unsigned char)at[-1], after = (unsigned char)at[strlen(word)];
        if (!isalnum(before) && !isalnum(after))
            return true;
    }
    return false;
}

/* What rules had and the text does not say. What it says and none had is printed only: it may be for want of a case. An
   operator without any factor is one that needs all of everything. */
static unsigned compare_words(const struct row *row, const char *const *words, size_t count, unsigned had,
                              const char *what)
{
    unsigned silent = 0;
    for (size_t i = 0; i < count; i++) {
        if (words[i] == NULL)
            continue;
        bool is_said = has_word(row->op->text, words[i]), is_had = (had >> i & 1) != 0;
        if (is_had && !is_said)
            printf("# %s-%lld: a %s is '%s', and its text does not say so: %s\n", row->op->name,
                   (long long)row->op->since, what, words[i], row->op->text);
        else if (is_said && !is_had && row->kinds != 0)
            printf("# %s-%lld: no %s was '%s', of which its text speaks: %s\n", row->op->name,
                   (long long)row->op->since, what, words[i], row->op->text);
        silent += is_had && !is_said;
    }
    return silent;
}

unsigned coverage_silent_texts(const struct coverage *coverage)
{
    static const char *const kinds[] = {NULL, NULL, "whole", "halo", "moves", "sequential"};
    static const char *const combiners[] = {NULL, "sum", "max", "min", "product", "softmax", "moments", "select"};
    unsigned silent = 0;
    for (uint32_t i = 0; i < coverage->count; i++) {
        const struct row *row = &coverage->rows[i];
        silent += compare_words(row, kinds, sizeof(kinds) / sizeof(kinds[0]), row->kinds, "factor");
        silent += compare_words(row, combiners, sizeof(combiners) / sizeof(combiners[0]), row->combiners, "reduction");
    }
    return silent;
}
