"""How many replicas there should be, by what the engines say of themselves. Pure, but for Serve's context that it is given."""

import math

WAITING_MAX = 2.0  # requests that wait to be admitted, per replica: more is a queue that the next replica would take from
KV_MAX = 0.85  # share of the pool in use
KV_LOW = 0.5
SHRINK_AFTER = 30  # decisions in a row that found a replica to spare


def wanted(waiting, running, kv, current, running_per_replica):
    """The number of replicas for the engines' sums of requests that wait and run, and the mean share of KV in use.

    Up at once by what waits or by KV; down only to what keeps KV below its mark, and never below what runs now."""
    up = current
    if waiting > WAITING_MAX * current:
        up = max(up, current + math.ceil((waiting - WAITING_MAX * current) / max(running_per_replica, 1)))
    if kv > KV_MAX:
        up = max(up, math.ceil(current * kv / KV_MAX))
    if up > current:
        return up
    if waiting == 0 and current > 1 and kv * current / (current - 1) < KV_LOW:
        if running <= 0.5 * running_per_replica * (current - 1):
            return current - 1
    return current


def decide(ctx):
    """Serve's autoscaling policy (`policy_function`). Its state is how long there has been a replica to spare."""
    metrics = ctx.aggregated_metrics or {}

    def values(name):
        return list((metrics.get(name) or {}).values())

    state = dict(ctx.policy_state or {})
    current = ctx.target_num_replicas
    if len(values("waiting")) < max(1, ctx.current_num_replicas) or ctx.current_num_replicas != current:
        return current, state  # somebody has not told yet, or is on its way
    kv = values("kv")
    target = wanted(
        sum(values("waiting")), sum(values("running")), sum(kv) / max(len(kv), 1), current, max(values("rows") or [1])
    )
    spare = state.get("spare", 0) + 1 if target < current else 0
    if target < current and spare < state.get("patience", SHRINK_AFTER):
        target = current
    elif target < current:
        spare = 0
    return min(max(target, ctx.capacity_adjusted_min_replicas), ctx.capacity_adjusted_max_replicas), state | {"spare": spare}
