#pragma once
/*
 * layout - line ends that the HTTP library has already removed.
 *
 * libmicrohttpd 0.9.75 ends a line at CR LF and at a bare LF, and joins a folded line to the one before. A proxy in
 * front may see other lines in the same bytes, and then one request for it is two for us. The library hides what it
 * found, but it parses in place: the strings that it hands out lie in its read buffer, where CR and LF have become
 * NULs. So what lies between two of them tells how the first one ended:
 *
 *   GET SP /x SP HTTP/1.1 0 0 Host 0 SP a 0 0 Accept 0 SP b 0 0 0 0
 *
 * Two NULs after each line: sound. One: a bare LF. Anything else: a NUL within, a folded line (which is a copy
 * elsewhere), blanks in the request line. Pointers are compared, and nothing is read but between two of them that are
 * where they must be. What cannot be told is what leaves the same NULs: one that the client itself has put in the place
 * of a CR or in front of a line before the request, and a line of a colon that ends in a bare LF, in the place of the
 * empty line. A proxy that passes these on is one that takes anything.
 *
 * Whether the library of this process works so is found out once. Newer ones lay out their buffer in another way, but
 * can be told to refuse such requests by themselves.
 */
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* What a request line consists of, as the library has handed it out. */
struct layout {
    const char *method, *version;
    const char *target; /* from the first callback, before anything was split off */
    size_t target_size;
};

/* MHD_OPTION_STRICT_FOR_CLIENT for the library of this process: 1 where that closes these gaps. In 0.9.75 it would not,
   and only have it send pages of its own where we answer with a problem. */
int layout_strictness(void);

/* At start, before the first request: tries the library with sound and unsound requests. False when unsound ones
   would pass unseen. */
bool layout_learn(void);

/* False when a line of the request did not end in CR LF. */
bool layout_is_sound(struct MHD_Connection *connection, const struct layout *layout);
