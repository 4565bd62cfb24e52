/* Create objects from the values of some of their slots. */
#include "native.h"

typedef struct {
    PyObject_HEAD
    PyTypeObject *cls;
    allocfunc alloc;
    Py_ssize_t given; /* slots whose values are arguments; they come first */
    Py_ssize_t count;
    Py_ssize_t *offsets; /* of all slots */
    PyObject *defaults; /* the values of the others */
} Maker;

/* make(*values): a new object. */
static PyObject *maker_make(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    const Maker *m = (Maker *)self;
    if (count != m->given)
        return PyErr_Format(PyExc_TypeError, "expected %zd values, got %zd", m->given, count);
    PyObject *object = m->alloc(m->cls, 0);
    if (object == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < m->given; i++)
        SLOT(object, m->offsets[i]) = Py_NewRef(args[i]);
    for (Py_ssize_t i = m->given; i < m->count; i++)
        SLOT(object, m->offsets[i]) = Py_NewRef(PyTuple_GetItem(m->defaults, i - m->given));
    return object;
}

static int maker_traverse(PyObject *self, visitproc visit, void *arg) {
    Maker *m = (Maker *)self;
    Py_VISIT(m->cls);
    Py_VISIT(m->defaults);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void maker_dealloc(PyObject *self) {
    Maker *m = (Maker *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF((PyObject *)m->cls);
    Py_XDECREF(m->defaults);
    PyMem_Free(m->offsets);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Maker(cls, names of slots, how many of them have values as arguments, values of the others) */
static PyObject *maker_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *cls, *names, *defaults;
    Py_ssize_t given;
    if (!PyArg_ParseTuple(args, "O!O!nO!:Maker", &PyType_Type, &cls, &PyTuple_Type, &names, &given, &PyTuple_Type,
                          &defaults))
        return NULL;
    if (given < 0 || PyTuple_Size(names) - PyTuple_Size(defaults) != given)
        return PyErr_Format(PyExc_ValueError, "each slot needs one value");
    Maker *m = (Maker *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (m == NULL)
        return NULL;
    m->cls = (PyTypeObject *)Py_NewRef(cls);
    m->alloc = PyType_GetSlot(m->cls, Py_tp_alloc);
    m->given = given;
    m->count = PyTuple_Size(names);
    m->defaults = Py_NewRef(defaults);
    m->offsets = PyMem_Calloc(m->count + 1, sizeof *m->offsets);
    if (m->offsets == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < m->count; i++) {
        PyObject *name = PyUnicode_AsUTF8String(PyTuple_GetItem(names, i));
        if (name != NULL)
            m->offsets[i] = slot_offset(m->cls, PyBytes_AsString(name));
        Py_XDECREF(name);
    }
    if (PyErr_Occurred())
        Py_CLEAR(m);
    return (PyObject *)m;
}

static PyMethodDef maker_methods[] = {
    {"make", (PyCFunction)(void (*)(void))maker_make, METH_FASTCALL, "make($self, /, *values)\n--\n\nReturn a new object."},
    {NULL},
};

static PyType_Slot maker_slots[] = {
    {Py_tp_doc, "Maker(of, slots, given, defaults, /)\n--\n\nCreates objects of a class from the values of some slots."},
    {Py_tp_new, maker_new},
    {Py_tp_dealloc, maker_dealloc},
    {Py_tp_traverse, maker_traverse},
    {Py_tp_methods, maker_methods},
    {0, NULL},
};

PyType_Spec maker_spec = {
    .name = "quorate.codecs._native.Maker",
    .basicsize = sizeof(Maker),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = maker_slots,
};
