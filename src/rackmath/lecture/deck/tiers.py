"""Cards of chapter 12: caches and tiers."""

from __future__ import annotations

from rackmath.caching.lifetimes import ski_rental
from rackmath.io import catalogue
from rackmath.lecture.card import Card
from rackmath.lecture.drawings import life
from rackmath.lecture.solve import evaluate

CARDS: tuple[Card, ...] = (
    Card(
        id="drain-of-a-drive",
        chapter=12,
        question="A drive holds 7.68 TB and reads 14 GB/s. For which hold time is it the right place?",
        value=lambda: evaluate("drain-time", "t_drain", H=7.68e12, M=14e9),
        unit="s",
        why="Near its drain time, capacity over bandwidth: the bytes and the prices cancel.",
    ),
    Card(
        id="rebuild",
        chapter=12,
        question="70 B active parameters, 495e12 multiply-adds per second at 3.50 $ an hour, all of them reached. What does it cost to compute a million tokens of cache again? In dollars.",
        value=lambda: evaluate("rebuild-cost", "cost_rebuild", N_active=70e9, C=495e12, price=3.5 / 3600) * 1e6,
        unit="$",
        why="N / C seconds of the accelerator for each token.",
    ),
    Card(
        id="hold-in-hbm",
        chapter=12,
        question="An accelerator of 141 GB costs 3.50 $ an hour. What does it cost to hold a million tokens of 164 kB in it for a minute, as a share of its memory? In dollars.",
        value=lambda: evaluate("hold-cost", "cost_hold", kv=164e3, H=141e9, price_tier=3.5 / 3600) * 60 * 1e6,
        unit="$",
        why="kappa / H of the rent, for as long as it waits.",
    ),
    Card(
        id="bring-back",
        chapter=12,
        question="A prefix of 30,000 tokens at 70 kB comes back over one link of 64 GB/s. How long does the user wait?",
        value=lambda: 30_000 * 70e3 / 64e9,
        unit="s",
        why="Bytes over the link.",
    ),
    Card(
        id="reading-as-a-link",
        chapter=12,
        question="An accelerator reads prompts at 2,000 tokens per second, and each token keeps 328 kB. Which bandwidth must a link have to bring caches back sooner than they are computed?",
        value=lambda: 2000 * 328e3,
        unit="B/s",
        why="Computing again is a link of kappa bytes for each token that is read.",
    ),
    Card(
        id="ski-rental",
        chapter=12,
        question="Computing a prefix again costs 0.36 $, holding it costs 0.0014 $ an hour. After how many seconds should one who knows nothing of the future throw it away?",
        value=lambda: ski_rental(0.0014 / 3600, 0.36),
        unit="s",
        why="When holding has cost as much as computing again would: at most twice a prophet's bill.",
    ),
    Card(
        id="disk",
        chapter=12,
        question="What is the drain time of the catalogue's spinning disk?",
        value=lambda: catalogue.tiers()["disk"].drain_time,
        unit="s",
        within=0.1,
        why="Thirty terabytes at some 280 MB/s: more than a day, where the lecture says an hour.",
    ),
    Card(
        id="routed-by-prefix",
        chapter=12,
        question="Six replicas each hold 12 % of all prefixes in use. How often is a prefix there when requests are routed by it?",
        value=lambda: min(1.0, 6 * 0.12),
        why="Each replica sees a sixth of the prefixes; spread blindly it would be 12 %.",
    ),
    Card(
        id="why-drain-time",
        chapter=12,
        question="Why is a tier best for hold times near its drain time?",
        says=lambda: (
            "There holding costs as much as bringing back once: both its space and its bandwidth are in use. Shorter holds leave space empty, longer ones leave bandwidth idle."
        ),
        why="kappa/H p t = kappa/beta p at t = H/beta.",
    ),
    Card(
        id="why-hit-is-not-a-cost",
        chapter=12,
        question="Cached input is sold at a tenth. Why is that not its cost?",
        says=lambda: (
            "Bringing a token's cache back costs a hundred to ten thousand times less than computing it; a tenth is a price that changes what people build."
        ),
        why="kappa/beta seconds of a path against N/C seconds of an accelerator.",
    ),
    Card(
        id="sketch-tiers",
        chapter=12,
        question="Sketch the cost of one use of a token's cache against how long it waited: the accelerator's memory, the host's, flash, disk, and computing again.",
        draw=life.tiers,
        why="Each is level and then rises from its drain time on; computing again is a level line; the lower envelope passes from tier to tier.",
    ),
)
