/*
 * The whole way of a check and of a completion: read, check everything, infer shapes, complete the shardings of each
 * configuration forward and by propagation, write the completed model, read and strip that.
 *
 * The bytes are a model. What is random about a request is taken from a hash of them, so that a found input tells it
 * all: which tensors get which split, over how many devices.
 *
 * Under libFuzzer the bytes are also changed by structure (LLVMFuzzerCustomMutator): whole messages of the wire format
 * are removed, repeated, swapped with others of the file or with those of a second model, and lengths stay right.
 *
 * Properties: an error has a code and a message and is none of ours; findings come from the table; what is completed
 * from one split is well-formed; what is written is read again and strips to the bytes it came from. No input takes
 * more than the memory budget.
 */
#include "fuzz.h"
#include "fuzz_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint64_t seed = fuzz_hash(bytes, size);
    bool was_valid = fuzz_check_model(bytes, size);
    fuzz_complete_model(bytes, size, "forward", seed, was_valid);
    fuzz_complete_model(bytes, size, "propagate", seed >> 7, was_valid);
    return 0;
}
