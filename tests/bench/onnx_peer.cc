// onnx_peer MODEL: what ONNX's own C++ library takes to read, check and infer the shapes of a model. Prints the seconds
// of each; the caller measures the process.
#include <chrono>
#include <cstdio>
#include <fstream>

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

static double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const double start = now();
    onnx::ModelProto model;
    std::ifstream file(argv[1], std::ios::binary);
    if (!model.ParseFromIstream(&file))
        return 1;
    const double read = now();
    onnx::checker::check_model(argv[1]); // by path: with external data it looks for the files beside the model
    const double checked = now();
    onnx::shape_inference::InferShapes(model);
    const double inferred = now();
    std::printf("read %.6f check %.6f shapes %.6f\n", read - start, checked - read, inferred - checked);
    return 0;
}
