#pragma once
/*
 * limits - every named limit of the library, in one place.
 *
 * Nothing that is read from an input is allowed to size a buffer, a table, a loop or a recursion without one of these.
 * Hitting one is an error of status SP_ERR_LIMIT that carries the limit's name (see base/error.h). Units are in the
 * names or the comments.
 */
#include <stddef.h>
#include <stdint.h>

/* Protobuf records, checked on the wire before anything is unpacked (sources: protobuf's own 2 GiB bound and its
   canonical depth of 100; the ONNX checker allows 10,000 functions and a call depth of 100). */
#define SP_MAX_NESTING         64         /* messages inside messages, and graphs inside graphs, below ModelProto */
#define SP_MAX_RECORD_BYTES    (1u << 20) /* one small record handed to protobuf-c (a value info, an opset, a spec) */
#define SP_MAX_NAME_BYTES      4096       /* one name, operator type, domain or dimension parameter */
#define SP_MAX_NODES           2000000    /* nodes of a model, subgraphs and function bodies included */
#define SP_MAX_VALUES          8000000    /* distinct values of one model */
#define SP_MAX_NODE_OPERANDS   65536      /* inputs or outputs of one node */
#define SP_MAX_NODE_ATTRIBUTES 1024       /* attributes of one node */
#define SP_MAX_ATTRIBUTE_ITEMS 1048576    /* items of one repeated attribute */
#define SP_MAX_TENSORS         4000000    /* initializers and tensor attributes of one model */
#define SP_MAX_METADATA        65536      /* metadata entries, opset imports, configurations of one model */
#define SP_MAX_FUNCTIONS       10000      /* model-local functions */
#define SP_MAX_CALL_DEPTH      100        /* functions calling functions */
#define SP_MAX_EXPANDED_NODES  2000000    /* nodes after every function call is expanded */
/* Functions that call each other can stand for more nodes than any file holds: beyond the first so many, expansion may
   not multiply the nodes of the file by more than the factor. */
#define SP_FREE_EXPANDED_NODES  50000
#define SP_MAX_EXPANSION_FACTOR 64
#define SP_MAX_RANK             64        /* axes of one tensor */
#define SP_MAX_TENSOR_BYTES     INT64_MAX /* of one tensor, and its elements; they need not be in the file */
#define SP_MAX_EMPTY_RECORDS    65536     /* messages of zero bytes in one file: no exporter writes them */
#define SP_MAX_UNKNOWN_FIELDS   1048576   /* fields that the schema does not know, in one file */

/* Descriptions of models in JSON. A text of the most bytes needs 6 times as many while it is turned into a file, and
   the file itself at most 4 times as many. */
#define SP_MAX_JSON_BYTES   (1 << 28)                /* of one text */
#define SP_MAX_JSON_NESTING (2 * SP_MAX_NESTING + 8) /* arrays and objects in each other: two for each message */
#define SP_MAX_JSON_NUMBER  512                      /* characters of one number */
#define SP_MAX_COST_EDGES   8000000                  /* edges of one graph of costs */

/* Measured times of one request: they stand in the plan, since it is made again from what stands there. */
#define SP_MAX_PROFILE_NAMES      65536     /* nodes and devices with a time */
#define SP_MAX_PROFILE_NAME_BYTES (4 << 20) /* of their names in all */

/* Constraints of one request: pins, specs, what is forbidden, and the patterns of nodes' names in them; and names of nodes,
   which are looked up. */
#define SP_MAX_CONSTRAINTS      1024
#define SP_MAX_CONSTRAINT_NAMES (1 << 20)

/* Values of shape tensors carried through the graph, elements per value. */
#define SP_MAX_DATA_ELEMENTS 4096
/* And those of one model together: beyond it only values of a few elements are known, as sizes and axes are. */
#define SP_MAX_MODEL_DATA    (1 << 20)
#define SP_FEW_DATA_ELEMENTS 16

/* Nodes that shape inference looks at, again in each pass over a loop's body: so many, and so many times the nodes of
   the model. Loops in loops multiply; beyond it they are told less of, and passed over once. */
#define SP_FREE_LOOP_VISITS  32768
#define SP_LOOP_VISIT_FACTOR 2

/* Symbolic dimensions. */
#define SP_MAX_DIM_TIES   4096    /* pairs of dimensions that inference meets as one; more are not kept */
#define SP_MAX_EXPR_TERMS 64      /* terms of one symbolic expression; beyond it the dimension is unknown */
#define SP_MAX_EXPRS      4000000 /* distinct expressions of one model */

/* Planning. */
#define SP_MAX_CHOICE_NODES     4000000 /* nodes of one choice of strategies */
#define SP_MAX_CHOICE_EDGES     16000000
#define SP_MAX_CHOICE_STATES    65536 /* strategies of one of its nodes */
#define SP_MAX_DEVICES          65536 /* devices of one cluster */
#define SP_MAX_MESH_AXES        16    /* link levels of one cluster */
#define SP_MAX_WIRED_DEVICES    128   /* devices of a cluster whose links are stated one by one */
#define SP_MAX_WIRES            8192  /* such links */
#define SP_MAX_SWITCHES         256   /* and what several devices share */
#define SP_MAX_DEVICE_GROUPS    256   /* device groups of one cluster: each kind of device has its own time per node */
#define SP_MAX_DEVICE_UNITS     1000000 /* streaming multiprocessors of a device, devices that one scale-up link joins */
#define SP_MAX_DEVICE_SOURCES   128     /* texts about where the figures of one device come from */
#define SP_MAX_DEVICE_LIBRARIES 8       /* libraries of collectives that one device has figures for */
#define SP_MAX_VARIANTS         64      /* clusters of one sweep, each of which is planned */
#define SP_MAX_WHAT_IF_KINDS    16      /* kinds of devices that one more and one fewer are looked at for */

/* Graphs that are cut into stages. */
#define SP_MAX_STAGE_OPTIONS 4096      /* ways in which a stage may run */
#define SP_MAX_STAGE_CLASSES 16        /* classes of devices */
#define SP_MAX_STAGE_EDGES   (1 << 26) /* uses of tensors by nodes, and of weights */

/* Shardings. */
#define SP_MAX_SHARDING_BYTES     (1u << 20) /* text or bytes of one sharding or mesh */
#define SP_MAX_SHARDING_AXES      256        /* axes of one mesh, dims of one tile assignment, refs of one list */
#define SP_MAX_LISTED_DEVICES     (1 << 20)  /* devices that are written out one by one */
#define SP_MAX_TUPLE_SHARDINGS    65536      /* elements of one tuple */
#define SP_MAX_SHARDING_METADATA  1024       /* metadata entries of one sharding */
#define SP_MAX_SHARDING_MESHES    256        /* meshes defined before one sharding */
#define SP_MAX_COMPOSE_STEPS      (1 << 26)  /* devices looked at when device sets are intersected */
#define SP_MAX_HELD_RANGES        (1 << 20)  /* ranges of what one device holds */
#define SP_MAX_EXCHANGE_CELLS     (1 << 16)  /* pieces that one device's piece is put together of */
#define SP_RESHARD_MAX_TRANSFERS  (1 << 18)  /* pieces of one send-receive step that are listed */
#define SP_RESHARD_MAX_PAIRS      ((int64_t)1 << 28) /* pieces and devices that one send-receive step compares */
#define SP_RESHARD_STEP_PAIRS     64                 /* pairs that take as long as a step of a search */
#define SP_RESHARD_DIRECT_DEVICES 1024               /* devices up to which a send-receive competes with collectives */
#define SP_RESHARD_MAX_STATES     60000              /* layouts that one search for collectives remembers */
#define SP_RESHARD_MAX_WORK       2000000            /* steps that one such search looks at */
#define SP_RESHARD_MAX_STEPS      64                 /* of one sequence */
#define SP_RESHARD_MAX_ORDERS     16                 /* orders of prime factors of mesh axes that are tried */

/* Completing and checking shardings. */
/* Of verification: numbers of one tensor, items of the original that others are recognised by, failures told. */
#define SP_MAX_EVALUATED_NUMBERS  (1 << 26)
#define SP_MAX_RECOGNISED_NUMBERS (1 << 26)
#define SP_MAX_EVALUATED_PRODUCTS (INT64_C(1) << 32) /* of one operator */
#define SP_MAX_VERIFY_FAILURES    20
#define SP_VERIFY_WINDOW_BYTES    4096          /* of a weight in another file, around an element that is looked at */
#define SP_VERIFY_BUFFER_BYTES    (256u * 1024) /* of a weight, of each side, when all of it is compared */

#define SP_MAX_STOPS         4096      /* places where propagation stopped that are told */
#define SP_MAX_SET_SPECS     4096      /* specs that one request sets, patterns counted by what they match */
#define SP_MAX_SPEC_PLACES   1024      /* different lists of devices that the specs of one model name */
#define SP_MAX_RESOLVED_WAYS 64        /* ways to cut the factors of one node that are compared */
#define SP_MAX_VIEW_POINTS   (1 << 22) /* devices that the operands of one node name, which are compared */
/* And of one model together, where the nodes differ: so many, and so many for each byte of the file. */
#define SP_FREE_VIEW_POINTS     (1 << 22)
#define SP_VIEW_POINTS_PER_BYTE 8
#define SP_STATED_POINTS        4 /* of them, what a device takes of a spec that propagation starts from */
/* Devices that the different specs of one model list together, beyond one for each byte of the file. */
#define SP_FREE_KEPT_DEVICES  (1 << 22)
#define SP_FREE_GROUP_DEVICES (1 << 21) /* that groups add to the specs of one model, beyond one for each byte */
/* Nodes that the check of meaning passes over for all configurations: so many, and one for so many bytes. */
#define SP_FREE_CONFIGURED_NODES (1 << 18)
#define SP_CONFIGURED_NODE_BYTES 8
#define SP_MAX_KEPT_VIEW_BYTES   (1 << 25) /* of nodes' views that are remembered */
/* Factors, operands and axes of the different rules that propagation keeps: so many, and one for so many bytes of the
   file. The largest of the published models that were looked at needs 12135 for 1.3 MB. */
#define SP_FREE_RULE_UNITS (1 << 17)
#define SP_RULE_UNIT_BYTES 8
#define SP_FREE_TOLD_WORK  (1 << 20) /* devices at operands that a partition goes through to tell communications, */
#define SP_TOLD_PAIRS      1024      /* and one more for so many pairs of a node's devices */
/* Pairs of devices compared for all reshards of one model: so many, and so many for each byte of the file. */
#define SP_FREE_WAYS_WORK     (1 << 24)
#define SP_WAYS_WORK_PER_BYTE 16
#define SP_WAY_WORK           1024 /* of it, what any reshard takes */
#define SP_WAY_STEP_WORK      64   /* and what a step takes that a search looks at */
#define SP_MAX_VIEW_CONFLICTS 64   /* contradictions of one node that are told */

/* Answers to requests about shardings. */
#define SP_MAX_ANSWER_BYTES    (64u << 20)         /* one text of an answer */
#define SP_MAX_ANSWER_DEVICES  (1 << 25)           /* devices that the completed shardings of one answer list */
#define SP_MAX_WRITTEN_DEVICES (1 << 26)           /* devices that the specs of one completed model list */
#define SP_MAX_HOLDING_DEVICES (1 << 16)           /* devices whose pieces are listed */
#define SP_MAX_EXPORT_BYTES    ((uint64_t)1 << 32) /* one export that is no model */
#define SP_MAX_ORT_RANKS       1024                /* devices of a model of Distributed operators */
#define SP_MAX_EXPORT_MESHES   4096 /* different meshes, and groups of nodes on the same devices, of one export */

/* Files of other tools that say where nodes run. */
#define SP_MAX_PLACEMENT_BYTES (64 << 20)
#define SP_MAX_IMPORT_PLACES   4096      /* partitions, stages, devices with nodes */
#define SP_MAX_IMPORT_NAMES    (1 << 20) /* tensors of one list */
#define SP_MAX_IMPORT_RULES    (1 << 20) /* of a session option that places nodes */
#define SP_MAX_IMPORT_STEPS    (1 << 26) /* rules that are held against nodes' names, one by one */
#define SP_MAX_YAML_DEPTH      16        /* lists and maps inside each other */
#define SP_MAX_YAML_NODES      (1 << 23) /* items of a document */

/* Files that are made when they are read. */
#define SP_MAX_RECIPE_SEGMENTS (1 << 22)           /* segments of one recipe; axes and ranges of its boxes alike */
#define SP_RECIPE_BUFFER       ((size_t)1 << 20)   /* bytes read and written at a time */
#define SP_MAX_RECIPE_SOURCES  65536               /* external files that one recipe reads */
#define SP_MAX_REPACKED_BYTES  ((int64_t)64 << 20) /* of a weight whose storage cannot be cut where it lies */

#define SP_MAX_SHEET_ENTRIES (UINT32_MAX - 1) /* of one table of a plan's index, and bytes of its texts */

#define SP_MAX_DEVICE_PARTS 65536 /* models of one device that are cut at exchanges */

/* A constant that a device's program needs and the model does not have: bytes. Indices of a longer axis are counted by
   an operator. */
#define SP_MAX_LOCAL_CONSTANT (1u << 20)

/* The simulator of data is for small tensors. */
#define SP_MAX_SIMULATED_VALUES (1 << 24) /* numbers on one virtual device, and of one tensor */

/* Memory of checking a model and of completing its shardings: so much for any, so many bytes for each byte of the file,
   and for each device that is asked for. Real models take about ten bytes for each; a description of a few bytes can
   ask for far more. */
#define SP_FREE_JOB_BYTES   ((size_t)48 << 20)
#define SP_JOB_FILE_FACTOR  ((size_t)32)
#define SP_JOB_DEVICE_BYTES ((size_t)2048)

/* Memory of one job: the graph, its shapes and the search. The file itself is mapped and not counted. */
#define SP_DEFAULT_JOB_BYTES ((size_t)4 << 30)
