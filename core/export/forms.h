#pragma once
/*
 * forms - how a format is written where the tools that read it differ: words that the user gives, "upper,cores=14".
 *
 *   upper           tensorrt: values of DistCollective in upper case, and NONE for gathers, as the operator's page has them
 *   listed          tensorrt: groups lists all ranks of a world, in place of an empty list
 *   casts           tensorrt: 16-bit floats are float32 in collectives, with a Cast on both sides
 *   no-all-to-all   tensorrt: all-gathers in place of ALL_TO_ALL, which TensorRT 10.16 does not have
 *   no-bfloat16     ort-collectives: bfloat16 is float32 in collectives, for ONNX Runtime before 1.30
 *   cores=N         qualcomm-mdp: cores of each device, 16 without it
 *
 * A word that another format has changes nothing.
 */
#include "realize/realize.h"

#define SP_MAX_CORES 1024 /* of one device */

struct sp_file_forms {
    struct sp_realize_forms realize;
    int64_t cores; /* 0: the format's own default */
};

/* "" has no words. SP_ERR_REQUEST "UNKNOWN_FORM" with the word. */
enum sp_status sp_file_forms_parse(const char *text, struct sp_file_forms *ret_forms, struct sp_error *err);
