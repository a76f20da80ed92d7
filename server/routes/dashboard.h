#pragma once
/* dashboard - the files of the web page, generated into the program by the build (embed_dashboard.py). */
#include "http/respond.h"

struct dashboard_file {
    const char *name; /* "index.html", and what lies in assets/ */
    const char *type;
    struct fixed content;
};

/* Ended by an entry without a name; the first one is the page. */
extern const struct dashboard_file dashboard_files[];
