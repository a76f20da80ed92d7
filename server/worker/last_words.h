#pragma once
/*
 * last_words - what a process says when a fault ends it.
 *
 * On SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL it writes the signal and the stack of calls to standard error, on a
 * stack of its own, and then dies of the same signal. Under the sanitizers nothing is set up: theirs are better.
 */

/* Before the process gives up its rights: what is needed later is loaded now. */
void last_words_set_up(void);
