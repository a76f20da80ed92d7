#pragma once
/*
 * strategy_models - a model of the test data or one that was built, with its workload on equal devices and the dataflow
 * that strategies are made from; for tests of core/search/strategy.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data_files.h"
#include "expect_op.h"
#include "infer/dataflow.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"
#include "search/strategy/strategy.h"

/* Sums in another order. */
#define EXPECT_NEAR(value, want)                                                                                       \
    cr_expect(fabs((value) - (want)) <= 1e-9 * fabs((double)(want)), "%s is %.17g, not %.17g", #value,                 \
              (double)(value), (double)(want))

struct strategy_model {
    struct sp_arena *arena;
    unsigned char *bytes;
    struct sp_model *model;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_dataflow *dataflow;
    struct sp_error err;
};

static inline void strategy_model_finish(struct strategy_model *subject, const char *device, uint32_t devices)
{
    cr_assert_eq(sp_cluster_uniform(subject->arena, device, devices, &subject->cluster, &subject->err), SP_OK, "%s",
                 subject->err.message);
    cr_assert_eq(sp_workload_from_model(subject->arena, subject->model, subject->cluster, NULL, &subject->workload,
                                        &subject->err),
                 SP_OK, "%s", subject->err.message);
    cr_assert_eq(sp_dataflow_create(subject->arena, subject->model, &subject->dataflow, &subject->err), SP_OK, "%s",
                 subject->err.message);
}

/* models/`name` of the test data with all its symbols bound to 8; false where it is not here. */
static inline bool strategy_model_open(struct strategy_model *subject, const char *name, const char *device,
                                       uint32_t devices)
{
    static const char *const symbols[] = {"batch", "seq", "batch_size", "sequence_length", "past", "total", "N"};
    static const int64_t extents[] = {8, 8, 8, 8, 8, 16, 8};
    struct sp_read_options options = {
        .binding_count = sizeof symbols / sizeof symbols[0], .binding_names = symbols, .binding_values = extents};
    struct sp_shape_summary summary;
    char path[1024];
    size_t size;
    *subject = (struct strategy_model){0};
    (void)snprintf(path, sizeof path, "%s/models/%s", data_folder(), name);
    subject->bytes = data_read(path, &size);
    if (!subject->bytes)
        return false;
    subject->arena = sp_arena_create(NULL);
    cr_assert_eq(sp_onnx_read(subject->arena, subject->bytes, size, &options, &subject->model, &subject->err), SP_OK,
                 "%s", subject->err.message);
    cr_assert_eq(sp_infer_shapes(subject->model, NULL, &summary, &subject->err), SP_OK, "%s", subject->err.message);
    strategy_model_finish(subject, device, devices);
    return true;
}

/* What a collective of NCCL takes among devices of the subject's catalog entry, by the form of device.h: start, what
   the runtime adds, ranks, and f (n + sqrt(n half_bytes)) over the link. */
static inline double strategy_model_nccl(const struct strategy_model *subject, enum sp_device_operation operation,
                                         double devices, double bytes)
{
    const struct sp_device *device = sp_cluster_device(subject->cluster, 0);
    uint32_t count;
    const struct sp_device_library *library = sp_device_libraries(device, &count);
    while (strcmp(library->name, "nccl") != 0)
        library++;
    const struct sp_device_collective *of = &library->operations[operation];
    const double link = device->link_bandwidth * sp_device_link_share(of, (uint32_t)devices);
    const double crossed = (operation == SP_DEVICE_ALL_REDUCE ? 2 : 1) * (devices - 1) / devices;
    return of->start_seconds + sp_device_runtime(device)->collective_seconds + of->rank_seconds * (devices - 1) +
           crossed * (bytes + sqrt(bytes * of->half_bytes)) / link;
}

/* The model of `build`, whose shapes are inferred here. */
static inline void strategy_model_built(struct strategy_model *subject, const char *device, uint32_t devices)
{
    infer();
    *subject = (struct strategy_model){.arena = sp_arena_create(NULL), .model = build.model};
    strategy_model_finish(subject, device, devices);
}

static inline void strategy_model_close(struct strategy_model *subject)
{
    sp_arena_destroy(subject->arena);
    free(subject->bytes);
    *subject = (struct strategy_model){0};
}

/* The table of a mesh of `count` axes over the first devices of the subject's cluster. */
static inline struct sp_strategy_table *strategy_table_of(struct strategy_model *subject, uint32_t count,
                                                          const uint32_t *sizes)
{
    struct sp_strategy_mesh mesh = {.axis_count = count, .links = sp_cluster_links(subject->cluster)};
    struct sp_strategy_table *table = NULL;
    for (uint32_t i = 0; i < count; i++)
        mesh.size[i] = sizes[i];
    mesh.cluster = subject->cluster;
    mesh.device = sp_cluster_device(subject->cluster, 0);
    mesh.kind = subject->workload->kind_of[0];
    cr_assert_eq(sp_strategy_table_create(subject->arena, subject->workload, subject->dataflow, &mesh, NULL, &table,
                                          &subject->err),
                 SP_OK, "%s", subject->err.message);
    return table;
}
