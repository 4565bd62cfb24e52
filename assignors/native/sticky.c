/* `sticky` and `cooperative-sticky` for equal subscriptions, as in assignors/sticky/few.py. */
#include "members.h"

#define NOBODY -1

typedef struct {
    int members;
    int16_t by_id[MOST]; /* members by member id */
    int16_t in_hash_order[MOST];
    int topic_count;
    Name topics[MOST]; /* by name */
    int claims;
    int16_t claimed[MOST]; /* partitions, in the order of members, and in that of each member */
    int16_t owner[MOST]; /* of each partition of the topology */
    int16_t loser[MOST]; /* the member that owned it, if it does not keep it */
    int16_t size[MOST]; /* how many partitions each member has */
} Plan;

static bool order_members(Plan *plan, PyObject *members) {
    Name ids[MOST];
    uint32_t spread[MOST];
    PyObject *id, *member;
    int count = 0;
    for (Py_ssize_t at = 0; PyDict_Next(members, &at, &id, &member); count++) {
        if (!read_name(id, &ids[count]))
            return false;
        ids[count].number = count;
        spread[count] = ids[count].spread;
    }
    if (!hash_order(spread, count, 16, plan->in_hash_order) || !sort_names(ids, count))
        return false;
    for (int i = 0; i < count; i++)
        plan->by_id[i] = (int16_t)ids[i].number;
    plan->members = count;
    return true;
}

/* Note that a member owns a partition. Return false if another one does. */
static bool claim(Plan *plan, int member, const Name *topic, long partition) {
    if (topic == NULL || partition < 0 || partition >= topic->end - topic->number)
        return true; /* it does not exist, or is not subscribed */
    int number = topic->number + (int)partition;
    if (plan->owner[number] != NOBODY)
        return false;
    plan->owner[number] = (int16_t)member;
    plan->claimed[plan->claims++] = (int16_t)number;
    plan->size[member]++;
    return true;
}

static bool claim_owned(const SmallGroups *few, Plan *plan, int member, PyObject *owned) {
    Py_ssize_t count = length_of(owned);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = item_of(owned, i);
        if ((!PyTuple_CheckExact(pair) && Py_TYPE(pair) != few->partition) || PyTuple_Size(pair) != 2)
            return false;
        PyObject *topic = PyTuple_GetItem(pair, 0), *partition = PyTuple_GetItem(pair, 1);
        Py_ssize_t size;
        int overflow;
        const char *text = text_of(topic, &size);
        if (text == NULL || !PyLong_CheckExact(partition))
            return false;
        long value = PyLong_AsLongAndOverflow(partition, &overflow); /* -1 if it is too large */
        if (!claim(plan, member, find_name(plan->topics, plan->topic_count, text, size), value))
            return false;
    }
    return count >= 0;
}

static bool is_ascii(const uint8_t *text, int size) {
    for (int i = 0; i < size; i++)
        if (text[i] > 127)
            return false;
    return true;
}

/* Read StickyAssignorUserData, version 1: topics with partitions, and the generation. */
static bool claim_user_data(Plan *plan, int member, const uint8_t *at, const uint8_t *end) {
    if (end - at < 4)
        return false;
    int32_t entries = (int32_t)big_endian_32(at);
    at += 4;
    if (entries < 0)
        return false;
    for (; entries > 0; entries--) {
        int16_t size = end - at < 2 ? -1 : (int16_t)big_endian_16(at);
        const uint8_t *text = at + 2;
        if (size < 0 || end - text < size + 4)
            return false;
        const Name *topic = find_name(plan->topics, plan->topic_count, (const char *)text, size);
        if (topic == NULL && !is_ascii(text, size)) /* perhaps not UTF-8 */
            return false;
        int32_t partitions = (int32_t)big_endian_32(text + size);
        at = text + size + 4;
        if (partitions < 0 || partitions > (end - at) / 4)
            return false;
        for (; partitions > 0; partitions--, at += 4)
            if (!claim(plan, member, topic, (int32_t)big_endian_32(at)))
                return false;
    }
    return end - at == 4;
}

/* Read what members own: `sticky` sends it as user data. */
static bool read_claims(const SmallGroups *few, Plan *plan, PyObject *members, bool cooperative) {
    PyObject *id, *member;
    int number = 0;
    plan->claims = 0;
    memset(plan->size, 0, sizeof plan->size);
    memset(plan->owner, NOBODY, sizeof plan->owner); /* all bytes of -1 are the same */
    memset(plan->loser, NOBODY, sizeof plan->loser);
    for (Py_ssize_t at = 0; PyDict_Next(members, &at, &id, &member); number++) {
        PyObject *data = cooperative ? Py_None : slot_of(few, member, USER_DATA);
        if (!Py_IsNone(data) && !PyBytes_CheckExact(data))
            return false;
        Py_ssize_t size = Py_IsNone(data) ? 0 : PyBytes_Size(data);
        const uint8_t *start = size == 0 ? NULL : (const uint8_t *)PyBytes_AsString(data);
        if (!(size == 0 ? claim_owned(few, plan, number, slot_of(few, member, OWNED))
                        : claim_user_data(plan, number, start, start + size)))
            return false;
    }
    return true;
}

/* Write the numbers of all subscribed partitions by partition, then by topic. */
static void order_by_partition(const Plan *plan, int16_t *numbers) {
    int16_t topics[MOST];
    int count = 0, left = plan->topic_count;
    for (int i = 0; i < left; i++)
        topics[i] = (int16_t)i;
    for (int partition = 0; left > 0; partition++) {
        int larger = 0;
        for (int i = 0; i < left; i++) {
            const Name *topic = &plan->topics[topics[i]];
            if (topic->number + partition < topic->end) {
                numbers[count++] = (int16_t)(topic->number + partition);
                topics[larger++] = topics[i];
            }
        }
        left = larger;
    }
}

/* Let members keep partitions in the order of `numbers`, up to their share: `least`, or one more for the first `extra`
 * members in hash order that have so many. Partitions above it get no owner. */
static void keep(Plan *plan, const int16_t *numbers, int count, int least, int extra, Given *given) {
    int16_t share[MOST];
    for (int i = 0; i < plan->members; i++) {
        int member = plan->in_hash_order[i];
        share[member] = (int16_t)(least + (extra > 0 && plan->size[member] > least));
        extra -= share[member] > least;
    }
    memset(plan->size, 0, sizeof plan->size);
    for (int i = 0; i < count; i++) {
        int number = numbers[i], member = plan->owner[number];
        if (member == NOBODY)
            continue;
        if (plan->size[member] < share[member]) {
            plan->size[member]++;
            give(given, member, number);
        } else {
            plan->owner[number] = NOBODY;
            plan->loser[number] = (int16_t)member;
        }
    }
}

/* Give a partition to a member; not at once if it must be revoked by another one. */
static void hand_over(const Plan *plan, bool cooperative, int member, int number, Given *given) {
    if (!cooperative || plan->loser[number] == NOBODY || plan->loser[number] == member)
        give(given, member, number);
}

/* Deal partitions without an owner in rounds to members that have less than `least`. Members with `least` get one more
 * while there are any left: first those that had `least` before. */
static void deal(Plan *plan, int least, bool cooperative, Given *given) {
    int16_t numbers[MOST], needy[MOST], ready[MOST];
    int count = 0, needy_count = 0, ready_count = 0, at = 0;
    for (int i = 0; i < plan->topic_count; i++)
        for (int number = plan->topics[i].number; number < plan->topics[i].end; number++)
            if (plan->owner[number] == NOBODY)
                numbers[count++] = (int16_t)number;
    for (int i = 0; i < plan->members; i++) {
        int16_t member = plan->by_id[i];
        if (plan->size[member] < least)
            needy[needy_count++] = member;
        else if (plan->size[member] == least)
            ready[ready_count++] = member;
    }
    while (needy_count > 0) {
        int left = 0;
        for (int i = 0; i < needy_count; i++) {
            int16_t member = needy[i];
            hand_over(plan, cooperative, member, numbers[at++], given);
            if (++plan->size[member] < least)
                needy[left++] = member;
            else
                ready[ready_count++] = member;
        }
        needy_count = left;
    }
    for (int i = 0; i < ready_count && at < count; i++)
        hand_over(plan, cooperative, ready[i], numbers[at++], given);
}

PyObject *sticky_assign(PyObject *self, PyObject *const *args, Py_ssize_t arguments) {
    const SmallGroups *few = (SmallGroups *)self;
    Plan plan;
    if (arguments != 5)
        return PyErr_Format(PyExc_TypeError, "expected 5 arguments, got %zd", arguments);
    bool cooperative = args[3] == Py_True, lowest_first = args[4] == Py_True;
    plan.topic_count = read_topics(few, args, plan.topics);
    if (plan.topic_count < 0 || !sort_names(plan.topics, plan.topic_count) || !order_members(&plan, args[0])
        || !read_claims(few, &plan, args[0], cooperative))
        return leave_to_python();
    Given given = {.count = 0};
    int total = 0;
    for (int i = 0; i < plan.topic_count; i++)
        total += plan.topics[i].end - plan.topics[i].number;
    int least = total / plan.members;
    if (plan.claims > 0) {
        int16_t numbers[MOST];
        if (lowest_first)
            order_by_partition(&plan, numbers);
        keep(&plan, lowest_first ? numbers : plan.claimed, lowest_first ? total : plan.claims, least,
             total % plan.members, &given);
    }
    deal(&plan, least, cooperative, &given);
    return given_lists(&given, plan.members);
}
