"""Words around a choice: what announces, denies, hedges, bounds or attributes it."""

from __future__ import annotations

import re

from chronocore.parsing.characters import word_set

__all__ = [
    "AFTER_LABEL",
    "AS_IF",
    "ATTRIBUTED",
    "BOUND_AFTER",
    "BOUND_BEFORE",
    "CLOSING_CUE",
    "CORRECTED",
    "CORRECTING",
    "COUNTED",
    "CUE",
    "DEGREES",
    "DENIED",
    "DENIED_GAP",
    "DISCUSSED",
    "EXPLAINED",
    "FINAL",
    "GAP",
    "HEDGED",
    "I_LABEL",
    "JOINED",
    "LEADING",
    "LIST_GAP",
    "NUMBERED_LINE",
    "NUMBER_IN_TEXT",
    "OTHERS",
    "OTHERS_SAY",
    "PAIR_SEPARATOR",
    "PART_OF_NUMBER",
    "RANGE_BY",
    "REACH",
    "REASONED",
    "SENTENCE_END",
    "SPEAKER",
    "STANDALONE_CODE",
    "THOUSANDS",
    "begins_line",
    "clause_start",
    "is_asked",
    "is_denied",
    "leaves_sentence",
]

STANDALONE_CODE = re.compile(r"(?<![\w.,%+-])[+-]?[0-9]{1,18}(?![\w%]|[.,][0-9])")


GAP = 80  # characters between words that announce a choice and the choice


REACH = 400  # characters of a sentence that are searched on either side


NUMBER_IN_TEXT = (
    r"(?<![A-Za-z0-9_.,%⁄])(?:(?<!\w)[+-])?[0-9]{1,18}(?:[.,][0-9]+)*+"  # noqa: RUF001
    r"(?![A-Za-z0-9_⁄]|\s?%|[.,][0-9]|-?\s?(?:point|star|step|item|year|percent)s?\b)"  # noqa: RUF001
)


THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")


# What stands before a number word that is no number of its own: "minus two", "twenty-two".
PART_OF_NUMBER = re.compile(r"(?:\b(?:minus|negative|point|hundred|thousand|\w+ty)\s|[-.+])\Z")


PAIR_SEPARATOR = r"(?:\.0+)?[\s.):\]=,#>|-]{0,6}[\"'(\[]{0,2}\s?"


AFTER_LABEL = re.compile(
    r"[\"')\]]*(?:\s*(?:[.,;:!?()/\n|-]|\Z|[^\x00-\x7f]|[\[(]?\d)|\s(?:as|and|because|for|in|or"
    r"|since|but|with"
    r"|that|to|is|would|rather|over|due|given|which|while|although|though|however|considering|when"
    r"|if|on|at|are|was|not|seems|fits|best|it|this|i)\b)"
)


# Words that announce a choice.
_CUES = (
    r"\b(?:"
    r"(?:choos(?:e|es|ing)|chose|pick|select(?:ed)?|chosen|go(?:ing)? with|opt for|vote for"
    r"|settle on"
    r"|lean(?:ing)? towards?|rat(?:e|ed|ing)|scor(?:e|ed|ing)|rank|assign|give|gave|say|put|place"
    r"|(?:would|will|'d|to|must|should|i) (?:answer|respond|reply)(?: with| is| as)?)\b"
    r"|(?<!each )(?<!every )(?<!possible )(?<!any )(?<!all )(?<!which )(?<!what )(?<!either )"
    r"(?:answer|choice|response|selection|prediction|option|opinion|pick|vote|position|view|number"
    r"|verdict|preference)\b(?:(?!\bnot\b|n't)[^.!?\d\n:]){0,60}?(?:\b(?:is|would be|will be)\b"
    r"|\s?[:=])"
    r"|as for me\b|option(?=\s[+-]?\d)|(?:therefore|conclusion|overall|so|hence|thus)\s?:"
    # German, Dutch, Swedish, French, Spanish, Portuguese, Italian, Polish, Turkish
    r"|(?:antwort|wahl|antwoord|keuze|svar|réponse|choix|respuesta|elección|opción|resposta|escolha"
    r"|risposta|scelta|odpowiedź|wybór|cevab\w*|yanıt\w*|seçim\w*|jawaban|pilihan)"  # noqa: RUF001
    r"(?:\s(?:ist|lautet|wäre|is|zou zijn|är|est|serait|es|sería|é|seria|è|sarebbe|to|adalah)\b"
    r"|\s?:)"
    r"|(?:wähle|ich würde|kies|zou kiezen|väljer|choisis|choisirais|dirais|elijo|elegiría|escojo"
    r"|escogería|diría|escolho|escolheria|diria|scelgo|sceglierei|direi|wybieram|wybrał\w*"
    r"|seçiyorum|seçerdim|memilih)\b"
    r")"
    # Russian, Ukrainian, Chinese, Japanese, Korean, Arabic, Hindi, Vietnamese
    r"|(?:ответ|відповідь)\s?:|выбираю|выбрала?\s|выбрал бы|обираю"
    r"|答案(?:是|为|：|:)|选择|選擇|我选|我選|回答(?:是|：|:)|答え(?:は|:)|回答は|답(?:변)?(?:은|:)|선택"  # noqa: RUF001
    r"|الإجابة|جوابي|أختار|उत्तर|चुन|tôi chọn|câu trả lời"
)


CUE = re.compile(
    r"(?P<denied>(?:\bnot|n't|\bnever|\brather than|\binstead of|\bcannot|\bwithout|\brefuse to"
    r"|\bunable to"
    r"|\bdecline to|\bnicht|\bno|\bne|\bnão|\bnie|\bnon|\bне|不(?:能|会)?) ?(?:\w+ ){0,2}?)?"  # noqa: RUF001
    rf"(?:{_CUES})"
)


DENIED = re.compile(
    r"\b(?:not|never|rather than|instead of|over|above|than|versus|vs|against|unlike|nor|neither"
    r"|cannot"
    r"|without|refuse|decline|excluding|except|(?:any|every)thing but|all but|other than|besides"
    r"|apart from|nicht|kein\w*|pas|não|nie|non)\b(?: [\w']+){0,2}[ \"'(]*\Z"
    r"|n't(?: [\w']+){0,2}[ \"'(]*\Z"
)


DENIED_GAP = re.compile(
    r"\b(?:not|never|cannot|none|neither|between|because|since|due to|based on|nicht"
    r"|kein\w*|pas|não|nie|non|не)\b|n't\b|不|没"
)


CLOSING_CUE = re.compile(
    r"[\"')\].,]* ?(?:is|would be|seems to be|comes|best|most closely|it is\b)[^.!?\n\d]{0,30}?"
    r"\b(?:my (?:own |final )?(?:answer|choice|response|view|opinion|position|selection|feelings?)"
    r"|what i(?:'d| would)? (?:choose|pick|select|answer|say|go with)|(?:the )?(?:answer|option"
    r"|one) (?:i|for me)|(?:the )?(?:closest|nearest|best (?:fit|option|answer)"
    r"|most (?:accurate|fitting|appropriate|suitable)))\b"
)


ATTRIBUTED = re.compile(
    r"\b(?:(?:some|many|other|few|several|certain|various|different)\b|others\b|critics|supporters"
    r"|proponents|opponents|advocates|he\b|she\b|they\b|you\b|one (?:could|might|may|can)\b"
    r"|some(?:one|body)\b"
    r"|any(?:one|body)\b|people (?:who|that|may|might|could|often|sometimes|in)\b|those who"
    r"|my (?:mother|father|mom|mum|dad|wife|husband|partner|friends?|brother|sister|parents"
    r"|neighbou?rs?"
    r"|boss|colleagues?|grand\w+|son|daughter|uncle|aunt|family|teacher|doctor)\b"
    r"|(?<!as )(?:an?|the) (?:religious|conservative|liberal|traditional|progressive|secular|older"
    r"|younger|elderly|young|old)(?: (?:person|voter|man|woman|respondent|believer|christian"
    r"|muslim))?(?=\s?\Z|\s(?:would|might|could|may|will)\b)"
    # Spanish, German, French, Portuguese, Italian
    r"|(?:mis?|meine?[rsn]?|ma|mon|mes|minhas?|meus?|mia|mio) (?:abuel[oa]s?|madre|padres?"
    r"|herman[oa]s?|amig[oa]s?|vecin[oa]s?|espos[oa]|marido|mujer|großmutter|großvater|oma|opa"
    r"|mutter|vater|eltern|bruder|schwester|freund\w*|nachbar\w*|mann|frau|kolleg\w*"
    r"|grand-?\s?m[èe]re|grand-?\s?p[èe]re|mère|père|parents|frère|sœur|amie?s?|voisin\w*|mari"
    r"|femme|collègue\w*|avó|avô|mãe|pai|pais|irmã\w?|nonna|nonno|amic\w*|fratello|sorella)\b"
    r"|(?:algunos|muchos|otros|manche|viele|einige|andere|certains|beaucoup|d'autres|alguns"
    r"|muitos|outros|alcuni|molti)\b"
    r")"
    r"|有些人|有人|很多人|许多人|其他人|我(?:的)?(?:奶奶|爷爷|祖母|祖父|妈妈|爸爸|母亲|父亲|朋友|邻居)"
)


OTHERS = re.compile(
    r"\b(?:most (?:\w+ )?(?:people|adults|respondents|persons|citizens|individuals|(?:wo)?men"
    r"|humans|others"
    r"|would|chose|choose|say|said|answer(?:ed)?)\b|(?:the )?majority\b|people\b"
    r"|society\b|respondents\b|the public\b|adults\b"
    r"|(?:a|the) (?:typical|religious|conservative|liberal|traditional|progressive|secular)\b)"
)


SPEAKER = re.compile(
    r"\b(?:i|i'd|i'll|i'm|we|we'd|yo|ich|je|eu|io"
    r"|my (?:own|answer|choice|rating|score|response|opinion))\b"
)


DISCUSSED = re.compile(
    r"\b(?:means?|meaning|indicat\w+|represents?|corresponds? to|stands? for|such as|for example"
    r"|for instance|eg|options? (?:are|include|like|is)|ranges?|arguments?|case for|in favou?r of"
    r"|pros"
    r"|cons|speaks? (?:for|against)|against|scale|choices|either|both|between|whether|those|depends"
    r"|refers? to|defined as|would be (?:for|if)|chosen by|unless|someone)\b"
)


_CLAUSE_START = re.compile(
    r"[.;:!?\n]|,?\s(?:but|while|whereas|although|though|yet|however|still),?\s"
    r"|,\s(?:pero|aber|doch|mais|mas|ma|sino)\s|,?但是?"
)


BOUND_BEFORE = re.compile(
    r"(?:\b(?:at least|at most|more than|less than|fewer than|greater than|higher than|lower than"
    r"|no more than|no less than|not more than|over|under|above|below|up to|minimum(?: of)?"
    r"|upwards of"
    r"|maximum(?: of)?|beyond|exceeding|somewhere between|between"
    # German, Spanish, French, Portuguese, Italian, Dutch
    r"|mindestens|wenigstens|höchstens|maximal|minimal|mehr als|weniger als|über|unter|zwischen"
    r"|al menos|por lo menos|como (?:mínimo|máximo)|más de|menos de|a lo sumo|entre|tra"
    r"|au (?:moins|plus|minimum|maximum)|plus de|moins de|pelo menos|no (?:mínimo|máximo)|mais de"
    r"|almeno|al massimo|più di|meno di|minstens|hoogstens|meer dan|minder dan"
    r"|не (?:менее|более|меньше|больше)|больше|меньше|минимум|максимум|между)"
    r"|至少|最多|大于|小于|超过|不低于|不超过|高于|低于|介于|<=?|>=?|≤|≥)\s*(?:an?\s"
    r"|the\s)?[\s\"'(]*\Z"
)


BOUND_AFTER = re.compile(
    r"[\"')\]]*\s?(?:\+|以上|以下|或(?:更|以)"
    r"|(?:oder (?:mehr|weniger|höher|niedriger)|o (?:más|menos)"
    r"|ou (?:plus|moins|mais|menos)|o (?:più|meno)|of (?:meer|minder))\b"
    r"|(?:or|and)\s(?:more|less|higher|lower|above|below|up|over|under|greater"
    r"|fewer|beyond)"
    r"|and a (?:half|quarter)|plus\b|at (?:least|most|minimum|the least)"
    r"|(?:as )?(?:a )?(?:minimum|maximum)\b"
    r"|½|\d/\d\b|point (?:five|\d))"
)


JOINED = re.compile(
    r"[\s\"')\],]*(?P<by>(?:\b(?:or|and|to|through|till|until|maybe|perhaps|possibly|even"
    r"|sometimes|if not"
    r"|potentially|probably|respectively|oder|und|bis|ou|et|o|y|e|of|en|tot|或|和|至)\b|[-/~,;|&]|\s"
    r"|\()*)"
    r"(?:\s?(?:an?|the|option|code|number)\s)*[\s\"'(\[]*"
)


RANGE_BY = re.compile(r"-|~|\b(?:to|through|till|until|bis|tot)\b|至")


EXPLAINED = re.compile(
    r"\b(?:because|since|as|due|given|for|which|where|while|whereas|although|though|but|with|so"
    r"|if|when"
    r"|considering|reflecting|meaning|indicating|even though|on|weil|da|porque|car|perché)\b|:|\("
    r"|\s-\s|;"
)


HEDGED = re.compile(
    r"\b(?:or|maybe|perhaps|possibly|could be|might be|may be|if not|even|alternatively|sometimes"
    r"|closer to"
    r"|also|potentially|either)\s(?:(?:an?|the|option|even|as|it|be|low|high)\s)*[\s\"'(]*\Z"
)


COUNTED = re.compile(
    r"\s(?:\w+\s)?(?:reasons?|examples?|arguments?|options?|answers?|factors?|ways|things|people"
    r"|times|years"
    r"|perspectives|considerations|sides|choices|categories|items|countries|percent|respondents"
    r"|questions)\b"
)


SENTENCE_END = re.compile(r"[.!?。！？](?=[\s\"')\]]|\Z)|\n")  # noqa: RUF001


CORRECTING = re.compile(  # "I would choose 1. Actually, 2."
    r"\b(?:actually|correction|wait|rather|scratch that|on second thoughts?|i mean|i meant"
    r"|or better"
    r"|make (?:that|it)|sorry|no(?=,))\b(?P<gap>[^.!?\n\d]{0,80})"
)


NUMBERED_LINE = re.compile(r"(?:\A|(?<=\n))[^\w\n]{0,8}(?P<code>[0-9]{1,18})\s?[.:)]\s?\S")


LEADING = re.compile(
    r"\W{0,8}(?P<code>[+-]?[0-9]{1,18})(?:\s?[.:;,)]\s|\s-\s|\s(?=because|since|as\b"
    r"|\())(?P<rest>.*)"
)


# An option that begins a text and is given reasons for.
REASONED = re.compile(
    r"[\"')\]]*(?:[,;:-]?\s(?:because|since|given that|as (?:i|it|we)\b)"
    r"|[.!]\s(?:i (?:do not|don't|think|believe|feel)|this is because|it is|it's)\b)"
    r"(?![^?]*\b(?:but|however|although|though|actually|depends|question)\b)"
)


I_LABEL = re.compile(r"\A\W*(?:i|we)\s(?:(?:would|do|personally|mostly)\s)?\Z")


# Words that take back what was said before them, as what comes then is said instead.
CORRECTED = re.compile(
    r"\b(?:(?:wait|sorry|no),? )?(?:correction\b|correcting\b|i (?:actually |really )?meant\b"
    r"|i mean\b|revised(?: (?:answer|choice|rating|score|response))?(?= ?:)|scratch that\b"
    r"|on second thoughts?\b|oops\b|korrektur\b|corrección\b|correzione\b|correção\b"
    r"|ich meinte\b|quise decir\b|je voulais dire\b)|更正|修正"
)


FINAL = re.compile(r"\b(?:my |the )?final (?:answer|choice|rating|score|response)\b")


OTHERS_SAY = re.compile(
    r"\b(?:(?:some|many|most|other|few|certain)(?: (?:people|respondents|persons|adults))?"
    r"|others|critics|supporters|he|she|they|my \w+)(?: \w+)? (?:would|might|may|could|will|says?"
    r"|chooses?|prefers?|thinks?|answers?|sees?|believes?|picks?)\b"
)


DEGREES = word_set(
    "not somewhat strongly rather very slightly fairly quite moderately mostly completely totally"
    " partly neither tend never absolutely extremely hardly barely mildly generally fully"
)


AS_IF = re.compile(
    r"\bif i were (?:an? |the |my |your |his |her |them|some(?:one|body)|in |living|older|younger"
    r"|religious|conservative|liberal)"
)


def clause_start(folded: str, position: int) -> int:
    """Return where the clause around a position begins."""
    start = max(0, position - REACH // 2)
    for end in _CLAUSE_START.finditer(folded, start, position):
        start = end.end()
    return start


LIST_GAP = re.compile(r"[\s,;/|.\"')(-]*(?:\b(?:and|or)\b)?[\s(\"']*")


def begins_line(folded: str, position: int) -> bool:
    """Return whether nothing but punctuation stands before a position in its line."""
    start = folded.rfind("\n", max(0, position - 40), position) + 1
    if start == 0 and position > 40:
        return False
    return not any(map(str.isalnum, folded[start:position]))


def leaves_sentence(gap: str) -> bool:
    """Return whether more than blanks and punctuation stand behind the end of a sentence."""
    end = SENTENCE_END.search(gap)
    return end is not None and any(map(str.isalnum, gap[end.end() :] + gap[: end.start()]))


def is_denied(folded: str, position: int, floor: int = 0) -> bool:
    """Return whether the words directly before a position deny what follows."""
    return DENIED.search(folded, max(floor, position - GAP), position) is not None


def is_asked(folded: str, position: int) -> bool:
    """Return whether the sentence around a position is a question."""
    end = SENTENCE_END.search(folded, position, position + REACH)
    return end is not None and end.group() in "?？"  # noqa: RUF001
