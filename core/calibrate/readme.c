/* What stands beside the models of a set. */
#include "calibrate/internal.h"

void sp_calibrate_readme(const struct sp_calibrate_wish *wish, struct sp_buf *buf)
{
    sp_buf_text(
        buf,
        "# Measure a device\n"
        "\n"
        "The models here are of one kind of kernel each; set.csv lists them. Run them where the device is, while\n"
        "nothing else runs there, with as many threads as your models will have:\n"
        "\n"
        "    python3 calibrate.py . --threads 1                     # needs the package onnxruntime\n"
        "    python3 calibrate.py . --provider CUDAExecutionProvider # and onnxruntime-gpu\n"
        "    node calibrate.mjs . --threads 1                       # needs the package onnxruntime-node\n"
        "\n"
        "Devices that share a host, as the cores of a processor do, slow each other. For a plan that uses N of them,\n"
        "add --processes N: then N processes run each kernel at the same time, and the device is one of N at work.\n"
        "\n"
        "Either writes times.csv, and profiles of ONNX Runtime for kernels that are timed one by one. Then\n"
        "\n"
        "    shardplan calibrate --from . --name my-device --memory 16e9 -o my-device.json\n"
        "    shardplan plan MODEL --device my-device.json --devices 1\n"
        "\n"
        "Each kernel is repeated until its three shortest times agree within 15 %, or its share of the time is\n"
        "used up; `calibrate` refuses a measurement where these differ for more than a quarter of a class.\n"
        "\n"
        "Other programs may measure, too: CSV files here with the head kernel,dtype,shape,seconds are read, a row\n"
        "for each repetition, kernels called as in set.csv (any sizes), for instance product,bfloat16,16x4096x4096,\n"
        "0.00003.\n");
    if (wish->devices > 1)
        sp_buf_text(
            buf,
            "\n"
            "Collectives: collectives.txt lists what to run of nccl-tests; put what it prints into .txt files here.\n"
            "The models of collectives run in builds of ONNX Runtime with NCCL, one process for each rank:\n"
            "mpirun -n RANKS python3 calibrate.py . --provider CUDAExecutionProvider.\n");
}

void sp_calibrate_kinds(struct sp_buf *buf)
{
    uint32_t count;
    const struct sp_kernel_kind *kinds = sp_kernel_kinds(&count);
    for (uint32_t k = 0; k < count; k++)
        sp_buf_printf(buf, "  %-21s%s\n", kinds[k].name, kinds[k].sizes);
}

void sp_calibrate_commands(const struct sp_calibrate_wish *wish, struct sp_buf *buf)
{
    static const char *const programs[] = {"all_reduce", "all_gather", "reduce_scatter", "alltoall"},
                             *const of_mpi[] = {"osu_allreduce", "osu_allgather", "osu_reduce_scatter", "osu_alltoall"};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        for (uint32_t ranks = 2; ranks <= wish->devices && wish->devices > 1; ranks *= 2)
            sp_buf_printf(buf, "%s_perf -b 8K -e 256M -f 2 -g %u > %s_%u.txt\n", programs[i], ranks, programs[i],
                          ranks);
    }
    sp_buf_text(buf, wish->devices > 1 ? "# without NCCL, with the OSU benchmarks of MPI; their times go into a CSV as "
                                         "all_reduce,float32,RANKSxBYTES,SECONDS\n"
                                       : "");
    for (size_t i = 0; i < sizeof of_mpi / sizeof of_mpi[0] && wish->devices > 1; i++)
        sp_buf_printf(buf, "# mpirun -n %u %s -m 8192:268435456\n", wish->devices, of_mpi[i]);
}
