/* sp_op.work: "2*b..*m*n*k + 5*b..*n", terms of a coefficient and factors. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ops/table/factors.h"
#include "ops/table/rule_text.h"

/* One item of a product: a number, or a name with or without "..". */
struct item {
    bool is_number, is_group;
    double number;
    const char *name;
    size_t length;
};

static bool read_item(const char **at, struct item *ret_item)
{
    struct item item = {.name = *at + strspn(*at, " ")};
    char *end = NULL;
    *at = item.name;
    if (isdigit((unsigned char)*item.name)) {
        item.is_number = true;
        item.number = strtod(item.name, &end);
        *at = end;
    } else {
        while (isalnum((unsigned char)**at) || **at == '_')
            (*at)++;
        item.length = (size_t)(*at - item.name);
        item.is_group = strncmp(*at, "..", 2) == 0;
        *at += item.is_group ? 2 : 0;
    }
    *at += strspn(*at, " ");
    *ret_item = item;
    return item.is_number ? item.number >= 0 && item.number < 1e12 : item.length > 0;
}

/* Whether a factor of a rule has this name, or is a member of the group of this name. */
static bool is_named(const char *factor, const struct item *item)
{
    if (strncmp(factor, item->name, item->length) != 0)
        return false;
    const char *rest = factor + item->length;
    return item->is_group ? isdigit((unsigned char)*rest) != 0 : *rest == '\0';
}

bool sp_work_is_valid(const char *work)
{
    for (;;) {
        struct item item;
        if (!read_item(&work, &item))
            return false;
        if (*work == '\0')
            return true;
        if (*work != '*' && *work != '+')
            return false;
        work++;
    }
}

void sp_rule_terms_of(struct sp_rule *rule, const char *work)
{
    struct sp_factor_list list = {0};
    double coefficient = 1;
    struct item item;
    while (read_item(&work, &item)) {
        for (uint32_t i = 0; !item.is_number && i < rule->factor_count; i++)
            if (is_named(rule->factors[i].name, &item))
                sp_factor_list_add(&list, (uint8_t)i);
        coefficient *= item.is_number ? item.number : 1;
        if (*work != '*') {
            sp_rule_term_list(rule, coefficient, &list);
            list.count = 0;
            coefficient = 1;
        }
        if (*work == '\0')
            return;
        work++;
    }
}
