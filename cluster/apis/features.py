"""UpdateFeatures v0–2 (KIP-584, KIP-778, KIP-1022): change feature levels, all of them or none.

ApiVersions reports the new levels.
"""

from typing import TYPE_CHECKING

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

__all__: list[str] = []

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_NO_DOWNGRADE = frozenset({"kraft.version", "metadata.version"})
"""Features that Kafka does not downgrade, because metadata could be lost."""


@changes_metadata
def update_features(broker: "Broker", request: UpdateFeaturesRequest, context: Context) -> Work[UpdateFeaturesResponse]:
    """Change the levels, or none if one is rejected. Release 3.9 still changes the others.

    As in Kafka, version 0 cannot downgrade a feature, even where it allows that.
    """
    cluster = broker.cluster
    supported = features_of(cluster.broker_configs.kafka_version)
    strict = cluster.broker_configs.behaviour.features_all_or_none
    levels = dict(cluster.features)
    refused: dict[str, ApiError] = {}
    for feature_update in request.feature_updates:
        try:
            _check(feature_update, supported, cluster.features.get(feature_update.feature, 0), strict)
            levels[feature_update.feature] = feature_update.max_version_level
        except ApiError as refusal:
            refused[feature_update.feature] = refusal
        yield None
    if refused and strict:
        first = next(iter(refused.values()))
        return UpdateFeaturesResponse(error_code=first.code, error_message=f"no feature was changed: {first.message}")
    if not request.validate_only:
        yield from cluster.controller.appending(feature_records(cluster.features, levels))
    return UpdateFeaturesResponse(
        error_message=None,
        results=tuple(
            UpdatableFeatureResult(
                feature=feature_update.feature,
                error_code=refused[feature_update.feature].code
                if feature_update.feature in refused
                else ErrorCode.NONE,
                error_message=refused[feature_update.feature].message if feature_update.feature in refused else None,
            )
            for feature_update in request.feature_updates
        ),
    )


def _check(update: FeatureUpdateKey, supported: Features, current: int, strict: bool) -> None:
    """Raise `ApiError` if a feature cannot change from its current level to the requested one."""
    name, level = update.feature, update.max_version_level
    lowest, highest, _ = supported.get(name, (0, 0, 0))
    if update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        problem = f"unknown upgrade type {update.upgrade_type}; the types are 1 to 3"
    elif level < 0:
        problem = "a level is at least 0"
    elif name not in supported and level == 0 and not strict:
        return  # release 3.9 takes an unknown feature to be at level 0
    elif name not in supported:
        problem = "this release does not have the feature"
    elif not lowest <= level <= highest:
        problem = f"levels {lowest} to {highest} are supported"
    elif level < current and name in _NO_DOWNGRADE:
        problem = f"it is at level {current} and cannot be downgraded"
    elif level < current and update.upgrade_type == _UPGRADE:
        problem = f"it is at level {current}, and the request does not allow a downgrade"
    elif level > current and update.upgrade_type != _UPGRADE:
        problem = f"it is at level {current}, and the request is a downgrade"
    else:
        return
    raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"{name} cannot be set to level {level}: {problem}")
