#pragma once
/* plan_subject - a model on a cluster, as a search takes it: for programs that measure searches. */
#include "cost/cluster/cluster.h"
#include "infer/dataflow.h"
#include "plan/model_file.h"
#include "search/joint/joint.h"

struct plan_subject {
    struct sp_budget budget;
    struct sp_arena *arena;
    struct sp_model_file file;
    struct sp_model *model;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_dataflow *dataflow;
    char *bytes;
    uint32_t live_count;                   /* nodes that are not folded */
    double read_seconds, workload_seconds; /* processor time */
};

/* Prints what is wrong and returns false where a file cannot be read. */
bool plan_subject_open(struct plan_subject *subject, const char *model, const char *cluster);
void plan_subject_close(struct plan_subject *subject);

/* The bytes of a file, the caller's to free; NULL where it cannot be read. */
char *plan_read_file(const char *path, size_t *ret_size);

double plan_user_seconds(void); /* of this process */
double plan_peak_megabytes(void);

/* The name of a file without folders and extension; static. */
const char *plan_short_name(const char *path);
