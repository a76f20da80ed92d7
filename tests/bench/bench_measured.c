/*
 * What the product predicts for kernels, collectives and layouts that somebody measured: tests/bench/measured asks.
 *
 *   bench_measured nodes MODEL CLUSTER                   NAME SECONDS LOW HIGH of each node that takes time, on
 *                                                        device 0
 *   bench_measured layout MODEL CLUSTER TENSOR STAGES DATA inner|experts
 *                                                        LATENCY INTERVAL MEMORY of the layout (plan_grid.h), experts
 *                                                        cut in their inner size or whole on a device; memory with
 *                                                        what the runtime takes, then LOW and HIGH of each; nothing
 *                                                        where it does not fit
 *   bench_measured service CLUSTER                       TTFT LOW HIGH TPOT LOW HIGH of each line of the input,
 *                                                        "CONCURRENCY OUTPUT ROUNDS" and the times of a decode step,
 *                                                        for which a prefill keeps others waiting, and of a prefill
 *                                                        (core/plan/service/llm.h) with their ends
 *   bench_measured collectives CLUSTER                   SECONDS LOW HIGH of each line "OPERATION DEVICES BYTES" of the
 *                                                        input, among the first DEVICES devices of the cluster
 *
 * 90 % of what is measured should be from LOW to HIGH. Times are printed with nine digits: they are compared, not read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/explain/error_bars.h"
#include "plan/service/llm.h"
#include "plan_grid.h"

#define MAX_LINE   256
#define MAX_LEVELS 8 /* of links: more than any cluster here has */

static int print_nodes(struct plan_subject *subject)
{
    const struct sp_workload *workload = subject->workload;
    const uint32_t kind = workload->kind_of[0];
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        const struct sp_error_bar bar =
            sp_error_bar_of(node->seconds[kind], sp_error_of_node(workload, subject->cluster, n, 0));
        if (!node->folded && node->seconds[kind] > 0)
            printf("%s %.9g %.9g %.9g\n", node->name, bar.value, bar.low, bar.high);
    }
    return 0;
}

/* A degree of 1 to SP_MAX_DEVICES; 0: it is none. */
static uint32_t degree_of(const char *word)
{
    const unsigned long degree = strtoul(word, NULL, 10);
    return degree <= SP_MAX_DEVICES ? (uint32_t)degree : 0;
}

/* The words are TENSOR STAGES DATA inner|experts. */
static int print_layout(struct plan_subject *subject, char **words)
{
    struct plan_grid grid;
    const struct plan_layout layout = {.tensor = degree_of(words[0]),
                                       .stages = degree_of(words[1]),
                                       .data = degree_of(words[2]),
                                       .splits_experts = strcmp(words[3], "experts") == 0};
    if (layout.tensor == 0 || layout.stages == 0 || layout.data == 0 || layout.tensor * layout.data > SP_MAX_DEVICES ||
        !plan_grid_make_layout(subject, &layout, &grid))
        return 1;
    const double context = sp_device_context_bytes(sp_cluster_device(subject->cluster, 0));
    for (uint32_t i = 0; i < grid.count; i++) {
        const struct sp_error_bars *bars = &grid.plans[i].bars;
        printf("%.9g %.9g %.9g %.9g %.9g %.9g %.9g %.9g %.9g\n", grid.plans[i].latency_seconds,
               grid.plans[i].interval_seconds, grid.plans[i].memory_bytes + context, bars->latency_seconds.low,
               bars->latency_seconds.high, bars->interval_seconds.low, bars->interval_seconds.high,
               bars->memory_bytes.low + bars->process_bytes.low, bars->memory_bytes.high + bars->process_bytes.high);
    }
    return 0;
}

static bool find_operation(const char *name, enum sp_collective *ret_operation)
{
    for (unsigned kind = 0; kind < SP_COLLECTIVE_COUNT; kind++) {
        if (strcmp(sp_collective_name((enum sp_collective)kind), name) == 0) {
            *ret_operation = (enum sp_collective)kind;
            return true;
        }
    }
    return false;
}

/* "all-reduce 8 1048576"; false where the line is none. */
static bool answer(const struct sp_cluster *cluster, char *line)
{
    struct sp_device_residual residual = sp_error_of_links(cluster, 0, false);
    enum sp_collective operation;
    char *behind = strchr(line, ' '), *end;
    double seconds;
    if (behind == NULL)
        return false;
    *behind = '\0';
    const unsigned long devices = strtoul(behind + 1, &end, 10);
    const double bytes = strtod(end, NULL);
    if (!find_operation(line, &operation) || devices < 1 || devices > cluster->device_count || !(bytes > 0))
        return false;
    if (operation == SP_SEND_RECEIVE) {
        const uint32_t last = (uint32_t)devices - 1;
        seconds = sp_cluster_transfer_seconds(cluster, 0, last, bytes);
        residual = sp_error_of_links(cluster, 0, last > 0 && sp_cluster_link(cluster, 0, last)->forms != NULL);
    } else {
        const struct sp_links links = sp_cluster_links(cluster);
        uint32_t span[MAX_LEVELS] = {0}, left = (uint32_t)devices;
        if (links.level_count > MAX_LEVELS)
            return false;
        for (uint32_t level = links.level_count; level > 0; level--) {
            span[level - 1] = left < links.levels[level - 1].size ? left : links.levels[level - 1].size;
            left = (left + span[level - 1] - 1) / span[level - 1];
        }
        seconds = sp_collective_seconds(&links, operation, span, bytes);
        const struct sp_link_form *form = sp_collective_form(&links, operation, span, bytes);
        if (form != NULL)
            residual = (struct sp_device_residual){form->low, form->high};
    }
    const struct sp_error_bar bar = sp_error_bar_of(seconds, residual);
    printf("%.9g %.9g %.9g\n", bar.value, bar.low, bar.high);
    return true;
}

/* "16 256 10 0.01 0.009 0.011 0.1 0.09 0.12 0.1 0.09 0.12"; false where the line is none. */
static bool answer_service(const struct sp_cluster *cluster, char *line)
{
    double numbers[12];
    char *end = line;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char *at = end;
        numbers[i] = strtod(at, &end);
        if (end == at)
            return false;
    }
    const struct sp_error_bar step = {numbers[3], numbers[4], numbers[5]},
                              prompt = {numbers[6], numbers[7], numbers[8]},
                              prefill = {numbers[9], numbers[10], numbers[11]};
    const struct sp_llm_times times = {step, prompt, prefill};
    const struct sp_generation of = {.request_seconds =
                                         sp_device_runtime(sp_cluster_device(cluster, 0))->request_seconds,
                                     .concurrency = numbers[0],
                                     .output = numbers[1],
                                     .rounds = numbers[2]};
    struct sp_llm_bars bars;
    sp_llm_bars(&times, &of, &bars);
    printf("%.9g %.9g %.9g %.9g %.9g %.9g\n", bars.ttft_seconds.value, bars.ttft_seconds.low, bars.ttft_seconds.high,
           bars.tpot_seconds.value, bars.tpot_seconds.low, bars.tpot_seconds.high);
    return true;
}

/* Each line of the input. */
static int print_answers(const char *path, bool (*print)(const struct sp_cluster *cluster, char *line))
{
    char line[MAX_LINE];
    struct sp_budget budget = {0};
    struct sp_error err = {0};
    struct sp_cluster *cluster = NULL;
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    struct sp_arena *arena = sp_arena_create(&budget);
    bool all = json != NULL && arena != NULL && sp_cluster_parse(arena, json, "", &cluster, &err) == SP_OK;
    if (!all)
        (void)fprintf(stderr, "%s: %s\n", path, json == NULL ? error.text : err.message);
    while (all && fgets(line, sizeof line, stdin) != NULL) {
        all = print(cluster, line);
        if (!all)
            (void)fprintf(stderr, "This line is no question: %s", line);
    }
    sp_arena_destroy(arena);
    json_decref(json);
    return all ? 0 : 1;
}

int main(int argc, char **argv)
{
    const bool nodes = argc == 4 && strcmp(argv[1], "nodes") == 0;
    const bool layout = argc == 8 && strcmp(argv[1], "layout") == 0;
    struct plan_subject subject;
    if (argc == 3 && strcmp(argv[1], "collectives") == 0)
        return print_answers(argv[2], answer);
    if (argc == 3 && strcmp(argv[1], "service") == 0)
        return print_answers(argv[2], answer_service);
    if (!nodes && !layout) {
        (void)fputs("usage: bench_measured nodes MODEL CLUSTER | layout MODEL CLUSTER TENSOR STAGES "
                    "DATA inner|experts | service CLUSTER | collectives CLUSTER\n",
                    stderr);
        return 2;
    }
    if (!plan_subject_open(&subject, argv[2], argv[3]))
        return 1;
    const int result = nodes ? print_nodes(&subject) : print_layout(&subject, argv + 4);
    plan_subject_close(&subject);
    return result;
}
