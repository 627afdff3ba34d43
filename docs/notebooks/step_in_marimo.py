"""A step of decoding whose numbers move as the controls do: `marimo run docs/notebooks/step_in_marimo.py`."""

import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo

    import rackmath as rm

    return mo, rm


@app.cell
def _(mo, rm):
    step = mo.ui.anywidget(rm.widget("estimate", model="llama-3.1-8b", on="h100-sxm", gpus=1, batch=8, context=1000))
    step
    return (step,)


@app.cell
def _(mo, rm, step):
    # Cells that name `step` run again when a control moves; its values are words, as on the command line.
    batch = int(float(step.value["values"]["batch"]))
    alone = rm.estimate("llama-3.1-8b", "h100-sxm", gpus=1, batch=1, context=1000).time
    mo.md(f"{batch} sequences take {step.widget.shown.facts['time'] / alone:.2f} times as long as one.")
    return


if __name__ == "__main__":
    app.run()
