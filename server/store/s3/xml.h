#pragma once
/*
 * xml - the text of elements in the answers of S3 and STS.
 *
 * These answers are flat lists of elements without attributes that matter, so nothing is parsed into a tree: an element
 * is looked for by name from a place on. Anything that is not such XML is an element that is not there.
 */
#include <stdbool.h>
#include <stddef.h>

/* The text of the next <name>..</name> at or behind *at, with the five entities of XML replaced, into `ret` (`size`
   bytes with the NUL). *at goes behind the element. False when there is none, or its text does not fit. */
bool xml_next(const char **at, const char *name, char *ret, size_t size);

/* The first one of the document. */
bool xml_text(const char *document, const char *name, char *ret, size_t size);
