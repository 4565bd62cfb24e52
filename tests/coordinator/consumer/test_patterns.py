# ruff: noqa: RUF001 - tests case folding of such characters
r"""Regexes match as in Kafka's RE2/J, in linear time."""

import re
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorate.coordinator.consumer.patterns import PatternError, compiled
from tests.coordinator.consumer.test_consumer_groups import words
from tests.extent import portion
from tests.oracle.client import Oracle

NAMES = (
    *("", "a", "aa", "aaa", "ab", "b", "A", "AB", "x", "X", "k", "K", "s", "S", "0", "42"),
    *("_", "-", ".", "a.b", "b_b", "T.0", "t-1", "n"),
    *("orders", "orders.eu", "ORDERS.EU", "orders-dlq_1", "a-long-name_4", "foo123", "x" * 249),
    *("{", "}", "{a", "a{,2}", "[", "\\", "\t", "\n", "a\nb", " ", "\x0b", "\0"),  # in transactional ids
    *("é", "É", "aé", "ß", "ſ", "\u212a", "日本", "Ω", "ω", "𝒳"),
)  # fmt: skip

INVALID = None

DIFFERENCES: tuple[tuple[str, list[str] | None, list[str] | None], ...] = (
    (r"(a{2}){501}", [], INVALID),
    (r"(?:[a-z]{1,100}){1,11}", [name for name in NAMES if re.fullmatch("[a-z]+", name)], INVALID),
    (r"(\pL\pN){400}", [], INVALID),
    ("|".join(f"{number * 7919 % 100_003:05d}-events" for number in range(2000)), [], INVALID),
    (r"(?i)\p{Ll}", [*"abxkKsSn", *"éßſ\u212aΩω"], [*"abAxXkKsSn", *"éÉßſ\u212aΩω"]),
    (r"\p{Adlam}", INVALID, []),
    (r"\p{Unknown}", [], INVALID),
)  # fmt: skip
"""Patterns that RE2/J and RE2 read differently, and the names that each matches: the table in
docs/explanation/consumer-groups.md.
"""


def matched(pattern: str) -> list[str] | None:
    try:
        regex = compiled(pattern)
    except PatternError:
        return INVALID
    return [name for name in NAMES if regex.matches(name)]


def problem(pattern: str) -> str | None:
    try:
        compiled(pattern)
    except PatternError as error:
        return str(error)
    return None


def matched_by_kafka(oracle: Oracle, pattern: str) -> list[str] | None:
    response = oracle.call("regexMatch", pattern=pattern, names=list(NAMES))
    assert ("invalid" in response) != ("matched" in response), response
    found = set(response.get("matched", ()))
    return [name for name in NAMES if name in found] if "matched" in response else INVALID


SAME = (
    r"(a+)+b|foo.*|orders\.eu|(?i)orders.eu|(?i:K)|(?i)k|(?i)s|(?i)ſ|\C|a\C|\\C|\Q\C\E|\Q\C|[\C]|\pN|\pL+"
    r"|\p{Greek}|\p{Han}+|\p{L}|\p{Lu}|\p{Latin}|\p{Any}|\p{Foo}|\p{^L}|\P{L}|\p{Cn}|\p{IsGreek}|\p{L&}"
    r"|[[:alpha:]]+|[[:word:]]+|[[:foo:]]|[:alpha:]|a{,2}|a{2,}|a{2|a{2,1}|a{1001}|a{1000}|a{0}|a**|a+?"
    r"|a???|a{2}{3}|(a*)*|(a{2}){500}|*a|?|a(b|)|()|(?:a|(a|a)|[a|[]|[]a]|[^]a]|[a-]|[b-a]|[a-\d]|[a\]"
    r"|\Qa.b\E|\Qa.b|\E|a\Eb|[\Qa\E]|\z|\Z|^a$|(?m)a$|(?m)^a$\n^b|(?s)a.b|a.b|\Aa\z|a\b.*|\Ba|\G|\K|\R|\t"
    r"|\s|\S|\w+|\W|\d|\x41|\x{41}|\x{110000}|\x{10FFFF}|\x4|\101|\1|\0|\08|\18|\123|\a|\f|\e|\cA|\_|\-|\é"
    r"|[\é]|\Q\é\E|(?i)é|[é]|日.|(?P<n>a)|(?<n>a)|(?P<n>a)(?P<n>b)|(?<n>a)(?P<n>b)|(?P<1>a)|(?P<>a)|(?P<é>a)"
    r"|(?<é>a)|\(?P<é>a|(?P<n|(?P=n)|(?=a)|(?!a)|(?<=a)|(?>a)|(?#c)|(?|(?i)|(?i-)a|(?-i)a|(?ii)A|(?x)a"
    r"|(?U)a*|(?:)*|a(?i)a|(?i)*|a(?i)*|(*a)|^*|\b+|{|{}|{1}|a{1,|a{01}|[\w-]+|[a-c-e]+|[[a]|[[:alpha:]-z]"
    r"|[a-[:alpha:]]|[[.a.]]|[[:alpha:|[\pL]|[^\PL]|[\b]|[\01]|[\s\S]|(?i)[^a]|(?i)[[:lower:]]"
    r"|(?i)[^[:lower:]]|{*|[{*]|\Q{*|a{,2}*|a{,2}{2}|{{2}|\{*|a{99999999999}|a{2,99999999999}"
    r"|[a{99999999999}]|a{,99999999999}|a{01}|a{01}*|a{0000000001001}|a{00000}|.𝒳?|\x{1D4B3}|\u0041|\p|\p{"
    r"|\P|\pé|\p{l}|\p{Zs}|.|.*|[^\n]|"
)


@pytest.mark.oracle
def test_patterns_match_as_in_re2j(oracle: Oracle) -> None:
    for pattern in (*SAME.split("|"), "a|", "||", "(|a)", "a|b", "a|*", "a\nb", "\0", f"a{{{'9' * 5000}}}"):
        assert (pattern, matched(pattern)) == (pattern, matched_by_kafka(oracle, pattern))
        assert (pattern, problem(pattern)) == (
            pattern,
            oracle.call("regexMatch", pattern=pattern, names=[]).get("invalid"),
        )


@pytest.mark.oracle
@pytest.mark.parametrize(("pattern", "kafka", "ours"), DIFFERENCES)
def test_differences_from_re2j_are_the_documented_ones(
    oracle: Oracle, pattern: str, kafka: list[str] | None, ours: list[str] | None
) -> None:
    assert (matched_by_kafka(oracle, pattern), matched(pattern)) == (kafka, ours)


PIECES = words(
    r"""a b t x X k s orders 0 \. \- _ . ^ $ [a-z] [^a-z] [[:alpha:]] [[:^alpha:]] [[:foo:]] \d \W \s \b \B
    \A \z \Z \Q.\E \Q \E \pL \p{Lu} \p{Greek} \PN \p{Foo} \\ \x41 \x{61} \x \141 \1 \8 \_ \k \C \n \é é ſ
    日 []a] [] [a [z-a] [a-] [a-b-c] [\d-z] [\w.] [[a] [a&&b] [\]] [\b] [^\d] [^é] [\é-ω] * + ? *? +? {2}
    {1,} {1,3} {,3} {3,1} {1001} {999999999} { } {, ** *+ {2}{3} ( ) (?: (?i) (?i: (?-i) (?s) (?m) (?U)
    (?P<n> (?<n> (?P<é> (?= (?! (?<= (?> (?#c) (?i-s: (?x) (?) | () (|a)"""
)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(["", ".*"])) + "".join(draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8)))
    return text + draw(st.sampled_from(["", ".*", ")" * max(0, text.count("(") - text.count(")"))]))


@pytest.mark.oracle
@settings(max_examples=portion(1000), deadline=None)
@given(pattern=patterns())
@example(r"\Q\C\E\é")
def test_generated_patterns_match_as_in_re2j(oracle: Oracle, pattern: str) -> None:
    assert matched(pattern) == matched_by_kafka(oracle, pattern)


HOSTILE = """
from quorate.cluster import EmbeddedCluster
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.broker import (
    CreateTopicsRequest, FindCoordinatorRequest, InitProducerIdRequest, ListTransactionsRequest,
)
from quorate.codecs.api.broker.create_topics import CreatableTopic
from tests.cluster.helpers.wire import Wire

REGEX, NAME = "(a+)+b", "a" * 60
with EmbeddedCluster(brokers=1) as cluster, Wire(cluster.core.brokers[1].port) as wire:
    wire.request(CreateTopicsRequest(topics=(CreatableTopic(name=NAME, num_partitions=1, replication_factor=1),)), 7)
    for kind, key in ((0, "g"), (1, NAME)):
        wire.request(FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,)), 4)
    join = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_regex=REGEX, topic_partitions=()
    )
    assert wire.request(join, 1).member_epoch == 1
    wire.request(InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=1000), 4)
    assert wire.request(ListTransactionsRequest(transactional_id_pattern=REGEX), 2).transaction_states == ()
    assert len(wire.request(ListTransactionsRequest(transactional_id_pattern=REGEX[:-1]), 2).transaction_states) == 1
"""


def test_regex_with_exponential_backtracking_does_not_block_the_brokers() -> None:
    """Issue 14: a client's regex blocked every broker forever.

    It runs in a process of its own, which can be stopped.
    """
    subprocess.run([sys.executable, "-c", HOSTILE], check=True, timeout=120)


def test_pattern_errors_are_raised_and_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternError, match=r"missing closing \)"):
        compiled("(")
    assert capfd.readouterr() == ("", "")


def test_regex_may_list_many_topics_up_to_the_memory_limit() -> None:
    topics = [f"{number * 7919 % 100_003:05d}-events" for number in range(400)]
    regex = compiled("|".join(topics))
    assert all(map(regex.matches, topics))
    assert not regex.matches("x" + topics[0])
    with pytest.raises(PatternError, match="pattern too large"):
        compiled("[ab]{0,900}" * 25)
