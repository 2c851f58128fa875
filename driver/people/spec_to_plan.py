"""What the core needs of a job spec. Pure.

Called by the edge when a job is submitted: `JobSubmitted(job=…, plan=plan_of(…))`.
"""

from holdfast.driver.core.events import Budget, Plan
from holdfast.protocol import jobspec
from holdfast.protocol.messages import Task, UploadLimits
from holdfast.protocol.paths import RunPaths

TTL_S = 7 * 86_400.0
"""Of a finished job whose spec says nothing: a week, for each is written with all later commits. On
Kubernetes the object bounds it instead: without a `ttlS` of its own it stays, and its job with it.
"""


def plan_of(job: jobspec.TrainingJob, paths: RunPaths, *, life: str) -> Plan:
    """The plan of a checked spec. What the spec leaves open is put under `paths`.

    `life`: an id that no other job has had, of this or another name, in this or another driver.
    """
    spec = job.spec
    return Plan(
        task=_task(job, paths, life),
        nodes=spec.nodes,
        ranks_per_node=spec.ranks_per_node,
        standbys=spec.standbys,
        topology=spec.sized(),
        infrastructure=_budget(spec.recovery.infrastructure),
        user=_budget(spec.recovery.user),
        on_bad_loss=spec.recovery.on_bad_loss,
        start_s=spec.timeouts.start_s,
        hang_floor_s=spec.timeouts.hang_floor_s,
        first_step_s=spec.timeouts.first_step_s,
        pause_max_s=spec.timeouts.pause_max_s,
        stuck_max_s=spec.timeouts.stuck_max_s,
        diagnose_s=spec.timeouts.diagnose_s,
        grace_s=spec.timeouts.grace_s,
        node_class=spec.node_class.model_dump(exclude_defaults=True),
        suspend=spec.suspend,
        deadline_s=spec.deadline_s,
        ttl_s=TTL_S if spec.ttl_s is None else spec.ttl_s,
        log_rules=tuple((rule.pattern, rule.action) for rule in spec.log_rules),
        spec=job.model_dump_json(by_alias=True).encode(),
    )


def _task(job: jobspec.TrainingJob, paths: RunPaths, life: str) -> Task:
    spec, name = job.spec, job.metadata.name
    store = spec.checkpoint.store_url or f"file://{paths.job(name) / 'checkpoints'}"
    return Task(
        command=spec.command,
        workdir=spec.workdir,
        env=dict(spec.env),
        default_env=spec.communication.environment(),
        rendezvous=spec.communication.rendezvous,
        topology=spec.sized(),
        nodes=spec.nodes,
        ranks_per_node=spec.ranks_per_node,
        max_restarts=spec.recovery.user.restarts,
        memory_interval_steps=spec.checkpoint.memory_interval_steps,
        store_interval_steps=spec.checkpoint.store_interval_steps,
        store_url=f"{store.rstrip('/')}/{life}",
        begin_from=spec.checkpoint.begin_from.rstrip("/"),
        retention=spec.checkpoint.retention,
        keep_every_steps=spec.checkpoint.keep_every_steps,
        peer_interval_steps=spec.checkpoint.peer_interval_steps,
        upload=UploadLimits(
            mb_per_s=spec.checkpoint.upload_mb_per_s,
            cpus=spec.checkpoint.upload_cpus,
            idle=spec.checkpoint.upload_idle,
        ),
        grace_s=spec.timeouts.grace_s,
        log_root=str(paths.root),
        log_rules=tuple(rule.pattern for rule in spec.log_rules),
    )


def _budget(budget: jobspec.Budget) -> Budget:
    return Budget(restarts=budget.restarts, window_s=budget.window_s)
