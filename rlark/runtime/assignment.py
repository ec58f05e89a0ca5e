"""What a run was given: the job folder with the plan and the lease in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from rlark.errors import UsageError
from rlark.folder import JobFolder, read_json
from rlark.plan.node import HeadAddress, Lease
from rlark.plan.plan import Plan
from rlark.redactor import Redactor, forms
from rlark.runtime.file_protocol import HOW, Files
from rlark.runtime.rank import THREADS, Rank, rank_env

VARIABLE = "RLARK_JOB_DIR"


@dataclass(frozen=True)
class Assignment:
    """What is run, where, on what.

    Attributes:
        folder: the job folder.
        plan: all that was decided.
        lease: the capacity held by this attempt.
        files: the request that it carries out and where the result goes, by the file protocol; None for a Job
            that has its configuration.
    """

    folder: JobFolder
    plan: Plan
    lease: Lease
    files: Files | None = None

    @property
    def result(self) -> Path:
        """Where the claim goes."""
        return self.files.result if self.files else self.folder.result

    def environment(self, rank: Rank) -> dict[str, str]:
        """What a rank in this very process adds to its environment.

        Where nobody leased anything, it sees the devices that whoever started it lets it see.
        """
        if self.folder.flat:
            return {THREADS: str(rank.threads)}
        return rank_env(rank, self.lease, os.environ, self.variables)

    def head(self, environ: Mapping[str, str] = os.environ) -> HeadAddress | None:
        """The Ray head that serves the attempt: the leased one, or one of its own, which only the environment names."""
        if self.plan.head == "platform":
            return self.lease.head
        address = environ.get("RAY_ADDRESS", "")
        return HeadAddress(address=address, token_path=environ.get("RAY_AUTH_TOKEN_PATH", "")) if address else None

    @property
    def node_id(self) -> str:
        """What the head calls the node; empty on one of its own, which has no other."""
        return self.lease.node_id if self.plan.head == "platform" else ""

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the Job's own variables."""
        return (*self.plan.env, *self.plan.secrets)

    def mask(self, environ: Mapping[str, str] = os.environ) -> Redactor:
        """Hides what came from the secret store."""
        values = [environ[name] for name in self.plan.secrets if name in environ]
        return Redactor(form for value in values for form in forms(value))

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Assignment:
        """The assignment that the environment names: a Job, a request, or a Job that carries out a request.

        Raises:
            UsageError: it names none, or its files cannot be read.
        """
        files, root = Files.find(environ), environ.get(VARIABLE)
        if root:
            return replace(cls.read(JobFolder(Path(root))), files=files)
        if files is None:
            raise UsageError(f"{VARIABLE} is not set, so there is nothing to train.", hint=HOW)
        return cls(*files.job(environ), files)

    @classmethod
    def read(cls, folder: JobFolder) -> Assignment:
        """The assignment of a job folder.

        Raises:
            UsageError: a file is missing or broken.
        """
        try:
            plan, lease = read_json(folder.plan), read_json(folder.lease)
            if plan is None or lease is None:
                missing = folder.plan if plan is None else folder.lease
                raise UsageError(f"{missing} is missing: the Job was not prepared.", hint="submit it with rlark submit")
            return cls(folder, Plan.model_validate(plan), Lease.model_validate(lease))
        except (OSError, ValueError, ValidationError) as error:
            raise UsageError(f"{folder.root} holds no readable Job: {error}") from error
