"""The program: its commands, its exit codes, and every error as one line on stderr.

A command is one function in a module of this package, loaded when it is called, and one line in ``COMMANDS``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any, NoReturn

import click

from pccl._version import __version__
from pccl.cli import stopping
from pccl.cli.console import print_error
from pccl.cli.options import epilog
from pccl.errors import PcclError, StoppedError, VerificationError

# The module of every command, and its line in the help.
COMMANDS = {
    "synthesize": ("search", "Find an algorithm, given flags or a spec file."),
    "verify": ("show", "Check .pccl files from scratch."),
    "show": ("show", "Summarize a .pccl file and list its transfers."),
    "simulate": ("simulate", "Run an algorithm, also on slower or unsteady links."),
    "run": ("run", "Run a plan on real ranks, check every element, and measure."),
    "lab": ("lab", "Measure plans on a network in a box: namespaces and real TCP."),
    "probe": ("lab", "Measure the links of a network, and write it down."),
    "bound": ("search", "Prove how long any algorithm must take."),
    "compare": ("compare", "Set an algorithm beside baselines and the bound."),
    "export": ("formats", "Write an algorithm for a runtime, a simulator, or people."),
    "check": ("formats", "Run a file for a runtime and say what is wrong with it."),
    "import": ("formats", "Read a file of a runtime as an algorithm."),
    "plot": ("pictures", "Draw an algorithm or a network."),
    "report": ("pictures", "Write a page to look at an algorithm with."),
    "topology": ("topology", "List the networks that have a name, or describe one."),
    "doctor": ("doctor", "Say how good the times of nccl-tests are, and what looks wrong."),
    "tune": ("tune", "Make a folder of plans for a machine, over sizes and collectives."),
    "completion": ("completion", "Print what makes a shell complete commands and their values."),
}

# Exit codes. 70 is EX_SOFTWARE of sysexits.h; from 128 on, the number of a signal is added, as shells do.
WRONG = 1
BAD_INPUT = 2
INTERNAL = 70
BROKEN_PIPE = 141


class Program(click.Group):
    """A group of commands that are loaded on use, and that ends with our exit codes, also where tests invoke it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, from its module."""
        if cmd_name not in COMMANDS:
            return None
        # One command out of many is loaded: that is most of what keeps the start quick.
        module = import_module(f"pccl.cli.{COMMANDS[cmd_name][0]}")
        # A function cannot be called "import".
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found: click.Command = getattr(module, name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without loading them."""
        with formatter.section("Commands"):
            # Click's own list would load every command for the sake of its first line of help.
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line and exit."""
        # Click would otherwise print errors in its own way and choose its own exit codes.
        kwargs["standalone_mode"] = False
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed by the caller, as 'pccl ... >&-' does
                setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        # Bound here, because super() does not work inside a lambda of this method.
        run = super().main
        with stopping.stoppable():
            sys.exit(status_of(lambda: run(*args, **kwargs)))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Be the program, and not a part of another one."""
        stopping.program(lambda: self.main(*args, **kwargs))

    def invoke(self, ctx: click.Context) -> Any:
        """Run one command."""
        try:
            result = super().invoke(ctx)
            # Now, while a broken pipe can still be caught; at exit it would be a traceback.
            sys.stdout.flush()
        except KeyboardInterrupt:
            # Under a name of our own it passes through click, which would answer with an empty line of its own.
            raise StoppedError("interrupted") from None
        except BrokenPipeError:
            # Whoever read our output has gone: leave without a word, now and when the interpreter ends.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        return result


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    epilog=epilog(
        "pccl synthesize --topology mesh:8x8 --collective all-to-all --size 8MiB --output a2a.pccl",
        "pccl synthesize examples/mix.yaml",
        "pccl verify a2a.pccl",
        "pccl show a2a.pccl",
        "pccl simulate a2a.pccl --discipline fifo",
        "pccl topology torus:4x4",
        then="Ctrl-C and SIGTERM end any command within about two seconds, and what was found by then is kept; "
        "once more, and it ends at once.\n\n"
        "Exit codes: 0 fine, 1 verification failed, 2 bad input, 70 a bug in pccl, 130 and 143 interrupted by Ctrl-C "
        "and SIGTERM.",
    ),
)
@click.version_option(__version__, prog_name="pccl", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Collective communication algorithms made to measure: any topology, any collective, any process groups."""
    # A bare 'pccl' explains itself and succeeds, where click would call it a misuse.
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def status_of(run: Callable[[], Any]) -> int:
    """Run, and turn whatever comes of it into an exit code and at most one line."""
    try:
        result = run()
        # Commands that can find fault return their status; the others return nothing.
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        return _say(_usage(error), BAD_INPUT)
    except (StoppedError, click.Abort) as error:
        return _stopped(str(error) or "interrupted")
    except PcclError as error:
        # Scripts must be able to tell a wrong algorithm from a wrong command.
        return _say(str(error), WRONG if isinstance(error, VerificationError) else BAD_INPUT)
    except OSError as error:
        # The text of an OSError begins with its number, which helps nobody.
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}", BAD_INPUT)
    except MemoryError:
        return _say(
            "there is not enough memory for this; try a smaller size, fewer chunks or a smaller group",
            BAD_INPUT,
        )
    except Exception as error:
        if stopping.asked():  # some libraries make other errors of what stops them
            return _stopped("interrupted")
        how = "; PCCL_DEBUG=1 shows where it happened"
        if os.environ.get("PCCL_DEBUG", "") not in ("", "0"):
            traceback.print_exc()
            how = ""
        # Some messages have several lines; a bug report should fit into one.
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return _say(
            f"this is a bug in pccl ({what}), please report it with the command that you ran{how}",
            INTERNAL,
        )


def _stopped(text: str) -> int:
    stopping.take_last_word()
    return _say(text, stopping.status(), stopping.line_break())


def _usage(error: click.ClickException) -> str:
    # Click writes sentences; our errors are clauses that follow 'error: '.
    text = error.format_message().strip().rstrip(".")
    context = getattr(error, "ctx", None)
    hint = f" (see '{context.command_path} --help')" if isinstance(context, click.Context) else ""
    return f"{text[:1].lower()}{text[1:]}{hint}"


def _say(text: str, status: int, prefix: str = "error: ") -> int:
    # If stderr is gone too, the exit code is all that is left to say.
    with contextlib.suppress(OSError):
        print_error(text, prefix)
    return status
