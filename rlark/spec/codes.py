"""Every finding's code and what it means; docs/findings.md is made from this table."""

from __future__ import annotations

CODES: dict[str, str] = {
    # 001-019: the text
    # 020-099: the shape of the Job
    "RL021": "replicas is 1 on a single node",
    # 100-149: placement expressions
    "RL100": "component_placement places at least one component",
    "RL101": "a placement expression is not empty",
    "RL102": "a part of an expression has at most one colon",
    "RL103": "the processes of a part are numbers, not `all`",
    "RL104": "a component has at most 10,000 processes on one node",
    "RL105": "both sides of a colon hold numbers",
    "RL106": "resources and processes are a number or a range; resources may be `all`",
    "RL107": "a range ends where it starts or later",
    "RL108": "a resource stands in an expression once",
    "RL109": "resources ascend",
    "RL110": "process numbers go on where the part before ends",
    "RL111": "of the counts of resources and processes, one divides the other",
    "RL112": "a component is placed once",
    "RL113": "a component's node groups exist",
    "RL114": "only node_group and placement stand in a component's mapping",
    "RL115": "a component's mapping has a placement",
    "RL116": "a process holds resources of one kind",
    "RL117": "a number that RLinf's loader would read otherwise is quoted",
    "RL118": "a placement is a text or an integer",
    "RL119": "the resources of an expression are there",
    "RL120": "node_groups is a list of mappings",
    "RL121": "a node group has a label, node_ranks and no unknown key",
    "RL122": "labels of node groups are unique and not reserved",
    "RL123": "node_ranks name the one node, 0",
    "RL124": "a node group sets each variable once, as a list of single variables",
    "RL125": "the hardware of a node group is of a known type, on the one node, and described once",
    "RL130": "process numbers start at 0",
    "RL131": "every GPU up to the highest is used",
    "RL132": "there are no more processes than CPU cores",
    "RL133": "Actor and Rollout share all GPUs or none",
    # 150-199: the RLinf configuration and the engine
    "RL150": "cluster.num_nodes is there and an integer",
    "RL151": "cluster.num_nodes is 1 on a single node",
    "RL152": "there is at most one node group",
    "RL153": "keys of the cluster section are known to RLinf",
    "RL154": "every component the engine needs is placed",
    "RL155": "every placed component is one of the engine's",
    "RL156": "a component has no more ranks than the engine can use",
    "RL160": "a real device is used only when its safety is confirmed",
    "RL170": "total_num_envs is at least 1",
    "RL171": "total_num_envs divides by the Env ranks",
    "RL172": "the environments of an Env rank divide by the pipeline stages",
    "RL173": "every pipeline stage has at least one environment",
    "RL174": "the environments of a stage divide by the group size",
    "RL175": "the steps of a rollout divide by the action chunk",
    "RL176": "the observations of a stage divide by the Rollout ranks",
    "RL177": "the global batch divides by micro batch times Actor ranks",
    "RL178": "a rollout divides by the global batch",
    "RL179": "save_interval divides by val_check_interval",
    "RL180": "decoupled mode has at least as many Env ranks as Rollout ranks",
    # 200-249: nodes and capacity
    # 250-299: image
    # 300-349: scripts
    # 350-399: secrets
    # 400-449: outputs and mounts
}
