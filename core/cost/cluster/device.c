#include "cost/cluster/device.h"

/* The first positive figure of a list of types. */
static double first_figure(const struct sp_device *device, const enum sp_dtype *types, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (device->flops[types[i]] > 0)
            return device->flops[types[i]];
    }
    return 0;
}

static double half_figure(const struct sp_device *device)
{
    static const enum sp_dtype types[] = {SP_DTYPE_FLOAT16, SP_DTYPE_BFLOAT16};
    return first_figure(device, types, 2);
}

static double float8_figure(const struct sp_device *device)
{
    static const enum sp_dtype types[] = {SP_DTYPE_FLOAT8E4M3FN, SP_DTYPE_FLOAT8E5M2, SP_DTYPE_FLOAT8E4M3FNUZ,
                                          SP_DTYPE_FLOAT8E5M2FNUZ, SP_DTYPE_FLOAT8E8M0};
    return first_figure(device, types, sizeof types / sizeof types[0]);
}

static double int8_figure(const struct sp_device *device)
{
    static const enum sp_dtype types[] = {SP_DTYPE_INT8, SP_DTYPE_UINT8};
    return first_figure(device, types, 2);
}

/* Where every list of fallbacks ends: positive as soon as any type has a figure. */
static double float32_figure(const struct sp_device *device)
{
    double narrow = float8_figure(device) > 0 ? float8_figure(device) : int8_figure(device);
    if (device->flops[SP_DTYPE_FLOAT] > 0)
        return device->flops[SP_DTYPE_FLOAT];
    if (half_figure(device) > 0)
        return half_figure(device) / 2;
    if (device->flops[SP_DTYPE_DOUBLE] > 0)
        return device->flops[SP_DTYPE_DOUBLE];
    if (narrow > 0)
        return narrow / 4;
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        if (device->flops[dtype] > 0)
            return device->flops[dtype];
    }
    return 0;
}

static double float64_figure(const struct sp_device *device)
{
    return device->flops[SP_DTYPE_DOUBLE] > 0 ? device->flops[SP_DTYPE_DOUBLE] : float32_figure(device) / 2;
}

static double or_float32(const struct sp_device *device, double figure)
{
    return figure > 0 ? figure : float32_figure(device);
}

double sp_device_flops(const struct sp_device *device, enum sp_dtype dtype)
{
    double half = or_float32(device, half_figure(device));

    if ((unsigned)dtype < SP_DTYPE_COUNT && device->flops[dtype] > 0)
        return device->flops[dtype];
    switch (dtype) {
    case SP_DTYPE_FLOAT16:
    case SP_DTYPE_BFLOAT16:
        return half;
    case SP_DTYPE_FLOAT8E4M3FN:
    case SP_DTYPE_FLOAT8E4M3FNUZ:
    case SP_DTYPE_FLOAT8E5M2:
    case SP_DTYPE_FLOAT8E5M2FNUZ:
    case SP_DTYPE_FLOAT8E8M0:
    case SP_DTYPE_FLOAT4E2M1:
    case SP_DTYPE_FLOAT6E2M3:
    case SP_DTYPE_FLOAT6E3M2:
        return float8_figure(device) > 0 ? float8_figure(device) : half;
    case SP_DTYPE_DOUBLE:
    case SP_DTYPE_COMPLEX128:
        return float64_figure(device);
    case SP_DTYPE_INT64:
    case SP_DTYPE_UINT64:
        return float32_figure(device) / 2;
    case SP_DTYPE_INT8:
    case SP_DTYPE_UINT8:
    case SP_DTYPE_INT4:
    case SP_DTYPE_UINT4:
    case SP_DTYPE_INT2:
    case SP_DTYPE_UINT2:
    case SP_DTYPE_BOOL:
        return or_float32(device, int8_figure(device));
    default:
        return float32_figure(device);
    }
}

bool sp_device_rounds_products(const struct sp_device *device)
{
    return device->kind == SP_DEVICE_GPU && sp_device_runtime(device)->rounds_products &&
           device->products[SP_DTYPE_FLOAT].flops_share <= 0 && device->flops_tf32 > device->flops[SP_DTYPE_FLOAT];
}

double sp_device_product_flops(const struct sp_device *device, enum sp_dtype dtype)
{
    return dtype == SP_DTYPE_FLOAT && sp_device_rounds_products(device) ? device->flops_tf32
                                                                        : sp_device_flops(device, dtype);
}
