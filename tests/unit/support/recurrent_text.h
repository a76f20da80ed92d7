#pragma once
/* A recurrent network as a description in JSON, whose states several nodes make and take. */
#include "base/buf.h"

/* Layers of new_state = tanh(x W + state U), the next one's x, with `rows` rows of `width`: inputs "x", "state_0", ..,
   outputs "new_state_0", ... The caller releases `text`. */
void recurrent_text(struct sp_buf *text, uint32_t layers, uint32_t rows, uint32_t width);
