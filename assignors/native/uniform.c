/* `uniform` for small groups with equal subscriptions: the twin of
 * quorate.assignors.server.homogeneous_few.
 *
 * It leaves to Python groups in which a map may have a tree, a partition has several owners, or
 * a target has partitions that do not exist. */
#include "topics.h"

/* A topic in the target of one member. */
typedef struct {
    int32_t given; /* partitions of the previous target */
    int32_t kept;  /* of these */
    int32_t added;
    int32_t highest; /* partition of any of them */
    int32_t rank;    /* place in the map */
    int32_t mask;    /* of the buckets of the set of partitions */
} Slot;

typedef struct {
    Topics topics;
    int jdk;
    int32_t members;
    int32_t total;   /* partitions of subscribed topics */
    int32_t *order;  /* members in HashMap order */
    int32_t *counts; /* partitions in their previous targets */
    int32_t *usable; /* of these, partitions of subscribed topics */
    int32_t *shares; /* partitions that they get */
    int32_t *starts; /* of their previous targets in `old` */
    int32_t *old;    /* in the order of records; later, if members change, of the broker's map */
    int32_t *row;    /* partitions to deal: those without owner, then revoked ones */
    int32_t row_length;
    int32_t *target; /* the new one of one member */
    int32_t *topic_of; /* each partition */
    bool *owned;       /* each partition */
    bool *subscribed;  /* each topic */
    Slot *slots;       /* of each topic; zeros between targets */
    int32_t *used;     /* topics in the target of one member */
    uint64_t *keys;
    uint32_t *hashes;
    char *memory;
} Group;

static bool make_group(Group *g, Py_ssize_t members, Py_ssize_t owned, long jdk) {
    Py_ssize_t partitions = g->topics.partitions, topics = g->topics.count, most = partitions + topics + owned;
    if (members < 1 || members > MOST_NUMBERS || owned > MOST_NUMBERS)
        return false;
    /* Of none of these are there more than 64 bytes. */
    char *block = g->memory = PyMem_Malloc(64 * (most + members));
    if (block == NULL) {
        PyErr_NoMemory();
        return false;
    }
    g->jdk = (int)jdk;
    g->members = (int32_t)members;
    TAKE(g->keys, block, most);
    TAKE(g->hashes, block, most);
    TAKE(g->slots, block, topics);
    TAKE(g->used, block, topics);
    TAKE(g->order, block, members);
    TAKE(g->counts, block, members);
    TAKE(g->usable, block, members);
    TAKE(g->shares, block, members);
    TAKE(g->starts, block, members);
    TAKE(g->old, block, owned);
    TAKE(g->row, block, partitions);
    TAKE(g->target, block, partitions);
    TAKE(g->topic_of, block, partitions);
    TAKE(g->owned, block, partitions);
    TAKE(g->subscribed, block, topics);
    memset(g->slots, 0, topics * sizeof *g->slots);
    for (int32_t topic = 0; topic < topics; topic++)
        for (int32_t number = g->topics.first[topic]; number < g->topics.first[topic + 1]; number++)
            g->topic_of[number] = topic;
    return true;
}

/* Buckets of `new HashSet(collection)`. */
static int32_t copied_set_capacity(const Group *g, int32_t size) {
    if (g->jdk < 19)
        return table_size(size < 12 ? 16 : size * 4 / 3 + 1);
    return table_size(((size < 12 ? 12 : size) * 4 + 2) / 3);
}

static void set_shares(Group *g, bool is_stable) {
    int32_t least = g->total / g->members, extra = g->total % g->members;
    for (int32_t place = 0; place < g->members; place++) {
        int32_t member = g->order[place];
        /* Each of the last members gets an extra partition. */
        bool more = extra && (!is_stable || g->members - place <= extra || g->usable[member] > least);
        extra -= more;
        g->shares[member] = least + more;
    }
}

static bool changes(const Group *g, int32_t member) {
    return g->usable[member] != g->shares[member] || g->counts[member] != g->shares[member];
}

/* Take note of a partition; return what is known of its topic. */
static Slot *slot_of(Group *g, int32_t number, int32_t *used_count) {
    int32_t topic = g->topic_of[number], partition = number - g->topics.first[topic];
    Slot *slot = &g->slots[topic];
    if (slot->given + slot->added == 0)
        g->used[(*used_count)++] = topic;
    if (partition > slot->highest)
        slot->highest = partition;
    return slot;
}

/* Sort the partitions of one target by topic, bucket, and the order given. Then forget its topics. */
static void order_target(Group *g, int32_t *numbers, int32_t count, int32_t used_count) {
    bool is_sorted = true;
    for (int32_t i = 0; i < count; i++) {
        int32_t topic = g->topic_of[numbers[i]];
        uint64_t bucket = (numbers[i] - g->topics.first[topic]) & g->slots[topic].mask;
        g->keys[i] = (uint64_t)g->slots[topic].rank << 40 | bucket << 20 | (uint32_t)i;
        is_sorted &= i == 0 || g->keys[i - 1] < g->keys[i];
    }
    if (!is_sorted) {
        memcpy(g->hashes, numbers, count * sizeof *numbers);
        sort_keys(g->keys, count);
        for (int32_t i = 0; i < count; i++)
            numbers[i] = (int32_t)g->hashes[g->keys[i] & ((1 << 20) - 1)];
    }
    for (int32_t i = 0; i < used_count; i++)
        memset(&g->slots[g->used[i]], 0, sizeof *g->slots);
}

/* Put a previous target into the order in which the broker's map has it after reading the record.
 * Whether sets have trees is checked when the new target is made. */
static bool order_previous(Group *g, int32_t member) {
    int32_t *numbers = g->old + g->starts[member], count = g->counts[member], used_count = 0;
    for (int32_t i = 0; i < count; i++)
        slot_of(g, numbers[i], &used_count)->given++;
    if (!order_topics(&g->topics, g->used, used_count, 16))
        return false;
    for (int32_t rank = 0; rank < used_count; rank++) {
        Slot *slot = &g->slots[g->used[rank]];
        slot->rank = rank;
        slot->mask = copied_set_capacity(g, slot->given) - 1; /* it has room for all */
    }
    order_target(g, numbers, count, used_count);
    return true;
}

/* Rank the topics of a new target as the map of the broker does. It is a copy of that of the
 * previous target, which had `old_count` topics; those are first among `used`. New ones are put at
 * the head of their bucket. */
static bool rank_topics(Group *g, int32_t old_count, int32_t used_count, int32_t last) {
    int32_t first = table_size(old_count), left = 0;
    for (int32_t i = 0; i < used_count; i++) {
        g->hashes[i] = g->topics.hashes[g->used[i]];
        left += g->slots[g->used[i]].kept + g->slots[g->used[i]].added > 0;
    }
    if (left < 2)
        return true;
    if (used_count >= TREE_FROM && is_crowded(g->hashes, used_count, first < 16 ? 16 : first, TREE_FROM - 1))
        return false;
    int32_t buckets = grown(old_count, first);
    if (last >= 0) {
        /* `computeIfAbsent` grows a full table before the lookup, so a topic that only the last
         * call added is not counted. */
        const Slot *slot = &g->slots[g->topic_of[last]];
        buckets = grown(left - (slot->kept == 0 && slot->added == 1), buckets);
    }
    for (int32_t i = 0; i < used_count; i++) {
        const Slot *slot = &g->slots[g->used[i]];
        uint32_t place = slot->kept ? used_count + i : used_count - i;
        g->keys[i] = (uint64_t)(g->hashes[i] & (buckets - 1)) << 40 | (uint64_t)place << 20 | (uint32_t)i;
    }
    sort_keys(g->keys, used_count);
    for (int32_t rank = 0; rank < used_count; rank++)
        g->slots[g->used[g->keys[rank] & ((1 << 20) - 1)]].rank = rank;
    return true;
}

/* Set the buckets of the sets of a new target, of copies of which partitions are removed, or to
 * which they are added: a member never loses some and gets others of the same topic. */
static bool set_masks(Group *g, const int32_t *old, int32_t old_length, const int32_t *added, int32_t added_length,
                      int32_t used_count) {
    for (int32_t i = 0; i < used_count; i++) {
        Slot *slot = &g->slots[g->used[i]];
        int32_t capacity = copied_set_capacity(g, slot->given); /* it has room for what was given */
        slot->mask = grown(slot->kept + slot->added, capacity) - 1;
        if (slot->given + slot->added < TREE_FROM || slot->highest <= slot->mask)
            continue;
        int32_t topic = g->used[i], first = g->topics.first[topic], found = 0;
        for (int32_t one = 0; one < old_length; one++)
            if (g->topic_of[old[one]] == topic)
                g->hashes[found++] = old[one] - first;
        for (int32_t one = 0; one < added_length; one++)
            if (g->topic_of[added[one]] == topic)
                g->hashes[found++] = added[one] - first;
        if (is_crowded(g->hashes, found, capacity, TREE_FROM - 1))
            return false;
    }
    return true;
}

/* Make the new target of a member, which gets these partitions; return its length, or -1. */
static int32_t make_target(Group *g, int32_t member, const int32_t *added, int32_t added_length) {
    const int32_t *old = g->old + g->starts[member];
    int32_t count = 0, used_count = 0, share = g->shares[member];
    for (int32_t i = 0; i < g->counts[member]; i++) {
        Slot *slot = slot_of(g, old[i], &used_count);
        slot->given++;
        if (count < share && g->subscribed[g->topic_of[old[i]]]) {
            slot->kept++;
            g->target[count++] = old[i];
        }
    }
    int32_t old_count = used_count;
    for (int32_t i = 0; i < added_length; i++) {
        slot_of(g, added[i], &used_count)->added++;
        g->target[count++] = added[i];
    }
    if (!rank_topics(g, old_count, used_count, added_length ? added[added_length - 1] : -1) ||
        !set_masks(g, old, g->counts[member], added, added_length, used_count))
        return -1;
    order_target(g, g->target, count, used_count);
    return count;
}

/* Read the previous target of a member that changes, and add what is revoked to the row.
 * `previous`: a function that returns it, or NULL if it has been read. */
static bool revoke_excess(Group *g, int32_t member, PyObject *previous) {
    int32_t *old = g->old + g->starts[member], count = g->counts[member], kept = 0;
    if (previous != NULL && count > 0) {
        PyObject *numbers = PyObject_CallFunction(previous, "i", member);
        bool read = numbers != NULL && PyList_Check(numbers) && PyList_Size(numbers) == count &&
                    read_numbers(numbers, old, count, g->topics.partitions);
        Py_XDECREF(numbers);
        if (!read)
            return false;
    }
    if (!order_previous(g, member))
        return false;
    for (int32_t i = 0; i < count; i++)
        if (g->subscribed[g->topic_of[old[i]]] && ++kept > g->shares[member]) {
            if (g->row_length == g->topics.partitions)
                return false;
            g->row[g->row_length++] = old[i];
        }
    return true;
}

/* Return the members whose target changes, in the order of their records; set their new `targets`. */
static PyObject *assign(Group *g, bool is_stable, PyObject *previous, PyObject *targets) {
    set_shares(g, is_stable);
    for (int32_t place = 0; place < g->members; place++)
        if (changes(g, g->order[place]) && !revoke_excess(g, g->order[place], previous))
            return NULL;
    PyObject *changed = PyList_New(0);
    int32_t at = 0;
    for (int32_t place = 0; changed != NULL && place < g->members; place++) {
        int32_t member = g->order[place], wanted = g->shares[member] - g->usable[member], length = -1;
        if (!changes(g, member))
            continue;
        if (wanted < 0)
            wanted = 0;
        if (wanted <= g->row_length - at)
            length = make_target(g, member, g->row + at, wanted);
        at += wanted;
        PyObject *number = PyLong_FromLong(member), *target = length < 0 ? NULL : tuple_of(g->target, length);
        if (target == NULL || number == NULL || PyList_SetItem(targets, member, target) < 0 ||
            PyList_Append(changed, number) < 0)
            Py_CLEAR(changed);
        Py_XDECREF(number);
    }
    return changed;
}

static PyObject *finish(Group *g, PyObject *changed) {
    PyMem_Free(g->memory);
    return changed != NULL || PyErr_Occurred() ? changed : Py_NewRef(Py_None);
}

/* Read previous targets, and find who owns what. */
static bool read_targets(Group *g, PyObject *targets, PyObject *topics, int32_t names) {
    int32_t topic_count = (int32_t)PyList_Size(topics), start = 0;
    if (topic_count > g->topics.count || !read_numbers(topics, g->used, topic_count, g->topics.count) ||
        !order_topics(&g->topics, g->used, topic_count, copied_set_capacity(g, names)))
        return false;
    memset(g->subscribed, 0, g->topics.count * sizeof *g->subscribed);
    memset(g->owned, 0, g->topics.partitions * sizeof *g->owned);
    for (int32_t i = 0; i < topic_count; i++)
        g->subscribed[g->used[i]] = true;
    for (int32_t member = 0; member < g->members; member++) {
        g->starts[member] = start;
        g->usable[member] = 0;
        if (!read_numbers(PyList_GetItem(targets, member), g->old + start, g->counts[member], g->topics.partitions))
            return false;
        for (; start < g->starts[member] + g->counts[member]; start++) {
            int32_t number = g->old[start];
            if (g->owned[number])
                return false;
            g->owned[number] = true;
            g->usable[member] += g->subscribed[g->topic_of[number]];
        }
    }
    for (int32_t i = 0; i < topic_count; i++) {
        int32_t number = g->topics.first[g->used[i]], end = g->topics.first[g->used[i] + 1];
        for (g->total += end - number; number < end; number++)
            if (!g->owned[number])
                g->row[g->row_length++] = number;
    }
    return true;
}

/* assign_uniform(packed, topics, names, order, targets, jdk, is_stable): return the members whose
 * target changes; or None, and then `targets` may have changed. `topics`: the subscribed ones, as
 * they are put into a copy of the set of their `names`; `targets`: the previous ones, which become
 * the new ones. */
static PyObject *assign_uniform(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    Group g = {0};
    if (count != 7)
        return PyErr_Format(PyExc_TypeError, "assign_uniform() takes exactly 7 arguments (%zd given)", count);
    if (!PyList_Check(args[1]) || !PyList_Check(args[3]) || !PyList_Check(args[4]) ||
        PyList_Size(args[3]) != PyList_Size(args[4]))
        return PyErr_Format(PyExc_TypeError, "assign_uniform() needs lists, order and targets of equal length");
    PyObject *topics = args[1], *order = args[3], *targets = args[4], *changed = NULL;
    long names = PyLong_AsLong(args[2]), jdk = PyLong_AsLong(args[5]);
    Py_ssize_t members = PyList_Size(targets), owned = 0;
    for (Py_ssize_t member = 0; member < members; member++) {
        Py_ssize_t size = PyList_Size(PyList_GetItem(targets, member));
        owned += size < 0 ? MOST_NUMBERS : size;
    }
    if (!PyErr_Occurred() && names <= MOST_NUMBERS && unpack_topics(args[0], &g.topics) &&
        make_group(&g, members, owned, jdk)) {
        for (Py_ssize_t member = 0; member < members; member++)
            g.counts[member] = (int32_t)PyList_Size(PyList_GetItem(targets, member));
        if (read_numbers(order, g.order, members, g.members) && read_targets(&g, targets, topics, (int32_t)names))
            changed = assign(&g, PyObject_IsTrue(args[6]) == 1, NULL, targets);
    }
    return finish(&g, changed);
}

/* assign_few(packed, counts, unowned, previous, targets, jdk, is_stable): the same for a
 * coordinator, whose members are in HashMap order and subscribe to all topics. `counts`:
 * partitions of each member; `unowned`: those of none, topic after topic in the broker's order;
 * `previous(member)`: returns those of a member. */
static PyObject *assign_few(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    Group g = {0};
    if (count != 7)
        return PyErr_Format(PyExc_TypeError, "assign_few() takes exactly 7 arguments (%zd given)", count);
    if (!PyList_Check(args[1]) || !PyList_Check(args[2]) || !PyList_Check(args[4]) ||
        PyList_Size(args[1]) != PyList_Size(args[4]))
        return PyErr_Format(PyExc_TypeError, "assign_few() needs lists, counts and targets of equal length");
    PyObject *counts = args[1], *unowned = args[2], *changed = NULL;
    long jdk = PyLong_AsLong(args[5]);
    Py_ssize_t members = PyList_Size(counts), free = PyList_Size(unowned);
    if (PyErr_Occurred() || !unpack_topics(args[0], &g.topics) || free > g.topics.partitions ||
        !make_group(&g, members, g.topics.partitions - free, jdk))
        return finish(&g, NULL);
    if (read_numbers(counts, g.counts, members, MOST_NUMBERS) && read_numbers(unowned, g.row, free, g.topics.partitions)) {
        int64_t owned = 0;
        for (int32_t member = 0; member < members; member++) {
            g.order[member] = member;
            g.usable[member] = g.counts[member];
            g.starts[member] = (int32_t)owned;
            owned += g.counts[member];
        }
        g.total = g.topics.partitions;
        g.row_length = (int32_t)free;
        memset(g.subscribed, true, g.topics.count * sizeof *g.subscribed);
        if (owned + free == g.total) /* else some have several owners */
            changed = assign(&g, PyObject_IsTrue(args[6]) == 1, args[3], args[4]);
    }
    return finish(&g, changed);
}

PyMethodDef uniform_methods[] = {
    {"assign_uniform", (PyCFunction)(void (*)(void))assign_uniform, METH_FASTCALL,
     "assign_uniform($module, packed, topics, names, order, targets, jdk, is_stable, /)\n--\n\n"},
    {"assign_few", (PyCFunction)(void (*)(void))assign_few, METH_FASTCALL,
     "assign_few($module, packed, counts, unowned, previous, targets, jdk, is_stable, /)\n--\n\n"},
    {NULL},
};
