"""Pictures: whole or not at all, self-contained, and of what was computed."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rackmath.cli.app import main
from rackmath.engine.timeline import StepPart
from rackmath.errors import InputError
from rackmath.figures import Figure, Moment, Panel, Series, write
from rackmath.figures.plotly import plotly_figure
from rackmath.figures.sketch import HIGH, WIDE, sketched
from rackmath.figures.step import step_figure
from rackmath.figures.write import check_picture, write_figure

FIGURE = Figure(
    title="two points",
    note="from nowhere",
    panels=[
        Panel(
            across="x",
            up="y",
            series=[
                Series(name="line", x=[1.0, 2.0], y=[3.0, 4.0], low=[2.0, 3.0], high=[5.0, 6.0], labels=["a", "b"]),
                Series(name="one", x=[1.5], y=[3.5], kind="mark"),
            ],
        ),
        Panel(across="kind", up="GB", series=[Series(name="bars", x=["p", "q"], y=[1.0, 2.0], kind="bars")]),
    ],
)
ESTIMATE = ["estimate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--batch", "8", "--context", "2000"]


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_a_figure_is_the_same_file_twice_and_leaves_nothing_else(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"figure{suffix}"
    write_figure(FIGURE, out)
    assert list(tmp_path.iterdir()) == [out]
    if suffix == ".svg":
        first = out.read_bytes()
        write_figure(FIGURE, out)
        assert out.read_bytes() == first
        ElementTree.fromstring(first)
        for text in ("two points", "from nowhere", "line", "bars"):
            assert text in first.decode()
    if suffix == ".png":
        assert out.read_bytes().startswith(b"\x89PNG")
    if suffix == ".html":
        page = out.read_text(encoding="utf-8")
        assert "two points" in page
        assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"http", page)


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "old.svg"
    out.write_text("old")

    def broken(figure: Figure, path: Path) -> None:
        path.write_text("half")
        raise RuntimeError

    monkeypatch.setattr(write, "write_still", broken)
    with pytest.raises(RuntimeError):
        write_figure(FIGURE, out)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("path", ["figure.pdf", "figure", "nowhere/at/all.svg"])
def test_paths_that_cannot_be_written_are_refused_before_the_work(path: str) -> None:
    with pytest.raises(InputError, match="--plot"):
        check_picture(path)


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        ("roofline", ["roof at bf16", "FLOPs per byte"]),
        ("batch", ["time per token [ms]", "$ per million tokens", "the lecture's bound"]),
        ("memory", ["weights", "cache", "capacity"]),
    ],
)
def test_every_picture_of_an_estimate_is_drawn(tmp_path: Path, capsys, picture: str, words: list[str]) -> None:
    out = tmp_path / "picture.svg"
    with pytest.raises(SystemExit) as ended:
        main([*ESTIMATE, "--plot", str(out), "--picture", picture])
    assert not ended.value.code
    capsys.readouterr()
    drawn = out.read_text(encoding="utf-8")
    # Matplotlib writes text as text, so that words can be looked up.
    for word in words:
        assert word in drawn.replace("&#x27;", "'")


def test_the_frontier_is_drawn_with_its_deployments(tmp_path: Path, capsys) -> None:
    out = tmp_path / "frontier.html"
    with pytest.raises(SystemExit):
        main(
            [
                *("plan", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "2", "--input", "1000", "--output", "200"),
                *("--tpot", "0.05", "--plot", str(out)),
            ]
        )
    capsys.readouterr()
    # Plotly writes slashes in its data as escapes.
    page = out.read_text(encoding="utf-8").replace("\\u002f", "/")
    for word in ("output tokens/s per GPU", "best under the limits", "tp1,ep1,pp1,dp1"):
        assert word in page


def test_a_sketch_puts_points_where_they_belong() -> None:
    panel = Panel(
        across="x",
        up="y",
        log_across=True,
        series=[
            Series(name="corners", x=[1.0, 100.0], y=[10.0, 0.0], kind="points"),
            Series(name="middle", x=[10.0], y=[5.0], kind="mark"),
        ],
    )
    rows = [line.split("|", 1)[1] for line in sketched(Figure(title="t", panels=[panel])) if "|" in line]
    assert len(rows) == HIGH + 1
    assert rows[0] == "*"
    assert rows[HIGH // 2] == " " * (WIDE // 2) + "@"
    assert rows[-1] == " " * WIDE + "*"


def test_a_sketched_line_has_no_gaps() -> None:
    panel = Panel(across="x", up="y", series=[Series(name="line", x=[0.0, 1.0], y=[1.0, 1.0])])
    rows = [line.split("|", 1)[1] for line in sketched(Figure(title="t", panels=[panel])) if "|" in line]
    assert rows[0] == "*" * (WIDE + 1)


def test_sketched_bars_are_as_long_as_their_parts() -> None:
    bars = [Series(name=n, x=["p", "q"], y=y, kind="bars") for n, y in (("a", [1.0, 2.0]), ("b", [1.0, 2.0]))]
    limit = Series(name="limit", x=["p", "q"], y=[3.0, 3.0])
    text = sketched(Figure(title="t", panels=[Panel(across="", up="GB", series=[*bars, limit])]))
    assert text[1].split() == ["p", "*" * 12 + "o" * 12, "2"]
    assert text[2].split() == ["q", "*" * 24 + "o" * 24, "4"]
    assert "-" * 36 + "|" in text[3]
    assert sketched(Figure(title="t", panels=[Panel(across="", up="", series=[])])) == []


@pytest.mark.parametrize("picture", ["roofline", "batch", "memory"])
def test_a_picture_without_a_file_is_sketched(capsys, picture: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*ESTIMATE, "--picture", picture])
    assert not ended.value.code
    out = capsys.readouterr().out
    assert {"roofline": "FLOPs per byte", "batch": "sequences in the batch", "memory": "capacity"}[picture] in out


PARTS = [
    StepPart(name="product", kind="kernels", time=3e-3, ideal=2e-3, launches=32),
    StepPart(name="norm", kind="kernels", time=1e-6, ideal=1e-6, launches=65),
    StepPart(name="cast", kind="kernels", time=1e-6, ideal=0.0, launches=32),
    StepPart(name="collectives", kind="collectives", time=1e-3, ideal=5e-4),
    StepPart(name="host", kind="gaps", time=1e-3, ideal=0.0),
]


def test_each_part_of_a_step_begins_where_the_one_before_ends() -> None:
    figure = step_figure("a step", PARTS, "")
    panel = figure.panels[0]
    assert list(panel.order) == ["product", "2 others", "collectives", "host"]
    spans = sorted((start, start + y) for s in panel.series for start, y in zip(s.start, s.y, strict=True) if y > 0)
    assert spans[0][0] == 0.0
    assert spans[-1][1] == pytest.approx(1e3 * sum(part.time for part in PARTS))
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert start == pytest.approx(end)


def test_bars_stand_where_they_begin_in_every_form(tmp_path: Path) -> None:
    figure = step_figure("a step", PARTS, "")
    drawn = plotly_figure(figure)
    host = next(trace for trace in drawn.data if trace.name == "gaps")
    assert (host.y, host.base, host.x) == (("host",), (pytest.approx(4.002),), (pytest.approx(1.0),))
    assert drawn.layout.barmode == "overlay"
    assert list(drawn.layout.yaxis.categoryarray) == list(figure.panels[0].order)
    write_figure(figure, tmp_path / "step.svg")
    texts = {element.text for element in ElementTree.parse(tmp_path / "step.svg").iter() if element.text}
    assert set(figure.panels[0].order) <= {text.strip() for text in texts}
    lines = sketched(figure)
    # The gap is the last fifth of the step.
    bar = next(line for line in lines if line.strip().startswith("host")).split("host  ")[1].rsplit(" ", 1)[0]
    assert len(bar) - len(bar.lstrip()) == pytest.approx(0.8 * len(bar), abs=1)


@pytest.mark.parametrize("kind", ["bars", "horizontal"])
def test_names_that_look_like_numbers_stand_beside_each_other(kind: str) -> None:
    """Batches of 1, 64 and 912 sequences are three bars of one width, not three places on a line of numbers."""
    panel = Panel(
        across="sequences",
        up="GB",
        series=(Series(name="weights", x=["1", "64", "912"], y=[1.0, 2.0, 3.0], kind=kind),),
    )
    layout = plotly_figure(Figure(title="memory", panels=(panel,))).layout
    names, lengths = (layout.xaxis, layout.yaxis) if kind == "bars" else (layout.yaxis, layout.xaxis)
    assert names.type == "category"
    assert lengths.type != "category"
    numbers = Panel(
        across="sequences", up="GB", series=(Series(name="weights", x=[1.0, 64.0], y=[1.0, 2.0], kind="bars"),)
    )
    assert plotly_figure(Figure(title="memory", panels=(numbers,))).layout.xaxis.type == "-"


def test_bars_of_other_moments_stand_on_one_scale_and_move_by_a_slider() -> None:
    panel = Panel(
        title="held", across="replica", up="requests",
        series=[Series(name=name, x=["1", "2"], y=y, kind="bars") for name, y in (("a", [1.0, 2.0]), ("b", [3.0, 0.0]))],
        moments=[
            Moment(label="0 s", values=[[1.0, 2.0], [3.0, 0.0]]), Moment(label="1 s", values=[[5.0, 0.0], [5.0, 1.0]]),
        ],
    )  # fmt: skip
    other = Panel(across="x", up="y", series=[Series(name="line", x=[0.0, 1.0], y=[1.0, 2.0])])
    assert panel.still_title == "held, at 0 s"
    drawn = plotly_figure(Figure(title="both", panels=[other, panel]))
    (slider,) = drawn.layout.sliders
    assert [step.label for step in slider.steps] == ["0 s", "1 s"]
    values, which = slider.steps[1].args
    assert [drawn.data[place].name for place in which] == ["a", "b"]
    assert values["y"] == [[5.0, 0.0], [5.0, 1.0]]
    # The highest stack of any moment has room.
    assert drawn.layout.yaxis2.range[1] == pytest.approx(10.5)


def test_powers_of_ten_are_text_and_digits_between_them_stand_where_a_decade_is_all_there_is(tmp_path: Path) -> None:
    def labels(*values: float) -> str:
        line = Series(name="line", x=values, y=values)
        panel = Panel(across="x", up="y", series=[line], log_across=True, log_up=True)
        out = tmp_path / "powers.svg"
        write_figure(Figure(title="powers", panels=[panel]), out)
        return out.read_text(encoding="utf-8")

    wide = labels(1e-5, 1e12)
    assert ">10⁻⁴<" in wide
    assert ">10¹²<" in wide
    narrow = labels(2.0, 7.0)
    assert ">3×10⁰<" in narrow
    assert not any("mathdefault" in text or r"\times" in text for text in (wide, narrow))
