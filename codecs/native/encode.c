/* Encode a message: an interpreter of programs, which appends to a buffer. */
#include "native.h"

#define LONGEST_TEXT 0x7FFF

typedef struct {
    uint8_t *data;
    size_t size;
    size_t capacity;
    PyObject *parts; /* the list for finished pieces and record batches; or null, for one piece */
    uint8_t first[512];
} Writer;

static bool write_value(Writer *w, const Program *g, const Wire *wire, PyObject *value, bool nullable, bool in_tag);
static bool write_struct(Writer *w, const Program *g, PyObject *object);

static bool inexact(const Program *g) {
    PyErr_SetNone(g->inexact);
    return false;
}

static void start(Writer *w, PyObject *parts) {
    w->data = w->first;
    w->size = 0;
    w->capacity = sizeof w->first;
    w->parts = parts;
}

static void finish(Writer *w) {
    if (w->data != w->first)
        PyMem_Free(w->data);
}

/* Return the place for `size` more bytes. */
static uint8_t *more(Writer *w, size_t size) {
    if (size > w->capacity - w->size) {
        if (size > (size_t)PY_SSIZE_T_MAX / 4) {
            PyErr_NoMemory();
            return NULL;
        }
        size_t capacity = 2 * w->capacity + size;
        uint8_t *data = w->data == w->first ? PyMem_Malloc(capacity) : PyMem_Realloc(w->data, capacity);
        if (data == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        if (w->data == w->first)
            memcpy(data, w->first, w->size);
        w->data = data;
        w->capacity = capacity;
    }
    uint8_t *place = w->data + w->size;
    w->size += size;
    return place;
}

static bool write_bytes(Writer *w, const void *data, size_t size) {
    uint8_t *place = more(w, size);
    if (place != NULL && size)
        memcpy(place, data, size);
    return place != NULL;
}

static bool write_big_endian(Writer *w, uint64_t bits, int width) {
    uint8_t *place = more(w, width);
    for (int i = width - 1; place != NULL && i >= 0; i--, bits >>= 8)
        place[i] = (uint8_t)bits;
    return place != NULL;
}

static int put_uvarint(uint8_t out[5], uint32_t value) {
    int size = 0;
    for (; value > 127; value >>= 7)
        out[size++] = (uint8_t)(value | 128);
    out[size++] = (uint8_t)value;
    return size;
}

static bool write_uvarint(Writer *w, uint32_t value) {
    uint8_t out[5];
    return write_bytes(w, out, put_uvarint(out, value));
}

/* Write a length or count; -1 is null. */
static bool write_length(Writer *w, const Program *g, bool text, Py_ssize_t length) {
    if (length > (text ? LONGEST_TEXT : INT32_MAX))
        return inexact(g);
    if (g->flexible)
        return write_uvarint(w, (uint32_t)(length + 1));
    return write_big_endian(w, (uint64_t)length, text ? 2 : 4);
}

static bool write_number(Writer *w, const Program *g, char code, PyObject *value) {
    int width = width_of(code);
    if (code == '?') /* `struct` would accept any object as a bool */
        return value == Py_True || value == Py_False ? write_big_endian(w, value == Py_True, 1) : inexact(g);
    if (code == 'd') {
        double number = PyFloat_AsDouble(value);
        uint64_t bits;
        if (number == -1 && PyErr_Occurred())
            return false;
        memcpy(&bits, &number, sizeof bits);
        return write_big_endian(w, bits, 8);
    }
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return false;
    if (width < 8) {
        long long most = (1LL << (8 * width - (code != 'H'))) - 1;
        if (number > most || number < (code == 'H' ? 0 : -most - 1))
            return inexact(g);
    }
    return write_big_endian(w, (uint64_t)number, width);
}

static bool write_text(Writer *w, const Program *g, PyObject *value) {
    if (!PyUnicode_Check(value))
        return inexact(g);
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(value, &size);
    return data != NULL && write_length(w, g, true, size) && write_bytes(w, data, size);
}

/* Move the bytes so far to the list of parts. */
static bool finish_part(Writer *w) {
    if (w->size == 0)
        return true;
    PyObject *part = PyBytes_FromStringAndSize((char *)w->data, (Py_ssize_t)w->size);
    int failed = part == NULL || PyList_Append(w->parts, part);
    Py_XDECREF(part);
    w->size = 0;
    return !failed;
}

/* Write bytes, or anything with such a buffer; its length precedes it, unless it is a uuid. */
static bool write_buffer(Writer *w, const Program *g, char code, PyObject *value) {
    Py_buffer view;
    Py_ssize_t items = PyObject_Size(value);
    if (items < 0 || PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
        return false;
    bool done = false;
    if (view.len != items || (code == 'u' && items != 16))
        inexact(g);
    else if (code != 'u' && !write_length(w, g, false, items))
        ;
    else if (code == 'r' && w->parts != NULL && items > 0)
        done = finish_part(w) && PyList_Append(w->parts, value) == 0;
    else
        done = write_bytes(w, view.buf, view.len);
    PyBuffer_Release(&view);
    return done;
}

static bool write_array(Writer *w, const Program *g, const Wire *element, PyObject *value) {
    if (PyUnicode_Check(value)) /* it would be an array of its characters */
        return inexact(g);
    if (PyObject_Size(value) < 0) /* such as a generator */
        return false;
    PyObject *items = PySequence_Tuple(value); /* itself, if it is a tuple */
    if (items == NULL)
        return false;
    Py_ssize_t count = PyTuple_Size(items);
    bool done = write_length(w, g, false, count);
    for (Py_ssize_t i = 0; done && i < count; i++)
        done = write_value(w, g, element, PyTuple_GetItem(items, i), false, false);
    Py_DECREF(items);
    return done;
}

static bool write_value(Writer *w, const Program *g, const Wire *wire, PyObject *value, bool nullable, bool in_tag) {
    char code = wire->code;
    if (value == Py_None && nullable)
        return code == '{' ? write_big_endian(w, in_tag ? 0 : 0xFF, 1) : write_length(w, g, code == 's', -1);
    switch (code) {
    case 's':
        return write_text(w, g, value);
    case 'y':
    case 'r':
    case 'u':
        return write_buffer(w, g, code, value);
    case '[':
        return write_array(w, g, wire->element, value);
    case '{':
        return (!nullable || write_big_endian(w, 1, 1)) && write_struct(w, wire->program, value);
    default:
        return write_number(w, g, code, value);
    }
}

/* Return a new reference to a field: encoding a value may run code of its class. */
static PyObject *value_of(const Program *g, const Field *field, PyObject *object) {
    PyObject *value = SLOT(object, field->offset);
    if (value == NULL) {
        inexact(g);
        return NULL;
    }
    return Py_NewRef(value);
}

/* Write the size before the bytes from `begin` on. */
static bool write_size_before(Writer *w, size_t begin) {
    uint8_t size[5];
    size_t length = w->size - begin;
    int width = put_uvarint(size, (uint32_t)length);
    if (more(w, width) == NULL)
        return false;
    memmove(w->data + begin + width, w->data + begin, length);
    memcpy(w->data + begin, size, width);
    return true;
}

/* Write the tagged fields that differ from their defaults, with tag and size; or append tag and bytes to `pairs`. */
static Py_ssize_t write_known_tags(Writer *w, const Program *g, PyObject *object, PyObject *pairs) {
    Py_ssize_t written = 0;
    for (Py_ssize_t i = g->tagged; i < g->count; i++) {
        const Field *field = &g->fields[i];
        PyObject *value = value_of(g, field, object);
        if (value == NULL)
            return -1;
        int equal = PyObject_RichCompareBool(value, field->standard, Py_EQ);
        bool done = equal >= 0;
        if (equal == 0) {
            done = pairs != NULL || write_uvarint(w, (uint32_t)field->tag);
            size_t begin = w->size;
            done = done && write_value(w, g, &field->wire, value, field->nullable, true);
            if (pairs == NULL)
                done = done && write_size_before(w, begin);
            else if (done) {
                PyObject *pair = Py_BuildValue(
                    "(iy#)", (int)field->tag, (char *)w->data + begin, (Py_ssize_t)(w->size - begin));
                w->size = begin;
                done = pair != NULL && PyList_Append(pairs, pair) == 0;
                Py_XDECREF(pair);
            }
            written++;
        }
        Py_DECREF(value);
        if (!done)
            return -1;
    }
    return written;
}

/* Write the tagged section with unknown fields, which Python merges with the known ones. */
static bool write_all_tags(Writer *w, const Program *g, PyObject *object, PyObject *unknown) {
    bool done = false;
    PyObject *section = NULL, *pairs = PyList_New(0);
    if (pairs != NULL && write_known_tags(w, g, object, pairs) >= 0)
        section = PyObject_CallFunctionObjArgs(g->section, pairs, unknown, NULL);
    if (section != NULL && !PyBytes_Check(section))
        inexact(g);
    else if (section != NULL)
        done = write_bytes(w, PyBytes_AsString(section), PyBytes_Size(section));
    Py_XDECREF(pairs);
    Py_XDECREF(section);
    return done;
}

static bool write_tags(Writer *w, const Program *g, PyObject *object) {
    PyObject *unknown = SLOT(object, g->unknown_tags);
    int has_unknown = unknown == NULL ? -1 : unknown == g->none ? 0 : PyObject_IsTrue(unknown);
    if (has_unknown < 0)
        return PyErr_Occurred() ? false : inexact(g);
    if (!g->flexible)
        return has_unknown ? inexact(g) : true;
    PyObject *parts = w->parts;
    w->parts = NULL; /* so that positions stay valid */
    bool done;
    if (has_unknown) {
        Py_INCREF(unknown);
        done = write_all_tags(w, g, object, unknown);
        Py_DECREF(unknown);
    } else {
        size_t place = w->size;
        done = write_big_endian(w, 0, 1);
        Py_ssize_t written = done ? write_known_tags(w, g, object, NULL) : -1;
        done = written >= 0 && (written < 128 || inexact(g)); /* no message has so many */
        if (done)
            w->data[place] = (uint8_t)written;
    }
    w->parts = parts;
    return done;
}

static bool write_struct(Writer *w, const Program *g, PyObject *object) {
    if (Py_TYPE(object) != g->cls)
        return inexact(g);
    for (Py_ssize_t i = 0; i < g->tagged; i++) {
        const Field *field = &g->fields[i];
        if (!field->carried && field->ignorable)
            continue;
        PyObject *value = value_of(g, field, object);
        if (value == NULL)
            return false;
        bool done;
        if (field->carried)
            done = write_value(w, g, &field->wire, value, field->nullable, false);
        else {
            int equal = PyObject_RichCompareBool(value, field->standard, Py_EQ);
            done = equal > 0 || (equal == 0 && inexact(g));
        }
        Py_DECREF(value);
        if (!done)
            return false;
    }
    return write_tags(w, g, object);
}

static bool write_message(Writer *w, const Program *g, PyObject *message) {
    return write_bytes(w, PyBytes_AsString(g->prefix), PyBytes_Size(g->prefix)) && write_struct(w, g, message);
}

PyObject *encode_message(const Program *g, int prefix, PyObject *message) {
    Writer w;
    start(&w, NULL);
    PyObject *data = NULL;
    if (prefix < 0 ? write_message(&w, g, message)
                   : write_big_endian(&w, (uint64_t)prefix, 2) && write_struct(&w, g, message))
        data = PyBytes_FromStringAndSize((char *)w.data, (Py_ssize_t)w.size);
    finish(&w);
    return data;
}

/* encode(message): its bytes, after those of the prefix. */
PyObject *program_encode(PyObject *self, PyObject *message) {
    return encode_message((Program *)self, -1, message);
}

/* encode_parts(message): the same bytes in a list. Record batches are not copied to it. */
PyObject *program_encode_parts(PyObject *self, PyObject *message) {
    Writer w;
    PyObject *parts = PyList_New(0);
    if (parts == NULL)
        return NULL;
    start(&w, parts);
    if (!write_message(&w, (Program *)self, message) || !finish_part(&w))
        Py_CLEAR(parts);
    finish(&w);
    return parts;
}
