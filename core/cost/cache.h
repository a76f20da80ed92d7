#pragma once
/*
 * cache - the keys and values that a decoder keeps of all sequences in flight.
 *
 * A model that is planned runs one step, a prompt or one new position. Between steps a device holds the keys and values
 * of the attention nodes that it runs, for every sequence in flight: bytes that are always there, like weights. A step
 * is one of all these sequences, so it reads all that is kept, once: bytes and time of the node that keeps it.
 *
 * Which nodes, and how much of a position they keep. kv, d and e are the factors of the operator's rule: heads of keys
 * and values, size of a head of keys, of values (d where the rule has no e).
 *
 *   node                                      of one position of one sequence            element type, unless stated
 *   Attention (ONNX), FlexAttention           kv * d keys, kv * e values                 of past_key, else of K
 *   GroupQueryAttention (com.microsoft)       kv * d, kv * d                             of past_key, else
 *                                                                                        kv_cache_bit_width, else of K
 *   MultiHeadAttention (com.microsoft)        kv * d, kv * e                             of past_key, else of K
 *   Attention (com.microsoft)                 kv * d, kv * e                             of past, else of the input
 *   MatMul before a Softmax over its result   elements of its input 1 / (batch * keys)   of input 1
 *   MatMul that a Softmax's result goes into  elements of its input 1 / (batch * keys)   of input 1
 *
 * The last two are one attention that is written out: Softmax(Q K^T ..) V, with elementwise operators around the
 * Softmax, operands of rank 4 [batch, heads, ..], none of the four constant. The first holds the keys, the second the
 * values. Where keys or values are repeated for several heads (Expand) before the MatMul, what was there before counts.
 * Attention inside of functions and graphs of other nodes is not seen. Windows count as all positions.
 *
 * What the model itself holds. Past keys and values that are inputs of the model and present ones that are its outputs
 * are tensors like any other, counted with the activations. Of what is demanded of a node the larger of both is
 * therefore taken off (key and values each for itself, not below 0): what is left is `resident_bytes` of the node.
 *
 * Shards. Of a node that is split, a device holds the part that follows from the factors of its keys and values: batch,
 * kv, keys (t) and the size of a head cut the cache; g and queries (q) do not. In a MatMul these are the factors of
 * input 1; heads that were repeated cut it only as far as there are different ones.
 *
 * Example: Llama 3 8B has 8 kv heads of 128 in each of 32 layers: 8 * 128 * 2 (keys and values) * 2 bytes (float16) *
 * 32 = 131072 bytes for each position (Meta: "The Llama 3 Herd of Models", 2024, table 3).
 */
#include "cost/workload.h"
#include "ops/table/op.h"

struct sp_cache_demand {
    double total_bytes;          /* of the whole model; 0: the following say how much */
    double sequences, positions; /* of each */
    enum sp_dtype dtype;         /* of the elements; SP_DTYPE_UNDEFINED: as the table says */
};

/* What a node keeps. */
struct sp_work_cache {
    double demanded_bytes;         /* of keys and values */
    double key_bytes, value_bytes; /* of these not held by the model's own tensors; their sum is resident_bytes */
    bool is_product;               /* a MatMul: input 1 is what is kept */
    int64_t heads;                 /* is_product: different heads of it */
};

/*
 * Gives the attention nodes of `workload`, which is of `model` on `cluster`, their resident_bytes, and the time to read
 * them. total_bytes are spread in proportion to what the nodes keep of a position. *ret_nodes of them were found: 0 is
 * no error here. A further demand takes the place of the one before.
 *
 * SP_ERR_REQUEST "KV_CACHE_SIZE" for an attention node whose heads are of unknown size.
 */
enum sp_status sp_workload_cache(struct sp_workload *workload, struct sp_model *model, const struct sp_cluster *cluster,
                                 const struct sp_cache_demand *demand, uint32_t *ret_nodes, struct sp_error *err);

/* What one device keeps, at most: `shards` says in how many each factor of the node's rule is cut. NULL keeps nothing.
 */
double sp_cache_local_bytes(const struct sp_work_cache *cache, const struct sp_rule *rule, const int64_t *shards);

/* Whether both keep the same in every way to split their nodes; NULLs are equal. */
bool sp_cache_is_same(const struct sp_work_cache *a, const struct sp_work_cache *b);
