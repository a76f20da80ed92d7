#pragma once
/*
 * json_memory - what jansson allocates from.
 *
 * When memory runs out, jansson (2.14) writes texts with holes, takes a key for a syntax error, and damages tables that
 * it could not enlarge. So it is not told: it gets blocks of a reserve then. Only when that is used up too it fails.
 * Texts that it makes must come from json_memory_text(): free() does not know the reserve.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At the start of the program. */
void json_memory_set_up(void);

/* json_dumps(), as a string to free(); NULL without memory. */
char *json_memory_text(const json_t *json, size_t flags);

/* Gives back what large trees left to malloc, every few seconds; in the main thread, now and then. Their small blocks
   lie all over the heaps of the HTTP threads, which free() alone keeps for ever. */
void json_memory_tick(uint64_t now_ms);

/* Whether memory was short in this thread since the last call: what jansson says is wrong may not be wrong then. */
bool json_memory_was_short(void);
