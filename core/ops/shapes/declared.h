#pragma once
/*
 * declared - what the file says about a value, joined with what inference finds; private to ops/shapes.
 *
 * Inference is derived from the operators, so it wins; the declaration fills what it leaves open. Runtimes take shapes
 * that no run could satisfy with a warning, and so does this: such a declaration counts in no axis.
 *
 *   inferred      declared      result
 *   unknown       anything      declared
 *   number        number        the inferred number
 *   number        symbol        the number
 *   expression    anything      the expression
 *   new symbol    not unknown   declared: a symbol that was made for this very value says no more than "some extent"
 *   rank          another rank  the inferred shape
 */
#include "graph/model.h"

/* Joins value->declared into value->type. `symbols_before` is sp_dims_symbol_count() before the value's node was
   inferred: symbols from there on were made for it. A shape that contradicts goes into `accepted`; an element type or
   kind that does is SP_ERR_MODEL. */
enum sp_status sp_join_declared(struct sp_model *model, struct sp_value *value, uint32_t symbols_before,
                                struct sp_error *accepted, struct sp_error *err);

/* Makes unknown the extents of a tensor type that contain a symbol made from `symbols_before` on: it stands for
   something else each time. False without memory. */
bool sp_forget_new_symbols(struct sp_model *model, struct sp_type *type, uint32_t symbols_before);
