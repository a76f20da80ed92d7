#pragma once
/*
 * dtype - the element types of ONNX tensors (TensorProto.DataType of IR 14; numbers are the wire's).
 */
#include <stdbool.h>
#include <stdint.h>

enum sp_dtype {
    SP_DTYPE_UNDEFINED = 0,
    SP_DTYPE_FLOAT = 1,
    SP_DTYPE_UINT8 = 2,
    SP_DTYPE_INT8 = 3,
    SP_DTYPE_UINT16 = 4,
    SP_DTYPE_INT16 = 5,
    SP_DTYPE_INT32 = 6,
    SP_DTYPE_INT64 = 7,
    SP_DTYPE_STRING = 8,
    SP_DTYPE_BOOL = 9,
    SP_DTYPE_FLOAT16 = 10,
    SP_DTYPE_DOUBLE = 11,
    SP_DTYPE_UINT32 = 12,
    SP_DTYPE_UINT64 = 13,
    SP_DTYPE_COMPLEX64 = 14,
    SP_DTYPE_COMPLEX128 = 15,
    SP_DTYPE_BFLOAT16 = 16,
    SP_DTYPE_FLOAT8E4M3FN = 17,
    SP_DTYPE_FLOAT8E4M3FNUZ = 18,
    SP_DTYPE_FLOAT8E5M2 = 19,
    SP_DTYPE_FLOAT8E5M2FNUZ = 20,
    SP_DTYPE_UINT4 = 21,
    SP_DTYPE_INT4 = 22,
    SP_DTYPE_FLOAT4E2M1 = 23,
    SP_DTYPE_FLOAT8E8M0 = 24,
    SP_DTYPE_UINT2 = 25,
    SP_DTYPE_INT2 = 26,
    SP_DTYPE_FLOAT6E2M3 = 27,
    SP_DTYPE_FLOAT6E3M2 = 28,
    SP_DTYPE_COUNT
};

/* "float32", "int64", "bool", "bfloat16", "float8e4m3fn", "string", "undefined", ...; static; NULL for a number that is
   no data type. The names are NumPy's where NumPy has the type and ONNX's in lower case otherwise. */
const char *sp_dtype_name(int64_t dtype);

/* The type of such a name (also "float" and "double"), or SP_DTYPE_UNDEFINED. */
enum sp_dtype sp_dtype_parse(const char *name);

/* Bits of one element; 0 for strings, UNDEFINED and unknown numbers. */
int sp_dtype_bits(int64_t dtype);

/* Bytes of `count` elements, 2-, 4- and 6-bit types packed and rounded up; a string counts as 16 bytes (a pointer and a
   length, as runtimes hold it). -1 on overflow, a negative count or an unknown type. */
int64_t sp_dtype_bytes(int64_t dtype, int64_t count);

/* Any float type, bfloat16 and the 8-, 6- and 4-bit floats included. */
bool sp_dtype_is_float(int64_t dtype);

/* Any signed or unsigned integer type; bool is none. */
bool sp_dtype_is_integer(int64_t dtype);

/* The IR version of ONNX that the type came with (its docs/Versioning.md); 0: it always was there, or is no data type. */
int64_t sp_dtype_ir_version(int64_t dtype);
