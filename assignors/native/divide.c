/* The server-side `range` for small groups with equal subscriptions; `divided` is for client-side
 * ones, too. */
#include "topics.h"

#include <stdlib.h>

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

typedef struct {
    PyObject *held;   /* has the text */
    const char *text; /* in UTF-8 */
    Py_ssize_t size;
    int32_t number;
    bool is_dynamic;
} Name;

static int compare_names(const void *one, const void *other) {
    const Name *a = one, *b = other;
    if (a->is_dynamic != b->is_dynamic)
        return a->is_dynamic - b->is_dynamic;
    int found = memcmp(a->text, b->text, a->size < b->size ? a->size : b->size);
    return found ? found : (a->size > b->size) - (a->size < b->size);
}

/* Java compares units of UTF-16: from U+E000 on these have another order than UTF-8. */
static bool read_text(Name *name) {
    name->text = PyUnicode_AsUTF8AndSize(name->held, &name->size);
    for (Py_ssize_t i = 0; name->text != NULL && i < name->size; i++)
        if ((unsigned char)name->text[i] >= 0xEE)
            return false;
    return name->text != NULL;
}

/* Sort members: static ones by instance id, then the others by member id. `names`: memory for
 * `count` of them, filled with zeros. False, too, if members share an instance id: they are in
 * hash order. */
static bool sort_members(PyObject *members, PyObject *instance_id, Name *names, Py_ssize_t count) {
    PyObject *id, *member;
    Py_ssize_t position = 0;
    bool is_sorted = true;
    for (int32_t number = 0; number < count && PyDict_Next(members, &position, &id, &member); number++) {
        Name *name = &names[number];
        name->number = number;
        name->held = PyObject_GetAttr(member, instance_id);
        if (name->held == Py_None) {
            name->is_dynamic = true;
            Py_DECREF(name->held);
            name->held = Py_NewRef(id);
        }
        if (name->held == NULL || !read_text(name))
            return false;
        is_sorted &= number == 0 || compare_names(name - 1, name) < 0;
    }
    if (is_sorted)
        return true;
    qsort(names, count, sizeof *names, compare_names);
    for (Py_ssize_t i = 1; i < count; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0)
            return false;
    return true;
}

/* assign_range(packed, topics, members, instance_id): the last one is that name. Returns the numbers of
 * each member, or None. */
static PyObject *assign_range(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    Topics topics;
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "assign_range() takes exactly 4 arguments (%zd given)", count);
    if (!PyList_Check(args[1]) || !PyDict_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "assign_range() needs a list of topics and a dict of members");
    if (!unpack_topics(args[0], &topics))
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    Py_ssize_t topic_count = PyList_Size(args[1]), member_count = PyDict_Size(args[2]);
    Name *names = PyMem_Calloc(member_count, sizeof *names);
    int32_t *numbers = PyMem_Calloc(topic_count + member_count, sizeof *numbers), *order = numbers + topic_count;
    PyObject *found = NULL;
    if (names == NULL || numbers == NULL)
        PyErr_NoMemory();
    else if (sort_members(args[2], args[3], names, member_count) &&
             read_numbers(args[1], numbers, topic_count, topics.count) &&
             order_topics(&topics, numbers, topic_count, table_size(topic_count * 4 / 3 + 1))) {
        for (Py_ssize_t i = 0; i < member_count; i++)
            order[i] = names[i].number;
        found = divided(topics.first, numbers, topic_count, order, member_count);
    }
    for (Py_ssize_t i = 0; names != NULL && i < member_count; i++)
        Py_XDECREF(names[i].held);
    PyMem_Free(names);
    PyMem_Free(numbers);
    return found != NULL || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

PyMethodDef range_methods[] = {
    {"assign_range", (PyCFunction)(void (*)(void))assign_range, METH_FASTCALL,
     "assign_range($module, packed, topics, members, instance_id, /)\n--\n\n"},
    {NULL},
};
