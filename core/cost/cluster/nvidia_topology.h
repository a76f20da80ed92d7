#pragma once
/*
 * nvidia_topology - a cluster's description out of what `nvidia-smi topo -m` prints.
 *
 * The text is taken as people post it: tabs or blanks, indented or quoted, ANSI escapes, network cards (NIC0, mlx5_0)
 * in the matrix or not, with or without affinities and legend, other matrices behind it. What it says of two GPUs becomes
 *
 *   NV#        links, # of them, or ports of one NVSwitch where a GPU would have more than there are on any
 *   PIX, PXB   a PCIe switch, whose members reach each other at the width of their ports
 *   PHB, NODE  the same of what is on one NUMA node, switches being members
 *   SYS        the same of all nodes
 *
 * The text does not name GPUs: their type is the caller's. Bandwidths are that type's: of an NVLink the share of its
 * link_bandwidth that one of its links has, of PCIe its host_bandwidth. A GPU without link_bandwidth has bridges of
 * GeForce and RTX cards, 14.0625 GB/s a link (NVIDIA RTX 3090 specification: 112.5 GB/s both ways over four).
 */
#include "base/arena.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "cost/cluster/device.h"

/* SP_ERR_REQUEST "TOPOLOGY_UNREADABLE": the message says which line is wrong, or what is missing. */
enum sp_status sp_cluster_from_topology(struct sp_arena *arena, const char *text, size_t size,
                                        const struct sp_device *device, struct sp_json *json, struct sp_error *err);
