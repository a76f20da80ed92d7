#pragma once
/*
 * internal - what the files of the cluster share: reading its parts and putting them together.
 */
#include "base/json_reader.h"
#include "cost/cluster/cluster.h"

/* What a cluster is made of; arrays and names live in the cluster's arena. */
struct sp_cluster_parts {
    uint32_t group_count, level_count; /* level_count 0: the default level */
    struct sp_device_group_spec *groups;
    struct sp_mesh_level *levels;
    double memory_limit_bytes, efficiency, launch_seconds;
    const bool *excluded; /* per number; NULL: none is */
};

/* What an arranged cluster was described by: all groups in the order of the numbers, and the mesh over all of them. */
struct sp_cluster_stated {
    uint32_t group_count, device_count, level_count;
    struct sp_device_group_spec *groups;
    struct sp_mesh_level *levels;
};

/* Whether devices have to be arranged: some are left out, or groups alike stand apart where all links are the same. */
bool sp_cluster_is_irregular(const struct sp_cluster_parts *parts);

/* Arranges the devices of `cluster`, whose levels are those of all that are numbered: makes number, place, groups,
   group_of, and levels as large as what is used. */
enum sp_status sp_cluster_arrange(struct sp_arena *arena, const struct sp_cluster_parts *parts,
                                  struct sp_cluster *cluster, struct sp_error *err);

/* Reads "exclude" of a cluster of `parts`. */
enum sp_status sp_cluster_parse_exclude(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                        struct sp_cluster_parts *parts);

/*
 * Numbers the devices. The parts must be checked already (counts, figures, sizes), but for one thing: without levels,
 * more than one device and a group without any link this returns SP_ERR_REQUEST, and *ret_linkless is that group.
 */
enum sp_status sp_cluster_build(struct sp_arena *arena, const struct sp_cluster_parts *parts,
                                struct sp_cluster **ret_cluster, uint32_t *ret_linkless, struct sp_error *err);

/* The bandwidth of a device's own links: the scale-up link's, else the host link's. */
double sp_cluster_device_link(const struct sp_device *device);

/* Gives the innermost level the forms of the devices' libraries of collectives, where it is one of their own links: as
   wide as these, between devices that are alike. Then messages over outer levels have at least its latency. */
enum sp_status sp_cluster_measured_links(struct sp_arena *arena, struct sp_cluster *cluster, struct sp_error *err);

/* The member "device" of `parent`: a name of the catalog or a described device. */
enum sp_status sp_cluster_parse_device(struct sp_members_reader *reader, const json_t *parent,
                                       const char *parent_pointer, struct sp_device *ret_device);

/* A member that is a number, and where it goes; an absent one that is not required stays as it is. */
struct sp_described_number {
    const char *member;
    const struct sp_members_range *range;
    bool required;
    double *ret;
};
enum sp_status sp_described_numbers(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                    const struct sp_described_number *numbers, size_t count);

/* The element type that a member of the object at `pointer` is named by. */
enum sp_status sp_described_dtype(struct sp_members_reader *reader, const char *pointer, const char *name,
                                  enum sp_dtype *ret_dtype);

/* What a device's kernels reach: the members from "products" to "measured". */
enum sp_status sp_described_kernels(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                    struct sp_device *device);
