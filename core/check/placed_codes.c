/* Files of other tools that say where nodes run (core/import): the table. */
#include "check/diagnostic.h"

#define NOTE    SP_SEVERITY_NOTE
#define WARNING SP_SEVERITY_WARNING
#define ERROR   SP_SEVERITY_ERROR

const struct sp_diagnostic_code sp_codes_placed[] = {
    {"PLACED", NOTE, "Where the file puts nodes: a partition, stage or device, and its first and last node.",
     "Nothing, where that is meant.", "core/import/import.h"},
    {"PLACED_TWICE", ERROR, "The file puts a node in two places. The first one that it lists counts.",
     "Take the node out of one of them.", "QEfficient, mdp_generator.py; the user guide of PopRT"},
    {"PLACED_NAME_UNKNOWN", ERROR,
     "The file names a node or tensor that the model does not have, on which depends where other nodes run.",
     "Write the name as the model has it, or use the file with the model that it was made for.",
     "onnxruntime-genai, decoder_only_pipeline.cpp; the user guide of PopRT; Polygraphy, multi_device"},
    {"PLACED_NAME_IGNORED", WARNING,
     "The file has names that no node of the model has. The tool passes over them, as compilers rename and remove "
     "nodes.",
     "If these are all or most names, the file is for another model.",
     "QEfficient, mdp_generator.py; ONNX Runtime, layering_annotations.cc"},
    {"PLACED_DEVICE_UNKNOWN", ERROR, "A partition runs on a device that no connection of the file lists.",
     "Add the device to the file's connections.", "QEfficient, mdp_generator.py"},
    {"PLACED_DEVICE_SHARED", WARNING,
     "Two partitions run on one device. The stages of a pipeline then wait for each other.",
     "Give each partition devices of its own.", "QEfficient, mdp_generator.py"},
    {"PLACED_AXIS_UNKNOWN", ERROR,
     "The hints split an axis that the tensor does not have, or count other axes than it has.",
     "Write the axis of the sequence, counted from 0, and how many axes the tensor has.", "Polygraphy, multi_device"},
    {"PLACED_NO_ATTENTION", WARNING,
     "The hints list an attention layer by a tensor with which no product, softmax and product begins: nothing is "
     "gathered there.",
     "Name what the first of the two products takes first.", "Polygraphy, multi_device"},
    {0},
};
