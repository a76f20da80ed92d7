#pragma once
/* version - what this build calls itself. The build passes the project's version. */

#ifndef SPD_VERSION
#define SPD_VERSION "unknown"
#endif

/* Newest ONNX IR version that models may have. */
#define SPD_ONNX_IR_VERSION 14
