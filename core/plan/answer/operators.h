#pragma once
/*
 * operators - the operator table as people and programs read it.
 *
 *   {"operators": [{"name": "MatMul", "domain": "ai.onnx", "rules": [{"since": 1, "last": null, "rule", "source",
 *     "flags": ["view", ..]}], "versions": [1, 9, 13]}]}
 *
 * `rules` has one item for each entry of the table: the opset versions it covers and its factors in words (the words
 * are explained in api/operators.md). `versions` are those of ONNX's published schemas.
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/json_writer.h"

/* `name` NULL: all; "MatMul" in any domain, or "com.microsoft.Attention". SP_ERR_REQUEST "UNKNOWN_OPERATOR" with what
   is spelled alike when there is none. */
enum sp_status sp_operators_json(const char *name, struct sp_json *json, struct sp_error *err);
enum sp_status sp_operators_text(const char *name, struct sp_buf *buf, struct sp_error *err);

/* The reference page api/operators.md. */
void sp_operators_write_page(struct sp_buf *buf);
