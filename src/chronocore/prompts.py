"""Temporal pairs -> the prompts a model answers."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

import chronocore_data
from chronocore import schema
from chronocore.elicitation import option_letters
from chronocore.identity import prompt_id, time_point_key

__all__ = ["KINDS", "prompts_table", "render_prompt"]

#: Kinds of prompt, in the order they are asked.
KINDS = ("dated", "undated", "modal")


def _option_line(code: int, label: str, letter: str | None) -> str:
    """Return ``code: label``; a label that repeats the code is not written twice.

    Behind a letter the label stands whole: where it is the code alone, it is all there is.
    """
    if letter is not None:
        return f"{letter}: {label}"
    text = label.removeprefix(str(code)).strip()
    # "10" must not lose a code 1; only a whole repeated code is removed.
    if label != str(code) and not label.startswith(f"{code} "):
        text = label
    return f"{code}: {text}" if text else str(code)


def render_prompt(
    kind: str,
    instruction: str,
    *,
    country: str,
    text: str,
    options: list[dict[str, Any]],
    year: int | None,
    elicitation: str = "verbalized",
) -> tuple[str, str]:
    """Return the system and the user message of one prompt.

    Parameters
    ----------
    kind : {"dated", "undated", "modal"}
    instruction : {"default", "national", "hundred_adults"}
    country : str
        The country's name.
    text : str
        The question.
    options : list of dict
        ``code`` and ``label`` of each option in the order of the scale.
    year : int or None
        None for an undated prompt.
    elicitation : {"verbalized", "sampled", "logprob"}
        Whether the distribution is asked for, one option by its code, or one by its letter.

    Raises
    ------
    ConfigurationError
        There are more options than letters.

    Examples
    --------
    >>> options = [{"code": 1, "label": "Yes"}, {"code": 2, "label": "No"}]
    >>> system, user = render_prompt(
    ...     "dated", "default", country="Chile", text="Is it so?", options=options, year=1999
    ... )
    >>> print(user)
    Country: Chile
    Year: 1999
    <BLANKLINE>
    Survey question: Is it so?
    <BLANKLINE>
    Response options (code: label):
    1: Yes
    2: No
    <BLANKLINE>
    Estimate the percentage of adults in this country who would choose each option in 1999.
    Return one JSON object. Its keys are exactly the option codes "1", "2"; its values are whole percentages that add up to 100.
    """  # noqa: E501
    templates = chronocore_data.prompt_templates()
    in_year = "" if year is None else f" in {year}"
    year_line = "" if year is None else f"Year: {year}\n"
    letters = option_letters(len(options)) if elicitation == "logprob" else None
    if kind == "modal":
        wording = {"instructions": templates["modal"], "format": templates["modal_format"]}
    elif elicitation == "verbalized":
        wording = {key: templates[key] for key in ("instructions", "format")}
    else:
        wording = templates[elicitation]
    asks_for_all = kind != "modal" and elicitation == "verbalized"
    codes = ", ".join(f'"{o["code"]}"' if asks_for_all else str(o["code"]) for o in options)
    answer = wording["format"].replace("{codes}", ", ".join(letters) if letters else codes)
    task = wording["instructions"][instruction]
    # One pass, not str.format: wording and names may contain braces.
    parts = {
        "country": country,
        "year_line": year_line,
        "text": text,
        "options": "\n".join(
            _option_line(o["code"], o["label"], letters[place] if letters else None)
            for place, o in enumerate(options)
        ),
        "task": task.replace("{in_year}", in_year) + "\n" + answer,
    }
    user = re.sub(
        r"\{(" + "|".join(parts) + r")\}",
        lambda match: parts[match[1]],
        wording.get("question", templates["question"]),
    )
    return wording.get("system", templates["system"]), user.strip()


def prompts_table(
    pairs: pa.Table,
    items: pa.Table,
    instruction: str = "default",
    elicitation: str = "verbalized",
) -> pa.Table:
    """Write the prompts of every pair.

    Two dated and two modal prompts a pair that differ in the year alone, one undated prompt for
    each variable and country.

    Parameters
    ----------
    pairs, items : pyarrow.Table
        Schemas :data:`chronocore.schema.PAIRS` and :data:`chronocore.schema.ITEMS`.
    instruction : {"default", "national", "hundred_adults"}
        Wording of the task. Modal prompts have one wording and come with the defaults of both.
    elicitation : {"verbalized", "sampled", "logprob"}
        What is asked for.

    Returns
    -------
    pyarrow.Table
        Schema :data:`chronocore.schema.PROMPTS`: dated, undated and modal prompts, each in the
        order of ``pairs``.

    Notes
    -----
    ChronoCulture, section 3.7 and appendices A.4, A.5 and B.1. The system message of
    verbalized and modal prompts is the published one; all other wording is our own
    (``prompts.toml``).
    """
    by_item = {(item["survey"], item["variable"]): item for item in items.to_pylist()}
    rows: list[dict[str, Any]] = []
    pair_rows = pairs.to_pylist()
    for kind in KINDS:
        if kind == "modal" and (instruction, elicitation) != ("default", "verbalized"):
            continue
        for pair in pair_rows:
            ends = (
                [(None, None)]
                if kind == "undated"
                else [
                    (pair["wave_old"], pair["year_old"]),
                    (pair["wave_new"], pair["year_new"]),
                ]
            )
            item = by_item[pair["survey"], pair["variable"]]
            country = pair["country_name"] or f"the country with survey code {pair['country']}"
            for wave, year in ends:
                system, user = render_prompt(
                    kind,
                    instruction,
                    country=country,
                    text=item["text"],
                    options=item["options"],
                    year=year,
                    elicitation=elicitation,
                )
                where = (pair["survey"], pair["variable"], pair["country"])
                key = time_point_key(wave, year)
                rows.append(
                    {
                        "prompt_id": prompt_id(
                            kind, elicitation, instruction, *where, key, system, user
                        ),
                        "kind": kind,
                        "elicitation": elicitation,
                        "instruction": instruction,
                        "survey": where[0],
                        "variable": where[1],
                        "country": where[2],
                        "wave": wave,
                        "year": year,
                        "system": system,
                        "user": user,
                        "options": item["options"],
                    }
                )
    return pa.Table.from_pylist(rows, schema=schema.PROMPTS)
