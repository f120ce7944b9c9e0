"""Completion, in the shells themselves: what each offers is what the parser takes."""

from __future__ import annotations

import argparse
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgeagent import cli
from edgeagent.console.completion import bash, fish, tree, zsh

ROOT = tree.command(cli._parser())  # noqa: SLF001 (the program's own)
COMMANDS = {command.path: command for command in ROOT.all()}
PATIENCE = 30.0

Complete = Callable[..., list[str]]
"""Gives what a shell offers for each of the lines, which end where the cursor is."""


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where there is a file and a folder to name."""
    (tmp_path / "a file.yaml").touch()
    (tmp_path / "area").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(*path: str) -> set[str]:
    return {name for option in COMMANDS[path].options for name in option.names}


# --- the tree ---------------------------------------------------------------------------------


def test_the_tree_is_that_of_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    below = {command.path[0] for command in ROOT.commands}

    assert below >= {"run", "explain", "fleet", "status", "top", "completion"}
    assert {command.path for command in COMMANDS["fleet",].commands} == {("fleet", "observe"), ("fleet", "enforce")}
    for path in COMMANDS:
        with pytest.raises(SystemExit):
            cli.main([*path, "--help"])
        told = capsys.readouterr().out
        assert all(name in told for name in options(*path)), path


def test_values_are_known_by_what_they_are_called() -> None:
    parser = argparse.ArgumentParser(prog="x")
    parser.add_argument("--in", type=Path, metavar="FILE", help="100 %% of it")
    parser.add_argument("--where", type=Path, metavar="DIR")
    parser.add_argument("--how", choices=("a", "b"))
    parser.add_argument("--many", nargs="+", metavar="N")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--secret", help=argparse.SUPPRESS)
    parser.add_argument("what", metavar="SNAPSHOT")

    found = tree.command(parser)

    kinds = {option.names[-1]: option.value.kind if option.value else None for option in found.options}
    assert kinds == {
        "--help": None,
        "--in": "file",
        "--where": "folder",
        "--how": "choice",
        "--many": "other",
        "--quiet": None,
    }
    assert [value.kind for value in found.values] == ["file"]
    assert {option.help for option in found.options if option.names == ("--in",)} == {"100 % of it"}
    assert [option.names for option in found.options if option.repeats] == [("--many",)]


def test_the_command_prints_the_script_and_loads_little() -> None:
    script = (
        "import sys; from edgeagent.cli import main; main(['completion', 'bash']); "
        "print([name for name in ('aiohttp', 'yaml', 'rich', 'http.client') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == f"{bash.script(ROOT, 'edgeagent')}[]\n"


# --- bash ---------------------------------------------------------------------------------------


@needs("bash")
@pytest.mark.usefixtures("folder")
class TestBash:
    def offered(self, line: str) -> set[str]:
        """As readline calls the function: = is a word of its own."""
        words = line.replace("=", " = ").split(" ")
        array = " ".join(f"'{word}'" for word in words if word or word is words[-1])
        count = len([word for word in words if word or word is words[-1]])
        asked = (
            f"COMP_WORDS=({array}); COMP_CWORD={count - 1}; _edgeagent edgeagent; "
            'for word in "${COMPREPLY[@]}"; do echo "$word"; done'
        )
        script = f"set -u; {bash.script(ROOT, 'edgeagent')}\n{asked}"
        done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return set(done.stdout.splitlines())

    def test_commands_and_those_below_them(self) -> None:
        assert self.offered("edgeagent ") == {command.path[0] for command in ROOT.commands}
        assert self.offered("edgeagent st") == {"status"}
        assert self.offered("edgeagent fleet ") == {"observe", "enforce"}
        assert self.offered("edgeagent --") == {"--help", "--version"}

    def test_options_are_those_of_the_command(self) -> None:
        assert self.offered("edgeagent run -") == options("run")
        assert self.offered("edgeagent fleet --context run observe --") == options("fleet", "observe") - {"-h"}
        assert self.offered("edgeagent explain --would") == {"--would-fit"}

    def test_choices_also_behind_an_equals_sign(self) -> None:
        assert self.offered("edgeagent explain --format ") == {"text", "json"}
        assert self.offered("edgeagent explain --format=") == {"text", "json"}
        assert self.offered("edgeagent explain --format=j") == {"json"}
        assert self.offered("edgeagent completion ") == {"bash", "zsh", "fish"}

    def test_files_and_folders_where_they_are_meant(self) -> None:
        assert self.offered("edgeagent explain a") == {"a file.yaml", "area"}
        assert self.offered("edgeagent run --config a") == {"a file.yaml", "area"}
        assert self.offered("edgeagent run --host-root a") == {"area"}
        assert self.offered("edgeagent run --node ") == set()
        assert self.offered("edgeagent run ") == set()

    def test_a_real_line_is_completed(self, folder: Path) -> None:
        (folder / "completion").write_text(bash.script(ROOT, "edgeagent"))
        commands = [
            "source ./completion",
            "edgeagent() { printf '<%s>' \"$@\" > said; }",
            "edgeagent config check a\\ f\t",
        ]

        typed(["bash", "--norc", "--noprofile", "-i"], commands, folder / "said")

        assert (folder / "said").read_text() == "<config><check><a file.yaml>"


def typed(command: list[str], lines: list[str], result: Path) -> None:
    """Type the lines into an interactive shell, until ``result`` is there."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "vt100", "PS1": "> ", "HISTFILE": "/dev/null", "INPUTRC": "/dev/null"}
    shell = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment)
    try:
        for line in lines:
            os.write(master, f"{line}\r".encode())
        end = time.monotonic() + PATIENCE
        said = b""
        while not (result.exists() and result.stat().st_size) and time.monotonic() < end:
            if select.select([master], [], [], 0.05)[0]:
                said += os.read(master, 65536)
        assert result.exists(), said
    finally:
        shell.kill()
        shell.wait()
        os.close(master)
        os.close(slave)


# --- zsh ----------------------------------------------------------------------------------------

_ZSH = r"""
PS1='> '; unsetopt beep
autoload -Uz compinit; compinit -u -D
source ./completion
zle -C all-matches complete-word _generic
bindkey '^Xa' all-matches
zstyle ':completion:all-matches::::' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert true
tell() { print -r -- "$BUFFER" >> said; BUFFER=; }
zle -N tell; bindkey '^Xb' tell
""".strip()


@needs("zsh")
def test_zsh_offers_what_the_parser_takes(folder: Path) -> None:
    (folder / "completion").write_text(zsh.script(ROOT, "edgeagent"))
    asked = {
        "edgeagent ": {command.path[0] for command in ROOT.commands},
        "edgeagent sta": {"status"},
        "edgeagent fleet ": {"observe", "enforce"},
        "edgeagent fleet observe --": options("fleet", "observe") - {"-h"},
        "edgeagent explain --format ": {"text", "json"},
        "edgeagent explain --format=": {"--format=text", "--format=json"},
        "edgeagent completion ": {"bash", "zsh", "fish"},
        "edgeagent run --config a": {"a\\ file.yaml", "area/"},
        "edgeagent run --host-root a": {"area/"},
    }
    keys = [f"{line}\x18a\x18b" for line in asked]

    typed(["zsh", "-f", "-i"], [*_ZSH.splitlines(), "".join(keys) + "touch done; echo . > done"], folder / "done")

    told = (folder / "said").read_text().splitlines()
    assert len(told) == len(asked)
    for (line, offered), said in zip(asked.items(), told, strict=True):
        words = said.replace("\\ ", "\0").split()
        start = line.rpartition(" ")[0].split()
        assert words[: len(start)] == start
        # The = behind an option goes away as soon as more is written behind it.
        found = {word.replace("\0", "\\ ").removesuffix("=") for word in words[len(start) :]}
        assert found == offered, line


# --- fish ---------------------------------------------------------------------------------------


@needs("fish")
def test_fish_offers_what_the_parser_takes(folder: Path) -> None:
    asked = {
        "edgeagent ": {command.path[0] for command in ROOT.commands},
        "edgeagent sta": {"status"},
        "edgeagent fleet ": {"observe", "enforce"},
        "edgeagent fleet --context run observe --": options("fleet", "observe") - {"-h"},
        "edgeagent explain --format ": {"text", "json"},
        "edgeagent explain --format=": {"--format=text", "--format=json"},
        "edgeagent completion ": {"bash", "zsh", "fish"},
        "edgeagent explain a": {"a file.yaml", "area/"},
        "edgeagent run --config a": {"a file.yaml", "area/"},
        "edgeagent run --host-root a": {"area/"},
        "edgeagent run ": set(),
    }
    lines = "".join(f"echo '= {line}'; complete -C '{line}'\n" for line in asked)

    done = subprocess.run(
        ["fish", "--no-config", "-c", f"{fish.script(ROOT, 'edgeagent')}\n{lines}"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
    )

    assert done.stderr == ""
    told = dict(_blocks(done.stdout))
    assert told == asked


def _blocks(text: str) -> Iterator[tuple[str, set[str]]]:
    for block in text.split("= ")[1:]:
        first, *offered = block.splitlines()
        yield first, {row.partition("\t")[0] for row in offered}


@needs("fish")
@needs("zsh")
@needs("bash")
def test_no_help_text_breaks_a_script(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser(prog="x")
    odd = 'it\'s [odd]: `$(touch broken)` \\ "$HOME" %%'
    commands = parser.add_subparsers(metavar="COMMAND")
    commands.add_parser("sub", help=odd).add_argument("--one", help=odd, metavar="IT'S")
    root = tree.command(parser)

    for shell, script in (("bash", bash), ("zsh", zsh), ("fish", fish)):
        (tmp_path / shell).write_text(script.script(root, "x"))
        subprocess.run([shell, "-n", shell], cwd=tmp_path, check=True)
    asked = f"source {tmp_path}/fish; complete -C 'x su'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"sub\t{odd.replace('%%', '%')}"]
    assert not (tmp_path / "broken").exists()
