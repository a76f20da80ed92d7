#pragma once
/*
 * catalog_table - what catalog_table.py makes of api/devices at build time. Private to the cluster: others look devices
 * up with device.h.
 */
#include "cost/cluster/device.h"

/* The devices, in the order of api/devices/meson.build. */
extern const struct sp_device sp_catalog_devices[];
extern const uint32_t sp_catalog_device_count;

/* Slices, by the table api/devices/rules/mig.json. */
extern const struct sp_device sp_catalog_slices[];
extern const uint32_t sp_catalog_slice_count;

/* Defaults by kind, api/devices/rules/kinds.json: only the parts of sp_device_figures. */
extern const struct sp_device sp_catalog_kinds[SP_DEVICE_KIND_COUNT];
