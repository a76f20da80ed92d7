/* What options say of a model's sizes, as the members that core/plan/sizes/sizes.h reads. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static enum sp_status refuse(const char *text, const char *takes, struct sp_error *err)
{
    return sp_fail(err, SP_ERR_REQUEST, "BAD_OPTION", "%s, not '%.80s'.", takes, text);
}

/* request[member][text up to the last '='] = value, which is taken. */
static enum sp_status put(json_t *request, const char *member, const char *text, size_t name_size, json_t *value,
                          struct sp_error *err)
{
    json_t *object = json_object_get(request, member);
    char *name = strndup(text, name_size);
    enum sp_status status = SP_OK;
    if (object == NULL) {
        object = json_object();
        if (json_object_set_new(request, member, object) != 0)
            object = NULL;
    }
    if (object != NULL && name != NULL && json_object_get(object, name) != NULL)
        status = sp_fail(err, SP_ERR_REQUEST, "BAD_OPTION", "'%.80s' is given twice.", name);
    else if (object == NULL || name == NULL || value == NULL || json_object_set(object, name, value) != 0)
        status =
            json_string(name != NULL ? name : "") == NULL ? refuse(text, "Names are UTF-8", err) : sp_fail_memory(err);
    json_decref(value);
    free(name);
    return status;
}

/* The '=' behind the name; names may hold '=', what is given may not. */
static const char *find_equals(const char *text)
{
    const char *equals = strrchr(text, '=');
    return equals == text ? NULL : equals;
}

enum sp_status put_dim(json_t *request, char *text, struct sp_error *err)
{
    const char *equals = find_equals(text);
    int64_t value;
    if (equals == NULL || !parse_integer(equals + 1, 0, &value))
        return refuse(text, "--dim takes NAME=N with N of 0 or more", err);
    return put(request, "dims", text, (size_t)(equals - text), json_integer(value), err);
}

/* JSON, or numbers with commas between them. */
enum sp_status put_input_value(json_t *request, char *text, struct sp_error *err)
{
    const char *equals = find_equals(text);
    char list[CLI_MAX_OPTION_BYTES];
    if (equals == NULL || strlen(equals) + 2 > sizeof list)
        return refuse(text, "--value takes INPUT=V, V like true, 1 or 2,3", err);
    json_t *json = json_loads(equals + 1, JSON_DECODE_ANY, NULL);
    if (json == NULL) {
        (void)snprintf(list, sizeof list, "[%s]", equals + 1);
        json = json_loads(list, 0, NULL);
    }
    if (json == NULL)
        return refuse(text, "--value takes INPUT=V, V like true, 1 or 2,3", err);
    return put(request, "values", text, (size_t)(equals - text), json, err);
}

/* One extent: a number, '?' or a name. */
static bool add_extent(json_t *shape, const char *text, size_t size)
{
    char extent[CLI_MAX_OPTION_BYTES];
    int64_t number;
    while (size > 0 && isspace((unsigned char)text[0]))
        text++, size--;
    while (size > 0 && isspace((unsigned char)text[size - 1]))
        size--;
    if (size == 0 || size >= sizeof extent)
        return false;
    memcpy(extent, text, size);
    extent[size] = '\0';
    json_t *item = strcmp(extent, "?") == 0            ? json_null()
                   : parse_integer(extent, 0, &number) ? json_integer(number)
                                                       : json_string(extent);
    return item != NULL && json_array_append_new(shape, item) == 0;
}

/* "2,seq,64", also in brackets; commas inside max(1, n) do not count. NULL when it is no such thing. */
static json_t *read_shape(const char *text)
{
    json_t *shape = json_array();
    size_t size = strlen(text), start = 0;
    int depth = 0;
    bool ok = shape != NULL;
    if (size >= 2 && text[0] == '[' && text[size - 1] == ']') {
        text++;
        size -= 2;
    }
    for (size_t i = 0; ok && size > 0 && i <= size; i++) {
        depth += i < size && text[i] == '(' ? 1 : i < size && text[i] == ')' ? -1 : 0;
        if (i < size && (text[i] != ',' || depth != 0))
            continue;
        ok = add_extent(shape, text + start, i - start);
        start = i + 1;
    }
    if (ok)
        return shape;
    json_decref(shape);
    return NULL;
}

enum sp_status put_shape(json_t *request, char *text, struct sp_error *err)
{
    const char *equals = find_equals(text), *at = equals != NULL ? equals + 1 : "";
    const size_t word = strcspn(at, " [");
    char dtype[32] = "";
    json_t *shape = NULL;
    if (at[word] != '\0' && word > 0 && word < sizeof dtype && isalpha((unsigned char)at[0])) { /* "float32 [2,seq]" */
        memcpy(dtype, at, word);
        at += word + strspn(at + word, " ");
    }
    if (equals != NULL)
        shape = read_shape(at);
    if (shape == NULL)
        return refuse(text, "--shape takes TENSOR=SHAPE, SHAPE like 2,seq,64", err);
    if (dtype[0] != '\0')
        shape = json_pack("{s:s, s:o}", "dtype", dtype, "shape", shape);
    return put(request, "shapes", text, (size_t)(equals - text), shape, err);
}

/* {TENSOR: SHAPE}, or what 'shardplan inspect --values --json' writes, which has them in "values". */
static enum sp_status put_all(json_t *request, json_t *file, struct sp_error *err)
{
    json_t *listed = json_object_get(file, "values");
    const char *name;
    json_t *shape;
    enum sp_status status = SP_OK;
    json_object_foreach(json_is_object(listed) ? listed : file, name, shape)
    {
        if (json_is_object(shape) && !json_is_array(json_object_get(shape, "shape")))
            continue; /* nothing is known of it, or it is no tensor */
        if (status == SP_OK)
            status = put(request, "shapes", name, strlen(name), json_incref(shape), err);
    }
    return status;
}

/* What a file of JSON has; `what` is for messages. */
static enum sp_status read_json(const char *path, const char *code, const char *what, json_t **ret_json,
                                struct sp_error *err)
{
    struct sp_buf bytes = {0};
    json_error_t where;
    enum sp_status status = read_small_file(path, CLI_MAX_SHAPES_BYTES, "CLI_MAX_SHAPES_BYTES", &bytes, err);
    *ret_json = NULL;
    if (status == SP_OK) {
        *ret_json = json_loadb(bytes.data != NULL ? bytes.data : "", bytes.size, JSON_REJECT_DUPLICATES, &where);
        if (*ret_json == NULL) {
            (void)sp_fail(err, SP_ERR_MALFORMED, code, "The %s are not valid JSON: %s.", what, where.text);
            status = sp_error_at(err, "line %d, column %d of '%.200s'", where.line, where.column, path);
        }
    }
    sp_buf_release(&bytes);
    return status;
}

enum sp_status put_shapes(json_t *request, char *text, struct sp_error *err)
{
    json_t *json;
    enum sp_status status = read_json(text, "SHAPES_NOT_JSON", "shapes", &json, err);
    if (status == SP_OK && !json_is_object(json))
        status = sp_fail(err, SP_ERR_REQUEST, "SHAPES_FILE", "'%.200s' must hold an object of shapes.", text);
    if (status == SP_OK)
        status = put_all(request, json, err);
    json_decref(json);
    return status;
}

enum sp_status put_operators(json_t *request, char *path, struct sp_error *err)
{
    json_t *json, *list;
    enum sp_status status = read_json(path, "OPERATORS_NOT_JSON", "operators", &json, err);
    list = json_object_get(json, "operators");
    if (status == SP_OK && (list == NULL || json_object_size(json) != 1)) {
        (void)sp_fail(err, SP_ERR_REQUEST, "INVALID_OPERATOR",
                      "The file must be an object with the member \"operators\", a list, and no other.");
        status = sp_error_at(err, "%.200s", path);
    }
    if (status == SP_OK && json_object_set(request, "operators", list) != 0)
        status = sp_fail_memory(err);
    json_decref(json);
    return status;
}

enum sp_status put_state(json_t *request, char *text, struct sp_error *err)
{
    const char *equals = find_equals(text);
    json_t *list = json_object_get(request, "state");
    if (equals == NULL || equals[1] == '\0')
        return refuse(text, "--state takes IN=OUT, like past_key_values.*=present.*", err);
    if (list == NULL) {
        list = json_array();
        if (json_object_set_new(request, "state", list) != 0)
            return sp_fail_memory(err);
    }
    json_t *past = json_stringn(text, (size_t)(equals - text)), *present = json_string(equals + 1);
    if (past == NULL || present == NULL) {
        json_decref(past);
        json_decref(present);
        return refuse(text, "Names are UTF-8", err);
    }
    return json_array_append_new(list, json_pack("[o, o]", past, present)) == 0 ? SP_OK : sp_fail_memory(err);
}

/* Whether the file is about this model: its decoder names the file, or none. */
static bool is_about(const json_t *decoder, const char *model)
{
    const char *slash = strrchr(model, '/'), *file = json_string_value(json_object_get(decoder, "filename"));
    return json_is_object(decoder) && (file == NULL || strcmp(file, slash != NULL ? slash + 1 : model) == 0);
}

enum sp_status put_config_beside(json_t *request, const char *model, struct sp_error *err)
{
    static const char name[] = "genai_config.json";
    const char *slash = strrchr(model, '/');
    char path[CLI_MAX_OPTION_BYTES];
    const int size = snprintf(path, sizeof path, "%.*s%s", slash != NULL ? (int)(slash + 1 - model) : 0, model, name);
    struct sp_error ignored = {0};
    json_t *config;
    if (json_object_get(request, "state") != NULL || strcmp(model, "-") == 0 || size < 0 ||
        (size_t)size >= sizeof path || access(path, R_OK) != 0)
        return SP_OK;
    enum sp_status status = read_json(path, "CONFIG_NOT_JSON", "members of the configuration", &config, &ignored);
    if (status == SP_ERR_MEMORY)
        return sp_fail_memory(err);
    const json_t *decoder = json_object_get(json_object_get(config, "model"), "decoder");
    if (status == SP_OK && is_about(decoder, model)) {
        json_t *said = json_pack("{s:{s:{s:{s:O*, s:O*}}}}", "genai_config", "model", "decoder", "inputs",
                                 json_object_get(decoder, "inputs"), "outputs", json_object_get(decoder, "outputs"));
        if (said == NULL || json_object_set_new(request, "state", said) != 0)
            status = sp_fail_memory(err);
    } else if (status != SP_OK) {
        print_note("'%s' is not used: %s", path, ignored.message);
        status = SP_OK;
    }
    json_decref(config);
    return status;
}

enum sp_status put_size(json_t *request, const char *name, char *text, struct sp_error *err)
{
    static const struct member_option sizes[] = {SIZE_OPTIONS};
    size_t i = 0;
    while (strcmp(sizes[i].name, name) != 0)
        i++;
    return sizes[i].put(request, text, err);
}
