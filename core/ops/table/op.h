#pragma once
/*
 * op - the operator table: one entry per operator, one rule each.
 *
 * A rule is written once and read by every other part. An entry has
 *
 *   shapes   from input types and known values to output types and known values (ops/shapes/shapes.h drives it);
 *   text     the operator's *factors*: the loop indices of its computation, and which axes of which operands they are;
 *   rule     a function in place of the text, where attributes decide what the factors are;
 *   lower    what one device runs on its shards (ops/lowering/lowering.h), where that is not the operator itself.
 *
 *     MatMul      [b.., m, k] [b.., k, n] -> [b.., m, n]      k is a reduction factor (sum)
 *
 * Costs, checks, completed shardings, strategies, collectives and the shapes of shards follow from the factors. No
 * other part knows operators by name.
 *
 * Glossary
 *   factor    one loop index: kind, extent, and where it matters a block of which it may only be split in multiples
 *   operand   an input or an output; its axes map to ordered lists of factors, major to minor; an axis without a factor
 *             (a broadcast axis of size 1) is replicated
 *   free      a parallel factor of inputs alone (Shape) or of outputs alone (a new axis of Expand): the other side does
 *             not depend on how it is split
 *   term      a part of the work: `coefficient` FLOPs at every point of the product of its factors
 *
 * To add an operator, add an entry to the array of its family (ops/table/families.h); table.c lists the families.
 *
 * Convention: 1 multiply-add is 2 FLOPs, as in data sheets. Elementwise operators count 1 per output element, cheap
 * transcendental ones too; each family states the convention of its coefficients.
 */
#include "base/error.h"
#include "graph/model.h"

/* ---- the context of these functions -------------------------------------------------------------------------- */

struct sp_lowering;
struct sp_op_like;
struct sp_operand_use;
struct sp_rule_attention;
struct sp_rule_text;

struct sp_op_context {
    struct sp_model *model;
    struct sp_arena *arena; /* the model's: results stay */
    struct sp_dims *dims;
    struct sp_node *node;
    int64_t version; /* opset version of the operator's domain in force */
    struct sp_error *err;
    struct sp_error *accepted; /* for sp_op_accept(); NULL where nobody is told */
};

/* ---- factors -------------------------------------------------------------------------------------------------- */

enum sp_factor_kind {
    SP_FACTOR_PARALLEL = 0, /* free to split */
    SP_FACTOR_REDUCTION,    /* splitting leaves partial results that the combiner joins */
    SP_FACTOR_REPLICATE,    /* needs the whole extent on every device */
    SP_FACTOR_HALO,         /* splittable with an exchange of `halo` elements at the borders */
    SP_FACTOR_PERMUTATION,  /* splittable, but elements move to other positions (gather, flip) */
    SP_FACTOR_SEQUENTIAL    /* a recurrence: step t needs step t-1 */
};

enum sp_combiner {
    SP_COMBINE_NONE = 0,
    SP_COMBINE_SUM,
    SP_COMBINE_MAX,
    SP_COMBINE_MIN,
    SP_COMBINE_PROD,
    SP_COMBINE_SOFTMAX, /* running maximum and rescaled sums (online softmax) */
    SP_COMBINE_MOMENTS, /* mean and variance from sums and sums of squares */
    SP_COMBINE_SELECT   /* winners with their indices (ArgMax, TopK) */
};

#define SP_RULE_MAX_FACTORS 96
#define SP_RULE_MAX_TERMS   8
#define SP_FACTOR_NAME_SIZE 12
#define SP_RULE_NO_FACTOR   255 /* no index of a factor */

struct sp_factor {
    char name[SP_FACTOR_NAME_SIZE];
    enum sp_factor_kind kind;
    enum sp_combiner combiner; /* of REDUCTION */
    struct sp_dim extent;
    int64_t block;               /* split only in multiples of this many elements; 1 = anywhere */
    int64_t halo_low, halo_high; /* HALO: elements needed from the lower and the higher neighbour */
    bool is_blocked; /* splits are not carried across this factor by propagation: both sides mean different cuts */
    /* PERMUTATION, REPLICATE: the axes that have this factor differ in extent (what a slice leaves, what a pad adds,
       the pieces of a concatenation). Each is cut evenly for itself; `extent` is the one of output 0. */
    bool is_resized;
};

struct sp_axis_factors {
    uint8_t count;    /* 0: the axis is replicated (size 1, or not of the computation) */
    uint8_t *factors; /* indices into the rule's factors, major to minor */
};

struct sp_operand_rule {
    uint32_t rank;
    struct sp_axis_factors *axes;
    /* The elements are positions in the whole tensor: an index along one factor (ArgMax), or a flat index, row-major
       over several (MaxPool's Indices). A device that has a part of these factors counts from the part's start. In an
       input they may be negative where the operator counts those from the back. With `are_tuples` the last axis of the
       operand holds one index along each of the factors instead (GatherND). */
    uint8_t position_count;
    bool are_tuples;
    bool is_unread; /* an input of which only the type counts (CastLike's second): it may be cut in any way */
    uint8_t *positions;
    const struct sp_operand_use *use; /* how much of it is moved (ops/table/traffic.h); NULL: all */
    uint32_t past_of;                 /* an output: 1 + the input that it continues; 0: none */
};

struct sp_term {
    double coefficient; /* FLOPs at each point */
    bool is_seen;       /* of the pairs of a query and a key, only those count that attention computes */
    uint8_t count;
    uint8_t *factors;
};

struct sp_rule {
    struct sp_arena *arena;
    uint32_t factor_count, term_count, input_count, output_count;
    /* Grows while the rule is built: pointers into it are good until the next sp_rule_factor(). */
    struct sp_factor *factors;
    struct sp_term *terms;
    struct sp_operand_rule *inputs, *outputs; /* one per node input/output; rank 0 where omitted */
    /* Bytes read and written, when not simply the sum of what is moved of all operands; -1 = the sum. */
    double bytes;
    const struct sp_rule_attention *attention; /* ops/table/traffic.h; NULL: it computes none */
    const struct sp_rule_kernels *kernels;     /* ops/table/traffic.h; NULL: it is one */
    const struct sp_rule_drawn *drawn;         /* ops/table/traffic.h; NULL: it works at all points of its factors */
    uint32_t faults; /* what went wrong while building; sp_op_rule() reports it, and a rule it returns has none */
};

/* ---- the table ------------------------------------------------------------------------------------------------ */

enum sp_op_flags {
    SP_OP_VIEW = 1 << 0,      /* output 0 is input 0's bytes under another shape: moves nothing, costs nothing */
    SP_OP_METADATA = 1 << 1,  /* looks at the shape of its input only (Shape, Size) */
    SP_OP_CONSTANT = 1 << 2,  /* has no inputs and a fixed result (Constant) */
    SP_OP_RANDOM = 1 << 3,    /* not a function of its inputs: never folded */
    SP_OP_CONTROL = 1 << 4,   /* holds subgraphs whose work is its work (If, Loop, Scan) */
    SP_OP_IN_PLACE = 1 << 5,  /* ONNX Runtime writes output 0 over input 0, where nobody else needs that any more */
    SP_OP_FUNCTION = 1 << 6,  /* computes an exponential, a logarithm, a power, a circular or an error function of each
                               element of output 0: many instructions, whatever its FLOPs are counted as */
    SP_OP_PERMUTES = 1 << 7,  /* changes the order of elements in memory */
    SP_OP_QUANTIZES = 1 << 8, /* output 0 is input 0 rounded to a narrow type, by a scale */
    SP_OP_DEQUANTIZES = 1 << 9,   /* output 0 is input 0, of a narrow type, times a scale */
    SP_OP_READS_TURNED = 1 << 10, /* runtimes read its operands with the last two axes turned, without a copy */
    SP_OP_ATTENDS = 1 << 11       /* attention; inputs 1 and 2, where they are there, are its keys and values */
};

/* Axes that attributes or inputs name. */
struct sp_op_axes {
    uint64_t mask;   /* a bit each */
    bool is_unknown; /* an input names them when the model runs: nothing can be split */
};

struct sp_op {
    const char *domain; /* "" is ai.onnx */
    const char *name;
    int64_t since, last; /* opset versions this entry covers, both included; last 0 = up to the newest */
    uint32_t min_inputs, max_inputs, min_outputs, max_outputs; /* UINT32_MAX: variadic */
    uint32_t flags;                                            /* enum sp_op_flags */
    /* Sets output types and, where inputs' data allow, output data. NULL inputs (omitted) are allowed by arity. */
    enum sp_status (*shapes)(struct sp_op_context *context);
    /* Fills the factors from the inferred shapes, where attributes decide what they are; NULL: the text is the rule. */
    enum sp_status (*rule)(struct sp_op_context *context, struct sp_rule *rule);
    /* The rule, e.g. "[b.., m, k] [b.., k, n] -> [b.., m, n]; k sum", in the notation of ops/table/rule_text.h. It is
       what people read, too. Beside a function it may be freer, but says of every kind of factor that is not simply
       parallel that the operator has it, in these words: sum, max, min, product, softmax, moments or select (a
       reduction's combiner), whole (replicate), halo, moves (permutation), sequential. A conformance test compares the
       text with the rules that were made. */
    const char *text;
    struct sp_rule_text *read; /* the text, read when the table is built where it is the rule */
    /* The text of the form that a node has, in place of `text`, where attributes and ranks choose among several; static
       or in the context's arena. */
    const char *(*form)(struct sp_op_context *context);
    /* Element types of the outputs for sp_shapes_from_text(), separated by blanks, the last one for all that follow: the
       number of an input that has it, "float32", or "=to", an attribute with the number of a type. NULL: input 0's. */
    const char *types;
    /* FLOPs of a rule by text at each point of the product of all its factors, and more of them for each input that is
       there. `work` has the terms instead where points are not all equal: "2*b..*m*n*k + 5*b..*n"; factors that the rule
       does not have count as 1. */
    double flops, flops_each;
    const char *work;
    /* What a rule by text moves and attends to (ops/table/traffic.h), where that is not all operands; or NULL. */
    void (*traffic)(struct sp_op_context *context, struct sp_rule *rule);
    /* The axes of input 0, of this rank, that the text calls j.. (`ret_axes` comes zeroed); NULL: there are none. */
    enum sp_status (*axes)(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes);
    const char *source; /* where the semantics come from: specification section */
    /* The operator that this one is on other operands (ops/table/like.h), or NULL. */
    const struct sp_op_like *like;
    /* Inputs, outputs and attributes, for operators that ONNX's published schemas (ops/table/signature.h) do not have:
       "(X,W,B?) -> (Y,*rest) {alpha:float=1.0,mode!:string}"; NULL where they do. */
    const char *signature;
    /* The node on one device's shards (ops/lowering/lowering.h); NULL: it runs as it is on its pieces. */
    enum sp_status (*lower)(struct sp_lowering *lower);
};

/* Whether an entry is that of an opset version. */
static inline bool sp_op_has_version(const struct sp_op *op, int64_t version)
{
    return version >= op->since && (op->last == 0 || version <= op->last);
}

/* The name under which the table has a domain that has several: "" for "ai.onnx", "ai.onnx.contrib" for
   "com.microsoft.extensions". */
const char *sp_op_domain(const char *domain);

/* The entry for a domain, name and opset version, or NULL. */
const struct sp_op *sp_op_find(const char *domain, const char *name, int64_t version);

/* All entries, in table order; *ret_count of them. */
const struct sp_op *const *sp_op_all(uint32_t *ret_count);

/*
 * The rule of a node whose types are inferred, in `arena`. Checks what the operator's function built: every factor
 * index in range, every mapped axis' extent equal to the product of its factors where both are known (input axes with
 * a HALO factor and axes with one that is_resized excepted: their extents differ). A node with an operand that is no
 * tensor of known rank gets a rule without factors: everything is replicated.
 * SP_ERR_UNSUPPORTED for a node without an entry, SP_ERR_MODEL for shapes that contradict the operator.
 */
enum sp_status sp_op_rule(struct sp_model *model, struct sp_node *node, struct sp_arena *arena,
                          struct sp_rule **ret_rule, struct sp_error *err);

/* FLOPs where factor f is cut in shards[f] parts (NULL: in none), of the device that has the most to do: the terms with
   all extents multiplied; an extent without a number or an estimate counts as 1. Of attention the pairs that are seen. */
double sp_rule_flops(const struct sp_rule *rule, const int64_t *shards);

/* The factors as text, "[b,m,k] [b,k,n] -> [b,m,n]  k: sum reduction", appended to `buf`. Positions follow an operand:
   "[i]@v0" (along one factor), "[i]@v0*v1" (flat over both), "[i,t]@v0&v1" (tuples). */
void sp_rule_print(const struct sp_rule *rule, struct sp_buf *buf);

/* ---- building rules (used by the families) -------------------------------------------------------------------- */

/* A new factor's index; name is cut to fit; block is 1. Never fails: beyond SP_RULE_MAX_FACTORS the last factor is
   reused and sp_op_rule() reports SP_ERR_LIMIT. */
uint8_t sp_rule_factor(struct sp_rule *rule, const char *name, enum sp_factor_kind kind, struct sp_dim extent);

/* Appends a factor to the list of an operand's axis (major to minor). Out-of-range operands and axes are remembered and
   reported by sp_op_rule(). */
void sp_rule_map_input(struct sp_rule *rule, uint32_t input, uint32_t axis, uint8_t factor);
void sp_rule_map_output(struct sp_rule *rule, uint32_t output, uint32_t axis, uint8_t factor);

/* Appends a factor to the positions that an operand's elements stand for. */
void sp_rule_positions_input(struct sp_rule *rule, uint32_t input, uint8_t factor);
void sp_rule_positions_output(struct sp_rule *rule, uint32_t output, uint8_t factor);

/* Adds a term over `count` factors. */
void sp_rule_term(struct sp_rule *rule, double coefficient, uint32_t count, const uint8_t *factors);

/* Adds a term over all factors mapped to output 0. */
void sp_rule_term_output(struct sp_rule *rule, double coefficient);
