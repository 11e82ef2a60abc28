"""The table of who has which slot. Pure: the time is an argument.

A slot is given away when its owner leaves, or is known to be dead. One that is only silent keeps it for long: a machine that is busy
for seconds must not cost it its sessions. But it is no peer meanwhile."""

SILENT_AFTER_S = 5.0  # not listed as a peer
GONE_AFTER_S = 60.0  # the slot is free


class Slots:
    def __init__(self):
        self._held = {}  # slot -> dict(owner, node, pid, url, load, seen)

    def holders(self, node):
        """[(owner, pid)] of those on `node`, which whoever is there can look for."""
        return [(entry["owner"], entry["pid"]) for entry in self._held.values() if entry["node"] == node]

    def claim(self, owner, node, pid, dead, now):
        """A slot for a new replica: the lowest free one, those of the owners in `dead` among them. A replica that has one keeps it."""
        for slot in [slot for slot, entry in self._held.items() if entry["owner"] in dead or now - entry["seen"] > GONE_AFTER_S]:
            del self._held[slot]
        for slot, entry in self._held.items():
            if entry["owner"] == owner:
                return slot
        slot = next(slot for slot in range(len(self._held) + 1) if slot not in self._held)
        self._put(owner, slot, node, pid, "", 0, now)
        return slot

    def tell(self, owner, slot, node, pid, url, load, now):
        """A replica's word that it is there. Returns the entries of those that can be asked, by slot; None: the slot is another's."""
        if self._held.get(slot, {"owner": owner})["owner"] != owner:
            return None
        self._put(owner, slot, node, pid, url, load, now)
        return {
            slot: {"node": entry["node"], "url": entry["url"], "load": entry["load"]}
            for slot, entry in self._held.items()
            if entry["url"] and now - entry["seen"] <= SILENT_AFTER_S
        }

    def leave(self, owner, slot):
        if self._held.get(slot, {}).get("owner") == owner:
            del self._held[slot]

    def _put(self, owner, slot, node, pid, url, load, now):
        self._held[slot] = {"owner": owner, "node": node, "pid": pid, "url": url, "load": load, "seen": now}
