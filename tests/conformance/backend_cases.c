/*
 * backend_cases: shape inference and rules against the backend tests of ONNX v1.22.0.
 *
 * The declarations of what nodes make are taken away, the inputs have the values of the case, and what is inferred is
 * compared with what was declared. onnx-shape-baseline.tsv says what ONNX's own inference reaches in that way (its
 * third column): FULL, RANK, NONE, NONTENSOR. Elements that inference computes are compared with the case's outputs.
 * Then the rule of every node is made, and a table says which operators had one. What no published case has is in
 * own_cases_*.c: every entry of the operator table must have a node somewhere.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/support/data_files.h"
#include "backend_cases.h"
#include "own_cases.h"

enum verdict { WRONG = 0, NONE, RANK, FULL, NONTENSOR };
static const char *const verdicts[] = {"WRONG", "NONE", "RANK", "FULL", "NONTENSOR"};

struct run {
    const char *baseline;
    struct coverage *coverage;
    unsigned cases, unreadable, wrong, wrong_elements, refused_rules, elements;
    unsigned reached, should_reach; /* where ONNX's own inference is FULL or NONTENSOR */
    unsigned beyond, open;          /* of the others: ours is full, all */
    unsigned others, others_full;   /* cases without a line in the table */
    unsigned own, own_wrong;        /* models of ours */
};

/* ---- types ---------------------------------------------------------------------------------------------------- */

static enum verdict compare_tensor(const struct sp_type *type, const struct sp_type *expected, char *why, size_t size)
{
    if (type->dtype != SP_DTYPE_UNDEFINED && type->dtype != expected->dtype) {
        (void)snprintf(why, size, "element type %s instead of %s", sp_dtype_name(type->dtype),
                       sp_dtype_name(expected->dtype));
        return WRONG;
    }
    if (!type->shape.has_rank || type->dtype == SP_DTYPE_UNDEFINED) {
        (void)snprintf(why, size, "%s is not known", type->shape.has_rank ? "the element type" : "the rank");
        return expected->shape.has_rank || type->dtype == SP_DTYPE_UNDEFINED ? NONE : FULL;
    }
    if (!expected->shape.has_rank)
        return FULL;
    if (type->shape.rank != expected->shape.rank) {
        (void)snprintf(why, size, "rank %u instead of %u", type->shape.rank, expected->shape.rank);
        return WRONG;
    }
    enum verdict verdict = FULL;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        struct sp_dim own = type->shape.dims[i], other = expected->shape.dims[i];
        if (!sp_dim_is_known(other))
            continue;
        if (!sp_dim_is_known(own)) {
            (void)snprintf(why, size, "the extent of axis %u depends on data", i);
            verdict = RANK;
        } else if (own.value != other.value) {
            (void)snprintf(why, size, "axis %u has %lld instead of %lld", i, (long long)own.value,
                           (long long)other.value);
            return WRONG;
        }
    }
    return verdict;
}

/* Sequences and optionals: the kinds all the way down, then the tensor inside, of which the extents may be open. */
static enum verdict compare_type(const struct sp_type *type, const struct sp_type *expected, char *why, size_t size)
{
    bool is_tensor = expected->kind == SP_TYPE_TENSOR;
    while (type != NULL && expected != NULL && type->kind == expected->kind && type->elem != NULL &&
           expected->elem != NULL && type->kind != SP_TYPE_MAP) {
        type = type->elem;
        expected = expected->elem;
    }
    if (type == NULL || type->kind == SP_TYPE_NONE) {
        (void)snprintf(why, size, "nothing is known");
        return NONE;
    }
    if (type->kind != expected->kind) {
        (void)snprintf(why, size, "another kind of type");
        return WRONG;
    }
    enum verdict verdict = FULL;
    if (type->kind == SP_TYPE_TENSOR || type->kind == SP_TYPE_SPARSE_TENSOR)
        verdict = compare_tensor(type, expected, why, size);
    return verdict == WRONG || is_tensor ? verdict : NONTENSOR;
}

static enum verdict compare_outputs(const struct backend_case *test, char *why, size_t size)
{
    const struct sp_graph *graph = test->model->graph;
    enum verdict worst = NONTENSOR;
    for (uint32_t i = 0; i < graph->output_count; i++) {
        const struct sp_value *output = graph->outputs[i];
        char reason[160] = "";
        if (output->graph != graph || output->kind != SP_VALUE_NODE_OUTPUT)
            continue;
        enum verdict verdict = compare_type(&output->type, &test->expected[output->id], reason, sizeof(reason));
        if (verdict < worst) {
            worst = verdict;
            (void)snprintf(why, size, "'%.80s': %s", output->name, reason);
        }
    }
    return worst;
}

/* ---- elements ------------------------------------------------------------------------------------------------- */

static bool is_close(double own, double expected)
{
    return own == expected || fabs(own - expected) <= 1e-6 + 1e-4 * fabs(expected) || (isnan(own) && isnan(expected));
}

/* Elements that were computed; false when one of them is not what the case gives. */
static bool compare_elements(const struct backend_case *test, unsigned *compared)
{
    const struct sp_graph *graph = test->model->graph;
    for (uint32_t i = 0; i < graph->output_count; i++) {
        const struct sp_value *output = graph->outputs[i];
        const struct sp_data *own = output->data;
        if (own == NULL || output->kind == SP_VALUE_INPUT)
            continue;
        const struct sp_data *expected = backend_elements(test, "output", i);
        if (expected == NULL || (expected->reals != NULL) != (own->reals != NULL) || expected->count != own->count)
            continue;
        for (uint32_t k = 0; k < own->count; k++) {
            bool is_known = own->reals != NULL || sp_dim_is_known(own->ints[k]);
            if (!is_known)
                continue;
            if (own->reals != NULL ? !is_close(own->reals[k], expected->reals[k])
                                   : own->ints[k].value != expected->ints[k].value) {
                printf("# %s: element %u of '%s' is wrong\n", test->name, k, output->name);
                return false;
            }
            ++*compared;
        }
    }
    return true;
}

/* ---- one case ------------------------------------------------------------------------------------------------- */

/* The third column of the case's line, or NULL. */
static const char *baseline_of(const char *baseline, const char *name, char *line, size_t size)
{
    (void)snprintf(line, size, "\n%.200s\t", name);
    const char *found = baseline == NULL ? NULL : strstr(baseline, line);
    const char *tab = found == NULL ? NULL : strchr(found + strlen(line), '\t');
    if (tab == NULL)
        return NULL;
    (void)snprintf(line, size, "%.*s", (int)strcspn(tab + 1, "\r\n"), tab + 1);
    return line;
}

/* Whole models have no line in the table. Three of them are StringNormalizer alone, which leaves as many words as the
   words decide: in the table ONNX's own inference reaches RANK for its cases of nodes, and more than that is not to be
   had for a model of it. */
static bool depends_on_data(const struct backend_case *test)
{
    const struct sp_graph *graph = test->model->graph;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (strcmp(graph->nodes[i].op_type, "StringNormalizer") == 0)
            return true;
    }
    return false;
}

static void count_verdict(struct run *run, const struct backend_case *test, enum verdict verdict, const char *why)
{
    char line[256];
    const char *theirs = baseline_of(run->baseline, test->name, line, sizeof(line));
    bool is_good = verdict == FULL || verdict == NONTENSOR;
    if (theirs == NULL) {
        run->others++;
        run->others_full += is_good || (verdict == RANK && depends_on_data(test));
    } else if (strcmp(theirs, "FULL") == 0 || strcmp(theirs, "NONTENSOR") == 0) {
        run->should_reach++;
        run->reached += is_good;
    } else {
        run->open++;
        run->beyond += is_good;
    }
    if (!is_good)
        printf("# %s: %s, ONNX's own inference %s: %s\n", test->name, verdicts[verdict], theirs == NULL ? "-" : theirs,
               why);
}

static void run_case(struct backend_case *test, void *context)
{
    struct run *run = context;
    struct sp_shape_summary summary;
    char why[256] = "";
    run->cases++;
    if (test->model == NULL) {
        printf("# %s: %s: %s\n", test->name, test->err.code, test->err.message);
        run->unreadable++;
        return;
    }
    if (sp_infer_shapes(test->model, NULL, &summary, &test->err) != SP_OK) {
        printf("# %s: %s: %s\n", test->name, test->err.code, test->err.message);
        run->wrong++;
        count_verdict(run, test, WRONG, test->err.message);
        return;
    }
    enum verdict verdict = compare_outputs(test, why, sizeof(why));
    run->wrong += verdict == WRONG;
    count_verdict(run, test, verdict, why);
    run->wrong_elements += !compare_elements(test, &run->elements);
    run->refused_rules += !coverage_add(run->coverage, test->name, test->model);
}

/* ---- models --------------------------------------------------------------------------------------------------- */

/* Whole models exercise rules that no backend case has. */
static void cover_model(struct coverage *coverage, const char *path)
{
    size_t size = 0;
    unsigned char *bytes = data_read(path, &size);
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_model *model;
    struct sp_shape_summary summary;
    struct sp_error err = {0};
    if (bytes != NULL && sp_onnx_read(arena, bytes, size, NULL, &model, &err) == SP_OK &&
        sp_infer_shapes(model, NULL, &summary, &err) == SP_OK)
        (void)coverage_add(coverage, strrchr(path, '/') + 1, model);
    if (err.status != SP_OK)
        printf("# %s: %s\n", path, err.message);
    sp_arena_destroy(arena);
    free(bytes);
}

static void cover_folder(struct coverage *coverage, const char *folder)
{
    char command[2 * MAX_PATH], path[MAX_PATH];
    (void)snprintf(command, sizeof(command), "find '%s' -name '*.onnx' | sort", folder);
    FILE *list = popen(command, "r");
    while (list != NULL && fgets(path, sizeof(path), list) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        cover_model(coverage, path);
    }
    if (list != NULL)
        (void)pclose(list);
}

/* ---- the run -------------------------------------------------------------------------------------------------- */

static unsigned failures;

static int run_shell(const char *command)
{
    FILE *pipe = popen(command, "r");
    return pipe == NULL ? -1 : pclose(pipe);
}

__attribute__((format(printf, 2, 3))) static void tell(bool is_ok, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s backend_cases: ", is_ok ? "ok" : "not ok");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    failures += !is_ok;
}

static void report(const struct run *run)
{
    tell(run->unreadable == 0, "%u of %u cases are read", run->cases - run->unreadable, run->cases);
    tell(run->wrong == 0, "%u cases contradict what is declared", run->wrong);
    tell(run->reached == run->should_reach, "%u of %u cases that ONNX's own inference reaches", run->reached,
         run->should_reach);
    tell(2 * run->beyond >= run->open, "%u of %u cases that it does not reach", run->beyond, run->open);
    tell(run->others_full == run->others, "%u of %u cases of whole models", run->others_full, run->others);
    tell(run->wrong_elements == 0 && run->elements > 10000, "%u elements are computed, %u cases wrong", run->elements,
         run->wrong_elements);
    tell(run->refused_rules == 0, "%u cases have a node whose rule is refused", run->refused_rules);
    unsigned missing = coverage_print(run->coverage);
    tell(missing == 0, "%u entries of the operator table are in no case and no model", missing);
}

/* The published cases and the models of the test data; false when they cannot be unpacked. */
static bool run_published(struct run *run, const char *archive)
{
    char table[MAX_PATH], models[MAX_PATH], folder[] = "/tmp/shardplan-backend-XXXXXX", command[2 * MAX_PATH + 64];
    size_t size = 0;
    (void)snprintf(table, sizeof(table), "%s/onnx-shape-baseline.tsv", data_folder());
    (void)snprintf(models, sizeof(models), "%s/models", data_folder());
    if (mkdtemp(folder) == NULL)
        return false;
    (void)snprintf(command, sizeof(command), "tar -xzf '%s' -C '%s'", archive, folder);
    if (run_shell(command) != 0)
        return false;
    unsigned char *baseline = data_read(table, &size);
    run->baseline = (const char *)baseline;
    (void)backend_each(folder, run_case, run);
    cover_folder(run->coverage, models);
    cover_folder(run->coverage, SOURCE_ROOT "/tests/data");
    run->baseline = NULL;
    free(baseline);
    (void)snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return run_shell(command) == 0;
}

int main(void)
{
    char archive[MAX_PATH];
    struct run run = {.coverage = coverage_create()};
    (void)snprintf(archive, sizeof(archive), "%s/onnx-backend-tests.tar.gz", data_folder());
    bool is_there = access(archive, R_OK) == 0;
    run.own_wrong = own_cases_run(run.coverage, &run.own);
    tell(run.own_wrong == 0, "%u of %u models of one node", run.own - run.own_wrong, run.own);
    if (!is_there)
        printf("ok backend_cases # SKIP the published cases are not there\n");
    else if (!run_published(&run, archive))
        tell(false, "the published cases cannot be unpacked");
    else
        report(&run);
    tell(coverage_silent_texts(run.coverage) == 0, "every text speaks of the kinds of factors its rule has");
    coverage_destroy(run.coverage);
    return failures != 0;
}
