#pragma once
/*
 * signature_table - what the build makes of the tables in core/ops/signatures; private to signature.c.
 */
#include "ops/table/signature.h"

/* Sorted by domain, name and version, compared byte by byte. */
extern const struct sp_signature sp_signature_table[];
extern const uint32_t sp_signature_table_count;

/* The domains of the tables, also those without operators; ends with NULL. */
extern const char *const sp_signature_domains[];
