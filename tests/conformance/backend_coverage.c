/* Which operators had their rule made, and whether the text of the rule speaks of the kinds of factors it has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cases.h"

struct row {
    const struct sp_op *op; /* the newest entry of the name */
    unsigned nodes, split;  /* nodes, and those with a factor that may be split */
    unsigned kinds;         /* bits of enum sp_factor_kind */
    unsigned combiners;     /* bits of enum sp_combiner */
    char example[96];
};

struct coverage {
    uint32_t count;
    struct row *rows;
};

static int by_name(const void *a, const void *b)
{
    const struct sp_op *x = ((const struct row *)a)->op, *y = ((const struct row *)b)->op;
    int order = strcmp(x->domain, y->domain);
    return order != 0 ? order : strcmp(x->name, y->name);
}

struct coverage *coverage_create(void)
{
    uint32_t count;
    const struct sp_op *const *all = sp_op_all(&count);
    struct coverage *coverage = calloc(1, sizeof(*coverage));
    coverage->rows = calloc(count, sizeof(struct row));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = 0;
        while (k < coverage->count && (strcmp(coverage->rows[k].op->name, all[i]->name) != 0 ||
                                       strcmp(coverage->rows[k].op->domain, all[i]->domain) != 0))
            k++;
        if (k == coverage->count)
            coverage->rows[coverage->count++].op = all[i];
    }
    qsort(coverage->rows, coverage->count, sizeof(struct row), by_name);
    return coverage;
}

void coverage_destroy(struct coverage *coverage)
{
    free(coverage->rows);
    free(coverage);
}

static struct row *row_of(struct coverage *coverage, const struct sp_op *op)
{
    for (uint32_t i = 0; i < coverage->count; i++) {
        if (strcmp(coverage->rows[i].op->name, op->name) == 0 && strcmp(coverage->rows[i].op->domain, op->domain) == 0)
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
    return true;
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
    printf("# operator coverage: operator, nodes, nodes with a factor that may be split, first case\n");
    for (uint32_t i = 0; i < coverage->count; i++) {
        const struct row *row = &coverage->rows[i];
        printf("# %s%s%s\t%u\t%u\t%s\n", row->op->domain, row->op->domain[0] == '\0' ? "" : ".", row->op->name,
               row->nodes, row->split, row->nodes == 0 ? "NONE" : row->example);
        missing += row->nodes == 0;
    }
    return missing;
}

unsigned coverage_silent_texts(const struct coverage *coverage)
{
    static const char *const kinds[] = {NULL, NULL, "whole", "halo", "moves", "sequential"};
    static const char *const combiners[] = {NULL, "sum", "max", "min", "product", "softmax", "moments", "select"};
    unsigned silent = 0;
    for (uint32_t i = 0; i < coverage->count; i++) {
        const struct row *row = &coverage->rows[i];
        for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            if (kinds[k] != NULL && (row->kinds >> k & 1) != 0 && strstr(row->op->text, kinds[k]) == NULL) {
                printf("# %s: a factor is '%s', and its text does not say so: %s\n", row->op->name, kinds[k],
                       row->op->text);
                silent++;
            }
        }
        for (unsigned c = 1; c < sizeof(combiners) / sizeof(combiners[0]); c++) {
            if ((row->combiners >> c & 1) != 0 && strstr(row->op->text, combiners[c]) == NULL) {
                printf("# %s: a reduction is '%s', and its text does not say so: %s\n", row->op->name, combiners[c],
                       row->op->text);
                silent++;
            }
        }
    }
    return silent;
}
