#pragma once
/* example_text - examples that stand at the head of a header, and run as files of tests. */

/* Fails the test unless the example in a header's comment, which begins with #include <stdio.h>, is the file's text. Both
   are paths below the source's root. */
void example_check(const char *header, const char *file);
