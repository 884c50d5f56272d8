"""The language of the tiny demo: plain health questions, what good answers say, and chatter.

Each aspect of a condition has four telling points, worth 4, 3, 2 and 1 of 10. An answer is as
good as the points it makes; a rubric is as good as the points it names.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TellingPoint:
    """What a gold rubric asks for, and the sentence of an answer that satisfies it."""

    criterion: str
    sentence: str


@dataclass(frozen=True)
class Aspect:
    """One kind of question about a condition, with its telling points by falling weight."""

    name: str
    questions: tuple[str, ...]
    points: tuple[TellingPoint, TellingPoint, TellingPoint, TellingPoint]


WEIGHTS = (4, 3, 2, 1)

CONDITIONS = (
    "migraine",
    "asthma",
    "eczema",
    "insomnia",
    "anaemia",
    "acid reflux",
    "hay fever",
    "back pain",
    "high blood pressure",
    "type 2 diabetes",
    "a sprained ankle",
    "food poisoning",
)

ASKERS = (
    "",
    "My mother is seventy.",
    "I am new to this.",
    "My doctor is away.",
    "We live far from a clinic.",
    "I would like to be prepared.",
    "A friend asked me this.",
)

ASPECTS = (
    Aspect(
        "home care",
        ("What can I do at home tonight for {}?", "How do I care for {} at home?"),
        (
            TellingPoint("Suggests rest in a quiet room", "Rest in a quiet room for an hour."),
            TellingPoint("Recommends sipping water", "Keep sipping water through the evening."),
            TellingPoint("Advises a cool compress", "A cool compress often brings relief."),
            TellingPoint("Says to track symptoms", "Track the symptoms hour by hour."),
        ),
    ),
    Aspect(
        "warning signs",
        ("Which signs of {} should worry me?", "When does {} become an emergency?"),
        (
            TellingPoint("Names sudden chest pressure", "Sudden chest pressure is never normal."),
            TellingPoint("Lists fainting or confusion", "Fainting or confusion is urgent."),
            TellingPoint("Says to call an ambulance", "Call an ambulance without waiting."),
            TellingPoint("Mentions a stiff neck", "A stiff neck also needs attention."),
        ),
    ),
    Aspect(
        "medicines",
        ("Which medicines are used for {}?", "What should I know before taking pills for {}?"),
        (
            TellingPoint("Explains the daily dose limit", "Never pass the daily dose limit."),
            TellingPoint("Warns about side effects", "Common side effects are listed inside."),
            TellingPoint("Involves the pharmacist", "It is wise to involve the pharmacist."),
            TellingPoint("Mentions known allergies", "Tell them about your known allergies."),
        ),
    ),
    Aspect(
        "prevention",
        ("How can I keep {} from coming back?", "What helps to prevent {}?"),
        (
            TellingPoint("Recommends regular exercise", "Regular exercise protects you most."),
            TellingPoint("Suggests a trigger diary", "A trigger diary shows what sets it off."),
            TellingPoint("Advises to stop smoking", "Stop smoking, with help if needed."),
            TellingPoint("Encourages steady sleep", "Steady sleep makes relapse less likely."),
        ),
    ),
    Aspect(
        "tests",
        ("How do doctors find out if it is {}?", "Which tests are done for {}?"),
        (
            TellingPoint(
                "Describes drawing a sample", "Drawing a sample from your arm comes first."
            ),
            TellingPoint("Explains imaging scans", "Imaging scans follow in unclear cases."),
            TellingPoint("Asks for family history", "Your family history matters here."),
            TellingPoint("Mentions slow results", "Expect slow results: some days at least."),
        ),
    ),
    Aspect(
        "food",
        ("What should I eat and drink with {}?", "Is there a good diet for {}?"),
        (
            TellingPoint("Recommends whole grains", "Choose whole grains and vegetables."),
            TellingPoint("Limits salt and sugar", "Cut down on salt and sugar."),
            TellingPoint("Warns about alcohol", "Alcohol often makes it worse."),
            TellingPoint("Suggests smaller meals", "Several smaller meals sit better."),
        ),
    ),
    Aspect(
        "working life",
        ("Can I keep working with {}?", "How do I manage my job with {}?"),
        (
            TellingPoint("Advises lighter duties", "Ask for lighter duties this month."),
            TellingPoint("Suggests hourly breaks", "Take short hourly breaks."),
            TellingPoint("Recommends a gradual return", "A gradual return works best."),
            TellingPoint("Mentions a sick note", "A sick note covers the first days."),
        ),
    ),
    Aspect(
        "pregnancy",
        ("Is {} different during pregnancy?", "I am pregnant. What changes with {}?"),
        (
            TellingPoint("Advises asking the midwife", "Ask the midwife at the next visit."),
            TellingPoint("Names drugs unsafe for babies", "Some drugs are unsafe for babies."),
            TellingPoint("Mentions extra monitoring", "Extra monitoring is usually offered."),
            TellingPoint("Says to keep folic acid", "Keep taking folic acid every morning."),
        ),
    ),
)

# Said in answers of any quality: they earn nothing and hide nothing.
CHATTER = (
    "Thank you for asking about {}.",
    "Many people live well with {}.",
    "It is understandable that you want to know more.",
    "Every case of {} is a little different.",
    "Try not to worry too much.",
    "There is a lot of advice about {} on the internet.",
    "You are certainly not alone with this.",
    "I hope this was useful to you.",
)

# What a careless rubric asks for: true of no answer in particular.
GENERIC_CRITERIA = (
    "Is clear and friendly",
    "Uses correct grammar",
)
