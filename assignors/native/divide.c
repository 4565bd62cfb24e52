/* The server-side `range` for small groups with equal subscriptions; `divided` is for client-side
 * ones, too. */
#include "topics.h"

PyObject *divided(const int32_t *first, const int32_t *topics, Py_ssize_t count, const int32_t *members,
                  Py_ssize_t member_count) {
    PyObject *lists = PyList_New(member_count);
    for (Py_ssize_t place = 0; lists != NULL && place < member_count; place++) {
        Py_ssize_t size = 0, at = 0;
        for (Py_ssize_t i = 0; i < count; i++) {
            int32_t partitions = first[topics[i] + 1] - first[topics[i]];
            size += partitions / member_count + (place < partitions % member_count);
        }
        PyObject *numbers = PyTuple_New(size);
        for (Py_ssize_t i = 0; i < count; i++) {
            Py_ssize_t start = first[topics[i]], partitions = first[topics[i] + 1] - start;
            Py_ssize_t share = partitions / member_count, extra = partitions % member_count;
            start += place * share + (place < extra ? place : extra);
            for (Py_ssize_t one = 0; numbers != NULL && one < share + (place < extra); one++) {
                PyObject *number = PyLong_FromSsize_t(start + one);
                if (number == NULL || PyTuple_SetItem(numbers, at++, number) < 0)
                    Py_CLEAR(numbers);
            }
        }
        if (numbers == NULL || PyList_SetItem(lists, members[place], numbers) < 0)
            Py_CLEAR(lists);
    }
    return lists;
}

/* Put members in Kafka's order: static ones by instance id, then the others by member id. `held`:
 * gets what has their texts. False, too, if members share an instance id: they are in hash order. */
static bool sort_members(PyObject *members, PyObject *instance_id, PyObject **held, int32_t *order, int32_t count) {
    Name static_members[MOST], others[MOST];
    int32_t static_count = 0, other_count = 0;
    PyObject *id, *member;
    Py_ssize_t position = 0;
    for (int32_t number = 0; number < count && PyDict_Next(members, &position, &id, &member); number++) {
        PyObject *instance = held[number] = PyObject_GetAttr(member, instance_id);
        if (instance == NULL)
            return false;
        Name *name = Py_IsNone(instance) ? &others[other_count++] : &static_members[static_count++];
        if (!read_name(Py_IsNone(instance) ? id : instance, name))
            return false;
        name->number = number;
    }
    if (!sort_names(static_members, static_count) || !sort_names(others, other_count))
        return false;
    for (int32_t i = 0; i < static_count; i++)
        order[i] = static_members[i].number;
    for (int32_t i = 0; i < other_count; i++)
        order[static_count + i] = others[i].number;
    return static_count + other_count == count;
}

/* assign_range(packed, topics, members, instance_id): the last one is that name. Returns the
 * numbers of each member, or None. */
static PyObject *assign_range(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    Topics topics;
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "assign_range() takes exactly 4 arguments (%zd given)", count);
    if (!PyList_Check(args[1]) || !PyDict_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "assign_range() needs a list of topics and a dict of members");
    if (!unpack_topics(args[0], &topics))
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    Py_ssize_t topic_count = PyList_Size(args[1]), member_count = PyDict_Size(args[2]);
    PyObject *held[MOST], *found = NULL;
    int32_t numbers[MOST], order[MOST];
    if (topic_count > MOST || member_count > MOST)
        Py_RETURN_NONE;
    memset(held, 0, member_count * sizeof *held);
    if (sort_members(args[2], args[3], held, order, (int32_t)member_count) &&
        read_numbers(args[1], numbers, topic_count, topics.count) &&
        order_topics(&topics, numbers, (int32_t)topic_count, table_size((int32_t)topic_count * 4 / 3 + 1)))
        found = divided(topics.first, numbers, topic_count, order, member_count);
    for (Py_ssize_t i = 0; i < member_count; i++)
        Py_XDECREF(held[i]);
    return found != NULL || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

PyMethodDef range_methods[] = {
    {"assign_range", (PyCFunction)(void (*)(void))assign_range, METH_FASTCALL,
     "assign_range($module, packed, topics, members, instance_id, /)\n--\n\n"},
    {NULL},
};
