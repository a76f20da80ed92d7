#pragma once
/*
 * simulate_control - small models with control flow, each written to bring out one thing.
 *
 *  name      of the file
 *  op        the operator that it is about
 *  notation  the model, as onnx_files.h has it, with the words of control_models.h
 *  fills     what is fed to inputs that decide: "cond=1 n=3"; the others get any numbers
 *  whole     why nothing inside is split, or NULL: something must be
 *  same      a model that computes the same, where the runtime does not run this one; or NULL
 */
struct simulate_control {
    const char *name, *op, *notation, *fills, *whole, *same;
};

/* Ends with one whose `name` is NULL. */
extern const struct simulate_control simulate_control_models[];
