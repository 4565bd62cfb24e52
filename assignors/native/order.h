/* What assignors of small groups share: names, Java's orders of them, and the lists of a result.
 *
 * A group is small if it has at most MOST members, topics in a subscription, and partitions. */
#ifndef QUORATE_ORDER_H
#define QUORATE_ORDER_H

#include "native.h"

#define MOST 1000
#define TREE_FROM 8 /* a bucket with so many keys becomes a tree when another one is put */

/* A member id, an instance id or a topic, in ASCII: Java's order of it is that of its bytes. */
typedef struct {
    const char *text;
    int32_t size;
    uint32_t spread; /* its hash, as spread by HashMap */
    int32_t number; /* of the member, or of the topic's first partition */
    int32_t end; /* after the topic's last partition */
} Name;

/* Return the text of a string, or NULL for other objects and for surrogates. */
static inline const char *text_of(PyObject *object, Py_ssize_t *size) {
    const char *text = PyUnicode_CheckExact(object) ? PyUnicode_AsUTF8AndSize(object, size) : NULL;
    if (text == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_UnicodeError))
        PyErr_Clear();
    return text;
}

/* Read text and hash. False, and perhaps an exception, for anything but a string in ASCII. */
bool read_name(PyObject *object, Name *name);

/* The order of two names, as qsort uses it. */
int compare_names(const void *one, const void *other);

/* Sort by text. Return false if two names are equal. */
bool sort_names(Name *names, int count);

/* Return the one of sorted names that has a text, or NULL. */
const Name *find_name(const Name *names, int count, const char *text, Py_ssize_t size);

/* Write the positions of `count` keys in the order of a HashMap with `capacity` buckets, into which they were put.
 * Return false if a bucket may become a tree, or the table is too large. */
bool hash_order(const uint32_t *spread, int count, int capacity, int16_t *order);

/* Partitions assigned, in the order in which members list them. */
typedef struct {
    int count;
    int16_t member[MOST];
    int16_t number[MOST];
} Given;

static inline void give(Given *given, int member, int number) {
    given->member[given->count] = (int16_t)member;
    given->number[given->count++] = (int16_t)number;
}

/* Return a list with a tuple of numbers for each member. */
PyObject *given_lists(const Given *given, int members);

#endif
