#include "build_rule.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#define MAX_OPERANDS 16

struct reader {
    struct sp_arena *arena;
    const char *at;
    struct sp_rule *rule;
    bool is_bad;
};

static bool take(struct reader *reader, const char *text)
{
    while (*reader->at == ' ' || *reader->at == ',')
        reader->at++;
    if (strncmp(reader->at, text, strlen(text)) != 0)
        return false;
    reader->at += strlen(text);
    return true;
}

static void expect(struct reader *reader, const char *text)
{
    if (!reader->is_bad && !take(reader, text)) {
        fprintf(stderr, "a rule is expected to go on with '%s' before '%s'\n", text, reader->at);
        reader->is_bad = true;
    }
}

/* "i" or "z_1". */
static void read_name(struct reader *reader, char name[SP_FACTOR_NAME_SIZE])
{
    uint32_t size = 0;
    while (*reader->at == ' ' || *reader->at == ',')
        reader->at++;
    if (!islower((unsigned char)*reader->at))
        reader->is_bad = true;
    else
        name[size++] = *reader->at++;
    if (*reader->at == '_')
        do
            name[size++] = *reader->at++;
        while (isdigit((unsigned char)*reader->at) && size + 1 < SP_FACTOR_NAME_SIZE);
    name[size] = '\0';
}

static int find_factor(struct reader *reader, const char *name)
{
    for (uint32_t f = 0; f < reader->rule->factor_count; f++) {
        if (strcmp(reader->rule->factors[f].name, name) == 0)
            return (int)f;
    }
    fprintf(stderr, "factor '%s' of a rule has no size\n", name);
    reader->is_bad = true;
    return 0;
}

static void read_sizes(struct reader *reader)
{
    const char *open = strchr(reader->at, '{');
    if (open == NULL)
        return; /* no factors */
    struct reader sizes = {.arena = reader->arena, .at = open + 1, .rule = reader->rule};
    while (!sizes.is_bad && !take(&sizes, "}")) {
        char name[SP_FACTOR_NAME_SIZE];
        char *end;
        read_name(&sizes, name);
        expect(&sizes, "=");
        (void)sp_rule_factor(reader->rule, name, SP_FACTOR_PARALLEL, sp_dim_known(strtoll(sizes.at, &end, 10)));
        sizes.at = end;
    }
    reader->is_bad = sizes.is_bad;
}

/* "([i, jk], [])": the operands; the lists of their factors are kept for mapping. */
static uint32_t read_operands(struct reader *reader, struct sp_operand_rule *operands)
{
    uint32_t count = 0;
    expect(reader, "(");
    while (!reader->is_bad && !take(reader, ")") && count < MAX_OPERANDS) {
        struct sp_operand_rule *operand = &operands[count++];
        operand->axes = SP_NEW_ARRAY(reader->arena, SP_MAX_RANK, struct sp_axis_factors);
        expect(reader, "[");
        while (!reader->is_bad && !take(reader, "]")) {
            struct sp_axis_factors *axis = &operand->axes[operand->rank++];
            if (take(reader, "*"))
                continue;
            axis->factors = SP_NEW_ARRAY(reader->arena, 26, uint8_t);
            do {
                char name[SP_FACTOR_NAME_SIZE];
                read_name(reader, name);
                axis->factors[axis->count++] = (uint8_t)find_factor(reader, name);
            } while (!reader->is_bad && islower((unsigned char)*reader->at) && axis->count < 26);
        }
    }
    return count;
}

static void read_sets(struct reader *reader)
{
    static const struct {
        const char *name;
        int kind;
    } sets[] = {{"reduction={", SP_FACTOR_REDUCTION},
                {"need_replication={", SP_FACTOR_REPLICATE},
                {"permutation={", SP_FACTOR_PERMUTATION},
                {"blocked_propagation={", -1}};
    for (uint32_t i = 0; i < 4; i++) {
        if (!take(reader, sets[i].name))
            continue;
        while (!reader->is_bad && !take(reader, "}")) {
            char name[SP_FACTOR_NAME_SIZE];
            read_name(reader, name);
            struct sp_factor *factor = &reader->rule->factors[find_factor(reader, name)];
            if (sets[i].kind < 0)
                factor->is_blocked = true;
            else
                factor->kind = (enum sp_factor_kind)sets[i].kind;
            factor->combiner = factor->kind == SP_FACTOR_REDUCTION ? SP_COMBINE_SUM : SP_COMBINE_NONE;
        }
    }
}

struct sp_rule *build_rule_text(struct sp_arena *arena, const char *text)
{
    struct sp_rule *rule = SP_NEW(arena, struct sp_rule);
    struct reader reader = {.arena = arena, .at = text, .rule = rule};
    rule->arena = arena;
    rule->bytes = -1;
    rule->factors = SP_NEW(arena, struct sp_factor);
    rule->inputs = SP_NEW_ARRAY(arena, MAX_OPERANDS, struct sp_operand_rule);
    rule->outputs = SP_NEW_ARRAY(arena, MAX_OPERANDS, struct sp_operand_rule);
    read_sizes(&reader);
    rule->input_count = read_operands(&reader, rule->inputs);
    expect(&reader, "->");
    rule->output_count = read_operands(&reader, rule->outputs);
    const char *sizes = strchr(reader.at, '}');
    if (sizes != NULL)
        reader.at = sizes + 1;
    read_sets(&reader);
    (void)take(&reader, "custom");
    if (reader.is_bad || *reader.at != '\0') {
        fprintf(stderr, "the rule '%s' cannot be read at '%s'\n", text, reader.at);
        return NULL;
    }
    return rule;
}
