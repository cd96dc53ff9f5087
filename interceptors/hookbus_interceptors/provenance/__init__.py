"""``provenance``: what a call acts on must come from the user, or from a source that the policy trusts."""

from hookbus_interceptors.provenance.configuration import ProvenanceConfiguration
from hookbus_interceptors.provenance.interceptor import Provenance

__all__ = ["Provenance", "ProvenanceConfiguration"]
