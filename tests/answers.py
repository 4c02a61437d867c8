# ruff: noqa: E501, RUF001
"""Answers as models write them around one option, with what they choose, and their neighbours."""

from __future__ import annotations

import random
from collections.abc import Iterator

SCALES: dict[str, list[tuple[str, ...]]] = {
    "en": [
        ("Very important", "Rather important", "Not very important", "Not at all important"),
        ("Strongly disagree", "Disagree", "Agree", "Strongly agree"),
        ("Agree strongly", "Agree", "Neither agree nor disagree", "Disagree", "Disagree strongly"),
        ("A great deal", "Quite a lot", "Not very much", "None at all"),
        ("Yes", "No"),
        ("Have done", "Might do", "Would never do"),
        ("Most people can be trusted", "Need to be very careful"),
        ("Good thing", "Don't mind", "Bad thing"),
        ("Very good", "Fairly good", "Fairly bad", "Very bad"),
        ("All of the time", "Most of the time", "Some of the time", "None of the time"),
        ("A great deal", "Some", "Not much", "None"),
        ("Excellent", "Good", "Fair", "Poor", "Very poor"),
    ],
    "de": [("Sehr wichtig", "Ziemlich wichtig", "Nicht sehr wichtig", "Überhaupt nicht wichtig")],
    "fr": [("Très important", "Assez important", "Peu important", "Pas du tout important")],
    "es": [("Muy importante", "Bastante importante", "No muy importante", "Nada importante")],
    "zh": [("非常重要", "比较重要", "不太重要", "一点也不重要")],
    "ru": [("Очень важно", "Довольно важно", "Не очень важно", "Совсем не важно")],
}

PAIRS = [
    "{c}) {l}", "{c}) {l}.", "{c}. {l}", "{c}: {l}", "({c}) {l}", "**{c}) {l}**", "**{c}. {l}**",
    "*{c}) {l}*", "`{c}) {l}`", '"{c}) {l}"', "\u201c{c}) {l}\u201d", "**{c})** {l}", "{c} - {l}",
    "{c} \u2013 {l}", "Option {c}: {l}", "{l} ({c})", "[{c}] {l}", "{c}) {U}", "{c}) {L}", "__{c}) {l}__",
    "{c}.) {l}", "{c} ({l})", "#{c}: {l}", "{c} = {l}", "{c}) \u201c{l}\u201d", "option {c}) {l}",
]  # fmt: skip

FRAMES = {
    "en": [
        "{p}", "My answer is {p}", "My answer is:\n\n{p}", "Answer: {p}", "**Answer:** {p}", "Final answer: {p}",
        "I would choose {p}", "I would choose option {p}", "I'd go with {p}", "I would say {p}", "I would select {p}.",
        "My response is {p}", "My opinion is:\n\n{p}", "I would answer {p}", "I would answer with a {p}.",
        "If I had to choose, I would say {p}", "If I had to choose one: {p}", "I'll pick {p}.", "I choose {p}",
        "As a typical person, I would choose {p}.", "Sure! {p}", "Based on my experience, {p}.", "Here is my answer:\n{p}",
        "I think the best option is {p}.", "The most fitting option is {p}.", "In my view: {p}", "For me, it is {p}.",
        "Personally, I lean towards {p}.", "I believe the answer would be {p}.", "Response: {p}", "{p}\n",
        "\\boxed{{{p}}}", "<answer>{p}</answer>", "<|assistant|>\n{p}", "```\n{p}\n```", "> {p}", "- {p}", "# {p}",
        "Considering everything, my choice is {p}.", "Honestly, {p}.", "{p} is my answer.", "{p} is what I would choose.",
        "I feel that {p} best reflects my view.", "Hmm, that's a tough one. {p}",
        "Well, as an average human being I would say {p}.", "My selection: {p}", "I'd rate it as {p}.",
        "Option chosen: {p}", "The option that best describes my view is {p}.", "I guess {p}.", "I'm going to say {p}.",
    ],
    "de": ["{p}", "Meine Antwort ist {p}", "Antwort: {p}", "Ich würde {p} wählen.", "Ich wähle {p}."],
    "fr": ["{p}", "Ma réponse est {p}.", "Réponse : {p}", "Je choisirais {p}.", "Je dirais {p}."],
    "es": ["{p}", "Mi respuesta es {p}.", "Respuesta: {p}", "Yo elegiría {p}.", "Diría que {p}."],
    "zh": ["{p}", "我的答案是:{p}", "答案:{p}", "我选择 {p}。", "我会选 {p}"],
    "ru": ["{p}", "Мой ответ: {p}", "Ответ: {p}", "Я бы выбрал {p}."],
}  # fmt: skip

BEFORE = {
    "en": [
        "", "", "", "",
        "As an AI language model, I don't have personal opinions or beliefs. However, based on the options given:\n\n",
        "As an AI, I do not have feelings, but if I had to choose, I would say:\n\n",
        "I'm an AI and cannot hold opinions, but for the purpose of this survey I would answer:\n",
        "I don't have personal beliefs, but I can give an answer based on the information available. ",
        "Thank you for asking! ", "That's an interesting question. ", "Question: How important is it in your life?\n\n",
        "I understand that views on this differ. Some people see it otherwise. ",
        "While I don't have personal experiences, many people around the world value this.\n\n",
        "As an artificial intelligence, I can't have opinions. Still, ",
        "I'm sorry, but as an AI I don't hold personal views. If I were to answer as an average person: ",
        "There are many sides to this, and 60% of people think about it often. ",
    ],
    "de": ["", "Als KI habe ich keine eigene Meinung, aber: ", "Das ist eine gute Frage. "],
    "fr": ["", "En tant qu'IA, je n'ai pas d'opinion, mais : ", "C'est une bonne question. "],
    "es": ["", "Como IA no tengo opiniones personales, pero: ", "Es una buena pregunta. "],
    "zh": ["", "作为人工智能,我没有个人观点,但是:", "这是个好问题。"],
    "ru": ["", "У меня нет личного мнения, но: ", "Хороший вопрос. "],
}  # fmt: skip

AFTER = {
    "en": [
        "", "", "", "",
        "\n\nHowever, as an AI I have no personal beliefs.", "\n\nFamily is a source of support for many people.",
        "\n\nThis is because it gives meaning to life.", " While some see it otherwise, I do not.",
        "\n\nExplanation: I value it, although others may disagree with me.",
        "\n\nPlease note that this is only a general view and that individual opinions may vary.",
        "\n\nI chose this because it has shaped 2 or 3 of my most important decisions.",
        "\n\nReasons:\n1. It gives support.\n2. It gives meaning.\n3. It lasts.",
        "\n\nAs an AI language model, I cannot have personal opinions; this is just an estimate.",
        " It matters to me, though not to everyone.", "\n\nLet me know if you have other questions!",
        "\n\nI can't speak for everyone, of course.",
    ],
    "de": ["", "\n\nDas ist mir wichtig, auch wenn andere es anders sehen."],
    "fr": ["", "\n\nC'est une question personnelle."],
    "es": ["", "\n\nEs una cuestión personal."],
    "zh": ["", "\n\n这只是一般的看法。"],
    "ru": ["", "\n\nЭто лишь общее мнение."],
}  # fmt: skip


def options_of(labels: tuple[str, ...]) -> list[dict[str, object]]:
    return [{"code": code, "label": label} for code, label in enumerate(labels, start=1)]


def pair(draw: random.Random, labels: tuple[str, ...], code: int, label: str | None = None) -> str:
    text = labels[code - 1] if label is None else label
    return draw.choice(PAIRS).format(c=code, l=text, U=text.upper(), L=text.lower())


def clear_answers(count: int, seed: int) -> Iterator[tuple[str, list[dict[str, object]], int]]:
    """Yield answers that give one option by code and label, and the code."""
    draw = random.Random(seed)
    for _ in range(count):
        language = draw.choice(["en"] * 8 + list(SCALES)[1:])
        labels = draw.choice(SCALES[language])
        code = draw.randint(1, len(labels))
        told = draw.choice(FRAMES[language]).format(p=pair(draw, labels, code))
        before, after = draw.choice(BEFORE[language]), draw.choice(AFTER[language])
        restated = ""
        if draw.random() < 0.15:
            listed = [f"{c}) {label}" for c, label in enumerate(labels, start=1)]
            restated = draw.choice(["Options:\n", "How important is this?\n", ""]) + "\n".join(
                listed
            )
            restated += "\n\n"
            if told.strip("#*_`>-\n ")[:1] in '0123456789(["“' or told[:1] in "-#`":
                told = f"Answer: {told.strip()}"
        yield restated + before + told + after, options_of(labels), code


TWO = [
    "I would choose {p} or {q}.", "{p}\n{q}", "Either {p} or {q}.", "My answer is {p}. Actually, {q}.",
    "My answer is {p} and {q}.", "I'm torn between {p} and {q}.", "{p}, maybe {q}", "Answer: {p}\nAnswer: {q}",
    "For young people {p}, for older people {q}.", "If religious: {p}; if not: {q}.", "It is {p} / {q}.",
    "In the city: {p}\nIn the country: {q}", "My first choice is {p}. My second choice is {q}.",
    "Somewhere from {p} to {q}.", "Men would say {p}. Women would say {q}.",
]  # fmt: skip
REFUSED = [
    "I do not hold views. What speaks for each answer:\n{args}",
    "As an AI language model, I don't have personal opinions. Here are arguments for each option:\n{args}",
    "I'm sorry, but I can't answer that. The options are:\n{list}",
    "I cannot choose between the options:\n\n{list}\n\nEach has its merits.",
    "As an AI, I can't pick one. Some people would say {p}, others {q}.",
    "I don't have personal beliefs. Some might choose {p} because it fits them.",
    "I am unable to choose. Many people answer {p}.", "I can't say {p}.",
    "As an AI I cannot choose {p} or any other option.",
    "I don't have an opinion. People who value it would answer {p}.",
    "I'm not able to answer. For example, {p} would mean that it matters a lot.",
]  # fmt: skip
LISTS = [
    "{list}", "{args}", "Options:\n{list}", "The options are {inline}.", "The scale is: {inline}",
    "What speaks for each answer:\n{args}", "You could answer {p}.", "Would you choose {p}?",
    "My neighbour would say {p}.", "My mother would choose {p}. She is religious.",
    "I would not choose {p}.", "Anything but {p}.", "I would never say {p}.",
    "Pros and cons:\n{args}", "It depends. {p} if you are religious, {q} if you are not.",
]  # fmt: skip
ARGUMENTS = ["it is cheap", "it is risky", "it helps many", "it takes time", "it is common"]


def unclear_answers(count: int, seed: int) -> Iterator[tuple[str, list[dict[str, object]], str]]:
    """Yield answers that choose none, or more than one, or contradict themselves, and the kind."""
    draw = random.Random(seed)
    for _ in range(count):
        labels = draw.choice(SCALES["en"])
        size = len(labels)
        first, second = draw.sample(range(1, size + 1), 2)
        kind = draw.choice(["two", "mismatch", "refused", "list"])
        if kind == "mismatch":
            p = pair(draw, labels, first, labels[second - 1])
            frame = draw.choice(
                [f for f in FRAMES["en"] if "answer" in f or "choose" in f or f == "{p}"]
            )
            yield frame.format(p=p), options_of(labels), kind
            continue
        frame = draw.choice({"two": TWO, "refused": REFUSED, "list": LISTS}[kind])
        places = enumerate(labels, start=1)
        listed = [f"{code}) {label}" for code, label in places]
        argued = [f"{line}: {draw.choice(ARGUMENTS)}." for line in listed]
        text = frame.format(
            p=f"{first}) {labels[first - 1]}", q=f"{second}) {labels[second - 1]}",
            list="\n".join(listed), inline=", ".join(listed), args="\n".join(argued),
        )  # fmt: skip
        yield text, options_of(labels), kind
