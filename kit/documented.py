"""Models whose fields are described by the sentences below them, read only where somebody asks.

Used by the job spec, the REST interface and the driver's settings. pydantic's own
`use_attribute_docstrings` reads the source of every class that is made, which each start of a
driver would pay for and hardly one needs.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema


class Documented(BaseModel):
    """A model whose JSON schema describes each field with the sentence below it."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        """pydantic's schema of the model, with descriptions."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, sentence in sentences(cls).items():
            field = cls.model_fields[name]
            shown = {name, field.alias, field.serialization_alias} & properties.keys()
            properties[shown.pop()].setdefault("description", sentence)
        return schema


def describe(model: type[BaseModel]) -> None:
    """Have the fields themselves say it, for who reads them and no schema: `--help` of settings."""
    for name, sentence in sentences(model).items():
        model.model_fields[name].description = sentence


def sentences(model: type[BaseModel]) -> dict[str, str]:
    """Of each field of `model`, and of the models that it is made from, what is said below it."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if model.model_fields.keys() & inspect.get_annotations(each).keys():
            found |= _below(each)
    return found


@cache
def _below(model: type) -> dict[str, str]:
    (defined,) = ast.parse(dedent(inspect.getsource(model))).body
    found = {}
    for pair in pairwise(defined.body) if isinstance(defined, ast.ClassDef) else ():
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text))):
                found[name] = inspect.cleandoc(text)
            case _:
                pass
    return found
