/*
 * simulate_cases FOLDER [--only OPERATOR] [--case NAME] [--pairs all|some|none]: every way of splitting the operators
 * of ONNX's backend tests, as simulations for the real ONNX Runtime.
 *
 * For each published case of one node: each factor that may be split, in 2, 3 and 4 shards on as many devices, and each
 * two factors on 2 x 2 devices, the operands as the rule has them (simulate_give()). The simulations and the list of
 * them go to FOLDER (simulate.h). Run it through simulate_cases.mjs, which runs the list and reports:
 *
 *     node simulate_cases.mjs [--program BUILD/tests/conformance/simulate_cases] [--only OPERATOR] [--case NAME]
 * [--verbose]
 *
 * With SIMULATE_KEEP=DIR failing simulations stay there, beside the original and the line of the list.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/data_files.h"
#include "simulate.h"
#include "simulate_variant.h"

#define MAX_CUTS 2

struct program {
    char folder[MAX_PATH];
    FILE *list;
    const char *only, *only_case, *pairs;
    unsigned cases, others, runs, failures;
    uint32_t seen_count, seen_capacity; /* pairs that were simulated */
    uint64_t *seen;
};

/* One case with some inputs as initializers. */
struct variant {
    struct program *program;
    struct backend_case *test;
    struct simulate_case opened;
    char name[160];
    char path[MAX_PATH]; /* of the model that is the original */
    char op_name[80];
    const char *domain;
};

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static const char *const kind_names[] = {"parallel", "reduction", "replicate", "halo", "permutation", "sequential"};

/* "spatial2" and "spatial3" are one row of the report. */
static void family_of(const char *name, char *family)
{
    (void)snprintf(family, SP_FACTOR_NAME_SIZE, "%s", name);
    for (size_t size = strlen(family); size > 1 && family[size - 1] >= '0' && family[size - 1] <= '9';)
        family[--size] = '\0';
}

static json_t *cuts_line(const struct sp_rule *rule, uint32_t count, const struct simulate_cut *cuts)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_factor *factor = &rule->factors[cuts[i].factor];
        char family[SP_FACTOR_NAME_SIZE];
        family_of(factor->name, family);
        json_t *item = json_pack("{s:s, s:s, s:s, s:I, s:I}", "factor", factor->name, "family", family, "kind",
                                 kind_names[factor->kind], "extent", (json_int_t)factor->extent.value, "shards",
                                 (json_int_t)cuts[i].shards);
        (void)json_array_append_new(list, item);
    }
    return list;
}

/* What has to be fed: the inputs that have no default, and the case's files for them. */
static void add_inputs(const struct variant *variant, json_t *line)
{
    const struct sp_graph *graph = variant->opened.model->graph, *all = variant->test->model->graph;
    json_t *names = json_array(), *files = json_array(), *expected = json_array();
    for (uint32_t i = 0, file = 0; i < all->input_count; i++) {
        const struct sp_value *own = sp_graph_value(graph, all->inputs[i]->name);
        if (all->inputs[i]->tensor != NULL)
            continue;
        if (own != NULL && own->kind == SP_VALUE_INPUT && own->tensor == NULL) {
            (void)json_array_append_new(names, json_string(own->name));
            (void)json_array_append_new(files,
                                        json_sprintf("%s/test_data_set_0/input_%u.pb", variant->test->folder, file));
        }
        file++;
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        (void)json_array_append_new(expected,
                                    json_sprintf("%s/test_data_set_0/output_%u.pb", variant->test->folder, i));
    (void)json_object_set_new(line, "inputNames", names);
    (void)json_object_set_new(line, "inputs", files);
    (void)json_object_set_new(line, "expected", expected);
    (void)json_object_set_new(line, "outputs", simulate_outputs(variant->opened.model));
}

static json_t *start_line(const struct variant *variant)
{
    return json_pack("{s:s, s:s, s:s}", "case", variant->test->name, "variant", variant->name, "op", variant->op_name);
}

static void tell_skip(const struct variant *variant, const char *why)
{
    json_t *line = start_line(variant);
    (void)json_object_set_new(line, "skip", json_string(why));
    simulate_tell(variant->program->list, line);
}

/* ---- one simulation --------------------------------------------------------------------------------------------- */

static void name_run(const struct variant *variant, uint32_t count, const struct simulate_cut *cuts, char *name,
                     size_t size)
{
    int length = snprintf(name, size, "%s", variant->name);
    for (uint32_t i = 0; i < count; i++)
        length += snprintf(name + length, size - (size_t)length, "-%s.%lld",
                           variant->opened.rule->factors[cuts[i].factor].name, (long long)cuts[i].shards);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '/' ? '_' : *at;
}

static enum sp_status write_run(const struct variant *variant, struct sp_arena *arena, uint32_t count,
                                const struct simulate_cut *cuts, const char *path, struct simulate_account *account,
                                const char **ret_reason, struct sp_error *err)
{
    const struct simulate_case *opened = &variant->opened;
    struct sp_assignment *assignment = NULL;
    int64_t devices = 1;
    for (uint32_t i = 0; i < count; i++)
        devices *= cuts[i].shards;
    enum sp_status status = sp_assignment_create(arena, opened->net, NULL, devices, 0, NULL, &assignment, err);
    if (status != SP_OK)
        return status;
    if (!simulate_give(assignment, opened->relation, opened->rule, count, cuts, ret_reason))
        return SP_OK;
    return simulate_write(arena, opened->model, assignment, path, account, err);
}

static void run_cuts(const struct variant *variant, uint32_t count, const struct simulate_cut *cuts)
{
    struct program *program = variant->program;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct simulate_account account = {0};
    struct sp_error err = {0};
    const char *reason = NULL;
    char name[256], path[MAX_PATH + 300];
    name_run(variant, count, cuts, name, sizeof(name));
    (void)snprintf(path, sizeof(path), "%s/%s.onnx", program->folder, name);
    enum sp_status status = write_run(variant, arena, count, cuts, path, &account, &reason, &err);
    if (reason == NULL) {
        json_t *line = start_line(variant);
        bool is_random = variant->opened.relation->node->op != NULL &&
                         (variant->opened.relation->node->op->flags & SP_OP_RANDOM) != 0;
        json_t *more = json_pack("{s:s, s:o, s:s, s:s, s:b, s:b, s:i, s:i, s:O}", "name", name, "cuts",
                                 cuts_line(variant->opened.rule, count, cuts), "model", path, "original", variant->path,
                                 "shapesOnly", is_random, "isWhole", account.is_whole, "ops", (int)account.ops,
                                 "cutParts", (int)(account.cut_sources + account.cut_results), "notes", account.notes);
        (void)json_object_update(line, more);
        json_decref(more);
        add_inputs(variant, line);
        if (status != SP_OK)
            (void)json_object_set_new(line, "failure", json_sprintf("%s: %s", err.code, err.message));
        simulate_tell(program->list, line);
        program->runs++;
        program->failures += status != SP_OK;
    }
    simulate_account_release(&account);
    sp_arena_destroy(arena);
}

/* ---- which cuts ------------------------------------------------------------------------------------------------- */

static bool may_split(const struct sp_factor *factor)
{
    return factor->kind == SP_FACTOR_PARALLEL || factor->kind == SP_FACTOR_REDUCTION ||
           factor->kind == SP_FACTOR_HALO || factor->kind == SP_FACTOR_PERMUTATION;
}

/* Every shard has elements and is a multiple of the factor's block. */
static bool may_cut(const struct sp_factor *factor, int64_t shards)
{
    if (!may_split(factor) || !sp_dim_is_known(factor->extent) || factor->extent.value < shards)
        return false;
    int64_t extent = factor->extent.value, size = (extent + shards - 1) / shards;
    int64_t last = extent - (shards - 1) * size;
    return last > 0 && size % factor->block == 0 && last % factor->block == 0;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}

/* Whether two factors of such a node, with these ranks and attributes, come for the first time. */
static bool is_new_pair(struct variant *variant, uint32_t a, uint32_t b)
{
    struct program *program = variant->program;
    const struct sp_node *node = variant->opened.relation->node;
    char text[128];
    uint64_t hash = hash_text(UINT64_C(14695981039346656037), variant->op_name);
    (void)snprintf(text, sizeof(text), "/%s/%s/%u/%u", variant->opened.rule->factors[a].name,
                   variant->opened.rule->factors[b].name, node->input_count, node->output_count);
    hash = hash_text(hash, text);
    for (uint32_t i = 0; i < node->input_count; i++) {
        (void)snprintf(text, sizeof(text), "/%u", node->inputs[i] == NULL ? 99 : node->inputs[i]->type.shape.rank);
        hash = hash_text(hash, text);
    }
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const struct sp_attribute *attribute = &node->attributes[i];
        (void)snprintf(text, sizeof(text), "/%s=%lld,%g,%.60s", attribute->name, (long long)attribute->i, attribute->f,
                       attribute->s.bytes == NULL ? "" : attribute->s.bytes);
        hash = hash_text(hash, text);
    }
    for (uint32_t i = 0; i < program->seen_count; i++) {
        if (program->seen[i] == hash)
            return false;
    }
    if (program->seen_count == program->seen_capacity) {
        program->seen_capacity = program->seen_capacity * 2 + 256;
        program->seen = realloc(program->seen, program->seen_capacity * sizeof(*program->seen));
    }
    program->seen[program->seen_count++] = hash;
    return true;
}

static void run_pairs(struct variant *variant)
{
    const struct sp_rule *rule = variant->opened.rule;
    for (uint8_t i = 0; i < rule->factor_count; i++) {
        for (uint8_t k = (uint8_t)(i + 1); k < rule->factor_count; k++) {
            struct simulate_cut cuts[MAX_CUTS] = {{i, 2}, {k, 2}};
            if (may_cut(&rule->factors[i], 2) && may_cut(&rule->factors[k], 2) &&
                (strcmp(variant->program->pairs, "all") == 0 || is_new_pair(variant, i, k)))
                run_cuts(variant, 2, cuts);
        }
    }
}

static void run_factors(struct variant *variant)
{
    const struct sp_rule *rule = variant->opened.rule;
    for (uint8_t i = 0; i < rule->factor_count; i++) {
        for (int64_t shards = 2; shards <= 4; shards++) {
            if (may_cut(&rule->factors[i], shards))
                run_cuts(variant, 1, &(struct simulate_cut){i, shards});
        }
    }
    if (strcmp(variant->program->pairs, "none") != 0)
        run_pairs(variant);
}

/* ---- cases ------------------------------------------------------------------------------------------------------ */

/* The binding feeds and hands out tensors only. */
static const char *unfit_types(const struct sp_graph *graph)
{
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i]->declared.kind != SP_TYPE_TENSOR)
            return "an input is no tensor";
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        if (graph->outputs[i]->type.kind != SP_TYPE_TENSOR)
            return "an output is no tensor";
    }
    return NULL;
}

static void run_variant(struct program *program, struct backend_case *test, uint32_t mask)
{
    struct variant variant = {.program = program, .test = test};
    const struct sp_node *node = &test->model->graph->nodes[0];
    char source[MAX_PATH + 64];
    (void)snprintf(source, sizeof(source), "%s/model.onnx", test->folder);
    (void)snprintf(variant.op_name, sizeof(variant.op_name), "%s%s%s", node->domain, node->domain[0] == '\0' ? "" : ".",
                   node->op_type);
    (void)snprintf(variant.name, sizeof(variant.name), "%s", test->name);
    (void)snprintf(variant.path, sizeof(variant.path), "%.1000s", source);
    if (mask != 0) {
        (void)snprintf(variant.name, sizeof(variant.name), "%s+%x", test->name, mask);
        (void)snprintf(variant.path, sizeof(variant.path), "%.800s/%s.original.onnx", program->folder, variant.name);
        if (!simulate_fix_inputs(test, source, mask, variant.path)) {
            tell_skip(&variant, "an input cannot be an initializer");
            return;
        }
    }
    bool is_open = simulate_open(&variant.opened, variant.path, test, 0);
    if (!is_open)
        tell_skip(&variant, variant.opened.err.message);
    else if (variant.opened.rule == NULL)
        tell_skip(&variant, "the node is what its graphs are");
    else if (unfit_types(variant.opened.model->graph) != NULL)
        tell_skip(&variant, unfit_types(variant.opened.model->graph));
    else
        run_factors(&variant);
    simulate_close(&variant.opened);
}

static void run_case(struct backend_case *test, void *context)
{
    struct program *program = context;
    char path[MAX_PATH + 64];
    if (test->model == NULL || test->model->graph->node_count != 1) {
        program->others++;
        return;
    }
    const struct sp_node *node = &test->model->graph->nodes[0];
    if ((program->only != NULL && strcmp(program->only, node->op_type) != 0) ||
        (program->only_case != NULL && strcmp(program->only_case, test->name) != 0))
        return;
    (void)snprintf(path, sizeof(path), "%s/model.onnx", test->folder);
    program->cases++;
    uint32_t needed = simulate_needed(test, path), numbers = simulate_numbers(test) | needed;
    run_variant(program, test, 0);
    if (needed != 0)
        run_variant(program, test, needed);
    if (numbers != needed)
        run_variant(program, test, numbers);
}

static bool read_arguments(struct program *program, int count, char **arguments)
{
    program->pairs = "some";
    for (int i = 2; i + 1 < count; i += 2) {
        if (strcmp(arguments[i], "--only") == 0)
            program->only = arguments[i + 1];
        else if (strcmp(arguments[i], "--case") == 0)
            program->only_case = arguments[i + 1];
        else if (strcmp(arguments[i], "--pairs") == 0)
            program->pairs = arguments[i + 1];
        else
            return false;
    }
    (void)snprintf(program->folder, sizeof(program->folder), "%.700s", count > 1 ? arguments[1] : "");
    return count > 1 && count % 2 == 0;
}

int main(int count, char **arguments)
{
    struct program program = {0};
    char path[MAX_PATH + 64];
    if (!read_arguments(&program, count, arguments)) {
        (void)fprintf(stderr, "usage: simulate_cases FOLDER [--only OPERATOR] [--case NAME] [--pairs all|some|none]\n");
        return 2;
    }
    (void)snprintf(path, sizeof(path), "%s/list.jsonl", program.folder);
    program.list = fopen(path, "w");
    if (program.list == NULL) {
        (void)fprintf(stderr, "simulate_cases: %s cannot be written\n", path);
        return 2;
    }
    (void)backend_each(program.folder, run_case, &program);
    (void)fclose(program.list);
    (void)printf("# simulate_cases: %u cases of one node, %u others, %u simulations, %u that cannot be written\n",
                 program.cases, program.others, program.runs, program.failures);
    free(program.seen);
    return 0;
}
