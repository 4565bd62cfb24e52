/* The module, and the type NativeCodec, which quorate.codecs.accelerator creates from declarations. */
#include "native.h"

static void wire_clear(Wire *wire) {
    if (wire->element != NULL) {
        wire_clear(wire->element);
        PyMem_Free(wire->element);
        wire->element = NULL;
    }
    Py_CLEAR(wire->program);
}

static int wire_traverse(const Wire *wire, visitproc visit, void *arg) {
    Py_VISIT(wire->program);
    return wire->element == NULL ? 0 : wire_traverse(wire->element, visit, arg);
}

/* There is no tp_clear: a program refers to nothing that refers to it, and must never be half empty. */
static void program_clear(PyObject *self) {
    Program *g = (Program *)self;
    for (Py_ssize_t i = 0; i < g->count; i++) {
        wire_clear(&g->fields[i].wire);
        Py_CLEAR(g->fields[i].standard);
    }
    Py_CLEAR(g->cls);
    Py_CLEAR(g->prefix);
    Py_CLEAR(g->none);
    Py_CLEAR(g->inexact);
    Py_CLEAR(g->tagged_field);
    Py_CLEAR(g->uuids);
    Py_CLEAR(g->section);
}

static int program_traverse(PyObject *self, visitproc visit, void *arg) {
    Program *g = (Program *)self;
    for (Py_ssize_t i = 0; i < g->count; i++) {
        int stop = wire_traverse(&g->fields[i].wire, visit, arg);
        if (stop)
            return stop;
        Py_VISIT(g->fields[i].standard);
    }
    Py_VISIT(g->cls);
    Py_VISIT(g->inexact);
    Py_VISIT(g->tagged_field);
    Py_VISIT(g->uuids);
    Py_VISIT(g->section);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void program_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    program_clear(self);
    for (int i = 0; ((Program *)self)->recent != NULL && i < RECENT; i++)
        Py_XDECREF(((Program *)self)->recent[i]);
    PyMem_Free(((Program *)self)->recent);
    PyMem_Free(((Program *)self)->fields);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

Py_ssize_t slot_offset(PyTypeObject *cls, const char *name) {
    for (PyTypeObject *each = cls; each != NULL; each = PyType_GetSlot(each, Py_tp_base)) {
        PyMemberDef *member = PyType_GetSlot(each, Py_tp_members);
        for (; member != NULL && member->name != NULL; member++)
            if (member->type == T_OBJECT_EX && strcmp(member->name, name) == 0)
                return member->offset;
    }
    PyErr_Format(PyExc_TypeError, "the class has no slot %s", name);
    return -1;
}

/* Fill a wire type from (code, element or program or None). */
static bool parse_wire(PyObject *program_type, PyObject *description, Wire *wire) {
    int code;
    PyObject *inner;
    if (!PyArg_ParseTuple(description, "CO", &code, &inner))
        return false;
    wire->code = (char)code;
    if (code == '[') {
        wire->element = PyMem_Calloc(1, sizeof *wire->element);
        if (wire->element == NULL) {
            PyErr_NoMemory();
            return false;
        }
        return parse_wire(program_type, inner, wire->element);
    }
    if (code == '{') {
        if ((PyObject *)Py_TYPE(inner) != program_type) {
            PyErr_SetString(PyExc_TypeError, "a struct needs its program");
            return false;
        }
        wire->program = (Program *)Py_NewRef(inner);
        return true;
    }
    if (code > 127 || (width_of((char)code) == 0 && strchr("syru", code) == NULL)) {
        PyErr_Format(PyExc_ValueError, "no wire type has the code %c", code);
        return false;
    }
    return true;
}

/* Fill a field from (name, wire type, nullable, carried, ignorable, tag or -1, default). */
static bool parse_field(PyTypeObject *program_type, PyTypeObject *cls, PyObject *description, Field *field) {
    const char *name;
    PyObject *wire, *standard;
    int nullable, carried, ignorable, tag;
    if (!PyArg_ParseTuple(
            description, "sOpppiO", &name, &wire, &nullable, &carried, &ignorable, &tag, &standard))
        return false;
    field->nullable = nullable;
    field->carried = carried;
    field->ignorable = ignorable;
    field->tag = tag;
    field->standard = Py_NewRef(standard);
    field->offset = slot_offset(cls, name);
    return field->offset >= 0 && parse_wire((PyObject *)program_type, wire, &field->wire);
}

/* NativeCodec(cls, fields, flexible, lenient, prefix, (Inexact, TaggedField, uuids), section) */
static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *cls, *fields, *prefix, *inexact, *tagged_field, *uuids, *section;
    int flexible, lenient;
    if (!PyArg_ParseTuple(args, "O!O!ppS(OOO)O:NativeCodec", &PyType_Type, &cls, &PyTuple_Type, &fields, &flexible,
                          &lenient, &prefix, &inexact, &tagged_field, &uuids, &section))
        return NULL;
    Program *g = (Program *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (g == NULL)
        return NULL;
    g->cls = (PyTypeObject *)Py_NewRef(cls);
    g->alloc = PyType_GetSlot(g->cls, Py_tp_alloc);
    g->flexible = flexible;
    g->lenient = lenient;
    g->prefix = Py_NewRef(prefix);
    g->inexact = Py_NewRef(inexact);
    g->tagged_field = Py_NewRef(tagged_field);
    g->uuids = Py_NewRef(uuids);
    g->section = Py_NewRef(section);
    g->none = PyTuple_New(0);
    g->unknown_tags = slot_offset(g->cls, "unknown_tags");
    Py_ssize_t count = PyTuple_Size(fields);
    g->fields = PyMem_Calloc(count + 1, sizeof *g->fields);
    g->recent = PyMem_Calloc(RECENT, sizeof *g->recent);
    if (g->fields == NULL || g->recent == NULL)
        PyErr_NoMemory();
    g->tagged = count;
    while (!PyErr_Occurred() && g->count < count) {
        Field *field = &g->fields[g->count];
        if (parse_field(type, g->cls, PyTuple_GetItem(fields, g->count), field) && field->tag >= 0 && field->carried
            && g->tagged == count)
            g->tagged = g->count;
        g->count++;
    }
    if (PyErr_Occurred())
        Py_CLEAR(g);
    return (PyObject *)g;
}

static PyMethodDef program_methods[] = {
    {"decode", (PyCFunction)(void (*)(void))program_decode, METH_FASTCALL,
     "decode($self, data, position, /)\n--\n\nReturn the message from `position` to the end of the bytes."},
    {"encode", program_encode, METH_O,
     "encode($self, message, /)\n--\n\nReturn its bytes, after those of the prefix."},
    {"encode_parts", program_encode_parts, METH_O,
     "encode_parts($self, message, /)\n--\n\nReturn its bytes as a list."},
    {NULL},
};

static PyType_Slot program_slots[] = {
    {Py_tp_doc, "NativeCodec(message, fields, flexible, lenient, prefix, helpers, section, /)\n--\n\n"
                "The layout of a message version, and its decoder and encoder."},
    {Py_tp_new, program_new},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_traverse, program_traverse},
    {Py_tp_methods, program_methods},
    {0, NULL},
};

static PyType_Spec program_spec = {
    .name = "quorate.codecs._native.NativeCodec",
    .basicsize = sizeof(Program),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = program_slots,
};

static bool add_type(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    bool done = type != NULL && PyModule_AddType(module, (PyTypeObject *)type) == 0;
    Py_XDECREF(type);
    return done;
}

static int module_exec(PyObject *module) {
    prepare_crc();
    return add_type(module, &program_spec) && add_type(module, &record_spec) && add_type(module, &maker_spec) &&
                   add_type(module, &small_groups_spec) && add_counted_dict(module) &&
                   PyModule_AddFunctions(module, batch_methods) == 0 && PyModule_AddFunctions(module, column_methods) == 0 &&
                   PyModule_AddFunctions(module, uniform_methods) == 0 &&
                   PyModule_AddIntConstant(module, "API", API) == 0
               ? 0
               : -1;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "Decoders, encoders and loops of quorate.codecs, and assignors of small groups, in C.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__native(void) {
    return PyModuleDef_Init(&module_definition);
}
