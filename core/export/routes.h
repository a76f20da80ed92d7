#pragma once
/*
 * routes - the devices' models of a plan whose requests take several routes (search/routes/routed.h).
 *
 * A device has one model, which is the same on all of its routes but for what its inputs are called: they are named
 * after the device that makes them. So the first route that a device is on makes its model, and the manifest is a table
 * of where each input comes from, by route:
 *
 *   {"target", "devices", "order", "notes": as realize.h says, of all devices, each as on its first route,
 *    "routes": [{"share": 0.6, "devices": [0, 2], "order": [["device-0.onnx"], ["device-2.onnx"]],
 *                "inputs": [{"device": 2, "input": "h@0.7", "from": 0, "output": "h@0.7"}, ..]}, ..]}
 */
#include "export/files.h"

/* Whether the subject's plan has several routes. */
bool sp_file_has_routes(const struct sp_subject *subject);

/* The first route that the device, as the subject numbers it, is on. */
uint32_t sp_file_route_of(const struct sp_subject *subject, int64_t device);

/* The manifest. SP_ERR_UNSUPPORTED "ROUTES_DIFFER" where a device does not exchange the same on all of its routes. */
enum sp_status sp_file_route_manifest(const struct sp_file_request *request, enum sp_realize_target target,
                                      struct sp_recipe **ret_recipe, struct sp_error *err);
