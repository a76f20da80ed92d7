#pragma once
/*
 * internal - what the files of the cluster share: reading its parts and putting them together.
 */
#include "base/json_reader.h"
#include "cost/cluster/cluster.h"

/* A link between two ends: a device's number, or the number of devices and the index of a switch. */
struct sp_cluster_wire {
    uint32_t ends[2];
    double bandwidth, latency;
};

/* Members are ends as well, switches among them being earlier ones. */
struct sp_cluster_switch {
    const char *name;
    uint32_t member_count;
    const uint32_t *members;
    double bandwidth;        /* that all members share */
    double member_bandwidth; /* that one reaches; 0: all of it */
    double latency;
};

/* What a cluster is made of; arrays and names live in the cluster's arena. */
struct sp_cluster_parts {
    uint32_t group_count, level_count; /* level_count 0: the default level */
    struct sp_device_group_spec *groups;
    struct sp_mesh_level *levels;
    double memory_limit_bytes, efficiency, launch_seconds;
    struct sp_cluster_host *host; /* or NULL */
    const bool *excluded;         /* per number; NULL: none is */
    uint32_t link_count, switch_count;
    struct sp_cluster_wire *links;
    struct sp_cluster_switch *switches;
};

static inline bool sp_cluster_is_wired(const struct sp_cluster_parts *parts)
{
    return parts->link_count > 0 || parts->switch_count > 0;
}

/* What an arranged cluster was described by: all groups in the order of the numbers, and the mesh over all of them. */
struct sp_cluster_stated {
    uint32_t group_count, device_count, level_count;
    struct sp_device_group_spec *groups;
    struct sp_mesh_level *levels; /* NULL: links or switches alone */
    uint32_t link_count, switch_count;
    const struct sp_cluster_wire *links;
    const struct sp_cluster_switch *switches;
};

/* Where devices are in levels that were found: by number, and in which order those of one part follow one another. */
struct sp_cluster_layout {
    uint32_t (*at)[SP_MAX_MESH_AXES];
    const uint32_t *rank;
};

/* Whether devices have to be arranged: some are left out, or groups alike stand apart where all links are the same. */
bool sp_cluster_is_irregular(const struct sp_cluster_parts *parts);

/* Arranges the devices of `cluster`, whose levels are those of all that are numbered: makes number, place, groups,
   group_of, and levels as large as what is used. `layout` is NULL where devices are numbered along the levels. */
enum sp_status sp_cluster_arrange(struct sp_arena *arena, const struct sp_cluster_parts *parts,
                                  const struct sp_cluster_layout *layout, struct sp_cluster *cluster,
                                  struct sp_error *err);

/*
 * Finds levels along links and switches, and along a mesh that is stated beside them. Devices that the widest links
 * join are the parts of the innermost level, and so on outwards; a link or a switch that several devices share counts
 * with the share that each has when all send at once. What a level's links bring is what an all-gather over its parts
 * reaches (gather.h). SP_ERR_REQUEST "CLUSTER_LINK" where devices are not joined.
 */
enum sp_status sp_cluster_find_levels(struct sp_arena *arena, const struct sp_cluster_parts *parts,
                                      struct sp_cluster *cluster, struct sp_cluster_layout *ret_layout,
                                      struct sp_error *err);

/* Reads "links" and "switches" of a cluster of `parts`. */
enum sp_status sp_cluster_parse_wires(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                      struct sp_cluster_parts *parts);

/* Reads "host" of a group or a cluster; *ret_host stays as it is where there is none. */
enum sp_status sp_cluster_parse_host(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                     struct sp_cluster_host **ret_host);

/* Says of the hosts of `parts`, groups and levels being known, which devices are beside one. */
void sp_cluster_settle_hosts(struct sp_cluster_parts *parts);

/* The host that is described for a device, or NULL: its group's, else the cluster's. */
static inline const struct sp_cluster_host *sp_cluster_described_host(const struct sp_cluster *cluster, uint32_t device)
{
    const struct sp_cluster_host *own = cluster->groups[cluster->group_of[device]].host;
    return own != NULL ? own : cluster->host;
}

/* Makes host_of and host_count of devices that are numbered; false without memory. */
bool sp_cluster_place_hosts(struct sp_arena *arena, struct sp_cluster *cluster);

/* The member "host"; none for NULL. */
void sp_cluster_write_host(const struct sp_cluster_host *host, struct sp_json *json);

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
