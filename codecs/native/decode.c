/* Decode a message: an interpreter of programs. No byte past `end` is read. */
#include "native.h"

typedef struct {
    const uint8_t *p;
    const uint8_t *end;
} Reader;

static PyObject *read_value(Reader *r, const Program *g, const Wire *wire, bool nullable, bool in_tag);

static void *inexact(const Program *g) {
    PyErr_SetNone(g->inexact);
    return NULL;
}

static inline bool has(const Reader *r, int64_t size) {
    return size <= r->end - r->p;
}

static inline uint64_t big_endian(const uint8_t *p, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; i++)
        value = value << 8 | p[i];
    return value;
}

/* Read an unsigned varint as a signed number of 32 bits, as Java; in its shortest form only, if strict. */
static bool read_uvarint(Reader *r, const Program *g, int32_t *out) {
    if (!has(r, 1))
        return inexact(g);
    uint32_t value = *r->p++;
    if (value > 127) {
        value &= 127;
        int shift = 7;
        for (;; shift += 7) {
            if (shift > 28 || !has(r, 1))
                return inexact(g);
            uint8_t byte = *r->p++;
            value |= (uint32_t)(byte & 127) << shift; /* bits above 32 are lost */
            if (byte > 127)
                continue;
            if (!g->lenient && (byte == 0 || (shift == 28 && byte > 15)))
                return inexact(g);
            break;
        }
    }
    *out = (int32_t)value;
    return true;
}

/* Read a length or count; -1 is null, and rejected where there may be no null. */
static bool read_length(Reader *r, const Program *g, bool text, bool nullable, int64_t *length) {
    int64_t n;
    if (g->flexible) {
        int32_t value;
        if (!read_uvarint(r, g, &value))
            return false;
        n = (int64_t)value - 1;
        if ((text && n > 0x7FFF) || n < INT32_MIN) /* Java's int wraps around */
            return inexact(g);
    } else {
        int width = text ? 2 : 4;
        if (!has(r, width))
            return inexact(g);
        uint64_t bits = big_endian(r->p, width);
        n = text ? (int64_t)(int16_t)bits : (int64_t)(int32_t)bits;
        r->p += width;
    }
    if (n < 0 && (!nullable || (n < -1 && !g->lenient)))
        return inexact(g);
    *length = n < 0 ? -1 : n;
    return true;
}

static PyObject *read_number(Reader *r, const Program *g, char code) {
    int width = width_of(code);
    if (!has(r, width))
        return inexact(g);
    uint64_t bits = big_endian(r->p, width);
    r->p += width;
    switch (code) {
    case '?': return PyBool_FromLong(bits != 0);
    case 'b': return PyLong_FromLong((int8_t)bits);
    case 'h': return PyLong_FromLong((int16_t)bits);
    case 'H': return PyLong_FromLong((uint16_t)bits);
    case 'i': return PyLong_FromLong((int32_t)bits);
    case 'q': return PyLong_FromLongLong((int64_t)bits);
    default: {
        double value;
        memcpy(&value, &bits, sizeof value);
        return PyFloat_FromDouble(value);
    }
    }
}

static PyObject *read_array(Reader *r, const Program *g, const Wire *element, bool nullable) {
    int64_t n;
    if (!read_length(r, g, false, nullable, &n))
        return NULL;
    if (n < 0)
        Py_RETURN_NONE;
    /* Each element takes a byte at least, so a damaged count takes no memory. */
    int width = width_of(element->code);
    if (!has(r, width > 1 ? n * width : n))
        return inexact(g);
    PyObject *items = PyTuple_New((Py_ssize_t)n);
    for (Py_ssize_t i = 0; items != NULL && i < n; i++) {
        PyObject *item = read_value(r, g, element, false, false);
        if (item == NULL)
            Py_CLEAR(items);
        else
            PyTuple_SetItem(items, i, item);
    }
    return items;
}

static PyObject *read_struct(Reader *r, const Program *g);

/* Whether a struct that may be null is present: 1, 0, or -1 for an error. */
static int read_presence(Reader *r, const Program *g, bool in_tag) {
    int32_t mark;
    if (in_tag) { /* null is a varint 0, presence a varint 1 */
        if (!read_uvarint(r, g, &mark))
            return -1;
    } else { /* null is a byte below 0 */
        if (!has(r, 1)) {
            inexact(g);
            return -1;
        }
        mark = (int8_t)*r->p++;
    }
    if (!g->lenient && mark != 1 && mark != (in_tag ? 0 : -1)) {
        inexact(g);
        return -1;
    }
    return in_tag ? mark > 0 : mark >= 0;
}

/* Return one of the recent ids, or that of `uuids`: records repeat few, so bytes to look up are rarely needed. */
static PyObject *read_uuid(Reader *r, const Program *g) {
    if (!has(r, 16))
        return inexact(g);
    const char *start = (const char *)r->p;
    r->p += 16;
#ifndef Py_GIL_DISABLED
    PyObject **recent = &g->recent[(uint8_t)start[15] % RECENT];
    if (*recent != NULL && memcmp(PyBytes_AsString(*recent), start, 16) == 0)
        return Py_NewRef(*recent);
#endif
    PyObject *data = PyBytes_FromStringAndSize(start, 16);
    PyObject *found = data == NULL ? NULL : PyObject_GetItem(g->uuids, data);
    Py_XDECREF(data);
#ifndef Py_GIL_DISABLED
    if (found != NULL) {
        Py_XDECREF(*recent);
        *recent = Py_NewRef(found);
    }
#endif
    return found;
}

static PyObject *read_value(Reader *r, const Program *g, const Wire *wire, bool nullable, bool in_tag) {
    int64_t n;
    const char *start;
    switch (wire->code) {
    case 's':
    case 'y':
    case 'r':
        if (!read_length(r, g, wire->code == 's', nullable, &n))
            return NULL;
        if (n < 0)
            Py_RETURN_NONE;
        if (!has(r, n))
            return inexact(g);
        start = (const char *)r->p;
        r->p += n;
        return wire->code == 's' ? PyUnicode_DecodeUTF8(start, (Py_ssize_t)n, NULL)
                                 : PyBytes_FromStringAndSize(start, (Py_ssize_t)n);
    case 'u':
        return read_uuid(r, g);
    case '[':
        return read_array(r, g, wire->element, nullable);
    case '{':
        if (nullable) {
            int present = read_presence(r, g, in_tag);
            if (present < 0)
                return NULL;
            if (!present)
                Py_RETURN_NONE;
        }
        return read_struct(r, wire->program);
    default:
        return read_number(r, g, wire->code);
    }
}

static const Field *field_of_tag(const Program *g, int32_t tag) {
    for (Py_ssize_t i = g->tagged; i < g->count; i++)
        if (g->fields[i].tag == tag)
            return &g->fields[i];
    return NULL;
}

/* Read a known tagged field of `size` bytes. Kafka does not check the size. */
static bool read_known_tag(Reader *r, const Program *g, const Field *field, int32_t size, PyObject *object) {
    const uint8_t *start = r->p;
    PyObject *value = read_value(r, g, &field->wire, field->nullable, true);
    if (value == NULL)
        return false;
    PyObject *old = SLOT(object, field->offset);
    SLOT(object, field->offset) = value;
    Py_XDECREF(old);
    if (g->lenient)
        return true;
    if (r->p - start != size)
        return inexact(g);
    int equal = PyObject_RichCompareBool(value, field->standard, Py_EQ);
    return equal == 0 || (equal > 0 && inexact(g));
}

static bool read_unknown_tag(Reader *r, const Program *g, int32_t tag, int32_t size, PyObject **unknown) {
    if (size < 0 || !has(r, size))
        return inexact(g);
    if (*unknown == NULL && (*unknown = PyList_New(0)) == NULL)
        return false;
    PyObject *field = PyObject_CallFunction(g->tagged_field, "iy#", (int)tag, (const char *)r->p, (Py_ssize_t)size);
    r->p += size;
    int failed = field == NULL || PyList_Append(*unknown, field);
    Py_XDECREF(field);
    return !failed;
}

static bool read_tags(Reader *r, const Program *g, PyObject *object) {
    int32_t count, tag, size, last = -1;
    if (!read_uvarint(r, g, &count))
        return false;
    if (count == 0)
        return true;
    if (count < 0 || !has(r, count))
        return inexact(g);
    PyObject *unknown = NULL;
    for (int32_t i = 0; i < count; i++) {
        if (!read_uvarint(r, g, &tag) || !read_uvarint(r, g, &size))
            goto failed;
        if (!g->lenient && tag <= last) {
            inexact(g);
            goto failed;
        }
        last = tag;
        const Field *known = field_of_tag(g, tag);
        if (!(known ? read_known_tag(r, g, known, size, object) : read_unknown_tag(r, g, tag, size, &unknown)))
            goto failed;
    }
    if (unknown != NULL) {
        PyObject *fields = PyList_AsTuple(unknown);
        Py_DECREF(unknown);
        if (fields == NULL)
            return false;
        Py_DECREF(SLOT(object, g->unknown_tags));
        SLOT(object, g->unknown_tags) = fields;
    }
    return true;
failed:
    Py_XDECREF(unknown);
    return false;
}

static PyObject *read_struct(Reader *r, const Program *g) {
    PyObject *object = g->alloc(g->cls, 0); /* its slots are null, which is "not set" */
    if (object == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < g->count; i++) {
        const Field *field = &g->fields[i];
        PyObject *value;
        if (field->carried && field->tag < 0)
            value = read_value(r, g, &field->wire, field->nullable, false);
        else
            value = Py_NewRef(field->standard);
        if (value == NULL)
            goto failed;
        SLOT(object, field->offset) = value;
    }
    SLOT(object, g->unknown_tags) = Py_NewRef(g->none);
    if (!g->flexible || read_tags(r, g, object))
        return object;
failed:
    Py_DECREF(object);
    return NULL;
}

PyObject *decode_message(const Program *g, PyObject *data, Py_ssize_t position) {
    Py_ssize_t size = PyBytes_Size(data);
    if (position < 0 || position > size)
        return inexact(g);
    const uint8_t *start = (const uint8_t *)PyBytes_AsString(data);
    Reader r = {start + position, start + size};
    PyObject *message = read_struct(&r, g);
    if (message != NULL && r.p != r.end) {
        Py_DECREF(message);
        return inexact(g);
    }
    return message;
}

/* decode(data, position): the message that `data` has from `position` to its end. */
PyObject *program_decode(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    const Program *g = (Program *)self;
    if (count != 2 || !PyBytes_Check(args[0]))
        return inexact(g);
    Py_ssize_t position = PyLong_AsSsize_t(args[1]);
    if (position == -1 && PyErr_Occurred())
        return NULL;
    return decode_message(g, args[0], position);
}
