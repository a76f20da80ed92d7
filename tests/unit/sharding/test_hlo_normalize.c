#include "hlo_texts.h"

/* Rows of XLA's normalisation: partial tiles. */
Test(hlo_normalize, partial_tiles)
{
    expect_prints("{devices=[4]<=[4] last_tile_dim_replicate}", "{replicated}");
    expect_prints("{devices=[1,1,4]3,2,1,0 last_tile_dim_replicate shard_as 2}", "{replicated shard_as 2}");
    expect_prints("{devices=[2,2,1]<=[4] last_tile_dim_replicate}", "{devices=[2,2]<=[4]}");
    expect_prints("{devices=[2,3]5,1,3,4,0,2 last_tile_dim_replicate}",
                  "{devices=[2,3]1,3,5,0,2,4 last_tile_dim_replicate}");
}

/* The minor dims that make up a group of replicas come in ascending order. [2,2,3] turned by (2,1,0) is the array
   0 6 3 9 / 1 7 4 10 / 2 8 5 11; sorted in fours, 0 3 6 9 / .., it is the iota [4,3] turned. Its pairs 0 6 / 3 9 / ..
   are in order already, as are those of [4,3] turned, 0 3 / 6 9 / .., which cut the 4. */
Test(hlo_normalize, sorts_replicas_of_iotas)
{
    expect_prints("{devices=[3,4]<=[2,2,3]T(2,1,0) last_tile_dim_replicate}",
                  "{devices=[3,4]<=[4,3]T(1,0) last_tile_dim_replicate}");
    expect_prints("{devices=[6,2]<=[2,2,3]T(2,1,0) last_tile_dim_replicate}",
                  "{devices=[6,2]<=[2,2,3]T(2,1,0) last_tile_dim_replicate}");
    expect_prints("{devices=[6,2]<=[4,3]T(1,0) last_tile_dim_replicate}",
                  "{devices=[6,2]<=[4,3]T(1,0) last_tile_dim_replicate}");
    /* 0 4 1 5 / 2 6 3 7 takes half of the 4 into the group: 0 1 4 5 / 2 3 6 7. */
    expect_prints("{devices=[2,4]<=[2,4]T(1,0) last_tile_dim_replicate}",
                  "{devices=[2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}");
}

/* Groups of 6 of the array 0 6 3 9 1 7 / 4 10 2 8 5 11 cut through the dim of 3: the devices are listed. */
Test(hlo_normalize, lists_what_no_iota_says)
{
    expect_prints("{devices=[2,6]<=[2,2,3]T(2,1,0) last_tile_dim_replicate}",
                  "{devices=[2,6]0,1,3,6,7,9,2,4,5,8,10,11 last_tile_dim_replicate}");
    /* 3 * 2^40 devices cannot be listed; the order of replicas is left as it is. */
    expect_prints("{devices=[1649267441664,2]<=[3,1099511627776]T(1,0) last_tile_dim_replicate}",
                  "{devices=[1649267441664,2]<=[3,1099511627776]T(1,0) last_tile_dim_replicate}");
}

Test(hlo_normalize, subgroups)
{
    expect_prints("{devices=[1,2,1]0,1 last_tile_dims={manual, replicated}}", "{manual}");
    expect_prints("{devices=[1,4]<=[4] last_tile_dims={unreduced}}", "{unreduced}");
    expect_prints("{devices=[1,2,2]<=[4] last_tile_dims={replicated, replicated}}", "{replicated}");
    expect_prints("{devices=[2,2]<=[4] last_tile_dims={}}", "{devices=[2,2]<=[4]}");
    expect_prints("{devices=[2,2]<=[4] last_tile_dims={replicated}}", "{devices=[2,2]<=[4] last_tile_dim_replicate}");
    expect_prints("{devices=[2,2,2]<=[8] last_tile_dims={manual, manual}}",
                  "{devices=[2,4]<=[8] last_tile_dims={manual}}");
    expect_prints("{devices=[2,1,2]<=[4] last_tile_dims={manual, replicated}}",
                  "{devices=[2,2]<=[4] last_tile_dim_replicate}");
}

/* Subgroups come in the order maximal, manual, unreduced, replicated; devices move with them. */
Test(hlo_normalize, orders_subgroups)
{
    expect_prints("{devices=[2,2,2]<=[8] last_tile_dims={replicated, manual}}",
                  "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}");
    expect_prints("{devices=[1,2,3]0,1,2,3,4,5 last_tile_dims={unreduced, manual}}",
                  "{devices=[1,3,2]0,3,1,4,2,5 last_tile_dims={manual, unreduced}}");
    /* Two manual groups around a replicated one become one of 4: 0 1 4 5 with replicas 0 2, 1 3, 4 6, 5 7. */
    expect_prints("{devices=[1,2,2,2]<=[8] last_tile_dims={manual, replicated, manual}}",
                  "{devices=[1,4,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}");
    expect_prints("{devices=[1048576,2,1048576]<=[2199023255552] last_tile_dims={replicated, manual}}",
                  "{devices=[1048576,1048576,2]<=[1048576,2,1048576]T(0,2,1) last_tile_dims={manual, replicated}}");
}

/* Iotas: no dim of 1, no run of neighbours. */
Test(hlo_normalize, iotas)
{
    expect_prints("{devices=[60]<=[3,4,5]T(1,2,0)}", "{devices=[60]<=[3,20]T(1,0)}");
    expect_prints("{devices=[60]<=[1,3,1,4,1,5]T(4,3,2,5,1,0)}", "{devices=[60]<=[3,20]T(1,0)}");
    expect_prints("{devices=[3,4]<=[3,4]T(0,1)}", "{devices=[3,4]<=[12]}");
}
