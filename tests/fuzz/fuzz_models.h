#pragma once
/* fuzz_models - what targets that take a model share: properties of errors and files, requests, and ways through the
 * program. */
#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "export/export.h"
#include "onnx/splice.h"

/* Aborts when a property is broken. */
void fuzz_require(bool condition);

/* An error of the input: it has a code, a sentence, a limit's name where it is one, and is not our fault. */
void fuzz_check_error(enum sp_status status, const struct sp_error *err);

/* The result of a splice over the bytes, and destroys the splice; the caller releases the buffer. */
struct sp_buf fuzz_realise(struct sp_splice *splice, const uint8_t *bytes);

/* The model is read again, and stripped it is the original again; an original with a record of ours or with a
   configuration of the name that was added is let off. */
void fuzz_check_strip(const struct sp_buf *written, const uint8_t *bytes, size_t size);

/* The structure of the model's annotations is sound. (That they agree with the operators' rules is tested on models
   whose splits divide; here they need not.) */
void fuzz_check_annotations(const struct sp_buf *written);

/* A request to complete shardings: some tensors of the model, by `seed`, get a split over 2 to 4 devices. NULL when the
   bytes are no model. */
json_t *fuzz_request(const uint8_t *bytes, size_t size, const char *mode, uint64_t seed);

/* What is random about a request is taken from a hash of the bytes, so that a found input tells it all. */
uint64_t fuzz_hash(const uint8_t *bytes, size_t size);

/* Everything that a check does, as JSON and as text; whether there is no error in the model. */
bool fuzz_check_model(const uint8_t *bytes, size_t size);

/* A completion of fuzz_request(), written, read and stripped again. `was_valid`: what the check found. */
void fuzz_complete_model(const uint8_t *bytes, size_t size, const char *mode, uint64_t seed, bool was_valid);

/* One export into `out`, which the caller releases; false when it was refused, which must be said well. */
bool fuzz_export(const struct sp_subject *subject, const char *format, struct sp_buf *out);
/* What was written is read again. */
void fuzz_check_file(const struct sp_buf *file);

/* All formats of export.h: JSON is JSON, and a model is read again. `opens`: its shapes can be inferred as it is, too,
   without the extents of a plan. */
void fuzz_check_formats(const struct sp_subject *subject, bool opens);
