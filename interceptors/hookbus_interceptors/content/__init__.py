"""``content``: what a classifier behind an HTTP endpoint objects to is denied, asked about or taken out."""

from hookbus_interceptors.content.configuration import ContentConfiguration
from hookbus_interceptors.content.interceptor import Content

__all__ = ["Content", "ContentConfiguration"]
