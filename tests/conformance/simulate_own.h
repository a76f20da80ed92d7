#pragma once
/*
 * simulate_own - models of one node for what no published case has: ONNX Runtime's own operators, older versions, other
 * forms. They need no published results: the runtime computes the whole and the parts.
 *
 *     {"com.microsoft.FusedMatMul", 1, "float32[4,6] float32[6,8]", "alpha=0.5", "o"}
 *
 *  version     of the operator's domain; that of ai.onnx is 21 where the domain is another
 *  inputs      separated by blanks; values are the same every time
 *                float32[4,6]        reals in [-1, 1); float16, double alike
 *                float32[n3,6]       the first extent is a symbol, n, and 3 when it runs
 *                float32[4]>0        in [0.5, 1.5)
 *                int64[4]<5          in [0, 5); other integers alike
 *                int32[4]@3          all 3
 *                int64[4]+5          0, 5, 10, 15
 *                bool[4], string[4]  "a", "b", "c"
 *                int64=1,2           a constant vector; int64:=2 a constant scalar; also int32, float32
 *                -                   omitted
 *  attributes  "axis=1 alpha=0.5 mode='x' axes=[0,1] scales=[1.0,2.0] words=['a','b']"; a real number has a point
 *  outputs     "o" for each, "-" for one that is omitted, "uint32" for one whose type the runtime does not infer
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct simulate_own {
    const char *op;
    int64_t version;
    const char *inputs, *attributes, *outputs;
};

/* Each ends with one whose `op` is NULL. */
extern const struct simulate_own simulate_own_cases[];
extern const struct simulate_own simulate_contrib_cases[];
extern const struct simulate_own simulate_quantised_cases[];
extern const struct simulate_own simulate_open_cases[];
extern const struct simulate_own simulate_statistics_cases[];

/* "own_com.microsoft.FusedMatMul_3", "contrib_..": with its place in the list. */
const char *simulate_own_name(const struct simulate_own *list, const struct simulate_own *own, char *name, size_t size);

/* Writes the model; *ret_inputs are the members of a line that say what is fed. */
bool simulate_own_write(const struct simulate_own *own, const char *path, json_t **ret_inputs);
