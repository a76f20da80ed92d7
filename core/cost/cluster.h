#pragma once
/*
 * cluster - the devices a plan may use and the links between them.
 *
 * Devices are numbered 0.. in the order of the groups. Links form a hierarchy: `mesh` lists its levels from the
 * outermost (slow, between nodes) to the innermost (fast, inside a node); the sizes multiply to the number of devices,
 * and device numbers count row-major. Two devices talk over the outermost level at which their coordinates differ.
 *
 *   mesh [{node,2},{gpu,4}]     device 5 = (1,1); 5 and 6 differ at gpu: fast; 1 and 5 differ at node: slow
 *
 * Without a mesh there is one level, made of the slowest device's link (or host link, when it has none).
 *
 * JSON forms: {"device": NAME, "count": N} or {"groups": [{"name","count","device": NAME or {..}}], "mesh": [..],
 * "memory_limit_bytes", "efficiency"}. Unknown members are errors that name the JSON pointer.
 */
#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "base/limits.h"
#include "cost/device.h"

struct sp_device_group_spec {
    const char *name;
    uint32_t count;
    struct sp_device device;
};

struct sp_mesh_level {
    const char *name;
    uint32_t size;
    double bandwidth; /* bytes per second, per device and direction */
    double latency;   /* seconds */
};

struct sp_cluster {
    uint32_t device_count, group_count, level_count;
    struct sp_device_group_spec *groups;
    uint32_t *group_of;           /* device -> group */
    struct sp_mesh_level *levels; /* outermost first; never empty */
    double memory_limit_bytes;    /* per device, 0 = the device's own */
    double efficiency;            /* share of peak FLOPs and memory bandwidth that real kernels reach, (0, 1] */
    double launch_seconds;        /* floor of one operator's time */
};

/* Defaults: efficiency 0.7 for compute and memory, launch 7e-6 s (autoparallel's published constants). */
#define SP_DEFAULT_EFFICIENCY     0.7
#define SP_DEFAULT_LAUNCH_SECONDS 7e-6

/* `count` catalog devices; SP_ERR_REQUEST for an unknown name (the message lists the known ones) or a bad count. */
enum sp_status sp_cluster_uniform(struct sp_arena *arena, const char *device, int64_t count,
                                  struct sp_cluster **ret_cluster, struct sp_error *err);

/* From JSON; `pointer` is the JSON pointer of `json` in the request ("" or "/cluster"), used in errors' `where`. */
enum sp_status sp_cluster_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                struct sp_cluster **ret_cluster, struct sp_error *err);

/* The same cluster with its first `count` devices (1 <= count <= device_count); levels are kept. */
struct sp_cluster *sp_cluster_prefix(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t count);

const struct sp_device *sp_cluster_device(const struct sp_cluster *cluster, uint32_t device);

/* Bytes that a plan may use on a device. */
double sp_cluster_memory(const struct sp_cluster *cluster, uint32_t device);

/* The link level between two different devices. */
const struct sp_mesh_level *sp_cluster_link(const struct sp_cluster *cluster, uint32_t a, uint32_t b);

/* Seconds to move `bytes` from a to b: latency + bytes / bandwidth; 0 when a == b. */
double sp_cluster_transfer_seconds(const struct sp_cluster *cluster, uint32_t a, uint32_t b, double bytes);

/* Writes the full form. */
void sp_cluster_write(const struct sp_cluster *cluster, struct sp_json *json);
