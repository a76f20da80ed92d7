#pragma once
/*
 * device_catalog - the built-in devices for people and programs.
 *
 * `name` is a device or a slice of one, and says what is shown: that device, or all that have the name as a part of
 * theirs (slices only where it has a '/'), or with NULL the catalog without slices. SP_ERR_REQUEST "UNKNOWN_DEVICE"
 * with similar names where there is none.
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/json_writer.h"

/* {"devices": [..]}, each as a file of api/devices. */
enum sp_status sp_devices_json(const char *name, struct sp_json *json, struct sp_error *err);

/* A table; of one device everything: figures, what kernels reach and whose default that is, slices, sources. */
enum sp_status sp_devices_text(const char *name, struct sp_buf *buf, struct sp_error *err);
