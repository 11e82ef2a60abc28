"""Serve's request router for the replicas: a session's requests go to its slot, anything else to where there is least to do."""

import random

from ray.serve.request_router import RequestRouter

from hydrant_ray.affinity import key_of_head, ranked


class SlotRouter(RequestRouter):
    """Asks the request's head alone, for the body is not here yet; what that names is the replica's to look at (replica.py). Every
    proxy decides the same, for slots come with the replicas (`record_replica_metadata`)."""

    def initialize_state(self, **kwargs):
        pass

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        if not candidate_replicas or pending_request is None:
            return [candidate_replicas] if candidate_replicas else []
        key = self._key(pending_request)
        if not key:
            return [self._least_loaded(candidate_replicas)]
        by_slot = {}
        for replica in candidate_replicas:
            by_slot[replica.replica_metadata.get("slot", str(replica.replica_id))] = replica
        # One that is full, or slow to say so, is waited for and not passed over: elsewhere the history would have to be computed.
        pending_request.routing_context.should_backoff = True
        return [[by_slot[ranked(key, by_slot)[0]]]]

    @staticmethod
    def _key(pending_request):
        scope = getattr(pending_request.args[0], "asgi_scope", None) if pending_request.args else None
        if scope is not None:
            return key_of_head(scope["headers"], scope["path"])
        session = pending_request.metadata.session_id
        return f"session  {session}" if session else ""

    def _least_loaded(self, replicas):
        """Two at random, and of those the one with the shorter queue."""
        lengths = self._replica_queue_len_cache
        pair = random.sample(replicas, min(2, len(replicas)))
        return [min(pair, key=lambda replica: lengths.get(replica.replica_id) or 0)]
