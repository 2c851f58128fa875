"""What is said of a command that is not there: a sentence, without the whole search path in it."""

from pathlib import Path

import pytest

from holdfast.executor.command import NotStartable, resolve


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-such", "command: 'no-such' was not found on PATH. Give its whole path, or add its "),
        ("./no-such", "command: './no-such' was not found in {folder}. Name a file that is."),
    ],
)
def test_a_command_that_is_not_there_is_told_in_a_sentence(
    tmp_path: Path, name: str, said: str
) -> None:
    with pytest.raises(NotStartable) as missing:
        resolve([name], {"PATH": "/a/long/path:/and/another"}, str(tmp_path))
    assert str(missing.value).startswith(said.format(folder=tmp_path))
    assert "/a/long/path" not in str(missing.value)
    assert missing.value.exit_code == 127


@pytest.mark.parametrize(
    ("command", "env", "said"),
    [
        (["echo", "a\0b"], {}, "command[1]: 'a\\x00b' has a NUL character. Remove it."),
        (["echo"], {"A": "secret\0"}, "env['A']: its value has a NUL character. Remove it."),
        (["echo"], {"A=B": "c"}, "env: 'A=B' is no name of a variable. Rename it."),
    ],
)
def test_what_no_program_can_be_given_is_told_by_its_field(
    tmp_path: Path, command: list[str], env: dict[str, str], said: str
) -> None:
    with pytest.raises(NotStartable) as refused:
        resolve(command, {**env, "PATH": "/usr/bin:/bin"}, str(tmp_path))
    assert (refused.value.exit_code, str(refused.value)) == (126, said)
