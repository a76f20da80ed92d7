/*
 * Searches for text whose bodies are decoders (com.microsoft): they call a subgraph once for each token, up to a length,
 * and choose among what it says. They are placed whole.
 *
 *     BeamSearch, WhisperBeamSearch   [b, ..] .. -> [b, r, l] [b, r] [_, b, m, v] ..
 *     GreedySearch, Sampling          [b, s] .. -> [b, l] [b, v]
 *
 * l is max_length, r and m are the sequences to return and the beams, where these inputs are known; v is vocab_size.
 *
 * FLOPs: of each token of each beam 2 for each weight that a product in the subgraphs takes, as for one pass of a
 * decoder with a cache. Bytes: those weights, read once for each position.
 */
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft"

enum { IN_MAX_LENGTH = 1, IN_BEAMS = 3, IN_RETURNED = 4 };

static int64_t known_input(struct sp_op_context *context, uint32_t input)
{
    const struct sp_data *data = sp_in_known_ints(context, input);
    bool is_one = data != NULL && data->count == 1 && data->ints[0].value >= 0 && data->ints[0].value <= INT32_MAX;
    return is_one ? data->ints[0].value : -1;
}

/* "; l = 20", or nothing: then the extent is a symbol. */
static const char *equation(struct sp_op_context *context, const char *factor, int64_t value)
{
    return value < 0 ? "" : sp_form_text(context, "; %s = %lld", factor, (long long)value);
}

static int64_t vocabulary(const struct sp_op_context *context)
{
    int64_t size = sp_node_int(context->node, "vocab_size", -1);
    return size > 0 && size <= INT32_MAX ? size : -1;
}

static const char *form_beams(struct sp_op_context *context)
{
    const char *length = equation(context, "l", known_input(context, IN_MAX_LENGTH));
    const char *returned = equation(context, "r", known_input(context, IN_RETURNED));
    const char *beams = equation(context, "m", known_input(context, IN_BEAMS));
    const char *words = equation(context, "v", vocabulary(context));
    if (length == NULL || returned == NULL || beams == NULL || words == NULL)
        return NULL;
    return sp_form_text(context,
                        "[b, _..] [_..] -> [b, r, l] [b, r] [_, b, m, v] [b, r, _, _, _] [b]; all whole%s%s%s%s",
                        length, returned, beams, words);
}

static const char *form_greedy(struct sp_op_context *context)
{
    const char *length = equation(context, "l", known_input(context, IN_MAX_LENGTH));
    const char *words = equation(context, "v", vocabulary(context));
    return length == NULL || words == NULL
               ? NULL
               : sp_form_text(context, "[b, _..] [_..] -> [b, l] [b, v]; all whole%s%s", length, words);
}

/* Weights of products, and their bytes, in the nodes of the node's own graphs; deeper ones do not count. */
static void add_up_weights(const struct sp_node *node, double *ret_elements, double *ret_bytes)
{
    for (uint32_t a = 0; a < node->attribute_count; a++) {
        const struct sp_attribute *attribute = &node->attributes[a];
        bool has_graphs = attribute->type == SP_ATTR_GRAPH || attribute->type == SP_ATTR_GRAPHS;
        for (uint32_t g = 0; has_graphs && g < attribute->count; g++) {
            const struct sp_graph *graph = attribute->graphs[g];
            for (uint32_t n = 0; n < graph->node_count; n++) {
                for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
                    const struct sp_value *value = graph->nodes[n].inputs[i];
                    bool is_table = i == 0 && sp_node_is(&graph->nodes[n], "Gather"); /* of which one row is read */
                    if (value == NULL || value->tensor == NULL || value->tensor->rank < 2 || is_table)
                        continue;
                    *ret_elements += (double)value->tensor->elements;
                    *ret_bytes += (double)value->tensor->bytes;
                }
            }
        }
    }
}

static enum sp_status rule_search(struct sp_op_context *context, struct sp_rule *rule)
{
    double elements = 0, bytes = 0;
    int64_t length = known_input(context, IN_MAX_LENGTH);
    bool has_beams = context->node->op->form == form_beams;
    int64_t beams = has_beams ? known_input(context, IN_BEAMS) : 1;
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    if (status != SP_OK)
        return status;
    add_up_weights(context->node, &elements, &bytes);
    sp_rule_term_named(rule, 2 * elements * (double)(beams > 0 ? beams : 1), "b l");
    rule->bytes = bytes * (double)(length > 0 ? length : 1) + sp_output_bytes(context, 0);
    return SP_OK;
}

#define SEARCH                                                                                                         \
    "decoder!:graph,decoder_start_token_id:int=-1,encoder:graph,eos_token_id!:int,init_decoder:graph,model_type:int="  \
    "0,"                                                                                                               \
    "no_repeat_ngram_size:int=0,pad_token_id!:int,vocab_size:int=-1"
#define BEAM_INPUTS                                                                                                    \
    "(input_ids,max_length,min_length?,num_beams,num_return_sequences,length_penalty?,repetition_penalty?,vocab_mask?" \
    ","                                                                                                                \
    "prefix_vocab_mask?,attention_mask?,decoder_input_ids?,logits_processor?"

const struct sp_op sp_ops_searches[] = {
    SP_ENTRY(DOMAIN, "BeamSearch", 1, 0, 2, 12, 1, 3,
             "[b, _..] [_..] -> [b, r, l] [b, r] [_, b, m, v]; all whole; l, r, m as the inputs say",
             "ONNX Runtime contrib operator BeamSearch", .form = form_beams, .shapes = sp_shapes_from_text,
             .rule = rule_search, .types = "int32 float32",
             .signature = BEAM_INPUTS ") -> (sequences,sequences_scores?,scores?) {early_stopping:int=0," SEARCH "}"),
    SP_ENTRY(
        DOMAIN, "WhisperBeamSearch", 1, 0, 2, 15, 1, 5,
        "[b, _..] [_..] -> [b, r, l] [b, r] [_, b, m, v] [b, r, _, _, _] [b]; all whole; l, r, m as the inputs say",
        "ONNX Runtime contrib operator WhisperBeamSearch", .form = form_beams, .shapes = sp_shapes_from_text,
        .rule = rule_search, .types = "int32 float32",
        .signature = BEAM_INPUTS
        ",cross_qk_layer_head?,extra_decoding_ids?,temperature?) -> (sequences,sequences_scores?,scores?,cross_qk?,"
        "non_speech_probs?) {beginning_timestamp_token_id:int,decoder_output_cross_qk:int=0,early_stopping:int=0,"
        "no_speech_token_id:int=-1,no_timestamps_token_id:int,start_of_lm_token_id:int,transcribe_token_id:int,"
        "translate_token_id:int," SEARCH "}"),
    SP_ENTRY(DOMAIN, "GreedySearch", 1, 0, 2, 7, 1, 1, "[b, _..] [_..] -> [b, l]; all whole; l as an input says",
             "ONNX Runtime contrib operator GreedySearch", .form = form_greedy, .shapes = sp_shapes_from_text,
             .rule = rule_search, .types = "int32",
             .signature = "(input_ids,max_length,min_length?,repetition_penalty?,vocab_mask?,prefix_vocab_mask?,"
                          "attention_mask?) -> (sequences) {" SEARCH "}"),
    SP_ENTRY(DOMAIN, "Sampling", 1, 0, 2, 9, 1, 2, "[b, _..] [_..] -> [b, l] [b, v]; all whole; l as an input says",
             "ONNX Runtime contrib operator Sampling", .form = form_greedy, .shapes = sp_shapes_from_text,
             .rule = rule_search, .types = "int32 float32", .flags = SP_OP_RANDOM,
             .signature =
                 "(input_ids,max_length,min_length?,repetition_penalty?,vocab_mask?,prefix_vocab_mask?,"
                 "attention_mask?,presence_mask?,seed?) -> (sequences,filtered_logits?) {custom:int=0,"
                 "filter_value:float,min_tokens_to_keep:int=0,presence_penalty:float=0.0,temperature:float=1.0,"
                 "top_p:float=0.0," SEARCH "}"),
    {.name = NULL},
};
