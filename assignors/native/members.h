/* How assignors in C read the members of a small group with one subscription. */
#ifndef QUORATE_MEMBERS_H
#define QUORATE_MEMBERS_H

#include "order.h"

enum { TOPICS, RACK, INSTANCE_ID, OWNED, USER_DATA, SLOTS };

typedef struct {
    PyObject_HEAD
    PyTypeObject *cls; /* Member */
    PyTypeObject *partition; /* TopicPartition */
    Py_ssize_t offsets[SLOTS]; /* of the slots of a member */
} SmallGroups;

static inline PyObject *slot_of(const SmallGroups *few, PyObject *member, int slot) {
    return SLOT(member, few->offsets[slot]);
}

/* Return the length of a tuple or list; -1 for anything else. */
static inline Py_ssize_t length_of(PyObject *sequence) {
    return PyTuple_CheckExact(sequence) ? PyTuple_Size(sequence)
        : PyList_CheckExact(sequence)   ? PyList_Size(sequence)
                                        : -1;
}

static inline PyObject *item_of(PyObject *sequence, Py_ssize_t i) {
    return PyTuple_CheckExact(sequence) ? PyTuple_GetItem(sequence, i) : PyList_GetItem(sequence, i);
}

/* Check the members, and read the topics of the one subscription, in the order listed. Topics that do not exist have
 * no partitions.
 * Return how many there are; -1, and perhaps an exception, if the group is for Python. */
int read_topics(const SmallGroups *few, PyObject *const *args, Name *topics);

/* few.range(members, index, first), few.server_range(members, topics, packed), and
 * few.sticky(members, index, first, cooperative, as_of_3_7). */
PyObject *range_assign(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *server_range_assign(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *sticky_assign(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* Return None for what Python assigns, or NULL with the exception that is set. */
static inline PyObject *leave_to_python(void) {
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

#endif
