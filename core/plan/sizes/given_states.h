#pragma once
/*
 * given_states - the member "state" of what a caller says of a model: which outputs are the inputs of the next step.
 *
 *     "state": [["past_key_values.*", "present.*"], ["h0", "hn"]]      these pairs, and no others
 *     "state": {"genai_config": {"model": {"decoder": {"inputs": {"past_key_names": "past.%d.k"},
 *                                                      "outputs": {"present_key_names": "present.%d.k"}}}}}
 *
 * The second form is the file of ONNX Runtime GenAI that lies beside a model, or what of it matters: whatever stands
 * there as past_.._names and present_.._names is a pair, %d being any text. Pairs that the model does not have are
 * passed over, and others are looked for by name (graph/states.h).
 *
 * Source: onnxruntime.ai/docs/genai/reference/config.html.
 */
#include <jansson.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "graph/states.h"

/* `pointer` is where the member stands. Names are copied into the reader's arena. SP_ERR_REQUEST "INVALID_OPTION". */
enum sp_status sp_given_states_parse(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                     const struct sp_given_states **ret_states);

/* The same as JSON, in one canonical form. */
void sp_given_states_write(const struct sp_given_states *states, struct sp_json *json);
