"""Draws the plots of the documentation from the results of the benchmarks.

plots.py RESULTS IMAGES NAME…

RESULTS is a directory of JSON files, IMAGES one of SVG files, NAME peers, options or growth. With PNG=1 in the
environment the plots are also written as PNG, to look at.
"""

import json
import math
import os
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

# Okabe and Ito's colours, which colour-blind people can tell apart; on white, so that they show on a dark page, too.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#00795A", "#A8588A"
INK, GREY, PALE = "#222222", "#8C8C8C", "#E4E4E4"

plt.rcParams.update(
    {
        "svg.hashsalt": "pg_skip",  # the same bytes for the same figures
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "font.size": 9,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": GREY,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": PALE,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "lines.linewidth": 1.6,
        "lines.markersize": 4.5,
    }
)


class Results:
    """The figures of one JSON file, by subject, variant and metric."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            everything = json.load(file)
        self.context = everything["context"]
        self.rows = everything["results"]
        self.curve = everything.get("curve", [])
        self.by_name = {(r.get("subject"), r["variant"], r["metric"]): r for r in self.rows}

    def get(self, subject, variant, metric):
        return self.by_name.get((subject, variant, metric))

    def median(self, subject, variant, metric):
        row = self.get(subject, variant, metric)
        return row["median"] if row else None

    def table(self):
        size = int(self.context["table_bytes"]) / (1 << 20)
        return f"{int(self.context['rows']):,} rows ({size:,.0f} MB), a random uuid column, all in memory"

    def source(self, what):
        context = self.context
        server = context["server"].split(" (")[0]
        return (
            f"{what}, {server}, {context['processors']} cores, {context['date']};"
            " medians, thin lines from the least to the greatest"
        )


def number(n):
    """As the tables have it: three digits."""
    if n >= 100:
        return f"{n:,.0f}"
    if n >= 10:
        return f"{n:.1f}".removesuffix(".0")
    return f"{n:.3g}"


def plain(n, _position=None):
    return f"{n:,.10g}"


def power(n, _position=None):
    return "10" + str(round(math.log10(n))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def write(figure, images, name):
    figure.savefig(os.path.join(images, f"{name}.svg"), metadata={"Date": None, "Creator": None})
    if os.environ.get("PNG"):
        figure.savefig(os.path.join(images, f"{name}.png"), dpi=160)
    plt.close(figure)


def footnote(figure, text):
    figure.text(0.01, 0.01, text, fontsize=7, color="#555555", va="bottom")


def logarithmic(axes):
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3) if high > 100 * low else (1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.yaxis.set_minor_locator(NullLocator())


def whisker(axes, x, least, greatest, colour):
    if greatest > least:
        axes.plot([x, x], [least, greatest], color=colour, linewidth=0.9)


def beside(axes, text, x, y, dx):
    axes.annotate(
        text, (x, y), xytext=(dx, 0), textcoords="offset points", va="center", fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
    )


def label_ends(axes, labels, gap, dx=6, at_edge=False):
    """Writes labels beside the ends of lines, (x, y, text, colour) each, or at the edge; at least gap points apart."""
    transform = axes.transData
    points_per_pixel = 72 / axes.figure.dpi
    placed = sorted((transform.transform(label[:2])[1] * points_per_pixel, *label) for label in labels)
    heights = [height for height, *_ in placed]
    for _ in range(200):
        for i in range(1, len(heights)):
            lack = gap - (heights[i] - heights[i - 1])
            if lack > 0:
                heights[i - 1] -= lack / 2
                heights[i] += lack / 2
    for height, (own, x, y, text, colour) in zip(heights, placed):
        place, of = ((1, y), ("axes fraction", "data")) if at_edge else ((x, y), "data")
        axes.annotate(
            text, place, xycoords=of, xytext=(dx, height - own), textcoords="offset points", color=colour, va="center",
            fontsize=8, annotation_clip=False, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )


def peers(results, images):
    """Size, build and lookups of the indexes on the random unique column."""
    subject = "events.trace_id"
    variants = [
        ("btree", "btree"),
        ("hash", "hash"),
        ("bloom", "contrib/bloom"),
        ("brin_default", "BRIN bloom, defaults"),
        ("brin", "BRIN bloom, 1 %"),
        ("brin_tuned", "BRIN bloom, 0.01 %"),
        ("clickhouse", "ClickHouse, 0.01 %"),
        ("filters", "skip, filters"),
        ("skip", "skip, default options"),
    ]
    variants = [(v, t) for v, t in variants if results.get(subject, v, "absent_ms")]
    places = range(len(variants), 0, -1)
    figure, axes = plt.subplots(1, 3, figsize=(9.2, 0.34 * len(variants) + 1.25), sharey=True,
                                gridspec_kw={"width_ratios": [1, 1, 1.35]})
    colours = [BLUE if variant in ("skip", "filters") else "#A3A3A3" for variant, _ in variants]
    for panel, metric, divisor, unit, title in (
        (axes[0], "bytes", 1 << 20, "MB", "Index size"),
        (axes[1], "build_s", 1, "s", "Build"),
    ):
        for place, colour, (variant, _) in zip(places, colours, variants):
            row = results.get(subject, variant, metric)
            if row is None:
                continue
            value = row["median"] / divisor
            panel.barh(place, value, height=0.62, color=colour)
            end = value
            if row["greatest"] > row["least"]:
                end = row["greatest"] / divisor
                panel.plot([row["least"] / divisor, end], [place, place], color=INK, linewidth=0.9)
            beside(panel, number(value), end, place, 4)
        panel.set_title(title)
        panel.set_xlabel(unit)
        panel.set_xlim(0, panel.dataLim.x1 * 1.22)
        panel.xaxis.set_major_formatter(FuncFormatter(plain))
        panel.xaxis.set_major_locator(plt.MaxNLocator(4))
    panel = axes[2]
    for place, colour, (variant, _) in zip(places, colours, variants):
        absent, present = (results.median(subject, variant, m) for m in ("absent_ms", "present_ms"))
        panel.plot([absent, present], [place, place], color=colour, linewidth=1)
        panel.plot(present, place, "o", color="white", markeredgecolor=colour, markersize=6.5, markeredgewidth=1.5)
        panel.plot(absent, place, "o", color=colour, markersize=4.5)
        beside(panel, f"{number(absent)}, {number(present)}", max(absent, present), place, 8)
    scan = results.median(subject, "none", "absent_ms")
    panel.set_xscale("log")
    panel.set_title("Lookup of one key: absent ●, present ○")
    panel.set_xlabel("ms, logarithmic")
    low, high = panel.dataLim.x0, panel.dataLim.x1
    if scan:
        high = max(high, scan)
        panel.axvline(scan, color=VERMILLION, linewidth=1)
        panel.annotate("no index", (scan, len(variants) + 0.62), xytext=(-3, 0), textcoords="offset points",
                       ha="right", va="center", fontsize=8, color=VERMILLION)
    panel.set_xlim(low / 2, high * (40 if not scan else 6))
    panel.xaxis.set_major_formatter(FuncFormatter(plain))
    panel.xaxis.set_minor_locator(NullLocator())
    axes[0].set_yticks(list(places), [title for _, title in variants])
    axes[0].set_ylim(0.4, len(variants) + 0.95)
    for panel in axes:
        panel.grid(axis="x")
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
    figure.tight_layout(rect=(0, 0.045, 1, 1), w_pad=1.2)
    footnote(figure, results.source(results.table()))
    write(figure, images, "peers")


def options(results, images):
    """Size and time of a lookup by false-positive rate."""
    subject = "events.trace_id"
    found = {}
    for row in results.rows:
        if row["subject"] == subject and row["metric"] == "bytes":
            layout, pages, rate = row["variant"].split("/")
            if rate != "default":
                found.setdefault((layout, int(pages)), []).append((float(rate), row["variant"]))
    lines = [
        (("map", 1), BLUE, "map, 1 page"),
        (("map", 16), GREEN, "map, 16 pages"),
        (("filters", 16), VERMILLION, "filters, 16 pages"),
        (("filters", 64), PURPLE, "filters, 64 pages"),
    ]
    panels = (
        ("bytes", 1 << 20, "Index size, MB"),
        ("absent_ms", 1, "Absent key, ms (logarithmic)"),
        ("present_ms", 1, "Present key, ms (logarithmic)"),
    )
    figure, axes = plt.subplots(1, 3, figsize=(11.2, 3.3))
    labels = []
    for panel, (metric, divisor, title) in zip(axes, panels):
        ends = []
        for key, colour, name in lines:
            points = sorted(found.get(key, []))
            rows = [results.get(subject, variant, metric) for _, variant in points]
            if not rows:
                continue
            rates = [rate for rate, _ in points]
            values = [row["median"] / divisor for row in rows]
            panel.plot(rates, values, marker="o", color=colour)
            for rate, row in zip(rates, rows):
                whisker(panel, rate, row["least"] / divisor, row["greatest"] / divisor, colour)
            ends.append((rates[0], values[0], name, colour))
        default = results.get(subject, "map/default/default", metric)
        rate = results.median(subject, "map/default/default", "rate")
        if default and rate:
            panel.plot(rate, default["median"] / divisor, marker="D", color=BLUE, markersize=6, linestyle="none")
            ends.append((rate, default["median"] / divisor, "◆ map, defaults", BLUE))
        panel.set_xscale("log")
        panel.invert_xaxis()
        if metric == "bytes":
            panel.set_ylim(bottom=0)
        else:
            logarithmic(panel)
        panel.xaxis.set_major_formatter(FuncFormatter(power))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.grid(True)
        panel.set_title(title)
        panel.set_xlabel("false_positive_rate")
        labels.append((panel, ends))
    figure.tight_layout(rect=(0, 0.05, 0.91, 1), w_pad=8)
    for panel, ends in labels:
        label_ends(panel, ends, 10, dx=3, at_edge=True)
    footnote(figure, results.source(results.table()))
    write(figure, images, "options")


def table_size(rows):
    """Of the table of the benchmarks: 75 rows on a page of 8 kB. To two digits."""
    size = float(f"{rows / 75 * 8192:.1e}")
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:g} {unit}"
    return f"{size / 1000:g} TB"


def growth(results, images):
    """Time of a lookup, and index pages that it reads, by rows of the table."""
    series = [
        ("btree", "grown", INK, "-", "btree"),
        ("skip", "fresh", BLUE, "--", "skip, new index"),
        ("skip", "grown", BLUE, "-", "skip, grown by inserts"),
        ("filters", "fresh", VERMILLION, "--", "filters, new index"),
        ("filters", "grown", VERMILLION, "-", "filters, grown by inserts"),
    ]

    def points(variant, column, metric):
        rows = [r for r in results.rows if r["variant"] == variant and r["metric"] == metric and r["rows"]]
        return sorted((r for r in rows if r[column] is not None), key=lambda r: r["rows"])

    figure, (time, pages) = plt.subplots(1, 2, figsize=(9.6, 3.7), gridspec_kw={"width_ratios": [1, 1.5]})
    time_ends, page_ends = [], []
    for variant, column, colour, style, name in series:
        measured = points(variant, column, "absent_ms")
        if not measured:
            continue
        xs, ys = [r["rows"] for r in measured], [r[column] for r in measured]
        marker = {"marker": "o", "markerfacecolor": "white" if style == "--" else colour, "color": colour}
        time.plot(xs, ys, style, **marker)
        for row in measured:
            whisker(time, row["rows"], row[f"{column}_least"], row[f"{column}_greatest"], colour)
        time_ends.append((xs[-1], ys[-1], name, colour))
        measured = points(variant, column, "absent_index_pages")
        is_simulated = variant == "skip" and results.curve
        pages.plot([r["rows"] for r in measured], [r[column] for r in measured],
                   linestyle="none" if is_simulated else style, **marker)
        if not is_simulated and measured:
            # The label of the lowest line stands below it: skip's is right above.
            lower = 2 if variant == "btree" else 0
            page_ends.append((measured[-1]["rows"], measured[-1][column] - lower, name, colour))
    if results.curve:
        curve = results.curve
        xs = [point["rows"] for point in curve]
        pages.plot(xs, [point["pages"] for point in curve], "-", color=BLUE)
        most = [(point["rows"], point["pages_most"]) for point in curve if point["pages_most"]]
        pages.plot(*zip(*most), ":", color=BLUE)
        pages.plot(xs, [point["pages_new"] for point in curve], "--", color=BLUE)
        page_ends.append((xs[-1], curve[-1]["pages"], "skip, grown:\naverage, computed", BLUE))
        page_ends.append((*most[-1], "skip, grown: most, simulated", BLUE))
        page_ends.append((xs[-1], curve[-1]["pages_new"], "skip, new index,\ncomputed", BLUE))
    logarithmic(time)
    time.set_title("Lookup of an absent key, ms (logarithmic)")
    pages.set_title("Index pages that it reads")
    pages.set_ylim(bottom=0)
    for panel in (time, pages):
        panel.set_xscale("log")
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{power(n)}\n{table_size(n)}"))
        panel.set_xlabel("rows and size of the table")
        panel.grid(True)
    figure.tight_layout(rect=(0, 0.05, 0.88, 1), w_pad=11)
    label_ends(time, time_ends, 10)
    label_ends(pages, page_ends, 11)
    footnote(figure, results.source("A random unique uuid column, all in memory") + "; points are measured")
    write(figure, images, "growth")


def main():
    results, images = sys.argv[1:3]
    files = {"peers": "benchmarks"}
    for name in sys.argv[3:]:
        path = os.path.join(results, f"{files.get(name, name)}.json")
        {"peers": peers, "options": options, "growth": growth}[name](Results(path), images)
        print(f"{os.path.join(images, name)}.svg is written")


main()
