/*
 * The device placement workloads of Tarnawski et al. (NeurIPS 2020): one file is solved and what came out is printed;
 * the stages go into a file that the checker of the data reads. Only solving is timed, not reading.
 *
 *   bench_placement {throughput|latency} INSTANCE.json [--non-contiguous] [--time-limit S] [--max-ideals N] [--work N]
 *                   [-o SPLIT.json]
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#include "solvers/stages/stages.h"

struct instance {
    uint32_t count;
    json_int_t *ids; /* ascending */
    struct sp_stages_node *nodes;
    struct sp_stages_tensor *tensors;
    double *seconds[2]; /* accelerator, processor */
    uint32_t size[2];
    double memory;
};

struct arguments {
    bool is_latency, non_contiguous;
    double time_limit;
    uint64_t max_ideals, work;
    const char *input, *output;
};

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool go_on(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)phase, (void)fraction, (void)best, (void)bound;
    return now(CLOCK_MONOTONIC) < *(const double *)context;
}

static volatile bool is_over; /* the time limit, for tasks that ask no clock */

static void on_alarm(int number)
{
    (void)number;
    is_over = true;
}

static void set_alarm(double seconds)
{
    const struct itimerval timer = {.it_value = {(time_t)seconds, (suseconds_t)(fmod(seconds, 1) * 1e6) + 1}};
    if (seconds < 1e8 && signal(SIGALRM, on_alarm) != SIG_ERR)
        (void)setitimer(ITIMER_REAL, &timer, NULL);
}

static int by_number(const void *a, const void *b)
{
    const json_int_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint32_t index_of(const struct instance *instance, json_int_t id)
{
    const json_int_t *found = bsearch(&id, instance->ids, instance->count, sizeof *instance->ids, by_number);
    if (found == NULL) {
        fprintf(stderr, "There is an edge of node %lld, which does not exist.\n", (long long)id);
        exit(2);
    }
    return (uint32_t)(found - instance->ids);
}

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* Some files have 0 and 1 where others have false and true. */
static bool truth(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_true(value) || json_number_value(value) != 0;
}

/* What was read; it does not count as memory of the search. */
static struct sp_arena *input;

static void *room(size_t count, size_t size)
{
    void *memory = input == NULL ? NULL : sp_arena_array(input, count, size);
    if (memory == NULL) {
        fputs("There is not enough memory.\n", stderr);
        exit(2);
    }
    return memory;
}

static void read_nodes(struct instance *instance, const json_t *nodes)
{
    size_t i;
    json_t *node;
    instance->count = (uint32_t)json_array_size(nodes);
    instance->ids = room(instance->count, sizeof *instance->ids);
    instance->nodes = room(instance->count, sizeof *instance->nodes);
    for (int kind = 0; kind < 2; kind++)
        instance->seconds[kind] = room(instance->count, sizeof(double));
    json_array_foreach(nodes, i, node) instance->ids[i] = json_integer_value(json_object_get(node, "id"));
    qsort(instance->ids, instance->count, sizeof *instance->ids, by_number);
    json_array_foreach(nodes, i, node)
    {
        uint32_t at = index_of(instance, json_integer_value(json_object_get(node, "id")));
        const json_t *color = json_object_get(node, "colorClass");
        instance->nodes[at] =
            (struct sp_stages_node){.weight_bytes = number(node, "size"),
                                    .color = color != NULL ? (uint32_t)json_integer_value(color) : SP_NO_STAGE_GROUP,
                                    .is_backward = truth(node, "isBackwardNode")};
        instance->seconds[0][at] = truth(node, "supportedOnFpga") ? number(node, "fpgaLatency") : INFINITY;
        instance->seconds[1][at] = number(node, "cpuLatency");
    }
}

/* What a node makes is one tensor, and all edges from it have its cost. */
static void read_edges(struct instance *instance, const json_t *edges)
{
    size_t i;
    const json_t *edge;
    uint32_t **users = room(instance->count, sizeof *users);
    instance->tensors = room(instance->count, sizeof *instance->tensors);
    json_array_foreach(edges, i, edge)
        instance->tensors[index_of(instance, json_integer_value(json_object_get(edge, "sourceId")))]
            .consumer_count++;
    for (uint32_t node = 0; node < instance->count; node++) {
        users[node] = room(instance->tensors[node].consumer_count, sizeof **users);
        instance->tensors[node] = (struct sp_stages_tensor){.producer = node, .consumers = users[node]};
    }
    json_array_foreach(edges, i, edge)
    {
        uint32_t from = index_of(instance, json_integer_value(json_object_get(edge, "sourceId")));
        uint32_t to = index_of(instance, json_integer_value(json_object_get(edge, "destId")));
        struct sp_stages_tensor *tensor = &instance->tensors[from];
        bool is_known = false;
        for (uint32_t j = 0; j < tensor->consumer_count; j++)
            is_known |= users[from][j] == to;
        tensor->bytes = number(edge, "cost");
        if (!is_known)
            users[from][tensor->consumer_count++] = to;
    }
}

static void read_instance(struct instance *instance, const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        fprintf(stderr, "%s cannot be read: %s\n", path, error.text);
        exit(2);
    }
    read_nodes(instance, json_object_get(root, "nodes"));
    read_edges(instance, json_object_get(root, "edges"));
    instance->size[0] = (uint32_t)number(root, "maxFPGAs");
    instance->size[1] = (uint32_t)number(root, "maxCPUs");
    instance->memory = number(root, "maxSizePerFPGA");
    json_decref(root);
}

/* For latency processors are as many as nodes, one by one. */
static void write_group(json_t *groups, const struct instance *instance, const struct sp_stage *stage)
{
    json_t *group = json_object(), *nodes = json_array();
    for (uint32_t i = 0; i < stage->node_count; i++)
        json_array_append_new(nodes, json_integer(instance->ids[stage->nodes[i]]));
    json_object_set_new(group, "nodes", nodes);
    json_array_append_new(groups, group);
}

static int write_split(const struct instance *instance, const struct sp_stages_result *result, const char *path)
{
    json_t *split = json_object(), *groups[2] = {json_array(), json_array()};
    for (uint32_t i = 0; i < result->stage_count; i++)
        write_group(groups[result->stages[i].option], instance, &result->stages[i]);
    json_object_set_new(split, "fpgas", groups[0]);
    json_object_set_new(split, "cpus", groups[1]);
    int failed = json_dump_file(split, path, 0);
    json_decref(split);
    return failed;
}

static void print_result(const struct arguments *arguments, const struct sp_stages_result *result, double wall,
                         double cpu, size_t peak)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (!result->is_feasible) {
        printf("%s: nothing fits%s; bound %.6g; memory must be at least %.4g times as large\n", arguments->input,
               result->is_optimal ? " (proved)" : "", result->bound, result->minimum_memory_factor);
    } else {
        double gap = result->value > 0 ? (result->value - result->bound) / result->value : 0;
        printf("%s: value %.6f, bound %.6f, gap %.3f %%, %s, %u stages", arguments->input, result->value, result->bound,
               100 * gap, result->is_optimal ? "proved" : "not proved", result->stage_count);
    }
    printf(", %llu ideals, %.3g steps, %.3f s (%.3f s of processor), search %.1f MB, process %.1f MB\n",
           (unsigned long long)result->ideals, (double)result->work, wall, cpu, (double)peak * 1e-6,
           (double)usage.ru_maxrss * 1.024e-3);
}

static int usage(void)
{
    fputs("usage: bench_placement {throughput|latency} INSTANCE.json [--non-contiguous] [--time-limit S] "
          "[--max-ideals N] [--work N] [-o SPLIT.json]\n",
          stderr);
    return 2;
}

static bool parse(struct arguments *arguments, int count, char **values)
{
    if (count < 3 || (strcmp(values[1], "throughput") != 0 && strcmp(values[1], "latency") != 0))
        return false;
    arguments->is_latency = strcmp(values[1], "latency") == 0;
    arguments->input = values[2];
    for (int i = 3; i < count; i++) {
        const char *name = values[i], *value = i + 1 < count ? values[i + 1] : NULL;
        if (strcmp(name, "--non-contiguous") == 0) {
            arguments->non_contiguous = true;
            continue;
        }
        if (value == NULL)
            return false;
        if (strcmp(name, "--time-limit") == 0)
            arguments->time_limit = strtod(value, NULL);
        else if (strcmp(name, "--max-ideals") == 0)
            arguments->max_ideals = strtoull(value, NULL, 10);
        else if (strcmp(name, "--work") == 0)
            arguments->work = strtoull(value, NULL, 10);
        else if (strcmp(name, "-o") == 0)
            arguments->output = value;
        else
            return false;
        i++;
    }
    return true;
}

int main(int count, char **values)
{
    struct arguments arguments = {.time_limit = INFINITY};
    struct instance instance = {0};
    if (!parse(&arguments, count, values))
        return usage();
    input = sp_arena_create(NULL);
    read_instance(&instance, arguments.input);
    struct sp_stages_option ways[2] = {{.device_class = 0,
                                        .devices = 1,
                                        .max_replicas = 1,
                                        .memory_bytes = instance.memory,
                                        .memory_scale = 1,
                                        .seconds = instance.seconds[0],
                                        .transfer_per_byte = 1},
                                       {.device_class = 1,
                                        .devices = 1,
                                        .max_replicas = 1,
                                        .memory_bytes = INFINITY,
                                        .memory_scale = 1,
                                        .seconds = instance.seconds[1],
                                        .is_free = arguments.is_latency}};
    struct sp_stages_problem problem = {.node_count = instance.count,
                                        .tensor_count = instance.count,
                                        .option_count = 2,
                                        .class_count = 2,
                                        .nodes = instance.nodes,
                                        .tensors = instance.tensors,
                                        .options = ways,
                                        .class_size = instance.size,
                                        .objective = arguments.is_latency ? SP_STAGES_LATENCY : SP_STAGES_THROUGHPUT,
                                        .non_contiguous = arguments.non_contiguous};
    struct sp_budget budget = {0};
    struct sp_error error = {0};
    struct sp_arena *arena = sp_arena_create(&budget);
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID), end = wall + arguments.time_limit;
    struct sp_watch watch = {.tick = go_on, .context = &end};
    struct sp_stages_options options = {
        .seed = 1, .work_limit = arguments.work, .max_ideals = arguments.max_ideals, .watch = &watch, .stop = &is_over};
    struct sp_stages_result *result;
    set_alarm(arguments.time_limit);
    if (sp_stages_solve(arena, &problem, &options, &result, &error) != SP_OK) {
        fprintf(stderr, "%s: %s\n", arguments.input, error.message);
        sp_arena_destroy(arena);
        sp_arena_destroy(input);
        return 1;
    }
    print_result(&arguments, result, now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu, budget.peak);
    int failed = arguments.output != NULL && result->is_feasible ? write_split(&instance, result, arguments.output) : 0;
    sp_arena_destroy(arena);
    sp_arena_destroy(input);
    return failed != 0;
}
