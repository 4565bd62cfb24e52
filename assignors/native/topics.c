/* Topics of a small group, and their order in Java's maps. */
#include "topics.h"

#include <stdlib.h>

bool unpack_topics(PyObject *packed, Topics *topics) {
    if (packed == Py_None)
        return false;
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(packed, &bytes, &length) < 0)
        return false;
    topics->count = (int32_t)(length / 8);
    topics->first = (int32_t *)bytes;
    topics->hashes = (uint32_t *)bytes + topics->count + 1;
    topics->partitions = topics->first[topics->count];
    return topics->partitions <= MOST_NUMBERS && topics->count <= MOST_NUMBERS;
}

bool read_numbers(PyObject *list, int32_t *numbers, Py_ssize_t count, int32_t end) {
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(list, i);
        long number = item == NULL ? -1 : PyLong_AsLong(item);
        if (number < 0 || number >= end)
            return false;
        numbers[i] = (int32_t)number;
    }
    return true;
}

PyObject *tuple_of(const int32_t *numbers, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLong(numbers[i]);
        if (number == NULL || PyTuple_SetItem(tuple, i, number) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static int compare_keys(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

void sort_keys(uint64_t *keys, Py_ssize_t count) {
    if (count > 32) {
        qsort(keys, count, sizeof *keys, compare_keys);
        return;
    }
    for (Py_ssize_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        Py_ssize_t place = i;
        for (; place > 0 && keys[place - 1] > key; place--)
            keys[place] = keys[place - 1];
        keys[place] = key;
    }
}

bool is_crowded(const uint32_t *hashes, int32_t count, int32_t buckets, int32_t most) {
    if (count <= most)
        return false;
    uint16_t *counts = PyMem_Calloc(buckets, sizeof *counts);
    bool crowded = counts == NULL;
    for (int32_t i = 0; !crowded && i < count; i++)
        crowded = ++counts[hashes[i] & (buckets - 1)] > most;
    PyMem_Free(counts);
    return crowded;
}

bool order_topics(const Topics *topics, int32_t *numbers, int32_t count, int32_t buckets) {
    uint32_t hashes[MOST];
    int16_t order[MOST];
    int32_t given[MOST];
    if (count < 2)
        return true;
    if (count > MOST)
        return false;
    for (int32_t i = 0; i < count; i++) {
        given[i] = numbers[i];
        hashes[i] = topics->hashes[numbers[i]];
    }
    if (!hash_order(hashes, count, buckets, order))
        return false;
    for (int32_t i = 0; i < count; i++)
        numbers[i] = given[order[i]];
    return true;
}
