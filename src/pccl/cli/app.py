"""The program: its commands, its exit codes, and every error as one line on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pccl._version import __version__
from pccl.cli.bound import bound
from pccl.cli.check import check
from pccl.cli.compare import compare
from pccl.cli.console import examples, print_error
from pccl.cli.export import export
from pccl.cli.importing import import_file
from pccl.cli.inspect import show, verify
from pccl.cli.plot import plot
from pccl.cli.report import report
from pccl.cli.simulate import simulate
from pccl.cli.synthesize import synthesize
from pccl.cli.topology import topology
from pccl.errors import PcclError, VerificationError

__all__ = ["main"]

WRONG, BAD_INPUT, INTERNAL, INTERRUPTED, BROKEN_PIPE = 1, 2, 70, 130, 141


class StoppedError(Exception):
    """Ctrl-C, kept from click, which would answer it with an empty line of its own."""


class Program(click.Group):
    """A group of commands that ends with our exit codes, also where tests invoke it."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line and exit."""
        kwargs["standalone_mode"] = False
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed by the caller, as 'pccl ... >&-' does
                setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        run = super().main
        sys.exit(_status(lambda: run(*args, **kwargs)))

    def invoke(self, ctx: click.Context) -> Any:
        """Run one command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise StoppedError from None
        except BrokenPipeError:
            ctx.exit(_give_up_stdout())
        return result


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    epilog=examples(
        "pccl synthesize --topology mesh:8x8 --collective all-to-all --size 8MiB --output a2a.pccl",
        "pccl synthesize examples/mix.yaml",
        "pccl verify a2a.pccl",
        "pccl show a2a.pccl",
        "pccl simulate a2a.pccl --discipline fifo",
        "pccl topology torus:4x4",
        then="Exit codes: 0 fine, 1 verification failed, 2 bad input, 70 a bug in pccl, 130 interrupted.",
    ),
)
@click.version_option(__version__, prog_name="pccl", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Collective communication algorithms made to measure: any topology, any collective, any process groups."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for command in (
    synthesize,
    verify,
    show,
    simulate,
    bound,
    compare,
    export,
    check,
    import_file,
    plot,
    report,
    topology,
):
    main.add_command(command)


def _status(run: Callable[[], Any]) -> int:
    """Run, and turn whatever comes of it into an exit code and at most one line."""
    try:
        result = run()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        return _say(_usage(error), BAD_INPUT)
    except (StoppedError, click.Abort):
        return _say("interrupted", INTERRUPTED, prefix="\n" if sys.stderr.isatty() else "")
    except VerificationError as error:
        return _say(str(error), WRONG)
    except PcclError as error:
        return _say(str(error), BAD_INPUT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}", BAD_INPUT)
    except MemoryError:
        return _say(
            "there is not enough memory for this; try fewer chunks or a smaller group", BAD_INPUT
        )
    except Exception as error:
        debug = os.environ.get("PCCL_DEBUG", "") not in ("", "0")
        if debug:
            traceback.print_exc()
        what = " ".join(f"{type(error).__name__}: {error}".split())
        how = "" if debug else "; PCCL_DEBUG=1 shows where it happened"
        return _say(
            f"this is a bug in pccl ({what}), please report it with the command that you ran{how}",
            INTERNAL,
        )


def _usage(error: click.ClickException) -> str:
    text = error.format_message().strip().rstrip(".")
    context = getattr(error, "ctx", None)
    hint = f" (see '{context.command_path} --help')" if isinstance(context, click.Context) else ""
    return f"{text[:1].lower()}{text[1:]}{hint}"


def _say(text: str, status: int, prefix: str = "error: ") -> int:
    with contextlib.suppress(OSError):
        print_error(text, prefix)
    return status


def _give_up_stdout() -> int:
    """Whoever read our output has gone: leave without a word, now and when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
