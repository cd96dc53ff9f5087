"""``capture``: keeps each context encrypted at rest, for ``hookbus replay``."""

from hookbus_interceptors.capture.configuration import CaptureConfiguration
from hookbus_interceptors.capture.interceptor import Capture

__all__ = ["Capture", "CaptureConfiguration"]
