#pragma once
/* openapi - api/openapi.yaml as JSON, generated into the program by the build. */

extern const char openapi_json[];
