/*
 * The strategies of models on meshes, and the choice problems of whole models as one stage: sizes and times.
 *
 *     bench_strategy [--list] MODEL...     ONNX files, or tensor graphs as tests/bench/models.py writes them
 *
 * A line for each model and mesh: classes of nodes; strategies of them all and of the one with the most; processor time
 * of the table; then of the problem in which repeated blocks are one: nodes, edges and strategies, its processor time,
 * and that of counting one choice. --list prints each class with its strategies.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/reader.h"
#include "ops/shapes/shapes.h"
#include "plan/model_file.h"
#include "plan_subject.h"
#include "search/strategy/intra.h"

struct subject {
    struct sp_arena *arena;
    struct sp_model *model;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_dataflow *dataflow;
    struct sp_blocks *blocks;
    uint32_t count, *nodes;
    bool lists;
};

/* One class: its strategies, the least seconds among them, and those of the whole. */
static void list_class(const struct subject *subject, const struct sp_strategies *ways, uint32_t node)
{
    double least = INFINITY;
    for (uint32_t s = 0; s < ways->count; s++)
        least = fmin(least, ways->items[s].compute_seconds + ways->items[s].communication_seconds);
    printf("    %-28s %4u strategies, %8.2f us whole, %8.2f us at least\n",
           subject->workload->nodes[node].node->op_type, ways->count, 1e6 * ways->items[0].compute_seconds,
           1e6 * least);
}

static void print_table(const struct subject *subject, const struct sp_strategy_table *table, double seconds)
{
    uint32_t classes = 0, most = 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < subject->count; i++) {
        const struct sp_strategies *ways = sp_strategy_of(table, subject->nodes[i]);
        bool is_new = true;
        for (uint32_t j = 0; j < i && j < 4096 && is_new; j++)
            is_new = sp_strategy_of(table, subject->nodes[j]) != ways;
        if (!is_new)
            continue;
        classes++;
        sum += ways->count;
        most = ways->count > most ? ways->count : most;
        if (subject->lists)
            list_class(subject, ways, subject->nodes[i]);
    }
    printf(" %5u classes %6llu strategies (most %3u) %8.2f ms;", classes, (unsigned long long)sum, most, 1e3 * seconds);
}

static enum sp_status measure_mesh(const struct subject *subject, uint32_t axes, const uint32_t *sizes,
                                   struct sp_error *err)
{
    struct sp_strategy_mesh mesh = {.axis_count = axes,
                                    .links = sp_cluster_links(subject->cluster),
                                    .cluster = subject->cluster,
                                    .device = sp_cluster_device(subject->cluster, 0)};
    struct sp_strategy_table *table = NULL;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_intra_options options = {
        .node_count = subject->count, .nodes = subject->nodes, .blocks = subject->blocks, .memory_limit = 1e12};
    struct sp_intra *intra = NULL;
    struct sp_intra_result *result = NULL;
    char text[64] = "";
    for (uint32_t a = 0; a < axes; a++) {
        mesh.size[a] = sizes[a];
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", a > 0 ? "," : "", sizes[a]);
    }
    double start = plan_user_seconds();
    enum sp_status status =
        sp_strategy_table_create(arena, subject->workload, subject->dataflow, &mesh, NULL, &table, err);
    if (status == SP_OK) {
        printf("  [%s]", text);
        print_table(subject, table, plan_user_seconds() - start);
        start = plan_user_seconds();
        status = sp_intra_create(arena, table, &options, &intra, err);
    }
    if (status == SP_OK) {
        const struct sp_choice_problem *problem = sp_intra_problem(intra);
        printf(" %u nodes %u edges %u strategies %8.2f ms;", problem->node_count, problem->edge_count,
               problem->first[problem->node_count], 1e3 * (plan_user_seconds() - start));
        uint32_t *choice = SP_NEW_ARRAY(arena, problem->node_count, uint32_t);
        start = plan_user_seconds();
        status = choice != NULL ? sp_intra_result(arena, intra, choice, &result, err) : sp_fail_memory(err);
    }
    if (status == SP_OK)
        printf(" counted in %.2f ms\n", 1e3 * (plan_user_seconds() - start));
    sp_strategy_table_destroy(table);
    sp_arena_destroy(arena);
    return status;
}

static enum sp_status measure(struct subject *subject, const struct sp_model_file *file, struct sp_error *err)
{
    static const uint32_t sizes[][4] = {{8}, {64}, {2, 4}, {8, 8}, {4, 4, 4}, {2, 2, 2, 8}};
    static const uint32_t counts[] = {1, 1, 2, 2, 3, 4};
    struct sp_shape_summary summary;
    enum sp_status status = sp_onnx_read(subject->arena, file->bytes, file->size, NULL, &subject->model, err);
    if (status == SP_OK)
        status = sp_infer_shapes(subject->model, NULL, &summary, err);
    if (status == SP_OK)
        status = sp_cluster_uniform(subject->arena, "h100-sxm-80gb", 64, &subject->cluster, err);
    if (status == SP_OK)
        status =
            sp_workload_from_model(subject->arena, subject->model, subject->cluster, NULL, &subject->workload, err);
    if (status == SP_OK)
        status = sp_dataflow_create(subject->arena, subject->model, &subject->dataflow, err);
    if (status == SP_OK)
        status = sp_blocks_find(subject->arena, subject->workload, &subject->blocks, err);
    if (status != SP_OK)
        return status;
    subject->nodes = SP_NEW_ARRAY(subject->arena, subject->workload->node_count, uint32_t);
    if (subject->nodes == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < subject->workload->node_count; i++)
        if (!subject->workload->nodes[i].folded)
            subject->nodes[subject->count++] = i;
    printf("%u nodes that are not folded\n", subject->count);
    for (size_t m = 0; m < sizeof counts / sizeof counts[0] && status == SP_OK; m++)
        status = measure_mesh(subject, counts[m], sizes[m], err);
    return status;
}

int main(int argc, char **argv)
{
    int failed = 0;
    bool lists = argc > 1 && strcmp(argv[1], "--list") == 0;
    for (int i = lists ? 2 : 1; i < argc; i++) {
        struct sp_budget budget = {0};
        struct subject subject = {.arena = sp_arena_create(&budget), .lists = lists};
        struct sp_model_file file = {0};
        struct sp_error err = {0};
        size_t size;
        char *bytes = plan_read_file(argv[i], &size);
        enum sp_status status = bytes != NULL ? sp_model_file_open(&budget, bytes, size, NULL, &file, &err) : SP_ERR_IO;
        printf("%s: ", argv[i]);
        if (status == SP_OK)
            status = measure(&subject, &file, &err);
        if (status != SP_OK) {
            (void)fprintf(stderr, "%s: %s\n", argv[i], bytes != NULL ? err.message : "it cannot be read");
            failed = 1;
        }
        sp_model_file_release(&file);
        free(bytes);
        sp_arena_destroy(subject.arena);
    }
    return failed;
}
