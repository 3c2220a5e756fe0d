"""What the packager must know of a model family beyond its adapter: how its keys are rotated, and
which choices a template leaves to the family, so that a bundle can write them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sakura.errors import InputError
from sakura.format.manifest import Rope
from sakura.models.base import Template

Placement = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Family:
    """One model family.

    Args:
        rope: form of the captured keys.
        placement: where the reference's content belongs when a template does not say.
    """

    rope: Rope | None
    placement: Callable[[Template], Placement]

    def settled(self, template: Template) -> Template:
        """The template with its placement written out, so that another mask would not move it."""
        if "placement" in template.conditioning:
            return template
        placement = [int(v) for v in self.placement(template)]
        return replace(template, conditioning={**template.conditioning, "placement": placement})


def family_of(name: str) -> Family:
    """The family that an adapter's identity names.

    Raises:
        InputError: the packager does not know it.
    """
    if name not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise InputError(f"cannot pack for model family {name!r}", hint=f"known: {known}")
    return FAMILIES[name]()


def _mini_a() -> Family:
    from sakura.models.mini_inputs import default_placement
    from sakura.models.mini_net import CONFIG

    axes, theta = CONFIG["axes_dims_rope"], CONFIG["rope_theta"]
    assert isinstance(axes, tuple) and isinstance(theta, int)
    return Family(Rope(form="pre", theta=float(theta), axes=axes), default_placement)


FAMILIES: Mapping[str, Callable[[], Family]] = MappingProxyType({"mini-a": _mini_a})
