#pragma once
/*
 * internal - what the parts of shape inference share; private to core/ops/shapes*.c.
 *
 * The walk keeps its own stack. A frame is one graph at work: the main graph, the expanded body of a call, or a
 * subgraph of control flow inside the frame below. When a frame's nodes are done, the part that opened it says what
 * next: leave, run the graph again (a loop whose values still change), or run the other branch.
 *
 *   shapes.c    the interface; types of inputs
 *   frame.c     frames, errors that a tolerant walk reports, types of initializers
 *   walk.c      the stack of frames, one node at a time
 *   call.c      calls of functions
 *   control.c   If, and the inputs and outputs of loops
 *   loop.c      values that loops carry: the body is walked until they change no more
 *   stored.c    the form in which quantised tensors are stored
 */
#include "base/hash_map.h"
#include "ops/bodies/control.h"
#include "ops/shapes/shapes.h"

struct sp_carried;

enum sp_frame_kind { SP_FRAME_MAIN, SP_FRAME_CALL, SP_FRAME_BRANCH, SP_FRAME_LOOP };

struct sp_shape_frame {
    struct sp_shape_frame *below;
    enum sp_frame_kind kind;
    struct sp_graph *graph;
    struct sp_node *node; /* that the graph belongs to; NULL for the main graph */
    uint32_t next;        /* its next node */
    bool is_quiet;        /* the graph never runs: what is wrong in it is not told */
    struct sp_control control;
    uint32_t branch;                 /* BRANCH: which one */
    uint32_t passes;                 /* LOOP: finished ones */
    struct sp_carried *carried;      /* LOOP: one for each state */
    const struct sp_data *condition; /* LOOP: that a turn starts with, where it is known */
    uint32_t symbols_before;         /* symbols from there on were made inside */
};

/* What a kind of node is, found by the addresses of its names: those are interned. */
struct sp_known_op {
    const char *op_type, *domain;
    const struct sp_opset *opsets;
    const struct sp_op *op;
    int64_t version;
};
#define SP_KNOWN_OPS 256

struct sp_shape_walk {
    struct sp_model *model;
    const struct sp_shape_options *options;
    struct sp_error *err;
    struct sp_shape_summary summary;
    uint64_t visited;     /* nodes looked at, again in each pass */
    uint64_t expanded;    /* nodes of expanded bodies */
    uint64_t free_visits; /* beyond so many, loops give up: nested ones multiply */
    uint32_t calls;       /* open ones */
    uint32_t quiet;       /* open quiet frames */
    struct sp_shape_frame *top, *unused;
    struct sp_hash_map told;  /* nodes by address: passes of a loop meet a node again, and it is told of once */
    struct sp_hash_map kinds; /* operators by address of the name: how many nodes were met */
    struct sp_known_op known[SP_KNOWN_OPS]; /* the last one of each place */
};

/* frame.c */
struct sp_op_context sp_shape_context(const struct sp_shape_walk *walk, struct sp_node *node);
/* A frame on top, for this graph of the node; NULL without memory. */
struct sp_shape_frame *sp_shape_push(struct sp_shape_walk *walk, enum sp_frame_kind kind, struct sp_graph *graph,
                                     struct sp_node *node);
/* Sets the node's entry and version. */
void sp_shape_find_op(struct sp_shape_walk *walk, struct sp_node *node);
void sp_shape_set_constant(struct sp_node *node, bool is_constant);
/* Whether all results of a node are known in numbers. */
bool sp_shape_has_known_results(const struct sp_node *node);

/* Handles an error that concerns one node (or, NULL, a value of no node): it ends a strict walk; a tolerant one reports
   it once and goes on with SP_OK. Other errors are returned as they are. */
enum sp_status sp_shape_forgive(struct sp_shape_walk *walk, const struct sp_node *node, enum sp_status status);
/* Whether this is the first time; without memory everything is. `what` tells kinds of news about one node apart: nodes
   are aligned, so small numbers do not collide. */
bool sp_shape_is_news(struct sp_shape_walk *walk, const struct sp_node *node, unsigned what);
/* Tells what was accepted at this node (or NULL), once for each address of what it is about; `accepted` may be empty. */
enum sp_status sp_shape_accept(struct sp_shape_walk *walk, const struct sp_node *node, const void *about,
                               const struct sp_error *accepted);
/* sp_join_declared() for a value of this node (or NULL), and tells what it accepted. */
enum sp_status sp_shape_join(struct sp_shape_walk *walk, const struct sp_node *node, struct sp_value *value,
                             uint32_t symbols_before);
/* The types of a graph's initializers. */
enum sp_status sp_shape_initializers(struct sp_shape_walk *walk, struct sp_graph *graph);

/* walk.c */
/* Joins the declared types of a node's outputs; symbols from `symbols_before` on were made for them. */
enum sp_status sp_shape_join_outputs(struct sp_shape_walk *walk, struct sp_node *node, uint32_t symbols_before);
/* Takes back what was found about a node's outputs. */
void sp_shape_forget(struct sp_node *node);
enum sp_status sp_shape_walk(struct sp_shape_walk *walk);

/* call.c */
enum sp_status sp_shape_open_call(struct sp_shape_walk *walk, struct sp_node *node, const struct sp_function *function);
enum sp_status sp_shape_close_call(struct sp_shape_walk *walk, const struct sp_shape_frame *frame);

/* control.c: `close` sets *ret_again when the frame has another graph or pass to go. */
enum sp_status sp_shape_open_control(struct sp_shape_walk *walk, struct sp_node *node);
enum sp_status sp_shape_close_branch(struct sp_shape_walk *walk, struct sp_shape_frame *frame, bool *ret_again);
enum sp_status sp_shape_close_loop(struct sp_shape_walk *walk, struct sp_shape_frame *frame, bool *ret_again);

/* stored.c */
/* Sets the form in which the node's output 0 is stored, and of a quantised input; the node's types are known. */
void sp_shape_set_stored(struct sp_shape_walk *walk, struct sp_node *node);
/* One value is another: an argument, a result of a body. */
void sp_shape_copy_stored(struct sp_value *to, const struct sp_value *from);

/* loop.c */
/* The types before the first turn. SP_ERR_MODEL for one that the body declares otherwise. */
enum sp_status sp_carried_begin(struct sp_shape_walk *walk, struct sp_shape_frame *frame);
/* Gives the body its states. */
enum sp_status sp_carried_enter(struct sp_shape_walk *walk, struct sp_shape_frame *frame);
/* Widens the states by what the body returned; whether that changed one. Ends after a bounded number of passes, and at
   once where the walk has looked at too many nodes: then nothing is known of states. SP_ERR_MODEL for a state that
   comes back as something else. */
enum sp_status sp_carried_leave(struct sp_shape_walk *walk, struct sp_shape_frame *frame, bool *ret_changed);
/* Sets the node's first outputs. */
enum sp_status sp_carried_finish(struct sp_shape_walk *walk, struct sp_shape_frame *frame, struct sp_dim trips);
