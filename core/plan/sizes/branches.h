#pragma once
/*
 * branches - a model whose conditions are known, without the branches that never run.
 *
 * Where the value of an input is given, the conditions of If nodes of the main graph may be known. Such a node becomes
 * the nodes of the branch that runs, and an Identity for each of its outputs: a decoder inside one If is then planned
 * and split like any other. The file is written anew for that, as a description in JSON is (plan/model_file.h).
 */
#include "onnx/reader.h"
#include "plan/model_file.h"
#include "plan/sizes/sizes.h"

/* Replaces the file's bytes where a branch is taken; nothing happens where no value is given, none is known, or names
   of the branches collide. `read` says how it is read. */
enum sp_status sp_take_branches(struct sp_budget *budget, const struct sp_read_options *read,
                                const struct sp_sizes *sizes, struct sp_model_file *file, struct sp_error *err);
