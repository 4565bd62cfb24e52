/* Decode flat messages (numbers, text, bytes, uuids) of many records to columns in Arrow's layout.
 *
 * The same as columnar/read.py for arrays that columnar/flat.py allocates. Irregular rows are left to
 * Python; if they are many, the loop ends, and Python decodes all rows. No byte outside of the slots
 * is read. The loop runs without the GIL. */
#include "native.h"

typedef struct {
    char code;
    uint8_t *values;  /* of numbers and uuids: in native byte order, one after the other */
    int32_t *offsets; /* of text and bytes: one more than rows */
    uint8_t *content;
    int64_t capacity, used;
    uint8_t *valid; /* a byte per row; NULL if the column is not wanted, like all other arrays */
    bool has_null;
} Column;

/* What to do with a field: pass it if its column is not wanted, put its default, or read so many bytes, or text. */
enum { PASS, PASS_TEXT, DEFAULT, ONE, TWO, FOUR, EIGHT, SIXTEEN, TEXT };

typedef struct {
    int kind;
    int64_t width; /* of PASS */
    const Field *field;
    Column *column;
    int64_t number; /* the default */
    bool null;      /* whether the default is null */
} Step;

typedef struct {
    const Program *program;
    Step *fields; /* one per field of the program, as if the message carried it */
    Step *steps;  /* those of a message, without its tagged section */
    Py_ssize_t count;
} Layout;

typedef struct {
    const uint8_t *p, *end;
} Bytes;

static bool long_uvarint(Bytes *b, int64_t *out) {
    uint64_t value = 0;
    for (int shift = 0; shift <= 28 && b->p < b->end; shift += 7) {
        uint8_t byte = *b->p++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = (int64_t)value;
            return (byte != 0 || shift == 0) && value <= INT32_MAX;
        }
    }
    return false;
}

/* Read an unsigned varint below 2^31 in its shortest form. Others are left to Python. */
static inline bool uvarint(Bytes *b, int64_t *out) {
    if (b->p >= b->end || *b->p >= 128)
        return long_uvarint(b, out);
    *out = *b->p++;
    return true;
}

static inline bool length_of(Bytes *b, bool flexible, bool text, int64_t *length) {
    if (flexible) {
        if (!uvarint(b, length))
            return false;
        *length -= 1;
        return !text || *length <= 0x7FFF;
    }
    if (b->end - b->p < (text ? 2 : 4))
        return false;
    *length = text ? (int16_t)big_endian_16(b->p) : (int32_t)big_endian_32(b->p);
    b->p += text ? 2 : 4;
    return true;
}

static inline void put_number(const Column *column, Py_ssize_t row, int64_t number) {
    switch (width_of(column->code)) {
    case 1: ((int8_t *)column->values)[row] = (int8_t)number; break;
    case 2: ((int16_t *)column->values)[row] = (int16_t)number; break;
    case 4: ((int32_t *)column->values)[row] = (int32_t)number; break;
    case 8: ((int64_t *)column->values)[row] = number; break;
    default: memset(column->values + 16 * row, 0, 16); /* a uuid */
    }
}

/* Null is empty and 0, and marked. */
static inline void put_null(Column *column, Py_ssize_t row) {
    if (column->valid == NULL)
        return;
    column->valid[row] = 0;
    column->has_null = true;
    if (column->offsets != NULL)
        column->offsets[row + 1] = (int32_t)column->used;
    else
        put_number(column, row, 0);
}

/* The rest of an irregular row, of which some fields may have been read. */
static void put_nothing(Column *column, Py_ssize_t row) {
    if (column->valid == NULL)
        return;
    column->valid[row] = 1;
    if (column->offsets != NULL) {
        column->used = column->offsets[row];
        column->offsets[row + 1] = column->offsets[row];
    } else {
        put_number(column, row, 0);
    }
}

static inline void put_default(const Step *step, Py_ssize_t row) {
    Column *column = step->column;
    if (step->null)
        put_null(column, row);
    else if (column->offsets != NULL)
        column->offsets[row + 1] = (int32_t)column->used;
    else
        put_number(column, row, step->number);
}

/* Short text without a call. */
static inline void copy(uint8_t *to, const uint8_t *from, int64_t length) {
    if (length < 8 || length > 16) {
        memcpy(to, from, (size_t)length);
    } else { /* the halves may overlap */
        memcpy(to, from, 8);
        memcpy(to + length - 8, from + length - 8, 8);
    }
}

static inline bool read_text(Bytes *b, const Step *step, bool flexible, Py_ssize_t row) {
    int64_t length;
    Column *column = step->column;
    if (!length_of(b, flexible, step->field->wire.code == 's', &length) || length > b->end - b->p)
        return false;
    if (length < 0) {
        if (column->valid != NULL)
            put_null(column, row);
        return length == -1 && step->field->nullable;
    }
    if (step->kind == TEXT) {
        if (length > column->capacity - column->used)
            return false;
        copy(column->content + column->used, b->p, length);
        column->used += length;
        column->offsets[row + 1] = (int32_t)column->used;
    }
    b->p += length;
    return true;
}

/* Take some steps; return whether the message is regular so far. */
static bool take(Bytes *bytes, const Step *step, const Step *last, bool flexible, Py_ssize_t row) {
    Bytes b = *bytes;
    for (; step < last; step++) {
        Column *column = step->column;
        int64_t left = b.end - b.p;
        switch (step->kind) {
        case PASS:
            if (left < step->width)
                return false;
            b.p += step->width;
            break;
        case DEFAULT:
            put_default(step, row);
            break;
        case ONE:
            if (left < 1)
                return false;
            ((uint8_t *)column->values)[row] = *b.p;
            b.p += 1;
            break;
        case TWO:
            if (left < 2)
                return false;
            ((uint16_t *)column->values)[row] = big_endian_16(b.p);
            b.p += 2;
            break;
        case FOUR:
            if (left < 4)
                return false;
            ((uint32_t *)column->values)[row] = big_endian_32(b.p);
            b.p += 4;
            break;
        case EIGHT:
            if (left < 8)
                return false;
            ((uint64_t *)column->values)[row] = big_endian_64(b.p);
            b.p += 8;
            break;
        case SIXTEEN:
            if (left < 16)
                return false;
            memcpy(column->values + 16 * row, b.p, 16);
            b.p += 16;
            break;
        default:
            if (!read_text(&b, step, flexible, row))
                return false;
        }
    }
    *bytes = b;
    return true;
}

static inline bool read_tags(Bytes *b, const Layout *layout, Py_ssize_t row) {
    int64_t count, tag, size, last = -1;
    if (!uvarint(b, &count))
        return false;
    for (; count > 0; count--) {
        if (!uvarint(b, &tag) || !uvarint(b, &size) || tag <= last)
            return false;
        last = tag;
        const Step *step = layout->fields, *end = layout->fields + layout->program->count;
        while (step < end && !(step->field->carried && step->field->tag == tag))
            step++;
        if (step == end)
            return false;
        const uint8_t *start = b->p;
        if (step->column->valid != NULL)
            step->column->valid[row] = 1; /* the default may be null */
        if (!take(b, step, step + 1, true, row) || b->p - start != size)
            return false;
    }
    return true;
}

/* Read the message that fills the bytes. */
static inline bool read_row(Bytes b, const Layout *layout, Py_ssize_t row) {
    bool flexible = layout->program->flexible;
    return take(&b, layout->steps, layout->steps + layout->count, flexible, row) &&
           (!flexible || read_tags(&b, layout, row)) && b.p == b.end;
}

static bool is_ascii(const uint8_t *p, int64_t size) {
    uint64_t all = 0, word;
    for (; size >= 8; size -= 8, p += 8) {
        memcpy(&word, p, 8);
        all |= word;
    }
    for (; size > 0; size--)
        all |= *p++;
    return (all & 0x8080808080808080u) == 0;
}

/* ---- the arguments */

static int kind_of(char code, bool wanted) {
    switch (code == 'u' ? 16 : width_of(code)) {
    case 0: return wanted ? TEXT : PASS_TEXT;
    case 1: return wanted ? ONE : PASS;
    case 2: return wanted ? TWO : PASS;
    case 4: return wanted ? FOUR : PASS;
    case 8: return wanted ? EIGHT : PASS;
    default: return wanted ? SIXTEEN : PASS;
    }
}

static bool step_of(const Field *field, Column *column, Step *step) {
    char code = column->code;
    *step = (Step){kind_of(code, column->valid != NULL), code == 'u' ? 16 : width_of(code), field, column, 0, false};
    step->null = field->standard == Py_None;
    if (width_of(code) && PyLong_Check(field->standard))
        step->number = PyLong_AsLongLong(field->standard);
    return !PyErr_Occurred();
}

/* Add a step to those of a message. Bytes to pass are passed at once. */
static void add_step(Layout *layout, const Step *field) {
    bool here = field->field->carried && field->field->tag < 0;
    Step *step = &layout->steps[layout->count];
    if (here && field->kind == PASS && layout->count > 0 && step[-1].kind == PASS) {
        step[-1].width += field->width;
    } else if (here || field->column->valid != NULL) {
        *step = *field;
        if (!here)
            step->kind = DEFAULT;
        layout->count++;
    }
}

/* Fill a column from (code, values or offsets, content or None, valid), or (code, None, None, None). */
static bool parse_column(PyObject *description, Py_ssize_t rows, Column *column, Py_buffer *buffers) {
    int code;
    PyObject *values, *content, *valid;
    if (!PyArg_ParseTuple(description, "COOO", &code, &values, &content, &valid))
        return false;
    column->code = (char)code;
    bool text = code == 's' || code == 'y';
    int width = text ? 4 : code == 'u' ? 16 : width_of((char)code);
    if (width > 0 && values == Py_None)
        return true;
    if (width == 0 || PyObject_GetBuffer(values, &buffers[0], PyBUF_WRITABLE) ||
        PyObject_GetBuffer(valid, &buffers[1], PyBUF_WRITABLE) ||
        (text && PyObject_GetBuffer(content, &buffers[2], PyBUF_WRITABLE)))
        return false;
    if (buffers[0].len != width * (rows + text) || buffers[1].len != rows || (text && buffers[2].len > INT32_MAX))
        return false;
    column->valid = memset(buffers[1].buf, 1, (size_t)rows);
    if (text) {
        column->offsets = buffers[0].buf;
        column->content = buffers[2].buf;
        column->capacity = buffers[2].len;
        column->offsets[0] = 0;
    } else {
        column->values = buffers[0].buf;
    }
    return true;
}

/* Fill a layout from (program, index of the column of each of its fields), or None for no such version. */
static bool parse_layout(PyTypeObject *type, PyObject *description, Column *columns, Py_ssize_t count, Layout *layout) {
    PyObject *program;
    const char *indexes;
    Py_ssize_t fields;
    if (description == Py_None)
        return true;
    if (!PyArg_ParseTuple(description, "O!y#", type, &program, &indexes, &fields))
        return false;
    const Program *g = layout->program = (Program *)program;
    bool filled[256] = {false};
    if (fields != g->count || fields != count ||
        (layout->fields = PyMem_Calloc(2 * (size_t)fields + 1, sizeof *layout->fields)) == NULL)
        return false;
    layout->steps = layout->fields + fields;
    for (Py_ssize_t i = 0; i < fields; i++) {
        Py_ssize_t index = (uint8_t)indexes[i];
        if (index >= count || filled[index] || columns[index].code != g->fields[i].wire.code)
            return false;
        filled[index] = true;
        if (!step_of(&g->fields[i], &columns[index], &layout->fields[i]))
            return false;
        add_step(layout, &layout->fields[i]);
    }
    return true;
}

/* decode_columns(NativeCodec, layouts, type, data, starts, ends, nulls or empty, versions, columns,
 *                irregular, most)
 *
 * An int16 is before each message. It is the index of its layout if `type` is BY_VERSION; otherwise
 * the first one is used, and messages with another int16 are irregular, unless `type` is ANY. Nulls are null in all columns. Arrays are aligned. `irregular` becomes 1 for irregular rows, and
 * 0 for others. Returns a tuple for each column: whether it has nulls, whether its text is ASCII, and
 * how many bytes; or None if more than `most` rows are irregular. */
enum { ANY = -1, BY_VERSION = -2 };

static PyObject *decode_columns(PyObject *module, PyObject *arguments) {
    (void)module;
    PyTypeObject *type;
    PyObject *layout_tuple, *column_tuple, *found = NULL;
    int wanted;
    Py_ssize_t most;
    Py_buffer b[6]; /* data, starts, ends, nulls, versions: int16, irregular */
    if (!PyArg_ParseTuple(arguments, "O!O!iy*y*y*y*w*O!w*n", &PyType_Type, &type, &PyTuple_Type, &layout_tuple, &wanted, &b[0],
                          &b[1], &b[2], &b[3], &b[4], &PyTuple_Type, &column_tuple, &b[5], &most))
        return NULL;
    Py_ssize_t rows = b[1].len / 8, layout_count = PyTuple_Size(layout_tuple), column_count = PyTuple_Size(column_tuple);
    Column *columns = PyMem_Calloc((size_t)column_count + 1, sizeof *columns);
    Layout *layouts = PyMem_Calloc((size_t)layout_count + 1, sizeof *layouts);
    Py_buffer *buffers = PyMem_Calloc(3 * (size_t)column_count + 1, sizeof *buffers);
    bool valid = columns && layouts && buffers && b[1].len == 8 * rows && b[2].len == 8 * rows &&
                 (b[3].len == 0 || b[3].len == rows) && b[4].len == 2 * rows && b[5].len == rows && layout_count > 0;
    for (Py_ssize_t i = 0; valid && i < column_count; i++)
        valid = parse_column(PyTuple_GetItem(column_tuple, i), rows, &columns[i], &buffers[3 * i]);
    for (Py_ssize_t i = 0; valid && i < layout_count; i++)
        valid = parse_layout(type, PyTuple_GetItem(layout_tuple, i), columns, column_count, &layouts[i]);
    const uint8_t *data = b[0].buf, *nulls = b[3].len ? b[3].buf : NULL;
    const int64_t *starts = b[1].buf, *ends = b[2].buf, size = b[0].len;
    int16_t *versions = b[4].buf;
    uint8_t *irregular = b[5].buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; valid && row < rows && most >= 0; row++) {
        int64_t start = starts[row], end = ends[row];
        int16_t version = 0;
        bool regular = true;
        if (nulls != NULL && nulls[row]) {
            for (Py_ssize_t i = 0; i < column_count; i++)
                put_null(&columns[i], row);
        } else {
            regular = start >= 0 && start <= end && end <= size && end - start >= 2;
            if (regular) {
                version = (int16_t)big_endian_16(data + start);
                Py_ssize_t index = wanted == BY_VERSION ? version : 0;
                regular = (wanted < 0 || version == wanted) && index >= 0 && index < layout_count && layouts[index].program != NULL &&
                          read_row((Bytes){data + start + 2, data + end}, &layouts[index], row);
            }
        }
        versions[row] = version;
        irregular[row] = !regular;
        if (!regular) {
            most--;
            for (Py_ssize_t i = 0; i < column_count; i++)
                put_nothing(&columns[i], row);
        }
    }
    Py_END_ALLOW_THREADS
    if (!valid && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "columns, layouts or arrays that do not belong together");
    else if (valid && most < 0)
        found = Py_NewRef(Py_None);
    else if (valid && (found = PyTuple_New(column_count)) != NULL)
        for (Py_ssize_t i = 0; found != NULL && i < column_count; i++) {
            bool ascii = is_ascii(columns[i].content, columns[i].used);
            PyObject *facts = Py_BuildValue("iin", columns[i].has_null, ascii, (Py_ssize_t)columns[i].used);
            if (facts == NULL)
                Py_CLEAR(found);
            else
                PyTuple_SetItem(found, i, facts);
        }
    for (int i = 0; i < 6; i++)
        PyBuffer_Release(&b[i]);
    for (Py_ssize_t i = 0; buffers && i < 3 * column_count; i++)
        if (buffers[i].obj != NULL)
            PyBuffer_Release(&buffers[i]);
    for (Py_ssize_t i = 0; layouts && i < layout_count; i++)
        PyMem_Free(layouts[i].fields);
    PyMem_Free(buffers);
    PyMem_Free(layouts);
    PyMem_Free(columns);
    return found;
}

PyMethodDef column_methods[] = {
    {"decode_columns", decode_columns, METH_VARARGS,
     "decode_columns($module, codec, layouts, wanted, data, starts, ends, nulls, versions, columns, irregular, most, "
     "/)\n--\n\n"},
    {NULL, NULL, 0, NULL},
};
