#pragma once
/*
 * convert - what people ask: one sharding in another notation, and the steps from one sharding to another.
 *
 * The command line and the daemon put the same JSON request in here and print the same answer; see api/openapi.yaml for
 * both documents.
 *
 *   convert
 *     asks     {"from": "hlo", "to": "onnx", "spec": TEXT or OBJECT, "shape": [..], "rank", "devices",
 *              "mesh": TEXT or OBJECT, "hlo_version": 1, 2 or 3, "tensor_name", "holdings": bool}
 *     answers  {"from", "to", "spec": TEXT or OBJECT, "text": TEXT, and the dialect's own members,
 *              "lost": [{"code", "message"}],
 *              "holdings": [{"device", "shards": [[[start, limit], ..] for each axis], ..}]}
 *
 *   reshard
 *     asks     {"shape", "dtype", "from": TEXT or OBJECT, "to": TEXT or OBJECT, "from_dialect", "to_dialect",
 *              "mesh", "devices", "cluster": {..}, "memory_limit_bytes"}
 *     answers  {"from_dialect", "to_dialect", "seconds", "bytes", "total_bytes", "peak_bytes", "optimal",
 *              "steps": [{"kind", "text", "axes", "dims", "moves", "group_size", "bytes", "total_bytes",
 *              "seconds", "peak_bytes", "sharding": TEXT, "transfers": [..]}],
 *              "lost", "cluster", "cluster_assumed"}
 *
 * A dialect that is not named is recognised by how the text begins. Unknown members are errors with a JSON pointer.
 */
#include <jansson.h>

#include "base/buf.h"
#include "sharding/dialect.h"
#include "sharding/reshard/reshard.h"

/* Answers as JSON. Nothing is written to it on failure. */
enum sp_status sp_convert_json(struct sp_arena *arena, const json_t *request, struct sp_json *json,
                               struct sp_error *err);
enum sp_status sp_reshard_json(struct sp_arena *arena, const json_t *request, struct sp_json *json,
                               struct sp_error *err);

/* Answers as the text that the commands print: the result on the first lines, what is lost after it as "# lost: ..". */
enum sp_status sp_convert_text(struct sp_arena *arena, const json_t *request, struct sp_buf *buf, struct sp_error *err);
enum sp_status sp_reshard_text(struct sp_arena *arena, const json_t *request, struct sp_buf *buf, struct sp_error *err);
