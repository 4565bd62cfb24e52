"""Metrics of groups."""

from collections import defaultdict

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from quorate.watch.metrics import LABEL_LENGTH, Metrics, MetricsError, MetricsOptions
from tests.watch.helpers.generated import NAMES, GeneratedWatch

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
NAME = "orders-fulfilment"
LABELS = ("group", "topic", "partition", "cause", "kind", "state", "assignor", "le", "what")


@pytest.fixture
def watched() -> GeneratedWatch:
    return GeneratedWatch(groups=20, members=5, partitions=12)


def scraped(metrics: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    """Return samples by name and label values."""
    kind, text = metrics.scrape(OPEN_METRICS)
    assert kind.startswith("application/openmetrics-text")
    found = defaultdict(dict)
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            values = tuple(sample.labels[label] for label in LABELS if label in sample.labels)
            found[sample.name][values] = sample.value
    return found


def test_metrics_equal_what_the_observer_knows(watched):
    samples = scraped(Metrics(watched))
    groups = {group.group_id: group for group in watched.groups()}
    assert samples["quorate_watch_group_lag_seconds"] == {
        (name,): group.lag_ms / 1000 for name, group in groups.items() if group.lag_ms is not None
    }
    assert samples["quorate_watch_group_members"] == {(name,): group.members for name, group in groups.items()}
    assert samples["quorate_watch_group_epoch"][NAME,] == groups[NAME].epoch
    assert samples["quorate_watch_group_locality_ratio"][NAME,] == groups[NAME].locality
    assert samples["quorate_watch_group_commits_total"][NAME,] == groups[NAME].commits
    assert samples["quorate_watch_group_info"][NAME, "consumer", "Stable", "uniform"] == 1
    assert sum(samples["quorate_watch_groups"].values()) == len(groups)
    assert samples["quorate_watch_caught_up"] == {(): 1}
    assert (
        samples["quorate_watch_next_offset"]["__consumer_offsets", "7"] == watched.status().read["__consumer_offsets-7"]
    )


def test_an_unknown_lag_has_no_sample(watched):
    unknown = [group.group_id for group in watched.groups() if group.lag_ms is None]
    assert unknown
    assert not {(name,) for name in unknown} & scraped(Metrics(watched))["quorate_watch_group_lag_seconds"].keys()


def test_counters_count_from_the_start_of_the_process(watched):
    metrics = Metrics(watched)
    assert watched.events()
    assert scraped(metrics)["quorate_watch_rebalances_total"] == {}
    for _ in range(3):
        watched.rebalance(NAME)
    for _ in range(2):  # a scrape counts nothing twice
        samples = scraped(metrics)
        assert samples["quorate_watch_rebalances_total"] == {(NAME, "member-left"): 1, (NAME, "member-joined"): 2}
        assert samples["quorate_watch_events_total"] == {(NAME, "rebalance-began"): 3, (NAME, "rebalance-ended"): 3}
        assert samples["quorate_watch_rebalance_seconds_count"] == {(NAME,): 3}
        assert samples["quorate_watch_rebalance_seconds_sum"][NAME,] == pytest.approx(3.6)
        buckets = samples["quorate_watch_rebalance_seconds_bucket"]
        assert [buckets[NAME, bound] for bound in ("1.0", "2.5", "+Inf")] == [0, 3, 3]


def test_groups_are_chosen_by_a_regex_of_the_whole_id(watched):
    samples = scraped(Metrics(watched, MetricsOptions(groups="orders-.*|team-00")))
    assert list(samples["quorate_watch_group_members"]) == [(NAME,)]
    assert sum(samples["quorate_watch_groups"].values()) == len(watched.groups())
    assert samples["quorate_watch_left_out"]["groups",] == 0


def test_the_number_of_groups_is_limited_and_what_is_left_out_is_counted(watched):
    metrics = Metrics(watched, MetricsOptions(limit=5))
    first = scraped(metrics)
    kept = first["quorate_watch_group_members"].keys()
    assert len(kept) == 5
    assert first["quorate_watch_left_out"]["groups",] == len(watched.groups()) - 5
    assert scraped(metrics)["quorate_watch_group_members"].keys() == kept
    gone = next(iter(kept))[0]
    watched.delete(gone)
    after = scraped(metrics)["quorate_watch_group_members"].keys()
    assert (len(after), len(after & kept), (gone,) in after) == (5, 4, False)


def test_details_have_sums_of_records_and_the_largest_time(watched):
    moment = watched.group(NAME)
    samples = scraped(Metrics(watched, MetricsOptions(groups=NAME, detail="topic")))
    assert samples["quorate_watch_topic_lag_records"].keys() == {(NAME, "orders")}
    samples = scraped(Metrics(watched, MetricsOptions(groups=NAME, detail="partition", detail_limit=10)))
    assert len(samples["quorate_watch_partition_lag_seconds"]) == 10
    assert samples["quorate_watch_left_out"]["partitions",] == len(moment.partitions) - 10


def test_any_name_is_a_label(watched):
    assert {(name,) for name in NAMES} < scraped(Metrics(watched))["quorate_watch_group_members"].keys()


def test_long_names_are_cut_and_stay_different(watched):
    for end in "ab":
        watched._groups[long := "x" * 10_000 + end] = watched._groups[NAME]
        watched._groups[long] = type(watched._groups[NAME])(**{**vars(watched._groups[NAME]), "group_id": long})
    labels = [name for (name,) in scraped(Metrics(watched))["quorate_watch_group_members"] if name.startswith("xxx")]
    assert len(set(labels)) == 2
    assert max(map(len, labels)) < LABEL_LENGTH + 20


def test_the_text_format_is_served_to_others(watched):
    kind, text = Metrics(watched).scrape("text/plain")
    assert kind.startswith("text/plain")
    epoch = watched.group(NAME).summary.epoch
    assert f'quorate_watch_group_epoch{{group="orders-fulfilment"}} {epoch}.0'.encode() in text


@pytest.mark.parametrize(
    "options",
    [{"groups": "("}, {"limit": -1}, {"detail_limit": -1}, {"detail": "broker"}],
    ids=lambda one: next(iter(one)),
)
def test_a_wrong_option_is_an_error(options):
    with pytest.raises(MetricsError):
        MetricsOptions(**options)
