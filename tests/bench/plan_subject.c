#include "plan_subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "onnx/reader.h"
#include "ops/shapes/shapes.h"

double plan_user_seconds(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec;
}

double plan_peak_megabytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss * 1.024e-3 : 0;
}

const char *plan_short_name(const char *path)
{
    static char name[64];
    const char *slash = strrchr(path, '/');
    (void)snprintf(name, sizeof name, "%s", slash != NULL ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot != NULL)
        *dot = '\0';
    return name;
}

char *plan_read_file(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    long size = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)size + 1);
    if (bytes != NULL && fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        free(bytes);
        bytes = NULL;
    }
    if (file != NULL && fclose(file) != 0)
        (void)fprintf(stderr, "%s: could not be closed\n", path);
    *ret_size = (size_t)size;
    return bytes;
}

static enum sp_status open_model(struct plan_subject *subject, size_t size, struct sp_error *err)
{
    struct sp_shape_summary summary;
    const double start = plan_user_seconds();
    enum sp_status status = sp_model_file_open(&subject->budget, subject->bytes, size, NULL, &subject->file, err);
    if (status == SP_OK)
        status = sp_onnx_read(subject->arena, subject->file.bytes, subject->file.size, NULL, &subject->model, err);
    if (status == SP_OK)
        status = sp_infer_shapes(subject->model, NULL, &summary, err);
    subject->read_seconds = plan_user_seconds() - start;
    return status;
}

static enum sp_status open_cluster(struct plan_subject *subject, const char *path, struct sp_error *err)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    if (json == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "CLUSTER", "%s cannot be read: %s", path, error.text);
    enum sp_status status = sp_cluster_parse(subject->arena, json, "", &subject->cluster, err);
    json_decref(json);
    return status;
}

bool plan_subject_open(struct plan_subject *subject, const char *model, const char *cluster)
{
    struct sp_error err = {0};
    size_t size;
    memset(subject, 0, sizeof *subject);
    subject->bytes = plan_read_file(model, &size);
    if (subject->bytes == NULL) {
        (void)fprintf(stderr, "%s cannot be read\n", model);
        return false;
    }
    subject->arena = sp_arena_create(&subject->budget);
    enum sp_status status = open_model(subject, size, &err);
    if (status == SP_OK)
        status = open_cluster(subject, cluster, &err);
    const double start = plan_user_seconds();
    if (status == SP_OK)
        status =
            sp_workload_from_model(subject->arena, subject->model, subject->cluster, NULL, &subject->workload, &err);
    if (status == SP_OK)
        status = sp_dataflow_create(subject->arena, subject->model, &subject->dataflow, &err);
    subject->workload_seconds = plan_user_seconds() - start;
    if (status != SP_OK) {
        (void)fprintf(stderr, "%s, %s: %s\n", model, cluster, err.message);
        plan_subject_close(subject);
        return false;
    }
    for (uint32_t n = 0; n < subject->workload->node_count; n++)
        subject->live_count += !subject->workload->nodes[n].folded;
    return true;
}

void plan_subject_close(struct plan_subject *subject)
{
    sp_arena_destroy(subject->arena);
    sp_model_file_release(&subject->file);
    free(subject->bytes);
}
