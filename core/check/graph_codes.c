/* The codes about a model itself: what the reader, shape inference and the checks of graphs find. */
#include "check/diagnostic.h"

const struct sp_diagnostic_code sp_codes_model[] = {
    {"MODEL_UNREADABLE", SP_SEVERITY_ERROR, "The model cannot be read or understood; the message says why.",
     "Correct what the message names, and check the model again.", "docs/IR.md"},
    {0},
};
