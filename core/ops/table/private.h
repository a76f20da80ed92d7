#pragma once
/*
 * private - operators that a caller, or the model itself, describes beside the table: those of one's own domains.
 *
 *     [{"domain": "com.example", "name": "FusedGate", "versions": [1, 3],
 *       "rule": "[b.., k] [k, n] [n] -> [b.., n]; k sum", "types": [0], "flops": "2*b..*k*n"}]
 *
 *   domain, name   required; a domain that ONNX defines is refused. One that the table has, too, is the caller's.
 *   versions       the first and the last version of the domain; one number is the first. Absent: any.
 *   rule           required, in the notation of ops/table/rule_text.h. Shapes follow from it (sp_shapes_from_text()).
 *   types          of the outputs, the last one for all that follow: the number of an input that has it, a name
 *                  ("float16"), or {"attribute": NAME} that holds the number of a type. Absent: input 0's.
 *   flops          FLOPs at each point of all factors, a number, or terms like sp_op.work. Absent: 0, the node takes as
 *                  long as its bytes are read and written.
 *
 * The rule says that the operator on a part of its inputs gives that part of the result: devices run it as it is on
 * their pieces, as any operator without a lowering of its own.
 *
 * A model carries its own rules as such a list in its metadata, under SP_PRIVATE_METADATA_KEY; the models that are made
 * of it have them, too. Where a caller describes the same operator, the caller's rule holds.
 */
#include <jansson.h>

#include "base/json_writer.h"
#include "ops/table/op.h"

#define SP_MAX_PRIVATE_OPERATORS 256
#define SP_MAX_RULE_BYTES        2048 /* of a rule, of terms */
#define SP_MAX_TYPE_WORD         48   /* of one type in sp_op.types */
#define SP_PRIVATE_METADATA_KEY  "shardplan.operators"
#define SP_MAX_PRIVATE_BYTES     ((size_t)256 << 10) /* of a list in metadata */

struct sp_private_operators {
    uint32_t count;
    struct sp_op *ops;     /* in the order of the list */
    bool has_own_of_model; /* sp_private_adopt() has been here */
};

/* Reads a list of operators; `pointer` is its JSON pointer. All is copied into `arena`. SP_ERR_REQUEST with the pointer
   of what is wrong: INVALID_OPERATOR, and INVALID_RULE, whose message has the column. */
enum sp_status sp_private_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                struct sp_private_operators *ret_operators, struct sp_error *err);

/* Adds the operators that the model's metadata describes to those that it was given, unless that has been done.
   SP_ERR_MODEL with the codes above. */
enum sp_status sp_private_adopt(struct sp_model *model, struct sp_error *err);

/* The same list, members in a fixed order. */
void sp_private_write(const struct sp_private_operators *operators, struct sp_json *json);

/* The operator for a domain, name and version: the first of the list that has them; NULL where there is none, and for
   NULL. */
const struct sp_op *sp_private_find(const struct sp_private_operators *operators, const char *domain, const char *name,
                                    int64_t version);
