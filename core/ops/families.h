#pragma once
/*
 * families - the operator entries, one array per family file, each ended by an entry whose name is NULL.
 *
 * Adding a family: its array here, its line in table.c, its file in meson.build.
 */
#include "ops/op.h"

extern const struct sp_op sp_ops_shape[];
extern const struct sp_op sp_ops_movement[];
extern const struct sp_op sp_ops_indexing[];
extern const struct sp_op sp_ops_casting[];
