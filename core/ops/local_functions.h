#pragma once
/*
 * local_functions - the `local` functions of the operator families (ops/local.h), for the table's entries.
 *
 * They stand in files of their own, local_FAMILY.c, beside the family's rules: local_reduction.c beside reduction.c.
 */
#include "ops/local.h"

