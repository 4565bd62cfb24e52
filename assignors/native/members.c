/* The type SmallGroups: assigns small groups by the slots of their members.
 *
 * Nothing here, or in what it calls, runs Python code before the lists of the result are made: so borrowed
 * references stay valid. Therefore only exact types are read. */
#include "members.h"

/* Read a topic: its name, and the numbers of its partitions. */
static bool read_topic(PyObject *object, PyObject *index, PyObject *first, Name *topic) {
    if (!read_name(object, topic))
        return false;
    topic->number = topic->end = 0;
    PyObject *found = PyDict_GetItemWithError(index, object);
    if (found == NULL)
        return !PyErr_Occurred();
    Py_ssize_t place = PyLong_AsSsize_t(found);
    PyObject *start = PyList_GetItem(first, place), *end = start == NULL ? NULL : PyList_GetItem(first, place + 1);
    if (end == NULL)
        return false;
    long from = PyLong_AsLong(start), to = PyLong_AsLong(end);
    if (PyErr_Occurred() || from < 0 || from > to || to > MOST)
        return false;
    topic->number = (int32_t)from;
    topic->end = (int32_t)to;
    return true;
}

static bool names_equal(PyObject *listed, const Name *topics, int count) {
    if (length_of(listed) != count)
        return false;
    for (int i = 0; i < count; i++) {
        Name own;
        if (!read_name(item_of(listed, i), &own) || own.size != topics[i].size
            || memcmp(own.text, topics[i].text, (size_t)own.size) != 0)
            return false;
    }
    return true;
}

/* Whether an object is a member without a rack. */
static bool is_plain(const SmallGroups *few, PyObject *member) {
    if (Py_TYPE(member) != few->cls)
        return false;
    for (int slot = 0; slot < SLOTS; slot++)
        if (slot_of(few, member, slot) == NULL)
            return false;
    PyObject *rack = slot_of(few, member, RACK);
    return Py_IsNone(rack) || (PyUnicode_CheckExact(rack) && PyUnicode_GetLength(rack) == 0);
}

int read_topics(const SmallGroups *few, PyObject *const *args, Name *topics) {
    PyObject *members = args[0], *index = args[1], *first = args[2];
    PyObject *id, *member, *listed = NULL;
    if (!PyDict_CheckExact(members) || !PyDict_CheckExact(index) || !PyList_CheckExact(first))
        return -1;
    if (PyDict_Size(members) < 1 || PyDict_Size(members) > MOST)
        return -1;
    int count = 0;
    for (Py_ssize_t at = 0; PyDict_Next(members, &at, &id, &member);) {
        if (!is_plain(few, member))
            return -1;
        PyObject *own = slot_of(few, member, TOPICS);
        if (listed == NULL) {
            listed = own;
            Py_ssize_t length = length_of(listed);
            if (length < 0 || length > MOST)
                return -1;
            for (; count < length; count++)
                if (!read_topic(item_of(listed, count), index, first, &topics[count]))
                    return -1;
        } else if (own != listed && !names_equal(own, topics, count)) {
            return -1;
        }
    }
    return count;
}

static int few_traverse(PyObject *self, visitproc visit, void *arg) {
    SmallGroups *few = (SmallGroups *)self;
    Py_VISIT(few->cls);
    Py_VISIT(few->partition);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void few_dealloc(PyObject *self) {
    SmallGroups *few = (SmallGroups *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF((PyObject *)few->cls);
    Py_XDECREF((PyObject *)few->partition);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* SmallGroups(Member, TopicPartition) */
static PyObject *few_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    static const char *const names[SLOTS] = {"topics", "rack", "instance_id", "owned", "user_data"};
    PyObject *cls, *partition;
    if (!PyArg_ParseTuple(args, "O!O!:SmallGroups", &PyType_Type, &cls, &PyType_Type, &partition))
        return NULL;
    SmallGroups *few = (SmallGroups *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (few == NULL)
        return NULL;
    few->cls = (PyTypeObject *)Py_NewRef(cls);
    few->partition = (PyTypeObject *)Py_NewRef(partition);
    for (int i = 0; i < SLOTS; i++)
        if ((few->offsets[i] = slot_offset(few->cls, names[i])) < 0) {
            Py_DECREF(few);
            return NULL;
        }
    return (PyObject *)few;
}

static PyMethodDef few_methods[] = {
    {"range", (PyCFunction)(void (*)(void))range_assign, METH_FASTCALL,
     "range($self, members, index, first, /)\n--\n\nReturn the partitions of each member, or None."},
    {"server_range", (PyCFunction)(void (*)(void))server_range_assign, METH_FASTCALL,
     "server_range($self, members, topics, packed, /)\n--\n\nReturn the partitions of each member, or None."},
    {"sticky", (PyCFunction)(void (*)(void))sticky_assign, METH_FASTCALL,
     "sticky($self, members, index, first, cooperative, as_of_3_7, /)\n--\n\n"
     "Return the partitions of each member, or None."},
    {NULL},
};

static PyType_Slot few_slots[] = {
    {Py_tp_doc, "SmallGroups(member, partition, /)\n--\n\nAssigns small groups with one subscription."},
    {Py_tp_new, few_new},
    {Py_tp_dealloc, few_dealloc},
    {Py_tp_traverse, few_traverse},
    {Py_tp_methods, few_methods},
    {0, NULL},
};

PyType_Spec small_groups_spec = {
    .name = "quorate.codecs._native.SmallGroups",
    .basicsize = sizeof(SmallGroups),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = few_slots,
};
