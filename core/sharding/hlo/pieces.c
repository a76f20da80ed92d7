/* How the dims of a tile assignment cut an iota of devices, and the checks of both. */
#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "sharding/hlo/internal.h"

enum sp_status sp_hlo_tile_count(uint32_t count, const int64_t *dims, int64_t *ret_product, struct sp_error *err)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (dims[i] < 1)
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_TILE_DIM",
                           "Tile dim %" PRIu32 " is %" PRId64 ", but a tensor axis is cut in 1 tile or more.", i,
                           dims[i]);
        if (!sp_mul_i64(product, dims[i], &product))
            return sp_fail(err, SP_ERR_MALFORMED, "TOO_MANY_TILES",
                           "The product of the tile dims does not fit in 64 bits.");
    }
    *ret_product = product;
    return SP_OK;
}

enum sp_status sp_hlo_list_order(struct sp_arena *arena, int64_t count, const int64_t *ids,
                                 struct sp_device_order *ret_order, struct sp_error *err)
{
    struct sp_error inner = {0};
    enum sp_status status = sp_device_order_list(arena, count, ids, ret_order, &inner);
    if (status == SP_OK)
        return SP_OK;
    if (strcmp(inner.code, "DUPLICATE_DEVICE") == 0)
        return sp_fail(err, status, inner.code, "A device is not unique in tile assignment: %s", inner.message);
    if (strcmp(inner.code, "NEGATIVE_DEVICE") == 0)
        return sp_fail(err, status, inner.code, "A device is negative in tile assignment: %s", inner.message);
    if (err != NULL)
        *err = inner;
    return status;
}

void sp_hlo_cut(uint32_t tile_count, const int64_t *tiles, const struct sp_device_order *iota, uint32_t *ret_count,
                struct sp_hlo_piece pieces[static SP_HLO_MAX_PIECES])
{
    uint32_t tile = 0, place = 0, count = 0;
    int64_t in_tile = 1, in_source = 1; /* what is left of the tile dim before `tile`, and of the iota's dim */
    *ret_count = 0;
    for (;;) {
        while (in_tile == 1 && tile < tile_count)
            in_tile = tiles[tile++];
        while (in_source == 1 && place < iota->rank)
            in_source = iota->dims[iota->perm[place++]];
        if (in_tile == 1 || in_source == 1)
            break;
        int64_t small = in_tile < in_source ? in_tile : in_source, large = in_tile < in_source ? in_source : in_tile;
        if (large % small != 0)
            return;
        pieces[count++] = (struct sp_hlo_piece){tile - 1, iota->perm[place - 1], small};
        in_tile /= small;
        in_source /= small;
    }
    *ret_count = count;
}

void sp_hlo_index_pieces(uint32_t count, const struct sp_hlo_piece *pieces, uint32_t *ret_index)
{
    for (uint32_t i = 0; i < count; i++) {
        ret_index[i] = 0;
        for (uint32_t j = 0; j < count; j++)
            ret_index[i] +=
                pieces[j].source < pieces[i].source || (pieces[j].source == pieces[i].source && j < i) ? 1 : 0;
    }
}
