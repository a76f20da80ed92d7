#pragma once
/* device_text - one device as people read it: a row of a table, or everything. */
#include "base/buf.h"
#include "cost/cluster/device.h"

/* The line above the rows. */
void sp_device_text_head(struct sp_buf *buf);
void sp_device_text_row(const struct sp_device *device, struct sp_buf *buf);

void sp_device_text(const struct sp_device *device, struct sp_buf *buf);
