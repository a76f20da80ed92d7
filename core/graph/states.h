#pragma once
/*
 * states - which inputs of a model take what outputs of the step before gave: caches of keys and values, hidden states.
 *
 * A step of a decoder or of a recurrent network is run in a loop, and its caller hands some outputs back as inputs. The
 * file does not say which: exporters have names for them. A pair is known by its names and confirmed by its types; one
 * of these alone makes none.
 *
 * Names. A name is read as words: letters, digits and capitals end them ("past_key_values.0.key": past key values 0
 * key; "stateN": state n). A word may say that a tensor is of before or after the step, its *role*; an input and an
 * output that are the same words but for their roles are one state.
 *
 *   before   past, prev, previous, old                  in, input, init, initial; i, 0 at the end
 *   after    present, new, next, updated, cur, current  out, output, final; n, o at the end; y, r at the beginning
 *
 * The words of the right column, and a role on one side alone, are in many names of other tensors; so there the rest
 * has to name a state as well (cache, state, hidden, h, c, memory, ..; `hidden states` are activations). Behind past and
 * present, `key values` says nothing.
 *
 *   past_key_values.0.key             present.0.key               Optimum, GenAI, torch.onnx, transformers.js
 *   past_key_values.0.encoder.value   present.0.encoder.value     encoders and decoders in one file
 *   past_key_self_0, past_0           present_key_self_0, ..      onnxruntime.transformers
 *   cache_params.past.ssm.0           cache_params.present.ssm.0  Mamba
 *   cache_k_0, cached_len_1           new_cache_k_0, ..           torch.export, sherpa
 *   rnn_states_prev, h0, state, r1i   rnn_states, hn, stateN, r1o GenAI's Marian, recurrent networks
 *
 * Types. Elements are of one type; ranks are equal; all axes have equal extents but one at most, which grows. An extent
 * that nobody knows contradicts nothing.
 *
 * What the caller says comes first (struct sp_given_states): pairs of names, where one * stands for the same text in
 * both. Where these are all pairs, none is looked for.
 */
#include "graph/model.h"

#define SP_MAX_GIVEN_STATES 256 /* pairs of names or patterns of one request */
#define SP_STATE_FIXED      UINT32_MAX

/* Names of inputs and outputs, with one * in both or in none. */
struct sp_given_state {
    const char *past, *present;
    const char *kind; /* of a genai_config.json: what stands between past_ and _names there ("key"); else NULL */
};

struct sp_given_states {
    bool are_all;   /* there are no others, and one that the model does not have is an error; else it is passed over */
    uint32_t count; /* SP_MAX_GIVEN_STATES at most */
    const struct sp_given_state *items;
};

enum sp_state_origin {
    SP_STATE_BY_NAME,
    SP_STATE_GIVEN /* the caller said so */
};

struct sp_state {
    struct sp_value *past, *present; /* an input of the main graph without a default, and an output of it */
    uint32_t axis;                   /* that is longer, or may be, in present; SP_STATE_FIXED: none */
    enum sp_state_origin origin;
};

struct sp_states {
    uint32_t count; /* in the order of inputs; an input or output is in one pair */
    struct sp_state *items;
};

/*
 * The states of a model whose shapes were inferred. The list is in `arena`. Time grows with the bytes of the names.
 * SP_ERR_REQUEST "STATE_UNKNOWN": a name or pattern that the caller gave is no input, or its counterpart no output.
 * "STATE_CONTRADICTED": their types differ. `where` is "/options/state".
 */
enum sp_status sp_model_states(struct sp_arena *arena, const struct sp_model *model, struct sp_states *ret_states,
                               struct sp_error *err);
