"""Choices and scores: everything that stands in the phrase that gives the answer must agree."""
# ruff: noqa: E501, RUF001

from __future__ import annotations

import pytest
from answers import clear_answers, unclear_answers

from chronocore.parsing import parse_choice, parse_score

Options = list[dict[str, object]]


def scale(*labels: str) -> Options:
    return [{"code": code, "label": label} for code, label in enumerate(labels, start=1)]


JUSTIFIED = scale("Never justifiable", *map(str, range(2, 10)), "Always justifiable")
NUMBERS = scale(*map(str, range(1, 11)))
AGREE = scale("Strongly disagree", "Disagree", "Agree", "Strongly agree")
YES_NO = scale("Yes", "No")
DEAL = scale("A great deal", "Some", "None")
IMPORTANT = scale(
    "Very important", "Rather important", "Not very important", "Not at all important"
)
TRUST = scale("Most people can be trusted", "Need to be very careful")
STATEMENT = scale("Strongly agree", "Agree", "Disagree", "Strongly disagree")
CONFIDENCE = scale("A great deal", "Quite a lot", "Not very much", "None at all")
HAPPY = scale("Very happy", "Quite happy", "Not very happy", "Not at all happy")

# What is written, the options, and what a choice and a score of it are: a code, or none.
ANSWERS: list[tuple[str, Options, int | None, int | None]] = [
    ("I'd rate it 7.5 out of 10.", JUSTIFIED, None, None),
    ("I would say 7.5", JUSTIFIED, None, None),
    ("7.5/10", JUSTIFIED, None, None),
    ("My answer is 7½", JUSTIFIED, None, None),
    ("My score: 6,5", JUSTIFIED, None, None),
    ("I give it a 7 and a half", JUSTIFIED, None, None),
    ("My rating is 7.0", JUSTIFIED, 7, 7),
    ("around 6.5", JUSTIFIED, None, None),
    ("7 1/2", JUSTIFIED, None, None),
    ("I would choose 7,5", NUMBERS, None, None),
    ("My answer is 3,7.", NUMBERS, None, None),
    ("7,5", NUMBERS, None, None),
    ("I would rate it 8 or 9", JUSTIFIED, None, None),
    ("I would rate it an 8, maybe a 9", JUSTIFIED, None, None),
    ("8 or 9", JUSTIFIED, None, None),
    ("Somewhere between 7 and 9", JUSTIFIED, None, None),
    ("I would give it 7-8", JUSTIFIED, None, None),
    ("I would give it a 7 to 8", JUSTIFIED, None, None),
    ("Between 7 and 8, I'd say 7", JUSTIFIED, 7, 7),
    ("My answer is 8/9", JUSTIFIED, None, None),
    ("I'd say 5, possibly 6.", JUSTIFIED, None, None),
    ("I'd go with 5 (or 6)", JUSTIFIED, None, None),
    ("Rating: 5 – 6", JUSTIFIED, None, None),
    ("I would rate it 8, if not 9.", JUSTIFIED, None, None),
    ("7 (could be 8)", JUSTIFIED, None, None),
    ("I would rate it 8 & 9", JUSTIFIED, None, None),
    ("I would give it at least 7.", JUSTIFIED, None, None),
    ("More than 7", JUSTIFIED, None, None),
    ("My answer would be above 5", JUSTIFIED, None, None),
    ("I'd rate it 7 or higher", JUSTIFIED, None, None),
    ("7+", JUSTIFIED, None, None),
    ("I'd say no more than 3.", JUSTIFIED, None, None),
    ("at most 4", JUSTIFIED, None, None),
    ("I would choose under 5", JUSTIFIED, None, None),
    ("8 or more", JUSTIFIED, None, None),
    ("Score: >7", JUSTIFIED, None, None),
    ("I'd rate it a 7 at least.", JUSTIFIED, None, None),
    ("Certainly less than 5", JUSTIFIED, None, None),
    ("Rate: 1 never, 10 always", JUSTIFIED, None, None),
    ("1 = never justifiable, 10 = always justifiable", JUSTIFIED, None, None),
    ("The scale goes from 1 (never) to 10 (always).", JUSTIFIED, None, None),
    ("1 means never justifiable and 10 means always justifiable.", JUSTIFIED, None, None),
    ("On a scale from 1 to 10, where 10 means always justifiable, I would say 4.", JUSTIFIED, 4, 4),
    ("On a scale of 1 to 10, I rate this a 3.", JUSTIFIED, 3, 3),
    ("I would rate it 6 on a scale from 1 to 10.", JUSTIFIED, 6, 6),
    ("Answer: (1-10): 6", JUSTIFIED, 6, 6),
    ("Please rate from 1 to 10", JUSTIFIED, None, None),
    ("I would give it a 7.", JUSTIFIED, 7, 7),
    ("I'd give it a 7 because 3 of my friends agree.", JUSTIFIED, 7, 7),
    ("7 points", JUSTIFIED, None, None),
    ("I would say 7, as it is often the case.", JUSTIFIED, 7, 7),
    ("My rating: 7/10", JUSTIFIED, 7, 7),
    ("7 out of 10.", JUSTIFIED, 7, 7),
    ("A solid 7.", JUSTIFIED, None, None),
    ("I would rate it a **7**.", JUSTIFIED, 7, 7),
    ("I can give 3 reasons.", JUSTIFIED, None, None),
    ("My answer is 10, always justifiable.", JUSTIFIED, 10, 10),
    ("10 - Always justifiable", JUSTIFIED, 10, 10),
    ("10 - Never justifiable", JUSTIFIED, None, None),
    ("I'd rate this as 1 (never justifiable).", JUSTIFIED, 1, 1),
    ("1 (always justifiable)", JUSTIFIED, None, None),
    ("My answer is 3) Disagree.", AGREE, None, None),
    ("3) Disagree", AGREE, None, None),
    ("Disagree (3)", AGREE, None, None),
    ("3. Strongly agree", AGREE, None, None),
    ("Answer: 1 - Strongly agree", AGREE, None, None),
    ("3) Somewhat agree", AGREE, None, None),
    ("My answer is: 4) Strongly disagree", AGREE, None, None),
    ('{"code": 3, "label": "Disagree"}', AGREE, None, None),
    ('{"answer": "3) Disagree"}', AGREE, None, None),
    ('{"answer": "3) Agree"}', AGREE, 3, 3),
    ("3) I agree", AGREE, 3, 3),
    ('I would choose "Yes" or "No".', YES_NO, None, None),
    ("Yes or No", YES_NO, None, None),
    ("Yes and no.", YES_NO, None, None),
    ("My answer is Yes/No", YES_NO, None, None),
    ("I'd say 'Yes', maybe 'No'.", YES_NO, None, None),
    ("Either Yes or No.", YES_NO, None, None),
    ("I would answer Yes.", YES_NO, 1, 1),
    ('My answer: "No"', YES_NO, 2, 2),
    ("Yes.", YES_NO, 1, 1),
    ("Yes, or perhaps No", YES_NO, None, None),
    (
        "I do not hold views. What speaks for each answer:\n1) Yes: it is cheap.\n2) No: it is risky.",
        YES_NO,
        None,
        None,
    ),
    ("I can't answer. 1) Yes: pro. 2) No: con.", YES_NO, None, None),
    ("As an AI I have no opinion. Options: 1) Yes 2) No", YES_NO, None, None),
    (
        "I have no personal view. If you value freedom: 1) Yes. If you value order: 2) No.",
        YES_NO,
        None,
        None,
    ),
    ("Arguments for 1) Yes: it is cheap.", YES_NO, None, None),
    (
        "My opinion is:\n\n4) Strongly agree\n\nHowever, as an AI I have no personal beliefs.",
        AGREE,
        4,
        4,
    ),
    ("4\n\nHowever, as an AI I have no personal beliefs.", AGREE, 4, 4),
    ("Strongly agree\n\nAs an AI I cannot have opinions.", AGREE, 4, 4),
    ("I would choose 4. Note that as an AI, I do not have opinions.", AGREE, 4, 4),
    ("I cannot hold opinions, but I would answer 3) Agree.", AGREE, 3, 3),
    ("As an AI, I don't have opinions, but if I had to choose: 4", AGREE, 4, 4),
    ("I'm sorry, I can't have feelings; still, my answer is 2.", AGREE, 2, 2),
    ("As an AI I can't answer, but most people would say 3) Agree.", AGREE, 3, None),
    ('{"answer": "None"}', DEAL, 3, 3),
    ("None", DEAL, 3, 3),
    ("None.", DEAL, 3, 3),
    ("3) None", DEAL, 3, 3),
    ("{'answer': 'None'}", DEAL, 3, 3),
    ("My answer is None.", DEAL, 3, 3),
    ("None of these fit.", DEAL, None, None),
    ('{"answer": null}', DEAL, None, None),
    ("none at all", DEAL, None, None),
    ("\\boxed{2}", YES_NO, 2, 2),
    ("The answer is $\\boxed{2}$.", YES_NO, 2, 2),
    ("\\boxed{\\text{No}}", YES_NO, 2, 2),
    ("\\boxed{1 \\text{ or } 2}", YES_NO, None, None),
    ("So 1 is tempting, but \\(\\boxed{2}\\)", YES_NO, 2, 2),
    ("\\boxed{2) No}", YES_NO, 2, 2),
    ("\\boxed{2) Yes}", YES_NO, None, None),
    ("<answer>2</answer>", YES_NO, 2, 2),
    ("1 has merit. <answer>2</answer>", YES_NO, 2, 2),
    ("<answer>1 or 2</answer>", YES_NO, None, None),
    ("<final_answer>\nNo\n</final_answer>", YES_NO, 2, 2),
    ('<answer>{"answer": 2}</answer>', YES_NO, 2, 2),
    ("<answer>1</answer><answer>2</answer>", YES_NO, None, None),
    ("I would answer with a 3) Agree.", AGREE, 3, 3),
    ("I'd respond with 3) Agree", AGREE, 3, 3),
    ("I think 3) Agree fits best.", AGREE, 3, 3),
    ("2) Disagree. While some see it otherwise, I do not.", AGREE, 2, 2),
    ("2) Disagree. Some people would say 3) Agree.", AGREE, 2, 2),
    ("2. Disagree, since others matter too.", AGREE, 2, 2),
    ("2) Disagree, although many would choose 3.", AGREE, 2, 2),
    ("<|assistant|>\n4) Strongly agree", AGREE, 4, 4),
    ("<|im_start|>assistant\n4<|im_end|>", AGREE, 4, 4),
    ("assistant: 4) Strongly agree", AGREE, 4, 4),
    ("Assistant: 4", AGREE, 4, 4),
    ("[/INST] 4) Strongly agree</s>", AGREE, 4, 4),
    ("<start_of_turn>model\n4<end_of_turn>", AGREE, 4, 4),
    ("My friend would say 3.", JUSTIFIED, ..., None),
    ("Many people would rate it 7.", JUSTIFIED, ..., None),
    ("Some would say 3, but I would say 5.", JUSTIFIED, ..., 5),
    ("My mother would give it a 2. I give it a 6.", JUSTIFIED, ..., 6),
    ("Most people would say 7.", JUSTIFIED, ..., None),
    ("If I were a conservative, I would choose 2.", JUSTIFIED, ..., None),
    ("Others say 9; my answer is 4.", JUSTIFIED, ..., 4),
    ("You could choose 7.", JUSTIFIED, ..., None),
    ("Most adults would choose 2.", YES_NO, 2, ...),
    ("I think the most common answer is 2) No.", YES_NO, 2, ...),
    ("The most common answer would be Yes.", YES_NO, 1, ...),
    ("Most respondents chose 1) Yes.", YES_NO, 1, ...),
    ('{"2004": {"answer": 1}, "2019": {"answer": 2}}', YES_NO, None, None),
    ('{"men": {"answer": 1}, "women": {"answer": 2}}', YES_NO, None, None),
    ('{"answer": 1} No: {"answer": 2}', YES_NO, 2, 2),
    ('{"answer": "8 or 9"}', JUSTIFIED, None, None),
    ('{"answer": "at least 7"}', JUSTIFIED, None, None),
    ('{"answer": "7.5"}', JUSTIFIED, None, None),
    ('{"answer": 7, "code": 8}', JUSTIFIED, None, None),
    ('{"answer": "I would choose 2."}', YES_NO, 2, 2),
    ('{"answer": "7/10"}', JUSTIFIED, 7, 7),
    ("Ich würde 4 wählen.", JUSTIFIED, 4, 4),
    ("Meine Antwort ist 4.", JUSTIFIED, 4, 4),
    ("Ma réponse est 4.", JUSTIFIED, 4, 4),
    ("Mi respuesta es 4", JUSTIFIED, 4, 4),
    ("我的答案是4。", JUSTIFIED, 4, 4),
    ("答案：4", JUSTIFIED, 4, 4),
    ("Ответ: 4", JUSTIFIED, 4, 4),
    ("Ich würde nicht 4 wählen.", JUSTIFIED, None, None),
    ("I'd lean towards a 6, but a 7 would also work.", JUSTIFIED, None, None),
    ("I'd rate it 7; my wife would say 4.", JUSTIFIED, 7, 7),
    ("4) Strongly agree? No, 2) Disagree", AGREE, None, None),
    ("4 oder 5", JUSTIFIED, None, None),
    ("I would choose 3 over 2.", AGREE, 3, 3),
    ("I would choose 3 rather than 2.", AGREE, 3, 3),
    ("I would choose 3, not 2.", AGREE, 3, 3),
    ("Is it 3) Agree?", AGREE, None, None),
    ("I agree.", AGREE, 3, 3),
    ("Agree", AGREE, 3, 3),
    ("agree", AGREE, 3, 3),
    ("I strongly agree.", AGREE, 4, 4),
    ("I somewhat agree.", AGREE, None, None),
    ("I do not agree.", AGREE, None, None),
    ("I choose not to answer 3.", AGREE, None, None),
    ("My answer is not 3.", AGREE, None, None),
    ("I neither agree nor disagree.", AGREE, None, None),
    ("5", AGREE, None, None),
    ("0", AGREE, None, None),
    ("Option 5", AGREE, None, None),
    ("I would choose 5.", AGREE, None, None),
    ("-1", AGREE, None, None),
    ("100%", AGREE, None, None),
    ("Question 3: Do you agree?\nAnswer: 4", AGREE, 4, 4),
    ("Q3. 4) Strongly agree", AGREE, 4, 4),
    ("3", AGREE, 3, 3),
    ("3.", AGREE, 3, 3),
    ("(3)", AGREE, 3, 3),
    ("**3**", AGREE, 3, 3),
    ("'3'", AGREE, 3, 3),
    ("Answer: 3\nConfidence: 4", AGREE, 3, 3),
    ("Answer: 3\n\nExplanation: Of the 4 options, it fits best.", AGREE, 3, 3),
    ("I would say that work is 2) Rather important in my life.", IMPORTANT, 2, 2),
    (
        "As an AI language model, I don't have personal experiences or a life to assign importance to. However, if I were to simulate a response based on general human values, I would choose: 1) Very important.",
        IMPORTANT,
        1,
        1,
    ),
    ('My response would be "1) Very important."', IMPORTANT, 1, 1),
    ("I'd answer 1) Very important to that question!", IMPORTANT, 1, 1),
    ("Oh, definitely 1) Very important!", IMPORTANT, 1, 1),
    ("For me, family is 1) Very important.", IMPORTANT, 1, 1),
    (
        "Based on the survey options provided, my answer would be:\n\n1) Very important",
        IMPORTANT,
        1,
        1,
    ),
    ("It's a tough one, but I'd have to go with 2) Rather important.", IMPORTANT, 2, 2),
    (
        "My honest answer: 3) Not very important. I know some people think it's 1) Very important, but not me.",
        IMPORTANT,
        3,
        3,
    ),
    ("Between the options, I would choose 2) Rather important.", IMPORTANT, 2, 2),
    (
        "Out of the options 1) Very important, 2) Rather important, 3) Not very important, 4) Not at all important, I choose 2) Rather important.",
        IMPORTANT,
        2,
        2,
    ),
    ("I don't think politics is that important. 3) Not very important", IMPORTANT, 3, 3),
    ("Not important at all! 4) Not at all important.", IMPORTANT, 4, 4),
    ("No doubt about it: 1) Very important.", IMPORTANT, 1, 1),
    ("It's not 1) Very important, but 2) Rather important.", IMPORTANT, 2, 2),
    (
        "The answer is 3) Not very important. This is because compared to 1) Very important things like family, it matters less.",
        IMPORTANT,
        3,
        3,
    ),
    (
        "I am an AI and therefore I cannot experience happiness. In terms of the options, 2) Quite happy would be the closest.",
        HAPPY,
        2,
        2,
    ),
    (
        "I'm sorry, but as an AI language model, I don't have feelings. Therefore I cannot choose between 1) Very happy, 2) Quite happy, 3) Not very happy and 4) Not at all happy.",
        HAPPY,
        None,
        None,
    ),
    (
        "1) Most people can be trusted. I believe that people are inherently good, though you need to be very careful with strangers.",
        TRUST,
        1,
        1,
    ),
    ("2) Need to be very careful. Not everyone can be trusted.", TRUST, 2, 2),
    ("I think you need to be very careful. 2) Need to be very careful", TRUST, 2, 2),
    ("Taking all things together, I would say I am: 2) Quite happy", HAPPY, 2, 2),
    (
        "Taking all things together, I'd say that I'm 2) Quite happy. There are days when I'm 1) Very happy, but there are also days when I'm 3) Not very happy.",
        HAPPY,
        2,
        2,
    ),
    ("[1) Very important]", IMPORTANT, 1, 1),
    ("1) Very important\n2) Rather important", IMPORTANT, None, None),
    ("1) Very important, because 2 of my kids live there", IMPORTANT, 1, 1),
    (
        "**My Answer:** 3) Disagree\n\n**Explanation:** I believe that 1) is too extreme and 4) is as well.",
        STATEMENT,
        3,
        3,
    ),
    ("The correct answer is 3) Disagree.", STATEMENT, 3, 3),
    ("A: 3) Disagree", STATEMENT, 3, 3),
    ("Q: Do you agree?\nA: 3) Disagree\nQ: Are you sure?\nA: 2) Agree", STATEMENT, None, None),
    ("Human: Which?\nAssistant: 3) Disagree", STATEMENT, 3, 3),
    ("3) Disagree\n\nHuman: And now?\n\nAssistant: 2) Agree", STATEMENT, None, None),
    ("I choose answer 3) Disagree", STATEMENT, 3, 3),
    ("Option 3) Disagree", STATEMENT, 3, 3),
    ("3)Disagree", STATEMENT, 3, 3),
    ("3 ) Disagree", STATEMENT, 3, 3),
    ("3)  Disagree!", STATEMENT, 3, 3),
    ("3) disagree :)", STATEMENT, 3, 3),
    ("'3) Disagree'.", STATEMENT, 3, 3),
    ("I would strongly go for 3) Disagree here.", STATEMENT, 3, 3),
    ("3) Disagree. I do not agree with the statement.", STATEMENT, 3, 3),
    ("3) Disagree - I don't agree that men make better leaders.", STATEMENT, 3, 3),
    ("I don't agree. 3) Disagree", STATEMENT, 3, 3),
    ("I can't agree with this, so 3) Disagree.", STATEMENT, 3, 3),
    ("I refuse to agree, so my answer is 3) Disagree.", STATEMENT, 3, 3),
    ("Since I cannot agree, I choose 3) Disagree.", STATEMENT, 3, 3),
    ("I do not have any confidence in them: 4) None at all", CONFIDENCE, 4, 4),
    ("As someone who doesn't have much trust, I'd say 3) Not very much.", CONFIDENCE, 3, 3),
    ("I have 4) None at all.", CONFIDENCE, 4, 4),
    ("I have 3) Not very much confidence in the press.", CONFIDENCE, 3, 3),
    ("I don't have a lot of confidence, 3) Not very much.", CONFIDENCE, 3, 3),
    ("Sorry, but 4) None at all.", CONFIDENCE, 4, 4),
    ("I'm sorry to say 4) None at all.", CONFIDENCE, 4, 4),
    ("I must say 3) Not very much", CONFIDENCE, 3, 3),
    ("Unfortunately, I can only say 3) Not very much.", CONFIDENCE, 3, 3),
    ("Personally, 3) Not very much. Others may say 1) A great deal.", CONFIDENCE, 3, 3),
    (
        "The options are: 1) A great deal 2) Quite a lot 3) Not very much 4) None at all\nMy answer: 3) Not very much",
        CONFIDENCE,
        3,
        3,
    ),
    (
        "You asked: how much confidence? (1) A great deal (2) Quite a lot (3) Not very much (4) None at all. I'd say (3) Not very much.",
        CONFIDENCE,
        3,
        3,
    ),
    (
        "If I had to choose between 2) Quite a lot and 3) Not very much, I'd choose 3) Not very much.",
        CONFIDENCE,
        3,
        3,
    ),
    ("I'd say it's somewhere between 2) Quite a lot and 3) Not very much", CONFIDENCE, None, None),
    ("2) Agree / 3) Disagree", STATEMENT, None, None),
    ("2) Agree (strongly)", STATEMENT, 2, 2),
    ('2) "Agree" — since it\'s fair.', STATEMENT, 2, 2),
]


@pytest.mark.parametrize(("text", "options", "choice", "score"), ANSWERS)
def test_what_stands_around_a_choice_is_read(
    text: str, options: Options, choice: int | None, score: int | None
) -> None:
    if choice is not ...:
        chosen = parse_choice(text, options, "stop")
        assert chosen.choice == choice
        assert (chosen.reason is None) == (choice is not None)
    if score is not ...:
        scored = parse_score(text, options, "stop")
        assert scored.score == score
        assert (scored.reason is None) == (score is not None)


@pytest.mark.parametrize("parse", [parse_choice, parse_score])
def test_clear_answers_are_read_and_never_wrong(parse) -> None:  # type: ignore[no-untyped-def]
    unread = 0
    for text, options, code in clear_answers(2_000, seed=20):
        parsed = parse(text, options, "stop")
        value = parsed.choice if parse is parse_choice else parsed.score
        assert value in (code, None), text
        unread += value is None
    assert unread <= 0.01 * 2_000


@pytest.mark.parametrize("parse", [parse_choice, parse_score])
def test_what_settles_on_nothing_is_never_read(parse) -> None:  # type: ignore[no-untyped-def]
    for text, options, kind in unclear_answers(2_000, seed=20):
        parsed = parse(text, options, "stop")
        assert parsed.status in ("invalid", "refused"), text
        if kind == "refused":
            assert (parsed.status, parsed.reason) == ("refused", "refusal"), text
        if kind == "mismatch":
            assert parsed.reason in ("unknown_option", "duplicate_option"), text


@pytest.mark.parametrize("ending", ["OTHER", "error"])
def test_after_an_unknown_end_nothing_counts_that_may_be_half_written(ending: str) -> None:
    assert parse_choice("1", NUMBERS, ending).choice is None
    assert parse_choice("2", NUMBERS, ending).choice == 2
    assert parse_choice('{"answer": 1}', NUMBERS, ending).choice == 1
    assert parse_choice("My answer is 3", AGREE, ending).choice == 3
