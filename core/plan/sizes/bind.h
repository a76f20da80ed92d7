#pragma once
/*
 * bind - which symbol of a model is which number: what the request gives, what follows from it, and what is assumed.
 *
 * Symbols are bound while a model is read, but which ones there are is known only afterwards: so a model is read,
 * sp_bind() says what its symbols are, and it is read again with that. Shapes are inferred in between only where a name
 * is one that inference makes, or where dimensions may follow from others.
 *
 *   equations   what the request says: "past + sequence" = 12, an axis of a tensor, a shape. They must hold: a
 *               contradiction, and one that leaves several symbols open, is SP_ERR_REQUEST.
 *   ties        what inference met as one extent without being able to prove it: the declared and the inferred extent
 *               of an output, two operands of an Add. Of a symbol that nothing else binds they say what it is.
 */
#include "ops/shapes/shapes.h"
#include "plan/internal.h"
#include "plan/sizes/sizes.h"

/* Binds what the request gives, and what follows. With `assumes` also --batch and the assumed extents for what the
   inputs leave open; `batch` is 0 where it is not given. The model was just read, with nothing bound. *ret_used says
   whether shapes were inferred: then the model is of no more use. */
enum sp_status sp_bind(struct sp_model *model, const struct sp_sizes *sizes, bool assumes, int64_t batch,
                       struct sp_bindings *bindings, struct sp_error *err);

/* Options to read a model with: `base`, and what `sizes` say of it. The bindings live in `arena`. */
enum sp_status sp_sizes_read_options(struct sp_arena *arena, const void *bytes, uint64_t size,
                                     const struct sp_read_options *base, const struct sp_sizes *sizes,
                                     struct sp_read_options *ret_options, struct sp_error *err);

/* What costs take the sizes to be that the model leaves open once its shapes are inferred: the most that a size of data
   can be, else an assumption, each with a note. SP_ERR_MEMORY. */
enum sp_status sp_estimate_open(struct sp_model *model, struct sp_bindings *bindings, struct sp_error *err);
