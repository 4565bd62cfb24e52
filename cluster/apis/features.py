"""UpdateFeatures v0–2 (KIP-584, KIP-778, KIP-1022): change feature levels, all of them or none.

ApiVersions reports the new levels.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quorate.assignors.java_order import JavaHashMap
from quorate.cluster.apis import Context, changes_metadata
from quorate.cluster.controller.records import feature_records
from quorate.cluster.turns import Work
from quorate.codecs.api.broker import UpdateFeaturesRequest, UpdateFeaturesResponse
from quorate.codecs.api.broker.update_features import FeatureUpdateKey, UpdatableFeatureResult
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.releases import Features, features_of
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

__all__: list[str] = []

_KRAFT = "kraft.version"
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


@changes_metadata
def update_features(broker: "Broker", request: UpdateFeaturesRequest, context: Context) -> Work[UpdateFeaturesResponse]:
    """Change the levels, or none if one is rejected. Release 3.9 still changes the others.

    kraft.version changes also if another feature is rejected that follows it in Kafka's order.

    As in Kafka, version 0 cannot downgrade a feature, even where it allows that.
    """
    cluster = broker.cluster
    supported = features_of(cluster.broker_configs.kafka_version)
    strict = cluster.broker_configs.behaviour.features_all_or_none
    levels = dict(cluster.features)
    refused: dict[str, ApiError] = {}
    java: JavaHashMap[str, FeatureUpdateKey] = JavaHashMap()  # the first error in its order is reported
    for feature_update in request.feature_updates:
        java.put(feature_update.feature, feature_update)
    for name in java:
        feature_update = java[name]
        try:
            _check(cluster, feature_update, supported, strict)
            levels[feature_update.feature] = feature_update.max_version_level
        except ApiError as refusal:
            refused[feature_update.feature] = refusal
            if strict:  # the quorum has changed kraft.version already, and keeps it
                levels = cluster.features | {name: level for name, level in levels.items() if name == _KRAFT}
                break
        yield None
    if not request.validate_only:
        yield from cluster.controller.appending(feature_records(cluster.features, levels))
    if refused and strict:
        (one,) = refused.values()
        whole = f"The update failed for all features since the following feature had an error: {one.message}"
        return UpdateFeaturesResponse(error_code=one.code, error_message=whole)
    return UpdateFeaturesResponse(
        error_message=None,
        results=tuple(_result(feature_update.feature, refused) for feature_update in request.feature_updates),
    )


def _result(feature: str, refused: Mapping[str, ApiError]) -> UpdatableFeatureResult:
    if (refusal := refused.get(feature)) is not None:
        return UpdatableFeatureResult(feature=feature, error_code=refusal.code, error_message=refusal.message)
    return UpdatableFeatureResult(feature=feature, error_message=ErrorCode.NONE.text)


def _check(cluster: "SharedCluster", update: FeatureUpdateKey, supported: Features, strict: bool) -> None:
    """Raise `ApiError` if a feature cannot change from its current level to the requested one."""
    name, level, current = update.feature, update.max_version_level, cluster.features.get(update.feature, 0)
    lowest, highest, _ = supported.get(name, (0, 0, 0))
    controller = f"Local controller {cluster.controller_id}"
    if update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        problem = "The controller does not support the given upgrade type."
    elif level < 0:
        problem = "A feature version cannot be less than 0."
    elif name not in supported and level == 0:
        if not strict:
            return  # release 3.9 takes an unknown feature to be at level 0
        problem = f"Feature {name} not found."
    elif name not in supported:
        problem = f"{controller} does not support this feature."
    elif not lowest <= level <= highest:
        problem = f"{controller} only supports versions {lowest}-{highest}"
    elif level < current and update.upgrade_type == _UPGRADE:
        problem = (
            "Can't downgrade the version of this feature without "
            "setting the upgrade type to either safe or unsafe downgrade."  # plain: Kafka's
        )
    elif level > current and update.upgrade_type != _UPGRADE:
        problem = "Can't downgrade to a newer version."
    elif level < current and name == "metadata.version":
        why = "Refusing to perform the requested downgrade because it might delete metadata information."
        if update.upgrade_type == _UNSAFE_DOWNGRADE:
            why = "Unsafe metadata downgrade is not supported in this version."
        text = f"Unsupported metadata.version downgrade from {current} to {level}. {why}"
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)
    elif level < current and name == _KRAFT:
        problem = "Can't downgrade the version of this feature."
    else:
        return
    text = f"Invalid update version {level} for feature {name}. {problem}"
    raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)
