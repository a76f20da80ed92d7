/*
 * simulate_cases FOLDER [--only OPERATOR] [--case NAME] [--pairs all|some|none] [--every N] [--further N] [--shares N]
 *     [--devices N] [--targets all|turn|NAME]: every way of splitting the operators of ONNX's backend tests, or one of N
 * ways, as simulations for the real ONNX Runtime, and the models of the devices of one of N simulations
 * (simulate_ask_devices()). With --further one of N ways that follow the first one of each factor.
 *
 * For each published case of one node: each factor that may be split, in 2, 3 and 4 shards on as many devices, and each
 * two factors on 2 x 2 devices, the operands as the rule has them (simulate_give()); each reduction also with its
 * results in parts. With --shares the same, or one of N ways, in shards of unequal size: 3 to 1, 2 to 1, 1 to 2 to 1.
 * For each case of several nodes, or
 * with graphs inside ("(several nodes)" for --only): each axis of each input, and what propagation makes of it. The
 * simulations and the list of them go to FOLDER (simulate.h). Run it through simulate_cases.mjs, which runs the list
 * and reports:
 *
 *     node simulate_cases.mjs [--program BUILD/tests/conformance/simulate_cases] [--only OPERATOR] [--case NAME]
 * [--verbose]
 *
 * With SIMULATE_KEEP=DIR failing simulations stay there, beside the original and the line of the list.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simulate_own.h"
#include "simulate_run.h"

/* The binding feeds and hands out tensors only. */
static const char *unfit(const struct simulate_case *opened)
{
    const struct sp_graph *graph = opened->model->graph;
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

/* What has to be fed: the inputs that have no default, and the case's files for them. */
static json_t *case_inputs(const struct backend_case *test, const struct sp_graph *graph)
{
    const struct sp_graph *all = test->model->graph;
    json_t *names = json_array(), *files = json_array(), *expected = json_array();
    for (uint32_t i = 0, file = 0; i < all->input_count; i++) {
        const struct sp_value *own = sp_graph_value(graph, all->inputs[i]->name);
        if (all->inputs[i]->tensor != NULL)
            continue;
        if (own != NULL && own->kind == SP_VALUE_INPUT && own->tensor == NULL) {
            (void)json_array_append_new(names, json_string(own->name));
            (void)json_array_append_new(files, json_sprintf("%s/test_data_set_0/input_%u.pb", test->folder, file));
        }
        file++;
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        (void)json_array_append_new(expected, json_sprintf("%s/test_data_set_0/output_%u.pb", test->folder, i));
    return json_pack("{s:o, s:o, s:o}", "inputNames", names, "inputs", files, "expected", expected);
}

/* The subject's file is there: reads it and runs it. `test` is NULL for a model of ours. */
static void run_subject(struct simulate_program *program, struct simulate_subject *subject, struct backend_case *test)
{
    if (++program->subject < program->first) {
        json_decref(subject->inputs);
        return;
    }
    struct simulate_progress *progress = program->progress;
    progress->subject = program->subject;
    (void)snprintf(progress->case_name, sizeof(progress->case_name), "%s", subject->name);
    (void)snprintf(progress->op_name, sizeof(progress->op_name), "%s", subject->op_name);
    (void)snprintf(progress->run, sizeof(progress->run), "%s", subject->name);
    if (!simulate_open(&subject->opened, subject->path, test, 0)) {
        simulate_skip(program, subject, subject->opened.err.message);
    } else if (unfit(&subject->opened) != NULL) {
        simulate_skip(program, subject, unfit(&subject->opened));
    } else {
        if (test != NULL)
            subject->inputs = case_inputs(test, subject->opened.model->graph);
        if (subject->opened.model->graph->node_count == 1 && subject->opened.rule != NULL)
            simulate_node(program, subject);
        else
            simulate_graph(program, subject);
        (void)fflush(program->list);
    }
    simulate_close(&subject->opened);
    json_decref(subject->inputs);
}

/* The operator, in any domain, or, with a dot at its end, all of a domain. */
static bool is_wanted(const struct simulate_program *program, const char *op_type, const char *case_name)
{
    const char *dot = strrchr(op_type, '.'), *only = program->only;
    size_t length = only == NULL ? 0 : strlen(only);
    bool is_domain = length > 0 && only[length - 1] == '.' && strncmp(op_type, only, length) == 0;
    return (only == NULL || is_domain || strcmp(only, dot == NULL ? op_type : dot + 1) == 0) &&
           (program->only_case == NULL || strcmp(program->only_case, case_name) == 0);
}

/* ---- the published cases ---------------------------------------------------------------------------------------- */

/* Models of several nodes are one row of the report: they are there for what is between the nodes. */
static void name_graph(const struct sp_graph *graph, char *name, size_t size)
{
    if (graph->node_count == 1)
        simulate_op_name(&graph->nodes[0], name, size);
    else
        (void)snprintf(name, size, "(several nodes)");
}

/* The light models of whole networks take seconds each; simulate_models has others. */
static bool is_large(const struct backend_case *test)
{
    return test->model->size > (1 << 20);
}

static void run_variant(struct simulate_program *program, struct backend_case *test, uint32_t mask)
{
    struct simulate_subject subject = {.case_name = test->name};
    char source[MAX_PATH + 64];
    (void)snprintf(source, sizeof(source), "%s/model.onnx", test->folder);
    (void)snprintf(subject.path, sizeof(subject.path), "%.1000s", source);
    (void)snprintf(subject.name, sizeof(subject.name), "%.140s", test->name);
    name_graph(test->model->graph, subject.op_name, sizeof(subject.op_name));
    if (mask != 0) {
        (void)snprintf(subject.name, sizeof(subject.name), "%.140s+%x", test->name, mask);
        (void)snprintf(subject.path, sizeof(subject.path), "%.800s/%s.original.onnx", program->folder, subject.name);
        if (!simulate_fix_inputs(test, source, mask, subject.path)) {
            simulate_skip(program, &subject, "an input cannot be an initializer");
            return;
        }
    }
    run_subject(program, &subject, test);
}

static void run_case(struct backend_case *test, void *context)
{
    struct simulate_program *program = context;
    char path[MAX_PATH + 64];
    char op_name[80];
    if (test->model == NULL || test->model->graph->node_count == 0 || is_large(test))
        return;
    name_graph(test->model->graph, op_name, sizeof(op_name));
    if (!is_wanted(program, op_name, test->name))
        return;
    (void)snprintf(path, sizeof(path), "%s/model.onnx", test->folder);
    uint32_t needed = simulate_needed(test, path), numbers = simulate_numbers(test) | needed;
    run_variant(program, test, 0);
    if (needed != 0)
        run_variant(program, test, needed);
    if (numbers != needed)
        run_variant(program, test, numbers);
}

/* ---- models of ours --------------------------------------------------------------------------------------------- */

static void run_own(struct simulate_program *program, const struct simulate_own *list, const struct simulate_own *own)
{
    struct simulate_subject subject = {0};
    if (!is_wanted(program, own->op, simulate_own_name(list, own, subject.name, sizeof(subject.name))))
        return;
    subject.case_name = subject.name;
    (void)snprintf(subject.op_name, sizeof(subject.op_name), "%s", own->op);
    (void)snprintf(subject.path, sizeof(subject.path), "%.800s/%s.original.onnx", program->folder, subject.name);
    if (simulate_own_write(own, subject.path, &subject.inputs))
        run_subject(program, &subject, NULL);
    else
        simulate_skip(program, &subject, "the model cannot be written");
}

/* ---- main ------------------------------------------------------------------------------------------------------- */

static bool read_arguments(struct simulate_program *program, int count, char **arguments)
{
    program->pairs = "some";
    program->every = program->further = 1;
    for (int i = 2; i + 1 < count; i += 2) {
        if (strcmp(arguments[i], "--only") == 0)
            program->only = arguments[i + 1];
        else if (strcmp(arguments[i], "--case") == 0)
            program->only_case = arguments[i + 1];
        else if (strcmp(arguments[i], "--pairs") == 0)
            program->pairs = arguments[i + 1];
        else if (strcmp(arguments[i], "--every") == 0 && strtoul(arguments[i + 1], NULL, 10) > 0)
            program->every = (unsigned)strtoul(arguments[i + 1], NULL, 10);
        else if (strcmp(arguments[i], "--further") == 0 && strtoul(arguments[i + 1], NULL, 10) > 0)
            program->further = (unsigned)strtoul(arguments[i + 1], NULL, 10);
        else if (strcmp(arguments[i], "--shares") == 0)
            program->shares = (unsigned)strtoul(arguments[i + 1], NULL, 10);
        else if (strcmp(arguments[i], "--devices") == 0)
            (void)simulate_ask_devices(arguments[i + 1], NULL);
        else if (strcmp(arguments[i], "--targets") != 0 || !simulate_ask_devices(NULL, arguments[i + 1]))
            return false;
    }
    (void)snprintf(program->folder, sizeof(program->folder), "%.700s", count > 1 ? arguments[1] : "");
    return count > 1 && count % 2 == 0;
}

/* In a process of its own. */
static int work(struct simulate_program *program)
{
    char path[MAX_PATH + 64];
    (void)snprintf(path, sizeof(path), "%s/list.jsonl", program->folder);
    program->list = fopen(path, "a");
    if (program->list == NULL) {
        (void)fprintf(stderr, "simulate_cases: %s cannot be written\n", path);
        return 2;
    }
    (void)backend_each(program->folder, run_case, program);
    static const struct simulate_own *const lists[] = {simulate_own_cases, simulate_contrib_cases,
                                                       simulate_statistics_cases, simulate_open_cases,
                                                       simulate_quantised_cases};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        for (const struct simulate_own *own = lists[i]; own->op != NULL; own++)
            run_own(program, lists[i], own);
    }
    program->progress->is_done = true;
    return fclose(program->list) != 0;
}

static void tell_crash(const struct simulate_program *program)
{
    const struct simulate_progress *progress = program->progress;
    char path[MAX_PATH + 64];
    (void)snprintf(path, sizeof(path), "%s/list.jsonl", program->folder);
    FILE *list = fopen(path, "a");
    (void)fprintf(list, "\n"); /* behind a line that is not complete */
    simulate_tell(list, json_pack("{s:s, s:s, s:s, s:[], s:s}", "case", progress->case_name, "op", progress->op_name,
                                  "name", progress->run, "cuts", "failure",
                                  "the program dies; what was left of this case is not tried"));
    (void)fclose(list);
}

int main(int count, char **arguments)
{
    struct simulate_program program = {.first = 1};
    int status = 0;
    if (!read_arguments(&program, count, arguments)) {
        (void)fprintf(stderr, "usage: simulate_cases FOLDER [--only OPERATOR] [--case NAME] [--pairs all|some|none] "
                              "[--every N] [--further N] [--shares N] [--devices N] [--targets all|turn|NAME]\n");
        return 2;
    }
    struct simulate_progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    program.progress = progress;
    while (!progress->is_done) {
        progress->subject = 0;
        pid_t child = fork();
        if (child == 0)
            exit(work(&program));
        if (child < 0 || waitpid(child, &status, 0) != child || (status != 0 && progress->subject == 0))
            return 2;
        if (progress->is_done)
            break;
        tell_crash(&program);
        program.first = progress->subject + 1;
    }
    (void)printf("# simulate_cases: %u models of one node, %u simulations, %u that cannot be written\n",
                 progress->subject, progress->runs, progress->failures);
    return status != 0;
}
