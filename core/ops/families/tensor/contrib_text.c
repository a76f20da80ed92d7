/*
 * Text of ONNX Runtime: Tokenizer, WordConvEmbedding and AttnLSTM (com.microsoft), and the operators of its extensions
 * (ai.onnx.contrib, also called com.microsoft.extensions). Tokenizers, decoders and codecs are a host's work on whole
 * strings and files, so they are placed whole; how much comes out depends on the data (`_`). Elementwise ones are
 * split.
 *
 * Where they come from: docs/custom_ops.md of onnxruntime-extensions, and operators/cuda there: arithmetic for CUDA,
 * where an operand repeats as it broadcasts.
 *
 * FLOPs: 1 for each element that goes in, 2 for each multiply-add.
 */
#include "base/limits.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft"

/* ---- extensions ------------------------------------------------------------------------------------------------- */

static uint32_t rank_of(const struct sp_op_context *context, uint32_t input)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    return shape == NULL ? 0 : shape->rank;
}

/* Some builds give one sequence for all texts, others a row for each. */
static const char *form_pair(struct sp_op_context *context)
{
    const struct sp_value *ids = context->node->output_count > 0 ? context->node->outputs[0] : NULL;
    bool is_flat = ids != NULL && ids->declared.shape.has_rank && ids->declared.shape.rank == 1;
    return is_flat ? "[b..] -> [s] [s] [s] [s, 2]; b.., s whole"
                   : "[b..] -> [n, s] [n, s] [n, s] [n, s, 2]; b.., n, s whole";
}

/* Rows of numbers are one text each where the map has several to a text; the file knows how it is. */
static const char *form_strings(struct sp_op_context *context)
{
    const struct sp_value *text = context->node->output_count > 0 ? context->node->outputs[0] : NULL;
    bool is_flat = text != NULL && text->declared.shape.has_rank && text->declared.shape.rank == 1;
    return is_flat ? "[b..] -> [w]; b.., w whole" : "[b.., v] -> [_..]; b.., v whole";
}

/* Indices are rows, or one for each element. */
static const char *form_segments(struct sp_op_context *context)
{
    return rank_of(context, 0) < 2 ? "[n] -> [s, 2] [s]; n, s whole" : "[b, n] -> [s, 2] [s]; b, n, s whole";
}

/* Operand 0 and each of the others, which repeat as they broadcast. */
static enum sp_status shapes_shared(struct sp_op_context *context)
{
    const struct sp_shape *a = sp_in_shape(context, 0);
    enum sp_status status = SP_OK;
    for (uint32_t output = 0; status == SP_OK && output < context->node->output_count; output++) {
        const struct sp_shape *b = sp_in_shape(context, output + 1);
        struct sp_shape shape = {0};
        if (a == NULL || b == NULL)
            status = sp_set_output_unranked(context, output, sp_in_dtype(context, 0));
        else if ((status = sp_broadcast(context, a, b, &shape)) == SP_OK)
            status = sp_set_output_shape(context, output, sp_in_dtype(context, 0), &shape);
    }
    return status;
}

/* Input 0 says the shape; the elements are of the last input's type. */
static enum sp_status shapes_told(struct sp_op_context *context)
{
    const enum sp_dtype dtype = sp_in_dtype(context, context->node->input_count - 1);
    struct sp_list shape = {0};
    enum sp_status status = sp_get_list(context, "shape", 1, 0, &shape);
    if (status != SP_OK || !shape.has_values || shape.count > SP_MAX_RANK)
        return status != SP_OK ? status : sp_set_output_unranked(context, 0, dtype);
    return sp_set_output(context, 0, dtype, shape.count, shape.values);
}

static const char *form_twice(struct sp_op_context *context)
{
    return sp_node_int(context->node, "transposeMiddle", 0) != 0
               ? "[a, b, c, d] [a, b, c, d] [a, b, c, d] -> [a, c, b, d]"
               : "[i..] [i..] [i..] -> [i..]";
}

#define EXTENSION(name_, inputs_, outputs_, text_, types_, signature_, ...)                                            \
    SP_ENTRY("ai.onnx.contrib", name_, 1, 0, 1, inputs_, 1, outputs_, text_, "ONNX Runtime extensions, " name_,        \
             .shapes = sp_shapes_from_text, .types = types_, .flops = 1, .signature = signature_, __VA_ARGS__)
#define TWICE(name_, attributes_)                                                                                      \
    SP_ENTRY("ai.onnx.contrib", name_, 1, 0, 3, 3, 1, 1, "[i..] [i..] [i..] -> [i..]",                                 \
             "ONNX Runtime extensions, " name_, .form = form_twice, .shapes = sp_shapes_from_text, .types = "0",       \
             .flops = 2, .signature = "(a,b,c) -> (y) " attributes_)
#define SHARED(name_)                                                                                                  \
    SP_ENTRY("ai.onnx.contrib", name_, 1, 0, 3, 3, 2, 2, "[i..] [i..] [i..] -> [i..] [i..]",                           \
             "ONNX Runtime extensions, " name_, .shapes = shapes_shared, .flops = 2,                                   \
             .signature = "(a,b,c) -> (ab,ac) {}")
#define TOLD(name_, inputs_, text_, signature_)                                                                        \
    SP_ENTRY("ai.onnx.contrib", name_, 1, 0, inputs_, inputs_, 1, 1, text_, "ONNX Runtime extensions, " name_,         \
             .shapes = shapes_told, .flops = 1, .signature = signature_)
#define TOKENS "[b..] -> [b.., s] [b.., s] [b.., s, 2]; b.., s whole"
#define BPE                                                                                                            \
    "{CacheMode:string,CleanSpaces:int,ModelName:string,merges:string,padding_length:int=-1,vocab:string,"             \
    "add_prefix_space:int,unk_token:string,bos_token:string,eos_token:string,skip_special_tokens:int}"
#define BERT                                                                                                           \
    "{do_basic_tokenize:int=1,do_lower_case:int=1,is_fast:int,max_length:int=-1,pad_token:string,sep_token:string,"    \
    "cls_token:string,mask_token:string,strip_accents:int=0,suffix_indicator:string,tokenize_chinese_chars:int=1,"     \
    "tokenize_punctuation:int=0,truncation_strategy_name:string,unk_token:string,vocab_file:string,"                   \
    "remove_control_chars:int=1,use_fast:int,max_len:int}"

/* ---- AttnLSTM --------------------------------------------------------------------------------------------------- */

#define ATTN_LSTM                                                                                                      \
    "[t, b, i] [n, g, w] [n, g, _] [n, _] [b] [n, b, h] [n, b, h] [n, _] [n, _, _] [n, _, _] [n, _] [b, _, _] [b] "    \
    "[n, _, "                                                                                                          \
    "_] -> [t, n, b, h] [n, b, h] [n, b, h]; h = hidden_size; t sequential; b, n, h, i, g, w whole"

const struct sp_op sp_ops_contrib_text[] = {
    SP_ENTRY(DOMAIN, "Tokenizer", 1, 0, 1, 1, 1, 1, "[b..] -> [b.., _]; b.. whole",
             "ONNX Runtime contrib operator Tokenizer", .shapes = sp_shapes_from_text, .flops = 1,
             .signature =
                 "(X) -> (Y) {mark!:int,mincharnum!:int,pad_value!:string,separators:strings,tokenexp:string}"),
    SP_ENTRY(DOMAIN, "WordConvEmbedding", 1, 0, 4, 4, 1, 1,
             "[n, w] [f, 1, k, c] [f] [v, c] -> [n, f]; w, f, k, c, v whole",
             "ONNX Runtime contrib operator WordConvEmbedding", .shapes = sp_shapes_from_text, .types = "1",
             .work = "2*n*w*k*c*f",
             .signature = "(Sequence,W,B,C) -> (Y) {char_embedding_size:int,conv_window_size:int,embedding_size:int}"),
    SP_ENTRY(DOMAIN, "AttnLSTM", 1, 0, 3, 14, 0, 3, ATTN_LSTM, "ONNX Runtime contrib operator AttnLSTM",
             .flags = SP_OP_FUNCTION, .shapes = sp_shapes_from_text, .work = "2*t*n*b*g*w + 2*t*n*b*g*h",
             .signature =
                 "(X,W,R,B?,sequence_lens?,initial_h?,initial_c?,P?,QW?,MW?,V?,M?,memory_seq_lens?,AW?) -> (Y?,"
                 "Y_h?,Y_c?) {activation_alpha:floats,activation_beta:floats,activations:strings,clip:float,"
                 "direction:string=forward,hidden_size:int,input_forget:int=0}"),

    EXTENSION("GPT2Tokenizer", 1, 3, TOKENS, "int64", "(text) -> (input_ids,attention_mask?,offset_mapping?) " BPE),
    EXTENSION("CLIPTokenizer", 1, 3, TOKENS, "int64", "(text) -> (input_ids,attention_mask?,offset_mapping?) " BPE),
    EXTENSION("RobertaTokenizer", 1, 3, TOKENS, "int64", "(text) -> (input_ids,attention_mask?,offset_mapping?) " BPE),
    EXTENSION("HfJsonTokenizer", 1, 3, TOKENS, "int64",
              "(text) -> (input_ids,attention_mask?,offset_mapping?) {tokenizer_config:string,tokenizer_vocab:string}"),
    EXTENSION("SpmTokenizer", 1, 3, TOKENS, "int64", "(text) -> (input_ids,attention_mask?,offset_mapping?) " BPE),
    EXTENSION("BertTokenizer", 1, 4, "[b..] -> [s] [s] [s] [s, 2]; b.., s whole", "int64",
              "(text) -> (input_ids,token_type_ids?,attention_mask?,offset_mapping?) " BERT),
    EXTENSION("HfBertTokenizer", 1, 4, "[b..] -> [n, s] [n, s] [n, s] [n, s, 2]; b.., n, s whole", "int64",
              "(text) -> (input_ids,attention_mask?,token_type_ids?,offset_mapping?) " BERT, .form = form_pair),
    EXTENSION(
        "BertTokenizerDecoder", 2, 1, "[n] [m, 2] -> [_]; n, m whole", "string",
        "(ids,position?) -> (str) {clean_up_tokenization_spaces:int=1,skip_special_tokens:int=0,use_indices:int=0,"
        "vocab_file:string,suffix_indicator:string,cls_token:string,mask_token:string,pad_token:string,"
        "sep_token:string,unk_token:string}"),
    EXTENSION("BpeDecoder", 1, 1, "[b.., s] -> [b..]; s whole", "string",
              "(ids) -> (str) {added_tokens:string,all_special_ids:string,bos_token:string,byte_decoder:string,"
              "en_normalization:int,eos_token:string,id_vocab:string,skip_special_tokens:int,unk_token:string,"
              "whitespace_token:int}"),
    EXTENSION("SentencepieceTokenizer", 6, 2, "[b..] [] [] [] [] [] -> [_] [_]; b.. whole", "int32 int64",
              "(inputs,nbest_size?,alpha?,add_bos?,add_eos?,reverse?) -> (tokens,instance_indices?,token_indices?) "
              "{model:string}"),
    EXTENSION("SentencepieceDecoder", 2, 1, "[n..] [] -> [_]; n.. whole", "string",
              "(ids,fairseq?) -> (str) {model:string}"),
    EXTENSION("BasicTokenizer", 1, 1, "[b..] -> [_]; b.. whole", "string",
              "(text) -> (tokens) {do_lower_case:int=1,remove_control_chars:int=1,strip_accents:int=0,"
              "tokenize_chinese_chars:int=1,tokenize_punctuation:int=0}"),
    EXTENSION("WordpieceTokenizer", 2, 4, "[n] [m] -> [w] [_] [w] [w]; n, m, w whole", "string int64",
              "(text,row_indices?) -> (words,row_indices,start?,end?) {max_input_chars_per_word:int,"
              "suffix_indicator:string,unknown_token:string,vocab:string}"),
    EXTENSION("BlingFireSentenceBreaker", 1, 1, "[b..] -> [_]; b.. whole", "string",
              "(text) -> (sentences) {max_sentence:int,model:string}"),
    EXTENSION("TrieTokenizer", 1, 1, "[b..] -> [b.., _]; b.. whole", "int64", "(text) -> (ids) {vocab:string}"),
    EXTENSION("TrieDetokenizer", 1, 1, "[b.., s] -> [b..]; s whole", "string", "(ids) -> (text) {vocab:string}"),

    EXTENSION("StringConcat", 2, 1, "[i..] [i..] -> [i..]", "string", "(left,right) -> (text) {}"),
    EXTENSION("StringUpper", 1, 1, "[i..] -> [i..]", "string", "(x) -> (y) {}"),
    EXTENSION("StringLower", 1, 1, "[i..] -> [i..]", "string", "(x) -> (y) {}"),
    EXTENSION("StringStrip", 1, 1, "[i..] -> [i..]", "string", "(x) -> (y) {}"),
    EXTENSION("StringLength", 1, 1, "[i..] -> [i..]", "int64", "(x) -> (y) {}"),
    EXTENSION("StringEqual", 2, 1, "[i..] [i..] -> [i..]", "bool", "(x,y) -> (z) {}"),
    EXTENSION("StringHash", 2, 1, "[i..] [_..] -> [i..]", "int64", "(x,num_buckets) -> (y) {}"),
    EXTENSION("StringHashFast", 2, 1, "[i..] [_..] -> [i..]", "int64", "(x,num_buckets) -> (y) {}"),
    EXTENSION("StringMapping", 1, 1, "[i..] -> [i..]", "string", "(x) -> (y) {map:string}"),
    EXTENSION("StringRegexReplace", 3, 1, "[i..] [_..] [_..] -> [i..]", "string",
              "(text,pattern,rewrite) -> (y) {global_replace:int=1}"),
    EXTENSION("StringECMARegexReplace", 3, 1, "[i..] [_..] [_..] -> [i..]", "string",
              "(text,pattern,rewrite) -> (y) {global_replace:int=1,ignore_case:int=0}"),
    EXTENSION("StringRegexSplitWithOffsets", 3, 4, "[n..] [_..] [_..] -> [w] [w] [w] [_]; n.., w whole", "string int64",
              "(text,delimiter,keep?) -> (words,begin,end,rows) {}"),
    EXTENSION("StringECMARegexSplitWithOffsets", 3, 4, "[n..] [_..] [_..] -> [w] [w] [w] [_]; n.., w whole",
              "string int64", "(text,delimiter,keep?) -> (words,begin,end,rows) {ignore_case:int=0}"),
    EXTENSION("StringJoin", 3, 1, "[n..] [_..] [_..] -> [_..]; n.. whole", "string", "(x,separator,axis) -> (y) {}"),
    EXTENSION("StringSplit", 3, 3, "[n..] [_..] [_..] -> [w, 2] [w] [2]; n.., w whole", "int64 string int64",
              "(x,separator,skip_empty) -> (indices,values,shape) {}"),
    EXTENSION("StringToVector", 1, 1, "[i..] -> [i.., _]", "int64", "(text) -> (tokens) {map:string,unk:string}"),
    EXTENSION("VectorToString", 1, 1, "[b.., v] -> [_..]; b.., v whole", "string",
              "(tokens) -> (text) {map:string,unk:string}", .form = form_strings),
    EXTENSION("MaskedFill", 2, 1, "[n] [n] -> [_]; n whole", "0", "(value,mask) -> (output) {}"),
    EXTENSION("SegmentExtraction", 1, 2, "[b, n] -> [s, 2] [s]; b, n, s whole", "int64",
              "(input) -> (position,value) {}", .form = form_segments),
    EXTENSION("SegmentSum", 2, 1, "[n, d..] [n] -> [_, d..]; n whole", "0", "(data,segment_ids) -> (sum) {}"),
    EXTENSION("RaggedTensorToSparse", 1, 2, "[n] -> [_, 2] [2]; n whole", "int64", "(rows) -> (indices,shape) {}"),
    EXTENSION("RaggedTensorToDense", 4, 1, "[_..] [_..] [_..] [_..] -> [_, _]", "1",
              "(unused,values,shape?,splits?) -> (dense) {missing_value:int,tensor_shape:ints}"),
    EXTENSION("NegPos", 1, 2, "[i..] -> [i..] [i..]", "0", "(x) -> (neg,pos) {}"),
    EXTENSION("FastGelu", 2, 1, "[b.., h] [h] -> [b.., h]", "0", "(x,bias?) -> (y) {use_half2:int}"),
    EXTENSION("NegXPlus1", 1, 1, "[i..] -> [i..]", "0", "(x) -> (y) {}"),
    EXTENSION("ReplaceZero", 1, 1, "[i..] -> [i..]", "0", "(x) -> (y) {by:float}"),
    EXTENSION("MulSigmoid", 1, 1, "[i..] -> [i..]", "0", "(x) -> (y) {}"),
    EXTENSION("MulMulSigmoid", 2, 1, "[i..] [i..] -> [i..]", "0", "(x,y) -> (z) {}"),
    TWICE("AddAdd", "{transposeMiddle:int=0}"),
    TWICE("MulMul", "{transposeMiddle:int=0}"),
    TWICE("AddMul", "{transposeMiddle:int=0}"),
    TWICE("MulAdd", "{transposeMiddle:int=0}"),
    TWICE("SubMul", "{negative:int=0}"),
    TWICE("MulSub", "{negative:int=0}"),
    SHARED("AddSharedInput"),
    SHARED("MulSharedInput"),
    EXTENSION("Rotary", 2, 1, "[i.., r] [_] -> [i.., r]; r whole", "0", "(x,split?) -> (y) {side!:string}"),
    EXTENSION("Transpose2DCastFP16", 1, 1, "[m, n] -> [n, m]", "float16", "(x) -> (y) {}"),
    EXTENSION("Transpose2DCastFP32", 1, 1, "[m, n] -> [n, m]", "float32", "(x) -> (y) {}"),
    TOLD("ScatterNDOfShape", 3, "[_] [_..] [_..] -> [_..]; all whole",
         "(shape,indices,updates) -> (y) {reduction!:string}"),
    TOLD("MaskedScatterNDOfShape", 3, "[_] [_..] [_..] -> [_..]; all whole",
         "(shape,indices,updates) -> (y) {maskedValue!:int,reduction!:string}"),
    TOLD("TriMatrix", 2, "[_] [_] -> [_, _]; all whole", "(shape,values) -> (y) {}"),
    EXTENSION("Inverse", 1, 1, "[b.., m, n] -> [b.., m, n]; m, n whole", "0", "(x) -> (y) {}"),

    EXTENSION("DecodeImage", 1, 1, "[n] -> [_, _, 3]; n whole", "uint8", "(image) -> (pixels) {color_space:string}"),
    EXTENSION("ImageReader", 1, 1, "[n] -> [1, _, _, 3]; n whole", "uint8", "(path) -> (pixels) {}"),
    EXTENSION("ImageDecoder", 1, 1, "[n] -> [_, _, 3]; n whole", "uint8", "(image) -> (pixels) {}"),
    EXTENSION("EncodeImage", 1, 1, "[h, w, c] -> [_]; h, w, c whole", "uint8",
              "(pixels) -> (image) {color_space:string,format:string}"),
    EXTENSION(
        "DrawBoundingBoxes", 2, 1, "[h, w, c] [n, k] -> [h, w, c]; h, w, c, n, k whole", "uint8",
        "(pixels,boxes) -> (drawn) {colour_by_classes:int=1,mode:string=XYXY,num_classes:int=10,thickness:int=4}"),
    EXTENSION("GaussianBlur", 3, 1, "[b, h, w, c] [_..] [_..] -> [b, h, w, c]; h, w whole", "0",
              "(pixels,size,sigma) -> (blurred) {}"),
    EXTENSION("AudioDecoder", 2, 1, "[n] [_..] -> [1, _]; n whole", "float32",
              "(audio,format?) -> (samples) {downsampling_rate:int,stereo_to_mono:int,target_sample_rate:int,"
              "target_sample_rates:ints}"),
    EXTENSION("StftNorm", 5, 1, "[b, n] [_..] [_..] [_..] [_..] -> [b, _, _]; n whole", "0",
              "(samples,fft_length,hop_length,window,frame_length?) -> (norms) {onesided:int=1}"),
    {.name = NULL},
};
