/* What the files of this extension share: a program is the layout of one message version.
 *
 * quorate.codecs.accelerator compiles a MessageSpec to a program, the type NativeCodec in Python.
 * decode.c and encode.c interpret it. On anything irregular they raise, in the cases in which the
 * generated Python does (fast_decode.py, fast_encode.py); quorate.codecs.exact then finds the reason. */
#ifndef QUORATE_NATIVE_H
#define QUORATE_NATIVE_H

#ifndef Py_GIL_DISABLED /* free-threaded Python has no limited API */
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

typedef struct Program Program;

/* A wire type. `code` is the format character of `struct` for numbers, or s: string, y: bytes,
 * r: record batches, u: uuid, [: array of `element`, {: struct of `program`. */
typedef struct Wire {
    char code;
    struct Wire *element;
    Program *program;
} Wire;

typedef struct {
    Wire wire;
    Py_ssize_t offset; /* of the slot in the object */
    bool nullable;
    bool carried; /* by this version */
    bool ignorable;
    int32_t tag; /* -1 for none */
    PyObject *standard; /* the default */
} Field;

#define RECENT 64

struct Program {
    PyObject_HEAD
    PyTypeObject *cls;
    allocfunc alloc;
    Field *fields; /* those that are not tagged, in their order on the wire, then by tag */
    Py_ssize_t count;
    Py_ssize_t tagged; /* index of the first tagged field */
    Py_ssize_t unknown_tags; /* offset of the slot */
    bool flexible;
    bool lenient;
    PyObject *prefix; /* bytes that the encoder writes first */
    PyObject *none; /* the empty tuple */
    PyObject *inexact; /* the exception */
    PyObject *tagged_field; /* the class TaggedField */
    PyObject *uuids; /* bytes -> Uuid */
    PyObject **recent; /* of these, by the last byte; they are bytes, too */
    PyObject *section; /* (known fields, unknown_tags) -> bytes of the tagged fields */
};

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* Width of a number, 0 for other types. */
static inline int width_of(char code) {
    switch (code) {
    case '?': case 'b': return 1;
    case 'h': case 'H': return 2;
    case 'i': return 4;
    case 'q': case 'd': return 8;
    default: return 0;
    }
}

/* Written out, so that compilers recognize the swap of bytes. */
static inline uint16_t big_endian_16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static inline uint32_t big_endian_32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t big_endian_64(const uint8_t *p) { return (uint64_t)big_endian_32(p) << 32 | big_endian_32(p + 4); }

/* Return the value of a key, or NULL, with an exception only if comparing keys raised one. */
static inline PyObject *dict_get(PyObject *dict, PyObject *key) {
#ifdef Py_GIL_DISABLED
    PyObject *found;
    return PyDict_GetItemRef(dict, key, &found) < 0 ? NULL : found;
#else
    return Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
}

bool add_counted_dict(PyObject *module);
extern PyType_Spec record_spec;
extern PyType_Spec maker_spec;
extern PyType_Spec small_groups_spec;

/* Return the offset of a slot that a class or its base declares; or -1, with an exception. */
Py_ssize_t slot_offset(PyTypeObject *cls, const char *name);

/* Decode the message that fills the bytes from `position` on. */
PyObject *decode_message(const Program *program, PyObject *data, Py_ssize_t position);

/* Encode a message after an int16, or, if that is negative, after the prefix of the program. */
PyObject *encode_message(const Program *program, int prefix, PyObject *message);

PyObject *program_decode(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *program_encode(PyObject *self, PyObject *message);
PyObject *program_encode_parts(PyObject *self, PyObject *message);

#define API 12 /* as in codecs/extension.py */

/* Loops over blocks of logs: batches.c, columns.c. */
extern PyMethodDef batch_methods[];
extern PyMethodDef column_methods[];
void prepare_crc(void);

/* Assignors of small groups, in assignors/native: members.c, uniform.c. */
extern PyMethodDef uniform_methods[];

#endif
