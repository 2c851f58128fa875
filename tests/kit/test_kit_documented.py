"""What is said below a field is in the schema and in `--help`, by whatever name it has there."""

from pydantic import ConfigDict, Field

from holdfast.kit.documented import Documented, describe


class Base(Documented):
    model_config = ConfigDict(alias_generator=str.upper)

    size: int
    """How much
    of it."""
    silent: int = 0


class Part(Base):
    """A part of the whole."""

    next: str = Field(serialization_alias="continue")
    """Where it goes on."""
    told: int = Field(description="Told by the field.")
    """Told below it."""


class Whole(Documented):
    part: Part
    """The part of it."""


def test_each_field_has_its_sentence_under_the_name_that_the_schema_gives_it() -> None:
    part = Part.model_json_schema(mode="serialization")["properties"]
    assert {name: shown.get("description") for name, shown in part.items()} == {
        "SIZE": "How much\nof it.",
        "SILENT": None,
        "continue": "Where it goes on.",
        "TOLD": "Told by the field.",
    }


def test_a_model_in_another_keeps_its_own_and_gets_that_of_its_field() -> None:
    whole = Whole.model_json_schema()
    assert whole["properties"]["part"] == {
        "$ref": "#/$defs/Part",
        "description": "The part of it.",
    }
    assert whole["$defs"]["Part"]["description"] == "A part of the whole."
    assert whole["$defs"]["Part"]["properties"]["SIZE"]["description"] == "How much\nof it."


def test_fields_say_it_themselves_once_they_are_described() -> None:
    assert Part.model_fields["size"].description is None
    describe(Part)
    assert Part.model_fields["size"].description == "How much\nof it."
