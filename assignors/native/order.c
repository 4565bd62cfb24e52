/* Java's orders of few names: String.compareTo, and the iteration order of a HashMap. */
#include "order.h"

#include <stdlib.h>

#define MOST_BUCKETS 2048 /* of MOST keys */

bool read_name(PyObject *object, Name *name) {
    Py_ssize_t size;
    name->text = text_of(object, &size);
    if (name->text == NULL || size > INT16_MAX)
        return false;
    uint32_t hash = 0;
    uint8_t bits = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        bits |= (uint8_t)name->text[i];
        hash = 31 * hash + (uint8_t)name->text[i];
    }
    name->size = (int32_t)size;
    name->spread = hash ^ hash >> 16;
    return bits < 128;
}

int compare_names(const void *one, const void *other) {
    const Name *a = one, *b = other;
    int order = memcmp(a->text, b->text, (size_t)(a->size < b->size ? a->size : b->size));
    return order != 0 ? order : a->size - b->size;
}

bool sort_names(Name *names, int count) {
    int sorted = 1;
    while (sorted < count && compare_names(&names[sorted - 1], &names[sorted]) < 0)
        sorted++;
    if (sorted >= count)
        return true;
    qsort(names, (size_t)count, sizeof *names, compare_names);
    for (int i = 1; i < count; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0)
            return false;
    return true;
}

const Name *find_name(const Name *names, int count, const char *text, Py_ssize_t size) {
    if (size > INT16_MAX)
        return NULL;
    Name key = {.text = text, .size = (int32_t)size};
    return bsearch(&key, names, (size_t)count, sizeof *names, compare_names);
}

/* Count the keys of each bucket. Return false if one has too many. */
static bool count_buckets(const uint32_t *spread, int count, int capacity, int16_t *counts) {
    memset(counts, 0, (size_t)capacity * sizeof *counts);
    for (int i = 0; i < count; i++)
        if (++counts[spread[i] & (uint32_t)(capacity - 1)] > TREE_FROM)
            return false;
    return true;
}

bool hash_order(const uint32_t *spread, int count, int capacity, int16_t *order) {
    int16_t at[MOST_BUCKETS];
    for (;; capacity *= 2) {
        if (capacity > MOST_BUCKETS)
            return false;
        int most = capacity * 3 / 4; /* the table grows after one key more was put */
        if (!count_buckets(spread, count > most ? most + 1 : count, capacity, at))
            return false;
        if (count <= most)
            break;
    }
    int16_t end = 0;
    for (int i = 0; i < capacity; i++) {
        int16_t start = end;
        end += at[i];
        at[i] = start;
    }
    for (int i = 0; i < count; i++)
        order[at[spread[i] & (uint32_t)(capacity - 1)]++] = (int16_t)i;
    return true;
}

PyObject *given_lists(const Given *given, int members) {
    int16_t counts[MOST] = {0}, at[MOST] = {0};
    PyObject *tuples[MOST], *lists = PyList_New(members);
    for (int i = 0; i < given->count; i++)
        counts[given->member[i]]++;
    for (int i = 0; lists != NULL && i < members; i++) {
        tuples[i] = PyTuple_New(counts[i]);
        if (tuples[i] == NULL)
            Py_CLEAR(lists);
        else
            PyList_SetItem(lists, i, tuples[i]);
    }
    for (int i = 0; lists != NULL && i < given->count; i++) {
        int member = given->member[i];
        PyObject *number = PyLong_FromLong(given->number[i]);
        if (number == NULL)
            Py_CLEAR(lists);
        else
            PyTuple_SetItem(tuples[member], at[member]++, number);
    }
    return lists;
}
