/* Decode records of one coordinator topic: key and value to a CoordinatorRecord. */
#include "native.h"

#define TYPES 64
#define VERSIONS 16
#define CACHED 16384

typedef struct {
    PyObject_HEAD
    PyTypeObject *cls; /* CoordinatorRecord */
    allocfunc alloc;
    Py_ssize_t key, value, version, topic, key_trailing, value_trailing, value_as_read; /* offsets */
    PyObject *name; /* of the topic */
    PyObject *empty; /* no bytes */
    PyObject *inexact;
    PyObject *find; /* (type, version or None for the key) -> NativeCodec; it raises for others */
    PyObject *keys; /* bytes -> decoded key: logs repeat few keys many times */
    Program *of_keys[TYPES];
    Program *of_values[TYPES][VERSIONS];
} RecordDecoder;

static const Program *find_program(RecordDecoder *d, Program **place, int type_id, int version) {
    if (*place != NULL)
        return *place;
    PyObject *found = version < 0 ? PyObject_CallFunction(d->find, "iO", type_id, Py_None)
                                  : PyObject_CallFunction(d->find, "ii", type_id, version);
    if (found == NULL)
        return NULL;
    if (*place == NULL)
        *place = (Program *)found; /* of the type NativeCodec: `find` is our own function */
    else
        Py_DECREF(found);
    return *place;
}

static bool int16_of(RecordDecoder *d, PyObject *data, int limit, int *out) {
    if (PyBytes_Size(data) >= 2) {
        const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(data);
        *out = bytes[0] << 8 | bytes[1];
        if (*out < limit)
            return true;
    }
    PyErr_SetNone(d->inexact);
    return false;
}

static PyObject *cached(PyObject *keys, PyObject *key) {
#ifdef Py_GIL_DISABLED
    PyObject *found;
    return PyDict_GetItemRef(keys, key, &found) < 0 ? NULL : found;
#else
    return Py_XNewRef(PyDict_GetItemWithError(keys, key));
#endif
}

static PyObject *decode_key(RecordDecoder *d, PyObject *key, int type_id) {
    PyObject *found = cached(d->keys, key);
    if (found != NULL || PyErr_Occurred())
        return found;
    const Program *program = find_program(d, &d->of_keys[type_id], type_id, -1);
    found = program == NULL ? NULL : decode_message(program, key, 2);
    if (found == NULL)
        return NULL;
    if (PyDict_Size(d->keys) >= CACHED)
        PyDict_Clear(d->keys);
    if (PyDict_SetItem(d->keys, key, found) < 0)
        Py_CLEAR(found);
    return found;
}

/* decode(key, value): the record. It raises for anything but bytes that are exactly a known record. */
static PyObject *record_decode(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    RecordDecoder *d = (RecordDecoder *)self;
    int type_id, version;
    if (count != 2 || !PyBytes_CheckExact(args[0]) || (args[1] != Py_None && !PyBytes_CheckExact(args[1]))) {
        PyErr_SetNone(d->inexact);
        return NULL;
    }
    if (!int16_of(d, args[0], TYPES, &type_id))
        return NULL;
    PyObject *record = d->alloc(d->cls, 0);
    if (record == NULL)
        return NULL;
    SLOT(record, d->topic) = Py_NewRef(d->name);
    SLOT(record, d->key_trailing) = Py_NewRef(d->empty);
    SLOT(record, d->value_trailing) = Py_NewRef(d->empty);
    SLOT(record, d->value_as_read) = Py_NewRef(Py_None);
    if ((SLOT(record, d->key) = decode_key(d, args[0], type_id)) == NULL)
        goto failed;
    if (args[1] == Py_None) {
        SLOT(record, d->value) = Py_NewRef(Py_None);
        SLOT(record, d->version) = Py_NewRef(Py_None);
        return record;
    }
    if (!int16_of(d, args[1], VERSIONS, &version))
        goto failed;
    const Program *program = find_program(d, &d->of_values[type_id][version], type_id, version);
    if (program == NULL || (SLOT(record, d->value) = decode_message(program, args[1], 2)) == NULL
        || (SLOT(record, d->version) = PyLong_FromLong(version)) == NULL)
        goto failed;
    return record;
failed:
    Py_DECREF(record);
    return NULL;
}

static int record_traverse(PyObject *self, visitproc visit, void *arg) {
    RecordDecoder *d = (RecordDecoder *)self;
    Py_VISIT(d->cls);
    Py_VISIT(d->inexact);
    Py_VISIT(d->find);
    Py_VISIT(d->keys);
    for (int type_id = 0; type_id < TYPES; type_id++) {
        Py_VISIT(d->of_keys[type_id]);
        for (int version = 0; version < VERSIONS; version++)
            Py_VISIT(d->of_values[type_id][version]);
    }
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void record_dealloc(PyObject *self) {
    RecordDecoder *d = (RecordDecoder *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF((PyObject *)d->cls);
    Py_XDECREF(d->name);
    Py_XDECREF(d->empty);
    Py_XDECREF(d->inexact);
    Py_XDECREF(d->find);
    Py_XDECREF(d->keys);
    for (int type_id = 0; type_id < TYPES; type_id++) {
        Py_XDECREF((PyObject *)d->of_keys[type_id]);
        for (int version = 0; version < VERSIONS; version++)
            Py_XDECREF((PyObject *)d->of_values[type_id][version]);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* RecordDecoder(CoordinatorRecord, topic, Inexact, find) */
static PyObject *record_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *cls, *name, *inexact, *find;
    if (!PyArg_ParseTuple(args, "O!UOO:RecordDecoder", &PyType_Type, &cls, &name, &inexact, &find))
        return NULL;
    RecordDecoder *d = (RecordDecoder *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (d == NULL)
        return NULL;
    d->cls = (PyTypeObject *)Py_NewRef(cls);
    d->alloc = PyType_GetSlot(d->cls, Py_tp_alloc);
    d->name = Py_NewRef(name);
    d->inexact = Py_NewRef(inexact);
    d->find = Py_NewRef(find);
    d->empty = PyBytes_FromStringAndSize("", 0);
    d->keys = PyDict_New();
    d->key = slot_offset(d->cls, "key");
    d->value = slot_offset(d->cls, "value");
    d->version = slot_offset(d->cls, "version");
    d->topic = slot_offset(d->cls, "topic");
    d->key_trailing = slot_offset(d->cls, "key_trailing");
    d->value_trailing = slot_offset(d->cls, "value_trailing");
    d->value_as_read = slot_offset(d->cls, "value_as_read");
    if (PyErr_Occurred())
        Py_CLEAR(d);
    return (PyObject *)d;
}

static PyMethodDef record_methods[] = {
    {"decode", (PyCFunction)(void (*)(void))record_decode, METH_FASTCALL,
     "decode(key, value): return the record, if both are exactly what Kafka writes."},
    {NULL},
};

static PyType_Slot record_slots[] = {
    {Py_tp_doc, "The decoder of the records of one topic."},
    {Py_tp_new, record_new},
    {Py_tp_dealloc, record_dealloc},
    {Py_tp_traverse, record_traverse},
    {Py_tp_methods, record_methods},
    {0, NULL},
};

PyType_Spec record_spec = {
    .name = "quorate.codecs._native.RecordDecoder",
    .basicsize = sizeof(RecordDecoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = record_slots,
};
