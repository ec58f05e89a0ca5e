"""The task pack of a chain of inverted pendulums: what is to be balanced, and when that counts as learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, Strict, model_validator

from rlark.model import Written
from rlark.spec.bounds import NotNegative, NotPositive, Positive, Share
from rlark.spec.task_pack import Ablation, EvaluationConfig

PENDULUM_CHAIN: Final = "pendulum-chain"
Size = Annotated[int, Field(ge=1, le=4096)]
_DECIMATION_ATOL = 1e-6


class Chain(Written):
    """The joints' dynamics; each joint's acceleration is the sum of its torques over `inertia`.

    Attributes:
        gravity: torque of a joint that lies flat; it pulls away from upright.
        coupling: torque for each radian that a joint is bent against a neighbour; beyond an end stands 0.
        damping: torque against a speed of 1 rad/s.
        inertia: of a joint.
        torque: what an action of 1 gives.
    """

    gravity: NotNegative = 6.0
    coupling: NotNegative = 0.10
    damping: NotNegative = 0.25
    inertia: Positive = 0.5
    torque: Positive = 1.5


class Start(Written):
    """How an episode begins; every joint is drawn by itself.

    Attributes:
        angle_std: standard deviation of the angle, rad.
        speed_std: standard deviation of the speed, rad/s.
    """

    angle_std: NotNegative = 0.05
    speed_std: NotNegative = 0.02


class ChainReward(Written):
    """Weights of the reward's terms, per control step.

    Attributes:
        alive: paid in every step.
        angle: per unit of the mean square of angle / fallAngle; at most 0.
        speed: per unit of the mean square of the speed, rad/s; at most 0.
        effort: per unit of the mean square of the action; at most 0.
        fall: paid once on a fall; at most 0.
    """

    alive: NotNegative = 1.0
    angle: NotPositive = -0.05
    speed: NotPositive = -0.01
    effort: NotPositive = -0.01
    fall: NotPositive = -2.0


class ChainTermination(Written):
    """When an episode ends.

    Attributes:
        fall_angle: a joint beyond this has fallen, rad.
        min_steps: the shortest episode that is cut off, in control steps; drawn evenly for each episode.
        max_steps: the longest; every episode of the evaluation has this length.
    """

    fall_angle: Annotated[float, Field(gt=0, le=3.14)] = 0.7
    min_steps: Annotated[int, Field(ge=1)] = 200
    max_steps: Annotated[int, Field(ge=1)] = 400

    @model_validator(mode="after")
    def _ascending(self) -> ChainTermination:
        if self.min_steps > self.max_steps:
            raise ValueError(f"minSteps {self.min_steps} is above maxSteps {self.max_steps}")
        return self


class ChainEnvelopes(Written):
    """How far from upright the evaluation starts, as a factor on `start`.

    Attributes:
        nominal: the quality gate looks at this one.
        hard: farther away.
    """

    nominal: Positive = 1.0
    hard: Positive = 1.5


class SurvivalGate(Written):
    """When a policy is good enough, on the nominal envelope; a chain has nothing to collide with.

    Attributes:
        min_success_rate: least share of episodes in which nothing falls.
        gate_on: the rate itself, or the lower bound of its interval.
        max_action_change_rms: greatest RMS of the difference of successive actions; None for no limit.
        ablation: the comparison with an untrained network; None for none.
    """

    min_success_rate: Share = 0.6
    gate_on: Literal["point", "ciLowerBound"] = "ciLowerBound"
    max_action_change_rms: Positive | None = Field(default=None, examples=[0.6])
    ablation: Ablation | None = None

    @property
    def max_collision_rate(self) -> None:
        """None: no limit."""
        return


def _eight_episodes() -> EvaluationConfig:
    return EvaluationConfig.model_validate({"episodesPerEnvelope": 8})


class PendulumPack(Written):
    """A chain of inverted pendulums, one joint for each action.

    The policy sees the cosines, the sines and the speeds of all joints and then the command.

    Attributes:
        schema_version: 1.
        id: its name, also the file's.
        aliases: other names it is found by.
        display_name: for people; the id when absent.
        kind: pendulum-chain.
        adapter_id: the robot it stands for.
        observation_adapter_id: the layout of the observation.
        observation_size: numbers the policy sees; at least 3 for each action.
        action_size: joints.
        control_hz: decisions per second.
        physics_timestep_seconds: of the explicit Euler integration, s; a whole number of them is one decision.
        chain: the joints' dynamics.
        start: how an episode begins.
        command: fills the observation behind the joints, then zeros do.
        recommended_engine: the engine used when nobody names one.
        reward: weights of the reward's terms.
        termination: when an episode ends.
        eval_envelopes: how far from upright the evaluation starts.
        evaluation_config: how the policy is measured; 8 episodes unless it says otherwise.
        quality_gate: when it is good enough.
        evaluation: names of what the evaluation reports, for people.
        seed: the random seed when nobody gives one.
        provenance: where the values come from; not interpreted.
    """

    schema_version: Literal[1] = 1
    id: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", examples=["my-chain"])]
    aliases: Annotated[tuple[str, ...], Strict(False)] = Field(default=(), examples=[["chain"]])
    display_name: str = ""
    kind: Literal["pendulum-chain"] = PENDULUM_CHAIN
    adapter_id: str = Field(default="rdk-duck", examples=["rdk-duck"])
    observation_adapter_id: str = "pendulum-chain-v1"
    observation_size: Size = 42
    action_size: Size = 12
    control_hz: Annotated[float, Field(gt=0, le=1000)] = 50.0
    physics_timestep_seconds: Annotated[float, Field(gt=0, le=0.05)] = 0.002
    chain: Chain = Chain()
    start: Start = Start()
    command: Annotated[tuple[float, ...], Strict(False), Field(max_length=4096)] = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    recommended_engine: str | None = Field(default=None, examples=["starter-ppo"])
    reward: ChainReward = ChainReward()
    termination: ChainTermination = ChainTermination()
    eval_envelopes: ChainEnvelopes = ChainEnvelopes()
    evaluation_config: EvaluationConfig = Field(default_factory=_eight_episodes, examples=[{"episodesPerEnvelope": 8}])
    quality_gate: SurvivalGate = SurvivalGate()
    evaluation: list[str] = Field(default_factory=list, examples=[["successRate"]])
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 7
    provenance: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"source": "measured"}])

    @property
    def decimation(self) -> int:
        """Physics steps of one decision."""
        return round(1.0 / (self.control_hz * self.physics_timestep_seconds))

    @model_validator(mode="after")
    def _agrees(self) -> PendulumPack:
        if self.observation_size < 3 * self.action_size:
            raise ValueError(
                f"observationSize {self.observation_size} has no room for cosine, sine and speed of {self.action_size} "
                f"joints: at least {3 * self.action_size}"
            )
        ratio = 1.0 / (self.control_hz * self.physics_timestep_seconds)
        if self.decimation < 1 or abs(ratio - self.decimation) > _DECIMATION_ATOL * ratio:
            raise ValueError(
                f"controlHz {self.control_hz:g} and physicsTimestepSeconds {self.physics_timestep_seconds:g} make "
                f"{ratio:g} physics steps a decision: it must be a whole number"
            )
        return self

    @classmethod
    def of_contract(cls, contract: Mapping[str, Any]) -> PendulumPack:
        """The chain that has a policy contract's sizes and times.

        Args:
            contract: `observationSize`, `actionSize`, and where given `id`, `controlHz`, `physicsTimestepSeconds`
                and `decimation`.

        Raises:
            ValueError: a size is missing, or the numbers do not go together.
        """
        sizes = [contract.get(name) for name in ("observationSize", "actionSize")]
        if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
            raise ValueError("contract.observationSize and contract.actionSize are required, positive integers")
        times = {name: contract[name] for name in ("controlHz", "physicsTimestepSeconds") if name in contract}
        pack = cls.model_validate(
            {"id": PENDULUM_CHAIN, "kind": PENDULUM_CHAIN, "observationSize": sizes[0], "actionSize": sizes[1], **times}
        )
        asked = contract.get("decimation", pack.decimation)
        if asked != pack.decimation:
            raise ValueError(
                f"contract.decimation is {asked}, and its controlHz and physicsTimestepSeconds make {pack.decimation}"
            )
        return pack
