/* What an earlier emission left in a folder: models of devices that the new one does not write. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* device-3.onnx, device-3.part-1.onnx, device-3.prefill.part-1.onnx: a manifest that anybody wrote must not have other
   files removed. */
static bool is_device_model(const char *name)
{
    static const char head[] = "device-", part[] = ".part-", tail[] = ".onnx", digit[] = "0123456789";
    static const char plain[] = "-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (strncmp(name, head, sizeof head - 1) != 0)
        return false;
    name += sizeof head - 1;
    size_t digits = strspn(name, digit);
    if (digits == 0)
        return false;
    name += digits;
    const size_t phase = name[0] == '.' ? strspn(name + 1, plain) : 0;
    if (phase > 0 && phase <= SP_PHASE_FILE_NAME_SIZE && name[1 + phase] == '.' &&
        strncmp(name, part, sizeof part - 1) != 0)
        name += 1 + phase;
    if (strncmp(name, part, sizeof part - 1) == 0) {
        name += sizeof part - 1;
        digits = strspn(name, digit);
        if (digits == 0)
            return false;
        name += digits;
    }
    return strcmp(name, tail) == 0;
}

static void add_models(const json_t *devices, json_t *names)
{
    json_t *device, *part;
    size_t i, k;
    json_array_foreach(devices, i, device)
    {
        json_array_foreach(json_object_get(device, "parts"), k, part)
        {
            const char *name = json_string_value(json_object_get(part, "model"));
            if (name != NULL && is_device_model(name))
                (void)json_object_set_new(names, name, json_true());
        }
    }
}

json_t *emitted_models(const char *folder)
{
    struct sp_error ignored = {0};
    struct sp_buf text = {0};
    json_t *names = json_object(), *manifest = NULL, *phase;
    char *path = path_in(folder, "manifest.json");
    size_t i;
    if (path != NULL &&
        read_small_file(path, CLI_MAX_MANIFEST_BYTES, "CLI_MAX_MANIFEST_BYTES", &text, &ignored) == SP_OK)
        manifest = json_loadb(text.data != NULL ? text.data : "", text.size, JSON_REJECT_DUPLICATES, NULL);
    add_models(json_object_get(manifest, "devices"), names);
    json_array_foreach(json_object_get(manifest, "phases"), i, phase)
    {
        add_models(json_object_get(phase, "devices"), names);
    }
    json_decref(manifest);
    sp_buf_release(&text);
    free(path);
    return names;
}

/* The file and its weights. */
static bool remove_model(const char *folder, const char *name)
{
    char data[SP_DEVICE_MODEL_NAME_SIZE + 8];
    char *path = path_in(folder, name);
    const bool is_removed = path != NULL && unlink(path) == 0;
    free(path);
    (void)snprintf(data, sizeof data, "%s.data", name);
    path = path_in(folder, data);
    if (is_removed && path != NULL)
        (void)unlink(path);
    free(path);
    return is_removed;
}

void emitted_remove_simulation(const char *folder, bool is_followed)
{
    static const char name[] = "simulation.onnx";
    if (remove_model(folder, name) && !is_followed)
        print_note("'%s/%s' of an earlier plan was removed: its weights may have been in files that are written anew",
                   folder, name);
}

void emitted_remove(const char *folder, json_t *before)
{
    json_t *now = emitted_models(folder), *ignored;
    const char *name;
    unsigned removed = 0;
    json_object_foreach(before, name, ignored)
    {
        if (json_object_get(now, name) == NULL)
            removed += remove_model(folder, name);
    }
    if (removed > 0)
        print_note("%u models of devices that an earlier plan left in '%s' were removed", removed, folder);
    json_decref(now);
    json_decref(before);
}
