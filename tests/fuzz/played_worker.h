#pragma once
/*
 * played_worker - worker processes that are only played, for fuzz targets of the daemon's side.
 *
 * Linked into a program this takes the place of uv_spawn(), uv_process_kill() and, for processes, uv_close(): a worker
 * is three pairs of sockets. It takes one text each time it is given a job and writes it to its standard output and,
 * from a 0x01 on, to its standard error; without a line feed at its end the worker dies then. What asks the HTTP
 * library for a connection's state finds nothing, and reports of crashes are not kept.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts with NULs between them; they are not copied. */
void played_begin(const uint8_t *texts, size_t size);

/* What the workers do after a turn of the loop; false when they did nothing. */
bool played_step(void);

unsigned played_texts(void); /* that were written so far */
void played_end(void);       /* the loop is closed */
