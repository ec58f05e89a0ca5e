"""Read, compose, look, decide: the one function behind validate, preview, submit and the controller.

    text -> spec.load -> Source -> preflight -> Preview

The configuration is composed and put inline, so that the canonical YAML holds all that was
checked; findings get the line and column of the text, or of the configuration's own file.
"""

from __future__ import annotations

import functools
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

from rlark.engine import Engine, find_engines, load_attribute
from rlark.errors import UsageError
from rlark.plan.decide import chosen, decide
from rlark.plan.facts import Facts
from rlark.plan.isolation import head_of, wants_bubblewrap
from rlark.plan.model_path import real_models
from rlark.plan.node import HOSTNAME, Inventory, Node
from rlark.plan.override import ScriptOverride, at_override, for_configuration, overrides_of
from rlark.plan.placement import Placement
from rlark.plan.plan import Plan, RankPlacement
from rlark.plan.review import Row, review
from rlark.plan.rules.engine import named
from rlark.plan.rules.secrets import tell_leaks
from rlark.spec.canonical import canonical_yaml, digest
from rlark.spec.config import CONFIG, Composed, compose
from rlark.spec.finding import Finding, exit_code
from rlark.spec.invalid import ENGINE, explain
from rlark.spec.job import ConfigSource, Job
from rlark.spec.leak import Leak, Veil, find_in_comments, find_in_text, find_leaks
from rlark.spec.path import within
from rlark.spec.source import Source
from rlark.spec.yaml import LARGEST_TEXT

if TYPE_CHECKING:
    from rlark.folder import Home

Look = Callable[[Job, Node], Facts]
"""Looks up what deciding must know about a Job on a node."""

HERE = ("ray", "this machine")
"""Sources of an inventory whose nodes may be this machine."""


@dataclass(frozen=True)
class Preview:
    """Everything that would be decided about a Job.

    Attributes:
        name: the Job's name; empty where the text has none.
        job: the Job with its configuration composed and inline; None while its text has errors.
        plan: None while an error stands.
        findings: everything that was found, with file, line and column, in their order.
        yaml: the canonical text; empty while it cannot be decided.
        digest: SHA-256 of it.
        node: the chosen node; None where there is none.
        review: the table of what a person checks before submitting.
        placement: where the components go, errors elsewhere or not; None without any, or while undecided.
    """

    name: str
    job: Job | None
    plan: Plan | None
    findings: list[Finding]
    yaml: str
    digest: str
    node: Node | None
    review: list[Row]
    placement: Placement | None = None

    @property
    def exit_code(self) -> int:
        """0, 3 or 4: the one table of validate, preview, submit and the API."""
        return exit_code(self.findings)

    @property
    def ranks(self) -> Mapping[str, list[RankPlacement]] | None:
        """The ranks of each component; None while undecided."""
        if self.placement is not None:
            return self.placement.ranks
        return None if self.plan is None else {}

    @property
    def gpus_required(self) -> int | None:
        """The highest GPU that the placement uses, plus one; None while undecided."""
        if self.placement is not None:
            return self.placement.gpus_required
        return None if self.plan is None else 0

    def to_json(self) -> dict[str, Any]:
        """The form of `rlark preview -o json`; what could not be decided is null."""
        ranks = self.ranks
        return {
            "name": self.name,
            "ok": self.exit_code == 0,
            "yaml": self.yaml or None,
            "digest": self.digest or None,
            "findings": [finding.to_json() for finding in self.findings],
            "review": [row.to_json() for row in self.review],
            "node": self.node.name if self.node is not None else None,
            "placement": {name: [rank.to_json() for rank in ranks[name]] for name in ranks}
            if ranks is not None
            else None,
            "worldSize": {name: len(ranks[name]) for name in ranks} if ranks is not None else None,
            "gpusRequired": self.gpus_required,
        }


def preflight(source: Source, inventory: Inventory, look: Look | None = None, *, home: Home | None = None) -> Preview:
    """Check a Job against nodes and decide everything about it; nothing is started.

    Args:
        source: the Job's text, read.
        inventory: the nodes it may run on.
        look: looks up what must be known about the chosen node. By default this machine is looked at
            where it is the node, and otherwise only what does not depend on the machine.
        home: the state directory to look into; None where the platform is not this user's, so that
            only the platform can tell which secrets it has.
    """
    draft = source.draft
    if draft is None:
        return _unread(source)
    composed = _compose(source, draft)
    job = _with_config(draft, composed)
    node = chosen(job, inventory)
    if look is None:
        here = node is None or is_here(node, inventory)
        look = functools.partial(look_here, home=home) if here else look_elsewhere
    facts = look(job, node or Node(name=""))
    leaks = _leaks(source, composed)
    facts = replace(facts, config_path=composed.path, config_base=composed.base)
    facts, about_script = _as_run(job, composed, facts)
    settled, about_engine = _ask_engine(job, facts)
    about_files = _of_use(composed.findings, about_engine, facts.engines.get(_engine_named(job)))
    facts = replace(facts, config_settled=settled, config_findings=_unsaid(about_engine, about_files))
    decided = decide(job, inventory, facts, spoils=source.spoils)
    told = [at_override(finding, facts.script_overrides, composed.path) for finding in decided.findings]
    found = [*source.findings, *source.of_draft([*about_files, *about_script, *told]), *tell_leaks(leaks)]
    findings = _placed(source, composed, found)
    ready = source.job is not None and (composed.effective is not None or draft.worker.ray.config is None)
    ready = ready and not leaks  # nobody is shown a text with a secret in it, nor is it kept
    text = canonical_yaml(job) if ready else ""
    veil = Veil(leaks)
    findings = [veil.shown(finding) for finding in findings] if leaks else findings
    return Preview(
        name=veil(job.name),
        job=job if ready else None,
        plan=decided.plan if ready and exit_code(findings) == 0 else None,
        findings=findings,
        yaml=text,
        digest=digest(text) if text else "",
        node=node,
        review=[veil.shown(row) for row in review(job, decided, node, found, spoils=source.spoils)],
        placement=decided.placement,
    )


def _unread(source: Source) -> Preview:
    """What can be said of a text that is no Job at all: what is wrong with it, and that there are secrets in it."""
    leaks = tuple(find_in_text(source.text)) if len(source.text) <= LARGEST_TEXT else ()
    found = [source.place(finding) for finding in tell_leaks(leaks)]
    return Preview("", None, None, [Veil(leaks).shown(one) for one in [*source.findings, *found]], "", "", None, [])


def _leaks(source: Source, composed: Composed) -> tuple[Leak, ...]:
    """Secrets that stand in clear in the Job, in its comments and in the configuration it names."""
    inline = f"{CONFIG}.inline"
    found = find_leaks(source.data, without=inline if composed.effective is not None else "")
    if composed.effective is not None:
        overridden = {leak.value for leak in found if within(leak.path, f"{CONFIG}.overrides")}
        told = find_leaks(composed.effective, path=composed.path)
        found += [leak for leak in told if leak.value not in overridden]
    return tuple(found + find_in_comments(source.text, found))


def _of_use(composed: Iterable[Finding], said: Iterable[Finding], engine: Engine | None) -> list[Finding]:
    """What composing found, without tasks that are no packs and that the engine knows by itself."""
    refused = {finding.path for finding in said}
    return [finding for finding in composed if finding.code != "RL474" or engine is None or finding.path in refused]


def _unsaid(findings: Iterable[Finding], said: Iterable[Finding]) -> tuple[Finding, ...]:
    """What the engine's model adds to what the files' own check has said."""
    places = [finding.path for finding in said if finding.severity == "error"]
    return tuple(finding for finding in findings if not any(within(finding.path, place) for place in places))


def _placed(source: Source, composed: Composed, findings: list[Finding]) -> list[Finding]:
    """Findings with their places, in the order of the text and without repetitions."""
    placed = [source.place(composed.place(finding)) for finding in findings]
    return sorted(dict.fromkeys(placed), key=lambda found: (found.file != source.file, found.line, found.column))


def _compose(source: Source, draft: Job) -> Composed:
    config = draft.worker.ray.config
    if config is None:
        return Composed()
    return compose(config, source.folder, engine=not draft.worker.run)


def _as_run(job: Job, composed: Composed, facts: Facts) -> tuple[Facts, list[Finding]]:
    """The facts with the configuration as the run script's own overrides change it, and what cannot be applied."""
    config = job.worker.ray.config
    if config is None or composed.effective is None or not job.worker.run:
        return facts, []
    names = (config.name or "", config.origin.path if config.origin is not None else "")
    every = for_configuration(overrides_of(job.worker.run, composed.effective), names)
    of_cluster = [one for one in every if one.of_cluster]
    findings: list[Finding] = []
    for overrides in (every, of_cluster) if len(of_cluster) < len(every) else (of_cluster,):
        if not overrides:
            continue
        changed = compose(_overridden(composed, overrides), None, engine=False)
        if changed.effective is not None:
            return replace(facts, config_run=changed.effective, script_overrides=tuple(overrides)), []
        findings = [at_override(finding, overrides, f"{CONFIG}.overrides") for finding in changed.findings]
    # what is no fault of the cluster section may be some other program's argument
    return replace(facts, script_overrides=tuple(of_cluster)), findings if of_cluster else []


def _overridden(composed: Composed, overrides: Iterable[ScriptOverride]) -> ConfigSource:
    return ConfigSource(inline=composed.effective, overrides=[one.text for one in overrides])


def _with_config(job: Job, composed: Composed) -> Job:
    """The Job with what was composed inline."""
    config = job.worker.ray.config
    if config is None or composed.effective is None:
        return job
    inline = config.model_copy(
        update={
            "path": None,
            "dir": None,
            "name": None,
            "inline": composed.effective,
            "overrides": [],
            "origin": composed.origin,
        }
    )
    ray = job.worker.ray.model_copy(update={"config": inline})
    tasks = [job.worker.model_copy(update={"ray": ray}), *job.spec.tasks[1:]]
    return job.model_copy(update={"spec": job.spec.model_copy(update={"tasks": tasks})})


# looking


@functools.cache
def engines() -> Mapping[str, Engine]:
    """Every engine installed here; found once in a process."""
    return find_engines()


def look_here(job: Job, node: Node, home: Home | None = None) -> Facts:
    """Look at this machine: engines and what they lack, mount sources, free disk.

    Args:
        job: the Job.
        node: the node it would run on, which is this machine.
        home: the state directory, where jobs and secrets are kept; None where the platform's is not known.
    """
    from rlark.folder import Home
    from rlark.host import sandbox
    from rlark.secrets import SecretStore

    kept = home or Home.find()
    worker = job.worker
    sources = {mount.host_path for mount in worker.ray.mounts if mount.host_path}
    refs = [variable.value_from.secret_ref for variable in worker.ray.env if variable.value_from is not None]
    missing = {(ref.name, ref.key) for ref in refs if (ref.name, ref.key) not in SecretStore(kept.secrets)}
    models = real_models(worker, str(kept.volumes))
    found = look_elsewhere(job, node)
    wanted = [engine for engine in found.engines.values() if engine.id == _engine_named(job)]
    return replace(
        found,
        unmet={engine.id: tuple(engine.unmet()) for engine in wanted},
        missing_mounts=frozenset(source for source in sources if not _exists(source)),
        missing_models=frozenset(seen for seen, real in models.items() if not _exists(real)),
        free_disk=_free(kept),
        no_bubblewrap=sandbox.unavailable(own_pids=head_of(worker) == "job") if wants_bubblewrap(worker) else None,
        home=str(kept.root.absolute()),
        programs=(sys.prefix, sys.base_prefix),
        missing_secrets=frozenset(missing) if home else None,
    )


def look_elsewhere(job: Job, _node: Node) -> Facts:
    """What is known without being on the node: which engines there are, and what bash says of the scripts."""
    scripts = {"prepareScript": job.worker.prepare, "runScript": job.worker.run}
    said = {key: _syntax_error(text) for key, text in scripts.items() if text}
    return Facts(engines=engines(), script_errors={key: error for key, error in said.items() if error is not None})


@functools.lru_cache(maxsize=64)
def _syntax_error(script: str) -> tuple[int, str] | None:
    from rlark.host.bash import syntax_error

    return syntax_error(script)


def is_here(node: Node, inventory: Inventory) -> bool:
    """True when the node is this machine."""
    host = socket.gethostname()
    return inventory.source == HERE[1] or (
        inventory.source == HERE[0] and host in {node.name, node.labels.get(HOSTNAME)}
    )


def _exists(folder: str) -> bool:
    try:
        return Path(folder).exists()
    except OSError:  # a folder that this user cannot look into is one that the Job cannot read
        return False


def _free(home: Home) -> int | None:
    """Bytes free on the state directory's disk; None where that cannot be seen."""
    existing = next((folder for folder in (home.root, *home.root.parents) if folder.exists()), None)
    try:
        return shutil.disk_usage(existing).free if existing else None
    except OSError:
        return None


def _engine_named(job: Job) -> str:
    config = job.worker.ray.config
    return "" if config is None or job.worker.run else str(named(config.inline))


def _ask_engine(job: Job, facts: Facts) -> tuple[dict[str, Any] | None, tuple[Finding, ...]]:
    """The configuration with the engine's defaults filled in, and what the engine's own model says about it."""
    config = job.worker.ray.config
    engine = facts.engines.get(_engine_named(job))
    if config is None or config.inline is None or engine is None:
        return None, ()
    try:
        model = cast("type[BaseModel]", load_attribute(engine.config))
        made = model.model_validate(config.inline)
    except ImportError as error:
        message = f"the engine {engine.id} cannot be loaded here: {error}"
        place = f"{facts.config_path}.runner.engine"
        return None, (Finding(code="RL193", path=place, message=message, hint="install it again"),)
    except ValidationError as error:
        said = explain(error, model, config.inline, ENGINE, facts.config_path)
        return None, tuple(invalid.finding for invalid in said)
    return _over(made.model_dump(by_alias=True), config.inline), ()


def _over(defaults: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """What is written, and defaults where nothing is."""
    both = {key: _over(defaults[key], value) for key, value in written.items() if _nested(defaults.get(key), value)}
    return {**defaults, **written, **both}


def _nested(one: object, other: object) -> bool:
    return isinstance(one, Mapping) and isinstance(other, Mapping)


# an inventory from a file


def load_inventory_file(path: str | Path) -> Inventory:
    """Read nodes from a file, as `rlark nodes list -o json` writes them.

    Args:
        path: YAML or JSON, `nodes: [{name, labels, cpus, memory, shm, gpus, gpuModel, online, unschedulable}]`.

    Raises:
        UsageError: it cannot be read.
        SpecError: it is not of that form; with findings.
    """
    from rlark.plan.inventory_file import read_inventory

    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"the inventory {file} cannot be read: {reason}", hint="name a YAML or JSON file") from None
    return read_inventory(text, str(file))
