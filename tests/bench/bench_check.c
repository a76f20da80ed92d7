/*
 * bench_check MODEL [--set PATTERN=SHARDING].. [--devices N]: what it takes to read a model, check it, infer its shapes
 * and complete its shardings. SHARDING is XLA's text, "{devices=[1,8]<=[8]}"; in PATTERN each '*' is any text.
 *
 * Prints one line, the seconds of processor time of each step and the largest resident memory in kB:
 *
 *     read 0.001 graph 0.001 shapes 0.001 meaning 0.000 infer 0.000 nodes 6623 sets 0 specs 0 findings 0 peak 12000
 *
 * graph is sp_check_graph(); meaning is the check of the annotations that the file has; infer completes shardings over
 * the whole model, from those of the file's first configuration and the set ones.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "check/check.h"
#include "infer/propagate/propagate.h"
#include "infer/view/view.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"
#include "sharding/dialect.h"

struct bench {
    const char *path;
    const unsigned char *bytes;
    uint64_t size;
    int argc;
    char **argv;
    int64_t devices;
    struct sp_budget budget; /* as of the product's jobs */
    struct sp_arena *arena;
    struct sp_model *model;
    struct sp_diagnostics findings;
    struct sp_set_spec *sets;
    uint32_t set_count, spec_count;
    double read, graph, shapes, meaning, infer; /* seconds */
    struct sp_error err;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool map(struct bench *bench)
{
    struct stat about;
    int file = open(bench->path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) != 0)
        return false;
    bench->size = (uint64_t)about.st_size;
    void *bytes = mmap(NULL, bench->size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    bench->bytes = bytes;
    return bytes != MAP_FAILED;
}

static enum sp_status add_fault(void *context, const struct sp_node *node, const struct sp_error *fault)
{
    struct bench *bench = context;
    return sp_check_add_error(&bench->findings, node, fault, &bench->err);
}

static enum sp_status check(struct bench *bench)
{
    const struct sp_shape_options options = {NULL, add_fault, bench};
    struct sp_shape_summary summary;
    double start = now();
    enum sp_status status = sp_onnx_read(bench->arena, bench->bytes, bench->size, NULL, &bench->model, &bench->err);
    double at = now();
    bench->read = at - start;
    if (status == SP_OK)
        status = sp_check_graph(bench->model, &bench->findings, &bench->err);
    bench->graph = now() - at;
    at = now();
    if (status == SP_OK)
        status = sp_infer_shapes_with(bench->model, &options, &summary, &bench->err);
    bench->shapes = now() - at;
    at = now();
    if (status == SP_OK)
        status = sp_check_annotations(bench->model, NULL, &bench->findings, &bench->err);
    for (uint32_t i = 0; status == SP_OK && bench->findings.errors == 0 && i < bench->model->configuration_count; i++)
        status = sp_check_meaning_of(bench->model, &bench->model->configurations[i], 0, &bench->findings, &bench->err);
    if (status == SP_OK)
        status = sp_check_foreign(bench->model, &bench->findings, &bench->err);
    bench->meaning = now() - at;
    return status;
}

/* The sets that the command line names; one sharding is read for each pattern and rank. */
static enum sp_status read_set(struct bench *bench, char *option)
{
    const struct sp_graph *graph = bench->model->graph;
    struct sp_sharding *shardings[SP_MAX_RANK + 1] = {NULL};
    char *text = strchr(option, '=');
    if (text == NULL)
        return sp_fail(&bench->err, SP_ERR_REQUEST, "BAD_OPTION", "--set takes PATTERN=SHARDING.");
    *text = '\0';
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        uint32_t rank = value->type.shape.rank;
        struct sp_dialect_context context = {.rank = rank, .device_count = bench->devices};
        struct sp_losses losses = {0};
        if (!value->type.shape.has_rank || fnmatch(option, value->name, 0) != 0)
            continue;
        if (shardings[rank] == NULL &&
            sp_dialect_read(bench->arena, &(struct sp_dialect_text){SP_DIALECT_HLO, text + 1, strlen(text + 1)},
                            &context, &shardings[rank], &losses, &bench->err) != SP_OK)
            return bench->err.status;
        bench->sets[bench->set_count++] = (struct sp_set_spec){value->name, shardings[rank]};
    }
    *text = '=';
    return SP_OK;
}

static enum sp_status complete(struct bench *bench)
{
    struct sp_dataflow *dataflow;
    struct sp_assignment *assignment;
    struct sp_communications communications = {0};
    const struct sp_model *model = bench->model;
    const char *configuration = model->configuration_count > 0 ? model->configurations[0].name : "bench";
    enum sp_status status = sp_dataflow_create(bench->arena, bench->model, &dataflow, &bench->err);
    if (status == SP_OK)
        status = sp_assignment_create(bench->arena, dataflow, configuration, bench->devices,
                                      &(struct sp_set_specs){bench->set_count, bench->sets}, &assignment, &bench->err);
    if (status == SP_OK)
        status = sp_infer_propagate(assignment, NULL, &bench->err);
    if (status == SP_OK)
        status = sp_assignment_communications(assignment, &communications, &bench->err);
    for (uint32_t i = 0; status == SP_OK && i < dataflow->node_count; i++) {
        const struct sp_node *node = dataflow->nodes[i];
        for (uint32_t k = 0; assignment->nodes[i].operands != NULL && k < node->input_count + node->output_count; k++)
            bench->spec_count += assignment->nodes[i].operands[k].sharding != NULL;
    }
    return status;
}

static enum sp_status infer(struct bench *bench)
{
    const struct sp_model *model = bench->model;
    enum sp_status status = SP_OK;
    int sets = 0;
    for (int i = 2; i < bench->argc; i++)
        sets += strcmp(bench->argv[i - 1], "--set") == 0;
    bench->sets = SP_NEW_ARRAY(bench->arena, (size_t)sets * model->graph->value_count, struct sp_set_spec);
    if (bench->sets == NULL)
        return sp_fail_memory(&bench->err);
    if (model->configuration_count > 0 && model->configurations[0].num_devices > 0)
        bench->devices = model->configurations[0].num_devices;
    for (int i = 2; status == SP_OK && i < bench->argc; i++)
        if (strcmp(bench->argv[i - 1], "--set") == 0)
            status = read_set(bench, bench->argv[i]);
    double start = now();
    if (status == SP_OK && bench->findings.errors == 0)
        status = complete(bench);
    bench->infer = now() - start;
    return status;
}

int main(int argc, char **argv)
{
    struct bench bench = {.path = argc > 1 ? argv[1] : "", .argc = argc, .argv = argv, .devices = 8};
    struct rusage usage;
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], "--devices") == 0)
            bench.devices = strtoll(argv[i + 1], NULL, 10);
    sp_arena_set_up_process();
    const bool is_mapped = map(&bench);
    sp_budget_for_file(&bench.budget, bench.size, (uint64_t)bench.devices, 0);
    bench.arena = sp_arena_create(&bench.budget);
    bench.findings.arena = bench.arena;
    if (bench.arena == NULL || !is_mapped) {
        (void)fprintf(stderr, "bench_check: cannot read '%s'\n", bench.path);
        return 2;
    }
    enum sp_status status = check(&bench);
    if (status == SP_OK)
        status = infer(&bench);
    getrusage(RUSAGE_SELF, &usage);
    printf("read %.6f graph %.6f shapes %.6f meaning %.6f infer %.6f nodes %" PRIu64
           " sets %u specs %u findings %" PRIu64 " peak %ld\n",
           bench.read, bench.graph, bench.shapes, bench.meaning, bench.infer,
           bench.model == NULL ? 0 : bench.model->counts.nodes, bench.set_count, bench.spec_count,
           (uint64_t)bench.findings.errors, usage.ru_maxrss);
    if (status != SP_OK)
        status = sp_budget_explain(&bench.budget, &bench.err);
    if (status != SP_OK)
        (void)fprintf(stderr, "bench_check: %s %s (%s)\n", bench.err.code, bench.err.message, bench.err.where);
    sp_arena_destroy(bench.arena);
    return status == SP_OK ? 0 : 1;
}
