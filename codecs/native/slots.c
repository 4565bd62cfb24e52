/* Number the distinct keys, given as positions in a buffer.
 *
 * No byte outside of the buffer is read, whatever the positions. The loop runs without the GIL. */
#include "native.h"

#include <stdlib.h>

static inline int64_t at(const Py_buffer *numbers, Py_ssize_t index) {
    int64_t number;
    memcpy(&number, (const uint8_t *)numbers->buf + 8 * index, 8);
    return number;
}

static uint32_t hash_of(const uint8_t *p, int64_t size) {
    uint64_t hash = (uint64_t)size * 0x9E3779B97F4A7C15u, word = 0;
    for (; size >= 8; size -= 8, p += 8) {
        memcpy(&word, p, 8);
        hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, p, (size_t)size);
    hash = (hash ^ word) * 0xC4CEB9FE1A85EC53u;
    return (uint32_t)(hash ^ hash >> 32);
}

typedef struct {
    int64_t start; /* of the first equal slot */
    int64_t size;
    uint32_t hash;
    int32_t code; /* -1: free */
} Entry;

typedef struct {
    Entry *entries;
    size_t size; /* a power of two */
} Table;

static bool grow(Table *table) {
    Table larger = {NULL, table->size ? 4 * table->size : 1 << 12};
    larger.entries = malloc(larger.size * sizeof(Entry));
    if (larger.entries == NULL)
        return false;
    memset(larger.entries, 0xFF, larger.size * sizeof(Entry));
    for (size_t i = 0; i < table->size; i++) {
        if (table->entries[i].code < 0)
            continue;
        size_t place = table->entries[i].hash & (larger.size - 1);
        while (larger.entries[place].code >= 0)
            place = (place + 1) & (larger.size - 1);
        larger.entries[place] = table->entries[i];
    }
    free(table->entries);
    *table = larger;
    return true;
}

/* Return the code of the bytes, which is `code` if they are new. There is a free entry. */
static int32_t code_of(const Table *table, const uint8_t *data, int64_t start, int64_t size, uint32_t hash, int32_t code) {
    for (size_t place = hash & (table->size - 1);; place = (place + 1) & (table->size - 1)) {
        Entry *entry = &table->entries[place];
        if (entry->code < 0) {
            *entry = (Entry){start, size, hash, code};
            return code;
        }
        if (entry->hash == hash && entry->size == size && memcmp(data + entry->start, data + start, (size_t)size) == 0)
            return entry->code;
    }
}

#define AT_ONCE 16 /* slots whose bytes and entries are loaded into the cache together */

/* (data, starts, ends, nulls or empty, codes: int32, firsts: int64) -> the number of distinct slots.
 * A slot's code is the index in `firsts` of the first equal slot. Nulls are equal. */
static PyObject *slots_distinct(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer b[6];
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*w*w*", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]))
        return NULL;
    const uint8_t *data = b[0].buf, *nulls = b[3].len ? b[3].buf : NULL;
    Py_ssize_t count = b[1].len / 8;
    bool valid = b[1].len == 8 * count && b[2].len == b[1].len && b[4].len == 4 * count && b[5].len == b[1].len &&
                 (nulls == NULL || b[3].len == count) && count < INT32_MAX;
    bool failed = false;
    int32_t distinct = 0, null_code = -1;
    Table table = {NULL, 0};
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t begin = 0; valid && !failed && begin < count; begin += AT_ONCE) {
        int64_t start[AT_ONCE], size[AT_ONCE];
        uint32_t hash[AT_ONCE];
        int some = count - begin < AT_ONCE ? (int)(count - begin) : AT_ONCE;
        failed = 2 * ((size_t)distinct + AT_ONCE) > table.size && !grow(&table);
        for (int i = 0; valid && !failed && i < some; i++) {
            bool null = nulls != NULL && nulls[begin + i];
            int64_t end = at(&b[2], begin + i);
            start[i] = at(&b[1], begin + i);
            size[i] = null ? -1 : end - start[i];
            if (null)
                continue;
            valid = start[i] >= 0 && start[i] <= end && end <= b[0].len;
            if (!valid)
                break;
            hash[i] = hash_of(data + start[i], size[i]);
#ifdef __GNUC__
            __builtin_prefetch(&table.entries[hash[i] & (table.size - 1)]);
#endif
        }
        for (int i = 0; valid && !failed && i < some; i++) {
            int64_t row = begin + i;
            int32_t code;
            if (size[i] >= 0)
                code = code_of(&table, data, start[i], size[i], hash[i], distinct);
            else
                code = null_code = null_code < 0 ? distinct : null_code;
            if (code == distinct)
                memcpy((uint8_t *)b[5].buf + 8 * (Py_ssize_t)distinct++, &row, 8);
            memcpy((uint8_t *)b[4].buf + 4 * row, &code, 4);
        }
    }
    Py_END_ALLOW_THREADS
    free(table.entries);
    for (int i = 0; i < 6; i++)
        PyBuffer_Release(&b[i]);
    if (failed)
        return PyErr_NoMemory();
    if (valid)
        return PyLong_FromLong(distinct);
    PyErr_SetString(PyExc_ValueError, "slots outside of the buffer, or arrays of other sizes");
    return NULL;
}

PyMethodDef slots_methods[] = {
    {"slots_distinct", slots_distinct, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
