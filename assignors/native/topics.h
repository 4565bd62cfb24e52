/* What assignors of small groups share. Topics have the numbers 0, 1, 2 …; their partitions are
 * numbered topic after topic, as in quorate.assignors.topic_lists. A function that leaves a group
 * to Python returns false, or None, without an exception. */
#ifndef QUORATE_TOPICS_H
#define QUORATE_TOPICS_H

#include "order.h"

#define MOST_NUMBERS ((1 << 16) - 1) /* HashMap spreads only hashes above it */

typedef struct {
    int32_t count;
    int32_t partitions;     /* of all topics */
    const int32_t *first;   /* partition of each topic; one more than there are topics */
    const uint32_t *hashes; /* of the topics' ids, as spread by HashMap */
} Topics;

/* Buckets of a HashMap with `buckets` initially, after `size` puts. */
static inline int32_t grown(int32_t size, int32_t buckets) {
    while (size > buckets * 3 / 4)
        buckets *= 2;
    return buckets;
}

/* Buckets of `new HashMap(capacity)`. */
static inline int32_t table_size(int32_t capacity) {
    int32_t buckets = 1;
    while (buckets < capacity)
        buckets *= 2;
    return buckets;
}

/* Read TopicLists.packed. The bytes must live as long as the topics. */
bool unpack_topics(PyObject *packed, Topics *topics);

/* Read a list of numbers from 0 to `end` - 1. */
bool read_numbers(PyObject *list, int32_t *numbers, Py_ssize_t count, int32_t end);

PyObject *tuple_of(const int32_t *numbers, Py_ssize_t count);

/* Sort numbers of 64 bits. */
void sort_keys(uint64_t *keys, Py_ssize_t count);

/* Return whether a table of this size, with all hashes in it, has more than `most` in a bucket. If
 * there is no memory to find out, the answer is yes. */
bool is_crowded(const uint32_t *hashes, int32_t count, int32_t buckets, int32_t most);

/* Put topics into the order of a HashMap with `buckets` initially, into which they are put in
 * turn. */
bool order_topics(const Topics *topics, int32_t *numbers, int32_t count, int32_t buckets);

/* Pointer to what is left after `count` items: arrays in one block of memory. */
#define TAKE(pointer, block, count) ((pointer) = (void *)(block), (block) += (count) * sizeof *(pointer))

#endif
