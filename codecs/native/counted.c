/* A dict that counts the slots of Kafka's TimelineHashMap: the base of TimelineMap. */
#include "native.h"

static Py_ssize_t slots_at; /* where the count is: behind the dict, whose size the limited API hides */

static int counted_set(PyObject *self, PyObject *key, PyObject *value) {
    if (value == NULL)
        return PyDict_DelItem(self, key);
    Py_ssize_t *slots = (Py_ssize_t *)((char *)self + slots_at);
    if ((PyDict_Size(self) + 1) * 3 > *slots * 4) /* also if the key is not new */
        *slots *= 2;
    return PyDict_SetItem(self, key, value);
}

/* The same as those of dict; subclasses of dict itself look up a method for each call. */
static PyObject *counted_get(PyObject *self, PyObject *key) {
    PyObject *found = dict_get(self, key);
    if (found == NULL && !PyErr_Occurred()) {
        PyObject *args = PyTuple_Pack(1, key);
        PyErr_SetObject(PyExc_KeyError, args);
        Py_XDECREF(args);
    }
    return found;
}

/* Those of dict do not visit the type, and Python leaves that to a base that is not static. */
static int counted_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    return ((traverseproc)PyType_GetSlot(&PyDict_Type, Py_tp_traverse))(self, visit, arg);
}

static int counted_clear(PyObject *self) {
    return ((inquiry)PyType_GetSlot(&PyDict_Type, Py_tp_clear))(self);
}

bool add_counted_dict(PyObject *module) {
    PyObject *size = PyObject_GetAttrString((PyObject *)&PyDict_Type, "__basicsize__");
    if (size == NULL)
        return false;
    slots_at = PyLong_AsSsize_t(size);
    Py_DECREF(size);
    PyMemberDef members[] = {
        {"slots", T_PYSSIZET, slots_at, 0, "The number of slots, which never decreases."},
        {NULL},
    };
    PyType_Slot slots[] = {
        {Py_tp_doc, "A dict that counts the slots of Kafka's TimelineHashMap."},
        {Py_tp_traverse, counted_traverse},
        {Py_tp_clear, counted_clear},
        {Py_mp_subscript, counted_get},
        {Py_mp_ass_subscript, counted_set},
        {Py_sq_contains, PyDict_Contains},
        {Py_tp_members, members},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "quorate.codecs._native.NativeDict",
        .basicsize = (int)(slots_at + (Py_ssize_t)sizeof(Py_ssize_t)),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    PyObject *bases = PyTuple_Pack(1, (PyObject *)&PyDict_Type);
    PyObject *type = bases == NULL ? NULL : PyType_FromModuleAndSpec(module, &spec, bases);
    bool done = type != NULL && PyModule_AddType(module, (PyTypeObject *)type) == 0;
    Py_XDECREF(bases);
    Py_XDECREF(type);
    return done;
}
