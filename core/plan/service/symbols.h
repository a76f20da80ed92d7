#pragma once
/*
 * symbols - which dimensions of a decoder are the batch, the positions of a step, and the positions of its cache.
 *
 * Exporters call them differently ("batch", "batch_size", "N"; "seq", "sequence_length"; "past_sequence_length",
 * "past_seq_len"); what they are follows from the inputs:
 *
 *   past        the axis that grows of the inputs that are states (graph/states.h): past_key_values.* [batch, heads, past, dim]
 *   batch       the first axis of states that is a symbol and does not grow, else the first one of the tokens
 *   positions   the second axis of the tokens: input_ids [batch, positions], position_ids, inputs_embeds; of inputs of
 *               two or three axes whose name says nothing, integers come first
 *   total       the second axis of a mask: attention_mask [batch, total], positions and past together, where it is
 *               neither of these nor made of them
 *
 * A model without states that grow has no past: a step computes all positions anew.
 */
#include "graph/model.h"
#include "plan/service/traffic.h"

struct sp_decoder_symbols {
    const char *dims[SP_SYMBOL_COUNT]; /* as plan/sizes/sizes.h names them; NULL: the model has none */
};

/*
 * Of a model whose shapes were inferred, with nothing bound. Names of the request come first. In `arena`.
 * SP_ERR_REQUEST "WORKLOAD_SYMBOLS": the model's batch or positions are fixed to a number, or nothing says what they
 * are; `where` is /workload/symbols.
 */
enum sp_status sp_decoder_symbols(struct sp_arena *arena, const struct sp_model *model,
                                  const struct sp_traffic *traffic, struct sp_decoder_symbols *ret_symbols,
                                  struct sp_error *err);
