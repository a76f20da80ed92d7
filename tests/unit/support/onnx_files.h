#pragma once
/*
 * onnx_files - any protobuf bytes from a short notation, and the files of the test data.
 *
 *     struct sp_buf file = onnx_encode("1:8 7{ 1{1'x' 2'y' 4'Relu'} 11{1'x'} 12{1'y'} 2'g' } 8{2:17}");
 *
 * A field is its number and then: `:7` a varint (negative as int64), `'abc'` text, `h0aff` bytes in hex, `~1.5` a
 * float32, `{...}` a message. `*100` behind a field repeats it. Blanks separate.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

/* The caller releases the buffer. A wrong notation fails the test. */
struct sp_buf onnx_encode(const char *notation);

/* A model read from bytes, which must stay. Without `err` a failure fails the test. */
struct onnx_model {
    struct sp_arena *arena;
    struct sp_model *model;
    struct sp_error err;
};
enum sp_status onnx_read(struct onnx_model *model, const void *bytes, size_t size);
void onnx_release(struct onnx_model *model);

/* Reads what the notation says and expects this error code (and limit name, unless NULL). */
void onnx_expect(const char *notation, enum sp_status status, const char *code, const char *limit);
void onnx_expect_bytes(const void *bytes, size_t size, enum sp_status status, const char *code, const char *limit);

/* The result of a splice over `original`, and destroys the splice; the caller releases the buffer. */
struct sp_buf onnx_result(struct sp_splice *splice, const void *original);

/* Calls visit() with each regular file below `folder` whose name ends in `.onnx`, mapped; false when the folder is
   absent. The order is that of the names. */
bool onnx_each_file(const char *folder, void (*visit)(const char *path, const void *bytes, size_t size, void *context),
                    void *context);

/* $SHARDPLAN_TEST_DATA, else ../shared/data next to the source tree, and `name` in it; static. */
const char *onnx_data(const char *name);

/* Unpacks the model.onnx files of the archive onnx-backend-tests.tar.gz into a new folder; NULL when it is absent. */
const char *onnx_unpack_backend_tests(void);
void onnx_remove_folder(const char *folder);
