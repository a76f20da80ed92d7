#pragma once
/*
 * files - what a plan or an annotated model is realised and exported as, each file a recipe (realize/recipe.h).
 *
 *   simulation        one plain ONNX model that does what all devices do (realize/realize.h)
 *   any of export.h   bytes in another notation, or the model with more in it
 *
 * A recipe is small, streams, and reads the model's file (source 0) and its external data when it is read, so it can
 * be made by one process and sent by another.
 */
#include "export/export.h"
#include "realize/realize.h"

struct sp_file_request {
    const struct sp_subject *subject;
    const char *format;
    enum sp_realize_external external;
    const struct sp_watch *watch; /* or NULL */
    /* Notes, each a full sentence; may be NULL. */
    enum sp_status (*note)(void *context, const char *code, const struct sp_node *node, const char *message,
                           struct sp_error *err);
    void *note_context;
};

/* Whether there is such a format, and its media type and what a file of it is called ("onnx"); NULL where there is
   none. */
const char *sp_file_media_type(const char *format);
const char *sp_file_extension(const char *format);

/* The file. SP_ERR_REQUEST "UNKNOWN_FORMAT", "NEEDS_PLAN"; else the errors of export.h and realize.h. The caller
   destroys the recipe; it does not need the subject. */
enum sp_status sp_file_create(const struct sp_file_request *request, struct sp_recipe **ret_recipe,
                              struct sp_error *err);
