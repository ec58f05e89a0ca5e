"""The client: one platform, its Jobs, nodes, queue and engines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rlark.errors import ClusterError, NotFound
from rlark.host.clock import Clock, SystemClock, new_id
from rlark.sdk.follow import StreamEvent, follow
from rlark.sdk.job import Job
from rlark.sdk.secrets import Secrets
from rlark.sdk.settings import Settings, find_settings
from rlark.sdk.transport import API, JOBS, NODES, JsonObject, Transport

if TYPE_CHECKING:
    from rlark.plan.node import Inventory
    from rlark.preflight import Preview
    from rlark.sdk.draft import Draft
    from rlark.sdk.findings import Findings
    from rlark.sdk.local import Talk

JobSource = str | Path | Mapping[str, Any]
"""A Job: a file's name, its YAML text (more than one line), or the object itself."""
PAGE = 200
_NAME = re.compile(r"[a-z0-9-]+")
PAUSES = (0.5, 1.5, 4.0)
"""Seconds before a submission without an answer is sent again; a killed Serve proxy is back within 5."""


class Client:
    """Speaks with one platform; holds no connection and no thread."""

    def __init__(self, flags: Mapping[str, str | None] | None = None, *, clock: Clock | None = None) -> None:
        """Keep what was given by hand; nothing is read or asked before it is needed.

        Args:
            flags: `address`, `token`, `home` where given by hand; see `rlark.sdk.settings`.
            clock: for pauses.
        """
        self._flags = dict(flags or {})
        self._clock = clock or SystemClock()

    @cached_property
    def settings(self) -> Settings:
        """Where the platform is, and where that is written.

        Raises:
            UsageError: a settings file or a value cannot be read.
        """
        return find_settings(self._flags)

    @cached_property
    def transport(self) -> Transport:
        """The way to the API."""
        settings = self.settings
        origin = settings.values["address"].origin
        elsewhere = f"is this the platform's address (it comes from {origin}), and is it up?"
        hint = "start the platform with: rlark up" if settings.local else elsewhere
        return Transport(settings.address, settings.token, settings.values["token"].origin, hint)

    def ensure_platform(self, talk: Talk | None = None) -> None:
        """Start this user's own platform if it is the one that is meant and does not run.

        Args:
            talk: gets each line the platform says about its start.

        Raises:
            RlarkError: it does not come up.
        """
        if not self.settings.local:
            return
        from rlark.sdk.local import boot, running

        if not running(self.settings.home):
            boot(self.settings.home, "up", self.settings.start_options, talk)
            for stale in ("settings", "transport"):  # the address and the token may be new
                self.__dict__.pop(stale, None)

    # Jobs

    def preview(
        self,
        source: JobSource,
        *,
        set: Mapping[str, object] | None = None,  # noqa: A002 - the command line's word
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        inventory: str | Path | None = None,
    ) -> Preview:
        """Everything that would be decided about a Job; nothing is started.

        Args:
            source: the Job.
            set: changes by path, `{"spec.tasks[0].ray.resources.gpu": 0}`.
            name: another name.
            labels: further labels.
            inventory: a file that describes the nodes; by default those of the platform, or this machine.
        """
        from rlark.sdk.draft import read_draft

        return self._previewed(read_draft(source).changed(set or {}, name=name, labels=labels), inventory)

    def _previewed(self, draft: Draft, inventory: str | Path | None = None) -> Preview:
        from rlark.preflight import preflight

        return preflight(draft.load(), self.inventory(inventory), home=self.settings.own)

    def validate(self, source: JobSource, *, inventory: str | Path | None = None) -> Findings:
        """What is wrong with a Job, if anything; nothing is started."""
        from rlark.sdk.findings import Findings

        return Findings(self.preview(source, inventory=inventory).findings)

    def submit(
        self,
        source: JobSource,
        *,
        set: Mapping[str, object] | None = None,  # noqa: A002 - the command line's word
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        replace: bool = False,
        resume: str | None = None,
    ) -> Job:
        """Check a Job here and hand it to the platform; your own platform is started if it does not run.

        Args:
            source: the Job.
            set: changes by path, `{"spec.tasks[0].ray.resources.gpu": 0}`.
            name: another name.
            labels: further labels.
            replace: delete an ended Job of that name first.
            resume: go on from another Job's checkpoint: `JOB` for its newest, `JOB@40` for that of iteration 40.

        Returns:
            The Job; the one that is already there where name and content are the same.

        Raises:
            SpecError: it is wrong on every node.
            PlacementError: it can never run on these nodes.
            ConflictError: another Job has that name.
            NotFound: there is no such checkpoint to go on from.
            UsageError: the checkpoint is of another engine or task.
            ClusterError: nothing answers.
        """
        from rlark.sdk.draft import read_draft
        from rlark.sdk.resume import checkpoint_of, require_same, resumed
        from rlark.spec.finding import errors_of, refusal

        draft = read_draft(source).changed(set or {}, name=name, labels=labels).anew()
        checkpoint = None if resume is None else checkpoint_of(self, resume)
        preview = self._previewed(resumed(draft, checkpoint) if checkpoint else draft)
        if errors_of(preview.findings):
            raise refusal(preview.findings)
        if checkpoint:
            require_same(preview.yaml or "", checkpoint)
        self.ensure_platform()
        job, _ = self.send(preview.yaml or "", replace=replace)
        return job

    def send(self, text: str, *, key: str = "", dry_run: bool = False, replace: bool = False) -> tuple[Job, bool]:
        """Hand over a Job that was checked.

        Args:
            text: its canonical YAML, with the configuration inside.
            key: an idempotency key: the same key gives the same Job. By default a fresh one, so that an
                answer that was lost can be asked for again.
            dry_run: only check.
            replace: delete an ended Job of that name first.

        Returns:
            The Job, and whether it is new or a new attempt; False where it was already there.
        """
        query = {"dryRun": "All" if dry_run else None, "replace": replace}
        headers = {"Idempotency-Key": key or new_id()}
        for pause in (*PAUSES, None):
            try:
                answer = self.transport.request("POST", JOBS, query=query, body=text, headers=headers)
                break
            except ClusterError:
                if pause is None:
                    raise
                self._clock.sleep(pause)
        return Job(self.transport, answer.json()), answer.status == 201

    def job(self, name: str) -> Job:
        """A Job by its name.

        Raises:
            NotFound: there is none.
        """
        if not _NAME.fullmatch(name):  # in an address it would lead to something else
            raise NotFound(f"there is no job {name[:100]!r}", hint="see the names with: rlark jobs")
        return Job(self.transport, self.transport.get(f"{JOBS}/{name}"))

    def jobs(self, *, labels: Mapping[str, str] | None = None, phase: str | None = None) -> list[Job]:
        """All Jobs, or those with these labels and in this phase."""
        query = _selection(labels, phase)
        return [Job(self.transport, item) for item in self._pages(**query)]

    def watch(self, *, labels: Mapping[str, str] | None = None, phase: str | None = None) -> Iterator[StreamEvent]:
        """Every Job once, and again whenever it changes; never ends by itself.

        Yields:
            `job` with the Job's object, or `deleted` with `{"name"}`.
        """
        query = {"watch": True} | _selection(labels, phase)
        return follow(lambda last: self.transport.stream(JOBS, query=query, last_id=last))

    def _pages(self, **query: object) -> Iterator[JsonObject]:
        token: object = None
        while True:
            page = self.transport.get(JOBS, limit=PAGE, **query, **{"continue": token})
            yield from page["items"]
            token = page.get("continue")
            if not token:
                return

    # the platform

    def inventory(self, file: str | Path | None = None) -> Inventory:
        """The nodes that Jobs are checked against.

        Args:
            file: a description of nodes. Without one: the platform's nodes where it runs, else this machine.
        """
        from rlark.sdk.local import this_machine

        if file is not None:
            from rlark.preflight import load_inventory_file

            return load_inventory_file(Path(file))
        from rlark.sdk.local import running

        if self.settings.local and not running(self.settings.home):
            return this_machine(self.settings.home)
        from rlark.plan.node import Inventory, Node

        return Inventory(nodes=[Node.model_validate(item) for item in self.nodes()], source="ray")

    def nodes(self) -> list[JsonObject]:
        """Every node with its labels, capacity, what is free, and who leases what."""
        items: list[JsonObject] = self.transport.get(NODES)["items"]
        return items

    def patch_node(self, name: str, change: JsonObject) -> JsonObject:
        """Cordon a node, `{"spec": {"unschedulable": true}}`, or label it, `{"metadata": {"labels": {...}}}`."""
        return self.transport.request("PATCH", f"{NODES}/{quote(name, safe='')}", body=change).json()

    def queue(self) -> list[JsonObject]:
        """The waiting Jobs in their order: `job`, `position`, `reason`, `priority`."""
        items: list[JsonObject] = self.transport.get(f"{API}/queue")["items"]
        return items

    def engines(self) -> list[JsonObject]:
        """Engines, what they need, and whether it is met."""
        items: list[JsonObject] = self.transport.get(f"{API}/engines")["items"]
        return items

    @property
    def secrets(self) -> Secrets:
        """The secrets that the platform keeps: their names, never their values."""
        return Secrets(self.transport)

    def link(self, to: str = "/") -> str:
        """An address that signs a browser in once, within 60 s, and leads to a path of the platform.

        Raises:
            UsageError: it is no path of the platform.
        """
        answer = self.transport.request("POST", f"{API}/links", body={"to": to}).json()
        return f"{self.settings.address}{answer['path']}"

    def __repr__(self) -> str:
        return f"<Client of {self.settings.address}>"


def _selection(labels: Mapping[str, str] | None, phase: str | None) -> dict[str, object]:
    selector = ",".join(f"{key}={value}" for key, value in (labels or {}).items())
    return {"labelSelector": selector, "phase": phase}
