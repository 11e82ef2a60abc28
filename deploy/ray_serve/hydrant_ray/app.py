"""The application that `serve run` builds: one deployment, `Hydrant`, whose replicas are hydrantds (docs/ray-serve.md)."""

import os
import pathlib
import shutil

from ray import serve
from ray.serve.config import RequestRouterConfig

from hydrant_ray.replica import Replica
from hydrant_ray.router import SlotRouter

HERE = pathlib.Path(__file__).resolve()
DEFAULTS = {
    "hydrantd": "",  # path of the program; default: $HYDRANTD, the wheel's, what this repository has built, or the one of $PATH
    "model": "",  # as on hydrantd's command line; required
    "directory": "hydrant-sessions",  # of the sessions; a folder slot-N per replica, on each machine its own
    "host": "127.0.0.1",  # where a daemon listens; auto: the node's address, for several machines (needs "insecure" in settings)
    "settings": {},  # hydrantd's flags, the names of a file of --config
    "stop_patience_s": 60.0,  # for running requests to end when a replica goes
}
OWN_FLAGS = ("host", "port", "replica_id", "session_dir", "admin_socket")


def _find_hydrantd(path):
    if found := path or os.environ.get("HYDRANTD"):
        return found
    # Of the wheel that this file came with, if it did; its folder of programs is in nobody's $PATH.
    built = [HERE.parents[1] / "hydrant" / "bin" / "hydrantd"]
    # Of the repository, if this is one: deploy/ray_serve/hydrant_ray/app.py.
    if len(HERE.parents) > 3 and (HERE.parents[3] / "CMakeLists.txt").exists():
        built.append(HERE.parents[3] / "build" / "release" / "hydrantd")
    found = next((str(path) for path in built if path.exists()), None) or shutil.which("hydrantd")
    if not found:
        raise ValueError("hydrantd: there is none in $HYDRANTD, the wheel, build/release or $PATH")
    return found


def options_of(args):
    """`args` with defaults. ValueError names what is wrong with one."""
    unknown = sorted(set(args) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"{unknown[0]}: there is no such argument; there are {', '.join(DEFAULTS)}")
    options = {**DEFAULTS, **args}
    if not options["model"]:
        raise ValueError("model: is required")
    if not isinstance(options["settings"], dict):
        raise ValueError("settings: must be an object of hydrantd's flags")
    own = [name for name in OWN_FLAGS if name in options["settings"]]
    if own:
        raise ValueError(f"settings.{own[0]}: a replica has one of its own")
    if pathlib.Path(options["model"]).exists():  # else it is a hub's name
        options["model"] = str(pathlib.Path(options["model"]).absolute())
    options["hydrantd"] = _find_hydrantd(options["hydrantd"])
    options["directory"] = str(pathlib.Path(options["directory"]).absolute())
    options["settings"] = {
        "trusted_proxies": ["127.0.0.0/8"], "shutdown_timeout_s": options["stop_patience_s"], **options["settings"],
    }  # fmt: skip
    return options


def build(args):
    options = options_of(dict(args))
    deployment = serve.deployment(
        Replica,
        name="Hydrant",
        request_router_config=RequestRouterConfig(request_router_class=SlotRouter),
        max_ongoing_requests=1000,  # the engine has a queue, limits and an answer for too much
        health_check_period_s=1,
        health_check_timeout_s=15,
        graceful_shutdown_wait_loop_s=0.5,
        graceful_shutdown_timeout_s=options["stop_patience_s"] + 30,
    )
    return deployment.bind(options)
