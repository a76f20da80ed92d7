/*
 * The web page: one document and what it loads. It has no data: that it asks of /v1, with the credentials that people
 * give it, so anybody may have it. The names of what it loads hold a hash of the content and never mean another one.
 */
#include "routes/dashboard.h"

#include <string.h>

#include "routes/routes.h"

/* Scripts and styles from here alone, none in the page itself, and nothing from or to another place. */
#define POLICY                                                                                                         \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "        \
    "worker-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#define NO_PERMISSIONS                                                                                                 \
    "accelerometer=(), bluetooth=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), "            \
    "magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=(), xr-spatial-tracking=()"

/* Also with a 304, whose headers take the place of those that a browser has kept. */
static void add_headers(struct request *request)
{
    request_add_header(request, "Content-Security-Policy", "%s", POLICY);
    request_add_header(request, "Permissions-Policy", "%s", NO_PERMISSIONS);
    request_add_header(request, "Cross-Origin-Opener-Policy", "same-origin");
    request_add_header(request, "X-Frame-Options", "DENY");
}

enum verdict dashboard_page(struct request *request)
{
    const struct dashboard_file *page = &dashboard_files[0];
    add_headers(request);
    request_add_header(request, "Cache-Control", "no-cache");
    request_add_header(request, "Vary", "Accept, Accept-Encoding");
    return respond_program(request, page->type, &page->content);
}

enum verdict dashboard_asset_finish(struct request *request)
{
    const struct dashboard_file *file = &dashboard_files[1];
    while (file->name != NULL && strcmp(file->name, request->item) != 0)
        file++;
    if (file->name == NULL)
        return respond_error(request, 404, "NOT_FOUND", "The dashboard has no file of this name; load it again.");
    add_headers(request);
    request_add_header(request, "Cache-Control", "public, max-age=31536000, immutable");
    request_add_header(request, "Vary", "Accept-Encoding");
    return respond_program(request, file->type, &file->content);
}
