/* Decode and encode records of one coordinator topic: key and value, and CoordinatorRecord. */
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
    PyObject *types; /* class of a key -> type */
    PyObject *keys; /* bytes -> decoded key: logs repeat few keys many times */
    Program *of_keys[TYPES];
    Program *of_values[TYPES][VERSIONS];
} RecordCodec;

static const Program *find_program(RecordCodec *d, Program **place, int type_id, int version) {
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

static bool int16_of(RecordCodec *d, PyObject *data, int limit, int *out) {
    if (PyBytes_Size(data) >= 2) {
        const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(data);
        *out = bytes[0] << 8 | bytes[1];
        if (*out < limit)
            return true;
    }
    PyErr_SetNone(d->inexact);
    return false;
}

static PyObject *decode_key(RecordCodec *d, PyObject *key, int type_id) {
    PyObject *found = dict_get(d->keys, key);
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
    RecordCodec *d = (RecordCodec *)self;
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

/* encode(record): its key and value. It raises for a record with bytes to keep, and for what cannot be encoded. */
static PyObject *record_encode(PyObject *self, PyObject *record) {
    RecordCodec *d = (RecordCodec *)self;
    PyObject *key_bytes = NULL, *value_bytes = NULL, *both = NULL;
    if (Py_TYPE(record) != d->cls)
        goto inexact;
    PyObject *key = SLOT(record, d->key), *value = SLOT(record, d->value), *version = SLOT(record, d->version);
    PyObject *topic = SLOT(record, d->topic), *as_read = SLOT(record, d->value_as_read);
    PyObject *key_trailing = SLOT(record, d->key_trailing), *value_trailing = SLOT(record, d->value_trailing);
    if (key == NULL || value == NULL || version == NULL || as_read != Py_None || key_trailing == NULL
        || value_trailing == NULL || PyObject_Size(key_trailing) != 0 || PyObject_Size(value_trailing) != 0)
        goto inexact;
    if (topic != d->name && (topic == NULL || PyObject_RichCompareBool(topic, d->name, Py_EQ) != 1))
        goto inexact;
    PyObject *type = PyDict_GetItemWithError(d->types, (PyObject *)Py_TYPE(key)); /* never changes */
    long number = value == Py_None ? 0 : PyLong_Check(version) ? PyLong_AsLong(version) : -1;
    if (type == NULL || number < 0 || number >= VERSIONS)
        goto inexact;
    int type_id = (int)PyLong_AsLong(type);
    Py_INCREF(key); /* encoding a value may run code of its class */
    Py_INCREF(value);
    const Program *program = find_program(d, &d->of_keys[type_id], type_id, -1);
    if (program != NULL && (key_bytes = encode_message(program, type_id, key)) != NULL) {
        if (value == Py_None)
            value_bytes = Py_NewRef(value);
        else if ((program = find_program(d, &d->of_values[type_id][number], type_id, (int)number)) != NULL)
            value_bytes = encode_message(program, (int)number, value);
    }
    if (value_bytes != NULL)
        both = PyTuple_Pack(2, key_bytes, value_bytes);
    Py_DECREF(key);
    Py_DECREF(value);
    Py_XDECREF(key_bytes);
    Py_XDECREF(value_bytes);
    return both;
inexact:
    if (!PyErr_Occurred())
        PyErr_SetNone(d->inexact);
    return NULL;
}

static int record_traverse(PyObject *self, visitproc visit, void *arg) {
    RecordCodec *d = (RecordCodec *)self;
    Py_VISIT(d->cls);
    Py_VISIT(d->inexact);
    Py_VISIT(d->find);
    Py_VISIT(d->types);
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
    RecordCodec *d = (RecordCodec *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF((PyObject *)d->cls);
    Py_XDECREF(d->name);
    Py_XDECREF(d->empty);
    Py_XDECREF(d->inexact);
    Py_XDECREF(d->find);
    Py_XDECREF(d->types);
    Py_XDECREF(d->keys);
    for (int type_id = 0; type_id < TYPES; type_id++) {
        Py_XDECREF((PyObject *)d->of_keys[type_id]);
        for (int version = 0; version < VERSIONS; version++)
            Py_XDECREF((PyObject *)d->of_values[type_id][version]);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* RecordCodec(CoordinatorRecord, topic, Inexact, find, {class of a key: type}) */
static PyObject *record_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *cls, *name, *inexact, *find, *types;
    if (!PyArg_ParseTuple(args, "O!UOOO!:RecordCodec", &PyType_Type, &cls, &name, &inexact, &find, &PyDict_Type, &types))
        return NULL;
    Py_ssize_t position = 0;
    for (PyObject *of, *type_id; PyDict_Next(types, &position, &of, &type_id);)
        if (PyLong_AsLong(type_id) < 0 || PyLong_AsLong(type_id) >= TYPES)
            return PyErr_Format(PyExc_ValueError, "record types are 0 to %d", TYPES - 1);
    RecordCodec *d = (RecordCodec *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (d == NULL)
        return NULL;
    d->cls = (PyTypeObject *)Py_NewRef(cls);
    d->alloc = PyType_GetSlot(d->cls, Py_tp_alloc);
    d->name = Py_NewRef(name);
    d->inexact = Py_NewRef(inexact);
    d->find = Py_NewRef(find);
    d->types = Py_NewRef(types);
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
     "decode($self, key, value, /)\n--\n\nReturn the record, if both are exactly what Kafka writes."},
    {"encode", record_encode, METH_O,
     "encode($self, record, /)\n--\n\nReturn key and value, if it has no other bytes to keep."},
    {NULL},
};

static PyType_Slot record_slots[] = {
    {Py_tp_doc, "RecordCodec(record, topic, inexact, find, types, /)\n--\n\nThe decoder and encoder of the records of one topic."},
    {Py_tp_new, record_new},
    {Py_tp_dealloc, record_dealloc},
    {Py_tp_traverse, record_traverse},
    {Py_tp_methods, record_methods},
    {0, NULL},
};

PyType_Spec record_spec = {
    .name = "quorate.codecs._native.RecordCodec",
    .basicsize = sizeof(RecordCodec),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = record_slots,
};
