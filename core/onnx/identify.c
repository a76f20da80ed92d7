#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"
#include "onnx/read.h"

struct magic {
    uint32_t offset, size;
    const char *bytes, *what;
};

/* The published signatures of formats that people mistake for a model file, or that arrive by accident. */
static const struct magic magics[] = {
    {0, 8, "\x89PNG\r\n\x1a\n", "a PNG image"},
    {0, 3, "\xff\xd8\xff", "a JPEG image"},
    {0, 4, "GIF8", "a GIF image"},
    {0, 2, "\x1f\x8b", "gzip-compressed data; unpack it first"},
    {0, 4, "\x28\xb5\x2f\xfd", "zstd-compressed data; unpack it first"},
    {0, 6,
     "\xfd"
     "7zXZ\0",
     "xz-compressed data; unpack it first"},
    {0, 3, "BZh", "bzip2-compressed data; unpack it first"},
    {0, 4, "PK\x03\x04", "a zip archive (perhaps a PyTorch or Keras file)"},
    {0, 4, "PK\x05\x06", "an empty zip archive"},
    {257, 5, "ustar", "a tar archive"},
    {0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file (perhaps Keras)"},
    {0, 4,
     "\x7f"
     "ELF",
     "an ELF program"},
    {0, 2, "MZ", "a Windows program"},
    {0, 4, "%PDF", "a PDF document"},
    {0, 4, "GGUF", "a GGUF model"},
    {4, 4, "TFL3", "a TensorFlow Lite model"},
    {4, 4, "ORTM", "a model in ONNX Runtime's own format"},
    {0, 6, "\x93NUMPY", "a NumPy array"},
    {0, 16, "SQLite format 3\0", "an SQLite database"},
};

static bool starts_with(const unsigned char *bytes, uint64_t size, const char *text)
{
    return size >= strlen(text) && memcmp(bytes, text, strlen(text)) == 0;
}

/* safetensors: a little-endian length of a JSON header, then the header. */
static bool is_safetensors(const unsigned char *bytes, uint64_t size)
{
    uint64_t length = 0;
    if (size < 10)
        return false;
    for (unsigned i = 0; i < 8; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    return length >= 2 && length <= size - 8 && bytes[8] == '{' && (bytes[9] == '"' || bytes[9] == '}');
}

/* pickle: the protocol opcode of versions 2 to 5 first, the stop opcode last. */
static bool is_pickle(const unsigned char *bytes, uint64_t size)
{
    return size >= 3 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 && bytes[size - 1] == '.';
}

static const char *identify_text(const unsigned char *bytes, uint64_t size)
{
    const uint64_t sample = sp_utf8_cut(bytes, size, 512);
    uint64_t at = starts_with(bytes, size, "\xef\xbb\xbf") ? 3 : 0;
    if (!sp_utf8_valid(bytes, sample))
        return NULL;
    for (uint64_t i = at; i < sample; i++) {
        if (bytes[i] < 0x20 && bytes[i] != '\t' && bytes[i] != '\n' && bytes[i] != '\r')
            return NULL;
    }
    while (at < sample && (bytes[at] == ' ' || bytes[at] == '\t' || bytes[at] == '\n' || bytes[at] == '\r'))
        at++;
    if (at == sample)
        return "blank text";
    if (bytes[at] == '{' || bytes[at] == '[')
        return "JSON";
    if (starts_with(bytes + at, sample - at, "version https://git-lfs"))
        return "a Git LFS pointer; fetch the file that it stands for";
    if (starts_with(bytes + at, sample - at, "<?xml"))
        return "XML";
    if (bytes[at] == '<')
        return bytes[at + 1 < sample ? at + 1 : at] == ' ' || starts_with(bytes + at, sample - at, "<ir_version")
                   ? "ONNX in its text form; convert it to binary first"
                   : "HTML";
    if (starts_with(bytes + at, sample - at, "ir_version") || starts_with(bytes + at, sample - at, "graph {"))
        return "ONNX in protobuf's text form; convert it to binary first";
    return "plain text";
}

const char *sp_identify(const unsigned char *bytes, uint64_t size)
{
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (size >= (uint64_t)magics[i].offset + magics[i].size &&
            memcmp(bytes + magics[i].offset, magics[i].bytes, magics[i].size) == 0)
            return magics[i].what;
    }
    if (is_safetensors(bytes, size))
        return "a safetensors file";
    if (is_pickle(bytes, size))
        return "a Python pickle (perhaps a PyTorch file)";
    return identify_text(bytes, size);
}
