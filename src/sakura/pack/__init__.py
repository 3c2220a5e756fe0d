"""The packager: templates in, bundles out. Runs in the cloud; the player never imports it."""

from sakura.pack.options import PackOptions, PackReport
from sakura.pack.packager import pack
from sakura.pack.source import TemplateOptions, load_template

__all__ = ["PackOptions", "PackReport", "TemplateOptions", "load_template", "pack"]
