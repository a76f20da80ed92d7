// onnx_peer MODEL: what ONNX's own C++ library takes to read, check and infer the shapes of a model. Prints the seconds
// of processor time of each and the largest resident memory in kB. External data are looked for beside the model.
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

static double now()
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    // The checker of a model in memory looks for external data in the working directory; by path it would read and
    // parse the file a second time.
    std::string path = argv[1];
    const size_t slash = path.rfind('/');
    if (slash != std::string::npos && chdir(path.substr(0, slash).c_str()) == 0)
        path = path.substr(slash + 1);
    struct rusage usage;
    try {
        double at = now();
        onnx::ModelProto model;
        std::ifstream file(path, std::ios::binary);
        if (!model.ParseFromIstream(&file))
            return 1;
        const double read = now() - at;
        at = now();
        onnx::checker::check_model(model);
        const double checked = now() - at;
        at = now();
        onnx::shape_inference::InferShapes(model);
        const double inferred = now() - at;
        getrusage(RUSAGE_SELF, &usage);
        std::printf("read %.6f check %.6f shapes %.6f peak %ld\n", read, checked, inferred, usage.ru_maxrss);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "onnx_peer: %s\n", error.what());
        return 1;
    }
    return 0;
}
