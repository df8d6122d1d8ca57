#!/usr/bin/env python3
"""Draws what pass_grid printed as heat maps: the time of a pass by (k, w + 1), as a multiple of one row's.

    bench/model/pass_grid.py GRID.tsv OUT.png        (needs matplotlib, from PyPI)

The line is the border: below it a pass costs at most 1.5 times that of one row, so its rows are paid for by
the reading of the weights.
"""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import LogNorm

BORDER = 1.5


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    contexts = sorted({int(row["context"]) for row in rows})
    guesses = sorted({int(row["k"]) for row in rows})
    lengths = sorted({int(row["w+1"]) for row in rows})
    ratio = {(int(r["context"]), int(r["k"]), int(r["w+1"])):
             float(r["median us"]) / float(r["one row us"]) for r in rows}
    figure, axes = plt.subplots(1, len(contexts), figsize=(3.6 * len(contexts), 3.6), sharey=True,
                                layout="constrained")
    for axis, context in zip(axes, contexts):
        one = next(float(r["one row us"]) for r in rows if int(r["context"]) == context)
        grid = [[ratio[context, k, w] for w in lengths] for k in guesses]
        image = axis.imshow(grid, origin="lower", aspect="auto", cmap="viridis_r",
                            norm=LogNorm(1, max(ratio.values())))
        for y, line in enumerate(grid):
            for x, value in enumerate(line):
                axis.text(x, y, f"{value:.1f}", ha="center", va="center", fontsize=8,
                          color="black" if value < 4 else "white",
                          weight="bold" if value <= BORDER else "normal")
        if min(min(line) for line in grid) < BORDER < max(max(line) for line in grid):
            axis.contour(grid, levels=[BORDER], colors="red", linewidths=1.5)
        axis.set_xticks(range(len(lengths)), lengths)
        axis.set_yticks(range(len(guesses)), guesses)
        axis.set_xlabel("w + 1")
        axis.set_title(f"context {context}: one row {one / 1000:.1f} ms", fontsize=10)
    axes[0].set_ylabel("k")
    figure.colorbar(image, ax=axes, label="pass time, one row = 1")
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
