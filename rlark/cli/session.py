"""One call of `rlark`: what was given, and what follows from it, made when it is first needed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rlark.cli.output import Output
    from rlark.sdk.client import Client
    from rlark.sdk.settings import Settings


class Session:
    """What the options say; settings, output and client are made on first use.

    Attributes:
        flags: the options that name a setting, as given.
        form: `-o`, which a command may widen by forms of its own; empty when not given.
        quiet: names only, no talk.
        verbose: say more.
    """

    def __init__(self) -> None:
        """Start with nothing given."""
        self.flags: dict[str, str] = {}
        self.form = ""
        self.quiet = False
        self.verbose = False

    def remember(self, option: str, value: str | bool) -> None:
        """Keep a global option that was given."""
        if option == "quiet":
            self.quiet = True
        elif option == "verbose":
            self.verbose = True
        elif option == "no_color":
            self.flags["color"] = "never"
        elif option == "output":
            self.form = str(value)
        else:
            self.flags[option] = str(value)

    @cached_property
    def settings(self) -> Settings:
        """Flags, variables and files, resolved.

        Raises:
            UsageError: a settings file or a value cannot be read.
        """
        return self.client.settings

    @cached_property
    def out(self) -> Output:
        """The one sink for data and talk."""
        from rlark.cli.output import Output

        settings = self.settings
        return Output(self.form or settings.output, quiet=self.quiet, verbose=self.verbose, color=settings.color)

    @cached_property
    def client(self) -> Client:
        """The way to the API."""
        from rlark.sdk.client import Client

        return Client(self.flags)


pass_session = click.make_pass_decorator(Session, ensure=True)
