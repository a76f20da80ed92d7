/* Operators with a subgraph that no published case has, as whole files. */
#include "../unit/support/onnx_files.h"
#include "own_cases.h"

#define TENSOR(name, dims) "1'" name "' 2{1{1:1 2{" dims "}}} "

/* Scan-8 (docs/Changelog.md): the first input is the lengths of the sequences, all operands have a batch in front. The
   body adds up: s2 = s + x, p = s2 * x. */
#define SCAN_8                                                                                                         \
    "1:10 7{2'g' 11{" TENSOR("s0", "1{2'b'} 1{1:2}") "} 11{" TENSOR(                                                   \
        "xs", "1{2'b'} 1{1:7} 1{1:2}") "} "                                                                            \
                                       "1{1'' 1's0' 1'xs' 2's1' 2'ps' 4'Scan' 5{1'num_scan_inputs' 20:2 3:1} "         \
                                       "5{1'body' 20:5 6{2'body' 11{1's'} 11{1'x'} "                                   \
                                       "1{1's' 1'x' 2's2' 4'Add'} 1{1's2' 1'x' 2'p' 4'Mul'} 12{1's2'} 12{1'p'}}}} "    \
                                       "12{1's1'} 12{1'ps'}} 8{2:8} "

static const struct {
    const char *file;
    struct own_case own; /* the first node of the main graph; its inputs are only shown */
} bodies[] = {
    {SCAN_8,
     {"Scan", 8, "- float32[b,2] float32[b,7,2]", "", "float32[b,2] float32[b,7,2]",
      "[] [f0,f1] [f0,t,f1] -> [f0,f1] [f0,t,f1]  t: sequential"}},
};

unsigned own_bodies_run(struct coverage *coverage, unsigned *count)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++, ++*count) {
        struct sp_buf file = onnx_encode(bodies[i].file);
        struct onnx_model model;
        if (onnx_read(&model, file.data, file.size) != SP_OK ||
            !own_case_check(&bodies[i].own, model.model, &model.model->graph->nodes[0], coverage))
            wrong++;
        onnx_release(&model);
        sp_buf_release(&file);
    }
    return wrong;
}
