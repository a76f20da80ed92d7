#pragma once
/* float_bits - the values of ONNX's floating point formats. */
#include <stdint.h>

#include "graph/dtype.h"

/* The number that the low bits of `bits` stand for in this format; 0 for a data type that is no float. */
double sp_float_from_bits(enum sp_dtype dtype, uint64_t bits);
