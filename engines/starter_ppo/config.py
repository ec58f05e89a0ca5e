"""The engine's configuration, in RLinf's sections and names.

Checks load this module, so it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from engines.starter_ppo.algorithms import ONE_PROCESS, PPO, SAC, Algorithm, AnyAlgorithm
from engines.starter_ppo.request import configuration
from engines.starter_ppo.section import Count, Positive, Section, Share, Widths
from rlark.evidence.intervals import Z_SCORES
from rlark.spec.packs import Pack
from rlark.spec.pendulum_pack import PENDULUM_CHAIN
from rlark.spec.task_pack import GOAL_NAVIGATION
from rlark.spec.train_request import Profile, TrainRequest

MINIBATCH_FOR_THREADS = 8192
"""Above this many transitions a minibatch is computed faster by several threads."""
TASKS = (GOAL_NAVIGATION, PENDULUM_CHAIN)
"""The kinds of tasks that are learned."""
HIDDEN_DIMS = {PPO: (64, 64), SAC: (128, 128)}
SAC_BATCH = 256
_OF_PPO = {
    "micro_batch_size": ("actor",),
    "lr_scheduler": ("actor", "optim"),
    "min_lr_rate": ("actor", "optim"),
    "clip_grad": ("actor", "optim"),
    "shared_trunk": ("actor", "model"),
    "log_std_init": ("actor", "model"),
    "log_std_min": ("actor", "model"),
    "log_std_max": ("actor", "model"),
}
"""Keys outside `algorithm` that only PPO reads, and the sections they stand in."""
ReferencePart = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,47}$")]


class Cluster(Section):
    """Where the components go; the placement rules read it.

    Attributes:
        num_nodes: 1.
        component_placement: components to GPUs or nodes, in RLinf's grammar.
        node_groups: at most one group of the one node.
    """

    num_nodes: Literal[1] = 1
    component_placement: Any = Field(default=None, examples=[{"actor,rollout,env": 0}])
    node_groups: Any = Field(default=None, examples=[[{"label": "gpu", "node_ranks": 0}]])


class Runner(Section):
    """The run as a whole.

    Attributes:
        engine: this engine's id.
        fuse: `auto` runs all components in one process where the placement allows it.
        device: `auto` takes a GPU where it is faster.
        threads: that compute in a rank; by default one, or all that the rank has where minibatches are
            large enough to pay for it. Two threads that fight for a core are many times slower than one.
        max_epochs: iterations of rollout and update.
        save_interval: iterations between checkpoints; 0 or less for an eighth of the run.
        keep_checkpoints: how many checkpoints stay; the best of them is exported.
        resume_dir: a checkpoint folder to continue from.
    """

    engine: Literal["starter-ppo"] = "starter-ppo"
    fuse: Literal["auto", "never"] = "auto"
    device: Literal["auto", "cuda", "cpu"] = "auto"
    threads: Count | None = Field(default=None, examples=[2])
    max_epochs: Count = 400
    save_interval: int = 0
    keep_checkpoints: Count = 4
    resume_dir: str | None = Field(default=None, examples=["/data/runs/demo/checkpoints/global_step_300"])


class TrainEnv(Section):
    """The environments that are learned from.

    Attributes:
        task: the task pack; an id or a file name is replaced by its content when the configuration is composed.
        total_num_envs: over all Env ranks.
        rollout_steps: control steps of one rollout.
        enable_offload: False; these environments are in the host's memory anyway.
    """

    task: Pack
    total_num_envs: Count = 64
    rollout_steps: Count = 128
    enable_offload: bool = False

    @field_validator("enable_offload")
    @classmethod
    def _at_home(cls, value: bool) -> bool:
        if value:
            raise ValueError("the environments of starter-ppo are in the host's memory, never on a GPU: write false")
        return value

    @field_validator("task", mode="before")
    @classmethod
    def _composed(cls, value: object) -> object:
        return _whole_pack(value)


class EvalEnv(Section):
    """How the finished policy is measured.

    Attributes:
        task: the task pack of the evaluation; that of the training by default.
        probe_episodes: deterministic episodes for each envelope when the best checkpoint is chosen.
    """

    task: Pack | None = None
    probe_episodes: Annotated[int, Field(ge=4, le=10_000)] = 500

    @field_validator("task", mode="before")
    @classmethod
    def _composed(cls, value: object) -> object:
        return _whole_pack(value)


def _whole_pack(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(
            f"the task {value!r} was not found when the configuration was composed: give the id of a file in tasks/ "
            "beside the configuration, a file name, or the pack itself"
        )
    return value


class Environments(Section):
    """Training and evaluation.

    Attributes:
        train: the environments that are learned from.
        eval: how the finished policy is measured.
    """

    train: TrainEnv
    eval: EvalEnv = EvalEnv()


class Rollout(Section):
    """The policy as it acts.

    Attributes:
        pipeline_stage_num: parts of the environments that take turns where the components are placed apart: while
            one is stepped, the policy decides for the next.
        enable_offload: move the policy to the host's memory while the Actor learns; for GPUs that are short of room.
    """

    pipeline_stage_num: Count = 1
    enable_offload: bool = False


class Optim(Section):
    """Adam.

    Attributes:
        lr: learning rate at the start.
        lr_scheduler: `constant`, `linear` down to `min_lr_rate` of it, or `adaptive` to `algorithm.target_kl`.
        min_lr_rate: share of the learning rate that is left at the end of a linear schedule.
        clip_grad: greatest norm of the gradient.
    """

    lr: Positive = 3e-4
    lr_scheduler: Literal["constant", "linear", "adaptive"] = "constant"
    min_lr_rate: Share = 0.0
    clip_grad: Positive = 0.5


class PolicyModel(Section):
    """The nets.

    Attributes:
        hidden_dims: widths of the hidden layers (tanh for ppo, ReLU for sac); by default 64, 64 for ppo and
            128, 128 for sac.
        shared_trunk: one trunk under both heads instead of a net for each.
        log_std_init: of the exploration noise, natural logarithm.
        log_std_min: it never falls below this.
        log_std_max: nor rises above this.
        normalize_observations: by their running mean and deviation; part of the exported policy.
    """

    hidden_dims: Widths | None = Field(default=None, examples=[[64, 64]])
    shared_trunk: bool = False
    log_std_init: float = -0.7
    log_std_min: Annotated[float, Field(ge=-20)] = -5.0
    log_std_max: Annotated[float, Field(le=2)] = 0.0
    normalize_observations: bool = True

    @model_validator(mode="after")
    def _ordered(self) -> PolicyModel:
        if not self.log_std_min <= self.log_std_init <= self.log_std_max:
            raise ValueError(
                f"log_std_init {self.log_std_init} lies outside [log_std_min {self.log_std_min}, "
                f"log_std_max {self.log_std_max}]"
            )
        return self


class Actor(Section):
    """The policy as it learns.

    Attributes:
        global_batch_size: transitions of one optimiser step; by default a quarter of the rollout for ppo, and 256
            for sac.
        micro_batch_size: transitions whose gradient is computed at once; all of them by default.
        optim: the optimiser.
        model: the nets.
        enable_offload: move parameters and optimiser to the host's memory while environments are stepped.
    """

    global_batch_size: Count | None = Field(default=None, examples=[2048])
    micro_batch_size: Count | None = Field(default=None, examples=[1024])
    optim: Optim = Optim()
    model: PolicyModel = PolicyModel()
    enable_offload: bool = False


class Product(Section):
    """What the policy shall be called; nothing is learned from it.

    Attributes:
        model: the policy's name in `artifact://` references; the Job's by default.
        version: its version there; the start of the configuration's digest by default.
        profile: the size that a training request asked for.
    """

    model: ReferencePart | None = Field(default=None, examples=["my-policy"])
    version: ReferencePart | None = Field(default=None, examples=["1.0.0"])
    profile: Profile | None = Field(default=None, examples=["smoke"])


class Config(Section):
    """The whole configuration of a starter-ppo run.

    Attributes:
        product: what the policy shall be called.
        cluster: where the components go.
        runner: the run as a whole.
        algorithm: how the policy is updated.
        env: training and evaluation.
        rollout: the policy as it acts.
        actor: the policy as it learns.
    """

    product: Product = Product()
    cluster: Cluster = Cluster()
    runner: Runner = Runner()
    algorithm: AnyAlgorithm = Algorithm()
    env: Environments
    rollout: Rollout = Rollout()
    actor: Actor = Actor()

    @classmethod
    def from_request(cls, request: TrainRequest, environ: Mapping[str, str]) -> Config:
        """What a training request and the operator's RDK_STARTER_ENGINE_* variables mean.

        Raises:
            ValueError: this engine cannot carry it out; the message says why.
        """
        return cls.model_validate(configuration(request, environ))

    @property
    def task(self) -> Pack:
        """What is learned."""
        return self.env.train.task

    @property
    def eval_task(self) -> Pack:
        """What the finished policy is measured on."""
        return self.env.eval.task or self.env.train.task

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.task.seed if self.algorithm.seed is None else self.algorithm.seed

    @property
    def transitions(self) -> int:
        """Of one rollout over all environments."""
        return self.env.train.total_num_envs * self.env.train.rollout_steps

    @property
    def minibatch(self) -> int:
        """Transitions of one optimiser step."""
        usual = SAC_BATCH if self.algorithm.type == SAC else max(1, self.transitions // 4)
        return self.actor.global_batch_size or usual

    @property
    def hidden_dims(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return self.actor.model.hidden_dims or HIDDEN_DIMS[self.algorithm.type]

    @property
    def microbatch(self) -> int:
        """Transitions whose gradient is computed at once."""
        return self.actor.micro_batch_size or self.minibatch

    def threads(self, available: int) -> int:
        """How many threads compute in a rank that may use `available`."""
        wanted = self.runner.threads or (available if self.minibatch > MINIBATCH_FOR_THREADS else 1)
        return max(1, min(wanted, available))

    @model_validator(mode="after")
    def _divides(self) -> Config:
        """The rules of rlark.plan.rules.divisibility know what is written; here the quarter by default counts too."""
        if self.algorithm.type == SAC:  # draws its batches from all that it remembers
            return self
        if self.transitions % self.minibatch:
            raise PydanticCustomError(
                "RL178",
                "env.train.total_num_envs x rollout_steps = {transitions} transitions do not divide into "
                "minibatches of actor.global_batch_size {minibatch}",
                {
                    "transitions": self.transitions,
                    "minibatch": self.minibatch,
                    "hint": f"write a global_batch_size that divides {self.transitions}",
                },
            )
        if self.minibatch % self.microbatch:
            raise PydanticCustomError(
                "RL177",
                "actor.global_batch_size {minibatch} does not divide into parts of actor.micro_batch_size {microbatch}",
                {
                    "minibatch": self.minibatch,
                    "microbatch": self.microbatch,
                    "hint": f"write a micro_batch_size that divides {self.minibatch}",
                },
            )
        return self

    @model_validator(mode="after")
    def _tasks_fit(self) -> Config:
        for name, pack in (("env.train.task", self.task), ("env.eval.task", self.eval_task)):
            if pack.kind not in TASKS:
                raise ValueError(f"{name} is of kind {pack.kind!r}; starter-ppo learns {' and '.join(TASKS)}")
            if pack.evaluation_config.confidence_level not in Z_SCORES:
                known = ", ".join(f"{level:.2f}" for level in Z_SCORES)
                raise ValueError(f"{name}.evaluationConfig.confidenceLevel is one of {known}")
        ours, theirs = self.task, self.eval_task
        if ours.kind != theirs.kind:
            raise ValueError(f"env.eval.task is of kind {theirs.kind!r} and env.train.task of {ours.kind!r}")
        if (ours.observation_size, ours.action_size) != (theirs.observation_size, theirs.action_size):
            raise ValueError("env.eval.task shows other observations or takes other actions than env.train.task")
        return self

    @model_validator(mode="after")
    def _schedule_has_a_target(self) -> Config:
        algorithm = self.algorithm
        if not isinstance(algorithm, Algorithm) or self.actor.optim.lr_scheduler != "adaptive":
            return self
        if algorithm.target_kl is None:
            raise ValueError(
                "actor.optim.lr_scheduler adaptive follows algorithm.target_kl: give one, 0.01 for example"
            )
        return self

    @model_validator(mode="after")
    def _one_algorithm(self) -> Config:
        """What only PPO reads is not ignored in silence."""
        kind = self.algorithm.type
        if kind in ONE_PROCESS and self.runner.fuse == "never":
            raise ValueError(f"algorithm.type {kind} learns in one process only: runner.fuse never does not go with it")
        if kind == SAC:
            for key, (first, *rest) in _OF_PPO.items():
                section: Section = getattr(getattr(self, first), rest[0]) if rest else getattr(self, first)
                if getattr(section, key) != type(section).model_fields[key].default:
                    name = ".".join((first, *rest, key))
                    raise ValueError(f"{name} belongs to algorithm.type ppo, and {kind} does not read it: remove it")
            for name in ("actor", "rollout"):
                if getattr(self, name).enable_offload:
                    raise ValueError(f"{name}.enable_offload is of algorithm.type ppo: {kind} stays where it is")
        return self
