"""All servers of a deployment on their boxes: devices, ports, and the router before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import ceil

from rackmath.engine import Layout
from rackmath.hardware import System
from rackmath.serving.launch import LaunchedWorker, Place, one_each, sglang_command, vllm_command
from rackmath.serving.launch_apart import ATTENTION, FFN, NOT_WRITTEN, RUNNER, ApartServer
from rackmath.serving.launch_llama import PORT, llama_command
from rackmath.serving.launch_trtllm import proxy, settings, trtllm_command

_TRAY = 4
"""Accelerators that one operating system sees in a rack whose scale-up domain is larger than a box."""
_BOX = 8
"""Accelerators of a box without a scale-up network."""
_MOST = 64
"""Servers that one router is given by name."""
_DOES = {"prefill": "reads prompts", "decode": "writes answers", FFN: "holds routed experts only"}
_VISIBLE = {"NVIDIA": "CUDA_VISIBLE_DEVICES", "AMD": "HIP_VISIBLE_DEVICES"}
_LINK_PORTS = {"vllm": 5600, "sglang": 8998, "trtllm": 0, "llama.cpp": 0}
COMMANDS: dict[str, Callable[[LaunchedWorker, Place], str]] = {
    "vllm": vllm_command,
    "sglang": sglang_command,
    "trtllm": trtllm_command,
    "llama.cpp": llama_command,
}
"""Command of one worker, by engine."""
FRONT = {"vllm": 8000, "sglang": 30_000, "trtllm": 8000, "llama.cpp": PORT}
"""Port that users reach, by engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerPlace:
    """One server on its devices."""

    server: LaunchedWorker
    boxes: tuple[int, ...]
    devices: tuple[int, ...]
    slot: int
    """Which server of its first box it is."""
    experts_box: int = 0
    """First box of the server that holds its worker's routed experts only."""


def box_size(system: System) -> int:
    """Accelerators that one operating system sees."""
    if system.domain > _BOX:
        return _TRAY
    return system.domain if system.domain > 1 else _BOX


def rented_together(system: System) -> int:
    """Accelerators that clouds rent as one: a box; cards without a scale-up network one by one."""
    return box_size(system) if system.domain > 1 else 1


def launch_script(engine: str, workers: Sequence[tuple[LaunchedWorker, int]], system: System) -> str:
    """Commands of all servers of a deployment, box by box, and of the router where there is more than one.

    Parameters
    ----------
    engine : str
        Of :data:`COMMANDS`.
    workers : sequence of (LaunchedWorker, int)
        Each kind of worker, and how many there are in the whole deployment.
    """
    if any(server.layout.ffn for server, _ in workers) and engine != "vllm":
        return NOT_WRITTEN.format(engine=engine)
    alone = [(server, many * copies) for s, many in server_pairs(workers) for server, copies in [one_each(s)]]
    server_places = _placed(alone, system)
    boxes = 1 + max(box for place in server_places for box in place.boxes)

    def name(box: int) -> str:
        return "127.0.0.1" if boxes == 1 else f"box-{box + 1}"

    blocks: list[tuple[str, list[int]]] = []
    for box in range(boxes):
        on_box = [place for place in server_places if box in place.boxes]
        kinds = [list(group) for _, group in groupby(on_box, key=lambda place: (place.server.role, place.boxes))]
        text = "\n\n".join(_commands(engine, group, box, name, system, len(server_places)) for group in kinds)
        if blocks and blocks[-1][0] == text:
            blocks[-1][1].append(box)
        else:
            blocks.append((text, [box]))
    parts = [f"{_heading(places, boxes)}{text}" for text, places in blocks if text]
    addressed_places = [place for place in server_places if place.server.role != FFN]
    if len(addressed_places) > 1:
        parts.append(_router(engine, addressed_places, name))
    return "\n\n".join(parts)


def server_pairs(workers: Sequence[tuple[LaunchedWorker, int]]) -> list[tuple[LaunchedWorker, int]]:
    """The same workers; each whose routed experts stand apart as a server of those, then one of all else."""
    servers: list[tuple[LaunchedWorker, int]] = []
    for worker, many in workers:
        x = worker.layout
        if not x.ffn:
            servers.append((worker, many))
            continue
        for pair in range(many):
            part = ApartServer(
                kind=FFN,
                attention_ranks=int(x.tensor * x.data),
                ffn_ranks=int(x.ffn),
                micro_batches=int(x.micro_batches),
                pair=pair,
            )
            experts = Layout(expert=x.ffn, data=x.ffn)
            attention = Layout(tensor=x.tensor, data=x.data, context_parallel=x.context_parallel)
            servers += [
                (replace(worker, layout=experts, role=FFN, afd_part=part), 1),
                (replace(worker, layout=attention, afd_part=replace(part, kind=ATTENTION)), 1),
            ]
    return servers


def _placed(workers: Sequence[tuple[LaunchedWorker, int]], system: System) -> list[_ServerPlace]:
    """Fill boxes with servers in order; one that is larger than a box has boxes of its own."""
    size = box_size(system)
    places: list[_ServerPlace] = []
    box, offset, slot = 0, 0, 0
    for server, many in workers:
        gpus = int(server.layout.gpus)
        for _ in range(many):
            if offset + min(gpus, size) > size:
                box, offset, slot = box + 1, 0, 0
            span = ceil(gpus / size)
            devices = tuple(range(offset, offset + gpus)) if span == 1 else tuple(range(size))
            places.append(_ServerPlace(server=server, boxes=tuple(range(box, box + span)), devices=devices, slot=slot))
            offset, slot = (offset + gpus, slot + 1) if span == 1 else (size, slot + 1)
            box += span - 1
    hosts = {p.server.afd_part.pair: p.boxes[0] for p in places if p.server.afd_part and p.server.role == FFN}
    return [replace(p, experts_box=hosts[p.server.afd_part.pair]) if p.server.afd_part else p for p in places]


def _heading(places: list[int], boxes: int) -> str:
    if boxes == 1:
        return ""
    if len(places) == 1:
        return f"# on box-{places[0] + 1}\n"
    return f"# on each of box-{places[0] + 1} to box-{places[-1] + 1}\n"


def _commands(
    engine: str, alike: Sequence[_ServerPlace], box: int, name: Callable[[int], str], system: System, servers: int
) -> str:
    """Command of one server on one of its boxes, or a loop over several like it; in the background beside others."""
    server, many = alike[0], len(alike)
    several = len(server.boxes) > 1
    port, link = FRONT[engine] + 100 + server.slot, _LINK_PORTS[engine] + server.slot
    place = Place(
        port=None if servers == 1 else f"$(({port} + i))" if many > 1 else str(port),
        link_port=f"$(({link} + i))" if many > 1 else str(link),
        boxes=tuple(name(b) for b in server.boxes) if several else (),
        rank=server.boxes.index(box),
        experts_host=name(server.experts_box),
    )
    lists = [",".join(map(str, server.devices)) for server in alike]
    before: list[str] = []
    visible = _VISIBLE.get(system.chip.vendor)
    if visible and not several and len(server.devices) < box_size(system):
        before.append(f"{visible}={'${devices[i]}' if many > 1 else lists[0]}")
    before += [RUNNER] if server.server.afd_part else []
    if engine == "vllm" and server.server.role not in ("", FFN):
        before += [f"VLLM_NIXL_SIDE_CHANNEL_HOST={name(box)}", f"VLLM_NIXL_SIDE_CHANNEL_PORT={place.link_port}"]
    title = f"# {server.server.role}: {_DOES[server.server.role]}\n" if server.server.role else ""
    if engine == "trtllm" and not place.rank:
        title += settings(server.server) + "\n"
    command = " \\\n  ".join(part for part in (" ".join(before), COMMANDS[engine](server.server, place)) if part)
    command += " &" if servers > 1 else ""
    if many == 1:
        return title + command
    devices = f"devices=({' '.join(lists)})\n" if visible else ""
    return f"{title}{devices}for i in {' '.join(map(str, range(many)))}; do\n{command}\ndone"


def _router(engine: str, places: Sequence[_ServerPlace], name: Callable[[int], str]) -> str:
    if len(places) > _MOST:
        return f"# {len(places):,} servers: put them behind a load balancer of your own"
    pools = any(place.server.role for place in places)
    if engine in ("trtllm", "llama.cpp"):
        return _front(engine, places, name)
    flags = [f"--port {FRONT[engine]}", "--policy round_robin"]
    if pools:
        flags.append("--vllm-pd-disaggregation" if engine == "vllm" else "--pd-disaggregation")
        flags += list(_pool_urls(engine, places, name))
    else:
        flags.append("--worker-urls " + " ".join(_url(engine, place, name) for place in places))
    command = "vllm-router" if engine == "vllm" else "python -m sglang_router.launch_router"
    where = "# the router, which users reach" + ("" if name(0) == "127.0.0.1" else ", on box-1")
    return where + "\n" + " \\\n  ".join([f"{command} {flags[0]}", *flags[1:]])


def _front(engine: str, server_places: Sequence[_ServerPlace], name: Callable[[int], str]) -> str:
    """TensorRT-LLM's proxy before two pools; neither it nor llama.cpp has a router before equal workers."""

    def addresses(role: str) -> list[str]:
        places = (place for place in server_places if place.server.role == role)
        return [_url(engine, place, name).removeprefix("http://") for place in places]

    if alike := addresses(""):
        return f"# put these servers behind a load balancer of your own: {' '.join(alike)}"
    return "# the proxy, which users reach\n" + proxy(FRONT["trtllm"], addresses("prefill"), addresses("decode"))


def _pool_urls(engine: str, places: Sequence[_ServerPlace], name: Callable[[int], str]) -> Iterator[str]:
    for role, members in groupby(places, key=lambda place: place.server.role):
        for place in members:
            port = f" {_LINK_PORTS[engine] + place.slot}" if engine == "sglang" and role == "prefill" else ""
            yield f"--{role} {_url(engine, place, name)}{port}"


def _url(engine: str, server: _ServerPlace, name: Callable[[int], str]) -> str:
    return f"http://{name(server.boxes[0])}:{FRONT[engine] + 100 + server.slot}"
