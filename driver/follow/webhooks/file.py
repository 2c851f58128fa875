"""The file of webhooks: who is told what, and where. Read once, as a driver starts.

Secrets, which an address may be too, are in files of their own, and shown nowhere.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import msgspec
from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from holdfast.driver.noted import Whose
from holdfast.driver.ports import PermanentError
from holdfast.protocol.mistakes import in_our_words
from holdfast.protocol.specmodel import Model, sentence

LARGEST_BYTES = 1 << 20
LEAST_SECRET_BYTES = 16
"""A shorter one can be guessed from a signature."""


class Webhook(Model):
    """A receiver."""

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
    """By which it is tested, and told of in logs."""
    url: str = ""
    """http:// or https://; where that is a secret, leave it out and name `urlFile`."""
    url_file: Path | None = None
    """File with the URL."""
    secret_file: Path | None = None
    """File with the secret that requests are signed with; without one they are not signed."""
    format: Literal["json", "slack"] = "json"
    """Ours, or {"text": …} as Slack and what is like it take it."""
    on: tuple[Whose, ...] = ("job", "incident", "node", "brake")
    """What it is told of."""
    phases: tuple[str, ...] = ()
    """Of jobs, only these phases; all where none is named."""

    _secret: bytes = PrivateAttr(default=b"")
    _address: str = PrivateAttr(default="")

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return checked_url(value) if value else value

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if bool(self.url) == (self.url_file is not None):
            raise sentence("it needs one address.", "Give url, or urlFile, and not both.")
        return self

    @property
    def secret(self) -> bytes:
        """Empty where requests are not signed."""
        return self._secret

    @property
    def address(self) -> str:
        return self._address

    def opened(self) -> Self:
        """With what its files say. Raises `ValueError` with what is wrong, but for any secret."""
        self._address = self.url
        if self.url_file is not None:
            self._address = checked_url(_text(self.url_file, "urlFile").decode(), secret=True)
        if self.secret_file is not None:
            self._secret = _text(self.secret_file, "secretFile")
            if len(self._secret) < LEAST_SECRET_BYTES:
                least = f"has less than {LEAST_SECRET_BYTES} bytes"
                raise ValueError(f"secretFile: {self.secret_file} {least}. Write a longer one.")
        return self


class Webhooks(Model):
    """The whole file."""

    webhooks: Annotated[tuple[Webhook, ...], Field(max_length=50)]

    @field_validator("webhooks")
    @classmethod
    def _named_once(cls, value: tuple[Webhook, ...]) -> tuple[Webhook, ...]:
        names = [each.name for each in value]
        for name in names:
            if names.count(name) > 1:
                raise sentence(f"two are named {name!r}.", "Give each a name of its own.")
        return value


def checked_url(url: str, *, secret: bool = False) -> str:
    """Raises a mistake in our words."""
    if not _is_address(url):
        shown = "what is in the file" if secret else repr(url)
        if secret:
            raise ValueError(f"urlFile: {shown} is no address. Write http(s)://HOST/PATH there.")
        raise sentence(f"{shown} is no address.", "Give http(s)://HOST/PATH.")
    return url


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, half of an IPv6 address
        return False


def read(path: Path) -> tuple[Webhook, ...]:
    """Who is told. Raises `PermanentError` with every mistake, each a line with its field."""
    values = _values(path)
    try:
        hooks = Webhooks.model_validate(values).webhooks
    except ValidationError as error:
        known = [each.alias or name for name, each in Webhook.model_fields.items()]
        told = [str(in_our_words({**each}, known)) for each in error.errors()]
        raise PermanentError("\n".join(f"--webhooks {path}: {line}" for line in told)) from None
    told = []
    for at, hook in enumerate(hooks):
        try:
            hook.opened()
        except ValueError as error:
            told.append(f"--webhooks {path}: webhooks[{at}].{error}")
    if told:
        raise PermanentError("\n".join(told))
    return hooks


def _values(path: Path) -> Any:
    import yaml

    class Words(yaml.SafeLoader):
        """PyYAML takes the key `on` for true; nothing here is true or false."""

        yaml_implicit_resolvers = {  # noqa: RUF012 as PyYAML has it
            first: [each for each in known if each[0] != "tag:yaml.org,2002:bool"]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        data = path.read_bytes()[: LARGEST_BYTES + 1]
        if len(data) > LARGEST_BYTES:
            raise PermanentError(f"--webhooks {path}: it has more than {LARGEST_BYTES:,} bytes.")
        return msgspec.json.decode(data) if path.suffix == ".json" else yaml.load(data, Words)
    except OSError as error:
        raise PermanentError(f"--webhooks {path}: {error.strerror}. Name another file.") from error
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise PermanentError(f"--webhooks {path}: it cannot be read: {said}.") from error


def _text(path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()[:LARGEST_BYTES].strip()
    except OSError as error:
        raise ValueError(f"{field}: {path}: {error.strerror}. Name another file.") from error
