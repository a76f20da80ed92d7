#pragma once
/* openapi - api/openapi.yaml with the types of api/types as JSON, and api/schema, generated into the program by the build. */

extern const char openapi_json[];

/* A schema by the name of its file; the table ends with an entry without a name. */
struct openapi_schema {
    const char *name, *json;
};
extern const struct openapi_schema openapi_schemas[];
