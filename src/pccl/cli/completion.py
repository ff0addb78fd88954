"""``pccl completion``: a script for a shell, which then completes commands, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pccl.cli.options import command

_SHELLS = ("bash", "zsh", "fish")


@command(
    'eval "$(pccl completion bash)"',
    "pccl completion fish > ~/.config/fish/completions/pccl.fish",
    then="Put the first line into ~/.bashrc, or the same for zsh into ~/.zshrc, to have it in every shell.",
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, and values such as networks and collectives."""
    made = get_completion_class(shell)
    # Click knows a class for each of those above.
    if made is not None:
        # The name of the variable is what click looks for when it is started as pccl.
        click.echo(made(context.find_root().command, {}, "pccl", "_PCCL_COMPLETE").source())
