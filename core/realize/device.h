#pragma once
/*
 * device - what the files that write devices' models share; private to core/realize.
 *
 * The partition is gone through once to find worlds, once for the plan of all devices, and once for each device that is
 * written. The latter two follow the same pieces in the same way (device_walk.c): where they are made, in which part,
 * and what has to be brought there. So what the plan says and what is written agree.
 */
#include "graph/states.h"
#include "realize/program.h"

enum sp_port_kind { SP_PORT_MODEL, SP_PORT_DEVICE, SP_PORT_NOBODY };

/* An input or output of a part. */
struct sp_device_port {
    enum sp_port_kind kind;
    const char *key;   /* unique among the inputs or outputs of the part, the same for who gives and who gets */
    const char *name;  /* in the model */
    const char *piece; /* whose name it is a part of; NULL for model inputs and what a gathering leaves */
    bool is_whole;     /* all of the piece; else the box */
    uint32_t rank;
    const struct sp_range *box; /* of the piece's own indices */
    enum sp_dtype dtype;        /* UNDEFINED: no tensor, its type is the value's */
    const int64_t *dims;        /* NULL: not known; entries -1 */
    const struct sp_value *value;
    struct sp_box tensor; /* MODEL: which box of the model's input or output */
    int64_t device;       /* DEVICE, of an input: who gives it, in which part */
    uint32_t part;
};

/* Whether the port has the type of its value, of which not even the number of axes may be known. */
bool sp_device_port_is_as_value(const struct sp_device_port *port);

struct sp_port_list {
    uint32_t count, capacity;
    struct sp_device_port **items;
};

struct sp_device_part {
    struct sp_port_list inputs, outputs;
    struct sp_device_port first;                /* the first piece that is made in it; `key` NULL: nothing is */
    struct sp_intern *input_keys, *output_keys; /* their ports */
    struct sp_intern *results;                  /* pieces that are all of a model output -> that port */
};

struct sp_device_state {
    uint32_t world, rank;
    bool is_used;
    uint32_t part_count, part_capacity;
    struct sp_device_part **parts;
};

struct sp_world {
    uint32_t size;
    const int64_t *devices; /* ascending */
    uint32_t part_count, part_capacity;
    uint64_t *times; /* of each part: when it last got something */
};

/* What the notes of the manifest say beside their message. */
struct sp_device_note {
    const char *code, *node; /* node: its name, or NULL */
};

struct sp_device_plan {
    struct sp_arena *arena;
    struct sp_intern *notes; /* their messages, each with a sp_device_note as its mark */
    enum sp_realize_target target;
    const char *phase; /* of the request */
    struct sp_realize_forms forms;
    int64_t device_count;
    struct sp_device_state *devices;
    uint32_t world_count;
    struct sp_world *worlds;
    bool has_collectives;                      /* some model has one */
    bool has_alltoall, has_bfloat16, has_wide; /* of all ranks' blocks; of that type; of one that is not cast */
    const struct sp_model *model;
    struct sp_states states;
    const char *fingerprint; /* 32 hex digits; NULL until all is known */
};

/* ---- device_walk.c --------------------------------------------------------------------------------------------------
 */

/* An operator whose operands are there in any part of its device. */
struct sp_device_derived {
    uint64_t number; /* in the order in which they were told */
    uint32_t last;   /* 1 + the last part that it was written in */
    struct sp_part_op op;
};

/* A piece while the partition is gone through. */
struct sp_device_piece {
    const struct sp_piece *piece;
    bool is_source, is_constant; /* it is there in any part */
    uint32_t part;               /* where it was made */
    uint32_t last;               /* 1 + the last part that it was brought to */
    struct sp_part_source source;
    struct sp_part_constant constant;
    struct sp_device_derived *derived; /* made of weights and constants alone: there in any part, too; or NULL */
};

struct sp_device_walk {
    struct sp_device_plan *plan;
    const struct sp_realize_request *request;
    struct sp_arena *arena, *scratch;
    struct sp_intern *pieces; /* piece -> struct sp_device_piece */
    uint32_t *parts;          /* of each world, the part at work */
    bool *has_given;          /* whether that part has given something away */
    uint64_t time;            /* exchanges so far */
    uint64_t derived;         /* operators on weights alone so far */
    /* While a device is written; else NULL. */
    int64_t device;
    struct sp_program *program; /* of its part at work */
    struct sp_recipe **recipes; /* of its parts that are done */
    struct sp_intern *named;    /* its pieces by name */
};

/* Keeps a note for the manifest, and passes it on; only the plan's walk does. */
enum sp_status sp_device_tell(struct sp_device_walk *walk, const struct sp_part_note *note, struct sp_error *err);
enum sp_status sp_device_walk_run(struct sp_device_walk *walk, struct sp_error *err);
/* What is partitioned, with results as the plan's forms want them. */
struct sp_partition_request sp_device_partition(const struct sp_device_plan *plan,
                                                const struct sp_realize_request *request);

static inline bool sp_device_walk_writes(const struct sp_device_walk *walk, int64_t device)
{
    return walk->program != NULL && walk->device == device;
}
static inline uint32_t sp_device_walk_part(const struct sp_device_walk *walk, int64_t device)
{
    return walk->parts[walk->plan->devices[device].world];
}

/* The part at work of the device that is written is over: its model is made, and the next one begins. */
enum sp_status sp_device_end_part(struct sp_device_walk *walk, struct sp_error *err);

/* Whether a piece is there in any part of its device that needs it. A model's input is that, but no operand of what is
   derived. */
static inline bool sp_device_is_anywhere(const struct sp_device_piece *known)
{
    return known->is_constant || known->derived != NULL || (known->is_source && known->source.is_weight);
}
/* Writes the operator into the part at work; its operands are there. */
enum sp_status sp_device_put_op(struct sp_device_walk *walk, const struct sp_part_op *op, struct sp_error *err);

/* ---- device_derived.c: operators on weights and constants alone, written where they are needed ---- */

bool sp_device_is_derived(struct sp_device_walk *walk, const struct sp_part_op *op);
enum sp_status sp_device_derive(struct sp_device_walk *walk, const struct sp_part_op *op, struct sp_error *err);
/* The operators that have to be written for one: the last one first. What an operator needs was told before it, so it
   stands behind it here. */
struct sp_device_wanted {
    uint32_t count, capacity;
    struct sp_device_derived **items;
};
enum sp_status sp_device_want(struct sp_device_walk *walk, struct sp_device_derived *last,
                              struct sp_device_wanted *wanted, struct sp_error *err);

/* The piece is needed on its device, in the part at work. */
enum sp_status sp_device_bring(struct sp_device_walk *walk, const struct sp_piece *piece, struct sp_error *err);
struct sp_device_piece *sp_device_lookup(struct sp_device_walk *walk, const struct sp_piece *piece);

/* A piece that is there from now on; NULL without memory. */
struct sp_device_piece *sp_device_add(struct sp_device_walk *walk, const struct sp_piece *piece);

/* A piece that the part at work makes. */
enum sp_status sp_device_make(struct sp_device_walk *walk, const struct sp_piece *piece, const struct sp_value *value,
                              struct sp_error *err);

/* ---- device_exchange.c ----------------------------------------------------------------------------------------------
 */

enum sp_status sp_device_exchange(struct sp_device_walk *walk, const struct sp_exchange *exchange,
                                  struct sp_error *err);

/* ---- device_form.c and device_collective.c: one exchange in one world
 * ------------------------------------------------------------------ */

enum sp_device_form {
    SP_FORM_NONE,           /* its devices exchange nothing among each other */
    SP_FORM_ALL_REDUCE,     /* one node */
    SP_FORM_REDUCE_SCATTER, /* one node, or an all-reduce and a slice */
    SP_FORM_ALL_GATHER,
    SP_FORM_ALL_TO_ALL,
    SP_FORM_GATHER_ALL, /* everybody gets all pieces, padded to the largest, and does the rest alone */
    SP_FORM_PORTS       /* no collective: the world's models are cut there, as where it gets something from another */
};

/* The type in which a collective of the target moves this one; UNDEFINED: none. */
enum sp_dtype sp_device_wire_type(enum sp_realize_target target, enum sp_dtype dtype);
/* The same in the plan's forms: the type that is written. */
enum sp_dtype sp_device_carried_type(const struct sp_device_plan *plan, enum sp_dtype dtype);

/* The extents of what a member holds, `rank` of the exchange; false where one is not known. */
bool sp_device_held_dims(const struct sp_exchange *exchange, uint32_t member, int64_t *dims);

/* How the target says what the exchange is in this world, whose devices exchange among each other. */
enum sp_device_form sp_device_form_of(const struct sp_device_plan *plan, const struct sp_exchange *exchange,
                                      uint32_t world);
/* Whether its devices would exchange by a collective, and whether the target has one: then each group is in a world. */
bool sp_device_is_collective(enum sp_realize_target target, const struct sp_exchange *exchange);
bool sp_device_makes_world(const struct sp_device_plan *plan, const struct sp_exchange *exchange);
/* Remembers what the collective needs of a runtime's version. */
void sp_device_look_at_form(struct sp_device_plan *plan, const struct sp_exchange *exchange, enum sp_device_form form);
/* Notes of what all collectives of the plan need. */
enum sp_status sp_device_tell_needs(struct sp_device_walk *walk, struct sp_error *err);
/* Notes that the form is GATHER_ALL, or PORTS and why. */
enum sp_status sp_device_tell_form(struct sp_device_walk *walk, const struct sp_exchange *exchange,
                                   enum sp_device_form form, struct sp_error *err);

/* Writes a direct form for a member; its piece after has its name then. */
enum sp_status sp_device_put_collective(struct sp_device_walk *walk, const struct sp_exchange *exchange,
                                        enum sp_device_form form, uint32_t member, struct sp_error *err);
/* Writes GATHER_ALL on the device at work. ret_names: for each wanted member of its world the name of its piece before.
   With `kept` a little of the result gets this name, so that somebody needs it. */
enum sp_status sp_device_put_gather(struct sp_device_walk *walk, const struct sp_exchange *exchange, const bool *wanted,
                                    const char *kept, const char **ret_names, struct sp_error *err);

/* ---- device_ports.c -------------------------------------------------------------------------------------------------
 */

/* The part of a device, made when it is new. NULL without memory. */
struct sp_device_part *sp_device_part(struct sp_device_plan *plan, int64_t device, uint32_t part);

/* "NAME[0:4,2:8]", or the name alone. */
const char *sp_device_key(struct sp_arena *arena, const char *name, uint32_t rank, const struct sp_range *box);

/* Makes what the port points to last as long as the arena; false without memory. */
bool sp_device_copy_port(struct sp_arena *arena, struct sp_device_port *port);

/* Adds a copy of the port unless one of its key is there. SP_ERR_MEMORY. */
enum sp_status sp_device_add_port(struct sp_device_plan *plan, int64_t device, uint32_t part, bool is_output,
                                  const struct sp_device_port *port, struct sp_error *err);
/* ---- device_manifest.c ----------------------------------------------------------------------------------------------
 */

/* The fingerprint of a plan that is complete. SP_ERR_MEMORY. */
enum sp_status sp_device_plan_identify(struct sp_device_plan *plan, struct sp_error *err);

/* The port of this key, or NULL. */
const struct sp_device_port *sp_device_find_port(const struct sp_device_plan *plan, int64_t device, uint32_t part,
                                                 bool is_output, const char *key);
/* The model output that the piece of this name is all of, or NULL. */
const struct sp_device_port *sp_device_find_result(const struct sp_device_plan *plan, int64_t device, uint32_t part,
                                                   const char *piece);
/* A box that outlives its maker. */
enum sp_status sp_device_copy_box(struct sp_arena *arena, const struct sp_box *box, struct sp_box *ret_box,
                                  struct sp_error *err);
