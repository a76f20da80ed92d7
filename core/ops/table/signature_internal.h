#pragma once
/* signature_internal - signatures written as text; private to core/ops. */
#include "ops/table/op.h"
#include "ops/table/signature.h"

/* What an entry's text says, in `arena`; false when the text is not in the notation or without memory. Arities are the
   entry's. */
bool sp_signature_parse(const struct sp_op *op, struct sp_arena *arena, struct sp_signature *ret_signature);
