/* The client-side and the server-side `range`, as in assignors/range_few.py and assignors/server/range.py. */
#include "members.h"
#include "topics.h"

/* Whether a topic is listed twice. Both would be in one bucket of the order. */
static bool has_repeats(const Name *topics, const int16_t *order, int count) {
    for (int i = 1; i < count; i++)
        for (int other = i - 1; other >= 0 && i - other < TREE_FROM; other--)
            if (topics[order[i]].spread == topics[order[other]].spread
                && compare_names(&topics[order[i]], &topics[order[other]]) == 0)
                return true;
    return false;
}

/* Put the positions of topics with partitions in the order of the client, which puts all names into a HashSet, and
 * from there into a HashMap. Return how many have partitions, or -1. */
static int order_listed(const Name *topics, int count, int16_t *order) {
    uint32_t spread[MOST];
    int16_t in_set[MOST], in_map[MOST];
    for (int i = 0; i < count; i++)
        spread[i] = topics[i].spread;
    if (!hash_order(spread, count, 16, in_set) || has_repeats(topics, in_set, count))
        return -1;
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (topics[in_set[i]].number < topics[in_set[i]].end) {
            spread[kept] = topics[in_set[i]].spread;
            in_set[kept++] = in_set[i];
        }
    if (!hash_order(spread, kept, 16, in_map))
        return -1;
    for (int i = 0; i < kept; i++)
        order[i] = in_set[in_map[i]];
    return kept;
}

/* Put members in Kafka's order: static ones by instance id, then the others by member id. Return how many there are,
 * or -1. */
static int order_members(const SmallGroups *few, PyObject *members, int16_t *order) {
    Name names[MOST];
    PyObject *id, *member;
    int count = (int)PyDict_Size(members), static_members = 0, left = count, number = 0;
    for (Py_ssize_t at = 0; PyDict_Next(members, &at, &id, &member); number++) {
        PyObject *instance = slot_of(few, member, INSTANCE_ID);
        Name *name = Py_IsNone(instance) ? &names[--left] : &names[static_members++];
        if (!read_name(Py_IsNone(instance) ? id : instance, name))
            return -1;
        name->number = number;
    }
    if (!sort_names(names, static_members) || !sort_names(names + static_members, count - static_members))
        return -1;
    for (int i = 0; i < count; i++)
        order[i] = (int16_t)names[i].number;
    return count;
}

/* Give each member its range of a topic. */
static void divide(const Name *topic, const int16_t *members, int count, Given *given) {
    int share = (topic->end - topic->number) / count, extra = (topic->end - topic->number) % count;
    int number = topic->number;
    for (int i = 0; number < topic->end; i++)
        for (int left = share + (i < extra); left > 0; left--)
            give(given, members[i], number++);
}

PyObject *range_assign(PyObject *self, PyObject *const *args, Py_ssize_t arguments) {
    const SmallGroups *few = (SmallGroups *)self;
    Name topics[MOST];
    int16_t in_order[MOST], members[MOST];
    if (arguments != 3)
        return PyErr_Format(PyExc_TypeError, "expected 3 arguments, got %zd", arguments);
    int count = read_topics(few, args, topics);
    int kept = count < 0 ? -1 : order_listed(topics, count, in_order);
    int sorted = kept < 0 ? -1 : order_members(few, args[0], members);
    if (sorted < 0)
        return leave_to_python();
    Given given = {.count = 0};
    for (int i = 0; i < kept; i++)
        divide(&topics[in_order[i]], members, sorted, &given);
    return given_lists(&given, sorted);
}

/* Members may have racks, which the broker ignores. */
static bool are_members(const SmallGroups *few, PyObject *members) {
    PyObject *id, *member;
    if (!PyDict_CheckExact(members) || PyDict_Size(members) < 1 || PyDict_Size(members) > MOST)
        return false;
    for (Py_ssize_t at = 0; PyDict_Next(members, &at, &id, &member);)
        if (Py_TYPE(member) != few->cls || slot_of(few, member, INSTANCE_ID) == NULL)
            return false;
    return true;
}

PyObject *server_range_assign(PyObject *self, PyObject *const *args, Py_ssize_t arguments) {
    const SmallGroups *few = (SmallGroups *)self;
    Topics known;
    int32_t topics[MOST];
    int16_t members[MOST];
    if (arguments != 3)
        return PyErr_Format(PyExc_TypeError, "expected 3 arguments, got %zd", arguments);
    if (!PyList_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "expected a list of topics");
    if (!unpack_topics(args[2], &known) || known.partitions > MOST || !are_members(few, args[0]))
        return leave_to_python();
    int32_t count = (int32_t)PyList_Size(args[1]);
    /* The map has the size of the subscription's topics. */
    if (count > MOST || !read_numbers(args[1], topics, count, known.count)
        || !order_topics(&known, topics, count, table_size(count * 4 / 3 + 1)))
        return leave_to_python();
    int sorted = order_members(few, args[0], members);
    if (sorted < 0)
        return leave_to_python();
    Given given = {.count = 0};
    for (int32_t i = 0; i < count; i++) {
        Name topic = {.number = known.first[topics[i]], .end = known.first[topics[i] + 1]};
        divide(&topic, members, sorted, &given);
    }
    return given_lists(&given, sorted);
}
