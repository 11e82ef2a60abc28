"""Who has which slot: one small actor per application, found by its name. It may die: replicas tell it again who they are."""

import time

import ray

from hydrant_ray.slots import Slots

NAMESPACE = "hydrant"


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Directory:
    def __init__(self):
        self._slots = Slots()

    def holders(self, node):
        return self._slots.holders(node)

    def claim(self, owner, node, pid, dead):
        return self._slots.claim(owner, node, pid, dead, time.monotonic())

    def tell(self, owner, slot, node, pid, url, load):
        return self._slots.tell(owner, slot, node, pid, url, load, time.monotonic())

    def leave(self, owner, slot):
        self._slots.leave(owner, slot)


def directory_of(application):
    return Directory.options(
        name=f"directory of {application}", namespace=NAMESPACE, lifetime="detached", get_if_exists=True
    ).remote()
