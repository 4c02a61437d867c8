"""The whole evaluation, slowly: pairs and predictions to table cells in exact fractions.

Written from the definitions alone; nothing of the project is imported. Every number of a pair is a
``Fraction`` made from the floats it is given; only medians and cosines leave exact arithmetic, and
those at the very end. A threshold is closed within 1e-12, as the definitions ask.
"""

from __future__ import annotations

import math
from fractions import Fraction

ATOL = Fraction(1, 10**12)
SHIFTS = ("stable", "moderate", "strong", "very_strong")
BOUNDARIES = {
    "default": (Fraction(3, 100), Fraction(1, 10), Fraction(1, 5)),
    "tighter": (Fraction(2, 100), Fraction(75, 1000), Fraction(15, 100)),
    "looser": (Fraction(4, 100), Fraction(125, 1000), Fraction(25, 100)),
}


def exact(row):
    return [Fraction(x) for x in row]


def distance(p, q, support):
    cumulative, total = Fraction(0), Fraction(0)
    for j in range(len(p) - 1):
        cumulative += p[j] - q[j]
        total += abs(cumulative) * (support[j + 1] - support[j])
    return total / (support[-1] - support[0])


def apart(p, q):
    return max(abs(x - y) for x, y in zip(p, q, strict=True))


def shift_of(d_h, boundaries):
    stable, strong, very_strong = BOUNDARIES[boundaries]
    if d_h >= very_strong - ATOL:
        return "very_strong"
    if d_h >= strong - ATOL:
        return "strong"
    return "stable" if d_h <= stable + ATOL else "moderate"


def cumulative_change(a, b):
    out, total = [], Fraction(0)
    for x, y in list(zip(a, b, strict=True))[:-1]:
        total += y - x
        out.append(total)
    return out


def cosine(gold_old, gold_new, old, new):
    g, p = cumulative_change(gold_old, gold_new), cumulative_change(old, new)
    if max(map(abs, g)) <= ATOL or max(map(abs, p)) <= ATOL:
        return None
    dot = sum(x * y for x, y in zip(g, p, strict=True))
    return float(dot) / math.sqrt(float(sum(x * x for x in g)) * float(sum(y * y for y in p)))


def floor_share(percent, n):
    return percent * n // 100


class Evaluation:
    """One model: ``pairs`` are dicts of pairs.parquet, ``points`` the gold of each location.

    Parameters
    ----------
    pairs : list of dict
        In the order of pairs.parquet.
    points : dict
        (survey, variable, country) to a list of (year, distribution).
    supports : dict
        (survey, variable) to positions.
    predictions : dict
        pair_id to (old, new, undated); a pair without an entry is incomplete.
    """

    def __init__(self, pairs, points, supports, predictions):
        self.rows = []
        for pair in pairs:
            if pair["pair_id"] not in predictions:
                continue
            where = (pair["survey"], pair["variable"], pair["country"])
            support = exact(supports[where[:2]])
            gold_old, gold_new = exact(pair["gold_old"]), exact(pair["gold_new"])
            old, new, undated = map(exact, predictions[pair["pair_id"]])
            at = sorted((year, exact(probs)) for year, probs in points[where])
            near = [distance(undated, probs, support) for _, probs in at]
            nearest = min(near)
            tied = [year for (year, _), d in zip(at, near, strict=True) if d <= nearest + ATOL]
            place = {"oldest": Fraction(0), "intermediate": Fraction(0), "newest": Fraction(0)}
            for year in tied:
                if year == pair["year_old"]:
                    place["oldest"] += Fraction(1, len(tied))
                elif year == pair["year_new"]:
                    place["newest"] += Fraction(1, len(tied))
                else:
                    place["intermediate"] += Fraction(1, len(tied))
            d_old, d_new = distance(old, gold_old, support), distance(new, gold_new, support)
            self.rows.append(
                {
                    "id": pair["pair_id"], "survey": pair["survey"], "country": pair["country"],
                    "topic": f"{pair['survey']}|{pair['topic']}", "region": pair["region"],
                    "t": len(at),
                    "d_h": distance(gold_old, gold_new, support), "nearest": nearest,
                    "d_old": d_old, "d_new": d_new, "d_m": distance(old, new, support),
                    "old_to_new": distance(old, gold_new, support),
                    "new_to_old": distance(new, gold_old, support),
                    "older": distance(undated, gold_old, support) - d_old,
                    "newer": distance(undated, gold_new, support) - d_new,
                    "same_older": apart(old, undated) <= ATOL,
                    "same_newer": apart(new, undated) <= ATOL,
                    "cosine": cosine(gold_old, gold_new, old, new), "place": place,
                }
            )  # fmt: skip

    def kept(self, percent):
        """The filter: in each stratum the nearest, ties by position; whole percents."""
        strata = {}
        for position, row in enumerate(self.rows):
            key = (round(float(row["nearest"]), 12), position)
            strata.setdefault((row["survey"], row["t"]), []).append(key)
        positions = set()
        for members in strata.values():
            positions |= {p for _, p in sorted(members)[: floor_share(percent, len(members))]}
        return [row for position, row in enumerate(self.rows) if position in positions]


def share(rows, holds):
    return 100 * sum(1 for row in rows if holds(row)) / len(rows) if rows else None


def median(values):
    values = sorted(values)
    if not values:
        return None
    half = len(values) // 2
    return float(values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2)


def mean(values, scale=1):
    values = list(values)
    return float(sum(values) * scale / len(values)) if values else None


def accurate(row, tau):
    return row["d_old"] <= tau + ATOL, row["d_new"] <= tau + ATOL


def outcome(row, tau):
    return {
        (True, True): "both", (True, False): "older_only", (False, True): "newer_only",
        (False, False): "neither",
    }[accurate(row, tau)]  # fmt: skip


def alignment(row):
    old, new = row["d_old"] - row["old_to_new"], row["d_new"] - row["new_to_old"]
    if abs(old) <= ATOL or abs(new) <= ATOL:
        return "tied"
    return {
        (True, True): "separated", (False, False): "reversed", (True, False): "older_aligned",
        (False, True): "newer_aligned",
    }[old < 0, new < 0]  # fmt: skip


def stability(row, boundaries):
    if row["d_m"] <= BOUNDARIES[boundaries][0] + ATOL:
        return "preserves"
    return "large_drift" if row["d_m"] >= Fraction(1, 10) - ATOL else "small_drift"


def groups(rows, boundaries="default"):
    by = {shift: [] for shift in SHIFTS}
    for row in rows:
        by[shift_of(row["d_h"], boundaries)].append(row)
    return by


def moving(rows):
    return [row for row in rows if row["d_m"] > ATOL]


def zero(rows):
    return share(rows, lambda row: row["d_m"] <= ATOL)


def ratio(rows):
    return median(row["d_m"] / row["d_h"] for row in moving(rows) if row["d_h"] > ATOL)


def direction(rows):
    return [row["cosine"] for row in moving(rows) if row["cosine"] is not None]


def tables(evaluation, retain=75, tau=Fraction(1, 10)):
    """Every cell of RF1 to RF3 and the robustness tables: (table, group, item, measure)."""
    cells = {}

    def put(table, group, item, measure, value):
        cells[table, group, item, measure] = value

    rows = evaluation.kept(retain)
    by = groups(rows)
    shifted = [row for shift in SHIFTS[1:] for row in by[shift]]
    for group, members in [*by.items(), ("all", rows)]:
        for name in ("both", "older_only", "newer_only", "neither"):
            put("t08", group, None, name, share(members, lambda r, n=name: outcome(r, tau) == n))
        for text in ("0.05", "0.10", "0.15", "0.20"):
            at = Fraction(text)
            put("t09", group, text, "older", share(members, lambda r, a=at: accurate(r, a)[0]))
            put("t09", group, text, "newer", share(members, lambda r, a=at: accurate(r, a)[1]))
            for name in ("both", "older_only", "newer_only", "neither"):
                value = share(members, lambda r, n=name, a=at: outcome(r, a) == n)
                put("t09", group, text, name, value)
    for group, members in [*list(by.items())[1:], ("all_shifted", shifted)]:
        for name in ("separated", "older_aligned", "newer_aligned", "reversed", "tied"):
            put("t10", group, None, name, share(members, lambda r, n=name: alignment(r) == n))
        same = ("older_aligned", "newer_aligned")
        put("t10", group, None, "same_period", share(members, lambda r, s=same: alignment(r) in s))
        put("t11", group, None, "zero_shift", zero(members))
        put("t11", group, None, "median_ratio", ratio(members))
        put("t11", group, None, "median_cosine", median(direction(members)))
        right = direction(members)
        put("t11", group, None, "right_direction", share(right, lambda c: c > float(ATOL)))
        if group != "all_shifted":
            put("t12", group, None, "nonzero_shift", ratio(members))
            put("t12", group, None, "all_pairs", median(r["d_m"] / r["d_h"] for r in members))
    for name in ("preserves", "small_drift", "large_drift"):
        value = share(by["stable"], lambda r, n=name: stability(r, "default") == n)
        put("t13", "stable", None, name, value)
    for group, members in (
        ("two", [r for r in rows if r["t"] == 2]),
        ("three_or_more", [r for r in rows if r["t"] >= 3]),
        ("all", rows),
    ):
        for name in ("oldest", "intermediate", "newest"):
            if (group, name) == ("two", "intermediate"):
                continue
            value = mean((r["place"][name] for r in members), 100)
            put("t16", group, "observed", name, value)
            chance = [
                Fraction(r["t"] - 2 if name == "intermediate" else 1, r["t"]) for r in members
            ]
            put("t16", group, "equal_choice", name, mean(chance, 100))
            if group == "all":
                put("t15", "all", None, name, value)
    for table, found in (("t17", {"all": rows}), ("t19", by)):
        for group, members in found.items():
            for item in ("older", "newer"):
                benefit = mean((r[item] for r in members), 100)
                helped = share(members, lambda r, i=item: r[i] > ATOL)
                hurt = share(members, lambda r, i=item: r[i] < -ATOL)
                still = share(members, lambda r, i=item: abs(r[i]) <= ATOL)
                put(table, group, item, "mean_benefit", benefit)
                put(table, group, item, "helped", helped)
                put(table, group, item, "hurt", hurt)
                put(table, group, item, "unchanged", still)
                put(
                    table,
                    group,
                    item,
                    "identical",
                    share(members, lambda r, i=item: r[f"same_{i}"]),
                )
                if table == "t19":
                    put("t18", group, item, "mean_benefit", benefit)
                    if group == "very_strong":
                        put("t20", group, item, "helped", helped)
                        put("t20", group, item, "hurt", hurt)
    for name in BOUNDARIES:
        found = groups(rows, name)
        for group, members in found.items():
            put("t22", group, name, "both", share(members, lambda r: outcome(r, tau) == "both"))
            one = ("older_only", "newer_only")
            put(
                "t22",
                group,
                name,
                "one_period",
                share(members, lambda r, o=one: outcome(r, tau) in o),
            )
            if group == "stable":
                for kind in ("preserves", "small_drift", "large_drift"):
                    value = share(members, lambda r, k=kind, n=name: stability(r, n) == k)
                    put("t25", group, name, kind, value)
                continue
            put(
                "t23",
                group,
                name,
                "separated",
                share(members, lambda r: alignment(r) == "separated"),
            )
            value = share(members, lambda r: alignment(r) in ("older_aligned", "newer_aligned"))
            put("t23", group, name, "same_period", value)
            put("t24", group, name, "zero_shift", zero(members))
            put("t24", group, name, "median_ratio", ratio(members))
            put("t24", group, name, "median_cosine", median(direction(members)))
    for percent in (25, 50, 75, 100):
        kept = evaluation.kept(percent)
        found = groups(kept)
        item = str(percent)
        put("t07", "total", item, "retained", len(kept))
        for group, members in found.items():
            put("t07", group, item, "retained", len(members))
            put("t26", group, item, "both", share(members, lambda r: outcome(r, tau) == "both"))
            if group != "stable":
                value = share(members, lambda r: alignment(r) == "separated")
                put("t26", group, item, "separated", value)
                put("t26", group, item, "median_ratio", ratio(members))
                put("t26", group, item, "median_cosine", median(direction(members)))
        put("t27", "all", item, "newest_default", mean((r["place"]["newest"] for r in kept), 100))
        put("t27", "all", item, "benefit_older", mean((r["older"] for r in kept), 100))
        put("t27", "all", item, "benefit_newer", mean((r["newer"] for r in kept), 100))
        value = share(found["stable"], lambda r: stability(r, "default") == "preserves")
        put("t27", "all", item, "preserves", value)
    for t in sorted({row["t"] for row in evaluation.rows}):
        value = median(row["nearest"] for row in evaluation.rows if row["t"] == t)
        put("nearest", str(t), None, "median_nearest_distance", value)
    return cells


def breakdown(evaluation, key, retain=75, tau=Fraction(1, 10), minimum=20):
    """Cells by (group, class, measure) of a breakdown; None where it has too few pairs."""
    cells = {}
    classes = {
        "stable": ("stable",), "moderate": ("moderate",), "strong_plus": ("strong", "very_strong"),
    }  # fmt: skip
    rows = evaluation.kept(retain)
    for group in sorted({row[key] for row in rows}):
        for name, inside in classes.items():
            members = [
                r for r in rows if r[key] == group and shift_of(r["d_h"], "default") in inside
            ]
            enough = len(members) >= minimum
            moved = [r for r in moving(members) if r["d_h"] > ATOL]
            right = direction(members)
            countries = {}
            for r in members:
                countries.setdefault(r["country"], []).append(outcome(r, tau) == "both")
            by_country = [100 * Fraction(sum(hits), len(hits)) for hits in countries.values()]
            for measure, value, filled in (
                ("both", share(members, lambda r: outcome(r, tau) == "both"), enough),
                ("zero_shift", zero(members), enough),
                ("median_ratio", ratio(members), len(moved) >= minimum),
                ("right_direction", share(right, lambda c: c > 1e-12), len(right) >= minimum),
                ("benefit_older", mean((r["older"] for r in members), 100), enough),
                ("benefit_newer", mean((r["newer"] for r in members), 100), enough),
                ("mean_shift", mean(r["d_h"] for r in members), enough),
                ("both_by_country", mean(by_country), enough),
            ):
                cells[group, name, measure] = value if filled else None
    return cells
