#pragma once
/*
 * routes - which node holds which layers, where requests may flow through any of several holders of a layer.
 *
 * The problem knows nothing of ONNX. A chain of *layers* is computed in order. Each *node* may hold one *interval* of
 * consecutive layers and then computes that many requests a second; intervals of several nodes may overlap. Directed
 * *links* carry so many requests a second:
 *
 *   source -> i   where i's interval begins with the first layer
 *   i -> j        where j's interval begins behind the last layer of i's; with `is_partial` j may also have begun
 *                 earlier, as long as it ends later: it then computes only what i has not
 *   i -> sink     where i's interval ends with the last layer
 *
 * The value of a choice of intervals is the largest flow from the source to the sink, within what nodes and links can
 * do: the requests a second that the whole cluster serves. Wanted is the choice of the largest value.
 *
 *           layers 0    1    2    3    4    5
 *   source --> [ node 0 (12/s) ][ node 2 (20/s)  ] --> sink
 *         \--> [ node 1 (9/s)  ]/
 *
 * Bounds. Each request crosses each layer at one of its holders, so the rates of the holders of a layer add up to the
 * flow F or more. Let w be a weight of rates such that whatever adds up to F weighs 1 or more: then there are no more
 * layers than the nodes' largest weights, summed over their intervals. w(x) = min(x / F, 1) is the layer-throughput
 * bound of Helix, sharpened by what no layer needs; other weights see that a layer needs whole nodes. The bound is the
 * least F that one of them refutes, or what trying all choices of a small problem proves.
 *
 * Sources: Mei et al.: "Helix: Serving Large Language Models over Heterogeneous GPUs and Network via Max-Flow", ASPLOS
 * 2025 (the model); Dinic 1970 (flows); Csirik, Johnson, Kenyon: "Better Approximation Algorithms for Bin Covering",
 * SODA 2001 (weights of covers).
 */
#include "base/arena.h"
#include "base/cancel.h"
#include "base/executor.h"

#define SP_ROUTES_MAX_NODES  256
#define SP_ROUTES_MAX_LAYERS 4096

/* Ends of links that are no nodes. */
#define SP_ROUTES_SOURCE UINT32_MAX
#define SP_ROUTES_SINK   (UINT32_MAX - 1)

struct sp_routes_node {
    uint32_t most; /* layers that it can hold, 1 or more */
    /* Requests a second where it holds `count` layers from `first` on: rates[first * stride + count - 1]; 0: it cannot.
       A stride of 0 says that layers are alike, else it is `most` or more. */
    const double *rates;
    uint32_t stride;
};

struct sp_routes_link {
    uint32_t from, to;      /* distinct pairs; no link from a node to itself */
    double capacity;        /* requests a second */
    const double *by_layer; /* per layer that comes next, 0 .. layer_count: instead of `capacity`; or NULL */
};

struct sp_routes_problem {
    uint32_t layer_count, node_count, link_count;
    const struct sp_routes_node *nodes;
    const struct sp_routes_link *links;
    bool is_partial;
};

struct sp_routes_options {
    uint64_t seed;
    uint64_t rounds; /* of the search, each of a fixed number of steps; 0: SP_ROUTES_ROUNDS. Ends earlier when proved */
    bool is_first;   /* a first answer is enough: what the beginning of looking through all choices finds, no rounds */
    double least; /* requests a second; a choice that does no more is of no use, and none may be found then. 0: any */
    const struct sp_executor *executor;
    const struct sp_watch *watch; /* false ends with the best so far */
    const volatile bool *stop;    /* the same, seen by all tasks; may be NULL */
};
#define SP_ROUTES_ROUNDS 6

/* What a node holds; no layer (count 0) where it is not needed. */
struct sp_routes_interval {
    uint32_t first, count;
};

/* Requests a second over one link, by its number, more than 0. */
struct sp_routes_use {
    uint32_t link;
    double rate;
};

struct sp_routes_result {
    double value, bound; /* requests a second; value 0 where no choice reaches the sink, or does more than `least` */
    bool is_optimal;     /* value == bound up to rounding */
    bool is_stopped;
    const struct sp_routes_interval *intervals; /* per node */
    uint32_t use_count;
    const struct sp_routes_use *uses; /* a flow of that value, without circles, by link */
    uint64_t work;                    /* flows that were computed */
};

/* Searches; the result in `arena`. Errors: SP_ERR_MEMORY, SP_ERR_REQUEST for a problem that is not well formed. Equal
   problems, seeds and rounds give equal results for any executor, where nothing stopped them. */
enum sp_status sp_routes_solve(struct sp_arena *arena, const struct sp_routes_problem *problem,
                               const struct sp_routes_options *options, struct sp_routes_result **ret_result,
                               struct sp_error *err);
