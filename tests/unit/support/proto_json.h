#pragma once
/*
 * proto_json - protobuf's JSON mapping the other way round, for tests: a message as protobuf-c unpacks it, as text.
 * https://protobuf.dev/programming-guides/json
 */
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "base/buf.h"

struct proto_json_style {
    bool original_names; /* else camelCase */
    bool plain_numbers;  /* enums and integers of 64 bits as numbers; else names and text, as the mapping has them */
    bool url_base64;     /* the URL's alphabet without padding */
    bool escapes;        /* every character of a text as an escape */
};

void proto_json_write(const ProtobufCMessage *message, const struct proto_json_style *style, struct sp_buf *buf);
