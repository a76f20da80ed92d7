#pragma once
/*
 * mutate_model - mutations of models that know what a model is: nodes, names, types, graphs inside nodes, functions.
 *
 * Most of what comes out is read again, and a good part of it is a model that runs.
 */
#include <stddef.h>
#include <stdint.h>

/* A changed model into `out` (max_size bytes); `out` may be `bytes`. 0 when the bytes are no model, or the result does
   not fit. The same seed makes the same change. */
size_t mutate_model(const uint8_t *bytes, size_t size, uint8_t *out, size_t max_size, unsigned seed);
