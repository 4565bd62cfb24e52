"""The tables of configs and releases equal those of Kafka's own classes of each release."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from quorate.codecs.configs import ConfigResourceType, broker_config_key, config_keys
from quorate.codecs.releases import RELEASES, KafkaVersion

ROOT = Path(__file__).resolve().parent.parent.parent


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_configs", ROOT / "scripts" / "make_configs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def class_path(version: KafkaVersion) -> str:
    found = [*(ROOT / "tests" / "releases" / "target").glob(f"{version.short}.*.classpath")]
    if not found or shutil.which("java") is None:
        pytest.skip("tests/releases is not built; `make test` or tests/releases/build builds it with a JDK and Maven")
    return found[0].read_text(encoding="utf-8")


def rows(text: str, version: KafkaVersion) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the lines of the table that apply to a release."""
    found = {}
    for line in [line for line in text.splitlines() if not line.startswith("#")][1:]:
        *facts, since, until = line.split("\t")
        begun = not since or version >= KafkaVersion.parse(since)
        if begun and not (until and version >= KafkaVersion.parse(until)):
            assert (facts[0], facts[1]) not in found
            found[facts[0], facts[1]] = tuple(facts[2:])
    return found


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the program that prints the configs."""
    folder = tmp_path_factory.mktemp("classes")
    script().compile_into(folder, class_path(RELEASES[0]))
    return folder


@pytest.mark.parametrize("version", RELEASES, ids=lambda version: version.short)
def test_table_equals_the_configs_of_kafkas_classes(classes: Path, version: KafkaVersion) -> None:
    made = script()
    real = made.rows_of(class_path(version), classes)
    assert rows(made.FILE.read_text(encoding="utf-8"), version) == real


@pytest.mark.parametrize("version", RELEASES, ids=lambda version: version.short)
def test_defaults_are_valid_and_synonyms_are_broker_configs(version: KafkaVersion) -> None:
    brokers = config_keys(ConfigResourceType.BROKER, version)
    for resource in ConfigResourceType:
        for name, key in config_keys(resource, version).items():
            assert key.name == name
            assert key.default is None or key.problem(key.default) is None or not key.default, name
            assert {synonym for synonym, _ in key.synonyms} <= brokers.keys()


def test_patches_of_a_release_have_the_same_configs() -> None:
    first, newest = (
        config_keys(ConfigResourceType.TOPIC, version) for version in (KafkaVersion(4, 3), KafkaVersion(4, 3, 1))
    )
    assert first == newest


def test_groups_have_no_configs_before_4_0() -> None:
    assert not config_keys(ConfigResourceType.GROUP, KafkaVersion(3, 9, 2))
    assert "consumer.session.timeout.ms" in config_keys(ConfigResourceType.GROUP, KafkaVersion(4, 0))


@pytest.mark.parametrize(
    ("name", "sensitive", "custom"),
    [
        ("log.retention.ms", False, False),
        ("ssl.keystore.password", True, False),
        ("listener.name.client.ssl.keystore.location", False, True),
        ("listener.name.client.ssl.keystore.password", True, True),
        ("a.plugins.own", True, True),
    ],
)
def test_sensitive_and_custom_configs_are_recognized(name: str, sensitive: bool, custom: bool) -> None:
    key = broker_config_key(KafkaVersion.NEWEST, name)
    assert (key.sensitive, key.custom) == (sensitive, custom)
