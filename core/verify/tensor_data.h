#pragma once
/*
 * tensor_data - the bytes of a tensor's elements, as they lie in a file: in the model's own, or in another one, which the
 * request's reader reads (struct sp_verify_weights). Reads are small, or through a window; nothing is kept whole.
 *
 * Elements that a file has as numbers of a packed field (float_data, double_data) are bytes, too; other forms are not.
 */
#include "graph/model.h"
#include "verify/verify.h"

struct sp_tensor_data {
    const struct sp_model *model;
    const struct sp_tensor *tensor;
    const struct sp_verify_weights *weights; /* NULL: nobody reads other files */
    uint32_t program;                        /* SP_VERIFY_ORIGINAL, or its index in the request */
    unsigned char *window;                   /* what was read of another file */
    uint64_t window_bytes;                   /* its size */
    uint64_t start, filled;                  /* bytes of the tensor that are in it */
};

/* Bytes of an element; 0 where elements are no whole bytes. */
unsigned sp_tensor_data_width(const struct sp_tensor *tensor);

/* Whether bytes are there: first and last of them can be read. */
bool sp_tensor_data_is_there(struct sp_tensor_data *data);

/* `size` bytes of the tensor from `offset` on, which stay until the next call: in the file's memory, or read into `buffer`;
   NULL where they are not there. */
const unsigned char *sp_tensor_data_view(struct sp_tensor_data *data, uint64_t offset, size_t size, void *buffer);

/* The same through the window, for places that are near each other; no more bytes than it has. */
const unsigned char *sp_tensor_data_near(struct sp_tensor_data *data, uint64_t offset, size_t size);
