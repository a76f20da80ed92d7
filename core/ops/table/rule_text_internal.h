#pragma once
/* rule_text_internal - what the readers of rule texts share; private to core/ops/table. */
#include "ops/table/rule_text.h"

/* The text of an operand; the last one stands for all that follow it. NULL where the text has none. */
static inline const struct sp_text_operand *sp_text_operand_of(const struct sp_rule_text *text, bool is_output,
                                                               uint32_t index)
{
    uint32_t count = is_output ? text->output_count : text->input_count;
    const struct sp_text_operand *operands = is_output ? text->outputs : text->inputs;
    return count == 0 ? NULL : &operands[index < count ? index : count - 1];
}

/* Which axes of its text an operand of this rank lacks, parallel ones first, beside those that are marked already; the
   number of axes of its group. */
uint32_t sp_text_lay_out(const struct sp_rule_text *text, const struct sp_text_operand *operand, uint32_t rank,
                         bool is_left_out[SP_TEXT_MAX_AXES]);

/* The end of an expression, 0 or a semicolon, or NULL for what is none. */
const char *sp_text_expression_end(const char *expression);

/* What the names of an expression stand for: SP_OK and the extent. `index` is -1, or which of an attribute's integers;
   `otherwise` is the extent where there is no such attribute, unknown where the expression says none. */
typedef enum sp_status sp_text_resolve(void *context, const char *name, int64_t index, struct sp_dim otherwise,
                                       struct sp_dim *ret_extent);

/* The value of an expression that sp_text_expression_end() accepts. */
enum sp_status sp_text_evaluate(const char *expression, struct sp_dims *dims, sp_text_resolve *resolve, void *context,
                                struct sp_dim *ret_value);

/* The extents of single factors as inputs and equations tell them, *ret_count of them; SP_ERR_MODEL for an attribute that
   is missing, and for inputs that contradict the text. */
enum sp_status sp_text_extents(struct sp_op_context *context, const struct sp_rule_text *text,
                               struct sp_text_size ret_sizes[SP_TEXT_MAX_FACTORS], uint32_t *ret_count);
