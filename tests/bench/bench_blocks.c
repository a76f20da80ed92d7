/*
 * The repeated blocks of models, how long it takes to find them, and what that grows with.
 *
 *     bench_blocks MODEL...        ONNX files, or tensor graphs as tests/bench/models.py writes them
 *
 * A line for each model: nodes that are not folded, different nodes, runs (blocks x nodes, beside the first node of the
 * run), steps and seconds of processor time for a node. Models with symbolic dimensions are refused.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cost/workload.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"
#include "plan/model_file.h"
#include "plan_subject.h"
#include "search/strategy/blocks.h"

static void print(const char *path, const struct sp_workload *workload, const struct sp_blocks *blocks, double seconds)
{
    const double nodes = blocks->order_count > 0 ? blocks->order_count : 1;
    printf("%s\n  %u nodes, %u different, %.1f steps and %.2f us a node\n", path, blocks->order_count,
           blocks->class_count, (double)blocks->steps / nodes, seconds / nodes * 1e6);
    for (uint32_t i = 0; i < blocks->run_count && i < 12; i++) {
        const struct sp_block_run *run = &blocks->runs[i];
        printf("  %u x %u from node %u, %s\n", run->count, run->length, run->first_node,
               workload->nodes[blocks->order[run->first_node]].name);
    }
    if (blocks->run_count > 12)
        printf("  and %u more\n", blocks->run_count - 12);
}

static enum sp_status measure(struct sp_arena *arena, const char *path, const struct sp_model_file *file,
                              struct sp_error *err)
{
    struct sp_cluster *cluster;
    struct sp_model *model;
    struct sp_workload *workload;
    struct sp_blocks *blocks;
    struct sp_shape_summary summary;
    enum sp_status status = sp_onnx_read(arena, file->bytes, file->size, NULL, &model, err);
    if (status == SP_OK)
        status = sp_infer_shapes(model, NULL, &summary, err);
    if (status == SP_OK)
        status = sp_cluster_uniform(arena, "h100-sxm-80gb", 8, &cluster, err);
    if (status == SP_OK)
        status = sp_workload_from_model(arena, model, cluster, NULL, &workload, err);
    double start = plan_user_seconds();
    if (status == SP_OK)
        status = sp_blocks_find(arena, workload, &blocks, err);
    if (status == SP_OK)
        print(path, workload, blocks, plan_user_seconds() - start);
    return status;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        struct sp_budget budget = {0};
        struct sp_arena *arena = sp_arena_create(&budget);
        struct sp_model_file file = {0};
        struct sp_error err = {0};
        size_t size;
        char *bytes = plan_read_file(argv[i], &size);
        enum sp_status status = bytes != NULL ? sp_model_file_open(&budget, bytes, size, NULL, &file, &err) : SP_ERR_IO;
        if (status == SP_OK)
            status = measure(arena, argv[i], &file, &err);
        if (status != SP_OK) {
            (void)fprintf(stderr, "%s: %s\n", argv[i], bytes != NULL ? err.message : "it cannot be read");
            failed = 1;
        }
        sp_model_file_release(&file);
        free(bytes);
        sp_arena_destroy(arena);
    }
    return failed;
}
