#pragma once
/*
 * protobuf_fields - protobuf fields appended to a recipe.
 *
 * A message that holds others is put together in a recipe of its own and then put as a field: its length comes before
 * it. Nothing here is checked; a recipe that has failed says so in the end (sp_recipe_status()).
 */
#include "graph/model.h"
#include "realize/recipe.h"

/* Field numbers of onnx.proto. */
enum {
    SP_MODEL_IR_VERSION = 1,
    SP_MODEL_PRODUCER_NAME = 2,
    SP_MODEL_GRAPH = 7,
    SP_MODEL_OPSET_IMPORT = 8,
    SP_MODEL_METADATA_PROPS = 14,
    SP_MODEL_FUNCTIONS = 25,
    SP_PUT_GRAPH_NODE = 1,
    SP_PUT_GRAPH_NAME = 2,
    SP_PUT_GRAPH_INITIALIZER = 5,
    SP_PUT_GRAPH_INPUT = 11,
    SP_PUT_GRAPH_OUTPUT = 12,
    SP_PUT_GRAPH_VALUE_INFO = 13,
    SP_PUT_GRAPH_SPARSE_INITIALIZER = 15,
    SP_PUT_NODE_INPUT = 1,
    SP_PUT_NODE_OUTPUT = 2,
    SP_PUT_NODE_NAME = 3,
    SP_PUT_NODE_OP_TYPE = 4,
    SP_PUT_NODE_ATTRIBUTE = 5,
    SP_PUT_NODE_DOMAIN = 7,
    SP_PUT_NODE_OVERLOAD = 8,
    SP_PUT_NODE_DEVICE_CONFIGURATIONS = 10,
    SP_PUT_FUNCTION_NODE = 7,
    SP_PUT_TENSOR_DIMS = 1,
    SP_PUT_TENSOR_DATA_TYPE = 2,
    SP_PUT_TENSOR_STRING_DATA = 6,
    SP_PUT_TENSOR_NAME = 8,
    SP_PUT_TENSOR_RAW_DATA = 9,
    SP_PUT_TENSOR_EXTERNAL_DATA = 13,
    SP_PUT_TENSOR_METADATA = 16,
    SP_PUT_TENSOR_DATA_LOCATION = 14
};

void sp_put_int(struct sp_recipe *out, uint32_t field, int64_t value);
void sp_put_float(struct sp_recipe *out, uint32_t field, double value); /* as float32 */
void sp_put_bytes(struct sp_recipe *out, uint32_t field, const void *bytes, size_t size);
void sp_put_text(struct sp_recipe *out, uint32_t field, const char *text);
void sp_put_text_pair(struct sp_recipe *out, uint32_t field, const char *text, const char *more); /* one text */
void sp_put_entry(struct sp_recipe *out, uint32_t field, const char *key, const char *value); /* StringStringEntry */

/* Tag and length of a message or bytes whose `size` bytes follow. */
void sp_put_head(struct sp_recipe *out, uint32_t field, uint64_t size);
void sp_put_message(struct sp_recipe *out, uint32_t field, const struct sp_recipe *message);

/* Bytes of the model's file as they stand: few are copied, others kept as a range. */
void sp_put_original(struct sp_recipe *out, const struct sp_model *model, struct sp_span span);

/* ValueInfoProto. Extents that are symbols keep their name, where it is one; those that are expressions are left
   open. SP_ERR_MEMORY. */
enum sp_status sp_put_value_info(struct sp_recipe *out, uint32_t field, const char *name, const char *suffix,
                                 const struct sp_type *type, struct sp_error *err);
/* TypeProto. */
enum sp_status sp_put_type(struct sp_recipe *out, uint32_t field, const struct sp_type *type, struct sp_error *err);
/* ValueInfoProto of a tensor; dims NULL: no rank, -1: not known. */
enum sp_status sp_put_tensor_info(struct sp_recipe *out, uint32_t field, const char *name, enum sp_dtype dtype,
                                  uint32_t rank, const int64_t *dims, struct sp_error *err);
