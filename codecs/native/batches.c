/* Walk the record batches of a block (magic 2): where they begin, their headers, CRCs and records.
 *
 * The same as the NumPy in codecs/log/batch_starts.py and blocks.py, for arrays that these modules
 * allocate. Nothing is decided here about damage: a batch with anything irregular is marked as
 * unusual, and Python reads it. No byte outside of the given block is read, whatever the block and
 * the positions contain. Loops run without the GIL. */
#include "native.h"

#include <stdlib.h>

#define LOG_OVERHEAD 12
#define HEADER_BYTES 61
#define SMALLEST_LEGACY 14

static inline int64_t at(const Py_buffer *numbers, Py_ssize_t index) {
    int64_t number;
    memcpy(&number, (const uint8_t *)numbers->buf + 8 * index, 8);
    return number;
}

static inline void put(const Py_buffer *numbers, Py_ssize_t index, int64_t number) {
    memcpy((uint8_t *)numbers->buf + 8 * index, &number, 8);
}

static inline int64_t int16_of(const uint8_t *p) { return (int16_t)big_endian_16(p); }
static inline int64_t int32_of(const uint8_t *p) { return (int32_t)big_endian_32(p); }
static inline int64_t int64_of(const uint8_t *p) { return (int64_t)big_endian_64(p); }

static void release(Py_buffer *buffers, int count) {
    for (int i = 0; i < count; i++)
        PyBuffer_Release(&buffers[i]);
}

/* ---- where batches begin */

static PyObject *batch_starts(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer block;
    long long most;
    if (!PyArg_ParseTuple(arguments, "y*L", &block, &most))
        return NULL;
    const uint8_t *data = block.buf;
    int64_t size = block.len, start = 0;
    size_t count = 0, capacity = 0;
    int64_t *starts = NULL;
    bool failed = false;
    Py_BEGIN_ALLOW_THREADS
    while (size - start >= LOG_OVERHEAD) {
        int64_t length = int32_of(data + start + 8), whole = LOG_OVERHEAD + length;
        if (length < SMALLEST_LEGACY || whole > size - start || whole > most)
            break;
        if (count == capacity) {
            size_t larger = capacity ? 2 * capacity : 1024;
            int64_t *moved = realloc(starts, larger * sizeof *starts);
            if (moved == NULL) {
                failed = true;
                break;
            }
            starts = moved;
            capacity = larger;
        }
        starts[count++] = start;
        start += whole;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&block);
    PyObject *found = failed ? PyErr_NoMemory()
                             : PyByteArray_FromStringAndSize((const char *)starts, (Py_ssize_t)(count * sizeof *starts));
    free(starts);
    return found == NULL ? NULL : Py_BuildValue("NL", found, (long long)start);
}

/* ---- headers */

enum { PLAIN, BASE_OFFSET, CRC, ATTRIBUTES, LAST_OFFSET_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, COUNT, FIELDS };

static PyObject *batch_headers(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer b[4]; /* block, starts, ends, fields: an array of each field */
    if (!PyArg_ParseTuple(arguments, "y*y*y*w*", &b[0], &b[1], &b[2], &b[3]))
        return NULL;
    Py_ssize_t count = b[1].len / 8;
    bool valid = b[1].len == 8 * count && b[2].len == b[1].len && b[3].len == FIELDS * b[1].len;
    const uint8_t *data = b[0].buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; valid && i < count; i++) {
        int64_t start = at(&b[1], i), end = at(&b[2], i);
        if (start < 0 || start > end || end > b[0].len || end - start < LOG_OVERHEAD + SMALLEST_LEGACY) {
            valid = false;
            break;
        }
        const uint8_t *p = data + start;
        int64_t fields[FIELDS] = {0, int64_of(p), 0, 0, 0, 0, 0, -1, -1, 0};
        if (p[16] == 2 && end - start >= HEADER_BYTES) {
            fields[PLAIN] = 1;
            fields[CRC] = (int64_t)big_endian_32(p + 17);
            fields[ATTRIBUTES] = int16_of(p + 21);
            fields[LAST_OFFSET_DELTA] = int32_of(p + 23);
            fields[BASE_TIMESTAMP] = int64_of(p + 27);
            fields[MAX_TIMESTAMP] = int64_of(p + 35);
            fields[PRODUCER_ID] = int64_of(p + 43);
            fields[PRODUCER_EPOCH] = int16_of(p + 51);
            fields[COUNT] = int32_of(p + 57);
        }
        for (int field = 0; field < FIELDS; field++)
            put(&b[3], field * count + i, fields[field]);
    }
    Py_END_ALLOW_THREADS
    release(b, 4);
    if (!valid) {
        PyErr_SetString(PyExc_ValueError, "batches outside of the block, or arrays of other sizes");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* ---- CRC-32C */

static uint32_t tables[8][256];

void prepare_crc(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        tables[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 255];
}

static uint32_t crc_by_tables(const uint8_t *p, int64_t size) {
    uint32_t crc = ~0u;
    for (; size >= 8; size -= 8, p += 8) {
        crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = tables[7][crc & 255] ^ tables[6][crc >> 8 & 255] ^ tables[5][crc >> 16 & 255] ^ tables[4][crc >> 24] ^
              tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
    }
    for (; size > 0; size--)
        crc = crc >> 8 ^ tables[0][(crc ^ *p++) & 255];
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_processor(const uint8_t *p, int64_t size) {
    uint64_t crc = ~0u;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t eight;
        memcpy(&eight, p, 8);
        crc = __builtin_ia32_crc32di(crc, eight);
    }
    uint32_t rest = (uint32_t)crc;
    for (; size > 0; size--)
        rest = __builtin_ia32_crc32qi(rest, *p++);
    return ~rest;
}
#define HAS_INSTRUCTION __builtin_cpu_supports("sse4.2")
#else
#define crc_by_processor crc_by_tables
#define HAS_INSTRUCTION 0
#endif

static PyObject *batch_crcs(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer b[4]; /* block, first and end of the covered bytes of each batch, CRCs as uint32 */
    int tables_only = 0;
    if (!PyArg_ParseTuple(arguments, "y*y*y*w*|p", &b[0], &b[1], &b[2], &b[3], &tables_only))
        return NULL;
    Py_ssize_t count = b[1].len / 8;
    bool valid = b[1].len == 8 * count && b[2].len == b[1].len && b[3].len == 4 * count;
    uint32_t (*crc_of)(const uint8_t *, int64_t) = HAS_INSTRUCTION && !tables_only ? crc_by_processor : crc_by_tables;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; valid && i < count; i++) {
        int64_t first = at(&b[1], i), end = at(&b[2], i);
        if (first < 0 || first > end || end > b[0].len) {
            valid = false;
            break;
        }
        uint32_t crc = crc_of((const uint8_t *)b[0].buf + first, end - first);
        memcpy((uint8_t *)b[3].buf + 4 * i, &crc, 4);
    }
    Py_END_ALLOW_THREADS
    release(b, 4);
    if (!valid) {
        PyErr_SetString(PyExc_ValueError, "batches outside of the block, or arrays of other sizes");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* ---- records: where their keys and values are. Rows of unusual batches are left out. */

/* Read a zigzag varint of at most `longest` bytes. Longer forms, which Kafka reads too, are left to Python. */
static inline bool varint(const uint8_t **p, const uint8_t *end, int longest, int64_t *out) {
    uint64_t value = 0;
    for (int i = 0; i < longest && *p < end; i++) {
        uint8_t byte = *(*p)++;
        value |= (uint64_t)(byte & 127) << 7 * i;
        if (byte < 128) {
            *out = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
            return true;
        }
    }
    return false;
}

/* Read a length and pass that many bytes; -1 is null. */
static inline bool skip(const uint8_t **p, const uint8_t *end, const uint8_t **start, bool *null) {
    int64_t length;
    if (!varint(p, end, 4, &length) || length < -1 || length > end - *p)
        return false;
    *null = length < 0;
    *start = *p;
    *p += *null ? 0 : length;
    return true;
}

enum { DATA, BODY, BODY_END, RECORDS, FIRST_OFFSET, FIRST_TIMESTAMP, KEPT, LEFT_OUT, FOUND, NULLS, UNUSUAL, BUFFERS };
enum { KEY, KEY_END, VALUE, VALUE_END, OFFSET, TIMESTAMP, FACTS };

static PyObject *batch_records(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer b[BUFFERS]; /* data, a fact of all batches each, facts of records, nulls of keys and values, unusual batches */
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*y*w*y*w*w*w*", &b[DATA], &b[BODY], &b[BODY_END], &b[RECORDS], &b[FIRST_OFFSET],
                          &b[FIRST_TIMESTAMP], &b[KEPT], &b[LEFT_OUT], &b[FOUND], &b[NULLS], &b[UNUSUAL]))
        return NULL;
    const uint8_t *data = b[DATA].buf, *left_out = b[LEFT_OUT].buf;
    uint8_t *nulls = b[NULLS].buf, *unusual = b[UNUSUAL].buf;
    Py_ssize_t batches = b[UNUSUAL].len, total = b[NULLS].len / 2, row = 0;
    bool valid = b[FOUND].len == 8 * FACTS * total && b[NULLS].len == 2 * total;
    for (int i = BODY; i <= KEPT; i++)
        valid &= b[i].len == 8 * batches;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; valid && i < batches; i++) {
        int64_t body = at(&b[BODY], i), body_end = at(&b[BODY_END], i), count = at(&b[RECORDS], i);
        if (body < 0 || body > body_end || body_end > b[DATA].len || count < 0 || count > total - row) {
            valid = false;
            break;
        }
        uint64_t offset = (uint64_t)at(&b[FIRST_OFFSET], i);
        int64_t base = at(&b[FIRST_TIMESTAMP], i);
        /* Java adds deltas in 64 bits. If that may overflow, Python reads the batch. */
        bool good = base <= (int64_t)1 << 60 && base >= -((int64_t)1 << 60);
        const uint8_t *p = data + body, *end = data + body_end;
        Py_ssize_t first = row;
        for (int64_t number = 0; good && number < count; number++) {
            int64_t size, timestamp_delta, offset_delta;
            const uint8_t *key, *value, *key_end, *value_end;
            bool null_key, null_value;
            good = varint(&p, end, 4, &size) && size > 0 && size <= end - p;
            if (!good)
                break;
            const uint8_t *record_end = p + size;
            p++; /* attributes, unused */
            good = varint(&p, record_end, 8, &timestamp_delta) && varint(&p, record_end, 4, &offset_delta) &&
                   skip(&p, record_end, &key, &null_key);
            if (!good)
                break;
            key_end = p;
            good = skip(&p, record_end, &value, &null_value);
            if (!good)
                break;
            value_end = p;
            good = record_end - p == 1 && *p == 0; /* no headers */
            if (!good)
                break;
            p = record_end;
            /* The key of a coordinator's record begins with its type. */
            if (!null_key && key_end - key >= 2 && big_endian_16(key) < b[LEFT_OUT].len && left_out[big_endian_16(key)])
                continue;
            put(&b[FOUND], KEY * total + row, key - data);
            put(&b[FOUND], KEY_END * total + row, key_end - data);
            put(&b[FOUND], VALUE * total + row, value - data);
            put(&b[FOUND], VALUE_END * total + row, value_end - data);
            put(&b[FOUND], OFFSET * total + row, (int64_t)(offset + (uint64_t)offset_delta));
            put(&b[FOUND], TIMESTAMP * total + row, base + timestamp_delta);
            nulls[row] = null_key;
            nulls[total + row] = null_value;
            row++;
        }
        unusual[i] = !good || p != end;
        if (unusual[i])
            row = first;
        put(&b[KEPT], i, row - first);
    }
    Py_END_ALLOW_THREADS
    release(b, BUFFERS);
    if (!valid) {
        PyErr_SetString(PyExc_ValueError, "batches outside of the data, or arrays of other sizes");
        return NULL;
    }
    return PyLong_FromSsize_t(row);
}

PyMethodDef batch_methods[] = {
    {"batch_starts", batch_starts, METH_VARARGS, "batch_starts($module, block, most_bytes, /)\n--\n\n"},
    {"batch_headers", batch_headers, METH_VARARGS, "batch_headers($module, block, starts, ends, fields, /)\n--\n\n"},
    {"batch_crcs", batch_crcs, METH_VARARGS,
     "batch_crcs($module, block, firsts, ends, crcs, tables_only=False, /)\n--\n\n"},
    {"batch_records", batch_records, METH_VARARGS,
     "batch_records($module, data, bodies, body_ends, counts, base_offsets, base_timestamps, kept, left_out, facts, "
     "nulls, unusual, /)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};
