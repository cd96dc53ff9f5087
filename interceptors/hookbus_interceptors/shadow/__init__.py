"""Shadow and canary: a candidate beside what decides, then in its place for a share, then for all."""

from hookbus_interceptors.shadow.configuration import ShadowConfiguration, SideConfiguration, Stage
from hookbus_interceptors.shadow.errors import (
    CandidateBusy,
    CandidateKeepsCount,
    CandidateMissesPoint,
    CandidateNotOpen,
    CandidateTimedOut,
    ShadowError,
    ShadowRestartNeeded,
)
from hookbus_interceptors.shadow.interceptor import Shadow

__all__ = [
    "CandidateBusy",
    "CandidateKeepsCount",
    "CandidateMissesPoint",
    "CandidateNotOpen",
    "CandidateTimedOut",
    "Shadow",
    "ShadowConfiguration",
    "ShadowError",
    "ShadowRestartNeeded",
    "SideConfiguration",
    "Stage",
]
