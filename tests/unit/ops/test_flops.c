/*
 * FLOPs of whole models against published counts, within 2 %.
 *
 * Convention: 1 multiply-add is 2 FLOPs; elementwise operators, reductions and softmax are counted too, folded nodes
 * are not. Published, for one image or one sequence:
 *
 *  - resnet50: 4.09 G multiply-adds (torchvision.models.resnet50, "GFLOPS" of its weights: torch counts multiply-adds)
 *  - vit_b_16: 17.56 G multiply-adds (torchvision.models.vit_b_16, the same)
 *  - bert_base: 22.5 G FLOPs (MobileBERT, Sun et al., ACL 2020, table 1: BERT base, 128 tokens)
 *
 * The files hold batches of 8, 2 and 8. They live outside of the project: $SHARDPLAN_TEST_DATA, else ../shared/data.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "data_files.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"
#include "ops/table/op.h"

/* All FLOPs of the main graph of a mapped model. */
static double model_flops(const void *bytes, uint64_t size)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_model *model = NULL;
    struct sp_shape_summary summary;
    struct sp_error err;
    double flops = 0;
    sp_error_clear(&err);
    cr_assert_eq(sp_onnx_read(arena, bytes, size, NULL, &model, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_infer_shapes(model, NULL, &summary, &err), SP_OK, "%s", err.message);
    cr_expect_eq(summary.full_values, summary.values);
    cr_expect_eq(summary.unknown_op_count, 0);
    for (uint32_t i = 0; i < model->graph->node_count; i++) {
        struct sp_node *node = &model->graph->nodes[i];
        struct sp_rule *rule = NULL;
        if (node->is_folded)
            continue;
        cr_assert_eq(sp_op_rule(model, node, arena, &rule, &err), SP_OK, "%s", err.message);
        flops += sp_rule_flops(rule, NULL);
    }
    sp_arena_destroy(arena);
    return flops;
}

/* `published` FLOPs for one of the `batch` samples of models/`name`. */
static void expect_flops(const char *name, int batch, double published)
{
    char path[1024];
    size_t size;
    (void)snprintf(path, sizeof(path), "%s/models/%s", data_folder(), name);
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL)
        cr_skip_test("%s is not here", path);
    double flops = model_flops(bytes, size) / batch;
    free(bytes);
    cr_log_info("%s: %.4f GFLOP, published %.4f\n", name, flops / 1e9, published / 1e9);
    cr_expect(flops > 0.98 * published && flops < 1.02 * published, "%s: %.4f GFLOP, published %.4f", name, flops / 1e9,
              published / 1e9);
}

Test(flops, resnet50)
{
    expect_flops("resnet50.onnx", 8, 2 * 4.09e9);
}

Test(flops, vit_b_16)
{
    expect_flops("vit_b_16.onnx", 2, 2 * 17.56e9);
}

Test(flops, bert_base)
{
    expect_flops("bert_base.onnx", 8, 22.5e9);
}
