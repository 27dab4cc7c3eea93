"""Write the help of every command into README.md; with --check, only say whether it is there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from evalindex.cli import cli

_README = Path(__file__).resolve().parent.parent / "README.md"


def help_texts() -> str:
    """What `--help` prints, command by command."""
    parts = []
    with click.Context(cli, info_name="evalindex", **cli.context_settings) as top:
        for name in cli.list_commands(top):
            command = cli.get_command(top, name)
            assert command is not None
            context = click.Context(
                command, info_name=name, parent=top, terminal_width=90, max_content_width=90
            )
            parts.append(f"```text\n{command.get_help(context)}\n```")
    return "\n\n".join(parts)


def main() -> int:
    text = _README.read_text()
    new = re.sub(
        r"(<!-- help -->\n).*(<!-- /help -->)",
        lambda match: f"{match[1]}\n{help_texts()}\n\n{match[2]}",
        text,
        flags=re.DOTALL,
    )
    if "--check" in sys.argv:
        if new != text:
            print("README.md is not up to date: run scripts/update_readme.py", file=sys.stderr)
        return int(new != text)
    _README.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
